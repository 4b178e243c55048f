# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What nvidia-smi -q tells of a GPU, in its order and under its names of the 570 and 575 branches.

A line is (label, tag, value or lines): the label is for the text, the tag for XML; None where only the other form has it. A value
may be a pair, for the text and for XML.
"""

from __future__ import annotations

from .state import NOT_AVAILABLE, Gpu, Node

_DEPRECATED = "Requested functionality has been deprecated"
_REASONS = (
    ("Idle", "gpu_idle", 0x1, 0),
    ("Applications Clocks Setting", "applications_clocks_setting", 0x2, 0),
    ("SW Power Cap", "sw_power_cap", 0x4, 0),
    ("HW Slowdown", "hw_slowdown", 0x8, 0),
    ("HW Thermal Slowdown", "hw_thermal_slowdown", 0x40, 1),
    ("HW Power Brake Slowdown", "hw_power_brake_slowdown", 0x80, 1),
    ("Sync Boost", "sync_boost", 0x10, 0),
    ("SW Thermal Slowdown", "sw_thermal_slowdown", 0x20, 0),
    ("Display Clock Setting", "display_clocks_setting", 0x100, 0),
)
_COUNTERS = (
    ("SW Power Capping", "sw_power_cap", "sw_power_cap"),
    ("Sync Boost", "sync_boost", "sync_boost"),
    ("SW Thermal Slowdown", "sw_therm_slowdown", "sw_thermal"),
    ("HW Thermal Slowdown", "hw_therm_slowdown", "hw_thermal"),
    ("HW Power Braking", "hw_power_brake", "power_brake"),
)
RECOVERY = ("None", "Reset", "Reboot", "Drain P2P", "Drain and Reset")
FABRIC_STATES = (NOT_AVAILABLE, "Not Started", "In Progress", "Completed")
COMPUTE_MODES = ("Default", "Exclusive_Thread", "Prohibited", "Exclusive_Process")


def word(gpu: Gpu, name: str, words: tuple[str, ...]) -> str:
    number = gpu.number(name)
    return gpu.get(name) if number is None else words[number] if 0 <= number < len(words) else "Unknown"


def amount(gpu: Gpu, name: str, unit: str) -> str:
    value = gpu.get(name)
    return value if gpu.number(name) is None else "%s %s" % (value, unit)


def watts(gpu: Gpu, name: str) -> str:
    number = gpu.number(name)
    return gpu.get(name) if number is None else "%.2f W" % (number / 1000)


def _enabled(gpu: Gpu, name: str) -> str:
    return word(gpu, name, ("Disabled", "Enabled"))


def _yes(gpu: Gpu, name: str) -> str:
    return word(gpu, name, ("No", "Yes"))


def gpu_lines(gpu: Gpu) -> list:
    newer = _newer(gpu.node)
    get = gpu.get
    device, subsystem = gpu.raw("device_id"), gpu.raw("subsystem_id")
    domain, bus, rest = gpu.bus_id.split(":")
    pci_class = gpu.raw("pci_class")
    accounted = [("Accounting Mode", "accounting_mode", _enabled(gpu, "accounting"))]
    accounted.append(("Accounting Mode Buffer Size", "accounting_mode_buffer_size", "4000"))
    lines: list = [
        ("Product Name", "product_name", get("name")),
        ("Product Brand", "product_brand", get("brand")),
        ("Product Architecture", "product_architecture", get("architecture")),
        ("Display Mode", "display_mode", _enabled(gpu, "display.mode")),
    ]
    if newer:
        lines.append(("Display Attached", "display_attached", "No"))
    lines += [
        ("Display Active", "display_active", _enabled(gpu, "display.active")),
        ("Persistence Mode", "persistence_mode", _enabled(gpu, "persistence")),
        ("Addressing Mode", "addressing_mode", get("addressing")),
        ("MIG Mode", "mig_mode", _pair("mig", _enabled(gpu, "mig.current"), _enabled(gpu, "mig.pending"))),
        (None, "mig_devices", "\n\t\t\tNone\n\t\t"),
        *accounted,
        ("Driver Model", "driver_model", _pair("dm", NOT_AVAILABLE, NOT_AVAILABLE)),
        ("Serial Number", "serial", get("serial")),
        ("GPU UUID", "uuid", get("uuid")),
        ("Minor Number", "minor_number", get("minor")),
        ("VBIOS Version", "vbios_version", get("vbios")),
        ("MultiGPU Board", "multigpu_board", "No"),
        ("Board ID", "board_id", _hexadecimal(gpu, "board_id")),
        ("Board Part Number", "board_part_number", get("board_part")),
        ("GPU Part Number", "gpu_part_number", get("gpu_part")),
        ("FRU Part Number", "gpu_fru_part_number", NOT_AVAILABLE),
        ("Platform Info", "platformInfo", _platform(gpu)),
        (
            "Inforom Version",
            "inforom_version",
            [
                ("Image Version", "img_version", get("inforom.image")),
                ("OEM Object", "oem_object", get("inforom.oem")),
                ("ECC Object", "ecc_object", get("inforom.ecc")),
                ("Power Management Object", "pwr_object", get("inforom.power")),
            ],
        ),
        (
            "Inforom BBX Object Flush",
            "inforom_bbx_flush",
            [("Latest Timestamp", "latest_timestamp", NOT_AVAILABLE), ("Latest Duration", "latest_duration", NOT_AVAILABLE)],
        ),
        ("GPU Operation Mode", "gpu_operation_mode", _pair("gom", NOT_AVAILABLE, NOT_AVAILABLE)),
        ("GPU C2C Mode", "c2c_mode", "Disabled"),
        (
            "GPU Virtualization Mode",
            "gpu_virtualization_mode",
            [
                ("Virtualization Mode", "virtualization_mode", "None"),
                ("Host VGPU Mode", "host_vgpu_mode", NOT_AVAILABLE),
                ("vGPU Heterogeneous Mode", "vgpu_heterogeneous_mode", NOT_AVAILABLE),
            ],
        ),
        (
            "GPU Reset Status",
            "gpu_reset_status",
            [
                ("Reset Required", "reset_required", _yes(gpu, "reset.required")),
                ("Drain and Reset Recommended", "drain_and_reset_recommended", _yes(gpu, "reset.drain")),
            ],
        ),
        ("GPU Recovery Action", "gpu_recovery_action", word(gpu, "recovery", RECOVERY)),
        ("GSP Firmware Version", "gsp_firmware_version", get("gsp")),
        ("IBMNPU", "ibmnpu", [("Relaxed Ordering Mode", "relaxed_ordering_mode", NOT_AVAILABLE)]),
        (
            "PCI",
            "pci",
            [
                ("Bus", "pci_bus", ("0x" + bus, bus)),
                ("Device", "pci_device", ("0x" + rest[:2], rest[:2])),
                ("Domain", "pci_domain", ("0x" + domain[-4:], domain[-4:])),
                ("Base Classcode", "pci_base_class", ("0x3", "3")),
                ("Sub Classcode", "pci_sub_class", ("0x" + pci_class, pci_class)),
                ("Device Id", "pci_device_id", (device, device[2:])),
                ("Bus Id", "pci_bus_id", gpu.bus_id),
                ("Sub System Id", "pci_sub_system_id", (subsystem, subsystem[2:])),
                (
                    "GPU Link Info",
                    "pci_gpu_link_info",
                    [
                        (
                            "PCIe Generation",
                            "pcie_gen",
                            [
                                ("Max", "max_link_gen", get("pcie.gen_max")),
                                ("Current", "current_link_gen", get("pcie.gen")),
                                ("Device Current", "device_current_link_gen", get("pcie.gen_device")),
                                ("Device Max", "max_device_link_gen", get("pcie.gen_device_max")),
                                ("Host Max", "max_host_link_gen", get("pcie.gen_host_max")),
                            ],
                        ),
                        (
                            "Link Width",
                            "link_widths",
                            [
                                ("Max", "max_link_width", _lanes(gpu, "pcie.width_max")),
                                ("Current", "current_link_width", _lanes(gpu, "pcie.width")),
                            ],
                        ),
                    ],
                ),
                (
                    "Bridge Chip",
                    "pci_bridge_chip",
                    [("Type", "bridge_chip_type", NOT_AVAILABLE), ("Firmware", "bridge_chip_fw", NOT_AVAILABLE)],
                ),
                ("Replays Since Reset", "replay_counter", get("pcie.replays")),
                ("Replay Number Rollovers", "replay_rollover_counter", get("pcie.rollovers")),
                ("Tx Throughput", "tx_util", amount(gpu, "pcie.tx", "KB/s")),
                ("Rx Throughput", "rx_util", amount(gpu, "pcie.rx", "KB/s")),
                ("Atomic Caps Outbound", "atomic_caps_outbound", get("pcie.atomics")),
                ("Atomic Caps Inbound", "atomic_caps_inbound", get("pcie.atomics")),
            ],
        ),
        ("Fan Speed", "fan_speed", amount(gpu, "fan", "%")),
        ("Performance State", "performance_state", pstate(gpu)),
        ("Clocks Event Reasons", "clocks_event_reasons", _reasons(gpu)),
    ]
    if newer:
        counters = [(label, "clocks_event_reasons_counters_" + tag, amount(gpu, "counter." + name, "us")) for label, tag, name in _COUNTERS]
        lines.append(("Clocks Event Reasons Counters", "clocks_event_reasons_counters", counters))
    lines += [
        ("Sparse Operation Mode", "sparse_operation_mode", NOT_AVAILABLE),
        ("FB Memory Usage", "fb_memory_usage", _memory(gpu)),
        ("BAR1 Memory Usage", "bar1_memory_usage", _bar1(gpu)),
        (
            "Conf Compute Protected Memory Usage",
            "cc_protected_memory_usage",
            [("Total", "total", "0 MiB"), ("Used", "used", "0 MiB"), ("Free", "free", "0 MiB")],
        ),
        ("Compute Mode", "compute_mode", word(gpu, "compute_mode", COMPUTE_MODES)),
        (
            "Utilization",
            "utilization",
            [
                (label, tag, amount(gpu, "util." + name, "%"))
                for label, tag, name in (
                    ("GPU", "gpu_util", "gpu"),
                    ("Memory", "memory_util", "memory"),
                    ("Encoder", "encoder_util", "encoder"),
                    ("Decoder", "decoder_util", "decoder"),
                    ("JPEG", "jpeg_util", "jpeg"),
                    ("OFA", "ofa_util", "ofa"),
                )
            ],
        ),
        ("Encoder Stats", "encoder_stats", _sessions()),
        ("FBC Stats", "fbc_stats", _sessions()),
        ("DRAM Encryption Mode", "dram_encryption_mode", _pair("dram_encryption", "Disabled", "Disabled")),
        ("ECC Mode", "ecc_mode", _pair("ecc", _enabled(gpu, "ecc.current"), _enabled(gpu, "ecc.pending"))),
        ("ECC Errors", "ecc_errors", _ecc(gpu)),
        ("Retired Pages", "retired_pages", _retired(gpu)),
        _remapped(gpu),
        ("Temperature", "temperature", _temperature(gpu)),
        (None, "supported_gpu_target_temp", [(None, "gpu_target_temp_min", NOT_AVAILABLE), (None, "gpu_target_temp_max", NOT_AVAILABLE)]),
        ("GPU Power Readings", "gpu_power_readings", _power(gpu)),
        ("GPU Memory Power Readings ", "gpu_memory_power_readings", _draw(watts(gpu, "power.memory"), watts(gpu, "power.memory"))),
        ("Module Power Readings", "module_power_readings", _module_power(gpu)),
        ("Power Smoothing", "power_smoothing", NOT_AVAILABLE),
        (
            "Workload Power Profiles",
            "power_profiles",
            [
                ("Requested Profiles", "power_profile_requested_profiles", NOT_AVAILABLE),
                ("Enforced Profiles", "power_profile_enforced_profiles", NOT_AVAILABLE),
            ],
        ),
        ("Clocks", "clocks", _clocks(gpu, "")),
        ("Applications Clocks", "applications_clocks", _application_clocks(gpu)),
        ("Default Applications Clocks", "default_applications_clocks", _application_clocks(gpu)),
        ("Deferred Clocks", "deferred_clocks", [("Memory", "mem_clock", NOT_AVAILABLE)]),
        ("Max Clocks", "max_clocks", _clocks(gpu, "_max")),
        ("Max Customer Boost Clocks", "max_customer_boost_clocks", [("Graphics", "graphics_clock", amount(gpu, "clock.boost", "MHz"))]),
        (
            "Clock Policy",
            "clock_policy",
            [("Auto Boost", "auto_boost", NOT_AVAILABLE), ("Auto Boost Default", "auto_boost_default", NOT_AVAILABLE)],
        ),
        ("Voltage", "voltage", [("Graphics", "graphics_volt", _DEPRECATED if newer else NOT_AVAILABLE)]),
        ("Fabric", "fabric", _fabric(gpu)),
        (None, "supported_clocks", NOT_AVAILABLE),
        _processes(gpu),
        (None, "accounted_processes", []),
        ("Capabilities", "capabilities", [("EGM", "egm", "disabled")]),
    ]
    return lines


def _newer(node: Node) -> bool:
    return int(node.get("driver").split(".")[0]) >= 575


def _pair(suffix: str, current: str, pending: str) -> list:
    return [("Current", "current_" + suffix, current), ("Pending", "pending_" + suffix, pending)]


def _hexadecimal(gpu: Gpu, name: str) -> str:
    number = gpu.number(name)
    return gpu.get(name) if number is None else "0x%x" % number


def _lanes(gpu: Gpu, name: str) -> str:
    return gpu.get(name) if gpu.number(name) is None else gpu.get(name) + "x"


def pstate(gpu: Gpu) -> str:
    return gpu.get("pstate") if gpu.number("pstate") is None else "P" + gpu.get("pstate")


def _platform(gpu: Gpu) -> list:
    fields = (
        ("Chassis Serial Number", "chassis_serial_number"),
        ("Slot Number", "slot_number"),
        ("Tray Index", "tray_index"),
        ("Host ID", "host_id"),
        ("Peer Type", "peer_type"),
    )
    lines = [(label, tag, NOT_AVAILABLE) for label, tag in fields]
    return [*lines, ("Module Id", "module_id", gpu.get("module")), ("GPU Fabric GUID", "gpu_fabric_guid", NOT_AVAILABLE)]


def _reasons(gpu: Gpu) -> list:
    mask = gpu.number("reasons")
    found = []
    for label, tag, bit, depth in _REASONS:
        value = gpu.get("reasons") if mask is None else "Active" if mask & bit else "Not Active"
        found.append(("    " * depth + label, "clocks_event_reason_" + tag, value))
    return found


def _memory(gpu: Gpu) -> list:
    return [(name.capitalize(), name, amount(gpu, "memory." + name, "MiB")) for name in ("total", "reserved", "used", "free")]


def _bar1(gpu: Gpu) -> list:
    total, used = gpu.number("bar1.total"), gpu.number("bar1.used")
    free = gpu.get("bar1.total") if total is None or used is None else "%d MiB" % (total - used)
    return [("Total", "total", amount(gpu, "bar1.total", "MiB")), ("Used", "used", amount(gpu, "bar1.used", "MiB")), ("Free", "free", free)]


def _sessions() -> list:
    return [("Active Sessions", "session_count", "0"), ("Average FPS", "average_fps", "0"), ("Average Latency", "average_latency", "0")]


def _ecc(gpu: Gpu) -> list:
    counters = (
        ("SRAM Correctable", "sram_correctable", "sram_correctable"),
        ("SRAM Uncorrectable Parity", "sram_uncorrectable_parity", "sram_parity"),
        ("SRAM Uncorrectable SEC-DED", "sram_uncorrectable_secded", "sram_secded"),
        ("DRAM Correctable", "dram_correctable", "dram_correctable"),
        ("DRAM Uncorrectable", "dram_uncorrectable", "dram_uncorrectable"),
    )
    sources = (
        ("SRAM L2", "sram_l2", "l2"),
        ("SRAM SM", "sram_sm", "sm"),
        ("SRAM Microcontroller", "sram_microcontroller", "mcu"),
        ("SRAM PCIE", "sram_pcie", "pcie"),
        ("SRAM Other", "sram_other", "other"),
    )
    volatile = [(label, tag, gpu.get("ecc.volatile." + name)) for label, tag, name in counters]
    aggregate = [(label, tag, gpu.get("ecc.aggregate." + name)) for label, tag, name in counters]
    aggregate.append(("SRAM Threshold Exceeded", "sram_threshold_exceeded", _yes(gpu, "ecc.threshold")))
    return [
        ("Volatile", "volatile", volatile),
        ("Aggregate", "aggregate", aggregate),
        (
            "Aggregate Uncorrectable SRAM Sources",
            "aggregate_uncorrectable_sram_sources",
            [(label, tag, gpu.get("ecc.sources." + name)) for label, tag, name in sources],
        ),
    ]


def _retired(gpu: Gpu) -> list:
    def pages(tag: str, name: str) -> tuple:
        return (None, tag, [(None, "retired_count", gpu.get(name)), (None, "retired_pagelist", NOT_AVAILABLE)])

    return [
        ("Single Bit ECC", None, gpu.get("retired.single_bit")),
        ("Double Bit ECC", None, gpu.get("retired.double_bit")),
        ("Pending Page Blacklist", "pending_blacklist", _yes(gpu, "retired.pending")),
        pages("multiple_single_bit_retirement", "retired.single_bit"),
        pages("double_bit_retirement", "retired.double_bit"),
        (None, "pending_retirement", _yes(gpu, "retired.pending")),
    ]


def _remapped(gpu: Gpu) -> tuple:
    if gpu.number("remap.pending") is None:
        return ("Remapped Rows", "remapped_rows", gpu.get("remap.pending"))
    banks = [
        (name.capitalize(), "row_remapper_histogram_" + name, gpu.get("remap." + name) + " bank(s)")
        for name in ("max", "high", "partial", "low", "none")
    ]
    return (
        "Remapped Rows",
        "remapped_rows",
        [
            ("Correctable Error", "remapped_row_corr", gpu.get("remap.correctable")),
            ("Uncorrectable Error", "remapped_row_unc", gpu.get("remap.uncorrectable")),
            ("Pending", "remapped_row_pending", _yes(gpu, "remap.pending")),
            ("Remapping Failure Occurred", "remapped_row_failure", _yes(gpu, "remap.failure")),
            ("Bank Remap Availability Histogram", "row_remapper_histogram", banks),
        ],
    )


def _temperature(gpu: Gpu) -> list:
    fields = (
        ("GPU Current Temp", "gpu_temp", "gpu"),
        ("GPU T.Limit Temp", "gpu_temp_tlimit", "margin"),
        ("GPU Shutdown T.Limit Temp", "gpu_temp_max_tlimit_threshold", "t_shutdown"),
        ("GPU Slowdown T.Limit Temp", "gpu_temp_slow_tlimit_threshold", "t_slowdown"),
        ("GPU Max Operating T.Limit Temp", "gpu_temp_max_gpu_tlimit_threshold", "t_gpu_max"),
        ("GPU Target Temperature", "gpu_target_temperature", "target"),
        ("Memory Current Temp", "memory_temp", "memory"),
        ("Memory Max Operating T.Limit Temp", "gpu_temp_max_mem_tlimit_threshold", "t_memory_max"),
    )
    return [(label, tag, amount(gpu, "temp." + name, "C")) for label, tag, name in fields]


def _draw(average: str, instant: str) -> list:
    return [("Average Power Draw", "average_power_draw", average), ("Instantaneous Power Draw", "instant_power_draw", instant)]


def _limits(current: str, default: str, lowest: str, highest: str) -> list:
    return [
        ("Current Power Limit", "current_power_limit", current),
        ("Requested Power Limit", "requested_power_limit", current),
        ("Default Power Limit", "default_power_limit", default),
        ("Min Power Limit", "min_power_limit", lowest),
        ("Max Power Limit", "max_power_limit", highest),
    ]


def _power(gpu: Gpu) -> list:
    limits = _limits(*(watts(gpu, "power." + name) for name in ("limit", "default", "min", "max")))
    return [(None, "power_state", pstate(gpu)), *_draw(watts(gpu, "power.average"), watts(gpu, "power.draw")), *limits]


def _module_power(gpu: Gpu) -> list:
    none = NOT_AVAILABLE
    return [(None, "power_state", pstate(gpu)), *_draw(none, none), *_limits(none, none, none, none)]


def _clocks(gpu: Gpu, suffix: str) -> list:
    fields = (
        ("Graphics", "graphics_clock", "graphics"),
        ("SM", "sm_clock", "sm"),
        ("Memory", "mem_clock", "memory"),
        ("Video", "video_clock", "video"),
    )
    return [(label, tag, amount(gpu, "clock.%s%s" % (name, suffix), "MHz")) for label, tag, name in fields]


def _application_clocks(gpu: Gpu) -> list:
    fields = (("Graphics", "graphics_clock", "graphics_app"), ("Memory", "mem_clock", "memory_app"))
    return [(label, tag, amount(gpu, "clock." + name, "MHz")) for label, tag, name in fields]


def _fabric(gpu: Gpu) -> list:
    state = gpu.number("fabric.state")
    none = NOT_AVAILABLE if state == 0 else None
    # While a GPU waits for the fabric manager, its status says nothing yet.
    status = none or (gpu.get("fabric.status") if state is None else "Success" if state == 3 else NOT_AVAILABLE)
    health = [(label, tag, NOT_AVAILABLE) for label, tag in (
        ("Bandwidth", "bandwidth"), ("Route Recovery in progress", "route_recovery_in_progress"),
        ("Route Unhealthy", "route_unhealthy"), ("Access Timeout Recovery", "access_timeout_recovery"),
    )]  # fmt: skip
    return [
        ("State", "state", word(gpu, "fabric.state", FABRIC_STATES)),
        ("Status", "status", status),
        ("CliqueId", "cliqueId", none or gpu.get("fabric.clique")),
        ("ClusterUUID", "clusterUuid", none or "00000000-0000-0000-0000-000000000000"),
        ("Health", "health", health),
    ]


def processes(gpu: Gpu) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    while gpu.raw("process.%d.pid" % len(found)) != NOT_AVAILABLE:
        prefix = "process.%d." % len(found)
        found.append({name: gpu.get(prefix + name) for name in ("pid", "type", "name", "used")})
    return found


def _processes(gpu: Gpu) -> tuple:
    found = processes(gpu)
    if gpu.steer("error"):
        return ("Processes", "processes", gpu.get("error"))
    if not found:
        return ("Processes", "processes", ("None", []))
    lines: list = []
    for process in found:
        used = process["used"] + " MiB" if process["used"] != NOT_AVAILABLE else NOT_AVAILABLE
        lines += [
            ("GPU instance ID", None, NOT_AVAILABLE),
            ("Compute instance ID", None, NOT_AVAILABLE),
            ("Process ID", None, process["pid"]),
            ("    Type", None, process["type"]),
            ("    Name", None, process["name"]),
            ("    Used GPU Memory", None, used),
            (
                None,
                "process_info",
                [
                    (None, "gpu_instance_id", NOT_AVAILABLE),
                    (None, "compute_instance_id", NOT_AVAILABLE),
                    (None, "pid", process["pid"]),
                    (None, "type", process["type"]),
                    (None, "process_name", process["name"]),
                    (None, "used_memory", used),
                ],
            ),
        ]
    return ("Processes", "processes", lines)
