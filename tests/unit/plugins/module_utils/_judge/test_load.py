# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import load, load_shares
from ansible_collections.kentino.gpu.plugins.module_utils._judge.load_shares import Sample
from ansible_collections.kentino.gpu.plugins.module_utils._knowledge import thresholds
from ansible_collections.kentino.gpu.plugins.module_utils._parse.gpu_records import EVENT_REASONS, EccCounters, Gpu, GpuProcess, GpuReading
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._judge.gpu_cards import H100

REASONS = dict.fromkeys(EVENT_REASONS.values(), False)
BURNING = dataclasses.replace(
    H100,
    utilisation_pct=100,
    temperature_c=66,
    temperature_slowdown_c=89,
    temperature_shutdown_c=95,
    memory_temperature_c=78,
    temperature_margin_c=21,
    power_watts=694.0,
    clock_sm_mhz=1470,
    event_reasons={**REASONS, "sw_power_cap": True},
)
Change = t.Mapping[str, t.Any]


def card(index: int, **changes: t.Any) -> Gpu:
    names = {"index": index, "pci": "0000:%02x:00" % (0x1A + index), "uuid": "GPU-%d" % index, "serial": "165%d" % index}
    return dataclasses.replace(BURNING, **{**names, **changes})


def reading(*gpus: Gpu) -> GpuReading:
    return GpuReading("nvml", gpus, complete=True)


def run(changes: t.Callable[[float], Change], gpus: int = 4, seconds: int = 600, every: int = 5, bad: int = 2) -> t.List[Sample]:
    """A burn in which one GPU is as C(changes) says at each moment."""
    times = range(0, seconds, every)
    return [Sample(when, reading(*(card(at, **(changes(when) if at == bad else {})) for at in range(gpus)))) for when in times]


def judged(samples: t.Sequence[Sample], **policy: t.Any) -> t.List[t.Tuple[str, str, t.Optional[int]]]:
    limits = thresholds.limits(policy.pop("limits", None))
    policy = {"expected": policy.pop("expected", {}), "limits": limits, "end_seconds": 600.0, **policy}
    return [(one.code, one.verdict, one.subject.index) for one in load.judge(samples, policy)]


def reasons(**active: bool) -> Change:
    return {"event_reasons": {**REASONS, **active}}


def test_a_healthy_burn_has_no_findings():
    assert judged(run(lambda when: {})) == []


