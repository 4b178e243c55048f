# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ast
import ctypes
import json
import subprocess
import sys
import types
import typing as t
from pathlib import Path

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse import nvml as parser
from ansible_collections.kentino.gpu.plugins.module_utils._probe import nvml as probe


class Error(Exception):
    def __init__(self, value: int) -> None:
        super().__init__("NVML error %d" % value)
        self.value = value


def record(**values: t.Any) -> types.SimpleNamespace:
    return types.SimpleNamespace(**values)


class Fabric(ctypes.Structure):
    _fields_ = [("state", ctypes.c_uint), ("status", ctypes.c_uint), ("healthSummary", ctypes.c_uint)]


class SramStatus(ctypes.Structure):
    _fields_ = [
        *((start + end, ctypes.c_ulonglong) for start in ("volatile", "aggregate") for end in ("UncParity", "UncSecDed", "Cor")),
        ("bThresholdExceeded", ctypes.c_uint),
    ]


def fill(reference: t.Any, **values: t.Any) -> int:
    for name, value in values.items():
        setattr(reference._obj, name, value)
    return 0


MEMORY = {"total": 4 << 30, "used": 1 << 30, "free": 3 << 30}
# What the functions of a healthy H100 answer: a value, an error by number, or a function of the arguments after the handle.
ANSWERS: t.Dict[str, t.Any] = {
    "nvmlInit": None,
    "nvmlShutdown": None,
    "nvmlSystemGetDriverVersion": "570.172.08",
    "nvmlSystemGetNVMLVersion": b"12.570.172.08",
    "nvmlSystemGetCudaDriverVersion_v2": 12080,
    "nvmlDeviceGetCount": 2,
    "nvmlDeviceGetHandleByIndex": lambda index: index,
    "nvmlDeviceGetPciInfo": record(busId=b"00000000:2B:00.0", pciDeviceId=0x233010DE, pciSubSystemId=0x16C110DE),
    "nvmlDeviceGetUUID": "GPU-1",
    "nvmlDeviceGetSerial": "165",
    "nvmlDeviceGetName": "NVIDIA H100 80GB HBM3",
    "nvmlDeviceGetMinorNumber": 0,
    "nvmlDeviceGetArchitecture": 9,
    "nvmlDeviceGetVbiosVersion": "96",
    "nvmlDeviceGetBoardPartNumber": "692",
    "nvmlDeviceGetInforomImageVersion": "G520",
    "nvmlDeviceGetMemoryInfo": lambda *version: record(**MEMORY, **({"reserved": 1 << 20} if version else {})),
    "nvmlDeviceGetBAR1MemoryInfo": record(bar1Total=1 << 30),
    "nvmlDeviceGetUtilizationRates": record(gpu=5, memory=1),
    "nvmlDeviceGetFanSpeed": 3,
    "nvmlDeviceGetTemperature": lambda sensor: 44,
    "nvmlDeviceGetTemperatureThreshold": lambda which: {0: 98, 1: 95, 3: 87}[which],
    "nvmlDeviceGetMarginTemperature": 40,
    "nvmlDeviceGetPowerUsage": 70123,
    "nvmlDeviceGetEnforcedPowerLimit": 700000,
    "nvmlDeviceGetPowerManagementDefaultLimit": 700000,
    "nvmlDeviceGetPowerManagementLimitConstraints": [200000, 700000],
    "nvmlDeviceGetPerformanceState": 0,
    "nvmlDeviceGetClockInfo": lambda which: {1: 1755, 2: 2619}[which],
    "nvmlDeviceGetMaxClockInfo": lambda which: {1: 1980, 2: 2620}[which],
    "nvmlDeviceGetCurrentClocksEventReasons": 1,
    "nvmlDeviceGetSupportedClocksEventReasons": 0x1FF,
    "nvmlDeviceGetCurrPcieLinkGeneration": 5,
    "nvmlDeviceGetMaxPcieLinkGeneration": 5,
    "nvmlDeviceGetCurrPcieLinkWidth": 16,
    "nvmlDeviceGetMaxPcieLinkWidth": 16,
    "nvmlDeviceGetEccMode": [1, 1],
    "nvmlDeviceGetMemoryErrorCounter": lambda kind, counter, location: 100 * kind + 10 * counter + location,
    "nvmlDeviceGetSramEccErrorStatus": lambda status: fill(status, volatileUncParity=1, volatileUncSecDed=2, volatileCor=3, aggregateCor=4),
    "nvmlDeviceGetRemappedRows": (1, 2, 0, 0),
    "nvmlDeviceGetRowRemapperHistogram": record(max=639, high=1, partial=0, low=0, none=0),
    "nvmlDeviceGetGpuFabricInfoV": lambda info: fill(info, state=3, status=0, healthSummary=1),
    "nvmlDeviceGetMigMode": [0, 0],
    "nvmlDeviceGetPersistenceMode": 1,
    "nvmlDeviceGetComputeMode": 0,
    "nvmlDeviceGetComputeRunningProcesses_v3": [record(pid=11, usedGpuMemory=1 << 20), record(pid=12, usedGpuMemory=None)],
    "nvmlDeviceGetGraphicsRunningProcesses_v3": [record(pid=12, usedGpuMemory=None), record(pid=13, usedGpuMemory=2 << 20)],
    "nvmlSystemGetProcessName": lambda pid: {11: "python", 12: b"render\xff"}[pid],
    "nvmlDeviceGetNvLinkState": lambda link: 1,
    "nvmlDeviceGetNvLinkRemotePciInfo": lambda link: record(busId=b"00000000:07:00.0"),
    "nvmlMemory_v2": 0x02000028,
    "c_nvmlGpuFabricInfo_v3_t": Fabric,
    "c_nvmlEccSramErrorStatus_v1_t": SramStatus,
}
# By field id, or by field id and link.
LINK_0 = {(164, 0): 26562, (165, 0): 1, (161, 0): 5, (162, 0): 6, (163, 0): 7}
VALUES: t.Dict[t.Any, t.Any] = {82: 50, 91: 2, 94: 7, 95: 0, 193: -8, 194: -2, 230: 0, **LINK_0}
EVENT, THROTTLE = "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
OLD_PROCESSES = {
    "nvmlDeviceGetComputeRunningProcesses_v3": Error(13),
    "nvmlDeviceGetComputeRunningProcesses_v2": [record(pid=9, usedGpuMemory=0)],
    "nvmlDeviceGetGraphicsRunningProcesses_v3": [],
    "nvmlSystemGetProcessName": Error(6),
}


