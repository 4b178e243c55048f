# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table at the end of a preflight: what each step measured on each host, and the gate's word. Private to kentino.gpu."""

from __future__ import annotations

import statistics
import typing as t
from collections.abc import Mapping

from .model import VERDICTS
from .result import one_line
from .table import SIMULATED, sentence

HEAD = ("host", "step", "verdict", "time", "measured")
GONE = "the host dropped out of the play, unreachable or failed, and has no result"

# With more hosts those that are open get one line each: a table of a thousand lines hides the bad host.
_HOSTS_IN_FULL = 12
_REASONS = 4
_HOST_WIDTH, _WIDTH = 32, 240
_GIB = 1 << 30

_Results = t.Mapping[str, t.Any]


def lines(hosts: t.Mapping[str, t.Tuple[_Results, t.Any]]) -> t.List[str]:
    """Lines of text. C(hosts): host to the results of its steps by name, and what the gate returned for it."""
    rows: t.List[t.Tuple[str, ...]] = [HEAD]
    simulated = False
    for host, (results, gate) in hosts.items():
        simulated = simulated or bool(_at(gate, "simulated")) or any(bool(_at(result, "simulated")) for result in results.values())
        is_open = _at(gate, "open") is True
        steps = [_row(host, step, result) for step, result in results.items() if not _is_left_out(result)]
        if is_open and len(hosts) > _HOSTS_IN_FULL:
            words = "; ".join("%s %s" % (step[1], step[4]) for step in steps if step[2] != "skip" and step[1] != "health")
            rows.append((one_line(host, _HOST_WIDTH), "gate", "open", "", one_line(words, _WIDTH)))
            continue
        rows += [*steps, *_gate_rows(host, gate, is_open)]
    widths = [max(map(len, column)) for column in zip(*rows)]
    aligned = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return [*([SIMULATED] if simulated else []), *aligned, *_notes(hosts), _sum(hosts)]


def measured(step: str, result: t.Any) -> str:
    """What a step measured, in a line; where it measured nothing, why."""
    words = _MEASURED.get(step, _evidence)(result) or _evidence(result)
    return "; ".join(filter(None, (words, _worst_message(result)))) or "nothing was measured"


def seconds(result: t.Any, step: str) -> t.Optional[float]:
    """For how long the step's tools ran."""
    facts = _at(result, "facts", step)
    whole = _number(_at(facts, "wall_seconds"))
    if whole is None:
        runs = [_number(_at(run, "wall_seconds")) for run in _list(_at(facts, "runs"))]
        known = [one for one in runs if one is not None]
        whole = sum(known) if known else None
    return whole or None


def _row(host: str, step: str, result: t.Any) -> t.Tuple[str, ...]:
    verdict = _at(result, "verdict")
    took = seconds(result, step)
    return (
        one_line(host, _HOST_WIDTH),
        one_line(step, _HOST_WIDTH),
        verdict if isinstance(verdict, str) and verdict in VERDICTS else "unknown",
        "-" if took is None else _clock(took),
        one_line(measured(step, result), _WIDTH),
    )


def _gate_rows(host: str, gate: t.Any, is_open: bool) -> t.Iterator[t.Tuple[str, ...]]:
    name = one_line(host, _HOST_WIDTH)
    if is_open:
        message = str(_at(gate, "msg") or "")
        yield name, "gate", "open", "", one_line(message.partition("gate open: ")[2] or message, _WIDTH)
        return
    codes = {sentence(found): found["code"] for found in _list(_at(gate, "findings")) if "waived" not in found}
    reasons = ["%s [%s]" % (reason, codes[reason]) if reason in codes else str(reason) for reason in _list(_at(gate, "reasons"))]
    reasons = reasons or [str(_at(gate, "msg") or GONE)]
    for place, reason in enumerate(reasons[:_REASONS]):
        more = "" if place + 1 < _REASONS or len(reasons) <= _REASONS else "; and %d more" % (len(reasons) - _REASONS)
        yield name, "gate" if not place else "", "SHUT" if not place else "", "", one_line(reason, _WIDTH) + more


def _sum(hosts: t.Mapping[str, t.Tuple[_Results, t.Any]]) -> str:
    shut = [host for host, (_results, gate) in hosts.items() if _at(gate, "open") is not True]
    if not shut:
        return "gate open on %s" % ("all %d hosts" % len(hosts) if len(hosts) > 1 else "this host")
    return "gate open on %d of %d hosts, shut on %s" % (len(hosts) - len(shut), len(hosts), one_line(", ".join(shut), _WIDTH))


def _notes(hosts: t.Mapping[str, t.Tuple[_Results, t.Any]]) -> t.Iterator[str]:
    """What is waived, and what the gate remarks, such as a waiver that is unused. Why a check did not run stands in its row."""
    said: t.Dict[str, t.List[str]] = {}
    for host, (_results, gate) in hosts.items():
        waived = [found for found in _list(_at(gate, "findings")) if "waived" in found]
        notes = ["%s on %s is waived until %s" % (found["code"], found["subject"]["label"], found["waived"]["until"]) for found in waived]
        for note in [*notes, *(note for note in _list(_at(gate, "notes")) if not str(note).startswith("check "))]:
            said.setdefault(one_line(note), []).append(host)
    for note, named in said.items():
        yield "note: %s: %s" % (named[0] if len(named) == 1 else "%d hosts" % len(named), note)


