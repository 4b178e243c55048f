# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records while a log is being read: they may still be counted up, completed or dropped. Private to kentino.gpu."""

from __future__ import annotations

import typing as t

from .log_envelope import Line

# Equal records are merged over this many others: a driver repeats two or three lines in turn for hours.
_WINDOW = 8
# A dying disk or link prints a new sector or address each time; from here on such records only count.
_MAX_DISTINCT = 500
_DROP_DEPTH = 64


class Draft:
    """One record: its fields by name, how often it was seen, the lines where it was first and last seen."""

    __slots__ = ("count", "dropped", "fields", "key", "last", "line")

    def __init__(self, key: t.Hashable, line: Line, fields: t.Dict[str, t.Any], count: int) -> None:
        self.key = key
        self.line = line
        self.last = line
        self.fields = fields
        self.count = count
        self.dropped = False


class Drafts:
    """The records of one family in the order printed. Each sighting is also noted in C(touched), for lines that say "repeated"."""

    def __init__(self, touched: t.List[t.Tuple[Draft, int]]) -> None:
        self._touched = touched
        self._all: t.List[Draft] = []
        self._recent: t.List[Draft] = []
        self._distinct: t.Dict[t.Hashable, t.Tuple[int, Draft]] = {}

    def __iter__(self) -> t.Iterator[Draft]:
        return (draft for draft in self._all if not draft.dropped)

    def append(self, line: Line, fields: t.Dict[str, t.Any], count: int = 1) -> Draft:
        """A record of its own."""
        draft = Draft(None, line, fields, count)
        self._all.append(draft)
        self._touched.append((draft, count))
        return draft

    def merge(self, key: t.Hashable, line: Line, fields: t.Dict[str, t.Any], count: int = 1, kind: t.Hashable = None) -> Draft:
        """A record that is counted with a recent one of the same C(key) in the same boot.

        Of one C(kind), where it is given, only so many distinct records are kept; the rest is counted with the last of them.
        """
        key = (key, line.boot, line.host)
        for draft in reversed(self._recent):
            if draft.key == key:
                return self.add(draft, line, count)
        if kind is not None:
            kind = (kind, line.boot, line.host)
            number, last = self._distinct.get(kind, (0, None))
            if last is not None and number >= _MAX_DISTINCT:
                return self.add(last, line, count)
        draft = Draft(key, line, fields, count)
        if kind is not None:
            self._distinct[kind] = (number + 1, draft)
        self._all.append(draft)
        self._touched.append((draft, count))
        self._recent.append(draft)
        if len(self._recent) > _WINDOW:
            del self._recent[0]
        return draft

    def add(self, draft: Draft, line: Line, count: int = 1) -> Draft:
        """One more sighting of a record."""
        draft.count += count
        draft.last = line
        self._touched.append((draft, count))
        return draft

    def drop(self, draft: Draft) -> None:
        """A record that turned out to be none of its own."""
        draft.dropped = True
        for index in range(len(self._all) - 1, max(-1, len(self._all) - _DROP_DEPTH), -1):
            if self._all[index] is draft:
                del self._all[index]
                return

    def forget(self, test: t.Callable[[Draft], bool]) -> None:
        """Recent records that answer the test are not merged with any more: something came between."""
        self._recent = [draft for draft in self._recent if not test(draft)]
