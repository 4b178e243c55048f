# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The health playbook against booted nodes: their systemd, their journal over real reboots, simulated GPUs."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import time
import typing as t
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[4]
NODES = REPOSITORY / "tests/tools/nodes"
INVENTORY = REPOSITORY / "extensions/molecule/inventory/hosts.yml"
# Below the directory that stands for / to whatever asks about the simulated GPUs.
STATE_FOLDER = "/var/lib/simulated-node/root/var/lib/kentino-gpu"
STATE = STATE_FOLDER + "/state.json"
OFF_THE_BUS = "NVRM: Xid (PCI:0000:{bus}:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


@dataclasses.dataclass
class Play:
    """One run of the playbook on one or more nodes."""

    status: int
    tasks: t.Dict[str, t.Dict[str, t.Any]]  # by name of the task, then of the host
    text: str

    def check(self, node: str) -> t.Dict[str, t.Any]:
        return self.tasks["Check the node"][node]

    def gate(self, node: str) -> t.Dict[str, t.Any]:
        return self.tasks["Stop this host unless it is fit"][node]

    def kernel_log(self, node: str) -> t.Dict[str, t.Any]:
        return next(check for check in self.check(node)["checks"] if check["name"] == "kernel_log")


def run_health(limit: str, *options: str) -> Play:
    command = ["ansible-playbook", "--inventory", str(INVENTORY), "--limit", limit, *options, str(REPOSITORY / "playbooks/health.yml")]
    environment = dict(os.environ, ANSIBLE_STDOUT_CALLBACK="ansible.posix.json")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    begin = re.search(r"^\{$", done.stdout, re.MULTILINE)  # behind the gate's table
    assert begin, done.stdout + done.stderr
    tasks: t.Dict[str, t.Dict[str, t.Any]] = {}
    for play in json.loads(done.stdout[begin.start() :])["plays"]:
        for task in play["tasks"]:
            tasks.setdefault(task["task"]["name"].rpartition(" : ")[2], {}).update(task["hosts"])
    return Play(done.returncode, tasks, done.stdout)


@pytest.fixture
def node(host):
    """A node that has just booted, with healthy GPUs, and was never checked."""
    name = host.check_output("cat /etc/hostname")
    host.run_expect([0], "rm -rf %s && /opt/node/gpus h100x8" % STATE_FOLDER)
    reboot(name)
    return name


def reboot(*names: str) -> None:
    subprocess.run([str(NODES), "reboot", *names], check=True, capture_output=True, timeout=120)


def log(host, *lines: str) -> None:
    """The kernel says this, and it has reached the journal."""
    host.run_expect([0], "/opt/node/kernel-line " + " ".join("'%s'" % line.replace("'", "'\\''") for line in lines))
    for _look in range(50):
        if lines[-1] in host.check_output("journalctl --dmesg --boot=0 --output=cat --no-pager"):
            return
        time.sleep(0.1)
    raise AssertionError("the journal does not have: " + lines[-1])


def test_systemd_has_booted_and_no_unit_failed(host):
    assert host.file("/proc/1/comm").content_string.strip() == "systemd"
    assert host.check_output("systemctl is-system-running") == "running"


def test_healthy_node_goes_on(host, node):
    play = run_health(node)
    assert play.status == 0, play.text
    assert play.gate(node)["open"]
    assert {check["name"]: check["verdict"] for check in play.check(node)["checks"]} == {"gpu": "pass", "kernel_log": "pass"}


def test_gpu_off_the_bus_stops_its_node_and_no_other_and_says_what_to_do(host, node):
    other = "debian-13" if node == "debian-12" else "debian-12"
    reboot(other)
    log(host, OFF_THE_BUS.format(bus="3b"))
    play = run_health("gpu_nodes")
    assert play.status == 2, play.text
    assert (play.gate(node)["open"], play.gate(other)["open"]) == (False, True), play.text
    assert play.gate(node)["msg"].startswith("gate shut: reseat GPU 0000:3b:00: Xid 79"), play.text
    assert "xid.79" in {finding["code"] for finding in play.check(node)["findings"]}


def test_later_run_reads_only_what_is_new_and_does_not_forget_the_fault(host, node):
    log(host, OFF_THE_BUS.format(bus="3b"))
    run_health(node)
    log(host, "usb 1-1: new high-speed USB device number 2 using xhci_hcd")
    play = run_health(node)
    assert play.kernel_log(node)["evidence"].startswith("1 new kernel log lines"), play.kernel_log(node)
    assert "reseat" in play.gate(node)["msg"], play.text


def test_fault_of_an_earlier_boot_does_not_stop_todays_run(host, node):
    log(host, OFF_THE_BUS.format(bus="3b"))
    assert run_health(node).status == 2
    reboot(node)
    assert "fallen off the bus" in host.check_output("journalctl --dmesg --boot=-1 --output=cat --no-pager")
    play = run_health(node)
    assert play.status == 0, play.text


def test_fault_of_an_earlier_boot_does_not_stop_a_first_run_either(host, node):
    log(host, OFF_THE_BUS.format(bus="3b"))
    reboot(node)
    assert run_health(node).status == 0


def test_fault_that_comes_back_after_the_reboot_is_seen(host, node):
    log(host, OFF_THE_BUS.format(bus="3b"))
    reboot(node)
    log(host, OFF_THE_BUS.format(bus="3b"))
    assert "reseat" in run_health(node).gate(node)["msg"]


def test_nothing_is_left_on_the_node_but_the_state_file(host, node):
    before = files(host)
    run_health(node)
    assert files(host) - before <= {STATE_FOLDER, STATE}
    assert host.file(STATE).mode == 0o600


def test_check_mode_leaves_not_even_that(host, node):
    before = files(host)
    log(host, OFF_THE_BUS.format(bus="3b"))
    play = run_health(node, "--check")
    assert play.status == 2, play.text
    assert files(host) == before


def files(host) -> t.Set[str]:
    """All there are, apart from where Ansible lays its modules and systemd keeps its own."""
    where = "find / -xdev -path /root/.ansible -prune -o -path /var/lib/systemd -prune -o -print"
    return set(host.check_output(where).splitlines())
