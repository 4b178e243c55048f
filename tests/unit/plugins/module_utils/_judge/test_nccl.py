# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import nccl
from ansible_collections.kentino.gpu.plugins.module_utils._parse.nccl_tests_records import Failure, NcclTests, Rank, Row, Run, Side

_FLOOR = {"value": 440, "message_bytes": 1 << 34, "gpus": 8}


def _row(size, out_of_place, in_place):
    sides = [None if busbw is None else Side(1.0, busbw / 2, busbw, 0) for busbw in (out_of_place, in_place)]
    return Row(size, size // 4, "float", "sum", None, sides[0], sides[1])


def _run(*rows, ranks=8, **more):
    facts = {
        "threads": 1,
        "gpus": ranks,
        "validation": 1,
        "ranks": tuple(Rank(number) for number in range(ranks)),
        "out_of_bounds": 0,
        "bounds_okay": True,
        "footer": True,
        "average_busbw": 200.0,
    }
    return Run("2.13+", rows=rows, **{**facts, **more})


_GOOD = (_row(8, 0.01, 0.01), _row(1 << 34, 480.0, 478.0))


def _codes(run, **policy):
    found = nccl.judge(NcclTests((run,)), policy)
    return [(finding.code, finding.verdict) for finding in found if finding.code != "nccl.rows_missing"]


@pytest.mark.parametrize(
    ("run", "policy", "codes"),
    [
        pytest.param(_run(*_GOOD), {}, [], id="no policy"),
        pytest.param(_run(*_GOOD), {"floor": _FLOOR, "expected_ranks": 8}, [], id="above the floor"),
        pytest.param(_run(_row(8, 0.01, 0.01), _row(1 << 34, 480, 439)), {"floor": _FLOOR}, [("nccl.slow", "fail")], id="one side below"),
        pytest.param(_run(_row(1 << 34, 480, None)), {"floor": _FLOOR}, [], id="one side was not measured"),
        pytest.param(_run(_row(1 << 33, 480, 480)), {"floor": _FLOOR}, [("nccl.slow", "unknown")], id="the size of the floor is missing"),
        pytest.param(_run(*_GOOD, ranks=4), {"floor": _FLOOR}, [("nccl.slow", "unknown")], id="a floor for another number of GPUs"),
        pytest.param(_run(*_GOOD, ranks=4), {"expected_ranks": 8}, [("nccl.rank_count", "unknown")], id="ranks are missing"),
        pytest.param(_run(*_GOOD, ranks=4), {"floor": {**_FLOOR, "gpus": None}}, [], id="a floor for any number of GPUs"),
    ],
)
def test_bandwidth_and_ranks(run, policy, codes):
    assert _codes(run, **policy) == codes


@pytest.mark.parametrize("rows", [_GOOD, _GOOD[1:]], ids=["whole", "with a row missing, which is a remark"])
@pytest.mark.parametrize("status", [1, 137, -9])
def test_bad_status_after_a_clean_result_is_no_pass(rows, status):
    found = nccl.judge(NcclTests((_run(*rows, average_busbw=239.5),), exit_status=status), {})
    assert ("nccl.exit_status", "unknown") in [(finding.code, finding.verdict) for finding in found]


@pytest.mark.parametrize(
    ("run", "single"),
    [
        pytest.param(_run(_row(8, 0.0, 0.0), ranks=1), True, id="one rank, one GPU"),
        pytest.param(Run("2.13+", rows=(_row(8, 5.0, 5.0),), ranks=(Rank(0),), threads=1, gpus=8), False, id="seven rank lines lost"),
        pytest.param(Run("2.13+", rows=(_row(8, 5.0, 5.0),), ranks=(Rank(0),)), False, id="bandwidth, so there were others"),
        pytest.param(
            Run("2.13+", rows=(Row(8, 2, "float", "sum", None, Side(1.0, 900.0, 0.0, 0)),), ranks=(Rank(0), Rank(1))),
            True,
            id="MPI was not built in",
        ),
        pytest.param(Run("2.13+", rows=(Row(8, 2, "float", "sum", None, Side(1.0, 0.0, 0.0, 0)),)), False, id="too small to say"),
    ],
)
def test_single_rank(run, single):
    assert nccl.single_rank(run) is single


@pytest.mark.parametrize(
    ("result", "action"),
    [
        ("unhandled cuda error (run with NCCL_DEBUG=INFO for details)", "reset_gpu"),
        ("remote process exited or there was a network error", "restart_job"),
        ("internal error - please report this issue to the NCCL developers", "look_at_code"),
        ("an illegal memory access was encountered", "reset_gpu"),
        (None, "look_at_code"),
    ],
)
def test_what_to_do_about_a_failure(result, action):
    (finding,) = nccl.judge_run(_run(*_GOOD, footer=False, failures=(Failure("n1", 5, result, result),)), {})[:1]
    assert (finding.code, finding.action, finding.subject.name) == ("nccl.failure", action, "n1 pid 5")


def test_metrics_are_of_the_last_run_that_measured():
    record = NcclTests((_run(*_GOOD), _run(), Run("")))
    assert nccl.metrics(record) == {"busbw_peak_gbps": 478.0, "busbw_peak_message_bytes": 1 << 34, "ranks": 8}


def test_rows_that_do_not_make_the_average_are_told():
    (finding,) = nccl.judge_run(_run(_row(8, 1.0, 1.0)), {})
    assert (finding.code, finding.verdict) == ("nccl.rows_missing", "pass")
