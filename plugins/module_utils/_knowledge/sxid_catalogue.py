# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NVSwitch errors (SXid) by family. Private to kentino.gpu.

The word in the log line (Fatal, Non-fatal, Correctable) decides how bad an SXid is; the number says which part of the switch
speaks. Families follow the headers of NVIDIA's open driver 595; the harmless list is that of NVIDIA's Fabric Manager guide,
section D.4, as imbue's health checks carry it.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass


@dataclass(frozen=True)
class SxidEntry:
    """One SXid number."""

    number: int
    symbol: str  # of the family, the driver's own name
    meaning: str  # without a full stop
    sources: t.Tuple[str, ...]
    action: str  # for a fatal one
    later_action: str
    harmless: bool = False  # counts corrected errors, or is told to be no fault
    note: str = ""  # what is known of this very number
    known: bool = True


# First number of the thousand, symbol, meaning, sources, action, later action.
FAMILIES: t.Tuple[t.Tuple[int, str, str, t.Tuple[str, ...], str, str], ...] = (
    (10000, "NVSWITCH_HOST", "Host and PCIe interface, heat and firmware", ("hardware", "heat"), "reset_gpu", "reboot_node"),
    (11000, "NVSWITCH_INGRESS", "Check of received packets: routing, access, ECC", ("hardware", "driver"), "reset_gpu", "contact_vendor"),
    (12000, "NVSWITCH_EGRESS", "Check of sent packets: privilege and credit errors", ("hardware", "driver"), "reset_gpu", "contact_vendor"),
    (13000, "NVSWITCH_FSTATE", "Tracking of requests (F-state)", ("hardware",), "reset_gpu", "contact_vendor"),
    (14000, "NVSWITCH_TSTATE", "Tracking of tags (T-state)", ("hardware",), "reset_gpu", "contact_vendor"),
    (15000, "NVSWITCH_ROUTE", "Routing tables", ("hardware",), "reset_gpu", "contact_vendor"),
    (16000, "NVSWITCH_NPORT", "Port logic (NPort)", ("hardware",), "reset_gpu", "contact_vendor"),
    (17000, "NVSWITCH_NVLCTRL", "Control of the NVLinks", ("hardware",), "reset_gpu", "contact_vendor"),
    (18000, "NVSWITCH_NVLIPT", "Common part of the NVLink block", ("hardware",), "reset_gpu", "contact_vendor"),
    (19000, "NVSWITCH_NVLTLC", "Transaction layer of the NVLinks", ("hardware",), "reset_gpu", "contact_vendor"),
    (20000, "NVSWITCH_DLPL", "Data link and physical layer of the NVLinks", ("hardware",), "reset_gpu", "reseat"),
    (21000, "NVSWITCH_AFS", "AFS block", ("hardware",), "reset_gpu", "contact_vendor"),
    (22000, "NVSWITCH_MINION", "Micro-controller of the links (MINION)", ("hardware", "firmware"), "reset_gpu", "contact_vendor"),
    (23000, "NVSWITCH_NXBAR", "Crossbar; mostly fatal, needs a reset of the whole fabric", ("hardware",), "reset_gpu", "reboot_node"),
    (24000, "NVSWITCH_SOURCETRACK", "Tracking of sources", ("hardware",), "reset_gpu", "contact_vendor"),
    (25000, "NVSWITCH_NVLIPT_LNK", "Part of the NVLink block that belongs to one link", ("hardware",), "reset_gpu", "contact_vendor"),
    (26000, "NVSWITCH_SOE", "Micro-controller of the switch (SOE)", ("hardware", "firmware"), "reboot_node", "contact_vendor"),
    (27000, "NVSWITCH_CCI", "Controller of cables and optics", ("hardware",), "reseat", "contact_vendor"),
    (28000, "NVSWITCH_OSFP_THERM", "Heat in an optics cage", ("hardware", "heat"), "contact_vendor", "check_cooling"),
    (29000, "NVSWITCH_MULTICASTTSTATE", "Tracking of multicast tags", ("hardware",), "reset_gpu", "contact_vendor"),
    (30000, "NVSWITCH_REDUCTIONTSTATE", "Tracking of reductions in the switch", ("hardware",), "reset_gpu", "contact_vendor"),
)

_CORRECTED = (
    *(11012, 11021, 11022, 11023, 12021, 12023, 15008, 15011),
    *(19049, 19055, 19057, 19059, 19062, 19065, 19068, 19071, 24001, 24002, 24003),
)

_NOTES = {
    10004: "the switch is getting hot: look at fans and air flow",
    10005: "the end of a heat event that 10004 began",
    10006: "the switch switched itself off because of heat: look at fans and air flow before it is started again",
    12028: "egress non-posted PRIV error, the most common non-fatal one",
    19084: "heartbeat timeout of a link, seen with 20034: usually the GPU at the other end died",
    20009: "rate of receive errors on a link, not fatal",
    20034: "a link went down (LTSSM fault up): usually the GPU at the other end died, look for Xid 79 or 74",
    22013: "on the harmless list although it is not about corrected ECC",
    24007: "timeout of source tracking, fatal",
    28006: "the open header has no such event, yet it was seen with a firmware text: go by the text, not by the family",
    **dict.fromkeys(_CORRECTED, "limit of corrected ECC errors: on the harmless list"),
}

HARMLESS = frozenset(_CORRECTED) | {22013}

# Numbers that a link prints when what it leads to has gone.
SYMPATHETIC = frozenset({19084, 20034})

_BY_THOUSAND = {family[0] // 1000: family for family in FAMILIES}


def lookup(sxid: int) -> SxidEntry:
    """The entry of a number; one outside the known families is answered too, so that it is not lost."""
    family = _BY_THOUSAND.get(sxid // 1000)
    if family is None:
        meaning = "Not in a family that NVIDIA's open driver names: nobody outside NVIDIA knows this number"
        return SxidEntry(sxid, "", meaning, (), "contact_vendor", "contact_vendor", known=False)
    return SxidEntry(sxid, *family[1:], harmless=sxid in HARMLESS, note=_NOTES.get(sxid, ""))
