# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The driver is replaced as a transaction: forward, or back to what the node had."""

from __future__ import annotations

import json
import time

import pytest

PLAYBOOK = "driver_upgrade.yml"
TRANSACTION = "/var/lib/kentino-gpu/driver-upgrade.json"
STATE = "/var/lib/simulated-node"


def has(node, version):
    """The node has this driver and nothing of another one, held, loaded, with persistenced, and no upgrade under way."""
    lines = node.run(
        "dpkg-query -W -f '${Package} ${Version} ${db:Status-Want} ${db:Status-Status}\\n' '*nvidia*' libcuda1 | grep installed"
    )
    lines = [line for line in lines.splitlines() if "not-installed" not in line]
    theirs = [line for line in lines if line.startswith("nvidia-mig-manager")]
    assert theirs in ([], ["nvidia-mig-manager 0.8.0-1 hold installed"])
    assert all(line.endswith(" %s-1 hold installed" % version) for line in lines if line not in theirs), lines
    assert node.run("nvidia-smi --query-gpu=driver_version --format=csv,noheader").split() == [version] * 8
    assert node.run("systemctl is-active nvidia-persistenced").strip() == "active"
    assert "Pin: version %s-*" % version in node.run("cat /etc/apt/preferences.d/kentino-gpu-driver")
    assert node.run("dpkg --audit") == ""
    assert node.run("test -e %s && echo there || true" % TRANSACTION) == ""


@pytest.fixture(scope="module")
def driven(module_node):
    """The drills build upon each other."""
    return module_node


def test_before(driven, play):
    run = play(driven, ["nvidia_driver"], nvidia_driver_version="580.95.05")
    assert run.rc == 0, run.output
    has(driven, "580.95.05")
    # What is the site's own stays, whatever its name is like.
    driven.run("apt-get install -qq -y slurm-nvml-plugin nvidia-mig-manager && apt-mark hold nvidia-mig-manager")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("gpu_lost", "answer to the driver that they have now: GPU"),
        pytest.param("hung_tool", "0 answer to the driver that they have now: nvidia-smi", marks=pytest.mark.nightly),
        pytest.param("foreign_process", "These jobs run on the GPUs of debian-12: 48213 python3.", marks=pytest.mark.nightly),
    ],
)
def test_node_that_is_not_fit_for_it_is_left_as_it_is(driven, play, cluster, fault, said):
    driven.run("/opt/node/driver hardware h100x8+%s" % fault)
    run = play(driven, playbook=PLAYBOOK, nvidia_driver_branch="590", nvidia_driver_version="590.44.01", **cluster)
    driven.run("/opt/node/driver hardware h100x8")
    assert run.rc == 2
    assert said in run.words
    has(driven, "580.95.05")
    # Jobs are looked for after the drain: that is what ends them.
    assert driven.run("cat /var/log/cluster 2>/dev/null || true; rm -f /var/log/cluster").count("drain") == (fault == "foreign_process")


@pytest.mark.nightly
def test_check_mode_says_what_it_would_do(driven, play):
    run = play(driven, playbook=PLAYBOOK, check=True, nvidia_driver_branch="590", nvidia_driver_version="590.44.01")
    assert (run.rc, run.changed) == (0, []), run.output
    assert "the driver 580.95.05 is replaced by 590.44.01" in " ".join(run.output.split())
    has(driven, "580.95.05")


def test_forward(driven, play, cluster):
    run = play(driven, playbook=PLAYBOOK, nvidia_driver_branch="590", nvidia_driver_version="590.44.01", **cluster)
    assert run.rc == 0, run.output
    has(driven, "590.44.01")
    assert driven.run("cat /var/log/cluster; rm /var/log/cluster").split("\n") == ["drain 8", "release 8", ""]
    assert "slurm-nvml-plugin goes with the old one and comes back" in " ".join(run.output.split())
    assert driven.run("dpkg-query -W -f '${db:Status-Status} ' slurm-nvml-plugin nvidia-mig-manager") == "installed installed "


