# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read what wilicc's gpu-burn prints. Private to kentino.gpu.

The parent redraws one progress record after a carriage return, its children and C(date) write between the records, and nothing
but the result block at the end says that the run came to its end.
"""

from __future__ import annotations

import math
import re
import typing as t
from dataclasses import dataclass

from . import terminal_text
from .lazy_pattern import lazy


@dataclass(frozen=True)
class Progress:
    """One progress record, a value for each GPU that is tested."""

    percent: t.Optional[float]
    work: t.Tuple[int, ...]  # matrix products so far; -1: the GPU's process died
    gflops: t.Tuple[t.Optional[float], ...]  # of the last batch
    errors: t.Tuple[int, ...]  # since the last summary: the tool resets them there
    flags: t.Tuple[str, ...]  # "", "WARNING!", "DIED!"
    temps_c: t.Tuple[t.Optional[int], ...]
    whole: bool  # an error counter for every GPU, none of them cut


@dataclass(frozen=True)
class ListedGpu:
    """A line of C(nvidia-smi -L), which the tool prints before it starts."""

    index: int
    name: str
    uuid: t.Optional[str] = None


@dataclass(frozen=True)
class GpuBurn:
    listed: t.Tuple[ListedGpu, ...] = ()
    initialised: t.Tuple[int, ...] = ()  # CUDA devices whose child allocated its memory
    precision: t.Optional[str] = None  # FLOATS, DOUBLES, with ", using Tensor Cores" behind it
    requested_seconds: t.Optional[int] = None
    progress: t.Tuple[Progress, ...] = ()
    announced: t.Optional[int] = None  # N of "Tested N GPUs:"
    results: t.Tuple[t.Tuple[int, str], ...] = ()  # number among the tested GPUs, OK or FAULTY; of every block in the text
    complete: bool = False  # the last thing that happened is a result block with a word for every GPU
    init_errors: t.Tuple[str, ...] = ()  # the tool or CUDA could not start
    failures: t.Tuple[str, ...] = ()  # CUDA failed while a GPU computed
    crashes: t.Tuple[str, ...] = ()  # the shell's word for a process that was killed
    aborted: bool = False  # "No clients are alive!"
    forced_kill: bool = False
    exit_status: t.Optional[int] = None
    unrecognised: t.Tuple[str, ...] = ()

    @property
    def gpus(self) -> t.Optional[int]:
        """How many GPUs this run is about."""
        if self.progress:
            return max(len(record.work) for record in self.progress)
        return self.announced or len(set(self.initialised)) or len(self.listed) or None


# Seen in every record, also where the carriage return before it was lost: "31 C 50.0%  proc'd: ".
_RECORD = lazy(r"(?:([0-9]{1,9}[.,][0-9])[0-9]{0,3}%[ \t]*)?proc'd:[ \t]*")
_WORK = lazy(r"\s*(-?[0-9]{1,18}) *\((-?[0-9.]{1,24}|-?nan|-?inf) Gflop/s\)[ \t]*(-[ \t]|-\Z)?")
# "0 - 5  (WARNING!)- -7  (DIED!)- 0": no blank before the separator after a word in parentheses, and counters below zero.
_ERROR = lazy(r"[ \t]*(-?[0-9]{1,24})(?:[ \t]*\(([A-Za-z]+!?)\))?[ \t]*(-[ \t]|-\Z)?")
_TEMP = lazy(r"[ \t]*(?:(-?[0-9]{1,6}) *C(?![A-Za-z])|(--))[ \t]*(-[ \t]|-\Z)?")

_TESTED = lazy(r"Tested ([0-9]{1,6}) GPUs?:")
_RESULT = lazy(r"\s*GPU ([0-9]{1,6}): (OK|FAULTY)\s*\Z")
_LISTED = lazy(r"\s*GPU ([0-9]{1,6}): (.*?)(?: \(UUID: ([^)\s]+)\)?)?\s*\Z")
_START = lazy(r"Burning for ([0-9]{1,12}) sec")
_INITIALISED = lazy(r"Initialized device ([0-9]{1,6}) with [0-9]+ MB of memory \([^)]*\)(?:, using (.*?))?\s*\Z")

_CANNOT_START = lazy(
    # "cuInit returned 0 (no error)", once for each GPU: builds of 2026.
    r"Couldn't init (?:a GPU test|CUDA)|cuInit returned (?!0\b)|No CUDA devices|No CUDA capable|Not enough devices for USEDEV"
    r"|Low mem for result|terminate called|what\(\):|Error \([^()]*:[0-9]+\)|Syntax error near -",
    re.IGNORECASE,
)
# The shell, the loader or the container engine, of this or of some other program: it tells something where no run follows.
_CANNOT_LAUNCH = lazy(
    r"error while loading shared libraries|not found|No such file or directory|Permission denied|Error response from daemon"
    r"|could not select device driver|cannot execute|CUDA driver version is insufficient",
    re.IGNORECASE,
)
_COMPUTE_FAILED = lazy(r"Failure during compute|CUDA_ERROR_|Error in \"", re.IGNORECASE)
_CRASHED = lazy(r"Segmentation fault|\bAborted\b|core dumped|\AKilled\Z|Bus error|Terminated\Z")
_NO_TEMPS = lazy(r"Could not invoke (?:nvidia-smi|tegrastats)|(?:nvidia-smi|tegrastats): (?:command )?not found")
_KNOWN = lazy(
    r"Summary at:|cuInit returned 0\b|Results are [0-9]+ bytes each|Using compare file:|Run length not specified|Killing processes"
    r"|Freed memory for dev|Uninitted cublas|\Adone\Z|read\[[0-9]+\] error|No clients are alive|MIG .*Device .*UUID|\A[\s.]*\Z",
)


def parse(text: str, exit_status: t.Optional[int] = None) -> GpuBurn:
    """Everything that can be told from what gpu_burn printed on stdout and stderr."""
    seen = _Seen()
    for line in terminal_text.clean(text).split("\n"):
        records = list(_RECORD.finditer(line))
        if not records:
            seen.line(line)
            continue
        seen.line(line[: records[0].start()])
        for record, following in zip(records, [*records[1:], None]):
            seen.record(record.group(1), line[record.end() : following.start() if following else len(line)])
    return seen.burn(exit_status)


class _Seen:
    def __init__(self) -> None:
        self.listed: t.List[ListedGpu] = []
        self.initialised: t.List[int] = []
        self.precision: t.Optional[str] = None
        self.requested: t.Optional[int] = None
        self.progress: t.List[Progress] = []
        self.announced: t.Optional[int] = None
        self.results: t.List[t.Tuple[int, str]] = []
        self.block: t.Optional[t.List[int]] = None  # GPUs named since the last "Tested N GPUs:"; None where a run is going on
        self.init_errors: t.List[str] = []
        self.launch_errors: t.List[str] = []
        self.failures: t.List[str] = []
        self.crashes: t.List[str] = []
        self.aborted = False
        self.forced_kill = False
        self.unrecognised: t.List[str] = []
        self.date_follows = False

    def line(self, line: str) -> None:
        plain = line.strip()
        if not plain:
            return
        # date(1) may be on the next line where a wrapper reads the pipes in turn; its words are those of the local language.
        date, self.date_follows = self.date_follows, plain == "Summary at:"
        if self._block_line(plain) or self._head_line(plain):
            return
        self.aborted = self.aborted or "No clients are alive" in plain
        self.forced_kill = self.forced_kill or "SIGKILL" in plain
        if _NO_TEMPS.search(plain):
            return
        if _COMPUTE_FAILED.search(plain) and "Couldn't init" not in plain:
            self.failures.append(plain)
        elif _CRASHED.search(plain):
            self.crashes.append(plain)
        elif _CANNOT_START.search(plain):
            self.init_errors.append(plain)
        elif _CANNOT_LAUNCH.search(plain):
            self.launch_errors.append(plain)
        elif not _KNOWN.search(plain) and not date:
            self.unrecognised.append(plain)

    def _block_line(self, plain: str) -> bool:
        tested = _TESTED.search(plain)
        if tested:
            self.announced = int(tested.group(1))
            self.block = []
            return True
        result = _RESULT.match(plain)
        if not result:
            return False
        if self.block is not None:
            self.block.append(int(result.group(1)))
        self.results.append((int(result.group(1)), result.group(2)))
        return True

    def _head_line(self, plain: str) -> bool:
        start = _START.search(plain)
        if start:
            self.requested = int(start.group(1))
            self.block = None
            return True
        initialised = _INITIALISED.search(plain)
        if initialised:
            self.initialised.append(int(initialised.group(1)))
            self.precision = initialised.group(2) or self.precision
            return True
        listed = _LISTED.match(plain)
        # A cut result ("GPU 5: FAU") is none, and no listing either.
        if listed and self.block is None:
            if int(listed.group(1)) not in {gpu.index for gpu in self.listed}:
                self.listed.append(ListedGpu(int(listed.group(1)), listed.group(2), listed.group(3)))
            return True
        return False

    def record(self, percent: t.Optional[str], rest: str) -> None:
        # A record after the block belongs to another run whose own block is still to come.
        self.block = None
        work, rest = _items(_WORK, rest)
        errors, rest = _column("errors:", _ERROR, rest)
        # "temps:" stands behind the last counter: where it is seen no counter was cut.
        whole = bool(work) and len(errors) == len(work) and rest.lstrip().startswith("temps:")
        temps, rest = _column("temps:", _TEMP, rest)
        done = float(percent.replace(",", ".")) if percent else None
        self.progress.append(
            Progress(
                # More than 100: digits of what stood before were glued to it.
                done if done is not None and done <= 100 else None,
                tuple(int(item[0]) for item in work),
                tuple(_finite(item[1]) for item in work),
                tuple(int(item[0]) for item in errors),
                tuple(item[1] for item in errors),
                tuple(int(item[0]) if item[0] else None for item in temps),
                whole,
            )
        )
        # A child's line glued to the record: "31 C read[0] error 0".
        self.line(rest)

    def burn(self, exit_status: t.Optional[int]) -> GpuBurn:
        block = self.block or []
        return GpuBurn(
            tuple(self.listed),
            tuple(self.initialised),
            self.precision,
            self.requested,
            tuple(self.progress),
            self.announced,
            tuple(self.results),
            bool(block) and sorted(block) == list(range(self.announced or 0)),
            tuple(self.init_errors if self.progress else self.init_errors + self.launch_errors),
            tuple(self.failures),
            tuple(self.crashes),
            self.aborted,
            self.forced_kill,
            exit_status,
            tuple(self.unrecognised + self.launch_errors if self.progress else self.unrecognised),
        )


def _column(title: str, pattern: t.Pattern[str], text: str) -> t.Tuple[t.List[t.Tuple[str, ...]], str]:
    if not text.lstrip().startswith(title):
        return [], text
    return _items(pattern, text.lstrip()[len(title) :])


def _items(pattern: t.Pattern[str], text: str) -> t.Tuple[t.List[t.Tuple[str, ...]], str]:
    """The values of one column and what stands behind them: a value without a separator is the last."""
    found: t.List[t.Tuple[str, ...]] = []
    position = 0
    while True:
        item = pattern.match(text, position)
        if not item:
            return found, text[position:]
        found.append(tuple(group or "" for group in item.groups()))
        position = item.end()
        if not item.group(item.re.groups):
            return found, text[position:]


def _finite(text: str) -> t.Optional[float]:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
