# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judge a dry run: a few training steps on all ranks at once. Private to kentino.gpu.

A pass needs every rank that was asked for, every step of it, the same finite loss everywhere and a launcher that ended with
status 0. Everything else is named, the ranks that are to blame and not those that waited for them.
"""

from __future__ import annotations

import math
import re
import statistics
import typing as t

from .._knowledge import cuda_errors, thresholds
from .._parse.dryrun_records import DryRun, Rank, Step
from .._report.model import NODE, Check, Finding, Subject
from . import cuda_oom, dryrun_numbers
from .dryrun_ends import Ends, device_error, ends
from .dryrun_ranks import full_name, name, subject

NAME = "dryrun"
POLICY_KEYS = ("ranks", "steps", "device", "timeout_seconds", "limits", "drill", "tokens_per_step")

_TOOL = Subject("tool", "torchrun")
_SHOWN = 3
_STATES = {"D": "its process hangs in the kernel (state D)", "T": "its process is stopped (state T)"}
_OTHER = "nothing is said about the hardware: read the end of the output, and run it again"
_SLOW = "look at clocks, power limit, throttling, temperature and what else uses this GPU and its CPU"


def judge(record: DryRun, policy: t.Mapping[str, t.Any]) -> t.Tuple[Finding, ...]:
    """What is wrong with this run.

    C(policy), all optional: C(ranks) and C(steps) that must have been run; C(device), C(cuda) or C(cpu); C(timeout_seconds) that
    a rank may wait in a collective; C(limits), overrides by key; C(drill), the fault that was asked for.
    """
    limits = thresholds.limits(policy.get("limits"))
    found = ends(record, policy.get("timeout_seconds", 60) / 2)
    findings = [
        *_judge_gpus(record, found),
        *_judge_memory(record, found, limits),
        *_judge_died(record, found),
        *_judge_hung(record, found),
        *dryrun_numbers.judge(record, limits),
        *_judge_straggler(record, limits),
        *_judge_retries(record),
        *_judge_ranks(record, found, policy),
        *_judge_end(record, found, policy),
    ]
    if policy.get("drill"):
        message = "a drill: the fault %s was asked for, so nothing is said about the hardware" % policy["drill"]
        findings.append(_unknown("dryrun.drill", NODE, message, advice="unset KENTINO_DRYRUN_FAULT for a real run"))
    if not findings and record.exit_status != 0:
        findings.append(_judge_status(record))
    return tuple(findings)


def check(record: DryRun, policy: t.Mapping[str, t.Any]) -> Check:
    """The findings together with what was really seen."""
    evidence = ""
    whole = [rank for rank in record.ranks if rank.finished and not _missing(rank, policy.get("steps"))]
    if whole and len(whole) == (policy.get("ranks") or len(record.ranks)):
        steps = len(whole[0].steps) - 1
        what = (len(whole), policy.get("device") or "unknown devices", steps, record.torch_version or "of unknown version")
        evidence = "%d ranks on %s went through a warm-up and %d steps with PyTorch %s" % what
    return Check(NAME, evidence, judge(record, policy), metrics=metrics(record, policy))


def metrics(record: DryRun, policy: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
    """Medians over the steps, of each rank, without the warm-up. Bytes are peaks."""
    compute = {str(rank.rank): _typical(rank, lambda step: step.compute_seconds) for rank in record.ranks}
    whole = [value for value in (_typical(rank, lambda step: step.step_seconds) for rank in record.ranks) if value]
    reduce = [value for value in (_typical(rank, lambda step: step.reduce_seconds) for rank in record.ranks) if value]
    losses = [rank.steps[-1].loss for rank in record.ranks if rank.finished and rank.steps]
    tokens = policy.get("tokens_per_step")
    return {
        "ranks_finished": sum(rank.finished for rank in record.ranks),
        "step_seconds": max(whole, default=None),
        "compute_seconds": compute,
        # The last to arrive waits for nobody: what it needs is the transfer itself.
        "reduce_seconds": min(reduce, default=None),
        "tokens_per_second": tokens / max(whole) if tokens and whole else None,
        "peak_reserved_bytes": max((rank.memory.get("peak_reserved_bytes", 0) for rank in record.ranks), default=0) or None,
        "loss": next((loss for loss in losses if loss is not None and math.isfinite(loss)), None),
    }


def _typical(rank: Rank, reading: t.Callable[[Step], t.Optional[float]]) -> t.Optional[float]:
    values = [value for value in (reading(step) for step in rank.steps if step.step > 0) if value is not None]
    return statistics.median(values) if values else None


def _judge_gpus(record: DryRun, found: Ends) -> t.Iterator[Finding]:
    def one(rank: Rank) -> Finding:
        text = rank.failure.text if rank.failure else ""
        action, advice = cuda_errors.error(text) or ("look_at_code", "compare with nvidia-smi, and look at CUDA_VISIBLE_DEVICES")
        message = "%s could not use its GPU: %s" % (name(rank), _line(text))
        return Finding("dryrun.no_gpu", "critical", subject(rank), message, action, _evidence(rank), advice)

    yield from _folded(record, found.no_gpu, one)


def _judge_memory(record: DryRun, found: Ends, limits: t.Mapping[str, t.Union[int, float]]) -> t.Iterator[Finding]:
    pids = [rank.pid for rank in record.ranks if rank.pid is not None]

    def one(rank: Rank) -> Finding:
        failure = rank.failure
        if failure is None or failure.oom is None:
            raise ValueError("rank %d had memory enough" % rank.rank)
        why = cuda_oom.cause(failure.oom, limits["dryrun_foreign_memory_pct"], record.torch_version, pids)
        message = "%s ran out of memory%s, %s: %s" % (name(rank), _where(rank), why.kind, why.message)
        evidence = (_line(failure.text), *why.evidence)
        return Finding("dryrun.oom", "critical", subject(rank), message, "look_at_code", evidence, why.advice)

    yield from _folded(record, found.oom, one)


def _judge_died(record: DryRun, found: Ends) -> t.Iterator[Finding]:
    def one(rank: Rank) -> Finding:
        action, advice = device_error(rank) or _death(rank)
        message = "%s %s%s" % (full_name(rank), _how(rank), _where(rank))
        return Finding("dryrun.rank_died", "critical", subject(rank), message, action, _evidence(rank), advice)

    yield from _folded(record, found.died, one)


def _death(rank: Rank) -> t.Tuple[str, str]:
    if rank.failure is not None:
        return "look_at_code", "the job is known to be right: look at the installation of PyTorch, and at the options of the run"
    if rank.ending is not None and rank.ending.exit_code >= 0:
        return "look_at_code", "the end of the rank's log may say why"
    return cuda_errors.signalled(rank.ending.signal if rank.ending else None)


def _how(rank: Rank) -> str:
    if rank.failure is not None:
        return "failed with %s: %s" % (rank.failure.type, _line(rank.failure.text))
    if rank.ending is None:
        return "was gone before the end, nobody saw how"
    if rank.ending.exit_code < 0:
        return "was killed by %s" % (rank.ending.signal or "signal %d" % -rank.ending.exit_code)
    return "ended with status %d" % rank.ending.exit_code


def _judge_hung(record: DryRun, found: Ends) -> t.Iterator[Finding]:
    where = found.collective.words() if found.collective else ""
    if found.undecided:
        message = "all ranks entered %s and none came out: which one is to blame could not be told" % where
        advice = "the network or NCCL rather than one rank: run nccl_test with P2P on and off, and read the flight recorder's dumps"
        evidence = [line for rank in found.waited for line in _evidence(rank)[:1]]
        yield _unknown("dryrun.rank_hung", NODE, message, evidence[:_SHOWN], advice)
    for rank in found.hung:
        if found.inside:
            message = "%s did not come out of %s, which others left" % (full_name(rank), where)
        elif found.collective:
            message = "%s did not enter %s, where %s waited" % (full_name(rank), where, _count(len(found.waited)))
        else:
            message = "%s did not come to its end" % full_name(rank)
        message += "; last seen in %s" % rank.last.words() if rank.last else "; it said nothing at all"
        state = _STATES.get(rank.state or "")
        if rank.state == "D":
            action, advice = "reboot_node", "a driver that does not come back: read the kernel log; only a reboot ends such a process"
        elif rank.device is not None:
            action, advice = "reset_gpu", "read the kernel log of that time for an Xid first"
        else:
            action, advice = "look_at_code", "the stack of the rank says what it did"
        message += "; %s" % state if state else ""
        yield Finding("dryrun.rank_hung", "critical", subject(rank), message, action, _stack(rank), advice)


def _count(number: int) -> str:
    return "1 rank" if number == 1 else "%d ranks" % number


def _judge_straggler(record: DryRun, limits: t.Mapping[str, t.Union[int, float]]) -> t.Iterator[Finding]:
    """The time before a rank waits for anyone: in the collective, the slow one is the only one that does not wait."""
    tolerance, floor = limits["dryrun_slow_tolerance_pct"], limits["dryrun_slow_floor_seconds"]
    times = [(rank, _typical(rank, lambda step: step.compute_seconds)) for rank in record.ranks]
    for rank, own in times:
        model = rank.device.name if rank.device else None
        siblings = [
            value
            for other, value in times
            if other is not rank and value is not None and (other.device.name if other.device else None) == model
        ]
        if own is None or not siblings:
            continue
        middle = statistics.median(siblings)
        if own > middle * (1 + tolerance / 100) and own - middle > floor:
            seen = (name(rank), own * 1000, middle * 1000, tolerance)
            message = "%s computes a step in %.1f ms, the other ranks in %.1f; at most %g %% more allowed" % seen
            evidence = ["%s: %.1f ms" % (name(other), value * 1000) for other, value in times if value is not None]
            action = "check_cooling" if rank.device is not None else "look_at_code"
            yield Finding("dryrun.straggler", "warning", subject(rank), message, action, tuple(evidence), _SLOW)


def _judge_retries(record: DryRun) -> t.Iterator[Finding]:
    for rank in record.ranks:
        retries, ooms = (rank.memory.get(key, 0) for key in ("alloc_retries", "ooms"))
        if rank.finished and retries:
            message = "%s had to give memory back %d times to go on: it has no room left at this size" % (name(rank), retries)
            message += ", %d allocations failed" % ooms if ooms else ""
            advice = "a smaller batch or shorter sequence, or expandable segments: each retry stops the GPU"
            yield Finding("dryrun.alloc_retries", "warning", subject(rank), message, "look_at_code", advice=advice)


def _judge_ranks(record: DryRun, found: Ends, policy: t.Mapping[str, t.Any]) -> t.Iterator[Finding]:
    """How many there were, and whether each had a GPU for itself."""
    expected, worlds = policy.get("ranks"), {rank.world for rank in record.ranks if rank.world is not None}
    finished = {rank.rank for rank in found.finished}
    # Ranks that did not finish are told of where they ended.
    if expected is not None and record.ranks and len(finished) == len(record.ranks) and finished != set(range(expected)):
        message = "%d ranks finished, %d expected" % (len(finished), expected)
        yield _unknown("dryrun.rank_count", NODE, message)
    if any(world != (expected or len(record.ranks)) for world in worlds):
        message = "the ranks were told of %s ranks, %s took part" % (_words(worlds), expected or len(record.ranks))
        yield _unknown("dryrun.rank_count", NODE, message)
    if policy.get("device") != "cuda":
        return
    places: t.Dict[str, t.List[Rank]] = {}
    for rank in found.finished:
        known = rank.device.known() if rank.device else None
        if known is None:
            yield _unknown("dryrun.no_gpu", subject(rank), "%s does not say on which GPU it ran" % name(rank))
        else:
            places.setdefault(known, []).append(rank)
    for known, ranks in places.items():
        if len(ranks) > 1:
            shared = _words({rank.rank for rank in ranks})
            yield _unknown("dryrun.rank_count", NODE, "ranks %s ran on the same GPU, %s: another one was left out" % (shared, known))


def _judge_end(record: DryRun, found: Ends, policy: t.Mapping[str, t.Any]) -> t.Iterator[Finding]:
    if record.outcome != "ended":
        code = {"missing": "tool.missing", "timeout": "tool.timeout", "unkillable": "tool.timeout"}.get(record.outcome, "dryrun.incomplete")
        yield _unknown(code, _TOOL, record.problem or "torchrun did not end by itself", record.output_end[-_SHOWN:])
    if not record.ranks:
        message = "no rank said anything: the launcher did not start the job"
        yield _unknown("dryrun.incomplete", NODE, message, record.output_end[-_SHOWN:], _OTHER)
        return
    open_ranks = [rank for rank in record.ranks if not rank.finished]
    if open_ranks and not found.culprits and not found.undecided:
        rank = next((rank for rank in open_ranks if rank.failure), open_ranks[0])
        seen = "last seen in %s" % rank.last.words() if rank.last else "it said nothing at all"
        seen += ", %s" % _how(rank) if rank.failure else ""
        message = "%d of %d ranks did not finish; %s: %s" % (len(open_ranks), len(record.ranks), full_name(rank), seen)
        yield _unknown("dryrun.incomplete", NODE, message, _evidence(rank) or record.output_end[-_SHOWN:], _OTHER)
    for rank in record.ranks:
        if rank.unreadable:
            message = "%d lines of the record of rank %d are cut or garbled" % (rank.unreadable, rank.rank)
            yield _unknown("dryrun.incomplete", subject(rank), message)
        missing = _missing(rank, policy.get("steps")) if rank.finished else ""
        if missing:
            yield _unknown("dryrun.incomplete", subject(rank), "rank %d says that it finished, %s" % (rank.rank, missing))


def _missing(rank: Rank, steps: t.Optional[int]) -> str:
    """In words what a rank that says that it finished lacks."""
    numbers = [step.step for step in rank.steps]
    wanted = list(range((max(numbers, default=0) if steps is None else steps) + 1))
    if numbers != wanted or len(wanted) < 2:
        return "and recorded %d steps with the warm-up, %d expected" % (len(numbers), max(2, len(wanted)))
    for step in rank.steps:
        if None in (step.loss, step.gradient_norm, step.compute_seconds, step.reduced_gradient_norm):
            return "and step %d lacks a value" % step.step
        if rank.world is not None and not len(step.parts) == len(step.gathered_losses) == rank.world:
            return "and step %d lacks the part of a rank" % step.step
    return ""


def _judge_status(record: DryRun) -> Finding:
    bad = [rank for rank in record.ranks if rank.ending is not None and rank.ending.exit_code]
    status = "with status %d" % record.exit_status if record.exit_status is not None else "in an unknown way"
    message = "torchrun ended %s after a clean run" % status
    message += "; %s %s" % (full_name(bad[0]), _how(bad[0])) if bad else ""
    return _unknown("dryrun.exit_status", NODE, message, record.output_end[-_SHOWN:])


def _folded(record: DryRun, ranks: t.Sequence[Rank], one: t.Callable[[Rank], Finding]) -> t.Iterator[Finding]:
    """What every rank says alike is no fault of any of them: one finding."""
    findings = [one(rank) for rank in ranks]
    alike = {(finding.action, _without_numbers(finding, rank)) for rank, finding in zip(ranks, findings)}
    if len(findings) < 2 or len(findings) != len(record.ranks) or len(alike) != 1:
        yield from findings
        return
    first = findings[0]
    message = "all %d ranks alike: %s" % (len(findings), first.message)
    action = first.action if first.action in ("look_at_code", "restart_job") else "look_at_code"
    yield Finding(first.code, first.severity, NODE, message, action, first.evidence, first.advice, count=len(findings))


def _without_numbers(finding: Finding, rank: Rank) -> str:
    message = finding.message.replace(full_name(rank), "").replace(name(rank), "")
    return re.sub(r"\d+(?:\.\d+)?", "", message)


def _where(rank: Rank) -> str:
    phase = rank.failure.phase if rank.failure and rank.failure.phase else rank.last
    return " in %s" % phase.words() if phase else " before it said anything"


def _evidence(rank: Rank) -> t.Tuple[str, ...]:
    """What the rank itself left behind, the most telling first."""
    if rank.failure is not None and not rank.signs:
        return rank.failure.stack[-_SHOWN:]
    return (rank.signs or rank.log_end[-_SHOWN:])[:_SHOWN]


def _stack(rank: Rank) -> t.Tuple[str, ...]:
    last = rank.stuck[-1] if rank.stuck else None
    # An older one tells of a phase that it came out of.
    if last is None or rank.last is None or last.phase.place != rank.last.place:
        return _evidence(rank)
    return last.stack[-_SHOWN:]


def _line(text: str) -> str:
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return lines[0][:300] if lines else "no text"


def _words(numbers: t.Collection[int]) -> str:
    return " and ".join(str(number) for number in sorted(numbers))


def _unknown(code: str, whose: Subject, message: str, evidence: t.Sequence[str] = (), advice: str = "") -> Finding:
    return Finding(code, "warning", whose, message, "none", tuple(evidence), advice, undetermined=True)
