# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Heat and power of a GPU, and what it does about them: temperatures, slowdowns, power limit. Private to kentino.gpu."""

from __future__ import annotations

import typing as t

from .._parse.gpu_records import Gpu
from .._report.model import Finding
from .gpu_context import Context, found

_COOLING = "check fans, airflow, dust and the room's temperature; a GPU hotter than its siblings may have lost contact to its cooler"
_POWER = "check power plugs and cables of the card and the load of its power supply"


def judge_temperature(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    reasons = _too_hot(gpu, context)
    now, limit = gpu.temperature_c, context.limits["temperature_c"]
    if reasons:
        yield found(gpu, "gpu.temperature", "critical", "; ".join(reasons), "check_cooling", _COOLING)
    elif now is not None and now > limit:
        yield found(gpu, "gpu.temperature", "warning", "%d C, %g C allowed" % (now, limit), "check_cooling", _COOLING)
    else:
        yield from _judge_idle(gpu, context)


def _too_hot(gpu: Gpu, context: Context) -> t.List[str]:
    now, margin = gpu.temperature_c, gpu.temperature_margin_c
    reasons = []
    if now is not None:
        limits = {"slowdown begins at": gpu.temperature_slowdown_c, "the limit is": context.limits["temperature_critical_c"]}
        # A limit of 0 or less is a margin printed in the place of a temperature.
        reached = {words: limit for words, limit in limits.items() if limit is not None and 0 < limit <= now}
        reasons += ["%d C, %s %g C" % (now, words, limit) for words, limit in reached.items()]
    if margin is not None:
        needed = context.limits["temperature_margin_c"]
        if gpu.margin_slowdown_c is not None:
            needed = max(needed, gpu.margin_slowdown_c)
        if margin <= needed:
            reasons.append("%d C left to the highest operating temperature, more than %g C needed" % (margin, needed))
    return reasons


def _judge_idle(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    now, use = gpu.temperature_c, gpu.utilisation_pct
    hot, idle = context.limits["idle_temperature_c"], context.limits["idle_utilisation_pct"]
    if now is not None and use is not None and now > hot and use < idle:
        message = "%d C at %d %% utilisation, %g C allowed below %g %%" % (now, use, hot, idle)
        yield found(gpu, "gpu.idle_hot", "warning", message, "check_cooling", _COOLING + "; after a long load give it some minutes")


def judge_memory_temperature(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    now, limit = gpu.memory_temperature_c, context.limits["memory_temperature_c"]
    if now is not None and now > limit:
        yield found(gpu, "gpu.memory_temperature", "warning", "memory at %d C, %g C allowed" % (now, limit), "check_cooling", _COOLING)


def judge_slowdown(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    """Clocks cut by hardware. A software power cap is how every GPU under full load keeps to its limit: not a fault."""
    reasons = gpu.event_reasons
    if reasons.get("hw_thermal_slowdown"):
        yield found(gpu, "gpu.hw_slowdown", "critical", "hardware cuts the clocks: too hot", "check_cooling", _COOLING)
    if reasons.get("hw_power_brake"):
        message = "hardware cuts the clocks: the power brake from outside the GPU is on"
        yield found(gpu, "gpu.hw_slowdown", "critical", message, "check_power", _POWER)
    if reasons.get("hw_slowdown") and not reasons.get("hw_thermal_slowdown") and not reasons.get("hw_power_brake"):
        message = "hardware cuts the clocks: too hot, power brake or too high a draw, which one is not told"
        yield found(gpu, "gpu.hw_slowdown", "critical", message, "check_power", "%s; %s" % (_POWER, _COOLING))
    if reasons.get("sw_thermal") and not reasons.get("hw_thermal_slowdown"):
        message = "the driver lowers the clocks to stay below the highest operating temperature"
        yield found(gpu, "gpu.sw_thermal", "warning", message, "check_cooling", _COOLING)


def judge_power_limit(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    now, wanted, default = gpu.power_limit_watts, context.expected.get("power_limit_watts"), gpu.power_limit_default_watts
    tolerance = context.limits["power_limit_tolerance_watts"]
    if now is None:
        return
    if wanted is not None:
        if abs(now - wanted) > tolerance:
            advice = "set it with nvidia-smi -pl %g, or correct the expectation" % wanted
            yield found(gpu, "gpu.power_limit", "warning", "power limit %g W, %g W expected" % (now, wanted), advice=advice)
    elif default is not None and now < default - tolerance:
        message = "power limit %g W, %g W is the default: the GPU is slower than its siblings elsewhere" % (now, default)
        yield found(gpu, "gpu.power_limit", "warning", message, advice="if it is meant so, say so with power_limit_watts in gpu_expected")
