# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The file that nccl-tests 2.17 writes with -J: booleans as words, the root padded, the whole environment in it."""

from __future__ import annotations

import os
import sys
import time
from typing import IO

_BLOCK = 4096  # what the C library holds back of a file


def now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")


def number(value: float) -> str:
    return '"nan"' if value != value else "%f" % value


def text(value: str) -> str:
    """The escapes of the real one, which ends a text at the first character that is none of ASCII."""
    out = ""
    for letter in value:
        if letter in '"\\/\t\n':
            out += "\\" + {"\t": "t", "\n": "n"}.get(letter, letter)
        elif " " <= letter <= "~":
            out += letter
        else:
            break
    return '"%s"' % out[:2047]


def pairs(*items: tuple[str, str]) -> str:
    return "{%s}" % ",".join("%s:%s" % (text(key), value) for key, value in items)


class Report:
    """Where nothing is to be written (no -J, another ending, no access) it takes everything and writes nothing."""

    def __init__(self, path: str | None) -> None:
        self.handle: IO[str] | None = None
        self.parts = ""
        if path is None or os.path.splitext(path)[1].lower() != ".json":
            return
        place, attempt = path, 0
        while self.handle is None:
            try:
                self.handle = open(place, "x", encoding="utf-8", errors="replace")  # noqa: SIM115
            except FileExistsError:
                place = "%s.%d" % (path, attempt)
                attempt += 1
            except OSError:
                sys.stdout.write("# skipping json output; %s not accessible\n" % place)
                return
        sys.stdout.write("# Writing JSON output to %s\n" % place)

    def add(self, part: str) -> None:
        if self.handle:
            self.parts += part
            while len(self.parts) >= _BLOCK:
                self.handle.write(self.parts[:_BLOCK])
                self.handle.flush()
                self.parts = self.parts[_BLOCK:]

    def close(self) -> None:
        if self.handle:
            self.handle.write(self.parts)
            self.handle.close()
            self.handle = None
            self.parts = ""

    @property
    def open(self) -> bool:
        return self.handle is not None
