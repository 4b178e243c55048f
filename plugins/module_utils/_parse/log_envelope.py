# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One line of a log, whatever wrote it: where and when it was seen, and the kernel's own message. Private to kentino.gpu.

Nothing of an envelope is required. What is not recognised stays in the message, and the families look for their words anywhere in it.
"""

from __future__ import annotations

import re
import typing as t

from . import log_time
from .lazy_pattern import lazy
from .log_time import Stamp

LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
_LEVEL_WORDS = {**{level: level for level in LEVELS}, "panic": "emerg", "error": "err", "warning": "warn"}

# A record keeps this much of the line it came from.
RAW_CHARACTERS = 2000

# Colour as dmesg and journalctl write it, also where the escape character was lost in a paste ([36m), and other control sequences.
_ANSI = lazy(r"\x1b?\[\d{0,3}(?:;\d{1,3}){0,8}m|\x1b\[[0-9;?]{0,16}[A-Za-ln-z]|\x1b\][^\x07\x1b]{0,256}\x07|\x1b[()][A-Z0-9]")
# rsyslog writes control characters as octal numbers: a newline inside a message glues several kernel lines into one record.
_RSYSLOG_ESCAPE = lazy(r"#(000|011|012|015|033)(?!\d)")
_KMSG_ESCAPE = lazy(r"\\x([0-9a-fA-F]{2})")

_CLOCK = r"(\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))?"
_OFFSET = r"(Z|[+-]\d\d(?::?\d\d)?)"

_RFC5424 = lazy(r"<(\d{1,3})>1 (\S{1,64}) (\S{1,255}) (\S{1,48}) (\S{1,128}) \S{1,32} ", re.ASCII)
_STRUCTURED = lazy(r'-(?: |$)|(?:\[(?:[^\]"\\]|\\.|"(?:[^"\\]|\\.)*")*\])+ ?')
_PRIORITY = lazy(r"<(\d{1,3})>", re.ASCII)
_KMSG = lazy(r"(\d{1,4}),(\d{1,20}),(\d{1,20}),[^;]{0,64};", re.ASCII)
_FACILITY = lazy(
    r"(?:(\S{1,255}):\s{1,4})?(?:kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local[0-7])\s{0,8}:\s{0,4}"
    r"(emerg|panic|alert|crit|err|error|warn|warning|notice|info|debug)\s{0,8}:\s{1,2}",
    re.ASCII,
)
# pdsh, clush and talosctl put the node's name before the kernel's own stamp.
_NODE = lazy(r"([A-Za-z0-9][\w.-]{0,254}):\s{1,4}(?=(?:<\d{1,3}>)?\[\s{0,8}(?:\d{1,10}\.\d|[A-Z][a-z]{2} |\d{4}-))", re.ASCII)
_UPTIME = lazy(r"\s{0,8}\[\s{0,12}(\d{1,10}\.\d{1,9})\s{0,4}(?:<\s{0,8}\d{1,10}\.\d{1,9}\s{0,4}>)?\]", re.ASCII)
_UPTIME_CUT = lazy(r"\s{0,8}(\d{1,10}\.\d{6})\](?=\s)", re.ASCII)  # the bracket lost in a paste
_DELTA = lazy(r"\s{0,8}\[\s{0,12}[+<]?\s{0,12}\d{1,10}\.\d{1,9}>?\]", re.ASCII)
_CTIME = lazy(
    r"\s{0,8}\[(?:[^\s\d\[\]]{1,6} )?([^\s\d\[\]]{2,10}|\d{1,2}[月월]) {0,2}(\d{1,2}) (\d\d:\d\d(?::\d\d)?)(?: [A-Z]{2,5})?(?: (\d{4}))?"
    r"(?:\s{1,4}[<+][^\]]{0,24})?\]",
    re.ASCII,
)
_ISO_BRACKET = lazy(r"\[(\d{4})-(\d\d)-(\d\d)[T ]" + _CLOCK + _OFFSET + r"?\]:?", re.ASCII)
_CALLER = lazy(r"\[\s{0,8}[TC]\d{1,10}\]", re.ASCII)  # CONFIG_PRINTK_CALLER
_ISO = lazy(
    r"(?:([^\s\d]{2,6}) )?(\d{4})-(\d\d)-(\d\d)[T ]" + _CLOCK + r"(?: ?" + _OFFSET + r"(?=[\s:]))?(?: ?(UTC|GMT)\b)?:?(?:\s|$)", re.ASCII
)
_ZONE = lazy(r"[A-Z]{2,5} ")
_SYSLOG = lazy(
    r"(?:[^\s\d\[\](){}<>:;,/=\"']{2,6} )?([^\s\d\[\](){}<>:;,/=\"']{2,10}|\d{1,2}[月월]) {1,2}(\d{1,2})日? (?:(\d{4}) )?"
    + _CLOCK
    + r"(?: (\d{4}))?(?= )",
    re.ASCII,
)
_UNIX = lazy(r"(\d{9,11})\.(\d{1,9}) (?=\S{1,255} \S)", re.ASCII)
_KERNEL_TAG = lazy(r"(?:(\S{1,255}) )?kernel(?:\[\d{1,10}\])?:(?: |$)", re.ASCII)
_SELECTOR = lazy(r"(?:kern|user)\.([a-z]{3,7})$", re.ASCII)  # busybox: Sat Mar  7 09:05:01 2026 kern.warn kernel: msg
_DAEMON_TAG = lazy(r"(\S{1,255}) (?=[^\s:\[\]]{1,128}(?:\[\d{1,10}\])?: )", re.ASCII)
# A stamp straight from dmesg has no host behind it: these first words are the kernel's.
_DRIVER_WORDS = frozenset(("nvme", "nvidia", "pcieport", "mlx5_core", "mlx4_core", "sd", "scsi", "usb", "pci", "EXT4-fs", "XFS", "BTRFS"))


class Line:
    """One message with what its envelope said; C(kind) is kernel, daemon or plain (no envelope recognised)."""

    __slots__ = ("boot", "boot_id", "host", "kind", "level", "message", "raw", "seq", "stamp", "uptime", "usec")

    def __init__(self, raw: str, message: str) -> None:
        self.raw = raw
        self.message = message
        self.kind = "plain"
        self.stamp: t.Optional[Stamp] = None
        self.usec: t.Optional[int] = None
        self.uptime: t.Optional[float] = None
        self.seq: t.Optional[int] = None
        self.level: t.Optional[str] = None
        self.host: t.Optional[str] = None
        self.boot_id: t.Optional[str] = None
        self.boot: t.Any = None  # whose boot it is, filled in by log_boots

    def inherit(self, other: Line) -> None:
        """For a further line of one message, which has no stamp of its own."""
        for name in ("kind", "stamp", "usec", "uptime", "seq", "level", "host", "boot_id"):
            setattr(self, name, getattr(other, name))


def clean(text: str) -> t.List[str]:
    """The text without colours and control characters, cut where it holds line breaks."""
    if "#0" in text:
        text = _RSYSLOG_ESCAPE.sub(lambda match: chr(int(match.group(1), 8)), text)
    if text[:1] == "\ufeff":
        text = text[1:]
    if "\0" in text:
        text = text.replace("\0", "")
    if "[" in text and ("\x1b" in text or "m" in text):
        text = _ANSI.sub("", text)
    if "\r" in text or "\n" in text:
        return [piece for piece in re.split(r"[\r\n]+", text) if piece]
    return [text] if text else []


def open_text(text: str) -> t.List[Line]:
    """The messages in one line of text, with the envelope taken off."""
    lines: t.List[Line] = []
    for piece in clean(text):
        line = _peel(piece)
        if line.kind == "plain" and lines:
            line.inherit(lines[0])
        lines.append(line)
        if "\n" in line.message:
            first, *more = line.message.split("\n")
            line.message = first
            lines += [further(line, part) for part in more if part]
    return lines


def further(line: Line, message: str) -> Line:
    """A line of the same record."""
    other = Line(line.raw, message)
    other.inherit(line)
    return other


def level_of(value: t.Any) -> t.Optional[str]:
    """The level of a priority number (with or without the facility in it) or word."""
    try:
        return LEVELS[int(value) & 7]
    except (TypeError, ValueError, OverflowError):
        return _LEVEL_WORDS.get(str(value).lower())


def _peel(text: str) -> Line:
    line = Line(text[:RAW_CHARACTERS], text)
    first = text[:1]
    if first == "<":
        return _priority(line, text)
    if first in ("[", " ", "\t"):
        return _stamped(line, text)
    if first.isdigit():
        match = _KMSG.match(text)
        if match:
            return _kmsg(line, text, match)
    match = _FACILITY.match(text)
    if match:
        line.host, line.level, line.kind = match.group(1), level_of(match.group(2)), "kernel"
        return _stamped(line, text[match.end() :])
    match = _NODE.match(text)
    if match and match.group(1) != "kernel":
        line.host = match.group(1)
        return _peel_rest(line, text[match.end() :])
    return _dated(line, text)


def _peel_rest(line: Line, text: str) -> Line:
    return _priority(line, text) if text[:1] == "<" else _stamped(line, text)


def _priority(line: Line, text: str) -> Line:
    match = _RFC5424.match(text)
    if match:
        return _rfc5424(line, text, match)
    match = _PRIORITY.match(text)
    if not match:
        return line
    line.level, line.kind = level_of(match.group(1)), "kernel"
    line.message = text = text[match.end() :]
    return _stamped(line, text) if text[:1] in ("[", " ") else _dated(line, text)


def _rfc5424(line: Line, text: str, match: t.Match[str]) -> Line:
    priority, when, host, app, process = match.groups()
    line.level = level_of(priority)
    line.host = None if host == "-" else host
    iso = _ISO.match(when + " ")
    if iso:
        line.stamp = _iso_stamp(iso)
    rest = text[match.end() :]
    structured = _STRUCTURED.match(rest, 0, 8192)
    if structured:
        rest = rest[structured.end() :]
    return _tagged(line, app, None if process == "-" else process, rest.lstrip("\ufeff").replace("ï»¿", "", 1))


def _tagged(line: Line, app: str, process: t.Optional[str], rest: str) -> Line:
    """A message whose tag stands apart from it. Only the kernel's own tag is dropped: journald takes C(NVRM:) for one."""
    if app in ("kernel", "-", ""):
        line.kind = "kernel"
        return _stamped(line, rest)
    line.kind = "daemon"
    line.message = "%s%s: %s" % (app, "[%s]" % process if process else "", rest)
    return line


