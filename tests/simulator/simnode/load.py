# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a tool that computes does to the simulated node.

The tool writes the file C(load) into the state directory: facts and changes that hold as long as it lives, for NVML and for
nvidia-smi. C(load.pid) and C(load.since) say who it is, C(load.started) (microseconds) and C(load.speed) how long it has run in
its own time. The rules are C(ramp:FROM:SECONDS) and C(per_second). What stays after it goes into C(happened) and into the log.
"""

from __future__ import annotations

import os
import subprocess
import time
import zlib

from .journal import KERNEL
from .state import NOT_AVAILABLE, Gpu, Node, layer, ramp, since

# Bits of the event reasons and the counters of the time that they hold.
_COUNTERS = ((0x4, "sw_power_cap"), (0x10, "sync_boost"), (0x20, "sw_thermal"), (0x40, "hw_thermal"), (0x80, "power_brake"))


def jitter(*seed: object) -> float:
    """Between -1 and 1, the same for the same words: a run that is repeated prints the same."""
    return zlib.crc32(repr(seed).encode()) / 0x7FFFFFFF - 1


def whole(gpu: Gpu, name: str, otherwise: int = 0) -> int:
    """A figure of the scenario that steers the simulation."""
    value = gpu.raw(name)
    return otherwise if value == NOT_AVAILABLE else int(value)


def temperatures(gpu: Gpu, share: float = 1.0) -> tuple[int, int, int]:
    """Of the GPU: where it starts, where it gets to, and in how many seconds."""
    idle = whole(gpu, "temp.gpu")
    target = whole(gpu, "load.temp") + round(2 * jitter(gpu.raw("uuid"), "temp"))
    return idle, max(idle, round(idle + (target - idle) * share)), whole(gpu, "load.seconds", 150)


def temperature(gpu: Gpu, seconds: float) -> int:
    """C(seconds) after the load began, in the tool's own time."""
    begin, target, duration = temperatures(gpu)
    return ramp(begin, target, duration, seconds)


class Load:
    """One tool at work. A context manager; C(gpus) is what it computes on, C(share) how hard."""

    def __init__(self, path: str, tool: str, gpus: list[Gpu], speed: float, share: float = 1.0, used_mib: int = 0) -> None:
        self.path = os.path.join(path, "load")
        self.tool = tool
        self.gpus = gpus
        self.speed = speed
        self.share = share
        self.used_mib = used_mib
        self.started = 0.0

    def __enter__(self) -> Load:
        self.begin()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.end()

    def begin(self) -> None:
        pid = os.getpid()
        self.started = time.time()
        lines = ["load.pid=%d" % pid, "load.since=" + since(pid), "load.started=%d" % (self.started * 1e6), "load.speed=%r" % self.speed]
        for gpu in self.gpus:
            lines += [gpu.prefix + line for line in self._lines(gpu, pid)]
        with open(self.path + ".%d" % pid, "w", encoding="utf-8") as handle:
            handle.write("\n".join(lines) + "\n")
        os.replace(handle.name, self.path)

    def end(self) -> None:
        """Back to idle; what was counted meanwhile stays. Another tool may have taken over the file: that is left alone."""
        try:
            with open(self.path, encoding="utf-8") as handle:
                own = handle.readline() == "load.pid=%d\n" % os.getpid()
        except FileNotFoundError:
            return
        if own:
            node = Node(os.path.dirname(self.path))
            kept = ["energy", *("counter." + name for _bit, name in _COUNTERS)]
            facts = {gpu.prefix + name: node.get(gpu.prefix + name) for gpu in self.gpus for name in kept}
            happen(os.path.dirname(self.path), {key: value for key, value in facts.items() if value not in ("", NOT_AVAILABLE)})
            os.remove(self.path)

    def _lines(self, gpu: Gpu, pid: int) -> list[str]:
        facts = self._facts(gpu)
        lines = ["%s=%s" % (name, value) for name, value in facts.items() if gpu.raw(name) != NOT_AVAILABLE]
        idle, target, duration = temperatures(gpu, self.share)
        for name, begin, end in (
            ("temp.gpu", idle, target),
            ("temp.margin", whole(gpu, "temp.margin"), whole(gpu, "temp.gpu_max") - target),
            ("temp.memory", whole(gpu, "temp.memory"), target + whole(gpu, "load.memory_warmer")),
            ("fan", whole(gpu, "fan"), whole(gpu, "load.fan")),
        ):
            if gpu.raw(name) != NOT_AVAILABLE:
                lines.append("%s@ramp:%d:%d=%d" % (name, begin, duration, end))
        lines.append("energy@per_second=%d" % facts["power.draw"])  # milliwatts are millijoules a second
        lines += ["counter.%s@per_second=1000000" % name for bit, name in _COUNTERS if int(facts["reasons"]) & bit]
        number = 0
        while gpu.raw("process.%d.pid" % number) != NOT_AVAILABLE:
            number += 1
        for name, value in (("pid", pid), ("name", self.tool), ("type", "C"), ("used", self.used_mib)):
            lines.append("process.%d.%s=%s" % (number, name, value))
        return lines

    def _facts(self, gpu: Gpu) -> dict[str, int]:
        full = self.share >= 1
        idle = whole(gpu, "power.draw")
        power = whole(gpu, "load.power") * whole(gpu, "load.power_pct", 100) // 100
        power += round(power * 0.004 * jitter(gpu.raw("uuid"), "power"))
        draw = min(whole(gpu, "power.limit"), idle + round((power - idle) * self.share))
        clock = whole(gpu, "load.clock") if full else whole(gpu, "clock.graphics_max")
        used = min(whole(gpu, "memory.used") + self.used_mib, whole(gpu, "memory.total") - whole(gpu, "memory.reserved"))
        facts = {
            "pstate": 0,
            "reasons": whole(gpu, "load.reasons") if full else 0,
            "power.draw": draw,
            "power.average": draw - round(abs(draw * 0.003 * jitter(gpu.raw("uuid"), "average"))),
            "clock.graphics": clock,
            "clock.sm": clock,
            "clock.memory": whole(gpu, "clock.memory_max"),
            "util.gpu": 100,
            "util.memory": whole(gpu, "load.util_memory"),
            "pcie.gen": whole(gpu, "pcie.gen_max"),
            "pcie.gen_device": whole(gpu, "pcie.gen_device_max"),
            "memory.used": used,
            "memory.free": whole(gpu, "memory.total") - whole(gpu, "memory.reserved") - used,
        }
        # What a fault says of the time under load.
        prefix = gpu.prefix + "load.facts."
        facts.update({key[len(prefix) :]: int(value) for key, value in gpu.node.facts.items() if key.startswith(prefix)})
        return facts


