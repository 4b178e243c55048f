# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse.nccl_tests import parse
from ansible_collections.kentino.gpu.plugins.module_utils._parse.nccl_tests_records import Failure, Rank, Side, version_of
from hypothesis import given, settings
from hypothesis import strategies as st

_TITLES = {
    "1.x": "#      bytes             N    type      op     time  algbw  busbw      res     time  algbw  busbw      res",
    "2.8": "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error",
    "2.8 broadcast": "#       size         count    type    root     time   algbw   busbw  error     time   algbw   busbw  error",
    "2.8 reduce": "#       size         count    type   redop    root     time   algbw   busbw  error     time   algbw   busbw  error",
    "2.13": "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong",
    "2.19 -I": "#       size         count      type   redop    root     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%"
    "     time   algbw   busbw  #wrong    i_min    i_max    i_p99    i_cv%",
}
_ROW = "     4194304       1048576     float     sum      -1   160.20   26.18   45.82      0   158.90   26.40   46.19      0"


def _run(text):
    (run,) = parse(text).runs
    return run


def _row(text):
    (row,) = _run(text).rows
    return row


@pytest.mark.parametrize(
    ("title", "line", "lead", "out_of_place", "in_place"),
    [
        pytest.param(
            "1.x",
            "     4194304       1048576   float     sum    0.160  26.18  45.82    2e-07    0.159  26.40  46.19    0e+00",
            (4194304, 1048576, "float", "sum", None),
            Side(160.0, 26.18, 45.82, None, 2e-07),
            Side(159.0, 26.4, 46.19, None, 0.0),
            id="1.x measures in milliseconds",
        ),
        pytest.param(
            "2.8",
            "     4194304       1048576   float     sum    160.2   26.18   45.82  1e-06    158.9   26.40   46.19  1e-06",
            (4194304, 1048576, "float", "sum", None),
            Side(160.2, 26.18, 45.82, None, 1e-06),
            Side(158.9, 26.4, 46.19, None, 1e-06),
            id="2.0 to 2.12: a deviation, no count",
        ),
        pytest.param(
            "2.8",
            "     4194304       1048576   float            160.2   26.18   45.82    N/A    158.9   26.40   46.19    N/A",
            (4194304, 1048576, "float", None, None),
            Side(160.2, 26.18, 45.82, None, None),
            Side(158.9, 26.4, 46.19, None, None),
            id="2.0 to 2.12 alltoall: the reduction is blank",
        ),
        pytest.param(
            "2.8 broadcast",
            "     4194304       1048576    half       3    160.2   26.18   45.82  0e+00    158.9   26.40   46.19  0e+00",
            (4194304, 1048576, "half", None, 3),
            Side(160.2, 26.18, 45.82, None, 0.0),
            Side(158.9, 26.4, 46.19, None, 0.0),
            id="2.0 to 2.12 broadcast: a root and no reduction",
        ),
        pytest.param(
            "2.8 reduce",
            "     4194304       1048576    half    prod       0    160.2   26.18   45.82  0e+00    158.9   26.40   46.19  0e+00",
            (4194304, 1048576, "half", "prod", 0),
            Side(160.2, 26.18, 45.82, None, 0.0),
            Side(158.9, 26.4, 46.19, None, 0.0),
            id="2.0 to 2.12 reduce",
        ),
        pytest.param(
            "2.13", _ROW, (4194304, 1048576, "float", "sum", None), Side(160.2, 26.18, 45.82, 0), Side(158.9, 26.4, 46.19, 0), id="2.13"
        ),
        pytest.param(
            "2.13",
            "           0             0      int8    none      -1     1.63    0.00    0.00      0     1.38    0.00    0.00    N/A",
            (0, 0, "int8", None, None),
            Side(1.63, 0.0, 0.0, 0),
            Side(1.38, 0.0, 0.0, None),
            id="2.13 alltoall: no reduction, in place not checked",
        ),
        pytest.param(
            "2.13",
            "8 2 fp8_e4m3 avg 5 1.0e+07 inf nan 1.5e+06 12 0.1 0.2 77",
            (8, 2, "fp8_e4m3", "avg", 5),
            Side(1e7, None, None, 1500000),
            Side(12.0, 0.1, 0.2, 77),
            id="trimmed, values that are none, a count with an exponent",
        ),
        pytest.param(
            "2.19 -I",
            "     4194304       1048576     float     sum      -1   160.20   26.18   45.82       0   150.10   171.30   170.20     2.10"
            "   158.90   26.40   46.19       1   150.10   171.30   170.20     2.10",
            (4194304, 1048576, "float", "sum", None),
            Side(160.2, 26.18, 45.82, 0),
            Side(158.9, 26.4, 46.19, 1),
            id="2.19 -I",
        ),
        pytest.param(
            "2.13",
            "     4194304       1048576     float     sum      -1" + " " * 34 + "158.90   26.40   46.19      0",
            (4194304, 1048576, "float", "sum", None),
            None,
            Side(158.9, 26.4, 46.19, 0),
            id="only in place was measured",
        ),
    ],
)
def test_rows_of_every_version(title, line, lead, out_of_place, in_place):
    row = _row(_TITLES[title] + "\n" + line + "\n")
    assert (row.size, row.count, row.type, row.redop, row.root) == lead
    assert (row.out_of_place, row.in_place) == (out_of_place, in_place)


