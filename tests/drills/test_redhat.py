# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The RHEL paths on a stand-in, not a real RHEL: real dnf and rpm on a Debian that calls itself Rocky Linux 9 (tests/tools/node/redhat)."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.nightly, pytest.mark.parametrize("module_node", ["redhat-9"], indirect=True, scope="module")]
CUDA = "/srv/repository/compute/cuda/repos/rhel9/x86_64"
LOCKS = "/etc/dnf/plugins/versionlock.list"
TRANSACTION = "/var/lib/kentino-gpu/driver-upgrade.json"
UPGRADE = "driver_upgrade.yml"
SITE = {
    "nvidia_driver_version": "580.95.05",
    "gpu_pip_index": "http://127.0.0.1:8099/pip",
    "gpu_burn_self_test_seconds": 1800,
    "container_toolkit_enabled": True,
    "preflight_context": "intake",
    "preflight_steps": ["health", "dcgm", "burn", "nccl"],
    "preflight_poll_seconds": 5,
    "preflight_baseline": "off",
}


def changed(run):
    return [task.rpartition(" : ")[2] for task in run.changed]


def has(node, version):
    """This driver and nothing of another one, locked, built, loaded, with persistenced, and no upgrade under way."""
    lines = node.run(
        "rpm -qa --qf '%{name} %{version}\\n' '*nvidia-driver*' 'libnvidia-ml' 'libnvidia-cfg' 'nvidia-p*' 'kmod-nvidia*'"
    ).splitlines()
    assert {line.split()[1] for line in lines} == {version}, lines
    assert "nvidia-driver-cuda" in {line.split()[0] for line in lines}
    assert node.run("nvidia-smi --query-gpu=driver_version --format=csv,noheader").split() == [version] * 8
    assert node.run("systemctl is-active nvidia-persistenced").strip() == "active"
    assert "libnvidia-ml-3:%s-*" % version in node.run("cat " + LOCKS)
    assert "stream=%s-open" % version.split(".")[0] in node.run("cat /etc/dnf/modules.d/nvidia-driver.module")
    assert node.run("cat /lib/modules/$(uname -r)/extra/nvidia.ko").startswith("version=%s\n" % version)
    assert node.run("test -e %s && echo there || true" % TRANSACTION) == ""


def everything(node):
    """What check mode must leave alone."""
    return node.run("rpm -qa | sort; find /etc /opt /usr/local /var/lib/kentino-gpu -type f -exec cksum {} + 2>/dev/null | sort")


@pytest.fixture(scope="module")
def driven(module_node):
    """The drills build upon each other."""
    return module_node


@pytest.fixture
def site(driven, play):
    sums = dict(reversed(line.split()) for line in driven.run("cat /srv/repository/sources/SHA256SUMS").splitlines())
    checksums = {
        role + "_checksum": "sha256:" + next(value for name, value in sums.items() if name.startswith(role.replace("_", "-")))
        for role in ("nccl_tests", "gpu_burn")
    }
    return lambda **more: play(driven, playbook="site.yml", **{**SITE, **checksums, **more})


def test_check_mode_on_a_bare_node_changes_nothing(driven, site):
    before = everything(driven)
    run = site(check=True)
    assert run.rc == 0, run.output
    assert everything(driven) == before


def test_key_that_is_another_one(driven, play):
    run = play(driven, ["nvidia_repository"], gpu_repository_key_fingerprint="0" * 40)
    assert run.rc == 2
    assert "and %s is expected. It was removed again." % ("0" * 40) in run.words
    assert driven.run("ls /etc/yum.repos.d /etc/pki/rpm-gpg | grep nvidia || true") == ""


def test_key_that_comes_with_another_one(driven, play):
    driven.run("cp %s/D42D0685.pub /root/; cat /srv/repository/distribution.pub >>%s/D42D0685.pub" % (CUDA, CUDA))
    run = play(driven, ["nvidia_repository"])
    driven.run("mv /root/D42D0685.pub " + CUDA)
    assert run.rc == 2
    assert "It was removed again." in run.words


def test_repository_that_does_not_answer(driven, play):
    run = play(driven, ["nvidia_driver"], gpu_repository_mirror="http://127.0.0.1:8098")
    assert run.rc == 2
    assert "could not be fetched" in run.words


