# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in for journalctl, as systemd 255 answers."""

from __future__ import annotations

import os
import sys
import time

from .journal import HOSTNAME, Record, records
from .state import Node, folder, hang, obey

_PRIORITIES = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
# Short options, their long names, and whether they take a value.
_SHORT = {
    "k": ("dmesg", False), "b": ("boot", None), "o": ("output", True), "n": ("lines", None), "r": ("reverse", False), "a": ("all", False),
    "q": ("quiet", False), "c": ("cursor", True), "S": ("since", True), "U": ("until", True), "p": ("priority", True),
    "t": ("identifier", True), "u": ("unit", True), "g": ("grep", True), "f": ("follow", False), "m": ("merge", False),
    "e": ("pager-end", False), "D": ("directory", True),
}  # fmt: skip
_LONG = {
    **dict(_SHORT.values()),
    "after-cursor": True, "cursor-file": True, "output-fields": True, "show-cursor": False, "list-boots": False, "no-pager": False,
    "no-hostname": False, "no-tail": False, "utc": False, "system": False, "full": False, "no-full": False, "version": False,
    "case-sensitive": None, "root": True,
}  # fmt: skip
_FORMATS = (
    "short",
    "short-iso",
    "short-iso-precise",
    "short-precise",
    "short-monotonic",
    "short-full",
    "short-unix",
    "json",
    "json-pretty",
    "cat",
    "export",
)


class UsageError(Exception):
    """What the real tool says to it."""


class Options:
    def __init__(self) -> None:
        self.given: dict[str, str | None] = {}
        self.matches: list[tuple[str, str]] = []
        self.boot_id = ""
        self.since = self.until = 0.0
        self.priorities = (0, 7)

    def settle(self, node: Node) -> None:
        """Work out once what every record is held against."""
        boot = self.value("boot", "0") if self.has("boot") else "0" if self.has("dmesg") else "all"
        self.boot_id = "" if boot == "all" else _boot_id(boot, node)
        self.since = _usec(self.value("since")) if self.has("since") else float("-inf")
        self.until = _usec(self.value("until")) if self.has("until") else float("inf")
        self.priorities = _priorities(self.value("priority")) if self.has("priority") else (0, 7)

    def has(self, name: str) -> bool:
        return name in self.given

    def value(self, name: str, otherwise: str = "") -> str:
        return self.given.get(name) or otherwise


def main(argv: list[str]) -> int:
    path = folder()
    node = Node(path)
    obey(node, "journalctl")
    try:
        options = _parse(argv)
        if options.has("version"):
            sys.stdout.write("systemd 255 (255.4-simulated)\n")
            return 0
        return _run(path, node, options)
    except UsageError as exc:
        sys.stderr.write("%s\n" % exc)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _parse(argv: list[str]) -> Options:
    options = Options()
    words = list(argv)
    while words:
        word = words.pop(0)
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            if name not in _LONG:
                raise UsageError("journalctl: unrecognized option '--%s'" % name)
            options.given[name] = _argument(name, _LONG[name], value if equals else None, words)
        elif word.startswith("-") and len(word) > 1:
            _short(options, word[1:], words)
        elif "=" in word:
            field, _equals, value = word.partition("=")
            options.matches.append((field, value))
        elif word != "+":
            raise UsageError("Failed to add match '%s': Invalid argument" % word)
    if options.value("output", "short") not in _FORMATS:
        raise UsageError("Unknown output format '%s'." % options.value("output"))
    return options


def _short(options: Options, letters: str, words: list[str]) -> None:
    while letters:
        letter, letters = letters[0], letters[1:]
        if letter not in _SHORT:
            raise UsageError("journalctl: invalid option -- '%s'" % letter)
        name, takes = _SHORT[letter]
        if takes is False:
            options.given[name] = None
            continue
        options.given[name] = _argument(name, takes, letters or None, words)
        return


