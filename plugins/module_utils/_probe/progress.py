# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How far a long run is, in a file that others read meanwhile. Private to kentino.gpu."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
import typing as t

from .root import under_root


def write(path: str, progress: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """Replace the file at once, so that a reader finds one whole JSON object; returns why not. Adds pid and C(updated_usec)."""
    path = under_root(path)
    folder = os.path.dirname(path) or "."
    content = dict(progress, pid=os.getpid(), updated_usec=int(time.time() * 1e6))
    try:
        os.makedirs(folder, mode=0o755, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".progress-", dir=folder)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                json.dump(content, stream, sort_keys=True)
                os.fchmod(stream.fileno(), 0o644)
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError as exc:
        return "the progress cannot be written to %s: %s" % (path, exc.strerror or exc)
    return None
