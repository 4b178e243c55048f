# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find the nodes that make a test over many nodes slow or fail, by running it on parts of them. Private to kentino.gpu.

A group with a bad node in it is bad, so halves are tested and the bad ones are halved again. A single node is tested together
with one that is known to be good: a bad network card does not show as long as a node talks to itself.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

# Runs that a search may take: 64 nodes with one bad one need 12.
MAX_RUNS = 24

Group = t.Tuple[str, ...]
# The bus bandwidth of a run over these nodes in GB/s, None where it failed.
Measure = t.Callable[[Group], t.Optional[float]]


@dataclass(frozen=True)
class Tried:
    nodes: Group
    gbps: t.Optional[float]
    good: bool


@dataclass(frozen=True)
class Found:
    bad: Group  # each of them spoils every group that it is in
    together: t.Tuple[Group, ...]  # bad as a group, while nobody in it is bad with others: the way between them, or not told
    tried: t.Tuple[Tried, ...]
    complete: bool  # the search came to its end


class _TooLong(Exception):
    pass


class _Search:
    def __init__(self, measure: Measure, floor_gbps: t.Optional[float], max_runs: int) -> None:
        self._measure = measure
        self._floor = floor_gbps
        self._left = max_runs
        self.tried: t.List[Tried] = []
        self.proven: t.List[str] = []  # good together with others
        self.bad: t.List[str] = []
        self.open: t.List[Group] = []  # good alone; a pair of them is bad together
        self.together: t.List[Group] = []

    def search(self, group: Group) -> None:
        """C(group), of two nodes or more, is bad: find out why."""
        before = self._culprits()
        if len(group) == 2 and not self._partner(group):
            self._search_pair(group)
            return
        # The larger half first: it may give a good node to compare the rest with.
        middle = (len(group) + 1) // 2
        for half in (group[:middle], group[middle:]):
            if len(half) == 1:
                self._search_one(half[0])
            elif not self._test(half):
                self.search(half)
        if self._culprits() == before:
            self.together.append(group)

    def _culprits(self) -> int:
        return len(self.bad) + len(self.open) + len(self.together)

    def _search_one(self, node: str) -> None:
        partner = self._partner((node,))
        if not self._test((node, partner) if partner else (node,)):
            self.bad.append(node)
        elif not partner:
            self.open.append((node,))

    def _search_pair(self, pair: Group) -> None:
        """No node is known to be good: they can only be tried alone, which says nothing of the network."""
        alone = [self._test((node,)) for node in pair]
        self.bad += [node for node, good in zip(pair, alone) if not good]
        if all(alone):
            self.open.append(pair)

    def settle(self) -> None:
        """Judge those that were good alone by nodes that are good with others, or by each other."""
        while self.open:
            if not self.proven and not self._cross():
                self.together += self.open
                return
            group = self.open.pop(0)
            before = len(self.bad)
            for node in group:
                if node not in self.proven:
                    self._search_one(node)
            if len(self.bad) == before and len(group) > 1:
                self.together.append(group)

    def _cross(self) -> bool:
        """Whether two nodes that were not tried together are good together."""
        pairs = [(one, other) for at, first in enumerate(self.open) for second in self.open[at + 1 :] for one in first for other in second]
        return any(self._test(pair) for pair in pairs)

    def _test(self, nodes: Group) -> bool:
        if not self._left:
            raise _TooLong
        self._left -= 1
        gbps = self._measure(nodes)
        good = gbps is not None and (self._floor is None or gbps >= self._floor)
        self.tried.append(Tried(nodes, gbps, good))
        if good and len(nodes) > 1:
            self.proven += [node for node in nodes if node not in self.proven]
        return good

    def _partner(self, part: Group) -> t.Optional[str]:
        return next((node for node in self.proven if node not in part), None)


def search(nodes: t.Sequence[str], measure: Measure, floor_gbps: t.Optional[float] = None, max_runs: int = MAX_RUNS) -> Found:
    """Look for the bad nodes among C(nodes), of which a run over all was bad. C(measure) runs the test on some of them.

    A run is good when it did not fail, and reached C(floor_gbps) where there is one.
    """
    state = _Search(measure, floor_gbps, max_runs)
    complete = True
    try:
        if len(nodes) > 1:
            state.search(tuple(nodes))
            state.settle()
    except _TooLong:
        complete = False
    return Found(tuple(dict.fromkeys(state.bad)), tuple(state.together), tuple(state.tried), complete)