def test_idle_samples_at_the_edges_are_not_judged():
    idle = {"utilisation_pct": 0, "power_watts": 71.0, "pcie_gen": 1, "clock_sm_mhz": 345, "performance_state": "P8"}
    assert judged(run(lambda when: idle if when < 15 or when > 580 else {})) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param(lambda when: {"temperature_c": 88}, [("gpu.temperature", "fail", 2)], id="above 85 C for ten minutes"),
        pytest.param(lambda when: {"temperature_c": 87} if when < 60 else {}, [("gpu.temperature", "warn", 2)], id="above 85 C for one"),
        pytest.param(lambda when: {"temperature_c": 90} if when == 60 else {}, [("gpu.temperature", "fail", 2)], id="slowdown point once"),
        pytest.param(lambda when: {"temperature_margin_c": -1}, [("gpu.temperature", "fail", 2)], id="no margin left"),
        pytest.param(lambda when: {"memory_temperature_c": 99}, [("gpu.memory_temperature", "warn", 2)], id="hot memory"),
        pytest.param(
            lambda when: reasons(hw_slowdown=True, hw_thermal_slowdown=True), [("load.throttled", "fail", 2)], id="throttled all the time"
        ),
        pytest.param(
            lambda when: reasons(hw_slowdown=True, hw_thermal_slowdown=True) if when < 30 else {},
            [("load.throttled", "warn", 2)],
            id="throttled for a while",
        ),
        pytest.param(lambda when: reasons(hw_slowdown=True, hw_power_brake=True), [("load.throttled", "fail", 2)], id="power brake"),
        pytest.param(lambda when: reasons(hw_slowdown=True), [("load.throttled", "fail", 2)], id="slowdown of an unknown kind"),
        pytest.param(lambda when: reasons(sw_thermal=True), [("load.throttled", "warn", 2)], id="driver lowers clocks for heat"),
        pytest.param(lambda when: reasons(sw_thermal=when < 60), [("load.throttled", "pass", 2)], id="driver lowers clocks now and then"),
        pytest.param(lambda when: {"pcie_width": 4}, [("gpu.pcie_width", "fail", 2)], id="narrow link"),
        pytest.param(lambda when: {"pcie_width": 8 if when > 400 else 16}, [("gpu.pcie_width", "fail", 2)], id="link loses lanes"),
        pytest.param(lambda when: {"pcie_gen": 1}, [("gpu.pcie_gen", "warn", 2)], id="slow link"),
        pytest.param(lambda when: {"pcie_gen": 1 if when > 400 else 5}, [("load.link_fell", "fail", 2)], id="link falls"),
        pytest.param(lambda when: {"pcie_gen": 1 if when == 400 else 5}, [], id="link slow for one sample"),
        pytest.param(lambda when: {"pcie_replays": int(when) * 10}, [("gpu.pcie_replays", "warn", 2)], id="replays"),
        pytest.param(lambda when: {"pcie_replays": int(when) // 60}, [], id="some replays are allowed"),
        pytest.param(
            lambda when: {"ecc_volatile": EccCounters(0, 0, 0, 1 if when > 300 else 0)},
            [("gpu.ecc_uncorrectable", "fail", 2)],
            id="uncorrectable error",
        ),
        pytest.param(lambda when: {"power_watts": 300.0}, [("load.low_power", "warn", 2)], id="low draw"),
        pytest.param(lambda when: {"power_watts": 300.0 if when else 650.0}, [], id="draw near the limit once"),
        pytest.param(lambda when: {"power_watts": None}, [], id="draw not told"),
        pytest.param(lambda when: {"clock_sm_mhz": 1200}, [("load.low_clock", "warn", 2)], id="low clock"),
        pytest.param(lambda when: {"clock_sm_mhz": 1900}, [], id="fast is no fault"),
        pytest.param(lambda when: {"utilisation_pct": 0}, [("load.unseen", "unknown", 2)], id="never loaded"),
        pytest.param(lambda when: {"utilisation_pct": None}, [], id="utilisation not told"),
        pytest.param(lambda when: {"state": "lost"} if when > 100 else {}, [("gpu.lost", "fail", 2)], id="lost under load"),
        pytest.param(lambda when: {"state": "lost"}, [], id="lost before, which others tell"),
    ],
)
def test_what_is_found(changes, expected):
    assert judged(run(changes)) == expected


def test_what_is_so_on_every_gpu_is_of_the_load():
    samples = [Sample(when, reading(*(card(at, power_watts=310.0) for at in range(4)))) for when in range(0, 600, 5)]
    assert judged(samples) == [("load.low_power", "warn", None)]


def test_only_the_loaded_gpus_are_judged():
    samples = run(lambda when: {"utilisation_pct": 0})
    assert judged(samples, gpus=[0, 1, 3]) == []


def test_clocks_are_compared_within_a_model():
    samples = run(lambda when: {"clock_sm_mhz": 1000, "device_id": "10de:26b9", "pcie_gen_max": 5})
    assert ("load.low_clock", "warn", 2) not in judged(samples)


@pytest.mark.parametrize(("policy", "code"), [({"power_share_pct": 0}, "load.low_power"), ({"slow_tolerance_pct": 0}, "load.low_clock")])
def test_zero_turns_a_rule_off(policy, code):
    samples = run(lambda when: {"power_watts": 200.0, "clock_sm_mhz": 700})
    assert code in [found[0] for found in judged(samples)]
    assert code not in [found[0] for found in judged(samples, **policy)]


