# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Throwaway bare nodes, and playbooks run against them. The nodes boot in seconds; each drill has its own."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import typing as t
from dataclasses import dataclass, field

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tests/tools"
MIRROR = "http://127.0.0.1:8099"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--nightly", action="store_true", help="also the drills that are too many for every change (make nightly)")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "nightly: only with --nightly")


def pytest_collection_modifyitems(config: pytest.Config, items: t.List[pytest.Item]) -> None:
    if not config.getoption("--nightly"):
        late = [item for item in items if item.get_closest_marker("nightly")]
        items[:] = [item for item in items if item not in late]
        config.hook.pytest_deselected(items=late)


@dataclass
class Run:
    """What ansible-playbook said. C(failed): the messages of the tasks that failed, newest last."""

    rc: int
    output: str
    results: t.List[t.Dict[str, t.Any]] = field(default_factory=list)

    @property
    def changed(self) -> t.List[str]:
        return [one["task"] for one in self.results if one["changed"]]

    @property
    def words(self) -> str:
        """The message in one line."""
        return " ".join(self.message.split())

    @property
    def message(self) -> str:
        """Of the task that ended the play."""
        failed = [str(one["message"]) for one in self.results if one["failed"]]
        return failed[-1] if failed else ""


# Cards without a fabric, and their driver by hand: for drills of roles that need one, but no other role.
DRIVER = """set -e
/opt/node/driver hardware l40sx4 >/dev/null
system=$(. /etc/os-release; echo debian$VERSION_ID)
echo "deb [trusted=yes] http://127.0.0.1:8099/compute/cuda/repos/$system/x86_64 /" >/etc/apt/sources.list.d/by-hand.list
printf 'Package: *nvidia* libcuda1\\nPin: version 580.105.08-*\\nPin-Priority: 1001\\n' >/etc/apt/preferences.d/by-hand
apt-get update -qq
export DEBIAN_FRONTEND=noninteractive
apt-get install -qq -y linux-headers-$(uname -r) nvidia-kernel-open-dkms nvidia-driver-cuda >/dev/null
rm /etc/apt/preferences.d/by-hand /etc/apt/sources.list.d/by-hand.list
modprobe nvidia
"""


class Node:
    def __init__(self, label: str, system: str) -> None:
        self.system = system
        self.container = "%s-%s" % (label, system)

    def run(self, script: str, check: bool = True) -> str:
        """What C(script) printed in the node, by bash."""
        argv = [str(TOOLS / "podman"), "exec", self.container, "bash", "-c", script]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
        if check and done.returncode:
            raise AssertionError("%s ended with %d in %s: %s%s" % (script, done.returncode, self.container, done.stdout, done.stderr))
        return done.stdout

    def install_driver(self) -> None:
        self.run(DRIVER)

    def copy(self, source: pathlib.Path, target: str) -> None:
        argv = [str(TOOLS / "podman"), "cp", str(source), "%s:%s" % (self.container, target)]
        subprocess.run(argv, check=True, capture_output=True)

    def is_running(self) -> bool:
        argv = [str(TOOLS / "podman"), "inspect", "--format", "{{.State.Running}}", self.container]
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip() == "true"

    def kill(self) -> None:
        """The power goes; the disk stays."""
        subprocess.run([str(TOOLS / "podman"), "kill", "--signal", "KILL", self.container], check=True, capture_output=True)

    def start(self) -> None:
        subprocess.run([str(TOOLS / "podman"), "start", self.container], check=True, capture_output=True)
        self.wait()

    def reboot(self) -> None:
        subprocess.run([str(TOOLS / "podman"), "restart", "--time", "10", self.container], check=True, capture_output=True)
        self.wait()

    def wait(self) -> None:
        self.run(
            "for try in $(seq 300); do case $(systemctl is-system-running) in running|degraded) exit 0;; esac; sleep 0.2; done; exit 1"
        )


@pytest.fixture(scope="session")
def label() -> str:
    return "%s-%d" % (os.environ.get("KENTINO_NODES", "kentino-gpu-drill"), os.getpid())


