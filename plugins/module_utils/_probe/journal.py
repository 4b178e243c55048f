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
from .log_reading import LineFilter, LogReading
from .root import under_root

# Without --all, journalctl prints null for a message of more than 4096 bytes. The priority is never filtered: Xid lines are
# warnings and SXid lines errors, so any level loses one of them.
_JOURNALCTL = ("journalctl", "--output=json", "--all", "--no-pager", "--quiet")
_FIELDS = "MESSAGE,PRIORITY,SYSLOG_IDENTIFIER,_TRANSPORT,_HOSTNAME,_BOOT_ID,_SOURCE_MONOTONIC_TIMESTAMP"
# journalctl skips a journal file it cannot read and still ends with status 0.
_DAMAGED = re.compile(rb"corrupt|truncated|ignoring|[Ff]ailed|insufficient permissions", re.IGNORECASE)
_KMSG_RECORD_BYTES = 8192


def read(boot: str = "current", cursor: t.Optional[str] = None, since: t.Optional[str] = None, deadline_seconds: float = 20) -> LogReading:
    """Kernel records of the journal.

    C(boot): C(current) or C(all). C(cursor): only what came after it; a cursor that the journal no longer holds is a C(gap), and
    everything that is left is read. C(since): as journalctl takes it.
    """
    argv = [*_JOURNALCTL, "--output-fields=" + _FIELDS, "_TRANSPORT=kernel"]
    if boot == "current":
        argv.append("--boot=0")
    if since:
        argv.append("--since=" + since)
    if not cursor:
        return _read(argv, deadline_seconds)
    # The record of the cursor itself is read again: its presence proves that the journal still reaches back to it, so that
    # "nothing new" is evidence and not just an empty answer.
    reading = _read([*argv, "--cursor=" + cursor], deadline_seconds)
    first = reading.sample[:1]
    if first and _field(first[0], "__CURSOR") == cursor:
        lines = reading.lines[1:] if reading.lines[:1] == first else reading.lines
        return dataclasses.replace(reading, lines=lines, records=reading.records - 1)
    if reading.error_kind in ("timeout", "missing_tool", "denied"):
        return reading
    return dataclasses.replace(_read(argv, deadline_seconds), gap=True)


def _read(argv: t.Sequence[str], deadline_seconds: float) -> LogReading:
    sieve = LineFilter()
    done = command.run(argv, deadline_seconds, on_stdout=sieve.feed)
    sieve.close()
    kind: t.Optional[str] = None
    error = done.problem() or None
    if done.outcome != "ended":
        kind = {"missing": "missing_tool", "denied": "denied", "truncated": "truncated"}.get(done.outcome, "timeout")
    elif done.rc:
        kind, error = "failed", "journalctl ended with status %d: %s" % (done.rc, _said(done))
    elif _DAMAGED.search(done.stderr):
        kind, error = "failed", "journalctl could not read all of the journal: " + _said(done)
    elif not sieve.records:
        kind, error = "empty", "the journal holds no kernel record of this boot"
    elif sieve.overflow:
        kind, error = "truncated", "more kernel lines of interest than can be judged"
    return LogReading(
        source="journal",
        lines=tuple(sieve.kept),
        records=sieve.records,
        sample=tuple(sieve.sample),
        last_line=sieve.last_line,
        cursor=_field(sieve.last_line, "__CURSOR"),
        boot_id=_field(sieve.last_line, "_BOOT_ID"),
        error_kind=kind,
        error=error,
    )


def read_kmsg(deadline_seconds: float = 20) -> LogReading:
    """What the kernel's ring buffer still holds: always of this boot, but the oldest lines may be overwritten (C(gap))."""
    path = under_root("/dev/kmsg")
    until = time.monotonic() + deadline_seconds
    sieve = LineFilter()
    kind: t.Optional[str] = None
    error: t.Optional[str] = None
    gap = False
    try:
        device = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as exc:
        return LogReading("kmsg", error_kind="denied", error="%s cannot be read: %s" % (path, exc.strerror))
    try:
        while True:
            if time.monotonic() > until:
                kind, error = "timeout", "%s was not read to its end within %.0f s" % (path, deadline_seconds)
                break
            try:
                record = os.read(device, _KMSG_RECORD_BYTES)
            except BlockingIOError:
                break
            except OSError as exc:
                if exc.errno != errno.EPIPE:  # EPIPE: overwritten under our hands, the next read goes on behind
                    kind, error = "failed", "%s: %s" % (path, exc.strerror)
                    break
                gap = True
                continue
            if not record:
                break
            sieve.feed(record)
    finally:
        os.close(device)
    sieve.close()
    if error is None and not sieve.records:
        kind, error = "empty", "%s holds no line" % path
    sequence = sieve.sample[0].split(b",")[1:2] if sieve.sample else []
    return LogReading(
        source="kmsg",
        lines=tuple(sieve.kept),
        records=sieve.records,
        sample=tuple(sieve.sample),
        last_line=sieve.last_line,
        gap=gap or sequence not in ([], [b"0"]),
        error_kind=kind,
        error=error,
    )


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


def _field(line: bytes, name: str) -> t.Optional[str]:
    try:
        value = json.loads(line)[name]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return value if isinstance(value, str) else None
