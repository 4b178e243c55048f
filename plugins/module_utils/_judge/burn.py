# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judge a gpu-burn run. Private to kentino.gpu.

The tool ends with status 0 after it called a GPU FAULTY, and it calls a GPU OK that never worked. So a pass needs the result
block, the word OK and work for every GPU, 100 %, and not one error on any record: the counters are reset at each summary.
"""

from __future__ import annotations

import statistics
import typing as t

from .._parse.gpu_burn import GpuBurn, Progress
from .._report.model import NODE, Check, Finding, Subject

NAME = "burn"
POLICY_KEYS = ("expected_gpus", "run_seconds", "floor_gflops", "slow_tolerance_pct")

_SHOWN = 3
_HALF = 50.0
_LOOK_AT_CLOCKS = "look at clocks, power limit and throttling"
_READ_LOG = "read the kernel log of that time first"


def judge(record: GpuBurn, policy: t.Mapping[str, t.Any]) -> t.Tuple[Finding, ...]:
    """What is wrong with this run, worst things first for each GPU.

    C(policy), all optional: C(expected_gpus); C(run_seconds), the shortest run that counts; C(floor_gflops), a record with
    C(value) in Gflop/s for each GPU in the precision that is run; C(slow_tolerance_pct), how far below the median of its
    siblings a GPU may be. A GPU's index is its place among the tested GPUs, in CUDA's order.
    """
    findings = [
        *_judge_start(record),
        *_judge_dead(record),
        *_judge_wrong(record),
        *_judge_end(record),
        *_judge_count(record, policy.get("expected_gpus")),
        *_judge_length(record, policy.get("run_seconds")),
        *_judge_speed(record, policy),
    ]
    if record.exit_status and not any(finding.verdict in ("fail", "unknown") for finding in findings):
        findings.append(_unknown("burn.exit_status", NODE, "gpu_burn ended with status %d after a clean result" % record.exit_status))
    return tuple(findings)


def check(record: GpuBurn, policy: t.Mapping[str, t.Any]) -> Check:
    """The findings together with what was really seen."""
    evidence = ""
    if record.complete and record.progress:
        evidence = "%d GPUs burnt, %d progress records" % (len(record.progress[-1].work), len(record.progress))
    return Check(NAME, evidence, judge(record, policy), metrics=metrics(record))


def metrics(record: GpuBurn) -> t.Dict[str, t.Any]:
    """Gflop/s of each GPU over the run, and the highest temperature seen."""
    rates = rates_gflops(record)
    hottest = [temp for progress in record.progress for temp in progress.temps_c if temp is not None]
    return {"gflops": {str(gpu): rate for gpu, rate in sorted(rates.items())}, "temperature_max_c": max(hottest, default=None)}


def rates_gflops(record: GpuBurn) -> t.Dict[int, float]:
    """GPU to the median of its rates, of the records in which it had done work; one batch alone is noise."""
    rates: t.Dict[int, t.List[float]] = {}
    for progress in record.progress:
        for gpu, (work, rate) in enumerate(zip(progress.work, progress.gflops)):
            if work > 0 and rate is not None and rate > 0:
                rates.setdefault(gpu, []).append(rate)
    return {gpu: statistics.median(seen) for gpu, seen in rates.items()}


def died(record: GpuBurn) -> t.Tuple[int, ...]:
    """GPUs whose process ended: C(proc'd: -1), and the word DIED behind the counter."""
    return _where(record.progress, lambda progress, gpu: progress.work[gpu] < 0 or _word(progress, gpu).startswith("DIED"))


def with_errors(record: GpuBurn) -> t.Tuple[int, ...]:
    """GPUs with a counter other than zero on any record. Below zero it ran over; beside DIED it is memory never written."""
    return _where(record.progress, lambda progress, gpu: _errors(progress, gpu) != 0)


def without_work(record: GpuBurn) -> t.Tuple[int, ...]:
    """GPUs that live and had done nothing at the last record. Earlier records show 0 legitimately: a batch takes its time."""
    if not record.progress:
        return ()
    dead = died(record)
    return tuple(gpu for gpu, work in enumerate(record.progress[-1].work) if work == 0 and gpu not in dead)


def stalled(record: GpuBurn) -> t.Dict[int, float]:
    """GPU to the percentage at which it was last seen to work, of those that did nothing in the second half of a whole run.

    A GPU that hangs keeps its count and the rate of its last batch, and is called OK.
    """
    last = record.progress[-1] if record.progress else None
    if last is None or last.percent != 100:
        return {}
    found = {}
    for gpu, work in enumerate(last.work):
        since = [progress.percent for progress in record.progress if gpu < len(progress.work) and progress.work[gpu] == work]
        if work > 0 and since[0] is not None and since[0] < _HALF:
            found[gpu] = since[0]
    return found


def faulty(record: GpuBurn) -> t.Tuple[int, ...]:
    return tuple(sorted({gpu for gpu, word in record.results if word == "FAULTY"}))


def _where(records: t.Iterable[Progress], test: t.Callable[[Progress, int], bool]) -> t.Tuple[int, ...]:
    return tuple(sorted({gpu for progress in records for gpu in range(len(progress.work)) if test(progress, gpu)}))


def _word(progress: Progress, gpu: int) -> str:
    return progress.flags[gpu] if gpu < len(progress.flags) else ""


def _errors(progress: Progress, gpu: int) -> int:
    return progress.errors[gpu] if gpu < len(progress.errors) and not _word(progress, gpu).startswith("DIED") else 0


def _judge_start(record: GpuBurn) -> t.Iterator[Finding]:
    texts = record.init_errors
    if not set(_ever_worked(record)):
        texts += record.failures + record.crashes
    if texts:
        advice = "repair the tool, its build or the driver, and run it again"
        yield _unknown("burn.init", NODE, "gpu_burn could not start: %s" % texts[0], texts[:_SHOWN], advice)


def _ever_worked(record: GpuBurn) -> t.Iterator[int]:
    return (gpu for progress in record.progress for gpu, work in enumerate(progress.work) if work > 0)


def _judge_dead(record: GpuBurn) -> t.Iterator[Finding]:
    worked = set(_ever_worked(record))
    dead = died(record)
    for gpu in dead:
        message = "the process that burnt GPU %d died" % gpu
        if record.init_errors and gpu not in worked:
            # A kernel that was not built for this card ends in the same way.
            yield _unknown("burn.died", _gpu(gpu), "%s before it computed anything: %s" % (message, record.init_errors[0]))
        else:
            yield Finding("burn.died", "critical", _gpu(gpu), message, "reset_gpu", record.failures[:_SHOWN], _READ_LOG)
    if record.failures and worked and not dead:
        message = "CUDA failed while a GPU computed: %s" % record.failures[0]
        yield Finding("burn.died", "critical", NODE, message, "reset_gpu", record.failures[:_SHOWN], _READ_LOG)
    for gpu in without_work(record):
        yield _unknown("burn.no_progress", _gpu(gpu), "GPU %d had done no work at the last record" % gpu)
    for gpu, percent in stalled(record).items():
        yield _unknown("burn.no_progress", _gpu(gpu), "GPU %d did no work after %.1f %%" % (gpu, percent), (), _READ_LOG)


def _judge_wrong(record: GpuBurn) -> t.Iterator[Finding]:
    wrong, bad = with_errors(record), faulty(record)
    action, advice = "replace", ""
    if record.gpus is not None and 1 < record.gpus <= len({*wrong, *bad}):
        action = "look_at_code"
        advice = "every GPU at the same time: suspect a build for another architecture, the driver or the power before the cards"
    for gpu in wrong:
        counters = [_errors(progress, gpu) for progress in record.progress if _errors(progress, gpu)]
        seen = (gpu, len(counters), len(record.progress), max(counters, key=abs))
        message = "GPU %d computed wrong results: %d of %d records show errors, up to %d" % seen
        yield Finding("burn.errors", "critical", _gpu(gpu), message, action, advice=advice)
    for gpu in bad:
        if gpu not in wrong and gpu not in died(record):
            yield Finding("burn.faulty", "critical", _gpu(gpu), "gpu_burn calls GPU %d FAULTY" % gpu, action, advice=advice)


def _judge_end(record: GpuBurn) -> t.Iterator[Finding]:
    if not record.progress:
        what = "gpu_burn printed no progress record: nothing was measured"
        yield _unknown("burn.no_progress", NODE, what, record.unrecognised[:_SHOWN], "let it run for longer; a slow card needs minutes")
    if not record.complete:
        end = "no client was left alive" if record.aborted else "the result block is missing or cut"
        yield _unknown("burn.incomplete", NODE, "the run did not come to its end: %s" % end)
    elif record.progress and record.progress[-1].percent != 100:
        last = record.progress[-1].percent
        seen = "unreadable" if last is None else "%.1f %%" % last
        yield _unknown("burn.incomplete", NODE, "the last progress record is %s, 100 %% expected" % seen)
    if record.crashes and set(_ever_worked(record)):
        yield _unknown("burn.incomplete", NODE, "a process of the run was killed: %s" % record.crashes[0], record.crashes[:_SHOWN])
    broken = sum(not progress.whole for progress in record.progress)
    if broken:
        yield _unknown("burn.incomplete", NODE, "%d of %d progress records are cut or garbled" % (broken, len(record.progress)))


def _judge_count(record: GpuBurn, expected: t.Optional[int]) -> t.Iterator[Finding]:
    burnt = len(record.progress[-1].work) if record.progress else None
    tested = record.announced if record.complete else burnt
    if record.complete and burnt is not None and burnt != record.announced:
        yield _unknown("burn.gpu_count", NODE, "%d GPUs in the records, %s in the result block" % (burnt, record.announced))
    if expected is not None and tested != expected:
        yield _unknown("burn.gpu_count", NODE, "%s GPUs were tested, %d expected" % ("no" if tested is None else tested, expected))
    # One of several is what -i does. CUDA leaving out a card that nvidia-smi lists is what a bad card does.
    elif expected is None and tested is not None and 1 < tested < len(record.listed):
        yield _unknown("burn.gpu_count", NODE, "%d GPUs were tested, nvidia-smi lists %d" % (tested, len(record.listed)))


def _judge_length(record: GpuBurn, seconds: t.Optional[float]) -> t.Iterator[Finding]:
    if seconds is None:
        return
    if record.requested_seconds is None or record.requested_seconds < seconds:
        asked = "unknown" if record.requested_seconds is None else "%d s" % record.requested_seconds
        yield _unknown("burn.short", NODE, "length of the run %s, at least %g s expected" % (asked, seconds))


def _judge_speed(record: GpuBurn, policy: t.Mapping[str, t.Any]) -> t.Iterator[Finding]:
    rates = rates_gflops(record)
    floor = policy.get("floor_gflops")
    tolerance = policy.get("slow_tolerance_pct")
    # Cards of several models in one node are no siblings.
    alike = len(rates) > 1 and len({gpu.name for gpu in record.listed}) <= 1
    for gpu, rate in sorted(rates.items()):
        if floor is not None and rate < floor["value"]:
            message = "GPU %d computes %.0f Gflop/s, at least %g expected" % (gpu, rate, floor["value"])
            yield Finding("burn.slow", "critical", _gpu(gpu), message, "check_cooling", advice=_LOOK_AT_CLOCKS)
        elif tolerance and alike:  # 0: the siblings are not compared
            middle = statistics.median(rates.values())
            if rate < middle * (1 - tolerance / 100):
                message = "GPU %d computes %.0f Gflop/s, its siblings %.0f; at most %g %% less allowed" % (gpu, rate, middle, tolerance)
                yield Finding("burn.slow", "warning", _gpu(gpu), message, "check_cooling", advice=_LOOK_AT_CLOCKS)
    if floor is not None and record.complete and record.progress:
        for gpu in sorted(set(range(len(record.progress[-1].work))) - set(rates)):
            yield _unknown("burn.slow", _gpu(gpu), "no rate of GPU %d was printed, at least %g Gflop/s expected" % (gpu, floor["value"]))


def _gpu(number: int) -> Subject:
    return Subject("gpu", index=number)


def _unknown(code: str, subject: Subject, message: str, evidence: t.Sequence[str] = (), advice: str = "") -> Finding:
    return Finding(code, "warning", subject, message, "none", tuple(evidence), advice, undetermined=True)