def _argument(name: str, takes: bool | None, value: str | None, words: list[str]) -> str | None:
    if takes is False:
        return None
    if value is None and takes:
        if not words:
            raise UsageError("journalctl: option '--%s' requires an argument" % name)
        return words.pop(0)
    # Of -b and -n the value may stand in the next word, where it looks like one.
    if value is None and words and name in ("boot", "lines") and (words[0].lstrip("-+").isdigit() or words[0] == "all"):
        return words.pop(0)
    return value


def _run(path: str, node: Node, options: Options) -> int:
    found = records(path, node)
    if options.has("list-boots"):
        return _list_boots(found)
    options.settle(node)
    chosen = [record for record in found if _wanted(record, options)]
    chosen = _from_cursor(chosen, options)
    lines = options.value("lines", "10") if options.has("lines") or options.has("follow") else "all"
    if lines != "all" and not (options.has("no-tail") and not options.has("lines")):
        count = int(lines.lstrip("+"))
        chosen = chosen[:count] if lines.startswith("+") else chosen[len(chosen) - min(count, len(chosen)) :]
    if options.has("reverse"):
        chosen.reverse()
    writer = Writer(node, options)
    for record in chosen:
        writer.write(record)
    if not chosen and not options.has("quiet") and not options.has("follow"):
        sys.stdout.write("-- No entries --\n")
    last = max(chosen, key=lambda record: record.number) if chosen else None
    if last and options.has("show-cursor"):
        sys.stdout.write("-- cursor: %s\n" % last.cursor)
    if options.has("follow"):
        _follow(path, options, writer, found[-1].number if found else 0)
    if last and options.has("cursor-file"):
        with open(options.value("cursor-file"), "w", encoding="ascii") as handle:
            handle.write(last.cursor + "\n")
    return 0


def _follow(path: str, options: Options, writer: Writer, seen: int) -> None:
    """New records as their time comes, and those of a fault that is brought into the running node."""
    while True:
        sys.stdout.flush()
        time.sleep(0.1)
        node = Node(path)
        found = records(path, node)
        for record in found:
            if record.number > seen and _wanted(record, options):
                writer.write(record)
        seen = found[-1].number if found else seen


def _wanted(record: Record, options: Options) -> bool:
    if options.boot_id and record.boot_id != options.boot_id:
        return False
    if options.has("dmesg") and not record.kernel:
        return False
    if options.has("identifier") and record.identifier != options.value("identifier"):
        return False
    if options.has("unit") and record.identifier != options.value("unit").replace(".service", ""):
        return False
    if not options.since <= record.usec <= options.until or not options.priorities[0] <= record.priority <= options.priorities[1]:
        return False
    if options.has("grep") and not _matches(options.value("grep"), record.text):
        return False
    return not options.matches or _fits(record, options.matches)


def _fits(record: Record, matches: list[tuple[str, str]]) -> bool:
    """Of one field any value will do, every field must fit."""
    fields = record.fields()
    return all(any(fields.get(field) == value for other, value in matches if other == field) for field, _value in matches)


def _boot_id(wanted: str, node: Node) -> str:
    ids = {"0": node.get("boot_id"), "-1": node.get("previous_boot_id"), "1": node.get("previous_boot_id"), "2": node.get("boot_id")}
    if wanted in ids:
        return ids[wanted]
    if len(wanted) >= 32:
        return wanted.replace("-", "")[:32]
    raise UsageError("Data from the specified boot (%s) is not available: No such boot ID in journal" % wanted)


def _priorities(wanted: str) -> tuple[int, int]:
    names = {name: number for number, name in enumerate(_PRIORITIES)}
    names.update({str(number): number for number in range(8)}, error=3, warn=4)
    first, _dots, last = wanted.partition("..")
    try:
        bounds = sorted((names[first], names[last])) if last else [0, names[first]]
    except KeyError:
        raise UsageError("Unknown log level %s" % wanted) from None
    return bounds[0], bounds[1]


