# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse.gpu_burn import ListedGpu, parse
from hypothesis import given, settings
from hypothesis import strategies as st


def _record(line):
    (record,) = parse(line).progress
    return record


@pytest.mark.parametrize(
    ("line", "work", "errors", "flags", "temps"),
    [
        pytest.param(
            "\r12.5%  proc'd: 300 (8120 Gflop/s)   errors: 0   temps: 61 C \n", (300,), (0,), ("",), (61,), id="one GPU has no separators"
        ),
        pytest.param(
            "40.0%  proc'd: 10 (900 Gflop/s) - 0 (0 Gflop/s)   errors: 0 - 0   temps: 51 C - 45 C ",
            (10, 0),
            (0, 0),
            ("", ""),
            (51, 45),
            id="no work yet",
        ),
        pytest.param(
            "99.0%  proc'd: 7 (1 Gflop/s) - 8 (1 Gflop/s) - 9 (1 Gflop/s)   errors: 0 - -4096  (WARNING!)- 17  (WARNING!)"
            "  temps: -- - 45 C - -- ",
            (7, 8, 9),
            (0, -4096, 17),
            ("", "WARNING!", "WARNING!"),
            (None, 45, None),
            id="no blank behind a word, counters below zero, temperatures absent",
        ),
        pytest.param(
            "30.0%  proc'd: -1 (0 Gflop/s) - -1 (0 Gflop/s)   errors: -533715488  (DIED!)- 1278531568  (DIED!)  temps: 30 C - 31 C ",
            (-1, -1),
            (-533715488, 1278531568),
            ("DIED!", "DIED!"),
            (30, 31),
            id="both died, counters never written",
        ),
    ],
)
def test_progress_records(line, work, errors, flags, temps):
    record = _record(line)
    assert (record.work, record.errors, record.flags, record.temps_c) == (work, errors, flags, temps)
    assert record.whole


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("10.0%  proc'd: 5 (1 Gflop/s) - 6 (1 Gf", id="cut in the work"),
        pytest.param("10.0%  proc'd: 5 (1 Gflop/s) - 6 (1 Gflop/s)   errors: 0 - 1", id="cut in a counter"),
        pytest.param("10.0%  proc'd: 5 (1 Gflop/s) - 6 (1 Gflop/s)   errors: 0 - ", id="cut before a counter"),
        pytest.param("10.0%  proc'd: 5 (1 Gflop/s) - 6 (1 Gflop/s)   errors: 0   temps: 40 C - 40 C", id="a counter is missing"),
        pytest.param("10.0%  proc'd: 5 (1 Gflop/s) - 6 (1 Gflop/s)   errors: x - y   temps: 40 C - 40 C", id="counters are garbled"),
    ],
)
def test_a_record_that_is_not_whole_says_so(line):
    assert not _record(line).whole


def test_a_childs_line_between_records_is_not_lost():
    text = (
        "\r5.0%  proc'd: 4 (9 Gflop/s)   errors: 0   temps: 40 C Couldn't init a GPU test: Error in \"load module\": \n"
        "read[0] error 0\r50.0%  proc'd: -1 (0 Gflop/s)   errors: 5  (DIED!)  temps: 40 C read[0] error 050.0%  proc'd: -1 (0 Gflop/s)"
        "   errors: 6  (DIED!)  temps: 40 C "
    )
    burn = parse(text)
    assert [record.percent for record in burn.progress] == [5.0, 50.0, 50.0]
    assert burn.init_errors == ('Couldn\'t init a GPU test: Error in "load module":',)
    assert burn.unrecognised == ()


def test_the_head():
    burn = parse(
        "Run length not specified in the command line. Using compare file: compare.ptx\nBurning for 10 seconds.\n"
        "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-1a2b)\nGPU 1: Quadro M4000\n"
        "Initialized device 1 with 8126 MB of memory (8016 MB available, using 7214 MB of it), using DOUBLES, using Tensor Cores\n"
        "Results are 33554432 bytes each, thus performing 222 iterations\nhello\n"
    )
    assert burn.listed == (ListedGpu(0, "NVIDIA A100-SXM4-80GB", "GPU-1a2b"), ListedGpu(1, "Quadro M4000"))
    assert (burn.requested_seconds, burn.initialised, burn.precision) == (10, (1,), "DOUBLES, using Tensor Cores")
    assert burn.unrecognised == ("hello",)


