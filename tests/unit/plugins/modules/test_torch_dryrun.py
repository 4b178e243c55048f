# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
import yaml
from ansible_collections.kentino.gpu.plugins.module_utils._check import dryrun, under_load
from ansible_collections.kentino.gpu.plugins.modules import torch_dryrun
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check import fake_torch

patch_module_args = pytest.importorskip("ansible.module_utils.testing").patch_module_args
DOCUMENTATION = yaml.safe_load(torch_dryrun.DOCUMENTATION)
OF_FRAGMENTS = {"expected", "limits", "gpus", "progress_path", "xid_policy"}


def _run(capsys, **arguments):
    small = {"device": "cpu", "ranks": 2, "width": 8, "heads": 2, "vocabulary": 8, "sequence_length": 4, "deadline_seconds": 5}
    with patch_module_args({**small, **arguments}), pytest.raises(SystemExit) as ended:
        torch_dryrun.main()
    return ended.value.code, json.loads(capsys.readouterr().out)


def test_it_runs_and_reports(tmp_path, monkeypatch, capsys):
    python = fake_torch.make(tmp_path, monkeypatch)
    status, result = _run(capsys, python=python)
    assert (status, result["verdict"], result["changed"]) == (0, "pass", False)
    assert result["checks"][0]["name"] == "dryrun"
    assert result["metrics"]["dryrun"]["ranks_finished"] == 2
    assert result["facts"]["dryrun"]["argv"][:3] == [python, "-m", "torch.distributed.run"]


def test_a_bad_rank_does_not_fail_the_task(tmp_path, monkeypatch, capsys):
    status, result = _run(capsys, python=fake_torch.make(tmp_path, monkeypatch, "dead"))
    assert (status, result["verdict"]) == (0, "fail")
    assert result["findings"][0]["code"] == "dryrun.rank_died"


def test_check_mode_runs_nothing(tmp_path, monkeypatch, capsys):
    status, result = _run(capsys, python=fake_torch.make(tmp_path, monkeypatch), _ansible_check_mode=True)
    assert (status, result["verdict"]) == (0, "skip")
    assert not (tmp_path / "saw.json").exists()


def test_a_wrong_option_fails_the_task_with_a_hint(monkeypatch, capsys):
    status, result = _run(capsys, heads=3)
    assert (status, result["failed"]) == (1, True)
    assert "3 heads do not divide" in result["msg"]


def test_documented_options_are_those_of_the_check():
    options = dict(DOCUMENTATION["options"])
    fields = {name: field.default for name, field in dryrun.Options.__dataclass_fields__.items()}
    shared = set(under_load.Options.__dataclass_fields__)
    assert set(fields) - shared <= set(options) <= set(fields)
    for name, option in options.items():
        documented = option.get("default")
        assert documented == fields[name] or documented in ([], {}), name


@pytest.mark.parametrize("task", yaml.safe_load(torch_dryrun.EXAMPLES), ids=lambda task: task["name"])
def test_examples_use_options_that_exist(task):
    assert set(task.get("kentino.gpu.torch_dryrun", {})) <= set(DOCUMENTATION["options"]) | OF_FRAGMENTS
