# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.kentino.gpu.plugins.action.preflight_baseline import ActionModule
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import Check, Finding, Subject, report
from ansible_collections.kentino.gpu.plugins.module_utils._report.policy import decide


class Task:
    action = "kentino.gpu.preflight_baseline"
    async_val = 0
    check_mode = False

    def __init__(self, args):
        self.args = args


def node(rate, simulated=False, bad=False):
    gpus = [{"index": 0, "device_id": "10de:2684"}]
    found = (Finding("gpu.pcie_width", "critical", Subject("gpu", index=0), "x4"),) if bad else ()
    health = report([Check("gpu", "1 GPU read", found)], facts={"gpu": {"gpus": gpus, "driver_version": "570.1", "simulated": simulated}})
    burn = report([Check("burn", "1 GPU burnt", metrics={"gpus": {"0": {"gflops": rate}}})], facts={"burn": {"argv": ["gpu_burn", "60"]}})
    return {"health": health, "burn": dict(burn, simulated=simulated)}


@pytest.fixture
def compare(mocker, tmp_path):
    def run(hosts, mode="compare", check_mode=False, **options):
        task = Task({"path": str(tmp_path / "kept/baseline.json"), "mode": mode, "variable": "results", **options})
        task.check_mode = check_mode
        action = ActionModule(task, mocker.MagicMock(), None, None, mocker.MagicMock())
        known = {host: {} if results is None else {"results": results} for host, results in hosts.items()}
        answer = action.run(task_vars={"ansible_play_hosts_all": list(hosts), "hostvars": known})
        json.dumps(answer)
        return answer

    return run


def test_learn_then_compare(compare, tmp_path):
    learned = compare({"a": node(100.0), "b": node(101.0), "c": node(99.0), "bad": node(100.0, bad=True), "gone": None}, "learn")
    assert learned["changed"]
    book = json.loads((tmp_path / "kept/baseline.json").read_text())
    assert [run["host"] for run in book["entries"][0]["runs"]] == ["a", "b", "c"]
    answer = compare({"new": node(98.0), "slow": node(60.0), "other": node(10.0, simulated=True)})
    assert not answer["changed"]
    assert {host: result["verdict"] for host, result in answer["hosts"].items()} == {"new": "pass", "slow": "warn", "other": "skip"}
    assert answer["hosts"]["other"]["simulated"]
    assert decide(answer["hosts"]["new"]).open
    assert not decide(answer["hosts"]["slow"]).open


@pytest.mark.parametrize(("mode", "check_mode"), [("compare", False), ("learn", True)], ids=["compare", "check mode"])
def test_nothing_is_written(compare, tmp_path, mode, check_mode):
    answer = compare({"a": node(100.0)}, mode, check_mode)
    assert not answer["changed"]
    assert answer["hosts"]["a"]["verdict"] == "skip"
    assert list(tmp_path.iterdir()) == []


def test_off_needs_no_file(compare, tmp_path):
    assert compare({"a": node(100.0)}, "off", path=None)["hosts"]["a"]["checks"][0]["skipped"] == "not asked for"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 9, "entries": []}'])
@pytest.mark.parametrize("mode", ["learn", "compare"])
def test_a_damaged_file_is_told_and_kept(compare, tmp_path, mode, content):
    (tmp_path / "kept").mkdir()
    path = tmp_path / "kept/baseline.json"
    path.write_text(content)
    with pytest.raises(AnsibleActionFail, match=r"baseline\.json"):
        compare({"a": node(100.0)}, mode)
    assert path.read_text() == content


@pytest.mark.parametrize(("options", "said"), [({"tolerance_pct": 0}, "between 0 and 100"), ({"path": None}, "path is missing")])
def test_refused(compare, options, said):
    with pytest.raises(AnsibleActionFail, match=said):
        compare({"a": node(100.0)}, **options)
