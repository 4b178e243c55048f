# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import gpu as judge
from ansible_collections.kentino.gpu.plugins.module_utils._parse.gpu_records import Gpu, GpuReading
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._judge.gpu_cards import (
    H100,
    QUIET,
    RTX_5090,
    T4,
    change,
    node,
    of_one,
    told,
)

RESET = ("gpu.reset_required", "fail", "reset_gpu")
ABSENT = ("gpu.value_missing", "unknown", "none")


@pytest.mark.parametrize(
    ("facts", "findings"),
    [
        pytest.param({"recovery_action": "None"}, [], id="R565 and newer: nothing to do"),
        pytest.param({"recovery_action": "N/A"}, [], id="not supported"),
        pytest.param({"recovery_action": "Reset"}, [RESET], id="nvidia-smi: Reset"),
        pytest.param({"recovery_action": "GPU Reset Required"}, [RESET], id="Xid 154: GPU Reset Required"),
        pytest.param({"recovery_action": "Drain P2P"}, [RESET], id="Drain P2P"),
        pytest.param({"recovery_action": "Drain and Reset"}, [RESET], id="Drain and Reset"),
        pytest.param({"recovery_action": "DRAIN_AND_RESET"}, [RESET], id="NVML's spelling"),
        pytest.param({"recovery_action": "Reboot"}, [("gpu.reboot_required", "fail", "reboot_node")], id="nvidia-smi: Reboot"),
        pytest.param({"recovery_action": "Node Reboot Required"}, [("gpu.reboot_required", "fail", "reboot_node")], id="Xid 154: reboot"),
        pytest.param({"recovery_action": "Bus Reset"}, [RESET], id="bindings 13: Bus Reset"),
        pytest.param({"recovery_action": "System Reboot"}, [("gpu.reboot_required", "fail", "reboot_node")], id="bindings 13: reboot"),
        pytest.param({"recovery_action": "Recover IMEX Domain"}, [("gpu.recovery_action", "fail", "reboot_node")], id="driver 595: IMEX"),
        pytest.param({"recovery_action": "Unknown"}, [("gpu.recovery_action", "fail", "contact_vendor")], id="driver does not know"),
        pytest.param(
            {"recovery_action": "Reincarnate", "state": "error"}, [("gpu.recovery_action", "fail", "contact_vendor")], id="new word"
        ),
        pytest.param({"recovery_action": None, "reset_required": True}, [RESET, ABSENT], id="driver 535: Reset Required"),
        pytest.param({"drain_reset_recommended": True}, [RESET], id="driver 535: Drain and Reset Recommended"),
        pytest.param({"state": "requires_reset"}, [RESET], id="state alone"),
        pytest.param({"recovery_action": "Reboot", "reset_required": True}, [("gpu.reboot_required", "fail", "reboot_node")], id="both"),
        pytest.param({"state": "error"}, [("gpu.value_error", "fail", "reset_gpu")], id="faulty, no value says why"),
    ],
)
def test_what_the_driver_asks_for(facts: t.Dict[str, t.Any], findings: t.List[t.Any]) -> None:
    assert of_one(change(H100, **facts)) == findings


@pytest.mark.parametrize(
    ("errors", "facts", "findings"),
    [
        pytest.param({"fan_pct": "ERR!"}, {}, [("gpu.value_error", "fail", "reset_gpu")], id="table: ERR! in the fan column"),
        pytest.param({"power_watts": "[Unknown Error]"}, {}, [("gpu.value_error", "fail", "reset_gpu")], id="csv: Unknown Error"),
        pytest.param({"power_watts": "System is not in ready state"}, {}, [("gpu.value_error", "fail", "reset_gpu")], id="not ready"),
        pytest.param({"name": "[GPU is lost]"}, {}, [("gpu.value_error", "fail", "reseat")], id="lost in one value"),
        pytest.param({"name": "[GPU requires reset]"}, {}, [("gpu.value_error", "fail", "reset_gpu")], id="requires reset in one value"),
        pytest.param(
            {"name": "[GPU requires reset]"}, {"state": "requires_reset"}, [RESET], id="requires reset in a value and in the state: once"
        ),
        pytest.param({"vbios": "Corrupted infoROM"}, {}, [("gpu.value_error", "fail", "contact_vendor")], id="corrupt InfoROM"),
        pytest.param({"power_watts": "Insufficient External Power"}, {}, [("gpu.value_error", "fail", "check_power")], id="power plug"),
        pytest.param(
            {"ecc_volatile.dram_uncorrectable": "Insufficient Permissions"},
            {"ecc_volatile": None},
            [("gpu.value_error", "unknown", "none")],
            id="not allowed to read ECC",
        ),
        pytest.param({"fan_pct": "Insufficient Permissions"}, {}, [], id="not allowed to read the fan"),
        pytest.param(
            {"temperature_c": "unreadable: 3x C"}, {"temperature_c": None}, [("gpu.value_error", "unknown", "none")], id="garbled"
        ),
        pytest.param({"temperature_margin_c": "Not Found"}, {"temperature_margin_c": None}, [], id="no margin on an older card"),
        pytest.param({"bar1_total_mib": "Argument version mismatch"}, {}, [], id="an unimportant value"),
        pytest.param(
            {"fan_pct": "ERR!", "name": "[GPU is lost]"},
            {},
            [("gpu.value_error", "fail", "reseat"), ("gpu.value_error", "fail", "reset_gpu")],
            id="two kinds",
        ),
    ],
)
def test_values_that_are_errors(errors: t.Dict[str, str], facts: t.Dict[str, t.Any], findings: t.List[t.Any]) -> None:
    assert of_one(change(H100, errors=errors, **facts)) == findings


