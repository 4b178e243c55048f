# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import gpu as judge
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._judge.gpu_cards import (
    H100,
    QUIET,
    T4,
    change,
    node,
    of_one,
    told,
)

WARM = [("gpu.temperature", "warn", "check_cooling")]
HOT = [("gpu.temperature", "fail", "check_cooling")]
LOADED = {"utilisation_pct": 100}


@pytest.mark.parametrize(
    ("facts", "findings"),
    [
        pytest.param({"temperature_c": 85, **LOADED}, [], id="85 C"),
        pytest.param({"temperature_c": 86, **LOADED}, WARM, id="86 C"),
        pytest.param({"temperature_c": 95, **LOADED}, HOT, id="95 C, slowdown not told"),
        pytest.param({"temperature_c": 88, "temperature_slowdown_c": 87, **LOADED}, HOT, id="above the slowdown temperature"),
        pytest.param({"temperature_c": 80, "temperature_slowdown_c": 80, **LOADED}, HOT, id="at the slowdown temperature"),
        pytest.param({"temperature_c": 60, "temperature_slowdown_c": -2, **LOADED}, [], id="a margin printed as slowdown temperature"),
        pytest.param({"temperature_margin_c": 1, **LOADED}, [], id="one degree left"),
        pytest.param({"temperature_margin_c": 0, **LOADED}, HOT, id="no degree left"),
        pytest.param({"temperature_margin_c": -3, **LOADED}, HOT, id="over the limit"),
        pytest.param({"temperature_margin_c": 3, "margin_slowdown_c": 3, **LOADED}, HOT, id="a GPU that slows down early"),
        pytest.param({"temperature_margin_c": 1, "margin_slowdown_c": None, **LOADED}, [], id="slowdown margin not told"),
        pytest.param({"temperature_c": 71}, [("gpu.idle_hot", "warn", "check_cooling")], id="71 C at idle"),
        pytest.param({"temperature_c": 70}, [], id="70 C at idle"),
        pytest.param({"temperature_c": 71, "utilisation_pct": 10}, [], id="71 C at ten percent"),
        pytest.param({"temperature_c": 71, "utilisation_pct": None}, [], id="71 C, use not told"),
        pytest.param({"temperature_c": 90}, WARM, id="90 C at idle is one finding"),
        pytest.param({"memory_temperature_c": 95}, [], id="memory at 95 C"),
        pytest.param({"memory_temperature_c": 96}, [("gpu.memory_temperature", "warn", "check_cooling")], id="memory at 96 C"),
    ],
)
def test_temperature(facts: t.Dict[str, t.Any], findings: t.List[t.Any]) -> None:
    assert of_one(change(H100, **facts)) == findings


def test_a_margin_of_the_inventory_counts() -> None:
    near = node(change(H100, temperature_margin_c=8, utilisation_pct=99))
    assert told(judge.judge(near, {}, {"temperature_margin_c": 10})) == HOT


def test_the_message_says_what_was_measured_and_what_is_allowed() -> None:
    (finding,) = judge.judge(node(change(T4, temperature_c=94, utilisation_pct=100), driver_version="535.1"), {}, {})
    assert finding.message == "94 C, slowdown begins at 93 C"


@pytest.mark.parametrize(
    ("active", "findings"),
    [
        pytest.param(("hw_slowdown", "hw_thermal_slowdown"), [("gpu.hw_slowdown", "fail", "check_cooling")], id="thermal"),
        pytest.param(("hw_slowdown", "hw_power_brake"), [("gpu.hw_slowdown", "fail", "check_power")], id="power brake"),
        pytest.param(("hw_slowdown",), [("gpu.hw_slowdown", "fail", "check_power")], id="cause not told"),
        pytest.param(
            ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake"),
            [("gpu.hw_slowdown", "fail", "check_power"), ("gpu.hw_slowdown", "fail", "check_cooling")],
            id="both, several bits at once",
        ),
        pytest.param(("sw_thermal",), [("gpu.sw_thermal", "warn", "check_cooling")], id="software thermal"),
        pytest.param(("sw_thermal", "hw_thermal_slowdown"), [("gpu.hw_slowdown", "fail", "check_cooling")], id="both thermal ones"),
        pytest.param(("sw_power_cap",), [], id="power cap"),
        pytest.param(("applications_clocks", "sync_boost", "display_clocks"), [], id="settings"),
    ],
)
def test_slowdown(active: t.Tuple[str, ...], findings: t.List[t.Any]) -> None:
    reasons = {name: name in active for name in QUIET}
    assert of_one(change(H100, event_reasons=reasons, utilisation_pct=100)) == findings


LIMIT = [("gpu.power_limit", "warn", "none")]


@pytest.mark.parametrize(
    ("facts", "expected", "findings"),
    [
        pytest.param({"power_limit_watts": 650.0}, {}, LIMIT, id="below the default"),
        pytest.param({"power_limit_watts": 699.5}, {}, [], id="rounded"),
        pytest.param({"power_limit_watts": 750.0}, {}, [], id="above the default"),
        pytest.param({"power_limit_watts": 650.0}, {"power_limit_watts": 650}, [], id="below the default, as expected"),
        pytest.param({}, {"power_limit_watts": 650}, LIMIT, id="the default, less expected"),
        pytest.param({"power_limit_watts": 600.0}, {"power_limit_watts": 650}, LIMIT, id="less than expected"),
        pytest.param({"power_limit_default_watts": None}, {}, [], id="default not told"),
    ],
)
def test_power_limit(facts: t.Dict[str, t.Any], expected: t.Dict[str, t.Any], findings: t.List[t.Any]) -> None:
    assert of_one(change(H100, **facts), expected) == findings
