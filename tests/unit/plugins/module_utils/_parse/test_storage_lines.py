# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._parse.kernel_lines import parse

FIELDS = ("kind", "dev", "op", "sector", "errno", "fs", "count")


def errors(text):
    return [{field: getattr(one, field) for field in FIELDS if getattr(one, field) is not None} for one in parse(text).storage]


def of(kind, dev, count=1, **facts):
    return {"kind": kind, "dev": dev, "count": count, **facts}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("nvme nvme3: I/O 12 QID 4 timeout, aborting", [of("nvme_timeout", "nvme3")], id="time-out, kernel 5.4"),
        pytest.param(
            "nvme nvme3: I/O 12 (I/O Cmd) QID 4 timeout, aborting req_op:WRITE(1) size:4096",
            [of("nvme_timeout", "nvme3")],
            id="time-out, kernel 5.15",
        ),
        pytest.param(
            "nvme nvme3: I/O tag 22 (2016) opcode 0x2 (Admin Cmd) QID 0 timeout, reset controller",
            [of("nvme_timeout", "nvme3")],
            id="time-out, kernel 6.8",
        ),
        pytest.param("nvme nvme3: I/O 12 QID 4 timeout, completion polled", [of("nvme_timeout", "nvme3")], id="lost interrupt"),
        pytest.param(
            "nvme 0000:c2:00.0: I/O 12 QID 4 timeout, reset controller",
            [of("nvme_timeout", "0000:c2:00.0")],
            id="time-out, kernel 4.4: PCI function",
        ),
        pytest.param("nvme nvme3: Device not ready; aborting reset, CSTS=0x1", [of("nvme_reset_failed", "nvme3")], id="not ready"),
        pytest.param(
            "nvme nvme3: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff",
            [of("nvme_controller_down", "nvme3")],
            id="controller down",
        ),
        pytest.param("nvme nvme3: Removing after probe failure status: -19", [of("nvme_removed", "nvme3", errno=-19)], id="removed"),
        pytest.param("nvme nvme3: Disabling device after reset failure: -19", [of("nvme_dead", "nvme3", errno=-19)], id="dead"),
        pytest.param("nvme3n1: detected capacity change from 3750748848 to 0", [of("capacity_lost", "nvme3n1")], id="capacity gone"),
        pytest.param(
            "I/O error, dev nvme3n1, sector 2048 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 2",
            [of("io_error", "nvme3n1", op="WRITE", sector=2048)],
            id="block error, kernel 5.16",
        ),
        pytest.param(
            "blk_update_request: I/O error, dev nvme3n1, sector 2048 op 0x0:(READ) flags 0x0",
            [of("io_error", "nvme3n1", op="READ", sector=2048)],
            id="block error, kernel 5.4",
        ),
        pytest.param(
            "print_req_error: I/O error, dev sdb, sector 2048", [of("io_error", "sdb", sector=2048)], id="block error, kernel 4.15"
        ),
        pytest.param("end_request: I/O error, dev sdb, sector 2048", [of("io_error", "sdb", sector=2048)], id="block error, kernel 3.10"),
        pytest.param(
            "critical medium error, dev sdb, sector 2048 op 0x0:(READ) flags 0x80700",
            [of("io_error", "sdb", op="READ", sector=2048)],
            id="bad place on the disk",
        ),
        pytest.param(
            (
                "nvme3n1: I/O Cmd(0x2) @ LBA 256, 32 blocks, I/O Error (sct 0x3 / sc 0x71) \n"
                "I/O error, dev nvme3n1, sector 2048 op 0x0:(READ) flags 0x0"
            ),
            [of("io_error", "nvme3n1", op="READ", sector=2048)],
            id="driver and block layer tell one error",
        ),
        pytest.param(
            "nvme3n1: Read(0x2) @ LBA 256, 32 blocks, Unrecovered Read Error (sct 0x2 / sc 0x81) MORE DNR",
            [of("io_error", "nvme3n1", op="READ", sector=256)],
            id="only the driver tells",
        ),
        pytest.param(
            "I/O error, dev nvme3n1, sector 0 op 0x0:(READ) flags 0x0\nBuffer I/O error on dev nvme3n1, logical block 0, async page read",
            [of("io_error", "nvme3n1", op="READ", sector=0)],
            id="block and buffer layer tell one error",
        ),
        pytest.param(
            "Buffer I/O error on dev dm-2, logical block 7, async page read",
            [of("io_error", "dm-2", op="READ")],
            id="only the buffer layer tells",
        ),
        pytest.param(
            "Buffer I/O error on dev dm-2, logical block 7, lost async page write", [of("lost_write", "dm-2", op="WRITE")], id="lost write"
        ),
        pytest.param(
            "Buffer I/O error on dev sda1, logical block 0, lost sync page write",
            [of("lost_write", "sda1", op="WRITE")],
            id="lost super block",
        ),
        pytest.param("lost page write due to I/O error on sda1", [of("lost_write", "sda1", op="WRITE")], id="lost write, kernel 3.10"),
        pytest.param(
            "EXT4-fs error (device md7): ext4_find_entry:1463: inode #2: comm ls: reading directory lblock 0",
            [of("fs_error", "md7", fs="ext4")],
            id="ext4 error",
        ),
        pytest.param("EXT4-fs (md7): Remounting filesystem read-only", [of("remount_ro", "md7", fs="ext4")], id="ext4 read-only"),
        pytest.param("Aborting journal on device md7-8.", [of("fs_error", "md7", fs="ext4")], id="journal"),
        pytest.param(
            "EXT4-fs warning (device md7): ext4_end_bio:343: I/O error 10 writing to inode 12 starting block 9)",
            [of("lost_write", "md7", op="WRITE", fs="ext4", errno=10)],
            id="ext4 lost data",
        ),
        pytest.param(
            'XFS (nvme3n1p1): metadata I/O error in "xfs_buf_ioend+0x1a" at daddr 0x78 len 8 error 5',
            [of("fs_error", "nvme3n1p1", fs="xfs", errno=5)],
            id="xfs metadata",
        ),
        pytest.param(
            "XFS (nvme3n1p1): Log I/O Error Detected.  Shutting down filesystem", [of("fs_error", "nvme3n1p1", fs="xfs")], id="xfs log"
        ),
        pytest.param(
            "XFS (nvme3n1p1): Filesystem has been shut down due to log error (0x2).",
            [of("fs_error", "nvme3n1p1", fs="xfs")],
            id="xfs shut down",
        ),
        pytest.param(
            "BTRFS: error (device sdc1) in btrfs_commit_transaction:2354: errno=-5 IO failure",
            [of("fs_error", "sdc1", fs="btrfs", errno=-5)],
            id="btrfs",
        ),
        pytest.param("BTRFS info (device sdc1: state EA): forced readonly", [of("remount_ro", "sdc1", fs="btrfs")], id="btrfs read-only"),
        pytest.param(
            "md/raid1:md7: Disk failure on nvme3n1p3, disabling device.", [of("md_disk_failure", "nvme3n1p3")], id="array lost a disk"
        ),
        pytest.param("md/raid:md7: Cannot continue operation (2/4 failed).", [of("md_array_failed", "md7")], id="array lost"),
    ],
)
def test_errors(text, expected):
    assert errors(text) == expected
    assert errors("\n".join("Mar 07 09:05:01 gx7 kernel: [  70.000001] " + line for line in text.split("\n"))) == expected


