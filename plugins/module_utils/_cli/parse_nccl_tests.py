# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""C(parse --kind nccl_tests): runs, rows and failures as JSON. Private to kentino.gpu."""

from __future__ import annotations

import typing as t

from .._judge import nccl
from .._parse import nccl_tests
from .._parse.nccl_tests_records import Row, Run, Side
from .._report.model import worst


def answer(text: str, rc: t.Optional[int]) -> t.Dict[str, t.Any]:
    """Every run in the text with its own verdict, and one verdict for all of them."""
    record = nccl_tests.parse(text, rc)
    check = nccl.check(record, {})
    return {
        "verdict": check.verdict,
        "action": check.action,
        "findings": [finding.as_dict() for finding in check.findings],
        "runs": [_run(run) for run in record.runs],
        "crashes": list(record.crashes),
        "aborts": list(record.aborts),
        "warnings": list(record.warnings),
        "unrecognised": list(record.unrecognised),
    }


def _run(run: Run) -> t.Dict[str, t.Any]:
    found = worst(finding.verdict for finding in nccl.judge_run(run, {}))
    return {
        "verdict": worst((found, "pass" if nccl.measured(run) else "unknown")),
        "complete": run.complete,
        "validated": run.validated,
        "avg_busbw": run.average_busbw,
        "out_of_bounds": {"count": run.out_of_bounds, "okay": run.bounds_okay},
        "average_okay": run.average_okay,
        "program": run.program,
        "nccl_version": run.nccl_version,
        "tests_version": run.tests_version,
        "format": run.format or None,
        "min_bytes": run.min_bytes,
        "max_bytes": run.reduced_bytes or run.max_bytes,
        "rank_count": run.rank_count,
        "single_rank": nccl.single_rank(run),
        "ranks": [{**vars(rank)} for rank in run.ranks],
        "rows": [_row(row) for row in run.rows],
        "partial_rows": run.partial_rows,
        "failures": [{**vars(failure)} for failure in run.failures],
        "last_error": run.last_error,
    }


def _row(row: Row) -> t.Dict[str, t.Any]:
    return {
        "size": row.size,
        "count": row.count,
        "type": row.type,
        "redop": row.redop,
        "root": row.root,
        "out_of_place": _side(row.out_of_place),
        "in_place": _side(row.in_place),
        "timestamp": row.timestamp,
    }


def _side(side: t.Optional[Side]) -> t.Optional[t.Dict[str, t.Any]]:
    if side is None:
        return None
    # A deviation that is not a number has no form in JSON.
    delta = side.delta if side.delta == side.delta and side.delta not in (float("inf"), float("-inf")) else None
    return {"time_us": side.time_us, "algbw": side.algbw, "busbw": side.busbw, "wrong": side.wrong, "delta": delta}
