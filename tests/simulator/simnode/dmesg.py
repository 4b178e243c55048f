# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in for dmesg, as util-linux 2.39 answers."""

from __future__ import annotations

import sys
import time

from .journal import Record, records
from .state import Node, folder, obey

_LEVELS = ("emerg", "alert", "crit", "err", "warn", "notice", "info", "debug")
_FLAGS = {
    "T": "ctime", "ctime": "ctime", "x": "decode", "decode": "decode", "r": "raw", "raw": "raw", "J": "json", "json": "json",
    "t": "notime", "notime": "notime", "k": "kernel", "kernel": "kernel", "P": "nopager", "nopager": "nopager", "noescape": "noescape",
}  # fmt: skip


def main(argv: list[str]) -> int:
    path = folder()
    node = Node(path)
    obey(node, "dmesg")
    flags: set[str] = set()
    form = ""
    levels = list(range(8))
    words = list(argv)
    while words:
        name, equals, value = words.pop(0).partition("=")
        if name in ("--time-format", "--level", "-l", "--color"):
            if not equals and name != "--color":
                value = words.pop(0) if words else ""
            if name == "--time-format":
                form = value
            elif name != "--color":
                levels = [_LEVELS.index(level) for level in value.split(",") if level in _LEVELS]
        elif name.lstrip("-") in _FLAGS:
            flags.add(_FLAGS[name.lstrip("-")])
        elif name.startswith("-") and not name.startswith("--") and all(letter in _FLAGS for letter in name[1:]):
            flags.update(_FLAGS[letter] for letter in name[1:])
        else:
            sys.stderr.write("dmesg: unrecognized option '%s'\nTry 'dmesg --help' for more information.\n" % name)
            return 1
    ring = [record for record in records(path, node, split=False) if record.boot == 0 and record.kernel]
    if "ctime" in flags:
        form = "ctime"
    lines = [_line(record, flags, form) for record in ring if record.priority in levels]
    if "json" in flags:
        lines = ['{\n   "dmesg": [\n      ' + ",".join(lines).rstrip() + "\n   ]\n}\n"]
    sys.stdout.flush()
    sys.stdout.buffer.write("".join(lines).encode("utf-8", "surrogateescape"))
    return 0


def _line(record: Record, flags: set[str], form: str) -> str:
    clock = "[%5d.%06d] " % divmod(record.since_boot, 1000000)
    if "json" in flags:
        from .journalctl import _json_value

        pair = (record.priority, record.since_boot / 1e6, _json_value(record.text))
        return '{\n         "pri": %d,\n         "time": %15.6f,\n         "msg": %s\n      }' % pair
    if "raw" in flags:
        return "<%d>%s%s\n" % (record.priority, clock, record.text)
    if form == "ctime":
        clock = time.strftime("[%a %b %e %H:%M:%S %Y] ", time.localtime(record.usec // 1000000))
    elif form == "iso":
        moment = time.localtime(record.usec // 1000000)
        zone = time.strftime("%z", moment)
        clock = time.strftime("%Y-%m-%dT%H:%M:%S", moment) + ",%06d" % (record.usec % 1000000) + zone[:3] + ":" + zone[3:] + " "
    if "notime" in flags or form == "notime":
        clock = ""
    if "decode" in flags:
        clock = "kern  :%-6s: " % _LEVELS[record.priority] + clock
    # Further lines of a message stand under its first one.
    return clock + record.text.replace("\n", "\n" + " " * len(clock)) + "\n"
