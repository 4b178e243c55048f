# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the NVLink5 Xids of Blackwell (144 to 150) say behind the number. Private to kentino.gpu.

The line gives a unit, Fatal or Nonfatal, and registers: interrupt word, error status, debug words. NVIDIA's decode sheet (with
its Xid catalogue of 2025-09-30) tells from these how bad it is. The interrupt word holds the unit in bits 9:0 before driver
R575 and in bits 6:0 from R575 on, and for a link that went down the reason in bits 25:20.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from .._report.model import ACTIONS, SEVERITIES

FATAL, LINK_FATAL, NONFATAL = "fatal", "link fatal", "nonfatal"

# What to do at once. FOLLOW: what Xid 154 asks for; without one a fatal event resets and another restarts the job.
IGNORE, RESET, FOLLOW = "ignore", "reset", "follow 154"

# What to look into afterwards: action word, and in words.
NOTHING = ("none", "")
VENDOR = ("contact_vendor", "")
SOLO = ("contact_vendor", "usually follows an error elsewhere; if it comes alone it is a case for the vendor")
DAILY = ("contact_vendor", "if it comes more than once a day it is a case for the vendor")
LINK = ("reseat", "look into the signal of the link: seating, bridge, connectors")
CABLES = ("reseat", "look into the signal of the link and its cables")
PEER = ("contact_vendor", "look at the device at the other end of the link")
USER = ("look_at_code", "look for software or a person who took the link down")
USER_OR_LINK = ("look_at_code", "look for software or a person who took the link down, then at the signal of the link")
HOST = ("contact_vendor", "look at the host at the other end")


@dataclass(frozen=True)
class _Row:
    status: t.Optional[int]  # error status, exactly; None: any
    severity: str
    now: str
    later: t.Tuple[str, str]
    origin: str  # what NVIDIA blames
    reason: int = 0  # bits 25:20 of the interrupt word
    reset_if_flagged: bool = False  # the bit right above the unit's field makes it fatal


@dataclass(frozen=True)
class _Unit:
    xid: int
    names: t.Tuple[str, ...]  # as printed; the sheet knows some under two names
    word_v1: int  # bits 9:0 before R575
    word_v2: int  # bits 6:0 from R575 on
    rows: t.Tuple[_Row, ...]


