# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import json
import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import gpu as judge
from ansible_collections.kentino.gpu.plugins.module_utils._parse.gpu_records import (
    EVENT_REASONS,
    EccCounters,
    Gpu,
    GpuProcess,
    GpuReading,
    NvLink,
    RetiredPages,
    RowRemap,
)
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import ACTIONS, VERDICTS
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._judge.gpu_cards import (
    ALL_SPARE,
    H100,
    NO_ERRORS,
    QUIET,
    RTX_5090,
    T4,
    change,
    node,
    several,
    told,
)
from hypothesis import given, settings
from hypothesis import strategies as st

FULL_EXPECTATION = {
    "count": 8,
    "device_id": "10de:2330",
    "name": "NVIDIA H100 80GB HBM3",
    "memory_total_mib": 81559,
    "pcie_width": 16,
    "pcie_gen": 5,
    "nvlinks": 18,
    "driver_version": "570",
    "cuda_version": "12.8",
    "vbios": "96.00.74.00.01",
    "ecc": True,
    "mig": False,
    "persistence": True,
    "compute_mode": "default",
    "fabric": True,
    "power_limit_watts": 700,
    "uuids": [card.uuid for card in several(H100, 8)],
    "serials": [card.serial for card in several(H100, 8)],
    "idle": True,
    "power_domains": {"psu_a": [0, 1, 2, 3], "psu_b": [4, 5, 6, 7]},
}


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        pytest.param(node(H100), {}, id="one H100 with four corrected errors in its life"),
        pytest.param(node(*several(H100, 8)), {}, id="eight H100 of which nothing is expected"),
        pytest.param(node(*several(H100, 8)), FULL_EXPECTATION, id="eight H100 of which everything is expected"),
        pytest.param(node(RTX_5090), {}, id="an RTX 5090 at idle, link at generation 1, no ECC"),
        pytest.param(node(*several(RTX_5090, 4)), {"count": 4, "ecc": False, "mig": False, "idle": True}, id="four RTX 5090"),
        pytest.param(node(T4, driver_version="470.256.02"), {}, id="a T4 with driver 470, which has no recovery action"),
        pytest.param(
            node(change(H100, device_id=None, pcie_width=None, nvlinks=(), fabric_state=None), source="nvidia-smi text"),
            {},
            id="an H100 in an excerpt of nvidia-smi -q without its PCI section",
        ),
        pytest.param(node(change(H100, event_reasons=dict(QUIET, idle=False, sw_power_cap=True))), {}, id="an H100 at its power cap"),
        pytest.param(node(change(H100, device_id="10de:ffff", ecc_volatile=None, remapped=None)), {}, id="a model that is not known"),
    ],
)
def test_healthy_nodes_draw_nothing_worse_than_info(reading: GpuReading, expected: t.Dict[str, t.Any]) -> None:
    assert told(judge.judge(reading, expected, {})) == []


def _reasons(**active: bool) -> t.Dict[str, bool]:
    return dict(QUIET, idle=False, **active)