class Nvml:
    """A pynvml that answers as told. C(changes): other answers, for C(index) or for all GPUs; an absent function is C(...)."""

    def __init__(self, changes: t.Optional[t.Mapping[str, t.Any]] = None, values: t.Optional[t.Mapping[t.Any, t.Any]] = None) -> None:
        self.changes = dict(changes or {})
        self.values = {**VALUES, **(values or {})}
        self.calls: t.List[str] = []

    def __getattr__(self, name: str) -> t.Any:
        answers = {**ANSWERS, **self.changes, "nvmlDeviceGetFieldValues": self.fields}
        if answers.get(name, ...) is ...:
            raise AttributeError(name)
        if not name.startswith("nvml") or name == "nvmlMemory_v2":
            return answers[name]

        def call(*arguments: t.Any) -> t.Any:
            self.calls.append(name)
            if name.startswith("nvmlDevice") and not name.endswith(("Count", "HandleByIndex")):
                arguments = arguments[1:]
            answer = answers[name]
            answer = answer(*arguments) if callable(answer) else answer
            if isinstance(answer, Error):
                raise answer
            return answer

        return call

    def fields(self, wanted: t.Sequence[t.Any]) -> t.List[t.Any]:
        found = [self.values.get(field, Error(3)) for field in wanted]
        return [
            record(nvmlReturn=value.value, valueType=0, value=None)
            if isinstance(value, Error)
            else record(nvmlReturn=0, valueType=5 if value < 0 else 3, value=record(siVal=value, ullVal=value))
            for value in found
        ]


def collect(monkeypatch: pytest.MonkeyPatch, nvml: Nvml) -> t.Dict[str, t.Any]:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    answer = probe.collect()
    json.dumps(answer)
    return answer


def first(monkeypatch: pytest.MonkeyPatch, changes: t.Any = None, values: t.Any = None) -> t.Any:
    return collect(monkeypatch, Nvml(changes, values))["gpus"][0]


