# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which Xid lines belong to one incident. Private to kentino.gpu.

One fault prints many lines: a memory error 48, 63, 94 for each channel and 45 for each channel. Counting lines or numbers
multiplies it, and counting numbers alone loses GPUs. Lines belong together when they are of one GPU (by the whole PCI address)
and close in time, or when one names the other as its cause.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .._parse.kernel_log_records import KernelLog, XidEvent
from . import kernel_clock
from .kernel_clock import Moment
from .kernel_policy import KernelPolicy

# Printed in the wake of another Xid; each can also come alone.
WAKE = frozenset({43, 45, 154})
# The same uncorrectable error once more, with the kind of memory.
DETAIL_OF_48 = frozenset({171, 172})

# A line is held against so many of an incident's latest lines; equal ones among them are one record.
_LATEST = 8

# Numbers that one fault prints together. Only asked where the log has no times.
_FAMILIES = (
    frozenset({48, 63, 64, 92, 94, 95, 140, 160, 161, 171, 172}),
    frozenset({74, 79, 108, 136, 137, 144, 145, 146, 147, 148, 149, 150, 155, 166, 167, 170}),
    frozenset({46, 61, 62, 79, 109, 110, 119, 120, 143, 158, 169, 175}),
    frozenset({8, 11, 13, 25, 31, 32, 39, 40, 41, 69, 109}),
)


class Member(t.NamedTuple):
    """A line, or several that say the same: then C(end) is the last of them, None where it is not told."""

    event: XidEvent
    moment: Moment
    end: t.Optional[Moment]


@dataclass
class Case:
    """The lines of one incident, in order."""

    pci: t.Optional[str]
    members: t.List[Member]
    named: t.Set[int] = field(default_factory=set)  # numbers that a line names as its cause
    recovered: bool = False  # ended by an Xid 154 to None

    @property
    def numbers(self) -> t.FrozenSet[int]:
        return frozenset(member.event.xid for member in self.members) | self.named

    @property
    def first(self) -> Moment:
        return self.members[0].moment

    @property
    def last(self) -> Moment:
        return self.members[-1].end or self.members[-1].moment

    @property
    def end(self) -> t.Optional[Moment]:
        """The latest line of all; None where it is not told of every line."""
        ends = [member.end for member in self.members]
        if None in ends:
            return None
        known = [end for end in ends if end is not None]
        return known[kernel_clock.in_order(known)[-1]]

    def pids(self, xid: t.Optional[int] = None) -> t.FrozenSet[int]:
        """Known processes of its lines, or of those with one number."""
        events = (member.event for member in self.members)
        return frozenset(event.pid for event in events if event.pid and xid in (None, event.xid))


def fold(log: KernelLog, policy: KernelPolicy) -> t.List[t.List[Case]]:
    """For each GPU and boot its incidents, in order."""
    groups: t.Dict[t.Tuple[bool, t.Optional[str]], t.List[Member]] = {}
    members = [_member(event, order) for order, event in enumerate((*log.events, *_losses(log)))]
    for member in members:
        pci = member.event.pci or _only_neighbour(member, members, policy)
        groups.setdefault((member.moment.previous, pci), []).append(member)
    return [_fold_group(pci, group, policy) for (dummy, pci), group in groups.items()]


def recovery(event: XidEvent) -> t.Optional[str]:
    """What an Xid 154 changes the recommended action to, in small letters; None where the line was cut before it."""
    words = {0: "none", 1: "gpu reset required", 2: "node reboot required", 3: "drain p2p", 4: "drain and reset", 5: "recover imex domain"}
    code, name = event.detail.get("to_code"), event.detail.get("to_action")
    if isinstance(code, int) and code in words:
        return words[code]
    return " ".join(str(name).lower().split()) if name else None


def _losses(log: KernelLog) -> t.Iterator[XidEvent]:
    """Failures that the driver printed in plain words only, under the number that they would have had."""
    for fault in log.driver_faults:
        if fault.equivalent_xid is not None and not fault.informational:
            detail = {"without_xid": True, "gpu_index": fault.gpu_index}
            yield XidEvent(fault.equivalent_xid, fault.pci, count=fault.count, text=fault.text, detail=detail, origin=fault.origin)


