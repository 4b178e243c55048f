# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from datetime import date, timedelta

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.kentino.gpu.plugins.action.gate import ActionModule
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import Check, Finding, Subject, report
from ansible_collections.kentino.gpu.plugins.module_utils._report.table import SIMULATED

CARD = Subject("gpu", index=3, pci="0000:c1:00", serial="1320523004417")
GOOD = report([Check("gpu", "8 GPUs read through NVML")])
BAD = report([Check("kernel_log", "412 lines", (Finding("xid.79", "critical", CARD, "has fallen off the bus", "reseat"),))])
TOMORROW = (date.today() + timedelta(days=1)).isoformat()
YESTERDAY = (date.today() - timedelta(days=1)).isoformat()


class Task:
    action = "kentino.gpu.gate"
    async_val = 0
    check_mode = False
    run_once = False
    no_log = False

    def __init__(self, args):
        self.args = args


@pytest.fixture
def gate(mocker):
    """Run the action as the task executor would; gives the result and what was printed."""

    def run(args, known=None, **task):
        action = ActionModule(Task(args), mocker.MagicMock(), None, None, mocker.MagicMock())
        for key, value in task.items():
            setattr(action._task, key, value)
        action._templar.template.side_effect = _template
        action._display = mocker.MagicMock()
        result = action.run(task_vars={"inventory_hostname": "gpu-07", **(known or {})})
        json.dumps(result)
        return result, [line for call in action._display.display.call_args_list for line in call.args[0].split("\n")]

    return run


def _template(value):
    if value == "{{ nowhere }}":
        raise RuntimeError("'nowhere' is undefined")
    return value


def test_open(gate):
    result, printed = gate({"results": [GOOD]})
    assert (result["open"], result["failed"], result["changed"], result["verdict"]) == (True, False, False, "pass")
    assert result["msg"] == "gate open: gpu ran"
    assert printed == []


def test_shut(gate):
    result, printed = gate({"results": [GOOD, BAD]})
    assert (result["open"], result["failed"], result["changed"], result["verdict"]) == (False, True, False, "fail")
    assert result["msg"].startswith("gate shut: reseat GPU 3 0000:c1:00 serial 1320523004417: has fallen off the bus")
    assert (result["action"], result["findings"][0]["host"]) == ("reseat", "gpu-07")
    assert printed == result["table"]


def test_one_result_needs_no_list(gate):
    assert gate({"results": GOOD})[0]["open"]


@pytest.mark.parametrize("nothing", [None, "", [], {}, "{{ gpu }}", {"skipped": True}], ids=str)
def test_no_result_is_a_verdict_and_no_error(gate, nothing):
    result = gate({"results": nothing})[0]
    assert (result["failed"], result["verdict"]) == (True, "unknown")


@pytest.mark.parametrize("check_mode", [True, False])
def test_check_mode_judges_as_otherwise(gate, check_mode):
    assert gate({"results": [GOOD]}, check_mode=check_mode)[0]["open"]
    assert not gate({"results": [BAD]}, check_mode=check_mode)[0]["open"]


def test_variables_are_read_from_this_host(gate):
    assert gate({"variables": ["health"]}, {"health": GOOD})[0]["open"]


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        pytest.param(["health", "burn"], "burn has no result: nothing of that name was registered on this host", id="not registered"),
        pytest.param(["health", "lazy"], "lazy has no result: it cannot be read: 'nowhere' is undefined", id="template that fails"),
        pytest.param([], "nothing was measured (ask for one check at least)", id="no name"),
    ],
)
def test_a_variable_without_result_is_unknown(gate, names, reason):
    result = gate({"variables": names}, {"health": GOOD, "lazy": "{{ nowhere }}"})[0]
    assert (result["open"], result["verdict"], result["reasons"]) == (False, "unknown", [reason])


def test_required_and_worst_reach_the_policy(gate):
    warned = report([Check("gpu", "8 GPUs", (Finding("gpu.x", "warning", CARD, "slow"),))])
    assert not gate({"results": [warned]})[0]["open"]
    assert gate({"results": [warned], "worst": "warn", "required": ["gpu"]})[0]["open"]
    assert not gate({"results": [warned], "worst": "warn", "required": ["gpu", "burn"]})[0]["open"]


@pytest.mark.parametrize(("until", "is_open"), [(TOMORROW, True), (YESTERDAY, False)])
def test_waiver(gate, until, is_open):
    result, printed = gate({"results": [BAD], "waivers": [{"code": "xid.79", "subject": "GPU3", "reason": "known", "until": until}]})
    assert result["open"] is is_open
    assert ("waived until " + until in "".join(printed)) is is_open
    assert ("its waiver expired on " + until in result["msg"]) is not is_open


