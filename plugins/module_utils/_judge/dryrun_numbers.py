# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the ranks of a dry run computed the same, and a number. Private to kentino.gpu.

Every rank has the same batch and the same weights. So its loss and its own gradient must be those of the others, and one that
computes something else is named. After the all-reduce it would be too late: what is wrong on one rank is then wrong on all.
"""

from __future__ import annotations

import math
import typing as t

from .._parse.dryrun_records import DryRun, Rank, Step
from .._report.model import NODE, Finding, Subject
from .dryrun_ranks import name, subject

_TEST_ONE = "test this GPU alone (gpu_burn, dcgmi diag) before it is trusted"
_ALL = "all ranks at the same step: suspect the precision, the build of PyTorch or the driver before the cards"
_Reading = t.Callable[[Step], t.Optional[float]]


def judge(record: DryRun, limits: t.Mapping[str, t.Union[int, float]]) -> t.Iterator[Finding]:
    poisoned = _first_not_finite(record)
    yield from _judge_finite(record, poisoned)
    # From there on every rank has the same rubbish.
    ranks = [(rank, [step for step in rank.steps if poisoned is None or step.step < poisoned]) for rank in record.ranks]
    losses = list(_judge_same(ranks, lambda step: step.loss, "loss", limits["dryrun_loss_tolerance_pct"]))
    yield from losses
    # A wrong loss has a wrong gradient.
    told = {finding.subject.index for finding in losses}
    for finding in _judge_same(ranks, lambda step: step.gradient_norm, "gradient", limits["dryrun_gradient_tolerance_pct"]):
        if finding.subject.index not in told:
            yield finding
    yield from _judge_parts(record)
    yield from _judge_gathered(record)


def _first_not_finite(record: DryRun) -> t.Optional[int]:
    return min((step.step for rank in record.ranks for step in rank.steps if _not_finite(step)), default=None)


def _not_finite(step: Step) -> bool:
    values = (step.loss, step.gradient_norm, step.reduced_gradient_norm)
    return any(value is not None and not math.isfinite(value) for value in values)


def _judge_finite(record: DryRun, number: t.Optional[int]) -> t.Iterator[Finding]:
    if number is None:
        return
    steps = [(rank, step) for rank in record.ranks for step in rank.steps if step.step == number]
    for what, value in (("loss", _loss), ("gradient", _gradient)):
        bad = [(rank, step) for rank, step in steps if not math.isfinite(value(step))]
        if not bad:
            continue
        code = "dryrun.%s_not_finite" % what
        if len(bad) == len(steps) > 1:
            message = "the %s is %g on all %d ranks in %s" % (what, value(bad[0][1]), len(bad), _step_words(number))
            yield Finding(code, "critical", NODE, message, "look_at_code", advice=_ALL)
            return
        for rank, step in bad:
            message = "%s computed a %s of %g in %s" % (name(rank), what, value(step), _step_words(number))
            yield Finding(code, "critical", subject(rank), message, _action(rank), advice=_TEST_ONE)
        return
    message = "the gradients of all ranks are finite in %s, their sum is not" % _step_words(number)
    yield Finding("dryrun.gradient_not_finite", "critical", NODE, message, "look_at_code", advice="float16 overflows: take bfloat16")


def _loss(step: Step) -> float:
    return 0.0 if step.loss is None else step.loss


def _gradient(step: Step) -> float:
    return 0.0 if step.gradient_norm is None else step.gradient_norm


def _judge_same(
    ranks: t.Sequence[t.Tuple[Rank, t.Sequence[Step]]], reading: _Reading, what: str, tolerance_pct: float
) -> t.Iterator[Finding]:
    odd: t.Dict[int, t.List[t.Tuple[int, float, float]]] = {}
    undecided: t.List[t.Tuple[int, t.List[float]]] = []
    for number in sorted({step.step for _rank, steps in ranks for step in steps}):
        values = [(rank, reading(step)) for rank, steps in ranks for step in steps if step.step == number]
        known = [(rank, value) for rank, value in values if value is not None]
        agree = _largest_group([value for _rank, value in known], tolerance_pct)
        if len(agree) == len(known):
            continue
        if len(agree) * 2 <= len(known):
            undecided.append((number, [value for _rank, value in known]))
            continue
        for rank, value in known:
            if value not in agree:
                odd.setdefault(rank.rank, []).append((number, value, agree[len(agree) // 2]))
    code = "dryrun.%s_differs" % what
    for rank, _steps in ranks:
        if rank.rank not in odd:
            continue
        number, own, others = odd[rank.rank][0]
        seen = (name(rank), what, own, _step_words(number), others, tolerance_pct)
        message = "%s computed a %s of %.6g in %s, the others %.6g; %g %% allowed" % seen
        message += "; so in %d steps" % len(odd[rank.rank]) if len(odd[rank.rank]) > 1 else ""
        yield Finding(code, "critical", subject(rank), message, _action(rank), advice=_TEST_ONE, count=len(odd[rank.rank]))
    if undecided:
        number, values_seen = undecided[0]
        shown = ", ".join("%.6g" % value for value in values_seen[:8])
        message = "the ranks do not agree on the %s of %s: %s; which of them is right cannot be told" % (what, _step_words(number), shown)
        yield Finding(code, "critical", NODE, message, "look_at_code", advice="test each GPU alone (gpu_burn, dcgmi diag)")


def _largest_group(values: t.Sequence[float], tolerance_pct: float) -> t.List[float]:
    """The most values that are within the tolerance of one of them, in order."""
    best: t.List[float] = []
    for middle in values:
        near = sorted(value for value in values if abs(value - middle) <= abs(middle) * tolerance_pct / 100)
        best = near if len(near) > len(best) else best
    return best


def _judge_parts(record: DryRun) -> t.Iterator[Finding]:
    """Each rank puts a one into a place of its own; in the sum each place must hold it once."""
    views = [(rank, step, place) for rank in record.ranks for step in rank.steps for place in range(len(step.parts))]
    wrong = [(rank, step, place) for rank, step, place in views if step.parts[place] != 1]
    if not wrong:
        return
    receivers, places = {rank.rank for rank, _step, _place in wrong}, {place for _rank, _step, place in wrong}
    rank, step, place = wrong[0]
    seen = (_step_words(step.step), name(rank), place, step.parts[place])
    message = "the all-reduce added up wrong in %s: %s has the part of rank %d %g times, once expected" % seen
    whose = NODE
    if len(places) == 1 and len(receivers) > 1:
        whose = next((subject(other) for other in record.ranks if other.rank == place), NODE)
    elif len(receivers) == 1:
        whose = subject(rank)
    yield _transport(whose, message)


def _judge_gathered(record: DryRun) -> t.Iterator[Finding]:
    """What a rank sent must be what the others received."""
    sent = {(rank.rank, step.step): step.loss for rank in record.ranks for step in rank.steps}
    for rank in record.ranks:
        for step in rank.steps:
            for sender, received in enumerate(step.gathered_losses):
                value = sent.get((sender, step.step))
                if value is None or value == received or (math.isnan(value) and math.isnan(received)):
                    continue
                seen = (name(rank), received, sender, _step_words(step.step), value)
                yield _transport(subject(rank), "%s received %.6g from rank %d in %s, which had sent %.6g" % seen)
                return


def _transport(whose: Subject, message: str) -> Finding:
    advice = "peer-to-peer through an IOMMU or a PCIe switch does this as well as a bad card: run nccl_test with P2P on and off"
    return Finding("dryrun.collective_wrong", "critical", whose, message, "contact_vendor", advice=advice)


def _action(rank: Rank) -> str:
    return "contact_vendor" if rank.device is not None else "look_at_code"


def _step_words(number: int) -> str:
    return "step %d" % number if number else "the warm-up step"
