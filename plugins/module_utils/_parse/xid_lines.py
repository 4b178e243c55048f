# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Xid lines of the NVIDIA driver, of all eras. Private to kentino.gpu.

The driver (kernel_rc.c) prints C(NVRM: Xid (PCI:DDDD:BB:dd[ GPU-I:NN[ GPU-CI:NN]]): NUM[, pid=PID][, name=NAME][, TEXT]); before
about 2012 without C(PCI:). A message is cut at 512 bytes without a mark.
"""

from __future__ import annotations

import functools
import re
import typing as t

from . import pci_address
from .lazy_pattern import lazy
from .xid_details import Facts, details

# What a record keeps of a text; the driver's own limit is 512 bytes.
_TEXT_CHARACTERS = 1000
_NAME_CHARACTERS = 200
# A task's name has 15 bytes at most. It may hold a comma and a blank, like the text behind it.
_TASK_NAME_CHARACTERS = 15

_OPEN = lazy(r" ?\(")
# The driver's words without the bracket: a number, or the end of a line that was cut off.
_BARE = lazy(r" ?:? ?\d|\s{0,8}$", re.ASCII)
_HEAD = lazy(r"([^()'\"`]{0,80})\)\s{0,8}:?\s{0,8}(\d{1,3})(?=[\s,.;:'\"\])}<\\]|$)", re.ASCII)
_PARTITION = lazy(r"GPU-(C?I):(\d{1,6})", re.ASCII)
_PID = lazy(r"pid=('[^']{0,64}'|\"[^\"]{0,64}\"|<[^>]{0,64}>|[^,\s]{0,64})(?:,\s{0,8}|\s{1,8}|$)")
_KNOWN_TEXT = lazy(
    r"Ch [0-9a-fA-F]|Channel |Graphics |GPU |GSP |NVLink|MMU Fault|Contained|Uncontained|Row Remapp|Timeout |An uncorrect|Class Error"
    r"|DRAM|SRAM|Guest driver|errorString|[A-Z][A-Z0-9_/]{1,40} +(?:Non-?)?[Ff]atal |[0-9a-fA-F]{8} [0-9a-fA-F]{8}"
)
_BLANK_AND_TEXT = lazy(r"\s(?=%s)" % _KNOWN_TEXT.pattern)
_COMMA = lazy(", ")
_LITERAL_NEWLINE = lazy(r"(?:\\r)?\\n(?=$|[\s\"'}\]\[]|NVRM:)|(?:\\r)+$|\\r\\n")
_NO_NAME = frozenset(("", "<unknown>", "unknown", "N/A", "n/a", "(null)"))


class Xid(t.NamedTuple):
    xid: int
    pci: t.Optional[str]
    gpu_instance: t.Optional[int]
    compute_instance: t.Optional[int]
    pid: t.Optional[int]
    name: t.Optional[str]
    text: str
    detail: t.Mapping[str, t.Any]


class Found(t.NamedTuple):
    """C(unrecognised): texts that stand in an event's place and fit no known form."""

    xids: t.Tuple[Xid, ...]
    unrecognised: t.Tuple[str, ...]


def find(text: str, alone: bool = True) -> Found:
    """All Xids in a text that holds at most one C(NVRM:). C(alone): nothing stood before it on its line."""
    if len(text) <= _TEXT_CHARACTERS:
        return _find_cached(text, alone)
    return _find(text, alone)


def _find(text: str, alone: bool) -> Found:
    xids: t.List[Xid] = []
    unrecognised: t.List[str] = []
    marks = _marks(text)
    for (start, end), (until, _end) in zip(marks, [*marks[1:], (len(text), 0)]):
        piece = text[end : min(until, end + _TEXT_CHARACTERS)]
        bracket = text[end - 1] == "("
        head = _HEAD.match(piece) if bracket else None
        ours = text.startswith("Xid", start)
        if head and (_is_address(head.group(1)) if ours else pci_address.normalise(_PARTITION.sub("", head.group(1)))):
            xids.append(_xid(head.group(1), int(head.group(2)), piece[head.end() :]))
        elif not head and ours and _in_event_place(text[max(0, start - 12) : start], piece, bracket, alone):
            unrecognised.append(text[start : min(until, start + _TEXT_CHARACTERS)].strip())
    return Found(tuple(xids), tuple(unrecognised))