# One fault each, put into a node that is otherwise healthy; the finding it must draw, alone.
SINGLE_FAULTS: t.List[t.Tuple[str, t.Dict[str, t.Any], str, str, str]] = [
    ("the driver wants a reset", {"recovery_action": "Reset"}, "gpu.reset_required", "fail", "reset_gpu"),
    ("the driver wants a reboot", {"recovery_action": "Reboot"}, "gpu.reboot_required", "fail", "reboot_node"),
    ("the driver says a new word", {"recovery_action": "Sing"}, "gpu.recovery_action", "fail", "contact_vendor"),
    ("the fan answers ERR!", {"errors": {"fan_pct": "ERR!"}}, "gpu.value_error", "fail", "reset_gpu"),
    ("no temperature", {"temperature_c": None}, "gpu.value_missing", "unknown", "none"),
    ("no link width", {"pcie_width": None}, "gpu.value_missing", "unknown", "none"),
    ("no ECC counters", {"ecc_volatile": None}, "gpu.value_missing", "unknown", "none"),
    ("no row remapping", {"remapped": None}, "gpu.value_missing", "unknown", "none"),
    ("no recovery action", {"recovery_action": None}, "gpu.value_missing", "unknown", "none"),
    ("an uncorrectable DRAM error", {"ecc_volatile": EccCounters(0, 0, 0, 1)}, "gpu.ecc_uncorrectable", "fail", "reset_gpu"),
    ("an uncorrectable SRAM error", {"ecc_volatile": EccCounters(0, 1, 0, 0)}, "gpu.ecc_uncorrectable", "fail", "reset_gpu"),
    ("five SRAM errors in its life", {"ecc_aggregate": EccCounters(0, 5, 0, 0)}, "gpu.sram_uncorrectable", "fail", "replace"),
    ("SRAM threshold", {"sram_threshold_exceeded": True}, "gpu.sram_threshold", "fail", "replace"),
    ("many corrected errors", {"ecc_volatile": EccCounters(0, 0, 1001, 0)}, "gpu.ecc_correctable", "warn", "contact_vendor"),
    ("remap pending", {"remapped": RowRemap(0, 1, True, False, ALL_SPARE)}, "gpu.row_remap_pending", "fail", "reset_gpu"),
    ("remap failed", {"remapped": RowRemap(0, 9, False, True, {"none": 1})}, "gpu.row_remap_failed", "fail", "replace"),
    ("rows at the limit", {"remapped": RowRemap(0, 512, False, False, {})}, "gpu.row_remap_limit", "fail", "replace"),
    ("a bank without spares", {"remapped": RowRemap(0, 8, False, False, {"none": 1})}, "gpu.row_remap_spares", "warn", "contact_vendor"),
    ("page pending", {"retired": RetiredPages(0, 1, True)}, "gpu.retired_pages_pending", "fail", "reset_gpu"),
    ("pages at the limit", {"retired": RetiredPages(60, 3, False)}, "gpu.retired_pages", "fail", "replace"),
    ("channel repair pending", {"repair_pending": ("channel",)}, "gpu.repair_pending", "fail", "reset_gpu"),
    ("memory beyond repair", {"unrepairable_memory": True}, "gpu.unrepairable_memory", "fail", "replace"),
    ("ECC off", {"ecc_mode": False, "ecc_mode_pending": False}, "gpu.ecc_mode", "warn", "reset_gpu"),
    ("hot", {"temperature_c": 86}, "gpu.temperature", "warn", "check_cooling"),
    ("no margin left", {"temperature_margin_c": 0}, "gpu.temperature", "fail", "check_cooling"),
    ("hot memory", {"memory_temperature_c": 96}, "gpu.memory_temperature", "warn", "check_cooling"),
    ("hot at idle", {"temperature_c": 71}, "gpu.idle_hot", "warn", "check_cooling"),
    ("thermal slowdown", {"event_reasons": _reasons(hw_thermal_slowdown=True)}, "gpu.hw_slowdown", "fail", "check_cooling"),
    ("power brake", {"event_reasons": _reasons(hw_power_brake=True)}, "gpu.hw_slowdown", "fail", "check_power"),
    ("software thermal slowdown", {"event_reasons": _reasons(sw_thermal=True)}, "gpu.sw_thermal", "warn", "check_cooling"),
    ("renamed reasons", {"event_reasons": {"idle": True, "sw_power_cap": False}}, "gpu.value_missing", "unknown", "none"),
    ("lowered power limit", {"power_limit_watts": 500.0}, "gpu.power_limit", "warn", "none"),
    ("half the lanes", {"pcie_width": 8}, "gpu.pcie_width", "fail", "reseat"),
    ("slower slot", {"pcie_gen": 4, "pcie_gen_max": 4}, "gpu.pcie_gen", "warn", "reseat"),
    ("a dead NVLink", {"nvlinks": (NvLink(0, False), *H100.nvlinks[1:])}, "gpu.nvlink_down", "fail", "reset_gpu"),
    ("fabric not joined", {"fabric_state": "In Progress"}, "gpu.fabric", "fail", "reboot_node"),
    ("MIG waits for a reset", {"mig_mode_pending": True}, "gpu.mig", "warn", "reset_gpu"),
    ("compute prohibited", {"compute_mode": "Prohibited"}, "gpu.compute_mode", "fail", "look_at_code"),
    ("memory nobody holds", {"memory_used_mib": 5000, "memory_free_mib": 76074}, "gpu.memory_held", "warn", "look_at_code"),
    ("another VBIOS", {"vbios": "96.00.30.00.01"}, "gpu.firmware_mismatch", "warn", "none"),
    ("another InfoROM", {"inforom": "G520.0200.00.04"}, "gpu.firmware_mismatch", "warn", "none"),
    ("another default power", {"power_limit_default_watts": 699.5}, "gpu.firmware_mismatch", "warn", "none"),
    ("less memory", {"memory_total_mib": 70000, "memory_free_mib": None}, "gpu.firmware_mismatch", "warn", "none"),
    ("lost", {"state": "lost", "temperature_c": None, "errors": {"temperature_c": "GPU is lost"}}, "gpu.lost", "fail", "reseat"),
]


