# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read what the ranks of a dry run recorded, and what their launcher printed. Private to kentino.gpu.

The records are those of C(_probe/dryrun_job.py): one JSON object a line. A rank may be killed while it writes, and the disk may be
full: what is cut or garbled is counted, the rest is used.
"""

from __future__ import annotations

import dataclasses
import json
import typing as t

from . import cuda_oom, terminal_text, torchelastic
from .dryrun_records import Device, DryRun, Failure, Phase, Rank, Step, Stuck

_LINES = 20
_SIGNS = 6
# What a rank's log may hold that decides who is to blame: an error of the device, a time-out in a collective.
_SIGN_WORDS = (
    "CUDA error:",
    "CUDA driver error",
    "CUDNN_STATUS_",
    "CUBLAS_STATUS_",
    "Cuda failure",
    "NCCL WARN",
    "ncclSystemError",
    "ncclInternalError",
    "ncclUnhandledCudaError",
    "Watchdog caught collective operation timeout",
    "Heartbeat monitor timed out",
    "Segmentation fault",
    "Bus error",
    "Fatal Python error",
    "out of memory",
)
_JSON_TEXTS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def parse(
    records: t.Mapping[int, str],
    logs: t.Mapping[int, str],
    output: str = "",
    exit_status: t.Optional[int] = None,
    outcome: str = "ended",
    problem: str = "",
    states: t.Optional[t.Mapping[int, str]] = None,
    ended_usec: t.Optional[int] = None,
) -> DryRun:
    """C(records) and C(logs): the files of each rank, as text. C(output): torchrun's. C(states): of the processes, see C(Rank)."""
    launcher = torchelastic.parse(output)
    ranks = [_rank(number, records.get(number, ""), logs.get(number, "")) for number in sorted({*records, *logs})]
    ranks = _with_endings(ranks, launcher)
    ranks = [dataclasses.replace(rank, state=(states or {}).get(rank.rank)) for rank in ranks]
    versions = [version for number in sorted(records) for version in _versions(records[number])]
    return DryRun(
        tuple(ranks),
        outcome,
        problem,
        exit_status,
        launcher,
        _last_lines(output),
        ended_usec,
        *(versions[0] if versions else (None, None)),
    )


def _with_endings(ranks: t.List[Rank], launcher: torchelastic.Torchelastic) -> t.List[Rank]:
    """The ends that torchrun saw, by process number; of ranks that left nothing else, they are all there is."""
    by_pid = {ending.pid: ending for ending in launcher.endings}
    known = [dataclasses.replace(rank, ending=by_pid.pop(rank.pid, None)) if rank.pid else rank for rank in ranks]
    for ending in by_pid.values():
        # One node: the rank is the local rank.
        number = ending.rank if ending.rank is not None else ending.local_rank
        place = next((place for place, rank in enumerate(known) if rank.rank == number), None)
        if number is None or (place is not None and known[place].ending is not None):
            continue
        if place is None:
            known.append(Rank(number, ending.local_rank, host=ending.host, pid=ending.pid, ending=ending))
        elif known[place].pid is None:
            known[place] = dataclasses.replace(known[place], pid=ending.pid, ending=ending)
    return sorted(known, key=lambda rank: rank.rank)


