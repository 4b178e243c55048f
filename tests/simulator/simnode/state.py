# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the simulated node is like at this reading, as the stand-in tools see it.

The flat file C(node) that simnode/render.py writes holds C(key=value) for a fact and C(key@rule=value) for a change. Over it
lie C(happened), what a run has done to the node for good, and C(load), what a tool does to it as long as the tool lives (see
load.py). lib/state.c reads them in the same way for NVML. A value C(N/A) is "not supported", C(!15) is NVML error 15.

Tools start often, so this imports as little as it can: typing alone would cost as much as reading the file.
"""

from __future__ import annotations

import os
import sys
import time

NOT_AVAILABLE = "N/A"
# NVML's words for its codes, as nvidia-smi prints them in place of a value.
ERROR_WORDS = {
    4: "Insufficient Permissions",
    10: "Timeout",
    13: "Function Not Found",
    15: "GPU is lost",
    16: "GPU requires reset",
    26: "Requested functionality has been deprecated",
    999: "Unknown Error",
}


def folder() -> str:
    """The state directory, or the end: a stand-in outside a simulated node must not be taken for a healthy tool."""
    path = os.environ.get("KENTINO_SIM_STATE", "")
    if not path:
        sys.stderr.write("simulated tool: KENTINO_SIM_STATE is not set; start it through tests/simulator/simulate\n")
        sys.exit(70)
    return path


class Node:
    """The facts at one reading."""

    def __init__(self, path: str, count: bool = False) -> None:
        self.facts, self.changes = _read(os.path.join(path, "node"))
        self.start = int(self.facts["start"]) / 1e6
        self.readings = _count(os.path.join(path, "readings")) if count else 0
        self._change()
        self.facts.update(layer(os.path.join(path, "happened"))[0])
        self._load(path)

    def _change(self) -> None:
        seconds = int(time.time() - self.start)
        for key, rule, value in self.changes:
            kind, _colon, argument = rule.partition(":")
            if kind == "from_reading":
                if self.readings >= int(argument):
                    self.facts[key] = value
            elif kind == "after_seconds":
                if seconds >= int(argument):
                    self.facts[key] = value
            else:
                steps = self.readings - 1 if kind == "per_reading" else seconds
                self.facts[key] = str(int(self.facts.get(key, "0")) + int(value) * max(0, steps))

    def _load(self, path: str) -> None:
        facts, changes = layer(os.path.join(path, "load"))
        if not facts or not alive(int(facts["load.pid"]), facts["load.since"]):
            return
        self.facts.update(facts)
        seconds = max(0.0, time.time() - int(facts["load.started"]) / 1e6) * float(facts["load.speed"])
        for key, rule, value in changes:
            kind, _colon, argument = rule.partition(":")
            if kind == "ramp":
                begin, _colon, duration = argument.partition(":")
                self.facts[key] = str(ramp(int(begin), int(value), int(duration), seconds))
            else:
                self.facts[key] = str(int(self.facts.get(key, "0")) + int(value) * int(seconds))

    def get(self, key: str, otherwise: str = "") -> str:
        return self.facts.get(key, otherwise)

    def number(self, key: str) -> int:
        """For what steers the simulation: 0 where it is not set."""
        return int(self.facts.get(key, "0"))

    def gpus(self) -> list[Gpu]:
        return [Gpu(self, index) for index in range(self.number("gpus"))]


def _read(path: str) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
    facts: dict[str, str] = {}
    changes: list[tuple[str, str, str]] = []
    with open(path, encoding="utf-8") as handle:
        for line in handle:
            key, _equals, value = line.rstrip("\n").partition("=")
            key, at, rule = key.partition("@")
            if at:
                changes.append((key, rule, value))
            else:
                facts[key] = value
    return facts, changes


def layer(path: str) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
    try:
        return _read(path)
    except FileNotFoundError:
        return {}, []


def ramp(begin: int, target: int, duration: int, seconds: float) -> int:
    """How a sensor follows the load: fast at first, and at C(target) after C(duration) seconds."""
    part = min(1.0, seconds / duration) if duration > 0 else 1.0
    return int(begin + (target - begin) * part * (2 - part) + 0.5)


def since(pid: int) -> str:
    """When the process started, in clock ticks since the boot; empty where it has ended, also where nobody has waited for it."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as handle:
            words = handle.read().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if words[0] in "ZX" else words[19]


def alive(pid: int, started: str) -> bool:
    """Whether that process still runs, and not another one under its number."""
    return bool(started) and since(pid) == started


class Gpu:
    def __init__(self, node: Node, index: int) -> None:
        self.node = node
        self.index = index
        self.prefix = "gpu.%d." % index

    def raw(self, name: str) -> str:
        return self.node.facts.get(self.prefix + name, NOT_AVAILABLE)

    def steer(self, name: str) -> int:
        """A switch of the simulation (handle_error, hang, off_bus): 0 where it is not set."""
        value = self.raw(name)
        return 0 if value == NOT_AVAILABLE else int(value)

    def get(self, name: str) -> str:
        """The value, or the words that stand in its place."""
        if self.steer("error"):
            return ERROR_WORDS.get(self.steer("error"), "Unknown Error")
        value = self.raw(name)
        return ERROR_WORDS.get(int(value[1:]), "Unknown Error") if value.startswith("!") else value

    def number(self, name: str) -> int | None:
        value = self.get(name)
        return int(value, 0) if value.lstrip("-")[:1].isdigit() else None

    @property
    def bus_id(self) -> str:
        """As nvidia-smi writes it: C(00000000:18:00.0)."""
        domain, rest = self.raw("bus_id").split(":", 1)
        return "%08X:%s" % (int(domain, 16), rest.upper())


def _count(path: str) -> int:
    """One byte for each reading, appended: no lock is needed, and none can be left behind."""
    with open(path, "ab", buffering=0) as handle:
        handle.write(b".")
        return os.fstat(handle.fileno()).st_size


def is_process() -> bool:
    """Whether the tool has a process to itself; tests call it in their own (see in_process.py)."""
    try:
        sys.stdout.fileno()
    except (OSError, ValueError):  # io.UnsupportedOperation is both
        return False
    return True


def obey(node: Node, tool: str) -> None:
    """Hang or fail where the scenario says so of C(tool)."""
    if node.number("tool.%s.hang" % tool):
        hang(node.number("tool.%s.ignore_term" % tool) != 0)
    message = node.get("tool.%s.fail" % tool)
    if message:
        sys.stderr.write(message + "\n")
        sys.exit(1)


def hang(ignore_term: bool = False) -> None:
    sys.stdout.flush()
    if ignore_term:
        import signal

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(3600)