@pytest.mark.parametrize(("fault", "code", "verdict", "action"), [pytest.param(*row[1:], id=row[0]) for row in SINGLE_FAULTS])
@pytest.mark.parametrize("place", [0, 3, 7])
def test_a_single_fault_draws_its_finding_and_no_other(fault: t.Dict[str, t.Any], code: str, verdict: str, action: str, place: int) -> None:
    cards = list(several(H100, 8))
    cards[place] = change(cards[place], **fault)
    findings = judge.judge(node(*cards), {}, {})
    assert told(findings) == [(code, verdict, action)]
    assert [one.subject.index for one in findings if one.verdict != "pass"] == [place]


def test_every_gpu_is_judged_though_the_first_is_bad() -> None:
    cards = [change(card, recovery_action="Reset") for card in several(H100, 4)]
    findings = judge.judge(node(*cards), {}, {})
    assert [(one.code, one.subject.index) for one in findings] == [("gpu.reset_required", index) for index in range(4)]


def test_findings_stand_node_first_then_by_gpu_then_worst_first() -> None:
    cards = list(several(H100, 3))
    cards[2] = change(cards[2], temperature_c=90, recovery_action="Reset", ecc_volatile=EccCounters(0, 0, 7, 0), compute_mode="Prohibited")
    cards[0] = change(cards[0], temperature_c=None)
    findings = judge.judge(node(*cards), {"count": 4}, {})
    assert [(one.subject.index, one.code, one.verdict) for one in findings] == [
        (None, "gpu.count", "fail"),
        (0, "gpu.value_missing", "unknown"),
        (2, "gpu.reset_required", "fail"),
        (2, "gpu.compute_mode", "fail"),
        (2, "gpu.temperature", "warn"),
        (2, "gpu.ecc_correctable", "pass"),
    ]


def test_limits_of_the_inventory_count() -> None:
    warm = change(H100, temperature_c=84, utilisation_pct=100)
    assert told(judge.judge(node(warm), {}, {})) == []
    assert told(judge.judge(node(warm), {}, {"temperature_c": 83})) == [("gpu.temperature", "warn", "check_cooling")]


@pytest.mark.parametrize(("expected", "limits"), [({"pcie_lanes": 16}, {}), ({}, {"temperature_f": 190})])
def test_a_wrong_policy_is_an_error_and_no_finding(expected: t.Dict[str, t.Any], limits: t.Dict[str, t.Any]) -> None:
    with pytest.raises(ValueError, match="is no"):
        judge.judge(node(H100), expected, limits)


def test_messages_carry_the_measured_and_the_allowed_value() -> None:
    cards = [change(card, pcie_width=4) if card.index == 1 else card for card in several(H100, 2)]
    findings = judge.judge(node(*cards), {"pcie_width": 16}, {})
    assert [one.message for one in findings] == ["link width x4, x16 expected"]
    assert findings[0].subject.serial == cards[1].serial


def test_a_message_is_one_line_whatever_the_tool_printed() -> None:
    (finding,) = judge.judge(node(change(H100, recovery_action="Re\nset\x1b[0m now")), {}, {})
    assert finding.message == "recovery action 'Re set [0m now', 'None' allowed"


def test_metrics_are_json_by_gpu_index_without_what_is_not_told() -> None:
    cards = several(H100, 2)
    told_metrics = json.loads(json.dumps(judge.metrics(node(cards[0], change(cards[1], power_watts=float("nan"), temperature_c=None)))))
    assert sorted(told_metrics) == ["0", "1"]
    assert told_metrics["0"]["temperature_c"] == 33
    assert told_metrics["0"]["ecc_aggregate_dram_correctable"] == 4
    assert told_metrics["0"]["nvlinks_active"] == 18
    assert not {"power_watts", "temperature_c"} & set(told_metrics["1"])


