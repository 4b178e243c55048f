# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a preflight takes beyond its tools, and what many nodes take against one. In real time: a simulated burn waits as a real one.

All nodes and the controller share this machine's cores, which is harder than a fleet, where each node has its own.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import typing as t
from pathlib import Path

import figures

FORKS = 5
# What is told has to be told at least this often.
_TOLD_SECONDS = 30


def measure(root: Path, hosts: int, burn_seconds: int) -> t.Iterator[figures.Figure]:
    with tempfile.TemporaryDirectory() as folder:
        one = _run(root, Path(folder) / "one", 1, burn_seconds)
        tool = one.tools[0]
        overhead = one.seconds - tool
        seen = {"play_seconds": [round(one.seconds, 1)], "gpu_burn_seconds": [tool]}
        name = "preflight (health, burn): beyond gpu_burn's own %.0f s" % tool
        yield figures.Figure(
            name, overhead / 600 * 100, "% of a 10-minute burn", "<= 2", {**seen, "overhead_seconds": [round(overhead, 1)]}
        )
        many = _run(root, Path(folder) / "many", hosts, burn_seconds)
        seen = {"one_seconds": [round(one.seconds, 1)], "many_seconds": [round(many.seconds, 1)], "told_seconds": many.told}
        yield figures.Figure(
            "%d nodes, %d forks: time of a preflight / one node" % (hosts, FORKS), many.seconds / one.seconds, "x", "<= 1.2", seen
        )
        if many.told:
            name = "%d nodes, %d forks: longest time without a line of progress" % (hosts, FORKS)
            yield figures.Figure(name, max(many.told), "s", "<= %d" % _TOLD_SECONDS, {"told_seconds": many.told})


class _Ran(t.NamedTuple):
    seconds: float
    tools: t.List[float]  # how long gpu_burn ran, by host
    told: t.List[float]  # between two tables of progress


def _run(root: Path, work: Path, hosts: int, burn_seconds: int) -> _Ran:
    work.mkdir()
    names = ["node-%03d" % number for number in range(hosts)]
    nodes = {name: _node(root, work / name) for name in names}
    shared = {
        "ansible_connection": "local",
        "ansible_python_interpreter": sys.executable,
        "gpu_expected": {"count": 8},
        "gpu_tool_environment": "{{ nodes[inventory_hostname] | combine({'KENTINO_SIM_SPEED': '1'}) }}",
        "nodes": nodes,
    }
    inventory = {"gpu_nodes": {"hosts": dict.fromkeys(names), "vars": shared}}
    (work / "hosts.json").write_text(json.dumps(inventory))
    options = {
        "preflight_context": "nightly",
        "preflight_steps": ["health", "burn"],
        "preflight_burn_seconds": burn_seconds,
        "preflight_baseline": "off",
        "preflight_run_id": "bench",
    }
    environment = dict(os.environ, ANSIBLE_FORKS=str(FORKS), ANSIBLE_ASYNC_DIR=str(work / "async"))
    environment.update(ANSIBLE_STDOUT_CALLBACK="ansible.builtin.default", ANSIBLE_CALLBACKS_ENABLED="ansible.posix.profile_tasks")
    argv = ["ansible-playbook", "--inventory", str(work / "hosts.json"), "--extra-vars", json.dumps(options)]
    done = figures.run([*argv, str(root / "playbooks/preflight.yml")], environment)
    results = [work / name / "root/var/lib/kentino-gpu/preflight/bench/burn.result.json" for name in names]
    tools = [json.loads(path.read_text())["state"]["facts"]["burn"]["wall_seconds"] for path in results]
    return _Ran(done.seconds, tools, _told(done.output))


def _node(root: Path, folder: Path) -> t.Dict[str, str]:
    argv = [str(root / "tests/simulator/simulate"), "h100x8", "--env", "--format", "json", "--state", str(folder)]
    found = re.search(r"\{.*\}", figures.run(argv).output, re.DOTALL)
    if found is None:
        raise figures.BenchmarkError("the simulator gave no environment")
    environment: t.Dict[str, str] = json.loads(found.group(0))
    return environment


def _told(output: str) -> t.List[float]:
    """Seconds between the tables of progress: C(profile_tasks) prints the time since the begin of the play behind each task."""
    times, shown = [], False
    for line in output.splitlines():
        if line.startswith("TASK "):
            shown = "Show how far all are" in line
        clock = re.search(r"\)\s+(\d+):(\d\d):(\d\d\.\d+) \*", line)
        if clock and shown:
            hours, minutes, rest = clock.groups()
            times.append(int(hours) * 3600 + int(minutes) * 60 + float(rest))
            shown = False
    return [round(after - before, 1) for before, after in zip(times, times[1:])]
