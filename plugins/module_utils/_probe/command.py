# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a tool, or a function, under a deadline. Private to kentino.gpu.

AnsibleModule.run_command waits for ever: a driver that hangs would hang the play with it. Here every child leads its own
process group, the whole group is killed when the deadline passes, what was printed until then is kept, and a child that even
SIGKILL does not end (D state) is left behind and reported, not waited for.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import shutil
import signal
import subprocess
import time
import typing as t
from dataclasses import dataclass

# After the process itself has ended, how long a grandchild may hold its output open.
_LINGER_SECONDS = 0.5
# Between SIGTERM and SIGKILL, and between SIGKILL and giving up on a child in D state.
_TERM_SECONDS = 1.0
_KILL_SECONDS = 1.0
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class Completed:
    """How a tool ended.

    C(outcome): C(ended) by itself; C(missing) not found; C(denied) could not be started; C(timeout) killed at the deadline;
    C(unkillable) at the deadline and not even SIGKILL ended it; C(truncated) killed because it printed more than allowed.
    C(rc) is None unless it ended by itself; negative for a signal.
    """

    argv: t.Tuple[str, ...]
    outcome: str
    rc: t.Optional[int] = None
    stdout: bytes = b""
    stderr: bytes = b""
    seconds: float = 0.0

    def problem(self) -> str:
        """In words what kept the tool from answering; empty when it ended by itself."""
        name = os.path.basename(self.argv[0])
        return {
            "ended": "",
            "missing": "%s was not found on the PATH" % name,
            "denied": "%s could not be started: %s" % (name, self.stderr.decode("utf-8", "replace").strip()),
            "timeout": "%s did not answer within %.0f s and was killed" % (name, self.seconds),
            "unkillable": "%s hangs in the kernel: %.0f s passed and not even SIGKILL ended it" % (name, self.seconds),
            "truncated": "%s printed more than the %d MiB that are read" % (name, max(len(self.stdout), len(self.stderr)) >> 20),
        }[self.outcome]


def check_deadline(seconds: float) -> None:
    """ValueError for what is no time to wait: with a NaN nothing would ever be late."""
    if not math.isfinite(seconds) or seconds <= 0:
        raise ValueError("the deadline is %r; expected a number of seconds above 0, for example 20" % seconds)


def environment() -> t.Dict[str, str]:
    """The caller's environment in the C locale, without pagers and colours."""
    clean = {key: value for key, value in os.environ.items() if key not in ("LANG", "LANGUAGE") and not key.startswith("LC_")}
    clean.update(LC_ALL="C", SYSTEMD_PAGER="", SYSTEMD_COLORS="0", NO_COLOR="1")
    return clean


