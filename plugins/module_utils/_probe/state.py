# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What one run leaves for the next: the journal's cursor, faults still open, error counters. Private to kentino.gpu."""

from __future__ import annotations

import json
import os
import tempfile
import typing as t

from .root import under_root


def load(path: str) -> t.Tuple[t.Dict[str, t.Any], t.Optional[str]]:
    """The stored state and, where there is none that can be used, why: no file is no error, a damaged one is."""
    path = under_root(path)
    try:
        with open(path, encoding="utf-8") as handle:
            state = json.load(handle)
    except FileNotFoundError:
        return {}, None
    except (OSError, ValueError) as exc:
        return {}, "the state of the last run in %s cannot be read: %s" % (path, exc)
    if not isinstance(state, dict):
        return {}, "the state of the last run in %s is not a JSON object" % path
    return state, None


def save(path: str, state: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """Write whole or not at all, readable by root only; returns why not."""
    path = under_root(path)
    folder = os.path.dirname(path) or "."
    try:
        os.makedirs(folder, mode=0o755, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".state-", dir=folder)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump(state, stream, sort_keys=True)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as exc:
        return "the state for the next run cannot be written to %s: %s" % (path, exc.strerror or exc)
    return None
