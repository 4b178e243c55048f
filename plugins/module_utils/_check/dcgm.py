# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check C(dcgm): run NVIDIA's diagnostic and judge each test on each GPU. Private to kentino.gpu."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import shutil
import typing as t

from .._judge import dcgm as judge
from .._judge import dcgm_coverage
from .._judge.gpu_context import subject
from .._knowledge import dcgm_errors, dcgm_flaky, thresholds
from .._parse import dcgm_diag as parser
from .._parse.dcgm_diag import DcgmDiag, DiagRun, DiagTest
from .._parse.gpu_records import Gpu
from .._probe import command as probe
from .._probe.watch import Watched
from .._report.model import NODE, Check, Finding
from . import under_load
from .under_load import Session

NAME = judge.NAME
TOOL = "dcgmi"
PACKAGE = "datacenter-gpu-manager"
LEVELS = (1, 2, 3, 4)

# What a level mostly takes on eight GPUs, to tell how far it is.
_TYPICAL_SECONDS = {1: 15, 2: 150, 3: 900, 4: 5400}
# On SIGTERM dcgmi asks the host engine to stop its diagnostic, which takes a moment; killed, it leaves it running.
_TERM_SECONDS = 2.5
_OTHER_SECONDS = 20.0
_TAIL_CHARACTERS = 2000


@dataclasses.dataclass(frozen=True)
class Options(under_load.Options):
    level: int = 3
    run_seconds: t.Optional[float] = None  # longest time for the diagnostic; the threshold of the level
    required_tests: t.Optional[t.Sequence[str]] = None  # as the judge takes them
    errors: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)  # overrides of the error table, by number
    pause_profiling: bool = True
    retry: bool = True
    cool_down_seconds: t.Optional[float] = None  # that of the flaky pair

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ValueError("level is %r, expected one of %s" % (self.level, ", ".join(map(str, LEVELS))))
        if self.run_seconds is not None and self.run_seconds <= 0:
            raise ValueError("run_seconds is %r, expected a number of seconds above 0" % self.run_seconds)
        for number in self.errors:
            if not str(number).isdecimal():
                raise ValueError("errors has the key %r, expected the number of a DCGM error, such as 52" % (number,))
            dcgm_errors.lookup(int(number), self.errors)


def command(options: Options, tests: t.Optional[str] = None) -> t.List[str]:
    argv = [shutil.which(TOOL) or TOOL, "diag", "-r", tests or str(options.level), "-j"]
    return [*argv, "-i", ",".join(map(str, options.gpus))] if options.gpus else argv


def plan(options: Options) -> t.Tuple[Check, t.Dict[str, t.Any]]:
    """For check mode: what would be run."""
    argv = command(options)
    return Check(NAME, "", skipped="check mode, it would run: " + " ".join(argv)), _facts(options, argv)


def run(options: Options) -> t.Tuple[Check, t.Dict[str, t.Any]]:
    """The check, and the facts it rests on."""
    limits = thresholds.limits(options.limits)
    seconds = options.run_seconds if options.run_seconds is not None else limits["dcgm_seconds_level%d" % options.level]
    argv = command(options)
    with Session(NAME, options, _TYPICAL_SECONDS[options.level]) as session:
        refused = (*_judge_mig(session), *session.refusal())
        if refused:
            return Check(NAME, "", refused), _facts(options, argv, session)
        with _paused_profiling(options) as paused:
            runs = _diagnose(options, session, argv, seconds)
        findings = [*_findings(options, session, runs), *paused.findings, *session.findings()]
        check = judge.check(runs[0].merged, _policy(options, session, runs[0].merged))
        evidence = check.evidence if runs[0].done.outcome == "ended" else ""
        check = dataclasses.replace(check, evidence=evidence, findings=tuple(findings))
        return check, _facts(options, argv, session, runs)


@dataclasses.dataclass
class _Run:
    done: Watched
    record: DcgmDiag
    merged: DcgmDiag  # with the results of what was run again in the place of those that it replaces
    pair: t.Optional[dcgm_flaky.FlakyPair] = None  # why it was run again
    mended: bool = False

    @property
    def text(self) -> str:
        return self.done.stdout.decode("utf-8", "replace")


