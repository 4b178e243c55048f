# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One run of a program of nccl-tests: its command line, its output and its report file. Private to kentino.gpu."""

from __future__ import annotations

import dataclasses
import math
import os
import re
import shutil
import socket
import tempfile
import typing as t

from .._judge import nccl as judge
from .._parse import nccl_tests as parser
from .._parse.nccl_tests_records import NcclTests, Run
from .._probe.watch import Watched
from .under_load import Session

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "reduce", "sendrecv", "gather", "scatter")
P2P = ("auto", "on", "off", "both")

_HOMES = ("/opt/nccl-tests/build", "/opt/nccl-tests", "/usr/local/nccl-tests/build", "/usr/lib/nccl-tests")
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMG]?)\Z", re.IGNORECASE)
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_HOST = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?::([1-9][0-9]{0,3}))?\Z")
# Before the row's type stand its size and count.
_ROW = re.compile(rb"^\s*[0-9]+\s+[0-9]+\s+[a-z]+[0-9]*\s", re.MULTILINE)
_USAGE = re.compile(r"invalid option|^USAGE:", re.MULTILINE)
# What the table rounds away; below 100 GB/s it has two decimals.
_ROUNDING_GBPS, _ROUNDING_PART = 0.011, 0.006
_MAX_OUTPUT_BYTES = 32 << 20


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is run; checked on the way in, so that a wrong option is told before anything loads a GPU."""

    collective: str = "all_reduce"
    binary: t.Optional[str] = None
    min_bytes: str = "8"
    max_bytes: str = "1G"
    factor: int = 2
    iterations: t.Optional[int] = None
    check: bool = True
    hosts: t.Tuple[str, ...] = ()  # name or name:slots; none: one process on this node
    mpirun: str = "mpirun"
    mpi_arguments: t.Tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.collective not in COLLECTIVES:
            raise ValueError("collective is %r, expected one of %s" % (self.collective, ", ".join(COLLECTIVES)))
        if self.factor < 2:
            raise ValueError("factor is %r, expected 2 or more" % self.factor)
        for host in self.hosts:
            if not _HOST.match(host):
                raise ValueError("hosts has %r, expected names such as node1 or node1:8" % host)
        names = [host.partition(":")[0] for host in self.hosts]
        if len(set(names)) != len(names):
            raise ValueError("hosts names %s more than once; give its slots instead, as in node1:8" % max(names, key=names.count))
        if size_bytes("min_bytes", self.min_bytes) > size_bytes("max_bytes", self.max_bytes):
            raise ValueError("min_bytes %s is above max_bytes %s" % (self.min_bytes, self.max_bytes))

    def sizes(self) -> t.List[int]:
        """The message sizes, as the tool steps through them."""
        size, last = size_bytes("min_bytes", self.min_bytes), size_bytes("max_bytes", self.max_bytes)
        sizes = []
        while size <= last:
            sizes.append(size)
            size = size * self.factor if size else last + 1
        return sizes

    def slots(self, gpus: int) -> t.Dict[str, int]:
        """Ranks by host, each GPU one."""
        parts = [host.partition(":") for host in self.hosts]
        return {name: int(slots) if slots else gpus for name, _colon, slots in parts}


def size_bytes(name: str, text: str) -> int:
    match = _SIZE.match(str(text))
    if not match:
        raise ValueError("%s is %r, expected a size such as 8, 32M or 16G" % (name, text))
    return int(float(match.group(1)) * _UNITS[match.group(2).upper()])


def program(plan: Plan) -> str:
    """The path of the program, or its name where it is not there."""
    name = plan.collective + "_perf"
    names = [plan.binary] if plan.binary else [name, *(os.path.join(home, name) for home in _HOMES)]
    return next((found for found in map(shutil.which, names) if found), plan.binary or name)


def command(
    plan: Plan, gpus: t.Union[int, str], slots: t.Mapping[str, int], exported: t.Collection[str] = (), report: str = ""
) -> t.List[str]:
    """The command line: one process with all GPUs, or through mpirun one for each."""
    words = [program(plan), "-b", plan.min_bytes, "-e", plan.max_bytes, "-f", str(plan.factor), "-g", "1" if slots else str(gpus)]
    words += ["-c", "1" if plan.check else "0"]
    words += ["-n", str(plan.iterations)] if plan.iterations is not None else []
    words += ["-J", report] if report else []
    if not slots:
        return words
    places = ",".join("%s:%d" % place for place in slots.items())
    variables = [word for name in ("CUDA_DEVICE_ORDER", *sorted(exported)) for word in ("-x", name)]
    return [plan.mpirun, "-np", str(sum(slots.values())), "-H", places, "--bind-to", "none", *variables, *plan.mpi_arguments, *words]


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one run gave. C(notes) are (code, severity, message) about its two accounts of itself."""

    argv: t.Tuple[str, ...]
    variables: t.Mapping[str, str]
    done: Watched
    record: NcclTests
    notes: t.Tuple[t.Tuple[str, str, str], ...] = ()
    text: str = ""

    def rate(self, message_bytes: t.Optional[int] = None) -> t.Optional[float]:
        """Bus bandwidth in GB/s at a message size, else at the largest; None where that was not measured."""
        rows = [row for run in self.record.runs if judge.measured(run) for row in run.rows]
        wanted = max((row.size for row in rows), default=None) if message_bytes is None else message_bytes
        rates = [judge.busbw(row) for row in rows if row.size == wanted]
        known = [rate for rate in rates if rate is not None]
        return min(known) if known and len(known) == len(rates) else None

    @property
    def hung(self) -> bool:
        return self.done.outcome in ("timeout", "unkillable")


