# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hold a node's figures against those of earlier good runs of the same hardware. Private to kentino.gpu.

For most cards nobody has published what a good one reaches. Then the owner's own first good runs say it. Only the slow side is
judged, and the middle of the kept runs is the median, so that one odd run moves nothing.
"""

from __future__ import annotations

import statistics
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from .._report.model import NODE, Check, Finding, Subject

NAME = "baseline"
FORMAT = 1
MODES = ("learn", "compare", "off")

# Fewer say nothing; more are not kept: the first ones are those that were looked at.
LEAST_RUNS = 3
MOST_RUNS = 20
# One node that is run every night must not be the measure of all.
MOST_RUNS_OF_HOST = 3
TOLERANCE_PCT = 10.0

_ACTIONS = {"burn": "check_cooling"}
_ADVICE = "compare it with the same run on a sibling node; a new driver branch begins a baseline of its own"


@dataclass(frozen=True)
class Measure:
    name: str
    unit: str
    slow_is: str  # low or high


MEASURES = {
    measure.name: measure
    for measure in (
        Measure("burn.gflops", "Gflop/s", "low"),
        Measure("nccl.busbw_gbps", "GB/s", "low"),
        Measure("dryrun.step_seconds", "s", "high"),
    )
}


@dataclass(frozen=True)
class Measured:
    """What one run measured: values by GPU index, or under the empty name for the node as a whole."""

    name: str
    settings: str  # what else must be equal for two runs to be comparable
    values: t.Mapping[str, float]

    @property
    def middle(self) -> float:
        return statistics.median(self.values.values())


@dataclass(frozen=True)
class Learned:
    book: t.Dict[str, t.Any]
    changed: bool


def hardware(results: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """C(8x 10de:2330, driver 570): what two nodes must share to be comparable; None where the GPUs were not read.

    A simulated node is never compared with a real one. The driver counts by its branch, because a new one moves clocks.
    """
    facts = _at(results, "health", "facts", "gpu")
    gpus = facts.get("gpus") if isinstance(facts, Mapping) else None
    if not isinstance(gpus, (list, tuple)) or not gpus:
        return None
    ids = [str(gpu["device_id"]).lower() for gpu in gpus if isinstance(gpu, Mapping) and gpu.get("device_id")]
    branch = str(facts.get("driver_version") or "").partition(".")[0]
    if len(ids) != len(gpus) or not branch:
        return None
    cards = ["%dx %s" % (ids.count(device), device) for device in sorted(set(ids))]
    return "%s, driver %s%s" % (" + ".join(cards), branch, ", simulated" if facts.get("simulated") else "")


def measured(results: t.Mapping[str, t.Any], dryrun_settings: str = "") -> t.List[Measured]:
    """The figures in the results of a run, by step; what was not measured is not there.

    C(dryrun_settings): the size of the dry run's model and batch, which its result does not tell.
    """
    found = [_burn(results.get("burn")), _nccl(results.get("nccl")), _dryrun(results.get("dryrun"), dryrun_settings)]
    return [one for one in found if one is not None and one.values]


def _burn(result: t.Any) -> t.Optional[Measured]:
    gpus = _at(result, "metrics", "burn", "gpus")
    if not isinstance(gpus, Mapping):
        return None
    values = {str(index): gpu.get("gflops") for index, gpu in gpus.items() if isinstance(gpu, Mapping)}
    argv = _at(result, "facts", "burn", "argv")
    words = [str(word) for word in argv[1:-1]] if isinstance(argv, (list, tuple)) else []
    return Measured("burn.gflops", " ".join(words), _numbers(values))


def _nccl(result: t.Any) -> t.Optional[Measured]:
    numbers = _at(result, "metrics", "nccl")
    if not isinstance(numbers, Mapping):
        return None
    settings = "%s bytes, %s ranks" % (numbers.get("message_bytes"), numbers.get("ranks"))
    return Measured("nccl.busbw_gbps", settings, _numbers({"": numbers.get("busbw_gbps")}))


def _dryrun(result: t.Any, settings: str) -> t.Optional[Measured]:
    return Measured("dryrun.step_seconds", settings, _numbers({"": _at(result, "metrics", "dryrun", "step_seconds")}))


def problem(book: t.Any) -> t.Optional[str]:
    """Why C(book), as read from its file, is no baseline; None where it is one."""
    if not isinstance(book, Mapping) or not isinstance(book.get("entries"), list):
        return "it is no baseline of kentino.gpu"
    if book.get("format") != FORMAT:
        return "it was written by another version (format %r, %d expected)" % (book.get("format"), FORMAT)
    for entry in book["entries"]:
        keys = isinstance(entry, Mapping) and all(isinstance(entry.get(key), str) for key in ("hardware", "measure", "settings"))
        runs = entry.get("runs") if keys else None
        if not isinstance(runs, list) or not all(isinstance(run, Mapping) and _is_number(run.get("value")) for run in runs):
            return "an entry of it cannot be read: %.80r" % (entry,)
    return None


def empty() -> t.Dict[str, t.Any]:
    return {"format": FORMAT, "entries": []}


def learn(
    book: t.Mapping[str, t.Any],
    runs: t.Sequence[t.Tuple[str, t.Optional[str], t.Sequence[Measured]]],
    date: str,
    tolerance_pct: float = TOLERANCE_PCT,
) -> Learned:
    """C(book) with the runs of good nodes, each C((host, hardware, measured)), as far as there is room.

    All of them are weighed before any is kept: one that is slower than the middle of all, old and new, is no model for the rest.
    """
    entries = [dict(entry, runs=[dict(run) for run in entry["runs"]]) for entry in book["entries"]]
    offered: t.Dict[t.Tuple[str, str, str], t.List[t.Tuple[str, float]]] = {}
    for host, kind, figures in runs:
        for one in figures if kind else ():
            offered.setdefault((str(kind), one.name, one.settings), []).append((host, one.middle))
    changed = False
    for key, candidates in offered.items():
        entry = next((entry for entry in entries if (entry["hardware"], entry["measure"], entry["settings"]) == key), None)
        if entry is None:
            measure = MEASURES[key[1]]
            entry = {"hardware": key[0], "measure": key[1], "settings": key[2], "unit": measure.unit, "runs": []}
            entries.append(entry)
        kept = entry["runs"]
        middle = statistics.median([run["value"] for run in kept] + [value for _host, value in candidates])
        for host, value in candidates:
            of_host = sum(run.get("host") == host for run in kept)
            if len(kept) < MOST_RUNS and of_host < MOST_RUNS_OF_HOST and not _slow(MEASURES[key[1]], value, middle, tolerance_pct):
                kept.append({"host": host, "value": value, "date": date})
                changed = True
    return Learned({"format": FORMAT, "entries": [entry for entry in entries if entry["runs"]]}, changed)


def check(book: t.Mapping[str, t.Any], kind: t.Optional[str], figures: t.Sequence[Measured], tolerance_pct: float = TOLERANCE_PCT) -> Check:
    """Hold what a node measured against C(book)."""
    if kind is None:
        return Check(NAME, "", skipped="which GPUs this node has was not read, so that nothing can be compared")
    if not figures:
        return Check(NAME, "", skipped="no step measured a figure to compare")
    findings: t.List[Finding] = []
    compared, lacking = [], []
    for one in figures:
        entry = next(
            (
                entry
                for entry in book["entries"]
                if (entry["hardware"], entry["measure"], entry["settings"]) == (kind, one.name, one.settings)
            ),
            None,
        )
        known = [run["value"] for run in entry["runs"]] if entry else []
        if len(known) < LEAST_RUNS:
            lacking.append("%s has %d of %d runs" % (one.name, len(known), LEAST_RUNS))
            continue
        middle = statistics.median(known)
        findings += _judge(one, middle, len(known), tolerance_pct)
        compared.append("%s with %d runs" % (one.name, len(known)))
    metrics = {one.name: one.middle for one in figures}
    if not compared:
        return Check(NAME, "", skipped="nothing to compare with yet on %s: %s" % (kind, "; ".join(lacking)), metrics=metrics)
    evidence = "%s of %s compared" % (", ".join(compared), kind)
    return Check(NAME, evidence, tuple(findings), metrics=metrics)


def _judge(one: Measured, middle: float, runs: int, tolerance_pct: float) -> t.Iterator[Finding]:
    measure = MEASURES[one.name]
    step = one.name.split(".")[0]
    for name, value in sorted(one.values.items()):
        if _slow(measure, value, middle, tolerance_pct):
            about = Subject("gpu", index=int(name)) if name.isdecimal() else NODE
            word = "less" if measure.slow_is == "low" else "more"
            seen = (one.name, value, measure.unit, runs, middle, tolerance_pct, word)
            message = "%s is %.4g %s, the median of %d good runs of this hardware %.4g; at most %g %% %s allowed" % seen
            yield Finding("baseline.slow", "warning", about, message, _ACTIONS.get(step, "look_at_code"), advice=_ADVICE)


def _slow(measure: Measure, value: float, middle: float, tolerance_pct: float) -> bool:
    part = tolerance_pct / 100
    return value < middle * (1 - part) if measure.slow_is == "low" else value > middle * (1 + part)


def _at(value: t.Any, *path: str) -> t.Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _numbers(values: t.Mapping[t.Any, t.Any]) -> t.Dict[str, float]:
    return {str(key): float(value) for key, value in values.items() if _is_number(value)}


def _is_number(value: t.Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")