def test_limits_are_the_inventorys():
    samples = run(lambda when: {"temperature_c": 83})
    assert judged(samples, limits={"temperature_c": 80}) == [("gpu.temperature", "fail", 2)]


def test_expected_generation_is_held():
    samples = [Sample(when, reading(card(0, pcie_gen=4), card(1, pcie_gen=4))) for when in range(0, 600, 5)]
    assert {found[0] for found in judged(samples, expected={"pcie_gen": 5})} == {"gpu.pcie_gen"}


def test_strangers_on_the_gpu_are_named():
    own = GpuProcess(10, "/opt/gpu-burn/gpu_burn", "compute", 70000)
    company = [own, GpuProcess(11, "python3 train.py", "compute", 900)]
    samples = run(lambda when: {"processes": tuple(company if when > 300 else company[:1])})
    policy = {"expected": {}, "limits": thresholds.limits(), "own_names": {"gpu_burn"}}
    (found,) = load.judge(samples, policy)
    assert (found.code, found.verdict, found.subject.index) == ("load.shared", "warn", 2)
    assert "pid 11 python3 train.py" in found.message


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        pytest.param([], "could not be looked at", id="no sample"),
        pytest.param([Sample(5, GpuReading("nvml", error_kind="timeout", error="NVML hangs"))], "NVML hangs", id="no readable sample"),
        pytest.param([one for one in run(lambda when: {}) if not 200 < one.seconds < 400], "for 200 s", id="a gap"),
        pytest.param([one for one in run(lambda when: {}) if one.seconds < 300], "for 305 s", id="silent to the end"),
    ],
)
def test_silence_is_unknown(samples, words):
    found = load.judge(samples, {"expected": {}, "limits": thresholds.limits(), "end_seconds": 600.0})
    assert [(one.code, one.verdict) for one in found] == [("load.unsampled", "unknown")]
    assert words in found[0].message


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        pytest.param({"temperature_c": 96}, "96 C, it shuts down at 95 C", id="over the shutdown temperature"),
        pytest.param({"state": "lost"}, "the driver lost the GPU", id="lost"),
        pytest.param({"ecc_volatile": EccCounters(0, 0, 0, 3)}, "3 more uncorrectable memory errors", id="uncorrectable errors"),
        pytest.param({"ecc_volatile": EccCounters(900, 0, 900, 0)}, None, id="corrected errors"),
        pytest.param({"temperature_c": 94}, None, id="hot"),
        pytest.param({"temperature_c": 96, "temperature_shutdown_c": 0}, None, id="limit printed as a margin"),
    ],
)
def test_emergency(changes, why):
    first = reading(card(0), card(1, temperature_shutdown_c=changes.get("temperature_shutdown_c", 95)))
    found = load.emergency(reading(card(0), card(1, **changes)), first)
    assert (found[1] if found else None) == why
    assert not found or found[0].index == 1
    assert load.emergency(reading(card(0), card(1, **changes)), first, [0]) is None


def test_samples_weigh_what_they_stand_for():
    """At first samples come quickly: counted alike they would make a short throttling long."""
    times = [0.2, 0.5, 1.0, 1.6, 2.5, 4.0, 300.0]
    samples = [Sample(when, reading(card(0, **(reasons(hw_thermal_slowdown=True) if when < 3 else {})))) for when in times]
    (track,) = load_shares.tracks(samples, thresholds.limits(), None, 600.0)
    assert track.share_pct("hw_thermal_slowdown") == pytest.approx(100 * 3.8 / 599.8)


def test_metrics_of_a_gpu():
    numbers = load.metrics(run(lambda when: {"temperature_c": 60 + when / 60}), {"expected": {}, "limits": thresholds.limits()})
    assert numbers["2"]["temperature_max_c"] == pytest.approx(69.9, abs=0.1)
    assert numbers["0"]["power_max_watts"] == 694.0
    assert numbers["0"]["throttle_share_pct"] == {"sw_power_cap": 100.0}