def _kmsg(line: Line, text: str, match: t.Match[str]) -> Line:
    priority, seq, usec = match.groups()
    line.kind, line.level, line.seq, line.uptime = "kernel", level_of(priority), int(seq), int(usec) / 1e6
    rest = text[match.end() :]
    line.message = _KMSG_ESCAPE.sub(lambda code: chr(int(code.group(1), 16)), rest) if "\\x" in rest else rest
    return line


def _stamped(line: Line, text: str) -> Line:
    """The kernel's own stamp in brackets, which may also stand behind a syslog header."""
    line.message = text
    if text[:1] not in ("[", " ", "\t"):
        if line.level is not None and text[:1].isdigit():  # dmesg -x --time-format iso
            return _dated(line, text)
        return line
    for pattern in (_UPTIME, _DELTA, _UPTIME_CUT):
        match = pattern.match(text)
        if match:
            if pattern is not _DELTA:
                line.uptime = float(match.group(1))
            break
    else:
        match = _CTIME.match(text)
        if match:
            name, day, clock, year = match.groups()
            stamp = log_time.stamp(log_time.month_number(name), day, clock, year=year)
        else:
            match = _ISO_BRACKET.match(text)
            if not match:
                return line
            year, month, day, clock, fraction, offset = match.groups()
            stamp = log_time.stamp(int(month), day, clock, fraction or "", offset or "", year)
        if stamp is None:
            return line
        line.stamp = stamp
    end = match.end()
    caller = _CALLER.match(text, end)
    if caller:
        end = caller.end()
    line.kind = "kernel"
    line.message = text = text[end:].lstrip(" ")
    tag = _KERNEL_TAG.match(text)  # journalctl -o short-monotonic
    if tag:
        line.host = tag.group(1) or line.host
        line.message = text[tag.end() :]
    return line


