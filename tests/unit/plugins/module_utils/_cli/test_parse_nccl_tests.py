# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._cli.parse_nccl_tests import answer
from hypothesis import given, settings
from hypothesis import strategies as st

_HEAD = (
    "# nThread 1 nGpus 4 minBytes 4194304 maxBytes 8388608 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n"
    "#\n# Using devices\n"
    "#  Rank  0 Group  0 Pid   7001 on     node-a device  0 [0x1b] NVIDIA H200\n"
    "#  Rank  1 Group  0 Pid   7001 on     node-a device  1 [0x43] NVIDIA H200\n"
    "#\n#                                                              out-of-place                       in-place          \n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       \n"
)
_ROWS = (
    "     4194304       1048576     float     sum      -1   160.20   26.18   45.82      0   158.90   26.40   46.19      0\n"
    "     8388608       2097152     float     sum      -1   214.50   39.11   68.44      0   213.00   39.38   68.92      0\n"
)
_FOOT = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 57.3425 \n#\n"
_GOOD = _HEAD + _ROWS + _FOOT


def test_a_healthy_run_passes():
    told = answer(_GOOD, 0)
    (run,) = told["runs"]
    assert told["verdict"] == "pass"
    assert (run["verdict"], run["complete"], run["validated"], run["avg_busbw"]) == ("pass", True, True, 57.3425)
    assert run["out_of_bounds"] == {"count": 0, "okay": True}
    assert [(row["size"], row["in_place"]["busbw"]) for row in run["rows"]] == [(4194304, 46.19), (8388608, 68.92)]
    assert [(rank["rank"], rank["host"], rank["bus"]) for rank in run["ranks"]] == [(0, "node-a", "0x1b"), (1, "node-a", "0x43")]


def test_a_bad_exit_status_of_a_clean_run_is_no_pass():
    assert answer(_GOOD, None)["verdict"] == "pass"
    assert answer(_GOOD, 1)["verdict"] == "unknown"


def test_no_beginning_of_a_good_run_passes():
    # Ending at the last digit of the average is how people quote; before that something is missing.
    proof = _GOOD.index("57.3425") + len("57.3425")
    passing = [end for end in range(len(_GOOD)) if answer(_GOOD[:end], 0)["verdict"] == "pass"]
    assert [end for end in passing if end < proof] == []
    # A blank is where the word FAILED would begin.
    assert proof + 1 not in passing