class Runner:
    """Runs the plan under a session; learns from the first run whether this version writes reports."""

    def __init__(self, plan: Plan, session: Session, gpus: int, seconds: float, runs: int) -> None:
        self._plan = plan
        self._session = session
        self._gpus = gpus
        self._seconds = seconds
        self._runs = max(runs, 1)
        self._done = 0
        self._reports = True

    def run(self, variables: t.Mapping[str, str], slots: t.Mapping[str, int]) -> Outcome:
        outcome = self._run(variables, slots, self._reports and _is_here(slots))
        if self._reports and "-J" in outcome.argv and _is_usage(outcome):
            # Before 2.17.6 it does not know the option, says how it is used, and calls that a success.
            self._reports = False
            outcome = self._run(variables, slots, False)
        self._done += 1
        return outcome

    def _run(self, variables: t.Mapping[str, str], slots: t.Mapping[str, int], with_report: bool) -> Outcome:
        output = bytearray()
        steps = len(self._plan.sizes()) * self._runs

        def listen(chunk: bytes) -> t.Optional[str]:
            output.extend(chunk)
            rows = len(_ROW.findall(bytes(output))) if len(output) < 1 << 16 else 0
            self._session.standing.percent = round(min(99.0, (self._done * len(self._plan.sizes()) + rows) / steps * 100), 1)
            return "it prints without end" if len(output) > _MAX_OUTPUT_BYTES else None

        # Never a file that is there already: the tool then writes another one, and the old one would be read.
        folder = tempfile.mkdtemp(prefix="nccl-tests-")
        try:
            report = os.path.join(folder, "report.json") if with_report else ""
            argv = command(self._plan, self._gpus, slots, variables, report)
            done = self._session.run(argv, self._seconds, listen, _environment(variables, slots), stops=True)
            text = output.decode("utf-8", "replace")
            written = _content(report) if report else ""
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        record = parser.parse("%s\n%s" % (done.stderr.decode("utf-8", "replace"), text), done.rc)
        record, notes = _with_report(record, written) if report else (record, ())
        return Outcome(tuple(argv), dict(variables), done, record, notes, text)


def _environment(variables: t.Mapping[str, str], slots: t.Mapping[str, int]) -> t.Dict[str, t.Optional[str]]:
    # A setting of the caller's must not decide which way is measured.
    changes: t.Dict[str, t.Optional[str]] = {"NCCL_P2P_DISABLE": None, "NCCL_P2P_LEVEL": None, "NCCL_TESTS_DEVICE": None, **variables}
    return {**changes, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if slots else changes


def _is_here(slots: t.Mapping[str, int]) -> bool:
    """Whether the first rank, which writes the report, runs on this machine."""
    first = next(iter(slots), "localhost")
    own = socket.gethostname()
    return first in ("localhost", "127.0.0.1", own, own.partition(".")[0])


def _is_usage(outcome: Outcome) -> bool:
    rows = any(run.rows for run in outcome.record.runs)
    return outcome.done.outcome == "ended" and not rows and bool(_USAGE.search(outcome.text))


def _content(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read(_MAX_OUTPUT_BYTES)
    except OSError:
        return ""


def _with_report(record: NcclTests, written: str) -> t.Tuple[NcclTests, t.Tuple[t.Tuple[str, str, str], ...]]:
    """The exact figures of the report in the place of the rounded ones of the table, where both tell the same."""
    reports = [run for run in parser.parse(written).runs if run.format == "json"]
    if not reports or not reports[-1].complete:
        what = "no report was written" if not written else "the report is cut"
        return record, (("nccl.report", "info", what + "; the printed table was read instead"),)
    printed = [run for run in record.runs if run.rows]
    if len(printed) != 1 or not printed[0].complete:
        return record, ()
    difference = _difference(printed[0], reports[-1])
    if difference:
        return record, (("nccl.disagree", "unknown", "table and report of one run disagree: %s" % difference),)
    exact = dataclasses.replace(reports[-1], wrong_on_ranks=printed[0].wrong_on_ranks, last_error=printed[0].last_error)
    if printed[0].ranks:
        exact = dataclasses.replace(exact, ranks=printed[0].ranks, processes_only=False)
    return dataclasses.replace(record, runs=tuple(exact if run is printed[0] else run for run in record.runs)), ()


def _difference(printed: Run, report: Run) -> str:
    sizes = [[row.size for row in run.rows] for run in (printed, report)]
    if sizes[0] != sizes[1]:
        return "%d rows printed, %d reported" % (len(sizes[0]), len(sizes[1]))
    if (printed.out_of_bounds or 0) != (report.out_of_bounds or 0):
        return "%s results wrong in print, %s in the report" % (printed.out_of_bounds, report.out_of_bounds)
    for row, other in zip(printed.rows, report.rows):
        for side, exact in zip(row.sides(), other.sides()):
            if side.busbw is None or exact.busbw is None:
                continue
            if not math.isclose(side.busbw, exact.busbw, rel_tol=_ROUNDING_PART, abs_tol=_ROUNDING_GBPS):
                return "%g GB/s printed at %d bytes, %g reported" % (side.busbw, row.size, exact.busbw)
            if side.wrong != exact.wrong:
                return "%s wrong elements printed at %d bytes, %s reported" % (side.wrong, row.size, exact.wrong)
    return ""
