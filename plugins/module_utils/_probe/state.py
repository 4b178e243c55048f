# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one run leaves for the next: the journal's cursor, what was seen in this boot, error counters. Private to kentino.gpu."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import typing as t

from .root import under_root

# Changes with the meaning of what is kept: a run never builds on what it may misread, it reads the whole boot again instead.
FORMAT = 1


def load(path: str) -> t.Tuple[t.Dict[str, t.Any], t.Optional[str]]:
    """The stored state and, where there is none that can be used, why: no file is no error; a damaged or foreign one is."""
    path = under_root(path)
    try:
        with open(path, encoding="utf-8") as handle:
            stored = json.load(handle)
    except FileNotFoundError:
        return {}, None
    except (OSError, ValueError, RecursionError) as exc:
        return {}, "the state of the last run in %s cannot be read and is not used: %s" % (path, exc)
    if not isinstance(stored, dict) or "format" not in stored or not isinstance(stored.get("state"), dict):
        return {}, "%s is no state of an earlier run and is not used" % path
    if stored["format"] != FORMAT:
        return {}, "the state of the last run in %s was written by another version and is not used" % path
    if stored.get("sum") != _sum(stored["state"]):
        return {}, "the state of the last run in %s was changed or damaged since and is not used" % path
    return stored["state"], None


def save(path: str, state: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """Write whole or not at all, readable by root only; returns why not."""
    path = under_root(path)
    folder = os.path.dirname(path) or "."
    plain = json.loads(json.dumps(state))  # as it will be read, or its sum would differ
    try:
        os.makedirs(folder, mode=0o755, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".state-", dir=folder)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump({"format": FORMAT, "sum": _sum(plain), "state": plain}, stream, sort_keys=True)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError as exc:
        return "the state for the next run cannot be written to %s: %s" % (path, exc.strerror or exc)
    return None


def _sum(state: t.Mapping[str, t.Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode("ascii")).hexdigest()
