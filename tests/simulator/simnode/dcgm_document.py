# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How dcgmi writes a diagnostic: JSON of DCGM 3.3 and 4.4, and the table."""

from __future__ import annotations

from .dcgm_plan import Diagnostic, Outcome, Test
from .state import Gpu

_MARGIN = 74  # of jsoncpp, for lists of plain values
_WIDTH = 45  # of a message in the table; longer ones go on in the next line, in the middle of a word
# The order of categories in 3.3; 4.4 has them as they come.
_OLD_ORDER = ("Integration", "Hardware", "Stress")
_RULE = "+---------------------------+------------------------------------------------+\n"


def styled(value: object, depth: int = 0) -> str:
    """As jsoncpp prints: keys in order, tabs, and an opening bracket in a line of its own."""
    tabs = "\n" + "\t" * depth
    if isinstance(value, dict):
        if not value:
            return "{}"
        items = ['%s\t"%s" : %s' % (tabs, key, _inner(value[key], depth)) for key in sorted(value)]
        return "{" + ",".join(items) + tabs + "}"
    if isinstance(value, list):
        if not value:
            return "[]"
        if _fits_a_line(value):
            return "[ %s ]" % ", ".join(styled(item) for item in value)
        return "[" + ",".join(tabs + "\t" + styled(item, depth + 1) for item in value) + tabs + "]"
    if isinstance(value, str):
        return '"%s"' % value.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("\n", "\\n")
    return "null" if value is None else str(value)


def _fits_a_line(values: list[object]) -> bool:
    scalars = not any(isinstance(item, (dict, list)) and item for item in values)
    return scalars and 3 * len(values) < _MARGIN and 2 + 2 * len(values) + sum(len(styled(item)) for item in values) < _MARGIN


def _inner(value: object, depth: int) -> str:
    text = styled(value, depth + 1)
    alone = isinstance(value, dict) or (isinstance(value, list) and not _fits_a_line(value))
    return "\n" + "\t" * (depth + 1) + text if alone and value else text


def document(run: Diagnostic) -> dict[str, object]:
    return _new(run) if run.new else _old(run)


def runtime_error(run: Diagnostic, message: str) -> dict[str, object]:
    return {root(run): {"version": run.version, "runtime_error": message}}


def root(run: Diagnostic) -> str:
    return "DCGM Diagnostic" if run.new else "DCGM GPU Diagnostic"


def _warnings(outcome: Outcome, key: str) -> list[dict[str, object]]:
    return [
        {key: error.text, "error_id": error.number, "error_category": error.category, "error_severity": error.severity}
        for error in outcome.errors
    ]


def _new(run: Diagnostic) -> dict[str, object]:
    categories: list[dict[str, object]] = []
    for name in dict.fromkeys(test.category for test in run.tests):
        tests = [_new_test(test) for test in run.tests if test.category == name]
        categories.append({"category": name, "tests": tests})
    entities = [
        {"device_id": gpu.raw("device_id")[2:6].lower(), "entity_id": gpu.index, "serial_num": gpu.raw("serial")} for gpu in run.gpus
    ]
    return {
        root(run): {"test_categories": categories},
        "entity_groups": [{"entities": entities, "entity_group": "GPU", "entity_group_id": 1}],
        "metadata": {"Driver Version Detected": run.driver, "version": run.version},
    }


def _new_test(test: Test) -> dict[str, object]:
    if not test.ran:
        return {"name": test.name}
    results: list[dict[str, object]] = []
    for outcome in test.outcomes:
        entry: dict[str, object] = {"entity_group": "GPU", "entity_group_id": 1, "entity_id": outcome.gpu, "status": outcome.status}
        if outcome.errors:
            entry["warnings"] = _warnings(outcome, "warning")
        if outcome.info:
            entry["info"] = list(outcome.info)
        results.append(entry)
    return {"name": test.name, "results": results, "test_summary": {"status": test.status}}


def _old(run: Diagnostic) -> dict[str, object]:
    deployment = [_old_deployment(test) for test in run.tests if test.category == "Deployment"]
    categories: list[dict[str, object]] = [{"category": "Deployment", "tests": deployment}]
    for name in _OLD_ORDER:
        tests = [_old_test(test) for test in run.tests if test.category == name and test.ran]
        if tests:
            categories.append({"category": name, "tests": tests})
    return {
        root(run): {"test_categories": categories},
        "Driver Version Detected": run.driver,
        "GPU Device IDs": [gpu.raw("device_id")[2:6].lower() for gpu in run.gpus],
        "GPU Device Serials": {str(gpu.index): gpu.raw("serial") for gpu in run.gpus},
        "version": run.version,
    }


def _old_deployment(test: Test) -> dict[str, object]:
    """One result for the node, that names a GPU only where it has something to say of it."""
    result: dict[str, object] = {"status": test.status}
    for outcome in test.outcomes:
        if outcome.errors:
            result["gpu_id"] = outcome.gpu
            result["warnings"] = _warnings(outcome, "warnings")
    return {"name": test.name, "results": [result]}