UNITS: t.Tuple[_Unit, ...] = (
    _Unit(
        144,
        ("SAW_MVB",),
        0x021,
        0x01,
        (
            _Row(0x00000001, NONFATAL, IGNORE, VENDOR, "hardware"),
            _Row(0x00000002, FATAL, RESET, VENDOR, "hardware"),
            _Row(0x00000004, NONFATAL, IGNORE, NOTHING, "hardware"),
            _Row(0x00000008, NONFATAL, IGNORE, VENDOR, "hardware"),
            _Row(0x00000010, FATAL, RESET, VENDOR, "hardware"),
            _Row(0x00000020, NONFATAL, IGNORE, NOTHING, "hardware"),
        ),
    ),
    _Unit(145, ("RLW_CTRL",), 0x062, 0x03, (_Row(0x80000000, NONFATAL, IGNORE, VENDOR, "software"),)),
    _Unit(
        145,
        ("RLW_REMAP",),
        0x082,
        0x04,
        (
            _Row(0x00000001, NONFATAL, FOLLOW, VENDOR, "software"),
            _Row(0x00000002, NONFATAL, FOLLOW, VENDOR, "software"),
            _Row(0x00000004, NONFATAL, FOLLOW, LINK, "software"),
            _Row(0x00000008, NONFATAL, FOLLOW, LINK, "software"),
            _Row(0x00000010, NONFATAL, FOLLOW, LINK, "software"),
            _Row(0x00000020, NONFATAL, FOLLOW, LINK, "software"),
            _Row(0x00000040, FATAL, RESET, VENDOR, "hardware"),
            _Row(0x00000080, FATAL, RESET, VENDOR, "hardware"),
            _Row(0x00000100, NONFATAL, IGNORE, NOTHING, "hardware"),
            _Row(0x00000200, NONFATAL, IGNORE, NOTHING, "hardware"),
            _Row(0x80000000, NONFATAL, IGNORE, VENDOR, "software"),
        ),
    ),
    _Unit(
        145,
        ("RLW_RSPCOL",),
        0x0A2,
        0x05,
        (
            _Row(0x00000001, NONFATAL, IGNORE, NOTHING, "hardware"),
            _Row(0x00000002, FATAL, RESET, VENDOR, "hardware"),
            _Row(0x80000000, NONFATAL, IGNORE, VENDOR, "software"),
        ),
    ),
    _Unit(
        145,
        ("RLW_RXPIPE",),
        0x0C2,
        0x06,
        (
            _Row(0x00000001, NONFATAL, IGNORE, VENDOR, "software", reset_if_flagged=True),
            _Row(0x00000002, NONFATAL, IGNORE, VENDOR, "software", reset_if_flagged=True),
            _Row(0x00000004, NONFATAL, IGNORE, VENDOR, "software", reset_if_flagged=True),
            _Row(0x00000008, NONFATAL, IGNORE, VENDOR, "hardware or software"),
            _Row(0x80000000, NONFATAL, IGNORE, VENDOR, "software"),
        ),
    ),
    _Unit(
        145,
        ("RLW_SRC_TRACK",),
        0x0E2,
        0x07,
        (
            _Row(0x00000001, FATAL, RESET, VENDOR, "hardware"),
            _Row(0x00000002, NONFATAL, IGNORE, NOTHING, "hardware"),
            _Row(0x00000004, NONFATAL, FOLLOW, NOTHING, "hardware or software"),
            _Row(0x00000008, NONFATAL, FOLLOW, NOTHING, "hardware or software"),
            _Row(0x00000010, FATAL, RESET, VENDOR, "hardware"),
            _Row(0x00000020, FATAL, RESET, VENDOR, "hardware"),
            _Row(0x80000000, NONFATAL, IGNORE, VENDOR, "software"),
        ),
    ),
    _Unit(
        145,
        ("RLW_TAGSTATE",),
        0x102,
        0x08,
        (
            _Row(0x00000001, NONFATAL, IGNORE, NOTHING, "hardware"),
            _Row(0x00000002, FATAL, RESET, VENDOR, "hardware"),
            _Row(0x00010000, NONFATAL, IGNORE, NOTHING, "hardware"),
            _Row(0x00020000, FATAL, RESET, VENDOR, "hardware"),
            _Row(0x00100000, FATAL, RESET, VENDOR, "hardware"),
            _Row(0x80000000, NONFATAL, IGNORE, VENDOR, "software"),
        ),
    ),
    _Unit(
        146,
        ("TLW_CTRL",),
        0x123,
        0x09,
        (
            _Row(0x00000001, NONFATAL, IGNORE, NOTHING, "hardware"),
            _Row(0x00000002, NONFATAL, IGNORE, VENDOR, "hardware"),
            _Row(0x00000004, FATAL, RESET, VENDOR, "hardware"),
            _Row(0x80000000, NONFATAL, IGNORE, VENDOR, "software"),
        ),
    ),
    _Unit(
        146,
        ("TLW_RX", "TLW_RX_PIPE0"),
        0x143,
        0x0A,
        (
            _Row(0x00000001, NONFATAL, IGNORE, NOTHING, "hardware"),
            _Row(0x00000002, NONFATAL, IGNORE, VENDOR, "hardware"),
            _Row(0x00000004, FATAL, RESET, VENDOR, "hardware"),
            _Row(0x80000000, NONFATAL, IGNORE, VENDOR, "software"),
        ),
    ),
    _Unit(
        146,
        ("TLW_RX", "TLW_RX_PIPE1"),
        0x143,
        0x0B,
        (
            _Row(0x00000001, NONFATAL, IGNORE, NOTHING, "hardware"),
            _Row(0x00000002, NONFATAL, IGNORE, VENDOR, "hardware"),
            _Row(0x00000004, FATAL, RESET, VENDOR, "hardware"),
            _Row(0x80000000, NONFATAL, IGNORE, VENDOR, "software"),
        ),
    ),
    _Unit(
        146,
        ("TLW_TX", "TLW_TX_PIPE0"),
        0x163,
        0x0C,
        (
            _Row(0x00000001, NONFATAL, IGNORE, NOTHING, "hardware"),
            _Row(0x00000002, NONFATAL, IGNORE, VENDOR, "hardware"),
            _Row(0x00000004, FATAL, RESET, VENDOR, "hardware"),
            _Row(0x80000000, NONFATAL, IGNORE, VENDOR, "software"),
        ),
    ),
    _Unit(
        146,
        ("TLW_TX", "TLW_TX_PIPE1"),
        0x163,
        0x0D,
        (
            _Row(0x00000001, NONFATAL, IGNORE, NOTHING, "hardware"),
            _Row(0x00000002, NONFATAL, IGNORE, VENDOR, "hardware"),
            _Row(0x00000004, FATAL, RESET, VENDOR, "hardware"),
            _Row(0x80000000, NONFATAL, IGNORE, VENDOR, "software"),
        ),
    ),
    _Unit(
        147,
        ("TREX",),
        0x184,
        0x0E,
        (
            _Row(0x00000001, NONFATAL, IGNORE, VENDOR, "software"),
            _Row(0x80000000, NONFATAL, IGNORE, VENDOR, "software"),
        ),
    ),
    _Unit(148, ("NVLPW_CTRL", "NVLPW"), 0x005, 0x0F, (_Row(0x80000000, NONFATAL, IGNORE, VENDOR, "software"),)),
    _Unit(149, ("NETIR", "NETIR_INT"), 0x006, 0x18, (_Row(None, LINK_FATAL, RESET, SOLO, "hardware or software"),)),
    _Unit(
        149,
        ("NETIR_LINK_EVT", "NETIR_LINK_DOWN"),
        0x1C6,
        0x11,
        (
            _Row(None, LINK_FATAL, RESET, SOLO, "hardware or software"),
            _Row(None, LINK_FATAL, RESET, DAILY, "hardware or software", reason=0x01),
            _Row(None, LINK_FATAL, RESET, LINK, "hardware or software", reason=0x02),
            _Row(None, LINK_FATAL, RESET, LINK, "hardware", reason=0x04),
            _Row(None, LINK_FATAL, RESET, LINK, "hardware", reason=0x0A),
            _Row(None, LINK_FATAL, RESET, USER, "software", reason=0x0F),
            _Row(None, LINK_FATAL, RESET, USER_OR_LINK, "software", reason=0x10),
            _Row(None, LINK_FATAL, RESET, USER, "software", reason=0x11),
            _Row(None, LINK_FATAL, RESET, USER_OR_LINK, "software", reason=0x12),
            _Row(None, LINK_FATAL, RESET, PEER, "hardware or software", reason=0x15),
            _Row(None, LINK_FATAL, RESET, USER, "software", reason=0x16),
            _Row(None, LINK_FATAL, RESET, PEER, "hardware or software", reason=0x20),
            _Row(None, LINK_FATAL, RESET, PEER, "hardware or software", reason=0x21),
            _Row(None, LINK_FATAL, RESET, PEER, "hardware or software", reason=0x22),
            _Row(None, LINK_FATAL, RESET, PEER, "hardware", reason=0x23),
            _Row(None, LINK_FATAL, RESET, PEER, "hardware or software", reason=0x24),
            _Row(None, LINK_FATAL, RESET, PEER, "hardware or software", reason=0x25),
            _Row(None, LINK_FATAL, IGNORE, USER, "hardware or software", reason=0x26),
            _Row(None, FATAL, IGNORE, HOST, "software", reason=0x28),
            _Row(None, LINK_FATAL, RESET, CABLES, "hardware", reason=0x2A),
            _Row(None, LINK_FATAL, RESET, CABLES, "hardware", reason=0x2B),
        ),
    ),
    _Unit(
        149,
        ("NETIR_BER_EVENT",),
        0x226,
        0x13,
        (
            _Row(0x00000000, NONFATAL, IGNORE, CABLES, "hardware"),
            _Row(0x00000001, NONFATAL, IGNORE, CABLES, "hardware"),
            _Row(0x00000002, NONFATAL, IGNORE, CABLES, "hardware"),
            _Row(0x00000003, NONFATAL, IGNORE, CABLES, "hardware"),
        ),
    ),
    _Unit(
        149,
        ("NETIR_MFDE_EVENT",),
        0x246,
        0x14,
        (
            _Row(0x00000001, FATAL, RESET, VENDOR, "hardware or software"),
            _Row(0x00000003, NONFATAL, IGNORE, NOTHING, ""),
            _Row(0x00000004, FATAL, RESET, VENDOR, "hardware or software"),
            _Row(0x00000005, FATAL, RESET, VENDOR, "hardware or software"),
            _Row(0x00000007, FATAL, RESET, VENDOR, "hardware or software"),
        ),
    ),
    _Unit(
        150,
        ("MSE_DEGRADED",),
        0x000,
        0x00,
        (
            _Row(0x00000000, FATAL, RESET, VENDOR, "firmware"),
            _Row(0xFFFFFFFF, FATAL, RESET, VENDOR, "firmware"),
        ),
    ),
    _Unit(150, ("MSE_WATCHDOG",), 0x000, 0x00, (_Row(0x00000000, FATAL, RESET, VENDOR, "firmware"),)),
)

