# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in for wilicc's gpu-burn, as of November 2025.

What the real one is known to do is done here too: without the compare kernel in the working directory nothing starts, the run
takes its time plus the 30 seconds that it leaves its clients to end, errors are counted anew at each summary, and the status is
0 whatever it found. Its clients are parts of this one process.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from . import cuda, load
from .clock import Clock
from .state import Gpu, Node, folder, hang, is_process, obey

_KERNEL = "compare.ptx"
_OPS_PER_PRODUCT = 1100048498688
_INIT_SECONDS = 1.8
_POLL_SECONDS = 5  # nvidia-smi -l 5
_EINVAL, _ENODEV, _ENOMEDIUM = 22, 19, 123
# What a child prints when CUDA fails under it; the text is the fault's.
_FAILURE = "Failure during compute: Error in Read faultyelemdata (gpu_burn-drv.cpp:290): %s\n"
_UNWRITTEN = 0x19B7C3E1  # an error counter that nobody wrote


class Options:
    def __init__(self) -> None:
        self.seconds = 10
        self.seconds_given = True
        self.doubles = self.tensors = self.list = self.help = False
        self.memory = 0  # MB, per cent below zero, 0 for nine tenths
        self.device = -1
        self.kernel = _KERNEL
        self.patience = 30
        self.problem = ""


