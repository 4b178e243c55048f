# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Findings from a kernel log beside Xids: NVSwitch, driver, PCIe. Private to kentino.gpu."""

from __future__ import annotations

import dataclasses
import typing as t

from .._knowledge import sxid_catalogue
from .._knowledge.kernel_events import EVENTS, UNKNOWN, KernelEvent
from .._parse.kernel_log_records import AerError, DriverFault, KernelLog, Origin, SxidEvent
from .._report.model import NODE, Finding, Subject
from . import kernel_clock
from .incidents import Judged, gpu_subject
from .kernel_clock import Moment
from .kernel_policy import MAX_EVIDENCE, KernelPolicy

# Losses that take the links of a switch down with them.
_LOSSES = frozenset({74, 79})

# Failures to start a GPU.
_STARTS = frozenset({"rm_init_failed", "probe_failed"})


class Seen(t.Protocol):
    """What all records of events have in common; most also have a count and a text."""

    @property
    def origin(self) -> Origin: ...


def finding(
    code: str, event: KernelEvent, subject: Subject, records: t.Sequence[Seen], policy: KernelPolicy, notes: t.Iterable[str] = ()
) -> Finding:
    """One finding for all records of one thing, as it stands from now."""
    moments = [kernel_clock.moment(record.origin, order) for order, record in enumerate(records)]
    ordered = kernel_clock.in_order(moments)
    ends = [kernel_clock.end(record, order) for order, record in enumerate(records)]
    known = [end for end in ends if end is not None]
    last = known[kernel_clock.in_order(known)[-1]] if len(known) == len(ends) else None
    severity, action, note = kernel_clock.history(event.severity, event.action, moments[0].previous, last, policy)
    lines = dict.fromkeys(record.origin.raw or getattr(record, "text", "") for record in records)
    times = [time for time in (records[index].origin.time for index in ordered) if time]
    return Finding(
        code,
        severity,
        subject,
        "; ".join(part for part in (event.meaning, *notes, note) if part),
        action,
        evidence=tuple(line for line in lines if line)[:MAX_EVIDENCE],
        advice=event.advice if action != "none" or event.action == "none" else "",
        count=sum(getattr(record, "count", 1) for record in records),
        first=times[0] if times else None,
        last=times[-1] if times else None,
    )


def judge_sxids(log: KernelLog, policy: KernelPolicy, judged: t.Sequence[Judged]) -> t.Iterator[Finding]:
    """One finding for each switch, number and severity: a dying GPU takes a dozen links of several switches with it."""
    groups: t.Dict[t.Tuple[t.Any, ...], t.List[SxidEvent]] = {}
    headed = {(event.pci, event.sxid) for event in log.sxids if not event.orphan}
    for event in log.sxids:
        if event.orphan and event.severity is None and (event.pci, event.sxid) in headed:
            # The rest of a headline that is there, or of one like it: no second event.
            continue
        groups.setdefault((event.pci, event.switch, event.sxid, event.severity, event.origin.boot == "previous"), []).append(event)
    for events in groups.values():
        yield _sxid(events, policy, judged)


def _sxid(events: t.Sequence[SxidEvent], policy: KernelPolicy, judged: t.Sequence[Judged]) -> Finding:
    first = events[0]
    entry = sxid_catalogue.lookup(first.sxid)
    severity, action = _sxid_weight(first.severity, entry)
    notes = ["the line says %s" % first.severity if first.severity else "its first line was lost, so how bad it is is not known"]
    links = sorted({event.link for event in events if event.link is not None})
    if links:
        notes.append("link%s %s" % ("s" if len(links) > 1 else "", ", ".join(str(link) for link in links)))
    if entry.note:
        notes.append(entry.note)
    lost = _lost_nearby(events, judged, policy)
    if lost:
        notes.append("GPU %s failed at the same time: this follows from it, recover the GPU first" % ", ".join(lost))
    text = "SXid %d: %s" % (first.sxid, entry.meaning)
    advice = (
        "Stop the jobs on this fabric; after a fatal one reset all its GPUs together, or reboot the node." if severity != "info" else ""
    )
    label = "NVSwitch%s" % (" %d" % first.switch if first.switch is not None else "")
    return finding(
        "sxid.%d" % first.sxid,
        KernelEvent(severity, action, text, advice),
        Subject("nvswitch", name=label, index=first.switch, pci=first.pci),
        events,
        policy,
        notes,
    )


