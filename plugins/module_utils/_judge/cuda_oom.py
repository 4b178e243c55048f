# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why a GPU had no memory left, and what helps. Private to kentino.gpu."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .._knowledge.torch_environment import allocator_variable
from .._parse.cuda_oom import CudaOom

# What CUDA, its libraries and NCCL take beside PyTorch's pool, at most.
_CONTEXT_BYTES = 3 << 30


@dataclass(frozen=True)
class Cause:
    """C(kind): impossible, limit, spill, other_process, fragmentation, suspicious, activations, outside, host, or unknown."""

    kind: str
    message: str
    advice: str
    evidence: t.Tuple[str, ...] = ()


def cause(
    oom: CudaOom,
    foreign_pct: float = 5,
    torch_version: t.Optional[str] = None,
    own_pids: t.Collection[int] = (),
) -> Cause:
    """C(foreign_pct): share of the card that others must hold to count. C(own_pids): processes of the same job."""
    if oom.host:
        message = "the host refused %s of main memory" % _size(oom.request_bytes)
        return Cause("host", message, "main memory, a container's limit or the overcommit setting: it is not a GPU's")
    if oom.request_bytes is None and oom.outside:
        message = "a library or the driver found no memory on the GPU"
        return Cause("outside", message, "leave more of the card to what is not a tensor: a smaller batch, or a lower memory fraction")
    request, capacity = oom.request_bytes, oom.capacity_bytes
    if request is not None and capacity is not None and request > capacity:
        message = "one request of %s is larger than the whole card, %s" % (_size(request), _size(capacity))
        return Cause("impossible", message, "no setting helps: a tensor of this size comes of a batch or sequence that is too long")
    if oom.limit or (oom.allowed_bytes is not None and capacity is not None and oom.allowed_bytes < capacity):
        name = oom.limit or "the memory fraction of %s" % _size(oom.allowed_bytes)
        return Cause("limit", "a limit that the process set itself refused %s: %s" % (_size(request), name), "raise that limit")
    if capacity is not None and oom.allocated_bytes is not None and oom.allocated_bytes > capacity:
        message = "tensors take %s, more than the card's %s: the rest lies in main memory" % (_size(oom.allocated_bytes), _size(capacity))
        return Cause("spill", message, "the driver moved memory to the host: make the job smaller")
    return _shared(oom, foreign_pct, own_pids) or _fragmented(oom, torch_version) or _filled(oom)


def _shared(oom: CudaOom, foreign_pct: float, own_pids: t.Collection[int]) -> t.Optional[Cause]:
    others = foreign(oom)
    held = sum(size for _pid, size in others)
    floor = (oom.capacity_bytes or 0) * foreign_pct / 100
    if not others or held < floor:
        return None
    evidence = tuple("process %d holds %s" % (pid, _size(size)) for pid, size in others)
    siblings = [pid for pid, _size in others if pid in own_pids]
    message = "%s of the card are held by others (%s); %s were asked for" % (_size(held), ", ".join(evidence[:3]), _size(oom.request_bytes))
    if siblings:
        advice = "process %d is another rank of this job: two ranks share a GPU, look at CUDA_VISIBLE_DEVICES" % siblings[0]
    else:
        advice = "end what is left over: ps -fp %s" % ",".join(str(pid) for pid, _size in others)
    return Cause("other_process", message, advice, evidence)


def foreign(oom: CudaOom) -> t.Tuple[t.Tuple[int, int], ...]:
    """The other processes on the card, the largest first.

    In a container the driver gives the number that this process has outside, and PyTorch does not recognise itself: then no line
    says what "this process has", and the process that holds what PyTorch holds is it.
    """
    others = sorted(oom.other_processes, key=lambda other: -other[1])
    held = (oom.allocated_bytes or 0) + (oom.unallocated_bytes or 0)
    if oom.process_bytes is None and held:
        own = next((other for other in reversed(others) if held <= other[1] <= held + _CONTEXT_BYTES), None)
        others = [other for other in others if other is not own]
    return tuple(others)


def _fragmented(oom: CudaOom, torch_version: t.Optional[str]) -> t.Optional[Cause]:
    spare, request = oom.unallocated_bytes, oom.request_bytes
    if spare is None or request is None or spare < request or (oom.free_bytes or 0) >= request:
        return None
    message = "%s are reserved and in no tensor, in pieces too small for %s" % (_size(spare), _size(request))
    return Cause("fragmentation", message, "set %s=expandable_segments:True" % allocator_variable(torch_version))


def _filled(oom: CudaOom) -> Cause:
    request = _size(oom.request_bytes)
    if oom.request_bytes is not None and oom.free_bytes is not None and oom.free_bytes > oom.request_bytes:
        message = "%s were refused although %s are free" % (request, _size(oom.free_bytes))
        return Cause("suspicious", message, "not the size of the memory: a limit on the process, MIG, or the driver; read the kernel log")
    if oom.allocated_bytes is None:
        return Cause("unknown", "%s were refused, and the message does not say what fills the card" % request, "look with nvidia-smi")
    message = "tensors of this job take %s of %s; %s more were asked for" % (_size(oom.allocated_bytes), _size(oom.capacity_bytes), request)
    advice = "activations grow with batch and sequence: make either smaller, recompute activations, or shard the model over more GPUs"
    return Cause("activations", message, advice)


def _size(number: t.Optional[int]) -> str:
    if number is None:
        return "an unknown amount"
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if number >= factor:
            return "%.4g %s" % (number / factor, unit)
    return "%d bytes" % number