def happen(path: str, facts: dict[str, str]) -> None:
    """Change facts of the node for good. C(+3) adds to what is there."""
    if any(value.startswith("+") for value in facts.values()):
        node = Node(path)
        facts = {key: str(node.number(key) + int(value)) if value.startswith("+") else value for key, value in facts.items()}
    place = os.path.join(path, "happened")
    before = layer(place)[0]
    with open(place + ".%d" % os.getpid(), "w", encoding="utf-8") as handle:
        handle.writelines("%s=%s\n" % pair for pair in {**before, **facts}.items())
    os.replace(handle.name, place)


def log(path: str, lines: list[tuple[float, int, str]]) -> None:
    """Let the kernel log C(lines), (seconds from now, priority, text), now.

    Where the state directory holds a C(kernel-line), a program that takes C(--priority N TEXT), the node has a journal of its own.
    """
    program = os.path.join(path, "kernel-line")
    if os.path.exists(program):
        for _at, priority, text in lines:
            subprocess.run([program, "--priority", str(priority), *text.split("\\n")], check=False)
        return
    now = int(time.time() * 1e6)
    with open(os.path.join(path, "kernel.log"), "rb") as handle:
        boot, usec, since_boot = handle.read().splitlines()[-1].split(b"\t")[:3]
    begin = int(usec) - int(since_boot)
    rows = ["%s\t%d\t%d\t%d\t%s\t%s\n" % (boot.decode(), now + int(at * 1e6), now + int(at * 1e6) - begin, priority, KERNEL, text)
            for at, priority, text in lines]  # fmt: skip
    for name in ("kernel.log", "kernel.added"):
        with open(os.path.join(path, name), "a", encoding="utf-8") as handle:
            handle.write("".join(rows))
    ring = os.path.join(path, "root/dev/kmsg")
    if os.path.isfile(ring) and not os.path.islink(ring):
        with open(ring, "r+", encoding="utf-8", errors="surrogateescape") as handle:
            number = len(handle.readlines())
            for (_at, priority, text), row in zip(lines, rows):
                handle.write("%d,%d,%s,-;%s\n" % (priority, number, row.split("\t")[2], text.replace("\\n", "\\x0a")))
                number += 1


class Events:
    """What the scenario lets happen while a tool computes (C(event.N) in the node's file), by per cent of its run."""

    def __init__(self, path: str, node: Node, speed: float) -> None:
        self.path = path
        self.speed = speed
        self.waiting: list[tuple[float, dict[str, str], list[tuple[float, int, str]]]] = []
        while node.get("event.%d.percent" % len(self.waiting)):
            prefix = "event.%d." % len(self.waiting)
            facts = dict(line.split("=", 1) for line in _numbered(node, prefix + "fact.%d"))
            words = [line.split(" ", 2) for line in _numbered(node, prefix + "log.%d")]
            lines = [(float(at), int(priority), text) for at, priority, text in words]
            self.waiting.append((float(node.get(prefix + "percent")), facts, lines))

    def reach(self, percent: float) -> None:
        for event in [event for event in self.waiting if event[0] <= percent]:
            self.waiting.remove(event)
            if event[1]:
                happen(self.path, event[1])
            if event[2]:
                own = str(os.getpid())
                log(self.path, [(at / self.speed, priority, text.replace("{pid}", own)) for at, priority, text in event[2]])


def _numbered(node: Node, form: str) -> list[str]:
    found: list[str] = []
    while node.get(form % len(found)):
        found.append(node.get(form % len(found)))
    return found
