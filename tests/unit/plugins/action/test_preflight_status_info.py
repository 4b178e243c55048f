# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.kentino.gpu.plugins.action.preflight_status_info import ActionModule

ASKED = {"run_id": "night-7", "step": "burn"}


class Task:
    action = "kentino.gpu.preflight_status_info"
    async_val = 0
    check_mode = False
    no_log = False

    def __init__(self, args):
        self.args = args


@pytest.fixture
def ask(mocker, tmp_path):
    """What the action returns; C(asked) what it ran in a shell, or that it ran the module."""
    asked = []

    def run(args, check_mode=False, broken=False):
        task = Task(args)
        task.check_mode = check_mode
        action = ActionModule(task, mocker.MagicMock(), None, None, mocker.MagicMock())

        def shell(command):
            asked.append(command)
            done = subprocess.run(["sh", "-c", "false" if broken else command], capture_output=True, text=True, check=False)
            return {"rc": done.returncode, "stdout": done.stdout}

        mocker.patch.object(action, "_compute_environment_string", return_value="KENTINO_GPU_ROOT=%s" % tmp_path)
        mocker.patch.object(action, "_low_level_execute_command", side_effect=shell)
        mocker.patch.object(action, "_execute_module", side_effect=lambda **_more: asked.append("module") or {"state": "by module"})
        return action.run(task_vars={}), asked

    return run


def test_a_shell_is_enough_while_a_step_runs(ask, tmp_path):
    job = tmp_path / "job"
    job.write_text('{"started": 1, "finished": 0}')
    result, asked = ask({**ASKED, "job_path": str(job), "state_path": "/runs", "lease_seconds": 300})
    assert (result["state"], result["running"], result["step"], result["run_id"], result["changed"]) == (
        "starting",
        True,
        "burn",
        "night-7",
        False,
    )
    assert len(asked) == 1
    assert (tmp_path / "runs/night-7/lease.json").exists()


@pytest.mark.parametrize(
    ("args", "more"),
    [
        ({"run_id": "night-7"}, {}),
        (ASKED, {}),
        ({**ASKED, "job_path": "/j", "results": True}, {}),
        ({**ASKED, "job_path": "~/j"}, {}),
        ({**ASKED, "job_path": "/j", "state_path": "$HOME/runs"}, {}),
        ({**ASKED, "job_path": "/j", "run_id": "../x"}, {}),
        ({**ASKED, "job_path": "/j", "step": "a b"}, {}),
        ({**ASKED, "job_path": "/j", "lease_seconds": "soon"}, {}),
        ({**ASKED, "job_path": "/j", "misspelt": 1}, {}),
        ({**ASKED, "job_path": "/j"}, {"check_mode": True}),
        ({**ASKED, "job_path": "/j"}, {"broken": True}),
    ],
    ids=[
        "no step",
        "no job",
        "results",
        "home",
        "variable",
        "bad run",
        "bad step",
        "bad lease",
        "unknown option",
        "check mode",
        "no shell",
    ],
)
def test_for_everything_else_the_module_is_run(ask, args, more):
    result, asked = ask(args, **more)
    assert (result["state"], asked[-1]) == ("by module", "module")


def test_a_step_that_seems_lost_is_looked_at_again(ask, tmp_path):
    result, asked = ask({**ASKED, "job_path": str(tmp_path / "nowhere"), "state_path": "/runs"})
    assert (result["state"], len(asked), asked[-1]) == ("by module", 2, "module")
