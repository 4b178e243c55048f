# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The driver as NVIDIA's repository for Debian has it, one of Debian's own shape, and the DKMS that builds its module.

Names, relations and places are those of NVIDIA's compute-only set (nvidia-driver-cuda and one of the two dkms packages). Two versions
are bad on purpose: 590.48.01 cannot be built, and the module of 590.55.01 cannot be loaded.
"""

import os
from dataclasses import replace

from package import CUDA, DEBIAN, DISTRIBUTION, ROOT, Package, tool

VERSIONS = ("580.95.05", "580.105.08", "590.44.01", "590.48.01", "590.55.01")
CANNOT_BUILD, CANNOT_LOAD = "590.48.01", "590.55.01"
DEBIANS_OWN = "550.163.01"
LIBRARIES = "/usr/lib/x86_64-linux-gnu/"
STUB = os.path.join(ROOT, "build/simulator/libnvidia-ml.so.1")
SETTLE = "if [ -x /opt/node/driver ]; then /opt/node/driver settle; fi\n"

# The part of DKMS that the driver's packages use. How long a build takes is in a file, for who wants to interrupt it.
DKMS = r"""#!/bin/sh
# A simulated DKMS: a module is a text.
set -eu
action=${1:-status}
[ $# -eq 0 ] || shift
version='' kernels='' all=''
while [ $# -gt 0 ]; do
    case $1 in
        -m) shift ;;
        -v) version=$2; shift ;;
        -k) kernels="$kernels $2"; shift ;;
        --all) all=yes ;;
    esac
    shift
done
sources() { for path in /usr/src/nvidia-*; do [ -e "$path/dkms.conf" ] && echo "${path#/usr/src/nvidia-}"; done; }
install_one() {
    if [ ! -d "/lib/modules/$2/build" ]; then
        echo "Module build for kernel $2 was skipped since the kernel headers for this kernel do not seem to be installed."
        return
    fi
    sleep "$(cat /var/lib/simulated-node/dkms-seconds 2>/dev/null || echo 0)"
    if grep -q BROKEN "/usr/src/nvidia-$1/dkms.conf"; then
        mkdir -p "/var/lib/dkms/nvidia/$1/build"
        echo "nvidia/nv.c:7: error: simulated: no such member" >"/var/lib/dkms/nvidia/$1/build/make.log"
        echo "Error! Bad return status for module build on kernel: $2 (x86_64)" >&2
        echo "Consult /var/lib/dkms/nvidia/$1/build/make.log for more information." >&2
        exit 10
    fi
    mkdir -p "/lib/modules/$2/updates/dkms" "/var/lib/dkms/nvidia/$1/$2"
    {
        cat "/usr/src/nvidia-$1/module"
        [ ! -e /var/lib/dkms/mok.pub ] || echo "signer=DKMS module signing key"
    } >"/lib/modules/$2/updates/dkms/nvidia.ko.new"
    mv "/lib/modules/$2/updates/dkms/nvidia.ko.new" "/lib/modules/$2/updates/dkms/nvidia.ko"
    echo "DKMS: install completed, nvidia/$1 for $2"
}
with_headers() { for path in /lib/modules/*/build; do [ -d "$path" ] && basename "$(dirname "$path")"; done; }
case $action in
    install) for kernel in ${kernels:-$(uname -r)}; do install_one "$version" "$kernel"; done ;;
    autoinstall)
        for one in $(sources); do for kernel in ${kernels:-$(with_headers)}; do install_one "$one" "$kernel"; done; done ;;
    remove)
        for path in /lib/modules/*/updates/dkms/nvidia.ko; do
            if [ -e "$path" ] && grep -qx "version=$version" "$path"; then rm "$path"; fi
        done
        rm -rf "/var/lib/dkms/nvidia/$version" ;;
    status)
        for one in $(sources); do
            for path in "/var/lib/dkms/nvidia/$one"/[0-9]*; do
                [ ! -e "$path" ] || echo "nvidia/$one, $(basename "$path"), x86_64: installed"
            done
        done ;;
esac
"""

# It starts only where the module is loaded, as the real one does.
PERSISTENCED = r"""#!/bin/sh
# A simulated nvidia-persistenced: no GPU is used.
if [ ! -e "${KENTINO_GPU_ROOT:-}/proc/driver/nvidia/version" ]; then
    echo "nvidia-persistenced failed to initialize. Check syslog for more details." >&2
    exit 1
fi
exec sleep infinity
"""
PERSISTENCED_UNIT = """\
[Unit]
Description=NVIDIA Persistence Daemon
Wants=syslog.target

[Service]
Type=simple
ExecStart=/usr/bin/nvidia-persistenced --verbose
ExecStopPost=/bin/rm -rf /var/run/nvidia-persistenced

