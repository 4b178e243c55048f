# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
import yaml
from ansible_collections.kentino.gpu.plugins.module_utils._check import dcgm
from ansible_collections.kentino.gpu.plugins.modules import dcgm_diag
from ansible_collections.kentino.gpu.tests.unit.plugins.modules import load_modules
from ansible_collections.kentino.gpu.tests.unit.plugins.modules.module_runs import documented, is_as_documented, run


def test_bad_gpu_is_reported_and_fails_no_task(capsys, tmp_path, monkeypatch):
    node = load_modules.on_node("h100x8+dcgm_memory", tmp_path, monkeypatch, 3000)
    result = run(dcgm_diag, capsys, source="nvidia_smi")
    assert (result["verdict"], result["action"], result["changed"], "failed" in result) == ("fail", "replace", False, False)
    assert (result["findings"][0]["code"], result["findings"][0]["subject"]["pci"]) == ("dcgm.52", node.pci(2))
    assert result["simulated"]
    is_as_documented(result, documented(dcgm_diag))
    assert set(result["facts"]["dcgm"]) == set(documented(dcgm_diag)["facts"]["contains"]["dcgm"]["contains"])


def test_check_mode_says_what_it_would_run(capsys, tmp_path, monkeypatch):
    load_modules.on_node("h100x8", tmp_path, monkeypatch)
    result = run(dcgm_diag, capsys, check_mode=True, level=2)
    assert (result["verdict"], result["changed"]) == ("skip", False)
    assert result["facts"]["dcgm"]["argv"] == [str(tmp_path / "bin" / "dcgmi"), "diag", "-r", "2", "-j"]
    assert not (tmp_path / "profiling").exists()


def test_wrong_option_fails_with_a_hint(capsys):
    result = run(dcgm_diag, capsys, errors={"52": {"weight": "low"}}, check_mode=True)
    assert result["failed"]
    assert "severity, action" in result["msg"]


def test_defaults_are_those_of_the_check(capsys, monkeypatch):
    seen = []
    monkeypatch.setattr(dcgm, "plan", lambda options: seen.append(options) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(dcgm_diag, capsys, check_mode=True)
    assert load_modules.fields_of(seen[0]) == load_modules.fields_of(dcgm.Options())
    assert load_modules.defaults_of(load_modules.options_of(dcgm_diag)) == load_modules.fields_of(dcgm.Options())


@pytest.mark.parametrize("task", yaml.safe_load(dcgm_diag.EXAMPLES), ids=lambda task: task["name"])
def test_examples_use_options_that_exist(task):
    assert set(task.get("kentino.gpu.dcgm_diag", {})) <= set(load_modules.options_of(dcgm_diag))
