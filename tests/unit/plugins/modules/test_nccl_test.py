# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
import yaml
from ansible_collections.kentino.gpu.plugins.module_utils._check import nccl
from ansible_collections.kentino.gpu.plugins.modules import nccl_test
from ansible_collections.kentino.gpu.tests.unit.plugins.modules import load_modules
from ansible_collections.kentino.gpu.tests.unit.plugins.modules.module_runs import documented, is_as_documented, run


def test_slow_node_is_reported_and_fails_no_task(capsys, tmp_path, monkeypatch):
    load_modules.on_node("h100x8+nccl_half_bandwidth", tmp_path, monkeypatch, 2000)
    result = run(nccl_test, capsys, source="nvidia_smi", floor={"value_gbps": 440, "message_bytes": 1 << 30, "gpus": 8})
    assert (result["verdict"], result["changed"], "failed" in result) == ("fail", False, False)
    assert [found["code"] for found in result["findings"]] == ["nccl.slow"]
    assert result["simulated"]
    is_as_documented(result, documented(nccl_test))
    assert set(result["facts"]["nccl"]) == set(documented(nccl_test)["facts"]["contains"]["nccl"]["contains"])


def test_check_mode_says_what_it_would_run(capsys, tmp_path, monkeypatch):
    load_modules.on_node("h100x8", tmp_path, monkeypatch)
    result = run(nccl_test, capsys, check_mode=True, expected={"count": 8})
    assert (result["verdict"], result["changed"]) == ("skip", False)
    assert result["facts"]["nccl"]["argv"][:7] == [str(tmp_path / "bin" / "all_reduce_perf"), "-b", "8", "-e", "1G", "-f", "2"]
    assert set(result["facts"]["nccl"]) == set(documented(nccl_test)["facts"]["contains"]["nccl"]["contains"])


def test_wrong_option_fails_with_a_hint(capsys):
    result = run(nccl_test, capsys, max_bytes="1 GB", check_mode=True)
    assert result["failed"]
    assert "such as 8, 32M or 16G" in result["msg"]


def test_defaults_are_those_of_the_check(capsys, monkeypatch):
    seen = []
    monkeypatch.setattr(nccl, "plan", lambda options: seen.append(options) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(nccl_test, capsys, check_mode=True)
    wanted = nccl.Options()
    assert load_modules.fields_of(seen[0], ["plan"]) == load_modules.fields_of(wanted, ["plan"])
    assert seen[0].plan == wanted.plan
    flat = {**load_modules.fields_of(wanted, ["plan"]), **load_modules.fields_of(wanted.plan)}
    assert load_modules.defaults_of(load_modules.options_of(nccl_test)) == flat


@pytest.mark.parametrize("task", yaml.safe_load(nccl_test.EXAMPLES), ids=lambda task: task["name"])
def test_examples_use_options_that_exist(task):
    assert set(task.get("kentino.gpu.nccl_test", {})) <= set(load_modules.options_of(nccl_test))
