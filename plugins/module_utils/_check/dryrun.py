# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check C(dryrun): a few training steps on all GPUs at once, through torchrun. Private to kentino.gpu."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import time
import typing as t

from .._judge import dryrun as judge
from .._knowledge import thresholds, torch_environment
from .._parse import dryrun as parser
from .._parse.dryrun_records import BEFORE_STEPS, IN_STEP, DryRun, Rank
from .._parse.gpu_records import Gpu
from .._probe import dryrun as probe
from .._probe import dryrun_job
from .._probe.watch import Watched
from .._report.model import Check, Finding, Subject
from . import under_load
from .under_load import Session

NAME = judge.NAME
DEVICES = ("cuda", "cpu")
DTYPES = ("auto", "bfloat16", "float16", "float32")
# Scaled dot product attention came with it.
OLDEST_TORCH = (2, 0)

_TOOL = Subject("tool", name="torchrun")
_INSTALL = "install the package torch for the Python that is to run the job, or name that Python in the option python"
_TAIL_CHARACTERS = 2000
# torchrun gives the other ranks 30 seconds to end before it kills them. What is not over then is not ended by it.
_LAST_SECONDS = 35.0


@dataclasses.dataclass(frozen=True)
class Options(under_load.Options):
    python: t.Optional[str] = None  # the first python3 with PyTorch
    device: str = "cuda"
    ranks: t.Optional[int] = None  # one for each GPU
    steps: int = 3
    width: int = 4096
    heads: int = 32
    layers: int = 2
    vocabulary: int = 32000
    batch_size: int = 1
    sequence_length: int = 4096
    dtype: str = "auto"
    timeout_seconds: float = 60  # how long a rank waits for the others
    run_seconds: float = 600
    results_path: t.Optional[str] = None

    def __post_init__(self) -> None:
        for name in ("steps", "width", "heads", "layers", "batch_size", "sequence_length"):
            if getattr(self, name) < 1:
                raise ValueError("%s is %s, expected 1 or more" % (name, getattr(self, name)))
        if self.vocabulary < 2:
            raise ValueError("vocabulary is %s, expected 2 or more" % self.vocabulary)
        if self.width % self.heads:
            raise ValueError("width is %d, which %d heads do not divide; take a multiple of the heads" % (self.width, self.heads))
        if self.ranks is not None and self.ranks < 1:
            raise ValueError("ranks is %s, expected 1 or more" % self.ranks)
        if self.device == "cpu" and self.ranks is None:
            raise ValueError("ranks is missing; with device: cpu say how many, such as ranks: 2")
        if self.timeout_seconds <= 0 or self.run_seconds <= self.timeout_seconds:
            raise ValueError(
                "timeout_seconds is %g and run_seconds %g; expected a run that is longer, so that a hang is noticed before its end"
                % (self.timeout_seconds, self.run_seconds)
            )


def command(options: Options, python: str, ranks: t.Union[int, str], job: str, spec: str) -> t.List[str]:
    """A free port for the rendezvous; no restart, which would hide what happened."""
    return [
        *(python, "-m", "torch.distributed.run", "--nnodes=1", "--nproc-per-node=%s" % ranks, "--max-restarts=0"),
        *("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", job, spec),
    ]


def plan(options: Options) -> t.Tuple[Check, t.Dict[str, t.Any]]:
    """For check mode: what would be run."""
    thresholds.limits(options.limits)
    found, _missing = _python(options)
    ranks = options.ranks or len(options.gpus) or "(one for each GPU)"
    argv = command(options, found.path if found else options.python or "python3", ranks, "dryrun_job.py", "spec.json")
    facts = _facts(options, argv, None, found)
    return Check(NAME, "", skipped="check mode, it would run: " + " ".join(argv)), facts


