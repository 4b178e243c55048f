# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run of playbooks/site.yml costs on a node that needs nothing, against as many pings. On a bare test node (root, podman)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import typing as t
from pathlib import Path

import figures

ROUNDS = 2
NODE = "debian-12"
LABEL = "kentino-gpu-bench"


def measure(root: Path) -> t.Iterator[figures.Figure]:
    nodes = [str(root / "tests/tools/nodes")]
    environment = dict(
        os.environ,
        KENTINO_NODES=LABEL,
        PATH=os.pathsep.join((str(root / "tests/tools/shim"), os.environ["PATH"])),
        ANSIBLE_STDOUT_CALLBACK="ansible.builtin.default",
        ANSIBLE_NOCOLOR="1",
    )
    subprocess.run([*nodes, "up", "--bare", NODE], env=environment, check=True, stdout=subprocess.DEVNULL)
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield from _measure(root, Path(folder), environment)
    finally:
        subprocess.run([*nodes, "down"], env=environment, check=True)


def _measure(root: Path, work: Path, environment: t.Mapping[str, str]) -> t.Iterator[figures.Figure]:
    # Without the load: the time of a burn is no cost of the playbook.
    values = {"ansible_host": "%s-%s" % (LABEL, NODE), "preflight_context": "prolog", "preflight_steps": ["health"]}
    (work / "values.json").write_text(json.dumps(values))
    inventory = str(root / "extensions/molecule/site/inventory")
    argv = ["ansible-playbook", "--inventory", inventory, "--limit", NODE, "--extra-vars", "@%s" % (work / "values.json")]

    def site() -> figures.Run:
        return figures.run([*argv, str(root / "playbooks/site.yml")], environment)

    site()
    second = site().output
    recap = dict(re.findall(r"(ok|changed)=(\d+)", second[second.rindex("PLAY RECAP") :]))
    if recap["changed"] != "0":
        raise figures.BenchmarkError("the second run changed something:\n" + "\n".join(re.findall("^changed: .*", second, re.MULTILINE)))
    tasks = int(recap["ok"])
    pings = "".join("    - name: Ping %d\n      ansible.builtin.ping:\n" % number for number in range(tasks))
    (work / "pings.yml").write_text("---\n- name: Pings\n  hosts: all\n  gather_facts: false\n  tasks:\n" + pings)
    runs = figures.in_turn(ROUNDS, site=site, pings=lambda: figures.run([*argv, str(work / "pings.yml")], environment))
    seen = {name + "_seconds": figures.seconds(found) for name, found in runs.items()}
    ratio = figures.median_seconds(runs["site"]) / figures.median_seconds(runs["pings"])
    yield figures.Figure("site.yml, second run: time / %d pings" % tasks, ratio, "x", "<= 1.5", seen)
    yield figures.Figure("site.yml, second run: tasks that do something", tasks, "", "<= 250", {})
