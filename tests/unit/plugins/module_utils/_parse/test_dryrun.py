# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import math

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse import dryrun, dryrun_records
from ansible_collections.kentino.gpu.plugins.module_utils._parse.dryrun_records import Device, Phase
from ansible_collections.kentino.gpu.plugins.module_utils._probe import dryrun_job
from hypothesis import given, settings
from hypothesis import strategies as st

RECORD = """\
{"kind": "rank", "usec": 1000, "pid": 71, "host": "node4", "rank": 0, "local_rank": 0, "world": 2}
{"kind": "phase", "usec": 1001, "phase": "import", "step": null}
{"kind": "versions", "usec": 1002, "torch": "2.9.1", "cuda": "12.8"}
{"kind": "device", "usec": 1003, "index": 4, "name": "NVIDIA L40S", "uuid": "GPU-aa", "pci": "0000:c1:00", "memory_bytes": 48318382080}
{"kind": "phase", "usec": 1004, "phase": "allreduce", "step": 1}
{"kind": "stuck", "usec": 1005, "phase": "allreduce", "step": 1, "seconds": 31.5, "stack": ["job.py:9 run", "job.py:7 _step"]}
{"kind": "step", "step": 1, "compute_seconds": 0.5, "loss": "nan", "gradient_norm": 2, "parts": [1, 1], "gathered_losses": ["nan", 4]}
{"kind": "memory", "usec": 1007, "peak_reserved_bytes": 1024, "alloc_retries": 3, "ooms": null}
{"kind": "finished", "usec": 1008}
"""


def _rank(record, log="", **more):
    (rank,) = dryrun.parse({0: record}, {0: log}, **more).ranks
    return rank


def test_every_kind_of_line_is_read():
    run = dryrun.parse({0: RECORD}, {}, exit_status=0)
    (rank,) = run.ranks
    assert (rank.pid, rank.host, rank.world, rank.finished, rank.unreadable) == (71, "node4", 2, True, 0)
    assert rank.device == Device(4, "NVIDIA L40S", "GPU-aa", "0000:c1:00", None, 48318382080)
    assert rank.phases == (Phase("import", None, 1001), Phase("allreduce", 1, 1004))
    assert rank.memory == {"peak_reserved_bytes": 1024, "alloc_retries": 3}
    assert rank.stuck[0].stack == ("job.py:9 run", "job.py:7 _step")
    (step,) = rank.steps
    assert math.isnan(step.loss)
    assert (step.compute_seconds, step.gradient_norm, step.reduce_seconds, step.parts) == (0.5, 2.0, None, (1.0, 1.0))
    assert math.isnan(step.gathered_losses[0])
    assert step.gathered_losses[1] == 4.0
    assert (run.torch_version, run.cuda_version, run.exit_status) == ("2.9.1", "12.8", 0)


def test_the_order_of_phases_is_that_of_the_job():
    assert dryrun_records.BEFORE_STEPS == dryrun_job.BEFORE_STEPS
    assert dryrun_records.IN_STEP == dryrun_job.IN_STEP
    assert dryrun_records.COLLECTIVES == dryrun_job.COLLECTIVES
    places = [Phase(name).place for name in dryrun_job.BEFORE_STEPS]
    places += [Phase(name, step).place for step in (0, 1) for name in dryrun_job.IN_STEP]
    assert places == sorted(set(places))


@pytest.mark.parametrize(
    ("line", "unreadable"),
    [
        ('{"kind": "phase", "phase": "forw', 1),
        ("[]", 1),
        ("[" * 5000, 1),
        ('{"kind": "finished"', 1),
        ('{"kind": "surprise"}', 1),
        ('{"kind": "step", "step": "one"}', 1),
        ("\x00\x00", 1),
        ("   ", 0),
    ],
)
def test_what_is_cut_or_garbled_is_counted(line, unreadable):
    rank = _rank('{"kind": "phase", "phase": "start", "step": null, "usec": 5}\n' + line)
    assert rank.unreadable == unreadable
    assert rank.phases == (Phase("start", None, 5),)
    assert not rank.finished


