# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ubuntu from bare to a node that passed, its upgrade over the names that branch 590 changed, and its own driver.

The nodes have Ubuntu's component restricted, as real ones do: drivers of the same names that are newer than those of the mirror.
"""

from __future__ import annotations

import pytest

SYSTEMS = ("ubuntu-22.04", "ubuntu-24.04")
SITE = "site.yml"
# -xdev: what is mounted from the checkout may be edited meanwhile.
EVERYTHING = "dpkg-query --show; find /etc /opt /usr/local /var/lib/kentino-gpu -xdev -type f -exec cksum {} + 2>/dev/null | sort"
DRIVER = (
    "dpkg-query -W -f '${Package} ${Version} ${db:Status-Want} ${db:Status-Status}\\n' 'nvidia-*' 'libnvidia-*'"
    " | grep -v 'fabric\\|imex\\|nscq\\|container\\|not-installed\\|config-files'"
)

pytestmark = pytest.mark.nightly


@pytest.fixture
def site(module_node, play):
    """The playbook on the node, with what extensions/molecule/site says of it."""

    def run(check=False):
        sums = dict(reversed(line.split()) for line in module_node.run("cat /srv/repository/sources/SHA256SUMS").splitlines())
        named = {name.rpartition("-")[0].replace("-", "_"): "sha256:" + digest for name, digest in sums.items()}
        return play(
            module_node,
            playbook=SITE,
            check=check,
            nccl_tests_checksum=named["nccl_tests"],
            gpu_burn_checksum=named["gpu_burn"],
            gpu_burn_self_test_seconds=1800,
            container_toolkit_enabled=True,
            preflight_context="intake",
            preflight_steps=["health", "dcgm", "burn", "nccl"],
            preflight_poll_seconds=5,
            preflight_baseline="off",
        )

    return run


def has(node, version, revision, of_branch):
    """The node has this driver and nothing of another one, held, loaded, and persistence mode on by the daemon, now and at boot."""
    lines = node.run(DRIVER).splitlines()
    assert lines
    assert all(line.endswith(" %s-%s hold installed" % (version, revision)) for line in lines), lines
    assert all(("-580" in line.split()[0]) == of_branch for line in lines), lines
    answer = node.run("nvidia-smi --query-gpu=driver_version,persistence_mode --format=csv,noheader")
    assert answer.splitlines() == ["%s, Enabled" % version] * 8
    assert node.run("systemctl is-active nvidia-persistenced; systemctl is-enabled nvidia-persistenced").split() == ["active", "enabled"]
    assert node.run("dpkg --audit") == ""


@pytest.mark.parametrize("module_node", SYSTEMS, indirect=True, scope="module")
class TestFromBare:
    """The drills build upon each other."""

    def test_check_mode_changes_nothing(self, module_node, site):
        before = module_node.run(EVERYTHING)
        run = site(check=True)
        assert run.rc == 0, run.output
        assert module_node.run(EVERYTHING) == before

    def test_missing_headers_are_named(self, module_node, play):
        module_node.run("touch /boot/vmlinuz-9.9.9-generic")
        run = play(module_node, ["nvidia_driver"])
        module_node.run("rm /boot/vmlinuz-9.9.9-generic")
        assert run.rc == 2
        said = "No module can be built for 9.9.9-generic of %s: no repository has linux-headers-9.9.9-generic"
        assert said % module_node.system in run.words
        assert module_node.run(DRIVER + " || true") == ""

    def test_node_passes(self, module_node, site):
        run = site()
        assert run.rc == 0, run.output
        # The newest of the mirror, and not Ubuntu's newer one.
        has(module_node, "580.105.08", "0ubuntu1", of_branch=True)

    @pytest.mark.parametrize("check", [False, True])
    def test_it_stays_as_it_is(self, site, check):
        run = site(check)
        assert (run.rc, run.changed) == (0, []), run.output

    def test_upgrade_over_the_names_that_changed(self, module_node, play):
        run = play(module_node, playbook="driver_upgrade.yml", nvidia_driver_branch="590", nvidia_driver_version="590.44.01")
        assert run.rc == 0, run.output
        has(module_node, "590.44.01", "1ubuntu1", of_branch=False)

    def test_module_that_cannot_be_built_brings_the_old_names_back(self, module_node, play):
        run = play(module_node, playbook="driver_upgrade.yml", nvidia_driver_branch="580", nvidia_driver_version="580.95.05")
        assert run.rc == 0, run.output
        run = play(module_node, playbook="driver_upgrade.yml", nvidia_driver_branch="590", nvidia_driver_version="590.48.01")
        assert run.rc == 2
        assert "The node is back on 580.95.05, verified, and released." in run.words
        has(module_node, "580.95.05", "0ubuntu1", of_branch=True)


@pytest.mark.parametrize("node", ["ubuntu-24.04"], indirect=True)
def test_ubuntus_own_driver(node, play):
    own = {"nvidia_driver_source": "distribution", "fabric_manager_source": "distribution", "nvidia_driver_version": "580.105.08"}
    run = play(node, ["nvidia_driver", "fabric_manager"], **own)
    assert run.rc == 0, run.output
    has(node, "580.105.08", "0ubuntu0.24.04.2", of_branch=True)
    assert node.run("dpkg-query -W -f '${Version} ${db:Status-Want}' nvidia-fabricmanager-580") == "580.105.08-0ubuntu0.24.04.1 hold"
    assert play(node, ["nvidia_driver", "fabric_manager"], **own).changed == []
