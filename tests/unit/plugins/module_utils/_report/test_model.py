# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import itertools
import json

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import (
    ACTIONS,
    NODE,
    VERDICTS,
    Check,
    Finding,
    Subject,
    report,
    urgent,
    worst,
)

CARD = Subject("gpu", index=2, pci="0000:41:00", uuid="GPU-7c31", serial="0420918220017")


@pytest.mark.parametrize(
    ("subject", "label"),
    [
        pytest.param(CARD, "GPU 2 0000:41:00 serial 0420918220017", id="serial before UUID"),
        pytest.param(Subject("gpu", index=0, uuid="GPU-7c31"), "GPU 0 GPU-7c31", id="UUID where the board has no serial"),
        pytest.param(Subject("gpu", pci="0000:41:00"), "GPU 0000:41:00", id="a GPU lost from the bus has only its address"),
        pytest.param(Subject("disk", "nvme1n1"), "disk nvme1n1", id="name"),
        pytest.param(Subject("rank", index=0), "rank 0", id="index 0 is an index"),
        pytest.param(NODE, "node", id="node"),
    ],
)
def test_label(subject, label):
    assert subject.label() == label


def test_keys_are_every_name_in_lower_case():
    assert CARD.keys() >= {"0420918220017", "gpu-7c31", "0000:41:00", "gpu2", "gpu 2", "gpu", CARD.label().lower()}
    keys = CARD.keys()
    assert {key.lower() for key in keys} == keys


@pytest.mark.parametrize(
    ("severity", "undetermined", "verdict"),
    [
        ("info", False, "pass"),
        ("warning", False, "warn"),
        ("critical", False, "fail"),
        ("info", True, "unknown"),
        ("critical", True, "unknown"),
    ],
)
def test_verdict_of_a_finding(severity, undetermined, verdict):
    assert Finding("x.y", severity, NODE, "seen", undetermined=undetermined).verdict == verdict


def _finding(severity="warning", action="none", undetermined=False):
    return Finding("x.y", severity, CARD, "seen", action, undetermined=undetermined)


@pytest.mark.parametrize(
    ("check", "verdict"),
    [
        pytest.param(Check("gpu", "8 GPUs"), "pass", id="evidence and nothing found"),
        pytest.param(Check("gpu", ""), "unknown", id="nothing measured is no pass"),
        pytest.param(Check("gpu", "", (_finding("info"),)), "unknown", id="information is no measurement"),
        pytest.param(Check("gpu", "", (_finding("critical"),)), "fail", id="a fault seen without a measurement"),
        pytest.param(Check("gpu", "8 GPUs", (_finding(), _finding(undetermined=True))), "unknown", id="unknown is worse than a warning"),
        pytest.param(Check("gpu", "", skipped="not asked for"), "skip", id="skipped"),
    ],
)
def test_verdict_of_a_check(check, verdict):
    assert check.verdict == verdict


def test_worst_follows_the_order_whatever_the_sequence():
    for one, other in itertools.product(VERDICTS, repeat=2):
        assert worst([one, other]) == worst([other, one]) == VERDICTS[max(VERDICTS.index(one), VERDICTS.index(other))]
    assert worst([]) == "skip"


def test_urgent_takes_the_worst_finding_first_and_the_most_urgent_action_of_those():
    assert urgent([_finding("warning", "replace"), _finding("critical", "reset_gpu"), _finding("critical", "reseat")]) == "reseat"
    assert urgent([]) == "none"
    assert ACTIONS.index("replace") > ACTIONS.index("reboot_node") > ACTIONS.index("none")


def test_report_sorts_findings_names_their_check_and_is_json():
    fault = Finding("xid.79", "critical", CARD, "off the bus", "reseat", evidence=("line",), count=2, first="t0", last="t1")
    told = report([Check("gpu", "8 GPUs", (_finding(),), metrics={"count": 8}), Check("kernel_log", "90 lines", (fault,))], facts={"a": 1})
    assert json.loads(json.dumps(told)) == told
    assert (told["verdict"], told["action"], told["changed"], told["facts"]) == ("fail", "reseat", False, {"a": 1})
    assert [(found["code"], found["check"]) for found in told["findings"]] == [("xid.79", "kernel_log"), ("x.y", "gpu")]
    assert [(check["name"], check["verdict"]) for check in told["checks"]] == [("gpu", "warn"), ("kernel_log", "fail")]
    assert told["metrics"] == {"gpu": {"count": 8}, "kernel_log": {}}


def test_report_of_no_check_is_no_pass():
    assert report([])["verdict"] == "skip"
