# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in for lspci: one line for each device, C(-D), C(-n), C(-nn), C(-d vendor:device), C(-s slot)."""

from __future__ import annotations

import sys

from .state import Node, folder, obey

_CLASSES = {
    "0108": "Non-Volatile memory controller",
    "0200": "Ethernet controller",
    "0207": "Infiniband controller",
    "0300": "VGA compatible controller",
    "0302": "3D controller",
    "0403": "Audio device",
    "0680": "Bridge",
}
_VENDORS = {
    "0x102b": "Matrox Electronics Systems Ltd.",
    "0x10de": "NVIDIA Corporation",
    "0x1344": "Micron Technology Inc",
    "0x144d": "Samsung Electronics Co Ltd",
    "0x15b3": "Mellanox Technologies",
    "0x1a03": "ASPEED Technology, Inc.",
    "0x8086": "Intel Corporation",
}


def main(argv: list[str]) -> int:
    node = Node(folder())
    obey(node, "lspci")
    domain, numeric, vendor, slot = False, 0, "", ""
    words = list(argv)
    while words:
        word = words.pop(0)
        if word[:2] in ("-d", "-s"):
            value = word[2:] or (words.pop(0) if words else "")
            vendor, slot = (value, slot) if word[1] == "d" else (vendor, value)
        elif word.startswith("-") and set(word[1:]) <= set("Dnvkm"):
            domain = domain or "D" in word
            numeric += word.count("n")
        else:
            sys.stderr.write("lspci: unrecognized option '%s'\n" % word)
            return 1
    number = 0
    while node.get("pci.%d" % number):
        bus_id, pci_class, maker, device, lost, name = node.get("pci.%d" % number).split("|")
        number += 1
        if not _meant(bus_id, maker, device, vendor, slot):
            continue
        code = pci_class[2:6]
        kind = code if numeric == 1 else _CLASSES.get(code, "Unclassified device") + (" [%s]" % code if numeric > 1 else "")
        identity = "%s:%s" % (maker[2:], device[2:])
        title = identity if numeric == 1 else "%s %s" % (_VENDORS.get(maker, "Unknown"), name) + (" [%s]" % identity if numeric > 1 else "")
        place = bus_id if domain else bus_id.split(":", 1)[1]
        revision = "ff" if lost == "1" else "a1"  # a device off the bus reads ff everywhere
        sys.stdout.write("%s %s: %s (rev %s)\n" % (place, kind, title, revision))
    return 0


def _meant(bus_id: str, maker: str, device: str, wanted: str, slot: str) -> bool:
    vendor, _colon, identity = wanted.partition(":")
    if vendor and int(vendor, 16) != int(maker, 16):
        return False
    if identity.split(":")[0] and int(identity.split(":")[0], 16) != int(device, 16):
        return False
    return bus_id.endswith(slot) or bus_id.rsplit(".", 1)[0].endswith(slot)