def _diagnose(options: Options, session: Session, argv: t.Sequence[str], seconds: float) -> t.List[_Run]:
    """The diagnostic, and the second run of a test that is known for failing at first."""
    resume = [argv[0], "profile", "--resume"] if options.pause_profiling else []
    first = _run(session, argv, seconds, resume)
    runs = [first]
    pair = _flaky(first.record) if options.retry and first.done.outcome == "ended" else None
    if pair is None:
        return runs
    session.wait(pair.cool_down_seconds if options.cool_down_seconds is None else options.cool_down_seconds)
    again = _run(session, command(options, pair.test), seconds, resume)
    again.pair = pair
    again.mended = again.done.outcome == "ended" and _passed(again.record, pair.test)
    if again.mended:
        first.merged = _with_retried(first.record, again.record, pair.test)
    return [*runs, again]


def _run(session: Session, argv: t.Sequence[str], seconds: float, resume: t.Sequence[str]) -> _Run:
    done = session.run(argv, seconds, term_seconds=_TERM_SECONDS, afterwards=resume)
    text = (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace")
    record = parser.parse(text, done.rc)
    return _Run(done, record, record)


def _flaky(record: DcgmDiag) -> t.Optional[dcgm_flaky.FlakyPair]:
    """The known pair that explains the failure of a test, and of nothing else."""
    if len(record.runs) != 1 or not record.complete:
        return None
    tests = record.runs[0].tests
    for pair in dcgm_flaky.PAIRS:
        errors = [error for test in tests if _is(test, pair.test) and test.status == "fail" for error in _errors(test)]
        before = any(test.executed for test in tests for name in pair.after if _is(test, name))
        if errors and before and all(pair.words in error.lower() for error in errors):
            return pair
    return None


def _errors(test: DiagTest) -> t.List[str]:
    failed = [result for result in test.results if result.status == "fail"]
    return [error.text for result in failed for error in result.errors] + [error.text for error in test.errors]


def _is(test: DiagTest, name: str) -> bool:
    return _folded(test.name) == _folded(name)


def _folded(name: str) -> str:
    """C(Targeted Stress) of DCGM 3 and C(targeted_stress) of DCGM 4 are one test."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _passed(record: DcgmDiag, name: str) -> bool:
    tests = [test for run in record.runs for test in run.tests if _is(test, name)]
    return record.complete and bool(tests) and all(test.status == "pass" and not _errors(test) for test in tests)


def _with_retried(first: DcgmDiag, again: DcgmDiag, name: str) -> DcgmDiag:
    """The first record with the second result of one test; its exit status told of the first."""
    good = [test for run in again.runs for test in run.tests if _is(test, name)]

    def replaced(run: DiagRun) -> DiagRun:
        return dataclasses.replace(run, tests=(*(test for test in run.tests if not _is(test, name)), *good))

    merged = dataclasses.replace(first, runs=tuple(map(replaced, first.runs)))
    failed = any(test.status == "fail" for run in merged.runs for test in run.tests)
    return merged if failed else dataclasses.replace(merged, exit_status=again.exit_status)


def _findings(options: Options, session: Session, runs: t.Sequence[_Run]) -> t.Iterator[Finding]:
    first = runs[0]
    problem = under_load.outcome_finding(first.done, PACKAGE)
    if problem:
        yield problem
    if first.done.outcome in ("missing", "denied"):
        return
    for finding in judge.judge(first.merged, _policy(options, session, first.merged)):
        yield session.named(finding)
    for again in runs[1:]:
        if again.pair is not None:
            yield _retried(first, again, again.pair)


def _policy(options: Options, session: Session, record: DcgmDiag) -> t.Dict[str, t.Any]:
    # Level 1 of DCGM 2 and 3 tests the node as a whole and names no GPU.
    by_gpu = options.level > 1 or any(dcgm_coverage.tested_gpus(run) for run in record.runs)
    policy = {"required_tests": options.required_tests, "errors": options.errors}
    return {**policy, "expected_gpus": len(session.gpus)} if by_gpu else policy


def _retried(first: _Run, again: _Run, pair: dcgm_flaky.FlakyPair) -> Finding:
    name = pair.test
    before = [error for run in first.record.runs for test in run.tests if _is(test, name) for error in _errors(test)]
    if again.mended:
        message = "%s failed at first and passed when run again alone: known of this version" % name
    elif again.done.outcome != "ended":
        message = "%s was to be run again, as it is known to fail at first: %s" % (name, again.done.problem())
    else:
        message = "%s failed, also when run again alone: not the failure that is known of it" % name
    return Finding("dcgm.retried", "info", NODE, message, evidence=tuple(before[:3]), advice=pair.source)


def _judge_mig(session: Session) -> t.Iterator[Finding]:
    """The diagnostic refuses to run when one GPU of the node, chosen or not, has MIG on (NVIDIA/DCGM#31, #70, #94)."""
    on = [gpu for gpu in session.first.gpus if gpu.mig_mode]
    if on:
        message = "MIG is on for %s, and DCGM's diagnostic then runs on no GPU of the node; nothing was run" % _numbers(on)
        advice = "turn MIG off for the test (nvidia-smi -mig 0), or leave this step out where MIG is meant"
        about = subject(on[0]) if len(on) == 1 else NODE
        yield Finding("dcgm.mig", "warning", about, message, "none", tuple(subject(gpu).label() for gpu in on), advice, undetermined=True)


def _numbers(gpus: t.Sequence[Gpu]) -> str:
    return "GPU " + ", ".join(str(gpu.index) for gpu in gpus)


@dataclasses.dataclass
class _Pause:
    findings: t.List[Finding] = dataclasses.field(default_factory=list)


@contextlib.contextmanager
def _paused_profiling(options: Options) -> t.Iterator[_Pause]:
    """The exporter's profiling metrics hold a lock on the counters that tests want (NVIDIA/dcgm-exporter#7, DCGM#56, #62)."""
    pause = _Pause()
    if not options.pause_profiling or shutil.which(TOOL) is None:
        yield pause
        return
    complaint = _profile("--pause")
    if complaint:
        message = "the exporter's metrics were not paused: %s" % complaint
        pause.findings.append(Finding("dcgm.profiling", "info", NODE, message))
    try:
        yield pause
    finally:
        complaint = None if complaint else _profile("--resume")
        if complaint:
            message = "the exporter's metrics are still paused: %s" % complaint
            advice = "run dcgmi profile --resume, or restart the exporter"
            pause.findings.append(Finding("dcgm.profiling_paused", "warning", NODE, message, advice=advice))


def _profile(option: str) -> t.Optional[str]:
    """Why it did not work."""
    done = probe.run([TOOL, "profile", option], _OTHER_SECONDS)
    if done.outcome == "ended" and done.rc == 0:
        return None
    said = (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace").split("\n")
    return done.problem() or next((line.strip() for line in said if line.strip()), "status %s" % done.rc)


def _facts(options: Options, argv: t.Sequence[str], session: t.Optional[Session] = None, runs: t.Sequence[_Run] = ()) -> t.Dict[str, t.Any]:
    return {
        "argv": list(argv),
        "level": options.level,
        "gpus": [gpu.index for gpu in session.gpus] if session else list(options.gpus),
        "runs": [_told(run) for run in runs],
        "simulated": session.simulated if session else False,
    }


def _told(run: _Run) -> t.Dict[str, t.Any]:
    tests = [
        {
            "name": test.name,
            "status": test.status,
            "gpus": {str(result.id): result.status for result in test.results if result.group == "GPU" and result.id is not None},
        }
        for one in run.record.runs
        for test in one.tests
    ]
    return {
        "argv": list(run.done.argv),
        "outcome": run.done.outcome,
        "exit_status": run.done.rc,
        "wall_seconds": round(run.done.seconds, 1),
        "dcgm_version": next((one.dcgm_version for one in run.record.runs if one.dcgm_version), None),
        "tests": tests,
        "output_tail": "" if tests and run.record.complete else run.text[-_TAIL_CHARACTERS:],
    }
