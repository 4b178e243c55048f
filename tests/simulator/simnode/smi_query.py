# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""C(nvidia-smi --query-...): CSV of chosen fields."""

from __future__ import annotations

from . import smi_gpu
from .state import ERROR_WORDS, NOT_AVAILABLE, Gpu

# A field's unit and the fact behind it.
_NUMBERS = {
    "temperature.gpu": ("", "temp.gpu"),
    "temperature.gpu.tlimit": ("", "temp.margin"),
    "temperature.memory": ("", "temp.memory"),
    "utilization.gpu": ("%", "util.gpu"),
    "utilization.memory": ("%", "util.memory"),
    "utilization.encoder": ("%", "util.encoder"),
    "utilization.decoder": ("%", "util.decoder"),
    "memory.total": ("MiB", "memory.total"),
    "memory.reserved": ("MiB", "memory.reserved"),
    "memory.used": ("MiB", "memory.used"),
    "memory.free": ("MiB", "memory.free"),
    "fan.speed": ("%", "fan"),
    "clocks.current.graphics": ("MHz", "clock.graphics"),
    "clocks.current.sm": ("MHz", "clock.sm"),
    "clocks.current.memory": ("MHz", "clock.memory"),
    "clocks.current.video": ("MHz", "clock.video"),
    "clocks.max.graphics": ("MHz", "clock.graphics_max"),
    "clocks.max.sm": ("MHz", "clock.sm_max"),
    "clocks.max.memory": ("MHz", "clock.memory_max"),
    "pcie.link.gen.current": ("", "pcie.gen"),
    "pcie.link.gen.gpucurrent": ("", "pcie.gen"),
    "pcie.link.gen.max": ("", "pcie.gen_max"),
    "pcie.link.gen.gpumax": ("", "pcie.gen_device_max"),
    "pcie.link.gen.hostmax": ("", "pcie.gen_host_max"),
    "pcie.link.width.current": ("", "pcie.width"),
    "pcie.link.width.max": ("", "pcie.width_max"),
    "retired_pages.single_bit_ecc.count": ("", "retired.single_bit"),
    "retired_pages.double_bit.count": ("", "retired.double_bit"),
    "remapped_rows.correctable": ("", "remap.correctable"),
    "remapped_rows.uncorrectable": ("", "remap.uncorrectable"),
    "remapped_rows.histogram.max": ("", "remap.max"),
    "remapped_rows.histogram.high": ("", "remap.high"),
    "remapped_rows.histogram.partial": ("", "remap.partial"),
    "remapped_rows.histogram.low": ("", "remap.low"),
    "remapped_rows.histogram.none": ("", "remap.none"),
    "compute_cap": ("", "compute_capability"),
    "ecc.errors.corrected.volatile.sram": ("", "ecc.volatile.sram_correctable"),
    "ecc.errors.corrected.volatile.dram": ("", "ecc.volatile.dram_correctable"),
    "ecc.errors.uncorrected.volatile.dram": ("", "ecc.volatile.dram_uncorrectable"),
    "ecc.errors.corrected.aggregate.sram": ("", "ecc.aggregate.sram_correctable"),
    "ecc.errors.corrected.aggregate.dram": ("", "ecc.aggregate.dram_correctable"),
    "ecc.errors.uncorrected.aggregate.dram": ("", "ecc.aggregate.dram_uncorrectable"),
}
_WATTS = {
    "power.draw": "power.draw",
    "power.draw.average": "power.average",
    "power.draw.instant": "power.draw",
    "power.limit": "power.limit",
    "enforced.power.limit": "power.limit",
    "power.default_limit": "power.default",
    "power.min_limit": "power.min",
    "power.max_limit": "power.max",
}
_TEXTS = {
    "name": "name",
    "gpu_name": "name",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "serial": "serial",
    "gpu_serial": "serial",
    "vbios_version": "vbios",
    "inforom.img": "inforom.image",
    "inforom.image": "inforom.image",
    "inforom.oem": "inforom.oem",
    "inforom.ecc": "inforom.ecc",
}
_WORDS = {
    "persistence_mode": ("persistence", ("Disabled", "Enabled")),
    "display_active": ("display.active", ("Disabled", "Enabled")),
    "display_mode": ("display.mode", ("Disabled", "Enabled")),
    "accounting.mode": ("accounting", ("Disabled", "Enabled")),
    "ecc.mode.current": ("ecc.current", ("Disabled", "Enabled")),
    "ecc.mode.pending": ("ecc.pending", ("Disabled", "Enabled")),
    "mig.mode.current": ("mig.current", ("Disabled", "Enabled")),
    "mig.mode.pending": ("mig.pending", ("Disabled", "Enabled")),
    "compute_mode": ("compute_mode", smi_gpu.COMPUTE_MODES),
    "retired_pages.pending": ("retired.pending", ("No", "Yes")),
    "remapped_rows.pending": ("remap.pending", ("No", "Yes")),
    "remapped_rows.failure": ("remap.failure", ("No", "Yes")),
    "fabric.state": ("fabric.state", smi_gpu.FABRIC_STATES),
    "gpu_recovery_action": ("recovery", smi_gpu.RECOVERY),
    "reset_status.reset_required": ("reset.required", ("No", "Yes")),
    "reset_status.drain_and_reset_recommended": ("reset.drain", ("No", "Yes")),
}
# Under these names the header and the value come out for the ones on the right, as the tool renamed them.
_RENAMED = {
    "clocks.gr": "clocks.current.graphics",
    "clocks.sm": "clocks.current.sm",
    "clocks.mem": "clocks.current.memory",
    "clocks.video": "clocks.current.video",
    "clocks.max.gr": "clocks.max.graphics",
    "clocks.max.mem": "clocks.max.memory",
    "clocks_throttle_reasons.gpu_idle": "clocks_event_reasons.gpu_idle",
    "clocks_throttle_reasons.active": "clocks_event_reasons.active",
    "clocks_throttle_reasons.supported": "clocks_event_reasons.supported",
    "clocks_throttle_reasons.sw_power_cap": "clocks_event_reasons.sw_power_cap",
    "clocks_throttle_reasons.hw_slowdown": "clocks_event_reasons.hw_slowdown",
    "clocks_throttle_reasons.hw_thermal_slowdown": "clocks_event_reasons.hw_thermal_slowdown",
    "clocks_throttle_reasons.hw_power_brake_slowdown": "clocks_event_reasons.hw_power_brake_slowdown",
    "clocks_throttle_reasons.sw_thermal_slowdown": "clocks_event_reasons.sw_thermal_slowdown",
    "clocks_throttle_reasons.sync_boost": "clocks_event_reasons.sync_boost",
}
_REASONS = {
    "gpu_idle": 0x1,
    "applications_clocks_setting": 0x2,
    "sw_power_cap": 0x4,
    "hw_slowdown": 0x8,
    "sync_boost": 0x10,
    "sw_thermal_slowdown": 0x20,
    "hw_thermal_slowdown": 0x40,
    "hw_power_brake_slowdown": 0x80,
}
_SUMS = {
    "ecc.errors.uncorrected.volatile.sram": ("volatile.sram_parity", "volatile.sram_secded"),
    "ecc.errors.uncorrected.aggregate.sram": ("aggregate.sram_parity", "aggregate.sram_secded"),
    "ecc.errors.corrected.volatile.total": ("volatile.sram_correctable", "volatile.dram_correctable"),
    "ecc.errors.corrected.aggregate.total": ("aggregate.sram_correctable", "aggregate.dram_correctable"),
    "ecc.errors.uncorrected.volatile.total": ("volatile.sram_parity", "volatile.sram_secded", "volatile.dram_uncorrectable"),
    "ecc.errors.uncorrected.aggregate.total": ("aggregate.sram_parity", "aggregate.sram_secded", "aggregate.dram_uncorrectable"),
}
_PROCESS = {"pid": "pid", "process_name": "name", "name": "name", "used_gpu_memory": "used", "used_memory": "used", "type": "type"}


