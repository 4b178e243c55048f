# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import Check, Finding, Subject, report
from ansible_collections.kentino.gpu.plugins.module_utils._report.result import Missing, one_line, read
from hypothesis import given, settings
from hypothesis import strategies as st

GOOD = report([Check("gpu", "8 GPUs read through NVML")])
CARD = Subject("gpu", index=3, pci="0000:c1:00", serial="1320523004417")


def _codes(given):
    return [found.code for result in read(given) for found in result.problems]


def _messages(given):
    return "; ".join(found.message for result in read(given) for found in result.problems)


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        pytest.param(None, "gate.not_a_result", "nothing (null)", id="null"),
        pytest.param({}, "gate.not_a_result", "an empty dictionary", id="empty dictionary"),
        pytest.param([], "gate.not_a_result", "an empty list", id="empty list"),
        pytest.param("pass", "gate.not_a_result", "the text 'pass'", id="text"),
        pytest.param("", "gate.not_a_result", "an empty text", id="empty text"),
        pytest.param(True, "gate.not_a_result", "is true", id="boolean"),
        pytest.param(0, "gate.not_a_result", "the number 0", id="number"),
        pytest.param(b"pass", "gate.not_a_result", "type bytes", id="bytes"),
        pytest.param({"rc": 0, "stdout": "ok"}, "gate.not_a_result", "no verdict, only rc, stdout", id="command result with rc 0"),
        pytest.param(
            {"changed": False, "skipped": True, "skip_reason": "Conditional result was False"},
            "gate.skipped_task",
            "was skipped: Conditional result was False",
            id="skipped task",
        ),
        pytest.param({"failed": True, "msg": "no\nsuch tool"}, "gate.failed_task", "its task failed: no such tool", id="failed task"),
        pytest.param({"unreachable": True, "msg": "timed out"}, "gate.unreachable", "unreachable: timed out", id="unreachable host"),
        pytest.param({"ansible_job_id": "j1", "finished": 0}, "gate.unfinished", "still runs", id="async job, finished is a number"),
        pytest.param({"ansible_job_id": "j1", "finished": False}, "gate.unfinished", "still runs", id="async job, finished is a boolean"),
        pytest.param({"results": [], "skipped": True, "skip_reason": "No items"}, "gate.skipped_task", "No items", id="loop over nothing"),
        pytest.param({"results": []}, "gate.nothing_ran", "ran over no item", id="loop without items and flags"),
        pytest.param(Missing("it was not registered"), "gate.no_result", "it was not registered", id="missing variable"),
        pytest.param(dict(GOOD, verdict="PASS"), "gate.not_a_result", "'PASS'", id="word in capitals"),
        pytest.param(dict(GOOD, verdict=["pass"]), "gate.not_a_result", "a list of 1", id="verdict is a list"),
        pytest.param({"verdict": "pass"}, "gate.nothing_ran", "no check that ran", id="bare verdict"),
        pytest.param(dict(GOOD, checks=[]), "gate.nothing_ran", "no check that ran", id="no checks"),
        pytest.param(dict(GOOD, checks={"gpu": "pass"}), "gate.nothing_ran", "no check that ran", id="checks of another shape"),
        pytest.param(dict(GOOD, checks=["gpu"]), "gate.not_a_result", "the text 'gpu'", id="check is a text"),
        pytest.param(dict(GOOD, findings=None), "gate.not_a_result", "no list of findings", id="findings missing"),
        pytest.param(dict(GOOD, findings=["xid"]), "gate.not_a_result", "a finding that is the text 'xid'", id="finding is a text"),
    ],
)
def test_what_is_no_result_becomes_a_problem_that_says_what_was_given(given, code, said):
    assert code in _codes(given)
    assert said in _messages(given)


@pytest.mark.parametrize("flag", [{"failed": True}, {"skipped": True}, {"unreachable": True}, {"finished": 0}], ids=str)
def test_a_broken_task_spoils_a_good_report(flag):
    assert _codes(GOOD) == []
    assert len(_codes({**GOOD, **flag})) == 1


def test_false_written_as_text_is_no_failure():
    assert _codes({**GOOD, "failed": "False", "finished": 1}) == []


def test_a_task_failed_by_the_playbook_for_a_bad_verdict_keeps_its_findings():
    bad = report([Check("gpu", "8 GPUs", (Finding("gpu.x", "critical", CARD, "bad"),))])
    (result,) = read({**bad, "failed": True, "failed_when_result": True})
    assert (result.verdict, result.problems, len(result.findings)) == ("fail", (), 1)


