# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Log records that are not lines of text: journal JSON and export, dmesg -J, and log collectors' JSON. Private to kentino.gpu."""

from __future__ import annotations

import json
import typing as t

from . import log_envelope, log_time
from .log_envelope import Line

# Under these keys collectors put the line they read: docker and Kubernetes log, Cloud Logging textPayload, fluentd and ECS message.
_TEXT_KEYS = ("textPayload", "log", "message", "msg", "line")
_TIME_KEYS = ("timestamp", "time", "ts", "@timestamp", "receiveTimestamp")
_MAX_STRINGS = 10000

Fields = t.Mapping[str, t.Any]


class Opened(t.NamedTuple):
    """The messages of one record; C(unreadable) counts those that the record itself had lost."""

    lines: t.List[Line]
    unreadable: int = 0


def load(text: str) -> t.Any:
    """The JSON value of a text, or None. Safe on any text: neither deep nesting nor endless numbers hurt."""
    try:
        return json.loads(text, parse_int=_whole, strict=False)
    except (ValueError, RecursionError):
        return None


def _whole(digits: str) -> t.Union[int, float]:
    # Python before 3.11 converts long digit strings in quadratic time.
    return int(digits) if len(digits) < 40 else float(digits[:40])


def open_value(value: t.Any, raw: str, wanted: t.Callable[[str], bool]) -> Opened:
    """The messages anywhere in a JSON value. C(wanted) tells which strings of an unknown document are worth reading."""
    if isinstance(value, list):
        parts = [open_value(item, raw, wanted) for item in value if isinstance(item, (dict, list))]
        return Opened([line for part in parts for line in part.lines], sum(part.unreadable for part in parts))
    if not isinstance(value, dict):
        return Opened([])
    if "MESSAGE" in value:
        return open_journal(value, raw)
    if isinstance(value.get("dmesg"), list):
        opened = [open_dmesg(item, raw) for item in value["dmesg"] if isinstance(item, dict)]
        return Opened([line for part in opened for line in part.lines])
    if "msg" in value and "pri" in value:
        return open_dmesg(value, raw)
    return _open_unknown(value, raw, wanted)


def open_journal(fields: Fields, raw: str) -> Opened:
    """One journal record (journalctl -o json, json-pretty, export).

    A message with unprintable bytes is a list of their numbers, a repeated field a list of values, and one that was too large null.
    """
    messages = _messages(fields.get("MESSAGE"))
    lines: t.List[Line] = []
    unreadable = 0
    for message in messages:
        if message is None:
            unreadable += 1
            continue
        parts = log_envelope.clean(message) or [""]
        lines += [_journal_line(fields, part, raw) for part in parts]
    return Opened(lines, unreadable)


def _messages(value: t.Any) -> t.List[t.Optional[str]]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value:
        if all(isinstance(item, int) for item in value):
            try:
                return [bytes(value).decode("utf-8", "replace")]
            except (ValueError, OverflowError):
                return [None]
        return [message for item in value for message in _messages(item)]
    return [None]


def _journal_line(fields: Fields, message: str, raw: str) -> Line:
    line = Line(raw, message)
    # journald takes the first word of a line that was written to /dev/kmsg for its tag: NVRM, nvidia-nvswitch1, python3[17].
    app = _text(fields, "SYSLOG_IDENTIFIER") or "kernel"
    if app == "kernel":
        line.kind = "kernel"
        if message[:1] == "[":
            line = log_envelope.open_text(message)[0]
            line.raw, line.kind = raw, "kernel"
    else:
        process = _text(fields, "SYSLOG_PID")
        line.message = "%s%s: %s" % (app, "[%s]" % process if process else "", message)
        line.kind = "kernel" if fields.get("_TRANSPORT") == "kernel" else "daemon"
    line.usec = _usec(fields, "__REALTIME_TIMESTAMP", "_SOURCE_REALTIME_TIMESTAMP")
    if line.usec is not None:
        line.stamp = log_time.from_usec(line.usec)
    monotonic = _usec(fields, "_SOURCE_MONOTONIC_TIMESTAMP", "__MONOTONIC_TIMESTAMP")
    if monotonic is not None:
        line.uptime = monotonic / 1e6
    line.level = log_envelope.level_of(_text(fields, "PRIORITY"))
    line.host = _text(fields, "_HOSTNAME")
    line.boot_id = _text(fields, "_BOOT_ID")
    line.raw = _as_text(line, app)
    return line


def _as_text(line: Line, app: str) -> str:
    """The record as journalctl prints it to people (short-iso): evidence is read by them."""
    head = []
    if line.stamp is not None and line.usec is not None:
        year, month, day = line.stamp.year or 0, line.stamp.month, line.stamp.day
        head.append("%04d-%02d-%02dT%s.%s%s" % (year, month, day, line.stamp.clock, line.stamp.fraction, line.stamp.offset))
    if line.host:
        head.append(line.host)
    return " ".join([*head, ("kernel: " if app == "kernel" else "") + line.message])[: log_envelope.RAW_CHARACTERS]


def open_dmesg(fields: Fields, raw: str) -> Opened:
    """One record of dmesg -J: pri is a number, or a word beside fac with -x; time a number, or text with -T and --time-format."""
    message, when = fields.get("msg"), fields.get("time")
    if not isinstance(message, str):
        return Opened([])
    lines = []
    for part in log_envelope.clean(message):
        stamped = isinstance(when, str) and when.strip()
        line = log_envelope.open_text("[%s] %s" % (str(when).strip(), part))[0] if stamped else Line(raw, part)
        line.raw, line.kind = raw, "kernel"
        if isinstance(when, (int, float)):
            line.uptime = float(when)
        line.level = log_envelope.level_of(fields.get("pri"))
        lines.append(line)
    return Opened(lines)


def _open_unknown(value: Fields, raw: str, wanted: t.Callable[[str], bool]) -> Opened:
    """A collector's document: its text field, or whichever of its strings are of interest."""
    texts = [text for text in (value.get(key) for key in _TEXT_KEYS) if isinstance(text, str) and wanted(text)][:1]
    if not texts:
        # Collectors keep the original beside their own rendering: a text that another one contains is the same message.
        for text in sorted(_strings(value), key=len, reverse=True):
            if wanted(text) and not any(text in other for other in texts):
                texts.append(text)
    lines = [line for text in texts for line in log_envelope.open_text(text.rstrip("\r\n"))]
    when = next((text for text in (value.get(key) for key in _TIME_KEYS) if isinstance(text, str)), None)
    for line in lines:
        line.raw = raw
        line.message = _without_escaped_end(line.message)
        if when and line.stamp is None:
            line.stamp = log_envelope.open_text(when + " x")[0].stamp
    return Opened(lines)


def _without_escaped_end(text: str) -> str:
    """A collector may escape what it read a second time (Cloud Logging: is_text_escaped)."""
    end = len(text)
    while text.endswith(("\\r", "\\n"), 0, end):
        end -= 2
    return text[:end]


def _strings(value: t.Any) -> t.List[str]:
    found: t.List[str] = []
    waiting = [value]
    while waiting and len(found) < _MAX_STRINGS:
        item = waiting.pop()
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
    return found


def _text(fields: Fields, key: str) -> t.Optional[str]:
    value = fields.get(key)
    if isinstance(value, list):  # a field may repeat
        value = value[0] if value else None
    return str(value) if isinstance(value, (str, int)) and value != "" else None


def _usec(fields: Fields, *keys: str) -> t.Optional[int]:
    for key in keys:
        text = _text(fields, key)
        if text and text.isdecimal() and len(text) < 20:
            return int(text)
    return None