def _matches(pattern: str, text: str) -> bool:
    import re

    # As the tool does: a pattern in lower case ignores case.
    return re.search(pattern, text, re.IGNORECASE if pattern == pattern.lower() else 0) is not None


def _usec(text: str) -> float:
    """A time as journalctl takes it: absolute, @seconds, relative, or a word."""
    now = time.time()
    text = text.strip()
    today = time.mktime((*time.localtime(now)[:3], 0, 0, 0, 0, 0, -1))
    words = {"now": now, "today": today, "yesterday": today - 86400, "tomorrow": today + 86400}
    if text in words:
        return words[text] * 1e6
    if text.startswith("@"):
        return float(text[1:]) * 1e6
    if text[:1] in "+-" or text.endswith(" ago"):
        return (now + _seconds(text)) * 1e6
    zone = text.endswith((" UTC", "Z"))
    plain = text.replace(" UTC", "").rstrip("Z").replace("T", " ")
    plain, _dot, fraction = plain.partition(".")
    for form in ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d", "%H:%M:%S", "%H:%M"):
        try:
            parsed = list(time.strptime(plain, form))
        except ValueError:
            continue
        if not form.startswith("%Y"):
            parsed[:3] = list(time.localtime(now)[:3])
        parsed[8] = -1
        seconds = time.mktime(tuple(parsed))  # type: ignore[arg-type]
        if zone:
            seconds -= time.timezone
        return (seconds + float("0." + fraction if fraction else 0)) * 1e6
    raise UsageError("Failed to parse timestamp: %s" % text)


def _seconds(text: str) -> float:
    units = {"us": 1e-6, "ms": 1e-3, "s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hr": 3600, "hour": 3600}
    units.update(d=86400, day=86400, w=604800, week=604800)
    ago = text.endswith(" ago")
    sign = -1 if ago or text.startswith("-") else 1
    body = text.replace(" ago", "").lstrip("+-").replace(" ", "")
    total = 0.0
    while body:
        digits = len(body) - len(body.lstrip("0123456789."))
        letters = len(body[digits:]) - len(body[digits:].lstrip("abcdefghijklmnopqrstuvwxyz"))
        unit = body[digits : digits + letters]
        unit = unit if unit in units else unit.rstrip("s")
        if not digits or (unit and unit not in units):
            raise UsageError("Failed to parse timestamp: %s" % text)
        total += float(body[:digits]) * units.get(unit, 1)
        body = body[digits + letters :]
    return sign * total


def _from_cursor(chosen: list[Record], options: Options) -> list[Record]:
    cursor = options.value("cursor")
    after = options.value("after-cursor")
    if options.has("cursor-file") and os.path.exists(options.value("cursor-file")):
        with open(options.value("cursor-file"), encoding="ascii") as handle:
            after = handle.read().strip()
    if not cursor and not after:
        return chosen
    parts = dict(part.partition("=")[::2] for part in (after or cursor).split(";"))
    if "t" not in parts and "i" not in parts:
        raise UsageError("Failed to seek to cursor: Invalid argument")
    # A record that the journal no longer holds: on from its time, as the real tool does.
    known = [record for record in chosen if record.cursor == (after or cursor)]
    if known:
        return [record for record in chosen if record.number > known[0].number or (cursor and record is known[0])]
    return [record for record in chosen if record.usec >= int(parts.get("t", "0"), 16)]