@pytest.mark.parametrize("title", ["2.13", "2.19 -I"])
def test_a_time_stamp_ends_the_row(title):
    more = "   150.10   171.30   170.20     2.10" if "-I" in title else ""
    line = "     4194304       1048576     float     sum      -1   160.20   26.18   45.82      0%s   158.90   26.40   46.19      0%s" % (
        more,
        more,
    )
    assert _row("%s\n%s  2026-02-03 04:05:06\n" % (_TITLES[title], line)).timestamp == "2026-02-03 04:05:06"


@pytest.mark.parametrize(
    ("line", "format"),
    [
        pytest.param(_ROW, "2.13+", id="counts"),
        pytest.param("4194304 1048576 float sum 160.2 26.18 45.82 1e-06 158.9 26.40 46.19 1e-06", "2.0-2.12", id="deviations"),
    ],
)
def test_the_version_is_told_from_a_row_without_its_title(line, format):
    assert _run(line).format == format


@pytest.mark.parametrize("words", range(3, 13))
def test_a_cut_row_is_none_and_is_counted(words):
    run = _run(_TITLES["2.13"] + "\n" + " ".join(_ROW.split()[:words]))
    assert (run.rows, run.partial_rows) == ((), 1)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(_ROW + "host1:77:79 [3] NCCL INFO comm 0x1 rank 3\n", id="behind it"),
        pytest.param(_ROW.replace(" sum ", " sum\nhost1:77:79 [3] NCCL INFO x\n"), id="a line in the middle"),
        pytest.param(_ROW.replace("-1  ", "-1host1:77:79 [3] NCCL INFO x\n  "), id="glued to the root"),
        pytest.param(_ROW.replace("      0   158", "      0host1:77:79 [3] NCCL INFO x\n   158"), id="glued to a count"),
        pytest.param(_ROW + "0a1b2c3d4e5f:77:79 [3] NCCL INFO x\n", id="a host that begins with a digit"),
        pytest.param(_ROW + "NCCL version 2.21.5+cuda12.4\n", id="the version behind it"),
    ],
)
def test_other_text_inside_a_row(text):
    run = _run(_TITLES["2.13"] + "\n" + text + "\n# Out of bounds values : 0 OK\n")
    assert run.partial_rows == 0
    assert [(row.out_of_place.busbw, row.in_place.busbw, row.in_place.wrong) for row in run.rows] == [(45.82, 46.19, 0)]


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        pytest.param(
            "#   Rank  3 Pid   9911 on     node-a device  3 [0x1b] Tesla V100-SXM2-32GB",
            Rank(3, "node-a", 9911, None, 3, "0x1b", "Tesla V100-SXM2-32GB"),
            id="2.0 to 2.12",
        ),
        pytest.param(
            "#  Rank 12 Group  1 Pid  42177 on  node-b.example device  4 [0x9c] NVIDIA H200 ",
            Rank(12, "node-b.example", 42177, 1, 4, "0x9c", "NVIDIA H200"),
            id="2.13",
        ),
        pytest.param(
            "#  Rank  0 Group  0 Pid 895544 on     node-c device  0 [0002:00:01] NVIDIA B200",
            Rank(0, "node-c", 895544, 0, 0, "0002:00:01", "NVIDIA B200"),
            id="2.16: domain, bus, device",
        ),
        pytest.param(
            "#   Rank  1 on     node-d device  1 [0x06] Tesla P100", Rank(1, "node-d", None, None, 1, "0x06", "Tesla P100"), id="1.x"
        ),
    ],
)
def test_rank_lines(line, rank):
    assert _run(line).ranks == (rank,)