XIDS = frozenset(unit.xid for unit in UNITS)


@dataclass(frozen=True)
class Match:
    """One row of the sheet that fits the registers."""

    units: t.Tuple[str, ...]
    layout: str  # of the interrupt word: before R575, from R575; by name where it was not readable
    severity: str  # of the event: info warning critical
    fatal: t.Optional[bool]  # as the sheet says; None: it depends
    action: str
    later_action: str
    hint: str
    origin: str
    follow_154: bool


@dataclass(frozen=True)
class Decode:
    """What the registers say. Not C(known): no row fits, and the words of the line alone decide, on the safe side."""

    rows: t.Tuple[Match, ...]
    severity: str
    action: str
    later_action: str
    conflict: bool  # the word Fatal or Nonfatal in the text disagrees with the sheet; the worse is taken
    ambiguous: bool  # rows that differ fit, because the driver version is unknown or unit and registers disagree; the worst is taken
    link_down_reason: t.Optional[int]  # bits 25:20, of a link that went down
    known: bool
    follow_154: bool
    note: str  # in words, for people; empty where there is nothing to add


def decode(
    xid: int,
    subcode: t.Optional[str],
    intrinfo: t.Union[int, str, None],
    errorstatus: t.Union[int, str, None],
    driver_version: t.Optional[str] = None,
    word: t.Optional[str] = None,
) -> Decode:
    """Look the registers up; C(word) is the Fatal or Nonfatal of the line. Numbers may come as int or as text (C(0x82)).

    A driver version that is unknown or cannot be read makes both layouts of the interrupt word be tried.
    """
    name = re.sub(r"[\s-]+", "_", (subcode or "").strip()).upper()
    intr, status, stated = _number(intrinfo), _number(errorstatus), _stated(word)
    matches = _by_registers(xid, intr, status, driver_version)
    named = [match for match in matches if name in match.units]
    known_name = any(unit.xid == xid and name in unit.names for unit in UNITS)
    disagree = bool(matches) and known_name and not named
    if named:
        matches = named
    elif known_name and (intr is None or matches):
        # The registers were cut off, or belong to another unit than the line names: the worst row of both stands.
        matches += _by_name(xid, name, status)
        if status is None and intr is None and stated is not None:
            matches = [match for match in matches if match.fatal is stated] or matches
    if not matches:
        return _undecoded(stated)
    first = max(matches, key=lambda match: (SEVERITIES.index(match.severity), ACTIONS.index(match.action)))
    conflict = stated is not None and all(match.fatal not in (None, stated) for match in matches)
    severity, action = ("critical", "reset_gpu") if stated and conflict else (first.severity, first.action)
    ambiguous = len({(match.severity, match.action) for match in matches}) > 1
    notes = []
    if conflict:
        told, says = ("Fatal", "not fatal") if stated else ("Nonfatal", "fatal")
        notes.append("the line says %s, NVIDIA's sheet says %s: the worse is taken" % (told, says))
    if disagree:
        notes.append("unit and registers of the line disagree: the worse is taken")
    elif ambiguous:
        notes.append("more than one row of NVIDIA's sheet fits: the worst is taken")
    if first.follow_154:
        notes.append("follow Xid 154 if the driver printed one")
    if first.hint:
        notes.append(first.hint)
    return Decode(
        tuple(matches),
        severity,
        action,
        first.later_action,
        conflict,
        ambiguous or disagree,
        (intr >> 20) & 0x3F if intr is not None and any("NETIR_LINK_DOWN" in match.units for match in matches) else None,
        known=True,
        follow_154=first.follow_154,
        note="; ".join(notes),
    )