def test_headers_that_no_repository_has(driven, play):
    driven.run("touch /boot/vmlinuz-5.14.0-999.el9.x86_64")
    run = play(driven, ["nvidia_driver"])
    driven.run("rm /boot/vmlinuz-5.14.0-999.el9.x86_64")
    assert run.rc == 2
    assert "no repository has kernel-devel-5.14.0-999.el9.x86_64" in run.words
    assert "libnvidia-ml" not in driven.run("rpm -qa")


def test_module_that_cannot_be_built_is_taken_back(driven, play):
    """The script of the package hides it, and dnf ends well."""
    run = play(driven, ["nvidia_driver"], nvidia_driver_branch="590", nvidia_driver_version="590.48.01")
    assert run.rc == 2
    assert "The driver 590.48.01 could not be installed on redhat-9: Error! Bad return status for module build" in run.words
    assert "error: simulated: no such member" in run.words
    assert "What was new was removed again" in run.words
    assert driven.run("rpm -qa '*nvidia*'") == ""
    assert "simulated" in driven.run("cat /var/lib/kentino-gpu/nvidia-driver-make.log")


def test_newest_version_of_the_branch_is_chosen(driven, play):
    """As numbers: 580.105.08 and not 580.95.05; and from a stream that was not followed before."""
    run = play(driven, ["nvidia_driver"], check=True)
    assert run.rc == 0, run.output
    assert "would install the driver 580.105.08" in " ".join(run.output.split())


def test_site(driven, site):
    run = site()
    assert run.rc == 0, run.output
    has(driven, "580.95.05")
    assert driven.run("dnf -q check-update; true") == ""
    driven.run("grep -q regenerate-all /var/log/dracut")


def test_site_again_changes_nothing(driven, site):
    run = site()
    assert (run.rc, run.changed) == (0, []), run.output


def test_check_mode_on_the_node_as_it_should_be(driven, site):
    before = everything(driven)
    run = site(check=True)
    assert (run.rc, run.changed) == (0, []), run.output
    assert everything(driven) == before


def test_lock_that_somebody_removed_is_named(driven, play):
    driven.run(f"cp {LOCKS} /root/locks; dnf -q versionlock clear")
    run = play(driven, ["nvidia_driver"], check=True)
    assert changed(run) == ["Lock the driver packages"], run.output
    assert changed(play(driven, ["nvidia_driver"])) == ["Lock the driver packages"]
    driven.run("cp /root/locks " + LOCKS)


def test_module_that_is_gone_is_built_again(driven, play):
    """As after a power cut between dnf's last file and the end of the script that builds."""
    driven.run("rm /lib/modules/$(uname -r)/extra/nvidia.ko; rm -r /var/lib/dkms/nvidia/*")
    run = play(driven, ["nvidia_driver"])
    assert (run.rc, changed(run)) == (0, ["Build what is not built"]), run.output
    has(driven, "580.95.05")


def test_upgrade(driven, play):
    # What is the site's own goes with the libraries that it needs.
    driven.run("dnf -q -y install slurm-jobs-on-gpus")
    run = play(driven, playbook=UPGRADE, nvidia_driver_branch="590", nvidia_driver_version="590.44.01")
    assert run.rc == 0, run.output
    has(driven, "590.44.01")
    assert driven.run("rpm -q --qf '%{version}' nvidia-fabricmanager") == "590.44.01"
    assert "slurm-jobs-on-gpus, slurm-nvml goes with the old one and comes back" in " ".join(run.output.split())
    driven.run("rpm -q slurm-nvml slurm-jobs-on-gpus")


@pytest.mark.parametrize(
    ("version", "why"),
    [
        pytest.param("590.48.01", "Bad return status for module build", id="cannot be built"),
        pytest.param("590.55.01", "could not insert 'nvidia': Input/output error", id="cannot be loaded"),
    ],
)
def test_upgrade_that_fails_comes_back(driven, play, version, why):
    run = play(driven, playbook=UPGRADE, nvidia_driver_branch="590", nvidia_driver_version=version)
    assert run.rc == 2
    assert why in run.words, run.output
    assert "The node is back on 590.44.01, verified, and released." in run.words
    has(driven, "590.44.01")


def test_site_after_the_upgrade_follows_with_cuda(driven, site):
    """What is locked at the versions of before gives way to what belongs to the new driver."""
    # The kernel's log of this boot tells of the driver that could not be loaded.
    driven.reboot()
    run = site(nvidia_driver_branch="590", nvidia_driver_version="590.44.01")
    assert run.rc == 0, run.output
    assert "cuda13.1" in driven.run("rpm -q libnccl")
