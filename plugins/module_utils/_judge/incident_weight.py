# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How bad one Xid line is by itself: its number, the words behind it, and what the inventory says. Private to kentino.gpu."""

from __future__ import annotations

import typing as t

from .._knowledge import nvlink4, nvlink5
from .._knowledge.xid_catalogue import XidEntry
from .._parse.kernel_log_records import XidEvent
from .incident_folding import recovery
from .kernel_policy import KernelPolicy


class Weight(t.NamedTuple):
    severity: str
    action: str
    note: str = ""  # what the line adds to the meaning of its number


# What an Xid 154 asks for, as recovery() words it.
_RECOVERIES = {
    "none": Weight("info", "none", "the driver asks for nothing any more: recovered"),
    "gpu reset required": Weight("critical", "reset_gpu", "the driver asks for a GPU reset"),
    "drain p2p": Weight("critical", "reset_gpu", "the driver asks to drain peer-to-peer traffic before the reset"),
    "drain and reset": Weight("critical", "reset_gpu", "the driver asks to drain the GPU and reset it"),
    "node reboot required": Weight("critical", "reboot_node", "the driver asks for a reboot of the node"),
    "recover imex domain": Weight("critical", "contact_vendor", "the driver asks to recover the IMEX domain"),
}

# The catalogue's advice for 154 lists all cases; here it is known which one it is.
ADVICE_154 = {
    "reset_gpu": "Stop the jobs on this GPU, drain it and reset it. The Xid before this line is the cause, if it was not lost.",
    "reboot_node": "Drain the node and reboot it; a reset of the GPU is not enough. The Xid before this line is the cause.",
    "contact_vendor": "Read the line itself, look the recovery up in the release notes of this driver, and ask the vendor.",
}


def of_line(event: XidEvent, policy: KernelPolicy, superseded: bool = False) -> Weight:
    """C(superseded): a later Xid 154 of this GPU and boot says what holds now."""
    entry = policy.lookup(event.xid)
    if event.xid == 154:
        weight = Weight("info", "none") if superseded else _asked(event)
    elif event.xid in nvlink5.XIDS:
        weight = _nvlink5(event, entry, policy)
    elif event.xid == 74:
        weight = _nvlink4(event, entry)
    elif event.xid in (94, 95):
        weight = _containment(event, entry)
    else:
        weight = of_number(entry)
    return _overridden(weight, entry)


def of_number(entry: XidEntry) -> Weight:
    """By the number alone, as for one that another line names as its cause."""
    weight = Weight(entry.severity, entry.action)
    # An application alone explains it; only what repeats on one card tells of the card.
    if entry.app_caused == "yes":
        weight = weight._replace(severity="info")
    return _overridden(weight, entry)


def _overridden(weight: Weight, entry: XidEntry) -> Weight:
    if "severity" in entry.overridden:
        weight = weight._replace(severity=entry.severity)
    if "action" in entry.overridden:
        weight = weight._replace(action=entry.action)
    return weight


def _asked(event: XidEvent) -> Weight:
    asked = recovery(event)
    if asked in _RECOVERIES:
        return _RECOVERIES[asked]
    what = "something unknown here: '%s'" % asked if asked else "a recovery that the line no longer names"
    return Weight("critical", "contact_vendor", "the driver asks for " + what)


def _nvlink5(event: XidEvent, entry: XidEntry, policy: KernelPolicy) -> Weight:
    found = decoded(event, policy.driver_version)
    if found is None:
        return Weight(entry.severity, entry.action, "the registers are missing, so the worst is assumed")
    return Weight(found.severity, found.action, found.note)


def decoded(event: XidEvent, driver_version: t.Optional[str]) -> t.Optional[nvlink5.Decode]:
    """What NVIDIA's sheet says about the line; None where the line holds nothing to look up."""
    detail = event.detail
    subcode, intrinfo, word = detail.get("subcode"), detail.get("intrinfo"), detail.get("severity_word") or detail.get("severity")
    if not subcode and intrinfo is None and not word:
        return None
    return nvlink5.decode(event.xid, subcode, intrinfo, detail.get("errorstatus"), driver_version, word)


def _nvlink4(event: XidEvent, entry: XidEntry) -> Weight:
    registers = event.detail.get("registers")
    found = nvlink4.decode(registers) if isinstance(registers, (list, tuple)) else None
    if found is None:
        return Weight(entry.severity, entry.action)
    return Weight("warning" if found.kind == nvlink4.HARMLESS else entry.severity, found.action, found.note)


def _containment(event: XidEvent, entry: XidEntry) -> Weight:
    if event.detail.get("rst"):
        return Weight("critical", "reset_gpu", "the line asks for a reset (RST: Yes)")
    if event.detail.get("d_rst"):
        return Weight("critical", "reset_gpu", "the line asks to drain and reset (D-RST: Yes)")
    return of_number(entry)
