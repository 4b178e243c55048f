# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Simulated nodes for the tests of the checks, each asked in a child process of its own."""

from __future__ import annotations

import ctypes
import faulthandler
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
import typing as t
import uuid
from pathlib import Path

from ansible_collections.kentino.gpu.plugins.module_utils._check import gpu, health, kernel_log

REPOSITORY = Path(__file__).resolve().parents[5]
COMMAND = REPOSITORY / "bin" / "kentino-gpu"
SIMULATOR = REPOSITORY / "tests" / "simulator"
sys.path.insert(0, str(SIMULATOR))
from simnode import render, scenario  # noqa: E402

try:
    # Once here instead of once in each child.
    import pynvml
except ImportError:
    pynvml = None

NODES = tuple(scenario.nodes())
STATE = "/var/lib/kentino-gpu/state.json"
# A child that is not back by then is a hang of what is tested.
_PATIENCE_SECONDS = 120


class Node:
    """A simulated node. C(nvml_problem) says why it has no NVML although it should."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.environment: t.Dict[str, str] = {}
        self.become(name)

    def become(self, name: str) -> None:
        """From now on it is so; a fault added to the running node is logged now."""
        self.scenario = scenario.load(name)
        self.nvml_problem = render.prepare(self.scenario, str(self.folder))
        if pynvml is None:
            self.nvml_problem = "nvidia-ml-py is not installed"

    @property
    def root(self) -> Path:
        return self.folder / "root"

    @property
    def state(self) -> Path:
        return Path(str(self.root) + STATE)

    @property
    def count(self) -> int:
        return len(self.scenario.gpus)

    def pci(self, index: int) -> str:
        """Of the GPU as the scenario numbers it."""
        return str(self.scenario.gpus[index]["bus_id"])[:-2].lower()

    def say(self, *texts: str, priority: int = 4) -> None:
        """The kernel logs this now."""
        log = self.folder / "kernel.log"
        ring = self.root / "dev" / "kmsg"
        _boot, usec, since_boot, *_rest = log.read_text(errors="surrogateescape").splitlines()[-1].split("\t")
        number = len(ring.read_bytes().splitlines()) if ring.exists() else 0
        now = max(int(time.time() * 1e6) - len(texts), int(usec) + 1)
        for place, text in enumerate(texts):
            since = int(since_boot) + now + place - int(usec)
            with log.open("a", errors="surrogateescape") as handle:
                handle.write("0\t%d\t%d\t%d\tkernel\t%s\n" % (now + place, since, priority, text))
            if ring.exists():
                with ring.open("a", errors="surrogateescape") as handle:
                    handle.write("%d,%d,%d,-;%s\n" % (priority, number + place, since, text))

    def lines(self) -> int:
        """How many the journal has of the running boot."""
        return sum(row.startswith("0\t") for row in (self.folder / "kernel.log").read_text(errors="surrogateescape").splitlines())

    def forget(self, lines: int) -> None:
        """The journal drops its oldest lines of the running boot, and the ring buffer as many."""
        log = self.folder / "kernel.log"
        rows = [row for row in log.read_text(errors="surrogateescape").splitlines(True) if row.startswith("0\t")]
        log.write_text("".join(rows[lines:]), errors="surrogateescape")
        ring = self.root / "dev" / "kmsg"
        ring.write_bytes(b"".join(ring.read_bytes().splitlines(True)[lines:]))

    def reboot(self) -> None:
        """What was the running boot is the one before."""
        new, facts = uuid.uuid4().hex, self.folder / "node"
        old = re.search(r"^boot_id=(\w+)$", facts.read_text(), re.MULTILINE).group(1)  # type: ignore[union-attr]
        facts.write_text(re.sub(r"(?m)^boot_id=.*$", "boot_id=" + new, facts.read_text()))
        facts.write_text(re.sub(r"(?m)^previous_boot_id=.*$", "previous_boot_id=" + old, facts.read_text()))
        (self.root / "proc/sys/kernel/random/boot_id").write_text(str(uuid.UUID(new)) + "\n")
        log = self.folder / "kernel.log"
        rows = [row for row in log.read_text().splitlines(True) if row.startswith("0\t")]
        begin = "0\t%d\t0\t5\tkernel\tLinux version 6.8.0 (simulated)\n" % (time.time() * 1e6)
        log.write_text("".join("-1" + row[1:] for row in rows) + begin)
        (self.root / "dev/kmsg").write_text("5,0,0,-;Linux version 6.8.0 (simulated)\n")

    def tool(self, name: str, script: str) -> None:
        """Put a shell script in the place of a tool."""
        path = self.folder / "bin" / name
        if path.is_symlink() or path.exists():
            path.unlink()
        path.write_text("#!/bin/sh\n" + script + "\n")
        path.chmod(0o755)

    def check(self, names: t.Sequence[str] = health.CHECKS, remember: bool = False, **options: t.Any) -> t.Dict[str, t.Any]:
        """The report of this node. C(options): those of both checks, or of one as C(gpu={...}), C(log={...})."""
        own = {which: dict(options.pop(which, {})) for which in ("gpu", "log")}
        shared = {"deadline_seconds": 20, **({"state_path": STATE} if remember else {}), **options}
        expected = own["gpu"].pop("expected", {"count": self.count})
        report: t.Dict[str, t.Any] = self.ask(
            lambda: health.run(
                names,
                gpu.Options(**{**shared, "expected": expected, **own["gpu"]}),
                kernel_log.Options(**{**shared, **own["log"]}),
            )
        )
        return report

    def cli(self, *words: str, **options: t.Any) -> subprocess.CompletedProcess[bytes]:
        """The command line on this node, in a process of its own."""
        environment = {**os.environ, **render.environment(str(self.folder)), **self.environment, **options.pop("env", {})}
        environment.pop("NVIDIA_VISIBLE_DEVICES", None)
        options = {"capture_output": True, "check": False, "timeout": _PATIENCE_SECONDS, **options}
        return subprocess.run([sys.executable, str(COMMAND), *words], env=environment, **options)

    def call(self, tool: str, *words: str) -> bytes:
        """What a tool of this node prints."""
        environment = {**os.environ, **render.environment(str(self.folder))}
        return subprocess.run([str(self.folder / "bin" / tool), *words], env=environment, capture_output=True, check=True).stdout

    def ask(self, question: t.Callable[[], t.Any]) -> t.Any:
        """What the question answers on this node, as JSON has it; it is asked in a child process."""
        answer = self.folder / "answer.json"
        pid = os.fork()
        if pid == 0:
            self._answer(question, answer)
        until = time.monotonic() + _PATIENCE_SECONDS
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > until:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                raise AssertionError("no answer within %d s" % _PATIENCE_SECONDS)
            time.sleep(0.005)
        found = json.loads(answer.read_text(encoding="utf-8"))
        if "traceback" in found:
            raise AssertionError(found["traceback"])
        return found["answer"]

    def _answer(self, question: t.Callable[[], t.Any], answer: Path) -> t.NoReturn:
        faulthandler.disable()  # pytest's would report the crashes that are meant to happen
        try:
            os.environ.update({**render.environment(str(self.folder)), **self.environment})
            if "NVIDIA_VISIBLE_DEVICES" not in self.environment:
                os.environ.pop("NVIDIA_VISIBLE_DEVICES", None)
            # The loader looks at LD_LIBRARY_PATH only when a process starts. What is loaded already it finds by its name.
            library = self.folder / "lib" / "libnvidia-ml.so.1"
            if library.exists():
                ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
            found = {"answer": question()}
        except BaseException:
            found = {"traceback": traceback.format_exc()}
        try:
            answer.write_text(json.dumps(found), encoding="utf-8")
        finally:
            os._exit(0)


def codes(report: t.Mapping[str, t.Any], worse_than: str = "") -> t.List[str]:
    """The codes of the findings; with C(worse_than) C(pass) only of those that count."""
    return [finding["code"] for finding in report["findings"] if finding["verdict"] != worse_than]


def verdict(report: t.Mapping[str, t.Any], name: str) -> str:
    return next(str(check["verdict"]) for check in report["checks"] if check["name"] == name)


def evidence(report: t.Mapping[str, t.Any], name: str) -> str:
    return next(str(check["evidence"]) for check in report["checks"] if check["name"] == name)


def finding(report: t.Mapping[str, t.Any], code: str) -> t.Dict[str, t.Any]:
    """The first finding with this code; where there is none, the test fails and says what there was."""
    found: t.List[t.Dict[str, t.Any]] = [item for item in report["findings"] if item["code"] == code]
    assert found, "no finding %s, only %s" % (code, codes(report))
    return found[0]
