# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Start a child of which nothing is left when we end, however we end. Private to kentino.gpu.

What loads the GPUs for an hour must not go on when the module is gone: interrupted, killed with its whole process group by
Ansible's async wrapper, or out of memory. So a supervisor stands between us and the child, in a session of its own. The kernel
tells it of our death, and makes it the parent of every orphan below it, so that children which left the process group or their
parent are found as well.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import time
import typing as t

from . import command

# How long a child may take to end after SIGTERM, and the kernel to end it after SIGKILL (longer: D state).
TERM_SECONDS = 1.0
KILL_SECONDS = 1.0
# A supervisor that the kernel does not tell of our death asks this often.
_POLL_SECONDS = 0.5
_AFTERWARDS_SECONDS = 10.0
_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36


class Interrupted(SystemExit):
    """A signal that asks us to end; on its way out every child is ended."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number


@contextlib.contextmanager
def interruptible() -> t.Iterator[None]:
    """Within it SIGTERM, SIGINT and SIGHUP raise C(Interrupted); one that is ignored stays ignored."""

    def raise_it(number: int, _frame: t.Any) -> None:
        raise Interrupted(number)

    before: t.Dict[int, t.Any] = {}
    for number in (int(signal.SIGTERM), int(signal.SIGINT), int(signal.SIGHUP)):
        # Outside the main thread Python allows no handlers, and needs none.
        with contextlib.suppress(ValueError):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, raise_it)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Guarded:
    """A child behind its supervisor. C(stdout), C(stderr) and C(news) are descriptors to read from.

    C(outcome) is None while it runs, then: C(ended) by itself, with C(rc); C(killed) on our word; C(unkillable): not even SIGKILL
    ended it; C(denied): it could not be started, C(error) says why; C(lost): the supervisor itself was killed.
    """

    def __init__(self, work: t.Callable[[int, int], int], term_seconds: float, afterwards: t.Sequence[str]) -> None:
        self.pid: t.Optional[int] = None
        self.outcome: t.Optional[str] = None
        self.rc: t.Optional[int] = None
        self.error = ""
        self._term_seconds = term_seconds
        self._said = b""
        self.stdout, out = os.pipe()
        self.stderr, err = os.pipe()
        self.news, tell = os.pipe()
        parent = os.getpid()
        prctl = _prctl()
        self._supervisor = os.fork()
        if self._supervisor == 0:
            _Supervisor(prctl, parent, term_seconds, afterwards).run(work, out, err, tell)
        for descriptor in (out, err, tell):
            os.close(descriptor)
        for descriptor in (self.stdout, self.stderr, self.news):
            os.set_blocking(descriptor, False)

    def hear(self) -> None:
        """Take in what the supervisor says; call it when C(news) can be read."""
        try:
            chunk = os.read(self.news, 4096)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        self._said += chunk
        for line in self._said.split(b"\n")[:-1]:
            word, _blank, rest = line.decode("utf-8", "replace").partition(" ")
            if word == "started":
                self.pid = int(rest)
            elif word == "ended":
                self.outcome, self.rc = "ended", int(rest)
            else:
                self.outcome, self.error = word, rest
        if not chunk and self.outcome is None:
            self.outcome = "lost"
            self._kill_group()

    def end(self) -> None:
        """End the child and all that came of it, and wait until that is done: some seconds at most."""
        if self.outcome is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._supervisor, signal.SIGTERM)
            self._wait(self._term_seconds + KILL_SECONDS + 0.5)
        if self.outcome is None:
            self.outcome = "unkillable"
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._supervisor, signal.SIGKILL)
            self._kill_group()

    def close(self) -> None:
        """End it, if it has not ended, and free what it took."""
        self.end()
        for descriptor in (self.stdout, self.stderr, self.news):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        until = time.monotonic() + KILL_SECONDS
        with contextlib.suppress(ChildProcessError):
            while not os.waitpid(self._supervisor, os.WNOHANG)[0] and time.monotonic() < until:
                time.sleep(0.002)

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while self.outcome is None and time.monotonic() < until:
            select.select([self.news], [], [], max(0.0, until - time.monotonic()))
            self.hear()

    def _kill_group(self) -> None:
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)


def start_tool(
    argv: t.Sequence[str],
    environment: t.Mapping[str, str],
    folder: t.Optional[str] = None,
    term_seconds: float = TERM_SECONDS,
    afterwards: t.Sequence[str] = (),
) -> Guarded:
    """Run C(argv), whose first word is the path of a program.

    C(term_seconds): how long it gets to end after SIGTERM. C(afterwards): what the supervisor runs if we are killed meanwhile.
    """
    variables, words = dict(environment), list(argv)

    def work(out: int, err: int) -> int:
        supervisor = os.getpid()
        child = subprocess.Popen(  # pylint: disable=ansible-bad-function
            words,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            cwd=folder,
            env=variables,
            start_new_session=True,
            preexec_fn=lambda: _in_child(prctl, supervisor),
        )
        # Waiting is the supervisor's. Popen would ask for the child when it is forgotten, and take the status of one that ended at once.
        child.returncode = 0
        return child.pid

    prctl = _prctl()
    return Guarded(work, term_seconds, afterwards)


def start_function(function: t.Callable[[int], None], term_seconds: float = 0.0) -> Guarded:
    """Run C(function) in a child of ours; it writes to the descriptor that it is given, C(stdout) of the result."""

    def work(out: int, _err: int) -> int:
        supervisor = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        status = 1
        try:
            os.setsid()
            _in_child(prctl, supervisor)
            function(out)
            status = 0
        finally:
            os._exit(status)

    prctl = _prctl()
    return Guarded(work, term_seconds, ())


def _in_child(prctl: t.Callable[[int, int], None], supervisor: int) -> None:
    prctl(_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


class _Supervisor:
    """Runs in a process of its own and never returns."""

    def __init__(self, prctl: t.Callable[[int, int], None], parent: int, term_seconds: float, afterwards: t.Sequence[str]) -> None:
        self._prctl = prctl
        self._parent = parent
        self._term_seconds = term_seconds
        self._afterwards = list(afterwards)

    def run(self, work: t.Callable[[int, int], int], out: int, err: int, tell: int) -> t.NoReturn:
        try:
            self._settle(out, err, tell)
            try:
                pid = work(out, err)
            except (OSError, ValueError) as exc:
                os.write(tell, b"denied %s\n" % str(exc).replace("\n", " ").encode())
                os._exit(0)
            os.close(out)
            os.close(err)
            os.write(tell, b"started %d\n" % pid)
            rc, orphaned = self._stand_by(pid)
            gone = _end_all(pid, self._term_seconds if rc is None else 0.0)
            if orphaned and self._afterwards:
                self._run_afterwards()
            answer = "unkillable" if not gone else "killed" if rc is None else "ended %d" % rc
            # Nobody reads it when we are orphaned.
            with contextlib.suppress(OSError):
                os.write(tell, answer.encode() + b"\n")
        finally:
            os._exit(0)

    def _settle(self, *kept: int) -> None:
        # Blocked, so that they are waited for and no handler of the module runs here.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        self._prctl(_SET_PDEATHSIG, signal.SIGTERM)
        self._prctl(_SET_CHILD_SUBREAPER, 1)
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        # The module's own pipes: Ansible waits until nobody holds them.
        _close_all_but({0, 1, 2, *kept})

    def _stand_by(self, pid: int) -> t.Tuple[t.Optional[int], bool]:
        """How the child ended, None where it shall be ended; and whether we lost our parent."""
        while True:
            received = signal.sigtimedwait(_SIGNALS, _POLL_SECONDS)
            rc = _reap(pid)
            if rc is not None:
                return rc, False
            if os.getppid() != self._parent:
                return None, True
            if not _any_child():
                return None, False
            if received is not None and received.si_signo != signal.SIGCHLD:
                return None, False

    def _run_afterwards(self) -> None:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(  # pylint: disable=ansible-bad-function
                self._afterwards,
                stdin=subprocess.DEVNULL,
                check=False,
                timeout=_AFTERWARDS_SECONDS,
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS),
            )


def _prctl() -> t.Callable[[int, int], None]:
    """prctl(2), or nothing where libc cannot be asked: the supervisor's own look at its parent remains."""
    try:
        function = ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return lambda _option, _value: None
    return lambda option, value: function(option, ctypes.c_ulong(int(value)), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def _close_all_but(kept: t.Set[int]) -> None:
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        numbers = list(range(256))
    for number in numbers:
        if number not in kept:
            with contextlib.suppress(OSError):
                os.close(number)


def _reap(pid: int) -> t.Optional[int]:
    """Take every child that has ended from the kernel's table; the status of C(pid) where it is among them."""
    found = None
    with contextlib.suppress(ChildProcessError):
        while True:
            ended, status = os.waitpid(-1, os.WNOHANG)
            if not ended:
                break
            if ended == pid:
                found = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    return found


def _end_all(pid: int, term_seconds: float) -> bool:
    """End all that is below us; whether nothing is left."""
    if term_seconds:
        _signal_all(_below(pid), signal.SIGTERM)
        _wait_for_none(pid, term_seconds)
    until = time.monotonic() + KILL_SECONDS
    while _any_child():
        _signal_all(_below(pid), signal.SIGKILL)
        if time.monotonic() > until:
            return False
        _wait_for_none(pid, 0.05)
    return True


def _wait_for_none(pid: int, seconds: float) -> None:
    until = time.monotonic() + seconds
    pause = 0.001
    while _any_child() and time.monotonic() < until:
        signal.sigtimedwait([signal.SIGCHLD], pause)
        pause = min(pause * 2, 0.02)


def _any_child() -> bool:
    """Every descendant hangs below a child: parents that end leave theirs to us."""
    _reap(0)
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _below(pid: int) -> t.List[int]:
    """All descendants that run, by /proc; without it the group of C(pid), as a negative number."""
    children: t.Dict[int, t.List[int]] = {}
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return [-pid]
    for name in names:
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open("/proc/%s/stat" % name, "rb") as handle:
                # The name of the process, in parentheses, may itself hold blanks and parentheses.
                state, parent = handle.read().rpartition(b")")[2].split()[:2]
            if state != b"Z":
                children.setdefault(int(parent), []).append(int(name))
    found: t.List[int] = []
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _signal_all(numbers: t.Iterable[int], number: int) -> None:
    for target in numbers:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(target, number)


def environment(changes: t.Mapping[str, t.Optional[str]]) -> t.Dict[str, str]:
    """The environment of C(command.run) with C(changes); None takes a variable away."""
    variables = command.environment()
    for key, value in changes.items():
        if value is None:
            variables.pop(key, None)
        else:
            variables[key] = value
    return variables
