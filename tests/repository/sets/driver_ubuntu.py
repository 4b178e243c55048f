# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The driver as NVIDIA's repository for Ubuntu has it, and Ubuntu's own "-server" series with its Fabric Manager.

Names, relations and places are those of nvidia-graphics-drivers-580-server in Ubuntu's archive, and of NVIDIA's "Driver Installation
Guide", which says what branch 590 renamed. Two versions are bad on purpose, as for Debian.
"""

import os

from package import CUDA, DISTRIBUTION, UBUNTU, Package, tool

from build import HERE, load

debian = load(os.path.join(HERE, "sets/driver.py"))
fabric = load(os.path.join(HERE, "sets/fabric.py"))
# None that Ubuntu's archive still has: nodes know that as well.
UBUNTUS_OWN = "580.105.08"

# As Ubuntu's: udev starts it, without persistence mode.
_UNIT = """\
[Unit]
Description=NVIDIA Persistence Daemon
Wants=syslog.target
StopWhenUnneeded=true

[Service]
Type=forking
ExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --no-persistence-mode --verbose
ExecStopPost=/bin/rm -rf /var/run/nvidia-persistenced
"""
_PERSISTENCED = """\
#!/bin/sh
# A simulated nvidia-persistenced: no GPU is used.
if [ ! -e /usr/lib/x86_64-linux-gnu/libnvidia-cfg.so.1 ]; then
    echo "libnvidia-cfg.so.1: cannot open shared object file: No such file or directory" >&2
    exit 1
fi
if [ ! -e "${KENTINO_GPU_ROOT:-}/proc/driver/nvidia/version" ]; then
    echo "nvidia-persistenced failed to initialize. Check syslog for more details." >&2
    exit 1
fi
happened=${KENTINO_SIM_STATE:-/var/lib/simulated-node}/happened
[ ! -e "$happened" ] || sed -i /persistence=/d "$happened"
case " $* " in *" --no-persistence-mode "*)
    for gpu in 0 1 2 3 4 5 6 7; do echo "gpu.$gpu.persistence=0" >>"$happened"; done ;;
