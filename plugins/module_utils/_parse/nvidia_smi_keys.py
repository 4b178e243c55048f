# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What nvidia-smi calls each field: in -q, in XML and in CSV, drivers 390 to 590. Private to kentino.gpu.

Names on the right are those of gpu_draft; an empty one is a key that is known and not kept.
"""

from __future__ import annotations

import typing as t

from .lazy_pattern import lazy

# Both spellings of each clock reason, without the prefix "clocks_throttle_reason" or "clocks_event_reason".
REASONS = {
    "idle": "idle",
    "gpu idle": "idle",
    "applications clocks setting": "applications_clocks",
    "sw power cap": "sw_power_cap",
    "hw slowdown": "hw_slowdown",
    "hw thermal slowdown": "hw_thermal_slowdown",
    "hw power brake slowdown": "hw_power_brake",
    "sync boost": "sync_boost",
    "sw thermal slowdown": "sw_thermal",
    "display clock setting": "display_clocks",
    "display clocks setting": "display_clocks",
}
_EVENT_REASONS = {key: "event_reasons." + name for key, name in REASONS.items()}
_LEVELS = ("max", "high", "partial", "low", "none")


def names(text: str) -> t.FrozenSet[str]:
    """A list with commas as a set."""
    return frozenset(name.strip() for name in text.split(","))


def _power() -> t.Dict[str, str]:
    return {
        # Up to 525 and again for some GPUs of 565 one figure; else the average, which NVML calls the power usage.
        "power draw": "power_watts",
        "average power draw": "power_watts/1",
        "instantaneous power draw": "power_watts/2",
        "enforced power limit": "power_limit_watts",
        "current power limit": "power_limit_watts/1",
        "power limit": "power_limit_watts/2",
        "default power limit": "power_limit_default_watts",
        "max power limit": "power_limit_max_watts",
    }


def _ecc(section: str) -> t.Dict[str, str]:
    return {
        "sram correctable": section + ".sram_correctable",
        "sram uncorrectable": section + ".sram_uncorrectable",
        "sram uncorrectable parity": section + ".sram_uncorrectable_parity",
        "sram uncorrectable sec-ded": section + ".sram_uncorrectable_secded",
        "dram correctable": section + ".dram_correctable",
        "dram uncorrectable": section + ".dram_uncorrectable",
        "sram threshold exceeded": "sram_threshold_exceeded",
    }


def _structures(section: str) -> t.Dict[str, str]:
    names = ("device memory", "register file", "l1 cache", "l2 cache", "texture memory", "texture shared", "cbu", "total")
    return {name: "%s.%s" % (section, name.replace(" ", "_")) for name in names}


# -q: heading -> key -> name. A heading that occurs under several parents stands with its parent: "volatile/single bit".
TEXT: t.Dict[str, t.Dict[str, str]] = {
    "": {
        "product name": "name",
        "product architecture": "architecture",
        "persistence mode": "persistence_mode",
        "serial number": "serial",
        "gpu uuid": "uuid",
        "minor number": "minor",
        "vbios version": "vbios",
        "board part number": "board_part",
        "gpu part number": "board_part/1",
        "gpu recovery action": "recovery_action",
        "fan speed": "fan_pct",
        "performance state": "performance_state",
        "compute mode": "compute_mode",
        "clocks event reasons": "event_reasons",
        "clocks throttle reasons": "event_reasons",
        "retired pages": "retired",
        "remapped rows": "remapped",
    },
    "mig mode": {"current": "mig_mode", "pending": "mig_mode_pending"},
    "inforom version": {"image version": "inforom"},
    "gpu reset status": {"reset required": "reset_required", "drain and reset recommended": "drain_reset_recommended"},
    "pci": {
        "bus id": "pci",
        "device id": "device_id",
        "sub system id": "subsystem_id",
        "replays since reset": "pcie_replays",
        "replay number rollovers": "pcie_replay_rollovers",
    },
    "pcie generation": {"max": "pcie_gen_max", "current": "pcie_gen"},
    "link width": {"max": "pcie_width_max", "current": "pcie_width"},
    "clocks event reasons": _EVENT_REASONS,
    "clocks throttle reasons": _EVENT_REASONS,
    "fb memory usage": {
        "total": "memory_total_mib",
        "reserved": "memory_reserved_mib",
        "used": "memory_used_mib",
        "free": "memory_free_mib",
    },
    "bar1 memory usage": {"total": "bar1_total_mib", "used": "", "free": ""},
    "utilization": {"gpu": "utilisation_pct", "memory": "memory_utilisation_pct"},
    "ecc mode": {"current": "ecc_mode", "pending": "ecc_mode_pending"},
    "volatile": _ecc("ecc_volatile"),
    "aggregate": _ecc("ecc_aggregate"),
    "volatile/single bit": _structures("ecc_volatile.single_bit"),
    "volatile/double bit": _structures("ecc_volatile.double_bit"),
    "aggregate/single bit": _structures("ecc_aggregate.single_bit"),
    "aggregate/double bit": _structures("ecc_aggregate.double_bit"),
    "single bit": _structures("ecc_section_unknown.single_bit"),
    "double bit": _structures("ecc_section_unknown.double_bit"),
    "ecc errors": {
        **_ecc("ecc_section_unknown"),
        "channel repair pending": "repair_pending.channel",
        "tpc repair pending": "repair_pending.tpc",
        "unrepairable memory": "unrepairable_memory",
        "volatile": "ecc_volatile",
        "aggregate": "ecc_aggregate",
    },
    "retired pages": {
        "single bit ecc": "retired.single_bit",
        "double bit ecc": "retired.double_bit",
        "pending": "retired.pending",
        "pending page blacklist": "retired.pending",
        "pending page retirement": "retired.pending",
    },
    "remapped rows": {
        "correctable error": "remapped.correctable",
        "uncorrectable error": "remapped.uncorrectable",
        "pending": "remapped.pending",
        "remapping failure occurred": "remapped.failure",
    },
    "bank remap availability histogram": {level: "remapped.histogram." + level for level in _LEVELS},
    "temperature": {
        "gpu current temp": "temperature_c",
        "gpu": "temperature_c",
        "gpu t.limit temp": "temperature_margin_c",
        "gpu shutdown temp": "temperature_shutdown_c",
        "gpu slowdown temp": "temperature_slowdown_c",
        "gpu max operating temp": "temperature_max_operating_c",
        "gpu shutdown t.limit temp": "margin_shutdown_c",
        "gpu slowdown t.limit temp": "margin_slowdown_c",
        "memory current temp": "memory_temperature_c",
    },
    "power readings": _power(),
    "gpu power readings": _power(),
    "clocks": {"sm": "clock_sm_mhz", "memory": "clock_memory_mhz"},
    "max clocks": {"sm": "clock_sm_max_mhz", "memory": "clock_memory_max_mhz"},
    "fabric": {"state": "fabric_state", "status": "fabric_status"},
    "health": {"summary": "fabric_health"},
}

# Ahead of the first GPU.
TEXT_SYSTEM = {
    "driver version": "driver_version",
    "cuda version": "cuda_version",
    "attached gpus": "attached",
    "timestamp": "",
    "nvidia-smi version": "",  # these of nvidia-smi --version
    "nvml version": "nvml_version",
    "nvml library version": "nvml_version",  # below "Failed to initialize NVML: Driver/library version mismatch"
}

# Sections of which nothing is kept, some because their keys are those of a section that is.
TEXT_OTHER_SECTIONS = names(
    """accounted processes, aggregate uncorrectable sram sources, applications clocks, attributes, bridge chip, capabilities,
    clock policy, clocks event reasons counters, conf compute protected memory usage, confidential compute,
    default applications clocks, deferred clocks, device attributes, dram encryption mode, driver model, encoder stats, fbc stats,
    gpu link info, gpu memory power readings, gpu operation mode, gpu virtualization mode, ibmnpu, inforom bbx object flush,
    max customer boost clocks, mig device, mig devices, module power readings, platform info, power smoothing, processes, shared,
    supported clocks, vgpu device capability, vgpu software licensed product, voltage, workload power profiles"""
)
# Keys of which nothing is kept, in any section.
TEXT_OTHER_KEYS = names(
    """access timeout recovery, accounting mode, accounting mode buffer size, active sessions, addressing mode, atomic caps inbound,
    atomic caps outbound, auto boost, auto boost default, average fps, average latency, bandwidth, base classcode, board id, bus,
    cliqueid, clusteruuid, decoder, device, device current, device max, display active, display attached, display mode, domain,
    ecc object, edpp multiplier, encoder, firmware, fru part number, gpu c2c mode, gpu fabric guid, gpu max operating t.limit temp,
    gpu pdi, gpu target temperature, graphics, graphics version, gsp firmware version, host max, host vgpu mode,
    incorrect configuration, jpeg, memory max operating t.limit temp, memory max operating temp, min power limit, module id,
    multigpu board, oem object, ofa, partition assigned, power management, power management object, power smoothing, power state,
    product brand, requested power limit, route recovery in progress, route unhealthy, rx throughput, sparse operation mode,
    sub classcode, supported clocks, tx throughput, type, unknown, vgpu heterogeneous mode, video"""
)

# XML: tag, or parent/tag where the tag alone has several meanings -> name.
XML: t.Dict[str, str] = {
    "product_name": "name",
    "product_architecture": "architecture",
    "persistence_mode": "persistence_mode",
    "serial": "serial",
    "uuid": "uuid",
    "minor_number": "minor",
    "vbios_version": "vbios",
    "board_part_number": "board_part",
    "gpu_part_number": "board_part/1",
    "inforom_version/img_version": "inforom",
    "gpu_recovery_action": "recovery_action",
    "reset_required": "reset_required",
    "drain_and_reset_recommended": "drain_reset_recommended",
    "fan_speed": "fan_pct",
    "performance_state": "performance_state",
    "compute_mode": "compute_mode",
    "current_mig": "mig_mode",
    "pending_mig": "mig_mode_pending",
    "pci_bus_id": "pci",
    "pci_device_id": "device_id",
    "pci_sub_system_id": "subsystem_id",
    "replay_counter": "pcie_replays",
    "replay_rollover_counter": "pcie_replay_rollovers",
    "max_link_gen": "pcie_gen_max",
    "current_link_gen": "pcie_gen",
    "max_link_width": "pcie_width_max",
    "current_link_width": "pcie_width",
    "fb_memory_usage/total": "memory_total_mib",
    "fb_memory_usage/reserved": "memory_reserved_mib",
    "fb_memory_usage/used": "memory_used_mib",
    "fb_memory_usage/free": "memory_free_mib",
    "bar1_memory_usage/total": "bar1_total_mib",
    "bar1_memory_usage/used": "",
    "bar1_memory_usage/free": "",
    "gpu_util": "utilisation_pct",
    "memory_util": "memory_utilisation_pct",
    "current_ecc": "ecc_mode",
    "pending_ecc": "ecc_mode_pending",
    "sram_threshold_exceeded": "sram_threshold_exceeded",
    "channel_repair_pending": "repair_pending.channel",
    "tpc_repair_pending": "repair_pending.tpc",
    "unrepairable_memory": "unrepairable_memory",
    "multiple_single_bit_retirement/retired_count": "retired.single_bit",
    "double_bit_retirement/retired_count": "retired.double_bit",
    "pending_retirement": "retired.pending",
    "pending_blacklist": "retired.pending",
    "remapped_row_corr": "remapped.correctable",
    "remapped_row_unc": "remapped.uncorrectable",
    "remapped_row_pending": "remapped.pending",
    "remapped_row_failure": "remapped.failure",
    "gpu_temp": "temperature_c",
    "gpu_temp_tlimit": "temperature_margin_c",
    "gpu_temp_max_threshold": "temperature_shutdown_c",
    "gpu_temp_slow_threshold": "temperature_slowdown_c",
    "gpu_temp_max_gpu_threshold": "temperature_max_operating_c",
    "gpu_temp_max_tlimit_threshold": "margin_shutdown_c",
    "gpu_temp_slow_tlimit_threshold": "margin_slowdown_c",
    "memory_temp": "memory_temperature_c",
    "clocks/sm_clock": "clock_sm_mhz",
    "clocks/mem_clock": "clock_memory_mhz",
    "max_clocks/sm_clock": "clock_sm_max_mhz",
    "max_clocks/mem_clock": "clock_memory_max_mhz",
    "fabric/state": "fabric_state",
    "fabric/status": "fabric_status",
    "health/summary": "fabric_health",
    "remapped_rows": "remapped",
    "retired_pages": "retired",
    "clocks_event_reasons": "event_reasons",
    "clocks_throttle_reasons": "event_reasons",
    "volatile": "ecc_volatile",
    "aggregate": "ecc_aggregate",
}
XML.update(("row_remapper_histogram_" + level, "remapped.histogram." + level) for level in _LEVELS)
for _prefix in ("clocks_event_reason_", "clocks_throttle_reason_"):
    XML.update((_prefix + key.replace(" ", "_"), "event_reasons." + name) for key, name in REASONS.items())
for _parent in ("power_readings", "gpu_power_readings"):
    for _key, _name in _power().items():
        XML["%s/%s" % (_parent, _key.replace(" ", "_").replace("instantaneous", "instant"))] = _name
for _scope in ("volatile", "aggregate"):
    for _key, _name in _ecc("ecc_" + _scope).items():
        XML["%s/%s" % (_scope, _key.replace("sec-ded", "secded").replace(" ", "_"))] = _name
    for _bits in ("single_bit", "double_bit"):
        for _key, _name in _structures("ecc_%s.%s" % (_scope, _bits)).items():
            XML["%s/%s/%s" % (_scope, _bits, _key.replace("texture shared", "texture_shm").replace(" ", "_"))] = _name

# A fragment of XML with no parent that tells volatile from aggregate.
XML_BARE = {
    key.replace("sec-ded", "secded").replace(" ", "_"): name
    for key, name in _ecc("ecc_section_unknown").items()
    if name.startswith("ecc_section_unknown")
}
XML_SYSTEM = {"driver_version": "driver_version", "cuda_version": "cuda_version", "attached_gpus": "attached"}
# Containers of which nothing is kept: their tags are those of the GPU itself.
XML_OTHER = names(
    """accounted_processes, aggregate_uncorrectable_sram_sources, applications_clocks, cc_protected_memory_usage,
    clocks_event_reasons_counters, default_applications_clocks, deferred_clocks, encoder_stats, fbc_stats, gpu_memory_power_readings,
    max_customer_boost_clocks, mig_device, mig_devices, module_power_readings, supported_clocks, supported_gpu_target_temp,
    vgpu_software_licensed_product"""
)

# Tags of which nothing is kept.
XML_OTHER_TAGS = names(
    """access_timeout_recovery, accounting_mode, accounting_mode_buffer_size, addressing_mode, atomic_caps_inbound,
    atomic_caps_outbound, auto_boost, auto_boost_default, bandwidth, board_id, bridge_chip_fw, bridge_chip_type, c2c_mode,
    chassis_serial_number, cliqueId, clusterUuid, current_dm, current_dram_encryption, current_gom, decoder_util,
    device_current_link_gen, display_active, display_attached, display_mode, ecc_object, edpp_multiplier, egm, encoder_util,
    gpu_fabric_guid, gpu_fru_part_number, gpu_module_id, gpu_target_temperature, gpu_temp_max_gpu_tlimit_threshold,
    gpu_temp_max_mem_threshold, gpu_temp_max_mem_tlimit_threshold, graphics_clock, graphics_volt, gsp_firmware_version, host_id,
    host_vgpu_mode, incorrect_configuration, jpeg_util, latest_duration, latest_timestamp, max_device_link_gen, max_host_link_gen,
    min_power_limit, module_id, multigpu_board, oem_object, ofa_util, partition_assigned, pci_base_class, pci_bus, pci_device,
    pci_domain, pci_sub_class, pdi, peer_type, pending_dm, pending_dram_encryption, pending_gom, power_management,
    power_profile_enforced_profiles, power_profile_requested_profiles, power_smoothing, power_state, product_brand, pwr_object,
    relaxed_ordering_mode, remapped_row_corr_inactive, remapped_row_unc_inactive, requested_power_limit, retired_pagelist,
    route_recovery_in_progress, route_unhealthy, rx_util, slot_number, sparse_operation_mode, timestamp, tray_index, tx_util,
    vgpu_heterogeneous_mode, video_clock, virtualization_mode"""
)

# CSV: the property asked for -> name. Clock reasons and ECC counters follow rules, see csv_name().
CSV: t.Dict[str, str] = {
    "index": "index",
    "name": "name",
    "gpu_name": "name",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "serial": "serial",
    "gpu_serial": "serial",
    "pci.bus_id": "pci",
    "gpu_bus_id": "pci",
    "pci.device_id": "device_id",
    "pci.sub_device_id": "subsystem_id",
    "persistence_mode": "persistence_mode",
    "vbios_version": "vbios",
    "inforom.img": "inforom",
    "inforom.image": "inforom",
    "pcie.link.gen.current": "pcie_gen",
    "pcie.link.gen.gpucurrent": "pcie_gen",
    "pcie.link.gen.max": "pcie_gen_max",
    "pcie.link.width.current": "pcie_width",
    "pcie.link.width.max": "pcie_width_max",
    "fan.speed": "fan_pct",
    "pstate": "performance_state",
    "memory.total": "memory_total_mib",
    "memory.reserved": "memory_reserved_mib",
    "memory.used": "memory_used_mib",
    "memory.free": "memory_free_mib",
    "compute_mode": "compute_mode",
    "utilization.gpu": "utilisation_pct",
    "utilization.memory": "memory_utilisation_pct",
    "ecc.mode.current": "ecc_mode",
    "ecc.mode.pending": "ecc_mode_pending",
    "ecc.errors.uncorrected.aggregate.sram.thresholdexceeded": "sram_threshold_exceeded",
    "retired_pages.single_bit_ecc.count": "retired.single_bit",
    "retired_pages.sbe": "retired.single_bit",
    "retired_pages.double_bit.count": "retired.double_bit",
    "retired_pages.double_bit_ecc.count": "retired.double_bit",
    "retired_pages.dbe": "retired.double_bit",
    "retired_pages.pending": "retired.pending",
    "remapped_rows.correctable": "remapped.correctable",
    "remapped_rows.uncorrectable": "remapped.uncorrectable",
    "remapped_rows.pending": "remapped.pending",
    "remapped_rows.failure": "remapped.failure",
    "temperature.gpu": "temperature_c",
    "temperature.memory": "memory_temperature_c",
    "temperature.gpu.tlimit": "temperature_margin_c",
    "power.draw": "power_watts",
    "power.draw.average": "power_watts/1",
    "power.draw.instant": "power_watts/2",
    "enforced.power.limit": "power_limit_watts",
    "power.limit": "power_limit_watts/1",
    "power.default_limit": "power_limit_default_watts",
    "power.max_limit": "power_limit_max_watts",
    "clocks.sm": "clock_sm_mhz",
    "clocks.current.sm": "clock_sm_mhz",
    "clocks.mem": "clock_memory_mhz",
    "clocks.current.memory": "clock_memory_mhz",
    "clocks.max.sm": "clock_sm_max_mhz",
    "clocks.max.mem": "clock_memory_max_mhz",
    "clocks.max.memory": "clock_memory_max_mhz",
    "mig.mode.current": "mig_mode",
    "mig.mode.pending": "mig_mode_pending",
    "fabric.state": "fabric_state",
    "fabric.status": "fabric_status",
    "reset_status.reset_required": "reset_required",
    "reset_status.drain_and_reset_recommended": "drain_reset_recommended",
    "gpu_recovery_action": "recovery_action",
}
CSV.update(("remapped_rows.histogram." + level, "remapped.histogram." + level) for level in _LEVELS)
for _prefix in ("clocks_event_reasons.", "clocks_throttle_reasons."):
    CSV.update((_prefix + key.replace(" ", "_"), "event_reasons." + name) for key, name in REASONS.items())
    CSV[_prefix + "active"] = "event_reasons.bits"
# Of the whole node, or of a row that is not one GPU.
CSV_OTHER = names(
    """timestamp, driver_version, count, pid, process_name, used_gpu_memory, used_memory, retired_pages.address, retired_pages.cause"""
)

_CSV_ECC = lazy(r"ecc\.errors\.(corrected|uncorrected)\.(volatile|aggregate)\.([a-z0-9_]+)(?:\.([a-z]+))?$")
_CSV_STRUCTURES = ("register_file", "l1_cache", "l2_cache", "texture_memory", "cbu")


def csv_name(column: str) -> t.Optional[str]:
    """The name of a CSV column without its unit; None where it is not known."""
    plain = column.strip().lower()
    if plain in CSV:
        return CSV[plain]
    match = _CSV_ECC.match(plain)
    if not match:
        return None
    kind, section, where, how = match.groups()
    word = "correctable" if kind == "corrected" else "uncorrectable"
    at = "ecc_%s." % section
    if where == "total":
        return at + word
    if where == "sram":
        return at + "sram_" + word + ("_" + how if how in ("parity", "secded") and word == "uncorrectable" else "")
    if where in ("dram", "device_memory"):  # one counter, its newer and its older name
        return at + "dram_" + word
    bits = "single_bit" if kind == "corrected" else "double_bit"
    return "%s%s.%s" % (at, bits, where) if where in _CSV_STRUCTURES else None
