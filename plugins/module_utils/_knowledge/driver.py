# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What NVIDIA's chips need of a driver, by PCI device id. Private to kentino.gpu."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

OPEN, PROPRIETARY = "open", "proprietary"
OLD = "older than Turing"


@dataclass(frozen=True)
class Chip:
    """A range of PCI device ids, both ends included.

    C(needs): the only flavour of kernel modules that drives it, None where either does. C(nvlink5): its NVSwitches are no PCI
    devices of the host; the subnet manager reaches them through InfiniBand devices.
    """

    first: int
    last: int
    name: str
    compute_capability: str
    needs: t.Optional[str] = None
    nvlink5: bool = False


# Ranges: PCI ID database 2026-08-22. Compute capabilities: NVIDIA, "CUDA GPU compute capability". Flavours: NVIDIA, "Driver
# Installation Guide", kernel modules: chips before Turing have no GSP and need the proprietary modules; Grace Hopper and Blackwell
# are supported by the open ones only; from Turing to Hopper both work, and the open ones are recommended.
_CHIPS: t.Tuple[Chip, ...] = (
    Chip(0x1021, 0x102F, "GK110, GK210", "3.7", PROPRIETARY),
    Chip(0x1340, 0x13BF, "GM107, GM108", "5.0", PROPRIETARY),
    Chip(0x13C0, 0x1436, "GM204, GM206", "5.2", PROPRIETARY),
    Chip(0x1617, 0x1667, "GM204", "5.2", PROPRIETARY),
    Chip(0x17C2, 0x17FD, "GM200", "5.2", PROPRIETARY),
    Chip(0x15F0, 0x15FF, "GP100", "6.0", PROPRIETARY),
    Chip(0x1B00, 0x1D7F, "GP102 to GP108", "6.1", PROPRIETARY),
    Chip(0x1D80, 0x1DFF, "GV100", "7.0", PROPRIETARY),
    Chip(0x1E00, 0x1FFF, "TU102 to TU117", "7.5"),
    Chip(0x2080, 0x20FF, "GA100", "8.0"),
    Chip(0x2180, 0x21FF, "TU116", "7.5"),
    Chip(0x2200, 0x22A2, "GA102", "8.6"),
    Chip(0x2300, 0x2341, "GH100", "9.0"),
    Chip(0x2342, 0x237F, "GH100 of Grace Hopper", "9.0", OPEN),
    Chip(0x2400, 0x25FF, "GA103 to GA107", "8.6"),
    Chip(0x2680, 0x28FF, "AD102 to AD107", "8.9"),
    Chip(0x2900, 0x29FF, "GB100", "10.0", OPEN, nvlink5=True),
    Chip(0x2B80, 0x2DFF, "GB202 to GB207", "12.0", OPEN),
    Chip(0x2E00, 0x2EFF, "GB20B", "12.1", OPEN),
    Chip(0x2F00, 0x2FFF, "GB205", "12.0", OPEN),
    Chip(0x3180, 0x31FF, "GB110", "10.3", OPEN, nvlink5=True),
)

# NVSwitches on the PCI bus: of DGX-2 (1ac0 to 1ac2), of HGX A100 (1af1), of HGX H100 and H200 (22a3).
NVSWITCHES: t.FrozenSet[str] = frozenset({"10de:1ac0", "10de:1ac1", "10de:1ac2", "10de:1af1", "10de:22a3"})


def chip(device_id: str) -> t.Optional[Chip]:
    """The chip of C(vvvv:dddd); None where it is not known: it may be newer than this table."""
    vendor, _colon, device = device_id.lower().partition(":")
    try:
        number = int(device, 16)
    except ValueError:
        return None
    if vendor != "10de":
        return None
    return next((entry for entry in _CHIPS if entry.first <= number <= entry.last), None)


def flavour(device_ids: t.Iterable[str]) -> t.Optional[str]:
    """The kernel modules that drive all of these: C(open), C(proprietary), or None where no flavour does.

    Where both do it is C(open), as NVIDIA recommends from Turing on and requires from Blackwell on; so it is for chips that are
    not listed: every one that came after this table needs it.
    """
    needs = {entry.needs if entry else OPEN for entry in map(chip, device_ids)}
    if {OPEN, PROPRIETARY} <= needs:
        return None
    return PROPRIETARY if PROPRIETARY in needs else OPEN


# What a runfile of NVIDIA leaves behind; its log stays after --uninstall, so the log alone is no proof.
RUNFILE_TRACES: t.Tuple[str, ...] = ("/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer")
RUNFILE_LOGS: t.Tuple[str, ...] = ("/var/log/nvidia-installer.log",)

# The certificate with which DKMS signs what it builds: DKMS' own, Ubuntu's, and that of DKMS on openSUSE and elder Debian.
SIGNING_CERTIFICATES: t.Tuple[str, ...] = ("/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub", "/root/mok.der")

# Names under which distributions build the module: NVIDIA's and Ubuntu's own first, then Debian's.
MODULE_NAMES: t.Tuple[str, ...] = ("nvidia", "nvidia-current", "nvidia-current-open")
# Where depmod looks, best first (its default "search updates ... built-in"; extra and weak-updates are Red Hat's).
MODULE_FOLDERS: t.Tuple[str, ...] = ("updates", "extra", "weak-updates", "kernel")
