# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""PCIe errors as the kernel reports them: AER, DPC and the firmware's own reports (GHES). Private to kentino.gpu.

A headline names the port that reported and the device it heard of; the lines behind it name layer and bits, for the port or for that
device. Kernels up to 4.20 say Corrected and C(id=0010), later ones Correctable and an address; 6.x puts C(AER:) on more lines.
"""

from __future__ import annotations

import re
import typing as t

from . import pci_address
from .lazy_pattern import lazy
from .log_drafts import Draft, Drafts
from .log_envelope import Line

_BDF = r"([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
_SEVERITY = r"(Correct(?:ed|able)|Uncorrect(?:ed|able))(?: {0,4}\((Non-?Fatal|Fatal)?[^()\n]{0,12}\)?)?"

_HEADLINE = lazy(
    _BDF + r":? {1,4}AER: {1,4}(Multiple )?" + _SEVERITY + r" {0,4}errors? (?:messages? )?received"
    r"(?:[ :]{1,4}(?:from )?(?:" + _BDF + r"|id=([0-9a-fA-F]{4})))?",
    re.ASCII | re.IGNORECASE,
)
_BUS_ERROR = lazy(
    _BDF + r":? {1,4}(?:AER: {1,4})?PCIe Bus Error: {0,4}(?:severity=)?(?:" + _SEVERITY + r")?(?:,? {0,4}type=([A-Za-z ]{0,40}[A-Za-z]))?",
    re.ASCII | re.IGNORECASE,
)
_BIT = lazy(_BDF + r":? {1,8}(?:AER: {1,8})?\[ {0,4}\d{1,2}\] {1,8}([A-Za-z][\w /()-]{0,60})", re.ASCII)
_STATUS = lazy(
    _BDF + r":? {1,8}(?:AER: {1,8})?(?:(?:device \[[0-9a-fA-F:]{0,12}\] )?error status/mask=([0-9a-fA-F]{8})/([0-9a-fA-F]{8})"
    r"|aer_status: 0x([0-9a-fA-F]{8}), aer_mask: 0x([0-9a-fA-F]{8}))",
    re.ASCII,
)
_FIRMWARE_LAYER = lazy(_BDF + r":? {1,8}(?:AER: {1,8})?aer_layer=([A-Za-z ]{0,40}[A-Za-z])", re.ASCII)
_FAILED = lazy(_BDF + r":? {1,4}(?:AER: {1,4})?(?:can't recover|device has no AER-aware driver|driver lacks)", re.ASCII)
_RECOVERY = lazy(_BDF + r":? {1,4}(?:AER: {1,4})?device recovery (successful|failed)", re.ASCII | re.IGNORECASE)
# status:0x1f01 source:0x6100; from 6.12 on status:0x1f05, ERR_FATAL received from 0000:61:00.0
_DPC = lazy(
    _BDF + r":? {1,4}DPC: {1,4}containment event, status:0x([0-9a-fA-F]{1,4})"
    r"(?:[, ]{1,4}source:? ?0x([0-9a-fA-F]{4})|[,:] {1,4}ERR_[A-Z]{1,16} received from " + _BDF + ")?",
    re.ASCII,
)
_DPC_CAUSE = lazy(
    _BDF + r":? {1,4}DPC: {1,4}(unmasked uncorrectable error|ERR_NONFATAL|ERR_FATAL|RP PIO error)\w* ?(?:detected|received)", re.ASCII
)
_GHES = lazy(r"(?:\{(\d{1,10})\})?\[Hardware Error\]: {1,16}(event severity|section_type|device_id): ([^\n]{1,80})", re.ASCII)

_GHES_SEVERITY = {"fatal": "uncorrectable_fatal", "recoverable": "uncorrectable_nonfatal", "corrected": "correctable"}

# Names of the bits of the status registers, as kernels from 5.x on print them; for reports whose own bit lines were cut off.
_CORRECTABLE = {0: "RxErr", 6: "BadTLP", 7: "BadDLLP", 8: "Rollover", 12: "Timeout", 13: "NonFatalErr", 14: "CorrIntErr", 15: "HeaderOF"}
_UNCORRECTABLE = {
    0: "Undefined",
    4: "DLP",
    5: "SDES",
    12: "TLP",
    13: "FCP",
    14: "CmpltTO",
    15: "CmpltAbrt",
    16: "UnxCmplt",
    17: "RxOF",
    18: "MalfTLP",
    19: "ECRC",
    20: "UnsupReq",
    21: "ACSViol",
    22: "UncorrIntErr",
    24: "AtomicOpBlocked",
    25: "TLPBlockedErr",
    26: "PoisonTLPBlocked",
}


class AerReader:
    def __init__(self, touched: t.List[t.Tuple[Draft, int]]) -> None:
        self.drafts = Drafts(touched)
        self.affected: t.Dict[str, None] = {}
        self.recovered: t.Optional[bool] = None
        self.hardware_errors: t.List[t.Tuple[Line, str, t.Optional[str]]] = []
        self._open: t.Dict[str, Draft] = {}  # by port: its report at hand
        self._latest: t.Optional[Draft] = None
        self._closed: t.Dict[t.Hashable, Draft] = {}  # by all that it says: complete reports
        self._ghes: t.Dict[t.Optional[str], str] = {}

    @property
    def in_report(self) -> bool:
        return bool(self._open)

    def read(self, message: str, line: Line, count: int) -> None:
        if "AER" in message or "Bus Error" in message:
            found = False
            for match in _HEADLINE.finditer(message):
                self._headline(match, line, count)
                found = True
            for match in _BUS_ERROR.finditer(message):
                self._bus_error(match, line, count)
                found = True
            if found:
                return
            self._outcome(message)
        if "DPC:" in message and self._containment(message, line, count):
            return
        if "[Hardware Error]" in message:
            self._firmware(message, line, count)
        elif self._open:
            self._detail(message)

    def finish(self) -> None:
        for draft in list(self._open.values()):
            self._close(draft)

    def _headline(self, match: t.Match[str], line: Line, count: int) -> None:
        port, multiple, word, grade, source, requester = match.groups()
        port = pci_address.with_function(port) or port
        source = pci_address.with_function(source) if source else pci_address.of_requester(requester, port) if requester else None
        if source and source.endswith(":00:00.0"):
            source = None  # the kernel did not catch who sent it
        self._begin(port, _severity(word, grade), line, count, multiple=bool(multiple), source=source)
        self._touch(port, source)

    def _bus_error(self, match: t.Match[str], line: Line, count: int) -> None:
        device, word, grade, layer = match.groups()
        device = pci_address.with_function(device) or device
        severity = _severity(word, grade)
        draft = self._of_device(device)
        other = word and draft is not None and draft.fields["severity"] != severity and not draft.fields["guessed"]
        if draft is None or draft.fields["error_type"] is not None or other:
            headline = draft
            port = headline.fields["port"] if headline is not None else device
            same = headline is not None and headline.fields["port"] == device
            draft = self._begin(port, severity, line, count, source=None if headline is None or same else device)
        elif word:
            draft.fields["severity"] = severity
        draft.fields["error_type"] = layer.strip() if layer else None
        draft.fields["device"] = device
        self._touch(draft.fields["port"], device)

    def _begin(self, port: str, severity: str, line: Line, count: int, multiple: bool = False, source: t.Optional[str] = None) -> Draft:
        before = self._open.pop(port, None)
        if before is not None:
            self._close(before)
        fields: t.Dict[str, t.Any] = {"port": port, "severity": severity, "error_type": None, "bits": [], "first": None}
        fields.update(multiple=multiple, source=source)
        draft = self.drafts.append(line, dict(fields, device=None, status=0, guessed=False), count)
        self._open[port] = self._latest = draft
        return draft

    def _of_device(self, device: str) -> t.Optional[Draft]:
        """The report at hand that a line of this device belongs to: its own, one that names it as source, the last one."""
        if device in self._open:
            return self._open[device]
        plain = pci_address.normalise(device)
        for draft in self._open.values():
            known = (draft.fields["source"], draft.fields["device"])
            if any(one and pci_address.normalise(one) == plain for one in known):
                return draft
        latest = self._latest
        if latest is not None and latest.fields["source"] is None and latest.fields["error_type"] is None:
            return latest
        return None

    def _detail(self, message: str) -> None:
        match = _BIT.search(message)
        if match:
            device, name = match.groups()
            draft = self._of_device(pci_address.with_function(device) or device)
            if draft is not None:
                first = name.rstrip().endswith("(First)")
                name = name.replace("(First)", "").strip()
                if name not in draft.fields["bits"]:
                    draft.fields["bits"].append(name)
                if first:
                    draft.fields["first"] = name
            return
        match = _STATUS.search(message)
        if match:
            device, status, mask = [group for group in match.groups() if group]
            draft = self._of_device(pci_address.with_function(device) or device)
            if draft is not None:
                draft.fields["status"] = int(status, 16) & ~int(mask, 16)
            return
        match = _FIRMWARE_LAYER.search(message)
        if match:
            draft = self._of_device(pci_address.with_function(match.group(1)) or match.group(1))
            if draft is not None and draft.fields["error_type"] is None:
                draft.fields["error_type"] = match.group(2)

    def _close(self, draft: Draft) -> None:
        """The report is complete: it is counted with an earlier one that says the same."""
        fields = draft.fields
        self._open.pop(fields["port"], None)
        if self._latest is draft:
            self._latest = None
        if not fields["bits"] and fields["status"]:
            names = _CORRECTABLE if fields["severity"] == "correctable" else _UNCORRECTABLE
            fields["bits"] = [names.get(bit, "bit %d" % bit) for bit in range(32) if fields["status"] >> bit & 1]
        for name in ("device", "status", "guessed"):
            del fields[name]
        fields["bits"] = tuple(fields["bits"])
        key = (draft.line.boot, draft.line.host, *sorted(fields.items(), key=lambda item: item[0]))
        equal = self._closed.setdefault(key, draft)
        if equal is not draft:
            equal.count += draft.count
            equal.last = draft.line
            self.drafts.drop(draft)

    def _outcome(self, message: str) -> None:
        match = _FAILED.search(message)
        if match:
            self._touch("", match.group(1))
            self.recovered = False
            return
        match = _RECOVERY.search(message)
        if match and self.recovered is not False:
            self.recovered = match.group(2).lower() == "successful"

    def _containment(self, message: str, line: Line, count: int) -> bool:
        """DPC switched the link off. Its status says why; the Bus Error line behind it, where there is one, says it better."""
        match = _DPC.search(message)
        if match:
            port, status, requester, source = match.groups()
            port = pci_address.with_function(port) or port
            nonfatal = int(status, 16) >> 1 & 3 == 1
            sender = source or (pci_address.of_requester(requester, port) if requester else None)
            draft = self._begin(port, "uncorrectable_nonfatal" if nonfatal else "uncorrectable_fatal", line, count, source=sender)
            draft.fields["guessed"] = True
            self._touch(port, sender)
            return True
        match = _DPC_CAUSE.search(message)
        if match and (pci_address.with_function(match.group(1)) or "") not in self._open:
            severity = "uncorrectable_nonfatal" if match.group(2) == "ERR_NONFATAL" else "uncorrectable_fatal"
            draft = self._begin(pci_address.with_function(match.group(1)) or match.group(1), severity, line, count)
            draft.fields["guessed"] = True
        return bool(match)

    def _firmware(self, message: str, line: Line, count: int) -> None:
        """C({1}[Hardware Error]: event severity: fatal), then a section_type, for PCIe then device_id with an address."""
        match = _GHES.search(message)
        if not match:
            return
        number, what, value = match.groups()
        if what == "event severity":
            self._ghes = {number: value.strip().lower()}
        elif what == "section_type" and "PCIe" not in value:
            self.hardware_errors.append((line, value.strip(), self._ghes.get(number)))
        elif what == "device_id":
            port = pci_address.with_function(value.strip())
            severity = _GHES_SEVERITY.get(self._ghes.get(number, ""), "uncorrectable_fatal")
            if port and self._ghes.get(number) != "info":
                self._begin(port, severity, line, count)

    def _touch(self, port: str, device: t.Optional[str]) -> None:
        """Notes a device that an error reached and that is not the port that reported it."""
        plain = pci_address.normalise(device) if device else None
        if plain and plain != pci_address.normalise(port):
            self.affected[plain] = None


def _severity(word: t.Optional[str], grade: t.Optional[str]) -> str:
    """A line cut before the word that tells fatal from non-fatal is read as fatal."""
    if word and word.lower().startswith("correct"):
        return "correctable"
    return "uncorrectable_nonfatal" if grade and grade.lower().startswith("non") else "uncorrectable_fatal"
