# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can go wrong between the inventory and the environment that a training process really has."""

from __future__ import annotations

import json

import pytest

ROLES = ["training_env"]
UNIT = "trainer.service"
DROP_IN = "/etc/systemd/system/%s.d/50-kentino-gpu-training.conf" % UNIT
PROFILE = "/etc/profile.d/kentino-gpu.sh"
OURS = "%s /etc/kentino-gpu /etc/security/limits.d/90-kentino-gpu.conf /var/lib/kentino-gpu/flight-recorder" % PROFILE
ABOUT = "grep -E '^(NCCL|TORCH|PYTORCH|CUDA)' | sort"


@pytest.fixture
def fresh(module_node):
    """A node with a unit for training and nothing of this role."""
    module_node.run(
        "systemctl stop trainer 2>/dev/null;"
        " rm -rf %s /etc/systemd/system/trainer.service.d /etc/profile.d/[az]*.sh /var/lib/kentino-gpu/preflight;"
        " : > /root/.bashrc; sed -i '/NCCL/d' /etc/environment 2>/dev/null;"
        " printf '[Service]\\nType=oneshot\\nExecStart=/usr/bin/env\\n' > /etc/systemd/system/trainer.service;"
        " systemctl daemon-reload" % OURS
    )
    return module_node


def said(run):
    """The output without its line breaks."""
    return " ".join(run.output.split())


def shell(node):
    return node.run("su --login root --command env | " + ABOUT).splitlines()


def unit(node):
    node.run("journalctl --rotate --vacuum-time=1s -q; systemctl restart trainer; journalctl --sync")
    return node.run("journalctl --unit trainer --output cat | " + ABOUT).splitlines()


@pytest.mark.nightly
@pytest.mark.parametrize("node", ["debian-12", "debian-13"], indirect=True)
def test_bare_node_gets_the_same_environment_everywhere(node, play):
    node.run("printf '[Service]\\nType=oneshot\\nExecStart=/usr/bin/env\\n' > /etc/systemd/system/trainer.service")
    before = node.run("find /etc /var/lib -newer /run/boot-id -type f | sort")
    asked = {"training_env_units": [UNIT], "training_env_extra": {"NCCL_DEBUG": "WARN"}}
    assert play(node, ROLES, check=True, **asked).rc == 0
    assert node.run("find /etc /var/lib -newer /run/boot-id -type f | sort") == before
    first = play(node, ROLES, **asked)
    assert first.rc == 0, first.output
    assert node.run("stat -c %a /var/lib/kentino-gpu /var/lib/kentino-gpu/flight-recorder").split() == ["755", "1777"]
    for check in (False, True):
        again = play(node, ROLES, check=check, **asked)
        assert (again.rc, again.changed) == (0, []), again.output
    container = node.run("cat /etc/kentino-gpu/container.env | " + ABOUT).splitlines()
    assert "NCCL_DEBUG=WARN" in container
    assert shell(node) == unit(node) == container


@pytest.mark.nightly
def test_limit_on_locked_memory_reaches_users_and_units(fresh, play):
    run = play(fresh, ROLES, training_env_memlock="4096", training_env_units=[UNIT], training_env_worst="pass")
    assert run.rc == 0, run.output
    assert fresh.run("su --login root --command 'ulimit -l'").strip() == "4096"
    assert "LimitMEMLOCK=4194304" in fresh.run("systemctl show --property LimitMEMLOCK trainer")


@pytest.mark.nightly
def test_drift_is_named_by_check_mode(fresh, play):
    assert play(fresh, ROLES, training_env_units=[UNIT]).rc == 0
    fresh.run(
        "sed -i 's/PCI_BUS_ID/FASTEST_FIRST/' %s; chmod 755 /var/lib/kentino-gpu/flight-recorder; rm %s;"
        " echo NCCL_DEBUG=TRACE >> /etc/kentino-gpu/container.env; rm /etc/security/limits.d/90-kentino-gpu.conf" % (PROFILE, DROP_IN)
    )
    run = play(fresh, ROLES, check=True, training_env_units=[UNIT])
    assert run.rc == 0
    assert len(run.changed) == 5, run.changed
    for words in (
        "-export CUDA_DEVICE_ORDER='FASTEST_FIRST'",
        "-NCCL_DEBUG=TRACE",
        "0755",
        "+EnvironmentFile=",
        "+root - memlock",
    ):
        assert words in run.output
    assert play(fresh, ROLES, training_env_units=[UNIT]).rc == 0
    assert play(fresh, ROLES, check=True, training_env_units=[UNIT]).changed == []


