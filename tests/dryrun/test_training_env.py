# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether PyTorch obeys the variables that we give it, as far as that shows on a CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from ansible_collections.kentino.gpu.plugins.module_utils._knowledge import training_env

# More than PyTorch keeps by itself.
CALLS = 2500
JOB = (
    """
import json, pickle, tempfile, torch, torch.distributed as dist
with tempfile.NamedTemporaryFile() as file:
    dist.init_process_group("gloo", rank=0, world_size=1, init_method="file://" + file.name + ".store")
    tensor = torch.ones(4)
    for _ in range(%d):
        dist.all_reduce(tensor)
    dump = torch._C._distributed_c10d._dump_fr_trace()
    kept = len(pickle.loads(dump)["entries"])
    print(json.dumps({"kept": kept, "bytes": len(dump), "allocator": torch._C._accelerator_getAllocatorSettings()}))
"""
    % CALLS
)


def trained(variables):
    """What a process with these variables and no others of training tells, and what it complains about."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL", "TORCH", "PYTORCH"))}
    done = subprocess.run([sys.executable, "-c", JOB], env={**clean, **variables}, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def test_names_of_this_version_are_obeyed_without_complaint():
    told, complaints = trained(training_env.profile(torch.__version__))
    assert (told["kept"], told["allocator"]) == (CALLS, "expandable_segments:True")
    assert "deprecated" not in complaints
    assert told["bytes"] < CALLS * training_env.DUMP_ENTRY_BYTES.value


def test_names_of_all_versions_are_obeyed():
    told, _complaints = trained(training_env.profile(None))
    assert (told["kept"], told["allocator"]) == (CALLS, "expandable_segments:True")


@pytest.mark.parametrize("name", ["TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"])
def test_size_of_the_recorder_counts_under_either_name(name):
    told, complaints = trained({name: "100"})
    assert told["kept"] == 100
    assert ("deprecated" in complaints) == (name == "TORCH_NCCL_TRACE_BUFFER_SIZE")


def test_names_are_in_the_library_or_its_headers():
    folder = Path(torch.__file__).parent
    texts = [path.read_bytes() for path in (folder / "include/torch/csrc/distributed/c10d").glob("*.hpp")]
    texts += [path.read_bytes() for path in (folder / "lib").glob("*.so") if path.name in ("libtorch_cpu.so", "libc10.so")]
    names = [name for name in training_env.profile(torch.__version__) if name.startswith(("TORCH_", "PYTORCH_"))]
    assert len(names) >= 7
    assert not [name for name in names if not any(name.encode() in text for text in texts)]