def _sxid_weight(word: t.Optional[str], entry: sxid_catalogue.SxidEntry) -> t.Tuple[str, str]:
    if word == "fatal":
        return "critical", entry.action
    if entry.harmless or word == "correctable":
        return "info", "none"
    return "warning", entry.later_action


def _lost_nearby(events: t.Sequence[SxidEvent], judged: t.Sequence[Judged], policy: KernelPolicy) -> t.List[str]:
    seconds = policy.limit["incident_window_seconds"]
    moments = [kernel_clock.moment(event.origin, order) for order, event in enumerate(events)]
    lost = []
    for one in judged:
        losses = [member.moment for member in one.case.members if member.event.xid in _LOSSES]
        if one.case.pci and any(kernel_clock.together(loss, moment, seconds) for loss in losses for moment in moments):
            lost.append(one.case.pci)
    return list(dict.fromkeys(lost))


def judge_driver(log: KernelLog, policy: KernelPolicy, judged: t.Sequence[Judged]) -> t.Iterator[Finding]:
    """Failures without an Xid. Losses are incidents already, and traces of the driver tell of no failure."""
    groups: t.Dict[t.Tuple[t.Any, ...], t.List[DriverFault]] = {}
    for fault in log.driver_faults:
        if fault.informational or fault.equivalent_xid is not None:
            continue
        groups.setdefault((fault.kind, fault.pci, fault.gpu_index, fault.origin.boot == "previous"), []).append(fault)
    for faults in groups.values():
        yield _driver_fault(faults, log, policy, judged)


def _driver_fault(faults: t.Sequence[DriverFault], log: KernelLog, policy: KernelPolicy, judged: t.Sequence[Judged]) -> Finding:
    first = faults[0]
    code = "driver." + first.kind
    event = EVENTS.get(code, UNKNOWN)
    notes = []
    if event is UNKNOWN:
        notes.append(first.text)
    if first.code:
        notes.append("code " + ", ".join(dict.fromkeys(fault.code for fault in faults if fault.code)))
    if first.minor is not None:
        notes.append("device minor number %d" % first.minor)
    if first.gpu_index is not None and first.pci is None:
        notes.append("the driver's GPU %d, which is neither CUDA's number nor nvidia-smi's" % first.gpu_index)
    subject = gpu_subject(first.pci, log) if first.pci else NODE
    last = kernel_clock.moment(faults[-1].origin, len(log.events))
    if _follows_from_a_loss(first, log, judged):
        event = dataclasses.replace(event, severity="info", action="none", advice="")
        notes.append("follows from the loss of the GPU")
    elif event.action == "reset_gpu" and first.pci and _recovered_since(first.pci, last, judged):
        event = dataclasses.replace(event, severity="info", action="none", advice="")
        notes.append("cleared by Xid 154 to None")
    return finding(code, event, subject, faults, policy, notes)


def _follows_from_a_loss(fault: DriverFault, log: KernelLog, judged: t.Sequence[Judged]) -> bool:
    """A lost GPU cannot be started either; the kernel then counts it once more among the failed devices, without an address."""
    if fault.kind not in _STARTS:
        return False
    previous = fault.origin.boot == "previous"
    lost = {one.case.pci for one in judged if one.root == 79 and one.case.first.previous == previous}
    if fault.pci is not None:
        return fault.pci in lost
    named = any(other.pci for other in log.driver_faults if other.kind in _STARTS and (other.origin.boot == "previous") == previous)
    return fault.kind == "probe_failed" and (bool(lost) or named)