def _undecoded(stated: t.Optional[bool]) -> Decode:
    severity, action = ("critical", "reset_gpu") if stated else ("warning", "contact_vendor")
    note = "no row of NVIDIA's sheet fits: " + ("the line says Fatal, so it counts as fatal" if stated else "it counts as a warning")
    return Decode((), severity, action, "contact_vendor", False, False, None, known=False, follow_154=False, note=note)


def _by_registers(xid: int, intr: t.Optional[int], status: t.Optional[int], driver_version: t.Optional[str]) -> t.List[Match]:
    if intr is None:
        return []
    branch = re.match(r"\D*(\d{3,4})", driver_version or "")
    before, after = (True, True) if branch is None else (int(branch.group(1)) < 575, int(branch.group(1)) >= 575)
    found = []
    for unit in UNITS:
        if unit.xid != xid:
            continue
        for wanted, layout, width, value in ((before, "before R575", 10, unit.word_v1), (after, "from R575", 7, unit.word_v2)):
            if wanted and intr & ((1 << width) - 1) == value:
                flagged = bool(intr >> width & 1)
                rows = (row for row in unit.rows if row.reason == (intr >> 20) & 0x3F and row.status in (None, status))
                found += [_match(unit.names, layout, row, flagged) for row in rows]
    return found


