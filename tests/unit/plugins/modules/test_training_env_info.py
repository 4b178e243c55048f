# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses

import pytest
import yaml
from ansible_collections.kentino.gpu.plugins.module_utils._check import training_env
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import Check
from ansible_collections.kentino.gpu.plugins.modules import training_env_info
from ansible_collections.kentino.gpu.tests.unit.plugins.modules.module_runs import documented, is_as_documented, run

FACTS = {"simulated": False}


@pytest.fixture
def asked(monkeypatch):
    """The options that reach the check; nothing is read."""
    seen = []

    def note(options):
        seen.append(options)
        return Check("training_env", "8 variables"), FACTS

    monkeypatch.setattr(training_env, "run", note)
    return seen


def test_options_and_defaults_are_those_of_the_check(capsys, asked):
    options = yaml.safe_load(training_env_info.DOCUMENTATION)["options"]
    defaults = training_env.Options()
    assert {name: option["default"] for name, option in options.items()} == {
        field.name: list(value) if isinstance(value := getattr(defaults, field.name), tuple) else value
        for field in dataclasses.fields(training_env.Options)
    }
    run(training_env_info, capsys)
    assert asked[0].deadline_seconds == 20


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_finding_fails_no_task(capsys, tmp_path, check_mode):
    (tmp_path / "job.sh").write_text("export NCCL_ASYNC_ERROR_HANDLING=1\n")
    quiet = {"users": False, "processes": False}
    result = run(training_env_info, capsys, check_mode, torch_version="2.9.1", paths=[str(tmp_path / "job.sh")], **quiet)
    assert (result["changed"], "failed" in result) == (False, False)
    assert "training_env.deprecated" in {found["code"] for found in result["findings"]}
    is_as_documented(result, documented(training_env_info))


def test_value_that_cannot_be_written_fails_the_task(capsys):
    result = run(training_env_info, capsys, extra={"NCCL_X": "a'b"})
    assert result["failed"] is True
    assert "NCCL_X" in result["msg"]
