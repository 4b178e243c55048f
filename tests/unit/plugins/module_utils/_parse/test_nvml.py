# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy
import json
import typing as t
from pathlib import Path

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse import nvidia_smi, nvml
from ansible_collections.kentino.gpu.plugins.module_utils._parse.gpu_records import EccCounters, Gpu, NvLink, RetiredPages
from hypothesis import given, settings
from hypothesis import strategies as st

TEXT = (Path(__file__).parent / "nvidia_smi" / "h100x2_570_q.txt").read_text(encoding="utf-8")
MIB = 1 << 20
NOT_SUPPORTED = {"code": 3, "text": "Not Supported"}

# GPU 0 of the report in TEXT, as NVML says it.
FIELDS: t.Dict[str, t.Any] = {
    "pci": {"bus_id": "00000000:2B:00.0", "device_id": 0x233010DE, "subsystem_id": 0x16C110DE},
    "uuid": "GPU-0a1b2c3d-0001-4000-8000-00000000c0de",
    "serial": "1650000000011",
    "name": "NVIDIA H100 80GB HBM3",
    "minor": 0,
    "architecture": 9,
    "vbios": "96.00.89.00.01",
    "board_part": "692-2G520-0280-501",
    "inforom": "G520.0280.00.04",
    "memory": {"total": 81559 * MIB, "used": 70123 * MIB, "free": 10885 * MIB, "reserved": 551 * MIB},
    "bar1_total": 131072 * MIB,
    "utilisation": {"gpu": 97, "memory": 41},
    "temperature_c": 61,
    "memory_temperature_c": 69,
    "temperature_margin_c": 26,
    "margin_shutdown_c": -8,
    "margin_slowdown_c": -2,
    "power_mw": 612340,
    "power_limit_mw": 650000,
    "power_limit_default_mw": 700000,
    "power_limit_max_mw": 700000,
    "performance_state": 0,
    "clock_sm_mhz": 1755,
    "clock_memory_mhz": 2619,
    "clock_sm_max_mhz": 1980,
    "clock_memory_max_mhz": 2620,
    "event_reasons": 0x4,
    "event_reasons_supported": 0x1FF,
    "pcie_gen": 4,
    "pcie_gen_max": 5,
    "pcie_width": 8,
    "pcie_width_max": 16,
    "pcie_replays": 10,
    "pcie_replay_rollovers": 1,
    "ecc_mode": [1, 1],
    "ecc_volatile.sram_correctable": 1,
    "ecc_volatile.sram_uncorrectable_parity": 0,
    "ecc_volatile.sram_uncorrectable_secded": 0,
    "ecc_volatile.dram_correctable": 2,
    "ecc_volatile.dram_uncorrectable": 0,
    "ecc_aggregate.sram_correctable": 5,
    "ecc_aggregate.sram_uncorrectable_parity": 1,
    "ecc_aggregate.sram_uncorrectable_secded": 2,
    "ecc_aggregate.dram_correctable": 40,
    "ecc_aggregate.dram_uncorrectable": 6,
    "sram_threshold_exceeded": False,
    "remapped": [3, 1, 0, 0],
    "remapped_histogram": {"max": 2556, "high": 4, "partial": 0, "low": 0, "none": 0},
    "recovery_action": 0,
    "mig_mode": [0, 0],
    "persistence_mode": 1,
    "compute_mode": 0,
    "fabric": {"state": 3, "status": 0, "healthSummary": 1},
    "nvlink_count": 2,
    "nvlinks": [
        {
            "link": 0,
            "state": 1,
            "speed_mbps": 26562,
            "remote": "00000000:07:00.0",
            "crc_errors": 0,
            "replay_errors": 4,
            "recovery_errors": 0,
        },
        {"link": 1, "state": 0, "speed_mbps": 0, "remote": None, "crc_errors": None, "replay_errors": None, "recovery_errors": None},
    ],
    "processes": [{"pid": 4711, "kind": "compute", "used": 70000 * MIB, "name": "python3 train.py --lr 3e-4"}],
}
ERRORS = {
    "fan_pct": NOT_SUPPORTED,
    "retired_single_bit": NOT_SUPPORTED,
    "retired_double_bit": NOT_SUPPORTED,
    "retired_pending": NOT_SUPPORTED,
    "reset_status": {"code": 26, "text": "deprecated"},
    "drain_reset_status": {"code": 26, "text": "deprecated"},
    "temperature_max_operating_c": NOT_SUPPORTED,
}
# What only one of the two sources tells. A GPU's thresholds in degrees are printed on older drivers only.
ONE_SOURCE = {"nvlinks", "unsupported"}


