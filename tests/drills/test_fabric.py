# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fabric Manager: never beside another driver, never where there is no NVSwitch, and up only when every GPU says so."""

from __future__ import annotations

import re

import pytest

ROLES = ["fabric_manager"]
# By hand, so that these drills need no other role.
DRIVER = """set -e
system=$(. /etc/os-release; echo debian$VERSION_ID)
[ -e /etc/apt/sources.list.d/nvidia-cuda.sources ] ||
    echo "deb [trusted=yes] http://127.0.0.1:8099/compute/cuda/repos/$system/x86_64 /" >/etc/apt/sources.list.d/by-hand.list
printf 'Package: *nvidia* libcuda1\\nPin: version %(version)s-*\\nPin-Priority: 1001\\n' >/etc/apt/preferences.d/by-hand
apt-get update -qq
export DEBIAN_FRONTEND=noninteractive
apt-get install -qq -y --allow-downgrades linux-headers-$(uname -r) nvidia-kernel-open-dkms nvidia-driver-cuda >/dev/null
rm -f /etc/apt/preferences.d/by-hand /etc/apt/sources.list.d/by-hand.list
modprobe -r nvidia
modprobe nvidia
"""
STATE = "nvidia-smi --query-gpu=fabric.state --format=csv,noheader | sort | uniq -c"
OLD, NEW = "580.95.05", "580.105.08"


def recorded(device_id):
    """What driver_info says of boards that cannot be had here, by what is known of them."""
    return {
        "gpus": [{"bus_id": "0000:1b:00.0", "device_id": device_id}],
        "nvswitches": [],
        "nvlink5": True,
        "module": {"loaded": OLD, "flavour": "open"},
        "library": OLD,
        "compute_capabilities": ["10.0"],
    }


def named(run):
    """The tasks that changed something, or would, without the roles' names."""
    return [task.split(" : ")[-1] for task in run.changed]


@pytest.fixture(scope="module")
def driven(module_node):
    """The drills of this file build upon each other: first nothing, then the fabric up, then what can happen to it."""
    module_node.run(DRIVER % {"version": OLD})
    return module_node


def test_version_other_than_the_drivers_is_refused(driven, play):
    run = play(driven, ROLES, fabric_manager_version="570.172.08")
    assert run.rc == 2
    assert "fabric_manager_version is 570.172.08 and the driver of debian-12 is %s" % OLD in run.message
    assert "Leave fabric_manager_version empty" in run.message
    assert driven.run("dpkg-query -W -f '${Package} ' 'nvidia-fabricmanager*' || true") == ""


def test_version_that_the_repository_lacks_is_named_and_nothing_is_changed(driven, play):
    driven.run("printf 'Package: nvidia-fabricmanager\\nPin: version *\\nPin-Priority: -1\\n' >/etc/apt/preferences.d/none")
    run = play(driven, ROLES)
    driven.run("rm /etc/apt/preferences.d/none")
    assert run.rc == 2
    assert "Fabric Manager %s, the driver's version, could not be installed" % OLD in run.message
    assert "apt-cache madison nvidia-fabricmanager" in run.message
    assert driven.run("dpkg-query -W -f '${Package} ' 'libnvidia-nscq*' || true") == ""


def test_fabric_manager_of_another_version_is_replaced_and_the_fabric_comes_up(driven, play):
    driven.run("apt-get install -qq -y nvidia-fabricmanager-570 libnvidia-nscq-570 >/dev/null && apt-mark hold nvidia-fabricmanager-570")
    assert "don't match with driver version" in driven.run("nv-fabricmanager 2>&1 || true")
    assert "8 In Progress" in driven.run(STATE)
    run = play(driven, ROLES)
    assert run.rc == 0, run.output
    assert "8 Completed" in driven.run(STATE)
    assert driven.run("dpkg-query -W -f '${Version} ${db:Status-Want}' nvidia-fabricmanager") == OLD + "-1 hold"
    assert "570" not in driven.run("dpkg -l | grep -E '^[hi]i.*(fabricmanager|nscq)'")
    assert driven.run("systemctl is-enabled nvidia-fabricmanager").strip() == "enabled"


@pytest.mark.nightly
def test_second_run_and_check_mode_find_nothing_to_do(driven, play):
    for check in (False, True):
        run = play(driven, ROLES, check=check)
        assert (run.rc, run.changed) == (0, []), run.output


@pytest.mark.nightly
def test_drift_is_named(driven, play):
    driven.run("apt-mark unhold nvidia-fabricmanager && systemctl disable --now nvidia-fabricmanager")
    run = play(driven, ROLES, check=True)
    assert named(run) == ["Hold the packages", "Enable and start Fabric Manager"]
    assert play(driven, ROLES).rc == 0


@pytest.mark.nightly
def test_gpu_that_does_not_join_is_named(driven, play):
    driven.run("/opt/node/driver hardware h100x8+fabric_not_ready")
    run = play(driven, ROLES, fabric_manager_wait_seconds=5)
    driven.run("/opt/node/driver hardware h100x8")
    assert run.rc == 2
    assert "with Fabric Manager and driver " + OLD in run.message
    assert "GPU 3" in run.message
    assert "fabric state 'In Progress'" in run.message