def _marks(text: str) -> t.List[t.Tuple[int, int]]:
    """Where an Xid may begin, and where what stands in its brackets does."""
    marks: t.List[t.Tuple[int, int]] = []
    for word in ("Xid", "XID", "xid"):
        at = text.find(word)
        while at >= 0:
            match = _OPEN.match(text, at + 3)
            if match and text[at - 1 : at] != "S":
                marks.append((at, match.end()))
            elif not match and text.startswith("NVRM: Xid", max(0, at - 6)) and _BARE.match(text, at + 3):
                marks.append((at, at + 3))
            at = text.find(word, at + 3)
    return sorted(marks)


# A storm repeats the same message under changing stamps.
_find_cached = functools.lru_cache(maxsize=512)(_find)


@functools.lru_cache(maxsize=512)
def _details(number: int, text: str) -> Facts:
    return details(number, text)


def _is_address(attributes: str) -> bool:
    """Whatever stands in an address's place is kept, but a search pattern or format string is none."""
    return not any(character in attributes for character in "*%\\")


def _in_event_place(before: str, piece: str, bracket: bool, alone: bool) -> bool:
    """Whether this is an Xid that cannot be read, and not a sentence, a search pattern or a format string about Xids."""
    before = before.strip()
    if not bracket:
        # Only a line of its own is the driver's: "Exporter for NVRM: Xid" is a sentence.
        return alone and before == "NVRM:"
    if not (before.endswith("NVRM:") or not before or piece.startswith("PCI:")):
        return False
    # Quoted and cut off by the quote, printf and regular expression forms: watching for 'NVRM: Xid (PCI:'
    inside, closed, behind = piece.partition(")")
    doubtful = inside[:80] + (behind.lstrip(" :")[:1] if closed else "")
    return not any(character in doubtful for character in "'\"`%*\\")


def _xid(attributes: str, number: int, rest: str) -> Xid:
    instances = {kind: int(digits) for kind, digits in _PARTITION.findall(attributes)}
    address = attributes.split(" GPU-", 1)[0].strip()
    if address.upper().startswith("PCI:"):
        address = address[4:].strip()
    pid, name, text = _process(_plain(rest))
    return Xid(
        number,
        pci_address.normalise(address) or address or None,
        instances.get("I"),
        instances.get("CI"),
        pid,
        name,
        text,
        _details(number, text),
    )


def _plain(rest: str) -> str:
    """The text without what a tool that quotes it put behind."""
    newline = _LITERAL_NEWLINE.search(rest) if "\\" in rest else None
    if newline:
        rest = rest[: newline.start()]
    if rest.count('"') % 2:
        rest = rest[: rest.index('"')]
    return rest.strip(" \t,")


def _process(rest: str) -> t.Tuple[t.Optional[int], t.Optional[str], str]:
    """Process id and name, both optional (pid and name from 515 on, pid alone from about 450), and the text behind them."""
    pid: t.Optional[int] = None
    name: t.Optional[str] = None
    for _field in range(2):
        if rest.startswith("pid="):
            match = _PID.match(rest)
            if not match:
                break
            value = match.group(1).strip("'\"")
            pid = int(value) if value.isdecimal() and len(value) < 20 else None
            rest = rest[match.end() :]
        elif rest.startswith("name="):
            name, rest = _name(rest[5:])
    return pid, name, rest.strip()


def _name(rest: str) -> t.Tuple[t.Optional[str], str]:
    """The shortest run before a comma and a blank, or a longer one where only that leaves a text the driver prints."""
    ends = [match.start() for match in _COMMA.finditer(rest, 0, _NAME_CHARACTERS)]
    end = ends[0] if ends else -1
    for later in ends:
        if later <= _TASK_NAME_CHARACTERS and _KNOWN_TEXT.match(rest, later + 2):
            end = later
            break
    if end < 0:
        match = _BLANK_AND_TEXT.search(rest, 0, _NAME_CHARACTERS)
        end = match.start() if match else len(rest)
    name = rest[:end].strip(" ,")
    if len(name) > 1 and name[0] == name[-1] == "'":
        name = name[1:-1]
    return (None if name in _NO_NAME else name), rest[end:].lstrip(", ")
