# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/site.yml where it has to stop: for a reboot that nobody allowed, and before it drained what it cannot prove."""

from __future__ import annotations

import time

import pytest

pytestmark = pytest.mark.nightly

STATE = "/var/lib/simulated-node"


@pytest.fixture(scope="module")
def driven(module_node):
    """The drills build upon each other."""
    return module_node


def noted(node):
    return [line.split()[0] for line in node.run("cat /var/log/cluster 2>/dev/null; rm -f /var/log/cluster").splitlines()]


def test_number_of_gpus_is_missed_before_the_drain(driven, play, cluster):
    run = play(driven, playbook="site.yml", gpu_expected={}, **cluster)
    assert run.rc == 2
    assert "gpu_expected.count is not set for debian-12" in run.message
    assert noted(driven) == []


def test_check_mode_on_a_node_that_has_the_repository_and_no_more(driven, play):
    assert play(driven, ["nvidia_repository"], nvidia_repository_repositories=["cuda", "container_toolkit"]).rc == 0
    before = driven.run("dpkg-query --show; find /etc /opt /usr/local -type f -exec cksum {} + | sort")
    run = play(driven, playbook="site.yml", check=True, container_toolkit_enabled=True)
    assert run.rc == 0, run.output
    assert driven.run("dpkg-query --show; find /etc /opt /usr/local -type f -exec cksum {} + | sort") == before


def test_reboot_that_nobody_allowed_ends_it_and_the_node_stays_drained(driven, play, cluster):
    driven.run("touch %s/nouveau-at-boot %s/nouveau-in-use; /opt/node/driver boot" % (STATE, STATE))
    run = play(driven, playbook="site.yml", **cluster)
    assert run.rc == 2
    assert "Reboot required on debian-12" in run.words
    assert "nouveau" in run.words
    assert "stays drained" in run.words
    assert noted(driven) == ["drain"]
    assert driven.run("dpkg-query -W -f '${Package}\\n' smartmontools datacenter-gpu-manager-4-core 2>/dev/null || true") == ""


def test_after_the_reboot_it_goes_on_and_tags_alone_release_nothing(driven, play, cluster):
    driven.reboot()
    run = play(driven, playbook="site.yml", tags="nvidia_driver,node_tools", **cluster)
    assert run.rc == 0, run.output
    assert driven.run("nvidia-smi --query-gpu=index --format=csv,noheader").split() == list("01234567")
    assert driven.run("dpkg-query -W -f '${db:Status-Status}' smartmontools") == "installed"
    assert noted(driven) == ["drain"]
    run = play(driven, playbook="site.yml", check=True, **cluster)
    assert run.rc == 0, run.output
    assert noted(driven) == []


def test_reboot_that_is_allowed_follows_at_once_and_the_run_goes_on(node, play, cluster):
    """By ansible.builtin.reboot; that a container comes back is podman's part."""
    node.run("touch %s/nouveau-at-boot %s/nouveau-in-use; /opt/node/driver boot" % (STATE, STATE))
    before = node.run("cat /proc/sys/kernel/random/boot_id")
    run = play(node, playbook="site.yml", tags="nvidia_driver,node_tools", popen=True, nvidia_driver_reboot_allowed="true", **cluster)
    until = time.monotonic() + 400
    while node.is_running():
        assert run.poll() is None, run.communicate()[0]
        assert time.monotonic() < until
        time.sleep(0.5)
    node.start()
    output = run.communicate()[0]
    assert run.returncode == 0, output
    assert node.run("cat /proc/sys/kernel/random/boot_id") != before
    assert node.run("nvidia-smi --query-gpu=index --format=csv,noheader").split() == list("01234567")
    assert node.run("dpkg-query -W -f '${db:Status-Status}' smartmontools") == "installed"