def test_healthy_node(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = Nvml()
    answer = collect(monkeypatch, nvml)
    assert answer["system"] == {"driver_version": "570.172.08", "nvml_version": "12.570.172.08", "cuda_version": 12080}
    assert (answer["count"], answer["error"], len(answer["gpus"])) == (2, None, 2)
    fields = answer["gpus"][1]["fields"]
    assert answer["gpus"][1]["index"] == 1
    assert fields["pci"] == {"bus_id": "00000000:2B:00.0", "device_id": 0x233010DE, "subsystem_id": 0x16C110DE}
    assert fields["memory"] == {**MEMORY, "reserved": 1 << 20}
    assert (fields["temperature_c"], fields["temperature_slowdown_c"], fields["temperature_max_operating_c"]) == (44, 95, 87)
    assert (fields["power_mw"], fields["power_limit_max_mw"], fields["clock_memory_mhz"]) == (70123, 700000, 2619)
    assert (fields["recovery_action"], fields["pcie_replays"], fields["margin_slowdown_c"]) == (0, 7, -2)
    assert (fields["ecc_volatile.sram_uncorrectable_parity"], fields["ecc_volatile.sram_uncorrectable_secded"]) == (1, 2)
    assert (fields["ecc_aggregate.sram_correctable"], fields["ecc_aggregate.dram_uncorrectable"]) == (4, 112)
    assert (fields["remapped"], fields["remapped_histogram"]["max"]) == ([1, 2, 0, 0], 639)
    assert fields["fabric"] == {"state": 3, "status": 0, "healthSummary": 1}
    assert fields["nvlinks"][0] == {
        "link": 0,
        "remote": "00000000:07:00.0",
        "speed_mbps": 26562,
        "state": 1,
        "replay_errors": 5,
        "recovery_errors": 6,
        "crc_errors": 7,
    }
    assert fields["processes"] == [
        {"pid": 11, "kind": "compute", "used": 1 << 20, "name": "python"},
        {"pid": 12, "kind": "compute", "used": None, "name": "render\ufffd"},
        {"pid": 13, "kind": "graphics", "used": 2 << 20, "name": None},
    ]
    assert nvml.calls[-1] == "nvmlShutdown"
    # A health pass must be quick.
    assert len(nvml.calls) < 2 * 75
    reading = parser.parse(answer)
    assert (reading.complete, [gpu.state for gpu in reading.gpus]) == (True, ["ok", "ok"])


def test_errors_are_recorded_by_value_and_the_rest_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = {"nvmlDeviceGetFanSpeed": Error(3), "nvmlDeviceGetPowerUsage": Error(999), "nvmlDeviceGetUUID": Error(4)}
    gpu = first(monkeypatch, failing, {82: Error(21)})
    assert gpu["errors"]["fan_pct"]["code"] == 3
    assert gpu["errors"]["power_mw"] == {"code": 999, "text": "NVML error 999"}
    assert gpu["errors"]["uuid"]["code"] == 4
    assert gpu["errors"]["memory_temperature_c"]["code"] == 21
    assert not {"fan_pct", "power_mw", "uuid", "memory_temperature_c"} & set(gpu["fields"])
    assert gpu["fields"]["temperature_c"] == 44


@pytest.mark.parametrize("handle", [15, 999])
def test_a_gpu_without_a_handle_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch, handle: int) -> None:
    answer = collect(monkeypatch, Nvml({"nvmlDeviceGetHandleByIndex": lambda index: Error(handle) if index == 0 else index}))
    assert answer["gpus"][0] == {"index": 0, "fields": {}, "errors": {"gpu": {"code": handle, "text": "NVML error %d" % handle}}}
    assert answer["gpus"][1]["fields"]["temperature_c"] == 44


def test_a_lost_gpu_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = Nvml({"nvmlDeviceGetSerial": Error(15), "nvmlDeviceGetCount": 1})
    gpu = collect(monkeypatch, nvml)["gpus"][0]
    assert set(gpu["errors"]) == {"serial"}
    assert gpu["fields"] == {"pci": {"bus_id": "00000000:2B:00.0", "device_id": 0x233010DE, "subsystem_id": 0x16C110DE}, "uuid": "GPU-1"}
    assert len(nvml.calls) < 12


def test_a_gpu_that_is_lost_while_its_links_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = first(monkeypatch, values={(165, 0): Error(15)})
    assert gpu["errors"]["gpu"]["code"] == 15
    assert "nvlinks" not in gpu["fields"]
    assert parser.parse({"system": {}, "count": 1, "gpus": [gpu], "error": None}).gpus[0].state == "lost"


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        pytest.param({"nvmlMemory_v2": ...}, "memory", MEMORY, id="bindings without memory v2"),
        pytest.param({EVENT: ..., THROTTLE: 8}, "event_reasons", 8, id="bindings before driver 535"),
        pytest.param({EVENT: Error(13), THROTTLE: 8}, "event_reasons", 8, id="library before driver 535"),
        pytest.param({"c_nvmlEccSramErrorStatus_v1_t": ...}, "ecc_volatile.sram_uncorrectable", 107, id="no SRAM status"),
        pytest.param(
            {"nvmlDeviceGetSramEccErrorStatus": Error(13)}, "ecc_aggregate.sram_correctable", 17, id="library without SRAM status"
        ),
        pytest.param(OLD_PROCESSES, "processes", [{"pid": 9, "kind": "compute", "used": 0, "name": None}], id="older process list"),
        pytest.param(
            {"c_nvmlGpuFabricInfo_v3_t": ..., "c_nvmlGpuFabricInfo_v2_t": Fabric}, "fabric", {"state": 3, "status": 0}, id="fabric v2"
        ),
    ],
)
def test_older_bindings_and_libraries(monkeypatch: pytest.MonkeyPatch, changes: t.Mapping[str, t.Any], field: str, value: t.Any) -> None:
    gpu = first(monkeypatch, changes)
    assert gpu["fields"][field] == value
    assert field not in gpu["errors"]


