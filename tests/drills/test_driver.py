# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The driver's role where something is wrong: cause and cure are named, and nothing is left half installed."""

from __future__ import annotations

import re
import time

import pytest

ROLE = ["nvidia_driver"]
SETTLE = "/opt/node/driver settle"
PACKAGES = (
    "dpkg-query -W -f '${Package} ${Version} ${db:Status-Want} ${db:Status-Status}\\n' 'nvidia-*' 'libnvidia-*' 'libcuda*' 2>/dev/null"
    " | grep -v 'not-installed\\|config-files' || true"
)
REPOSITORY = "/srv/repository/compute/cuda/repos/debian12/x86_64"
DEB = REPOSITORY + "/%s_%s-1_amd64.deb"


def is_untouched(node):
    """Nothing of a driver is there, and dpkg has nothing half done."""
    assert node.run(PACKAGES) == ""
    assert node.run("dpkg --audit") == ""
    assert node.run("ls /lib/modules/*/updates/dkms/nvidia.ko 2>/dev/null || true") == ""


@pytest.fixture
def bare(module_node):
    yield module_node
    is_untouched(module_node)


@pytest.mark.parametrize(
    ("spoil", "mend", "named"),
    [
        pytest.param(
            "printf 'Package: linux-headers-*\\nPin: version *\\nPin-Priority: -1\\n' >/etc/apt/preferences.d/no-headers",
            "rm /etc/apt/preferences.d/no-headers",
            "$(uname -r)",
            id="running kernel",
        ),
        pytest.param("touch /boot/vmlinuz-9.9.9-amd64", "rm /boot/vmlinuz-9.9.9-amd64", "9.9.9-amd64", id="kernel that boots next"),
    ],
)
def test_missing_headers_are_named_before_anything_is_installed(bare, play, spoil, mend, named):
    bare.run(spoil)
    try:
        run = play(bare, ROLE)
    finally:
        bare.run(mend)
    assert run.rc == 2
    kernel = bare.run("echo -n %s" % named)
    assert "No module can be built for %s" % kernel in run.words
    assert "no repository has linux-headers-%s" % kernel in run.words
    assert "upgrade it" in run.words


def test_secure_boot_without_an_enrolled_key_is_refused_first(bare, play):
    state = "/var/lib/simulated-node"
    bare.run("printf '\\x06\\x00\\x00\\x00\\x01' >%s/secure-boot; %s" % (state, SETTLE))
    run = play(bare, ROLE, tags="nvidia_driver_assert")
    assert run.rc == 2
    assert "Secure Boot is on" in run.words
    assert "there is no key with which DKMS could sign" in run.words
    bare.run("mkdir -p /var/lib/dkms; printf 'a certificate' >/var/lib/dkms/mok.pub")
    run = play(bare, ROLE, tags="nvidia_driver_assert")
    assert "mokutil --import /var/lib/dkms/mok.pub" in run.words
    bare.run("{ printf '\\x06\\x00\\x00\\x00'; cat /var/lib/dkms/mok.pub; } >%s/mok; %s" % (state, SETTLE))
    assert play(bare, ROLE, tags="nvidia_driver_assert").rc == 0
    bare.run("rm -r %s/secure-boot %s/mok /var/lib/dkms; %s" % (state, state, SETTLE))


@pytest.mark.nightly
def test_kernel_modules_that_do_not_fit_the_gpus_are_refused(bare, play):
    bare.run("/opt/node/driver hardware rtx5090x8")
    run = play(bare, ROLE, tags="nvidia_driver_assert", nvidia_driver_kernel_modules="proprietary")
    bare.run("/opt/node/driver hardware h100x8")
    assert "10de:2b85" in run.words
    assert "need the open kernel modules" in run.words


def test_packages_that_are_broken_are_named(bare, play):
    bare.run("dpkg -i --force-depends %s 2>&1" % DEB % ("nvidia-driver-cuda", "580.95.05"))
    run = play(bare, ROLE)
    bare.run("dpkg --purge nvidia-driver-cuda")
    assert run.rc == 2
    assert "not in order" in run.words
    assert "nvidia-driver-cuda" in run.words
    assert "--fix-broken" in run.words


def test_package_held_at_another_version_is_named(bare, play):
    bare.run("dpkg -i %s && apt-mark hold libnvidia-cfg1" % DEB % ("libnvidia-cfg1", "580.95.05"))
    run = play(bare, ROLE, nvidia_driver_version="580.105.08")
    bare.run("apt-mark unhold libnvidia-cfg1 && dpkg --purge libnvidia-cfg1")
    assert run.rc == 2
    assert "libnvidia-cfg1 580.95.05-1" in run.words
    assert "apt-mark unhold libnvidia-cfg1" in run.words


@pytest.mark.nightly
def test_version_that_no_repository_has_is_named_with_those_that_can_be_had(bare, play):
    run = play(bare, ROLE, nvidia_driver_version="580.99.99")
    assert run.rc == 2
    assert "No repository of debian-12 has the driver 580.99.99" in run.words
    assert "580.105.08, 580.95.05" in run.words


