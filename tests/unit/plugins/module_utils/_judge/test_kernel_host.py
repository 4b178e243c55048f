# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse.kernel_log_records import OomKill, OtherEvent, StorageError
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._judge.kernel_records import (
    HOUR,
    findings,
    only,
    origin,
    policy,
    short,
)


@pytest.mark.parametrize(
    ("kill", "expected"),
    [
        pytest.param(OomKill(71, "python3", "global"), ("oom.kill", "warning", "restart_job"), id="host-out-of-memory"),
        pytest.param(OomKill(71, "python3", "memcg"), ("oom.memcg", "info", "look_at_code"), id="limit-of-the-job"),
        pytest.param(OomKill(71, "python3"), ("oom.kill", "warning", "restart_job"), id="scope-not-told"),
        pytest.param(
            OomKill(None, invoker="dataloader", kill_confirmed=False), ("oom.invoked", "warning", "restart_job"), id="victim-not-told"
        ),
    ],
)
def test_memory_killer(kill: OomKill, expected: t.Tuple[str, str, str]) -> None:
    assert short([only(kill)]) == [expected]


def test_kills_of_one_program_are_one_finding() -> None:
    found = only(*(OomKill(pid, "python3", "global", origin=origin(pid)) for pid in range(1, 9)))

    assert (found.count, found.subject.name) == (8, "python3")
    assert "pid 1, 2, 3, 4, 5 and 3 more" in found.message


def test_old_kill_is_history() -> None:
    now = int(origin(30 * HOUR).usec or 0)

    assert only(OomKill(71, "python3", "global", origin=origin(0)), under=policy(now_usec=now)).severity == "info"


def _storage(kind: str, dev: str = "nvme3n1", **fields: t.Any) -> StorageError:
    return StorageError(kind, dev, text=fields.pop("text", kind), origin=origin(fields.pop("seconds", 0)), **fields)


@pytest.mark.parametrize(
    ("error", "expected", "kind"),
    [
        pytest.param(_storage("nvme_timeout", "nvme3"), ("storage.nvme_timeout", "warning", "contact_vendor"), "disk", id="one-time-out"),
        pytest.param(_storage("nvme_removed", "nvme3"), ("storage.nvme_removed", "critical", "contact_vendor"), "disk", id="removed"),
        pytest.param(_storage("nvme_dead", "nvme3"), ("storage.nvme_dead", "critical", "replace"), "disk", id="dead"),
        pytest.param(_storage("md_disk_failure", "sda3"), ("storage.md_disk_failure", "critical", "replace"), "disk", id="RAID-member"),
        pytest.param(
            _storage("io_error", op="WRITE", sector=8), ("storage.io_error", "critical", "contact_vendor"), "disk", id="write-error"
        ),
        pytest.param(_storage("io_error", op="READ"), ("storage.io_error", "warning", "contact_vendor"), "disk", id="read-error"),
        pytest.param(
            _storage("io_error", op="READ", text="critical medium error, dev"),
            ("storage.medium_error", "critical", "replace"),
            "disk",
            id="medium",
        ),
        pytest.param(
            _storage("io_error", text="operation not supported error, dev"), ("storage.io_error", "info", "none"), "disk", id="trim-refused"
        ),
        pytest.param(_storage("lost_write", "dm-2"), ("storage.lost_write", "critical", "contact_vendor"), "disk", id="lost-write"),
        pytest.param(_storage("remount_ro", "md0"), ("storage.remount_ro", "critical", "contact_vendor"), "filesystem", id="read-only"),
        pytest.param(_storage("fs_error", "sda1"), ("storage.fs_error", "critical", "contact_vendor"), "filesystem", id="file-system"),
        pytest.param(_storage("something_new"), ("storage.something_new", "warning", "contact_vendor"), "disk", id="unknown-kind"),
    ],
)
def test_disk_trouble(error: StorageError, expected: t.Tuple[str, str, str], kind: str) -> None:
    found = only(error)

    assert short([found]) == [expected]
    assert found.subject.kind == kind


def test_a_dying_drive_is_one_cause_named_by_the_worst() -> None:
    found = only(
        _storage("nvme_timeout", "nvme3", seconds=0, count=3),
        _storage("nvme_reset_failed", "nvme3", seconds=20),
        _storage("nvme_removed", "nvme3", seconds=40),
        _storage("capacity_lost", "nvme3n1", seconds=41),
        _storage("io_error", "nvme3n1p2", op="WRITE", sector=4096, seconds=42),
    )

    assert (found.code, found.severity, found.count, found.subject.name) == ("storage.nvme_removed", "critical", 7, "nvme3")
    for part in ("with nvme timeout, nvme reset failed, capacity lost, io error", "on nvme3n1, nvme3n1p2"):
        assert part in found.message
    assert (found.first, found.last) == ("2026-03-14T12:00:00+00:00", "2026-03-14T12:00:42+00:00")


@pytest.mark.parametrize(
    ("devices", "names"),
    [
        (("nvme0n1", "nvme0n1p1", "nvme0c1n1"), {"nvme0"}),
        (("nvme0n1", "nvme1n1"), {"nvme0", "nvme1"}),
        (("/dev/sdb", "sdb"), {"sdb"}),
        (("sda", "sdb1"), {"sda", "sdb1"}),
    ],
)
def test_name_spaces_and_partitions_belong_to_their_drive(devices: t.Sequence[str], names: t.Set[str]) -> None:
    found = findings(*(_storage("io_error", device, op="READ") for device in devices))

    assert {one.subject.name for one in found} == names


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        pytest.param(OtherEvent("segfault", "trainer", 71, "libnccl.so.2"), [("kernel.segfault", "info", "look_at_code")], id="crash"),
        pytest.param(OtherEvent("irq_nobody_cared"), [("kernel.irq_nobody_cared", "warning", "reboot_node")], id="dead-interrupt"),
        pytest.param(OtherEvent("fabricmanager_no_switch"), [("kernel.fabricmanager_no_switch", "info", "none")], id="no-switch-here"),
        pytest.param(OtherEvent("something_new", text="words"), [("kernel.something_new", "warning", "contact_vendor")], id="unknown-kind"),
        pytest.param(OtherEvent("something_new", informational=True), [], id="informational"),
    ],
)
def test_other_events(event: OtherEvent, expected: t.Sequence[t.Tuple[str, str, str]]) -> None:
    assert short(findings(event)) == expected


def test_crash_names_the_library_and_the_program() -> None:
    found = only(OtherEvent("segfault", "trainer", 71, "libnccl.so.2"))

    assert found.subject.name == "trainer"
    assert "in libnccl.so.2" in found.message
