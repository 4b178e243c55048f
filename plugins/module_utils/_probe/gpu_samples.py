# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Look at the GPUs again and again while something loads them. Private to kentino.gpu.

In a child of its own: a driver that hangs under load then keeps only that child waiting. Through NVML where pynvml is installed,
else through nvidia-smi. Each sample is one line of JSON: C(usec), the time, and C(raw) as C(nvml.collect) has it, or C(text) and
C(rc) of nvidia-smi. What never changes is asked once, so that a sample costs a few cheap calls for each GPU.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import typing as t

from . import command, guard

_Json = t.Dict[str, t.Any]

# The first samples follow each other closely: a short run is seen as well, and a fault at once.
_FIRST_SECONDS = 0.2
_GROWTH = 1.5
_SMI_SECONDS = 20.0

# Names that every driver from 390 on knows; the two limits of temperature are told by NVML only.
_QUERY = (
    "index,count,uuid,serial,pci.bus_id,name,pstate,temperature.gpu,power.draw,enforced.power.limit,utilization.gpu,clocks.sm,"
    "clocks.max.sm,clocks.mem,clocks_throttle_reasons.active,pcie.link.gen.current,pcie.link.gen.max,pcie.link.width.current,"
    "pcie.link.width.max,ecc.errors.corrected.volatile.total,ecc.errors.uncorrected.volatile.total"
)
COMMAND = ("nvidia-smi", "--query-gpu=" + _QUERY, "--format=csv")

# nvml.h: what is asked in one call. Memory temperature, PCIe replays, and the volatile ECC totals.
_FIELDS = {82: "memory_temperature_c", 94: "pcie_replays", 3: "ecc_volatile.correctable", 4: "ecc_volatile.uncorrectable"}
_VALUE = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}
_DRAM, _SRAM = 2, 7
_GPU_IS_LOST = 15
_FUNCTION_NOT_FOUND = 13

_Questions = t.Tuple[t.Tuple[str, str, t.Tuple[t.Any, ...]], ...]
_ONCE: _Questions = (
    ("uuid", "nvmlDeviceGetUUID", ()),
    ("serial", "nvmlDeviceGetSerial", ()),
    ("name", "nvmlDeviceGetName", ()),
    ("temperature_shutdown_c", "nvmlDeviceGetTemperatureThreshold", (0,)),
    ("temperature_slowdown_c", "nvmlDeviceGetTemperatureThreshold", (1,)),
    ("clock_sm_max_mhz", "nvmlDeviceGetMaxClockInfo", (1,)),
    ("pcie_gen_max", "nvmlDeviceGetMaxPcieLinkGeneration", ()),
    ("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth", ()),
)
_EACH_TIME: _Questions = (
    ("temperature_c", "nvmlDeviceGetTemperature", (0,)),
    ("temperature_margin_c", "nvmlDeviceGetMarginTemperature", ()),
    ("power_mw", "nvmlDeviceGetPowerUsage", ()),
    ("power_limit_mw", "nvmlDeviceGetEnforcedPowerLimit", ()),
    ("performance_state", "nvmlDeviceGetPerformanceState", ()),
    ("clock_sm_mhz", "nvmlDeviceGetClockInfo", (1,)),
    ("clock_memory_mhz", "nvmlDeviceGetClockInfo", (2,)),
    ("pcie_gen", "nvmlDeviceGetCurrPcieLinkGeneration", ()),
    ("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", ()),
)


class Sampler:
    """C(descriptor) can be read from; C(feed) makes samples of what was read."""

    def __init__(self, interval_seconds: float, source: str = "auto") -> None:
        self._child = guard.start_function(lambda out: _sample(out, interval_seconds, source))
        self.descriptor = self._child.stdout
        self._rest = b""

    def feed(self, chunk: bytes) -> t.List[_Json]:
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        return [sample for sample in map(_loaded, lines) if sample is not None]

    def close(self) -> None:
        self._child.close()


def _loaded(line: bytes) -> t.Optional[_Json]:
    try:
        sample = json.loads(line)
    except ValueError:
        return None
    return sample if isinstance(sample, dict) else None


def _sample(out: int, interval_seconds: float, source: str) -> None:
    """Never ends; the samples come closer than C(interval_seconds) at first."""
    take = _smi_taker() if source == "nvidia_smi" else _nvml_taker() or _smi_taker()
    pause = min(_FIRST_SECONDS, interval_seconds)
    while True:
        begin = time.monotonic()
        line = json.dumps(dict(take(), usec=int(time.time() * 1e6))).encode() + b"\n"
        while line:
            line = line[os.write(out, line) :]
        time.sleep(max(0.05, begin + pause - time.monotonic()))
        pause = min(pause * _GROWTH, interval_seconds)


