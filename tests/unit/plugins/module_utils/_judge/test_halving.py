# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import halving
from hypothesis import given
from hypothesis import strategies as st

FLOOR = 180.0


def names(count: int) -> t.Tuple[str, ...]:
    return tuple("node%02d" % number for number in range(count))


class Cluster:
    """A test over nodes: slow where a bad network card takes part, failing where a bad node does."""

    def __init__(self, slow: t.Collection[str] = (), dead: t.Collection[str] = (), apart: t.Collection[t.Tuple[str, str]] = ()) -> None:
        self.slow, self.dead, self.apart = set(slow), set(dead), [set(pair) for pair in apart]
        self.runs: t.List[t.Tuple[str, ...]] = []

    def measure(self, nodes: t.Tuple[str, ...]) -> t.Optional[float]:
        assert len(set(nodes)) == len(nodes)
        self.runs.append(nodes)
        if self.dead & set(nodes):
            return None
        if len(nodes) == 1:
            return 470.0  # no network in it
        return 30.0 if self.slow & set(nodes) or any(pair <= set(nodes) for pair in self.apart) else 190.0


@pytest.mark.parametrize(
    ("count", "cluster", "bad", "together"),
    [
        pytest.param(4, Cluster(slow=["node03"]), {"node03"}, 0, id="slow network card, the last of four"),
        pytest.param(4, Cluster(slow=["node00"]), {"node00"}, 0, id="the first of four"),
        pytest.param(3, Cluster(slow=["node02"]), {"node02"}, 0, id="the odd one of three"),
        pytest.param(3, Cluster(slow=["node01"]), {"node01"}, 0, id="one of the even half of three"),
        pytest.param(4, Cluster(slow=["node01", "node03"]), {"node01", "node03"}, 0, id="one in each half"),
        pytest.param(4, Cluster(slow=["node00", "node01"]), {"node00", "node01"}, 0, id="both in one half"),
        pytest.param(16, Cluster(slow=["node11"]), {"node11"}, 0, id="one of sixteen"),
        pytest.param(8, Cluster(dead=["node05"]), {"node05"}, 0, id="a node on which it fails"),
        pytest.param(2, Cluster(dead=["node01"]), {"node01"}, 0, id="one of two, bad by itself"),
        pytest.param(2, Cluster(slow=["node01"]), set(), 1, id="one of two, good by itself: cannot be told"),
        pytest.param(4, Cluster(apart=[("node00", "node02")]), set(), 1, id="the cable between two halves"),
    ],
)
def test_bad_nodes_are_found(count, cluster, bad, together):
    found = halving.search(names(count), cluster.measure, FLOOR)
    assert (set(found.bad), len(found.together), found.complete) == (bad, together, True)
    assert [one.nodes for one in found.tried] == cluster.runs


def test_without_a_floor_only_failing_runs_are_bad():
    cluster = Cluster(slow=["node00"], dead=["node02"])
    assert halving.search(names(4), cluster.measure).bad == ("node02",)


def test_a_bad_node_is_tried_together_with_one_that_is_good():
    cluster = Cluster(slow=["node03"])
    halving.search(names(4), cluster.measure, FLOOR)
    assert ("node03", "node00") in cluster.runs


def test_search_is_short():
    cluster = Cluster(slow=["node37"])
    found = halving.search(names(64), cluster.measure, FLOOR)
    assert found.bad == ("node37",)
    assert len(found.tried) <= 12


def test_search_that_takes_too_long_says_so():
    found = halving.search(names(64), Cluster(slow=names(64)).measure, FLOOR, max_runs=5)
    assert not found.complete
    assert len(found.tried) == 5


def test_one_node_is_not_searched():
    assert halving.search(names(1), Cluster().measure, FLOOR).tried == ()


@given(st.integers(2, 12), st.sets(st.integers(0, 11), min_size=1, max_size=3))
def test_no_good_node_is_accused_and_no_bad_one_is_cleared(count, numbers):
    bad = {"node%02d" % number for number in numbers if number < count}
    cluster = Cluster(slow=bad)
    if not bad:
        return
    found = halving.search(names(count), cluster.measure, FLOOR, max_runs=100)
    suspects = set(found.bad) | {node for group in found.together for node in group}
    assert found.complete
    assert set(found.bad) <= bad
    assert bad <= suspects
