# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read back what a check module reported, out of whatever was registered. Private to kentino.gpu.

A registered variable may hold anything: a skipped task, a failed one, a loop, an async job that still runs, plain text.
Each of these becomes a C(Result) with a problem that says what was given; none is dropped and none raises.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass

from .model import ACTIONS, NODE, SEVERITIES, VERDICTS, Finding, worst

EXPECTED = "the registered result of a kentino.gpu check module"

# Results sit in lists (several modules) of loops (one module, several items); deeper nesting is a mistake or a cycle.
_DEEPEST = 8

_SEVERITY_VERDICT = {"info": "pass", "warning": "warn", "critical": "fail"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]+")


@dataclass(frozen=True)
class Missing:
    """Stands where a result should be and nothing is: the task that registers it did not run on this host."""

    why: str


@dataclass(frozen=True)
class CheckResult:
    """One entry of C(checks), as registered."""

    name: str
    verdict: str
    evidence: str
    skipped: str


@dataclass(frozen=True)
class Result:
    """One registered result. C(findings) are dictionaries in the shape of C(Finding.as_dict) with C(check) added.

    C(problems) are findings about the result itself: they cannot be waived, because no evidence stands behind them.
    """

    label: str
    verdict: str = "unknown"
    checks: t.Tuple[CheckResult, ...] = ()
    findings: t.Tuple[t.Dict[str, t.Any], ...] = ()
    problems: t.Tuple[Finding, ...] = ()
    simulated: bool = False


def read(given: t.Any, label: str = "result") -> t.List[Result]:
    """Every result in C(given), which may be one, a list of them, lists in lists, or the result of a loop; never raises."""
    try:
        return _read(given, label, 0)
    except Exception as exc:  # lazy containers of the caller may raise whatever their templates do
        return [_bad(label, "gate.unreadable", "%s cannot be read: %s" % (label, one_line(exc)))]


def problem(code: str, message: str, advice: str = "", verdict: str = "unknown") -> Finding:
    """A finding about the evidence instead of the node."""
    severity = {"warn": "warning", "unknown": "warning"}.get(verdict, "critical")
    return Finding(code, severity, NODE, message, advice=advice, undetermined=verdict == "unknown")


def rank(found: t.Mapping[str, t.Any]) -> t.Tuple[bool, int, int, bool]:
    """Sort key for the findings of results, best first: what is waived, then by C(Finding.rank)."""
    return "waived" not in found, VERDICTS.index(found["verdict"]), ACTIONS.index(found["action"]), found["subject"].get("kind") != "node"


def one_line(value: t.Any, limit: int = 0) -> str:
    """Text for a terminal: text from a node may hold newlines, escape sequences or half a character."""
    try:
        text = value if isinstance(value, str) else str(value)
        text = " ".join(_CONTROL.sub(" ", text).split())
    except Exception:
        text = "(unprintable %s)" % type(value).__name__
    return text[: limit - 3] + "..." if 3 < limit < len(text) else text


def what(value: t.Any) -> str:
    """Name a value for a person: its kind, and its text where that is short."""
    if value is None:
        return "nothing (null)"
    if isinstance(value, str):
        return "the text '%s'" % one_line(value, 40) if value.strip() else "an empty text"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return "the number %s" % one_line(value, 40)
    if isinstance(value, (list, tuple)):
        return "a list of %d" % len(value)
    if isinstance(value, Mapping):
        return "a dictionary with %s" % (one_line(", ".join(sorted(str(key) for key in value)), 60) or "no keys")
    return "a value of type %s" % type(value).__name__


