# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""DCGM and its exporter: no silent downgrade, no silent loss of a GPU, nothing that drifts unseen."""

from __future__ import annotations

import re

import pytest

DCGM, EXPORTER, BOTH = ["dcgm"], ["dcgm_exporter"], ["dcgm", "dcgm_exporter"]
# By hand, so that these drills need no other role.
DRIVER = """set -e
system=$(. /etc/os-release; echo debian$VERSION_ID)
[ -e /etc/apt/sources.list.d/nvidia-cuda.sources ] ||
    echo "deb [trusted=yes] http://127.0.0.1:8099/compute/cuda/repos/$system/x86_64 /" >/etc/apt/sources.list.d/by-hand.list
printf 'Package: *nvidia* libcuda1\\nPin: version 580.95.05-*\\nPin-Priority: 1001\\n' >/etc/apt/preferences.d/by-hand
apt-get update -qq
export DEBIAN_FRONTEND=noninteractive
apt-get install -qq -y linux-headers-$(uname -r) nvidia-kernel-open-dkms nvidia-driver-cuda >/dev/null
rm -f /etc/apt/preferences.d/by-hand /etc/apt/sources.list.d/by-hand.list
modprobe nvidia
"""
# "hi": to be held and installed; "ii": installed.
INSTALLED = "dpkg-query -W -f '${db:Status-Abbrev}${Package} ${Version}\\n' 'datacenter-*' 2>/dev/null | grep '^[hi]i' | sort || true"
METRICS = "python3 -c 'import urllib.request; print(urllib.request.urlopen(\"http://127.0.0.1:9400/metrics\").read().decode())'"
COUNTERS = "/etc/dcgm-exporter/kentino-counters.csv"


def named(run):
    """The tasks that changed something, or would, without the roles' names."""
    return [task.split(" : ")[-1] for task in run.changed]


@pytest.fixture(scope="module")
def driven(module_node):
    """The drills of this file build upon each other: DCGM 3, DCGM 4 in its place, and what can happen to it."""
    module_node.run(DRIVER)
    return module_node


def test_dcgm_without_the_drivers_cuda_is_refused(driven, play):
    run = play(driven, DCGM, dcgm_version="4.2.3-1")
    assert run.rc == 2
    assert "DCGM 4.2.3-1 has no diagnostics for CUDA 13" in run.message
    assert 'dcgm_cuda_major to "12"' in run.message


def test_version_that_the_repository_lacks_is_named(driven, play):
    run = play(driven, DCGM, dcgm_version="4.4.99-1")
    assert run.rc == 2
    assert "DCGM 4.4.99-1 could not be installed" in run.message
    assert "apt-cache madison" in run.message
    assert driven.run(INSTALLED) == ""


def test_dcgm_3_is_replaced_as_one(driven, play):
    driven.run("apt-get install -qq -y datacenter-gpu-manager >/dev/null && apt-mark hold datacenter-gpu-manager")
    driven.run("systemctl enable --now nvidia-dcgm")
    assert "needs the library of DCGM 4" in play(driven, EXPORTER).message
    run = play(driven, DCGM)
    assert run.rc == 0, run.output
    assert driven.run(INSTALLED).split("\n")[:-1] == [
        "hi datacenter-gpu-manager-4-%s 1:4.4.2-1" % part for part in ("core", "cuda13", "proprietary", "proprietary-cuda13")
    ]
    assert driven.run("dcgmi --version").count("Version : 4.4.2") == 2


def test_way_back_is_refused(driven, play):
    for asked in ({"dcgm_major": 3}, {"dcgm_version": "4.2.3-1", "dcgm_cuda_major": "12"}):
        before = driven.run(INSTALLED)
        run = play(driven, DCGM, **asked)
        assert run.rc == 2
        assert "has DCGM 4.4.2 and dcgm_major, dcgm_version ask for" in run.message
        assert "dcgm_downgrade_allowed" in run.message
        assert driven.run(INSTALLED) == before


@pytest.mark.nightly
def test_every_gpu_has_metrics(driven, play):
    run = play(driven, BOTH)
    assert run.rc == 0, run.output
    text = driven.run(METRICS)
    for field in (
        "DCGM_EXP_XID_ERRORS_COUNT",
        "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
        "DCGM_FI_DEV_ROW_REMAP_PENDING",
        "DCGM_FI_DEV_POWER_VIOLATION",
    ):
        assert len(set(re.findall(r'^%s\{.*?UUID="([^"]+)"' % field, text, re.MULTILINE))) == 8, field
    assert "SIMULATED" in text
    assert "Hostname" not in text


