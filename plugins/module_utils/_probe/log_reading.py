# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What reading a kernel log gave, whatever the source, and the filter that keeps the lines worth parsing. Private to kentino.gpu."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .._parse import kernel_log

# A reading keeps at most this much for the parser. More is a log gone mad, and is said so.
MAX_KEPT_BYTES = 64 << 20
# The first lines are kept whatever they say: they show whether this is a kernel log at all.
SAMPLE_LINES = 50
# A "line" longer than this is cut: no kernel message is, and a block without newlines must not be copied again and again.
_MAX_LINE_BYTES = 4 << 20


@dataclass(frozen=True)
class LogReading:
    """Lines worth parsing, in order, and what proves that the log was really read.

    C(records) counts all lines of the source, kept or not (an estimate for a large plain file).
    C(error) says in words why the reading is missing or incomplete; C(lines) holds what was read until then.
    """

    source: str  # journal, kmsg, a path, stdin
    lines: t.Tuple[bytes, ...] = ()
    records: int = 0
    sample: t.Tuple[bytes, ...] = ()  # the first lines, kept or not
    last_line: bytes = b""
    cursor: t.Optional[str] = None
    boot_id: t.Optional[str] = None
    begins: t.Optional[float] = None  # seconds from the boot to the first line, where the source tells
    gap: bool = False  # records between the last reading and this one are gone
    follows: bool = False  # begins right behind the cursor that was given, so that the two readings together are whole
    error_kind: t.Optional[str] = None  # missing_tool timeout denied truncated failed crashed garbled empty
    error: t.Optional[str] = None
    instead_of: t.Optional[str] = None  # why the source that was asked first has nothing to say
    reference: t.Optional[float] = None  # seconds since the epoch against which dates without a year are read


class LineFilter:
    """Cuts a stream into lines and keeps those that hold one of the parser's needles, and the lines right behind them."""

    def __init__(self, max_kept_bytes: int = MAX_KEPT_BYTES) -> None:
        self.kept: t.List[bytes] = []
        self.records = 0
        self.sample: t.List[bytes] = []
        self.last_line = b""
        self.overflow = False
        self._room = max_kept_bytes
        self._rest = b""
        self._follow = 0

    def feed(self, chunk: bytes) -> None:
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > _MAX_LINE_BYTES:
            lines.append(self._rest)
            self._rest = b""
        if not lines:
            return
        if len(self.sample) < SAMPLE_LINES:
            self.sample += lines[: SAMPLE_LINES - len(self.sample)]
        self.records += len(lines)
        self.last_line = lines[-1]
        # One search over the whole block is some ten times faster than one for each line, and mostly finds nothing.
        if self._follow or self._interesting(chunk) or self._interesting(lines[0]):
            for line in lines:
                self._sift(line)

    def close(self) -> None:
        if self._rest:
            rest, self._rest = self._rest, b""
            self.feed(rest + b"\n")

    @staticmethod
    def _interesting(block: bytes) -> bool:
        # One after the other is some three times faster than one expression of them all.
        return any(needle in block for needle in kernel_log.NEEDLES)

    def _sift(self, line: bytes) -> None:
        if self._interesting(line):
            self._follow = kernel_log.CONTEXT_LINES
        elif self._follow:
            self._follow -= 1
        else:
            return
        self._room -= len(line)
        if self._room < 0:
            self.overflow = True
        else:
            self.kept.append(line)