def test_the_header():
    run = _run(
        "# nccl-tests version 2.17.8 nccl-headers=22809 nccl-library=22809\n# Collective test starting: reduce_scatter_perf\n"
        "# nThread 2 nGpus 4 minBytes 8 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n"
        "#\n# Reducing maxBytes to 536870912 due to memory limitation\n#\n# Using devices\n"
    )
    assert (run.tests_version, run.nccl_version, run.program) == ("2.17.8", "2.28.9", "reduce_scatter_perf")
    assert (run.threads, run.gpus, run.min_bytes, run.max_bytes, run.reduced_bytes, run.validation) == (2, 4, 8, 1073741824, 536870912, 1)
    assert not run.complete


@pytest.mark.parametrize(("code", "version"), [(2708, "2.7.8"), (21805, "2.18.5"), (22809, "2.28.9")])
def test_version_numbers(code, version):
    assert version_of(code) == version


_BOUNDS = "# Out of bounds values : 0 OK\n"


@pytest.mark.parametrize(
    ("footer", "complete", "average", "okay"),
    [
        pytest.param(_BOUNDS + "# Avg bus bandwidth    : 46.0051 \n#\n", True, 46.0051, None, id="2.x"),
        pytest.param(" Out of bounds values : 0 OK\n Avg bus bandwidth    : 46.0051 \n\n", True, 46.0051, None, id="1.x without the sign"),
        pytest.param(_BOUNDS + "# Avg bus bandwidth    : 46.0051 OK\n#\n", True, 46.0051, True, id="NCCL_TESTS_MIN_BW reached"),
        pytest.param(_BOUNDS + "# Avg bus bandwidth    : 46.0051 FAILED", True, 46.0051, False, id="NCCL_TESTS_MIN_BW not reached"),
        pytest.param(_BOUNDS + "# Avg bus bandwidth    : nan \n", True, None, None, id="not a number"),
        pytest.param(_BOUNDS + "# Avg bus bandwidth    : 46.0051", True, 46.0051, None, id="quoted to the number, which is the mean"),
        pytest.param(_BOUNDS + "# Avg bus bandwidth    : 46.0051 ", False, 46.0051, None, id="cut before a word could come"),
        pytest.param(_BOUNDS + "# Avg bus bandwidth    : 46.00", False, 46.0, None, id="cut in the number"),
        pytest.param(_BOUNDS + "# Avg bus bandwidth    : 47.1234", False, 47.1234, None, id="quoted, and not the mean"),
        pytest.param(_BOUNDS, False, None, None, id="no average"),
        pytest.param("# Avg bus bandwidth    : 46.0051 \n#\n", False, 46.0051, None, id="no bounds"),
        pytest.param("# Out of bounds values : 0 O\n# Avg bus bandwidth    : 46.0051 \n#\n", False, 46.0051, None, id="bounds garbled"),
    ],
)
def test_footers(footer, complete, average, okay):
    run = _run(_TITLES["2.13"] + "\n" + _ROW + "\n" + footer)
    assert (run.complete, run.average_busbw, run.average_okay) == (complete, average, okay)


@pytest.mark.parametrize(
    ("text", "failures"),
    [
        pytest.param(
            "node-a: Test NCCL failure common.cu:1005 'unhandled cuda error (run with NCCL_DEBUG=INFO for details) / Cuda failure 700'\n"
            " .. node-a pid 31: Test failure common.cu:891\n .. node-a pid 31: Test failure all_reduce.cu:88\n",
            [("node-a", 31, "unhandled cuda error (run with NCCL_DEBUG=INFO for details)", "common.cu:1005")],
            id="one process, two frames",
        ),
        pytest.param(
            "node-a: Test NCCL failure common.cu:1 'internal error / '\nnode-b: Test NCCL failure common.cu:1 'remote process exited / '\n"
            " .. node-b pid 8: Test failure common.cu:2\n .. node-a pid 7: Test failure common.cu:2\n",
            [("node-a", 7, "internal error", "common.cu:1"), ("node-b", 8, "remote process exited", "common.cu:1")],
            id="two hosts, mixed",
        ),
        pytest.param(
            "NCCL failure all_reduce.cu:95 'unhandled system error'\n",
            [(None, None, "unhandled system error", "all_reduce.cu:95")],
            id="1.x",
        ),
        pytest.param(
            "node-a: Test CUDA failure common.cu:730 'invalid device ordinal'\n .. node-a: Test failure common.cu:9\n",
            [("node-a", None, "invalid device ordinal", "common.cu:730")],
            id="2.0: CUDA, frame without pid",
        ),
        pytest.param(
            "node-a: Test timeout (30s) common.cu:523\n .. node-a pid 5: Test failure common.cu:9\n",
            [("node-a", 5, "timeout", "common.cu:523")],
            id="timeout",
        ),
        pytest.param(" .. node-a pid 5: Test failure common.cu:9\n", [("node-a", 5, None, "common.cu:9")], id="message lost"),
        pytest.param(
            _ROW + "node-a: Test NCCL failure common.cu:1 'internal error / '\n",
            [("node-a", None, "internal error", "common.cu:1")],
            id="glued to a row",
        ),
    ],
)
def test_failures(text, failures):
    run = _run(text)
    assert [(failure.host, failure.pid, failure.result, failure.location) for failure in run.failures] == failures
    assert not run.complete


