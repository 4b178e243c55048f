# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
import typing as t
from collections.abc import Mapping

from ansible.plugins.action import ActionBase
from ansible_collections.kentino.gpu.plugins.module_utils._report import progress

_ARGUMENTS = {
    "variable": {"type": "str", "required": True},
    "step": {"type": "str", "required": True},
    "every_seconds": {"type": "float", "default": 20},
    "last": {"type": "float", "default": 0},
}
_LONGEST_SECONDS = 30.0


class ActionModule(ActionBase):
    """Print how far all hosts are, and wait until it is time to ask them again."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Optional[t.Dict[str, t.Any]] = None) -> t.Dict[str, t.Any]:
        super().run(tmp, task_vars)
        options = self.validate_argument_spec(_ARGUMENTS)[1]
        known = task_vars or {}
        standings = {host: _standing(known["hostvars"][host], options["variable"]) for host in known.get("ansible_play_hosts_all", ())}
        lines = progress.lines(options["step"], standings)
        if lines and not self._task.no_log:
            self._display.display("\n".join(lines))
        running = progress.running(options["step"], standings)
        if running:
            now = time.time()
            every = progress.pause_seconds(options["step"], standings, options["every_seconds"])
            # The time that asking took counts: with many hosts it is most of the interval.
            pause = max(0.0, (options["last"] or now) + every - now)
            time.sleep(min(pause, every, _LONGEST_SECONDS))
        return {"changed": False, "lines": lines, "running": running, "at": time.time()}


def _standing(variables: t.Any, name: str) -> t.Mapping[str, t.Any]:
    try:
        value = variables.get(name, {})
    except Exception:  # a variable from a file may hold any template
        return {}
    return value if isinstance(value, Mapping) else {}
