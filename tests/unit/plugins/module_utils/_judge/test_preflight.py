# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import preflight
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import Check, Finding, Subject, report
from ansible_collections.kentino.gpu.plugins.module_utils._report.policy import Policy, decide
from ansible_collections.kentino.gpu.plugins.module_utils._report.waiver import read_waivers

BURN = preflight.Step("burn", ("burn",), 660)
HEALTH = preflight.Step("health", ("gpu", "kernel_log"), 5, loads=False)
GOOD = report([Check("gpu", "8 GPUs read through NVML")])
CARD = Subject("gpu", index=3, serial="1320523004417")


def result(severity, undetermined=False):
    return report([Check("gpu", "8 GPUs read", (Finding("gpu.pcie_width", severity, CARD, "x4", undetermined=undetermined),))])


def refusal(step=BURN, results=None, left=10000.0, waivers=()):
    accepted = read_waivers(list(waivers), datetime.now(timezone.utc))
    return preflight.refusal(step, {"health": GOOD} if results is None else results, accepted, left, "the budget of nightly", "gpu-07")


@pytest.mark.parametrize(
    ("results", "starts"),
    [
        ({}, True),
        ({"health": GOOD}, True),
        ({"health": result("warning")}, True),
        ({"health": result("warning", undetermined=True)}, True),
        ({"health": result("critical")}, False),
        ({"health": GOOD, "dcgm": result("critical"), "nccl": GOOD}, False),
        ({"dcgm": preflight.lost(preflight.Step("dcgm", ("dcgm",), 1), "gone")}, False),
        ({"health": preflight.skipped(HEALTH, "no time")}, True),
    ],
    ids=["first", "good", "warning", "cannot tell", "failed", "one of several failed", "the node went away", "skipped"],
)
def test_a_failure_keeps_the_load_away(results, starts):
    assert (refusal(results=results) == "") == starts


def test_the_reason_names_step_code_and_card():
    assert refusal(results={"dcgm": result("critical")}) == (
        "not started, because dcgm failed: gpu.pcie_width on GPU 3 serial 1320523004417"
    )


def test_a_step_that_loads_nothing_runs_after_a_failure():
    assert refusal(HEALTH, {"burn": result("critical")}) == ""


@pytest.mark.parametrize(("until", "starts"), [("2999-12-31", True), ("2001-12-31", False)], ids=["waived", "expired"])
def test_a_waived_failure_does_not_count(until, starts):
    waiver = {"code": "gpu.pcie_width", "subject": "1320523004417", "reason": "riser ordered", "until": until}
    assert (refusal(results={"health": result("critical")}, waivers=[waiver]) == "") == starts


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (660.0, ""),
        (659.9, "not started: it takes about 660 s, and the budget of nightly has 650 s left"),
        (7.6, "not started: it takes about 660 s, and the budget of nightly has 7 s left"),
        (-30.0, "not started: it takes about 660 s, and the budget of nightly has 0 s left"),
    ],
    ids=["fits", "does not fit", "little", "over"],
)
def test_the_budget(left, said):
    assert refusal(left=left) == said


@pytest.mark.parametrize(
    ("record", "stands"),
    [
        (GOOD, True),
        (result("warning"), True),
        (result("critical"), True),
        (result("critical", undetermined=True), False),
        (preflight.skipped(BURN, "no time"), False),
        (None, False),
        ("pass", False),
    ],
    ids=["pass", "warn", "fail", "unknown", "skip", "none", "text"],
)
def test_which_steps_are_not_repeated(record, stands):
    assert preflight.settled(record) == stands


def test_what_is_not_started_opens_no_gate_that_requires_it():
    skipped = preflight.skipped(BURN, "no time")
    assert decide([GOOD, skipped]).open
    shut = decide([GOOD, skipped], Policy(required=("burn",)))
    assert not shut.open
    assert "no time" in shut.message()


@pytest.mark.parametrize(("away", "action"), [(True, "check_power"), (False, "none")], ids=["the node is away", "only the job"])
def test_a_lost_step_is_unknown_and_says_what_to_do(away, action):
    lost = preflight.lost(BURN, "it is gone", away)
    assert (lost["verdict"], lost["action"], lost["checks"][0]["name"]) == ("unknown", action, "burn")
    assert not decide(lost, Policy("warn")).open