_TABLE = "# nThread 1 nGpus 8 minBytes 4 maxBytes 8 validation: 1\n" + _TITLES["2.13"] + "\n" + _ROW + "\n"
_FOOT = _BOUNDS + "# Avg bus bandwidth    : 46.0051 \n#\n"


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        pytest.param(_TABLE + _FOOT + _TABLE + _FOOT, [(1, 0, True), (1, 0, True)], id="two whole runs"),
        pytest.param(_TABLE + _TABLE + _FOOT, [(1, 0, False), (1, 0, True)], id="the first was cut"),
        pytest.param(_ROW + "\n" + _FOOT + _ROW + "\n" + _FOOT, [(1, 0, True), (1, 0, True)], id="without any header"),
        pytest.param(_TABLE + _ROW + "\n" + _FOOT, [(2, 0, True)], id="one size twice"),
        pytest.param(
            "n1: Test NCCL failure common.cu:1 'x'\nUsing devices\n" + _ROW, [(0, 1, False), (1, 0, False)], id="a failure, then a run"
        ),
        pytest.param(_TABLE + "n1: Test NCCL failure common.cu:1 'x'\n" + _ROW, [(2, 1, False)], id="a failure among the rows"),
    ],
)
def test_several_runs_in_one_text(text, runs):
    assert [(len(run.rows), len(run.failures), run.complete) for run in parse(text).runs] == runs


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        pytest.param("NCCL version 2.18.5+cuda12.2\n" + _TABLE, ["2.18.5+cuda12.2"], id="before the header"),
        pytest.param(_TABLE.replace("#  ", "NCCL version 2.18.5+cuda12.2\n#  "), ["2.18.5+cuda12.2"], id="behind the header"),
        pytest.param("n:1:2 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n" + _TABLE, ["2.21.5+cuda12.4"], id="in an INFO line"),
        pytest.param(_TABLE + _FOOT + "NCCL version 2.9.9+cuda11.3\n" + _TABLE, [None, "2.9.9+cuda11.3"], id="of the second run"),
    ],
)
def test_the_version_of_nccl(text, versions):
    assert [run.nccl_version for run in parse(text).runs] == versions


@pytest.mark.parametrize(
    ("line", "where"),
    [
        pytest.param(
            "mpirun noticed that process rank 3 with PID 0 on node n1 exited on signal 11 (Segmentation fault).", "crashes", id="crash"
        ),
        pytest.param(
            "prterun noticed that process rank 3 with PID 0 on node n1 exited on signal 9 (Killed).", "aborts", id="killed by somebody"
        ),
        pytest.param("There are not enough slots available in the system", "aborts", id="no slots"),
        pytest.param("Primary job  terminated normally, but 1 process returned", "aborts", id="one process failed"),
        pytest.param("./all_reduce_perf: error while loading shared libraries: libnccl.so.2: cannot open", "aborts", id="loader"),
        pytest.param("n:1:2 [0] transport/net_ib.cc:88 NCCL WARN Call to ibv_reg_mr failed", "warnings", id="NCCL WARN"),
        pytest.param("hello", "unrecognised", id="something else"),
    ],
)
def test_what_others_print(line, where):
    record = parse(line + "\n")
    assert getattr(record, where) == (line,)
    assert record.runs == ()


def test_a_missing_library_of_another_program_is_no_reason_once_rows_follow():
    assert parse("libibverbs: /etc/libibverbs.d: No such file or directory\n" + _TABLE).aborts == ()


