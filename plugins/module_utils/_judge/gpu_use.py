# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a GPU is set up and who uses it: MIG, persistence, compute mode, processes. Private to kentino.gpu."""

from __future__ import annotations

import typing as t

from .._parse.gpu_records import Gpu, GpuProcess
from .._report.model import Finding
from .gpu_context import Context, found, is_unsupported
from .gpu_expected import fold


def judge_mig(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    wanted, now, pending = context.expected.get("mig"), gpu.mig_mode, gpu.mig_mode_pending
    if now is None:
        if wanted and is_unsupported(gpu, "mig_mode"):
            yield found(gpu, "gpu.mig", "warning", "the GPU does not support MIG, on expected")
        return
    if pending is not None and pending != now:
        message = "MIG is %s and will be %s after a reset" % (_on(now), _on(pending))
        yield found(gpu, "gpu.mig", "warning", message, "reset_gpu")
    elif wanted is not None and now != wanted:
        message = "MIG is %s, %s expected" % (_on(now), _on(wanted))
        advice = "nvidia-smi -mig %d -i INDEX, then reset the GPU" % wanted
        yield found(gpu, "gpu.mig", "warning", message, "reset_gpu", advice)
    elif now and wanted is None:
        yield found(gpu, "gpu.mig", "info", "MIG is on: diagnostics and burn-in do not load the whole GPU")


def _on(mode: bool) -> str:
    return "on" if mode else "off"


def judge_persistence(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    wanted, now = context.expected.get("persistence"), gpu.persistence_mode
    if wanted and now is None and is_unsupported(gpu, "persistence_mode"):
        yield found(gpu, "gpu.persistence", "warning", "the GPU does not support persistence mode, on expected")
    if wanted is not None and now is not None and now != wanted:
        advice = "enable the unit nvidia-persistenced" if wanted else "stop nvidia-persistenced, or nvidia-smi -pm 0"
        yield found(gpu, "gpu.persistence", "warning", "persistence mode is %s, %s expected" % (_on(now), _on(wanted)), advice=advice)


def judge_compute_mode(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    wanted, now = context.expected.get("compute_mode"), gpu.compute_mode
    if now is None or (wanted is not None and fold(now) == fold(wanted)):
        return
    if fold(now) == "prohibited":
        message = "compute mode %s, %s expected: no program can use the GPU" % (now, wanted or "Default")
        yield found(gpu, "gpu.compute_mode", "critical", message, "look_at_code", "a setting, not a fault: nvidia-smi -c 0 -i INDEX")
    elif wanted is not None:
        advice = "set it with nvidia-smi -c, or correct the expectation"
        yield found(gpu, "gpu.compute_mode", "warning", "compute mode %s, %s expected" % (now, wanted), advice=advice)


def judge_processes(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    """Who holds memory on a GPU that should be free: a stale process is what the next long run meets as out of memory."""
    if not context.expected.get("idle") or not gpu.processes:
        return
    allowed = {_base(name) for name in context.expected.get("allowed_processes", ())}
    foreign = [one for one in gpu.processes if one.pid not in context.own_pids and not (one.name and _base(one.name) in allowed)]
    if foreign:
        evidence = [_words(one) for one in foreign]
        more = ", and %d more" % (len(foreign) - 3) if len(foreign) > 3 else ""
        message = "%d processes use the GPU, none allowed: %s%s" % (len(foreign), "; ".join(evidence[:3]), more)
        advice = "end what is left over, or name it in allowed_processes of gpu_expected"
        yield found(gpu, "gpu.foreign_process", "critical", message, "look_at_code", advice, evidence)


def _base(name: str) -> str:
    """C(/usr/lib/xorg/Xorg vt2) and C(Xorg) are one program; NVML gives the path, some versions with arguments."""
    words = name.strip().split()
    return words[0].rsplit("/", 1)[-1].lower() if words else ""


def _words(process: GpuProcess) -> str:
    size = "%d MiB" % process.used_mib if process.used_mib is not None else "memory not told"
    return "pid %d %s %s" % (process.pid, process.name or "(no name)", size)


def judge_held_memory(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    """Memory that nobody visible holds: a process in a container, a dead one the driver keeps, or a leak of the driver."""
    held, limit = _held_mib(gpu), context.limits["memory_held_mib"]
    # Instances of a sliced GPU list their processes themselves.
    if gpu.mig_mode or gpu.processes is None or gpu.processes or held is None or held <= limit:
        return
    message = "%d MiB in use and no process listed, %g MiB allowed" % (held, limit)
    advice = "look for processes in containers (fuser -v /dev/nvidia*); if there are none, reset the GPU"
    yield found(gpu, "gpu.memory_held", "warning", message, "look_at_code", advice)


def _held_mib(gpu: Gpu) -> t.Optional[int]:
    used, free, total, reserved = gpu.memory_used_mib, gpu.memory_free_mib, gpu.memory_total_mib, gpu.memory_reserved_mib
    if used is None or None in (free, total, reserved):
        return used
    # NVML's first memory call counts what the driver reserves as used; the sum tells which call it was (rounding: 2 MiB).
    counted = abs((free or 0) + used - (total or 0)) <= 2
    return used - (reserved or 0) if counted else used
