# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from datetime import datetime

from ansible.errors import AnsibleFilterError
from ansible_collections.kentino.gpu.plugins.module_utils._judge import preflight
from ansible_collections.kentino.gpu.plugins.module_utils._report.waiver import WaiverError, read_waivers


def preflight_plan(
    results: t.Mapping[str, t.Any],
    step: str,
    checks: t.Sequence[str],
    needs_seconds: float,
    left_seconds: float,
    budget: str = "the budget",
    waivers: t.Any = None,
    record: t.Any = None,
    loads: bool = True,
    host: str = "",
) -> t.Dict[str, t.Any]:
    """Whether a step of a preflight starts, and its result where it does not."""
    try:
        accepted = read_waivers(waivers, datetime.now().astimezone())
    except WaiverError as exc:
        raise AnsibleFilterError("preflight_plan: %s" % exc) from None
    one = preflight.Step(step, tuple(checks), float(needs_seconds), bool(loads))
    if preflight.settled(record):
        return {"start": False, "why": "done in an earlier part of this run", "result": dict(record)}
    why = preflight.refusal(one, results, accepted, float(left_seconds), budget, host)
    return {"start": not why, "why": why, "result": preflight.skipped(one, why) if why else {}}


def preflight_lost(step: str, checks: t.Sequence[str], why: str, away: bool = False, simulated: bool = False) -> t.Dict[str, t.Any]:
    """The result of a step of which nobody knows how it ended."""
    return preflight.lost(preflight.Step(step, tuple(checks), 0), why, away, simulated)


class FilterModule:
    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        return {"preflight_plan": preflight_plan, "preflight_lost": preflight_lost}
