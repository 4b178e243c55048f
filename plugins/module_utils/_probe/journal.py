# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the kernel's lines from journald or, where there is none, from /dev/kmsg. Private to kentino.gpu."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import time
import typing as t

from . import command
from .log_reading import SAMPLE_LINES, LineFilter, LogReading
from .root import under_root

# Without --all, journalctl prints null for a message of more than 4096 bytes. The priority is never filtered: Xid lines are
# warnings and SXid lines errors, so any level loses one of them.
_JOURNALCTL = ("journalctl", "--output=json", "--all", "--no-pager", "--quiet")
_FIELDS = "MESSAGE,PRIORITY,SYSLOG_IDENTIFIER,_TRANSPORT,_HOSTNAME,_BOOT_ID,_SOURCE_MONOTONIC_TIMESTAMP"
# journalctl skips a journal file it cannot read and still ends with status 0.
_DAMAGED = re.compile(rb"corrupt|truncated|ignoring|[Ff]ailed|insufficient permissions", re.IGNORECASE)
# Some 16,000 records, which are parsed and judged in seconds: the node waits for it.
_MAX_KEPT_BYTES = 8 << 20
_MAX_COMPLAINT_BYTES = 1 << 20
_KMSG_RECORD_BYTES = 8192
_KMSG_HEAD = re.compile(rb"\d{1,10},(\d{1,20}),(\d{1,20}),")


def read(boot: str = "current", cursor: t.Optional[str] = None, since: t.Optional[str] = None, deadline_seconds: float = 20) -> LogReading:
    """Kernel records of the journal.

    C(boot): C(current) or C(all). C(cursor): only what came after it; a cursor that the journal no longer holds is a C(gap), and
    everything that is left is read. C(since): as journalctl takes it; it does not take both, so with a cursor it says nothing.
    """
    argv = [*_JOURNALCTL, "--output-fields=" + _FIELDS, "_TRANSPORT=kernel"]
    if boot == "current":
        argv.append("--boot=0")
    if not cursor:
        return _read([*argv, "--since=" + since] if since else argv, deadline_seconds)
    # The record of the cursor itself is read again: its presence proves that the journal still reaches back to it, so that
    # "nothing new" is evidence and not just an empty answer.
    reading = _read([*argv, "--cursor=" + cursor], deadline_seconds)
    first = reading.sample[:1]
    if first and _same_record(_field(first[0], "__CURSOR"), cursor):
        lines = reading.lines[1:] if reading.lines[:1] == first else reading.lines
        return dataclasses.replace(reading, lines=lines, records=reading.records - 1, follows=True)
    if reading.error_kind in ("timeout", "missing_tool", "denied"):
        return reading
    return dataclasses.replace(_read(argv, deadline_seconds), gap=True)


def _same_record(one: t.Optional[str], other: str) -> bool:
    """Whether two cursors name one record. When journald moves its files to /var a record gets another C(s=) and C(i=)."""
    if one is None or one == other:
        return one == other
    parts = [dict(part.partition("=")[::2] for part in text.split(";")) for text in (one, other)]
    return "b" in parts[0] and all(parts[0].get(key) == parts[1].get(key) for key in ("b", "m", "t", "x"))


def _read(argv: t.Sequence[str], deadline_seconds: float) -> LogReading:
    sieve = LineFilter(_MAX_KEPT_BYTES)
    done = command.run(argv, deadline_seconds, on_stdout=sieve.feed, max_bytes=_MAX_COMPLAINT_BYTES)
    sieve.close()
    kind: t.Optional[str] = None
    error = done.problem() or None
    if done.outcome != "ended":
        kind = {"missing": "missing_tool", "denied": "denied", "truncated": "truncated"}.get(done.outcome, "timeout")
    elif done.rc is not None and done.rc < 0:
        kind, error = "crashed", "journalctl was killed by signal %d" % -done.rc
    elif done.rc:
        kind, error = "failed", "journalctl ended with status %d: %s" % (done.rc, _said(done))
    elif _DAMAGED.search(done.stderr):
        kind, error = "failed", "journalctl could not read all of the journal: " + _said(done)
    elif not sieve.records:
        kind, error = "empty", "the journal holds no kernel record of this boot"
    elif sieve.overflow:
        kind, error = "truncated", "more kernel lines of interest than can be judged at once"
    # What did not fit was not judged: the next reading must begin there and not behind it.
    last_read = sieve.kept[-1] if sieve.overflow and sieve.kept else sieve.last_line
    return LogReading(
        source="journal",
        lines=tuple(sieve.kept),
        records=sieve.records,
        sample=tuple(sieve.sample),
        last_line=sieve.last_line,
        cursor=_field(last_read, "__CURSOR"),
        boot_id=_field(sieve.last_line, "_BOOT_ID"),
        begins=_seconds(_field(sieve.sample[0], "_SOURCE_MONOTONIC_TIMESTAMP")) if sieve.sample else None,
        error_kind=kind,
        error=error,
    )