@pytest.mark.nightly
def test_too_little_space_is_seen_before(bare, play):
    run = play(bare, ROLE, nvidia_driver_min_free_mib={"/usr": 99999999})
    assert run.rc == 2
    assert "MiB left at /usr, and 99999999 MiB are needed" in run.words


def test_disk_that_fills_up_meanwhile_leaves_nothing_half_installed(bare, play):
    full = "/lib/firmware/nvidia"
    bare.run("mkdir -p %s && mount -t tmpfs -o size=4k tmpfs %s && head -c 4096 /dev/zero >%s/full" % (full, full, full))
    run = play(bare, ROLE)
    bare.run("umount %s" % full)
    assert run.rc == 2
    assert "No space left on device" in run.words
    assert "The disk is full" in run.words
    assert "What was new was removed again" in run.words


@pytest.mark.nightly
def test_module_that_cannot_be_built_leaves_nothing_half_installed(bare, play):
    run = play(bare, ROLE, nvidia_driver_branch="590", nvidia_driver_version="590.48.01")
    assert run.rc == 2
    assert "Bad return status for module build" in run.words
    assert "nvidia/nv.c:7: error: simulated: no such member" in run.words
    assert "the whole log is /var/lib/kentino-gpu/nvidia-driver-make.log" in run.words
    assert "simulated" in bare.run("cat /var/lib/kentino-gpu/nvidia-driver-make.log")
    assert "What was new was removed again" in run.words


def test_driver_that_no_package_brought_is_refused_or_adopted(bare, play):
    for name in ("nvidia-driver-cuda", "libnvidia-ml1"):
        bare.run("dpkg-deb -x %s /" % DEB % (name, "580.95.05"))
    bare.run("touch /usr/bin/nvidia-uninstall /var/log/nvidia-installer.log; " + SETTLE)
    run = play(bare, ROLE)
    assert run.rc == 2
    assert "has a driver 580.95.05 that no package brought (runfile; /usr/bin/nvidia-uninstall" in run.words
    assert "nvidia_driver_foreign=adopt" in run.words
    module = "/lib/modules/$(uname -r)/updates/dkms"
    bare.run("mkdir -p %s; printf 'version=580.95.05\\nlicense=Dual MIT/GPL\\n' >%s/nvidia.ko" % (module, module))
    run = play(bare, ROLE, nvidia_driver_foreign="adopt", nvidia_driver_persistenced=False)
    assert run.rc == 0, run.output
    assert bare.run(PACKAGES) == ""
    assert "Release Build" in bare.run("cat $KENTINO_GPU_ROOT/proc/driver/nvidia/version")
    gone = "/usr/bin/nvidia-smi /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.* /usr/bin/nvidia-uninstall /var/log/nvidia-installer.log"
    bare.run("modprobe -r nvidia; rm -r %s %s; %s" % (gone, module, SETTLE))


@pytest.mark.nightly
def test_check_mode_on_a_bare_node_changes_nothing(bare, play):
    before = bare.run("cd /etc && find . -type f -newer /etc/hostname | sort | xargs md5sum")
    assert play(bare, ROLE, check=True).rc == 0
    assert bare.run("cd /etc && find . -type f -newer /etc/hostname | sort | xargs md5sum") == before


@pytest.fixture(scope="module")
def driven(module_node):
    """From here on the tests build upon each other: a node with 580.95.05."""
    return module_node


@pytest.mark.nightly
def test_bare_node_gets_the_driver(driven, play):
    run = play(driven, ROLE, nvidia_driver_version="580.95.05")
    assert run.rc == 0, run.output
    assert all(" 580.95.05-1 hold installed" in line for line in driven.run(PACKAGES).splitlines())
    assert driven.run("nvidia-smi --query-gpu=driver_version --format=csv,noheader").split() == ["580.95.05"] * 8
    assert driven.run("systemctl is-active nvidia-persistenced").strip() == "active"


@pytest.mark.nightly
@pytest.mark.parametrize("check", [False, True])
def test_it_stays_as_it_is(driven, play, check):
    run = play(driven, ROLE, check=check)
    assert (run.rc, run.changed) == (0, [])


@pytest.mark.nightly
def test_another_branch_is_no_business_of_the_role(driven, play):
    run = play(driven, ROLE, nvidia_driver_branch="590")
    assert run.rc == 2
    assert "has the driver 580.95.05" in run.words
    assert "kentino.gpu.driver_upgrade" in run.words


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("drift", "task"),
    [
        ("apt-mark unhold libcuda1", "Hold the driver packages"),
        ("sed -i 's/^Pin: .*/Pin: version 580.*/' /etc/apt/preferences.d/kentino-gpu-driver", "Pin the driver's packages to its version"),
        ("rm /etc/apt/apt.conf.d/52kentino-gpu-driver", "Keep unattended upgrades away from them"),
        ("echo >/etc/modprobe.d/kentino-gpu-driver.conf", "Keep nouveau away and set the module's parameters"),
        ("systemctl stop nvidia-persistenced", "Run persistenced"),
        ("systemctl disable nvidia-persistenced", "Run persistenced"),
    ],
)
def test_drift_is_named_by_check_mode_and_mended(driven, play, drift, task):
    driven.run(drift)
    seen = play(driven, ROLE, check=True)
    assert (seen.rc, len(seen.changed)) == (0, 1), seen.output
    assert seen.changed[0].endswith(task)
    mended = play(driven, ROLE)
    assert (mended.rc, [name.endswith(task) for name in mended.changed]) == (0, [True]), mended.output


