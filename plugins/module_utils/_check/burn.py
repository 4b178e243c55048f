# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check C(burn): load all GPUs with gpu-burn and judge what it prints, what the GPUs say and what the kernel logs.

Private to kentino.gpu.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import typing as t

from .._judge import burn as judge
from .._judge import load
from .._knowledge import thresholds
from .._parse.gpu_burn import GpuBurn, Progress
from .._parse.gpu_burn_stream import BurnStream
from .._probe.watch import Watched
from .._report.model import NODE, Check, Finding, Subject
from . import under_load
from .under_load import Session

NAME = judge.NAME
TOOL = "gpu_burn"
PACKAGE = "gpu-burn (https://github.com/wilicc/gpu-burn, built where it runs), on the PATH or in /opt/gpu-burn"

_HOMES = ("/opt/gpu-burn", "/usr/local/gpu-burn")
_KERNELS = ("compare.ptx", "compare.fatbin")
_MEMORY = re.compile(r"(\d{1,7})(%?)\Z")
# Beyond its run time: the clients start and fill their memory, and 30 seconds are left to them to end.
_GRACE_SECONDS, _GRACE_PART = 60.0, 0.1
# What says that a run which we ended did not come to its end.
_OF_A_STOP = ("burn.incomplete", "burn.no_progress", "burn.exit_status")
_OF_SILENCE = ("burn.incomplete", "burn.gpu_count", "burn.short")
_TAIL_CHARACTERS = 2000


@dataclasses.dataclass(frozen=True)
class Options(under_load.Options):
    seconds: int = 600
    doubles: bool = False
    tensor_cores: bool = False
    memory: t.Optional[str] = None  # 90% of what is free, or MB
    binary: t.Optional[str] = None
    minimum_seconds: t.Optional[float] = None  # a shorter run proves nothing; the threshold of the precision
    floor_gflops: t.Optional[t.Mapping[str, t.Any]] = None  # value, and where it comes from
    slow_tolerance_pct: t.Optional[float] = None
    power_share_pct: t.Optional[float] = None

    def __post_init__(self) -> None:
        if self.seconds < 1:
            raise ValueError("seconds is %s, expected 1 or more; 600 is what finds silent faults" % self.seconds)
        match = _MEMORY.match(str(self.memory)) if self.memory is not None else None
        if self.memory is not None and (not match or not 0 < int(match.group(1)) <= (100 if match.group(2) else 1 << 20)):
            raise ValueError("memory is %r, expected a share such as '90%%' or a number of MB such as '20000'" % self.memory)
        value = (self.floor_gflops or {}).get("value")
        if self.floor_gflops is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or value <= 0):
            raise ValueError("floor_gflops.value is %r, expected the Gflop/s that each GPU must reach, such as 48000" % (value,))


def command(options: Options) -> t.Tuple[t.List[str], t.Optional[str]]:
    """What is run, and in which folder: the tool looks for its compare kernel in the current one. No folder: it is not there."""
    path, folder = _find(options.binary)
    words = [path]
    words += ["-d"] if options.doubles else []
    words += ["-tc"] if options.tensor_cores else []
    words += ["-m", str(options.memory)] if options.memory is not None else []
    # The time comes last: the tool takes the first word behind those it counted, and counts only those that it knows.
    return [*words, str(options.seconds)], folder


def _find(binary: t.Optional[str]) -> t.Tuple[str, t.Optional[str]]:
    names = [binary] if binary else [TOOL, *(os.path.join(home, TOOL) for home in _HOMES)]
    path = next((found for found in map(shutil.which, names) if found), None)
    if path is None:
        return binary or TOOL, None
    # A link in /usr/local/bin leads to where the kernel is.
    folders = [os.path.dirname(os.path.abspath(path)), os.path.dirname(os.path.realpath(path))]
    beside = [folder for folder in folders if any(os.path.exists(os.path.join(folder, kernel)) for kernel in _KERNELS)]
    return os.path.abspath(path), (beside or folders)[0]


def run(options: Options) -> t.Tuple[Check, t.Dict[str, t.Any]]:
    """The check, and the facts it rests on. Never longer than the run time and its grace, and five seconds to end the tool."""
    limits = thresholds.limits(options.limits)
    minimum = options.minimum_seconds
    if minimum is None:
        minimum = limits["burn_doubles_seconds" if options.doubles else "burn_seconds"]
    argv, folder = command(options)
    deadline = options.seconds + max(_GRACE_SECONDS, options.seconds * _GRACE_PART)
    with Session(NAME, options, options.seconds) as session:
        refused = session.refusal()
        if refused:
            return Check(NAME, "", refused), _facts(options, argv, folder, session)
        burner = _Burner(session)
        done = session.run(argv, deadline, burner.feed, stops=True, folder=folder)
        record = burner.stream.record(done.stderr.decode("utf-8", "replace"), done.rc)
        tolerance = options.slow_tolerance_pct
        policy = {
            "expected_gpus": len(session.gpus),
            "run_seconds": minimum,
            "floor_gflops": options.floor_gflops,
            "slow_tolerance_pct": limits["load_slow_tolerance_pct"] if tolerance is None else tolerance,
        }
        check = _check(session, done, record, policy)
        own = {TOOL, os.path.basename(argv[0])}
        seen = session.findings(power_share_pct=options.power_share_pct, slow_tolerance_pct=tolerance, own_names=own)
        if done.outcome in ("missing", "denied"):
            # Nothing was loaded: that the GPUs were idle is no news.
            seen = tuple(finding for finding in seen if not finding.code.startswith("load."))
        check = dataclasses.replace(check, findings=(*check.findings, *seen), metrics=_metrics(check, session))
        return check, _facts(options, argv, folder, session, done, burner.stream.text())


