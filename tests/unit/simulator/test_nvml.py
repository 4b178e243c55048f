# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NVIDIA's own Python bindings over the stub library see the scenario."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest

SIMULATOR = Path(__file__).resolve().parents[2] / "simulator"
sys.path.insert(0, str(SIMULATOR))
from simnode import render, scenario  # noqa: E402

pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")

# Runs in a process of its own: the loader reads LD_LIBRARY_PATH only at the start.
READER = r"""
import json, os, sys
import pynvml as nv

def ask(function, *words, **named):
    try:
        return function(*words, **named)
    except nv.NVMLError as exc:
        return "error %d" % exc.value

def fields(gpu, wanted):
    found = {}
    for value in nv.nvmlDeviceGetFieldValues(gpu, wanted):
        key = "%d.%d" % (value.fieldId, value.scopeId)
        kinds = {1: "uiVal", 3: "ullVal", 5: "siVal"}
        found[key] = "error %d" % value.nvmlReturn if value.nvmlReturn else getattr(value.value, kinds[value.valueType])
    return found

def fabric(gpu, kind):
    info = kind()
    done = ask(nv.nvmlDeviceGetGpuFabricInfoV, gpu, nv.byref(info))
    return done if done else [info.state, info.status]

def read(index):
    gpu = ask(nv.nvmlDeviceGetHandleByIndex, index)
    if isinstance(gpu, str):
        return {"handle": gpu}
    memory = ask(nv.nvmlDeviceGetMemoryInfo, gpu, version=nv.nvmlMemory_v2)
    old_memory = ask(nv.nvmlDeviceGetMemoryInfo, gpu)
    pci = nv.nvmlDeviceGetPciInfo(gpu)
    sram = nv.c_nvmlEccSramErrorStatus_v1_t()
    sram_code = ask(nv.nvmlDeviceGetSramEccErrorStatus, gpu, nv.byref(sram))
    histogram = ask(nv.nvmlDeviceGetRowRemapperHistogram, gpu)
    processes = ask(nv.nvmlDeviceGetComputeRunningProcesses, gpu)
    link = ask(nv.nvmlDeviceGetNvLinkRemotePciInfo, gpu, 1)
    return {
        "name": ask(nv.nvmlDeviceGetName, gpu), "uuid": ask(nv.nvmlDeviceGetUUID, gpu), "serial": ask(nv.nvmlDeviceGetSerial, gpu),
        "minor": ask(nv.nvmlDeviceGetMinorNumber, gpu), "architecture": ask(nv.nvmlDeviceGetArchitecture, gpu),
        "vbios": ask(nv.nvmlDeviceGetVbiosVersion, gpu), "part": ask(nv.nvmlDeviceGetBoardPartNumber, gpu),
        "inforom": ask(nv.nvmlDeviceGetInforomImageVersion, gpu),
        "pci": [pci.busId, pci.busIdLegacy, pci.domain, pci.bus, pci.device, hex(pci.pciDeviceId), hex(pci.pciSubSystemId)],
        "memory": memory if isinstance(memory, str) else [memory.total, memory.reserved, memory.used, memory.free],
        "old_memory": old_memory if isinstance(old_memory, str) else [old_memory.total, old_memory.used, old_memory.free],
        "fan": ask(nv.nvmlDeviceGetFanSpeed, gpu), "temperature": ask(nv.nvmlDeviceGetTemperature, gpu, 0),
        "temperature_v": ask(nv.nvmlDeviceGetTemperatureV, gpu, 0),
        "thresholds": [ask(nv.nvmlDeviceGetTemperatureThreshold, gpu, kind) for kind in (0, 1, 3)],
        "margin": ask(nv.nvmlDeviceGetMarginTemperature, gpu), "power": ask(nv.nvmlDeviceGetPowerUsage, gpu),
        "limits": ask(nv.nvmlDeviceGetPowerManagementLimitConstraints, gpu), "pstate": ask(nv.nvmlDeviceGetPerformanceState, gpu),
        "clocks": [ask(nv.nvmlDeviceGetClockInfo, gpu, 1), ask(nv.nvmlDeviceGetMaxClockInfo, gpu, 2)],
        "reasons": ask(nv.nvmlDeviceGetCurrentClocksEventReasons, gpu),
        "link": [ask(f, gpu) for f in (nv.nvmlDeviceGetCurrPcieLinkGeneration, nv.nvmlDeviceGetMaxPcieLinkGeneration,
                                       nv.nvmlDeviceGetCurrPcieLinkWidth, nv.nvmlDeviceGetMaxPcieLinkWidth)],
        "ecc_mode": ask(nv.nvmlDeviceGetEccMode, gpu),
        "ecc": [ask(nv.nvmlDeviceGetMemoryErrorCounter, gpu, kind, counter, place)
                for counter in (0, 1) for place in (2, 7) for kind in (0, 1)],
        "sram": sram_code if sram_code else [sram.aggregateUncParity, sram.aggregateUncSecDed, sram.volatileUncSecDed,
                                             sram.aggregateUncBucketL2, sram.aggregateUncBucketSm, sram.bThresholdExceeded],
        "remapped": ask(nv.nvmlDeviceGetRemappedRows, gpu),
        "histogram": histogram if isinstance(histogram, str) else [getattr(histogram, name) for name, _kind in histogram._fields_],
        "mig": ask(nv.nvmlDeviceGetMigMode, gpu), "persistence": ask(nv.nvmlDeviceGetPersistenceMode, gpu),
        "processes": processes if isinstance(processes, str) else [
            [process.pid, process.usedGpuMemory, nv.nvmlSystemGetProcessName(process.pid)] for process in processes
        ],
        "fields": ask(fields, gpu, [82, 91, 94, 193, 194, 226, 230, 9999]),
        "link_fields": ask(fields, gpu, [(field, 11) for field in (164, 165, 161, 162, 163, 215)]),
        "remote": link if isinstance(link, str) else link.busId,
        "fabric": [fabric(gpu, nv.c_nvmlGpuFabricInfo_v3_t), fabric(gpu, nv.c_nvmlGpuFabricInfo_v2_t)],
    }

def session(readings):
    started = ask(nv.nvmlInit)
    if started:
        return {"init": started}
    found = [{
        "count": nv.nvmlDeviceGetCount(),
        "gpus": [read(index) for index in range(nv.nvmlDeviceGetCount())],
    } for _ in range(readings)]
    about = {"driver": nv.nvmlSystemGetDriverVersion(), "nvml": nv.nvmlSystemGetNVMLVersion()}
    about["cuda"] = nv.nvmlSystemGetCudaDriverVersion_v2()
    nv.nvmlShutdown()
    return {"readings": found, **found[-1], **about}

# The stub reads the state anew at each nvmlInit, so one process can look at several nodes.
states = sys.argv[2:] or [os.environ["KENTINO_SIM_STATE"]]
for state in states:
    os.environ["KENTINO_SIM_STATE"] = state
    print(json.dumps(session(int(sys.argv[1]))))
"""


