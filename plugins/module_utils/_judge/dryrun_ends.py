# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the ranks of a dry run ended, and which of them is to blame. Private to kentino.gpu.

The rank that complains is seldom the culprit. One rank that dies or hangs lets all others fail in the collective in which they
wait for it, and the launcher calls the first of those the root cause. So a rank that failed while it waited is a victim as long as
there is one that ended of itself, or one that had not arrived.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from .._knowledge import cuda_errors
from .._parse.dryrun_records import DryRun, Failure, Phase, Rank

# gloo: "Timed out waiting 60000ms for recv operation to complete"; NCCL: "Watchdog caught collective operation timeout"
_TIMED_OUT = re.compile(r"timed[ -]?out|timeout", re.I)
_NOWHERE = (-2, 0)
_SIGABRT, _SIGKILL, _SIGTERM = -6, -9, -15


@dataclass(frozen=True)
class Ends:
    """C(died) of themselves; C(oom) for want of memory; C(no_gpu) could not use their device; C(hung) did not arrive where others
    waited; C(waited) are the victims. Whoever is in none of these ended in a way that explains nothing."""

    finished: t.Tuple[Rank, ...] = ()
    died: t.Tuple[Rank, ...] = ()
    oom: t.Tuple[Rank, ...] = ()
    no_gpu: t.Tuple[Rank, ...] = ()
    hung: t.Tuple[Rank, ...] = ()
    waited: t.Tuple[Rank, ...] = ()
    collective: t.Optional[Phase] = None  # where the victims waited
    inside: bool = False  # the hung ones entered it, and did not come out as others did
    undecided: bool = False  # all entered it and none came out

    @property
    def culprits(self) -> t.Tuple[Rank, ...]:
        return (*self.died, *self.oom, *self.no_gpu, *self.hung)


def ends(record: DryRun, patience_seconds: float) -> Ends:
    """C(patience_seconds): how long a rank must have waited when we ended the run before that counts as a hang."""
    kinds = [(rank, _kind(rank, record)) for rank in record.ranks]

    def of(*names: str) -> t.Tuple[Rank, ...]:
        return tuple(rank for rank, kind in kinds if kind in names)

    known = Ends(finished=of("finished"), died=of("died"), oom=of("oom"), no_gpu=of("no_gpu"), waited=of("waited"))
    if known.culprits:
        return known
    unfinished = of("waited", "stopped", "open")
    found = _hang(record, known, unfinished, patience_seconds)
    if not found.hung and not found.undecided:
        # Ended by a SIGKILL that did not come from the launcher after all, or not seen by it.
        killed = [rank for rank in of("stopped") if rank.ending and rank.ending.exit_code == _SIGKILL]
        lost = [rank for rank in of("open") if found.waited and record.outcome == "ended"]
        return Ends(finished=known.finished, died=tuple(killed or lost), waited=known.waited)
    return found


def _kind(rank: Rank, record: DryRun) -> str:
    ending = rank.ending
    if rank.finished:
        return "finished"
    if rank.failure is not None:
        return _kind_of_failure(rank, rank.failure)
    closed = rank.pid is not None and rank.pid in record.launcher.closed_pids
    if ending is None:
        return "stopped" if closed else "died" if rank.state in ("gone", "Z") else "open"
    if ending.exit_code == _SIGTERM or (closed and ending.exit_code == _SIGKILL):
        return "stopped"
    in_collective = rank.last is not None and rank.last.collective
    # What NCCL's watchdog does to a rank that waits too long.
    if ending.exit_code == _SIGABRT and in_collective and device_error(rank) is None:
        return "waited"
    return "died"


def _kind_of_failure(rank: Rank, failure: Failure) -> str:
    if failure.oom is not None:
        return "oom"
    phase = failure.phase.name if failure.phase else ""
    if phase == "device":
        return "no_gpu"
    if failure.phase is None or not failure.phase.collective or device_error(rank) is not None:
        return "died"
    return "waited"


def device_error(rank: Rank) -> t.Optional[t.Tuple[str, str]]:
    """Action and advice where the rank tells of an error of its own device."""
    texts = [rank.failure.text] if rank.failure else []
    return next((found for found in map(cuda_errors.error, [*texts, *rank.signs]) if found), None)


def _hang(record: DryRun, known: Ends, unfinished: t.Sequence[Rank], patience_seconds: float) -> Ends:
    waiting = [rank for rank in unfinished if rank.last is not None and rank.last.collective]
    timed_out = any(_timed_out(rank) for rank in known.waited)
    ended_by_us = record.outcome in ("timeout", "unkillable", "stopped")
    if not timed_out and not (ended_by_us and any(_lasted(rank, record) >= patience_seconds for rank in waiting or unfinished)):
        return known
    if not waiting:
        slow = tuple(rank for rank in unfinished if _lasted(rank, record) >= patience_seconds)
        return Ends(finished=known.finished, hung=slow)
    furthest = max((rank.last for rank in waiting if rank.last is not None), key=lambda phase: phase.place)
    absent = tuple(rank for rank in unfinished if rank not in waiting and _place(rank) < furthest.place)
    if absent:
        return Ends(known.finished, hung=absent, waited=_but(unfinished, absent), collective=furthest)
    first = min(map(_place, waiting))
    inside = tuple(rank for rank in waiting if _place(rank) == first)
    everyone = len(known.finished) + len(unfinished)
    # Of a ring, one part may have passed while the rest waits for each other: only the odd one out can be named.
    if len(inside) * 2 < everyone and inside[0].last is not None:
        return Ends(known.finished, hung=inside, waited=_but(unfinished, inside), collective=inside[0].last, inside=True)
    return Ends(known.finished, waited=tuple(waiting), collective=furthest, undecided=True)


def _timed_out(rank: Rank) -> bool:
    texts = [rank.failure.text] if rank.failure else []
    aborted = rank.ending is not None and rank.ending.exit_code == _SIGABRT
    return aborted or any(_TIMED_OUT.search(text) for text in [*texts, *rank.signs])


def _lasted(rank: Rank, record: DryRun) -> float:
    """Seconds in its last phase. A rank that said nothing at all has been silent for ever."""
    if rank.last is None or rank.last.usec is None or record.ended_usec is None:
        return float("inf")
    return (record.ended_usec - rank.last.usec) / 1e6


def _place(rank: Rank) -> t.Tuple[int, int]:
    return rank.last.place if rank.last is not None else _NOWHERE


def _but(ranks: t.Sequence[Rank], others: t.Sequence[Rank]) -> t.Tuple[Rank, ...]:
    return tuple(rank for rank in ranks if rank not in others)
