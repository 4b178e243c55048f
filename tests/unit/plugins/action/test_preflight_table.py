# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.action.preflight_table import ActionModule

OPEN = {"open": True, "msg": "gate open: gpu ran"}
SHUT = {"open": False, "msg": "gate shut: x", "reasons": ["x"]}


class Task:
    action = "kentino.gpu.preflight_table"
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
    def run(hosts, alive=None, batch=None, no_log=False):
        action = ActionModule(Task({"results": "results", "gate": "gate"}), mocker.MagicMock(), None, None, mocker.MagicMock())
        action._task.no_log = no_log
        action._display = mocker.MagicMock()
        alive = list(hosts) if alive is None else alive
        play = {"ansible_play_hosts_all": list(hosts), "ansible_play_hosts": alive, "ansible_play_batch": batch or alive}
        result = action.run(task_vars={**play, "hostvars": hosts})
        printed = [line for call in action._display.display.call_args_list for line in call.args[0].split("\n")]
        return result, printed

    return run


def words(printed):
    return {line.split()[0]: line.split()[2] for line in printed if len(line.split()) > 2 and line.split()[1] == "gate"}


def test_every_host_of_the_play_is_told(show):
    result, printed = show({"gpu-1": {"gate": OPEN}, "gpu-2": {"gate": SHUT}, "gpu-3": {}, "gpu-4": Broken()})
    assert words(printed) == {"gpu-1": "open", "gpu-2": "SHUT", "gpu-3": "SHUT", "gpu-4": "SHUT"}
    assert (result["lines"], result["changed"]) == (printed, False)


def test_host_that_dropped_out_is_shut_whatever_an_earlier_gate_said(show):
    printed = show({"gpu-1": {"gate": OPEN}, "gpu-2": {"gate": OPEN}, "gpu-3": {"gate": SHUT}}, alive=["gpu-1"])[1]
    assert words(printed) == {"gpu-1": "open", "gpu-2": "SHUT", "gpu-3": "SHUT"}
    assert any("dropped out" in line for line in printed)


def test_hosts_of_a_later_batch_are_left_out(show):
    assert words(show({"gpu-1": {"gate": OPEN}, "gpu-2": {}}, batch=["gpu-1"])[1]) == {"gpu-1": "open"}


def test_nothing_is_printed_where_nothing_may_be(show):
    assert show({"gpu-1": {"gate": OPEN}}, no_log=True)[1] == []
