# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a dry run leaves behind, rank by rank. Private to kentino.gpu."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .cuda_oom import CudaOom
from .torchelastic import Ending, Torchelastic

# As the job has them (C(_probe/dryrun_job.py)), in the order in which a rank passes through them; step 0 is the warm-up.
BEFORE_STEPS = ("start", "import", "device", "group", "build", "broadcast")
IN_STEP = ("forward", "backward", "allreduce", "optimiser", "gather")
# In these a rank waits for all others.
COLLECTIVES = ("group", "broadcast", "allreduce", "gather")


@dataclass(frozen=True)
class Phase:
    """What a rank was about to do, told before it did it."""

    name: str
    step: t.Optional[int] = None
    usec: t.Optional[int] = None

    @property
    def place(self) -> t.Tuple[int, int]:
        """Where in the run it is; the later, the greater."""
        if self.step is None:
            return -1, BEFORE_STEPS.index(self.name) if self.name in BEFORE_STEPS else len(BEFORE_STEPS)
        return self.step, IN_STEP.index(self.name) if self.name in IN_STEP else len(IN_STEP)

    @property
    def collective(self) -> bool:
        return self.name in COLLECTIVES

    def words(self) -> str:
        if self.step is None:
            return self.name
        return "%s of %s" % (self.name, "step %d" % self.step if self.step else "the warm-up step")


@dataclass(frozen=True)
class Device:
    """The GPU of a rank, as PyTorch names it."""

    index: t.Optional[int] = None  # NVML's
    name: t.Optional[str] = None
    uuid: t.Optional[str] = None
    pci: t.Optional[str] = None
    serial: t.Optional[str] = None  # from another source: PyTorch does not know it
    memory_bytes: t.Optional[int] = None

    def known(self) -> t.Optional[str]:
        """The best name there is for it."""
        return self.uuid or self.pci or (None if self.index is None else "GPU %d" % self.index)


@dataclass(frozen=True)
class Step:
    step: int
    compute_seconds: t.Optional[float] = None  # forward and backward, before it waits for anyone
    reduce_seconds: t.Optional[float] = None  # the all-reduce, waiting for the others included
    step_seconds: t.Optional[float] = None
    loss: t.Optional[float] = None  # may be NaN or infinite: so computed
    gradient_norm: t.Optional[float] = None  # this rank's own
    reduced_gradient_norm: t.Optional[float] = None  # after the all-reduce
    parts: t.Tuple[float, ...] = ()  # how often the part of each rank is in the sum: once
    gathered_losses: t.Tuple[float, ...] = ()  # the losses of all ranks as this one received them


@dataclass(frozen=True)
class Stuck:
    """A phase that lasted, with the stack at that moment."""

    phase: Phase
    seconds: t.Optional[float] = None
    stack: t.Tuple[str, ...] = ()


@dataclass(frozen=True)
class Failure:
    """An exception that ended a rank."""

    type: str
    text: str
    phase: t.Optional[Phase] = None
    stack: t.Tuple[str, ...] = ()
    oom: t.Optional[CudaOom] = None


@dataclass(frozen=True)
class Rank:
    rank: int
    local_rank: t.Optional[int] = None
    world: t.Optional[int] = None  # how many ranks it was told there are
    host: t.Optional[str] = None
    pid: t.Optional[int] = None
    device: t.Optional[Device] = None
    phases: t.Tuple[Phase, ...] = ()
    steps: t.Tuple[Step, ...] = ()
    memory: t.Mapping[str, int] = field(default_factory=dict)
    stuck: t.Tuple[Stuck, ...] = ()
    failure: t.Optional[Failure] = None
    finished: bool = False
    signs: t.Tuple[str, ...] = ()  # lines of its log that tell of CUDA errors, NCCL time-outs and the like
    log_end: t.Tuple[str, ...] = ()
    ending: t.Optional[Ending] = None  # as torchrun saw it
    state: t.Optional[str] = None  # of its process when we ended the run: R S D T Z, "gone"; None: nobody looked
    unreadable: int = 0  # lines of its record

    @property
    def last(self) -> t.Optional[Phase]:
        return self.phases[-1] if self.phases else None


@dataclass(frozen=True)
class DryRun:
    ranks: t.Tuple[Rank, ...] = ()  # those of which anything is known, by number
    outcome: str = "ended"  # as C(_probe/watch.py) has it
    problem: str = ""  # in words why it did not end by itself
    exit_status: t.Optional[int] = None
    launcher: Torchelastic = field(default_factory=Torchelastic)
    output_end: t.Tuple[str, ...] = ()  # the last lines that torchrun printed
    ended_usec: t.Optional[int] = None
    torch_version: t.Optional[str] = None
    cuda_version: t.Optional[str] = None
