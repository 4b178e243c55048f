# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask NVML about every GPU, through pynvml. Private to kentino.gpu.

A call into a sick driver may never return, so this runs in a child process that the caller can kill: forked, or by
C(python -c) with this file's text, which is why it imports nothing of the collection. What one GPU or one call answers with an
error is recorded, and the rest is asked all the same.
"""

from __future__ import annotations

import ctypes
import json
import sys
import typing as t

_Json = t.Dict[str, t.Any]

_GPU_IS_LOST = 15
_FUNCTION_NOT_FOUND = 13
# The library is older than what it was asked for: try the form before.
_OLDER = (2, 13, 25)

# nvml.h: field ids that are asked in one call.
_FIELDS: t.Mapping[str, int] = {
    "memory_temperature_c": 82,
    "retired_single_bit": 29,
    "retired_double_bit": 30,
    "retired_pending": 31,
    "nvlink_speed_mbps": 90,
    "nvlink_count": 91,
    "pcie_replays": 94,
    "pcie_replay_rollovers": 95,
    "margin_shutdown_c": 193,
    "margin_slowdown_c": 194,
    "reset_status": 226,
    "drain_reset_status": 227,
    "recovery_action": 230,
}
# Scope is the link. The three error counters are those of Hopper and newer; 215 replaces recovery on NVLink 5.
_LINK_FIELDS: t.Mapping[str, int] = {
    "speed_mbps": 164,
    "state": 165,
    "replay_errors": 161,
    "recovery_errors": 162,
    "crc_errors": 163,
    "recovery_events": 215,
}
# Up to Ampere the link is in the number: links 0 to 5, links 6 to 11.
_OLD_LINK_FIELDS: t.Mapping[str, t.Tuple[int, int]] = {"crc_errors": (32, 96), "replay_errors": (46, 108), "recovery_errors": (53, 114)}
_OLD_LINKS = 12
# Volta and older count by structure. L1, L2, device, register, texture: a pair (single bit, double bit); CBU: double bit only.
_STRUCTURES = ("l1_cache", "l2_cache", "device_memory", "register_file", "texture_memory")
_OLD_ECC: t.Mapping[str, int] = {
    "ecc_%s.%s_bit.%s" % (section, bits, name): first + 2 * at + second
    for section, first in (("volatile", 7), ("aggregate", 18))
    for at, name in enumerate(_STRUCTURES)
    for second, bits in enumerate(("single", "double"))
}
_OLD_CBU = {"ecc_volatile.double_bit.cbu": 17, "ecc_aggregate.double_bit.cbu": 28}
_VALUE = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}

_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_SHUTDOWN, _SLOWDOWN, _GPU_MAX = 0, 1, 3
_DRAM, _SRAM = 2, 7


def collect(progress: t.Optional[t.Callable[[str], object]] = None) -> _Json:
    """Everything, as JSON has it: C({"system", "count", "gpus": [{"index", "fields", "errors"}], "error"}).

    Values are in NVML's own units (mW, bytes, MB/s). C(errors) of a GPU names, for each value that could not be had,
    NVML's code and text. C(error) is None, or why there is nothing. C(progress) is told which GPU is asked next.
    """
    answer: _Json = {"system": {}, "count": None, "gpus": [], "error": None}
    try:
        import pynvml
    except Exception as exc:
        answer["error"] = {"kind": "missing_library", "code": None, "text": "pynvml cannot be imported: %s" % exc}
        return answer
    try:
        pynvml.nvmlInit()
    except Exception as exc:
        answer["error"] = {"kind": "init", **_problem(exc)}
        return answer
    try:
        _collect(pynvml, answer, progress or (lambda text: None))
    finally:
        try:
            pynvml.nvmlShutdown()
        except Exception as exc:
            answer["system"]["shutdown"] = str(exc)
    return answer


def _collect(nvml: t.Any, answer: _Json, progress: t.Callable[[str], object]) -> None:
    system = _Asker(nvml)
    system.ask("driver_version", "nvmlSystemGetDriverVersion")
    system.ask("nvml_version", "nvmlSystemGetNVMLVersion")
    system.ask("cuda_version", "nvmlSystemGetCudaDriverVersion_v2")
    system.ask("count", "nvmlDeviceGetCount")
    answer["system"] = {name: value for name, value in system.fields.items() if name != "count"}
    if "count" not in system.fields:
        answer["error"] = {"kind": "count", **system.errors["count"]}
        return
    answer["count"] = system.fields["count"]
    for index in range(answer["count"]):
        progress("GPU %d" % index)
        asker = _Asker(nvml)
        _gpu(asker, index)
        answer["gpus"].append({"index": index, "fields": asker.fields, "errors": asker.errors})


def _problem(exc: BaseException) -> _Json:
    code = getattr(exc, "value", None)
    if isinstance(exc, AttributeError):
        return {"code": _FUNCTION_NOT_FOUND, "text": "the Python bindings lack this: %s" % exc}
    return {"code": code if isinstance(code, int) else None, "text": str(exc) or type(exc).__name__}


def _plain(value: t.Any) -> t.Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, (int, float, str, list, dict, tuple)) or value is None else str(value)


class _Asker:
    """Puts each answer, or each error, under its name."""

    def __init__(self, nvml: t.Any) -> None:
        self.nvml = nvml
        self.handle: t.Any = None
        self.fields: _Json = {}
        self.errors: _Json = {}

    @property
    def lost(self) -> bool:
        return any(error["code"] == _GPU_IS_LOST for error in self.errors.values())

    def ask(self, name: str, function: str, *arguments: t.Any, read: t.Optional[t.Callable[[t.Any], t.Any]] = None) -> bool:
        """Whether it was answered."""
        try:
            value = getattr(self.nvml, function)(*arguments)
            self.fields[name] = _plain(read(value) if read else value)
        except Exception as exc:
            self.errors[name] = _problem(exc)
            return False
        self.errors.pop(name, None)
        return True

    def gpu(self, name: str, function: str, *arguments: t.Any, read: t.Optional[t.Callable[[t.Any], t.Any]] = None) -> bool:
        """As C(ask), about this GPU. One that is lost is not asked again: each question would wait for its own time-out."""
        if self.lost:
            return False
        return self.ask(name, function, self.handle, *arguments, read=read)

    def code(self, name: str) -> t.Optional[int]:
        error = self.errors.get(name)
        return error["code"] if error else None

    def batch(self, wanted: t.Mapping[str, t.Union[int, t.Tuple[int, int]]]) -> t.Dict[str, t.Union[int, float]]:
        """Field values by name, all in one call; a field in C(errors) where it has none."""
        if self.lost or not wanted:
            return {}
        names, values = list(wanted), {}
        try:
            answers = self.nvml.nvmlDeviceGetFieldValues(self.handle, [wanted[name] for name in names])
        except Exception as exc:
            self.errors.update((name, _problem(exc)) for name in names)
            return {}
        for name, answer in zip(names, answers):
            if answer.nvmlReturn == 0 and answer.valueType in _VALUE:
                values[name] = getattr(answer.value, _VALUE[answer.valueType])
            else:
                self.errors[name] = {"code": int(answer.nvmlReturn), "text": "field value: error %d" % answer.nvmlReturn}
        return values


def _gpu(asker: _Asker, index: int) -> None:
    try:
        asker.handle = asker.nvml.nvmlDeviceGetHandleByIndex(index)
    except Exception as exc:
        asker.errors["gpu"] = _problem(exc)
        return
    _identity(asker)
    _load(asker)
    _batched(asker)
    _memory_errors(asker)
    _links(asker)
    _fabric(asker)
    _modes(asker)
    _processes(asker)


def _identity(asker: _Asker) -> None:
    asker.gpu("pci", "nvmlDeviceGetPciInfo", read=_pci)
    for name, function in (
        ("uuid", "nvmlDeviceGetUUID"),
        ("serial", "nvmlDeviceGetSerial"),
        ("name", "nvmlDeviceGetName"),
        ("minor", "nvmlDeviceGetMinorNumber"),
        ("architecture", "nvmlDeviceGetArchitecture"),
        ("vbios", "nvmlDeviceGetVbiosVersion"),
        ("board_part", "nvmlDeviceGetBoardPartNumber"),
        ("inforom", "nvmlDeviceGetInforomImageVersion"),
    ):
        asker.gpu(name, function)


def _pci(info: t.Any) -> _Json:
    return {"bus_id": _plain(info.busId), "device_id": info.pciDeviceId, "subsystem_id": info.pciSubSystemId}


def _load(asker: _Asker) -> None:
    version = getattr(asker.nvml, "nvmlMemory_v2", None)
    memory = ("total", "used", "free", "reserved")
    if version is None or not asker.gpu("memory", "nvmlDeviceGetMemoryInfo", version, read=_parts(*memory)):
        # Without "reserved", what the driver keeps counts as used.
        asker.gpu("memory", "nvmlDeviceGetMemoryInfo", read=_parts(*memory[:3]))
    asker.gpu("bar1_total", "nvmlDeviceGetBAR1MemoryInfo", read=lambda info: info.bar1Total)
    asker.gpu("utilisation", "nvmlDeviceGetUtilizationRates", read=_parts("gpu", "memory"))
    asker.gpu("fan_pct", "nvmlDeviceGetFanSpeed")
    asker.gpu("temperature_c", "nvmlDeviceGetTemperature", 0)
    asker.gpu("temperature_shutdown_c", "nvmlDeviceGetTemperatureThreshold", _SHUTDOWN)
    asker.gpu("temperature_slowdown_c", "nvmlDeviceGetTemperatureThreshold", _SLOWDOWN)
    asker.gpu("temperature_max_operating_c", "nvmlDeviceGetTemperatureThreshold", _GPU_MAX)
    asker.gpu("temperature_margin_c", "nvmlDeviceGetMarginTemperature")
    asker.gpu("power_mw", "nvmlDeviceGetPowerUsage")
    asker.gpu("power_limit_mw", "nvmlDeviceGetEnforcedPowerLimit")
    asker.gpu("power_limit_default_mw", "nvmlDeviceGetPowerManagementDefaultLimit")
    asker.gpu("power_limit_max_mw", "nvmlDeviceGetPowerManagementLimitConstraints", read=lambda limits: limits[1])
    asker.gpu("performance_state", "nvmlDeviceGetPerformanceState")
    asker.gpu("clock_sm_mhz", "nvmlDeviceGetClockInfo", _CLOCK_SM)
    asker.gpu("clock_memory_mhz", "nvmlDeviceGetClockInfo", _CLOCK_MEMORY)
    asker.gpu("clock_sm_max_mhz", "nvmlDeviceGetMaxClockInfo", _CLOCK_SM)
    asker.gpu("clock_memory_max_mhz", "nvmlDeviceGetMaxClockInfo", _CLOCK_MEMORY)
    for name, what in (("event_reasons", "Current"), ("event_reasons_supported", "Supported")):
        asker.gpu(name, "nvmlDeviceGet%sClocksEventReasons" % what)
        if asker.code(name) == _FUNCTION_NOT_FOUND:  # the name before driver 535
            asker.gpu(name, "nvmlDeviceGet%sClocksThrottleReasons" % what)
    asker.gpu("pcie_gen", "nvmlDeviceGetCurrPcieLinkGeneration")
    asker.gpu("pcie_gen_max", "nvmlDeviceGetMaxPcieLinkGeneration")
    asker.gpu("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth")
    asker.gpu("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth")


def _parts(*names: str) -> t.Callable[[t.Any], _Json]:
    return lambda record: {name: getattr(record, name) for name in names}


def _batched(asker: _Asker) -> None:
    asker.fields.update(asker.batch(_FIELDS))
    if "pcie_replays" not in asker.fields:
        asker.gpu("pcie_replays", "nvmlDeviceGetPcieReplayCounter")


def _memory_errors(asker: _Asker) -> None:
    asker.gpu("ecc_mode", "nvmlDeviceGetEccMode")
    if asker.fields.get("ecc_mode", [0])[0]:
        _ecc(asker)
    elif not asker.lost:
        # Nothing is counted, and every counter would say so on its own.
        off = asker.errors.get("ecc_mode", {"code": 3, "text": "ECC is off"})
        asker.errors.update(ecc_volatile=off, ecc_aggregate=off)
    asker.gpu("remapped", "nvmlDeviceGetRemappedRows", read=list)
    if "remapped" in asker.fields:
        asker.gpu("remapped_histogram", "nvmlDeviceGetRowRemapperHistogram", read=_parts("max", "high", "partial", "low", "none"))


def _ecc(asker: _Asker) -> None:
    known = _sram_status(asker)
    for counter, section in ((0, "ecc_volatile"), (1, "ecc_aggregate")):
        for kind, word in ((0, "correctable"), (1, "uncorrectable")):
            for location, memory in ((_SRAM, "sram"), (_DRAM, "dram")):
                if memory == "dram" or not known:
                    name = "%s.%s_%s" % (section, memory, word)
                    asker.gpu(name, "nvmlDeviceGetMemoryErrorCounter", kind, counter, location)
    if not known and not any(".sram_" in name for name in asker.fields) and not asker.lost:
        old = asker.batch({**_OLD_ECC, **_OLD_CBU})
        asker.fields.update(old)
        if old:
            asker.errors = {name: error for name, error in asker.errors.items() if ".sram_" not in name}


def _sram_status(asker: _Asker) -> bool:
    """SRAM counters of driver 535 and newer, which tell whether the GPU itself thinks that they are too many."""
    make = getattr(asker.nvml, "c_nvmlEccSramErrorStatus_v1_t", None)
    if make is None:
        return False
    status = make()
    if not asker.gpu("sram_status", "nvmlDeviceGetSramEccErrorStatus", ctypes.byref(status), read=lambda dummy: None):
        return False
    del asker.fields["sram_status"]
    for section, start in (("ecc_volatile", "volatile"), ("ecc_aggregate", "aggregate")):
        asker.fields[section + ".sram_correctable"] = getattr(status, start + "Cor")
        asker.fields[section + ".sram_uncorrectable_parity"] = getattr(status, start + "UncParity")
        asker.fields[section + ".sram_uncorrectable_secded"] = getattr(status, start + "UncSecDed")
    asker.fields["sram_threshold_exceeded"] = bool(status.bThresholdExceeded)
    return True


def _links(asker: _Asker) -> None:
    number = asker.fields.get("nvlink_count") or 0
    if asker.lost or not 0 < number <= 64:
        return
    errors = dict(asker.errors)
    values = asker.batch({"%d.%s" % (link, name): (field, link) for link in range(number) for name, field in _LINK_FIELDS.items()})
    if not any(name.endswith(".replay_errors") for name in values):
        old = {
            "%d.%s" % (link, name): fields[link // 6] + link % 6
            for link in range(min(number, _OLD_LINKS))
            for name, fields in _OLD_LINK_FIELDS.items()
        }
        values.update(asker.batch(old))
    # What a link does not tell is no error of the GPU.
    lost = asker.lost
    asker.errors = errors
    if lost:
        asker.errors["gpu"] = {"code": _GPU_IS_LOST, "text": "GPU is lost"}
        return
    asker.fields["nvlinks"] = [_link(asker, link, values) for link in range(number)]


def _link(asker: _Asker, link: int, values: t.Mapping[str, t.Any]) -> _Json:
    record = {name: values.get("%d.%s" % (link, name)) for name in _LINK_FIELDS}
    if record["state"] is None:
        record["state"] = _quiet(asker.nvml.nvmlDeviceGetNvLinkState, asker.handle, link)
    if record["recovery_errors"] is None:
        record["recovery_errors"] = record["recovery_events"]
    if record["speed_mbps"] is None:
        record["speed_mbps"] = asker.fields.get("nvlink_speed_mbps")
    remote = _quiet(asker.nvml.nvmlDeviceGetNvLinkRemotePciInfo, asker.handle, link) if record["state"] else None
    del record["recovery_events"]
    return {"link": link, "remote": _plain(remote.busId) if remote else None, **record}


def _quiet(question: t.Callable[..., t.Any], *arguments: t.Any) -> t.Any:
    try:
        return question(*arguments)
    except Exception:
        return None


def _fabric(asker: _Asker) -> None:
    for function, structure, names in (
        ("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v3_t", ("state", "status", "healthSummary")),
        ("nvmlDeviceGetGpuFabricInfoV", "c_nvmlGpuFabricInfo_v2_t", ("state", "status")),
        ("nvmlDeviceGetGpuFabricInfo", "c_nvmlGpuFabricInfo_t", ("state", "status")),
    ):
        make = getattr(asker.nvml, structure, None)
        if make is None:
            continue
        info = make()
        if asker.gpu("fabric", function, ctypes.byref(info), read=lambda dummy: None):
            asker.fields["fabric"] = _parts(*names)(info)
            return
        if asker.code("fabric") not in _OLDER:
            return


def _modes(asker: _Asker) -> None:
    asker.gpu("mig_mode", "nvmlDeviceGetMigMode")
    asker.gpu("persistence_mode", "nvmlDeviceGetPersistenceMode")
    asker.gpu("compute_mode", "nvmlDeviceGetComputeMode")


def _processes(asker: _Asker) -> None:
    found: t.Dict[int, _Json] = {}
    for kind, what in (("compute", "Compute"), ("graphics", "Graphics")):
        for version in ("_v3", "_v2"):
            if asker.gpu("processes", "nvmlDeviceGet%sRunningProcesses%s" % (what, version), read=_process_list(kind)):
                break
            if asker.code("processes") not in _OLDER:
                return
        else:
            return
        for process in asker.fields.pop("processes"):
            # C+G: one process in both lists.
            found.setdefault(process["pid"], process)
    for process in found.values():
        process["name"] = _plain(_quiet(asker.nvml.nvmlSystemGetProcessName, process["pid"])) or None
    if not asker.lost:
        asker.fields["processes"] = list(found.values())


def _process_list(kind: str) -> t.Callable[[t.Any], t.List[_Json]]:
    return lambda processes: [{"pid": process.pid, "kind": kind, "used": process.usedGpuMemory} for process in processes]


if __name__ == "__main__":
    # The last word on stderr tells which GPU a hung driver was asked about.
    sys.stdout.write(json.dumps(collect(lambda text: sys.stderr.write(text + "\n"))) + "\n")
