# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One cause from many Xid lines: root, severity and action of each incident. Private to kentino.gpu."""

from __future__ import annotations

import dataclasses
import typing as t
from dataclasses import dataclass, field

from .._parse.kernel_log_records import KernelLog, XidEvent
from .._report.model import ACTIONS, SEVERITIES, Finding, Subject
from . import incident_weight, kernel_clock, repeats
from .incident_folding import DETAIL_OF_48, WAKE, Case, fold
from .incident_weight import Weight
from .kernel_policy import MAX_EVIDENCE, KernelPolicy

# Of numbers that are equally bad the one that explains the others: a lost GPU answers nothing any more, a failed repair
# decides over the error that asked for it, and a memory error is behind what the GPU's firmware then complains of.
_EXPLAINS = {79: 0, 64: 1, 48: 2}

# Faults of a link, which a GPU also reports when it is its peer that died.
LINK_FAULTS = frozenset({74, 136, 144, 145, 146, 147, 148, 149, 150})

_MENDED_BY_RESET = ("look_at_code", "restart_job", "reset_gpu", "reboot_node")


@dataclass(frozen=True)
class Incident:
    """One cause on one GPU, folded from all its lines."""

    pci: t.Optional[str]
    root_xid: int
    xids: t.Tuple[int, ...]  # in the order in which they first came
    verdict: str
    action: str
    first: t.Optional[str]
    last: t.Optional[str]
    finding: Finding


@dataclass
class Judged:
    """An incident on its way through the rules."""

    case: Case
    root: int
    severity: str
    action: str
    advice: str
    later_action: str
    notes: t.List[str] = field(default_factory=list)

    def settle(self, severity: str, action: str, note: str) -> None:
        if action == "none" and self.action != "none":
            self.advice = ""
        self.severity, self.action = severity, action
        if note and note not in self.notes:
            self.notes.append(note)


def judge_cases(log: KernelLog, policy: KernelPolicy) -> t.List[Judged]:
    """Every incident of every GPU, before what they have in common is looked at and before history is told from now."""
    judged = []
    for group in fold(log, policy):
        last_154 = max((index for index, case in enumerate(group) if 154 in case.numbers), default=-1)
        last_recovery = max((index for index, case in enumerate(group) if case.recovered), default=-1)
        ours = [_judge(case, policy, superseded=index < last_154) for index, case in enumerate(group)]
        for one in ours[: last_recovery + 1]:
            _recover(one, group[last_recovery])
        judged += ours
    repeats.judge_repeats(judged, policy)
    _mention_peers(judged, policy)
    return judged


def to_incident(one: Judged, log: KernelLog, policy: KernelPolicy) -> Incident:
    one.settle(*kernel_clock.history(one.severity, one.action, one.case.first.previous, one.case.end, policy))
    found = _finding(one, log, policy)
    members = one.case.members
    seen = dict.fromkeys(member.event.xid for member in members)
    return Incident(
        one.case.pci, one.root, tuple(seen), found.verdict, found.action, members[0].event.origin.time, members[-1].event.origin.time, found
    )


def merged(found: t.Iterable[Finding]) -> t.List[Finding]:
    """The same incident coming back is one finding, in the words of the latest, that says how often."""
    groups: t.Dict[t.Tuple[t.Any, ...], t.List[Finding]] = {}
    for one in found:
        groups.setdefault((one.code, one.subject, one.severity, one.action), []).append(one)
    return [_merged(group) if len(group) > 1 else group[0] for group in groups.values()]


def gpu_subject(pci: t.Optional[str], log: KernelLog, event: t.Optional[XidEvent] = None) -> Subject:
    """The GPU by everything that the log tells of it."""
    key = pci or ""
    uuid, serial = (event.uuid, event.serial) if event else (None, None)
    return Subject("gpu", pci=pci, uuid=uuid or log.gpu_uuids.get(key), serial=serial or log.gpu_serials.get(key))


def _judge(case: Case, policy: KernelPolicy, superseded: bool) -> Judged:
    last_154 = next((member for member in reversed(case.members) if member.event.xid == 154), None)
    weights: t.List[t.Tuple[int, Weight]] = []
    for member in case.members:
        weights.append((member.event.xid, incident_weight.of_line(member.event, policy, superseded or member is not last_154)))
    present = {member.event.xid for member in case.members}
    weights += [(xid, incident_weight.of_number(policy.lookup(xid))) for xid in sorted(case.named - present)]
    worst = max((weight.severity for dummy, weight in weights), key=SEVERITIES.index)
    decisive = [(xid, weight) for xid, weight in weights if weight.severity == worst]
    root = _root(decisive, weights)
    action = max((weight.action for dummy, weight in decisive), key=ACTIONS.index)
    entry = policy.lookup(root)
    advice = entry.advice
    if root == 154 and "advice" not in entry.overridden:
        advice = incident_weight.ADVICE_154.get(action, "")
    one = Judged(case, root, worst, action, advice, entry.later_action)
    one.notes = list(dict.fromkeys(weight.note for dummy, weight in weights if weight.note))
    return one


