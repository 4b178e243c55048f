# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one form of nvidia-smi's output told: the part of a text that a reader understood. Private to kentino.gpu."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from .gpu_draft import Draft
from .gpu_values import Failed

# A hostile or endless text must not become an endless report.
UNRECOGNISED_MAX = 200


@dataclass
class Piece:
    """C(began): the text starts as a whole output of the tool does. C(ended): it also ends so, with nothing missing between."""

    source: str
    drafts: t.List[Draft] = field(default_factory=list)
    system: t.Dict[str, str] = field(default_factory=dict)  # driver_version cuda_version attached, as printed
    began: bool = False
    ended: bool = False
    cut: str = ""  # where and how the text breaks off; empty where it does not
    unrecognised: t.List[str] = field(default_factory=list)

    def puzzle(self, line: str) -> None:
        """Keep a line that was not understood."""
        plain = " ".join(line.split())[:200]
        if plain and len(self.unrecognised) < UNRECOGNISED_MAX:
            self.unrecognised.append(plain)


def cut_off(draft: Draft) -> None:
    """Mark a GPU whose block is not whole: what was read holds, what is missing may be anything."""
    draft.set("block", Failed("unreadable: the output breaks off inside this GPU's block", "unreadable"))
