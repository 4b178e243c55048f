# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge.cuda_oom import cause, foreign
from ansible_collections.kentino.gpu.plugins.module_utils._parse.cuda_oom import CudaOom

MIB, GIB = 1 << 20, 1 << 30
# A card of 80 GiB, full of the job's own tensors.
FULL = {
    "gpu": 0,
    "request_bytes": 2 * GIB,
    "capacity_bytes": 80 * GIB,
    "free_bytes": GIB,
    "allocated_bytes": 77 * GIB,
    "unallocated_bytes": 300 * MIB,
    "process_bytes": 79 * GIB,
}


def _oom(**changes):
    return CudaOom(**{**FULL, **changes})


@pytest.mark.parametrize(
    ("oom", "kind"),
    [
        pytest.param(_oom(), "activations", id="full of its own tensors"),
        pytest.param(_oom(request_bytes=120 * GIB), "impossible", id="larger than the card"),
        pytest.param(_oom(request_bytes=80 * GIB), "activations", id="as large as the card"),
        pytest.param(_oom(allocated_bytes=40 * GIB, unallocated_bytes=37 * GIB), "fragmentation", id="enough is reserved, in pieces"),
        pytest.param(_oom(allocated_bytes=75 * GIB, unallocated_bytes=2 * GIB), "fragmentation", id="just enough is reserved"),
        pytest.param(_oom(unallocated_bytes=2 * GIB - 1), "activations", id="not quite enough is reserved"),
        pytest.param(
            _oom(allocated_bytes=40 * GIB, process_bytes=41 * GIB, other_processes=((91, 38 * GIB),)), "other_process", id="another process"
        ),
        pytest.param(_oom(other_processes=((91, 300 * MIB),)), "activations", id="a display server is no reason"),
        pytest.param(
            _oom(other_processes=((91, 2 * GIB), (92, 2 * GIB)), allocated_bytes=60 * GIB), "other_process", id="two small ones together"
        ),
        pytest.param(_oom(free_bytes=20 * GIB, allocated_bytes=50 * GIB), "suspicious", id="refused although it is free"),
        pytest.param(_oom(limit="per_process_memory_fraction"), "limit", id="a fraction that the process set"),
        pytest.param(_oom(allowed_bytes=40 * GIB), "limit", id="the same in the words of 2.2"),
        pytest.param(_oom(allowed_bytes=80 * GIB), "activations", id="a fraction of one limits nothing"),
        pytest.param(_oom(allocated_bytes=90 * GIB), "spill", id="more tensors than the card holds"),
        pytest.param(CudaOom(outside=True), "outside", id="a library, without numbers"),
        pytest.param(CudaOom(request_bytes=8 * GIB, host=True), "host", id="main memory"),
        pytest.param(CudaOom(request_bytes=GIB), "unknown", id="nothing but the request"),
        pytest.param(CudaOom(), "unknown", id="not even that"),
    ],
)
def test_causes(oom, kind):
    found = cause(oom)
    assert found.kind == kind
    assert found.advice


def test_the_other_process_is_named_with_what_it_holds():
    found = cause(_oom(allocated_bytes=40 * GIB, other_processes=((91, 3 * GIB), (92, 30 * GIB))))
    assert found.message == "33 GiB of the card are held by others (process 92 holds 30 GiB, process 91 holds 3 GiB); 2 GiB were asked for"
    assert found.advice == "end what is left over: ps -fp 92,91"


def test_another_rank_on_the_same_card_is_told_from_a_stranger():
    found = cause(_oom(other_processes=((91, 30 * GIB),)), own_pids=[90, 91])
    assert "process 91 is another rank" in found.advice


@pytest.mark.parametrize(
    ("changes", "others"),
    [
        pytest.param({"process_bytes": 29 * GIB}, (92, 91), id="this process is named apart: both are others"),
        pytest.param({"process_bytes": None}, (91,), id="in a container: the one that holds what we hold is ours"),
        pytest.param({"process_bytes": None, "allocated_bytes": GIB}, (92, 91), id="in a container: none holds what we hold"),
    ],
)
def test_this_process_is_not_another(changes, others):
    values = {"allocated_bytes": 28 * GIB, "unallocated_bytes": 400 * MIB, "other_processes": ((91, 15 * GIB), (92, 29 * GIB)), **changes}
    assert tuple(pid for pid, _size in foreign(_oom(**values))) == others


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("2.8.0", "PYTORCH_CUDA_ALLOC_CONF"),
        ("2.9.1+cu128", "PYTORCH_ALLOC_CONF"),
        ("2.14.1", "PYTORCH_ALLOC_CONF"),
        (None, "PYTORCH_ALLOC_CONF"),
    ],
)
def test_the_setting_has_the_name_of_the_version(version, name):
    found = cause(_oom(allocated_bytes=40 * GIB, unallocated_bytes=37 * GIB), torch_version=version)
    assert found.advice == "set %s=expandable_segments:True" % name


def test_the_share_of_others_is_a_limit():
    oom = _oom(allocated_bytes=70 * GIB, other_processes=((91, 6 * GIB),))
    assert (cause(oom, foreign_pct=5).kind, cause(oom, foreign_pct=10).kind) == ("other_process", "activations")
