# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What RHEL and EPEL have and the roles ask for. The node is a Debian underneath: most of these only say that they are there."""

import os

from package import DISTRIBUTION, Package

from build import HERE, load

VERSION, RELEASE, ARCHITECTURE = "5.14.0", "570.12.1.el9_6", "x86_64"
KERNEL = "%s-%s.%s" % (VERSION, RELEASE, ARCHITECTURE)


def dkms():
    """The simulated DKMS as EPEL's: modules go to extra, and a build that failed leaves its log."""
    script = load(os.path.join(HERE, "sets/driver.py")).DKMS
    for old, new in (
        ("updates/dkms", "extra"),
        ('"/var/lib/dkms/nvidia/$1/$2"', '"/var/lib/dkms/nvidia/$1/$2/x86_64/module"'),
        (
            '    mv "/lib/modules/$2/extra/nvidia.ko.new"',
            '    cp "/lib/modules/$2/extra/nvidia.ko.new" "/var/lib/dkms/nvidia/$1/$2/x86_64/module/nvidia.ko"\n'
            '    mv "/lib/modules/$2/extra/nvidia.ko.new"',
        ),
    ):
        assert old in script, old
        script = script.replace(old, new)
    return script


def stand_in(name, version="1-1.el9", architecture="noarch", **more):
    return Package(name, version, architecture=architecture, repository=DISTRIBUTION, **more)


PACKAGES = [
    # What the node itself is made of.
    stand_in(
        "rocky-release",
        "9.6-1.el9",
        fields={"Provides": "system-release = 9.6, system-release(releasever) = 9, /bin/sh, bash, coreutils, systemd, glibc, python3"},
    ),
    *(stand_in(name) for name in ("gcc-c++", "ipmitool", "make", "nvme-cli", "python3-pip", "smartmontools")),
    # Of the site's own, and in need of the driver.
    stand_in("slurm-nvml", fields={"Requires": "libnvidia-ml"}),
    stand_in("slurm-jobs-on-gpus", fields={"Requires": "slurm-nvml"}),
    stand_in("dracut", files={"/usr/bin/dracut": '#!/bin/sh\necho "$@" >>/var/log/dracut\n'}),
    stand_in("dkms", "3.2.2-1.el9", files={"/usr/sbin/dkms": dkms()}),
    stand_in(
        "kernel-devel",
        "%s-%s" % (VERSION, RELEASE),
        ARCHITECTURE,
        files={"/usr/src/kernels/%s/Makefile" % KERNEL: "# simulated\n"},
        links={"/lib/modules/%s/build" % KERNEL: "/usr/src/kernels/" + KERNEL},
    ),
    # dnf's own plugin, which the node has laid aside.
    stand_in(
        "python3-dnf-plugin-versionlock",
        "4.3.0-1.el9",
        files={
            "/etc/dnf/plugins/versionlock.conf": "[main]\nenabled = 1\nlocklist = /etc/dnf/plugins/versionlock.list\n",
            "/etc/dnf/plugins/versionlock.list": "",
        },
        links={"/usr/lib/python3/dist-packages/dnf-plugins/versionlock.py": "/usr/share/stand-in/versionlock.py"},
        conffiles=("/etc/dnf/plugins/versionlock.conf", "/etc/dnf/plugins/versionlock.list"),
    ),
]
