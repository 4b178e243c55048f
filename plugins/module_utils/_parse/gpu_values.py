# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a value that a GPU tool printed means: a value, "not supported" or an error. Private to kentino.gpu.

Three types, so that nothing absent becomes a zero and no error becomes "not supported".
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from .lazy_pattern import lazy


@dataclass(frozen=True)
class Unsupported:
    """The GPU or the driver says that it does not have this."""

    text: str


@dataclass(frozen=True)
class Failed:
    """The question was answered with an error. C(kind) is lost, reset, permission, unreadable or error."""

    text: str
    kind: str = "error"


Scalar = t.Union[int, float, bool, str]
Reading = t.Union[Scalar, Unsupported, Failed]

# Compared in lower case, without brackets: [N/A] is what CSV prints for N/A.
_UNSUPPORTED = {
    "n/a",
    "na",
    "not supported",
    "not available",
    "not applicable",
    "unsupported",
    "function not found",  # an NVML library older than nvidia-smi
    "requested functionality has been deprecated",  # GPU Reset Status from driver 570 on
    "deprecated",
}

# NVML's error texts as nvidia-smi prints them in place of a value.
_FAILED = (
    ("gpu is lost", "lost"),
    ("gpu has fallen off the bus", "lost"),
    ("gpu requires re", "reset"),  # reset; restart in the Python bindings
    ("gpu needs re", "reset"),
    ("insufficient permission", "permission"),
    ("no permission", "permission"),
    ("err!", "error"),
    ("error", "error"),
    ("unknown error", "error"),
    ("system is not in ready state", "error"),  # RTX 3090 that awaits a reset, driver 535.247
    ("not ready", "error"),
    ("timeout", "error"),
    ("timed out", "error"),
    ("corrupted inforom", "error"),
    ("inforom is corrupted", "error"),
    ("insufficient external power", "error"),
    ("insufficient power", "error"),
    ("interrupt request issue", "error"),
    ("driver not loaded", "error"),
    ("invalid argument", "error"),
    ("uninitialized", "error"),
    ("no data", "error"),
    ("in use by another client", "error"),
    ("the operating system has blocked", "error"),
    ("argument version mismatch", "error"),
)
_FAILED_WHOLE = {"unknown": "error", "not found": "error"}

_NUMBER = lazy(r"([+-]?[0-9]{1,20})(\.[0-9]{1,9})?\s*([A-Za-z%/()]*)$")
_SIZES = {"": 1.0, "mib": 1.0, "mb": 1.0, "kib": 1 / 1024, "gib": 1024.0, "gb": 1024.0, "bytes": 1 / 1048576}
_TRUE = {"yes", "enabled", "active", "on", "true"}
_FALSE = {"no", "disabled", "not active", "inactive", "off", "false"}
_ADDRESS = lazy(r"(?:pci:)?(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([01][0-9a-f])(?:\.[0-7])?$")
_PCI_ID = lazy(r"(?:0x)?([0-9a-f]{4})([0-9a-f]{4})$")


def status(text: str) -> t.Optional[t.Union[Unsupported, Failed]]:
    """The non-value that C(text) stands for; None where it may be a value."""
    plain = text.strip()
    word = plain.strip("[]").strip().lower()
    if word in _UNSUPPORTED:
        return Unsupported(plain)
    if word in _FAILED_WHOLE:
        return Failed(plain, _FAILED_WHOLE[word])
    for start, kind in _FAILED:
        if word.startswith(start):
            return Failed(plain, kind)
    return None


def unreadable(text: str) -> Failed:
    return Failed("unreadable: %s" % text.strip()[:80], "unreadable")


def whole(text: str, unit: str = "") -> Reading:
    """An integer, with C(unit) or with none (CSV without units)."""
    value = decimal(text, unit)
    return round(value) if isinstance(value, float) else value


def decimal(text: str, unit: str = "") -> Reading:
    found = status(text)
    if found is not None:
        return found
    match = _NUMBER.match(text.strip())
    if not match or match.group(3).lower() not in ("", unit.lower()):
        return unreadable(text)
    return float(match.group(1) + (match.group(2) or ""))


def count(text: str, unit: str = "") -> Reading:
    """A counter: an integer, never negative, never rounded."""
    found = status(text)
    if found is not None:
        return found
    match = _NUMBER.match(text.strip())
    if not match or match.group(2) or match.group(1)[0] == "-" or match.group(3).lower() not in ("", unit.lower()):
        return unreadable(text)
    return int(match.group(1))


def mebibytes(text: str) -> Reading:
    found = status(text)
    if found is not None:
        return found
    match = _NUMBER.match(text.strip())
    factor = _SIZES.get(match.group(3).lower()) if match else None
    if not match or factor is None:
        return unreadable(text)
    return round(float(match.group(1) + (match.group(2) or "")) * factor)


def flag(text: str) -> Reading:
    """Yes, Enabled, Active and their opposites."""
    found = status(text)
    if found is not None:
        return found
    # "Enabled*": MIG mode that waits for a reset, in the table.
    word = text.strip().strip("[]*").strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    return unreadable(text)


def flag_or_bit(text: str) -> Reading:
    """As C(flag); the remapped rows of CSV say 0 and 1."""
    plain = text.strip()
    return plain == "1" if plain in ("0", "1") else flag(text)


def words(text: str) -> Reading:
    """Text as printed. "None" is a word like any other: GPU Recovery Action None is an answer."""
    found = status(text)
    if found is not None:
        return found
    return text.strip() or unreadable(text)


def performance_state(text: str) -> Reading:
    found = status(text)
    if found is not None:
        return found
    return text.strip() if re.match(r"P[0-9]{1,2}$", text.strip()) else unreadable(text)


def link_width(text: str) -> Reading:
    """C(16x) in -q and XML, C(16) in CSV."""
    return count(text, "x")


def pci_address(text: str) -> str:
    """C(dddd:bb:dd), lower case, domain of at least four digits, no function; the text itself where it is not an address."""
    return _address(text) or text.strip()


def address(text: str) -> Reading:
    found = status(text)
    if found is not None:
        return found
    return _address(text) or unreadable(text)


def _address(text: str) -> t.Optional[str]:
    match = _ADDRESS.match(text.strip().lower())
    if not match:
        return None
    return "%04x:%s:%s" % (int(match.group(1) or "0", 16), match.group(2), match.group(3))


def pci_id(text: str) -> Reading:
    """C(0x233010DE), device before vendor, as C(10de:2330)."""
    found = status(text)
    if found is not None:
        return found
    match = _PCI_ID.match(text.strip().lower())
    return "%s:%s" % (match.group(2), match.group(1)) if match else unreadable(text)