def raw(fields: t.Mapping[str, t.Any] = FIELDS, errors: t.Mapping[str, t.Any] = ERRORS) -> t.Dict[str, t.Any]:
    system = {"driver_version": "570.172.08", "nvml_version": "12.570.172.08", "cuda_version": 12080}
    gpu = {"index": 0, "fields": dict(fields), "errors": dict(errors)}
    return copy.deepcopy({"system": system, "count": 1, "gpus": [gpu], "error": None})


def only(**changes: t.Any) -> Gpu:
    """The GPU with these fields changed; None takes a field out."""
    fields = {name: value for name, value in {**FIELDS, **changes}.items() if value is not None}
    (gpu,) = nvml.parse(raw(fields)).gpus
    return gpu


def failing(**errors: int) -> Gpu:
    """The GPU with these questions answered by these codes."""
    fields = {name: value for name, value in FIELDS.items() if name not in errors}
    (gpu,) = nvml.parse(raw(fields, {name: {"code": code, "text": "?"} for name, code in errors.items()})).gpus
    return gpu


def test_nvml_and_nvidia_smi_say_the_same_of_one_gpu() -> None:
    read, printed = nvml.parse(raw()), nvidia_smi.parse(TEXT)
    assert (read.source, read.complete, read.attached, read.error_kind) == ("nvml", True, 1, None)
    assert (read.driver_version, read.cuda_version, read.nvml_version) == ("570.172.08", "12.8", "12.570.172.08")
    ours, theirs = vars(read.gpus[0]), vars(printed.gpus[0])
    assert {name: value for name, value in ours.items() if name not in ONE_SOURCE} == {
        name: value for name, value in theirs.items() if name not in ONE_SOURCE
    }
    assert read.gpus[0].unsupported - {"temperature_max_operating_c"} == printed.gpus[0].unsupported


def test_links() -> None:
    assert only().nvlinks == (NvLink(0, True, 26.562, "0000:07:00", 0, 4, 0), NvLink(1, False))
    assert "nvlinks" in only(nvlink_count=0, nvlinks=[]).unsupported


@pytest.mark.parametrize(
    ("change", "field", "value"),
    [
        pytest.param({"recovery_action": 1}, "recovery_action", "Reset", id="reset"),
        pytest.param({"recovery_action": 2}, "recovery_action", "Reboot", id="reboot"),
        pytest.param({"recovery_action": 4}, "recovery_action", "Drain and Reset", id="drain and reset"),
        pytest.param({"recovery_action": 99}, "recovery_action", "action 99", id="an action of the future"),
        pytest.param({"recovery_action": 1}, "state", "requires_reset", id="state"),
        pytest.param({"recovery_action": None, "reset_status": 1}, "reset_required", True, id="driver 535"),
        pytest.param({"recovery_action": None, "reset_status": 1}, "state", "requires_reset", id="state, driver 535"),
        pytest.param({"performance_state": 32}, "performance_state", None, id="performance state not known"),
        pytest.param({"memory": {"total": 8 * MIB, "used": MIB, "free": 7 * MIB}}, "memory_reserved_mib", None, id="memory, old form"),
        pytest.param({"remapped": [0, 2, 1, 1]}, "state", "ok", id="a pending remap is no state"),
        pytest.param({"fabric": {"state": 2, "status": 27}}, "fabric_state", "In Progress", id="fabric in progress"),
        pytest.param({"fabric": {"state": 2, "status": 27}}, "fabric_status", None, id="its status means nothing yet"),
        pytest.param({"fabric": {"state": 3, "status": 999}}, "fabric_status", "Unknown Error", id="fabric failed"),
        pytest.param({"fabric": {"state": 0, "status": 3}}, "fabric_state", None, id="no fabric"),
        pytest.param({"mig_mode": [1, 0]}, "mig_mode_pending", False, id="MIG"),
        pytest.param({"compute_mode": 3}, "compute_mode", "Exclusive_Process", id="compute mode"),
        pytest.param({"processes": []}, "processes", (), id="no processes"),
        pytest.param({"processes": None}, "processes", None, id="processes not told"),
        pytest.param(
            {"retired_single_bit": 2, "retired_double_bit": 1, "retired_pending": 1}, "retired", RetiredPages(2, 1, True), id="Volta"
        ),
        pytest.param({"architecture": 4294967295}, "architecture", None, id="architecture not known"),
    ],
)
def test_values(change: t.Mapping[str, t.Any], field: str, value: t.Any) -> None:
    assert getattr(only(**change), field) == value