def test_neither_closing_figure_can_be_left_out():
    lines = _GOOD.split("\n")
    for number, line in enumerate(lines):
        if "Out of bounds" in line or "Avg bus" in line:
            assert answer("\n".join(lines[:number] + lines[number + 1 :]), 0)["verdict"] == "unknown"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        pytest.param("".join("[1,0]<stdout>:%s\n" % line for line in _GOOD.splitlines()), "pass", id="mpirun --tag-output"),
        pytest.param(_GOOD.replace("\n", "\r\n"), "pass", id="CRLF"),
        pytest.param(_GOOD.replace("     4194304", "4194304").replace("     8388608", "8388608"), "pass", id="left margin trimmed"),
        pytest.param(_GOOD.rstrip(" #\n"), "pass", id="quoted to the last digit"),
        pytest.param(
            _GOOD.replace("     8388608", "n:1:2 [0] NCCL INFO Error counters disabled\n     8388608"), "pass", id="a harmless Error"
        ),
        pytest.param("n:1:2 [0] misc/x.cc:1 NCCL WARN Missing ibverbs\n" + _GOOD, "pass", id="a warning of NCCL"),
        pytest.param(_GOOD.replace("68.44      0", "68.44      3"), "fail", id="three wrong elements"),
        pytest.param(_GOOD.replace("0 OK", "12 FAILED"), "fail", id="wrong results only in the footer"),
        pytest.param(_GOOD + "rank=3 #wrong=17\n", "fail", id="wrong results only in a debugging line"),
        pytest.param(_FOOT.replace("0 OK", "248 FAILED"), "fail", id="nothing but a bad footer"),
        pytest.param(_GOOD.replace("57.3425 ", "57.3425 FAILED"), "fail", id="below NCCL_TESTS_MIN_BW"),
        pytest.param(_HEAD + _ROWS, "unknown", id="no footer"),
        pytest.param(_HEAD + _FOOT, "unknown", id="no rows"),
        pytest.param(_FOOT, "unknown", id="nothing but a good footer"),
        pytest.param(
            _HEAD + _ROWS + "node-a: Test NCCL failure common.cu:1204 'unhandled cuda error / '\n", "fail", id="perfect rows, then a crash"
        ),
        pytest.param(
            _GOOD + "node-a: Test CUDA failure common.cu:9 'x'\n .. node-a pid 7: Test failure common.cu:1\n",
            "fail",
            id="failed at the end",
        ),
        pytest.param(
            _GOOD + "mpirun noticed that process rank 1 exited on signal 11 (Segmentation fault).\n", "fail", id="crashed at the end"
        ),
        pytest.param(_GOOD + "slurmstepd: error: *** STEP 1.0 CANCELLED AT 2026 DUE TO TIME LIMIT ***\n", "unknown", id="cancelled"),
        pytest.param(_GOOD + "# error: Cuda failure 1\n", "warn", id="NCCL complained of something"),
        pytest.param(
            _GOOD.replace("validation: 1", "validation: 0").replace("      0\n", "    N/A\n").replace("      0  ", "    N/A  "),
            "warn",
            id="-c 0",
        ),
        pytest.param(_GOOD + _HEAD + _ROWS, "unknown", id="a second run was cut"),
        pytest.param(_GOOD + _GOOD.replace("0 OK", "1 FAILED"), "fail", id="a second run is wrong"),
        pytest.param(_GOOD.replace("   39.11", ""), "unknown", id="a number lost in a row"),
        pytest.param(_GOOD.replace("Rank  1", "Rank  0"), "unknown", id="two runs mixed"),
        pytest.param(_GOOD.replace("57.3425", "nan"), "unknown", id="average not a number"),
        pytest.param("There are not enough slots available in the system\n", "unknown", id="could not start"),
        pytest.param("hello", "unknown", id="something else"),
        pytest.param("", "unknown", id="empty"),
    ],
)
def test_verdicts(text, verdict):
    assert answer(text, None)["verdict"] == verdict


def test_one_rank_alone_measures_no_bandwidth():
    rows = "     4194304       1048576     float     sum      -1     3.10 1352.99    0.00      0     0.90 4660.34    0.00      0\n"
    text = _HEAD.replace("nGpus 4", "nGpus 1").replace("#  Rank  1 Group  0 Pid   7001 on     node-a device  1 [0x43] NVIDIA H200\n", "")
    told = answer(text + rows + _FOOT.replace("57.3425", "0"), 0)
    assert told["verdict"] == "unknown"
    assert told["runs"][0]["single_rank"]


def test_each_run_has_its_own_verdict():
    told = answer("node-a: Test NCCL failure common.cu:5 'internal error'\n.. node-a pid 12: Test failure common.cu:8\n" + _GOOD, None)
    assert [run["verdict"] for run in told["runs"]] == ["fail", "pass"]
    assert told["runs"][0]["failures"][0]["pid"] == 12


def test_the_answer_is_json_whatever_the_values():
    text = _GOOD.replace("26.18", "inf").replace("57.3425", "inf").replace("#wrong", "error ").replace("      0\n", "    nan\n")
    json.loads(json.dumps(answer(text, None), allow_nan=False))


@settings(max_examples=80)
@given(st.text(max_size=60), st.integers(0, len(_GOOD)), st.integers(0, 60))
def test_garbage_in_a_good_run_never_raises(garbage, place, lost):
    json.dumps(answer(_GOOD[:place] + garbage + _GOOD[place + lost :], 0), allow_nan=False)
