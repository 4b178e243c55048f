# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.kentino.gpu.plugins.filter.nccl_floor import nccl_floor
from ansible_collections.kentino.gpu.plugins.filter.preflight_plan import preflight_lost, preflight_plan
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import NODE, Check, Finding, report

GOOD = report([Check("gpu", "8 GPUs read")])
BAD = report([Check("gpu", "8 GPUs read", (Finding("gpu.lost", "critical", NODE, "gone"),))])


def test_it_starts():
    assert preflight_plan({"health": GOOD}, "burn", ["burn"], 660, 1800) == {"start": True, "why": "", "result": {}}


def test_it_does_not_start():
    plan = preflight_plan({"health": BAD}, "burn", ["burn"], 660, 1800)
    assert not plan["start"]
    assert plan["result"]["checks"][0]["skipped"] == plan["why"] == "not started, because health failed: gpu.lost on node"


def test_it_is_done_already():
    plan = preflight_plan({"health": BAD}, "burn", ["burn"], 660, 0, record=GOOD)
    assert (plan["start"], plan["result"]) == (False, GOOD)


def test_a_waiver_that_is_incomplete_is_told():
    with pytest.raises(AnsibleFilterError, match="reason is missing"):
        preflight_plan({}, "burn", ["burn"], 1, 2, waivers=[{"code": "*", "subject": "*", "until": "2999-12-31"}])


def test_a_step_that_is_lost():
    assert preflight_lost("burn", ["burn"], "gone")["verdict"] == "unknown"


def gpus(*links, device="10de:2bb5"):
    cards = [{"device_id": device, "pcie_gen_max": gen, "pcie_width_max": width} for gen, width in links]
    return {"facts": {"gpu": {"gpus": cards}}}


@pytest.mark.parametrize(
    ("result", "value"),
    [
        (gpus(*[(5, 16)] * 8), 20),
        (gpus(*[(5, 16)] * 7, (5, 8)), None),
        (gpus(*[(5, 16)] * 7, (None, None)), None),
        (gpus(*[(None, None)] * 8, device="10de:2330"), 460),
        ({}, None),
        (None, None),
        ({"facts": {"gpu": {"gpus": "eight"}}}, None),
    ],
    ids=["all links whole", "one link narrow", "one link unknown", "no PCIe needed", "no facts", "nothing", "text"],
)
def test_the_floor_of_what_was_read(result, value):
    assert nccl_floor(result).get("value_gbps") == value
