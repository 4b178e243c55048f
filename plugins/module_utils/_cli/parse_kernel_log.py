# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""C(parse --kind kernel_log): what a kernel log says, as one JSON object. Private to kentino.gpu."""

from __future__ import annotations

import datetime
import typing as t

from .._judge import incident_weight
from .._judge.incidents import Incident
from .._judge.kernel_log import KernelPolicy, incidents, judge
from .._parse import kernel_log
from .._parse.kernel_log_records import KernelLog, Origin, XidEvent
from .._report.model import NODE, Finding, urgent, worst


def answer(text: t.Union[str, bytes], rc: t.Optional[int] = None) -> t.Dict[str, t.Any]:
    """The events, the incidents they fold into, the verdict and what to do first.

    A snippet is judged as of its own time: nothing in it is too old. C(rc), the exit status of the tool that printed the text,
    is evidence against it only.
    """
    log = kernel_log.parse(text, reference=datetime.datetime.now(datetime.timezone.utc))
    policy = KernelPolicy(driver_version=getattr(log, "driver_version", None))
    findings = judge(log, policy)
    if rc:
        message = "the tool that printed this ended with status %d: lines may be missing" % rc
        findings += (Finding("kernel_log.reader_failed", "warning", NODE, message, undetermined=True),)
    return {
        "verdict": worst(("pass", *(finding.verdict for finding in findings))),
        "action": urgent(findings),
        "events": [_event(event, policy) for event in log.events],
        "sxids": [dict(_fields(one), message=one.text, **_seen(one.origin)) for one in log.sxids],
        "non_xid": [dict(_fields(one), message=one.text, **_seen(one.origin)) for one in log.driver_faults],
        "aer": [dict(_fields(one), type=one.error_type, **_seen(one.origin)) for one in log.aer],
        "oom": [dict(_fields(one), message=one.text, **_seen(one.origin)) for one in log.oom],
        "storage": [dict(_fields(one), message=one.text, **_seen(one.origin)) for one in log.storage],
        "other": [dict(_fields(one), message=one.text, **_seen(one.origin)) for one in log.other],
        "incidents": [_incident(one) for one in incidents(log, policy)],
        "findings": [finding.as_dict() for finding in findings],
        "rate_limited": log.rate_limited,
        "suppressed": log.suppressed,
        "unreadable_records": log.unreadable_records,
        "unrecognised": list(log.unrecognised),
        "boots": log.boots,
        "recovered": log.recovered,
        "affected": list(log.affected),
        "time": _time(log),
    }


def _event(event: XidEvent, policy: KernelPolicy) -> t.Dict[str, t.Any]:
    detail = dict(event.detail)
    found = incident_weight.decoded(event, policy.driver_version) if 144 <= event.xid <= 150 else None
    if found is not None:
        detail.update(
            severity_word=detail.get("severity"),
            conflict=found.conflict,
            ambiguous=found.ambiguous,
            sheet_severity=found.severity if found.known else None,
            sheet_action=found.action if found.known else None,
            link_down_reason=found.link_down_reason,
            note=found.note,
        )
    return dict(_fields(event), detail=detail, message=event.text, **_seen(event.origin))


def _fields(record: t.Any) -> t.Dict[str, t.Any]:
    """The record without its text and origin, which have names of their own in the answer."""
    fields = {key: value for key, value in vars(record).items() if key not in ("origin", "text", "detail")}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in fields.items()}


def _seen(origin: Origin) -> t.Dict[str, t.Any]:
    return {key: getattr(origin, key) for key in ("time", "usec", "seq", "level", "boot", "raw")}


def _incident(one: Incident) -> t.Dict[str, t.Any]:
    fields = {key: getattr(one, key) for key in ("pci", "root_xid", "verdict", "action", "first", "last")}
    return dict(fields, xids=list(one.xids), message=one.finding.message)


def _time(log: KernelLog) -> t.Optional[str]:
    """Of the first event; of the first line where there is none."""
    families = (log.events, log.sxids, log.driver_faults, log.aer, log.oom, log.storage, log.other)
    times = (record.origin.time for family in families for record in family)
    return next((time for time in times if time), log.first_time)
