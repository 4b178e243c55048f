# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._cli.parse_gpu_burn import answer
from hypothesis import given, settings
from hypothesis import strategies as st


def _record(percent, work, errors=None, words=None):
    errors = errors or [0] * len(work)
    words = words or [""] * len(work)
    counters = ["%d %s" % (error, " (%s)" % word if word else "") for error, word in zip(errors, words)]
    return "\r%.1f%%  proc'd: %s   errors: %s  temps: %s " % (
        percent,
        "- ".join("%d (%d Gflop/s) " % (done, 7000 if done > 0 else 0) for done in work).rstrip(),
        "- ".join(counters),
        "- ".join(["61 C "] * len(work)).rstrip(),
    )


# date(1) speaks the language of the node.
_SUMMARY = "\n\tSummary at:   lun. 09 mars 2026 14:03:11 CET\n\n"


def _block(*words):
    lines = "".join("\tGPU %d: %s\n" % (gpu, word) for gpu, word in enumerate(words))
    return "\nKilling processes with SIGTERM (soft kill)\nFreed memory for dev 0\nUninitted cublas\ndone\n\nTested %d GPUs:\n%s" % (
        len(words),
        lines,
    )


def _listing(count):
    return "".join("GPU %d: NVIDIA L40S (UUID: GPU-0000000%d)\n" % (gpu, gpu) for gpu in range(count))


_HEAD = "Using compare file: compare.ptx\nBurning for 120 seconds.\n"
_BURN = _record(2, [0, 0]) + _record(9, [0, 640]) + _record(50, [3200, 3840]) + _SUMMARY + _record(100, [7040, 7040]) + _SUMMARY
_GOOD = _HEAD + _listing(2) + _BURN + _block("OK", "OK")


def test_a_healthy_node_passes():
    told = answer(_GOOD, 0)
    assert told["verdict"] == "pass"
    assert (told["gpus"], told["gpus_listed"], told["tested"], told["progress_lines"], told["complete"]) == (2, 2, 2, 4, True)
    assert (told["ok"], told["faulty"], told["died"], told["zero_work"], told["error_gpus"]) == ([0, 1], [], [], [], [])
    assert told["last"]["work"] == [7040, 7040]
    assert told["last"]["gflops"] == [7000, 7000]


def test_the_exit_status_of_the_tool_proves_nothing_good_and_something_bad():
    assert answer(_GOOD, None)["verdict"] == "pass"
    assert answer(_GOOD, 124)["verdict"] == "unknown"
    assert answer("", 0)["verdict"] == "unknown"


def test_no_beginning_of_a_good_run_passes():
    # Without the last line end nothing is missing.
    assert [end for end in range(len(_GOOD) - 1) if answer(_GOOD[:end], 0)["verdict"] == "pass"] == []


def test_no_result_line_can_be_left_out():
    lines = _GOOD.split("\n")
    needed = [number for number, line in enumerate(lines) if "Tested" in line or ": OK" in line or "100.0%" in line]
    assert len(needed) == 4
    for number in needed:
        assert answer("\n".join(lines[:number] + lines[number + 1 :]), 0)["verdict"] != "pass"