def test_an_exception_keeps_its_place_and_its_memory():
    entry = {
        "kind": "error",
        "phase": "backward",
        "step": 2,
        "type": "OutOfMemoryError",
        "text": "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 10.00 GiB of which 1.00 GiB is free.",
        "stack": ["one", "two"],
        "reserved_bytes": 77,
    }
    rank = _rank(json.dumps(entry))
    assert rank.failure is not None
    assert rank.failure.phase is not None
    assert rank.failure.phase.words() == "backward of step 2"
    assert rank.failure.oom is not None
    assert rank.failure.oom.request_bytes == 2 << 30
    assert rank.memory == {"reserved_bytes": 77}


def test_memory_that_nccl_lacked_stands_in_the_log_only():
    entry = {"kind": "error", "phase": "allreduce", "step": 0, "type": "DistBackendError", "text": "NCCL error: unhandled cuda error"}
    rank = _rank(json.dumps(entry), "node4:71:99 [0] NCCL WARN Cuda failure 2 'out of memory'\n")
    assert rank.failure is not None
    assert rank.failure.oom is not None
    assert rank.failure.oom.outside


def test_signs_of_a_fault_are_kept_once_and_the_end_of_the_log_as_well():
    log = (
        "hello\n[rank0]: CUDA error: unspecified launch failure\n"
        + "noise\n" * 40
        + "[rank0]: CUDA error: unspecified launch failure\nlast"
    )
    rank = _rank("", log)
    assert rank.signs == ("[rank0]: CUDA error: unspecified launch failure",)
    assert rank.log_end[-1] == "last"
    assert len(rank.log_end) == 20


OUTPUT = "failed (exitcode: -9) local_rank: 0 (pid: 71) of binary: /usr/bin/python3\n"


def test_the_end_that_torchrun_saw_goes_to_its_rank_by_process():
    rank = _rank(RECORD, output=OUTPUT)
    assert rank.ending is not None
    assert rank.ending.exit_code == -9


def test_a_rank_that_left_nothing_is_known_from_torchrun_alone():
    block = "Root Cause (first observed failure):\n rank : 1 (local_rank: 1)\n exitcode : 1 (pid: 99)\n"
    run = dryrun.parse({0: RECORD}, {}, block)
    assert [(rank.rank, rank.pid) for rank in run.ranks] == [(0, 71), (1, 99)]
    assert run.ranks[1].ending is not None


def test_an_end_of_another_process_is_not_given_to_a_rank():
    rank = _rank(RECORD, output=OUTPUT.replace("pid: 71", "pid: 72"))
    assert rank.ending is None


def test_a_rank_without_a_record_has_its_log():
    run = dryrun.parse({}, {3: "Fatal Python error: init"}, states={3: "D"}, ended_usec=5)
    assert [(rank.rank, rank.signs, rank.state) for rank in run.ranks] == [(3, ("Fatal Python error: init",), "D")]


def test_a_record_that_is_cut_did_not_finish():
    assert not any(_rank(RECORD[:cut]).finished for cut in range(len(RECORD) - 2))


_SIMPLE = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
_VALUES = _SIMPLE | st.lists(_SIMPLE, max_size=3) | st.dictionaries(st.text(max_size=3), _SIMPLE, max_size=2)
_KINDS = st.sampled_from(["rank", "device", "phase", "step", "memory", "stuck", "error", "finished", "versions", "x"])
_KEYS = st.sampled_from(
    ["phase", "step", "usec", "pid", "world", "loss", "parts", "gathered_losses", "stack", "text", "type", "uuid", "torch", "peak_bytes"]
)


@given(st.lists(st.builds(lambda kind, values: {**values, "kind": kind}, _KINDS, st.dictionaries(_KEYS, _VALUES, max_size=6)), max_size=6))
@settings(max_examples=60, deadline=None)
def test_no_record_raises(entries):
    dryrun.parse({0: "\n".join(json.dumps(entry) for entry in entries)}, {})


@given(st.text(), st.text())
@settings(max_examples=40, deadline=None)
def test_no_text_raises(record, log):
    dryrun.parse({0: record}, {0: log}, log)
