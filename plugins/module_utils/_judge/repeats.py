# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What only repetition tells: an application fault that follows the card, a warning that comes back. Private to kentino.gpu."""

from __future__ import annotations

import typing as t

from .._report.model import ACTIONS
from . import kernel_clock
from .incident_folding import WAKE, Case
from .kernel_policy import KernelPolicy

if t.TYPE_CHECKING:
    from .incidents import Judged

_SUSPECT = "hardware suspected: "


def judge_repeats(judged: t.Sequence[Judged], policy: KernelPolicy) -> None:
    """Raise what repeats too often; limits as in kernel_log_limits."""
    series: t.Dict[t.Tuple[bool, t.Optional[str], int], t.List[Judged]] = {}
    for one in judged:
        series.setdefault((one.case.first.previous, one.case.pci, one.root), []).append(one)
    for (previous, pci, root), ours in series.items():
        entry = policy.lookup(root)
        if entry.app_caused == "yes" and root not in WAKE and "severity" not in entry.overridden:
            others = [_times(other, policy) for key, other in series.items() if key[0] == previous and key[1] != pci and key[2] == root]
            _suspect_unit(ours, policy)
            _suspect_gpu(ours, max(others, default=0), policy)
        elif _times(_densest(ours, policy), policy) >= policy.limit["comes_back"]:
            for one in ours:
                if one.severity == "warning" and ACTIONS.index(one.later_action) > ACTIONS.index(one.action):
                    one.settle("warning", one.later_action, "it comes back")


def _suspect_unit(ours: t.Sequence[Judged], policy: KernelPolicy) -> None:
    """The same GPC and TPC under different processes. A program that is wrong fails wherever it happens to run."""
    places: t.Dict[t.Tuple[int, int], t.List[Judged]] = {}
    for one in ours:
        units = _units(one.case)
        if len(units) == 1:
            places.setdefault(next(iter(units)), []).append(one)
    for (gpc, tpc), there in places.items():
        dense = _densest(there, policy)
        if _times(dense, policy) >= policy.limit["repeats_same_unit"] and not _one_process(dense):
            for one in dense:
                one.settle("warning", one.later_action, _SUSPECT + "GPC %d TPC %d fails again under another process" % (gpc, tpc))


def _suspect_gpu(ours: t.Sequence[Judged], on_another: int, policy: KernelPolicy) -> None:
    """One GPU far more often than any other. A program that is wrong fails on all the GPUs it runs on."""
    dense = _densest(ours, policy)
    times = _times(dense, policy)
    if times < policy.limit["repeats_one_gpu"] or 2 * on_another >= times or _one_process(dense):
        return
    for one in dense:
        if one.severity == "info":
            one.settle("warning", one.later_action, _SUSPECT + "this GPU fails again and again, and no other one does")


def _units(case: Case) -> t.Set[t.Tuple[int, int]]:
    details = [member.event.detail for member in case.members]
    return {
        (detail["gpc"], detail["tpc"]) for detail in details if isinstance(detail.get("gpc"), int) and isinstance(detail.get("tpc"), int)
    }


def _one_process(ours: t.Sequence[Judged]) -> bool:
    """Whether all are known to be of one process. The driver often no longer knows it: then they count as several."""
    pids = [one.case.pids() for one in ours]
    return all(pids) and len(frozenset().union(*pids)) == 1


def _times(ours: t.Sequence[Judged], policy: KernelPolicy) -> int:
    """How often the fault came. Equal lines far apart are one record in one incident, yet each of them is a time of its own."""
    return sum(_times_in(one, policy) for one in ours)


def _times_in(one: Judged, policy: KernelPolicy) -> int:
    times = 1
    for member in one.case.members:
        if member.event.xid == one.root and member.end is not None:
            span = kernel_clock.seconds_between(member.moment, member.end) or 0.0
            gaps = int(span // max(policy.limit["incident_window_seconds"], 1))
            times = max(times, min(member.event.count, gaps + 1))
    return times


def _densest(ours: t.Sequence[Judged], policy: KernelPolicy) -> t.Sequence[Judged]:
    """The most of them within repeat_hours of each other; without times, all."""
    seconds = policy.limit["repeat_hours"] * 3600
    best: t.Sequence[Judged] = ours[:1]
    begin = 0
    for end in range(len(ours)):
        while _seconds(ours[begin], ours[end]) > seconds:
            begin += 1
        if end - begin + 1 > len(best):
            best = ours[begin : end + 1]
    return best


def _seconds(one: Judged, other: Judged) -> float:
    distance = kernel_clock.seconds_between(one.case.first, other.case.first)
    return 0.0 if distance is None else abs(distance)