def _root(decisive: t.Sequence[t.Tuple[int, Weight]], weights: t.Sequence[t.Tuple[int, Weight]]) -> int:
    numbers = [xid for xid, dummy in decisive]
    if all(xid in WAKE for xid in numbers):
        # The driver asks for more than the fault by itself would; it is that fault's incident all the same. One that is worth
        # nothing by itself must not lend its name: who accepts 13 has not accepted a GPU that needs a reset.
        numbers = [xid for xid, weight in weights if xid not in WAKE and weight.severity != "info"] or numbers
    present = {xid for xid, dummy in weights}

    def rank(index: int) -> t.Tuple[bool, bool, int, int]:
        xid = numbers[index]
        return (xid in WAKE, xid in DETAIL_OF_48 and 48 in present, _EXPLAINS.get(xid, len(_EXPLAINS)), index)

    return numbers[min(range(len(numbers)), key=rank)]


def _recover(one: Judged, by: Case) -> None:
    """A later Xid 154 to None: what a reset mends is history; a loose card or a spent spare row is not."""
    if one.severity == "info":
        return
    time = by.members[-1].event.origin.time
    note = "cleared by Xid 154 to None" + (" at " + time if time else "")
    if one.action in _MENDED_BY_RESET:
        one.settle("info", "none", note)
    elif one.action not in ("replace", "contact_vendor"):
        one.settle("warning", one.action, note + ", but the cause may still be there")


def _mention_peers(judged: t.Sequence[Judged], policy: KernelPolicy) -> None:
    seconds = policy.limit["incident_window_seconds"]
    lost = [one for one in judged if one.root == 79]
    for one in judged:
        if one.root not in LINK_FAULTS:
            continue
        for other in lost:
            if other.case.pci != one.case.pci and kernel_clock.together(one.case.first, other.case.first, seconds):
                one.notes.append("GPU %s was lost at the same time: recover that one first" % other.case.pci)


def _finding(one: Judged, log: KernelLog, policy: KernelPolicy) -> Finding:
    members = one.case.members
    roots = [member.event for member in members if member.event.xid == one.root]
    printed = [event for event in roots if not event.detail.get("without_xid")]
    counted = [member.event for member in members if not (printed and member.event.detail.get("without_xid"))]
    lines = dict.fromkeys(event.origin.raw or event.text for event in roots[:1] + [member.event for member in members])
    return Finding(
        "xid.%d" % one.root,
        one.severity,
        _subject(one.case, log),
        _message(one, roots, policy),
        one.action,
        evidence=tuple(line for line in lines if line)[:MAX_EVIDENCE],
        advice=one.advice,
        count=sum(event.count for event in counted),
        first=members[0].event.origin.time,
        last=members[-1].event.origin.time,
    )


def _subject(case: Case, log: KernelLog) -> Subject:
    told = next((member.event for member in case.members if member.event.uuid or member.event.serial), None)
    return gpu_subject(case.pci, log, told)


def _message(one: Judged, roots: t.Sequence[XidEvent], policy: KernelPolicy) -> str:
    entry = policy.lookup(one.root)
    text = "Xid %d: %s" % (one.root, entry.meaning)
    if not roots:
        text += "; its own line is missing, a later line names it as the cause"
    elif all(event.detail.get("without_xid") for event in roots):
        text = entry.meaning + "; the driver printed no Xid for it"
    places = dict.fromkeys(place for place in (_place(event) for event in roots) if place)
    if places:
        text += "; " + ", ".join(list(places)[:3]) + (" and %d more" % (len(places) - 3) if len(places) > 3 else "")
    index = next((event.detail["gpu_index"] for event in roots if event.detail.get("gpu_index") is not None), None)
    if index is not None and one.case.pci is None:
        text += "; the driver's GPU %d, which is neither CUDA's number nor nvidia-smi's" % index
    who = [event for event in roots if event.name or event.pid]
    # Who it hit matters where the program may be the cause or has to be started again; a lost GPU's line names a bystander.
    if who and (entry.app_caused in ("yes", "possible") or one.action == "restart_job"):
        names = dict.fromkeys("%s (pid %s)" % (event.name or "a process", event.pid or "unknown") for event in who)
        text += "; in " + ", ".join(list(names)[:3]) + (" and %d more" % (len(names) - 3) if len(names) > 3 else "")
    instances = sorted({event.gpu_instance for event in roots if event.gpu_instance is not None})
    if instances:
        text += "; MIG GPU instance %s" % ", ".join(str(number) for number in instances)
    others = [xid for xid in dict.fromkeys(member.event.xid for member in one.case.members) if xid != one.root]
    if others:
        text += "; with Xid " + ", ".join(str(xid) for xid in others)
    return "; ".join([text, *one.notes])


def _place(event: XidEvent) -> str:
    """The unit and the link that an NVLink error names."""
    parts = [str(event.detail["subcode"])] if event.detail.get("subcode") else []
    if event.xid in LINK_FAULTS and event.detail.get("link") is not None:
        parts.append("link %s" % event.detail["link"])
    return " ".join(parts)


def _merged(group: t.Sequence[Finding]) -> Finding:
    evidence = dict.fromkeys(line for one in group for line in one.evidence)
    return dataclasses.replace(
        group[-1],
        message="%s; %d times" % (group[-1].message, len(group)),
        evidence=tuple(evidence)[:MAX_EVIDENCE],
        count=sum(one.count for one in group),
        first=group[0].first,
    )
