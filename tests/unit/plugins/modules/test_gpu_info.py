# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import sys

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._check import gpu
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import Check
from ansible_collections.kentino.gpu.plugins.modules import gpu_info
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check.nodes import STATE, Node, render
from ansible_collections.kentino.gpu.tests.unit.plugins.modules.module_runs import documented, is_as_documented, run


@pytest.fixture
def asked(monkeypatch):
    """The options that reach the check; nothing is read."""
    seen = []

    def note(options):
        seen.append(options)
        return Check("gpu", "8 GPUs"), {"simulated": False}

    monkeypatch.setattr(gpu, "run", note)
    return seen


@pytest.fixture
def node(tmp_path, monkeypatch):
    node = Node(tmp_path, "l40sx4+gpu_lost")
    for key, value in render.environment(str(tmp_path)).items():
        monkeypatch.setenv(key, value)
    monkeypatch.delenv("NVIDIA_VISIBLE_DEVICES", raising=False)
    return node


def test_lost_gpu_is_reported_and_fails_no_task(capsys, node):
    result = run(gpu_info, capsys, source="nvidia_smi", expected={"count": 4})
    assert (result["verdict"], result["action"], result["changed"], "failed" in result) == ("fail", "reseat", False, False)
    assert (result["findings"][0]["code"], result["findings"][0]["subject"]["pci"]) == ("gpu.lost", node.pci(3))
    assert result["simulated"]
    assert len(result["facts"]["gpu"]["gpus"]) >= 3
    is_as_documented(result, documented(gpu_info))


@pytest.mark.parametrize("check_mode", [False, True])
def test_only_a_real_run_leaves_a_memory(capsys, node, check_mode):
    run(gpu_info, capsys, check_mode=check_mode, source="nvidia_smi", state_path=STATE)
    assert node.state.exists() is not check_mode


def test_neither_library_nor_tool_is_unknown_and_fails_no_task(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("KENTINO_GPU_ROOT", str(tmp_path))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    result = run(gpu_info, capsys)
    assert (result["verdict"], result["findings"][0]["code"], "failed" in result) == ("unknown", "tool.missing", False)


def test_defaults_are_those_of_the_check(capsys, asked):
    run(gpu_info, capsys)
    assert asked == [gpu.Options()]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("source", "nvml"),
        ("expected", {"count": 8}),
        ("limits", {"temperature_c": 80}),
        ("state_path", "/var/lib/s.json"),
        ("deadline_seconds", 3.5),
    ],
)
def test_option_reaches_the_check(capsys, asked, option, value):
    run(gpu_info, capsys, **{option: value})
    assert asked == [gpu.Options(**{option: value})]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        pytest.param({"source": "dcgm"}, "value of source must be one of: auto, nvml, nvidia_smi", id="unknown source"),
        pytest.param({"expected": {"count": "eight"}}, "count is 'eight'", id="no number"),
        pytest.param({"expected": {"cuont": 8}}, "did you mean 'count'", id="misspelt expectation"),
        pytest.param({"limits": {"temprature_c": 80}}, "temprature_c", id="misspelt limit"),
        pytest.param({"deadline_seconds": -1}, "expected a number of seconds above 0", id="negative time"),
        pytest.param({"expected": "eight"}, "expected", id="no dictionary"),
        pytest.param({"exepcted": {}}, "Unsupported parameters", id="misspelt"),
    ],
)
def test_wrong_option_fails_the_task_with_a_sentence(capsys, options, words):
    result = run(gpu_info, capsys, **options)
    assert result["failed"]
    assert words in result["msg"]
    assert "Traceback" not in result["msg"]
    assert "verdict" not in result
