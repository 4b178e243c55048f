# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a person reads while a preflight runs: one line for each node. Private to kentino.gpu."""

from __future__ import annotations

import typing as t

from .result import one_line

_HEAD = ("host", "step", "state", "done", "time", "hottest", "errors")
_WIDTH = 32
# Tools take some time to end after the time that they were given. What takes longer is not waited for so eagerly.
_SOON_SECONDS, _OVERTIME_SECONDS = 2.0, 60.0


def lines(step: str, standings: t.Mapping[str, t.Mapping[str, t.Any]]) -> t.List[str]:
    """Lines of text; C(standings) by host, as preflight_status_info returns them. Hosts that do not run the step are left out."""
    rows = [_row(host, step, told) for host, told in standings.items() if told.get("step") == step or told.get("unreachable")]
    if not rows:
        return []
    cells = [_HEAD, *rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cells]


def running(step: str, standings: t.Mapping[str, t.Mapping[str, t.Any]]) -> int:
    """How many hosts still run the step."""
    return sum(bool(told.get("unreachable")) or (told.get("step") == step and bool(told.get("running"))) for told in standings.values())


def pause_seconds(step: str, standings: t.Mapping[str, t.Mapping[str, t.Any]], every_seconds: float) -> float:
    """How long to wait before the hosts are asked again: less than C(every_seconds) where one is about to end."""
    pauses = [every_seconds]
    for told in standings.values():
        elapsed, total = _number(told.get("elapsed_seconds")), _number(told.get("total_seconds"))
        if told.get("step") != step or not told.get("running") or elapsed is None or not total:
            continue
        left = total - elapsed
        if left > 0:
            pauses.append(max(_SOON_SECONDS, left))
        elif -left < _OVERTIME_SECONDS:
            pauses.append(_SOON_SECONDS)
    return min(pauses)


def _row(host: str, step: str, told: t.Mapping[str, t.Any]) -> t.Tuple[str, ...]:
    if told.get("unreachable"):
        return one_line(host, _WIDTH), step, "unreachable", "-", "-", "-", "-"
    hottest, gpu = _number(told.get("hottest_c")), _number(told.get("hottest_gpu"))
    heat = "-" if hottest is None else "%d C" % hottest + (" (GPU %d)" % gpu if gpu is not None else "")
    errors = _number(told.get("errors"))
    return (
        one_line(host, _WIDTH),
        step,
        one_line(told.get("state") or "unknown", _WIDTH),
        _done(told),
        _time(told),
        heat,
        "-" if errors is None else "%d" % errors,
    )


def _done(told: t.Mapping[str, t.Any]) -> str:
    percent = _number(told.get("percent"))
    if percent is not None:
        return "%.0f %%" % percent
    elapsed, total = _number(told.get("elapsed_seconds")), _number(told.get("total_seconds"))
    # Not every tool tells how far it is; of its time at most, it is no more than a guess.
    return "-" if elapsed is None or not total else "< %d %%" % min(100, 1 + int(100 * elapsed / total))


def _time(told: t.Mapping[str, t.Any]) -> str:
    elapsed, total = _number(told.get("elapsed_seconds")), _number(told.get("total_seconds"))
    if elapsed is None:
        return "-"
    return _clock(elapsed) + (" of %s" % _clock(total) if total else "")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return "%d:%02d" % (minutes, rest) if minutes < 60 else "%d:%02d:%02d" % (minutes // 60, minutes % 60, rest)


def _number(value: t.Any) -> t.Optional[float]:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e12 else None
