# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reads kernel logs of any source and form into records. Private to kentino.gpu.

No policy and no meaning here: what an Xid asks for is the judge's business. Nothing raises, and nothing that stands in an event's
place is dropped: what fits no known form is C(unrecognised).
"""

from __future__ import annotations

import datetime
import typing as t

from .kernel_log_families import Families
from .kernel_log_records import KernelLog
from .log_reader import Reader
from .log_shape import CONTEXT_LINES, JSON_BYTES_NEEDLE, JSON_NULL_NEEDLE, NEEDLES, Text, is_kernel, present

__all__ = ["CONTEXT_LINES", "JSON_BYTES_NEEDLE", "JSON_NULL_NEEDLE", "NEEDLES", "parse", "parse_lines"]

# Lines are searched for needles in blocks: most blocks of a log hold none.
_BLOCK_LINES = 256
_BLOCK_CHARACTERS = 1 << 18


def parse(text: Text, reference: t.Optional[datetime.datetime] = None, current_boot: t.Optional[str] = None) -> KernelLog:
    """A whole log.

    C(reference) (now, or when the file was last written) gives dates without a year their year; without it such lines have no time.
    C(current_boot) is the running boot's id; without it the last boot in the text counts as the current one.
    """
    return parse_lines(_lines(text), reference, current_boot)


def parse_lines(
    lines: t.Iterable[Text], reference: t.Optional[datetime.datetime] = None, current_boot: t.Optional[str] = None
) -> KernelLog:
    """As C(parse), line by line: memory grows with the distinct events found, not with the lines read."""
    reader = Reader(Families(), reference, current_boot)
    block: t.List[Text] = []
    size = 0
    for raw in lines:
        for line in _single(raw):
            if block and (len(block) >= _BLOCK_LINES or size > _BLOCK_CHARACTERS or type(line) is not type(block[0])):
                _read_block(reader, block)
                block, size = [], 0
            block.append(line)
            size += len(line)
    _read_block(reader, block)
    return reader.finish()


def _read_block(reader: Reader, block: t.Sequence[t.Any]) -> None:
    if not block:
        return
    needles = present((b"\n" if isinstance(block[0], bytes) else "\n").join(block))
    for line in block:
        hit = False
        for needle in needles:
            if needle in line:
                hit = True
                break
        reader.feed(line, hit, is_kernel(line))


def _lines(text: Text) -> t.Iterator[Text]:
    newline: t.Any = b"\n" if isinstance(text, bytes) else "\n"
    whole: t.Any = text
    start = 0
    while True:
        end = whole.find(newline, start)
        if end < 0:
            break
        yield whole[start:end]
        start = end + 1
    if start < len(whole):
        yield whole[start:]


def _single(raw: Text) -> t.Iterable[Text]:
    """The lines of one item, which should be one with or without its newline."""
    if isinstance(raw, bytes):
        return (raw,) if b"\n" not in raw else raw[:-1].split(b"\n") if raw.endswith(b"\n") else raw.split(b"\n")
    return (raw,) if "\n" not in raw else raw[:-1].split("\n") if raw.endswith("\n") else raw.split("\n")
