# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""PCI addresses as drivers, kernels and tools write them, in one form. Private to kentino.gpu."""

from __future__ import annotations

import re
import typing as t

from .lazy_pattern import lazy

# The driver prints at least four domain digits, more on Azure and behind VMD; nvidia-smi prints eight.
ADDRESS = r"(?:[0-9a-fA-F]{4,8}:)[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?"

_ADDRESS = lazy(r"(?:PCI:)?\s*(?:([0-9a-f]{1,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(\.[0-7])?$", re.IGNORECASE)


def normalise(text: str) -> t.Optional[str]:
    """C(dddd:bb:dd) in lower case without the function; None where the text is no address."""
    match = _ADDRESS.match(text.strip())
    if not match:
        return None
    domain, bus, device = match.groups()[:3]
    return "%04x:%s:%s" % (int(domain or "0", 16), bus.lower(), device.lower())


def with_function(text: str) -> t.Optional[str]:
    """As C(normalise), with the function where the text has one: two ports of one device are two ports."""
    plain = normalise(text)
    match = _ADDRESS.match(text.strip())
    return plain + (match.group(4) or "") if plain and match else None


def of_requester(requester: str, beside: str) -> t.Optional[str]:
    """C(dddd:bb:dd.f) of the 16 bit requester id that kernels up to 4.20 print (C(id=0010)), in the domain of C(beside)."""
    value = int(requester, 16)
    domain = (normalise(beside) or "0000:").split(":")[0]
    return "%s:%02x:%02x.%d" % (domain, value >> 8, value >> 3 & 0x1F, value & 7) if value else None
