# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check C(kernel_log): read the kernel's log, judge it, remember where to go on. Private to kentino.gpu."""

from __future__ import annotations

import dataclasses
import datetime
import time
import typing as t

from .._judge import kernel_log as judge
from .._parse import kernel_log as parser
from .._parse.kernel_log_records import KernelLog
from .._probe import journal, log_file, state
from .._probe.log_reading import LogReading
from .._report.model import NODE, Check, Finding, Subject, finding_from

NAME = "kernel_log"
SOURCES = ("auto", "journal", "kmsg", "file")


@dataclasses.dataclass(frozen=True)
class Options:
    source: str = "auto"  # auto: the journal, or /dev/kmsg where there is none
    paths: t.Sequence[str] = ()  # for source file; patterns allowed
    rotated: bool = False  # also older generations of the paths
    boot: str = "current"  # current or all
    since: t.Optional[str] = None  # as journalctl takes it
    cursor: t.Optional[str] = None
    state_path: t.Optional[str] = None
    save_state: bool = True
    deadline_seconds: float = 20
    policy: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)  # xid_policy, power_domains, warning_hours


def run(options: Options) -> t.Tuple[Check, t.Dict[str, t.Any]]:
    """The check, and the facts it rests on: events, incidents, cursor and where the lines came from."""
    remembered, complaint = state.load(options.state_path) if options.state_path else ({}, None)
    boot_id = journal.boot_id()
    stored = remembered.get(NAME)
    # A cursor of another boot still names the right place, but faults open then were ended, or not, by the reboot.
    stored = stored if isinstance(stored, dict) and stored.get("boot_id") == boot_id else {}
    cursor = options.cursor or stored.get("cursor")
    readings = _read(dataclasses.replace(options, cursor=cursor))
    policy = judge.KernelPolicy.from_mapping({**options.policy, "now_usec": int(time.time() * 1e6), "boot": options.boot})
    log = _parse(readings, journal.boot_id() if options.boot == "all" else None)
    found = judge.judge(log, policy)
    findings = [*_reading_findings(readings), *found]
    findings += _still_open(stored.get("open", ()), found, log)
    if complaint:
        findings.append(Finding("kernel_log.state", "info", NODE, complaint))
    last = readings[-1]
    if options.state_path and options.save_state and last.cursor:
        remembered[NAME] = {
            "cursor": last.cursor,
            "boot_id": boot_id,
            "open": [finding.as_dict() for finding in findings if finding.verdict == "fail"],
        }
        complaint = state.save(options.state_path, remembered)
        if complaint:
            findings.append(Finding("kernel_log.state", "info", NODE, complaint))
    check = Check(NAME, _evidence(readings, log, bool(cursor)), tuple(findings), metrics=_metrics(log))
    incidents = judge.incidents(log, policy)
    facts = {
        "source": [reading.source for reading in readings],
        "cursor": last.cursor,
        "boot_id": last.boot_id or boot_id,
        "gpu_uuids": dict(log.gpu_uuids),
        "gpu_serials": dict(log.gpu_serials),
        "records": sum(reading.records for reading in readings),
        "simulated": b"simulated-node" in last.last_line,
        "lower_bounds": bool(log.suppressed or log.rate_limited or log.unreadable_records or any(r.gap for r in readings)),
        "events": [_plain(event) for event in log.events],
        "sxids": [_plain(event) for event in log.sxids],
        "incidents": [_plain(incident) for incident in incidents],
    }
    return check, facts


