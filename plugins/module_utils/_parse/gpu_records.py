# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a GPU says of itself, the same whether NVML or nvidia-smi was asked. Private to kentino.gpu.

A field is its value or None. Why it is None stands beside it: C(unsupported) names the fields that the GPU or driver says it
does not have (N/A), C(errors) those that answered with an error. A field that is None and in neither was not in the source.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field


@dataclass(frozen=True)
class EccCounters:
    """Counts since the driver was loaded (volatile) or over the card's life (aggregate)."""

    sram_correctable: t.Optional[int] = None
    sram_uncorrectable: t.Optional[int] = None  # parity and SEC-DED together where the driver splits them
    dram_correctable: t.Optional[int] = None
    dram_uncorrectable: t.Optional[int] = None
    # All memories together, where the source gives a sum (table, CSV total, Volta): it may be all there is.
    correctable: t.Optional[int] = None
    uncorrectable: t.Optional[int] = None


@dataclass(frozen=True)
class RowRemap:
    correctable: t.Optional[int] = None
    uncorrectable: t.Optional[int] = None
    pending: t.Optional[bool] = None
    failure: t.Optional[bool] = None
    # Banks by spare rows left: max high partial low none.
    histogram: t.Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RetiredPages:
    """Page retirement, before Ampere."""

    single_bit: t.Optional[int] = None
    double_bit: t.Optional[int] = None
    pending: t.Optional[bool] = None


@dataclass(frozen=True)
class NvLink:
    link: int
    active: t.Optional[bool] = None
    speed_gbps: t.Optional[float] = None  # GB/s, one direction
    remote_pci: t.Optional[str] = None
    crc_errors: t.Optional[int] = None
    replay_errors: t.Optional[int] = None
    recovery_errors: t.Optional[int] = None


@dataclass(frozen=True)
class GpuProcess:
    pid: int
    name: t.Optional[str] = None
    kind: t.Optional[str] = None  # compute graphics
    used_mib: t.Optional[int] = None


