# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the registers behind Xid 74 say (NVLink up to H100). Private to kentino.gpu.

C(NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)) carries seven words, of which the first, third,
fourth and fifth mean something. NVIDIA's workflow for NVLink errors (with its Xid catalogue) tells the bits apart; one that it
does not name is a case for the vendor.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

# Worst last.
HARMLESS, SYMPATHETIC, REPEATS, SIGNAL, ECC, MECHANICAL, UNKNOWN = (
    "harmless",
    "follows another error",
    "worth a report if it repeats",
    "marginal signal of the link",
    "ECC or parity of the link logic",
    "may be the link's hardware",
    "not described",
)
_ORDER = (HARMLESS, SYMPATHETIC, REPEATS, SIGNAL, ECC, MECHANICAL, UNKNOWN)

# Index of the word, from 0, to the meaning of its bits.
BITS: t.Mapping[int, t.Mapping[str, t.Tuple[int, ...]]] = {
    0: {
        HARMLESS: (0, 23, 30),
        SYMPATHETIC: (1, 20),
        ECC: (4, 5),
        MECHANICAL: (8, 9, 12, 16, 17, 24, 28),
        SIGNAL: (21, 22),
        REPEATS: (27, 29),
    },
    2: {ECC: (0, 1, 2, 6), UNKNOWN: (13,), REPEATS: (16, 17, 18, 19)},
    3: {SYMPATHETIC: (16, 17, 18)},
    # The second group counts corrected errors only: a threshold was passed, nothing was lost.
    4: {ECC: (18, 19, 21, 22, 24, 25, 27, 28), HARMLESS: (20, 23, 26, 29)},
}

# Action for what is worst among the bits: the word, and what to add in words.
_ACTIONS = {
    HARMLESS: ("none", "the registers hold only bits that may be ignored or that count corrected errors"),
    SYMPATHETIC: ("reset_gpu", "the registers say that it follows another error: look for that one first"),
    REPEATS: ("reset_gpu", "if the same link repeats it run the vendor's diagnostic and report it"),
    SIGNAL: ("reseat", "marginal signal: check the mechanical connection of the link, then run the vendor's diagnostic"),
    ECC: ("reset_gpu", "ECC or parity of the link logic: more than twice on one link is a case for the vendor"),
    MECHANICAL: ("reseat", "check the mechanical connection of the link and reseat, then run the vendor's diagnostic"),
    UNKNOWN: ("contact_vendor", "the registers hold a bit that NVIDIA does not describe: report it"),
}


@dataclass(frozen=True)
class Registers:
    """What the worst bit asks for."""

    kind: str
    action: str
    note: str


def decode(registers: t.Sequence[t.Union[int, str]]) -> t.Optional[Registers]:
    """None where there are no registers, they cannot be read, or no bit of a meaningful word is set."""
    words = []
    for register in registers:
        try:
            words.append(register if isinstance(register, int) else int(str(register).strip(), 0))
        except ValueError:
            return None
    kinds = {_kind(index, bit) for index, word in enumerate(words) if index in BITS for bit in range(64) if word >> bit & 1}
    if not kinds:
        return None
    worst = max(kinds, key=_ORDER.index)
    return Registers(worst, *_ACTIONS[worst])


def _kind(index: int, bit: int) -> str:
    return next((kind for kind, bits in BITS[index].items() if bit in bits), UNKNOWN)
