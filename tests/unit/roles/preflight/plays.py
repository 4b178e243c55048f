# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plays of the role against several simulated nodes, each a host of its own on this machine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[4]
HERE = Path(__file__).parent
sys.path.insert(0, str(ROOT / "tests/simulator"))
from simnode import render, scenario  # noqa: E402

# Real seconds for a play, on a machine that has much else to do.
_PATIENCE_SECONDS = 900


class Play:
    """A play and what it leaves in C(folder)."""

    def __init__(self, folder: Path) -> None:
        found = shutil.which("ansible-playbook", path=os.path.dirname(sys.executable)) or shutil.which("ansible-playbook")
        if found is None:
            pytest.skip("ansible-core is not installed")
        self._ansible = found
        self.folder = folder
        self._hosts: t.Dict[str, t.Dict[str, t.Any]] = {}

    def add(self, host: str, name: str, **variables: t.Any) -> None:
        """A host that is the simulated node C(name)."""
        folder = self.folder / "nodes" / host
        folder.mkdir(parents=True)
        node = scenario.load(name)
        problem = render.prepare(node, str(folder))
        if problem:
            pytest.skip(problem)
        expected = {"count": len(node.gpus), **variables.pop("expected", {})}
        self._hosts[host] = {"node": render.environment(str(folder)), "gpu_expected": expected, **variables}

    def start(self, **variables: t.Any) -> subprocess.Popen[str]:
        shared = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "answers": str(self.folder / "answers.json")}
        inventory = {"all": {"hosts": self._hosts, "vars": shared}}
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(inventory))
        argv = [self._ansible, "--inventory", str(self.folder / "hosts.yml"), "--extra-vars", json.dumps(variables), str(HERE / "play.yml")]
        return subprocess.Popen(argv, env=self._environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, **variables: t.Any) -> t.Dict[str, t.Any]:
        """C(gates) and C(results) by host, and C(printed)."""
        child = self.start(**variables)
        try:
            printed = child.communicate(timeout=_PATIENCE_SECONDS)[0]
        finally:
            child.kill()
        answers = self.folder / "answers.json"
        assert answers.exists(), printed[-8000:]
        return {"printed": printed, **json.loads(answers.read_text())}

    def _environment(self) -> t.Dict[str, str]:
        return dict(
            {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
            ANSIBLE_COLLECTIONS_PATH=str(ROOT / ".collections"),
            ANSIBLE_CONFIG=str(ROOT / "tests/tools/ansible.cfg"),
            ANSIBLE_CONNECTION_PLUGINS=str(HERE / "connections"),
            ANSIBLE_HOME=str(self.folder / "home"),
            ANSIBLE_ASYNC_DIR=str(self.folder / "async"),
            ANSIBLE_FORKS="8",
            ANSIBLE_PIPELINING="1",
            KENTINO_CUT_OFF=str(self.folder / "cut_off"),
        )

    def left(self) -> t.List[str]:
        """Processes of the nodes that are still there."""
        mine = re.compile(rb"(?:^|\0)KENTINO_SIM_STATE=" + re.escape(str(self.folder / "nodes").encode()))
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mine.search((entry / "environ").read_bytes()):
                    found.append((entry / "cmdline").read_text().replace("\0", " "))
            except OSError:
                continue
        return found


def table(printed: str) -> t.List[str]:
    """The last table, without its head."""
    lines = printed.splitlines()
    heads = [number for number, line in enumerate(lines) if line.split()[:3] == ["host", "step", "verdict"]]
    assert heads, printed[-3000:]
    return lines[heads[-1] + 1 :]
