# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read what torchrun prints about the workers it started. Private to kentino.gpu.

Written against the launchers of PyTorch 1.13 to 2.14. The block at the end and the line C(failed (exitcode: ...)) name the worker
whose end the agent noticed first, which need not be the one that began it: workers that waited for it end in the same moment.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from . import terminal_text

# exitcode  : -9 (pid: 14750)            up to 2.11
# exitcode  : -9 (pid: 1085)  (SIGKILL)  2.12 and newer
_TOKEN = re.compile(
    r"(?P<root>Root Cause \(first observed failure\))"
    r"|\btime\s*:\s*(?P<time>\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d)"
    r"|\bhost\s*:\s*(?P<host>[^\s|]+)"
    r"|\brank\s*:\s*(?P<rank>\d{1,9})\s*\(local_rank:\s*(?P<local_rank>\d{1,9})\)"
    r"|\bexitcode\s*:\s*(?P<exit_code>-?\d{1,9})\s*\(pid:\s*(?P<pid>\d{1,9})\)(?:[ \t]*\((?P<signal>SIG[A-Z0-9]+)\))?"
    r"|\btraceback\s*:\s*(?P<text>[^\n]+?)(?=\s*(?:\n|$|\[\d+\]:|Root Cause|-{10}|={10}))",
    re.ASCII,
)
# ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 3 (pid: 812917) of binary: /usr/bin/python
_FAILED = re.compile(
    r"failed \(exitcode: (?P<exit_code>-?\d{1,9})\) local_rank: (?P<local_rank>\d{1,9}) \(pid: (?P<pid>\d{1,9})\)", re.ASCII
)
# W1129 21:43:16.087000 4755 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 5069 closing signal SIGTERM
_CLOSING = re.compile(r"Sending process (\d{1,9}) closing signal", re.ASCII)
_RULE = re.compile(r"={20,}")
_NO_TRACEBACK = "To enable traceback see"
# Linux, on every architecture that GPUs are put into.
_SIGNALS = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    4: "SIGILL",
    5: "SIGTRAP",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    13: "SIGPIPE",
    14: "SIGALRM",
    15: "SIGTERM",
    31: "SIGSYS",
}


@dataclass(frozen=True)
class Ending:
    """How a worker ended: an exit status of 1 and more, or a signal as a negative number."""

    exit_code: int
    pid: int
    rank: t.Optional[int] = None
    local_rank: t.Optional[int] = None
    host: t.Optional[str] = None
    time: t.Optional[str] = None  # the agent's clock, seconds
    signal: t.Optional[str] = None  # SIGKILL
    text: t.Optional[str] = None  # where the worker left a traceback


@dataclass(frozen=True)
class Torchelastic:
    endings: t.Tuple[Ending, ...] = ()  # one for each process, in the order printed
    root: t.Optional[Ending] = None  # the first that the agent noticed
    closed_pids: t.Tuple[int, ...] = ()  # asked to end because another had ended
    complete: bool = False  # the closing block is whole


def parse(text: str) -> Torchelastic:
    """All that C(text) tells. Nothing in it is no error: torchrun is silent where all went well."""
    plain = terminal_text.clean(text)
    found: t.List[Ending] = []
    root: t.Optional[Ending] = None
    for values, is_root in _blocks(plain):
        ending = _ending(values)
        found.append(ending)
        root = ending if is_root else root
    for line in _FAILED.finditer(plain):
        ending = _ending(line.groupdict())
        if not any(other.pid == ending.pid for other in found):
            found.append(ending)
        root = root or next(other for other in found if other.pid == ending.pid)
    closed = tuple(dict.fromkeys(int(pid) for pid in _CLOSING.findall(plain)))
    block = plain.find("Root Cause (first observed failure)")
    complete = block >= 0 and root is not None and _RULE.search(plain, block) is not None
    return Torchelastic(tuple(found), root, closed, complete)


def signal_name(exit_code: int) -> t.Optional[str]:
    """C(SIGKILL) of -9; None of what is no signal."""
    return _SIGNALS.get(-exit_code, "signal %d" % -exit_code) if exit_code < 0 else None


def _blocks(text: str) -> t.Iterator[t.Tuple[t.Dict[str, str], bool]]:
    """The values of each worker in the closing block, and whether it is the one called the root."""
    values: t.Dict[str, str] = {}
    in_root = False
    for token in _TOKEN.finditer(text):
        new = {key: value for key, value in token.groupdict().items() if value is not None}
        if "root" in new or values.keys() & new.keys():
            if "pid" in values:
                yield values, in_root
            values = {}
        in_root = in_root or "root" in new
        values.update(new)
    if "pid" in values:
        yield values, in_root


def _ending(values: t.Mapping[str, t.Optional[str]]) -> Ending:
    def number(name: str) -> t.Optional[int]:
        value = values.get(name)
        return None if value is None else int(value)

    exit_code = number("exit_code") or 0
    text = (values.get("text") or "").strip()
    return Ending(
        exit_code,
        number("pid") or 0,
        number("rank"),
        number("local_rank"),
        values.get("host"),
        values.get("time"),
        values.get("signal") or signal_name(exit_code),
        None if not text or text.startswith(_NO_TRACEBACK) else text,
    )