@pytest.mark.nightly
def test_fabric_manager_is_not_replaced_under_a_job(driven, play):
    driven.run(DRIVER % {"version": NEW})
    driven.run("/opt/node/driver hardware h100x8+foreign_process")
    run = play(driven, ROLES)
    driven.run("/opt/node/driver hardware h100x8")
    assert run.rc == 2
    assert "the GPUs are in use: process" in run.message
    assert driven.run("dpkg-query -W -f '${Version}' nvidia-fabricmanager") == OLD + "-1"


@pytest.mark.nightly
def test_replaced_fabric_manager_asks_for_a_reboot(driven, play):
    run = play(driven, ROLES)
    assert run.rc == 0, run.output
    assert [one for one in run.results if "NVLink SHARP (NVLS) does not work until they are reset" in str(one["message"])]
    assert "8 Completed" in driven.run(STATE)
    assert driven.run("nv-fabricmanager --version").split()[-1] == NEW


@pytest.mark.nightly
def test_node_without_nvswitches_is_left_as_it_is(driven, play):
    driven.run("/opt/node/driver hardware l40sx4; apt-get purge -qq -y --allow-change-held-packages nvidia-fabricmanager >/dev/null")
    run = play(driven, ROLES)
    assert (run.rc, run.changed) == (0, []), run.output
    assert [one for one in run.results if "no NVSwitch" in str(one["message"])]
    run = play(driven, ROLES, fabric_manager_mode="always", gpu_expected={"count": 4})
    driven.run("/opt/node/driver hardware h100x8")
    assert run.rc == 2
    assert "NV_WARN_NOTHING_TO_DO" in run.message
    assert "set fabric_manager_mode to never" in run.message


@pytest.mark.nightly
def test_imex_is_ready_where_it_is_asked_for(driven, play):
    assert "fabric_manager_imex_nodes" in play(driven, ROLES, fabric_manager_imex="always").message
    run = play(driven, ROLES, fabric_manager_imex="always", fabric_manager_imex_nodes=["192.0.2.1", "192.0.2.2"])
    assert run.rc == 0, run.output
    assert driven.run("nvidia-imex-ctl -q").strip() == "READY"
    again = play(driven, ROLES, fabric_manager_imex="always", fabric_manager_imex_nodes=["192.0.2.1", "192.0.2.2"])
    assert (again.rc, again.changed) == (0, []), again.output


@pytest.mark.nightly
def test_subnet_manager_of_an_nvlink_5_board_is_asked_for(node, play):
    """Without the module ib_umad, without nvlsm beside Fabric Manager, and with both."""
    node.run(DRIVER % {"version": OLD})
    board = {"__fabric_manager_driver": recorded("10de:2901")}
    # The kernel of a container has no modules to load.
    run = play(node, ROLES, **board)
    assert run.rc == 2
    assert "one of the modules mlx5_ib, ib_umad cannot be loaded: " in run.message
    assert "Fabric Manager is installed and was not started" in run.message
    assert {"nvlsm", "infiniband-diags", "libnvsdm"} <= set(node.run("apt-mark showhold").split())
    verify = {"tags": "fabric_manager_verify", **board}
    # The real one, which finds nothing here.
    assert "ibstat -l finds no bridge to them. It said: " in play(node, ROLES, **verify).message
    node.run("printf '#!/bin/sh\\necho mlx5_0\\n' >/usr/sbin/ibstat")
    node.run("chmod -x /opt/nvidia/nvlsm/sbin/nvlsm; systemctl start nvidia-fabricmanager")
    assert "the subnet manager nvlsm does not run beside Fabric Manager" in play(node, ROLES, **verify).message
    node.run("chmod +x /opt/nvidia/nvlsm/sbin/nvlsm; systemctl restart nvidia-fabricmanager")
    run = play(node, ROLES, **verify)
    assert run.rc == 0, run.output
    assert "8 Completed" in node.run(STATE)


@pytest.mark.nightly
@pytest.mark.parametrize("node", ["debian-13"], indirect=True)
def test_bare_node(node, play):
    """Check mode changes nothing; without a driver there is a message; boards that cannot be had here, by what is known of them."""
    before = node.run("find /etc /var/lib/dpkg -newer /run/boot-id -type f | sort")
    assert play(node, ROLES, check=True).rc == 0
    assert node.run("find /etc /var/lib/dpkg -newer /run/boot-id -type f | sort") == before
    assert "Run the role kentino.gpu.nvidia_driver first" in play(node, ROLES).message

    # As far as the packages: the kernel of a container has no modules to load.
    packages = "fabric_manager_assert,fabric_manager_install"
    board = play(node, ROLES, check=True, tags=packages, __fabric_manager_driver=recorded("10de:2901"))
    assert board.rc == 0, board.output
    assert re.findall("item=([a-z-]+)", board.output.split("Hold the packages")[-1])[:5] == [
        "nvidia-fabricmanager", "libnvidia-nscq", "libnvsdm", "nvlsm", "infiniband-diags",
    ]  # fmt: skip
    rack = play(node, ROLES, check=True, __fabric_manager_driver=recorded("10de:2941"), fabric_manager_imex_nodes=["192.0.2.1"])
    assert rack.rc == 0, rack.output
    assert re.findall("item=([a-z-]+)", rack.output.split("Hold the packages")[-1])[:1] == ["nvidia-imex"]
    assert "fabric" not in " ".join(re.findall("item=([a-z-]+)", rack.output.split("Hold the packages")[-1]))
    assert "fabric_manager_imex_nodes" in play(node, ROLES, check=True, __fabric_manager_driver=recorded("10de:2941")).message