def test_loops_and_nested_lists_are_taken_apart_and_every_item_is_named():
    loop = {"results": [GOOD, {"skipped": True}], "changed": False, "msg": "All items completed"}
    results = read([GOOD, [loop, [GOOD]]])
    assert [result.label for result in results] == ["result 1", "result 2.1, item 1", "result 2.1, item 2", "result 2.2.1"]
    assert [bool(result.problems) for result in results] == [False, False, True, False]


def test_a_failed_loop_is_not_hidden_by_good_items():
    assert _codes({"results": [GOOD], "failed": True, "msg": "One or more items failed"}) == ["gate.failed_task"]
    assert _codes({"results": [GOOD], "msg": "All items completed"}) == []


def test_a_loop_that_failed_for_a_bad_verdict_has_told_its_reason():
    bad = report([Check("gpu", "8 GPUs", (Finding("gpu.x", "critical", CARD, "bad"),))])
    assert _codes({"results": [GOOD, {**bad, "failed": True}], "failed": True, "msg": "One or more items failed"}) == []


def test_own_facts_called_results_are_no_loop():
    assert [result.verdict for result in read({**GOOD, "results": [1, 2]})] == ["pass"]


def test_a_list_that_holds_itself_ends():
    ring: list = []
    ring.append(ring)
    assert "nested" in _messages(ring)


def test_a_container_whose_items_raise_is_unreadable_and_does_not_raise():
    class Lazy(dict):
        def get(self, *args):
            raise RuntimeError("template error")

    assert _codes(Lazy(verdict="pass")) == ["gate.unreadable"]
    assert "template error" in _messages(Lazy(verdict="pass"))


@pytest.mark.parametrize(
    ("verdict", "severity", "read_as"),
    [
        ("pass", "info", "pass"),
        ("pass", "critical", "fail"),
        ("pass", "warning", "warn"),
        ("skip", "info", "pass"),
        ("unknown", "critical", "unknown"),
        ("fail", "info", "fail"),
        ("pass", "harmless", "unknown"),
        ("good", "info", "unknown"),
        (None, "critical", "unknown"),
    ],
)
def test_of_verdict_and_severity_the_worse_counts(verdict, severity, read_as):
    (result,) = read(dict(GOOD, findings=[{"code": "x", "verdict": verdict, "severity": severity}]))
    assert result.findings[0]["verdict"] == read_as


def test_a_finding_of_ours_comes_back_as_it_was():
    found = Finding("xid.79", "critical", CARD, "off the bus", "reseat", ("a line",), "reseat it", count=3, first="1", last="2")
    told = report([Check("kernel_log", "90 lines", (found,))])
    (result,) = read(told)
    assert list(result.findings) == told["findings"]


def test_half_a_finding_is_kept():
    (result,) = read(dict(GOOD, findings=[{"action": "explode", "evidence": 5, "count": 10**40, "subject": "GPU 3"}]))
    found = result.findings[0]
    assert (found["action"], found["evidence"], found["count"], found["verdict"]) == ("none", [], 1, "unknown")
    assert found["subject"] == {"kind": "", "label": "GPU 3", "keys": ["gpu 3"]}


def test_names_of_a_subject_without_keys_are_gathered():
    (result,) = read(dict(GOOD, findings=[{"subject": {"kind": "gpu", "index": 3, "serial": "AB12"}}]))
    assert result.findings[0]["subject"]["keys"] == ["ab12", "gpu", "gpu 3", "gpu3"]


def test_simulated():
    assert [result.simulated for result in read([dict(GOOD, simulated=True), GOOD, dict(GOOD, simulated="yes")])] == [True, False, True]


@pytest.mark.parametrize(
    ("text", "limit", "line"),
    [
        pytest.param("a\r\n\tb\x1b[31m c\u2028d", 0, "a b [31m c d", id="newlines and escapes"),
        pytest.param("\u202eabc \ud800", 0, "abc", id="direction marks and half characters"),
        pytest.param("abcdefgh", 6, "abc...", id="cut"),
        pytest.param("abcdef", 6, "abcdef", id="fits"),
        pytest.param(12, 0, "12", id="number"),
    ],
)
def test_one_line(text, limit, line):
    assert one_line(text, limit) == line


@settings(max_examples=150, deadline=None)
@given(st.text(), st.integers(0, 40))
def test_one_line_is_one_printable_line(text, limit):
    line = one_line(text, limit)
    assert line.splitlines() in ([], [line])
    assert line.encode() is not None
    assert limit < 4 or len(line) <= limit
