# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run of nccl-tests reports, the same whether its table or its JSON file was read. Private to kentino.gpu."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass


@dataclass(frozen=True)
class Side:
    """One measurement; a value that was printed as inf or nan is None."""

    time_us: t.Optional[float] = None
    algbw: t.Optional[float] = None  # GB/s
    busbw: t.Optional[float] = None  # GB/s
    wrong: t.Optional[int] = None  # elements; None: N/A, the result was not looked at
    delta: t.Optional[float] = None  # before 2.13: the largest deviation, of which only the footer says whether it is too large


@dataclass(frozen=True)
class Row:
    size: int  # bytes; neither unique nor rising: -o all, -d all and -n repeat it
    count: int
    type: str
    redop: t.Optional[str] = None  # None where the collective has none
    root: t.Optional[int] = None
    out_of_place: t.Optional[Side] = None
    in_place: t.Optional[Side] = None
    timestamp: t.Optional[str] = None

    def sides(self) -> t.Tuple[Side, ...]:
        return tuple(side for side in (self.out_of_place, self.in_place) if side is not None)


@dataclass(frozen=True)
class Rank:
    rank: int
    host: t.Optional[str] = None
    pid: t.Optional[int] = None
    group: t.Optional[int] = None
    device: t.Optional[int] = None
    bus: t.Optional[str] = None  # 0x1b, or dddd:bb:dd from 2.16 on, as printed
    name: t.Optional[str] = None


@dataclass(frozen=True)
class Failure:
    """The test's own word that a call failed on one process."""

    host: t.Optional[str] = None
    pid: t.Optional[int] = None
    result: t.Optional[str] = None  # the text of the ncclResult or cudaError
    message: t.Optional[str] = None  # with NCCL's last error behind it
    location: t.Optional[str] = None  # file:line


@dataclass(frozen=True)
class Run:
    format: str  # 1.x, 2.0-2.12, 2.13+, json; "" where nothing of a table was seen
    program: t.Optional[str] = None  # all_reduce_perf
    tests_version: t.Optional[str] = None
    nccl_version: t.Optional[str] = None
    threads: t.Optional[int] = None  # per process
    gpus: t.Optional[int] = None  # per thread
    validation: t.Optional[int] = None  # how often each result was checked; 0: never
    min_bytes: t.Optional[int] = None
    max_bytes: t.Optional[int] = None
    reduced_bytes: t.Optional[int] = None  # largest size that fitted into memory, where that is less
    ranks: t.Tuple[Rank, ...] = ()
    processes_only: bool = False  # the JSON file lists one rank for each process
    rows: t.Tuple[Row, ...] = ()
    partial_rows: int = 0
    wrong_on_ranks: int = 0  # ranks that a debugging build says had wrong elements
    out_of_bounds: t.Optional[int] = None  # results that were wrong
    bounds_okay: t.Optional[bool] = None  # the tool's word
    footer: bool = False  # both closing figures were seen, the last of them whole
    average_busbw: t.Optional[float] = None  # over all sizes, the tiny ones too
    average_okay: t.Optional[bool] = None  # against NCCL_TESTS_MIN_BW; None: not asked for
    failures: t.Tuple[Failure, ...] = ()
    last_error: t.Optional[str] = None  # what NCCL complained of last, though the calls may have succeeded

    @property
    def complete(self) -> bool:
        return self.footer and not self.failures

    @property
    def rank_count(self) -> t.Optional[int]:
        """GPUs that took part; None where the text does not tell."""
        if not self.processes_only:
            return len(self.ranks) or None
        if not self.ranks or not self.threads or not self.gpus:
            return None
        return len(self.ranks) * self.threads * self.gpus

    @property
    def validated(self) -> t.Optional[bool]:
        """Whether results were compared with what they should be; the footer says "0 OK" even where they were not."""
        sides = [side for row in self.rows for side in row.sides()]
        if self.validation == 0:
            return False
        if not sides:
            return None
        return any(side.wrong is not None or side.delta is not None for side in sides)


@dataclass(frozen=True)
class NcclTests:
    runs: t.Tuple[Run, ...] = ()
    crashes: t.Tuple[str, ...] = ()  # a process that a signal ended for what it did
    aborts: t.Tuple[str, ...] = ()  # the launcher's word for a process that ended badly, or could not be started
    warnings: t.Tuple[str, ...] = ()  # NCCL WARN
    exit_status: t.Optional[int] = None
    unrecognised: t.Tuple[str, ...] = ()


def mean_busbw(rows: t.Iterable[Row]) -> t.Optional[float]:
    """What the tool prints as its average, from the rows that are there."""
    values = [side.busbw for row in rows for side in row.sides() if side.busbw is not None]
    return sum(values) / len(values) if values else None


def version_of(code: int) -> str:
    """C(22809) as C(2.28.9); before 2.9 the middle number had two digits less: C(2708)."""
    if code < 10000:
        return "%d.%d.%d" % (code // 1000, code // 100 % 10, code % 100)
    return "%d.%d.%d" % (code // 10000, code // 100 % 100, code % 100)


def redop_of(word: t.Optional[str]) -> t.Optional[str]:
    """From 2.13 on a collective without a reduction prints none where older versions leave the column blank."""
    return None if not word or word == "none" else word


def root_of(number: t.Optional[int]) -> t.Optional[int]:
    """-1 where the collective has no root."""
    return None if number is None or number < 0 else number