def _recovered_since(pci: str, last: Moment, judged: t.Sequence[Judged]) -> bool:
    ends = [one.case.last for one in judged if one.case.pci == pci and one.case.recovered]
    return any(end.previous == last.previous and (kernel_clock.seconds_between(last, end) or -1.0) >= 0 for end in ends)


def judge_aer(log: KernelLog, policy: KernelPolicy) -> t.Iterator[Finding]:
    groups: t.Dict[t.Tuple[t.Any, ...], t.List[AerError]] = {}
    for error in log.aer:
        groups.setdefault((error.port, error.severity, error.origin.boot == "previous"), []).append(error)
    for errors in groups.values():
        yield _aer(errors, log, policy)
    if log.recovered is False and not any(error.severity == "uncorrectable_fatal" for error in log.aer):
        subject = Subject("pcie_port", pci=log.affected[0]) if log.affected else NODE
        event = EVENTS["pcie.not_recovered"]
        notes = [event.meaning] + (["devices " + ", ".join(log.affected)] if log.affected else [])
        yield Finding("pcie.not_recovered", event.severity, subject, "; ".join(notes), event.action, advice=event.advice)


def _aer(errors: t.Sequence[AerError], log: KernelLog, policy: KernelPolicy) -> Finding:
    first = errors[0]
    kinds = {"uncorrectable_fatal": "pcie.aer_fatal", "correctable": "pcie.aer_correctable"}
    code = kinds.get(first.severity, "pcie.aer_nonfatal")
    event, notes = EVENTS[code], []
    types = dict.fromkeys(error.error_type for error in errors if error.error_type)
    bits = dict.fromkeys(bit for error in errors for bit in error.bits)
    if types or bits:
        notes.append(", ".join(types) + (" (%s)" % ", ".join(bits) if bits else ""))
    sources = dict.fromkeys(error.source for error in errors if error.source)
    if sources:
        notes.append("from " + ", ".join(sources))
    if code == "pcie.aer_correctable":
        many, told = _too_many(errors, log, policy)
        notes.append(told)
        if not many:
            event = KernelEvent("info", "none", event.meaning, event.advice)
    elif code == "pcie.aer_fatal":
        if log.affected:
            notes.append("devices behind it: " + ", ".join(log.affected))
        if log.recovered is False:
            notes.append("the kernel could not recover them")
    return finding(code, event, Subject("pcie_port", pci=first.port), errors, policy, notes)


def _too_many(errors: t.Sequence[AerError], log: KernelLog, policy: KernelPolicy) -> t.Tuple[bool, str]:
    """Whether there are more corrected errors than a sound link shows, and the measured against the allowed figure."""
    moments = [kernel_clock.moment(error.origin, order) for order, error in enumerate(errors)]
    ordered = kernel_clock.in_order(moments)
    first, last = moments[ordered[0]], moments[ordered[-1]]
    total = sum(error.count for error in errors)
    if total > len(errors):
        # Equal errors are one record with the time of the first: all that is known of the last is that the log ends behind it.
        last = kernel_clock.moment(Origin(time=log.last_time), len(errors))
    span = kernel_clock.seconds_between(first, last)
    if span is None:
        limit = policy.limit["aer_correctable_untimed"]
        return total > limit, "%d in a log without times, %g are allowed" % (total, limit)
    limit = policy.limit["aer_correctable_per_minute"]
    if total > len(errors):
        rate = total / max(span / 60, 1.0)
        return rate > limit, "%d, at least %.3g a minute, %g are allowed" % (total, rate, limit)
    most = _most_in_a_minute([moments[index] for index in ordered])
    return most > limit, "%d within a minute, %g are allowed" % (most, limit)


def _most_in_a_minute(moments: t.Sequence[Moment]) -> int:
    most, begin = 0, 0
    for end, moment in enumerate(moments):
        while (kernel_clock.seconds_between(moments[begin], moment) or 0.0) > 60:
            begin += 1
        most = max(most, end - begin + 1)
    return most
