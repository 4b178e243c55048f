# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
import yaml
from ansible_collections.kentino.gpu.plugins.module_utils._check import burn
from ansible_collections.kentino.gpu.plugins.modules import gpu_burn
from ansible_collections.kentino.gpu.tests.unit.plugins.modules import load_modules
from ansible_collections.kentino.gpu.tests.unit.plugins.modules.module_runs import documented, is_as_documented, run


def test_bad_gpu_is_reported_and_fails_no_task(capsys, tmp_path, monkeypatch):
    node = load_modules.on_node("h100x8+burn_errors", tmp_path, monkeypatch)
    result = run(gpu_burn, capsys, source="nvidia_smi", seconds=200, sample_seconds=0.1)
    assert (result["verdict"], result["action"], result["changed"], "failed" in result) == ("fail", "replace", False, False)
    assert result["findings"][0]["subject"]["pci"] == node.pci(2)
    assert result["simulated"]
    assert result["facts"]["burn"]["outcome"] == "stopped"
    is_as_documented(result, documented(gpu_burn))
    assert set(result["facts"]["burn"]) == set(documented(gpu_burn)["facts"]["contains"]["burn"]["contains"])


def test_check_mode_says_what_it_would_run(capsys, tmp_path, monkeypatch):
    load_modules.on_node("h100x8", tmp_path, monkeypatch)
    result = run(gpu_burn, capsys, check_mode=True, doubles=True)
    assert (result["verdict"], result["changed"]) == ("skip", False)
    assert result["facts"]["burn"]["argv"] == [str(tmp_path / "bin" / "gpu_burn"), "-d", "600"]
    assert not (tmp_path / "load").exists()


def test_wrong_option_fails_with_a_hint(capsys):
    result = run(gpu_burn, capsys, memory="all", check_mode=True)
    assert result["failed"]
    assert "'90%'" in result["msg"]


def test_defaults_are_those_of_the_check(capsys, monkeypatch):
    seen = []
    monkeypatch.setattr(burn, "plan", lambda options: seen.append(options) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(gpu_burn, capsys, check_mode=True)
    assert load_modules.fields_of(seen[0]) == load_modules.fields_of(burn.Options())
    assert load_modules.defaults_of(load_modules.options_of(gpu_burn)) == load_modules.fields_of(burn.Options())


@pytest.mark.parametrize("task", yaml.safe_load(gpu_burn.EXAMPLES), ids=lambda task: task["name"])
def test_examples_use_options_that_exist(task):
    assert set(task.get("kentino.gpu.gpu_burn", {})) <= set(load_modules.options_of(gpu_burn))
