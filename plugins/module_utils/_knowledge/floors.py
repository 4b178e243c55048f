# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The least bus bandwidth of an all-reduce, by GPU and count. Private to kentino.gpu.

A figure without its message size means nothing: one node of eight H200 measures 1.4 GB/s at 32 KiB and 482 GB/s at 16 GiB. So
only published figures that name a size are here. For any other hardware a baseline is learned from its own good runs.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

GIB = 1 << 30
MIB = 1 << 20

_READ = "2026-11-29"

# GB/s that one GPU can send, by generation of PCIe and for 16 lanes: the raw rate less the coding.
_PCIE_LINK_GBPS = {3: 15.8, 4: 31.5, 5: 63.0, 6: 121.0}


@dataclass(frozen=True)
class Floor:
    device_id: str  # vvvv:dddd
    form: str  # sxm or pcie: how the GPUs reach each other
    gpus: int  # of one node, all of them
    value: float
    unit: str
    message_bytes: int
    link_gbps: float  # one GPU, one direction
    in_switch: bool  # the NVSwitch adds up: a GPU sends its data once, and the bus bandwidth may exceed the link
    pcie_gen: t.Optional[int]  # the link that the figure holds for, where it runs over PCIe
    pcie_width: t.Optional[int]
    measured: t.Optional[float]  # what a good node measured at that size or near it
    conditions: str
    source: str
    date: str
    trust: str  # as in thresholds

    def limit_gbps(self) -> float:
        """Above this the figure contradicts the link: bus bandwidth is the algorithm's times 2(n-1)/n."""
        return self.link_gbps * (2 * (self.gpus - 1) / self.gpus if self.in_switch else 1)

    def option(self) -> t.Dict[str, t.Any]:
        """As the NCCL test takes it."""
        return {
            "value_gbps": self.value,
            "message_bytes": self.message_bytes,
            "gpus": self.gpus,
            "source": self.source,
            "date": self.date,
        }


def _sxm(device: str, value: float, message_bytes: int, link_gbps: float, **more: t.Any) -> Floor:
    facts: t.Dict[str, t.Any] = {"in_switch": True, "pcie_gen": None, "pcie_width": None, "unit": "GB/s", "date": _READ, "trust": "field"}
    return Floor("10de:" + device, "sxm", 8, value, message_bytes=message_bytes, link_gbps=link_gbps, **{**facts, **more})


_ALL = (
    _sxm(
        "20b2",
        228,
        16 * GIB,
        300,
        in_switch=False,
        measured=235,
        conditions="8 GPUs of one node behind NVSwitch",
        source="Azure/azurehpc-health-checks, nd96amsr_a100_v4.conf; measured: stas00/ml-engineering",
    ),
    _sxm(
        "20b0",
        228,
        16 * GIB,
        300,
        in_switch=False,
        measured=235,
        conditions="8 GPUs of one node behind NVSwitch",
        source="Azure/azurehpc-health-checks, nd96asr_v4.conf; measured on the 80 GB card: stas00/ml-engineering",
    ),
    _sxm(
        "2330",
        460,
        16 * GIB,
        450,
        measured=480,
        conditions="8 GPUs of one node behind NVSwitch, NVLS on; a ring without it reaches some 370",
        source="Azure/azurehpc-health-checks, nd96isr_h100_v5.conf; measured at 4 GiB: NVIDIA/nccl#1374",
    ),
    _sxm(
        "2335",
        431,
        16 * GIB,
        450,
        measured=480,
        conditions="8 GPUs of one node behind NVSwitch, NVLS on; a ring without it reaches 367",
        source="Azure/azurehpc-health-checks, nd96isr_h200_v5.conf; measured: stas00/ml-engineering",
    ),
    _sxm(
        "2901",
        600,
        256 * MIB,
        900,
        measured=646,
        conditions="8 GPUs of one node behind NVSwitch",
        source="AWS gpu-cluster-healthcheck, p6-b200 over NVLink; measured: stas00/ml-engineering",
    ),
    *(
        Floor(
            "10de:" + device,
            "pcie",
            8,
            20,
            "GB/s",
            32 * MIB,
            _PCIE_LINK_GBPS[5],
            False,
            5,
            16,
            22,
            "8 GPUs of one node, every link generation 5 and 16 lanes wide; a tuned node reaches 38 to 41 from 8 MiB on",
            "voipmonitor/rtx6kpro, hardware/pcie-bandwidth.md: 22 on an untuned node of two sockets, and a tenth off",
            _READ,
            "own",
        )
        for device in ("2bb1", "2bb4", "2bb5")
    ),
)

FLOORS: t.Mapping[t.Tuple[str, int], Floor] = {(floor.device_id, floor.gpus): floor for floor in _ALL}

# Where a person may look for a figure and why there is none.
WITHOUT_FLOOR: t.Mapping[str, str] = {
    "10de:3182": "B300: 700, 750 and 800 GB/s are published by the same operator, none with a message size",
    "10de:2941": "GB200: no figure published",
    "10de:31c2": "GB300: 440 GB/s is published without a message size, for several trays together",
    "10de:26b9": "L40S: a remark of some 20 GB/s, without a message size",
    "10de:2684": "GeForce RTX 4090: no reliable figure; it hangs with peer-to-peer on some boards",
    "10de:2b85": "GeForce RTX 5090: single reports of 28 GB/s for eight and 35 for four, without a message size",
}


def floor(
    device_ids: t.Iterable[t.Optional[str]], pcie_gen: t.Optional[int] = None, pcie_width: t.Optional[int] = None
) -> t.Optional[Floor]:
    """The floor for these GPUs together, or None: of mixed cards, of another count, or where the link is not the one it holds for.

    C(pcie_gen) and C(pcie_width) are those of the slowest link, as card and slot can do at most: an idle link saves power.
    """
    ids = [(device or "").strip().lower() for device in device_ids]
    found = FLOORS.get((ids[0], len(ids))) if ids and len(set(ids)) == 1 else None
    if found is None or found.pcie_gen is None or found.pcie_width is None:
        return found
    if pcie_gen is None or pcie_width is None or pcie_gen < found.pcie_gen or pcie_width < found.pcie_width:
        return None
    return found
