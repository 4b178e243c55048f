# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A bare node after one run of playbooks/site.yml. Its GPUs are simulated; packages, units, shells and files are real."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[4]
INVENTORY = Path(__file__).resolve().parents[1] / "inventory"
SERVICES = ("nvidia-persistenced", "nvidia-fabricmanager", "nvidia-dcgm", "nvidia-dcgm-exporter")


@pytest.fixture
def node(host):
    return host.check_output("cat /etc/hostname")


def check_mode(node: str) -> str:
    done = subprocess.run(
        ["ansible-playbook", "--check", "--diff", "--inventory", str(INVENTORY), "--limit", node, str(REPOSITORY / "playbooks/site.yml")],
        # Molecule asks for colours, which would hide "changed" from the tests below.
        env=dict(os.environ, ANSIBLE_STDOUT_CALLBACK="ansible.builtin.default", ANSIBLE_FORCE_COLOR="0", ANSIBLE_NOCOLOR="1"),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^%s +: ok=\d+ +changed=\d+" % node, done.stdout, flags=re.MULTILINE), done.stdout[-2000:]
    return done.stdout


def changed(output: str) -> str:
    """What check mode would change: each such task with its difference."""
    tasks = re.split(r"^(?=TASK |RUNNING HANDLER )", output, flags=re.MULTILINE)
    return "\n".join(task for task in tasks if re.search(r"^changed: ", task, flags=re.MULTILINE))


def test_every_gpu_answers(host):
    assert host.check_output("nvidia-smi --query-gpu=driver_version --format=csv,noheader").split("\n") == ["580.105.08"] * 8


def test_driver_packages_are_held(host):
    held = host.check_output("apt-mark showhold").split()
    assert [name for name in held if "nvidia" in name], held
    assert [name for name in held if name.startswith("datacenter-gpu-manager")], held


@pytest.mark.parametrize("service", SERVICES)
def test_service_runs_now_and_after_the_next_boot(host, service):
    assert host.service(service).is_running
    assert host.service(service).is_enabled


def test_fabric_is_up_on_every_gpu(host):
    states = re.findall(r"<fabric>\s*<state>(.*?)</state>", host.check_output("nvidia-smi -q -x"))
    assert states == ["Completed"] * 8


def test_exporter_tells_of_every_gpu(host):
    page = host.check_output(
        "python3 -c 'import urllib.request; print(urllib.request.urlopen(\"http://127.0.0.1:9400/metrics\").read().decode())'"
    )
    assert len(set(re.findall(r'DCGM_FI_DEV_GPU_TEMP\{[^}]*UUID="([^"]+)"', page))) == 8
    assert "DCGM_FI_DEV_ROW_REMAP_FAILURE" in page


def test_units_of_ours_are_well_formed(host):
    assert host.run("systemd-analyze verify nvidia-dcgm-exporter.service").rc == 0
    assert host.run("systemd-analyze security --threshold=50 nvidia-dcgm-exporter.service").rc == 0


def test_tools_were_built_for_these_gpus(host):
    assert host.file("/opt/gpu-burn/gpu_burn").exists
    assert "# Out of bounds values : 0 OK" in host.check_output("/opt/nccl-tests/build/all_reduce_perf -b 8 -e 1M -f 2 -g 8")


def test_login_shell_has_the_profile(host):
    assert host.check_output("bash -lc 'echo $CUDA_DEVICE_ORDER'") == "PCI_BUS_ID"


def test_preflight_left_its_results(host):
    kept = host.check_output("find /var/lib/kentino-gpu/preflight /var/lib/simulated-node/root/var/lib/kentino-gpu/preflight -type f")
    for step in ("dcgm", "burn", "nccl"):
        assert step in kept, kept


def test_node_was_given_back_after_each_of_the_two_runs(host):
    assert host.file("/var/log/cluster").content_string.split() == ["drain", "release"] * 2


def test_persistenced_waits_for_the_module(host):
    shown = host.check_output("systemctl show --property=After,ExecStartPre nvidia-persistenced")
    assert "systemd-modules-load.service" in shown
    assert "modprobe" in shown


def test_check_mode_finds_nothing_to_change_but_what_somebody_changed(host, node):
    """Nothing on Debian 13, and on Debian 12 three things and no fourth."""
    if node == "debian-13":
        output = check_mode(node)
        assert changed(output) == ""
        assert " changed=0 " in output[output.rindex("PLAY RECAP") :]
        return
    library = next(name for name in host.check_output("apt-mark showhold").split() if name.startswith("libnvidia"))
    host.run_expect([0], "apt-mark unhold %s" % library)
    host.run_expect([0], "sed -i 's/PCI_BUS_ID/FASTEST_FIRST/' /etc/profile.d/kentino-gpu.sh")
    host.run_expect([0], "systemctl stop nvidia-persistenced")
    try:
        output = check_mode(node)
    finally:
        host.run_expect([0], "apt-mark hold %s" % library)
        host.run_expect([0], "sed -i 's/FASTEST_FIRST/PCI_BUS_ID/' /etc/profile.d/kentino-gpu.sh")
        host.run_expect([0], "systemctl start nvidia-persistenced")
    named = changed(output)
    assert library in named
    assert "-export CUDA_DEVICE_ORDER=FASTEST_FIRST" in named or "FASTEST_FIRST" in named
    assert "Run persistenced" in named
    assert " changed=3 " in output[output.rindex("PLAY RECAP") :]
