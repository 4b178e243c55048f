# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Times of log lines: stamps as printed, and the year that most of them leave out. Private to kentino.gpu."""

from __future__ import annotations

import datetime
import typing as t

# Month names of syslog lines written under another locale, by month. Abbreviations differ between C libraries.
_MONTHS = (
    "jan january januar jän janv janvier ene enero gen gennaio janeiro sty led oca янв ιαν tammi",
    "feb february februar fév févr février febrero febbraio fev fevereiro lut úno şub фев φεβ helmi",
    "mar march mär märz mars marzo março mrt maa bře мар mrz μαρ maalis",
    "apr april avr avril abr abril aprile kwi dub nis апр απρ huhti",
    "may mai mayo mag maggio maio mei maj kvě май мая μαΐ touko",
    "jun june juni juin junio giu giugno junho cze čen haz июн ιουν kesä",
    "jul july juli juil juillet julio lug luglio julho lip čec tem июл ιουλ heinä",
    "aug august aoû août ago agosto sie srp ağu авг αυγ elo",
    "sep sept september septembre septiembre set settembre setembro wrz zář eyl сен σεπ syys",
    "oct october okt oktober octobre octubre ott ottobre out outubro paź říj eki окт οκτ loka",
    "nov november novembre noviembre novembro lis kas ноя νοε marras",
    "dec december dez dezember déc décembre dic diciembre dicembre dezembro gru pro ara дек δεκ joulu",
)
_NUMBER = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}

# Rollovers are counted from a step back of more than this many days; a smaller one is a log pasted out of order.
_HALF_YEAR_DAYS = 184
# No log covers more years; the limit keeps a text that jumps between two months for ever from growing memory.
_MAX_YEARS = 100


class Stamp(t.NamedTuple):
    """A wall-clock time as the source printed it."""

    month: int
    day: int
    clock: str  # HH:MM:SS
    fraction: str = ""  # digits after the decimal mark, as many as were printed
    offset: str = ""  # +HH:MM, Z or nothing: then local time of the machine
    year: t.Optional[int] = None
    turn: int = 0  # year ends passed in this text before the stamp; only for stamps without a year


def month_number(name: str) -> t.Optional[int]:
    """The month of a name or abbreviation in any of the common locales, None for one that is not known."""
    name = name.lower().rstrip(".,")
    if name[-1:] in ("月", "월") and name[:-1].isdecimal():
        number = int(name[:-1])
        return number if 1 <= number <= 12 else None
    return _NUMBER.get(name)


def stamp(
    month: t.Optional[int], day: str, clock: str, fraction: str = "", offset: str = "", year: t.Optional[str] = None
) -> t.Optional[Stamp]:
    """A stamp, or None where the parts are no date: the line then has no time, and is a line all the same."""
    if month is None or not day.isdecimal() or not 1 <= month <= 12 or not 1 <= int(day) <= 31:
        return None
    if len(clock) == 5:
        clock += ":00"
    hour, minute, second = clock.split(":")
    if int(hour) > 23 or int(minute) > 59 or int(second) > 60:
        return None
    if offset[:1] in ("+", "-"):
        digits = offset[1:].replace(":", "").ljust(4, "0")
        offset = "%s%s:%s" % (offset[0], digits[:2], digits[2:4])
    return Stamp(month, int(day), clock, fraction, offset, int(year) if year else None)


def from_usec(usec: int) -> t.Optional[Stamp]:
    try:
        moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=usec)
    except OverflowError:
        return None
    return Stamp(moment.month, moment.day, moment.strftime("%H:%M:%S"), "%06d" % moment.microsecond, "+00:00", moment.year)


class Years:
    """Gives year-less stamps their year.

    The year is the one that puts a stamp closest to, but not after, the reference plus a day (clocks and time zones differ). A step
    back of more than half a year within one text is a year's end: what stands before it belongs to the year before.
    """

    def __init__(self, reference: t.Optional[datetime.datetime]) -> None:
        self._reference = reference
        self._last: t.Optional[Stamp] = None
        self._turn = 0
        self._first_of_turn: t.List[Stamp] = []
        self._limits: t.Optional[t.List[datetime.datetime]] = None

    def seen(self, one: Stamp) -> Stamp:
        """To be called for the stamps in the order of the text; returns the stamp to keep."""
        if one.year is not None:
            return one
        if self._last is not None and self._turn < _MAX_YEARS and _days(self._last) - _days(one) > _HALF_YEAR_DAYS:
            self._turn += 1
        if len(self._first_of_turn) <= self._turn:
            self._first_of_turn.append(one)
        self._last = one
        return one._replace(turn=self._turn)

    def placed(self, one: Stamp) -> Stamp:
        """As C(seen), for a stamp that stands here but is not to influence others."""
        return one if one.year is not None else one._replace(turn=self._turn)

    def text(self, one: t.Optional[Stamp]) -> t.Optional[str]:
        """ISO 8601 with the offset where the source has one; None where the year cannot be told."""
        if one is None:
            return None
        year = one.year if one.year is not None else self._year(one)
        if year is None:
            return None
        fraction = "." + one.fraction if one.fraction else ""
        return "%04d-%02d-%02dT%s%s%s" % (year, one.month, one.day, one.clock, fraction, one.offset)

    def _year(self, one: Stamp) -> t.Optional[int]:
        if self._reference is None:
            return None
        if self._limits is None or len(self._limits) != len(self._first_of_turn):
            self._limits = self._work_out_limits(self._reference)
        limit = self._limits[min(one.turn, len(self._limits) - 1)]
        return next((moment.year for moment in _candidates(one, limit) if moment <= limit), None)

    def _work_out_limits(self, reference: datetime.datetime) -> t.List[datetime.datetime]:
        """For each turn the latest moment that its stamps may have, worked out from the last turn backwards."""
        limit = reference.replace(tzinfo=None) + datetime.timedelta(days=1)
        limits = [limit]
        for first in reversed(self._first_of_turn[1:]):
            limit = next((moment for moment in _candidates(first, limit) if moment <= limit), limit)
            limits.append(limit)
        return limits[::-1]


def _days(one: Stamp) -> int:
    return one.month * 31 + one.day


def _candidates(one: Stamp, limit: datetime.datetime) -> t.Iterator[datetime.datetime]:
    hour, minute, second = (int(part) for part in one.clock.split(":"))
    # Eight years back: 29 February has a year even across 2100.
    for year in range(limit.year, max(0, limit.year - 9), -1):
        try:
            yield datetime.datetime(year, one.month, one.day, hour, minute, min(second, 59))
        except ValueError:
            continue
