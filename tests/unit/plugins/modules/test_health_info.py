# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._check import gpu, health, kernel_log
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import Check, report
from ansible_collections.kentino.gpu.plugins.modules import health_info
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check.nodes import Node, render
from ansible_collections.kentino.gpu.tests.unit.plugins.modules.module_runs import documented, is_as_documented, run

POLICY = {"xid_policy": {}, "warning_hours": 24}


@pytest.fixture
def asked(monkeypatch):
    """What reaches the checks: names, options of both, whether details are wanted; nothing is read."""
    seen = []

    def note(names, gpu_options, log_options, details):
        seen.append((names, gpu_options, log_options, details))
        return report([Check("gpu", "8 GPUs")], facts={})

    monkeypatch.setattr(health, "run", note)
    return seen


@pytest.fixture
def node(tmp_path, monkeypatch):
    node = Node(tmp_path, "l40sx4+xid79_only")
    for key, value in render.environment(str(tmp_path)).items():
        monkeypatch.setenv(key, value)
    monkeypatch.delenv("NVIDIA_VISIBLE_DEVICES", raising=False)
    return node


def test_bad_node_is_reported_and_fails_no_task(capsys, node):
    result = run(health_info, capsys, gpu_source="nvidia_smi", expected={"count": 4}, details=True)
    assert (result["verdict"], result["action"], result["changed"], "failed" in result) == ("fail", "reseat", False, False)
    assert {check["name"]: check["verdict"] for check in result["checks"]} == {"gpu": "pass", "kernel_log": "fail"}
    assert result["findings"][0]["subject"]["index"] == 1  # of the GPUs, though the log knows an address only
    assert len(result["facts"]["gpu"]["gpus"]) == 4
    assert result["facts"]["kernel_log"]["events"][0]["xid"] == 79
    is_as_documented(result, documented(health_info))


def test_without_details_the_facts_are_short_and_the_verdict_is_the_same(capsys, node):
    result = run(health_info, capsys, gpu_source="nvidia_smi", expected={"count": 4})
    assert (result["verdict"], result["action"]) == ("fail", "reseat")
    assert "gpus" not in result["facts"]["gpu"]
    assert "events" not in result["facts"]["kernel_log"]
    assert result["facts"]["kernel_log"]["cursor"]
    is_as_documented(result, documented(health_info))


def test_check_that_is_left_out_is_skipped_and_asks_nothing(capsys, node):
    node.tool("nvidia-smi", "touch %s/asked" % node.folder)
    result = run(health_info, capsys, checks=["kernel_log"], gpu_source="nvidia_smi")
    assert {check["name"]: check["verdict"] for check in result["checks"]} == {"gpu": "skip", "kernel_log": "fail"}
    assert not (node.folder / "asked").exists()


def test_defaults_are_those_of_the_checks(capsys, asked):
    run(health_info, capsys)
    assert asked == [(["gpu", "kernel_log"], gpu.Options(), kernel_log.Options(paths=[], policy=POLICY), False)]


@pytest.mark.parametrize(
    ("options", "for_gpu", "for_log"),
    [
        ({"gpu_source": "nvml"}, {"source": "nvml"}, {}),
        ({"expected": {"count": 8}}, {"expected": {"count": 8}}, {}),
        ({"limits": {"temperature_c": 80}}, {"limits": {"temperature_c": 80}}, {}),
        ({"kernel_log_source": "kmsg"}, {}, {"source": "kmsg"}),
        ({"kernel_log_source": "file", "kernel_log_paths": ["/a"]}, {}, {"source": "file", "paths": ["/a"]}),
        ({"xid_policy": {"63": {"action": "none"}}}, {}, {"policy": {**POLICY, "xid_policy": {"63": {"action": "none"}}}}),
        ({"warning_hours": 2}, {}, {"policy": {**POLICY, "warning_hours": 2}}),
        ({"state_path": "/s.json"}, {"state_path": "/s.json"}, {"state_path": "/s.json"}),
        ({"deadline_seconds": 3.5}, {"deadline_seconds": 3.5}, {"deadline_seconds": 3.5}),
    ],
)
def test_option_reaches_the_checks(capsys, asked, options, for_gpu, for_log):
    run(health_info, capsys, **options)
    wanted = kernel_log.Options(**{"paths": [], "policy": POLICY, **for_log})
    assert asked == [(["gpu", "kernel_log"], gpu.Options(**for_gpu), wanted, False)]


@pytest.mark.parametrize("check_mode", [False, True])
def test_only_a_real_run_leaves_a_memory(capsys, asked, check_mode):
    run(health_info, capsys, check_mode=check_mode)
    assert [options.save_state for options in asked[0][1:3]] == [not check_mode] * 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param({"checks": ["gpu", "disk"]}, "value of checks must be one or more of: gpu, kernel_log", id="unknown check"),
        pytest.param({"kernel_log_source": "file"}, "expected one path or pattern at least", id="file without a path"),
        pytest.param({"expected": {"count": -8}}, "count is -8", id="negative number"),
        pytest.param({"xid_policy": {"79": {"severity": "awful"}}, "checks": ["kernel_log"]}, "'awful'", id="unknown severity"),
        pytest.param({"deadline_seconds": "inf"}, "expected a number of seconds above 0", id="no end"),
    ],
)
def test_wrong_option_fails_the_task_with_a_sentence(capsys, options, words):
    result = run(health_info, capsys, **options)
    assert result["failed"]
    assert words in result["msg"]
    assert "verdict" not in result


def test_no_check_at_all_opens_nothing(capsys):
    result = run(health_info, capsys, checks=[])
    assert result["verdict"] == "skip"
    assert {check["verdict"] for check in result["checks"]} == {"skip"}
