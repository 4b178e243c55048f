# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/site.yml where it has to stop: for a reboot that nobody allowed, and before it drained what it cannot prove."""

from __future__ import annotations

import pytest
import yaml

pytestmark = pytest.mark.nightly

STATE = "/var/lib/simulated-node"


@pytest.fixture(scope="module")
def driven(module_node):
    """The drills build upon each other."""
    return module_node


@pytest.fixture
def cluster(tmp_path):
    variables = {}
    for name in ("drain", "release"):
        path = tmp_path / (name + ".yml")
        path.write_text(yaml.safe_dump([{"name": name, "ansible.builtin.shell": "echo %s >>/var/log/cluster" % name}]))
        variables["gpu_%s_tasks" % name] = str(path)
    return variables


def noted(node):
    return node.run("cat /var/log/cluster 2>/dev/null; rm -f /var/log/cluster").split()


def test_number_of_gpus_is_missed_before_the_drain(driven, play, cluster):
    run = play(driven, playbook="site.yml", gpu_expected={}, **cluster)
    assert run.rc == 2
    assert "gpu_expected.count is not set for debian-12" in run.message
    assert noted(driven) == []


def test_reboot_that_nobody_allowed_ends_it_and_the_node_stays_drained(driven, play, cluster):
    driven.run("touch %s/nouveau-at-boot %s/nouveau-in-use; /opt/node/driver boot" % (STATE, STATE))
    run = play(driven, playbook="site.yml", **cluster)
    assert run.rc == 2
    words = " ".join(run.message.split())
    assert "Reboot required on debian-12" in words
    assert "nouveau" in words
    assert "stays drained" in words
    assert noted(driven) == ["drain"]
    assert driven.run("dpkg-query -W -f '${Package}\\n' smartmontools datacenter-gpu-manager-4-core 2>/dev/null || true") == ""


def test_after_the_reboot_it_goes_on_and_tags_alone_release_nothing(driven, play, cluster):
    driven.reboot()
    run = play(driven, playbook="site.yml", tags="nvidia_driver,node_tools", **cluster)
    assert run.rc == 0, run.output
    assert driven.run("nvidia-smi --query-gpu=index --format=csv,noheader").split() == list("01234567")
    assert driven.run("dpkg-query -W -f '${db:Status-Status}' smartmontools") == "installed"
    assert noted(driven) == ["drain"]