def _list_boots(found: list[Record]) -> int:
    sys.stdout.write("IDX BOOT ID                          FIRST ENTRY                 LAST ENTRY\n")
    for boot in sorted({record.boot for record in found}):
        mine = [record for record in found if record.boot == boot]
        span = tuple(time.strftime("%a %Y-%m-%d %H:%M:%S %Z", time.localtime(record.usec // 1000000)) for record in (mine[0], mine[-1]))
        sys.stdout.write("%3d %s %s\n" % (boot, mine[0].boot_id, " ".join(span)))
    return 0


class Writer:
    """Prints records in the form asked for; spoils them where the scenario says so."""

    def __init__(self, node: Node, options: Options) -> None:
        self.form = options.value("output", "short")
        self.options = options
        self.fields = [name for name in options.value("output-fields").split(",") if name]
        self.garble = node.number("tool.journalctl.garble")
        self.hang_after = node.number("tool.journalctl.hang_after")
        self.written = 0
        self.boot = 0

    def write(self, record: Record) -> None:
        if self.hang_after and self.written >= self.hang_after:
            hang(False)
        line = self._line(record).encode("utf-8", "surrogateescape")
        if self.garble:
            line = _spoilt(line, self.written)
        self.written += 1
        sys.stdout.flush()
        sys.stdout.buffer.write(line)

    def _line(self, record: Record) -> str:
        if self.form.startswith("json"):
            return _json({name: value for name, value in record.fields().items() if self._shown(name)}, self.form == "json-pretty")
        if self.form == "export":
            return "".join("%s=%s\n" % item for item in record.fields().items() if self._shown(item[0])) + "\n"
        if self.form == "cat":
            return record.text + "\n"
        marker = "-- Boot %s --\n" % record.boot_id if self.written and record.boot != self.boot else ""
        self.boot = record.boot
        process = record.identifier + ("[%s]" % record.pid if record.pid else "")
        host = "" if self.options.has("no-hostname") else HOSTNAME + " "
        return "%s%s %s%s: %s\n" % (marker, self._time(record), host, process, record.text)

    def _shown(self, name: str) -> bool:
        return not self.fields or name in self.fields or name.startswith("__")

    def _time(self, record: Record) -> str:
        seconds, fraction = divmod(record.usec, 1000000)
        moment = time.gmtime(seconds) if self.options.has("utc") else time.localtime(seconds)
        zone = time.strftime("%z", moment)
        if self.form == "short-monotonic":
            return "[%5d.%06d]" % divmod(record.since_boot, 1000000)
        if self.form == "short-unix":
            return "%d.%06d" % (seconds, fraction)
        if self.form.startswith("short-iso"):
            precise = ".%06d" % fraction if self.form.endswith("precise") else ""
            return time.strftime("%Y-%m-%dT%H:%M:%S", moment) + precise + zone[:3] + ":" + zone[3:]
        if self.form == "short-full":
            return time.strftime("%a %Y-%m-%d %H:%M:%S %Z", moment)
        return time.strftime("%b %d %H:%M:%S", moment) + (".%06d" % fraction if self.form == "short-precise" else "")


def _json(fields: dict[str, str], pretty: bool) -> str:
    items = ['"%s"%s%s' % (name, " : " if pretty else ":", _json_value(value)) for name, value in fields.items()]
    return "{\n\t" + ",\n\t".join(items) + "\n}\n" if pretty else "{" + ",".join(items) + "}\n"


def _json_value(value: str) -> str:
    """What is no text is an array of byte numbers, as the real tool prints it."""
    data = value.encode("utf-8", "surrogateescape")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "[%s]" % ",".join(str(byte) for byte in data)
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return '"' + "".join(escapes.get(letter) or (letter if letter >= " " else "\\u%04x" % ord(letter)) for letter in value) + '"'


def _spoilt(line: bytes, number: int) -> bytes:
    kind = number % 4
    if kind == 0:
        return line[: len(line) * 2 // 3] + b"\n"
    if kind == 1:
        return bytes(byte ^ 0x80 if place % 5 == 3 else byte for place, byte in enumerate(line[:-1])) + b"\n"
    if kind == 2:
        return b'{"__CURSOR":null,"MESSAGE":null,"PRIORITY":["4","6"]}\n'
    return b"\x00\xff\xfe\n"