def _read(given: t.Any, label: str, depth: int) -> t.List[Result]:
    if depth > _DEEPEST:
        return [_bad(label, "gate.not_a_result", "%s is nested more than %d levels deep" % (label, _DEEPEST))]
    if isinstance(given, Missing):
        return [_bad(label, "gate.no_result", "%s has no result: %s" % (label, given.why))]
    if isinstance(given, (list, tuple)):
        if not given:
            return [_bad(label, "gate.not_a_result", "%s is an empty list; expected %s" % (label, EXPECTED))]
        join = "." if depth else " "
        return _read_items(given, label + join, depth)
    if not isinstance(given, Mapping):
        return [_bad(label, "gate.not_a_result", "%s is %s; expected %s" % (label, what(given), EXPECTED))]
    if "verdict" not in given and isinstance(given.get("results"), (list, tuple)):
        return _read_loop(given, label, depth)
    return [_read_one(given, label)]


def _read_items(items: t.Sequence[t.Any], label: str, depth: int) -> t.List[Result]:
    return [result for number, item in enumerate(items, 1) for result in _read(item, "%s%d" % (label, number), depth + 1)]


def _read_loop(given: t.Mapping[str, t.Any], label: str, depth: int) -> t.List[Result]:
    results = _read_items(given["results"], label + ", item ", depth)
    if not results:
        problems = _task_problems(given, label) or [problem("gate.nothing_ran", "%s is a loop that ran over no item" % label)]
        return [Result(label, problems=tuple(problems))]
    told = any(result.problems or result.verdict == "fail" for result in results)
    problems = [] if told else _task_problems(given, label)
    return [*results, Result(label, problems=tuple(problems))] if problems else results


def _read_one(given: t.Mapping[str, t.Any], label: str) -> Result:
    problems = _task_problems(given, label)
    if "verdict" not in given:
        if not problems and not given:
            problems.append(problem("gate.not_a_result", "%s is an empty dictionary; expected %s" % (label, EXPECTED)))
        elif not problems:
            keys = one_line(", ".join(sorted(str(key) for key in given)), 60)
            message = "%s has no verdict, only %s; expected %s" % (label, keys, EXPECTED)
            problems.append(problem("gate.not_a_result", message))
        return Result(label, problems=tuple(problems))
    verdict = _verdict(given["verdict"], label, problems)
    return Result(
        label,
        verdict,
        tuple(_read_checks(given.get("checks"), label, problems)),
        tuple(_read_findings(given.get("findings"), label, problems)),
        tuple(problems),
        _flag(given.get("simulated")),
    )


def _task_problems(given: t.Mapping[str, t.Any], label: str) -> t.List[Finding]:
    """What Ansible itself says about the task; a task that broke off proves nothing, whatever else it returned."""
    why = one_line(given.get("msg") or given.get("skip_reason") or "", 300)
    tail = ": " + why if why else ""
    if _flag(given.get("unreachable")):
        return [problem("gate.unreachable", "%s: the host was unreachable%s" % (label, tail), "check its power and network")]
    if _flag(given.get("failed")) and given.get("verdict") != "fail":
        return [problem("gate.failed_task", "%s: its task failed%s" % (label, tail), "mend the task and run it again")]
    if _flag(given.get("skipped")):
        return [problem("gate.skipped_task", "%s: its task was skipped%s" % (label, tail), "run it, or leave it out of the gate")]
    # async returns "finished": 0 until async_status has seen the job end; later releases return a boolean.
    if "finished" in given and not _flag(given["finished"]):
        return [problem("gate.unfinished", "%s: its job still runs" % label, "wait for it with async_status and gate on that result")]
    return []


def _read_checks(given: t.Any, label: str, problems: t.List[Finding]) -> t.Iterator[CheckResult]:
    if not isinstance(given, (list, tuple)) or not given:
        problems.append(problem("gate.nothing_ran", "%s holds no check that ran" % label))
        return
    for item in given:
        name = item.get("name") if isinstance(item, Mapping) else None
        if not isinstance(item, Mapping) or not isinstance(name, str) or not name:
            problems.append(problem("gate.not_a_result", "%s holds a check that is %s; expected name, verdict" % (label, what(item))))
            continue
        verdict = _verdict(item.get("verdict"), "%s, check %s," % (label, one_line(name, 40)), problems)
        evidence, skipped = item.get("evidence"), item.get("skipped")
        yield CheckResult(one_line(name), verdict, _text(evidence), _text(skipped))