class UnknownField(Exception):
    pass


def header(fields: list[str], units: bool, of_process: bool = False) -> str:
    return ", ".join(_title(field, units, of_process) for field in fields)


def _title(field: str, units: bool, of_process: bool) -> str:
    field = _RENAMED.get(field, field)
    if of_process and field in _PROCESS:
        field = {"name": "process_name", "used_memory": "used_gpu_memory"}.get(field, field)
        return field + (" [MiB]" if units and field == "used_gpu_memory" else "")
    unit = "W" if field in _WATTS else _NUMBERS.get(field, ("",))[0]
    return "%s [%s]" % (field, unit) if unit and units else field


def gpu_row(gpu: Gpu, fields: list[str], units: bool) -> str:
    return ", ".join(_bracketed(_value(gpu, _RENAMED.get(field, field), units)) for field in fields)


def process_rows(gpu: Gpu, fields: list[str], units: bool) -> list[str]:
    rows = []
    for process in smi_gpu.processes(gpu):
        if process["type"] != "C":
            continue
        values = []
        for field in fields:
            value = process[_PROCESS[field]] if field in _PROCESS else _value(gpu, field, units)
            if _PROCESS.get(field) == "used" and units and value != NOT_AVAILABLE:
                value += " MiB"
            values.append(_bracketed(value))
        rows.append(", ".join(values))
    return rows