def _environment(name: str, folder: Path) -> t.Dict[str, str]:
    problem = render.prepare(scenario.load(name), str(folder), root=False)
    if problem:
        pytest.skip(problem)
    return dict(os.environ, **render.environment(str(folder)))


def _read(name: str, folder: Path, readings: int = 1) -> t.Dict[str, t.Any]:
    argv = [sys.executable, "-c", READER, str(readings)]
    done = subprocess.run(argv, env=_environment(name, folder), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found: t.Dict[str, t.Any] = json.loads(done.stdout)
    return found


def test_healthy_h100(tmp_path: Path) -> None:
    found = _read("h100x8", tmp_path)
    assert (found["driver"], found["nvml"], found["cuda"], found["count"]) == ("570.172.08", "12.570.172.08 [simulated]", 12080, 8)
    gpu = found["gpus"][3]
    mib = 1 << 20
    assert gpu == {
        "name": "NVIDIA H100 80GB HBM3 [simulated]",
        "uuid": "GPU-94f2d6b0-c8e1-4375-b1a9-3d7506ef82d4",
        "serial": "1654923011986",
        "minor": 3,
        "architecture": 9,
        "vbios": "96.00.A5.00.01",
        "part": "692-2G520-0200-000",
        "inforom": "G520.0200.00.05",
        "pci": ["00000000:5D:00.0", "0000:5D:00.0", 0, 0x5D, 0, "0x233010de", "0x16c110de"],
        "memory": [81559 * mib, 551 * mib, 1 * mib, 81007 * mib],
        "old_memory": [81559 * mib, 552 * mib, 81007 * mib],
        "fan": "error 3",
        "temperature": 30,
        "temperature_v": 30,
        "thresholds": [95, 89, 87],
        "margin": 57,
        "power": 70418,
        "limits": [200000, 700000],
        "pstate": 0,
        "clocks": [345, 2619],
        "reasons": 1,
        "link": [5, 5, 16, 16],
        "ecc_mode": [1, 1],
        "ecc": [0] * 8,
        "sram": [0] * 6,
        "remapped": [0, 0, 0, 0],
        "histogram": [2560, 0, 0, 0, 0],
        "mig": [0, 0],
        "persistence": 1,
        "processes": [],
        "fields": {"82.0": 37, "91.0": 18, "94.0": 0, "193.0": -8, "194.0": -2, "226.0": "error 26", "230.0": 0, "9999.0": "error 3"},
        "link_fields": {"164.11": 26562, "165.11": 1, "161.11": 0, "162.11": 0, "163.11": 0, "215.11": 0},
        "remote": "00000000:08:00.0",
        "fabric": ["error 25", [3, 0]],
    }


def test_a_consumer_card_says_what_it_does_not_have(tmp_path: Path) -> None:
    gpu = _read("rtx5090x8", tmp_path)["gpus"][0]
    assert (gpu["ecc_mode"], gpu["remapped"], gpu["mig"], gpu["part"], gpu["sram"], gpu["histogram"]) == ("error 3",) * 6
    assert gpu["ecc"] == ["error 3"] * 8
    assert gpu["fields"]["91.0"] == "error 3"
    assert gpu["serial"] == "0"
    assert gpu["fabric"][1] == [0, 0]


def test_the_newer_branch_knows_the_newer_fabric_structure(tmp_path: Path) -> None:
    assert _read("l40sx4", tmp_path)["gpus"][0]["fabric"] == [[0, 0], [0, 0]]


FAULTS: t.List[t.Tuple[str, int, t.Dict[str, t.Any]]] = [
    ("h100x8+gpu_lost", 3, {"handle": "error 15"}),
    ("h100x8+gpu_lost_queries", 3, {"temperature": "error 15", "name": "error 15", "fields": "error 15", "processes": "error 15"}),
    ("h100x8+gpu_needs_reset", 1, {"temperature": "error 16", "ecc_mode": "error 16"}),
    ("h100x8+remap_pending", 2, {"remapped": [0, 1, 1, 0], "histogram": [2559, 1, 0, 0, 0]}),
    ("h100x8+remap_failed", 2, {"remapped": [0, 8, 0, 1]}),
    ("h100x8+ecc_uncorrectable", 0, {"sram": [1, 5, 2, 4, 2, 1], "ecc": [0, 0, 0, 2, 0, 0, 0, 6]}),
    ("l40sx4+link_x4", 1, {"link": [1, 4, 4, 16]}),
    ("rtx5090x8+hot_gpu", 2, {"temperature": 90, "margin": -3, "reasons": 0x68}),
    ("rtx5090x8+power_brake", 1, {"reasons": 0x88}),
    ("h100x8+foreign_process", 2, {"processes": [[48213, 20480 << 20, "python3"]]}),
    ("h100x8+fabric_not_ready", 7, {"fabric": ["error 25", [2, 0]]}),
    ("h100x8+nvlink_down", 4, {"link_fields": {"164.11": 26562, "165.11": 0, "161.11": 37, "162.11": 5, "163.11": 212, "215.11": 5}}),
]
STARTS = [("version_mismatch", 18), ("driver_not_loaded", 9), ("nvml_error", 999)]
GONE: t.List[t.Tuple[str, t.List[int]]] = [("rtx5090x8+psu_lost", [0, 1, 2, 3]), ("rtx5090x8+missing_gpu", [0, 1, 2, 3, 4, 5, 6])]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> t.Dict[str, t.Dict[str, t.Any]]:
    """What one process reads of many nodes, one after the other."""
    names = [name for name, _gpu, _expected in FAULTS] + [name for name, _minors in GONE]
    names += ["l40sx4+" + fault for fault, _code in STARTS] + ["l40sx4+recovery_reset"]
    folders = [tmp_path_factory.mktemp("node") for _name in names]
    environments = [_environment(name, folder) for name, folder in zip(names, folders)]
    argv = [sys.executable, "-c", READER, "1", *map(str, folders)]
    done = subprocess.run(argv, env=environments[0], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return dict(zip(names, map(json.loads, done.stdout.splitlines())))


@pytest.mark.parametrize(("name", "gpu", "expected"), FAULTS)
def test_faults(name: str, gpu: int, expected: t.Dict[str, t.Any], sessions: t.Dict[str, t.Dict[str, t.Any]]) -> None:
    found = sessions[name]["gpus"]
    assert {key: found[gpu][key] for key in expected} == expected
    assert all("error" not in str(other.get("name", "error")) for index, other in enumerate(found) if index != gpu)


def test_the_recovery_action(sessions: t.Dict[str, t.Dict[str, t.Any]]) -> None:
    assert [gpu["fields"]["230.0"] for gpu in sessions["l40sx4+recovery_reset"]["gpus"]] == [0, 0, 0, 1]


@pytest.mark.parametrize(("name", "minors"), GONE)
def test_gpus_that_are_gone(name: str, minors: t.List[int], sessions: t.Dict[str, t.Dict[str, t.Any]]) -> None:
    found = sessions[name]
    assert found["count"] == len(minors)
    assert [gpu["minor"] for gpu in found["gpus"]] == minors


@pytest.mark.parametrize(("fault", "code"), STARTS)
def test_the_library_does_not_start(fault: str, code: int, sessions: t.Dict[str, t.Dict[str, t.Any]]) -> None:
    assert sessions["l40sx4+" + fault] == {"init": "error %d" % code}


def test_the_library_is_missing(tmp_path: Path) -> None:
    assert _read("l40sx4+no_nvml", tmp_path) == {"init": "error 12"}


def test_a_process_that_stays_sees_counters_climb(tmp_path: Path) -> None:
    found = _read("h100x8+ecc_climbing", tmp_path, readings=3)
    assert [reading["gpus"][6]["ecc"][0] for reading in found["readings"]] == [118203, 118203 + 4647, 118203 + 2 * 4647]
    # And the tool goes on where the library was: both count the same readings.
    argv = [str(tmp_path / "bin/nvidia-smi"), "--query-gpu=ecc.errors.corrected.volatile.dram", "--format=csv,noheader", "-i", "6"]
    environment = dict(os.environ, **render.environment(str(tmp_path)))
    assert int(subprocess.check_output(argv, env=environment)) == 118203 + 3 * 4647


def test_other_changes(tmp_path: Path) -> None:
    wanted = scenario.load("l40sx4")
    wanted.changes += [
        {"key": "gpu.0.temp.gpu", "from_reading": 2, "value": 77},
        {"key": "gpu.1.temp.gpu", "after_seconds": 3600, "value": 88},
        {"key": "gpu.2.pcie.replays", "per_second": 5},
    ]
    if render.prepare(wanted, str(tmp_path), root=False):
        pytest.skip("no compiler")
    node = tmp_path / "node"
    node.write_text(re.sub(r"^start=\d+$", "start=%d" % ((time.time() - 7200) * 1e6), node.read_text(), flags=re.MULTILINE))
    readings = _read("l40sx4", tmp_path, readings=2)["readings"]
    assert [reading["gpus"][0]["temperature"] for reading in readings] == [30, 77]
    assert readings[0]["gpus"][1]["temperature"] == 88
    assert 36000 <= readings[0]["gpus"][2]["fields"]["94.0"] < 37000


@pytest.mark.parametrize("fault", ["hung_tool", "hung_gpu"])
def test_a_hung_driver_hangs_the_caller(fault: str, tmp_path: Path) -> None:
    environment = _environment("l40sx4+" + fault, tmp_path)
    child = subprocess.Popen([sys.executable, "-c", READER, "1"], env=environment, stdout=subprocess.PIPE)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.6)
    finally:
        child.kill()
        child.communicate()