esac
sleep infinity </dev/null >/dev/null 2>&1 &
"""
_USER = "id nvidia-persistenced >/dev/null 2>&1 || useradd --system --no-create-home --user-group nvidia-persistenced\n"


def driver(version, revision, suffix, repository):
    full = "%s-%s" % (version, revision)
    same = "(= %s)" % full
    firmware = "nvidia-firmware" + suffix + ("" if repository == CUDA else "-" + version)
    common = "nvidia-kernel-common" + suffix

    def package(name, depends="", only_one_of=(), provides=(), **more):
        """C(only_one_of): what all packages of this kind provide and conflict with, whatever branch is in their name."""
        others = [other for other in only_one_of if other != name]
        fields = {"Depends": depends} if depends else {}
        if others:
            fields.update(Conflicts=", ".join(others), Replaces=", ".join(others))
        if others or provides:
            fields["Provides"] = ", ".join((*others, *provides))
        return Package(name, full, fields=fields, repository=repository, distributions=UBUNTU, **more)

    def library(name, soname):
        path = "/usr/lib/x86_64-linux-gnu/%s.%s" % (soname, version)
        content = {"copies": {path: debian.STUB}} if soname == "libnvidia-ml.so" else {"files": {path: "simulated\n"}}
        return {"links": {"/usr/lib/x86_64-linux-gnu/%s.1" % soname: os.path.basename(path)}, **content}

    def kernel_modules(flavour, licence):
        source = "/usr/src/nvidia-%s/" % version
        broken = "# BROKEN\n" if version == debian.CANNOT_BUILD else ""
        module = "version=%s\nlicense=%s\n" % (version, licence) + ("broken=1\n" if version == debian.CANNOT_LOAD else "")
        build = 'if [ "$1" = configure ]; then dkms install -m nvidia -v %s; fi\n' % version
        sources = "nvidia-kernel-source" + suffix + flavour
        yield package(sources, only_one_of=("nvidia-kernel-source",), files={source + "module": module})
        yield package(
            "nvidia-dkms" + suffix + flavour,
            "dkms, %s %s, %s %s" % (sources, same, common, same),
            only_one_of=("nvidia-dkms-kernel",),
            files={source + "dkms.conf": 'PACKAGE_NAME="nvidia"\nPACKAGE_VERSION="%s"\n%s' % (version, broken)},
            scripts={"postinst": build + debian.SETTLE, "prerm": "dkms remove -m nvidia -v %s --all\n" % version},
        )

    compute, nvml = library("", "libcuda.so"), library("", "libnvidia-ml.so")
    of_this_version = "%s-%s" % (common, version)
    yield package(
        "libnvidia-compute" + suffix,
        of_this_version,
        only_one_of=("libnvidia-compute",),
        provides=("libnvidia-ml1 " + same, "libcuda1 " + same),
        files=compute["files"],
        copies=nvml["copies"],
        links={**compute["links"], **nvml["links"]},
        scripts={"postinst": debian.SETTLE, "postrm": debian.SETTLE},
    )
    yield package("libnvidia-cfg1" + suffix, of_this_version, only_one_of=("libnvidia-cfg1-any",), **library("", "libnvidia-cfg.so"))
    yield package(
        "nvidia-compute-utils" + suffix,
        "libnvidia-compute" + suffix,
        only_one_of=("nvidia-compute-utils", "nvidia-persistenced"),
        files={"/usr/bin/nvidia-persistenced": _PERSISTENCED, "/usr/lib/systemd/system/nvidia-persistenced.service": _UNIT},
        scripts={"postinst": _USER},
    )
    yield package(
        "nvidia-utils" + suffix,
        "%s, libnvidia-compute%s (>= %s)" % (of_this_version, suffix, version),
        only_one_of=("nvidia-utils", "nvidia-smi"),
        files={"/usr/bin/nvidia-smi": tool("nvidia_smi")},
    )
    yield package(firmware, files={"/lib/firmware/nvidia/%s/gsp_ga10x.bin" % version: "simulated\n"})
    yield package(
        common,
        firmware,
        only_one_of=("nvidia-kernel-common",),
        provides=(of_this_version,),
        files={"/lib/modprobe.d/nvidia-graphics-drivers.conf": "blacklist nouveau\nalias nouveau off\n"},
    )
    yield from kernel_modules("-open", "Dual MIT/GPL")
    yield from kernel_modules("", "NVIDIA")


def own_fabric_manager(version, revision, suffix):
    """Ubuntu's own have the branch in the name and go with the -server series."""
    kept = {"nvidia-fabricmanager": "nvidia-fabricmanager", "libnvidia-nscq": "libnvidia-nscq", "nvidia-imex": "nvidia-imex"}
    for package in fabric.PACKAGES:
        if package.name in kept and package.version.startswith(version):
            fields = {
                "Depends": "nvidia-kernel-common-%s-server-%s" % (suffix, version),
                "Provides": package.name,
                "Conflicts": package.name,
            }
            yield Package(
                "%s-%s" % (package.name, suffix),
                "%s-%s" % (version, revision),
                fields=fields,
                files=package.files,
                scripts=package.scripts,
                conffiles=package.conffiles,
                repository=DISTRIBUTION,
                distributions=UBUNTU,
            )


PACKAGES = [
    *(
        package
        for version in debian.VERSIONS
        for package in driver(version, *(("0ubuntu1", "-580") if version.startswith("580.") else ("1ubuntu1", "")), CUDA)
    ),
    *driver(UBUNTUS_OWN, "0ubuntu0.24.04.2", "-580-server", DISTRIBUTION),
    *own_fabric_manager(UBUNTUS_OWN, "0ubuntu0.24.04.1", "580"),
]
