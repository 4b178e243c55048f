# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read C(dcgmi diag -j) of DCGM 2, 3 and 4, and what the diagnostic's own program writes. Private to kentino.gpu.

The place in a list is never the number of a GPU: lists have holes. A test that only has a name did not run. A document that was
cut proves nothing, except the faults that it shows.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from . import terminal_text
from .json_documents import documents
from .lazy_pattern import lazy

COMMAND = ("dcgmi", "diag", "-j")

_ROOT = lazy(r"dcgm (?:gpu |multi-node )?diagnostic\Z", re.IGNORECASE)
_STATUS = {
    "pass": "pass",
    "passed": "pass",
    "fail": "fail",
    "failed": "fail",
    "warn": "warn",
    "warning": "warn",
    "skip": "skip",
    "skipped": "skip",
    "not run": "not_run",
    "notrun": "not_run",
}
# DCGM's blank values: 0x7ffffff0.. for 32 bits, 0x7ffffffffffffff0.. for 64.
_BLANKS = lazy(r"(?<![0-9])(?:214748363[2-7]|922337203685477579[2-7])(?![0-9])")
_NOT_SUPPORTED = "<<<"
EXECUTED = ("pass", "fail", "warn")
# Worst first: what a test comes to when its GPUs do not agree. Skip comes last, so that one GPU's result is a result.
_WORST = ("fail", "warn", "unknown", "pass", "skip", "not_run")
_BRACKETS = lazy(r"[\[\]{}]")

# The table without -j: "| GPU Memory | Fail - GPUs: 1, 2 |", from 4.0 on "|    | GPU1: Fail |".
_TABLE_ROW = lazy(r"\|([^|]*)\|([^|]*)\|?\s*\Z")
_TABLE_FAIL = lazy(r"\s*(?:GPU([0-9]{1,6}): )?Fail(?:\s*-\s*(?:All|GPUs?: ([0-9, ]+)))?\s*\Z")


@dataclass(frozen=True)
class DiagError:
    """An error or a warning; DCGM calls both warnings."""

    id: t.Optional[int]  # DCGM 2 gives none
    severity: t.Optional[int]  # dcgmErrorSeverity_t
    category: t.Optional[int]
    text: str

    @property
    def blank(self) -> bool:
        """Whether the text quotes a value that stands for "could not be read"."""
        return bool(_BLANKS.search(self.text))


@dataclass(frozen=True)
class DiagResult:
    """One test on one GPU, CPU or NVSwitch; without an id on the whole node."""

    group: t.Optional[str]  # GPU, NvSwitch, CPU
    id: t.Optional[int]
    status: str  # pass fail warn skip not_run unknown
    errors: t.Tuple[DiagError, ...] = ()
    info: t.Tuple[str, ...] = ()
    host: t.Optional[int] = None  # number of the host in a multi-node diagnostic


@dataclass(frozen=True)
class DiagTest:
    name: str
    category: t.Optional[str]
    results: t.Tuple[DiagResult, ...] = ()
    summary: t.Optional[str] = None  # DCGM 4's own word for the test, as a status
    errors: t.Tuple[DiagError, ...] = ()  # those that belong to none of the results
    info: t.Tuple[str, ...] = ()

    @property
    def status(self) -> str:
        return worst_status(self._words())

    @property
    def executed(self) -> bool:
        """Whether it came to a result on one GPU at least."""
        return any(word in EXECUTED for word in self._words())

    def _words(self) -> t.List[str]:
        return [result.status for result in self.results] + ([self.summary] if self.summary else [])


@dataclass(frozen=True)
class DiagRun:
    """One document, or one iteration of one."""

    tests: t.Tuple[DiagTest, ...] = ()
    dcgm_version: t.Optional[str] = None
    driver_version: t.Optional[str] = None
    # What the document says it is about: group and id to the serial number, None where DCGM does not know it.
    entities: t.Mapping[t.Tuple[str, int], t.Optional[str]] = field(default_factory=dict)
    runtime_error: t.Optional[str] = None
    errors: t.Tuple[DiagError, ...] = ()  # of the whole run
    complete: bool = False
    iteration: t.Optional[int] = None  # counted from 1


@dataclass(frozen=True)
class DcgmDiag:
    runs: t.Tuple[DiagRun, ...] = ()
    overall: t.Optional[str] = None  # the word of --iterations over all of them, as printed
    overall_warning: t.Optional[str] = None
    complete: bool = False  # at least one document, and the end of every one was seen
    exit_status: t.Optional[int] = None
    unrecognised: t.Tuple[str, ...] = ()  # lines beside the documents


