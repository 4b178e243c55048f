# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a tool for long, and look at it and around while it runs. Private to kentino.gpu.

As C(command.run), and more: the tool can be stopped for what it prints or for what is seen beside it, and nothing of it is left
when the module is interrupted or killed.
"""

from __future__ import annotations

import os
import selectors
import shutil
import time
import typing as t
from dataclasses import dataclass

from . import guard
from .command import Completed

# After the tool has ended, how long its output may stay open; nothing that could hold it is left by then.
_LINGER_SECONDS = 0.5
_CHUNK_BYTES = 1 << 16

# What looks at the tool: takes a chunk of output, or nothing; a text says why the tool is to be stopped.
Listener = t.Callable[[bytes], t.Optional[str]]
Ticker = t.Callable[[], t.Optional[str]]


@dataclass(frozen=True)
class Watched(Completed):
    """How a watched tool ended. Beside the outcomes of C(Completed): C(stopped) by us, C(why) says for what; C(lost): something
    killed our supervisor, and the tool with it."""

    why: str = ""

    def problem(self) -> str:
        name = os.path.basename(self.argv[0])
        if self.outcome == "stopped":
            return "%s was stopped after %.0f s: %s" % (name, self.seconds, self.why)
        if self.outcome == "lost":
            return "%s was killed after %.0f s together with the process that watched it" % (name, self.seconds)
        return super().problem()


def watch(
    argv: t.Sequence[str],
    deadline_seconds: float,
    on_stdout: t.Optional[Listener] = None,
    on_tick: t.Optional[Ticker] = None,
    tick_seconds: float = 5.0,
    readers: t.Optional[t.Mapping[int, Listener]] = None,
    folder: t.Optional[str] = None,
    variables: t.Optional[t.Mapping[str, t.Optional[str]]] = None,
    max_bytes: int = 64 << 20,
    term_seconds: float = guard.TERM_SECONDS,
    afterwards: t.Sequence[str] = (),
) -> Watched:
    """Run C(argv) in C(folder) for at most C(deadline_seconds), and some seconds more to see it die.

    C(on_stdout) gets its output as it comes, else the result has it, at most C(max_bytes). C(readers) get what can be read from
    their descriptors meanwhile. C(on_tick) is called every C(tick_seconds). What they return stops the tool. C(variables) are
    changes to its environment, None takes one away. C(term_seconds) and C(afterwards) as in C(guard.start_tool).
    """
    path = shutil.which(argv[0])
    if path is None:
        return Watched(tuple(argv), "missing")
    begin = time.monotonic()
    environment = guard.environment(variables or {})
    tool = guard.start_tool([path, *argv[1:]], environment, folder, term_seconds, afterwards)
    try:
        loop = _Loop(tool, begin + deadline_seconds, on_stdout, on_tick, tick_seconds, dict(readers or {}), max_bytes)
        outcome = loop.run()
        if outcome != "ended":
            tool.end()
            loop.drain()
        if tool.outcome in ("unkillable", "denied"):
            outcome = tool.outcome
        elif outcome == "ended" and tool.outcome in ("killed", "lost"):
            # What we ended ourselves is not lost, even where the supervisor was too slow to say how it went.
            outcome = "lost"
        rc = tool.rc if outcome == "ended" else None
        stderr = tool.error.encode() if outcome == "denied" else bytes(loop.collected[tool.stderr])
        stdout = bytes(loop.collected[tool.stdout])
        return Watched(tuple(argv), outcome, rc, stdout, stderr, time.monotonic() - begin, loop.why)
    finally:
        tool.close()


class _Loop:
    def __init__(
        self,
        tool: guard.Guarded,
        until: float,
        on_stdout: t.Optional[Listener],
        on_tick: t.Optional[Ticker],
        tick_seconds: float,
        readers: t.Dict[int, Listener],
        max_bytes: int,
    ) -> None:
        self._tool = tool
        self._until = until
        self._on_stdout = on_stdout
        self._on_tick = on_tick
        self._tick_seconds = tick_seconds
        self._readers = readers
        self._max_bytes = max_bytes
        self.collected = {tool.stdout: bytearray(), tool.stderr: bytearray()}
        self.why = ""
        self._taken = 0

    def run(self) -> str:
        """C(ended), C(timeout), C(stopped) or C(truncated); the tool runs on after the last three."""
        tool = self._tool
        ended: t.Optional[float] = None
        tick = time.monotonic() + self._tick_seconds if self._on_tick else self._until
        with selectors.DefaultSelector() as selector:
            for descriptor in (tool.stdout, tool.stderr, tool.news, *self._readers):
                selector.register(descriptor, selectors.EVENT_READ)
            open_streams = {tool.stdout, tool.stderr}
            while True:
                now = time.monotonic()
                if tool.outcome is not None and (not open_streams or now >= (ended or now) + _LINGER_SECONDS):
                    return "ended"
                if now >= self._until and tool.outcome is None:
                    return "timeout"
                if self._on_tick and now >= tick:
                    tick = now + self._tick_seconds
                    self.why = self._on_tick() or self.why
                wait = min(tick, self._until) if ended is None else ended + _LINGER_SECONDS
                for key, _events in selector.select(0 if self.why else max(0.0, wait - time.monotonic())):
                    if key.fd == tool.news:
                        tool.hear()
                        if tool.outcome is not None:
                            ended = time.monotonic()
                            selector.unregister(tool.news)
                    elif not self._take(key.fd):
                        selector.unregister(key.fd)
                        open_streams.discard(key.fd)
                if self.why and tool.outcome is None:
                    return "stopped"
                if any(len(content) > self._max_bytes for content in self.collected.values()):
                    return "truncated"

    def _take(self, descriptor: int) -> bool:
        """Pass on what can be read now; whether more may come."""
        chunk = _read(descriptor)
        if not chunk:
            return chunk is None
        listener = self._on_stdout if descriptor == self._tool.stdout else self._readers.get(descriptor)
        if listener is not None:
            self.why = listener(chunk) or self.why
        else:
            self.collected[descriptor] += chunk
        self._taken += len(chunk)
        return True

    def drain(self) -> None:
        """Take what the tool had printed when it was ended."""
        why = self.why
        for descriptor in (self._tool.stdout, self._tool.stderr):
            size = -1
            while size != self._taken and len(self.collected[descriptor]) <= self._max_bytes:
                size = self._taken
                self._take(descriptor)
        self.why = why


def _read(descriptor: int) -> t.Optional[bytes]:
    """None where there is nothing yet."""
    try:
        return os.read(descriptor, _CHUNK_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""
