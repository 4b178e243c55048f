# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The NVIDIA GPUs that the PCI bus knows, whatever the driver says. Private to kentino.gpu."""

from __future__ import annotations

import os
import typing as t

from .root import under_root

_NVIDIA = "0x10de"
# Display controllers: VGA (GeForce) and 3D (data centre). NVSwitches are 0x0680 bridges, audio functions 0x0403.
_GPU_CLASSES = ("0x0300", "0x0302")


def nvidia_gpus() -> t.Optional[t.Tuple[str, ...]]:
    """Addresses (C(dddd:bb:dd)) of NVIDIA GPUs on the bus that no other driver (vfio-pci, nouveau) holds; None: no PCI bus to read.

    Inside a container that shows only some of the host's GPUs the bus proves nothing, so None as well.
    """
    if os.environ.get("NVIDIA_VISIBLE_DEVICES", "all") not in ("all", ""):
        return None
    root = under_root("/sys/bus/pci/devices")
    try:
        devices = sorted(os.listdir(root))
    except OSError:
        return None
    found = []
    for device in devices:
        path = os.path.join(root, device)
        if _read(path, "vendor") != _NVIDIA or not _read(path, "class").startswith(_GPU_CLASSES):
            continue
        driver = os.path.basename(os.path.realpath(os.path.join(path, "driver")))
        if driver in ("driver", "nvidia"):
            found.append(device.rsplit(".", 1)[0].lower())
    return tuple(found)


def _read(path: str, name: str) -> str:
    try:
        with open(os.path.join(path, name), encoding="ascii", errors="replace") as handle:
            return handle.read().strip()
    except OSError:
        return ""
