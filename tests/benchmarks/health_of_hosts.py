# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a health check of many hosts costs, against a ping of the same hosts."""

from __future__ import annotations

import os
import sys
import tempfile
import typing as t
from pathlib import Path

import figures

ROUNDS = 3
FORKS = 10
_PLAY = """---
- name: Benchmark
  hosts: all
  gather_facts: false
  tasks:
    - name: Ask every host
      %s
"""
_PING = "ansible.builtin.ping:"
_HEALTH = """kentino.gpu.health_info:
        expected: {count: 8, pcie_width: 16}
      register: health
      failed_when: health.verdict != "pass\""""


def measure(root: Path, hosts: int) -> t.Iterator[figures.Figure]:
    environment = dict(os.environ, ANSIBLE_FORKS=str(FORKS), ANSIBLE_STDOUT_CALLBACK="ansible.builtin.minimal")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        names = "".join("    node-%03d:\n" % number for number in range(hosts))
        local = "  vars:\n    ansible_connection: local\n    ansible_python_interpreter: %s\n" % sys.executable
        (work / "hosts.yml").write_text("---\nall:\n  hosts:\n" + names + local)

        def play(name: str, task: str) -> t.Callable[[], figures.Run]:
            (work / name).write_text(_PLAY % task)
            argv = [str(root / "tests/simulator/simulate"), "h100x8", "--state", str(work / "state"), "--"]
            return lambda: figures.run([*argv, "ansible-playbook", "-i", str(work / "hosts.yml"), str(work / name)], environment)

        contestants = {"ping": play("ping.yml", _PING), "health_info": play("health.yml", _HEALTH)}
        for warm_up in contestants.values():
            warm_up()
        runs = figures.in_turn(ROUNDS, **contestants)
    ratio = figures.median_seconds(runs["health_info"]) / figures.median_seconds(runs["ping"])
    seen = {name + "_seconds": figures.seconds(found) for name, found in runs.items()}
    yield figures.Figure("%d hosts, %d forks: time of health_info / ping" % (hosts, FORKS), ratio, "x", "<= 1.5", seen)
