# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NVSwitch errors: SXid lines of the nvswitch driver and the Fabric Manager's copies of them. Private to kentino.gpu.

One error prints a headline and, under the same number, a C(Severity) line and one or two C(Data) lines; lines of several switches
interleave (error_nvswitch.c). A headline may be lost; what is left of its error is then a record of its own.
"""

from __future__ import annotations

import re
import typing as t

from . import pci_address
from .lazy_pattern import lazy
from .log_drafts import Draft, Drafts
from .log_envelope import Line

_SXID = lazy(
    r"(?:nvidia-nvswitch(\d{1,4}): {0,4})?SXid ?\(([^()'\"`]{0,40})\)\s{0,4}:?\s{0,4}(\d{1,6})(?=[\s,.;:'\"\])}<\\]|$),? {0,4}", re.ASCII
)
_MENTION = lazy(r"nvidia-nvswitch\d{1,4}: {0,4}SXid(?! ?\([^)]{0,40}['\"`%*\\])", re.ASCII)
_HEADLINE = lazy(r"(Fatal|Non-?fatal|Correctable|Corrected)\b,? {0,4}(?:Link (-?\d{1,4})\b)?", re.ASCII | re.IGNORECASE)
_LINK = lazy(r"Link (-?\d{1,4})\b", re.ASCII)
_SEVERITY = lazy(r"Severity \d", re.ASCII)
_DATA = lazy(r"Data \{")
_SEVERITIES = {"fatal": "fatal", "nonfatal": "non-fatal", "correctable": "correctable", "corrected": "correctable"}
# [ERROR] [tid 1374] detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id 00000000:83:00.0 physical id 0 port 34
_MANAGER = lazy(
    r"detected NVSwitch (fatal|non-?fatal) error (\d{1,6}) on .{0,80}?pci bus id ([0-9a-fA-F:.]{7,20})(?:.{0,40}?\bport (\d{1,4}))?",
    re.ASCII,
)
_TEXT_CHARACTERS = 500


class SxidReader:
    def __init__(self, touched: t.List[t.Tuple[Draft, int]]) -> None:
        self.drafts = Drafts(touched)
        self.unrecognised: t.List[str] = []
        self._copies: t.List[t.Tuple[Line, t.Dict[str, t.Any]]] = []
        # By boot, switch and number: headlines whose Severity line is still to come, and the record that Data lines belong to.
        self._awaiting: t.Dict[t.Hashable, int] = {}
        self._open: t.Dict[t.Hashable, bool] = {}

    def read(self, message: str, line: Line, count: int) -> None:
        at = message.find("SXid")
        while at >= 0:
            start = message.rfind("nvidia-nvswitch", max(0, at - 24), at)
            match = _SXID.match(message, start) if start >= 0 else None
            match = match or _SXID.match(message, at)
            if match:
                until = message.find("SXid", match.end())
                end = min(until if until >= 0 else len(message), match.end() + _TEXT_CHARACTERS)
                self._sxid(match, message[match.end() : end].strip(), line, count)
            elif start >= 0 and _MENTION.match(message, start):
                self.unrecognised.append(message[start : start + _TEXT_CHARACTERS])
            at = message.find("SXid", at + 4)
        if "detected NVSwitch" in message:
            self._manager(message, line)

    def _sxid(self, match: t.Match[str], text: str, line: Line, count: int) -> None:
        switch, address, digits = match.groups()
        address = address.strip()
        number = int(digits)
        pci = pci_address.normalise(address) or address or None
        key = (line.boot, line.host, pci, number)
        fields = {"sxid": number, "pci": pci, "switch": int(switch) if switch else None, "severity": None, "link": None, "text": text}
        if _DATA.match(text):
            if key not in self._open:
                self._orphan(key, line, fields, count)
            return
        if _SEVERITY.match(text):
            if self._awaiting.get(key, 0) > 0:
                self._awaiting[key] -= 1
            else:
                self._orphan(key, line, fields, count)
            return
        headline = _HEADLINE.match(text)
        link = headline.group(2) if headline else None
        if link is None:
            later = _LINK.search(text)
            link = later.group(1) if later else None
        fields["severity"] = _SEVERITIES[headline.group(1).lower().replace("-", "")] if headline else None
        fields["link"] = int(link) if link is not None else None
        self._open[key] = True
        self._awaiting[key] = self._awaiting.get(key, 0) + count
        self.drafts.merge((pci, number, fields["severity"], fields["link"], text), line, fields, count)

    def _orphan(self, key: t.Hashable, line: Line, fields: t.Dict[str, t.Any], count: int) -> None:
        """Severity stays None: C(Severity 1) is the driver's own scale, and the word of the headline is lost."""
        self._open[key] = True
        fields["orphan"] = True
        self.drafts.merge((key, "orphan"), line, fields, count)

    def _manager(self, message: str, line: Line) -> None:
        match = _MANAGER.search(message)
        if not match:
            return
        severity, number, address, port = match.groups()
        fields = {
            "sxid": int(number),
            "pci": pci_address.normalise(address) or address,
            "severity": _SEVERITIES[severity.replace("-", "")],
            "link": int(port) if port else None,
            "text": message[match.start() : match.end()],
        }
        # The Fabric Manager prints each of its lines twice.
        if not self._copies or self._copies[-1][1] != fields:
            self._copies.append((line, fields))

    def finish(self) -> None:
        """The Fabric Manager's word counts where the driver's own line is not in the text."""
        known = {(draft.fields["sxid"], draft.fields["pci"], draft.fields["link"]) for draft in self.drafts}
        known |= {(sxid, pci, None) for sxid, pci, dummy in known}
        for line, fields in self._copies:
            key = (fields["sxid"], fields["pci"], fields["link"])
            if key not in known:
                self.drafts.merge((key, "manager"), line, fields)