class _Burner:
    """Listens to the tool: keeps its records, tells how far it is, and stops it when a GPU has failed for certain."""

    def __init__(self, session: Session) -> None:
        self.stream = BurnStream()
        self._session = session

    def feed(self, chunk: bytes) -> t.Optional[str]:
        for progress in self.stream.feed(chunk):
            why = self._take(progress)
            if why:
                return why
        if self.stream.overflow:
            return self._session.stop(Subject("tool", name=TOOL), "it prints without end")
        return None

    def _take(self, progress: Progress) -> t.Optional[str]:
        standing = self._session.standing
        standing.percent = progress.percent if progress.percent is not None else standing.percent
        one = GpuBurn(progress=(progress,))
        dead, wrong = judge.died(one), judge.with_errors(one)
        standing.errors += len(wrong) + len(dead)
        # One that never worked may be a build that lacks this card: the tool tells why at its end, which comes soon.
        dead = tuple(gpu for gpu in dead if any(work > 0 for work in progress.work))
        for gpus, why in ((wrong, "computed wrong results"), (dead, "the process that burnt it died")):
            if gpus:
                return self._session.stop(self._session.of_number(gpus[0], len(progress.work)), why)
        return None


def _check(session: Session, done: Watched, record: GpuBurn, policy: t.Mapping[str, t.Any]) -> Check:
    check = judge.check(record, policy)
    problem = under_load.outcome_finding(done, PACKAGE)
    if done.outcome in ("missing", "denied"):
        return Check(NAME, "", (problem,) if problem else ())
    findings = [_placed(session, finding, record.gpus) for finding in check.findings]
    if session.stopped:
        about, why = session.stopped
        findings = [finding for finding in findings if not (finding.undetermined and finding.code in _OF_A_STOP)]
        standing = session.standing.percent
        far = "before its first record" if standing is None else "at %.1f %%" % standing
        message = "the burn-in was stopped early, %s: %s %s" % (far, about.label(), why)
        findings.append(Finding("burn.stopped", "critical", about, message))
    if problem:
        # Of a run that printed nothing before it was killed, that it measured nothing says it all.
        silent = () if record.progress else _OF_SILENCE
        findings = [problem, *(finding for finding in findings if finding.code not in silent)]
    evidence = check.evidence if done.outcome == "ended" else ""
    return dataclasses.replace(check, evidence=evidence, findings=tuple(findings))


def _placed(session: Session, finding: Finding, seen: t.Optional[int]) -> Finding:
    """The tool numbers the GPUs that it tests: put the card's names in the place of its number."""
    if finding.subject.kind != "gpu":
        return finding
    about = session.of_number(finding.subject.index, seen)
    message = finding.message
    if about.index is not None and about.index != finding.subject.index:
        message = message.replace("GPU %d" % (finding.subject.index or 0), "GPU %d" % about.index)
    return dataclasses.replace(finding, subject=about, message=message)


def _metrics(check: Check, session: Session) -> t.Dict[str, t.Any]:
    by_gpu = load.metrics(session.samples, session.load_policy())
    rates = check.metrics.get("gflops", {})
    for number, rate in rates.items():
        about = session.of_number(int(number), len(rates))
        if about.index is not None:
            by_gpu.setdefault(str(about.index), {})["gflops"] = rate
    return {"gpus": by_gpu, "samples": len(session.samples)}


def _facts(
    options: Options,
    argv: t.Sequence[str],
    folder: t.Optional[str],
    session: t.Optional[Session] = None,
    done: t.Optional[Watched] = None,
    text: str = "",
) -> t.Dict[str, t.Any]:
    about, why = session.stopped if session and session.stopped else (NODE, None)
    return {
        "argv": list(argv),
        "folder": folder,
        "seconds": options.seconds,
        "gpus": [gpu.index for gpu in session.gpus] if session else list(options.gpus),
        "outcome": done.outcome if done else "not_run",
        "exit_status": done.rc if done else None,
        "wall_seconds": round(done.seconds, 1) if done else 0.0,
        "stopped": "%s %s" % (about.label(), why) if why else None,
        "output_tail": text[-_TAIL_CHARACTERS:],
        "simulated": session.simulated if session else False,
    }


def plan(options: Options) -> t.Tuple[Check, t.Dict[str, t.Any]]:
    """For check mode: what would be run."""
    argv, folder = command(options)
    return Check(NAME, "", skipped="check mode, it would run: " + " ".join(argv)), _facts(options, argv, folder)
