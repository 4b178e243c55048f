# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a GPU is, by PCI vendor and device id. Private to kentino.gpu.

Never by name: "H100" is in the names of SXM boards, PCIe cards and superchips alike. What is not certain is C(None), and
nothing is expected from it. A GPU that is not listed is not judged by its model at all.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

FORMS = ("sxm", "pcie", "superchip")
GRADES = ("datacentre", "workstation", "consumer")
ECC = ("standard", "optional", "none")


@dataclass(frozen=True)
class Platform:
    device_id: str  # vvvv:dddd, lower case
    name: str
    form: str
    grade: str
    ecc: t.Optional[str] = None  # standard: on when shipped; optional: the owner may turn it on; none
    row_remap: t.Optional[bool] = None  # False: pages are retired instead
    nvlinks: t.Optional[int] = None  # links in use on every board of this GPU; None where bridges or boards differ
    fabric: t.Optional[bool] = None  # registers with an NVSwitch fabric and tells its state (NVML: Hopper and newer)
    pcie_gen: t.Optional[int] = None
    pcie_width: t.Optional[int] = None
    shares_board: bool = False  # several GPUs on one board with one serial number
    source: str = ""
    trust: str = "vendor"


# The ids are in the PCI ID database. Row remapping by chip: NVIDIA, "GPU memory error management", supported GPUs (GA100,
# GA10x, AD10x, GH100, GB10x; the chips of the RTX PRO Blackwell cards are not in its table).
_IDS = "PCI ID database 2026-08-22; "
_DATASHEET = _IDS + "NVIDIA data sheet"
_HGX = _IDS + "NVIDIA HGX platform figures: NVLink bandwidth divided by that of a link"


def _sxm(device: str, name: str, nvlinks: t.Optional[int], **more: t.Any) -> Platform:
    facts = {"ecc": "standard", "row_remap": True, "nvlinks": nvlinks, "pcie_width": 16, "source": _HGX}
    return Platform("10de:" + device, name, "sxm", "datacentre", **{**facts, **more})


def _card(device: str, name: str, pcie_gen: t.Optional[int], **more: t.Any) -> Platform:
    facts = {"ecc": "standard", "row_remap": True, "pcie_gen": pcie_gen, "pcie_width": 16, "fabric": False, "source": _DATASHEET}
    return Platform("10de:" + device, name, "pcie", "datacentre", **{**facts, **more})


def _workstation(device: str, name: str, pcie_gen: int, **more: t.Any) -> Platform:
    facts = {"ecc": "optional", "pcie_gen": pcie_gen, "pcie_width": 16, "fabric": False, "source": _DATASHEET}
    return Platform("10de:" + device, name, "pcie", "workstation", **{**facts, **more})


def _consumer(device: str, name: str, pcie_gen: int, **more: t.Any) -> Platform:
    facts = {"ecc": "none", "row_remap": False, "nvlinks": 0, "pcie_gen": pcie_gen, "pcie_width": 16, "fabric": False, "source": _DATASHEET}
    return Platform("10de:" + device, name, "pcie", "consumer", **{**facts, **more})