def _up(label: str, system: str) -> Node:
    environment = dict(os.environ, KENTINO_NODES=label)
    done = subprocess.run([str(TOOLS / "nodes"), "up", "--bare", system], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return Node(label, system)


def _down(label: str) -> None:
    subprocess.run([str(TOOLS / "nodes"), "down"], env=dict(os.environ, KENTINO_NODES=label), check=True, capture_output=True)


@pytest.fixture
def node(request: pytest.FixtureRequest, label: str) -> t.Iterator[Node]:
    """A bare node. Another system than Debian 12 by C(@pytest.mark.parametrize("node", ["debian-13"], indirect=True))."""
    yield _up(label, getattr(request, "param", "debian-12"))
    _down(label)


@pytest.fixture(scope="module")
def module_node(request: pytest.FixtureRequest, label: str) -> t.Iterator[Node]:
    """One node for all tests of a file, in their order; of another system as C(node)."""
    own = label + "-module"
    yield _up(own, getattr(request, "param", "debian-12"))
    _down(own)


def common() -> t.Dict[str, t.Any]:
    """The inventory's word for a node of the tests."""
    return {
        "gpu_repository_mirror": MIRROR,
        "gpu_repository_key_fingerprint": (ROOT / "build/repository/fingerprint").read_text().strip(),
        "gpu_source_mirror": MIRROR + "/sources",
        "gpu_expected": {"count": 8},
    }


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> t.Dict[str, str]:
    """Files of tasks as a site has them to drain and release a node; each writes its name and how many GPUs answer to /var/log/cluster."""
    variables = {}
    for name in ("drain", "release"):
        path = tmp_path / (name + ".yml")
        write = {"name": name, "ansible.builtin.shell": "echo %s $(nvidia-smi -L | wc -l) >>/var/log/cluster" % name, "changed_when": True}
        path.write_text(yaml.safe_dump([write]))
        variables["gpu_%s_tasks" % name] = str(path)
    return variables


@pytest.fixture
def play(tmp_path: pathlib.Path) -> t.Callable[..., Run]:
    """C(play(node, roles=["nvidia_driver"], nvidia_driver_branch="590")), or C(playbook="site.yml"); C(check=True), C(tags="...")."""

    def run(
        node: Node,
        roles: t.Sequence[str] = (),
        playbook: str = "",
        check: bool = False,
        tags: str = "",
        popen: bool = False,
        **variables: t.Any,
    ) -> t.Any:
        inventory = tmp_path / "inventory.yml"
        host = {
            "ansible_connection": "community.docker.docker",
            "ansible_pipelining": True,
            "ansible_host": node.container,
            "ansible_python_interpreter": "/usr/bin/python3",
        }
        inventory.write_text(yaml.safe_dump({"gpu_nodes": {"hosts": {node.system: host}, "vars": common()}}))
        path = ROOT / "playbooks" / playbook
        if roles:
            path = tmp_path / "play.yml"
            named = [{"role": "kentino.gpu." + role} for role in roles]
            path.write_text(yaml.safe_dump([{"name": "Drill", "hosts": "gpu_nodes", "gather_facts": False, "roles": named}]))
        extra = tmp_path / "variables.json"
        extra.write_text(json.dumps(variables))
        argv = ["ansible-playbook", "--inventory", str(inventory), str(path), "--extra-vars", "@%s" % extra, "--diff"]
        argv += ["--check"] if check else []
        argv += ["--tags", tags] if tags else []
        environment = dict(
            os.environ,
            PATH=os.pathsep.join((str(TOOLS / "shim"), os.path.dirname(sys.executable), os.environ["PATH"])),
            ANSIBLE_COLLECTIONS_PATH=str(ROOT / ".collections"),
            ANSIBLE_CONFIG=str(TOOLS / "ansible.cfg"),
            ANSIBLE_CALLBACK_RESULT_FORMAT="yaml",
            ANSIBLE_CALLBACKS_ENABLED="drill_results",
            ANSIBLE_CALLBACK_PLUGINS=str(pathlib.Path(__file__).parent / "callback"),
            KENTINO_DRILL_RESULTS=str(tmp_path / "results.jsonl"),
        )
        (tmp_path / "results.jsonl").write_text("")
        if popen:
            return subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        done = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        results = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
        return Run(done.returncode, re.sub(r"\x1b\[[0-9;]*m", "", done.stdout), results)

    return run