def test_an_unimportant_error_is_still_told() -> None:
    (finding,) = judge.judge(node(change(H100, errors={"fan_pct": "Timeout"})), {}, {})
    assert (finding.code, finding.severity, finding.evidence) == ("gpu.value_error", "info", ("fan_pct: Timeout",))


def test_the_reasons_that_a_driver_renamed_are_named() -> None:
    reasons = {"idle": True, "sw_power_cap": False, "sync_boost": False}
    (finding,) = judge.judge(node(change(H100, event_reasons=reasons)), {}, {})
    assert finding.message == "not told: hw_slowdown, hw_thermal_slowdown, hw_power_brake"


@pytest.mark.parametrize(
    ("reasons", "unsupported", "findings"),
    [
        pytest.param({"idle": True, "hw_slowdown": False}, (), [], id="Kepler: hw_slowdown covers the two others"),
        pytest.param({"idle": True, "hw_thermal_slowdown": False, "hw_power_brake": False}, (), [ABSENT], id="the union is missing"),
        pytest.param({"idle": True}, ("hw_slowdown", "hw_thermal_slowdown", "event_reasons.hw_power_brake"), [], id="not supported"),
        pytest.param({}, ("event_reasons",), [], id="no reasons supported at all"),
        pytest.param({}, (), [ABSENT], id="no reasons told at all"),
    ],
)
def test_event_reasons_that_are_not_told(reasons: t.Dict[str, bool], unsupported: t.Tuple[str, ...], findings: t.List[t.Any]) -> None:
    assert of_one(change(H100, event_reasons=reasons, unsupported=H100.unsupported | set(unsupported))) == findings


@pytest.mark.parametrize(
    ("card", "more", "findings"),
    [
        pytest.param(change(RTX_5090, recovery_action=None), {}, [], id="consumer card without recovery action"),
        pytest.param(change(H100, recovery_action=None), {"driver_version": "550.54.15"}, [], id="driver older than the recovery action"),
        pytest.param(change(H100, recovery_action=None), {"driver_version": "580.65.06"}, [ABSENT], id="driver that has one"),
        pytest.param(
            change(H100, recovery_action=None, unsupported=H100.unsupported | {"recovery_action"}), {}, [], id="action not supported"
        ),
        pytest.param(change(H100, ecc_volatile=None, unsupported=frozenset({"ecc_volatile"})), {}, [], id="ECC counters not supported"),
        pytest.param(
            change(H100, ecc_volatile=None, remapped=None, ecc_mode=None, unsupported=frozenset({"ecc_mode"})), {}, [], id="no ECC"
        ),
        pytest.param(change(H100, remapped=None, mig_mode=True, mig_mode_pending=True), {}, [], id="MIG: no remapped rows told"),
        pytest.param(change(T4, remapped=None, unsupported=frozenset()), {"driver_version": "535.1"}, [], id="T4 retires pages"),
        pytest.param(change(T4, ecc_volatile=None), {"driver_version": "535.1"}, [ABSENT], id="T4 without ECC counters"),
        pytest.param(change(RTX_5090, uuid=None), {}, [ABSENT], id="no UUID"),
        pytest.param(change(RTX_5090, memory_used_mib=None), {}, [ABSENT], id="no memory in use"),
        pytest.param(change(RTX_5090, pcie_width=None), {"source": "nvidia-smi text"}, [ABSENT], id="text with a PCI section, no width"),
        pytest.param(change(RTX_5090, pcie_width=None, device_id=None), {"source": "nvidia-smi text"}, [], id="text without PCI section"),
        pytest.param(
            change(RTX_5090, pcie_width=None, temperature_c=None),
            {"complete": False, "attached": None},
            [("gpu.incomplete", "unknown", "none")],
            id="fragment",
        ),
    ],
)
def test_values_that_should_be_there(card: Gpu, more: t.Dict[str, t.Any], findings: t.List[t.Any]) -> None:
    assert told(judge.judge(node(card, **more), {}, {})) == findings


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"pcie_gen_max": None}, {"pcie_gen": 5}),
        ({"vbios": None}, {"vbios": "96"}),
        ({"persistence_mode": None}, {"persistence": True}),
        ({"compute_mode": None}, {"compute_mode": "Default"}),
        ({"power_limit_watts": None, "unsupported": frozenset({"power_limit_watts"})}, {"power_limit_watts": 700}),
        ({"nvlinks": ()}, {"nvlinks": 18}),
        ({"serial": None}, {"serials": ["1"]}),
        ({"processes": None}, {"idle": True}),
        ({"mig_mode": None}, {"mig": False}),
    ],
)
def test_what_is_expected_must_be_told(facts: t.Dict[str, t.Any], expected: t.Dict[str, t.Any]) -> None:
    assert of_one(change(H100, **facts), expected) == [ABSENT]
    assert of_one(change(H100, **facts)) == []


def test_what_is_expected_of_a_table_must_be_told_too() -> None:
    row = Gpu(pci="0000:cc:00", index=1, temperature_c=41)
    assert told(judge.judge(GpuReading("nvidia-smi table", (row,), complete=True), {"pcie_width": 16}, {})) == [ABSENT]


def test_a_fragment_with_reasons_renamed_is_undetermined_by_name() -> None:
    fragment = GpuReading("nvidia-smi text", (Gpu(pcie_replays=120, event_reasons={"idle": True, "sync_boost": False}),))
    assert told(judge.judge(fragment, {}, {})) == [("gpu.incomplete", "unknown", "none"), ABSENT]


def test_reasons_are_complete_in_the_healthy_cards() -> None:
    assert set(QUIET) >= {"hw_slowdown", "hw_thermal_slowdown", "hw_power_brake"}
