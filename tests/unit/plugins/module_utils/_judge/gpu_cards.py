# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Healthy GPUs as NVML tells of them, for the tests of the GPU judge."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.kentino.gpu.plugins.module_utils._judge import gpu as judge
from ansible_collections.kentino.gpu.plugins.module_utils._parse.gpu_records import (
    EVENT_REASONS,
    EccCounters,
    Gpu,
    GpuReading,
    NvLink,
    RetiredPages,
    RowRemap,
)
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import Finding

QUIET = {name: name == "idle" for name in EVENT_REASONS.values()}
NO_ERRORS = EccCounters(0, 0, 0, 0)
ALL_SPARE = {"max": 2560, "high": 0, "partial": 0, "low": 0, "none": 0}

H100 = Gpu(
    pci="0000:1a:00",
    index=0,
    uuid="GPU-1b6f3a52-0000-4000-8000-00000000001a",
    serial="1650923004410",
    name="NVIDIA H100 80GB HBM3",
    device_id="10de:2330",
    vbios="96.00.74.00.01",
    board_part="692-2G520-0200-000",
    inforom="G520.0200.00.05",
    state="ok",
    recovery_action="None",
    memory_total_mib=81559,
    memory_used_mib=6,
    memory_free_mib=81068,
    memory_reserved_mib=485,
    utilisation_pct=0,
    temperature_c=33,
    memory_temperature_c=42,
    temperature_margin_c=55,
    margin_slowdown_c=-2,
    margin_shutdown_c=-8,
    power_watts=71.5,
    power_limit_watts=700.0,
    power_limit_default_watts=700.0,
    performance_state="P0",
    event_reasons=QUIET,
    pcie_gen=5,
    pcie_gen_max=5,
    pcie_width=16,
    pcie_width_max=16,
    pcie_replays=0,
    ecc_mode=True,
    ecc_mode_pending=True,
    ecc_volatile=NO_ERRORS,
    ecc_aggregate=EccCounters(0, 0, 4, 0),
    sram_threshold_exceeded=False,
    remapped=RowRemap(0, 0, False, False, ALL_SPARE),
    nvlinks=tuple(NvLink(link, True, 26.562, crc_errors=0, replay_errors=0, recovery_errors=0) for link in range(18)),
    fabric_state="Completed",
    fabric_status="Success",
    mig_mode=False,
    mig_mode_pending=False,
    persistence_mode=True,
    compute_mode="Default",
    processes=(),
    unsupported=frozenset({"retired", "fan_pct"}),
)

RTX_5090 = Gpu(
    pci="0000:21:00",
    index=0,
    uuid="GPU-90f0a3c1-0000-4000-8000-000000000021",
    name="NVIDIA GeForce RTX 5090",
    device_id="10de:2b85",
    vbios="98.02.2e.00.03",
    state="ok",
    recovery_action="None",
    memory_total_mib=32607,
    memory_used_mib=612,
    utilisation_pct=3,
    fan_pct=30,
    temperature_c=44,
    temperature_margin_c=43,
    margin_slowdown_c=-2,
    margin_shutdown_c=-8,
    power_limit_watts=575.0,
    power_limit_default_watts=575.0,
    performance_state="P8",
    event_reasons=QUIET,
    pcie_gen=1,
    pcie_gen_max=5,
    pcie_width=16,
    pcie_width_max=16,
    pcie_replays=0,
    processes=(),
    unsupported=frozenset(
        {
            "serial",
            "ecc_mode",
            "ecc_mode_pending",
            "ecc_volatile",
            "ecc_aggregate",
            "sram_threshold_exceeded",
            "remapped",
            "retired",
            "mig_mode",
            "fabric_state",
        }
    ),
)

T4 = Gpu(
    pci="0000:5e:00",
    index=0,
    uuid="GPU-7474aaaa-0000-4000-8000-00000000005e",
    serial="0324519008123",
    name="Tesla T4",
    device_id="10de:1eb8",
    state="ok",
    reset_required=False,
    memory_total_mib=15360,
    memory_used_mib=2,
    utilisation_pct=0,
    temperature_c=39,
    temperature_slowdown_c=93,
    temperature_shutdown_c=96,
    performance_state="P8",
    event_reasons=QUIET,
    pcie_gen=1,
    pcie_gen_max=3,
    pcie_width=16,
    pcie_width_max=16,
    pcie_replays=0,
    ecc_mode=True,
    ecc_mode_pending=True,
    ecc_volatile=NO_ERRORS,
    ecc_aggregate=NO_ERRORS,
    retired=RetiredPages(0, 0, False),
    processes=(),
    unsupported=frozenset({"remapped", "mig_mode", "fabric_state"}),
)

change = dataclasses.replace


def node(*gpus: Gpu, **more: t.Any) -> GpuReading:
    """A whole NVML reading of these GPUs."""
    facts: t.Dict[str, t.Any] = {"source": "nvml", "driver_version": "570.133.20", "cuda_version": "12.8"}
    facts.update(attached=len(gpus), complete=True)
    return GpuReading(gpus=gpus, **{**facts, **more})


def several(card: Gpu, count: int) -> t.Tuple[Gpu, ...]:
    """Siblings: alike but for what names them."""
    return tuple(
        change(
            card,
            index=number,
            pci="0000:%02x:00" % (0x10 + number),
            uuid="%s%02x" % ((card.uuid or "")[:-2], 0x10 + number),
            serial=card.serial and "%s%02d" % (card.serial[:-2], number),
        )
        for number in range(count)
    )


def told(findings: t.Iterable[Finding]) -> t.List[t.Tuple[str, str, str]]:
    """Code, verdict, action of everything worse than info."""
    return [(one.code, one.verdict, one.action) for one in findings if one.verdict != "pass"]


def of_one(card: Gpu, expected: t.Optional[t.Mapping[str, t.Any]] = None, **more: t.Any) -> t.List[t.Tuple[str, str, str]]:
    """What is said of a node with this card alone."""
    return told(judge.judge(node(card), expected or {}, {}, **more))