@dataclass(frozen=True)
class Gpu:
    pci: t.Optional[str] = None  # dddd:bb:dd, lower case; the text found where it is not an address
    index: t.Optional[int] = None  # NVML's, in PCI order; not CUDA's
    minor: t.Optional[int] = None
    uuid: t.Optional[str] = None
    serial: t.Optional[str] = None
    name: t.Optional[str] = None
    architecture: t.Optional[str] = None
    device_id: t.Optional[str] = None  # vendor and device as vvvv:dddd, lower case
    subsystem_id: t.Optional[str] = None
    vbios: t.Optional[str] = None
    board_part: t.Optional[str] = None
    inforom: t.Optional[str] = None
    state: t.Optional[str] = None  # ok requires_reset lost error
    recovery_action: t.Optional[str] = None  # None Reset Reboot "Drain P2P" "Drain and Reset", as the driver words it
    reset_required: t.Optional[bool] = None
    drain_reset_recommended: t.Optional[bool] = None
    memory_total_mib: t.Optional[int] = None
    memory_used_mib: t.Optional[int] = None
    memory_free_mib: t.Optional[int] = None
    memory_reserved_mib: t.Optional[int] = None
    bar1_total_mib: t.Optional[int] = None
    utilisation_pct: t.Optional[int] = None
    memory_utilisation_pct: t.Optional[int] = None
    fan_pct: t.Optional[int] = None
    temperature_c: t.Optional[int] = None
    memory_temperature_c: t.Optional[int] = None
    temperature_margin_c: t.Optional[int] = None  # degrees left below the slowdown point; T.Limit
    temperature_slowdown_c: t.Optional[int] = None  # absolute, on drivers that print it so
    temperature_shutdown_c: t.Optional[int] = None
    temperature_max_operating_c: t.Optional[int] = None
    margin_slowdown_c: t.Optional[int] = None  # the margin at which the slowdown begins
    margin_shutdown_c: t.Optional[int] = None
    power_watts: t.Optional[float] = None
    power_limit_watts: t.Optional[float] = None
    power_limit_default_watts: t.Optional[float] = None
    power_limit_max_watts: t.Optional[float] = None
    performance_state: t.Optional[str] = None  # P0..P15
    clock_sm_mhz: t.Optional[int] = None
    clock_memory_mhz: t.Optional[int] = None
    clock_sm_max_mhz: t.Optional[int] = None
    clock_memory_max_mhz: t.Optional[int] = None
    # Names as in EVENT_REASONS, the value whether it is active; a reason the source does not tell is not in the mapping.
    event_reasons: t.Mapping[str, bool] = field(default_factory=dict)
    pcie_gen: t.Optional[int] = None  # now; falls at idle to save power
    pcie_gen_max: t.Optional[int] = None  # what card and slot can do together
    pcie_width: t.Optional[int] = None
    pcie_width_max: t.Optional[int] = None
    pcie_replays: t.Optional[int] = None
    pcie_replay_rollovers: t.Optional[int] = None
    ecc_mode: t.Optional[bool] = None  # enabled now
    ecc_mode_pending: t.Optional[bool] = None
    ecc_layout: t.Optional[str] = None  # volta ampere: which counters the driver keeps
    ecc_volatile: t.Optional[EccCounters] = None
    ecc_aggregate: t.Optional[EccCounters] = None
    ecc_section_unknown: t.Optional[EccCounters] = None  # counters whose heading was not in the text
    sram_threshold_exceeded: t.Optional[bool] = None
    retired: t.Optional[RetiredPages] = None
    remapped: t.Optional[RowRemap] = None
    repair_pending: t.Tuple[str, ...] = ()  # channel, tpc (Blackwell)
    unrepairable_memory: t.Optional[bool] = None  # driver 590
    nvlinks: t.Tuple[NvLink, ...] = ()
    fabric_state: t.Optional[str] = None  # Completed "In Progress" "Not Started" N/A, as the driver words it
    fabric_status: t.Optional[str] = None
    fabric_health: t.Optional[str] = None  # Healthy Unhealthy "Limited Capacity"
    mig_mode: t.Optional[bool] = None
    mig_mode_pending: t.Optional[bool] = None
    persistence_mode: t.Optional[bool] = None
    compute_mode: t.Optional[str] = None
    processes: t.Optional[t.Tuple[GpuProcess, ...]] = None  # None: could not be read; empty: read, and there are none
    unsupported: t.FrozenSet[str] = frozenset()
    errors: t.Mapping[str, str] = field(default_factory=dict)


# NVML's bits (nvmlClocksEventReason*) and the names we use for them. Test bits, never equality: several are set at once.
EVENT_REASONS = {
    0x1: "idle",
    0x2: "applications_clocks",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake",
    0x100: "display_clocks",
}


@dataclass(frozen=True)
class GpuReading:
    """One reading of a node."""

    source: str  # nvml, nvidia-smi xml, nvidia-smi text, nvidia-smi table, nvidia-smi csv
    gpus: t.Tuple[Gpu, ...] = ()
    lost: t.Tuple[str, ...] = ()  # PCI addresses that answered with an error, normalised where possible
    driver_version: t.Optional[str] = None
    cuda_version: t.Optional[str] = None
    nvml_version: t.Optional[str] = None
    attached: t.Optional[int] = None  # GPUs the driver says there are
    complete: bool = False  # the end of the tool's output was seen and as many GPUs as announced
    # Why nothing or not everything was read: missing_library missing_tool version_mismatch driver_not_loaded no_devices
    # timeout garbled permission init_failed other
    error_kind: t.Optional[str] = None
    error: t.Optional[str] = None
    unrecognised: t.Tuple[str, ...] = ()  # keys or lines that were not understood
    simulated: bool = False
