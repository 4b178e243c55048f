# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the rows of nccl-tests' table, of every version. Private to kentino.gpu.

Columns have no fixed width and people trim the left margin, so a row is read by its words, from both ends.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from .lazy_pattern import lazy
from .nccl_tests_records import Row, Side, redop_of, root_of

# Type names of all versions: char int half float double int8 uint64 bfloat16 f8e4m3 fp8_e5m2.
_START = lazy(r"\s*[0-9]{1,18}\s+[0-9]{1,18}\s+(?:u?int|char|half|float|double|bfloat|f[0-9]|fp[0-9])\w*\s")
_NUMBER = lazy(r"-?(?:[0-9]{1,30}(?:\.[0-9]{1,30})?(?:e[+-]?[0-9]{1,3})?|inf|nan)\Z")
# A count of a million and more, and every deviation, has an exponent; neither ever has decimals without one.
_CHECKED = lazy(r"(?:-?(?:[0-9]{1,18}|[0-9](?:\.[0-9]{1,6})?e[+-]?[0-9]{1,3}|inf|nan)|N/A)\Z")
_VALUE = lazy(r"(?:-?(?:[0-9.]{1,30}(?:e[+-]?[0-9]{1,3})?|inf|nan)|N/A)\Z")
_DATE = lazy(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_TIME = lazy(r"[0-9]{2}:[0-9]{2}:[0-9]{2}\Z")
_WORD = lazy(r"[A-Za-z][A-Za-z0-9_]*\Z")
_ROOT = lazy(r"-?[0-9]{1,9}\Z")
# What a number that leads other text can be; nothing is printed with leading zeroes, and -1 is the root that there is none.
_LEADING = lazy(r"N/A|-?[0-9]+\.[0-9]{1,2}|-1|0|[1-9][0-9]*(?:\.[0-9]+)?(?:e[+-][0-9]{2})?")

_SIDE = 4  # time algbw busbw #wrong
_SIDE_PER_ITERATION = 8  # and i_min i_max i_p99 i_cv% from 2.19 on with -I
# Where only in-place is measured, the other side is this many blanks.
_BLANK_SIDE = " " * 30


@dataclass(frozen=True)
class Columns:
    """What the line above the table says of it."""

    format: str
    deviations: bool  # the last column of a side is a deviation, not a number of wrong elements
    milliseconds: bool = False

    @staticmethod
    def of(line: str) -> t.Optional[Columns]:
        words = line.strip().lstrip("#").split()
        if "busbw" not in words or "algbw" not in words:
            return None
        if words[:2] == ["bytes", "N"]:
            return Columns("1.x", True, True)
        if "error" in words:
            return Columns("2.0-2.12", True)
        return Columns("2.13+", False)


class RowReader:
    def __init__(self) -> None:
        self.columns: t.Optional[Columns] = None
        self.rows: t.List[Row] = []
        self.partial = 0
        self.pending = ""  # a row in the middle of which other text stood

    @staticmethod
    def starts(line: str) -> bool:
        return bool(_START.match(line + " "))

    def add(self, line: str) -> None:
        self._drop_pending()
        row = self._read(line)
        if row is None:
            self.pending = line
        else:
            self.rows.append(row)

    def continues(self, line: str) -> bool:
        """Take C(line) where it is the rest of a row that other text had cut in two."""
        if not self.pending or not line.strip() or not all(_VALUE.match(word) for word in line.split()):
            return False
        self.pending += " " + line
        row = self._read(self.pending)
        if row is not None:
            self.rows.append(row)
            self.pending = ""
        return True

    def leading(self, head: str, glued: str) -> str:
        """The number at the start of C(glued), other text, that belongs to the row C(head) or to the one it goes on with."""
        row = head if self.starts(head) else "%s %s" % (self.pending, head)
        if not self.starts(row) or self._read(row) is not None:
            return ""
        number = _LEADING.match(glued)
        return number.group() if number else ""

    def finished(self) -> t.List[Row]:
        self._drop_pending()
        return self.rows

    def _drop_pending(self) -> None:
        self.partial += bool(self.pending)
        self.pending = ""

    def format(self) -> str:
        if self.columns:
            return self.columns.format
        if not self.rows:
            return ""
        old = any(side.delta is not None for row in self.rows for side in row.sides())
        return "2.0-2.12" if old else "2.13+"

    def _read(self, line: str) -> t.Optional[Row]:
        words = line.split()
        timestamp = None
        if len(words) > 2 and _DATE.match(words[-2]) and _TIME.match(words[-1]):
            timestamp = " ".join(words[-2:])
            words = words[:-2]
        lead = words[:3]
        rest = words[3:]
        redop = root = None
        if rest and _WORD.match(rest[0]) and not _NUMBER.match(rest[0]):
            redop = rest.pop(0)
        # Broadcast before 2.13 has a root and no reduction.
        if rest and (rest[0] == "-1" or (_ROOT.match(rest[0]) and len(rest) % _SIDE == 1)):
            root = int(rest.pop(0))
        sides = self._sides(rest, line)
        if sides is None:
            return None
        return Row(int(lead[0]), int(lead[1]), lead[2], redop_of(redop), root_of(root), sides[0], sides[1], timestamp)

    def _sides(self, words: t.List[str], line: str) -> t.Optional[t.Tuple[t.Optional[Side], t.Optional[Side]]]:
        if len(words) in (2 * _SIDE, 2 * _SIDE_PER_ITERATION):
            half = len(words) // 2
            first, second = self._side(words[:half]), self._side(words[half:])
            return (first, second) if first and second else None
        if len(words) == _SIDE and self.columns and self.columns.format == "1.x":
            only = self._side(words)
            return (only, None) if only else None
        if len(words) == _SIDE and _BLANK_SIDE in line.strip():
            only = self._side(words)
            return (None, only) if only else None
        return None

    def _side(self, words: t.List[str]) -> t.Optional[Side]:
        if words[:_SIDE] == ["N/A"] * _SIDE:
            return Side()
        if not all(_NUMBER.match(word) for word in words[:3] + words[_SIDE:]):
            return None
        if not _CHECKED.match(words[3]):
            return None
        time_us, algbw, busbw = (_finite(word) for word in words[:3])
        if time_us is not None and self.columns and self.columns.milliseconds:
            time_us *= 1000
        wrong: t.Optional[int] = None
        delta: t.Optional[float] = None
        if words[3] != "N/A":
            value = float(words[3])
            if self._is_deviation(words[3], value):
                delta = value
            else:
                wrong = int(value) if math.isfinite(value) else None
        return Side(time_us, algbw, busbw, wrong, delta)

    def _is_deviation(self, word: str, value: float) -> bool:
        if self.columns:
            return self.columns.deviations
        # Without its title: a deviation is always printed with an exponent, a count only from a million on.
        return not math.isfinite(value) or ("e" in word and value < 1e6)


def _finite(word: str) -> t.Optional[float]:
    value = float(word)
    return value if math.isfinite(value) else None