@pytest.mark.nightly
def test_exporter_is_nobody_and_limited(driven):
    assert driven.run("stat -c %U /proc/$(systemctl show -P MainPID nvidia-dcgm-exporter)").strip() not in ("root", "")
    assert driven.run("systemd-analyze verify /etc/systemd/system/nvidia-dcgm-exporter.service 2>&1") == ""
    exposure = re.search(r"exposure level.*: ([0-9.]+) (\w+)", driven.run("systemd-analyze security --no-pager nvidia-dcgm-exporter"))
    assert exposure
    assert float(exposure.group(1)) < 3
    assert driven.run("systemctl show -P MemoryMax -P Environment nvidia-dcgm-exporter").split() == [
        "536870912",
        "GOMEMLIMIT=409MiB",
        "GOMAXPROCS=1",
    ]


@pytest.mark.nightly
def test_second_run_and_check_mode_find_nothing_to_do(driven, play):
    for check in (False, True):
        run = play(driven, BOTH, check=check)
        assert (run.rc, run.changed) == (0, []), run.output


@pytest.mark.nightly
def test_drift_is_named(driven, play):
    driven.run(
        "apt-mark unhold datacenter-gpu-manager-4-core datacenter-gpu-manager-exporter; systemctl stop nvidia-dcgm-exporter nvidia-dcgm;"
        "sed -i /XID_ERRORS_COUNT/d %s" % COUNTERS
    )
    run = play(driven, BOTH, check=True)
    assert named(run) == [
        "Hold the packages", "Enable and start the host engine", "Hold the package", "Choose the counters", "Restart dcgm-exporter",
        "Enable and start the exporter",
    ]  # fmt: skip
    assert "+DCGM_EXP_XID_ERRORS_COUNT" in run.output
    run = play(driven, BOTH)
    assert run.rc == 0, run.output


@pytest.mark.nightly
def test_gpu_that_dcgm_does_not_see_is_missed(driven, play):
    driven.run("/opt/node/driver hardware h100x8+missing_gpu")
    for role, words in ((DCGM, "has found 7 of 8 GPUs"), (EXPORTER, "has metrics of 7 GPUs, 8 are expected")):
        run = play(driven, role, dcgm_wait_seconds=5, dcgm_exporter_wait_seconds=5)
        assert run.rc == 2
        assert words in run.message
    driven.run("/opt/node/driver hardware h100x8")


@pytest.mark.nightly
def test_field_that_does_not_exist_is_seen(driven, play):
    wrong = [{"field": "DCGM_FI_DEV_GPU_TEMPERATURE", "kind": "gauge", "help": "wrong"}]
    run = play(driven, EXPORTER, dcgm_exporter_counters=wrong, dcgm_exporter_wait_seconds=5)
    assert run.rc == 2
    assert "journalctl -u nvidia-dcgm-exporter: it says which field" in run.message
    assert "could not find DCGM field" in driven.run("journalctl -u nvidia-dcgm-exporter -n 20 -o cat")
    assert play(driven, EXPORTER).rc == 0


@pytest.mark.nightly
def test_metrics_of_another_exporter_are_no_proof(driven, play):
    """It listens on the same port and knows every GPU."""
    driven.run(
        "cp /etc/systemd/system/nvidia-dcgm-exporter.service /run/systemd/system/other.service; systemctl daemon-reload;"
        "systemctl stop nvidia-dcgm-exporter; systemctl start other"
    )
    run = play(driven, EXPORTER)
    driven.run("systemctl stop other; rm /run/systemd/system/other.service")
    assert run.rc == 2
    assert "Somebody else than nvidia-dcgm-exporter answers at http://127.0.0.1:9400/metrics on debian-12: other.service" in run.message
    assert play(driven, EXPORTER).rc == 0


@pytest.mark.nightly
def test_way_back_that_is_allowed(driven, play):
    run = play(driven, DCGM, dcgm_major=3, dcgm_downgrade_allowed=True)
    assert run.rc == 0, run.output
    assert "hi datacenter-gpu-manager 1:3.3.9" in driven.run(INSTALLED)
    assert "4-core" not in driven.run(INSTALLED)


@pytest.mark.nightly
@pytest.mark.parametrize("node", ["debian-13"], indirect=True)
def test_bare_node(node, play):
    before = node.run("find /etc /var/lib/dpkg -newer /run/boot-id -type f | sort")
    assert play(node, BOTH, check=True).rc == 0
    assert node.run("find /etc /var/lib/dpkg -newer /run/boot-id -type f | sort") == before
    assert "run the role kentino.gpu.nvidia_driver first" in play(node, DCGM).message
    node.run(DRIVER)
    run = play(node, BOTH)
    assert run.rc == 0, run.output
    run = play(node, BOTH, check=True)
    assert (run.rc, run.changed) == (0, []), run.output
