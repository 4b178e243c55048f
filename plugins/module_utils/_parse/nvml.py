# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What _probe/nvml collected -> a reading, with the same values and words as nvidia-smi gives for the same GPU.

Private to kentino.gpu.
"""

from __future__ import annotations

import typing as t

from .gpu_draft import Draft
from .gpu_records import EVENT_REASONS, GpuProcess, GpuReading, NvLink
from .gpu_values import Failed, Unsupported, pci_address, pci_id


def _names(text: str) -> t.Tuple[str, ...]:
    return tuple(text.split())


# nvmlReturn_t. An invalid argument and a wrong version can only mean that the library is older than the question.
_UNSUPPORTED_CODES = {2, 3, 13, 22, 25, 26}
_LOST, _RESET_REQUIRED, _NO_PERMISSION = 15, 16, 4
_TEXTS = {
    1: "Uninitialized",
    4: "Insufficient Permissions",
    6: "Not Found",
    9: "Driver Not Loaded",
    10: "Timeout",
    11: "Interrupt Request Issue",
    14: "Corrupted infoROM",
    15: "GPU is lost",
    16: "GPU requires reset",
    17: "The operating system has blocked the request",
    21: "No Data",
    27: "System is not in ready state",
    999: "Unknown Error",
}
_KINDS = {_LOST: "lost", _RESET_REQUIRED: "reset", _NO_PERMISSION: "permission"}
_INIT_KINDS = {
    4: "permission",
    9: "driver_not_loaded",
    10: "timeout",
    12: "missing_library",
    17: "permission",
    18: "version_mismatch",
}
_INIT_TEXTS = {
    12: "libnvidia-ml.so.1 was not found: the NVIDIA driver's library is not installed",
    18: "driver and libnvidia-ml are of different versions",
}

_ARCHITECTURES = {
    2: "Kepler",
    3: "Maxwell",
    4: "Pascal",
    5: "Volta",
    6: "Turing",
    7: "Ampere",
    8: "Ada Lovelace",
    9: "Hopper",
    10: "Blackwell",
    13: "Rubin",
}
# As nvidia-smi words them. The last three came with bindings 13.
_RECOVERY_ACTIONS = {
    0: "None",
    1: "Reset",
    2: "Reboot",
    3: "Drain P2P",
    4: "Drain and Reset",
    5: "Recover IMEX Domain",
    6: "Bus Reset",
    7: "System Reboot",
}
_COMPUTE_MODES = {0: "Default", 1: "Exclusive_Thread", 2: "Prohibited", 3: "Exclusive_Process"}
_FABRIC_STATES = {1: "Not Started", 2: "In Progress", 3: "Completed"}
_FABRIC_HEALTH = {1: "Healthy", 2: "Unhealthy", 3: "Limited Capacity"}
_LINK_ACTIVE = {0: False, 1: True, 2: True, 3: False}  # 2 sleeps to save power, 3 is up and lets no traffic pass

_WORDS = _names("uuid serial name vbios board_part inforom")
_NUMBERS = _names(
    "minor fan_pct temperature_c memory_temperature_c temperature_margin_c temperature_shutdown_c temperature_slowdown_c"
    " temperature_max_operating_c margin_shutdown_c margin_slowdown_c clock_sm_mhz clock_memory_mhz clock_sm_max_mhz"
    " clock_memory_max_mhz pcie_gen pcie_gen_max pcie_width pcie_width_max pcie_replays pcie_replay_rollovers"
)
_WATTS = ("power", "power_limit", "power_limit_default", "power_limit_max")
# The name of the field that an error of a question belongs to, where it is another.
_ERROR_NAMES = {
    "power_mw": "power_watts",
    "power_limit_mw": "power_limit_watts",
    "power_limit_default_mw": "power_limit_default_watts",
    "power_limit_max_mw": "power_limit_max_watts",
    "memory": "memory_used_mib memory_total_mib memory_free_mib",
    "bar1_total": "bar1_total_mib",
    "utilisation": "utilisation_pct memory_utilisation_pct",
    "retired_single_bit": "retired.single_bit",
    "retired_double_bit": "retired.double_bit",
    "retired_pending": "retired.pending",
    "reset_status": "reset_required",
    "drain_reset_status": "drain_reset_recommended",
    "sram_status": "sram_threshold_exceeded",
    "fabric": "fabric_state fabric_status",
    "mig_mode": "mig_mode mig_mode_pending",
    "ecc_mode": "ecc_mode ecc_mode_pending",
    "remapped_histogram": "remapped.histogram",
    "event_reasons_supported": "",
    "nvlink_count": "nvlinks",
    "nvlink_speed_mbps": "",
}

_Raw = t.Mapping[str, t.Any]


def parse(raw: t.Any) -> GpuReading:
    """The reading of what C(collect()) gave. Never raises."""
    if not isinstance(raw, t.Mapping):
        return GpuReading("nvml", error_kind="garbled", error="the NVML reader gave no answer")
    system, error = _mapping(raw.get("system")), raw.get("error")
    cuda, number = _int(system.get("cuda_version")), _int(raw.get("count"))
    gpus = tuple(_draft(entry).gpu() for entry in _mappings(raw.get("gpus")))
    kind, text = _error(error if isinstance(error, t.Mapping) else None, number, len(gpus))
    return GpuReading(
        "nvml",
        gpus,
        tuple(gpu.pci for gpu in gpus if gpu.state == "lost" and gpu.pci),
        driver_version=_text(system.get("driver_version")),
        # 12040 is 12.4.
        cuda_version="%d.%d" % (cuda // 1000, cuda % 1000 // 10) if cuda else None,
        nvml_version=_text(system.get("nvml_version")),
        attached=number,
        complete=kind is None and number is not None and number == len(gpus),
        error_kind=kind,
        error=text,
        simulated=any("[simulated]" in (gpu.name or "").lower() for gpu in gpus),
    )


def _error(error: t.Optional[_Raw], number: t.Optional[int], read: int) -> t.Tuple[t.Optional[str], t.Optional[str]]:
    if error is None:
        if number == 0:
            return "no_devices", "NVML sees no GPU"
        return (None, None) if number == read else ("garbled", "NVML announced %s GPUs, %d were read" % (number, read))
    code, text = _int(error.get("code")), _text(error.get("text")) or "NVML gave no reason"
    if error.get("kind") == "missing_library":
        return "missing_library", text
    kind = _known(_INIT_KINDS, code) or ("init_failed" if error.get("kind") == "init" else "other")
    return kind, "%s (NVML error %s)" % (_known(_INIT_TEXTS, code) or text, code)


def _draft(entry: _Raw) -> Draft:
    draft = Draft()
    fields, errors = _mapping(entry.get("fields")), _mapping(entry.get("errors"))
    index = _int(entry.get("index"))
    if index is not None:
        draft.set("index", index)
    for name in _WORDS:
        _set(draft, name, _text(fields.get(name)))
    for name in _NUMBERS:
        _set(draft, name, _int(fields.get(name)))
    _identity(draft, fields)
    _load(draft, fields)
    _memory_errors(draft, fields)
    _modes(draft, fields)
    if fields.get("nvlink_count") == 0:
        draft.set("nvlinks", Unsupported("N/A"))
    draft.nvlinks = [_link(link) for link in _mappings(fields.get("nvlinks")) if _int(link.get("link")) is not None]
    if isinstance(fields.get("processes"), (list, tuple)):
        draft.processes = [_process(process) for process in _mappings(fields["processes"]) if _int(process.get("pid")) is not None]
    for name, error in errors.items():
        if isinstance(error, t.Mapping):
            for field in _ERROR_NAMES.get(str(name), str(name)).split():
                _fail(draft, field, error)
    return draft


def _fail(draft: Draft, name: str, error: _Raw) -> None:
    code = _int(error.get("code"))
    text = _known(_TEXTS, code) or _text(error.get("text")) or "error %s" % code
    if code in _UNSUPPORTED_CODES:
        draft.set(name, Unsupported(text))
    else:
        draft.set(name, Failed(text, _known(_KINDS, code) or "error"))


def _set(draft: Draft, name: str, value: t.Union[int, str, None]) -> None:
    if value is not None:
        draft.set(name, value.strip() if isinstance(value, str) else value)


def _identity(draft: Draft, fields: _Raw) -> None:
    pci = _mapping(fields.get("pci"))
    if _text(pci.get("bus_id")):
        draft.set("pci", pci_address(str(pci["bus_id"])))
    for name in ("device_id", "subsystem_id"):
        number = _int(pci.get(name))
        if number is not None:
            draft.set(name, pci_id("%08x" % (number & 0xFFFFFFFF)))
    _set(draft, "architecture", _known(_ARCHITECTURES, fields.get("architecture")))


def _load(draft: Draft, fields: _Raw) -> None:
    for part, value in _mapping(fields.get("memory")).items():
        _set(draft, "memory_%s_mib" % part, _mebibytes(value))
    _set(draft, "bar1_total_mib", _mebibytes(fields.get("bar1_total")))
    use = _mapping(fields.get("utilisation"))
    _set(draft, "utilisation_pct", _int(use.get("gpu")))
    _set(draft, "memory_utilisation_pct", _int(use.get("memory")))
    for name in _WATTS:
        milliwatts = _int(fields.get(name + "_mw"))
        if milliwatts is not None:
            draft.set(name + "_watts", milliwatts / 1000)
    state = _int(fields.get("performance_state"))
    if state is not None and 0 <= state <= 15:  # 32 is NVML's "unknown"
        draft.set("performance_state", "P%d" % state)
    bits, known = _int(fields.get("event_reasons")), _int(fields.get("event_reasons_supported"))
    if bits is not None:
        for bit, name in EVENT_REASONS.items():
            if known is None or (known | bits) & bit:
                draft.set("event_reasons." + name, bool(bits & bit))
            else:
                draft.set("event_reasons." + name, Unsupported("N/A"))


def _memory_errors(draft: Draft, fields: _Raw) -> None:
    for name, value in fields.items():
        if isinstance(name, str) and name.startswith(("ecc_volatile.", "ecc_aggregate.")) and _int(value) is not None:
            draft.set(name, value)
    _pair(draft, fields.get("ecc_mode"), "ecc_mode", "ecc_mode_pending")
    if isinstance(fields.get("sram_threshold_exceeded"), bool):
        draft.set("sram_threshold_exceeded", fields["sram_threshold_exceeded"])
    for name in ("single_bit", "double_bit"):
        _set(draft, "retired." + name, _int(fields.get("retired_" + name)))
    if _int(fields.get("retired_pending")) is not None:
        draft.set("retired.pending", bool(fields["retired_pending"]))
    rows = fields.get("remapped")
    if isinstance(rows, (list, tuple)) and len(rows) == 4 and all(_int(row) is not None for row in rows):
        for name, value in zip(("correctable", "uncorrectable", "pending", "failure"), rows):
            draft.set("remapped." + name, bool(value) if name in ("pending", "failure") else value)
    for level, value in _mapping(fields.get("remapped_histogram")).items():
        _set(draft, "remapped.histogram.%s" % level, _int(value))


def _modes(draft: Draft, fields: _Raw) -> None:
    action = _int(fields.get("recovery_action"))
    if action is not None:
        draft.set("recovery_action", _RECOVERY_ACTIONS.get(action, "action %d" % action))
    for name, field in (("reset_status", "reset_required"), ("drain_reset_status", "drain_reset_recommended")):
        if _int(fields.get(name)) is not None:
            draft.set(field, bool(fields[name]))
    _pair(draft, fields.get("mig_mode"), "mig_mode", "mig_mode_pending")
    if _int(fields.get("persistence_mode")) is not None:
        draft.set("persistence_mode", bool(fields["persistence_mode"]))
    _set(draft, "compute_mode", _known(_COMPUTE_MODES, fields.get("compute_mode")))
    _fabric(draft, _mapping(fields.get("fabric")))


def _fabric(draft: Draft, fabric: _Raw) -> None:
    state, status, health = (_int(fabric.get(name)) for name in ("state", "status", "healthSummary"))
    if state == 0:
        draft.set("fabric_state", Unsupported("N/A"))
        draft.set("fabric_status", Unsupported("N/A"))
    elif state is not None:
        draft.set("fabric_state", _FABRIC_STATES.get(state, "state %d" % state))
        # The status is that of the registration: it means something once that is over.
        if status is not None and state == 3:
            draft.set("fabric_status", "Success" if status == 0 else _TEXTS.get(status, "error %d" % status))
    if health == 0:
        draft.set("fabric_health", Unsupported("N/A"))
    elif health is not None:
        draft.set("fabric_health", _FABRIC_HEALTH.get(health, "health %d" % health))


def _pair(draft: Draft, pair: t.Any, now: str, pending: str) -> None:
    if isinstance(pair, (list, tuple)) and len(pair) == 2 and all(_int(value) is not None for value in pair):
        draft.set(now, bool(pair[0]))
        draft.set(pending, bool(pair[1]))


def _link(link: _Raw) -> NvLink:
    active = _known(_LINK_ACTIVE, link.get("state"))
    speed = _int(link.get("speed_mbps"))
    return NvLink(
        link["link"],
        active,
        speed / 1000 if speed and active else None,
        pci_address(str(link["remote"])) if _text(link.get("remote")) else None,
        _int(link.get("crc_errors")),
        _int(link.get("replay_errors")),
        _int(link.get("recovery_errors")),
    )


def _process(process: _Raw) -> GpuProcess:
    return GpuProcess(process["pid"], _text(process.get("name")), _text(process.get("kind")), _mebibytes(process.get("used")))


def _known(table: t.Mapping[int, t.Any], number: t.Any) -> t.Any:
    return table.get(number) if _int(number) is not None else None


def _mapping(value: t.Any) -> _Raw:
    return value if isinstance(value, t.Mapping) else {}


def _mappings(value: t.Any) -> t.List[_Raw]:
    return [item for item in value if isinstance(item, t.Mapping)] if isinstance(value, (list, tuple)) else []


def _int(value: t.Any) -> t.Optional[int]:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: t.Any) -> t.Optional[str]:
    return value if isinstance(value, str) and value.strip() else None


def _mebibytes(value: t.Any) -> t.Optional[int]:
    number = _int(value)
    return None if number is None else round(number / 1048576)
