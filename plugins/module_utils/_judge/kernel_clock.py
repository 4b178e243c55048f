# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""When things in a kernel log happened, how far apart, and what is history by now. Private to kentino.gpu."""

from __future__ import annotations

import datetime
import re
import typing as t

from .._parse.kernel_log_records import Origin
from .kernel_policy import KernelPolicy

_ISO = re.compile(r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d+))?\s*(Z|[+-]\d\d:?\d\d)?\s*$")

# A time without an offset may be that of any zone; the westernmost is 12 hours behind UTC.
_ZONE_SLACK_HOURS = 12


class Moment(t.NamedTuple):
    """Absent clocks are None; C(order) is the place in the log."""

    order: int
    wall: t.Optional[float] = None  # seconds since the epoch; a time without an offset counts as UTC
    zoned: bool = False
    uptime: t.Optional[float] = None
    previous: bool = False  # of a boot before the running one


def moment(origin: Origin, order: int) -> Moment:
    wall, zoned = (origin.usec / 1e6, True) if origin.usec is not None else _wall(origin.time)
    return Moment(order, wall, zoned, origin.uptime_seconds, origin.boot == "previous")


def end(record: t.Any, order: int) -> t.Optional[Moment]:
    """When a record was last seen. One that stands for several lines has the time of the first; None where the last is not told."""
    if getattr(record, "count", 1) == 1:
        return moment(record.origin, order)
    detail = getattr(record, "detail", {})
    usec, text = detail.get("last_usec"), detail.get("last_time")
    if usec is None and text is None:
        return None
    return moment(Origin(time=text, usec=usec, boot=record.origin.boot), order)


def seconds_between(earlier: Moment, later: Moment) -> t.Optional[float]:
    """Negative where the order of the log is not that of the clock; None where no clock is common to both."""
    if earlier.wall is not None and later.wall is not None and earlier.zoned == later.zoned:
        return later.wall - earlier.wall
    # The uptime begins anew with each boot.
    if earlier.uptime is not None and later.uptime is not None and earlier.previous == later.previous:
        return later.uptime - earlier.uptime
    return None


def together(one: Moment, other: Moment, seconds: float) -> bool:
    """Whether the two are known to be close."""
    distance = seconds_between(one, other)
    return one.previous == other.previous and distance is not None and abs(distance) <= seconds


def in_order(moments: t.Sequence[Moment]) -> t.List[int]:
    """Indexes by time, by place in the log where the moments share no clock."""
    indexes = range(len(moments))
    if all(one.wall is not None for one in moments) and len({one.zoned for one in moments}) < 2:
        return sorted(indexes, key=lambda index: moments[index].wall or 0.0)
    if all(one.uptime is not None for one in moments) and len({one.previous for one in moments}) < 2:
        return sorted(indexes, key=lambda index: moments[index].uptime or 0.0)
    return sorted(indexes, key=lambda index: moments[index].order)


def history(severity: str, action: str, previous: bool, last: t.Optional[Moment], policy: KernelPolicy) -> t.Tuple[str, str, str]:
    """Severity and action as they stand now, and why in words; unchanged and no words where it is no history.

    What is to be replaced does not mend itself by a reboot or by waiting: it stays a warning at least. Nothing ages whose last
    sighting (C(last)) is not known.
    """
    if previous and policy.boot == "current":
        if severity == "info":
            return severity, action, "before the last boot"
        if action == "replace":
            return "warning", action, "before the last boot"
        return "info", "none", "before the last boot"
    hours = _age_hours(last, policy) if last is not None else None
    if severity == "warning" and action != "replace" and hours is not None and hours > policy.warning_hours:
        return "info", "none", "%d hours ago" % hours
    return severity, action, ""


def _age_hours(last: Moment, policy: KernelPolicy) -> t.Optional[float]:
    if last.wall is None or policy.now_usec is None:
        return None
    return (policy.now_usec / 1e6 - last.wall) / 3600 - (0 if last.zoned else _ZONE_SLACK_HOURS)


def _wall(text: t.Optional[str]) -> t.Tuple[t.Optional[float], bool]:
    match = _ISO.match(text or "")
    if not match:
        return None, False
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    fraction, offset = match.group(7), match.group(8)
    try:
        # A leap second is printed as 60.
        plain = datetime.datetime(year, month, day, hour, minute, min(second, 59), tzinfo=datetime.timezone.utc)
    except ValueError:
        return None, False
    wall = plain.timestamp() + (float("0." + fraction) if fraction else 0.0)
    if offset and offset != "Z":
        digits = offset[1:].replace(":", "")
        shift = int(digits[:2]) * 3600 + int(digits[2:]) * 60
        wall -= shift if offset[0] == "+" else -shift
    return wall, bool(offset)