def _dated(line: Line, text: str) -> Line:
    """A wall-clock time, then perhaps host and tag."""
    line.message = text
    match = _SYSLOG.match(text)
    if match:
        name, day, year, clock, fraction, late_year = match.groups()
        line.stamp = log_time.stamp(log_time.month_number(name), day, clock, fraction or "", year=year or late_year)
        return _host_and_tag(line, text[match.end() + 1 :])
    match = _ISO.match(text)
    if match:
        line.stamp = _iso_stamp(match)
        rest = text[match.end() :]
        if match.group(1):  # journalctl -o short-full: Fri 2025-07-25 10:00:00 CEST host
            zone = _ZONE.match(rest)
            rest = rest[zone.end() :] if zone else rest
        from_dmesg = "," in text[19:20]
        return _host_and_tag(line, rest, from_dmesg)
    match = _UNIX.match(text)
    if match:
        line.usec = int(match.group(1)) * 1000000 + int(match.group(2).ljust(6, "0")[:6])
        line.stamp = log_time.from_usec(line.usec)
        return _host_and_tag(line, text[match.end() :])
    match = _KERNEL_TAG.match(text)
    if match and not match.group(1):
        line.kind = "kernel"
        return _stamped(line, text[match.end() :])
    match = _UPTIME_CUT.match(text)
    if match:
        line.kind, line.uptime, line.message = "kernel", float(match.group(1)), text[match.end() :].lstrip(" ")
    return line


def _iso_stamp(match: t.Match[str]) -> t.Optional[Stamp]:
    year, month, day, clock, fraction, offset, zone = match.groups()[1:]
    return log_time.stamp(int(month), day, clock, fraction or "", offset or ("Z" if zone else ""), year)


def _host_and_tag(line: Line, text: str, from_dmesg: bool = False) -> Line:
    line.message = text
    match = _KERNEL_TAG.match(text)
    if match:
        selector = _SELECTOR.match(match.group(1) or "")
        if selector:
            line.level = level_of(selector.group(1))
        else:
            line.host = match.group(1) or line.host
        line.kind = "kernel"
        return _stamped(line, text[match.end() :])
    match = None if from_dmesg else _DAEMON_TAG.match(text)
    if match and match.group(1).rstrip(":") not in _DRIVER_WORDS and not match.group(1).endswith(":"):
        line.host, line.kind, line.message = match.group(1), "daemon", text[match.end() :]
    elif from_dmesg or line.level is not None:
        line.kind = "kernel"
    return line