_ALL = (
    # Volta and Turing retire pages. SXM2 boards differ in how many links they wire.
    _sxm("1db1", "V100 SXM2 16GB", None, row_remap=False, pcie_gen=3, fabric=False),
    _sxm("1db5", "V100 SXM2 32GB", None, row_remap=False, pcie_gen=3, fabric=False),
    _sxm("1db8", "V100 SXM3 32GB", None, row_remap=False, pcie_gen=3, fabric=False),
    _card("1db4", "V100 PCIe 16GB", 3, row_remap=False),
    _card("1db6", "V100 PCIe 32GB", 3, row_remap=False),
    _card("1df6", "V100S PCIe 32GB", 3, row_remap=False),
    _card("1eb8", "T4", 3, row_remap=False),
    # A100 boards with NVSwitch need Fabric Manager as well, but the GPU does not tell its state: NVML does so from Hopper on.
    _sxm("20b0", "A100 SXM4 40GB", 12, pcie_gen=4),
    _sxm("20b2", "A100 SXM4 80GB", 12, pcie_gen=4),
    # Custom and export variants: how many links are wired is not certain.
    _sxm("20b3", "A100 SXM4 64GB", None, pcie_gen=4),
    _sxm("20bd", "A800 SXM4 40GB", None, pcie_gen=4),
    _sxm("20f3", "A800 SXM4 80GB", None, pcie_gen=4),
    # PCIe cards may carry NVLink bridges or not: no count is expected.
    _card("20b1", "A100 PCIe 40GB", 4),
    _card("20f1", "A100 PCIe 40GB", 4),
    _card("20b5", "A100 PCIe 80GB", 4),
    _card("20b7", "A30", 4),
    _card("2235", "A40", 4),
    _card("2236", "A10", 4, nvlinks=0),
    # One id for the A2 and for each of the four GPUs of an A16, which share a serial number.
    _card("25b6", "A2 or A16", None, pcie_width=None, nvlinks=0, shares_board=True),
    _card("102d", "K80", None, row_remap=False, pcie_width=None, nvlinks=0, shares_board=True),
    _card("13bd", "M10", None, ecc=None, row_remap=False, pcie_width=None, nvlinks=0, shares_board=True),
    _card("13f2", "M60", None, ecc="optional", row_remap=False, pcie_width=None, nvlinks=0, shares_board=True),
    _sxm("2330", "H100 SXM5 80GB", 18, fabric=True, pcie_gen=5),
    _sxm("2335", "H200 SXM 141GB", 18, fabric=True, pcie_gen=5),
    _sxm("2324", "H800 SXM5", None, fabric=True, pcie_gen=5),
    _sxm("2329", "H20", None, fabric=True, pcie_gen=5),
    # Used on boards of four that join their GPUs directly, without NVSwitch.
    _sxm("2337", "H100 SXM5 64GB", None, pcie_gen=5),
    _sxm("2339", "H100 SXM5 94GB", None, pcie_gen=5),
    _card("2331", "H100 PCIe", 5),
    _card("2321", "H100 NVL", 5),
    _card("2322", "H800 PCIe", 5),
    _card("233b", "H200 NVL", 5),
    Platform("10de:2342", "GH200", "superchip", "datacentre", ecc="standard", row_remap=True, source=_DATASHEET),
    Platform("10de:2348", "GH200 144GB", "superchip", "datacentre", ecc="standard", row_remap=True, source=_DATASHEET),
    _sxm("2901", "B200", 18, fabric=True),
    _sxm("3182", "B300 SXM6", 18, fabric=True),
    Platform("10de:2941", "GB200", "superchip", "datacentre", ecc="standard", row_remap=True, source=_DATASHEET),
    Platform("10de:31c2", "GB300", "superchip", "datacentre", ecc="standard", row_remap=True, source=_DATASHEET),
    _card("26b9", "L40S", 4, nvlinks=0),
    _card("26b5", "L40", 4, nvlinks=0),
    _card("27b8", "L4", 4, nvlinks=0),
    _card("2bb5", "RTX PRO 6000 Blackwell Server Edition", 5, ecc="optional", row_remap=None, nvlinks=0),
    _workstation("2bb1", "RTX PRO 6000 Blackwell Workstation Edition", 5, nvlinks=0),
    _workstation("2bb4", "RTX PRO 6000 Blackwell Max-Q Workstation Edition", 5, nvlinks=0),
    _workstation("26b1", "RTX 6000 Ada Generation", 4, nvlinks=0),
    _workstation("2230", "RTX A6000", 4),  # takes a bridge
    _consumer("2204", "GeForce RTX 3090", 4, nvlinks=None),  # takes a bridge
    _consumer("2684", "GeForce RTX 4090", 4, ecc="optional", row_remap=None),  # its driver offers a switch for ECC
    _consumer("2b85", "GeForce RTX 5090", 5),
)

PLATFORMS: t.Mapping[str, Platform] = {platform.device_id: platform for platform in _ALL}


def platform(device_id: t.Optional[str]) -> t.Optional[Platform]:
    """The profile of a GPU by C(vvvv:dddd), or None: nothing is known, so nothing is expected."""
    return PLATFORMS.get((device_id or "").strip().lower())
