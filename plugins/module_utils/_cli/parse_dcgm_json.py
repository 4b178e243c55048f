# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""C(parse --kind dcgm_json): the tests of a diagnostic, GPU by GPU, as JSON. Private to kentino.gpu."""

from __future__ import annotations

import typing as t

from .._judge import dcgm
from .._parse import dcgm_diag
from .._parse.dcgm_diag import DcgmDiag, DiagError, DiagTest, worst_status

_Place = t.Tuple[t.Optional[int], t.Optional[str], t.Optional[int]]


def answer(text: str, rc: t.Optional[int]) -> t.Dict[str, t.Any]:
    """Every test once, whatever the number of documents and iterations: the worst that each GPU came to, and all its errors."""
    record = dcgm_diag.parse(text, rc)
    check = dcgm.check(record, {})
    tests = _tests(record)
    return {
        "verdict": check.verdict,
        "action": check.action,
        "findings": [finding.as_dict() for finding in check.findings],
        "config_only": dcgm.settings_only(record),
        "parse_error": not record.complete,
        "dcgm_version": next((run.dcgm_version for run in record.runs if run.dcgm_version), None),
        "driver_version": next((run.driver_version for run in record.runs if run.driver_version), None),
        "exit_code": rc,
        "executed": len({(test.name, test.category) for run in record.runs for test in dcgm.tests_run(run.tests)}),
        "skipped": sum(test["status"] == "skip" for test in tests),
        "tests": tests,
        "not_run": [test["name"] for test in tests if test["status"] == "not_run"],
        "iterations": _iterations(record),
        "overall": record.overall,
        "runtime_error": next((run.runtime_error for run in record.runs if run.runtime_error), None),
        "unrecognised": list(record.unrecognised),
    }


def _iterations(record: DcgmDiag) -> t.List[t.Dict[str, t.Any]]:
    runs = [run for run in record.runs if run.iteration is not None]
    verdicts = [dcgm.verdict_of_run(run, {}) for run in runs]
    if verdicts and verdicts[-1] == "pass" and (record.overall or "pass").lower() != "pass":
        # dcgmi stops at the iteration that failed, and prints the document of the one before in its place.
        verdicts[-1] = "unknown"
    return [{"verdict": verdict} for verdict in verdicts]


def _tests(record: DcgmDiag) -> t.List[t.Dict[str, t.Any]]:
    by_name: t.Dict[t.Tuple[str, t.Optional[str]], t.List[DiagTest]] = {}
    for run in record.runs:
        for test in run.tests:
            by_name.setdefault((test.name, test.category), []).append(test)
    return [
        {
            "name": name,
            "category": category,
            "status": worst_status(test.status for test in same),
            "entities": _entities(same),
            "info": list(dict.fromkeys(text for test in same for text in _info(test))),
        }
        for (name, category), same in by_name.items()
    ]


def _info(test: DiagTest) -> t.Iterator[str]:
    yield from test.info
    for result in test.results:
        yield from result.info


def _entities(tests: t.Iterable[DiagTest]) -> t.List[t.Dict[str, t.Any]]:
    statuses: t.Dict[_Place, t.List[str]] = {}
    errors: t.Dict[_Place, t.Dict[DiagError, None]] = {}
    nowhere: t.Dict[DiagError, None] = {}
    for test in tests:
        for result in test.results:
            place = (result.host, result.group, result.id)
            statuses.setdefault(place, []).append(result.status)
            errors.setdefault(place, {}).update(dict.fromkeys(result.errors))
        nowhere.update(dict.fromkeys(test.errors))
    found = [
        {
            **({} if host is None else {"host": host}),
            "group": group,
            "id": number,
            "status": worst_status(words),
            "errors": [_error(error) for error in errors[(host, group, number)]],
        }
        for (host, group, number), words in statuses.items()
    ]
    if nowhere:
        # Errors that DCGM pins on no GPU.
        found.append({"group": None, "id": None, "status": None, "errors": [_error(error) for error in nowhere]})
    return found


def _error(error: DiagError) -> t.Dict[str, t.Any]:
    return {"id": error.id, "severity": error.severity, "category": error.category, "text": error.text}