@pytest.mark.parametrize(
    ("bits", "active"),
    [
        (0x1, {"idle"}),
        (0x48, {"hw_slowdown", "hw_thermal_slowdown"}),
        (0x88 | 0x20, {"hw_slowdown", "hw_power_brake", "sw_thermal"}),
        (0x0, set()),
    ],
)
def test_several_reasons_at_once(bits: int, active: t.Set[str]) -> None:
    reasons = only(event_reasons=bits).event_reasons
    assert {name for name, value in reasons.items() if value} == active
    assert len(reasons) == 9


def test_a_reason_that_the_gpu_does_not_tell_is_not_false() -> None:
    gpu = only(event_reasons=0x1, event_reasons_supported=0x7F)
    assert "hw_power_brake" not in gpu.event_reasons
    assert {"event_reasons.hw_power_brake", "event_reasons.display_clocks"} <= gpu.unsupported
    assert only(event_reasons=None).event_reasons == {}


def test_volta_counts_by_structure() -> None:
    plain = {name: value for name, value in FIELDS.items() if not name.startswith(("ecc_volatile", "ecc_aggregate"))}
    volta = {"ecc_volatile.dram_uncorrectable": 1, "ecc_volatile.double_bit.l2_cache": 2, "ecc_volatile.double_bit.cbu": 1}
    (gpu,) = nvml.parse(raw({**plain, **volta})).gpus
    assert (gpu.ecc_layout, gpu.ecc_volatile) == ("volta", EccCounters(sram_uncorrectable=3, dram_uncorrectable=1))


@pytest.mark.parametrize("code", [2, 3, 13, 25, 26])
def test_what_the_gpu_or_the_library_lacks_is_not_supported(code: int) -> None:
    gpu = failing(temperature_margin_c=code, remapped=code, ecc_mode=code, utilisation=code)
    assert {"temperature_margin_c", "remapped", "ecc_mode", "utilisation_pct"} <= gpu.unsupported
    assert (gpu.temperature_margin_c, gpu.utilisation_pct, gpu.errors, gpu.state) == (None, None, {}, "ok")


@pytest.mark.parametrize(
    ("code", "text", "state"),
    [
        pytest.param(15, "GPU is lost", "lost", id="lost"),
        pytest.param(16, "GPU requires reset", "requires_reset", id="reset required"),
        pytest.param(999, "Unknown Error", "error", id="unknown error"),
        pytest.param(10, "Timeout", "error", id="timeout"),
        pytest.param(4, "Insufficient Permissions", "ok", id="permission"),
        pytest.param(54321, "?", "error", id="an error of the future"),
    ],
)
def test_errors(code: int, text: str, state: str) -> None:
    gpu = failing(temperature_c=code, power_mw=code, memory=code)
    assert gpu.state == state
    assert (gpu.errors["temperature_c"], gpu.errors["power_watts"], gpu.errors["memory_used_mib"]) == (text, text, text)
    assert (gpu.temperature_c, gpu.power_watts, gpu.memory_used_mib) == (None, None, None)