def main(argv: list[str]) -> int:
    path = folder()
    node = Node(path)
    obey(node, "gpu_burn")
    if is_process():  # as a program in C: it dies of them and says nothing
        for number in (signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
    options = _parse(argv)
    if options.problem:
        sys.stderr.write(options.problem)
        return _EINVAL
    if options.help:
        sys.stdout.write("GPU Burn\nUsage: gpu-burn [OPTIONS] [TIME]\n")
        return 0
    if options.list:
        return _list(node)
    return Burn(path, node, options).run()


def _parse(argv: list[str]) -> Options:
    """Every word is looked at for every option, and the time is the word behind those that were counted."""
    options = Options()
    counted = 0
    place = 0
    while place < len(argv):
        word = argv[place]
        if "-h" in word:
            options.help = True
            return options
        if "-l" in word:
            options.list = True
            return options
        if "-d" in word:
            options.doubles = True
            counted += 1
        if "-tc" in word:
            options.tensors = True
            counted += 1
        if word[:2] in ("-m", "-i"):
            counted += 1
            value = word[2:]
            if not value and place + 1 < len(argv):
                place += 1
                counted += 1
                value = argv[place]
            if not value or (word[1] == "m" and not _memory(value)):
                options.problem = "Syntax error near %s\n" % word[:2]
                return options
            if word[1] == "m":
                options.memory = _memory(value)
            else:
                options.device = _number(value)
        elif word[:2] == "-c" and place + 1 < len(argv):
            options.kernel = argv[place + 1]
            counted += 2
        elif word[:5] == "-stts" and place + 1 < len(argv):
            options.patience = _number(argv[place + 1])
            counted += 2
        place += 1
    options.seconds_given = len(argv) > counted
    if options.seconds_given:
        options.seconds = _number(argv[counted])
    return options


def _memory(text: str) -> int:
    if text.endswith("%"):
        return -_number(text[:-1])
    return _number(text)


def _number(text: str) -> int:
    """As atoi."""
    digits = ""
    for place, letter in enumerate(text.strip()):
        if not (letter.isdigit() or (place == 0 and letter in "+-")):
            break
        digits += letter
    return int(digits) if digits.lstrip("+-") else 0


def _list(node: Node) -> int:
    gpus, code, words = cuda.devices(node)
    sys.stderr.write("cuInit returned %d (%s)\n" % (code, words))
    if not gpus:
        sys.stderr.write("Couldn't init CUDA: Error (gpu_burn-drv.cpp:316): %s\n" % words)
        sys.stderr.write("terminate called after throwing an instance of 'std::runtime_error'\n  what():  No CUDA capable GPUs found.\n\n")
        return 134
    for index, gpu in enumerate(gpus):
        sys.stdout.write("ID %d: %s, %dMB\n" % (index, gpu.get("name"), cuda.memory_mib(gpu)[0] * 1048576 // 1000000))
    return 0


class Client:
    """The burn of one GPU."""

    def __init__(self, gpu: Gpu, index: int, options: Options) -> None:
        self.gpu = gpu
        self.index = index
        self.total, self.available = cuda.memory_mib(gpu)
        size = options.memory
        self.use = size if size > 0 else self.available * (-size or 90) // 100
        self.product_mib = 512 if options.doubles else 256
        self.batch = (self.use - 2 * self.product_mib) // self.product_mib
        self.precision = ("DOUBLES" if options.doubles else "FLOATS") + (", using Tensor Cores" if options.tensors else "")
        kind = "gflops_doubles" if options.doubles else "gflops_tensor" if options.tensors else "gflops"
        rate = load.whole(gpu, "load." + kind) * load.whole(gpu, "load.rate_pct", 100) / 100
        self.rate = rate * (1 + 0.008 * load.jitter(gpu.raw("uuid"), kind))
        self.seconds = self.batch * _OPS_PER_PRODUCT / 1e9 / self.rate
        # It tells of a batch for the first time when the second one is done.
        self.next = _INIT_SECONDS + 0.3 * index + 2 * self.seconds
        if gpu.steer("burn.idle"):
            self.next = float("inf")
        self.done = self.errors = 0
        self.gflops = 0.0
        self.temperature = 0
        self.faulty = self.gone = False

    def head(self) -> str:
        return "Initialized device %d with %d MB of memory (%d MB available, using %d MB of it), using %s\n" % (
            self.index, self.total, self.available, self.use, self.precision,
        ) + "Results are %d bytes each, thus performing %d iterations\n" % (self.product_mib << 20, self.batch)  # fmt: skip

    def advance(self, second: int, percent: float) -> bool:
        """Take in what it reports up to C(second); whether it did."""
        reported = False
        while self.next <= second and not self.gone:
            self.next += self.seconds
            reported = True
            self.done += self.batch
            self.gflops = self.rate * (1 + 0.004 * load.jitter(self.gpu.raw("uuid"), self.done))
            begin, end = load.whole(self.gpu, "burn.errors_from"), load.whole(self.gpu, "burn.errors_until", 100)
            if self.gpu.steer("burn.errors") and begin <= percent <= end:
                self.errors += self.gpu.steer("burn.errors")
        return reported

    def die(self) -> None:
        self.gone = True
        self.done = -1
        self.errors -= 1

    def note(self) -> str:
        if self.done == -1:
            return "%d  (DIED!)" % self.errors
        return "%d  (WARNING!)" % self.errors if self.errors else "%d " % self.errors


class Burn:
    def __init__(self, path: str, node: Node, options: Options) -> None:
        self.path = path
        self.node = node
        self.options = options
        self.clock = Clock()
        self.clients: list[Client] = []
        self.header = "" if options.seconds_given else "Run length not specified in the command line. "
        self.header += "Using compare file: %s\nBurning for %d seconds.\n" % (options.kernel, options.seconds)
        # The C library holds back what is not for a terminal, and every child prints what was held back when it was born.
        self.terminal = sys.stdout.isatty()
        self.held = self.header
        self.inherited = "" if self.terminal else self.header
        self.announced = not self.terminal  # what the clients print at their start
        self.shown = False  # a record has been printed
        self.next_report = 10.0
        self.temperatures: list[Gpu] = []

    def run(self) -> int:
        if self.terminal:
            self._print("")
        code = self._start()
        if code is not None:
            return code
        used = max(client.use for client in self.clients) + 523
        with load.Load(self.path, "gpu_burn", [client.gpu for client in self.clients], self.clock.speed, used_mib=used):
            code = self._burn()
            if code is not None:
                return code
            self._end()
        return 0

    def _print(self, text: str) -> None:
        sys.stdout.write(self.held + text)
        sys.stdout.flush()
        self.held = ""

    def _start(self) -> int | None:
        self._name_gpus()
        gpus, code, words = cuda.devices(self.node)
        count = 1 if self.options.device >= 0 else max(1, len(gpus))
        sys.stderr.write("cuInit returned %d (%s)\n" % (code, words) * count)
        if not gpus:
            sys.stderr.write("Couldn't init CUDA: Error (gpu_burn-drv.cpp:316): %s\nNo CUDA devices\n" % words)
            self._print("")
            return _ENODEV
        if self.options.device >= 0:
            chosen = [(self.options.device, gpus[self.options.device])] if self.options.device < len(gpus) else []
        else:
            chosen = list(enumerate(gpus))
        self.clients = [Client(gpu, index, self.options) for index, gpu in chosen]
        reason = ""
        if not chosen:
            reason = "Error (gpu_burn-drv.cpp:112): invalid device ordinal"
        elif not os.path.exists(self.options.kernel):
            missing = "couldn't find compare kernel: " + self.options.kernel
            reason = "Error in %s (gpu_burn-drv.cpp:248): named symbol not found" % missing
        if reason:
            return self._none_starts(max(1, len(chosen)), reason)
        if self.node.get("tool.gpu_burn.init_failure"):
            return self._nothing_done(self.node.get("tool.gpu_burn.init_failure"))
        return None

    def _name_gpus(self) -> None:
        """C(nvidia-smi -L), and the one that goes on telling the temperatures."""
        path = os.path.join(self.path, "bin", "nvidia-smi")
        if not os.path.exists(path):
            sys.stderr.write("sh: 1: nvidia-smi: not found\nCould not invoke nvidia-smi, no temps available\n")
            return
        obey(self.node, "nvidia-smi")  # where that hangs, so does this
        self.temperatures = [gpu for gpu in self.node.gpus() if not gpu.steer("handle_error") and not self.node.number("nvml.init")]
        for gpu in self.temperatures:
            sys.stdout.write("GPU %d: %s (UUID: %s)\n" % (gpu.index, gpu.get("name"), gpu.get("uuid")))
        sys.stdout.flush()

    def _none_starts(self, count: int, reason: str) -> int:
        self.clock.until(1)
        sys.stderr.write(("Couldn't init a GPU test: %s\n" % reason) * count)
        self._print(self.inherited * count)
        died = " - ".join(["-1 (0 Gflop/s)"] * count)
        counters = "- ".join(["%d  (DIED!)" % _UNWRITTEN] * count)
        self._print("\r0.0%%  proc'd: %s   errors: %s  temps: %s " % (died, counters, " - ".join(["--"] * count)))
        sys.stderr.write("".join("read[%d] error 0" % number for number in range(count)) + "\n\nNo clients are alive!  Aborting\n")
        return _ENOMEDIUM

    def _nothing_done(self, reason: str) -> int:
        """Seen with a build for other cards: no client works, nobody notices, and the block calls everything OK."""
        sys.stderr.write(("Couldn't init a GPU test: %s\n" % reason) * len(self.clients))
        self.clock.until(self.options.seconds + 1)
        self._print("\nKilling processes with SIGTERM (soft kill)\n")
        self.clock.until(self.options.seconds + 1 + self.options.patience)
        self._print("done\n" + self._results())
        return 0

    def _burn(self) -> int | None:
        events = load.Events(self.path, self.node, self.clock.speed)
        hang_at, cut_at = self.node.number("tool.gpu_burn.hang_at"), self.node.number("tool.gpu_burn.cut_at")
        second = 0
        while True:
            percent = min(second / self.options.seconds * 100, 100.0) if self.options.seconds > 0 else 100.0
            self.clock.until(second)
            events.reach(percent)
            if hang_at and percent >= hang_at:
                self._hang()
            if second > _INIT_SECONDS and not self.announced:
                self._print("".join(client.head() for client in self.clients))
                self.announced = True
            news = [client.advance(second, percent) for client in self.clients]
            news += [self._dies(client, percent) for client in self.clients]
            if second % _POLL_SECONDS == 0:
                self._poll(second)
            self.shown = self.shown or any(news)
            if self.shown and (any(news) or second % _POLL_SECONDS == 0 or second > self.options.seconds):
                record = self._record(percent)
                if cut_at and percent >= cut_at:
                    self._print(record[: len(record) * 2 // 3])
                    return 0
                self._print(record)
                self._notice(percent)
                if all(client.gone for client in self.clients):
                    sys.stderr.write("\n\nNo clients are alive!  Aborting\n")
                    return _ENOMEDIUM
            if second > self.options.seconds:
                return None
            second += 1

    def _hang(self) -> None:
        """The GPU's client hangs in the driver, and with it the parent, which waits for it."""
        ignore = self.node.number("tool.gpu_burn.ignore_term") != 0
        os.fork()  # killing the parent alone must leave something behind
        hang(ignore)

    def _dies(self, client: Client, percent: float) -> bool:
        dies_at = load.whole(client.gpu, "burn.dies_at")
        if not dies_at or percent < dies_at:
            return False
        number = self.clients.index(client)
        if client.gone:
            sys.stderr.write("read[%d] error 0" % number)
            client.errors += _UNWRITTEN
            client.errors = (client.errors + 0x80000000) % 0x100000000 - 0x80000000
            return False
        sys.stderr.write(_FAILURE % client.gpu.raw("burn.dies_of"))
        sys.stderr.flush()
        self._print("" if self.terminal else self.inherited + client.head())
        client.die()
        return True

    def _poll(self, second: int) -> None:
        """One value for each client, in nvidia-smi's order. With -i all of them go into the only place, and the last one stays."""
        for number, gpu in enumerate(self.temperatures):
            self.clients[number % len(self.clients)].temperature = load.temperature(gpu, second) if self._burns(gpu) else _idle(gpu)

    def _burns(self, gpu: Gpu) -> bool:
        return any(client.gpu.index == gpu.index and not client.gone for client in self.clients)

    def _record(self, percent: float) -> str:
        work = "- ".join("%d (%.0f Gflop/s) " % (client.done, client.gflops) for client in self.clients)
        counters = "- ".join(client.note() for client in self.clients)
        temperatures = "- ".join("%d C " % client.temperature if client.temperature else "-- " for client in self.clients)
        return "\r%.1f%%  proc'd: %s  errors: %s  temps: %s" % (percent, work, counters, temperatures)

    def _notice(self, percent: float) -> None:
        for client in self.clients:
            client.faulty = client.faulty or client.errors != 0
        if self.next_report < percent:
            self.next_report = percent + 10
            self._print("\n\tSummary at:   %s\n\n" % time.strftime("%a %b %e %H:%M:%S %Z %Y"))
            for client in self.clients:
                client.errors = 0

    def _end(self) -> None:
        begin = self.options.seconds + 1
        self._print("\nKilling processes with SIGTERM (soft kill)\n")
        waits = [client for client in self.clients if not client.gone]
        # A client looks for the signal between two batches.
        late = [client for client in waits if client.next - begin > self.options.patience]
        for client in sorted((client for client in waits if client not in late), key=lambda one: one.next):
            self.clock.until(min(client.next, begin + self.options.patience))
            head = "" if self.terminal else self.inherited + client.head()
            self._print(head + "Freed memory for dev %d\nUninitted cublas\n" % client.index)
        self.clock.until(begin + self.options.patience)
        self._print(("\nKilling processes with SIGKILL (force kill)\n" if late else "") + "done\n" + self._results())

    def _results(self) -> str:
        lines = ["\nTested %d GPUs:\n" % len(self.clients)]
        for number, client in enumerate(self.clients):
            word = "FAULTY" if client.faulty else "OK"
            if load.whole(client.gpu, "burn.called_ok"):
                word = "OK"
            lines.append("\tGPU %d: %s\n" % (number, word))
        return "".join(lines)


def _idle(gpu: Gpu) -> int:
    return gpu.number("temp.gpu") or 0