@pytest.mark.nightly
def test_nothing_to_do(driven, play, cluster):
    run = play(driven, playbook=PLAYBOOK, nvidia_driver_branch="590", nvidia_driver_version="590.44.01", **cluster)
    assert (run.rc, run.changed) == (0, []), run.output
    assert "has the driver 590.44.01 already" in " ".join(run.output.split())
    assert driven.run("cat /var/log/cluster 2>/dev/null || true") == ""


@pytest.mark.parametrize(
    ("version", "why"),
    [
        pytest.param("590.48.01", "Bad return status for module build", id="cannot be built", marks=pytest.mark.nightly),
        pytest.param("590.55.01", "could not insert 'nvidia': Input/output error", id="cannot be loaded"),
    ],
)
def test_upgrade_that_fails_comes_back_to_the_old_set(driven, play, cluster, version, why):
    run = play(driven, playbook=PLAYBOOK, nvidia_driver_branch="590", nvidia_driver_version=version, **cluster)
    assert run.rc == 2
    assert "The driver %s could not replace 590.44.01 on debian-12" % version in run.words
    assert why in run.words
    assert "The node is back on 590.44.01, verified, and released." in run.words
    has(driven, "590.44.01")
    assert driven.run("cat /var/log/cluster; rm /var/log/cluster").split("\n") == ["drain 8", "release 8", ""]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("spoil", "mend", "said"),
    [
        pytest.param(
            "touch /boot/vmlinuz-9.9.9-amd64",
            "rm /boot/vmlinuz-9.9.9-amd64",
            "no repository has linux-headers-9.9.9-amd64",
            id="no headers",
        ),
        pytest.param("systemctl stop test-repository", "systemctl start test-repository", "127.0.0.1:8099", id="repository down"),
    ],
)
def test_what_cannot_be_done_is_seen_before_the_drain(driven, play, cluster, spoil, mend, said):
    driven.run(spoil)
    run = play(driven, playbook=PLAYBOOK, nvidia_driver_version="580.105.08", nvidia_repository_cache_seconds=0, **cluster)
    driven.run(mend)
    assert run.rc == 2
    assert said in run.words, run.output
    has(driven, "590.44.01")
    assert driven.run("cat /var/log/cluster 2>/dev/null || true") == ""


@pytest.mark.nightly
def test_gpu_that_is_in_use_ends_it_and_the_node_is_released(driven, play, cluster):
    driven.run("echo yes >%s/in-use" % STATE)
    run = play(driven, playbook=PLAYBOOK, nvidia_driver_version="580.105.08", **cluster)
    driven.run("rm %s/in-use" % STATE)
    assert run.rc == 2
    assert "The module of the driver is in use on debian-12" in run.words
    assert "gpu_drain_tasks" in run.words
    has(driven, "590.44.01")
    assert driven.run("cat /var/log/cluster; rm /var/log/cluster").split("\n") == ["drain 8", "release 8", ""]


@pytest.mark.nightly
def test_power_cut_in_the_middle_of_it_and_run_again(driven, play, cluster):
    """What an upgrade wrote down before it began is what it would go back to, however often it is begun."""
    driven.run("echo 600 >%s/dkms-seconds" % STATE)
    wanted = {"nvidia_driver_version": "580.105.08", **cluster}
    cut = play(driven, playbook=PLAYBOOK, popen=True, **wanted)
    until = time.monotonic() + 300
    while not driven.run("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o 'dkms [i]nstall -m nvidia' || true"):
        assert cut.poll() is None, cut.communicate()[0]
        assert time.monotonic() < until
        time.sleep(1)
    driven.kill()
    cut.communicate()
    driven.start()
    driven.run("rm %s/dkms-seconds" % STATE)
    assert json.loads(driven.run("cat " + TRANSACTION))["version"] == "590.44.01"
    run = play(driven, playbook=PLAYBOOK, **wanted)
    assert run.rc == 0, run.output
    assert "an upgrade that was interrupted is taken up again" in " ".join(run.output.split())
    has(driven, "580.105.08")
