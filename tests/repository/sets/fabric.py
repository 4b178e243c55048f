# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fabric Manager, its NVSwitch library and IMEX, for every driver of the test repository.

Names as in NVIDIA's repositories for Debian and Ubuntu: with the branch before 580, without it since. Packages of two branches
exclude each other, as Ubuntu's apt-packaging-fabric-manager has it.
"""

from package import Package, tool

# Those of sets/driver.py, and one of an older branch.
VERSIONS = ("570.172.08", "580.95.05", "580.105.08", "590.44.01", "590.48.01", "590.55.01")
_UNIT = """[Unit]
Description=NVIDIA fabric manager service
After=network-online.target
Requires=network-online.target

[Service]
User=root
PrivateTmp=false
Type=forking
TimeoutStartSec=720
RuntimeDirectory=nvidia-fabricmanager
PIDFile=/run/nvidia-fabricmanager/nv-fabricmanager.pid
ExecStart=/usr/bin/nvidia-fabricmanager-start.sh --mode start
LimitCORE=infinity

[Install]
WantedBy=multi-user.target
"""
_START = """#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# simulated
if [ -x /opt/nvidia/nvlsm/sbin/nvlsm ]; then
    echo "Detected NVL5+ system"
    /opt/nvidia/nvlsm/sbin/nvlsm &
else
    echo "Detected Pre-NVL5 system"
fi
exec /usr/bin/nv-fabricmanager -c /usr/share/nvidia/nvswitch/fabricmanager.cfg
"""
_IMEX_UNIT = """[Unit]
Description=NVIDIA IMEX service
After=network-online.target
Requires=network-online.target

[Service]
User=root
RuntimeDirectory=nvidia-imex
ExecStart=/usr/bin/nvidia-imex -c /etc/nvidia-imex/config.cfg
LimitCORE=infinity

[Install]
WantedBy=multi-user.target
"""
# What debhelper puts into a package with a unit.
_RELOAD = "if [ -d /run/systemd/system ]; then systemctl --system daemon-reload; fi\n"
_STOP = 'if [ "$1" = remove ] && [ -d /run/systemd/system ]; then systemctl stop %s || true; fi\n'


def scripts(unit):
    return {"postinst": _RELOAD, "prerm": _STOP % unit, "postrm": _RELOAD}


def versioned(module, version):
    """The script of a tool that says its package's version."""
    return tool(module).replace("main(sys.argv[1:])", "main(sys.argv[1:], %r)" % version)


def _packages(version):
    branch = int(version.split(".", maxsplit=1)[0])
    suffix = "-%d" % branch if branch < 580 else ""

    def exclusive(name):
        return {"Provides": name, "Conflicts": name, "Replaces": name} if suffix else {}

    yield Package(
        "nvidia-fabricmanager" + suffix,
        version + "-1",
        fields=exclusive("nvidia-fabricmanager"),
        files={
            "/usr/bin/nv-fabricmanager": versioned("fabric_manager", version),
            "/usr/bin/nvidia-fabricmanager-start.sh": _START,
            "/usr/share/nvidia/nvswitch/fabricmanager.cfg": "# simulated\nDAEMONIZE=1\nFABRIC_MODE=0\n",
            "/usr/lib/systemd/system/nvidia-fabricmanager.service": _UNIT,
        },
        scripts=scripts("nvidia-fabricmanager"),
    )
    yield Package(
        "libnvidia-nscq" + suffix,
        version + "-1",
        fields=exclusive("libnvidia-nscq"),
        files={"/usr/lib/x86_64-linux-gnu/libnvidia-nscq.so.%s" % version: "simulated\n"},
    )
    yield Package(
        "nvidia-imex" + suffix,
        version + "-1",
        fields=exclusive("nvidia-imex"),
        files={
            "/usr/bin/nvidia-imex": versioned("imex", version),
            "/usr/bin/nvidia-imex-ctl": versioned("imex", version),
            "/etc/nvidia-imex/config.cfg": "# simulated\n",
            "/usr/lib/systemd/system/nvidia-imex.service": _IMEX_UNIT,
        },
        conffiles=("/etc/nvidia-imex/config.cfg",),
        scripts=scripts("nvidia-imex"),
    )


PACKAGES = [package for version in VERSIONS for package in _packages(version)]