@pytest.mark.parametrize(
    ("text", "verdict", "facts"),
    [
        pytest.param(_BURN.replace("\r", "") + _block("OK", "OK"), "pass", {"progress_lines": 4}, id="carriage returns lost on the way"),
        pytest.param(_listing(8) + _record(100, [10]) + _block("OK"), "pass", {"gpus": 1, "gpus_listed": 8}, id="-i 5 of eight"),
        pytest.param(_listing(8) + _record(100, [10] * 7) + _block(*["OK"] * 7), "unknown", {"gpus": 7}, id="CUDA leaves out one of eight"),
        pytest.param(
            _record(20, [640, 640], [0, 3], ["", "WARNING!"]) + _SUMMARY + _record(100, [9, 9]) + _block("OK", "FAULTY"),
            "fail",
            {"error_gpus": [1], "faulty": [1], "ok": [0]},
            id="the counter is reset at the summary",
        ),
        pytest.param(
            _record(20, [640, 640], [0, -77], ["", "WARNING!"]) + _record(100, [9, 9]) + _block("OK", "OK"),
            "fail",
            {"error_gpus": [1]},
            id="a counter that ran over, and OK",
        ),
        pytest.param(
            _record(50, [9, -1], [0, 41415], ["", "DIED!"]) + _record(100, [18, -1], [0, 41415], ["", "DIED!"]) + _block("OK", "FAULTY"),
            "fail",
            {"died": [1], "error_gpus": [], "errors_valid": False},
            id="one died",
        ),
        pytest.param(
            "Couldn't init a GPU test: Error: CUDA_ERROR_UNKNOWN\n" + _record(100, [0, 0]) + _block("OK", "OK"),
            "unknown",
            {"zero_work": [0, 1], "ok": [0, 1], "init_error": "Couldn't init a GPU test: Error: CUDA_ERROR_UNKNOWN"},
            id="OK without work",
        ),
        pytest.param(_record(60, [0, 9]) + _record(100, [0, 18]) + _block("OK", "OK"), "unknown", {"zero_work": [0]}, id="one idle"),
        pytest.param(
            _record(8, [640, 640]) + _record(60, [640, 3840]) + _record(100, [640, 7040]) + _block("OK", "OK"),
            "unknown",
            {"zero_work": []},
            id="one hung at 8 % and is called OK",
        ),
        pytest.param(_record(92, [9, 9]) + _block("OK", "OK"), "unknown", {"complete": True}, id="stopped at 92 %"),
        pytest.param(_HEAD + _block("OK"), "unknown", {"progress_lines": 0, "tested": 1}, id="too short for one record"),
        pytest.param(_record(100, [9, 9, 9]) + _block("OK", "OK"), "unknown", {"gpus": 3, "tested": 2}, id="records and block differ"),
        pytest.param(
            _record(40, [9, 9]).replace("errors: 0 - 0", "errors: 0 - ") + _record(100, [18, 18]) + _block("OK", "OK"),
            "unknown",
            {"complete": True},
            id="a garbled counter on the way",
        ),
        pytest.param(
            _record(0, [-1], [0], ["DIED!"]) + "\n\nNo clients are alive!  Aborting\n",
            "fail",
            {"complete": False, "tested": 0},
            id="nobody left",
        ),
        pytest.param(
            'Couldn\'t init a GPU test: Error in "load module": \n' + _record(0, [-1], [0], ["DIED!"]),
            "unknown",
            {"died": [0]},
            id="a build for another card",
        ),
        pytest.param(_BURN + "\nFailure during compute: Error (gpu_burn-drv.cpp:250): bad address\n", "fail", {}, id="CUDA failed"),
        pytest.param(_GOOD + "Segmentation fault (core dumped)\n", "unknown", {}, id="crashed at the end"),
        pytest.param(
            _record(100, [9, 9]) + _block("OK", "FAULTY") + _HEAD + _record(100, [9, 9]) + _block("OK", "OK"),
            "fail",
            {"faulty": [1], "ok": [0]},
            id="a second run does not clear the first",
        ),
        pytest.param("gpu_burn: command not found", "unknown", {"gpus": None, "last": None}, id="not installed"),
    ],
)
def test_answers(text, verdict, facts):
    told = answer(text, 0)
    assert told["verdict"] == verdict
    assert {key: told[key] for key in facts} == facts


@settings(max_examples=60)
@given(st.data())
def test_a_good_run_with_a_line_of_another_program_in_it_never_fails(data):
    lines = _GOOD.split("\n")
    place = data.draw(st.integers(0, len(lines)))
    text = "\n".join([*lines[:place], data.draw(st.sampled_from(["hello", "dmesg: read kernel buffer failed", ""])), *lines[place:]])
    assert answer(text, 0)["verdict"] in ("pass", "unknown")


@settings(max_examples=60)
@given(st.text(max_size=60), st.integers(0, len(_GOOD)), st.integers(0, 40))
def test_garbage_in_a_good_run_never_raises(garbage, place, lost):
    assert answer(_GOOD[:place] + garbage + _GOOD[place + lost :], 0)["verdict"] in ("pass", "warn", "fail", "unknown")