def _read(options: Options) -> t.List[LogReading]:
    if options.source == "file":
        names = [name for path in options.paths for name in log_file.expand(path, options.rotated)]
        if not names:
            missing = ", ".join(options.paths) or "no path was given"
            return [LogReading("file", error_kind="failed", error="no log file found: %s" % missing)]
        until = time.monotonic() + options.deadline_seconds
        return [log_file.scan(name, max(0.1, until - time.monotonic())) for name in names]
    if options.source == "kmsg":
        return [journal.read_kmsg(deadline_seconds=options.deadline_seconds)]
    reading = journal.read(options.boot, options.cursor, options.since, options.deadline_seconds)
    if options.source == "auto" and reading.error_kind in ("missing_tool", "empty", "denied", "failed"):
        ring = journal.read_kmsg(deadline_seconds=options.deadline_seconds)
        if not ring.error_kind:
            # The ring holds this boot's lines itself; what the journal lacked is told, and is no gap in the evidence.
            return [dataclasses.replace(ring, source="kmsg (%s)" % reading.error)]
    return [reading]


def _parse(readings: t.Sequence[LogReading], current_boot: t.Optional[str]) -> KernelLog:
    reference = next((reading.reference for reading in reversed(readings) if reading.reference), None)
    moment = datetime.datetime.fromtimestamp(reference or time.time(), datetime.timezone.utc)
    lines = [line for reading in readings for line in reading.lines]
    log = parser.parse_lines(lines, reference=moment, current_boot=current_boot)
    # The lines kept are those of interest; that this is a kernel log at all is shown by the sample of all lines.
    proof = log.kernel_lines or sum(parser.parse_lines(reading.sample).kernel_lines for reading in readings)
    return dataclasses.replace(log, lines=sum(reading.records for reading in readings), kernel_lines=proof)


def _reading_findings(readings: t.Sequence[LogReading]) -> t.Iterator[Finding]:
    for reading in readings:
        if reading.error:
            code = {"missing_tool": "tool.missing", "timeout": "tool.timeout"}.get(reading.error_kind or "", "kernel_log.unread")
            subject = Subject("tool", name=reading.source)
            yield Finding(code, "warning", subject, "the kernel log was not read: " + reading.error, undetermined=True)
        if reading.gap:
            message = "older kernel lines are gone from the %s: counts are lower bounds" % reading.source
            yield Finding("kernel_log.gap", "info", NODE, message)


def _still_open(stored: t.Iterable[t.Any], found: t.Sequence[Finding], log: KernelLog) -> t.Iterator[Finding]:
    """Faults of this boot that an earlier run saw: reading only what is new must not make them forgotten."""
    again = {(finding.code, finding.subject.pci) for finding in found}
    cleared = {event.pci for event in log.events if event.xid == 154 and event.detail.get("to_code") == 0}
    for item in stored:
        try:
            finding = finding_from(item)
        except (KeyError, TypeError, AttributeError):
            continue
        if (finding.code, finding.subject.pci) in again or (finding.subject.pci in cleared and finding.action == "reset_gpu"):
            continue
        suffix = " (seen in an earlier run, no reboot or recovery since)"
        message = finding.message if finding.message.endswith(suffix) else finding.message + suffix
        yield dataclasses.replace(finding, message=message)


def _evidence(readings: t.Sequence[LogReading], log: KernelLog, from_cursor: bool) -> str:
    """In words what was read; empty where a reading failed or no line of it was a kernel's."""
    if any(reading.error for reading in readings) or not log.kernel_lines:
        return ""
    where = ", ".join(reading.source for reading in readings)
    return "%d %skernel log lines read from %s" % (log.lines, "new " if from_cursor else "", where)


def _metrics(log: KernelLog) -> t.Dict[str, t.Any]:
    xids: t.Dict[str, int] = {}
    for event in log.events:
        xids[str(event.xid)] = xids.get(str(event.xid), 0) + event.count
    return {"lines": log.lines, "xids": xids, "sxids": len(log.sxids), "suppressed": log.suppressed}


def _plain(record: t.Any) -> t.Dict[str, t.Any]:
    values = {key: value for key, value in vars(record).items() if value not in (None, "")}
    origin = values.pop("origin", None)
    if origin is not None:
        values.update({key: value for key, value in vars(origin).items() if value not in (None, "")})
    finding = values.pop("finding", None)
    if finding is not None:
        values["finding"] = finding.as_dict()
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