def run(options: Options) -> t.Tuple[Check, t.Dict[str, t.Any]]:
    """The check, and the facts it rests on."""
    drill = os.environ.get(dryrun_job.FAULT_VARIABLE, "")
    dryrun_job.read_faults(drill)
    thresholds.limits(options.limits)
    cuda = options.device == "cuda"
    beside = dataclasses.replace(
        options,
        kernel_log_source=options.kernel_log_source if cuda else "none",
    )
    with contextlib.ExitStack() as stack:
        session = _Session(NAME, beside, options.run_seconds)
        stack.enter_context(session)
        refused = session.refusal() if cuda else ()
        found, missing = (None, None) if refused else _python(options)
        if refused or found is None:
            findings = refused or ((missing,) if missing else ())
            return Check(NAME, "", findings), _facts(options, [], session, found)
        ranks = options.ranks or len(session.gpus)
        folder = stack.enter_context(probe.Folder(options.results_path))
        folder.write(_spec(options))
        session.follow(folder, options.steps)
        argv = command(options, found.path, ranks, folder.job, folder.spec)
        # What we cannot take away ourselves any more.
        afterwards = () if options.results_path else ("rm", "-rf", folder.path)
        done = session.run(argv, options.run_seconds, variables=_variables(found.torch, folder.path), afterwards=afterwards)
        output = (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace")
        left = (folder.records(), folder.logs(), output)
        record = parser.parse(*left, done.rc, done.outcome, _problem(done), session.states, session.ended_usec)
        record = _placed(record, session.gpus if cuda else ())
        policy = {
            "ranks": ranks,
            "steps": options.steps,
            "device": options.device,
            "timeout_seconds": options.timeout_seconds,
            "limits": options.limits,
            "drill": drill,
            "tokens_per_step": ranks * options.batch_size * options.sequence_length,
        }
        check = judge.check(record, policy)
        if cuda:
            check = dataclasses.replace(check, findings=(*check.findings, *session.findings()))
        session.standing.errors = sum(finding.verdict == "fail" for finding in check.findings)
        facts = _facts(options, argv, session, found, record, output)
        facts["wall_seconds"] = round(done.seconds, 1)
        if options.results_path:
            facts["results_path"] = folder.path
        return check, facts


class _Session(under_load.Session):
    """Follows the ranks as well: how far they are, and in which state their processes were when the run was ended."""

    def __init__(self, step: str, options: under_load.Options, total_seconds: float) -> None:
        super().__init__(step, options, total_seconds)
        self.states: t.Dict[int, str] = {}
        self.ended_usec: t.Optional[int] = None
        self._folder: t.Optional[probe.Folder] = None
        self._phases = 0
        self._failed: t.Optional[float] = None

    def follow(self, folder: probe.Folder, steps: int) -> None:
        self._folder = folder
        self._phases = len(BEFORE_STEPS) + (steps + 1) * len(IN_STEP)

    def run(self, *arguments: t.Any, **more: t.Any) -> t.Any:
        done = super().run(*arguments, **more)
        # What a rank did last counts from when the tool was told to end, not from when it was gone.
        self.ended_usec = self.ended_usec if done.outcome == "stopped" else int(time.time() * 1e6)
        return done

    def _tick(self, stops: bool, until: float) -> t.Optional[str]:
        return self._look() or super()._tick(stops, until)

    def _look(self) -> t.Optional[str]:
        if self._folder is None:
            return None
        ranks = parser.parse(self._folder.records(), {}).ranks
        for rank in ranks:
            if rank.pid is not None:
                self.states[rank.rank] = probe.process_state(rank.pid)
        failed = [rank for rank in ranks if rank.failure or (not rank.finished and self.states.get(rank.rank) in ("gone", "Z"))]
        if ranks:
            self.standing.percent = round(100.0 * min(len(rank.phases) for rank in ranks) / max(1, self._phases), 1)
        self.standing.errors = len(failed)
        if not failed:
            return None
        self._failed = self._failed or time.monotonic()
        if time.monotonic() < self._failed + _LAST_SECONDS:
            return None
        self.ended_usec = int(time.time() * 1e6)
        return "a rank had ended and the others did not end within %.0f s" % _LAST_SECONDS


def _python(options: Options) -> t.Tuple[t.Optional[probe.Python], t.Optional[Finding]]:
    """The first Python with a PyTorch that is new enough, or why there is none."""
    asked = []
    for path in probe.pythons(options.python):
        found = probe.ask(path, options.deadline_seconds)
        version = torch_environment.version(found.torch)
        # A version that cannot be read is tried: the job itself tells what is missing.
        if found.torch is not None and (not version or version >= OLDEST_TORCH):
            return found, None
        asked.append(found)
    words = [one.problem or "%s has %s" % (one.path, "PyTorch %s" % one.torch if one.torch else "none") for one in asked]
    wanted = "PyTorch %d.%d or newer (package torch) was not found: %s" % (*OLDEST_TORCH, "; ".join(words) or "there is no python3")
    return None, Finding("tool.missing", "warning", _TOOL, wanted, advice=_INSTALL, undetermined=True)


def _spec(options: Options) -> t.Dict[str, t.Any]:
    return {
        **_size(options),
        "device": options.device,
        "timeout_seconds": options.timeout_seconds,
        # Until all ranks are there; from a cold disk that takes as long as it takes.
        "start_seconds": options.run_seconds,
        "patience_seconds": options.timeout_seconds / 2,
    }


def _size(options: Options) -> t.Dict[str, t.Any]:
    """What must be the same where two runs are compared."""
    names = ("dtype", "steps", "width", "heads", "layers", "vocabulary", "batch_size", "sequence_length")
    return {name: getattr(options, name) for name in names}


def _variables(torch_version: t.Optional[str], folder: str) -> t.Dict[str, t.Optional[str]]:
    # Variables for torchrun's own options would change what was asked for.
    inherited: t.Dict[str, t.Optional[str]] = {name: None for name in os.environ if name.startswith("PET_")}
    variables = torch_environment.hang_variables(torch_version, os.path.join(folder, "flight_recorder_rank_"))
    # torchrun makes a folder of its own, and leaves it when it is killed.
    variables.update(OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore", TMPDIR=folder)
    if "NCCL_DEBUG" not in os.environ:
        variables["NCCL_DEBUG"] = "WARN"
    return {**inherited, **variables}


def _problem(done: Watched) -> str:
    if done.outcome == "timeout":
        return "torchrun had not ended after %.0f s and was killed" % done.seconds
    return dataclasses.replace(done, argv=("torchrun",)).problem()


def _placed(record: DryRun, gpus: t.Sequence[Gpu]) -> DryRun:
    """PyTorch counts the GPUs that it sees: give each rank the names that its card has."""
    return dataclasses.replace(record, ranks=tuple(_with_names(rank, gpus) for rank in record.ranks))


def _with_names(rank: Rank, gpus: t.Sequence[Gpu]) -> Rank:
    device = rank.device
    if device is None:
        return rank
    same = [
        *(gpu for gpu in gpus if device.uuid and gpu.uuid == device.uuid),
        *(gpu for gpu in gpus if device.pci and gpu.pci == device.pci),
        *(gpu for gpu in gpus if not device.uuid and not device.pci and gpu.index is not None and gpu.index == device.index),
    ]
    if not same:
        return rank
    gpu = same[0]
    device = dataclasses.replace(device, index=gpu.index, uuid=gpu.uuid, pci=gpu.pci, serial=gpu.serial, name=device.name or gpu.name)
    return dataclasses.replace(rank, device=device)


def _facts(
    options: Options,
    argv: t.Sequence[str],
    session: t.Optional[Session],
    python: t.Optional[probe.Python],
    record: t.Optional[DryRun] = None,
    output: str = "",
) -> t.Dict[str, t.Any]:
    return {
        "argv": list(argv),
        "python": python.path if python else None,
        "torch_version": python.torch if python else None,
        "cuda_version": record.cuda_version if record else None,
        "device": options.device,
        "settings": _size(options),
        "gpus": [gpu.index for gpu in session.gpus] if session and options.device == "cuda" else [],
        "outcome": record.outcome if record else "not_run",
        "exit_status": record.exit_status if record else None,
        "wall_seconds": 0.0,
        "ranks": [_rank_facts(rank) for rank in record.ranks] if record else [],
        "output_tail": output[-_TAIL_CHARACTERS:],
        "results_path": None,
        "simulated": session.simulated if session else False,
    }


def _rank_facts(rank: Rank) -> t.Dict[str, t.Any]:
    ending, failure = rank.ending, rank.failure
    facts: t.Dict[str, t.Any] = {
        "rank": rank.rank,
        "host": rank.host,
        "pid": rank.pid,
        "finished": rank.finished,
        "last_phase": rank.last.words() if rank.last else None,
        "steps": [{key: _json(value) for key, value in vars(step).items() if not isinstance(value, tuple)} for step in rank.steps],
        "memory": dict(rank.memory),
    }
    if rank.device is not None:
        facts["gpu"] = {key: value for key, value in vars(rank.device).items() if value is not None}
    if ending is not None:
        facts.update(exit_code=ending.exit_code, signal=ending.signal)
    if failure is not None:
        facts["failure"] = {"type": failure.type, "text": failure.text[:_TAIL_CHARACTERS], "stack": list(failure.stack)}
    if not rank.finished:
        facts.update(log_end=list(rank.log_end), stack=list(rank.stuck[-1].stack) if rank.stuck else [], state=rank.state)
    return facts


def _json(value: t.Any) -> t.Any:
    """A loss that is no number is no JSON either."""
    return repr(value) if isinstance(value, float) and not math.isfinite(value) else value
