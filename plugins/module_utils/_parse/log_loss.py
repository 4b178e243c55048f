# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Words by which a log says that lines are missing from it, or that one stands for many. Private to kentino.gpu."""

from __future__ import annotations

import re
import typing as t

from .lazy_pattern import lazy

_LOST: t.Tuple[t.Pattern[str], ...] = (
    lazy(r"(\d{1,12}) callbacks suppressed", re.ASCII),
    lazy(r"(\d{1,12}) messages suppressed", re.ASCII),
    lazy(r"Suppressed (\d{1,12}) messages from (?:\S{0,64}/)?kernel", re.ASCII),  # journald
    lazy(r"Missed (\d{1,12}) kernel messages", re.ASCII),  # journald
    lazy(r"(\d{1,12}) printk messages dropped", re.ASCII),  # the console fell behind
    lazy(r"(\d{1,12}) messages lost due to rate-limiting", re.ASCII),  # rsyslog, imjournal
)
_DROPPING = lazy(r"begin to drop messages due to rate-limiting|/dev/kmsg buffer overrun, some messages lost")
# Audit records are of no interest here, and their limiter speaks up on healthy nodes all day.
_AUDIT = lazy(r"auditd?_printk_skb|audit: ")

_REPEATED = lazy(r"message repeated (\d{1,9}) times?: \[ ?(.*)", re.ASCII | re.DOTALL)
_LAST_REPEATED = lazy(r"(?:^|[: ])last message (?:buffered )?repeated (\d{1,9}) times?", re.ASCII)


def lost(message: str) -> t.Tuple[int, bool]:
    """How many lines the message says are missing, and whether it says so without a number."""
    number = 0
    if ("uppressed" in message or "essages" in message) and not _AUDIT.search(message):
        number = sum(int(match.group(1)) for pattern in _LOST for match in pattern.finditer(message))
    return number, bool("lost" in message or "drop" in message) and bool(_DROPPING.search(message))


def repeated(message: str) -> t.Optional[t.Tuple[int, str]]:
    """rsyslog's C(message repeated 5 times: [ msg]): five further ones of the message inside."""
    match = _REPEATED.search(message) if "message repeated" in message else None
    if not match:
        return None
    inner = match.group(2).rstrip()
    return int(match.group(1)), inner[:-1] if inner.endswith("]") else inner


def last_repeated(message: str) -> int:
    """How many more times the line before was seen (syslogd, busybox)."""
    match = _LAST_REPEATED.search(message) if "last message" in message else None
    return int(match.group(1)) if match else 0