@pytest.mark.nightly
def test_unattended_upgrades_leave_the_driver_alone(driven):
    """Debian's own tool, allowed to take what the repository has newer."""
    driven.run("apt-get -qq -y install unattended-upgrades >/dev/null")
    driven.run("echo 'Unattended-Upgrade::Origins-Pattern { \"site=127.0.0.1\"; };' >/etc/apt/apt.conf.d/99drill")

    def would_go():
        said = driven.run("unattended-upgrade --dry-run --debug 2>&1")
        assert "site=127.0.0.1" in said
        return " ".join(re.findall("^Packages that will be upgraded:.*", said, flags=re.MULTILINE))

    assert "nvidia" not in would_go()
    # Somebody lets go of them; the list of unattended upgrades is still there.
    driven.run("apt-mark showhold >/tmp/held; apt-mark unhold $(cat /tmp/held); mv /etc/apt/preferences.d/kentino-gpu-driver /tmp")
    assert "nvidia" not in would_go()
    driven.run("mv /etc/apt/apt.conf.d/52kentino-gpu-driver /tmp")
    assert "libnvidia-ml1" in would_go()
    driven.run("mv /tmp/52kentino-gpu-driver /etc/apt/apt.conf.d; mv /tmp/kentino-gpu-driver /etc/apt/preferences.d")
    driven.run("apt-mark hold $(cat /tmp/held); rm /etc/apt/apt.conf.d/99drill; apt-get -qq -y purge unattended-upgrades")


@pytest.mark.nightly
def test_library_that_moved_on_is_a_reboot_that_is_pending_and_no_bad_gpu(driven, play):
    """As unattended upgrades did it to others: the packages are newer than the module that is loaded."""
    moved = ("libnvidia-ml1", "nvidia-driver-cuda", "libcuda1", "libnvidia-cfg1", "libnvidia-ptxjitcompiler1")
    driven.run("apt-mark unhold $(apt-mark showhold) && rm /etc/apt/preferences.d/kentino-gpu-driver")
    driven.run("apt-get -qq -y install " + " ".join(name + "=580.105.08-1" for name in moved))
    run = play(driven, ROLE)
    assert run.rc == 0, run.output
    said = " ".join(run.output.split())
    assert "Reboot required on debian-12: reboot pending: the module 580.95.05 is loaded, the library is 580.105.08" in said
    assert "Nothing is said against the GPUs" in said
    driven.reboot()
    run = play(driven, ROLE)
    assert (run.rc, run.changed) == (0, []), run.output
    assert driven.run("nvidia-smi --query-gpu=driver_version --format=csv,noheader").split() == ["580.105.08"] * 8


def test_power_cut_in_the_middle_of_it_and_run_again(node, play):
    node.run("mkdir -p /var/lib/simulated-node; echo 600 >/var/lib/simulated-node/dkms-seconds")
    cut = play(node, ROLE, popen=True)
    until = time.monotonic() + 240
    while not node.run("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o 'dkms [i]nstall -m nvidia' || true"):
        assert cut.poll() is None, cut.communicate()[0]
        assert time.monotonic() < until
        time.sleep(1)
    node.kill()
    cut.communicate()
    node.start()
    node.run("rm /var/lib/simulated-node/dkms-seconds")
    assert "nvidia-kernel-open-dkms" in node.run("dpkg --audit")
    run = play(node, ROLE)
    assert run.rc == 0, run.output
    assert "An earlier installation on debian-12 was interrupted. dpkg --configure -a finished it" in " ".join(run.output.split())
    assert node.run("dpkg --audit") == ""
    assert play(node, ROLE).changed == []


@pytest.mark.nightly
@pytest.mark.parametrize("node", ["debian-13"], indirect=True)
def test_nouveau_goes_and_stays_away(node, play):
    node.run("touch /var/lib/simulated-node/nouveau-at-boot")
    tool = "#!/bin/sh\\necho $* >>/var/log/initramfs\\n"
    node.run("printf '%s' >/usr/sbin/update-initramfs; chmod 755 /usr/sbin/update-initramfs" % tool)
    node.reboot()
    assert "nouveau" in node.run("ls $KENTINO_GPU_ROOT/sys/module")
    run = play(node, ROLE)
    assert run.rc == 0, run.output
    assert node.run("cat /var/log/initramfs").strip() == "-u -k all"
    node.reboot()
    assert "nouveau" not in node.run("ls $KENTINO_GPU_ROOT/sys/module")
    run = play(node, ROLE)
    assert (run.rc, run.changed) == (0, []), run.output