def test_a_lost_gpu_among_others() -> None:
    answer = raw()
    answer["count"] = 3
    lost = {"code": 15, "text": "GPU is lost"}
    answer["gpus"].append({"index": 1, "fields": {"pci": {"bus_id": "00000000:3A:00.0"}}, "errors": {"uuid": lost}})
    answer["gpus"].append({"index": 2, "fields": {}, "errors": {"gpu": lost}})
    reading = nvml.parse(answer)
    told = [(gpu.index, gpu.pci, gpu.state) for gpu in reading.gpus]
    assert told == [(0, "0000:2b:00", "ok"), (1, "0000:3a:00", "lost"), (2, None, "lost")]
    assert (reading.lost, reading.complete) == (("0000:3a:00",), True)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        pytest.param(
            {"kind": "missing_library", "code": None, "text": "No module named 'pynvml'"}, "missing_library", "pynvml", id="pynvml"
        ),
        pytest.param({"kind": "init", "code": 12, "text": "?"}, "missing_library", "libnvidia-ml", id="library"),
        pytest.param({"kind": "init", "code": 18, "text": "?"}, "version_mismatch", "different versions", id="mismatch"),
        pytest.param({"kind": "init", "code": 9, "text": "Driver Not Loaded"}, "driver_not_loaded", "Driver", id="driver"),
        pytest.param({"kind": "init", "code": 4, "text": "no"}, "permission", "no", id="permission"),
        pytest.param({"kind": "init", "code": 999, "text": "Unknown Error"}, "init_failed", "Unknown", id="init"),
        pytest.param({"kind": "count", "code": 999, "text": "Unknown Error"}, "other", "Unknown", id="count"),
        pytest.param({"kind": "init", "code": None, "text": ""}, "init_failed", "no reason", id="no reason"),
    ],
)
def test_no_answer(error: t.Mapping[str, t.Any], kind: str, words: str) -> None:
    reading = nvml.parse({"system": {}, "count": None, "gpus": [], "error": error})
    assert (reading.gpus, reading.complete, reading.error_kind) == ((), False, kind)
    assert words in (reading.error or "")


@pytest.mark.parametrize("odd", [[1], {"a": 1}, "text", 1.5, None, -1])
def test_odd_values_raise_nothing(odd: t.Any) -> None:
    for name in (*FIELDS, *ERRORS):
        (gpu,) = nvml.parse(raw({**FIELDS, name: odd})).gpus
        assert gpu.index == 0


@pytest.mark.parametrize(("count", "kind"), [(0, "no_devices"), (2, "garbled"), (None, "garbled")])
def test_fewer_gpus_than_announced(count: t.Optional[int], kind: str) -> None:
    answer = {**raw(), "count": count}
    if count == 0:
        answer["gpus"] = []
    reading = nvml.parse(answer)
    assert (reading.complete, reading.error_kind) == (False, kind)


def test_simulated() -> None:
    assert nvml.parse(raw({**FIELDS, "name": "NVIDIA H100 80GB HBM3 [simulated]"})).simulated
    assert not nvml.parse(raw()).simulated


KEYS = st.sampled_from([*FIELDS, "fields", "errors", "code", "text", "kind", "link"])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12)


@settings(max_examples=60, deadline=None)
@given(JSON, st.dictionaries(st.sampled_from([*FIELDS, *ERRORS]), JSON, max_size=6))
def test_nothing_raises(anything: t.Any, fields: t.Dict[str, t.Any]) -> None:
    nvml.parse(anything)
    nvml.parse({"system": anything, "count": anything, "gpus": anything, "error": anything})
    nvml.parse(raw({**FIELDS, **fields}, fields))
    nvml.parse(raw(fields, {"temperature_c": anything}))


def test_the_answer_survives_json() -> None:
    assert nvml.parse(json.loads(json.dumps(raw()))) == nvml.parse(raw())