def _bracketed(value: str) -> str:
    """A word in place of a value stands in brackets: C([N/A]), C([GPU is lost])."""
    return "[%s]" % value if value == NOT_AVAILABLE or value in ERROR_WORDS.values() else value


def _value(gpu: Gpu, field: str, units: bool) -> str:
    if field in _TEXTS:
        return gpu.get(_TEXTS[field])
    if field in _NUMBERS:
        unit, name = _NUMBERS[field]
        return smi_gpu.amount(gpu, name, unit) if unit and units else gpu.get(name)
    if field in _WATTS:
        value = smi_gpu.watts(gpu, _WATTS[field])
        return value if units else value.replace(" W", "")
    if field in _WORDS:
        name, words = _WORDS[field]
        return smi_gpu.word(gpu, name, words)
    if field in _SUMS:
        counts = [gpu.number("ecc." + name) for name in _SUMS[field]]
        return gpu.get("ecc." + _SUMS[field][0]) if None in counts else str(sum(count or 0 for count in counts))
    return _special(gpu, field)


def _special(gpu: Gpu, field: str) -> str:
    domain, bus, rest = gpu.bus_id.split(":")
    device, subsystem = gpu.raw("device_id"), gpu.raw("subsystem_id")
    special = {
        "index": str(gpu.index),
        "count": gpu.node.get("gpus"),
        "timestamp": _timestamp(),
        "driver_version": gpu.node.get("driver"),
        "pci.bus_id": gpu.bus_id,
        "gpu_bus_id": gpu.bus_id,
        "pci.domain": "0x" + domain[-4:],
        "pci.bus": "0x" + bus,
        "pci.device": "0x" + rest[:2],
        "pci.device_id": device,
        "pci.sub_device_id": subsystem,
        "pstate": smi_gpu.pstate(gpu),
        "fabric.status": "Success" if gpu.number("fabric.state") == 3 else NOT_AVAILABLE,
    }
    if field in special:
        return special[field]
    family, _dot, reason = field.partition(".")
    mask = gpu.number("reasons")
    if family == "clocks_event_reasons":
        if mask is None:
            return gpu.get("reasons")
        if reason in ("active", "supported"):
            return "0x%016X" % (mask if reason == "active" else gpu.number("reasons_supported") or 0)
        if reason in _REASONS:
            return "Active" if mask & _REASONS[reason] else "Not Active"
    raise UnknownField(field)


def _timestamp() -> str:
    import time

    now = time.time()
    return time.strftime("%Y/%m/%d %H:%M:%S.", time.localtime(now)) + "%03d" % (now % 1 * 1000)
