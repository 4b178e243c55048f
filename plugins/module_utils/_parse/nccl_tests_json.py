# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the file that nccl-tests writes with -J, from 2.17.6 on. Private to kentino.gpu.

Booleans are the words "true" and "false", the root is a padded text, and up to 2.18.3 a run that aborts leaves the file cut.
The whole environment of the process is in it; nothing of that is kept.
"""

from __future__ import annotations

import typing as t

from .json_documents import Document, documents
from .nccl_tests_records import Failure, Rank, Row, Run, Side, redop_of, root_of, version_of


def find(text: str) -> t.Tuple[Document, ...]:
    """The reports in C(text), also those that were cut."""
    return documents(text, _is_report)


def _is_report(value: t.Dict[str, t.Any]) -> bool:
    if "average_bus_bandwidth" in value or "out_of_bounds" in value:
        return True
    return "start_time" in value and "args" in value


def run(document: Document) -> Run:
    value = document.value
    config = _object(value.get("config"))
    bounds, average = _object(value.get("out_of_bounds")), _object(value.get("average_bus_bandwidth"))
    results = [item for item in _list(value.get("results")) if isinstance(item, dict)]
    rows = [row for row in map(_row, results) if row is not None]
    errors = [str(error).strip() for error in _list(value.get("errors")) if str(error or "").strip()]
    args = _list(value.get("args"))
    code = _whole(value.get("nccl_version"))
    return Run(
        "json",
        program=str(args[0]).rsplit("/", 1)[-1] if args else None,
        nccl_version=version_of(code) if code is not None else None,
        threads=_whole(config.get("nthreads")),
        gpus=_whole(config.get("ngpus")),
        validation=_whole(config.get("validation")),
        min_bytes=_whole(config.get("minimum_bytes")),
        max_bytes=_whole(config.get("maximum_bytes")),
        ranks=tuple(rank for rank in map(_rank, _list(config.get("devices"))) if rank is not None),
        processes_only=True,
        rows=tuple(rows),
        partial_rows=len(results) - len(rows),
        out_of_bounds=_whole(bounds.get("count")),
        bounds_okay=_boolean(bounds.get("okay")),
        footer=document.complete and "end_time" in value and _whole(bounds.get("count")) is not None and "bandwidth" in average,
        average_busbw=_number(average.get("bandwidth")),
        average_okay=_boolean(average.get("okay")),
        failures=tuple(Failure(message=error, result=error) for error in errors if "failure" in error.lower()),
        last_error=next((error for error in errors if "failure" not in error.lower()), None),
    )


def _row(result: t.Dict[str, t.Any]) -> t.Optional[Row]:
    size, count = _whole(result.get("size")), _whole(result.get("count"))
    if size is None or count is None or "in_place" not in result or "out_of_place" not in result:
        return None
    sides = [_side(result["out_of_place"]), _side(result["in_place"])]
    if any(side is None and result[key] is not None for side, key in zip(sides, ("out_of_place", "in_place"))):
        return None
    word, root = result.get("redop"), _whole(result.get("root"))
    return Row(size, count, str(result.get("type")), redop_of(str(word) if word else None), root_of(root), sides[0], sides[1])


def _side(value: t.Any) -> t.Optional[Side]:
    if not isinstance(value, dict) or "bus_bw" not in value or "nwrong" not in value:
        return None
    time_us = value.get("time", value.get("cpu_time"))
    return Side(_number(time_us), _number(value.get("alg_bw")), _number(value["bus_bw"]), _whole(value["nwrong"]))


def _rank(value: t.Any) -> t.Optional[Rank]:
    number = _whole(value.get("rank")) if isinstance(value, dict) else None
    if number is None:
        return None
    texts = {key: str(value[key]).strip() if value.get(key) is not None else None for key in ("hostname", "device_hex", "device_info")}
    return Rank(
        number,
        texts["hostname"],
        _whole(value.get("pid")),
        _whole(value.get("group")),
        _whole(value.get("device")),
        texts["device_hex"],
        texts["device_info"],
    )


def _object(value: t.Any) -> t.Dict[str, t.Any]:
    return value if isinstance(value, dict) else {}


def _list(value: t.Any) -> t.List[t.Any]:
    return value if isinstance(value, list) else []


def _number(value: t.Any) -> t.Optional[float]:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _whole(value: t.Any) -> t.Optional[int]:
    if isinstance(value, str) and value.strip().lstrip("-").isdecimal() and len(value.strip()) < 20:
        return int(value)
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _boolean(value: t.Any) -> t.Optional[bool]:
    return {"true": True, "false": False}.get(str(value).lower())