_RECORD = "100.0%  proc'd: 5 (9 Gflop/s) - 5 (9 Gflop/s)   errors: 0 - 0   temps: 40 C - 40 C \n"


@pytest.mark.parametrize(
    ("text", "announced", "results", "complete"),
    [
        pytest.param(_RECORD + "\nTested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: FAULTY\n", 2, ((0, "OK"), (1, "FAULTY")), True, id="whole block"),
        pytest.param(
            _RECORD + "\nTested 2 GPUs:\n        GPU 0: OK\n        GPU 1: OK",
            2,
            ((0, "OK"), (1, "OK")),
            True,
            id="blanks for the tab, no last line end",
        ),
        pytest.param(_RECORD + "\nTested 2 GPUs:\n\tGPU 0: OK\n\tGPU 1: FAU", 2, ((0, "OK"),), False, id="cut in a word"),
        pytest.param(_RECORD + "\nTested 2 GPUs:\n\tGPU 0: OK\n\tGPU 0: OK\n", 2, ((0, "OK"), (0, "OK")), False, id="one GPU twice"),
        pytest.param("\tGPU 0: OK\n\tGPU 1: FAULTY\n", None, ((0, "OK"), (1, "FAULTY")), False, id="only the tail of the log"),
        pytest.param("Tested 1 GPUs:\n\tGPU 0: OK\n" + _RECORD, 1, ((0, "OK"),), False, id="a record after the block: another run began"),
        pytest.param("Tested 1 GPUs:\n\tGPU 0: OK\nBurning for 9 seconds.\n", 1, ((0, "OK"),), False, id="another run was started"),
        pytest.param("Tested 0 GPUs:\n", 0, (), False, id="nothing tested"),
    ],
)
def test_result_blocks(text, announced, results, complete):
    burn = parse(text)
    assert (burn.announced, burn.results, burn.complete) == (announced, results, complete)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        pytest.param("Couldn't init a GPU test: Error: \n", "init_errors", id="child could not start"),
        pytest.param("  what():  Error (gpu_burn-drv.cpp:298): system not yet initialized\n", "init_errors", id="no Fabric Manager"),
        pytest.param("No CUDA devices\n", "init_errors", id="no devices"),
        pytest.param("./gpu_burn: error while loading shared libraries: libcublas.so.13: cannot open\n", "init_errors", id="loader"),
        pytest.param(
            'Failure during compute: Error in "Read faultyelemdata": CUDA_ERROR_UNKNOWN\n', "failures", id="CUDA failed in the run"
        ),
        pytest.param("Aborted (core dumped)\n", "crashes", id="crashed"),
        pytest.param("Cannot find anything\n", "unrecognised", id="something else"),
    ],
)
def test_trouble_is_told_apart(text, where):
    assert getattr(parse(text), where) == (text.strip(),)


def test_noise_of_other_programs_is_no_reason_once_records_follow():
    burn = parse("sh: ps: command not found\n" + _RECORD)
    assert burn.init_errors == ()
    assert burn.unrecognised == ("sh: ps: command not found",)


_PIECES = (
    "10.0%  proc'd: ",
    "5 (9 Gflop/s) ",
    "- ",
    "  errors: ",
    "0 ",
    "-7  (WARNING!)",
    "(DIED!)",
    "  temps: ",
    "40 C ",
    "-- ",
    "\r",
    "\n",
)
_MORE = ("Tested 2 GPUs:", "GPU 0: OK", "GPU 1: FAULTY", "Burning for 9 seconds.", "\x00", "\x1b[0m", "é", "9" * 30, "nan", "%")


@settings(max_examples=150)
@given(st.lists(st.sampled_from(_PIECES + _MORE) | st.text(max_size=5), max_size=25))
def test_no_text_raises_and_no_record_is_lost(pieces):
    text = "".join(pieces)
    assert len(parse(text).progress) >= text.count("%  proc'd: ")
