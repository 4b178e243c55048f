# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read kernel logs from files, rotated and compressed ones too, and from streams. Private to kentino.gpu."""

from __future__ import annotations

import bz2
import dataclasses
import errno
import glob
import gzip
import lzma
import os
import re
import stat
import time
import typing as t
import zlib

from .._parse import kernel_log
from . import command
from .log_reading import MAX_KEPT_BYTES, SAMPLE_LINES, LineFilter, LogReading

_CHUNK_BYTES = 1 << 20
_OPENERS: t.Mapping[str, t.Callable[..., t.Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_ROTATION = re.compile(r"^(?:[.-](\d+))?(\.gz|\.xz|\.bz2|\.zst)?$")


def expand(path: str, rotated: bool = False) -> t.List[str]:
    """The files that C(path), a name or a pattern, stands for; with C(rotated) also its older generations, oldest first."""
    names = sorted(glob.glob(path)) if glob.has_magic(path) else [path]
    if not rotated:
        return names
    found: t.List[str] = []
    for name in names:
        older = []
        for candidate in glob.glob(glob.escape(name) + "?*"):
            match = _ROTATION.match(candidate[len(name) :])
            if match:
                older.append(candidate)
        # Numbered generations count upwards into the past, dated ones (-20250101) towards today: the files' own times tell.
        found += [*sorted(older, key=_modified), name]
    return found


def scan(path: str, deadline_seconds: float = 60) -> LogReading:
    """One file. The lines worth parsing of a plain file are found by grep, which is faster over a large one than Python can be."""
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            return LogReading(path, error_kind="failed", error="%s is a directory, a log file was expected" % path)
        reading = _scan(path, status, deadline_seconds)
    except OSError as exc:
        kind = "denied" if exc.errno in (errno.EACCES, errno.EPERM) else "failed"
        return LogReading(path, error_kind=kind, error="%s: %s" % (path, exc.strerror or exc))
    return dataclasses.replace(reading, reference=status.st_mtime)


def _scan(path: str, status: os.stat_result, deadline_seconds: float) -> LogReading:
    suffix = os.path.splitext(path)[1]
    if not stat.S_ISREG(status.st_mode):
        # A pipe or a device may never end, and already opening it may wait for ever.
        return _filtered(path, ["cat", "--", path], deadline_seconds)
    if suffix == ".zst":
        return _filtered(path, ["zstd", "--decompress", "--stdout", "--quiet", "--", path], deadline_seconds)
    if suffix in _OPENERS:
        with _OPENERS[suffix](path, "rb") as stream:
            return scan_stream(stream, path, deadline_seconds)
    return _grep(path, status.st_size, deadline_seconds)


def scan_stream(stream: t.BinaryIO, name: str = "stdin", deadline_seconds: float = 60) -> LogReading:
    """Anything that can be read in blocks. Damaged compression ends the reading with an error and keeps what came before."""
    until = time.monotonic() + deadline_seconds
    sieve = LineFilter()
    kind: t.Optional[str] = None
    error: t.Optional[str] = None
    try:
        while True:
            chunk = stream.read(_CHUNK_BYTES)
            if not chunk:
                break
            sieve.feed(chunk)
            if time.monotonic() > until:
                kind, error = "timeout", "%s was not read to its end within %.0f s" % (name, deadline_seconds)
                break
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as exc:
        kind, error = "failed", "%s could not be read to its end: %s" % (name, exc)
    sieve.close()
    return _reading(name, sieve, kind, error)


def _filtered(path: str, argv: t.Sequence[str], deadline_seconds: float) -> LogReading:
    sieve = LineFilter()
    done = command.run(argv, deadline_seconds, on_stdout=sieve.feed)
    sieve.close()
    kind, error = _outcome(path, done, good=(0,))
    return _reading(path, sieve, kind, error)


def _grep(path: str, size_bytes: int, deadline_seconds: float) -> LogReading:
    argv = ["grep", "--text", "--fixed-strings", "--no-messages", "--after-context=%d" % kernel_log.CONTEXT_LINES]
    for needle in kernel_log.NEEDLES:
        argv += ["-e", needle.decode("ascii")]
    done = command.run([*argv, "--", path], deadline_seconds, max_bytes=MAX_KEPT_BYTES)
    if done.outcome == "missing":
        with open(path, "rb") as stream:
            return scan_stream(stream, path, deadline_seconds)
    kind, error = _outcome(path, done, good=(0, 1))
    lines = tuple(line for line in done.stdout.split(b"\n") if line and line != b"--")
    with open(path, "rb", buffering=0) as stream:
        head = stream.read(_CHUNK_BYTES)
    sample = head.split(b"\n")
    # Of a large file an estimate, from the length of its first lines: grep counts its hits only.
    records = max(len(lines), (len(sample) - (not sample[-1])) * size_bytes // max(1, len(head)))
    if not size_bytes:
        kind, error = "empty", "%s is empty" % path
    return LogReading(path, lines, records, tuple(sample[:SAMPLE_LINES]), error_kind=kind, error=error)


def _outcome(path: str, done: command.Completed, good: t.Tuple[int, ...]) -> t.Tuple[t.Optional[str], t.Optional[str]]:
    if done.outcome == "ended":
        if done.rc in good:
            return None, None
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return "failed", "%s ended with status %s: %s" % (done.argv[0], done.rc, said[0] if said else "no reason given")
    if done.outcome in ("timeout", "unkillable"):
        return "timeout", "%s was not read to its end within %.0f s" % (path, done.seconds)
    kind = {"missing": "missing_tool", "denied": "denied"}.get(done.outcome, "truncated")
    return kind, "%s: %s" % (path, done.problem())


def _reading(name: str, sieve: LineFilter, kind: t.Optional[str], error: t.Optional[str]) -> LogReading:
    if kind is None and sieve.overflow:
        kind, error = "truncated", "%s holds more lines of interest than can be judged" % name
    elif kind is None and not sieve.records:
        kind, error = "empty", "%s is empty" % name
    return LogReading(name, tuple(sieve.kept), sieve.records, tuple(sieve.sample), sieve.last_line, error_kind=kind, error=error)


def _modified(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0
