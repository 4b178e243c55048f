# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The time of the tools that run for long, KENTINO_SIM_SPEED times as fast as that of the machine."""

from __future__ import annotations

import os
import sys
import time

# Shorter pauses are left out and made up for later: at a high speed there would be thousands of them.
_LEAST_PAUSE = 0.005


def speed() -> float:
    word = os.environ.get("KENTINO_SIM_SPEED", "") or "1"
    try:
        value = float(word)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        sys.stderr.write("simulated tool: KENTINO_SIM_SPEED is %r, a number above 0 is expected\n" % word)
        sys.exit(70)
    return value


class Clock:
    def __init__(self) -> None:
        self.speed = speed()
        self.begin = time.monotonic()

    def until(self, seconds: float) -> None:
        """Sleep until C(seconds) have passed since the start, in the time of the simulation."""
        pause = seconds / self.speed - (time.monotonic() - self.begin)
        if pause > _LEAST_PAUSE:
            time.sleep(pause)
