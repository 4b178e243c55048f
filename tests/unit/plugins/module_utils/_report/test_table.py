# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._knowledge.actions import SENTENCES
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import ACTIONS, NODE, Check, Finding, Subject, report
from ansible_collections.kentino.gpu.plugins.module_utils._report.policy import Policy, decide
from ansible_collections.kentino.gpu.plugins.module_utils._report.table import SIMULATED, lines, sentence, table
from ansible_collections.kentino.gpu.plugins.module_utils._report.waiver import read_waivers

CARD = Subject("gpu", index=3, pci="0000:c1:00", serial="1320523004417")
LOST = Finding("xid.79", "critical", CARD, "has fallen off the bus", "reseat")
WIDTH = Finding("gpu.pcie_width", "warning", CARD, "link width x4, x16 expected", "reseat", advice="reseat the riser.")
NOTED = Finding("xid.43", "info", CARD, "a program was ended", "look_at_code")


def _decide(*findings, policy=Policy("warn"), **facts):  # noqa: B008
    return decide(report([Check("gpu", "8 GPUs", findings)], **facts), policy)


@pytest.mark.parametrize(
    ("finding", "said"),
    [
        pytest.param(WIDTH, "reseat GPU 3 0000:c1:00 serial 1320523004417: link width x4, x16 expected (reseat the riser)", id="advice"),
        pytest.param(
            Finding("x", "critical", Subject("gpu", index=1), "hangs", "reset_gpu"),
            "reset GPU 1: hangs (%s)" % SENTENCES["reset_gpu"].rstrip("."),
            id="the sentence of the action where there is no advice",
        ),
        pytest.param(Finding("x", "critical", NODE, "panic", "reboot_node", advice="drain"), "reboot the node: panic (drain)", id="node"),
        pytest.param(Finding("x", "warning", NODE, "hot", "check_power", advice="y"), "check the power of the node: hot (y)", id="power"),
        pytest.param(Finding("x", "warning", CARD, "odd"), "GPU 3 0000:c1:00 serial 1320523004417: odd", id="nothing to do"),
        pytest.param(Finding("x", "warning", NODE, "odd"), "odd", id="nothing to do, node"),
    ],
)
def test_a_sentence_begins_with_what_is_to_be_done(finding, said):
    assert sentence(finding.as_dict()) == said


@pytest.mark.parametrize("action", [action for action in ACTIONS if action != "none"])
def test_every_action_has_words(action):
    said = sentence(Finding("x", "critical", CARD, "bad", action).as_dict())
    assert CARD.label() + ": bad" in said
    assert said.split(" ")[0] == action.split("_")[0]
    assert said.endswith("(%s)" % SENTENCES[action].rstrip("."))


def test_the_table_of_a_shut_gate_has_the_worst_first_and_ends_with_what_the_actions_mean():
    assert table({"gpu-07": _decide(WIDTH, LOST, NOTED)}) == [
        "host    verdict  subject                                what                                         action",
        "gpu-07  fail     GPU 3 0000:c1:00 serial 1320523004417  xid.79: has fallen off the bus               reseat",
        "gpu-07  warn     GPU 3 0000:c1:00 serial 1320523004417  gpu.pcie_width: link width x4, x16 expected  reseat",
        "reseat: " + SENTENCES["reseat"],
    ]


def test_the_table_of_an_open_gate_shows_what_was_accepted():
    items = [{"code": "xid.79", "subject": "*", "reason": "r", "until": "2026-12-31"}]
    waivers = read_waivers(items, datetime(2026, 6, 30, tzinfo=timezone.utc))
    rows = table({"gpu-07": _decide(WIDTH, LOST, policy=Policy("warn", waivers=waivers))})
    assert [row.split()[1] for row in rows] == ["verdict", "warn", "fail,"]
    assert rows[2].endswith("waived until 2026-12-31")


def test_what_a_waived_action_means_is_not_explained():
    items = [{"code": "gpu.dead", "subject": "*", "reason": "r", "until": "2026-12-31"}]
    waivers = read_waivers(items, datetime(2026, 6, 30, tzinfo=timezone.utc))
    decision = _decide(LOST, Finding("gpu.dead", "critical", CARD, "dead", "replace"), policy=Policy(waivers=waivers))
    assert [row.split(":")[0] for row in table({"gpu-07": decision})[3:]] == ["reseat"]


def test_a_good_host_needs_no_table():
    assert table({"gpu-07": _decide(NOTED)}) == []
    assert table({}) == []


def test_a_simulated_node_is_named_in_the_first_line():
    assert table({"gpu-07": _decide(simulated=True)}) == [SIMULATED]
    assert table({"gpu-07": _decide(LOST, simulated=True)})[0] == SIMULATED


def test_rows_of_all_hosts_are_sorted_together_and_limited():
    decisions = {"host-%02d" % number: _decide(WIDTH) for number in range(25)}
    decisions["host-99"] = _decide(LOST)
    rows = table(decisions, limit=5)
    assert len(rows) == 1 + 5 + 1 + 1
    assert rows[1].startswith("host-99  fail")
    assert rows[6] == "and 21 more"


def test_a_long_message_is_cut_in_the_table_and_whole_in_the_reasons():
    decision = _decide(Finding("x", "critical", CARD, "long " * 60 + "end", "replace"))
    assert max(map(len, table({"gpu-07": decision})[:2])) < 180
    assert "end (" in decision.reasons[0]


def test_text_from_the_node_cannot_write_on_the_terminal():
    rows = table({"gpu-07": _decide(Finding("x", "critical", CARD, "one\ntwo\x1b[2Jthree", "replace"))})
    assert len(rows) == 3
    assert "\x1b" not in "".join(rows)


def test_lines_of_one_report_for_the_console():
    told = report(
        [
            Check("gpu", "8 GPUs read through NVML", (WIDTH,)),
            Check("kernel_log", "412 lines", (LOST,)),
            Check("fabric", ""),
            Check("burn", "", skipped="not asked for"),
        ]
    )
    text = lines(told)
    assert text[0].startswith("fail: reseat GPU 3 0000:c1:00")
    assert [line.split()[0] for line in text[1:4]] == ["verdict", "fail", "warn"]
    assert text[4:] == [
        "gpu: warn, 8 GPUs read through NVML",
        "kernel_log: fail, 412 lines",
        "fabric: unknown, nothing was measured",
        "burn: skip, not asked for",
    ]


def test_lines_of_a_good_report():
    assert lines(report([Check("gpu", "8 GPUs", (NOTED,))], simulated=True)) == [SIMULATED, "pass", "gpu: pass, 8 GPUs"]


@pytest.mark.parametrize("given", [None, {}, [], "pass", {"verdict": "pass"}], ids=str)
def test_lines_of_what_is_no_report(given):
    assert lines(given)[0] != "pass"