def _by_name(xid: int, name: str, status: t.Optional[int]) -> t.List[Match]:
    rows = [(unit, row) for unit in UNITS if unit.xid == xid and name in unit.names for row in unit.rows]
    fitting = [(unit, row) for unit, row in rows if status is None or row.status in (None, status)]
    return [_match(unit.names, "by name", row, flagged=True) for unit, row in fitting]


def _match(names: t.Tuple[str, ...], layout: str, row: _Row, flagged: bool) -> Match:
    fatal: t.Optional[bool] = row.severity != NONFATAL
    now = row.now
    if row.reset_if_flagged and flagged:
        fatal, now = None, RESET
    if now == RESET:
        severity, action = "critical", "reset_gpu"
    elif now == FOLLOW:
        severity, action = "warning", "restart_job"
    else:
        severity, action = ("info" if row.later is NOTHING else "warning"), "none"
    return Match(names, layout, severity, fatal, action, row.later[0], row.later[1], row.origin, now == FOLLOW)


def _stated(word: t.Optional[str]) -> t.Optional[bool]:
    text = re.sub(r"[\s_-]+", "", word or "").lower()
    return {"fatal": True, "linkfatal": True, "nonfatal": False}.get(text)


def _number(value: t.Union[int, str, None]) -> t.Optional[int]:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        return value
    try:
        return int(str(value).strip(), 0)
    except ValueError:
        return None