def test_metrics_name_a_gpu_without_index_by_its_address() -> None:
    assert list(judge.metrics(node(Gpu(pci="0000:41:00", temperature_c=1), Gpu(fan_pct=3)))) == ["0000:41:00", "gpu 1"]


def test_counters_survive_json_and_show_what_grew() -> None:
    before = change(H100, pcie_replays=5, ecc_volatile=EccCounters(0, 0, 3, 0))
    kept = json.loads(json.dumps(judge.counters(node(before), 1_000_000)))
    assert set(kept) == {H100.uuid}
    after = change(before, ecc_volatile=EccCounters(0, 0, 5, 0))
    assert told(judge.judge(node(after), {}, {}, earlier=kept)) == [("gpu.ecc_correctable", "warn", "contact_vendor")]
    assert told(judge.judge(node(before), {}, {}, earlier=kept)) == []


def test_counters_hold_what_is_told_and_nothing_else() -> None:
    card = change(H100, pcie_replays=2, ecc_aggregate=EccCounters(dram_correctable=4), nvlinks=(NvLink(3, True, 26.5, crc_errors=1),))
    assert judge.counters(node(card), 8) == {
        H100.uuid: {
            "pcie_replays": 2,
            "ecc_volatile": {"sram_correctable": 0, "sram_uncorrectable": 0, "dram_correctable": 0, "dram_uncorrectable": 0},
            "ecc_aggregate": {"dram_correctable": 4},
            "nvlinks": {"3": {"crc_errors": 1}},
            "usec": 8,
        }
    }


def test_counters_leave_out_lost_and_nameless_gpus() -> None:
    assert judge.counters(node(change(H100, state="lost"), Gpu(pcie_replays=4)), 1) == {}


@pytest.mark.parametrize(
    "earlier",
    [{H100.uuid: None}, {H100.uuid: []}, {H100.uuid: {"ecc_volatile": 3, "pcie_replays": "x", "nvlinks": []}}, {"other": {}}, {}],
)
def test_damaged_earlier_counters_are_no_growth(earlier: t.Dict[str, t.Any]) -> None:
    worn = change(H100, ecc_volatile=EccCounters(0, 0, 5, 0), pcie_replays=3)
    assert told(judge.judge(node(worn), {}, {}, earlier=earlier, now_usec=1)) == []


def test_a_text_fragment_shows_its_faults_and_one_thing_undetermined() -> None:
    fragment = GpuReading("nvidia-smi text", (Gpu(remapped=RowRemap(1, 0, True, False), ecc_volatile=NO_ERRORS),))
    findings = judge.judge(fragment, {}, {})
    assert told(findings) == [("gpu.incomplete", "unknown", "none"), ("gpu.row_remap_pending", "fail", "reset_gpu")]


def test_a_row_of_nvidia_smis_table_is_enough_where_it_is_whole() -> None:
    row = Gpu(pci="0000:cc:00", index=1, name="L4", temperature_c=41, memory_used_mib=1, memory_total_mib=23034, utilisation_pct=0)
    assert told(judge.judge(GpuReading("nvidia-smi table", (row,), complete=True), {}, {})) == []


def test_a_list_of_names_measures_nothing() -> None:
    listed = GpuReading("nvidia-smi csv", (Gpu(index=0, name="NVIDIA L4", uuid="GPU-1"),), complete=True)
    assert told(judge.judge(listed, {}, {})) == [("gpu.value_missing", "unknown", "none")]


