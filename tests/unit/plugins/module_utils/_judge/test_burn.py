# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import burn
from ansible_collections.kentino.gpu.plugins.module_utils._parse.gpu_burn import GpuBurn, ListedGpu, Progress


def _progress(percent, work, gflops, errors=None):
    count = len(work)
    return Progress(percent, tuple(work), tuple(gflops), tuple(errors or [0] * count), ("",) * count, (60,) * count, True)


def _run(*rates, errors=None, names=("NVIDIA H100",), **more):
    count = len(rates)
    records = (_progress(50, [5] * count, rates, errors), _progress(100, [9] * count, rates))
    listed = tuple(ListedGpu(gpu, names[gpu % len(names)]) for gpu in range(count))
    facts = {"requested_seconds": 600, "announced": count, "results": tuple((gpu, "OK") for gpu in range(count)), "complete": True, **more}
    return GpuBurn(listed=listed, progress=records, **facts)


def _codes(run, **policy):
    return [(finding.code, finding.verdict, finding.subject.index) for finding in burn.judge(run, policy)]


@pytest.mark.parametrize(
    ("run", "policy", "codes"),
    [
        pytest.param(_run(100, 100), {}, [], id="no policy"),
        pytest.param(_run(100, 100), {"expected_gpus": 2, "run_seconds": 600}, [], id="as expected"),
        pytest.param(_run(100, 100), {"expected_gpus": 4}, [("burn.gpu_count", "unknown", None)], id="fewer GPUs than expected"),
        pytest.param(_run(100, 100), {"expected_gpus": 1}, [("burn.gpu_count", "unknown", None)], id="more GPUs than expected"),
        pytest.param(_run(100, 100), {"run_seconds": 601}, [("burn.short", "unknown", None)], id="too short"),
        pytest.param(_run(100, 100, requested_seconds=None), {"run_seconds": 60}, [("burn.short", "unknown", None)], id="length unknown"),
        pytest.param(_run(100, 99), {"floor_gflops": {"value": 100}}, [("burn.slow", "fail", 1)], id="below the floor"),
        pytest.param(_run(100, 100), {"floor_gflops": {"value": 100}}, [], id="at the floor"),
        pytest.param(_run(100, None), {"floor_gflops": {"value": 50}}, [("burn.slow", "unknown", 1)], id="rate unreadable"),
        pytest.param(_run(100, 100, 100, 89), {"slow_tolerance_pct": 10}, [("burn.slow", "warn", 3)], id="slower than its siblings"),
        pytest.param(_run(100, 100, 100, 90), {"slow_tolerance_pct": 10}, [], id="just within"),
        pytest.param(_run(100, 100, 100, 150), {"slow_tolerance_pct": 10}, [], id="faster is no fault"),
        pytest.param(_run(100, 50), {"slow_tolerance_pct": None}, [], id="no comparison asked for"),
        pytest.param(_run(100, 20, names=("H100", "T400")), {"slow_tolerance_pct": 10}, [], id="two models are no siblings"),
        pytest.param(_run(100, 100, exit_status=1), {}, [("burn.exit_status", "unknown", None)], id="bad status of a clean run"),
        pytest.param(_run(100, 100, errors=[0, 4], exit_status=1), {}, [("burn.errors", "fail", 1)], id="bad status that is explained"),
        pytest.param(
            _run(100, 50, exit_status=1),
            {"slow_tolerance_pct": 10},
            [("burn.slow", "warn", 1), ("burn.exit_status", "unknown", None)],
            id="a warning explains no bad status",
        ),
    ],
)
def test_findings(run, policy, codes):
    assert _codes(run, **policy) == codes


def test_one_bad_card_is_replaced_and_all_bad_cards_are_not():
    (one,) = burn.judge(_run(100, 100, errors=[0, 9]), {})
    both = burn.judge(_run(100, 100, errors=[3, 9]), {})
    assert one.action == "replace"
    assert {finding.action for finding in both} == {"look_at_code"}


def test_the_reason_tells_the_measured_and_the_allowed_value():
    (finding,) = burn.judge(_run(6700, 19200), {"floor_gflops": {"value": 15000}})
    assert finding.message == "GPU 0 computes 6700 Gflop/s, at least 15000 expected"


def test_a_check_without_a_run_has_no_evidence():
    assert burn.check(GpuBurn(), {}).verdict == "unknown"
    check = burn.check(_run(100, 102), {})
    assert (check.verdict, check.evidence) == ("pass", "2 GPUs burnt, 2 progress records")
    assert check.metrics == {"gflops": {"0": 100, "1": 102}, "temperature_max_c": 60}