@pytest.mark.parametrize(
    "text",
    [
        "nvme nvme3: pci function 0000:c2:00.0",
        "nvme nvme3: 32/0/0 default/read/poll queues",
        "nvme nvme3: Abort status: 0x0",
        "nvme nvme3: Does your device have a faulty power saving mode enabled?",
        "nvme nvme3: Shutdown timeout set to 8 seconds",
        "nvme3: Identify(0x6), Invalid Field in Command (sct 0x0 / sc 0x2) DNR",
        "loop7: detected capacity change from 8 to 0",
        "nvme3n1: detected capacity change from 0 to 3750748848",
        "blk_update_request: I/O error, dev fd0, sector 0 op 0x0:(READ)",
        "blk_update_request: operation not supported error, dev nvme3n1, sector 8 op 0x3:(DISCARD) flags 0x800",
        "EXT4-fs (md7): re-mounted 1c0ffee0-0000-4000-8000-000000000007 r/w. Quota mode: none.",
        "EXT4-fs (md7): re-mounted 1c0ffee0-0000-4000-8000-000000000007 ro.",
        "EXT4-fs (md7): re-mounted. Opts: errors=remount-ro",
        "EXT4-fs (md7): mounted filesystem with ordered data mode. Opts: errors=remount-ro",
        "EXT4-fs (md7): Remounting filesystem read-write",
        "XFS (nvme3n1p1): Mounting V5 Filesystem",
        "XFS (nvme3n1p1): Ending clean mount",
        "BTRFS info (device sdc1): enabling ssd optimizations",
        "md/raid1:md7: active with 2 out of 2 mirrors",
    ],
)
def test_lines_that_are_no_error(text):
    log = parse(text)
    assert (log.storage, log.recovered) == ((), None)


def test_reset_that_worked():
    assert parse("nvme nvme3: I/O 12 QID 4 timeout, reset controller\nnvme nvme3: 32/0/0 default/read/poll queues").recovered is True


def test_dying_disk_is_counted_without_end():
    text = "\n".join("I/O error, dev sdb, sector %d op 0x1:(WRITE)" % (number * 8) for number in range(3000))
    log = parse(text)
    assert sum(one.count for one in log.storage) == 3000
    assert len(log.storage) < 1000
    assert log.storage[0].sector == 0
