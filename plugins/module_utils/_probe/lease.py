# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who watches a long run says so in a file from time to time; a run that nobody watches any more ends itself. Private to kentino.gpu.

A job that was started asynchronously outlives whoever started it. The time is that of the boot, which no clock change moves.
"""

from __future__ import annotations

import json
import os
import time
import typing as t

from . import progress
from .root import under_root

FILE = "lease.json"


def renew(folder: str, seconds: float) -> t.Optional[str]:
    """From now on the runs in C(folder) are watched for C(seconds); returns why this cannot be told."""
    return progress.write(os.path.join(folder, FILE), {"renewed_seconds": _now(), "seconds": seconds})


def expired(progress_path: t.Optional[str], running_seconds: float = float("inf")) -> t.Optional[str]:
    """Why a run that tells its progress there shall end; None while it is watched, or where nobody ever said so.

    However long ago it was agreed on, a run that has only run for C(running_seconds) has the whole time before it.
    """
    if not progress_path:
        return None
    path = under_root(os.path.join(os.path.dirname(progress_path), FILE))
    try:
        with open(path, encoding="utf-8") as handle:
            agreed = json.load(handle)
        late = min(_now() - agreed["renewed_seconds"], running_seconds) - agreed["seconds"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return "nobody has watched it for %.0f s more than was agreed" % late if late > 0 else None


def _now() -> float:
    """As the first word of /proc/uptime has it: whoever watches may have no more than a shell on the node."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