def test_functions_that_are_missing_altogether_are_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = ("MarginTemperature", "SramEccErrorStatus", "GpuFabricInfoV", "RowRemapperHistogram", "FieldValues", "Architecture")
    answer = collect(monkeypatch, Nvml({"nvmlDeviceGet" + name: Error(13) for name in missing}))
    reading = parser.parse(answer)
    assert [gpu.state for gpu in reading.gpus] == ["ok", "ok"]
    assert reading.gpus[0].errors == {}
    assert {"temperature_margin_c", "fabric_state"} <= reading.gpus[0].unsupported


def test_replay_counter_of_drivers_without_its_field(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = first(monkeypatch, {"nvmlDeviceGetPcieReplayCounter": 9}, {94: Error(3)})
    assert gpu["fields"]["pcie_replays"] == 9
    assert "pcie_replays" not in gpu["errors"]


def test_without_ecc_no_counter_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = Nvml({"nvmlDeviceGetEccMode": Error(3)})
    gpu = collect(monkeypatch, nvml)["gpus"][0]
    assert "nvmlDeviceGetMemoryErrorCounter" not in nvml.calls
    assert not [name for name in gpu["fields"] if name.startswith("ecc_")]
    assert {"ecc_mode", "ecc_volatile", "ecc_aggregate"} <= set(gpu["errors"])


def test_volta_counts_by_structure(monkeypatch: pytest.MonkeyPatch) -> None:
    counters = {"nvmlDeviceGetMemoryErrorCounter": lambda kind, counter, location: Error(3) if location == 7 else 5}
    gpu = first(monkeypatch, {**counters, "c_nvmlEccSramErrorStatus_v1_t": ...}, {10: 2, 17: 1, 21: 4})
    assert gpu["fields"]["ecc_volatile.double_bit.l2_cache"] == 2
    assert gpu["fields"]["ecc_volatile.double_bit.cbu"] == 1
    assert gpu["fields"]["ecc_aggregate.double_bit.l2_cache"] == 4
    (read,) = parser.parse({"system": {}, "count": 1, "gpus": [gpu], "error": None}).gpus
    assert read.ecc_layout == "volta"
    assert read.ecc_volatile is not None
    assert (read.ecc_volatile.sram_uncorrectable, read.ecc_volatile.dram_uncorrectable) == (3, 5)


def test_link_counters_of_ampere_are_fields_by_link(monkeypatch: pytest.MonkeyPatch) -> None:
    newer = {(field, 0): Error(3) for field in (161, 162, 163)}
    gpu = first(monkeypatch, values={**newer, 91: 8, 32: 1, 46: 2, 53: 3, 97: 4})
    assert [gpu["fields"]["nvlinks"][0][name] for name in ("crc_errors", "replay_errors", "recovery_errors")] == [1, 2, 3]
    assert gpu["fields"]["nvlinks"][7]["crc_errors"] == 4


@pytest.mark.parametrize(
    ("changes", "kind", "code"),
    [
        pytest.param({"nvmlInit": Error(18)}, "init", 18, id="versions differ"),
        pytest.param({"nvmlInit": Error(9)}, "init", 9, id="driver not loaded"),
        pytest.param({"nvmlInit": Error(12)}, "init", 12, id="no library"),
        pytest.param({"nvmlDeviceGetCount": Error(999)}, "count", 999, id="count"),
    ],
)
def test_no_answer_at_all(monkeypatch: pytest.MonkeyPatch, changes: t.Mapping[str, t.Any], kind: str, code: int) -> None:
    answer = collect(monkeypatch, Nvml(changes))
    assert (answer["gpus"], answer["error"]["kind"], answer["error"]["code"]) == ([], kind, code)


def test_no_bindings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    answer = probe.collect()
    assert answer["error"]["kind"] == "missing_library"
    assert "pynvml" in answer["error"]["text"]


def test_progress_names_the_gpu_that_is_asked_next(monkeypatch: pytest.MonkeyPatch) -> None:
    told: t.List[str] = []
    monkeypatch.setitem(sys.modules, "pynvml", Nvml())
    probe.collect(told.append)
    assert told == ["GPU 0", "GPU 1"]


def test_the_file_runs_by_itself_and_imports_only_the_standard_library() -> None:
    """The modules travel to the node in a zip, from which a child process cannot import."""
    source = Path(probe.__file__).read_text(encoding="utf-8")
    imports = {alias.name for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import) for alias in node.names}
    assert imports == {"ctypes", "json", "sys", "typing", "pynvml"}
    # Without site packages there is no pynvml.
    done = subprocess.run([sys.executable, "-I", "-S", "-c", source], capture_output=True, check=True, timeout=60)
    assert json.loads(done.stdout)["error"]["kind"] == "missing_library"
