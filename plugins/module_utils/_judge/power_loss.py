# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Several GPUs gone at once are one power supply, not so many broken GPUs. Private to kentino.gpu."""

from __future__ import annotations

import typing as t

from .._parse.pci_address import normalise
from .._report.model import Finding, Subject
from . import kernel_clock
from .incidents import Judged
from .kernel_policy import MAX_EVIDENCE, KernelPolicy

_ADVICE = (
    "Look at the power supply that these GPUs share before touching any of them: its switch, mains plug, fuse, cables and the BMC's power"
    " readings. Whatever else they share (a riser board, a PCIe switch) comes second."
)


def judge_power(judged: t.Sequence[Judged], policy: KernelPolicy) -> t.List[Finding]:
    """A finding for each supply; the losses that it explains are marked as part of it."""
    found = []
    for cluster in _clusters([one for one in judged if one.root == 79 and one.case.pci and one.severity == "critical"], policy):
        lost = {str(one.case.pci): one for one in cluster}
        for name, members in _supplies(frozenset(lost), policy):
            ours = [lost[pci] for pci in members]
            found.append(_finding(name, ours, policy))
            where = ", all on supply '%s'" % name if name else ""
            for one in ours:
                one.advice = "Check the power first: this GPU is one of %d that were lost at once." % len(ours)
                one.settle(one.severity, "check_power", "part of psu.lost: %d GPUs were lost together%s" % (len(ours), where))
    return found


def _clusters(losses: t.Sequence[Judged], policy: KernelPolicy) -> t.Iterator[t.List[Judged]]:
    """Losses within power_loss_seconds of the first of them; without times, losses that stand in the log one after the other."""
    starts = [_loss(one) for one in losses]
    cluster: t.List[int] = []
    for index in kernel_clock.in_order(starts):
        if cluster and not _close(starts[cluster[0]], starts[index], policy):
            yield [losses[number] for number in cluster]
            cluster = []
        cluster.append(index)
    if cluster:
        yield [losses[number] for number in cluster]


def _loss(one: Judged) -> kernel_clock.Moment:
    return next((member.moment for member in one.case.members if member.event.xid == 79), one.case.first)


def _close(first: kernel_clock.Moment, other: kernel_clock.Moment, policy: KernelPolicy) -> bool:
    if first.previous != other.previous:
        return False
    distance = kernel_clock.seconds_between(first, other)
    return distance is None or abs(distance) <= policy.limit["power_loss_seconds"]


def _supplies(lost: t.FrozenSet[str], policy: KernelPolicy) -> t.Iterator[t.Tuple[str, t.Tuple[str, ...]]]:
    """Name of each supply whose GPUs are all among the lost, and these GPUs."""
    domains = {name: {_address(member, policy) for member in members} for name, members in policy.power_domains.items()}
    for name, addresses in domains.items():
        if len(addresses) >= 2 and addresses <= lost:
            yield name, tuple(sorted(str(address) for address in addresses))
    unread = any(None in addresses for addresses in domains.values())
    if (unread or not domains) and len(lost) >= policy.limit["power_loss_gpus"]:
        yield "", tuple(sorted(lost))


def _address(member: str, policy: KernelPolicy) -> t.Optional[str]:
    """The PCI address of a GPU that the inventory names by address or index; None for an index that cannot be looked up."""
    if not member.isdigit():
        return normalise(member) or member
    return policy.gpu_pci[int(member)] if int(member) < len(policy.gpu_pci) else None


def _finding(name: str, ours: t.Sequence[Judged], policy: KernelPolicy) -> Finding:
    members = [member for one in ours for member in one.case.members if member.event.xid == 79]
    times = [member.event.origin.time for member in members if member.event.origin.time]
    severity, action, note = kernel_clock.history("critical", "check_power", ours[-1].case.first.previous, None, policy)
    which = "all that it feeds" if name else "which of them share a supply is not known: set the power domains"
    span = kernel_clock.seconds_between(_loss(ours[0]), _loss(ours[-1]))
    when = "in lines that follow each other" if span is None else "within %.3g s" % abs(span)
    message = "%d GPUs lost %s: %s (%s)" % (len(ours), when, ", ".join(str(one.case.pci) for one in ours), which)
    lines = dict.fromkeys(member.event.origin.raw or member.event.text for member in members)
    return Finding(
        "psu.lost",
        severity,
        Subject("psu", name=name),
        message + ("; " + note if note else ""),
        action,
        evidence=tuple(line for line in lines if line)[:MAX_EVIDENCE],
        advice=_ADVICE if action != "none" else "",
        count=len(ours),
        first=min(times, default=None),
        last=max(times, default=None),
    )
