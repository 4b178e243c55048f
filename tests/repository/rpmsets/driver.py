# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The driver as NVIDIA's repository for RHEL 9 has it, with the scripts and the two bad versions of sets/driver.py.

Names and relations are those of NVIDIA/yum-packaging-nvidia-driver, -nvidia-kmod-common and -dkms-nvidia. There the script that builds
the module never fails: dnf ends well with a module that could not be built.
"""

import os

from package import Package, tool

from build import HERE, load

debian = load(os.path.join(HERE, "sets/driver.py"))
RELOAD = "if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi\n"


def driver(version):
    full = "3:%s-1.el9" % version
    same = "= 3:" + version
    broken = "# BROKEN\n" if version == debian.CANNOT_BUILD else ""

    def package(name, requires="", **more):
        fields = {"Requires": requires} if requires else {}
        return Package(name, full, fields={**fields, **more.pop("fields", {})}, **more)

    def library(name, soname, **more):
        path = "/usr/lib64/%s.%s" % (soname, version)
        content = {"copies": {path: debian.STUB}} if name == "libnvidia-ml" else {"files": {path: "simulated\n"}}
        scripts = {"post": "ldconfig\n" + debian.SETTLE, "postun": "ldconfig\n" + debian.SETTLE}
        links = {"/usr/lib64/%s.1" % soname: os.path.basename(path)}
        return package(name, links=links, scripts=scripts, architecture="x86_64", **content, **more)

    def kernel_modules(name, other, licence):
        source = "/usr/src/nvidia-%s/" % version
        module = "version=%s\nlicense=%s\n" % (version, licence) + ("broken=1\n" if version == debian.CANNOT_LOAD else "")
        return package(
            name,
            "dkms, nvidia-kmod-common " + same,
            fields={"Conflicts": other, "Provides": "nvidia-kmod " + same},
            files={source + "dkms.conf": 'PACKAGE_NAME="nvidia"\nPACKAGE_VERSION="%s"\n%s' % (version, broken), source + "module": module},
            scripts={
                "post": "dkms install -m nvidia -v %s -q --force || :\n%s" % (version, debian.SETTLE),
                "preun": "dkms remove -m nvidia -v %s -q --all || :\n" % version,
            },
            architecture="x86_64",
        )

    return [
        library("libnvidia-ml", "libnvidia-ml.so"),
        library("libnvidia-cfg", "libnvidia-cfg.so"),
        library("nvidia-driver-cuda-libs", "libcuda.so", requires="libnvidia-ml " + same),
        package("nvidia-modprobe", "nvidia-kmod-common " + same, files={"/usr/bin/nvidia-modprobe": "#!/bin/sh\nexit 0\n"},
                architecture="x86_64"),
        package("nvidia-kmod-common", "nvidia-kmod " + same, architecture="noarch",
                files={"/usr/lib/firmware/nvidia/%s/gsp_ga10x.bin" % version: "simulated\n",
                       "/usr/lib/modprobe.d/nvidia.conf": "blacklist nouveau\n"}),
        package(
            "nvidia-persistenced",
            "libnvidia-cfg " + same,
            files={"/usr/bin/nvidia-persistenced": debian.PERSISTENCED,
                   "/usr/lib/systemd/system/nvidia-persistenced.service": debian.PERSISTENCED_UNIT},
            scripts={"post": RELOAD, "preun": 'if [ "$1" = 0 ]; then %s fi\n' % debian.PERSISTENCED_STOPS.replace("\n", ";"),
                     "postun": RELOAD},
            architecture="x86_64",
        ),
        package("nvidia-driver-cuda",
                f"nvidia-driver-cuda-libs {same}, nvidia-persistenced {same}, nvidia-kmod-common {same}, nvidia-modprobe",
                files={"/usr/bin/nvidia-smi": tool("nvidia_smi")}, architecture="x86_64"),
        kernel_modules("kmod-nvidia-open-dkms", "kmod-nvidia-latest-dkms", "Dual MIT/GPL"),
        kernel_modules("kmod-nvidia-latest-dkms", "kmod-nvidia-open-dkms", "NVIDIA"),
    ]  # fmt: skip


PACKAGES = [package for version in debian.VERSIONS for package in driver(version)]