def worst_status(words: t.Iterable[str]) -> str:
    """What several results come to; C(not_run) of none."""
    return min(words, key=_WORST.index, default="not_run")


def parse(text: str, exit_status: t.Optional[int] = None) -> DcgmDiag:
    """Every document in C(text), in the order printed. Of one that was cut only the tests that failed are kept."""
    plain = terminal_text.clean(text)
    found = documents(plain, _is_diagnostic)
    runs: t.List[DiagRun] = []
    overall = warning = None
    around, position = "", 0
    for document in found:
        around += plain[position : document.start] + "\n"
        position = max(position, document.end)
        iterations = document.value.get("iterations")
        if isinstance(iterations, list):
            runs += [_run(item, document.complete, number) for number, item in enumerate(iterations, 1)]
        elif not _is_overall(document.value):
            runs.append(_run(document.value, document.complete))
        if _is_overall(document.value):
            overall = _text(document.value.get("Overall Result")) or overall
            warning = _text(document.value.get("Warning")) or warning
    lines = [line.strip() for line in (around + plain[position:]).split("\n") if line.strip()]
    if not found:
        runs += _from_table(lines)
    complete = bool(found) and not _is_headless(lines) and all(document.complete for document in found)
    return DcgmDiag(tuple(runs), overall, warning, complete, exit_status, tuple(lines))


def _is_diagnostic(value: t.Dict[str, t.Any]) -> bool:
    return any(_ROOT.match(key) for key in value) or isinstance(value.get("test_categories"), list) or _is_overall(value)


def _is_overall(value: t.Dict[str, t.Any]) -> bool:
    return "Overall Result" in value or isinstance(value.get("iterations"), list)


def _is_headless(lines: t.Iterable[str]) -> bool:
    """A bracket is closed beside the documents that was never opened: the beginning was cut, and with it what stood there."""
    depth = 0
    for bracket in _BRACKETS.findall("\n".join(lines)):
        depth += 1 if bracket in "[{" else -1
        if depth < 0:
            return True
    return False


def _run(document: t.Any, complete: bool, iteration: t.Optional[int] = None) -> DiagRun:
    # An iteration that gave no document at all is null.
    value = document if isinstance(document, dict) else {}
    root = next((item for key, item in value.items() if _ROOT.match(key) and isinstance(item, dict)), value)
    metadata = _object(value.get("metadata"))
    hosts = [host for host in _list(value.get("hosts")) if isinstance(host, dict)]
    tests: t.List[DiagTest] = []
    for category in _list(root.get("test_categories")):
        for test in _list(_object(category).get("tests")):
            if isinstance(test, dict):
                tests.append(_test(test, _text(_object(category).get("category"))))
    return DiagRun(
        tuple(tests if complete else [test for test in tests if test.status == "fail"]),
        # Inside the root key up to 3.2, beside it in 3.3, in metadata from 4.0 on.
        _first(*(place.get("version") for place in (metadata, root, value)), *(host.get("dcgm_version") for host in hosts)),
        _first(
            *(place.get("Driver Version Detected") for place in (metadata, root, value)),
            *(host.get("driver_version") for host in hosts),
        ),
        _entities(value, root),
        _first(root.get("runtime_error"), value.get("runtime_error")),
        _errors(value.get("global_errors"), {}),
        complete,
        iteration,
    )


def _test(test: t.Dict[str, t.Any], category: t.Optional[str]) -> DiagTest:
    results = [result for item in _list(test.get("results")) if isinstance(item, dict) for result in _results(item)]
    summary = _object(test.get("test_summary"))
    known = {(error.id, error.text) for result in results for error in result.errors}
    # From 4.6 on the summary repeats the errors of the results.
    errors = [error for part in (summary, test) for error in _errors(part.get("warnings"), part)]
    errors += _errors(test.get("mpi_error"), {})
    word = summary.get("status", test.get("status"))
    return DiagTest(
        _text(test.get("name")) or "",
        category,
        tuple(results),
        _status(word) if word is not None else None,
        tuple(dict.fromkeys(error for error in errors if (error.id, error.text) not in known)),
        (*_info(summary.get("info")), *_info(test.get("info"))),
    )


def _results(item: t.Dict[str, t.Any]) -> t.Iterator[DiagResult]:
    errors, info = _errors(item.get("warnings", item.get("warning")), item), _info(item.get("info"))
    status = _status(item.get("status"))
    for group, number in _places(item):
        yield DiagResult(group, number, status, errors, info, _whole(item.get("host_id")))


