# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Debian's own driver, all of it real but the GPU and the loading: packages, DKMS, compiler, initramfs, nvidia-smi.

The node's kernel is Debian's newest by name, so that there are headers; its module is compiled for it, and C(modprobe) of the test node
reads the version that it carries. The real nvidia-smi then finds no GPU, and the role has to say so.
"""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest

pytestmark = pytest.mark.nightly

BRANCHES = {"debian-12": "535", "debian-13": "550"}
PREPARE = r"""
set -e
export DEBIAN_FRONTEND=noninteractive
rm /etc/apt/sources.list.d/test-distribution.sources
sed -i 's/ main$/ main contrib non-free non-free-firmware/' /etc/apt/sources.list
apt-get update -qq
kernel=$(apt-cache depends linux-headers-amd64 | sed -n 's/.*Depends: linux-headers-//p' | head -n 1)
apt-get install -qq -y --no-install-recommends linux-image-$kernel >/dev/null 2>&1
echo -n $kernel
"""
MODULES = "find /lib/modules -name 'nvidia*.ko*' -path '*/dkms/*'"
PACKAGES = (
    "dpkg-query -W -f '${Package} ${Version} ${db:Status-Want} ${db:Status-Status}\\n' 'nvidia-*' 'libnvidia-*' 'libcuda*' 2>/dev/null"
    " | grep -v 'not-installed\\|config-files' || true"
)


@pytest.fixture
def kernel(node, tmp_path):
    """The name of the kernel that the node seems to run."""
    name = node.run(PREPARE)
    library = tmp_path / "kernel.so"
    source = pathlib.Path(__file__).parents[1] / "repository/kernel.c"
    subprocess.run(["cc", "-shared", "-fPIC", '-DRELEASE="%s"' % name, "-o", str(library), str(source)], check=True)
    node.copy(library, "/usr/local/lib/kernel.so")
    node.run("echo /usr/local/lib/kernel.so >/etc/ld.so.preload")
    assert node.run("uname -r").strip() == name
    return name


@pytest.mark.parametrize("node", BRANCHES, indirect=True)
def test_real_driver_is_built_pinned_and_held(node, kernel, play):
    wanted = {
        "nvidia_driver_source": "distribution",
        "nvidia_driver_branch": BRANCHES[node.system],
        # Debian's open modules lag behind its kernels.
        "nvidia_driver_kernel_modules": "proprietary",
        # It cannot run without a GPU; another test asks for it.
        "nvidia_driver_persistenced": False,
    }
    run = play(node, ["nvidia_driver"], check=True, **wanted)
    assert run.rc == 0, run.message
    assert node.run(PACKAGES) == ""

    run = play(node, ["nvidia_driver"], **wanted)
    # Everything is there, and the driver was asked; a container has no GPU to answer.
    assert "nvidia-smi answered for 0" in run.message
    assert "couldn't communicate with the NVIDIA driver" in run.message

    version = node.run("dpkg-query -W -f '${Version}' libnvidia-ml1").partition("-")[0]
    assert version.startswith(BRANCHES[node.system])
    built = [path for path in node.run(MODULES).split() if "/nvidia-current.ko" in path]
    assert [path.split("/")[3] for path in built] == [kernel]
    assert node.run("/sbin/modinfo -F version %s" % built[0]).strip() == version
    assert node.run("/sbin/modinfo -F vermagic %s" % built[0]).split()[0] == kernel
    rows = [row.split() for row in node.run(PACKAGES).splitlines()]
    ours = [row for row in rows if row[1].startswith(version)]
    assert {"libcuda1", "libnvidia-ml1", "nvidia-kernel-dkms", "nvidia-smi"} <= {row[0] for row in ours}
    assert {tuple(row[2:]) for row in ours} == {("hold", "installed")}
    assert node.run("apt-get --simulate dist-upgrade | grep '^Inst.*nvidia' || true") == ""
    assert "blacklist nouveau" in node.run("cat /etc/modprobe.d/kentino-gpu-driver.conf")
    assert "kentino-gpu-driver.conf" in node.run("lsinitramfs /boot/initrd.img-%s" % kernel)

    again = play(node, ["nvidia_driver"], **wanted)
    assert again.changed == []
    assert "nvidia-smi answered for 0" in again.message

    run = play(node, ["nvidia_driver"], **dict(wanted, nvidia_driver_persistenced=True))
    assert "nvidia-persistenced does not start" in run.message
    assert "Failed to query NVIDIA devices" in run.message


def test_module_that_cannot_be_compiled_is_taken_back_and_its_error_told(node, kernel, play):
    node.run("DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends linux-headers-%s" % kernel)
    node.run("rm /usr/src/linux-headers-*-common/include/linux/pci.h")
    run = play(
        node,
        ["nvidia_driver"],
        nvidia_driver_source="distribution",
        nvidia_driver_branch=BRANCHES[node.system],
        nvidia_driver_kernel_modules="proprietary",
    )
    assert run.rc == 2
    told = re.search(r"The module could not be built \((\S+: error: .*?)\); the whole log is (\S+)\. ", run.words)
    assert told, run.words
    assert "What was new was removed again" in run.words
    assert told.group(1) in " ".join(node.run("cat %s" % told.group(2)).split())
    assert node.run(PACKAGES) == ""
    assert node.run("dpkg --audit") == ""
    assert node.run("ls /etc/apt/preferences.d") == ""
    assert node.run(MODULES) == ""
