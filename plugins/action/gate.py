# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from datetime import datetime

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.kentino.gpu.plugins.module_utils._report.policy import (
    WORST,
    Decision,
    Fleet,
    Policy,
    decide,
    decide_fleet,
    decide_named,
)
from ansible_collections.kentino.gpu.plugins.module_utils._report.result import Missing, one_line
from ansible_collections.kentino.gpu.plugins.module_utils._report.table import table
from ansible_collections.kentino.gpu.plugins.module_utils._report.waiver import WaiverError, read_waivers

_ARGUMENTS = {
    # raw: a result that is no result is a verdict of the gate, not an error of its arguments
    "results": {"type": "raw"},
    "variables": {"type": "list", "elements": "str"},
    "worst": {"type": "str", "choices": list(WORST), "default": "pass"},
    "required": {"type": "list", "elements": "str", "default": []},
    "waivers": {"type": "raw"},
    "fleet": {"type": "bool", "default": False},
    "max_bad_pct": {"type": "float", "default": 25},
    "min_bad_hosts": {"type": "int", "default": 2},
}
_NOT_SET = "nothing of that name was registered on this host"


class ActionModule(ActionBase):
    """Open, or stop the play with a reason."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: t.Any = None, task_vars: t.Optional[t.Dict[str, t.Any]] = None) -> t.Dict[str, t.Any]:
        super().run(tmp, task_vars)
        options = self.validate_argument_spec(_ARGUMENTS)[1]
        try:
            waivers = read_waivers(options["waivers"], datetime.now().astimezone())
        except WaiverError as exc:
            raise AnsibleActionFail(str(exc)) from None
        policy = Policy(options["worst"], tuple(options["required"]), waivers)
        known = task_vars or {}
        if options["fleet"]:
            return self._judge_fleet(options, policy, known)
        return self._judge_host(options, policy, known)

    def _judge_host(self, options: t.Mapping[str, t.Any], policy: Policy, known: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
        host = str(known.get("inventory_hostname", ""))
        names, given = options["variables"], options.get("results")
        if (names is None) == ("results" not in self._task.args):
            raise AnsibleActionFail("give either results or variables: what is there to judge?")
        if names is None:
            decision = decide(given, policy, host)
        else:
            decision = decide_named({name: self._own(name, known) for name in names}, policy, host)
        answer = _answer(decision, {host: decision})
        # a good host is one line of the callback's; among hundreds, tables of good ones would hide the bad one
        told = any(found["verdict"] != "pass" for found in decision.findings)
        return self._show(answer, [*answer["table"], *_notes(answer)] if told else [])

    def _judge_fleet(self, options: t.Mapping[str, t.Any], policy: Policy, known: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
        names, limit, floor = options["variables"], options["max_bad_pct"], options["min_bad_hosts"]
        if not names or "results" in self._task.args:
            raise AnsibleActionFail("with fleet, give the names of registered results in variables, and no results")
        if not 0 <= limit <= 100:
            raise AnsibleActionFail("max_bad_pct must be between 0 and 100, got %s" % limit)
        if floor < 1:
            raise AnsibleActionFail("min_bad_hosts must be 1 or more, got %s" % floor)
        fleet = decide_fleet(_results_of_hosts(names, known), policy, limit, floor)
        answer = _answer(fleet, fleet.hosts)
        answer["bad_hosts"] = list(fleet.bad)
        answer["hosts"] = {name: {"open": one.open, "verdict": one.verdict, "action": one.action} for name, one in fleet.hosts.items()}
        if not self._task.run_once:
            answer["notes"].append("fleet judges all hosts at once: give the task run_once: true")
        summary = fleet.reasons[1:] or [fleet.message()]
        # the one host of a play of one prints the same table at its own gate
        told = answer["table"] if len(fleet.hosts) > 1 else []
        return self._show(answer, [*told, *_notes(answer), *summary])

    def _own(self, name: str, known: t.Mapping[str, t.Any]) -> t.Any:
        if name not in known:
            return Missing(_NOT_SET)
        try:
            return self._templar.template(known[name])
        except Exception as exc:  # a variable from a file may hold any template
            return Missing("it cannot be read: %s" % one_line(exc))

    def _show(self, answer: t.Dict[str, t.Any], text: t.Sequence[str]) -> t.Dict[str, t.Any]:
        """The default callback prints a result as one line of JSON; a person at the console gets the table before it."""
        if text and not self._task.no_log:
            self._display.display("\n".join(text))
        return answer


def _notes(answer: t.Mapping[str, t.Any]) -> t.List[str]:
    return ["note: " + note for note in answer["notes"]]


def _answer(decision: t.Union[Decision, Fleet], hosts: t.Mapping[str, Decision]) -> t.Dict[str, t.Any]:
    return {
        "changed": False,
        "failed": not decision.open,
        "msg": decision.message(),
        "open": decision.open,
        "verdict": decision.verdict,
        "action": decision.action,
        "reasons": list(decision.reasons),
        "notes": list(decision.notes),
        "findings": list(decision.findings),
        "table": table(hosts),
        "simulated": decision.simulated,
    }


def _results_of_hosts(names: t.Sequence[str], known: t.Mapping[str, t.Any]) -> t.Dict[str, t.Dict[str, t.Any]]:
    """The named results of every host that had its turn: this batch, those that dropped out, and earlier batches.

    Hosts of later batches (serial) are still in the play and have no result yet; nothing can be said about them.
    """
    batch, alive = known.get("ansible_play_batch", ()), set(known.get("ansible_play_hosts", ()))
    results = {}
    for host in dict.fromkeys([*batch, *known.get("ansible_play_hosts_all", ())]):
        variables = known["hostvars"][host]
        why = _NOT_SET if host in alive else "the host dropped out of the play, unreachable or failed"
        given = {name: _of_host(variables, name, why) for name in names}
        if host in batch or host not in alive or not all(isinstance(value, Missing) for value in given.values()):
            results[host] = given
    return results


def _of_host(variables: t.Mapping[str, t.Any], name: str, why: str) -> t.Any:
    try:
        return variables[name] if name in variables else Missing(why)
    except Exception as exc:  # a variable from a file may hold any template
        return Missing("it cannot be read: %s" % one_line(exc))
