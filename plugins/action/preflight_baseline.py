# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import fcntl
import json
import os
import tempfile
import typing as t
from collections.abc import Mapping
from datetime import date

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.kentino.gpu.plugins.module_utils._judge import baseline
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import Check, report
from ansible_collections.kentino.gpu.plugins.module_utils._report.policy import Policy, decide_named

_ARGUMENTS = {
    "path": {"type": "path"},
    "mode": {"type": "str", "choices": list(baseline.MODES), "default": "compare"},
    "variable": {"type": "str", "required": True},
    "tolerance_pct": {"type": "float", "default": baseline.TOLERANCE_PCT},
    "settings": {"type": "str", "default": ""},
}


class ActionModule(ActionBase):
    """Learn from the good hosts of the play, or hold all of them against what was learned."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Optional[t.Dict[str, t.Any]] = None) -> t.Dict[str, t.Any]:
        super().run(tmp, task_vars)
        options = self.validate_argument_spec(_ARGUMENTS)[1]
        known = task_vars or {}
        if not 0 < options["tolerance_pct"] < 100:
            raise AnsibleActionFail("tolerance_pct must be between 0 and 100, got %s" % options["tolerance_pct"])
        if options["mode"] != "off" and not options["path"]:
            raise AnsibleActionFail("path is missing: where is the baseline kept on this controller?")
        results = {host: _results(known["hostvars"][host], options["variable"]) for host in known.get("ansible_play_hosts_all", ())}
        if options["mode"] == "off":
            return _answer(False, {host: Check(baseline.NAME, "", skipped="not asked for") for host in results}, results)
        return self._judge(options, results)

    def _judge(self, options: t.Mapping[str, t.Any], results: t.Mapping[str, t.Mapping[str, t.Any]]) -> t.Dict[str, t.Any]:
        path, tolerance = str(options["path"]), options["tolerance_pct"]
        figures = {host: (baseline.hardware(one), baseline.measured(one, options["settings"])) for host, one in results.items()}
        changed = False
        if options["mode"] == "learn" and not self._task.check_mode:
            good = [(host, *figures[host]) for host, one in results.items() if decide_named(one, Policy("pass")).open]
            with _Locked(path):
                learned = baseline.learn(_read(path), good, date.today().isoformat(), tolerance)
                book, changed = learned.book, learned.changed
                if changed:
                    _write(path, book)
        else:
            book = _read(path)
        return _answer(changed, {host: baseline.check(book, *figures[host], tolerance) for host in results}, results)


class _Locked:
    """Two runs on one controller that learn at the same time must not lose each other's figures."""

    def __init__(self, path: str) -> None:
        self._path = path + ".lock"

    def __enter__(self) -> None:
        try:
            os.makedirs(os.path.dirname(self._path) or ".", exist_ok=True)
            self._handle = open(self._path, "w", encoding="utf-8")
        except OSError as exc:
            raise AnsibleActionFail("the baseline cannot be kept in %s: %s" % (self._path, exc.strerror or exc)) from None
        fcntl.flock(self._handle, fcntl.LOCK_EX)

    def __exit__(self, *_reason: t.Any) -> None:
        self._handle.close()


def _read(path: str) -> t.Dict[str, t.Any]:
    try:
        with open(path, encoding="utf-8") as handle:
            book = json.load(handle)
    except FileNotFoundError:
        return baseline.empty()
    except (OSError, ValueError, RecursionError) as exc:
        raise AnsibleActionFail("the baseline %s cannot be read: %s. Mend it, or move it away and learn again" % (path, exc)) from None
    problem = baseline.problem(book)
    if problem:
        raise AnsibleActionFail("the baseline %s cannot be used: %s. Mend it, or move it away and learn again" % (path, problem))
    return dict(book)


def _write(path: str, book: t.Mapping[str, t.Any]) -> None:
    try:
        handle, name = tempfile.mkstemp(prefix=".baseline-", dir=os.path.dirname(path) or ".")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump(book, stream, indent=1, sort_keys=True)
                stream.write("\n")
                os.fchmod(stream.fileno(), 0o644)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as exc:
        raise AnsibleActionFail("the baseline cannot be kept in %s: %s" % (path, exc.strerror or exc)) from None


def _results(variables: t.Any, name: str) -> t.Mapping[str, t.Any]:
    try:
        value = variables.get(name, {})
    except Exception:  # a variable from a file may hold any template
        return {}
    return value if isinstance(value, Mapping) else {}


def _answer(changed: bool, checks: t.Mapping[str, Check], results: t.Mapping[str, t.Mapping[str, t.Any]]) -> t.Dict[str, t.Any]:
    hosts = {}
    for host, check in checks.items():
        simulated = any(isinstance(one, Mapping) and bool(one.get("simulated")) for one in results[host].values())
        hosts[host] = report([check], simulated=simulated)
    return {"changed": changed, "hosts": hosts}
