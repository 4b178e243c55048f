# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read PyTorch's message that a GPU has no memory left. Private to kentino.gpu.

Written against the texts of PyTorch 1.13 to 2.14. Sizes are binary, and rounded by PyTorch to two digits after the point.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

_UNITS = {"bytes": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_SIZE = r"(\d{1,15}(?:\.\d{1,9})?)\s*(bytes|[KMGT]iB|B)\b"

_REQUEST = re.compile(r"Tried to allocate\s+" + _SIZE, re.I)
# 2.14: Allocation was preemptively rejected because it would exceed per_process_memory_fraction limit. Requested size: 2147483648
_REQUEST_BYTES = re.compile(r"Requested size:\s*(\d{1,18})")
_LIMIT = re.compile(r"would exceed\s+(\w+)\s+limit")
# (GPU 0; 1.96 GiB total capacity; 1.24 GiB already allocated; 2.88 MiB free; 1.25 GiB reserved in total by PyTorch)  up to 2.0
_GPU = re.compile(r"\bGPU (\d{1,9})\b")
_CAPACITY = re.compile(_SIZE + r"\s+total capacity|total capac(?:ity|ty) of\s+" + _SIZE, re.I)
_FREE = re.compile(r"of which\s+" + _SIZE + r"\s+is free|;\s*" + _SIZE + r"\s+free", re.I)
_ALLOCATED = re.compile(_SIZE + r"\s+already allocated|allocated memory\s+" + _SIZE + r"\s+is allocated by PyTorch", re.I)
_RESERVED = re.compile(_SIZE + r"\s+(?:reserved in total by PyTorch|cached)", re.I)
_UNALLOCATED = re.compile(_SIZE + r"\s+is reserved by PyTorch but unallocated", re.I)
_OWN = re.compile(r"this process has\s+" + _SIZE + r"\s+memory in use", re.I)
_OTHERS = re.compile(r"Process (\d{1,9}) has\s+" + _SIZE + r"\s+memory in use", re.I)
_ALLOWED = re.compile(_SIZE + r"\s+allowed\b", re.I)
_POOLS = re.compile(r"with\s+" + _SIZE + r"\s+allocated in private pools", re.I)
# RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 400 bytes
_HOST = re.compile(r"DefaultCPUAllocator: can't allocate memory: you tried to allocate (\d{1,18}) bytes")

# Without a number: the driver had none left for what is not PyTorch's own pool.
_OUTSIDE = (
    "CUDA error: out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDNN_STATUS_ALLOC_FAILED",
    "Cuda failure 2 'out of memory'",
    "Cuda failure 'out of memory'",
    "CUDA ran out of memory outside PyTorch's allocator",
)
# The heading and what follows it; a report of memory use has neither.
_SAYS_SO = ("CUDA out of memory.", "HIP out of memory.")


@dataclass(frozen=True)
class CudaOom:
    gpu: t.Optional[int] = None  # as this process counts
    request_bytes: t.Optional[int] = None
    capacity_bytes: t.Optional[int] = None
    free_bytes: t.Optional[int] = None
    allocated_bytes: t.Optional[int] = None
    reserved_bytes: t.Optional[int] = None  # allocated and not: all that PyTorch holds; up to 2.0
    unallocated_bytes: t.Optional[int] = None  # of it what is in no tensor; since 2.1
    process_bytes: t.Optional[int] = None  # with what CUDA itself takes
    allowed_bytes: t.Optional[int] = None  # a limit that the process set itself
    private_pool_bytes: t.Optional[int] = None  # CUDA graphs
    other_processes: t.Tuple[t.Tuple[int, int], ...] = ()  # process number and bytes
    limit: t.Optional[str] = None  # the self-imposed limit that refused it
    outside: bool = False  # not PyTorch's pool: the driver, a library or NCCL
    host: bool = False  # main memory, not a GPU's


def parse(text: str) -> t.Optional[CudaOom]:
    """None where C(text) tells of no allocation that failed."""
    host = _HOST.search(text)
    if host:
        return CudaOom(request_bytes=int(host.group(1)), host=True)
    outside = next((sign for sign in _OUTSIDE if sign in text), None)
    if not any(sign in text for sign in _SAYS_SO):
        return CudaOom(outside=True) if outside else None
    gpu, limit, exact = _GPU.search(text), _LIMIT.search(text), _REQUEST_BYTES.search(text)
    unallocated, allocated, reserved = (_bytes(pattern, text) for pattern in (_UNALLOCATED, _ALLOCATED, _RESERVED))
    if unallocated is None and allocated is not None and reserved is not None:
        unallocated = max(0, reserved - allocated)
    return CudaOom(
        gpu=int(gpu.group(1)) if gpu else None,
        request_bytes=int(exact.group(1)) if exact else _bytes(_REQUEST, text),
        capacity_bytes=_bytes(_CAPACITY, text),
        free_bytes=_bytes(_FREE, text),
        allocated_bytes=allocated,
        reserved_bytes=reserved,
        unallocated_bytes=unallocated,
        process_bytes=_bytes(_OWN, text),
        allowed_bytes=_bytes(_ALLOWED, text),
        private_pool_bytes=_bytes(_POOLS, text),
        other_processes=tuple((int(found.group(1)), _size(*found.group(2, 3))) for found in _OTHERS.finditer(text)),
        limit=limit.group(1) if limit else None,
        outside=outside is not None,
    )


def _bytes(pattern: t.Pattern[str], text: str) -> t.Optional[int]:
    found = pattern.search(text)
    if found is None:
        return None
    number, unit = (value for value in found.groups() if value is not None)
    return _size(number, unit)


def _size(number: str, unit: str) -> int:
    return round(float(number) * _UNITS[unit.lower()])