def read_kmsg(cursor: t.Optional[str] = None, deadline_seconds: float = 20) -> LogReading:
    """What the kernel's ring buffer still holds: always of this boot, but the oldest lines may be overwritten (C(gap)).

    C(cursor): the number of the last line of an earlier reading of this boot; only what came after it, then.
    """
    path = under_root("/dev/kmsg")
    records, kind, error, gap = _ring(path, deadline_seconds)
    lines = b"".join(records).split(b"\n")
    heads = [match for match in map(_KMSG_HEAD.match, lines) if match]
    numbers = [int(match.group(1)) for match in heads]
    after = int(cursor) if cursor and cursor.isdecimal() else None
    if after is not None and numbers and numbers[0] <= after <= numbers[-1]:
        begin = next((at for at, line in enumerate(lines) if _kmsg_number(line) > after), len(lines))
        read, follows = lines[begin:], True
    else:
        read, follows = lines, False
        gap = gap or (bool(numbers) and numbers[0] > 0)
    sieve = LineFilter(_MAX_KEPT_BYTES)
    sieve.feed(b"\n".join(read))
    sieve.close()
    if error is None and not numbers:
        kind, error = "empty", "%s holds no line" % path
    elif error is None and sieve.overflow:
        kind, error = "truncated", "%s holds more lines of interest than can be judged" % path
    return LogReading(
        source="kmsg",
        lines=tuple(sieve.kept),
        records=sum(1 for line in read if line),
        sample=tuple(lines[:SAMPLE_LINES]),
        last_line=next((line for line in reversed(lines) if line), b""),
        cursor=str(numbers[-1]) if numbers and not sieve.overflow else None,
        begins=_seconds(heads[0].group(2).decode("ascii")) if heads else None,
        gap=gap,
        follows=follows,
        error_kind=kind,
        error=error,
    )


def _ring(path: str, deadline_seconds: float) -> t.Tuple[t.List[bytes], t.Optional[str], t.Optional[str], bool]:
    """The records, kind and words of an error, and whether records were overwritten while they were read."""
    until = time.monotonic() + deadline_seconds
    records: t.List[bytes] = []
    gap = False
    try:
        device = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as exc:
        return records, "denied", "%s cannot be read: %s" % (path, exc.strerror), gap
    try:
        while True:
            if time.monotonic() > until:
                return records, "timeout", "%s was not read to its end within %.0f s" % (path, deadline_seconds), gap
            try:
                record = os.read(device, _KMSG_RECORD_BYTES)
            except BlockingIOError:
                break
            except OSError as exc:
                if exc.errno != errno.EPIPE:  # EPIPE: overwritten under our hands, the next read goes on behind
                    return records, "failed", "%s: %s" % (path, exc.strerror), gap
                gap = True
                continue
            if not record:
                break
            records.append(record)
    finally:
        os.close(device)
    return records, None, None, gap


def _kmsg_number(line: bytes) -> int:
    """Of a line of the ring buffer; -1 for the further lines of a record."""
    match = _KMSG_HEAD.match(line)
    return int(match.group(1)) if match else -1


def boot_id() -> t.Optional[str]:
    """The running kernel's boot id, as the journal writes it."""
    try:
        with open(under_root("/proc/sys/kernel/random/boot_id"), encoding="ascii") as handle:
            return handle.read().strip().replace("-", "")
    except OSError:
        return None


def _said(done: command.Completed) -> str:
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return lines[0] if lines else "no reason given"


def _seconds(usec: t.Optional[str]) -> t.Optional[float]:
    return int(usec) / 1e6 if usec and usec.isdecimal() and len(usec) < 20 else None


def _field(line: bytes, name: str) -> t.Optional[str]:
    try:
        value = json.loads(line)[name]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return value if isinstance(value, str) else None
