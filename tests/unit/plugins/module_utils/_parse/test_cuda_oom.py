# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse.cuda_oom import CudaOom, parse
from hypothesis import given, settings
from hypothesis import strategies as st

MIB, GIB = 1 << 20, 1 << 30


def _sizes(number, unit):
    return round(number * unit)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "CUDA out of memory. Tried to allocate 40.00 MiB (GPU 1; 10.76 GiB total capacity; 9.50 GiB already allocated; "
            "12.56 MiB free; 9.75 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try max_split_size_mb",
            CudaOom(
                gpu=1,
                request_bytes=40 * MIB,
                capacity_bytes=_sizes(10.76, GIB),
                free_bytes=_sizes(12.56, MIB),
                allocated_bytes=_sizes(9.5, GIB),
                reserved_bytes=_sizes(9.75, GIB),
                unallocated_bytes=_sizes(0.25, GIB),
            ),
            id="1.13",
        ),
        pytest.param(
            "CUDA out of memory. Tried to allocate 64.00 MiB. GPU 0 has a total capacty of 15.77 GiB of which 21.88 MiB is free. Including "
            "non-PyTorch memory, this process has 15.74 GiB memory in use. Of the allocated memory 14.10 GiB is allocated by PyTorch, and "
            "511.00 MiB is reserved by PyTorch but unallocated.",
            CudaOom(
                gpu=0,
                request_bytes=64 * MIB,
                capacity_bytes=_sizes(15.77, GIB),
                free_bytes=_sizes(21.88, MIB),
                allocated_bytes=_sizes(14.1, GIB),
                unallocated_bytes=511 * MIB,
                process_bytes=_sizes(15.74, GIB),
            ),
            id="2.1, with its slip of the pen",
        ),
        pytest.param(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 5 has a total capacity of 79.11 GiB of which "
            "1.50 GiB is free. Process 4011 has 30.00 GiB memory in use. Process 4012 has 512.00 MiB memory in use. Including non-PyTorch "
            "memory, this process has 47.00 GiB memory in use. 60.00 GiB allowed; Of the allocated memory 44.00 GiB is allocated by "
            "PyTorch, with 2.00 GiB allocated in private pools (e.g., CUDA Graphs), and 1.00 GiB is reserved by PyTorch but unallocated.",
            CudaOom(
                gpu=5,
                request_bytes=3 * GIB,
                capacity_bytes=_sizes(79.11, GIB),
                free_bytes=_sizes(1.5, GIB),
                allocated_bytes=44 * GIB,
                unallocated_bytes=GIB,
                process_bytes=47 * GIB,
                allowed_bytes=60 * GIB,
                private_pool_bytes=2 * GIB,
                other_processes=((4011, 30 * GIB), (4012, 512 * MIB)),
            ),
            id="2.5, with everything it may hold",
        ),
        pytest.param(
            "CUDA out of memory. Tried to allocate 0.98 GiB. Allocation was preemptively rejected because it would exceed "
            "per_process_memory_fraction limit. Requested size: 1052770304",
            CudaOom(request_bytes=1052770304, limit="per_process_memory_fraction"),
            id="2.14, refused by a limit of its own",
        ),
        pytest.param("RuntimeError: CUDA error: out of memory", CudaOom(outside=True), id="the driver, without a number"),
        pytest.param(
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", CudaOom(outside=True), id="cuBLAS"
        ),
        pytest.param("node1:77:90 [0] NCCL WARN Cuda failure 2 'out of memory'", CudaOom(outside=True), id="NCCL"),
        pytest.param(
            "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
            "8796093022208 bytes. Error code 12 (Cannot allocate memory)",
            CudaOom(request_bytes=8796093022208, host=True),
            id="main memory",
        ),
        pytest.param("|  CUDA OOMs: 0  |  cudaMalloc retries: 0  |", None, id="a report of memory use"),
        pytest.param("PYTORCH_ALLOC_CONF helps if you meet CUDA out of memory errors", None, id="advice"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_texts(text, expected):
    assert parse(text) == expected


def test_a_value_that_is_not_there_is_not_zero():
    found = parse("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 9 GiB of which 0 bytes is free.")
    assert found is not None
    assert (found.free_bytes, found.allocated_bytes, found.process_bytes) == (0, None, None)


@given(st.text(alphabet="0123456789. GMKiBbytesof,;()\n", max_size=120))
@settings(max_examples=80, deadline=None)
def test_no_input_raises(text):
    parse("CUDA out of memory. Tried to allocate " + text)
    parse("CUDA out of memory. %s is reserved by PyTorch but unallocated. %s already allocated" % (text, text))
