# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Dry runs for the tests of their judge: what ranks leave that finish, die, hang or wait."""

from __future__ import annotations

import typing as t

from ansible_collections.kentino.gpu.plugins.module_utils._parse.dryrun_records import (
    BEFORE_STEPS,
    IN_STEP,
    Device,
    DryRun,
    Failure,
    Phase,
    Rank,
    Step,
)
from ansible_collections.kentino.gpu.plugins.module_utils._parse.torchelastic import Ending, Torchelastic, signal_name

STEPS = 2
POLICY = {"ranks": 4, "steps": STEPS, "device": "cuda", "timeout_seconds": 60}
ENDED_USEC = 1_000_000_000

GLOO_TIMED_OUT = "[unbound_buffer.cc:78] Timed out waiting 60000ms for recv operation to complete"
GLOO_CLOSED = "[pair.cc:553] Connection closed by peer [127.0.0.1]:20623. This is typically caused by a remote worker crashing."
NCCL_WATCHDOG = (
    "[rank0]:[E314 09:15:25.1 ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, "
    "OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, Timeout(ms)=60000) ran for 60020 milliseconds before timing out."
)


def device(number: int, **more: t.Any) -> Device:
    known = {"index": number, "name": "NVIDIA H100", "uuid": "GPU-%d" % number, "pci": "0000:%02x:00" % (number + 1)}
    return Device(**{**known, "serial": "S%d" % number, **more})


def step(number: int, ranks: int = 4, loss: float = 5.0, **more: t.Any) -> Step:
    known = {"compute_seconds": 0.1, "reduce_seconds": 0.02, "step_seconds": 0.15, "gradient_norm": 2.0, "reduced_gradient_norm": 2.0}
    return Step(number, **{**known, "loss": loss, "parts": (1.0,) * ranks, "gathered_losses": (loss,) * ranks, **more})


def phases(last: str, last_step: t.Optional[int] = None, waited_seconds: float = 40) -> t.Tuple[Phase, ...]:
    """All phases up to that one, which it entered so long before the end."""
    every = [(name, None) for name in BEFORE_STEPS] + [(name, number) for number in range(STEPS + 1) for name in IN_STEP]
    passed = every[: every.index((last, last_step)) + 1]
    return tuple(Phase(name, number, ENDED_USEC - round(waited_seconds * 1e6)) for name, number in passed)


def rank(number: int, last: str = "gather", last_step: t.Optional[int] = STEPS, waited_seconds: float = 40, **more: t.Any) -> Rank:
    """One that did not finish unless C(finished) is said."""
    known: t.Dict[str, t.Any] = {"local_rank": number, "world": 4, "host": "node4", "pid": 7000 + number, "device": device(number)}
    known["phases"] = phases(last, last_step, waited_seconds)
    known["steps"] = tuple(step(done) for done in range(last_step or 0))
    return Rank(number, **{**known, **more})


def finished(number: int, steps: t.Optional[t.Sequence[Step]] = None, **more: t.Any) -> Rank:
    return rank(number, finished=True, **{"steps": tuple(steps or [step(done) for done in range(STEPS + 1)]), **more})


def failed(
    number: int, text: str, last: str = "allreduce", last_step: t.Optional[int] = 1, kind: str = "RuntimeError", **more: t.Any
) -> Rank:
    phase = Phase(last, last_step)
    failure = Failure(kind, text, phase, ("File job.py", "raise", text), more.pop("oom", None))
    return ended(rank(number, last, last_step, failure=failure, **more), 1)


def ended(one: Rank, exit_code: int) -> Rank:
    ending = Ending(exit_code, one.pid or 0, one.rank, one.rank, "node4", signal=signal_name(exit_code))
    return Rank(**{**vars(one), "ending": ending})


def run(*ranks: Rank, closed: t.Sequence[int] = (), **more: t.Any) -> DryRun:
    """C(closed): ranks that torchrun asked to end."""
    bad = any(not one.finished for one in ranks)
    known: t.Dict[str, t.Any] = {"exit_status": 1 if bad else 0, "ended_usec": ENDED_USEC, "torch_version": "2.9.1"}
    known["launcher"] = Torchelastic(closed_pids=tuple(7000 + number for number in closed))
    return DryRun(tuple(ranks), **{**known, **more})


def healthy(**more: t.Any) -> DryRun:
    return run(*(finished(number) for number in range(4)), **more)
