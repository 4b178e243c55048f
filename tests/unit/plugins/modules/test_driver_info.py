# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os

import pytest
from ansible_collections.kentino.gpu.plugins.modules import driver_info
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check.nodes import Node, render
from ansible_collections.kentino.gpu.tests.unit.plugins.modules.module_runs import documented, is_as_documented, run

KERNEL = os.uname().release


@pytest.fixture
def node(request, tmp_path, monkeypatch):
    node = Node(tmp_path, request.param)
    for key, value in render.environment(str(tmp_path)).items():
        monkeypatch.setenv(key, value)
    for name in ("boot", "etc", "lib", "usr/lib64", "var/lib/dpkg"):
        (tmp_path / "root" / name).mkdir(parents=True, exist_ok=True)
    return node


@pytest.mark.parametrize("node", ["h100x8"], indirect=True)
@pytest.mark.parametrize("check_mode", [False, True])
def test_everything_that_is_documented_is_told(capsys, node, check_mode):
    result = run(driver_info, capsys, check_mode=check_mode)
    is_as_documented(result, documented(driver_info))
    assert set(result) - {"changed"} - set(documented(driver_info)) <= {"invocation"}
    assert (len(result["gpus"]), len(result["nvswitches"]), result["nvlink5"]) == (8, 4, False)
    assert (result["compute_capabilities"], result["flavour"], result["needs"]) == (["9.0"], "open", [])
    assert result["kernels"]["running"] == KERNEL
    assert (result["changed"], result["verdict"], "failed" in result) == (False, "fail", False)
    assert [finding["code"] for finding in result["findings"]] == ["driver.no_library"]


@pytest.mark.parametrize("node", ["rtx5090x8+driver_not_loaded"], indirect=True)
def test_bare_node(capsys, node):
    result = run(driver_info, capsys)
    assert (result["module"], result["library"], result["reboot_required"]) == ({"loaded": None, "flavour": None}, None, False)
    assert (result["needs"], result["compute_capabilities"]) == (["open"], ["12.0"])
    assert [finding["code"] for finding in result["findings"]] == ["driver.not_installed"]


def test_node_without_gpus_is_skipped_and_one_without_a_bus_unknown(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("KENTINO_GPU_ROOT", str(tmp_path))
    assert run(driver_info, capsys)["verdict"] == "unknown"
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    result = run(driver_info, capsys)
    assert (result["verdict"], result["gpus"], result["flavour"]) == ("skip", [], None)


def test_no_time_to_wait_fails_the_task(capsys):
    result = run(driver_info, capsys, deadline_seconds=-1)
    assert result["failed"]
    assert "above 0" in result["msg"]
