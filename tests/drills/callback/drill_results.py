# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write each task's result into the file that KENTINO_DRILL_RESULTS names, a line of JSON each."""

from __future__ import annotations

DOCUMENTATION = """
name: drill_results
type: notification
short_description: results for the drills
description: Results for the drills.
"""

import json
import os

from ansible.plugins.callback import CallbackBase


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "drill_results"
    CALLBACK_NEEDS_ENABLED = True

    def _keep(self, result, failed):
        found = result.result if hasattr(result, "result") else result._result
        task = result.task if hasattr(result, "task") else result._task
        line = {
            "task": task.get_name(),
            "changed": bool(found.get("changed")),
            "failed": failed,
            "message": " ".join(self._messages(found)) or found.get("msg", ""),
        }
        with open(os.environ["KENTINO_DRILL_RESULTS"], "a", encoding="utf-8") as handle:
            handle.write(json.dumps(line, default=str) + "\n")

    @staticmethod
    def _messages(found):
        """Of the items of a loop that failed."""
        return [str(one.get("msg", "")) for one in found.get("results", ()) if isinstance(one, dict) and one.get("failed")]

    def v2_runner_on_ok(self, result):
        self._keep(result, False)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._keep(result, not ignore_errors)

    def v2_runner_on_unreachable(self, result):
        self._keep(result, True)
