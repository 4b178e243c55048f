# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the next step of a preflight may start. Private to kentino.gpu."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .._report.model import NODE, Check, Finding, report
from .._report.policy import Policy, decide
from .._report.waiver import Waiver

LOST = "preflight.lost"
# A verdict that says something: a step with one of these has come to its end and need not be repeated.
SETTLED = ("pass", "warn", "fail")


@dataclass(frozen=True)
class Step:
    name: str
    checks: t.Tuple[str, ...]  # what it reports
    needs_seconds: float  # how long it is expected to take
    loads: bool = True  # whether it loads the GPUs


def refusal(step: Step, results: t.Mapping[str, t.Any], waivers: t.Sequence[Waiver], left_seconds: float, budget: str, host: str) -> str:
    """Why C(step) is not started, in words that are the same on every host where they can be; empty where it may be.

    C(results): those of the earlier steps, by name. C(budget): what the time belongs to, such as C(the budget of nightly).
    """
    for name, result in results.items():
        if step.loads and name != step.name:
            bad = _hard(result, waivers, host)
            if bad:
                return "not started, because %s failed: %s" % (name, bad)
    if step.needs_seconds > left_seconds:
        # Whole ten seconds: hosts that began a moment apart say the same, and are told in one line.
        left = max(0, int(left_seconds) // 10 * 10) if left_seconds >= 10 else max(0, int(left_seconds))
        return "not started: it takes about %d s, and %s has %d s left" % (step.needs_seconds, budget, left)
    return ""


def settled(record: t.Any) -> bool:
    """Whether this result of an interrupted run stands, so that its step is not repeated."""
    return isinstance(record, dict) and record.get("verdict") in SETTLED


def skipped(step: Step, why: str) -> t.Dict[str, t.Any]:
    return report([Check(name, "", skipped=why) for name in step.checks])


def lost(step: Step, why: str, away: bool = False, simulated: bool = False) -> t.Dict[str, t.Any]:
    """The result of a step of which nobody knows how it ended. C(away): the node itself no longer answers; that alone proves no fault."""
    advice = "read the kernel log of that time"
    if away:
        advice += "; a node that goes away under load often lacks power"
    action = "check_power" if away else "none"
    finding = Finding(LOST, "critical", NODE, "%s: %s" % (step.name, why), action, advice=advice, undetermined=True)
    return report([Check(name, "", (finding,)) for name in step.checks], simulated=simulated)


def _hard(result: t.Any, waivers: t.Sequence[Waiver], host: str) -> str:
    decision = decide(result, Policy("warn", (), tuple(waivers)), host)
    for found in decision.findings:
        if "waived" not in found and (found["verdict"] == "fail" or found["code"] == LOST):
            return "%s on %s" % (found["code"], found["subject"]["label"])
    return ""
