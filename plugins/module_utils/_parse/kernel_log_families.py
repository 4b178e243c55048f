# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hands each message of a kernel log to the families that may know it, and gathers their records. Private to kentino.gpu."""

from __future__ import annotations

import typing as t

from . import driver_lines, log_loss, xid_lines
from .aer_lines import AerReader
from .driver_lines import DriverReader
from .kernel_log_records import AerError, DriverFault, KernelLog, OomKill, Origin, OtherEvent, StorageError, SxidEvent, XidEvent
from .log_drafts import Draft, Drafts
from .log_envelope import Line
from .log_shape import windows
from .oom_lines import OomReader
from .other_lines import OtherReader
from .storage_lines import StorageReader
from .sxid_lines import SxidReader

# No driver message is longer; a segment is, where the rest of a long line is not the driver's.
_SEGMENT_CHARACTERS = 2000
_MAX_UNRECOGNISED = 1000

Originate = t.Callable[[Line], Origin]


class Families:
    def __init__(self) -> None:
        # What the line at hand added or counted up.
        self.touched: t.List[t.Tuple[Draft, int]] = []
        self.suppressed = 0
        self.unreadable = 0
        self._losing = False
        self._unrecognised: t.List[str] = []
        self._xids = Drafts(self.touched)
        self._sxids = SxidReader(self.touched)
        self._driver = DriverReader(self.touched)
        self._aer = AerReader(self.touched)
        self._oom = OomReader(self.touched)
        self._storage = StorageReader(self.touched)
        self._other = OtherReader(self.touched)

    @property
    def in_report(self) -> bool:
        """Whether the next line may matter although it holds no needle: the bits of a PCIe error do not."""
        return self._aer.in_report

    def read(self, text: str, line: Line, count: int) -> None:
        """One message, C(count) times."""
        for message in windows(text):
            self._read(message, line, count)

    def _read(self, message: str, line: Line, count: int) -> None:
        if "NVRM" in message or "Xid" in message or "XID (" in message:
            self._driver_messages(message, line, count)
        elif "fallen off the bus" in message:
            for match in driver_lines.LOST_UNPREFIXED.finditer(message):
                self._driver.read(match.group(), line, count)
        if "SXid" in message or "detected NVSwitch" in message:
            self._sxids.read(message, line, count)
        if "failed with error" in message:
            self._driver.read_probe(message, line, count)
        self._aer.read(message, line, count)
        if "oom" in message or "Kill" in message:
            self._oom.read(message, line)
        self._storage.read(message, line, count)
        self._other.read(message, line, count)
        lost, losing = log_loss.lost(message)
        self.suppressed += lost
        self._losing = self._losing or losing

    def _driver_messages(self, message: str, line: Line, count: int) -> None:
        """Messages of the driver may share one line: it prints with KERN_CONT, also behind another driver's unfinished words."""
        starts = [0]
        at = message.find("NVRM:", 1)
        while at >= 0:
            starts.append(at)
            at = message.find("NVRM:", at + 5)
        # The places before which nothing stands on the line.
        alone = starts[:2] if not message[: starts[min(1, len(starts) - 1)]].strip() else starts[:1]
        for start, end in zip(starts, [*starts[1:], len(message)]):
            segment = message[start:end]
            if "Xid" in segment or "XID (" in segment:
                found = xid_lines.find(segment, start in alone)
                for xid in found.xids:
                    self._xid(xid, line, count)
                self._not_recognised(found.unrecognised)
            elif segment.startswith("NVRM:"):
                self._driver.read(segment[:_SEGMENT_CHARACTERS], line, count)

    def _xid(self, xid: xid_lines.Xid, line: Line, count: int) -> None:
        key = xid[:7]
        if xid.xid == 154:
            # The recovery action's last word counts: what came before it is not merged with what comes behind.
            whole = (key, line.boot, line.host)
            self._xids.forget(lambda draft: draft.fields["pci"] == xid.pci and draft.key != whole)
        elif xid.pci:
            # And the same word a second time, with something between, is a new word.
            self._xids.forget(lambda draft: draft.fields["pci"] == xid.pci and draft.fields["xid"] == 154)
        fields = dict(xid._asdict(), detail=dict(xid.detail), uuid=None, serial=None)
        if xid.pci:
            fields["uuid"] = self._driver.uuids.get((line.boot, xid.pci))
            fields["serial"] = self._driver.serials.get((line.boot, xid.pci))
        self._xids.merge(key, line, fields, count)

    def _not_recognised(self, texts: t.Iterable[str]) -> None:
        for text in texts:
            if len(self._unrecognised) < _MAX_UNRECOGNISED and text not in self._unrecognised[-8:]:
                self._unrecognised.append(text)

    def finish(self, originate: Originate, log: KernelLog) -> KernelLog:
        """The records, in C(log)'s place."""
        self._aer.finish()
        for line, section, severity in self._aer.hardware_errors:
            self._other.hardware_error(line, section, severity)
        self._sxids.finish()
        self._not_recognised(self._sxids.unrecognised)
        self._oom.finish()
        self._driver.finish(self._xids)
        recovered = self._aer.recovered
        if recovered is None and self._storage.recovered:
            recovered = True
        return KernelLog(
            events=tuple(self._event(draft, originate) for draft in self._xids),
            sxids=_made(SxidEvent, self._sxids.drafts, originate),
            driver_faults=_made(DriverFault, self._driver.drafts, originate),
            aer=_made(AerError, self._aer.drafts, originate),
            oom=tuple(OomKill(**draft.fields, origin=originate(draft.line)) for draft in self._oom.drafts),
            storage=_made(StorageError, self._storage.drafts, originate),
            other=_made(OtherEvent, self._other.drafts, originate),
            unrecognised=tuple(self._unrecognised),
            gpu_uuids=self._driver.last_uuids,
            gpu_serials=self._driver.last_serials,
            affected=tuple(self._aer.affected),
            rate_limited=self._driver.rate_limited or self._losing,
            suppressed=self.suppressed,
            unreadable_records=self.unreadable,
            recovered=recovered,
            boots=log.boots,
            lines=log.lines,
            kernel_lines=log.kernel_lines,
            first_time=log.first_time,
            last_time=log.last_time,
        )

    def _event(self, draft: Draft, originate: Originate) -> XidEvent:
        fields = draft.fields
        place = (draft.line.boot, fields["pci"])
        # The driver announces a GPU before its first Xid, but the announcement may stand behind it in a collected log.
        fields["uuid"] = fields["uuid"] or self._driver.uuids.get(place)
        fields["serial"] = fields["serial"] or self._driver.serials.get(place)
        if draft.last is not draft.line:
            last = originate(draft.last)
            sighting = {"last_time": last.time, "last_usec": last.usec, "last_uptime_seconds": last.uptime_seconds}
            fields["detail"].update({key: value for key, value in sighting.items() if value is not None})
        return XidEvent(**fields, count=draft.count, origin=originate(draft.line))


def _made(record: t.Any, drafts: Drafts, originate: Originate) -> t.Tuple[t.Any, ...]:
    return tuple(record(**draft.fields, count=draft.count, origin=originate(draft.line)) for draft in drafts)