_TEXT = st.sampled_from(["", "N/A", "None", "GPU is lost", "ERR!", "0000:1a:00", "10de:2330", "10de:1eb8", "Completed", "P0", "é"])
_NUMBER = st.integers(-5, 200) | st.sampled_from([2**63, -(2**31)])
_FIELD_NAMES = st.sampled_from([item.name for item in dataclasses.fields(Gpu)])
_ECC = st.builds(EccCounters, *[st.none() | _NUMBER] * 6)
_BY_TYPE: t.Dict[str, st.SearchStrategy[t.Any]] = {
    "t.Optional[str]": st.none() | _TEXT | st.text(max_size=6),
    "t.Optional[int]": st.none() | _NUMBER,
    "t.Optional[bool]": st.none() | st.booleans(),
    "t.Optional[float]": st.none() | st.floats(),
    "t.Optional[EccCounters]": st.none() | _ECC,
    "t.Optional[RetiredPages]": st.none() | st.builds(RetiredPages, st.none() | _NUMBER, st.none() | _NUMBER, st.none() | st.booleans()),
    "t.Optional[RowRemap]": st.none()
    | st.builds(
        RowRemap,
        st.none() | _NUMBER,
        st.none() | _NUMBER,
        st.none() | st.booleans(),
        st.none() | st.booleans(),
        st.dictionaries(st.sampled_from(["max", "none", "x"]), _NUMBER, max_size=2),
    ),
    "t.Tuple[str, ...]": st.lists(_TEXT, max_size=2).map(tuple),
    "t.Tuple[NvLink, ...]": st.lists(
        st.builds(NvLink, st.integers(0, 3), st.none() | st.booleans(), crc_errors=st.none() | _NUMBER), max_size=3
    ).map(tuple),
    "t.Optional[t.Tuple[GpuProcess, ...]]": st.none()
    | st.lists(st.builds(GpuProcess, _NUMBER, st.none() | _TEXT, used_mib=st.none() | _NUMBER), max_size=4).map(tuple),
    "t.FrozenSet[str]": st.frozensets(_FIELD_NAMES, max_size=6),
    "t.Mapping[str, bool]": st.dictionaries(st.sampled_from(list(EVENT_REASONS.values())), st.booleans(), max_size=4),
    "t.Mapping[str, str]": st.dictionaries(_FIELD_NAMES, _TEXT, max_size=3),
}
_GPUS = st.builds(Gpu, **{item.name: _BY_TYPE[str(item.type)] for item in dataclasses.fields(Gpu)})
_READINGS = st.builds(
    GpuReading,
    st.sampled_from(["nvml", "nvidia-smi xml", "nvidia-smi text", "nvidia-smi csv", "?"]),
    st.lists(_GPUS, max_size=3).map(tuple),
    lost=st.lists(_TEXT, max_size=2).map(tuple),
    driver_version=st.none() | _TEXT | st.just("570.1"),
    attached=st.none() | st.integers(0, 4),
    complete=st.booleans(),
    error_kind=st.none() | st.sampled_from(["timeout", "no_devices", "?"]),
    error=st.none() | _TEXT,
)


@settings(max_examples=60, deadline=None)
@given(_READINGS, st.sampled_from([{}, FULL_EXPECTATION, {"power_domains": {"a": ["0000:1a:00", 1]}}]), st.none() | st.integers(-5, 10**15))
def test_no_reading_raises_and_what_comes_out_is_well_formed(
    reading: GpuReading, expected: t.Dict[str, t.Any], now_usec: t.Optional[int]
) -> None:
    earlier = judge.counters(node(H100, T4), 7)
    findings = judge.judge(reading, expected, {}, own_pids=[5], earlier=earlier, now_usec=now_usec)
    for one in findings:
        assert one.verdict in VERDICTS
        assert one.action in ACTIONS
        assert one.message
        assert one.message.isprintable()
        assert all(isinstance(line, str) for line in one.evidence)
    json.dumps([one.as_dict() for one in findings])
    json.dumps([judge.metrics(reading), judge.counters(reading, 1)], allow_nan=False)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_faults_in_different_gpus_are_all_found(data: st.DataObject) -> None:
    cards = list(several(H100, 8))
    places = data.draw(st.lists(st.integers(0, 7), min_size=1, max_size=3, unique=True))
    rows = data.draw(st.lists(st.sampled_from(_LOCAL_FAULTS), min_size=len(places), max_size=len(places)))
    for place, row in zip(places, rows):
        cards[place] = change(cards[place], **row[1])
    found = {(one.subject.index, one.code) for one in judge.judge(node(*cards), {}, {})}
    assert {(place, row[2]) for place, row in zip(places, rows)} <= found


# Those that siblings decide need the others as they were.
_LOCAL_FAULTS = [row for row in SINGLE_FAULTS if row[2] not in ("gpu.firmware_mismatch", "gpu.pcie_gen")]
