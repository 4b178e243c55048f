# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an inventory says the GPUs of a node should be. Private to kentino.gpu."""

from __future__ import annotations

import math
import re
import typing as t

from .._knowledge.nearest import hint
from .._parse import pci_address

_DEVICE = re.compile(r"(?:(?:0x)?([0-9a-f]{4}):)?(?:0x)?([0-9a-f]{4})")


class _Wrong(Exception):
    """What was expected and how to write it."""


def check_expected(expected: t.Optional[t.Mapping[str, t.Any]]) -> t.Dict[str, t.Any]:
    """C(gpu_expected) in one form: addresses normalised, texts as text, keys without a value left out.

    C(ValueError) with one sentence for the first key or value that is none.
    """
    checked: t.Dict[str, t.Any] = {}
    for key, value in (expected or {}).items():
        if key not in _KEYS:
            raise ValueError("gpu_expected: '%s' is no key of it; %s" % (key, hint(key, _KEYS)))
        if value is None:
            continue
        try:
            checked[key] = _KEYS[key](value)
        except _Wrong as wrong:
            raise ValueError("gpu_expected: %s is %r; expected %s" % (key, value, wrong)) from None
    return checked


def fold(text: t.Any) -> str:
    """Case, underscores, hyphens and runs of blanks do not matter: drivers word one mode in several ways."""
    return " ".join(re.sub(r"[_\-]", " ", str(text)).lower().split())


def _count(value: t.Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _Wrong("a whole number: write it without quotes or unit, such as 16")
    return value


def _number(value: t.Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        raise _Wrong("a number above 0: write it without quotes or unit, such as 450")
    return value


def _flag(value: t.Any) -> bool:
    if not isinstance(value, bool):
        raise _Wrong("true or false: write it without quotes")
    return value


def _text(value: t.Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _Wrong("text: write it in quotes")
    return value.strip()


def _version(value: t.Any) -> str:
    # 570.10 without quotes is the number 570.1, another version; a bare branch such as 570 loses nothing.
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip():
        raise _Wrong("a version or the beginning of one: write it in quotes, such as '570.133.20' or '570'")
    return value.strip()


def _device(value: t.Any) -> str:
    match = _DEVICE.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    if not match:
        raise _Wrong("PCI vendor and device in hexadecimal: write it in quotes, such as '10de:2330'")
    return "%s:%s" % (match.group(1) or "10de", match.group(2))


def _texts(value: t.Any) -> t.Tuple[str, ...]:
    items = tuple(value) if isinstance(value, (list, tuple)) else ()
    # Serial numbers without quotes reach us as numbers.
    if not items or not all(isinstance(item, (str, int)) and not isinstance(item, bool) and str(item).strip() for item in items):
        raise _Wrong("a list of texts: write one item per line, or leave the key out")
    return tuple(str(item).strip() for item in items)


def _domains(value: t.Any) -> t.Dict[str, t.Tuple[t.Union[int, str], ...]]:
    if not isinstance(value, t.Mapping) or not all(isinstance(members, (list, tuple)) for members in value.values()):
        raise _Wrong("the GPUs behind each power supply: write {psu_a: [0, 1], psu_b: ['0000:c1:00']}")
    return {str(name): tuple(_member(member) for member in members) for name, members in value.items()}


def _member(value: t.Any) -> t.Union[int, str]:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    text = value.strip() if isinstance(value, str) else ""
    if text.isdecimal():
        return int(text)
    address = pci_address.normalise(text)
    if address is None:
        raise _Wrong("PCI addresses or GPU numbers: write an address in quotes, such as '0000:c1:00'")
    return address


_KEYS: t.Dict[str, t.Callable[[t.Any], t.Any]] = {
    "count": _count,
    "device_id": _device,
    "name": _text,
    "memory_total_mib": _count,
    "pcie_width": _count,
    "pcie_gen": _count,
    "nvlinks": _count,
    "driver_version": _version,
    "cuda_version": _version,
    "vbios": _text,
    "ecc": _flag,
    "mig": _flag,
    "persistence": _flag,
    "compute_mode": _text,
    "fabric": _flag,
    "power_limit_watts": _number,
    "uuids": _texts,
    "serials": _texts,
    "idle": _flag,
    "allowed_processes": _texts,
    "power_domains": _domains,
}

KEYS = tuple(_KEYS)