def _smi_taker() -> t.Callable[[], _Json]:
    def take() -> _Json:
        done = command.run(COMMAND, _SMI_SECONDS)
        return {"text": (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace"), "rc": done.rc, "problem": done.problem()}

    return take


def _nvml_taker() -> t.Optional[t.Callable[[], _Json]]:
    """None where there is no NVML to ask."""
    try:
        import pynvml

        pynvml.nvmlInit()
        cards = [_Card(pynvml, index) for index in range(pynvml.nvmlDeviceGetCount())]
    except Exception:
        return None

    def take() -> _Json:
        # The library itself notices here that a GPU has gone.
        with contextlib.suppress(Exception):
            pynvml.nvmlDeviceGetCount()
        return {"raw": {"system": {}, "count": len(cards), "gpus": [card.take() for card in cards], "error": None}}

    return take


class _Card:
    def __init__(self, nvml: t.Any, index: int) -> None:
        self._nvml = nvml
        self._index = index
        self._handle: t.Any = None
        self._once: t.Optional[_Json] = None
        self._names: t.Dict[int, t.Optional[str]] = {}
        self._reasons = "nvmlDeviceGetCurrentClocksEventReasons"
        self._ask_counters = True

    def take(self) -> _Json:
        answer: _Json = {"index": self._index, "fields": {}, "errors": {}}
        try:
            self._handle = self._handle or self._nvml.nvmlDeviceGetHandleByIndex(self._index)
        except Exception as exc:
            answer["errors"]["gpu"] = _problem(exc)
            return answer
        if self._once is None:
            self._ask_all(answer, _ONCE)
            self._ask(answer, "pci", lambda: _pci(self._nvml.nvmlDeviceGetPciInfo(self._handle)))
            self._once = dict(answer["fields"])
        answer["fields"].update(self._once)
        self._ask_all(answer, _EACH_TIME)
        self._ask(answer, "utilisation", lambda: _use(self._nvml.nvmlDeviceGetUtilizationRates(self._handle)))
        self._ask_reasons(answer)
        self._ask_fields(answer)
        self._ask(answer, "processes", self._processes)
        return answer

    def _ask_all(self, answer: _Json, questions: _Questions) -> None:
        for name, function, arguments in questions:
            self._ask(answer, name, lambda f=function, a=arguments: getattr(self._nvml, f)(self._handle, *a))  # type: ignore[misc]

    def _ask(self, answer: _Json, name: str, question: t.Callable[[], t.Any]) -> None:
        # Each question to a lost GPU waits for its own time-out.
        if any(error["code"] == _GPU_IS_LOST for error in answer["errors"].values()):
            return
        try:
            value = question()
        except Exception as exc:
            answer["errors"][name] = _problem(exc)
            return
        answer["fields"][name] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    def _ask_reasons(self, answer: _Json) -> None:
        self._ask(answer, "event_reasons", lambda: getattr(self._nvml, self._reasons)(self._handle))
        if answer["errors"].get("event_reasons", {}).get("code") == _FUNCTION_NOT_FOUND and "Event" in self._reasons:
            del answer["errors"]["event_reasons"]
            self._reasons = "nvmlDeviceGetCurrentClocksThrottleReasons"  # the name before driver 535
            self._ask_reasons(answer)

    def _ask_fields(self, answer: _Json) -> None:
        def ask() -> _Json:
            values = {}
            for record in self._nvml.nvmlDeviceGetFieldValues(self._handle, list(_FIELDS)):
                if record.nvmlReturn == 0 and record.fieldId in _FIELDS and record.valueType in _VALUE:
                    values[_FIELDS[record.fieldId]] = getattr(record.value, _VALUE[record.valueType])
            return values

        self._ask(answer, "batch", ask)
        answer["fields"].update(answer["fields"].pop("batch", {}))
        if "ecc_volatile.uncorrectable" in answer["fields"] or not self._ask_counters:
            return
        for name, location in (("dram", _DRAM), ("sram", _SRAM)):
            key = "ecc_volatile.%s_uncorrectable" % name
            self._ask(answer, key, lambda at=location: self._nvml.nvmlDeviceGetMemoryErrorCounter(self._handle, 1, 0, at))  # type: ignore[misc]
        # Without ECC each of them would say so at each sample.
        self._ask_counters = any(name.startswith("ecc_volatile.") for name in answer["fields"])

    def _processes(self) -> t.List[_Json]:
        return [
            {"pid": process.pid, "kind": "compute", "used": process.usedGpuMemory, "name": self._name(process.pid)}
            for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        ]

    def _name(self, pid: int) -> t.Optional[str]:
        if pid not in self._names:
            try:
                name = self._nvml.nvmlSystemGetProcessName(pid)
                self._names[pid] = name.decode("utf-8", "replace") if isinstance(name, bytes) else name
            except Exception:
                self._names[pid] = None
        return self._names[pid]


def _problem(exc: BaseException) -> _Json:
    code = getattr(exc, "value", None)
    if isinstance(exc, AttributeError):
        code = _FUNCTION_NOT_FOUND
    return {"code": code if isinstance(code, int) else None, "text": str(exc) or type(exc).__name__}


def _pci(info: t.Any) -> _Json:
    bus = info.busId.decode("ascii", "replace") if isinstance(info.busId, bytes) else info.busId
    return {"bus_id": bus, "device_id": info.pciDeviceId, "subsystem_id": info.pciSubSystemId}


def _use(rates: t.Any) -> _Json:
    return {"gpu": rates.gpu, "memory": rates.memory}