@pytest.mark.parametrize(
    ("args", "said"),
    [
        pytest.param({}, "give either results or variables", id="nothing to judge"),
        pytest.param({"results": [GOOD], "variables": ["health"]}, "give either results or variables", id="both"),
        pytest.param({"results": [GOOD], "worst": "fail"}, "must be one of: pass, warn", id="worst"),
        pytest.param({"results": [GOOD], "waiver": []}, "waiver. Supported parameters", id="misspelt option"),
        pytest.param({"results": [GOOD], "waivers": [{"code": "x"}]}, "waivers, item 1: ", id="half a waiver"),
        pytest.param({"results": [GOOD], "fleet": True}, "with fleet, give the names", id="fleet of results"),
        pytest.param({"variables": [], "fleet": True}, "with fleet, give the names", id="fleet without names"),
        pytest.param({"variables": ["health"], "fleet": True, "max_bad_pct": 101}, "between 0 and 100", id="share above all"),
        pytest.param({"variables": ["health"], "fleet": True, "max_bad_pct": "nan"}, "between 0 and 100", id="share that is no number"),
        pytest.param({"variables": ["health"], "fleet": True, "min_bad_hosts": 0}, "1 or more", id="no host"),
    ],
)
def test_wrong_arguments_fail_with_a_sentence(gate, args, said):
    with pytest.raises(AnsibleActionFail) as refused:
        gate(args, {"health": GOOD})
    assert said in str(refused.value)


def test_the_table_names_simulated_nodes_and_respects_no_log(gate):
    args = {"results": [{**BAD, "simulated": True}]}
    result, printed = gate(args)
    assert (result["simulated"], printed[0]) == (True, SIMULATED)
    assert gate(args, no_log=True)[1] == []


def test_a_good_host_prints_nothing(gate):
    result, printed = gate({"results": [{**GOOD, "simulated": True}]})
    assert (result["table"], printed) == ([SIMULATED], [])


# The fleet: gpu-1 was in an earlier batch, gpu-2 and gpu-3 are in this one, gpu-4 comes later, gpu-5 dropped out.
def _play(**results):
    alive = ["gpu-1", "gpu-2", "gpu-3", "gpu-4"]
    return {
        "inventory_hostname": "gpu-2",
        "ansible_play_batch": ["gpu-2", "gpu-3"],
        "ansible_play_hosts": alive,
        "ansible_play_hosts_all": [*alive, "gpu-5"],
        "hostvars": {host: {"health": results[host[-1]]} if host[-1] in results else {} for host in [*alive, "gpu-5"]},
    }


def _named(**results):
    return {number: result for number, result in zip("12345", results.values()) if result}


FLEET = {"fleet": True, "variables": ["health"]}


def test_the_fleet_is_this_batch_earlier_ones_and_those_that_dropped_out(gate):
    result = gate({**FLEET, "min_bad_hosts": 9}, _play(**_named(a=GOOD, b=BAD, c=GOOD)), run_once=True)[0]
    assert {host: one["verdict"] for host, one in result["hosts"].items()} == {
        "gpu-1": "pass",
        "gpu-2": "fail",
        "gpu-3": "pass",
        "gpu-5": "unknown",
    }
    assert (result["open"], result["bad_hosts"], result["notes"]) == (True, ["gpu-2", "gpu-5"], [])


def test_the_brake_fails_the_task_and_says_what_is_shared(gate):
    result, printed = gate(FLEET, _play(**_named(a=BAD, b=BAD, c=GOOD, d=None, e=GOOD)), run_once=True)
    assert (result["failed"], result["open"], result["action"]) == (True, False, "reseat")
    assert result["msg"].startswith("brake: 2 of 4 hosts (50 %) are bad, at most 25 % allowed")
    assert printed[-1] == "xid.79 on 2 hosts (gpu-2, gpu-1): has fallen off the bus"


def test_below_the_brake_the_table_is_shown_and_the_run_goes_on(gate):
    result, printed = gate(FLEET, _play(**_named(a=GOOD, b=BAD, c=GOOD, d=None, e=GOOD)), run_once=True)
    assert (result["failed"], result["verdict"]) == (False, "fail")
    assert printed[-1] == "fleet: 1 of 4 hosts (25 %) is bad"
    assert printed[1].startswith("gpu-2  fail")


def test_a_host_that_dropped_out_is_told_apart_from_one_that_ran_nothing(gate):
    result = gate({**FLEET, "min_bad_hosts": 9}, _play(**_named(a=GOOD, b=None, c=GOOD)), run_once=True)[0]
    reasons = {found["host"]: found["message"] for found in result["findings"]}
    assert reasons["gpu-2"].endswith("nothing of that name was registered on this host")
    assert reasons["gpu-5"].endswith("the host dropped out of the play, unreachable or failed")


def test_a_fleet_without_run_once_is_noted(gate):
    result = gate(FLEET, _play(**_named(a=GOOD, b=GOOD, c=GOOD, d=None, e=GOOD)))[0]
    assert result["notes"] == ["fleet judges all hosts at once: give the task run_once: true"]
