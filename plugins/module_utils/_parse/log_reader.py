# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Goes through a log line by line: decides what to open, opens it, keeps track of boots and times. Private to kentino.gpu."""

from __future__ import annotations

import dataclasses
import datetime
import re
import typing as t

from . import log_envelope, log_json, log_loss
from .kernel_log_families import Families
from .kernel_log_records import KernelLog, Origin
from .lazy_pattern import lazy
from .log_boots import Boots
from .log_envelope import Line
from .log_json import Opened
from .log_records import Assembler
from .log_shape import CONTEXT_LINES, Text, wanted
from .log_time import Years

# So many lines are tried for one that has a time, or shows that the boot at hand has lines: words of a person or a shell may stand
# before a log, and dmesg has no times at all.
_HEAD_LINES = 1000
_BOOT_ID = lazy(r"\"_BOOT_ID\" ?: ?\"([0-9a-fA-F]{32})\"", re.ASCII)
_BOOT_ID_BYTES = lazy(_BOOT_ID.pattern.encode("ascii"), re.ASCII)
# json-seq and json-sse put these before each record.
_JSON_LEAD = lazy(r"[\x1e\s]{0,16}(?:data: {0,4})?(?=[{\[])")


class Reader:
    def __init__(self, families: Families, reference: t.Optional[datetime.datetime], current_boot: t.Optional[str]) -> None:
        self._families = families
        self._boots = Boots(current_boot)
        self._years = Years(reference)
        self._assembler = Assembler()
        self._context = 0
        self._lines = 0
        self._kernel_lines = 0
        self._looks_for_lines = self._looks_for_time = _HEAD_LINES
        self._raw_before: Text = ""
        self._line_before: t.Optional[Line] = None
        self._touched_before: t.List[t.Tuple[t.Any, int]] = []
        self._repeats_before = 1
        self._repeats = 1
        self._first: t.Optional[t.Any] = None
        self._last_kernel: Text = ""

    def feed(self, raw: Text, hit: bool, kernel: bool) -> None:
        """The next line; C(hit): it holds a needle, C(kernel): it looks like a kernel log's."""
        self._lines += 1
        if kernel:
            self._kernel_lines += 1
            self._last_kernel = raw
            if self._first is None and self._looks_for_time:
                self._first = self._stamp(raw)
                self._looks_for_time -= 1
        if self._assembler.in_data:
            self._assembler.data_line(raw)
            self._drain()
            return
        if hit:
            self._context = CONTEXT_LINES
        elif self._context and (self._assembler.under_way or self._families.in_report):
            self._context -= 1
        else:
            self._context -= self._context > 0
            self._skip(raw)
            return
        self._repeats = 1
        self._read(raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw)
        if not kernel and self._families.touched:
            self._kernel_lines += 1
        if raw.strip():
            self._touched_before, self._repeats_before = self._families.touched[:], self._repeats
            self._raw_before = raw
        del self._families.touched[:]

    def _skip(self, raw: Text) -> None:
        if not raw.strip():
            return
        self._raw_before = raw
        self._line_before = None
        self._touched_before = []
        match = None
        if raw[:1] in ("{", b"{"):
            match = _BOOT_ID_BYTES.search(raw) if isinstance(raw, bytes) else _BOOT_ID.search(raw)
        if match:
            number = match.group(1)
            if not self._boots.sniff(number.decode("ascii") if isinstance(number, bytes) else number):
                for line in self._open(raw):
                    self._boots.place(line)
        elif self._looks_for_lines and any(line.kind != "plain" or line.stamp for line in self._open(raw)):
            self._boots.unread_line()
            self._looks_for_lines = 0
        elif self._looks_for_lines:
            self._looks_for_lines -= 1

    def _read(self, text: str) -> None:
        # journalctl highlights the marker on a terminal.
        if "oot" in text and self._boots.marker(" ".join(log_envelope.clean(text))):
            self._looks_for_lines = _HEAD_LINES
            return
        if self._assembler.take(text):
            self._drain()
            return
        self._drain()
        opened = self._json(text)
        if opened is not None:
            self._use(opened)
            return
        for line in log_envelope.open_text(text):
            before = self._line_before
            if line.kind == "plain" and line.message[:1] in (" ", "\t") and before is not None and before.kind == "kernel":
                line.inherit(before)  # dmesg indents the further lines of one message
            self._line(line)

    def _json(self, text: str) -> t.Optional[Opened]:
        """The messages of a line that is a JSON record; None where it is none, or is cut."""
        match = _JSON_LEAD.match(text)
        if not match:
            return None
        value = log_json.load(text[match.end() :].rstrip().rstrip(","))
        if not isinstance(value, (dict, list)):
            if '"MESSAGE"' in text and "_TIMESTAMP" in text:
                self._families.unreadable += 1
            return None
        opened = log_json.open_value(value, text[: log_envelope.RAW_CHARACTERS], wanted)
        return opened if opened.lines or opened.unreadable else None

    def _drain(self) -> None:
        for opened in self._assembler.ready:
            self._use(opened)
        del self._assembler.ready[:]

    def _use(self, opened: Opened) -> None:
        self._families.unreadable += opened.unreadable
        for line in opened.lines:
            self._line(line)

    def _line(self, line: Line) -> None:
        if line.stamp is not None:
            line.stamp = self._years.seen(line.stamp)
        if line.message.startswith("Linux version") and self._raw_before:
            for earlier in self._open(self._raw_before)[:1]:
                self._boots.before_banner(earlier)
        self._boots.place(line)
        self._looks_for_lines = 0
        self._line_before = line
        again = log_loss.repeated(line.message)
        if again is not None:
            count, text = again
            self._repeats = max(1, count)
            for inner in log_envelope.open_text(text):
                self._families.read(inner.message, line, count)
            return
        more = log_loss.last_repeated(line.message)
        if more:
            for draft, count in self._touched_before:
                draft.count += count // self._repeats_before * more
            return
        self._families.read(line.message, line, 1)

    def _open(self, raw: Text) -> t.List[Line]:
        """The line's envelope only: nothing in it counts."""
        text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
        match = _JSON_LEAD.match(text)
        value = log_json.load(text[match.end() :].rstrip().rstrip(",")) if match else None
        if value is not None:
            return log_json.open_value(value, "", lambda dummy: True).lines
        return log_envelope.open_text(text)

    def _stamp(self, raw: Text) -> t.Optional[t.Any]:
        """The time of a line that need not be of interest: it must not decide the year of those that are."""
        stamp = next((line.stamp for line in self._open(raw) if line.stamp is not None), None)
        return self._years.placed(stamp) if stamp is not None else None

    def finish(self) -> KernelLog:
        self._assembler.flush()
        self._drain()
        last = self._stamp(self._last_kernel) if self._last_kernel else None
        origins: t.Dict[int, Origin] = {}

        def originate(line: Line) -> Origin:
            if id(line) not in origins:
                origins[id(line)] = self._origin(line)
            return origins[id(line)]

        log = KernelLog(
            lines=self._lines,
            kernel_lines=self._kernel_lines,
            boots=self._boots.count(),
            first_time=self._years.text(self._first),
            last_time=self._years.text(last),
        )
        log = self._families.finish(originate, log)
        if not log.kernel_lines and (log.events or log.sxids or log.driver_faults or log.aer or log.oom or log.storage or log.other):
            log = dataclasses.replace(log, kernel_lines=1)
        return log

    def _origin(self, line: Line) -> Origin:
        return Origin(
            raw=line.raw,
            time=self._years.text(line.stamp),
            usec=line.usec,
            uptime_seconds=line.uptime,
            seq=line.seq,
            level=line.level,
            boot=self._boots.word(line.boot),
            host=line.host,
        )