@pytest.mark.nightly
def test_profile_of_somebody_else_that_wins_is_named_with_its_line(fresh, play):
    fresh.run("printf '# ours\\nexport TORCH_NCCL_ASYNC_ERROR_HANDLING=0\\n' > /etc/profile.d/zz-site.sh")
    run = play(fresh, ROLES)
    assert run.rc == 0, run.output
    assert "the profile says TORCH_NCCL_ASYNC_ERROR_HANDLING=1, and /etc/profile.d/zz-site.sh sets 0" in said(run)
    strict = play(fresh, ROLES, training_env_worst="pass")
    assert strict.rc == 2
    assert "/etc/profile.d/zz-site.sh" in strict.message
    assert fresh.run("cat /etc/profile.d/zz-site.sh").count("\n") == 2


def test_old_names_are_named_wherever_they_are(fresh, play):
    fresh.run(
        "echo 'export NCCL_ASYNC_ERROR_HANDLING=1' > /root/.bashrc; echo NCCL_SOCKET_IFACE=eth0 >> /etc/environment;"
        " printf '[Service]\\nType=oneshot\\nExecStart=/usr/bin/env\\nEnvironment=CUDA_LAUNCH_BLOCKING=1\\n'"
        " > /etc/systemd/system/trainer.service; systemctl daemon-reload"
    )
    run = play(fresh, ROLES, training_env_torch_version="2.9.1")
    assert run.rc == 0, run.output
    for words in (
        "NCCL_ASYNC_ERROR_HANDLING is an old name since PyTorch 2.2; the new one is TORCH_NCCL_ASYNC_ERROR_HANDLING",
        "NCCL_SOCKET_IFACE is no variable that PyTorch or NCCL reads; NCCL_SOCKET_IFNAME was probably meant",
        "CUDA_LAUNCH_BLOCKING=1 is still set",
        "/root/.bashrc:1",
        "/etc/systemd/system/trainer.service:4",
    ):
        assert words in said(run), words


@pytest.mark.nightly
def test_folder_without_room_is_refused_before_anything_is_written(fresh, play):
    fresh.run("mkdir -p /mnt/small && mount -t tmpfs -o size=1M tmpfs /mnt/small")
    run = play(fresh, ROLES, training_env_dump_path="/mnt/small/dumps")
    assert run.rc == 2
    assert "1 MiB are free on /mnt/small, 157 needed" in run.message
    assert fresh.run("ls %s 2>/dev/null" % OURS, check=False) == ""
    fresh.run("umount /mnt/small")


@pytest.mark.nightly
def test_profile_that_ends_every_shell_is_no_success(fresh, play):
    fresh.run("echo 'exit 0' > /etc/profile.d/aa-site.sh")
    run = play(fresh, ROLES)
    assert run.rc == 2
    assert "a login shell of root told nothing" in run.message


@pytest.mark.nightly
def test_run_that_broke_off_before_systemd_was_told_is_made_good(fresh, play):
    assert play(fresh, ROLES, training_env_units=[UNIT]).rc == 0
    fresh.run("sed -i /oneshot/aRemainAfterExit=yes /etc/systemd/system/trainer.service; systemctl daemon-reload; systemctl start trainer")
    fresh.run("mv %s /root/; systemctl daemon-reload; mv /root/50-kentino-gpu-training.conf %s" % (DROP_IN, DROP_IN))
    assert "training.env" not in fresh.run("systemctl show --property EnvironmentFiles trainer")
    assert play(fresh, ROLES, training_env_units=[UNIT]).rc == 0
    assert "training.env" in fresh.run("systemctl show --property EnvironmentFiles trainer")


@pytest.mark.nightly
def test_unit_that_is_no_longer_named_loses_the_environment(fresh, play):
    assert play(fresh, ROLES, training_env_units=[UNIT]).rc == 0
    assert play(fresh, ROLES).rc == 0
    assert "training.env" not in fresh.run("systemctl show --property EnvironmentFiles trainer")


@pytest.mark.nightly
def test_peer_to_peer_is_turned_off_where_the_test_found_that_better(fresh, play):
    runs = [{"p2p": "off", "works": True}, {"p2p": "on", "works": False}]
    nccl = {"best_p2p": "off", "best_environment": {"NCCL_P2P_DISABLE": "1"}, "runs": runs}
    result = {"verdict": "warn", "facts": {"nccl": nccl}}
    assert play(fresh, ROLES, training_env_nccl_result=result).rc == 0
    assert "NCCL_P2P_DISABLE=1" in shell(fresh), json.dumps(result)
    assert play(fresh, ROLES).rc == 0
    assert "NCCL_P2P_DISABLE=1" not in shell(fresh)


@pytest.mark.nightly
def test_python_without_pytorch_is_refused_by_name(fresh, play):
    run = play(fresh, ROLES, training_env_torch_python="/usr/bin/python3")
    assert run.rc == 2
    assert "/usr/bin/python3 does not tell the version of PyTorch: it has no PyTorch" in run.message
    assert fresh.run("ls %s 2>/dev/null" % PROFILE, check=False) == ""