def _rank(number: int, record: str, log: str) -> Rank:
    values: t.Dict[str, t.Any] = {}
    phases, steps, stuck, unreadable = [], [], [], 0
    for line in record.split("\n"):
        if not line.strip():
            continue
        entry = _entry(line)
        kind = entry.get("kind")
        if kind == "rank":
            values.update(local_rank=_whole(entry.get("local_rank")), world=_whole(entry.get("world")), pid=_whole(entry.get("pid")))
            values["host"] = _text(entry.get("host"))
        elif kind == "device":
            values["device"] = _device(entry)
        elif kind == "phase" and _text(entry.get("phase")):
            phases.append(_phase(entry))
        elif kind == "step" and _whole(entry.get("step")) is not None:
            steps.append(_step(entry))
        elif kind == "memory":
            values["memory"] = _memory(entry)
        elif kind == "stuck":
            stuck.append(Stuck(_phase(entry), _number(entry.get("seconds")), _texts(entry.get("stack"))))
        elif kind == "error":
            values["failure"] = _failure(entry)
            values.setdefault("memory", _memory(entry))
        elif kind == "finished":
            values["finished"] = True
        elif kind != "versions":
            unreadable += 1
    lines = terminal_text.clean(log).split("\n")
    signs = [line.strip() for line in lines if any(word in line for word in _SIGN_WORDS)]
    failure = values.get("failure")
    if failure is not None and failure.oom is None:
        # NCCL hides it: the exception says "unhandled cuda error", the line before it what happened.
        values["failure"] = dataclasses.replace(failure, oom=next(filter(None, map(cuda_oom.parse, signs)), None))
    return Rank(
        number,
        phases=tuple(phases),
        steps=tuple(steps),
        stuck=tuple(stuck),
        unreadable=unreadable,
        signs=tuple(dict.fromkeys(signs))[:_SIGNS],
        log_end=_last_lines(log),
        **values,
    )


def _entry(line: str) -> t.Dict[str, t.Any]:
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}


def _versions(record: str) -> t.Iterator[t.Tuple[t.Optional[str], t.Optional[str]]]:
    for line in record.split("\n"):
        if '"versions"' in line:
            entry = _entry(line)
            if entry.get("kind") == "versions":
                yield _text(entry.get("torch")), _text(entry.get("cuda"))


def _phase(entry: t.Mapping[str, t.Any]) -> Phase:
    return Phase(_text(entry.get("phase")) or "", _whole(entry.get("step")), _whole(entry.get("usec")))


def _device(entry: t.Mapping[str, t.Any]) -> Device:
    name, uuid, pci = (_text(entry.get(key)) for key in ("name", "uuid", "pci"))
    return Device(_whole(entry.get("index")), name, uuid, pci, memory_bytes=_whole(entry.get("memory_bytes")))


def _step(entry: t.Mapping[str, t.Any]) -> Step:
    return Step(
        _whole(entry.get("step")) or 0,
        compute_seconds=_number(entry.get("compute_seconds")),
        reduce_seconds=_number(entry.get("reduce_seconds")),
        step_seconds=_number(entry.get("step_seconds")),
        loss=_number(entry.get("loss")),
        gradient_norm=_number(entry.get("gradient_norm")),
        reduced_gradient_norm=_number(entry.get("reduced_gradient_norm")),
        parts=_numbers(entry.get("parts")),
        gathered_losses=_numbers(entry.get("gathered_losses")),
    )


def _memory(entry: t.Mapping[str, t.Any]) -> t.Dict[str, int]:
    found = {key: _whole(value) for key, value in entry.items() if key.endswith("_bytes") or key in ("alloc_retries", "ooms")}
    return {key: value for key, value in found.items() if value is not None}


def _failure(entry: t.Mapping[str, t.Any]) -> Failure:
    text = _text(entry.get("text")) or ""
    phase = _phase(entry) if _text(entry.get("phase")) else None
    return Failure(_text(entry.get("type")) or "an error", text, phase, _texts(entry.get("stack")), cuda_oom.parse(text))


def _last_lines(text: str) -> t.Tuple[str, ...]:
    lines = [line.rstrip() for line in terminal_text.clean(text).split("\n")]
    return tuple(line for line in lines if line)[-_LINES:]


def _whole(value: t.Any) -> t.Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: t.Any) -> t.Optional[float]:
    """JSON has no word for NaN: the job writes it as text."""
    if isinstance(value, str):
        return _JSON_TEXTS.get(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _numbers(value: t.Any) -> t.Tuple[float, ...]:
    """As long as the list is: what is no number is NaN."""
    if not isinstance(value, list):
        return ()
    found = [_number(item) for item in value]
    return tuple(_JSON_TEXTS["nan"] if item is None else item for item in found)


def _text(value: t.Any) -> t.Optional[str]:
    return value if isinstance(value, str) and value else None


def _texts(value: t.Any) -> t.Tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
