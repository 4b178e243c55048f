# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A stand-in tool called in this process, for tests that call many: a process of its own would take ten times as long."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import subprocess
import sys
import typing as t

from .tools import TOOLS


def run(folder: str, tool: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    """As subprocess.run of the tool in the state directory C(folder). Not for scenarios in which the tool hangs."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _stream in range(2)]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]), _state(folder), _name(tool):
        try:
            code: t.Any = importlib.import_module("." + TOOLS[tool], __package__).main(list(words))
        except SystemExit as exc:
            code = exc.code
    out, err = (_content(stream) for stream in streams)
    return subprocess.CompletedProcess([tool, *words], int(code or 0), out, err)


@contextlib.contextmanager
def _state(folder: str) -> t.Iterator[None]:
    before = os.environ.get("KENTINO_SIM_STATE")
    os.environ["KENTINO_SIM_STATE"] = folder
    try:
        yield
    finally:
        if before is None:
            del os.environ["KENTINO_SIM_STATE"]
        else:
            os.environ["KENTINO_SIM_STATE"] = before


@contextlib.contextmanager
def _name(tool: str) -> t.Iterator[None]:
    """Some programs go by their name."""
    before = sys.argv[0]
    sys.argv[0] = tool
    try:
        yield
    finally:
        sys.argv[0] = before


def _content(stream: io.TextIOWrapper) -> bytes:
    stream.flush()
    content: bytes = stream.buffer.getvalue()  # type: ignore[attr-defined]
    return content