def _is_left_out(result: t.Any) -> bool:
    return any(_at(check, "skipped") == "not asked for" for check in _list(_at(result, "checks")))


def _health(result: t.Any) -> str:
    heat = [_number(_at(gpu, "temperature_c")) for gpu in _values(_at(result, "metrics", "gpu"))]
    known = [one for one in heat if one is not None]
    return ", ".join(filter(None, (_evidence(result), "hottest %.0f C" % max(known) if known else "")))


def _dcgm(result: t.Any) -> str:
    facts = _at(result, "facts", "dcgm")
    runs = _list(_at(facts, "runs"))
    tests = _list(_at(runs[0], "tests")) if runs else []
    by_status: t.Dict[str, t.List[str]] = {}
    for test in tests:
        by_status.setdefault(str(_at(test, "status")), []).append(one_line(_at(test, "name")))
    if not by_status:
        return ""
    words = ["%d passed" % len(by_status.pop("pass", []))]
    for status, names in sorted(by_status.items()):
        word = {"fail": "failed", "skip": "skipped", "not_run": "not run", "warn": "with a warning"}.get(status, one_line(status))
        words.append("%d %s (%s)" % (len(names), word, ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")))
    level = _number(_at(facts, "level"))
    return "%s%s" % ("level %d: " % level if level else "", ", ".join(words))


def _burn(result: t.Any) -> str:
    gpus = _at(result, "metrics", "burn", "gpus")
    rates = _column(gpus, "gflops")
    if not rates:
        return ""
    words = ["%d GPUs, at least %.0f, median %.0f Gflop/s" % (len(rates), min(rates), statistics.median(rates))]
    for name, text in (("temperature_max_c", "hottest %.0f C"), ("power_max_watts", "up to %.0f W")):
        values = _column(gpus, name)
        words += [text % max(values)] if values else []
    return ", ".join(words)


def _nccl(result: t.Any) -> str:
    numbers = _at(result, "metrics", "nccl")
    rate, size, floor = (_number(_at(numbers, key)) for key in ("busbw_gbps", "message_bytes", "floor_gbps"))
    if rate is None:
        return ""
    words = "%.1f GB/s" % rate + (" at %s" % _size(size) if size else "")
    words += ", floor %g" % floor if floor else ", no floor"
    return words + (" (with NCCL_P2P_DISABLE=1)" if _at(result, "facts", "nccl", "best_p2p") == "off" else "")


def _dryrun(result: t.Any) -> str:
    numbers = _at(result, "metrics", "dryrun")
    step = _number(_at(numbers, "step_seconds"))
    if step is None:
        return ""
    words = ["%d ranks, %.3g s a step" % (_number(_at(numbers, "ranks_finished")) or 0, step)]
    compute = _at(numbers, "compute_seconds")
    by_rank = [(_number(value), rank) for rank, value in compute.items()] if isinstance(compute, Mapping) else []
    known = [(value, rank) for value, rank in by_rank if value]
    if len(known) > 1:
        slowest, rank = max(known)
        words.append("slowest rank %s %+.0f %%" % (rank, (slowest / statistics.median(value for value, _rank in known) - 1) * 100))
    peak = _number(_at(numbers, "peak_reserved_bytes"))
    words += ["%.1f GiB at most" % (peak / _GIB)] if peak else []
    words += ["on the CPU"] if _at(result, "facts", "dryrun", "device") == "cpu" else []
    return ", ".join(words)


_MEASURED: t.Mapping[str, t.Callable[[t.Any], str]] = {"health": _health, "dcgm": _dcgm, "burn": _burn, "nccl": _nccl, "dryrun": _dryrun}


def _evidence(result: t.Any) -> str:
    said = [_at(check, "skipped") or _at(check, "evidence") for check in _list(_at(result, "checks"))]
    return ", ".join(dict.fromkeys(one_line(words) for words in said if words))


def _worst_message(result: t.Any) -> str:
    """Findings come worst first."""
    for finding in _list(_at(result, "findings")):
        if _at(finding, "verdict") in ("fail", "unknown", "warn"):
            return one_line(_at(finding, "message"))
    return one_line(_at(result, "msg") or "")


def _size(count: float) -> str:
    for unit, factor in (("GiB", _GIB), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return "%.4g %s" % (count / factor, unit)
    return "%d bytes" % count


def _clock(value: float) -> str:
    if value < 10:
        return "%.1f s" % value
    if value < 60:
        return "%.0f s" % value
    minutes, rest = divmod(round(value), 60)
    return "%d:%02d" % (minutes, rest) if minutes < 60 else "%d:%02d:%02d" % (minutes // 60, minutes % 60, rest)


def _column(gpus: t.Any, name: str) -> t.List[float]:
    values = [_number(_at(gpu, name)) for gpu in _values(gpus)]
    return [value for value in values if value is not None]


def _values(given: t.Any) -> t.List[t.Any]:
    return list(given.values()) if isinstance(given, Mapping) else []


def _list(given: t.Any) -> t.List[t.Any]:
    return list(given) if isinstance(given, (list, tuple)) else []


def _at(value: t.Any, *path: str) -> t.Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _number(value: t.Any) -> t.Optional[float]:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e18 else None
