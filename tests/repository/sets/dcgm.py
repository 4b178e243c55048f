# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""DCGM 3 and 4 and dcgm-exporter.

Names, relations and places: NVIDIA/DCGM, cmake/packaging.cmake and scripts/verify_package_contents (4.x), config-files/systemd;
NVIDIA's package lists for 3.3.9, NVIDIA/dcgm-exporter, packaging. Version 4.4 was the first for CUDA 13.
"""

from package import Package, tool

EPOCH = "1:"
OLD = "3.3.9"
# Version, and the CUDA versions that it knows.
NEW = (("4.2.3", (11, 12)), ("4.4.2", (11, 12, 13)))
EXPORTERS = ("4.1.3", "4.7.1")
_UNIT = """[Unit]
Description=NVIDIA DCGM service
Conflicts=dcgm.service

[Service]
User=root
PrivateTmp=false
Environment="DCGM_HOME_DIR=/var/log/nvidia-dcgm"
ExecStart=/usr/bin/nv-hostengine -n --service-account nvidia-dcgm
Restart=on-abort

[Install]
WantedBy=multi-user.target
"""
_EXPORTER_UNIT = """[Unit]
Description=NVIDIA DCGM-exporter service
Wants=nvidia-dcgm.service
After=nvidia-dcgm.service

[Service]
User=root
PrivateTmp=false
StandardOutput=append:/var/log/dcgm-exporter.log
StandardError=append:/var/log/dcgm-exporter.log
ExecStart=/usr/bin/dcgm-exporter -f /etc/dcgm-exporter/default-counters.csv
Restart=on-abort

[Install]
WantedBy=multi-user.target
"""
_COUNTERS = "# DCGM FIELD, Prometheus metric type, help message\nDCGM_FI_DEV_GPU_TEMP, gauge, GPU temperature (in C).\n"
_RELOAD = "if [ -d /run/systemd/system ]; then systemctl --system daemon-reload; fi\n"
_USER = "getent passwd nvidia-dcgm >/dev/null || useradd -Urs /usr/sbin/nologin nvidia-dcgm\nmkdir -p /var/log/nvidia-dcgm\n"


def versioned(module, version, function="main"):
    """The script of a tool that says its package's version."""
    script = tool(module).replace("import main", "import " + function)
    return script.replace("main(sys.argv[1:])", "%s(sys.argv[1:], %r)" % (function, version))


def _programs(version):
    return {
        "/usr/bin/dcgmi": versioned("dcgm_installed", version),
        "/usr/bin/nv-hostengine": versioned("dcgm_installed", version, "hostengine"),
        "/usr/lib/systemd/system/nvidia-dcgm.service": _UNIT,
    }


def _four(version, cudas):
    full = "%s%s-1" % (EPOCH, version)
    name = "datacenter-gpu-manager-4"
    yield Package(
        name + "-core",
        full,
        fields={"Conflicts": "datacenter-gpu-manager"},
        files={**_programs(version), "/usr/lib/x86_64-linux-gnu/libdcgm.so.%s" % version: "simulated\n"},
        links={"/usr/lib/x86_64-linux-gnu/libdcgm.so.4": "libdcgm.so." + version},
        scripts={"postinst": _USER + _RELOAD, "postrm": _RELOAD},
    )
    yield Package(
        name + "-proprietary",
        full,
        fields={"Depends": "%s-core (= %s)" % (name, full)},
        files={"/usr/lib/x86_64-linux-gnu/libdcgmmoduleprofiling.so.%s" % version: "simulated\n"},
    )
    for cuda in cudas:
        yield Package(
            "%s-cuda%d" % (name, cuda),
            full,
            fields={
                "Depends": "%s-core (= %s)" % (name, full),
                "Recommends": "%s-proprietary, %s-proprietary-cuda%d" % (name, name, cuda),
                "Provides": "%s (= %s)" % (name, full),
            },
            files={"/usr/libexec/datacenter-gpu-manager-4/plugins/cuda%d/libDiagnostic.so.%s" % (cuda, version): "simulated\n"},
        )
        yield Package(
            "%s-proprietary-cuda%d" % (name, cuda),
            full,
            fields={"Depends": "%s-proprietary (= %s), %s-cuda%d (= %s)" % (name, full, name, cuda, full)},
            files={"/usr/libexec/datacenter-gpu-manager-4/plugins/cuda%d/libMemtest.so.%s" % (cuda, version): "simulated\n"},
        )


PACKAGES = [
    Package(
        "datacenter-gpu-manager",
        EPOCH + OLD,
        fields={"Provides": "datacenter-gpu-manager"},
        files={**_programs(OLD), "/usr/lib/x86_64-linux-gnu/libdcgm.so.%s" % OLD: "simulated\n"},
        links={"/usr/lib/x86_64-linux-gnu/libdcgm.so.3": "libdcgm.so." + OLD},
        scripts={"postinst": _USER + _RELOAD, "postrm": _RELOAD},
    ),
    *(package for version, cudas in NEW for package in _four(version, cudas)),
    *(
        Package(
            "datacenter-gpu-manager-exporter",
            version + "-1",
            fields={"Depends": "datacenter-gpu-manager-4-core"},
            files={
                "/usr/bin/dcgm-exporter": versioned("dcgm_exporter", version),
                "/etc/dcgm-exporter/default-counters.csv": _COUNTERS,
                "/usr/lib/systemd/system/nvidia-dcgm-exporter.service": _EXPORTER_UNIT,
            },
            conffiles=("/etc/dcgm-exporter/default-counters.csv",),
            scripts={"postinst": _RELOAD, "postrm": _RELOAD},
        )
        for version in EXPORTERS
    ),
]
