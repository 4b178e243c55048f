# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in for the programs of nccl-tests, 2.17.9 or, where the scenario says so, 2.13.12.

One process is all ranks: mpirun, the stand-in, tells it of them in KENTINO_SIM_MPI (C(host:processes), with commas between).
"""

from __future__ import annotations

import getopt
import os
import signal
import sys

from . import cuda, load, nccl_json
from .clock import Clock
from .journal import HOSTNAME
from .nccl_json import number, pairs, text
from .nccl_model import Model
from .state import Gpu, Node, folder, hang, is_process, obey

_OPTIONS = "t:g:b:e:i:f:n:m:w:N:p:c:o:d:r:z:y:T:hG:C:a:R:"
_NEWER_OPTIONS = "x:D:V:J:S:M:"
_LONG = {
    "nthreads": "t", "ngpus": "g", "minbytes": "b", "maxbytes": "e", "stepbytes": "i", "stepfactor": "f", "iters": "n", "agg_iters": "m",
    "warmup_iters": "w", "run_cycles": "N", "parallel_init": "p", "check": "c", "op": "o", "datatype": "d", "root": "r", "blocking": "z",
    "stream_null": "y", "timeout": "T", "cudagraph": "G", "report_cputime": "C", "average": "a", "local_register": "R", "help": "h",
    "report_timestamps": "S", "output_file": "J", "cta_policy": "x", "device_implementation": "D", "device_cta_count": "V", "memory": "M",
}  # fmt: skip
_TYPES = {
    "int8": 1, "uint8": 1, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8, "half": 2, "float": 4, "double": 8, "bfloat16": 2,
    "f8e4m3": 1, "f8e5m2": 1,
}  # fmt: skip
_OPERATIONS = ("sum", "prod", "max", "min", "avg", "mulsum")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_REDUCES = ("all_reduce", "reduce_scatter", "reduce", "sendrecv")  # the last one prints an operation too
_ROOTED = ("broadcast", "reduce")
_INIT_SECONDS = 2.6
_CUDA_ERROR, _NCCL_ERROR, _TIMEOUT, _NOT_IMPLEMENTED, _RESULTS = 2, 3, 4, 5, 7


class Options:
    def __init__(self) -> None:
        self.numbers = {
            "t": 1,
            "g": 1,
            "f": 1,
            "n": 20,
            "m": 1,
            "w": 1,
            "N": 1,
            "p": 0,
            "c": 1,
            "r": 0,
            "T": 0,
            "G": 0,
            "C": 0,
            "S": 0,
            "M": 0,
        }
        self.sizes = {"b": 32 << 20, "e": 32 << 20, "i": 1 << 20}
        self.operations = ["sum"]
        self.types = ["float"]
        self.output: str | None = None


class Stop(Exception):
    """The end of the run with this status, once everything was said."""


def main(argv: list[str]) -> int:
    path = folder()
    node = Node(path)
    program = os.path.basename(sys.argv[0])
    obey(node, program)
    if is_process():
        for one in (signal.SIGINT, signal.SIGPIPE):
            signal.signal(one, signal.SIG_DFL)
    old = node.get("nccl.tests").startswith("2.13")
    options = _parse(argv, program, old)
    if isinstance(options, int):
        return options
    try:
        return Run(path, node, program, [program, *argv], options, old).run()
    except Stop as exc:
        return int(exc.args[0])


def _parse(argv: list[str], program: str, old: bool) -> Options | int:
    options = Options()
    long = ["help" if name == "help" else name + "=" for name, letter in _LONG.items() if not old or letter + ":" not in _NEWER_OPTIONS]
    try:
        given, _rest = getopt.gnu_getopt(argv, _OPTIONS + ("" if old else _NEWER_OPTIONS), long)
    except getopt.GetoptError as exc:
        # It says how it is used and calls that a success.
        sys.stderr.write("%s: %s\n" % (program, "invalid option -- '%s'" % exc.opt if len(exc.opt) == 1 else exc.msg))
        sys.stdout.write("invalid option '?'\nUSAGE: %s \n\t[-t,--nthreads <num threads>] \n\t[-g,--ngpus <gpus per thread>] \n" % program)
        return 0
    for name, value in given:
        letter = _LONG[name[2:]] if name.startswith("--") else name[1:]
        if letter == "h":
            sys.stdout.write("USAGE: %s \n\t[-t,--nthreads <num threads>] \n\t[-g,--ngpus <gpus per thread>] \n" % program)
            return 0
        if letter in options.sizes:
            size = _size(value)
            if size is None:
                sys.stderr.write("invalid size specified for '%s'\n" % {"b": "minbytes", "e": "maxbytes", "i": "stepBytes"}[letter])
                return 255
            options.sizes[letter] = size
        elif letter == "o":
            options.operations = list(_OPERATIONS) if value == "all" else [value if value in _OPERATIONS else "sum"]
        elif letter == "d":
            options.types = list(_TYPES) if value == "all" else [value if value in _TYPES else "float"]
        elif letter == "J":
            options.output = value
        elif letter in options.numbers:
            options.numbers[letter] = int(value, 0) if value.lstrip("-").isdigit() else 0
    if options.sizes["b"] > options.sizes["e"]:
        sys.stderr.write("invalid sizes for 'minbytes' and 'maxbytes': %d > %d\n" % (options.sizes["b"], options.sizes["e"]))
        return 255
    return options


def _size(word: str) -> int | None:
    unit = word[-1:].lower() if word[-1:].isalpha() else ""
    digits = word[: len(word) - len(unit)]
    if unit not in _UNITS or not digits.replace(".", "", 1).isdigit():
        return None
    return int(float(digits) * _UNITS[unit])


def _hosts() -> list[tuple[str, int]]:
    """Processes by host; one here without mpirun."""
    found: dict[str, int] = {}
    for part in os.environ.get("KENTINO_SIM_MPI", HOSTNAME + ":1").split(","):
        host, _colon, count = part.rpartition(":")
        found[host] = found.get(host, 0) + int(count)
    return list(found.items())


def _amount(value: float, width: int) -> str:
    """A figure in as many characters as its column has."""
    digits = len(str(int(value))) if value >= 1 else 0
    if digits < width - 2:
        return "%*.2f" % (width, value)
    if digits < width - 1:
        return "%*.1f" % (width, value)
    if digits < width + 1:
        return "%*.0f" % (width, value)
    return "%*.*e" % (width, 1 if width >= 7 else 0, value)


class Run:
    def __init__(self, path: str, node: Node, program: str, words: list[str], options: Options, old: bool) -> None:
        self.path = path
        self.node = node
        self.program = program
        self.collective = program[: -len("_perf")]
        self.words = words
        self.options = options
        self.numbers = options.numbers
        self.old = old
        self.hosts = _hosts()
        self.per_process = self.numbers["t"] * self.numbers["g"]
        self.model = Model(node, self.collective, [(host, count * self.per_process) for host, count in self.hosts])
        self.clock = Clock()
        self.passed = _INIT_SECONDS + 0.2 * self.model.ranks / 8 + (1.5 if len(self.hosts) > 1 else 0)
        self.report: nccl_json.Report = nccl_json.Report(None)
        self.bandwidths: list[float] = []
        self.wrong = 0
        self.gpus: list[Gpu] = []

    def run(self) -> int:
        self.report = nccl_json.Report(self.options.output)
        if os.environ.get("NCCL_DEBUG"):
            code = self.node.number("nccl.library")
            self._print("NCCL version %d.%d.%d+cuda%s\n" % (code // 10000, code // 100 % 100, code % 100, self.node.get("cuda")))
        self.report.add('{"version":1,"start_time":%s,"args":[%s]' % (text(nccl_json.now()), ",".join(map(text, self.words))))
        self.report.add(',"env":[%s]' % ",".join(text("%s=%s" % pair) for pair in os.environ.items()))
        self.report.add(',"nccl_version":' + self.node.get("nccl.library"))
        self._head()
        self._limit()
        self._columns()
        with load.Load(self.path, self.program, self.gpus, self.clock.speed, share=0.45, used_mib=self._used_mib()):
            if self.model.hangs():
                self._hang()
            self._table()
        return self._foot()

    def _print(self, words: str) -> None:
        sys.stdout.write(words)
        sys.stdout.flush()

    def _head(self) -> None:
        names = ("t", "g", "w", "n", "m", "c", "G")
        threads, gpus, warmup, iterations, together, check, graph = (self.numbers[name] for name in names)
        small, large, step = (self.options.sizes[name] for name in "bei")
        stride = (self.numbers["f"], "factor") if self.numbers["f"] > 1 else (step, "bytes")
        if not self.old:
            library = self.node.get("nccl.library")
            self._print("# nccl-tests version %s nccl-headers=%s nccl-library=%s\n" % (self.node.get("nccl.tests"), library, library))
            self._print("# Collective test starting: %s\n" % self.program)
        self._print(
            "# nThread %d nGpus %d minBytes %d maxBytes %d step: %d(%s) warmup iters: %d iters: %d agg iters: %d validation: %d graph: %d\n"
            % (threads, gpus, small, large, *stride, warmup, iterations, together, check, graph)
        )
        self._print("#\n# Using devices\n")
        self.report.add(
            ',"config":{"nthreads":%d,"ngpus":%d,"minimum_bytes":%d,"maximum_bytes":%d,"step_%s":%d,"warmup_iters":%d,"iterations":%d,'
            '"aggregated_iterations":%d,"validation":%d,"graph":%d,"blocking_collectives":"false","parallel_init":"%s"'
            % (threads, gpus, small, large, stride[1], stride[0], warmup, iterations, together, check, graph,
               "true" if self.numbers["p"] else "false")
        )  # fmt: skip
        self._devices()

    def _devices(self) -> None:
        available, code, words = cuda.devices(self.node)
        if code:
            self._print("%s: Test CUDA failure %s '%s'\n" % (self.hosts[0][0], "common.cu:936" if self.old else "util.cu:553", words))
            self._fail(_CUDA_ERROR, self.hosts[0][0], os.getpid(), ())
        needed = max(count for _host, count in self.hosts) * self.per_process
        if needed > len(available):
            sys.stderr.write("Invalid number of GPUs: %d requested but only %d were found.\n" % (needed, len(available)))
            sys.stderr.write("Please check the number of processes and GPUs per process.\n")
            self._fail(_NOT_IMPLEMENTED, self.hosts[0][0], os.getpid(), ())
        self.gpus = available[:needed]
        rank, process, entries = 0, 0, []
        for host, count in self.hosts:
            for place in range(count * self.per_process):
                domain, bus, rest = self.gpus[place].raw("bus_id").split(":")
                where = "0x%s" % bus if self.old else "%s:%s:%s" % (domain, bus, rest[:2])
                pid = os.getpid() + process + place // self.per_process
                name = self.gpus[place].get("name")
                self._print("#  Rank %2d Group  0 Pid %6d on %10s device %2d [%s] %s\n" % (rank, pid, host, place, where, name))
                if place % self.per_process == 0:
                    entries.append(pairs(
                        ("rank", str(rank)), ("group", "0"), ("pid", str(pid)), ("hostname", text(host)), ("device", str(place)),
                        ("device_hex", text(where)), ("device_info", text(name)),
                    ))  # fmt: skip
                rank += 1
            process += count
        self.report.add(',"devices":[%s]}' % ",".join(entries))

    def _used_mib(self) -> int:
        return 900 + (3 * self.options.sizes["e"] >> 20)

    def _limit(self) -> None:
        """A message, its result and what the result should be must fit into the memory."""
        most = cuda.memory_mib(self.gpus[0])[0] << 20
        reserved = min(-(-most // (16 << 30)) * (1 << 30), 4 << 30)
        most = (most - reserved - (1 << 30)) // (3 if self.numbers["c"] else 2)
        sizes = self.options.sizes
        if sizes["e"] > most:
            sizes["e"] = most
            sizes["b"] = min(sizes["b"], most)
            self._print("#\n# Reducing maxBytes to %d due to memory limitation\n" % most)

    def _columns(self) -> None:
        title = "cputime" if self.numbers["C"] else "time"
        stamp = ("timestamp", "%Y-%m-%d %H:%M:%S") if self.numbers["S"] else ("", "")
        lead, wrong, unit = "# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s ", "%6s" if self.old else " %6s", "%5s" if self.old else "%6s"
        form = lead + wrong + "  %7s  %6s  %6s " + wrong
        units = lead + " " + unit + "  %7s  %6s  %6s  " + unit
        if not self.old:
            form, units = form + " %s", units + " %s"
        figures = (title, "algbw", "busbw", "#wrong")
        self._print(
            "#\n# %10s  %12s  %8s  %6s  %6s           out-of-place                       in-place          \n" % ("", "", "", "", "")
        )
        tail = () if self.old else (stamp[0],)
        self._print(form % ("size", "count", "type", "redop", "root", *figures, *figures, *tail) + "\n")
        tail = () if self.old else (stamp[1],)
        self._print(units % ("(B)", "(elements)", "", "", "", *("(us)", "(GB/s)", "(GB/s)", "") * 2, *tail) + "\n")
        self.report.add(',"results":[')

    def _hang(self) -> None:
        limit = self.numbers["T"]
        if not limit:
            hang(self.node.number("tool.%s.ignore_term" % self.program) != 0)
        self.clock.until(self.passed + limit)
        self._print("%s: Test timeout (%ds) common.cu:442\n" % (self.hosts[0][0], limit))
        self._fail(_TIMEOUT, self.hosts[0][0], os.getpid(), (549, 725))

    def _table(self) -> None:
        sizes = self._sizes()
        rooted = self.collective in _ROOTED
        roots = range(self.model.ranks) if rooted and self.numbers["r"] < 0 else [self.numbers["r"] if rooted else -1]
        operations = self.options.operations if self.collective in _REDUCES else ["none"]
        tests = [(kind, operation, root) for kind in self.options.types for operation in operations for root in roots]
        rows = [(size, *test) for test in tests for _cycle in range(max(1, self.numbers["N"])) for size in sizes]
        fails_at = len(rows) * self.node.number("nccl.fails_at") // 100 if self.node.number("nccl.fails_at") else -1
        if not self.numbers["w"]:
            sizes = []
        self.passed += sum(self.model.seconds(size) for size in sizes) * self.numbers["w"] * len(tests)
        for place, (size, kind, operation, root) in enumerate(rows):
            count = self._count(size, _TYPES[kind])
            each = count if self.collective not in ("all_gather", "reduce_scatter", "alltoall") else count * self.model.ranks
            row = "%12d  %12d  %8s  %6s  %6d" % (each * _TYPES[kind], count, kind, operation, root)
            if place == fails_at:
                self.clock.until(self.passed)
                self._fails(row)
            facts = [("size", str(each * _TYPES[kind])), ("count", str(count)), ("type", text(kind)), ("redop", text(operation))]
            facts.append(("root", text("%6d" % root)))
            for side in ("out_of_place", "in_place"):
                body, entry = self._side(each * _TYPES[kind], side, place, place >= len(rows) - 3)
                row += body
                facts.append((side, entry))
            self.clock.until(self.passed)
            self._print(row + "\n")
            facts += [("actual_iterations", str(self.numbers["n"])), ("experiment_name", text(""))]
            self.report.add(("," if place else "") + pairs(*facts))

    def _sizes(self) -> list[int]:
        sizes, size = [], self.options.sizes["b"]
        while size <= self.options.sizes["e"]:
            sizes.append(size)
            size = size * self.numbers["f"] if self.numbers["f"] > 1 else size + self.options.sizes["i"]
            if not size:
                break
        return sizes

    def _count(self, size: int, width: int) -> int:
        if self.collective in ("all_gather", "reduce_scatter", "alltoall"):
            return size // width // self.model.ranks & -(16 // width)
        return size // width

    def _side(self, size: int, side: str, place: int, late: bool) -> tuple[str, str]:
        seconds = self.model.seconds(size, side, place)
        checks = self.numbers["c"]
        self.passed += seconds * (1 + self.numbers["n"] * self.numbers["m"] + checks) + checks * size / 400e9
        algbw = size / seconds / 1e9
        busbw = algbw * self.model.factor()
        self.bandwidths.append(busbw)
        wrong = 0
        if checks and self.node.number("nccl.wrong") and late:
            wrong = self.node.number("nccl.wrong") + place
            self.wrong += 1
        # 2.13 checks no in-place all-to-all, since it has none.
        unchecked = not checks or (self.old and self.collective == "alltoall" and side == "in_place")
        width = 5 if self.old else 6
        shown = "%*s" % (width, "N/A" if unchecked else "%g" % wrong)
        usec = seconds * 1e6
        if self.numbers["C"]:
            usec = 3.1 + self.model.ranks * 1.7
        time_word = ("%7.2f" if usec < 1000 else "%7.1f" if usec < 10000 else "%7.0f") % usec if self.old else _amount(usec, 7)
        words = ["%6.2f" % value if self.old else _amount(value, 6) for value in (algbw, busbw)]
        body = "  %s  %s  %s  %s" % (time_word, *words, shown)
        if side == "in_place" and self.numbers["S"]:
            body += "%21s" % nccl_json.now()
        entry = pairs(
            ("cpu_time" if self.numbers["C"] else "time", number(usec)), ("alg_bw", number(algbw)), ("bus_bw", number(busbw)),
            ("nwrong", "null" if unchecked else number(wrong)),
        )  # fmt: skip
        return body, entry

    def _fails(self, row: str) -> None:
        """One rank fails. A row that has begun stands in the same line as what that rank says of it."""
        rank = min(self.node.number("nccl.fails_rank"), self.model.ranks - 1)
        host, pid, first = self.hosts[0][0], os.getpid(), 0
        for name, count in self.hosts:
            if rank < first + count * self.per_process:
                host = name
                pid += rank // self.per_process
                break
            first += count * self.per_process
        self._print(
            "%s%s: Test NCCL failure common.cu:439 'unhandled cuda error (run with NCCL_DEBUG=INFO for details) / '\n" % (row, host)
        )
        self._fail(_NCCL_ERROR, host, pid, (549, 613, 735))

    def _fail(self, status: int, host: str, pid: int, lines: tuple[int, ...]) -> None:
        """Every function on the way out says where it was."""
        places = ["common.cu:%d" % line for line in lines]
        places += ["%s.cu:87" % self.collective, "common.cu:767", "common.cu:1508"] if lines else []
        for place in [*places, "common.cu:1189"]:
            self._print(" .. %s pid %d: Test failure %s\n" % (host, pid, place))
        if "KENTINO_SIM_MPI" in os.environ:
            self._print_launcher(status, host)
        # Up to 2.18.3 the report is not closed properly: an assertion ends the program, and what was held back is lost.
        if self.report.open:
            sys.stderr.write(
                "%s: util.cu:410: void jsonOutputFinalize(): Assertion `jsonCurrState() == JSON_NONE' failed.\n" % self.program
            )
            self.report.parts = ""
            self.report.close()
            status = 134
        raise Stop(status)

    def _print_launcher(self, status: int, host: str) -> None:
        rule = "-" * 58
        self._print("%s\nPrimary job  terminated normally, but 1 process returned\na non-zero exit code. " % rule)
        self._print("Per user-direction, the job has been aborted.\n%s\n" % rule)
        sys.stderr.write("%s\nmpirun detected that one or more processes exited with non-zero status, thus causing\n" % rule)
        sys.stderr.write("the job to be terminated. The first process to do so was:\n\n")
        sys.stderr.write(
            "  Process name: [[%d,1],%d]\n  Exit code:    %d\n%s\n" % (os.getpid(), self.node.number("nccl.fails_rank"), status, rule)
        )

    def _foot(self) -> int:
        self.clock.until(self.passed + 0.4)
        if self.node.number("nccl.no_footer"):
            return 0
        average = sum(self.bandwidths) / len(self.bandwidths) if self.bandwidths else float("nan")
        wanted = os.environ.get("NCCL_TESTS_MIN_BW")
        low = wanted is not None and average < float(wanted) * 0.9
        word = "" if wanted is None else "FAILED" if low else "OK"
        self._print("# Out of bounds values : %d %s\n" % (self.wrong, "FAILED" if self.wrong else "OK"))
        self._print("# Avg bus bandwidth    : %g %s\n#\n" % (average, word))
        if not self.old:
            self._print("# Collective test concluded: %s\n" % self.program)
            if self.numbers["M"]:
                self._print(
                    "# GPU memory usage     : Initialization 412 MB | User-Allocated 96.0 MB | Collective 2.00 MB | Total  510 MB\n"
                )
            self._print("#\n")
        self._print("\n")
        okay = '"unchecked"' if wanted is None else '"false"' if low else '"true"'
        self.report.add('],"out_of_bounds":' + pairs(("count", str(self.wrong)), ("okay", '"%s"' % ("false" if self.wrong else "true"))))
        self.report.add(',"average_bus_bandwidth":' + pairs(("bandwidth", number(average)), ("okay", okay)))
        self.report.add(',"errors":[""],"end_time":%s}' % text(nccl_json.now()))
        self.report.close()
        if not self.wrong and not low:
            return 0
        self._print(" .. %s pid %d: Test failure common.cu:1189\n" % (self.hosts[0][0], os.getpid()))
        if "KENTINO_SIM_MPI" in os.environ:
            self._print_launcher(_RESULTS, self.hosts[0][0])
        return _RESULTS