def _read_findings(given: t.Any, label: str, problems: t.List[Finding]) -> t.Iterator[t.Dict[str, t.Any]]:
    if not isinstance(given, (list, tuple)):
        problems.append(problem("gate.not_a_result", "%s has no list of findings, only %s" % (label, what(given))))
        return
    for item in given:
        if isinstance(item, Mapping):
            yield _read_finding(item)
        else:
            problems.append(problem("gate.not_a_result", "%s holds a finding that is %s" % (label, what(item))))


def _read_finding(item: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
    severity = item["severity"] if _is_in(item.get("severity"), SEVERITIES) else ""
    verdict = item["verdict"] if _is_in(item.get("verdict"), VERDICTS) else "unknown"
    if verdict not in ("unknown", "fail"):
        verdict = worst((verdict, _SEVERITY_VERDICT.get(severity, "unknown")))
    action = item.get("action")
    evidence = item.get("evidence")
    return {
        "code": _text(item.get("code")) or "unnamed",
        "severity": one_line(severity or "critical"),
        "verdict": one_line(verdict),
        "subject": _read_subject(item.get("subject")),
        "message": _text(item.get("message")) or "no message was given",
        "action": one_line(action) if _is_in(action, ACTIONS) else "none",
        "advice": _text(item.get("advice")),
        "evidence": [_text(line) for line in evidence] if isinstance(evidence, (list, tuple)) else [],
        "count": _number(item.get("count"), 1),
        "first": _text(item.get("first")) or None,
        "last": _text(item.get("last")) or None,
        "check": _text(item.get("check")),
    }


def _read_subject(given: t.Any) -> t.Dict[str, t.Any]:
    if not isinstance(given, Mapping):
        name = _text(given)
        return {"kind": "", "label": name or "an unnamed subject", "keys": [name.lower()] if name else []}
    subject: t.Dict[str, t.Any] = {key: _text(given[key]) for key in ("kind", "name", "pci", "uuid", "serial") if _text(given.get(key))}
    if _number(given.get("index"), -1) >= 0:
        subject["index"] = _number(given["index"], -1)
    subject.setdefault("kind", "")
    named = [subject[key] for key in ("serial", "uuid", "pci", "name", "kind") if subject.get(key)]
    subject["label"] = _text(given.get("label")) or (named[0] if named else "an unnamed subject")
    if "index" in subject and subject["kind"]:
        named += ["%s%d" % (subject["kind"], subject["index"]), "%s %d" % (subject["kind"], subject["index"])]
    keys = given.get("keys")
    named += [_text(key) for key in keys] if isinstance(keys, (list, tuple)) else []
    subject["keys"] = sorted({name.lower() for name in [*named, subject["label"]] if name})
    return subject


def _verdict(given: t.Any, label: str, problems: t.List[Finding]) -> str:
    if _is_in(given, VERDICTS):
        return one_line(given)
    words = "%s says verdict %s; expected one of %s" % (label, what(given), ", ".join(VERDICTS))
    problems.append(problem("gate.not_a_result", words))
    return "unknown"


def _is_in(given: t.Any, words: t.Sequence[str]) -> bool:
    return isinstance(given, str) and given in words


def _number(given: t.Any, default: int) -> int:
    """A count that fits into anything the answer is sent through."""
    return int(given) if isinstance(given, int) and 0 <= given < 1 << 53 else default


def _bad(label: str, code: str, message: str) -> Result:
    return Result(label, problems=(problem(code, message),))


def _flag(value: t.Any) -> bool:
    """Whether a task flag is set; text counts as Ansible reads it, so that a C("false") is no failure."""
    if isinstance(value, str):
        return value.strip().lower() not in ("", "0", "false", "no", "n", "f", "off")
    return bool(value)


def _text(value: t.Any) -> str:
    """One line of text of a scalar; of anything else, nothing."""
    if isinstance(value, str):
        return one_line(value)
    return one_line(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else ""