def _old_test(test: Test) -> dict[str, object]:
    results: list[dict[str, object]] = []
    for outcome in test.outcomes:
        entry: dict[str, object] = {"gpu_id": str(outcome.gpu), "status": outcome.status}
        if outcome.errors:
            entry["warnings"] = _warnings(outcome, "warning")
        if outcome.info:
            entry["info"] = ", ".join(outcome.info)
        results.append(entry)
    return {"name": test.name, "results": results}


def table(run: Diagnostic, verbose: bool) -> str:
    lines = ["Successfully ran diagnostic for group.\n", _RULE, _row("Diagnostic", "Result"), _RULE.replace("-", "=")]
    lines.append("|-----  Metadata  ----------+------------------------------------------------|\n")
    lines += [_row("DCGM Version", run.version), _row("Driver Version Detected", run.driver)]
    identities = [gpu.raw("device_id")[2:6].lower() for gpu in run.gpus]
    lines.append(_row("GPU Device IDs Detected", (", " if run.new else ",").join(identities)))
    order = ("Deployment", "Hardware", "Integration", "Stress") if run.new else ("Deployment", "Integration", "Hardware", "Stress")
    for category in order:
        tests = [test for test in run.tests if test.category == category and (test.ran or run.new)]
        if tests:
            edge = "|" if category == "Deployment" else "+"
            lines.append(edge + ("-----  %s  " % category).ljust(27, "-") + "+" + "-" * 48 + edge + "\n")
        for test in tests:
            lines += _new_rows(test, verbose) if run.new else _old_rows(test, verbose)
    return "".join([*lines, _RULE])


def _row(name: str, value: str) -> str:
    return "| %-25s | %-46s |\n" % (name, value if len(value) <= 46 else value[:43] + "...")


def _wrapped(name: str, message: str) -> list[str]:
    return [_row("" if place else name, message[place : place + _WIDTH]) for place in range(0, len(message), _WIDTH)]


def _new_rows(test: Test, verbose: bool) -> list[str]:
    lines = [_row(test.name, test.status if test.ran else "")]
    for outcome in test.outcomes if test.ran else []:
        lines.append(_row("", "GPU%d: %s" % (outcome.gpu, outcome.status)))
        for error in outcome.errors:
            lines += _wrapped("Warning: GPU%d" % outcome.gpu, error.text)
        for info in outcome.info if verbose else ():
            lines += _wrapped("Info: GPU%d" % outcome.gpu, info)
    return lines


def _old_rows(test: Test, verbose: bool) -> list[str]:
    errors = [error for outcome in test.outcomes for error in outcome.errors]
    if test.category == "Deployment":
        return [_row(test.name, test.status), *(line for error in errors for line in _wrapped("Error", error.text))]
    lines: list[str] = []
    statuses = {outcome.status for outcome in test.outcomes}
    for status in ("Pass", "Fail", "Skip"):
        gpus = [str(outcome.gpu) for outcome in test.outcomes if outcome.status == status]
        if gpus:
            which = "All" if len(statuses) == 1 else "GPU%s: %s   " % ("" if len(gpus) == 1 else "s", ", ".join(gpus))
            lines.append(_row("" if lines else test.name, "%s - %s" % (status, which)))
    if verbose or statuses != {"Pass"}:
        lines += [line for error in errors for line in _wrapped("Warning", error.text)]
        lines += [line for outcome in test.outcomes for info in outcome.info for line in _wrapped("Info", info)]
    return lines


def discovery(gpus: list[Gpu], switches: int) -> str:
    """C(dcgmi discovery -l)."""
    lines = ["%d GPU%s found.\n" % (len(gpus), "" if len(gpus) == 1 else "s"), *_columns(("GPU ID", 8), ("Device Information", 70))]
    for gpu in gpus:
        lines += [
            "| %-6d | %-68s |\n" % (gpu.index, "Name: " + gpu.get("name")),
            "| %-6s | %-68s |\n" % ("", "PCI Bus ID: " + gpu.bus_id),
            "| %-6s | %-68s |\n" % ("", "Device UUID: " + gpu.get("uuid")),
            _edge(8, 70),
        ]
    lines += ["%d NvSwitch%s found.\n" % (switches, "" if switches == 1 else "es"), *_columns(("Switch ID", 11))]
    lines += ["| %-9d |\n" % number for number in range(switches)] + [_edge(11)]
    lines += ["0 CPUs found.\n", *_columns(("CPU ID", 8), ("Device Information", 70)), _edge(8, 70)]
    return "".join(lines)


def _edge(*widths: int) -> str:
    return "+" + "".join("-" * width + "+" for width in widths) + "\n"


def _columns(*titles: tuple[str, int]) -> list[str]:
    widths = [width for _title, width in titles]
    return [_edge(*widths), "|" + "".join(" %-*s |" % (width - 2, title) for title, width in titles) + "\n", _edge(*widths)]
