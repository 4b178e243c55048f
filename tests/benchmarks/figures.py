# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Figures, their targets, and how they are measured: every figure is a ratio between things that ran in turn on one machine."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
import typing as t
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Figure:
    name: str
    value: float
    unit: str  # "x" for a ratio
    target: str  # "<= 1.5" or ">= 10"
    runs: t.Mapping[str, t.Sequence[float]] = field(default_factory=dict)  # what it was computed from

    @property
    def met(self) -> bool:
        relation, limit = self.target.split()
        return self.value <= float(limit) if relation == "<=" else self.value >= float(limit)


@dataclass(frozen=True)
class Run:
    seconds: float
    peak_mib: float  # of the process or of the largest of those it waited for
    output: str


class BenchmarkError(Exception):
    """What was to be measured did not do its work; its time would mean nothing."""


def run(argv: t.Sequence[str], environment: t.Optional[t.Mapping[str, str]] = None, good: t.Container[int] = (0,)) -> Run:
    begin = time.monotonic()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment) as child:
        assert child.stdout
        output = child.stdout.read().decode("utf-8", "replace")
        _pid, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - begin
    if child.returncode not in good:
        raise BenchmarkError("%s ended with status %d:\n%s" % (" ".join(argv[:3]), child.returncode, output[-3000:]))
    return Run(seconds, usage.ru_maxrss / 1024, output)


def in_turn(rounds: int, **contestants: t.Callable[[], Run]) -> t.Dict[str, t.List[Run]]:
    """Each contestant once a round, in changing order: what slows the machine down for a while slows all of them."""
    runs: t.Dict[str, t.List[Run]] = {name: [] for name in contestants}
    names = list(contestants)
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            runs[name].append(contestants[name]())
    return runs


def seconds(runs: t.Sequence[Run]) -> t.List[float]:
    return [round(one.seconds, 3) for one in runs]


def median_seconds(runs: t.Sequence[Run]) -> float:
    return statistics.median(one.seconds for one in runs)
