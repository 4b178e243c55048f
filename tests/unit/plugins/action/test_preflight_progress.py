# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.action import preflight_progress

RUNNING = {"step": "burn", "state": "running", "running": True, "percent": 50.0}
DONE = dict(RUNNING, state="finished", running=False)


class Task:
    action = "kentino.gpu.preflight_progress"
    async_val = 0
    check_mode = False
    no_log = False

    def __init__(self, args):
        self.args = args


class Broken(dict):
    def get(self, _name, _default=None):
        raise RuntimeError("its template fails")


@pytest.fixture
def show(mocker):
    # The name in the action, not the clock itself: threads that other tests left behind use that.
    clock = mocker.patch.object(preflight_progress, "time")
    clock.time.return_value = 1000.0

    def run(hosts, **options):
        task = Task({"variable": "standing", "step": "burn", **options})
        action = preflight_progress.ActionModule(task, mocker.MagicMock(), None, None, mocker.MagicMock())
        action._display = mocker.MagicMock()
        known = {host: {"standing": standing} if standing is not None else {} for host, standing in hosts.items()}
        known["odd"] = Broken()
        result = action.run(task_vars={"ansible_play_hosts_all": [*hosts, "odd"], "hostvars": known})
        printed = [line for call in action._display.display.call_args_list for line in call.args[0].split("\n")]
        return result, printed, [call.args[0] for call in clock.sleep.call_args_list]

    return run


def test_a_line_for_each_host_that_runs_the_step(show):
    result, printed, slept = show({"gpu-1": RUNNING, "gpu-2": DONE, "gpu-3": dict(RUNNING, step="dcgm"), "gpu-4": None})
    assert [line.split()[0] for line in printed] == ["host", "gpu-1", "gpu-2"]
    assert (result["lines"], result["running"], slept) == (printed, 1, [20.0])


def test_no_time_is_lost_when_all_have_ended(show):
    assert show({"gpu-1": DONE})[2] == []


@pytest.mark.parametrize(
    ("options", "pause"),
    [
        ({"every_seconds": 20, "last": 988.0}, 8.0),
        ({"every_seconds": 20, "last": 900.0}, 0.0),
        ({"every_seconds": 300, "last": 990.0}, 30.0),
        ({"every_seconds": 20, "last": 5000.0}, 20.0),
    ],
    ids=["asking took its part", "asking took longer", "never more than 30", "a clock that was set back"],
)
def test_how_long_it_waits(show, options, pause):
    assert show({"gpu-1": RUNNING}, **options)[2] == [pause]
