# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Findings that somebody accepts, with a reason and until a date. Private to kentino.gpu."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from fnmatch import fnmatchcase

from .result import one_line, what

_FIELDS = ("code", "subject", "host", "reason", "until", "by", "unknown")
_TIME = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ]([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(Z|[+-][0-9]{2}:?[0-9]{2})?)?", re.IGNORECASE)
# Tools print 00000000:C1:00.0, c1:00.0 or 0000:c1:00 for one and the same address.
_PCI = re.compile(r"(?:([0-9a-f]{4}|[0-9a-f]{8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-7])?")
_FAR_DAYS = 366


class WaiverError(ValueError):
    """A waiver that cannot be read; the text says which one and what was expected."""


@dataclass(frozen=True)
class Waiver:
    """An accepted finding. C(expired) and C(far) are told at reading, so that no later step needs a clock."""

    number: int
    code: str
    subject: str
    reason: str
    until: str
    host: str = "*"
    by: str = ""
    unknown: bool = False
    expired: bool = False
    far: bool = False

    def covers(self, finding: t.Mapping[str, t.Any], host: str = "") -> bool:
        """Whether it is about this finding; C(finding) is in the shape of C(result.Result.findings)."""
        if not self.on_host(host) or not fnmatchcase(finding["code"].lower(), self.code.lower()):
            return False
        keys = set(finding["subject"]["keys"])
        if finding["subject"]["kind"] == "node" and host:
            keys.add(host.lower())
        return self.subject == "*" or not keys.isdisjoint((self.subject.lower(), _pci(self.subject)))

    def on_host(self, host: str) -> bool:
        return self.host == "*" or fnmatchcase(host.lower(), self.host.lower())

    def label(self) -> str:
        """For notes: C(waiver 2 (gpu.pcie_* on 1654...))."""
        return "waiver %d (%s on %s)" % (self.number, self.code, self.subject)

    def mark(self) -> t.Dict[str, str]:
        """What a waived finding carries."""
        return dict({"reason": self.reason, "until": self.until}, **({"by": self.by} if self.by else {}))


def read_waivers(given: t.Any, now: datetime) -> t.Tuple[Waiver, ...]:
    """The waivers in C(given), a list of dictionaries or nothing.

    C(now) carries a time zone. A date is good until the end of that day and, like a time without zone, is meant on the clock
    of C(now). Raises C(WaiverError) on anything that is not a complete waiver: a waiver half understood accepts too much.
    """
    if given is None:
        return ()
    if not isinstance(given, (list, tuple)):
        raise WaiverError("waivers must be a list of dictionaries with code, subject, reason and until; got %s" % what(given))
    return tuple(_read(item, number, now) for number, item in enumerate(given, 1))


def _read(item: t.Any, number: int, now: datetime) -> Waiver:
    where = "waivers, item %d: " % number
    if not isinstance(item, Mapping):
        raise WaiverError(where + "expected a dictionary with code, subject, reason and until; got %s" % what(item))
    strange = sorted(str(key) for key in item if key not in _FIELDS)
    if strange:
        raise WaiverError(where + "%s is not a field of a waiver; expected %s" % (one_line(", ".join(strange)), ", ".join(_FIELDS)))
    unknown = item.get("unknown")
    if unknown is not None and not isinstance(unknown, bool):
        raise WaiverError(where + "unknown must be true or false")
    until, expired, days = _until(item.get("until"), where, now)
    return Waiver(
        number,
        _glob(item, "code", where, "the code of a finding, such as gpu.pcie_width or gpu.pcie_*"),
        _field(item, "subject", where, "a serial, UUID, PCI address or device name, or * for all of them"),
        _field(item, "reason", where, "why this finding is accepted"),
        until,
        _glob(item, "host", where, "a host name, which may hold *") if item.get("host") is not None else "*",
        _field(item, "by", where, "who accepted it") if item.get("by") is not None else "",
        bool(unknown),
        expired,
        days > _FAR_DAYS,
    )


def _field(item: t.Mapping[str, t.Any], name: str, where: str, expected: str) -> str:
    value = item.get(name)
    # a serial of digits only is a number in YAML
    text = one_line(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    if not text:
        raise WaiverError(where + "%s is missing or is no text; expected %s" % (name, expected))
    return text


def _glob(item: t.Mapping[str, t.Any], name: str, where: str, expected: str) -> str:
    pattern = _field(item, name, where, expected)
    try:
        fnmatchcase("", pattern.lower())
    except re.error as exc:  # a reversed range such as [z-a], before Python 3.11
        raise WaiverError(where + "%s is no pattern: %s" % (name, exc)) from exc
    return pattern


def _until(value: t.Any, where: str, now: datetime) -> t.Tuple[str, bool, int]:
    """C(until) as text, whether it has passed, and the days that are left."""
    end: t.Union[date, datetime, None] = None
    # YAML turns an unquoted date into a date object
    if isinstance(value, date):
        end = value
    elif isinstance(value, str):
        end = _time(value.strip())
    if end is None:
        raise WaiverError(where + "until is missing or is no date; expected YYYY-MM-DD or YYYY-MM-DDTHH:MM, with or without a time zone")
    if not isinstance(end, datetime):
        return end.isoformat(), now.date() > end, (end - now.date()).days
    days = (end.date() - now.date()).days
    clock = now.replace(tzinfo=None) if end.tzinfo is None else now
    return end.isoformat(), clock > end, days


def _time(text: str) -> t.Union[date, datetime, None]:
    match = _TIME.fullmatch(text)
    if not match:
        return None
    day, clock, zone = match.groups()
    try:
        if clock is None:
            return date.fromisoformat(day)
        zone = "" if zone is None else "+00:00" if zone in "Zz" else zone[:3] + ":" + zone[-2:]
        return datetime.fromisoformat(day + "T" + clock + zone)
    except ValueError:
        return None


def _pci(text: str) -> str:
    match = _PCI.fullmatch(text.lower())
    if not match:
        return text.lower()
    domain = match[1] or "0000"
    return "%s:%s:%s" % (domain[4:] if domain.startswith("0000") and len(domain) == 8 else domain, match[2], match[3])