def run(
    argv: t.Sequence[str],
    deadline_seconds: float,
    on_stdout: t.Optional[t.Callable[[bytes], None]] = None,
    max_bytes: int = 64 << 20,
) -> Completed:
    """Run C(argv) for at most C(deadline_seconds) of wall time, and up to two more to see it die.

    Output goes to C(on_stdout) as it comes, where given, else into the result, at most C(max_bytes) of it.
    """
    path = shutil.which(argv[0])
    if path is None:
        return Completed(tuple(argv), "missing")
    begin = time.monotonic()
    try:
        # run_command has no deadline for a child that hangs in the kernel.
        child = subprocess.Popen(  # pylint: disable=ansible-bad-function
            [path, *argv[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            start_new_session=True,
        )
    except OSError as exc:
        return Completed(tuple(argv), "denied", stderr=str(exc).encode())
    streams = [stream for stream in (child.stdout, child.stderr) if stream is not None]
    out, err = (stream.fileno() for stream in streams)
    collected = {out: bytearray(), err: bytearray()}
    outcome = _pump(child.pid, collected, out, begin + deadline_seconds, on_stdout, max_bytes, lambda: child.poll() is not None)
    if outcome != "ended" or not _reaped(child.poll, max(0.0, begin + deadline_seconds - time.monotonic())):
        outcome = _kill(child.pid, child.poll, "timeout" if outcome == "ended" else outcome)
    else:
        _signal(child.pid, signal.SIGKILL)  # grandchildren that stayed behind
    for stream in streams:
        stream.close()
    rc = child.returncode if outcome == "ended" else None
    return Completed(tuple(argv), outcome, rc, bytes(collected[out]), bytes(collected[err]), time.monotonic() - begin)


def call(function: t.Callable[[], bytes], name: str, deadline_seconds: float) -> Completed:
    """As C(run), for a function of ours in a forked child: a C library that hangs or crashes takes only the child with it.

    C(stdout) is what the function returned, C(stderr) what it, or a library it called, wrote there: its last words.
    """
    begin = time.monotonic()
    answer, said = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        _child(function, answer, said)
    for end in (answer[1], said[1]):
        os.close(end)
    ended: t.List[int] = []

    def poll() -> t.Optional[int]:
        if not ended:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                ended.append(os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status))
        return ended[0] if ended else None

    collected = {answer[0]: bytearray(), said[0]: bytearray()}
    outcome = _pump(pid, collected, answer[0], begin + deadline_seconds, None, 64 << 20, lambda: poll() is not None)
    if outcome != "ended" or not _reaped(poll, max(0.0, begin + deadline_seconds - time.monotonic())):
        outcome = _kill(pid, poll, "timeout" if outcome == "ended" else outcome)
    else:
        _signal(pid, signal.SIGKILL)  # what a library may have started
    for end in (answer[0], said[0]):
        os.close(end)
    rc = ended[0] if ended and outcome == "ended" else None
    return Completed((name,), outcome, rc, bytes(collected[answer[0]]), bytes(collected[said[0]]), time.monotonic() - begin)


def _child(function: t.Callable[[], bytes], answer: t.Tuple[int, int], said: t.Tuple[int, int]) -> t.NoReturn:
    status = 1
    try:
        os.setsid()
        for end in (answer[0], said[0]):
            os.close(end)
        null = os.open(os.devnull, os.O_RDWR)
        for stream, target in ((0, null), (1, null), (2, said[1])):
            os.dup2(target, stream)
        view = memoryview(function())
        while view:
            view = view[os.write(answer[1], view) :]
        status = 0
    except BaseException as exc:
        with contextlib.suppress(OSError):
            os.write(2, ("%s: %s\n" % (type(exc).__name__, exc)).encode("utf-8", "replace"))
    finally:
        os._exit(status)


def _pump(
    pid: int,
    collected: t.Dict[int, bytearray],
    out: int,
    until: float,
    on_stdout: t.Optional[t.Callable[[bytes], None]],
    max_bytes: int,
    dead: t.Callable[[], bool],
) -> str:
    """Read until every stream is closed, the process has been dead for a moment, or C(until)."""
    died: t.Optional[float] = None
    with selectors.DefaultSelector() as selector:
        for stream in collected:
            os.set_blocking(stream, False)
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            now = time.monotonic()
            if died is None and dead():
                died = now
            if now >= until:
                return "timeout"
            if died is not None and now >= died + _LINGER_SECONDS:
                return "ended"
            for key, _events in selector.select(min(until - now, 0.2)):
                chunk = os.read(key.fd, _CHUNK_BYTES)
                if not chunk:
                    selector.unregister(key.fd)
                elif key.fd == out and on_stdout is not None:
                    on_stdout(chunk)
                else:
                    collected[key.fd] += chunk
                    if len(collected[key.fd]) > max_bytes:
                        return "truncated"
    return "ended"


def _reaped(poll: t.Callable[[], t.Optional[int]], seconds: float) -> bool:
    until = time.monotonic() + seconds
    pause = 0.001
    while poll() is None:
        if time.monotonic() >= until:
            return False
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    return True


def _kill(pid: int, poll: t.Callable[[], t.Optional[int]], outcome: str) -> str:
    _signal(pid, signal.SIGTERM)
    _reaped(poll, _TERM_SECONDS)
    _signal(pid, signal.SIGKILL)  # also where the leader is gone: its children may not be
    return outcome if _reaped(poll, _KILL_SECONDS) else "unkillable"


def _signal(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
