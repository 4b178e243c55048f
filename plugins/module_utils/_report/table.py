# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a person reads at the gate: one sentence per finding, and a short table. Private to kentino.gpu."""

from __future__ import annotations

import typing as t

from .._knowledge.actions import SENTENCES
from .model import worst
from .result import one_line, rank, read

if t.TYPE_CHECKING:
    from .policy import Decision

HEAD = ("host", "verdict", "subject", "what", "action")
SIMULATED = "SIMULATED NODE: these results come from stand-in tools, no hardware was tested"

# A serial must stay whole, a message may lose its end (the reasons carry it whole).
_WIDTHS = (32, 16, 60, 100, 28)

_DOING = {
    "look_at_code": "look at the code that ran on %s",
    "restart_job": "restart the job on %s",
    "reset_gpu": "reset %s",
    "reboot_node": "reboot the node because of %s",
    "check_cooling": "check the cooling of %s",
    "check_power": "check the power of %s",
    "reseat": "reseat %s",
    "contact_vendor": "contact the vendor about %s",
    "replace": "replace %s",
}


def sentence(found: t.Mapping[str, t.Any]) -> str:
    """C(reseat GPU 3 0000:c1:00 serial 1654...: GPU has fallen off the bus (reseat the card ...)); the action comes first."""
    subject = found["subject"]
    on_node = subject["kind"] == "node"
    head = "" if on_node else subject["label"]
    if found["action"] == "reboot_node" and on_node:
        head = "reboot the node"
    elif found["action"] in _DOING:
        head = _DOING[found["action"]] % ("the node" if on_node else subject["label"])
    text = (head + ": " if head else "") + found["message"]
    advice = found["advice"] or (SENTENCES.get(found["action"], "") if found["action"] != "none" else "")
    if advice:
        text += " (%s)" % advice.rstrip(".")
    if found.get("waiver_expired"):
        text += "; its waiver expired on %s" % found["waiver_expired"]
    return text


def lines(report: t.Mapping[str, t.Any]) -> t.List[str]:
    """One report for the console: what to do first, the findings, and what every check rests on."""
    results = read(report, "this report")
    found = [item for result in results for item in (*result.findings, *(dict(bad.as_dict(), check="") for bad in result.problems))]
    found = sorted((item for item in found if item["verdict"] != "pass"), key=rank, reverse=True)
    verdict = worst(result.verdict for result in results)
    text = [SIMULATED] if any(result.simulated for result in results) else []
    text.append(verdict + (": " + sentence(found[0]) if found else ""))
    if found:
        text += _aligned([HEAD[1:], *(_row(item)[1:] for item in found)], _WIDTHS[1:])
    for check in (check for result in results for check in result.checks):
        text.append("%s: %s, %s" % (check.name, check.verdict, check.skipped or check.evidence or "nothing was measured"))
    return text


def table(decisions: t.Mapping[str, Decision], limit: int = 20) -> t.List[str]:
    """Lines of text: a row for every finding that is worse than information, worst first; C(decisions) by host.

    Below it stands, when the gate is shut, what each action means. Without such a finding only a simulated node is told.
    """
    found = [dict(item, host=host) for host, decision in decisions.items() for item in decision.findings if item["verdict"] != "pass"]
    found.sort(key=rank, reverse=True)
    text = [SIMULATED] if any(decision.simulated for decision in decisions.values()) else []
    if found:
        text += _aligned([HEAD, *(_row(item) for item in found[:limit])], _WIDTHS)
    if len(found) > limit:
        text.append("and %d more" % (len(found) - limit))
    if not all(decision.open for decision in decisions.values()):
        actions = dict.fromkeys(item["action"] for item in found if "waived" not in item and item["action"] in SENTENCES)
        text += ["%s: %s" % (_words(action), SENTENCES[action]) for action in actions if action != "none"]
    return text


def _row(item: t.Mapping[str, t.Any]) -> t.Tuple[str, ...]:
    waived = item.get("waived")
    verdict = item["verdict"] + (", waived" if waived else "")
    action = "waived until " + waived["until"] if waived else _words(item["action"])
    return item.get("host", ""), verdict, item["subject"]["label"], "%s: %s" % (item["code"], item["message"]), action


def _words(action: str) -> str:
    return "-" if action == "none" else action.replace("_", " ")


def _aligned(rows: t.Sequence[t.Sequence[str]], limits: t.Sequence[int]) -> t.List[str]:
    cut = [[one_line(cell, limit) for cell, limit in zip(row, limits)] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cut)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in cut]
