# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel's lines from now on: where its log ends, and later what came behind that. Private to kentino.gpu."""

from __future__ import annotations

import json
import typing as t
from dataclasses import dataclass

from . import command, journal
from .log_reading import LogReading

# One record, so that marking the place costs nothing however long the log is.
_NEWEST = ("journalctl", "--output=json", "--output-fields=PRIORITY", "--no-pager", "--quiet", "--boot=0", "--lines=1", "_TRANSPORT=kernel")


@dataclass(frozen=True)
class Mark:
    """A place in a log; without a cursor there is none, and C(error) says why."""

    source: str  # journal kmsg
    cursor: t.Optional[str] = None
    error: t.Optional[str] = None


def mark(source: str = "auto", deadline_seconds: float = 5) -> Mark:
    """The end of the journal; of the kernel's ring buffer for C(source) kmsg, or where there is no journal."""
    if source == "kmsg":
        return _mark_kmsg(deadline_seconds)
    done = command.run(_NEWEST, deadline_seconds)
    cursor = _cursor(done.stdout)
    if cursor and done.outcome == "ended" and done.rc == 0:
        return Mark("journal", cursor)
    found = Mark("journal", None, done.problem() or "journalctl told no place in the journal")
    # A journal that hangs is a fault, not the lack of a journal.
    if source == "journal" or done.outcome not in ("ended", "missing", "denied"):
        return found
    ring = _mark_kmsg(deadline_seconds)
    return ring if ring.cursor else Mark("journal", None, "%s; %s" % (found.error, ring.error))


def read(place: Mark, deadline_seconds: float) -> LogReading:
    """What came behind C(place)."""
    if place.cursor is None:
        return LogReading(place.source, error_kind="failed", error=place.error)
    if place.source == "kmsg":
        return journal.read_kmsg(place.cursor, deadline_seconds)
    return journal.read("current", place.cursor, None, deadline_seconds)


def _mark_kmsg(deadline_seconds: float) -> Mark:
    reading = journal.read_kmsg(None, deadline_seconds)
    return Mark("kmsg", reading.cursor, reading.error)


def _cursor(text: bytes) -> t.Optional[str]:
    for line in reversed(text.splitlines()):
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(record, dict) and isinstance(record.get("__CURSOR"), str):
            return record["__CURSOR"]
    return None
