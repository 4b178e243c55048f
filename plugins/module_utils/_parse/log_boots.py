# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tells the boots in a log apart: by journal boot id, by markers between the lines, by the kernel's clock. Private to kentino.gpu."""

from __future__ import annotations

import re
import typing as t

from .lazy_pattern import lazy
from .log_envelope import Line
from .log_time import Stamp

# journalctl prints "-- Boot <id> --" (since 249) or "-- Reboot --" between the lines of two boots.
_MARKER = lazy(r"\s{0,8}-- (?:Boot ([0-9a-fA-F-]{32,36})|Reboot) --\s{0,8}$", re.ASCII)
_BANNER = lazy(r"Linux version \d")

# The kernel's clock of one boot never runs backwards, but lines of two processors, and quoted ones, come a little out of order.
_STEP_BACK_SECONDS = 60.0
# A log without wall-clock times may be pasted together out of order: there only a clock that starts anew means a boot.
_FRESH_SECONDS = 900.0
# What the kernel prints before its banner (microcode: updated early) has a stamp of nearly nothing.
_BEFORE_BANNER_SECONDS = 0.5


class Boot:
    """One boot of one machine."""

    __slots__ = ("banner", "lines", "number", "shown", "stamp", "uptime")

    def __init__(self, number: t.Optional[str], shown: bool) -> None:
        self.number = number  # the journal's id
        self.shown = shown  # a marker, an id or the kernel's banner showed that it is one
        self.lines = 0
        self.uptime: t.Optional[float] = None
        self.stamp: t.Optional[Stamp] = None  # beside that uptime
        self.banner = False


class Boots:
    """The boots of each machine in the text, in the order of their last line."""

    def __init__(self, current: t.Optional[str]) -> None:
        self._current = plain_id(current)
        self._chains: t.Dict[str, t.List[Boot]] = {}
        self._by_id: t.Dict[str, t.Tuple[str, Boot]] = {}
        self._host = ""
        self._last_sniffed = ""
        self._words: t.Optional[t.Dict[Boot, str]] = None

    def marker(self, text: str) -> bool:
        """Whether the line is a marker between two boots; it is then taken note of."""
        match = _MARKER.match(text)
        if not match:
            return False
        number = plain_id(match.group(1))
        if number and number in self._by_id:
            self._go_on(*self._by_id[number])
            return True
        for chain in self._chains.values() or [self._chain("")]:
            chain.append(Boot(number, shown=True))
        if number:
            self._by_id[number] = (self._host, self._chain(self._host)[-1])
        return True

    def unread_line(self) -> None:
        """A line that is not looked at more closely: it only shows that the boot at hand has lines."""
        self._at(None).lines += 1

    def before_banner(self, line: Line) -> None:
        """The line right before the kernel's banner, which tells a banner at a log's head from a reboot."""
        if line.host and line.host != self._host:
            return
        boot = self._at(None)
        if line.uptime is not None and (boot.uptime is None or boot.uptime < line.uptime):
            boot.uptime, boot.stamp = line.uptime, line.stamp
        elif line.message.startswith("microcode"):
            boot.uptime = boot.uptime or 0.0

    def sniff(self, number: str) -> bool:
        """The boot id of a journal record that is not looked at more closely; False where the record must be opened to place it."""
        if number == self._last_sniffed:
            return True
        plain = plain_id(number)
        if plain and plain not in self._by_id:
            return False
        self._last_sniffed = number
        if plain:
            self._go_on(*self._by_id[plain])
            self._by_id[plain][1].lines += 1
        return True

    def place(self, line: Line) -> None:
        """Sets the line's boot."""
        if line.boot_id is not None:
            boot = self._of_id(line)
            if boot is None:
                return
            boot.lines += 1
        else:
            boot = self._at(line.host)
            if self._begins_anew(boot, line):
                boot = Boot(None, shown=True)
                self._chain(self._host).append(boot)
            if line.uptime is not None:
                boot.uptime, boot.stamp = line.uptime, line.stamp
            if _BANNER.match(line.message):
                boot.banner = boot.shown = True
            boot.lines += 1
        line.boot = boot

    def _of_id(self, line: Line) -> t.Optional[Boot]:
        number = plain_id(line.boot_id)
        self._last_sniffed = line.boot_id or ""
        if number is None:
            return None  # systemd 252 wrote zeros for a time
        if number not in self._by_id:
            self._by_id[number] = (line.host or "", Boot(number, shown=True))
            self._chain(line.host or "").append(self._by_id[number][1])
        self._go_on(*self._by_id[number])
        return self._by_id[number][1]

    def _begins_anew(self, boot: Boot, line: Line) -> bool:
        if boot.number is None and boot.lines and _BANNER.match(line.message):
            if boot.banner or boot.shown:
                return boot.banner  # behind a marker the banner belongs to the marker's boot
            return boot.uptime is None or boot.uptime > _BEFORE_BANNER_SECONDS
        if line.uptime is None or boot.uptime is None or boot.uptime - line.uptime < _STEP_BACK_SECONDS:
            return False
        if boot.stamp is not None and line.stamp is not None:
            return _moment(boot.stamp) <= _moment(line.stamp)
        return line.uptime < _FRESH_SECONDS

    def count(self) -> int:
        return max([1, *(sum(1 for boot in chain if boot.lines) for chain in self._chains.values())])

    def word(self, boot: t.Optional[Boot]) -> t.Optional[str]:
        """C(current) or C(previous), None where the text does not tell boots apart. To be asked when all lines are placed."""
        if self._words is None:
            self._words = {}
            for chain in self._chains.values():
                self._words.update(self._of_chain([one for one in chain if one.lines]))
        return self._words.get(boot) if boot is not None else None

    def _of_chain(self, chain: t.List[Boot]) -> t.Iterator[t.Tuple[Boot, str]]:
        for boot in chain:
            if self._current and boot.number:
                yield boot, "current" if boot.number == self._current else "previous"
            elif boot is not chain[-1]:
                yield boot, "previous"
            elif boot.shown or len(chain) > 1:
                yield boot, "current"

    def _at(self, host: t.Optional[str]) -> Boot:
        """The boot that a line without an id belongs to: the last one of its machine, without a name that of the line before."""
        if host and host != self._host:
            if not self._host and "" in self._chains and host not in self._chains:
                self._chains[host] = self._chains.pop("")  # the same machine, named only now
                self._by_id = {number: (owner or host, boot) for number, (owner, boot) in self._by_id.items()}
            self._host = host
        chain = self._chain(self._host)
        if not chain:
            chain.append(Boot(None, shown=False))
        return chain[-1]

    def _chain(self, host: str) -> t.List[Boot]:
        return self._chains.setdefault(host, [])

    def _go_on(self, host: str, boot: Boot) -> None:
        self._host = host
        chain = self._chain(host)
        if chain[-1] is not boot:
            chain.remove(boot)
            chain.append(boot)


def plain_id(number: t.Optional[str]) -> t.Optional[str]:
    """A boot id in one form; None for the id of all zeros, which says nothing."""
    digits = (number or "").replace("-", "").lower()
    return digits if digits.strip("0") else None


def _moment(one: Stamp) -> t.Tuple[int, int, int, str]:
    return one.year or one.turn, one.month, one.day, one.clock
