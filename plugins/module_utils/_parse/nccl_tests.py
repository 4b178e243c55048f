# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read what nccl-tests prints, 1.x to 2.19, and the JSON that it writes. Private to kentino.gpu.

All ranks, NCCL itself and the launcher write to the same stdout. A table of perfect rows is worth nothing without the two
closing figures: a process that crashed leaves the same rows.
"""

from __future__ import annotations

import dataclasses
import typing as t

from . import nccl_tests_json, terminal_text
from . import nccl_tests_lines as lines
from .nccl_tests_records import Failure, NcclTests, Rank, Run, mean_busbw, version_of
from .nccl_tests_rows import Columns, RowReader

# What belongs to a run, in the order in which it is printed: something earlier than what was last seen begins another run.
_VERSION, _STARTING, _HEADER, _DEVICES, _RANK, _COLUMNS, _ROW, _BOUNDS, _AVERAGE, _CONCLUDED = range(1, 11)
_REPEATED = (_RANK, _COLUMNS, _ROW)
_DIGITS = 6  # of the average, which is printed with %g


def parse(text: str, exit_status: t.Optional[int] = None) -> NcclTests:
    """Every run in C(text), in the order printed, those of JSON reports last."""
    reports = nccl_tests_json.find(text)
    plain, position = "", 0
    for report in reports:
        plain += text[position : report.start] + "\n"
        position = max(position, report.end)
    printed = terminal_text.clean(plain + text[position:]).split("\n")
    seen = _Seen()
    for number, line in enumerate(printed, 1):
        seen.line(terminal_text.without_label(line), number == len(printed))
    runs = [run.finished() for run in seen.runs]
    runs += [nccl_tests_json.run(report) for report in reports]
    measured = any(run.rows for run in runs)
    aborts = seen.aborts if measured else seen.aborts + seen.launch_errors
    unrecognised = seen.unrecognised + seen.launch_errors if measured else seen.unrecognised
    return NcclTests(tuple(runs), tuple(seen.crashes), tuple(aborts), tuple(seen.warnings), exit_status, tuple(unrecognised))


class _Draft:
    """A run that is being read."""

    def __init__(self) -> None:
        self.stage = 0
        self.facts: t.Dict[str, t.Any] = {}
        self.ranks: t.List[Rank] = []
        self.failures: t.List[Failure] = []
        self.unplaced: t.Dict[t.Optional[str], t.List[int]] = {}  # host to its failures whose process is not known yet
        self.placed: t.Set[t.Tuple[t.Optional[str], t.Optional[int]]] = set()
        self.reader = RowReader()
        self.average_whole = False
        self.wrong_on_ranks = 0

    def finished(self) -> Run:
        rows = self.reader.finished()
        whole = self.average_whole or self._average_agrees()
        footer = whole and "out_of_bounds" in self.facts and "average" in self.facts
        facts = {key: value for key, value in self.facts.items() if key != "average"}
        return Run(
            self.reader.format(),
            ranks=tuple(self.ranks),
            rows=tuple(rows),
            partial_rows=self.reader.partial,
            wrong_on_ranks=self.wrong_on_ranks,
            footer=footer,
            failures=tuple(self.failures),
            **facts,
        )

    def _average_agrees(self) -> bool:
        """People end their quotation at the average. It is whole where it has all its digits and is the mean of the rows."""
        average, rest = self.facts.get("average_busbw"), self.facts.get("average")
        mean = mean_busbw(self.reader.rows)
        if average is None or mean is None or rest is None or self.reader.partial:
            return False
        digits = rest.strip(" ").replace(".", "").lstrip("0")
        # A blank behind the number would come before the word that NCCL_TESTS_MIN_BW asks for.
        return rest[-1:] != " " and len(digits) == _DIGITS and abs(mean - average) <= max(0.006, abs(average) * 1e-4)


class _Seen:
    def __init__(self) -> None:
        self.runs: t.List[_Draft] = []
        self.version: t.Optional[str] = None  # printed before the run that it belongs to
        self.crashes: t.List[str] = []
        self.aborts: t.List[str] = []
        self.launch_errors: t.List[str] = []
        self.warnings: t.List[str] = []
        self.unrecognised: t.List[str] = []

    def _at(self, stage: int) -> _Draft:
        last = self.runs[-1] if self.runs else None
        again = last is not None and (stage < last.stage or (stage == last.stage and stage not in _REPEATED))
        if last is None or again or (not last.stage and last.failures and stage <= _COLUMNS):
            last = _Draft()
            if self.version:
                last.facts["nccl_version"], self.version = self.version, None
            self.runs.append(last)
        last.stage = stage
        return last

    def line(self, line: str, last: bool) -> None:
        """C(last): nothing follows, so what stands at the end of this line may be cut."""
        line = self._without_nccl(line)
        line = self._without_failure(line)
        if not line.strip():
            return
        if self._header(line) or self._footer(line, last) or self._row(line):
            return
        plain = line.strip()
        wrong = lines.WRONG_ON_RANK.search(plain)
        if wrong and self.runs:
            self.runs[-1].wrong_on_ranks += int(wrong.group(1)) != 0
        elif lines.CRASH.search(plain):
            self.crashes.append(plain)
        elif lines.ABORT.search(plain):
            self.aborts.append(plain)
        elif lines.CANNOT_LAUNCH.search(plain):
            self.launch_errors.append(plain)
        elif not lines.KNOWN.search(plain):
            self.unrecognised.append(plain)

    def _without_nccl(self, line: str) -> str:
        version = lines.NCCL_VERSION.search(line)
        if version:
            self._nccl_version(version.group(1))
        message = lines.NCCL.search(line) if "NCCL" in line else None
        if not message:
            return line[: version.start()] if version else line
        if message.group(2) in ("WARN", "ERROR"):
            self.warnings.append(line[message.start() :].strip())
        # A row's last number may lead the text that was glued to it: "       0host1:7701:7793 [3] NCCL INFO ..".
        head = line[: message.start()]
        return head + (self.runs[-1].reader.leading(head, message.group(1)) if self.runs else "")

    def _nccl_version(self, version: str) -> None:
        last = self.runs[-1] if self.runs else None
        if last is not None and last.stage < _BOUNDS and not last.facts.get("nccl_version"):
            last.facts["nccl_version"] = version
        elif last is None or last.stage >= _BOUNDS:
            self.version = version

    def _without_failure(self, line: str) -> str:
        # Looking for a host in front of the words would cost much in a long line that does not have them.
        if "failure" not in line and "Test timeout" not in line:
            return line
        patterns = (
            (lines.FRAME, self._frame),
            (lines.FRAME_WITHOUT_PID, self._frame_without_pid),
            (lines.TIMEOUT, self._timeout),
            (lines.MESSAGE, self._message),
        )
        for pattern, take in patterns:
            found = pattern.search(line)
            if found:
                draft = self.runs[-1] if self.runs else self._at(0)
                head, host = line[: found.start()], found.group(1) or ""
                number = draft.reader.leading(head, host)
                take(draft, found, host[len(number) :] or None)
                return head + number
        return line

    def _message(self, draft: _Draft, found: t.Match[str], host: t.Optional[str]) -> None:
        # From 2.13 on "text of the result / last error", of which the second may be empty.
        message = (found.group(3) or "").rstrip(" '").rstrip("/").strip()
        draft.unplaced.setdefault(host, []).append(len(draft.failures))
        draft.failures.append(Failure(host, None, message.split(" / ")[0].strip() or None, message or None, found.group(2)))

    def _timeout(self, draft: _Draft, found: t.Match[str], host: t.Optional[str]) -> None:
        draft.unplaced.setdefault(host, []).append(len(draft.failures))
        draft.failures.append(Failure(host, None, "timeout", "no end after %s s" % found.group(2), found.group(3)))

    def _frame(self, draft: _Draft, found: t.Match[str], host: t.Optional[str]) -> None:
        """One line for each function on the way out: the first after a message names the process that printed it."""
        pid = int(found.group(2))
        if (host, pid) in draft.placed:
            return
        draft.placed.add((host, pid))
        open_ones = draft.unplaced.get(host) or draft.unplaced.get(None)
        if open_ones:
            place = open_ones.pop(0)
            draft.failures[place] = dataclasses.replace(draft.failures[place], host=host, pid=pid)
        else:
            draft.failures.append(Failure(host, pid, None, None, found.group(3)))

    def _frame_without_pid(self, draft: _Draft, found: t.Match[str], host: t.Optional[str]) -> None:
        if host not in draft.unplaced:
            draft.unplaced[host] = []
            draft.failures.append(Failure(host, None, None, None, found.group(2)))

    def _header(self, line: str) -> bool:
        tests = lines.TESTS_VERSION.search(line)
        if tests:
            draft = self._at(_VERSION)
            draft.facts["tests_version"] = tests.group(1)
            if tests.group(2):
                draft.facts.setdefault("nccl_version", version_of(int(tests.group(2))))
            return True
        program = lines.PROGRAM.search(line)
        if program:
            self._at(_STARTING if program.group(1) == "starting" else _CONCLUDED).facts["program"] = program.group(2)
            return True
        options = lines.OPTIONS.search(line)
        if options:
            validation = lines.VALIDATION.search(line)
            names = ("threads", "gpus", "min_bytes", "max_bytes")
            facts = dict(zip(names, (int(value) for value in options.groups())))
            self._at(_HEADER).facts.update(facts, validation=int(validation.group(1)) if validation else None)
            return True
        if lines.USING_DEVICES.match(line):
            self._at(_DEVICES)
            return True
        rank = lines.RANK_LINE.search(line)
        if rank:
            number, group, pid, host, device, bus, name = rank.groups()
            place = Rank(int(number), host, _int(pid), _int(group), int(device), bus.strip() or None, name.strip() or None)
            self._at(_RANK).ranks.append(place)
            return True
        columns = Columns.of(line)
        if columns:
            self._at(_COLUMNS).reader.columns = columns
            return True
        reduced = lines.REDUCED.search(line)
        if reduced and self.runs:
            self.runs[-1].facts["reduced_bytes"] = int(reduced.group(1))
        return bool(reduced)

    def _footer(self, line: str, last: bool) -> bool:
        bounds = lines.BOUNDS_LINE.search(line)
        if bounds:
            self._at(_BOUNDS).facts.update(out_of_bounds=int(bounds.group(1)), bounds_okay=bounds.group(2) == "OK")
            return True
        average = lines.AVERAGE_LINE.search(line)
        if average:
            draft = self._at(_AVERAGE)
            value = float(average.group(1)) if average.group(1).lower().lstrip("-") not in ("nan", "inf") else None
            okay = average.group(2) == "OK" if average.group(2) else None
            draft.facts.update(average_busbw=value, average_okay=okay, average=line[average.start(1) :] if last else "")
            draft.average_whole = not last or okay is not None
            return True
        error = lines.LAST_ERROR.search(line)
        if error and self.runs:
            self.runs[-1].facts["last_error"] = error.group(1).strip()
        return bool(error)

    def _row(self, line: str) -> bool:
        if line.lstrip().startswith("#"):
            return False
        last = self.runs[-1] if self.runs else None
        if last is not None and last.stage <= _ROW and last.reader.continues(line):
            return True
        if not RowReader.starts(line):
            return False
        self._at(_ROW).reader.add(line)
        return True


def _int(text: t.Optional[str]) -> t.Optional[int]:
    return int(text) if text else None