def _report(**changes):
    side = {"time": 160.2, "alg_bw": 26.18, "bus_bw": 45.82, "nwrong": 0.0}
    result = {"size": 4194304, "count": 1048576, "type": "float", "redop": "sum", "root": "    -1", "out_of_place": side, "in_place": side}
    device = {"rank": 0, "group": 0, "pid": 7, "hostname": "n1", "device": 0, "device_hex": "0000:1b:00", "device_info": "NVIDIA H200"}
    report = {
        "version": 3,
        "start_time": "2026-02-03 04:05:06",
        "args": ["./build/all_reduce_perf", "-J", "x"],
        "env": ["TOKEN=secret"],
        "nccl_version": 22809,
        "config": {"nthreads": 1, "ngpus": 8, "minimum_bytes": 8, "maximum_bytes": 16, "validation": 1, "devices": [device]},
        "results": [result],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 45.82, "okay": "unchecked"},
        "errors": [""],
        "end_time": "2026-02-03 04:05:08",
    }
    return json.dumps({**report, **changes})


def test_the_json_report():
    record = parse("# Writing JSON output to x\n" + _report() + "\n")
    (run,) = record.runs
    assert run.complete
    assert (run.format, run.program, run.nccl_version, run.validation, run.rank_count) == ("json", "all_reduce_perf", "2.28.9", 1, 8)
    assert run.ranks == (Rank(0, "n1", 7, 0, 0, "0000:1b:00", "NVIDIA H200"),)
    assert (run.out_of_bounds, run.bounds_okay, run.average_busbw, run.average_okay) == (0, True, 45.82, None)
    assert (run.rows[0].root, run.rows[0].out_of_place) == (None, Side(160.2, 26.18, 45.82, 0))
    assert "secret" not in repr(record)


@pytest.mark.parametrize(
    ("changes", "facts"),
    [
        pytest.param(
            {"average_bus_bandwidth": {"bandwidth": 4.5, "okay": "false"}}, {"average_okay": False, "complete": True}, id="too slow"
        ),
        pytest.param({"out_of_bounds": {"count": 7, "okay": "false"}}, {"out_of_bounds": 7, "bounds_okay": False}, id="wrong results"),
        pytest.param({"average_bus_bandwidth": {"bandwidth": "nan", "okay": "unchecked"}}, {"average_busbw": None}, id="not a number"),
        pytest.param({"errors": ["ncclInternalError: x"]}, {"last_error": "ncclInternalError: x"}, id="last error"),
        pytest.param({"results": []}, {"rows": (), "complete": True}, id="no rows"),
        pytest.param({"results": [{"size": 8, "count": 2}]}, {"rows": (), "partial_rows": 1}, id="half a row"),
        pytest.param({"out_of_bounds": None}, {"complete": False}, id="no bounds"),
    ],
)
def test_json_reports_that_are_not_clean(changes, facts):
    run = _run(_report(**changes))
    assert {key: getattr(run, key) for key in facts} == facts


def test_a_json_report_that_was_cut_keeps_its_rows_and_is_not_complete():
    text = _report()
    run = _run(text[: text.index('"out_of_bounds"')])
    assert (len(run.rows), run.complete) == (1, False)


def test_a_failure_is_a_record_of_its_own():
    assert _run("n1: Test NCCL failure common.cu:1 'internal error / last'\n").failures == (
        Failure("n1", None, "internal error", "internal error / last", "common.cu:1"),
    )


_PIECES = (
    _ROW,
    "4194304 1048576 float ",
    "sum ",
    "-1 ",
    "12.5 ",
    "N/A ",
    "0",
    "1e-06 ",
    "n1:7:9 [0] NCCL INFO x",
    "NCCL version 2.1",
    "\n",
)
_MORE = (
    "# nThread 1 nGpus 8 minBytes 4 maxBytes 8",
    "# Using devices",
    _TITLES["2.13"],
    "# Out of bounds values : 0 OK",
    "n1: Test NCCL failure a:1 'x'",
)
_REST = (
    "# Avg bus bandwidth    : ",
    ".. n1 pid 7: Test failure a:1",
    '{"start_time":1,"args":[',
    '"results":[',
    "}",
    "]",
    "\r",
    "inf",
    "9" * 40,
)


@settings(max_examples=150)
@given(st.lists(st.sampled_from(_PIECES + _MORE + _REST) | st.text(max_size=5), max_size=25))
def test_no_text_raises(pieces):
    parse("".join(pieces))


@settings(max_examples=40)
@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=6))
def test_no_row_is_lost(sizes):
    lines = [_ROW.replace("4194304", str(size), 1) for size in sizes]
    assert [row.size for row in _run(_TITLES["2.13"] + "\n" + "\n".join(lines) + "\n").rows] == sizes
