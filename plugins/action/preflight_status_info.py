# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shlex
import typing as t

from ansible.plugins.action import ActionBase
from ansible_collections.kentino.gpu.plugins.module_utils._probe import preflight_question, preflight_run

_ASKED = {"state_path", "run_id", "step", "job_path", "lease_seconds"}


class ActionModule(ActionBase):
    """Ask with a shell where that is enough, and with the module everywhere else."""

    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Optional[t.Dict[str, t.Any]] = None) -> t.Dict[str, t.Any]:
        result = super().run(tmp, task_vars)
        answer = None if self._task.check_mode or self._task.async_val else self._ask()
        return {**result, "changed": False, **answer} if answer else {**result, **self._execute_module(task_vars=task_vars)}

    def _ask(self) -> t.Optional[t.Dict[str, t.Any]]:
        given = self._task.args
        path, run_id, step, job = (given.get(key) for key in ("state_path", "run_id", "step", "job_path"))
        path = preflight_run.STATE_PATH if path is None else path
        try:
            seconds = float(given.get("lease_seconds") or 0)
            absolute = all(isinstance(one, str) and one.startswith("/") and "$" not in one for one in (path, job))
            if set(given) - _ASKED or not run_id or not step or not absolute:
                return None
            preflight_run.name("step", str(step))
            script = preflight_question.script(str(path), str(run_id), str(job), seconds)
        except (TypeError, ValueError):
            return None  # the module says what is wrong with it
        command = "sh -c %s" % shlex.quote(script)
        environment = self._compute_environment_string()
        done = self._low_level_execute_command("%s %s" % (environment, command) if environment else command)
        answer = preflight_question.answer(done.get("stdout") or "", str(step)) if done.get("rc") == 0 else None
        # A loss shuts the gate: the module looks once more.
        return dict(answer, run_id=str(run_id), step=str(step)) if answer and answer["state"] != "lost" else None
