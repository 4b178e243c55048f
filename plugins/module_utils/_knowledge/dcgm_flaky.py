# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tests of DCGM's diagnostic that are known to fail right after another one, on sound hardware. Private to kentino.gpu."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass


@dataclass(frozen=True)
class FlakyPair:
    test: str
    after: t.Tuple[str, ...]  # tests before it, any of which does it
    words: str  # in every error of the failure, lower case: a failure for another reason is a failure
    cool_down_seconds: float  # before it is run once more, alone
    source: str
    date: str


PAIRS: t.Tuple[FlakyPair, ...] = (
    FlakyPair(
        "nvbandwidth",
        ("diagnostic", "targeted_stress", "targeted_power"),
        "utilization",
        60,
        "NVIDIA/DCGM#272: 4.5.0 fails it for a memory copy utilization above 10 percent that the test before has left; alone it passes",
        "2026-11-29",
    ),
)
