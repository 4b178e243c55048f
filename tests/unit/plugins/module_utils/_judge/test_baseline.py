# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import math

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import baseline
from hypothesis import given, settings
from hypothesis import strategies as st

KIND = "8x 10de:2684, driver 570"


def burnt(*rates, device="10de:2684", driver="570.124.06", simulated=False, nccl=None, step=None):
    """The results of one node."""
    gpus = [{"index": index, "device_id": device} for index in range(8)]
    facts = {"gpus": gpus, "driver_version": driver, "simulated": simulated}
    results = {
        "health": {"verdict": "pass", "facts": {"gpu": facts}},
        "burn": {
            "metrics": {"burn": {"gpus": {str(index): {"gflops": rate} for index, rate in enumerate(rates)}}},
            "facts": {"burn": {"argv": ["/opt/gpu-burn/gpu_burn", "-tc", "600"]}},
        },
    }
    if nccl is not None:
        results["nccl"] = {"metrics": {"nccl": {"busbw_gbps": nccl, "message_bytes": 1 << 30, "ranks": 8}}}
    if step is not None:
        results["dryrun"] = {"metrics": {"dryrun": {"step_seconds": step}}}
    return results


def figures(*rates, **more):
    return baseline.measured(burnt(*rates, **more), "batch 1")


def book_of(*rates, **more):
    runs = [("node-%d" % number, KIND, figures(rate, **more)) for number, rate in enumerate(rates)]
    return baseline.learn(baseline.empty(), runs, "2026-01-02").book


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({}, KIND),
        ({"simulated": True}, KIND + ", simulated"),
        ({"driver": "580.65.06"}, "8x 10de:2684, driver 580"),
        ({"driver": None}, None),
        ({"device": None}, None),
    ],
    ids=["real", "simulated is not real", "another branch", "no driver", "no id"],
)
def test_what_two_nodes_must_share(change, kind):
    assert baseline.hardware(burnt(1, **change)) == kind


@pytest.mark.parametrize("results", [{}, {"health": None}, {"health": {"facts": []}}, {"health": {"facts": {"gpu": {"gpus": []}}}}])
def test_hardware_that_was_not_read(results):
    assert baseline.hardware(results) is None
    assert baseline.check(baseline.empty(), None, figures(1.0)).verdict == "skip"


def test_what_is_measured():
    found = figures(100.0, 200.0, None, nccl=12.5, step=0.4)
    assert [(one.name, one.settings, dict(one.values)) for one in found] == [
        ("burn.gflops", "-tc", {"0": 100.0, "1": 200.0}),
        ("nccl.busbw_gbps", "%d bytes, 8 ranks" % (1 << 30), {"": 12.5}),
        ("dryrun.step_seconds", "batch 1", {"": 0.4}),
    ]


@pytest.mark.parametrize("value", [None, 0, -1.0, math.nan, math.inf, True, "48000"])
def test_what_is_no_number_is_not_measured(value):
    assert figures(value) == []


def test_three_runs_are_needed():
    check = baseline.check(book_of(100.0, 101.0), KIND, figures(10.0))
    assert (check.verdict, check.findings) == ("skip", ())
    assert "2 of 3 runs" in check.skipped


@pytest.mark.parametrize(
    ("rate", "verdict"),
    [(100.0, "pass"), (90.0, "pass"), (89.9, "warn"), (5000.0, "pass")],
    ids=["same", "edge", "slow", "fast is no fault"],
)
def test_only_the_slow_side_is_judged(rate, verdict):
    assert baseline.check(book_of(98.0, 100.0, 102.0), KIND, figures(rate)).verdict == verdict


@pytest.mark.parametrize(("step", "verdict"), [(1.1, "pass"), (1.11, "warn"), (0.1, "pass")])
def test_seconds_are_slow_when_there_are_more_of_them(step, verdict):
    book = book_of(1.0, 1.0, 1.0, step=1.0)
    assert baseline.check(book, KIND, figures(step=step)).verdict == verdict


def test_the_slow_gpu_is_named_with_both_figures():
    check = baseline.check(book_of(100.0, 100.0, 100.0), KIND, figures(100.0, 100.0, 80.0))
    (finding,) = check.findings
    assert (finding.code, finding.subject.index, finding.action) == ("baseline.slow", 2, "check_cooling")
    assert "80 Gflop/s" in finding.message
    assert "3 good runs of this hardware 100" in finding.message


def test_one_odd_run_moves_nothing():
    book = book_of(100.0, 100.0, 100.0)
    book["entries"][0]["runs"].append({"host": "odd", "value": 100000.0, "date": "2026-01-02"})
    assert baseline.check(book, KIND, figures(99.0)).verdict == "pass"


@pytest.mark.parametrize(
    ("kind", "settings"), [("8x 10de:2684, driver 580", {}), (KIND + ", simulated", {}), ("4x 10de:2684, driver 570", {})]
)
def test_other_hardware_is_not_compared(kind, settings):
    assert baseline.check(book_of(100.0, 100.0, 100.0), kind, figures(1.0, **settings)).verdict == "skip"


def test_other_settings_are_not_compared():
    other = [baseline.Measured("burn.gflops", "-d", {"0": 1.0})]
    assert baseline.check(book_of(100.0, 100.0, 100.0), KIND, other).verdict == "skip"


def test_a_slow_node_is_not_learned_though_its_steps_passed():
    learned = book_of(100.0, 101.0, 70.0, 99.0)
    assert [run["host"] for run in learned["entries"][0]["runs"]] == ["node-0", "node-1", "node-3"]


def test_one_node_is_not_the_measure_of_all():
    book = baseline.empty()
    for day in range(9):
        book = baseline.learn(book, [("node-0", KIND, figures(100.0 + day))], "2026-01-0%d" % (day + 1)).book
    assert len(book["entries"][0]["runs"]) == baseline.MOST_RUNS_OF_HOST


def test_the_first_runs_are_kept():
    book = book_of(*[100.0] * 30)
    assert len(book["entries"][0]["runs"]) == baseline.MOST_RUNS
    later = baseline.learn(book, [("new", KIND, figures(95.0))], "2026-02-01")
    assert (later.changed, later.book) == (False, book)


def test_what_was_learned_is_left_as_it_was():
    book = book_of(100.0)
    before = copy.deepcopy(book)
    assert baseline.learn(book, [("other", KIND, figures(101.0))], "2026-02-01").changed
    assert book == before


def test_a_node_of_unknown_hardware_teaches_nothing():
    assert baseline.learn(baseline.empty(), [("node", None, figures(1.0))], "2026-01-02") == baseline.Learned(baseline.empty(), False)


@pytest.mark.parametrize(
    "book",
    [
        None, [], {}, {"entries": {}}, {"format": 2, "entries": []}, {"format": 1, "entries": [None]},
        {"format": 1, "entries": [{"hardware": "x", "measure": "y", "settings": "", "runs": [{"value": "fast"}]}]},
    ],
)  # fmt: skip
def test_a_book_that_is_none_is_told(book):
    assert baseline.problem(book)


def test_a_learned_book_is_one():
    assert baseline.problem(book_of(100.0, 99.0)) is None
    assert baseline.problem(baseline.empty()) is None


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["health", "burn", "facts", "gpu", "gpus", "metrics"]), inner)
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(["health", "burn", "nccl", "dryrun"]), ANYTHING))
def test_no_result_raises(results):
    check = baseline.check(baseline.empty(), baseline.hardware(results), baseline.measured(results))
    assert check.verdict == "skip"
    assert baseline.problem({"format": 1, "entries": [results]})