def _places(item: t.Dict[str, t.Any]) -> t.List[t.Tuple[t.Optional[str], t.Optional[int]]]:
    if "entity_id" in item:
        group = _text(item.get("entity_group")) or ("GPU" if item.get("entity_group_id") in (1, None) else None)
        return [(group, _whole(item["entity_id"]))]
    if "cpu_id" in item:
        return [("CPU", _whole(item["cpu_id"]))]
    ids = item.get("gpu_ids", item.get("gpu_id"))
    # "0" in dcgmi's output, "0,1,2" in that of nvvs.
    words = [str(word) for word in ids] if isinstance(ids, list) else re.split(r"[,\s]+", str(ids).strip()) if ids is not None else []
    numbers = [number for number in map(_whole, words) if number is not None and number >= 0]
    return [("GPU", number) for number in numbers] or [(None, None)]


def _errors(warnings: t.Any, beside: t.Mapping[str, t.Any]) -> t.Tuple[DiagError, ...]:
    """DCGM 2: a text. 3.0 to 3.2: a text with error_id beside it. 3.3 on: a list of objects, the text once called warnings."""
    if isinstance(warnings, dict):
        warnings = [warnings]
    if not isinstance(warnings, list):
        warnings = [] if warnings is None else [warnings]
    found = []
    for item in warnings:
        facts = item if isinstance(item, dict) else beside
        told = _first(item.get("warning"), item.get("warnings"), item.get("message")) if isinstance(item, dict) else _text(item)
        number = _whole(facts.get("error_id", facts.get("error_code")))
        if told or number:
            severity, category = _whole(facts.get("error_severity")), _whole(facts.get("error_category"))
            found.append(DiagError(number, severity, category, told or ""))
    if not found and _whole(beside.get("error_id")):
        found.append(DiagError(_whole(beside["error_id"]), None, None, ""))
    return tuple(dict.fromkeys(found))


def _info(value: t.Any) -> t.Tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    texts = [_first(item.get("info"), item.get("message")) if isinstance(item, dict) else _text(item) for item in items]
    return tuple(text for text in texts if text)


def _entities(value: t.Dict[str, t.Any], root: t.Dict[str, t.Any]) -> t.Dict[t.Tuple[str, int], t.Optional[str]]:
    found: t.Dict[t.Tuple[str, int], t.Optional[str]] = {}
    for group in _list(value.get("entity_groups")):
        for entity in _list(_object(group).get("entities")):
            number = _whole(_object(entity).get("entity_id"))
            name = _text(_object(group).get("entity_group"))
            if number is not None and name:
                found[(name, number)] = _serial(entity.get("serial_num"))
    serials = {**_object(value.get("GPU Device Serials")), **_object(root.get("GPU Device Serials"))}
    for key, serial in serials.items():
        number = _whole(key)
        if number is not None:
            found[("GPU", number)] = _serial(serial)
    return found


def _serial(value: t.Any) -> t.Optional[str]:
    text = _text(value)
    return None if not text or text.startswith(_NOT_SUPPORTED) or text == "0" else text


def _status(word: t.Any) -> str:
    return _STATUS.get(re.sub(r"[\s_-]+", " ", str(word)).strip().lower(), "unknown")


def _from_table(lines: t.Iterable[str]) -> t.List[DiagRun]:
    """The failed tests of the table for people. It is no document, so nothing in it is a pass."""
    tests: t.List[DiagTest] = []
    name = ""
    for line in lines:
        row = _TABLE_ROW.search(line)
        if not row:
            continue
        name = row.group(1).strip() or name
        fail = _TABLE_FAIL.match(row.group(2))
        if fail:
            numbers = [int(word) for word in re.findall(r"[0-9]{1,6}", (fail.group(1) or "") + " " + (fail.group(2) or ""))]
            results = [DiagResult("GPU", number, "fail") for number in numbers] or [DiagResult(None, None, "fail")]
            tests.append(DiagTest(name, None, tuple(results)))
    return [DiagRun(tuple(tests))] if tests else []


def _object(value: t.Any) -> t.Dict[str, t.Any]:
    return value if isinstance(value, dict) else {}


def _list(value: t.Any) -> t.List[t.Any]:
    return value if isinstance(value, list) else []


def _text(value: t.Any) -> t.Optional[str]:
    if value is None or isinstance(value, (dict, list)):
        return None
    return str(value).strip() or None


def _first(*values: t.Any) -> t.Optional[str]:
    return next((text for text in map(_text, values) if text), None)


def _whole(value: t.Any) -> t.Optional[int]:
    if isinstance(value, str) and re.match(r"-?[0-9]{1,18}\Z", value.strip()):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
