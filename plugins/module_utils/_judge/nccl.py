# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judge runs of nccl-tests. Private to kentino.gpu.

A run passes when its closing figures were seen, its results were checked and none was wrong. Bandwidth is held against a floor
at one message size: the tool's own average mixes it with sizes that are slow by nature.
"""

from __future__ import annotations

import math
import typing as t

from .._parse.nccl_tests_records import Failure, NcclTests, Row, Run, mean_busbw
from .._report.model import NODE, Check, Finding, Subject

NAME = "nccl"
POLICY_KEYS = ("expected_ranks", "floor")
FLOOR_KEYS = ("value", "message_bytes", "gpus")

_SHOWN = 3

# Start of NCCL's text for a result, what to do, what to add.
_RESULTS = (
    ("unhandled cuda error", "reset_gpu", "read the kernel log for Xid lines of that time"),
    ("remote process exited", "restart_job", "look for the rank that ended first"),
    ("timeout", "restart_job", "look for the rank that did not enter the call"),
    ("unhandled system error", "look_at_code", "run with NCCL_DEBUG=WARN: network, shared memory or limits"),
    ("internal error", "look_at_code", "run with NCCL_DEBUG=WARN"),
    ("invalid", "look_at_code", "check the options of the run"),
)


def judge(record: NcclTests, policy: t.Mapping[str, t.Any]) -> t.Tuple[Finding, ...]:
    """What is wrong with these runs, in the order of the runs.

    C(policy), all optional: C(expected_ranks); C(floor), a record with C(value) in GB/s of bus bandwidth, the C(message_bytes)
    it holds for, and the C(gpus) that take part where that matters.
    """
    findings = [finding for run in record.runs for finding in judge_run(run, policy)]
    if not record.runs:
        advice = "repair the tool, its libraries or the launcher, and run it again"
        findings.append(_unknown("nccl.incomplete", "nothing of an nccl-tests run was printed", record.unrecognised[:_SHOWN], advice))
    if record.crashes:
        message, advice = "a process crashed: %s" % record.crashes[0], "read the kernel log of that time first"
        findings.append(Finding("nccl.crashed", "critical", NODE, message, "look_at_code", record.crashes[:_SHOWN], advice))
    if record.aborts:
        findings.append(_unknown("nccl.aborted", "the launcher reports: %s" % record.aborts[0], record.aborts[:_SHOWN]))
    if record.exit_status and not any(finding.verdict in ("fail", "unknown") for finding in findings):
        findings.append(_unknown("nccl.exit_status", "nccl-tests ended with status %d after a clean result" % record.exit_status))
    if record.warnings:
        message = "NCCL warned %d times, first: %s" % (len(record.warnings), record.warnings[0])
        findings.append(Finding("nccl.warning", "info", NODE, message, evidence=record.warnings[:_SHOWN]))
    return tuple(findings)


def judge_run(run: Run, policy: t.Mapping[str, t.Any]) -> t.Tuple[Finding, ...]:
    """The findings of one run; without any its bandwidth may be used."""
    return (
        *_judge_failures(run),
        *_judge_results(run),
        *_judge_end(run),
        *_judge_ranks(run, policy.get("expected_ranks")),
        *_judge_bandwidth(run, policy.get("floor")),
    )


def check(record: NcclTests, policy: t.Mapping[str, t.Any]) -> Check:
    """The findings together with what was really measured."""
    done = [run for run in record.runs if measured(run)]
    evidence = ""
    if done:
        rows = sum(len(run.rows) for run in done)
        evidence = "%d runs, %d message sizes measured and their results checked" % (len(done), rows)
    return Check(NAME, evidence, judge(record, policy), metrics=metrics(record))


def measured(run: Run) -> bool:
    """Whether this run ended and measured a bandwidth."""
    return run.complete and bool(run.rows) and bool(run.average_busbw)


def metrics(record: NcclTests) -> t.Dict[str, t.Any]:
    """Of the last run that measured something: highest bus bandwidth and the message size that reached it."""
    for run in reversed(record.runs):
        best = max(((busbw(row) or 0, row.size) for row in run.rows), default=None)
        if best:
            return {"busbw_peak_gbps": best[0], "busbw_peak_message_bytes": best[1], "ranks": run.rank_count}
    return {}


def busbw(row: Row) -> t.Optional[float]:
    """GB/s of the slower side: what is slow shows on one side at least."""
    return min((side.busbw for side in row.sides() if side.busbw is not None), default=None)


def _judge_failures(run: Run) -> t.Iterator[Finding]:
    for failure in run.failures:
        action, advice = _repair(failure)
        where = " ".join(word for word in (failure.host, "pid %d" % failure.pid if failure.pid is not None else "") if word)
        message = "a call failed%s: %s" % (" on " + where if where else "", failure.message or failure.location or "no reason given")
        subject = Subject("process", where) if where else NODE
        yield Finding("nccl.failure", "critical", subject, message, action, advice=advice)


def _repair(failure: Failure) -> t.Tuple[str, str]:
    text = (failure.result or "").lower()
    for start, action, advice in _RESULTS:
        if text.startswith(start):
            return action, advice
    return ("look_at_code", "read the log of that process") if not text else ("reset_gpu", "read the kernel log of that time first")


def _judge_results(run: Run) -> t.Iterator[Finding]:
    in_rows = sum(side.wrong or 0 for row in run.rows for side in row.sides())
    nan = sum(side.delta is not None and math.isnan(side.delta) for row in run.rows for side in row.sides())
    wrong = max(in_rows, run.out_of_bounds or 0, run.wrong_on_ranks, nan)
    if wrong or run.bounds_okay is False:
        message = "the collective computed wrong results: %d elements, none allowed" % wrong
        advice = "peer-to-peer through an IOMMU or PCIe switch and a build for another architecture do this as well as a bad card"
        yield Finding("nccl.wrong", "critical", NODE, message, "contact_vendor", advice=advice)
    if run.validated is False:
        yield Finding("nccl.not_validated", "warning", NODE, "bandwidth was measured, results were not checked", advice="run with -c 1")
    if run.last_error:
        yield Finding("nccl.last_error", "warning", NODE, "NCCL's last error: %s" % run.last_error)


def _judge_end(run: Run) -> t.Iterator[Finding]:
    if not run.rows and not run.failures:
        yield _unknown("nccl.incomplete", "no row of the table was printed: nothing was measured")
    if not run.footer and not run.failures:
        yield _unknown("nccl.incomplete", "the closing figures are missing or cut: the run did not come to its end")
    if run.partial_rows:
        yield _unknown("nccl.incomplete", "%d rows are cut or garbled" % run.partial_rows)
    if run.footer and not run.average_busbw:
        yield _unknown("nccl.incomplete", "the average bus bandwidth is 0 or not a number")
    mean = mean_busbw(run.rows)
    if run.footer and run.average_busbw and mean is not None and abs(mean - run.average_busbw) > max(0.01, run.average_busbw / 100):
        message = "the rows average %.4g GB/s, the tool says %.4g: rows are missing from the text" % (mean, run.average_busbw)
        yield Finding("nccl.rows_missing", "info", NODE, message)


def _judge_ranks(run: Run, expected: t.Optional[int]) -> t.Iterator[Finding]:
    if single_rank(run):
        advice = "without MPI every process is a run of its own: build with MPI=1, or use -g"
        yield _unknown("nccl.single_rank", "every GPU talked to itself: that is no bus bandwidth", (), advice)
    elif not run.processes_only and len({rank.rank for rank in run.ranks}) != len(run.ranks):
        yield _unknown("nccl.rank_count", "several ranks have the same number: the tables of several runs are mixed")
    elif expected is not None and run.rank_count != expected:
        yield _unknown("nccl.rank_count", "%s ranks took part, %d expected" % (run.rank_count or "unknown how many", expected))


def single_rank(run: Run) -> bool:
    """Whether one GPU talked to itself: bus bandwidth 0 and an absurd algorithm bandwidth."""
    sides = [side for row in run.rows for side in row.sides()]
    idle = bool(sides) and not any(side.busbw for side in sides) and any(side.algbw for side in sides)
    if run.rank_count is not None and run.rank_count != 1:
        return idle
    # One rank line of eight is what is left of a quotation; the options still say -g 8.
    alone = run.threads is not None and run.gpus is not None and run.threads * run.gpus == 1
    return idle or (alone and run.rank_count == 1)


def _judge_bandwidth(run: Run, floor: t.Optional[t.Mapping[str, t.Any]]) -> t.Iterator[Finding]:
    if run.average_okay is False:
        message = "average bus bandwidth %s GB/s is below 90 %% of NCCL_TESTS_MIN_BW" % _number(run.average_busbw)
        yield _slow(message)
    if floor is None:
        return
    wanted = "%g GB/s at %d bytes" % (floor["value"], floor["message_bytes"])
    ranks = floor.get("gpus")
    if ranks is not None and run.rank_count != ranks:
        seen = "unknown" if run.rank_count is None else str(run.rank_count)
        yield _unknown("nccl.slow", "the floor of %s holds for %d GPUs; number of ranks: %s" % (wanted, ranks, seen))
        return
    rates = [busbw(row) for row in run.rows if row.size == floor["message_bytes"]]
    known = [rate for rate in rates if rate is not None]
    if not known or len(known) != len(rates):
        yield _unknown("nccl.slow", "bus bandwidth was not measured at the size of the floor, %s" % wanted)
    elif min(known) < floor["value"]:
        yield _slow("bus bandwidth %s GB/s, at least %s expected" % (_number(min(known)), wanted))


def _slow(message: str) -> Finding:
    advice = "compare with P2P off, look at NVLink state, PCIe width, ACS and IOMMU"
    return Finding("nccl.slow", "critical", NODE, message, "look_at_code", advice=advice)


def _number(value: t.Optional[float]) -> str:
    return "unknown" if value is None else "%.4g" % value


def _unknown(code: str, message: str, evidence: t.Sequence[str] = (), advice: str = "") -> Finding:
    return Finding(code, "warning", NODE, message, "none", tuple(evidence), advice, undetermined=True)
