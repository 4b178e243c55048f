# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible.plugins.action import ActionBase
from ansible_collections.kentino.gpu.plugins.module_utils._report import preflight_table

_ARGUMENTS = {
    "results": {"type": "str", "required": True},
    "gate": {"type": "str", "required": True},
}


class ActionModule(ActionBase):
    """Print what each step of a preflight measured on each host, and what the gate says."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Optional[t.Dict[str, t.Any]] = None) -> t.Dict[str, t.Any]:
        super().run(tmp, task_vars)
        options = self.validate_argument_spec(_ARGUMENTS)[1]
        known = task_vars or {}
        hosts = {}
        for host in dict.fromkeys([*known.get("ansible_play_batch", ()), *known.get("ansible_play_hosts_all", ())]):
            results, gate = (_mapping(known["hostvars"][host], options[name]) for name in ("results", "gate"))
            gone = host not in known.get("ansible_play_hosts", ())
            # One of a later batch (serial) has not had its turn.
            if results or gate or gone or host in known.get("ansible_play_batch", ()):
                # A host that dropped out may carry the gate's word of an earlier run in the same play.
                hosts[host] = (results, {} if gone and gate.get("open") is not False else gate)
        lines = preflight_table.lines(hosts)
        if not self._task.no_log:
            self._display.display("\n".join(lines))
        return {"changed": False, "lines": lines}


def _mapping(variables: t.Any, name: str) -> t.Mapping[str, t.Any]:
    try:
        value = variables.get(name, {})
    except Exception:  # a variable from a file may hold any template
        return {}
    return value if isinstance(value, Mapping) else {}