[Install]
WantedBy=multi-user.target
"""
PERSISTENCED_STARTS = """\
if [ "$1" = configure ] && [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl enable --quiet nvidia-persistenced.service
    systemctl restart nvidia-persistenced.service || true
fi
"""
PERSISTENCED_STOPS = "if [ -d /run/systemd/system ]; then systemctl stop nvidia-persistenced.service || true; fi\n"


def kernel_modules(name, other, version, package_version, licence, repository):
    """A package whose source DKMS builds when it is installed."""
    source = "/usr/src/nvidia-%s/" % version
    broken = "# BROKEN\n" if version == CANNOT_BUILD else ""
    module = "version=%s\nlicense=%s\n" % (version, licence) + ("broken=1\n" if version == CANNOT_LOAD else "")
    build = 'if [ "$1" = configure ]; then dkms install -m nvidia -v %s; fi\n' % version
    return Package(
        name,
        package_version,
        fields={
            "Depends": "dkms, firmware-nvidia-gsp (= %s), nvidia-modprobe" % package_version,
            "Conflicts": other,
            "Provides": "nvidia-kernel-%s" % version,
        },
        files={source + "dkms.conf": 'PACKAGE_NAME="nvidia"\nPACKAGE_VERSION="%s"\n%s' % (version, broken), source + "module": module},
        scripts={"postinst": build + SETTLE, "prerm": "dkms remove -m nvidia -v %s --all\n" % version},
        repository=repository,
    )


def library(name, soname, package_version, version, depends="", content="simulated\n"):
    path = "%s%s.%s" % (LIBRARIES, soname, version)
    return {
        "name": name,
        "version": package_version,
        "fields": {"Depends": depends} if depends else {},
        "files": {path: content},
        "links": {"%s%s.1" % (LIBRARIES, soname): os.path.basename(path)},
    }


def driver(version, revision, repository, open_name, proprietary_name, tools_name):
    package_version = "%s-%s" % (version, revision)
    same = "(= %s)" % package_version
    nvml = library("libnvidia-ml1", "libnvidia-ml.so", package_version, version)
    nvml["copies"] = dict.fromkeys(nvml.pop("files"), STUB)
    compute = f"libcuda1 {same}, libnvidia-ml1 {same}, libnvidia-cfg1 {same}, nvidia-modprobe, nvidia-persistenced"
    tools = {"Depends": compute}
    if tools_name != "nvidia-smi":
        tools.update(Conflicts="nvidia-smi", Replaces="nvidia-smi")
    made = [
        Package(**nvml, scripts={"postinst": SETTLE, "postrm": SETTLE}, repository=repository),
        Package(**library("libnvidia-cfg1", "libnvidia-cfg.so", package_version, version), repository=repository),
        Package(**library("libnvidia-ptxjitcompiler1", "libnvidia-ptxjitcompiler.so", package_version, version), repository=repository),
        Package(
            **library("libcuda1", "libcuda.so", package_version, version, "libnvidia-ptxjitcompiler1 " + same), repository=repository
        ),
        Package("firmware-nvidia-gsp", package_version, files={"/lib/firmware/nvidia/%s/gsp_ga10x.bin" % version: "simulated\n"},
                repository=repository),
        Package("nvidia-modprobe", package_version, files={"/usr/bin/nvidia-modprobe": "#!/bin/sh\nexit 0\n"}, repository=repository),
        Package(
            "nvidia-persistenced",
            package_version,
            fields={"Depends": "libnvidia-cfg1"},
            files={"/usr/bin/nvidia-persistenced": PERSISTENCED, "/lib/systemd/system/nvidia-persistenced.service": PERSISTENCED_UNIT},
            scripts={"postinst": PERSISTENCED_STARTS, "prerm": PERSISTENCED_STOPS},
            repository=repository,
        ),
        Package(tools_name, package_version, fields=tools, files={"/usr/bin/nvidia-smi": tool("nvidia_smi")}, repository=repository),
        kernel_modules(open_name, proprietary_name, version, package_version, "Dual MIT/GPL", repository),
        kernel_modules(proprietary_name, open_name, version, package_version, "NVIDIA", repository),
    ]  # fmt: skip
    if repository == CUDA:
        for name, modules in (("nvidia-open", open_name), ("cuda-drivers", proprietary_name)):
            both = "%s %s, %s %s" % (modules, same, tools_name, same)
            made.append(Package(name, package_version, fields={"Depends": both}, repository=repository))
    return [replace(package, distributions=DEBIAN) for package in made]


PACKAGES = [
    Package(
        "dkms",
        "9:3.0.10+simulated",
        files={"/usr/sbin/dkms": DKMS},
        scripts={"postinst": "chmod 0755 /usr/sbin/dkms\n"},
        architecture="all",
        repository=DISTRIBUTION,
    )
]
for number in VERSIONS:
    PACKAGES += driver(number, "1", CUDA, "nvidia-kernel-open-dkms", "nvidia-kernel-dkms", "nvidia-driver-cuda")
PACKAGES += driver(DEBIANS_OWN, "2", DISTRIBUTION, "nvidia-open-kernel-dkms", "nvidia-kernel-dkms", "nvidia-smi")
# What a site has beside the driver: a package that needs its library, and one that only looks like a part of it.
PACKAGES += [
    Package("slurm-nvml-plugin", "1.0", fields={"Depends": "libnvidia-ml1"}, repository=DISTRIBUTION),
    Package("nvidia-mig-manager", "0.8.0-1", repository=DISTRIBUTION),
]