def _member(event: XidEvent, order: int) -> Member:
    return Member(event, kernel_clock.moment(event.origin, order), kernel_clock.end(event, order))


def _only_neighbour(member: Member, members: t.Sequence[Member], policy: KernelPolicy) -> t.Optional[str]:
    """The GPU that a loss in plain words without an address must be of: the only one that says the same at that time."""
    if not member.event.detail.get("without_xid"):
        return None
    seconds = policy.limit["incident_window_seconds"]
    near = {
        other.event.pci
        for other in members
        if other.event.pci and other.event.xid in (member.event.xid, 154) and kernel_clock.together(member.moment, other.moment, seconds)
    }
    return near.pop() if len(near) == 1 else None


def _fold_group(pci: t.Optional[str], members: t.Sequence[Member], policy: KernelPolicy) -> t.List[Case]:
    cases: t.List[Case] = []
    for index in kernel_clock.in_order([member.moment for member in members]):
        member = members[index]
        case = _home(cases, member, policy)
        if case is None:
            case = Case(pci, [])
            cases.append(case)
        case.members.append(member)
        cause = member.event.detail.get("root_xid")
        if isinstance(cause, int):
            case.named.add(cause)
        if member.event.xid == 154 and recovery(member.event) == "none":
            case.recovered = True
    return cases


def _home(cases: t.Sequence[Case], member: Member, policy: KernelPolicy) -> t.Optional[Case]:
    """The incident that a line belongs to, None where it begins one."""
    event = member.event
    cause = event.detail.get("root_xid")
    if cause is not None:
        for case in reversed(cases):
            if (
                not case.recovered
                and cause in case.numbers
                and _within(case, member, policy.limit["reference_window_seconds"]) is not False
            ):
                return case
    if not cases or cases[-1].recovered:
        return None
    latest = cases[-1]
    if event.xid == 154 and recovery(event) == "none":
        # A drain and reset may take hours; the line speaks of the GPU's state, whenever it comes.
        return latest
    near = _within(latest, member, policy.limit["incident_window_seconds"])
    if near is None:
        near = _alike(latest, event, policy)
    return latest if near and not _another_process(latest, member, policy) else None


def _within(case: Case, member: Member, seconds: float) -> t.Optional[bool]:
    """Whether the line is close to one of the case's latest; None where they share no clock."""
    answers = [_close(earlier, member.moment, seconds) for earlier in case.members[-_LATEST:]]
    known = [answer for answer in answers if answer is not None]
    return any(known) if known else None


def _close(earlier: Member, moment: Moment, seconds: float) -> t.Optional[bool]:
    since_begin = kernel_clock.seconds_between(earlier.moment, moment)
    since_end = kernel_clock.seconds_between(earlier.end or earlier.moment, moment)
    if since_begin is None or since_end is None:
        return None
    # A storm of equal lines is one record: what comes in its midst belongs to it, unless the lines lie far apart.
    if since_begin >= 0 >= since_end and since_begin - since_end <= seconds * (earlier.event.count - 1):
        return True
    return min(abs(since_begin), abs(since_end)) <= seconds


def _alike(case: Case, event: XidEvent, policy: KernelPolicy) -> bool:
    """Without times: lines that follow each other on one GPU and that one fault can print."""
    own = case.numbers - WAKE
    if event.xid in WAKE or event.xid in DETAIL_OF_48 or not own or (event.pid and event.pid in case.pids()):
        return True
    if policy.lookup(event.xid).app_caused == "yes" and event.pid and case.pids():
        return False
    return event.xid in own or any(event.xid in family and own & family for family in _FAMILIES)


def _another_process(case: Case, member: Member, policy: KernelPolicy) -> bool:
    """Whether an application fault repeats under another process: that is the next incident, however soon it comes."""
    event = member.event
    if event.xid in WAKE or not event.pid or policy.lookup(event.xid).app_caused != "yes":
        return False
    earlier = case.pids(event.xid)
    return bool(earlier) and event.pid not in earlier and _within(case, member, policy.limit["burst_seconds"]) is False
