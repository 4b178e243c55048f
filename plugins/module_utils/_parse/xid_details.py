# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts inside the text of an Xid. Private to kentino.gpu.

Facts are looked for by their words, not by the Xid's number: drivers move texts between numbers. Registers, channels and addresses
stay as printed.
"""

from __future__ import annotations

import re
import typing as t

from . import pci_address
from .lazy_pattern import lazy

Facts = t.Dict[str, t.Any]

# Codes of Xid 154 (ctrl2080gpu.h of driver 595; the catalogue of 2025-09 ends at 4), for a text cut before the words.
RECOVERY_ACTIONS: t.Mapping[int, str] = {
    0: "None",
    1: "GPU Reset Required",
    2: "Node Reboot Required",
    3: "Drain P2P",
    4: "Drain and Reset",
    5: "Recover IMEX Domain",
}

_ROOT = lazy(r"caused by previous Xid (\d{1,3})(?!\d)", re.ASCII)
_RECOVERY = lazy(
    r"changed from (0x[0-9a-fA-F]{1,8})(?: \(([^()]{0,60})\))?(?: to (0x[0-9a-fA-F]{1,8})(?: \(([^()]{0,60})(\)?))?)?", re.ASCII
)
_CONTAINMENT = lazy(r"\b(Contained|Uncontained): ([^(.,]{1,60})(?:\(([^()]{0,80})\))?", re.ASCII)
_RESET_FLAG = lazy(r"\b(D-)?RST: ?(Yes|No)\b", re.ASCII | re.IGNORECASE)
_FAULT = lazy(r"\bFAULT_[A-Z0-9_]{1,60}", re.ASCII)
_ACCESS = lazy(r"\bACCESS_TYPE_([A-Z0-9_]{1,60})", re.ASCII)
_ENGINE = lazy(r"\bENGINE ([A-Za-z0-9_]{1,60})(?: ((?:GPC|HUB)CLIENT_[A-Za-z0-9_]{1,60}))?", re.ASCII)
_FAULT_ADDRESS = lazy(r"faulted @ (0x[0-9a-fA-F_]{1,40})", re.ASCII)
_SM = lazy(r"\(GPC (\d{1,4}), ?TPC (\d{1,4})(?:, ?SM (\d{1,4}))?\)(?::\s{0,4}([^,]{1,120}))?", re.ASCII)
_CHANNEL = lazy(r"\b(?:Ch|ChI[Dd]|Channel(?: ID)?) ((?:0x)?[0-9a-fA-F]{1,8})\b", re.ASCII)
_ERROR_CODE = lazy(r"\bErrorCode ((?:0x)?[0-9a-fA-F]{1,16})", re.ASCII)
_ERROR_STRING = lazy(r"\berrorString ([^,]{1,120})(?:, ?Info ((?:0x)?[0-9a-fA-F]{1,16}))?", re.ASCII)
_REMAP = lazy(r"Row Remapp[^(]{0,80}\((0x[0-9a-fA-F]{1,24})\)", re.ASCII)
_REASON = lazy(r"Row Remapper Error:?(?: \(0x[0-9a-fA-F]{1,24}\))?[ -]{1,4}([^,]{1,200})", re.ASCII)
_REASONS = (
    ("all reserved rows", "bank exhausted"),
    ("already", "row already remapped"),
    ("full", "table full"),
    ("inforom", "inforom not written"),
)
_PHYSICAL = lazy(r"\bphysAddr:? (0x[0-9a-fA-F]{1,24})", re.ASCII)
_PARTITION = lazy(r"\bpartition (\d{1,4}), ?subpartition (\d{1,4})", re.ASCII)
_DBE_UNIT = lazy(r"detected on GPU in (?:the )?([^,.]{1,60}?)(?: at |[,.]|$)", re.ASCII)
_MEMORY_UNIT = lazy(r"([A-Z][A-Za-z0-9_/ -]{0,40}), Uncorrectable ([SD]RAM) error", re.ASCII)
_CAUSE = lazy(r"GSP task (?:exception|crash)[^:]{0,20}: ([^(@]{1,120}?) ?(?:\(cause:(0x[0-9a-fA-F]{1,16})\)|@|$)", re.ASCII)
_RPC = lazy(r"Timeout (?:after (\d{1,6}) ?s )?(?:of )?waiting for RPC (?:response )?from (?:GPU(\d{1,4}) )?GSP(\d{0,4})", re.ASCII)
_FUNCTION = lazy(r"Expected function (\d{1,6}) \(([A-Za-z0-9_]{1,80})\)(?: sequence (\d{1,20}))?", re.ASCII)
_LINK = lazy(r"\b[Ll]ink (-?\d{1,4})(?!\d)", re.ASCII)
_REMOTE = lazy(r"to remote (?:PCI:)?(" + pci_address.ADDRESS + ")", re.ASCII)
_WORDS = lazy(r"\(((?:0x[0-9a-fA-F]{1,16}[, ]{0,8}){2,16})(?:\)|$)", re.ASCII)
_NVLINK5 = lazy(
    r"([A-Z][A-Z0-9_/]{0,60})\s{1,8}(Fatal|Non-?fatal)\s{1,8}(?:XC(\d))?\s{0,8}(?:i(\d))?\s{0,8}(?:Link\s{1,4}(-?\d{1,4}))?",
    re.ASCII | re.IGNORECASE,
)
_ECC_COUNTS = lazy(r"\b(DRAM|LTC|MMU|PCIE) ?: ?(\d{1,10})", re.ASCII)
_HEX_WORDS = lazy(r"(?:(?:0x)?[0-9a-fA-F]{8}(?: |$)){2,}", re.ASCII)


def details(number: int, text: str) -> Facts:
    """What the text of Xid C(number) says; facts that it does not hold are left out."""
    facts: Facts = {}
    if not text:
        return facts
    for reader in _READERS:
        reader(text, facts)
    if 144 <= number <= 150:
        _nvlink5(text, facts)
    return facts


def _common(text: str, facts: Facts) -> None:
    match = _ROOT.search(text)
    if match:
        facts["root_xid"] = int(match.group(1))
    match = _CHANNEL.search(text)
    if match:
        facts["channel"] = match.group(1)
    match = _ERROR_CODE.search(text)
    if match:
        facts["errorcode"] = match.group(1)
    match = _ERROR_STRING.search(text)
    if match:
        facts["error_string"] = match.group(1).strip()
        if match.group(2):
            facts["info"] = match.group(2)


def _recovery(text: str, facts: Facts) -> None:
    match = _RECOVERY.search(text) if "recovery action" in text else None
    if not match:
        return
    old_code, old, new_code, new, closed = match.groups()
    facts["from_code"] = int(old_code, 16)
    facts["from_action"] = old if old is not None else RECOVERY_ACTIONS.get(int(old_code, 16))
    if new_code:
        facts["to_code"] = int(new_code, 16)
        facts["to_action"] = new if closed else RECOVERY_ACTIONS.get(int(new_code, 16), new)


def _memory(text: str, facts: Facts) -> None:
    match = _CONTAINMENT.search(text)
    if match:
        facts["containment"] = match.group(1).lower()
        facts["unit"] = match.group(2).strip()
        if match.group(3):
            facts["unit_codes"] = match.group(3)
    for drain, answer in _RESET_FLAG.findall(text):
        facts["d_rst" if drain else "rst"] = answer.lower() == "yes"
    match = _DBE_UNIT.search(text) or _MEMORY_UNIT.match(text)
    if match:
        facts["unit"] = match.group(1).strip()
    match = _PHYSICAL.search(text)
    if match:
        facts["physical_address"] = match.group(1)
    match = _PARTITION.search(text)
    if match:
        facts["partition"], facts["subpartition"] = int(match.group(1)), int(match.group(2))
    if "Row Remap" in text:
        match = _REMAP.search(text)
        if match:
            facts["remap_address"] = match.group(1)
        match = _REASON.search(text)
        if match:
            words = match.group(1).strip()
            facts["reason"] = next((short for token, short in _REASONS if token in words.lower()), words)
        if "reset gpu to activate" in text.lower():
            facts["pending_reset"] = True
    counts = {name.lower(): int(digits) for name, digits in _ECC_COUNTS.findall(text)} if "LTC:" in text else {}
    facts.update(counts)


def _engines(text: str, facts: Facts) -> None:
    if "FAULT" in text or "Fault" in text or "fault" in text:
        for pattern, key in ((_FAULT, "fault_type"), (_ACCESS, "access"), (_FAULT_ADDRESS, "fault_address")):
            match = pattern.search(text)
            if match:
                facts[key] = match.group(match.lastindex or 0)
    match = _ENGINE.search(text)
    if match:
        facts["engine"] = match.group(1)
        if match.group(2):
            facts["client"] = match.group(2)
    match = _SM.search(text)
    if match:
        gpc, tpc, multiprocessor, exception = match.groups()
        facts["gpc"], facts["tpc"] = int(gpc), int(tpc)
        if multiprocessor:
            facts["sm"] = int(multiprocessor)
        if exception:
            facts["exception"] = exception.strip()


def _firmware(text: str, facts: Facts) -> None:
    if "GSP" not in text:
        return
    match = _CAUSE.search(text)
    if match:
        facts["cause"] = match.group(1).strip()
        if match.group(2):
            facts["cause_code"] = match.group(2)
    match = _RPC.search(text)
    if match:
        seconds, gpu, gsp = match.groups()
        if seconds:
            facts["timeout_seconds"] = int(seconds)
        if gpu or gsp:
            facts["gpu_index"] = int(gpu or gsp)
    match = _FUNCTION.search(text)
    if match:
        facts["function"], facts["function_name"] = int(match.group(1)), match.group(2)
        if match.group(3):
            facts["sequence"] = int(match.group(3))


def _nvlink(text: str, facts: Facts) -> None:
    if "NVLink" in text:
        match = _LINK.search(text)
        if match:
            facts["link"] = int(match.group(1))
        match = _REMOTE.search(text)
        if match:
            facts["peer"] = pci_address.normalise(match.group(1))
        match = _WORDS.search(text)
        if match:
            registers = [word for word in re.split(r"[, ]+", match.group(1)) if word]
            facts["registers"], facts["words"] = registers, len(registers)
            # Word numbers from 1, as NVIDIA's catalogue counts them.
            bits = {str(place): _bits(int(word, 16)) for place, word in enumerate(registers, 1)}
            facts["set_bits"] = {place: found for place, found in bits.items() if found}
    elif _HEX_WORDS.match(text):
        facts["words"] = len(text.split())


def _bits(value: int) -> t.List[int]:
    return [bit for bit in range(64) if value >> bit & 1]


def _nvlink5(text: str, facts: Facts) -> None:
    """C(RLW_REMAP Nonfatal XC1 i0 Link 10 (0x00000082 0x00000040 ..)): the words are intrInfo, errorStatus, debug data."""
    match = _NVLINK5.match(text)
    if match:
        subcode, severity, cross_contain, injected, link = match.groups()
        facts["subcode"] = subcode
        facts["severity"] = severity.lower().replace("-", "")
        facts.update({key: int(value) for key, value in (("xc", cross_contain), ("injected", injected), ("link", link)) if value})
    match = _WORDS.search(text)
    if match:
        words = [word for word in re.split(r"[, ]+", match.group(1)) if word]
        facts["intrinfo"], facts["errorstatus"], facts["words"] = words[0], words[1], len(words)
        facts["debug"] = words[2:]


_READERS = (_common, _recovery, _memory, _engines, _firmware, _nvlink)
