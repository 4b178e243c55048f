# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Failures of drives, arrays and file systems in the kernel log. Private to kentino.gpu.

C(dev) is the controller for a controller's lines (nvme0) and the block device for block lines (nvme0n1, md0, dm-3).
"""

from __future__ import annotations

import re
import typing as t

from .lazy_pattern import lazy
from .log_drafts import Draft, Drafts
from .log_envelope import Line
from .log_shape import excerpt

# Old kernels (4.x) name the PCI function in place of the controller.
_CONTROLLER = r"nvme (nvme\d{1,4}|[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]): "
_NVME: t.Tuple[t.Tuple[str, t.Pattern[str]], ...] = tuple(
    (kind, lazy(_CONTROLLER + pattern, re.ASCII))
    for kind, pattern in (
        # I/O 900 QID 2 timeout; 5.15: I/O 900 (I/O Cmd) QID 2 timeout; 6.x: I/O tag 22 (2016) opcode 0x2 (Admin Cmd) QID 0 timeout
        ("nvme_timeout", r"I/O [^\n]{1,80}?QID \d{1,6} timeout"),
        ("nvme_reset_failed", r"Device not ready; aborting (?:reset|initialisation|shutdown)"),
        ("nvme_controller_down", r"controller is down; will reset"),
        ("nvme_removed", r"Removing after probe failure(?: status: (-?\d{1,6}))?"),
        ("nvme_dead", r"Disabling device after reset failure(?:: (-?\d{1,6}))?"),
        ("nvme_apst_failed", r"failed to set APST feature \((-\d{1,6})\)"),
    )
)
# 6.x: nvme0n1: I/O Cmd(0x2) @ LBA 2048, 32 blocks, I/O Error (sct 0x3 / sc 0x71); an admin command that a drive refuses has no LBA
_NVME_STATUS = lazy(
    r"\b(nvme\d{1,4}(?:c\d{1,4})?n\d{1,4}): [^\n@(]{1,40}\(0x([0-9a-fA-F]{1,4})\) @ LBA (\d{1,20}), \d{1,10} blocks, [^\n(]{1,80}\(sct 0x",
    re.ASCII,
)
# These are looked for by their fixed words; what stands before is read backwards from there.
_CAPACITY_WORDS = ": detected capacity change from "
_CAPACITY = lazy(r"[1-9]\d{0,20} to 0(?!\d)", re.ASCII)
_BLOCK_WORDS = " error, dev "
_BLOCK = lazy(r"([\w!.-]{1,32}), sector (\d{1,20})(?: op 0x[0-9a-fA-F]{1,3}:\(([A-Z_]{1,20})\))?", re.ASCII)
_LAST_WORD = lazy(r"[\w!-]{1,32}$", re.ASCII)
_BUFFER = lazy(
    r"Buffer I/O error on (?:dev|device) ([\w!.-]{1,32}), logical block \d{1,20}(?:, (lost )?(?:a?sync )?page (read|write))?", re.ASCII
)
_LOST_PAGE = lazy(r"lost page write due to I/O error on ([\w!.-]{1,32})", re.ASCII)
_MD_DISK = lazy(r"md/raid[\w:]{0,16}?:([\w.-]{1,32}): Disk failure on ([\w.-]{1,32}), disabling device", re.ASCII)
_MD_ARRAY = lazy(
    r"md/raid[\w:]{0,16}?:([\w.-]{1,32}): (?:not enough operational|Cannot continue operation|failed to run raid set)", re.ASCII
)
_EXT4_ERROR = lazy(r"EXT4-fs error \(device ([\w!.-]{1,32})\)", re.ASCII)
_EXT4 = lazy(r"EXT4-fs(?: warning)? \((?:device )?([\w!.-]{1,32})\): ([^\n]{1,300})", re.ASCII)
_EXT4_LOST = lazy(r"I/O error (?:-?\d{1,4} )?(?:writing to inode|while writing)|potential data loss|ata will be lost")
_EXT4_BAD = lazy(
    r"previous I/O error to superblock|mounting fs with errors|error count since last fsck|shut down requested"
    r"|failed to (?:load|open) journal|Detected aborted journal|[Cc]orrupt|unable to read superblock|error loading journal"
)
_JOURNAL = lazy(r"Aborting journal on device ([\w!.]{1,32}?)(?:-\d{1,3})?\.", re.ASCII)
_XFS = lazy(r"XFS \(([\w!.-]{1,32})\): ([^\n]{1,300})", re.ASCII)
_XFS_BAD = lazy(
    r"I/O [Ee]rror|[Cc]orrupt|Shutting down [Ff]ile ?[Ss]ystem|has been shut down|force_shutdown|Internal error|xfs_repair|write error"
    r"|log mount.{0,20}failed"
)
_BTRFS = lazy(r"BTRFS:? (error|critical|warning|info) \(device ([\w!.-]{1,32})[^)\n]{0,40}\):? ?([^\n]{0,300})", re.ASCII)
_BTRFS_WARNING = lazy(r"csum failed|checksum error|i/o error|lost page write|lost super block", re.IGNORECASE)
_ERRNO = lazy(r"(?:\b(?:errno[=: ]|error |err |ret )|: rc )(-?\d{1,4})\b(?! at| since| count)", re.ASCII)

# Not drives: loop devices come and go, a guest's floppy and an empty tray answer with errors.
_NO_DRIVE = lazy(r"(?:loop|zram|ram|fd|sr)\d{1,4}$", re.ASCII)
# Commands that a drive may refuse: trim and its like.
_OPTIONAL = frozenset(("DISCARD", "SECURE_ERASE", "WRITE_ZEROES", "WRITE_SAME", "ZONE_RESET"))
_NVME_OPERATIONS = {1: "WRITE", 2: "READ"}


class StorageReader:
    def __init__(self, touched: t.List[t.Tuple[Draft, int]]) -> None:
        self.drafts = Drafts(touched)
        self.recovered = False
        # By device: an error told by one layer, which the next layer will tell again.
        self._told: t.Dict[str, t.Tuple[str, Draft]] = {}
        self._in_trouble: t.Set[str] = set()

    def read(self, message: str, line: Line, count: int) -> None:
        if "nvme" in message:
            self._nvme(message, line, count)
        if " error" in message or "LBA" in message:
            self._block(message, line, count)
        if "capacity change" in message:
            for before, match in _places(message, _CAPACITY_WORDS, _CAPACITY):
                name = _LAST_WORD.search(before)
                if name and not _NO_DRIVE.match(name.group()):
                    self._add("capacity_lost", name.group(), excerpt(message, match.start()), line, count)
        if "md/raid" in message:
            for match in _MD_DISK.finditer(message):
                self._add("md_disk_failure", match.group(2), excerpt(message, match.start()), line, count)
            for match in _MD_ARRAY.finditer(message):
                self._add("md_array_failed", match.group(1), excerpt(message, match.start()), line, count)
        if "EXT4-fs" in message or "Aborting journal" in message:
            self._ext4(message, line, count)
        elif "XFS (" in message:
            self._xfs(message, line, count)
        elif "BTRFS" in message:
            self._btrfs(message, line, count)

    def _nvme(self, message: str, line: Line, count: int) -> None:
        for kind, pattern in _NVME:
            for match in pattern.finditer(message):
                errno = match.group(2) if match.lastindex == 2 else None
                self._add(kind, match.group(1), excerpt(message, match.start()), line, count, errno=int(errno) if errno else None)
                self._in_trouble.add(match.group(1))
        # nvme nvme0: 2/0/0 default/read/poll queues: the reset worked
        if "default/read/poll queues" in message and any("nvme %s:" % name in message for name in self._in_trouble):
            self.recovered = True

    def _block(self, message: str, line: Line, count: int) -> None:
        for match in _NVME_STATUS.finditer(message):
            device, opcode, lba = match.groups()
            operation = _NVME_OPERATIONS.get(int(opcode, 16))
            draft = self._add("io_error", device, excerpt(message, match.start()), line, count, op=operation, sector=int(lba))
            self._told[device] = ("nvme", draft)
        for before, match in _places(message, _BLOCK_WORDS, _BLOCK):
            self._block_error(before, match, message, line, count)
        for match in _BUFFER.finditer(message):
            device, lost, operation = match.groups()
            if operation == "write" or lost:
                self._add("lost_write", device, excerpt(message, match.start()), line, count, op="WRITE")
            elif self._told.pop(device, ("", None))[0] != "block" and not _NO_DRIVE.match(device):
                self._add("io_error", device, excerpt(message, match.start()), line, count, op="READ" if operation else None)
        for match in _LOST_PAGE.finditer(message):
            self._add("lost_write", match.group(1), excerpt(message, match.start()), line, count, op="WRITE")

    def _block_error(self, what: str, match: t.Match[str], message: str, line: Line, count: int) -> None:
        device, sector, operation = match.groups()
        if _NO_DRIVE.match(device) or (what.endswith("operation not supported") and operation in _OPTIONAL):
            return
        layer, told = self._told.pop(device, ("", None))
        words = {"op": operation if operation in ("READ", "WRITE") else None, "sector": int(sector)}
        # The driver counts logical blocks of 512 or 4096 bytes, the block layer always 512.
        if layer == "nvme" and told is not None and told.fields["sector"] in (int(sector), int(sector) // 8):
            told.fields.update(words)
            return
        draft = self._add("io_error", device, excerpt(message, match.start()), line, count, **words)
        if words["op"] == "READ":
            self._told[device] = ("block", draft)

    def _ext4(self, message: str, line: Line, count: int) -> None:
        match = _EXT4_ERROR.search(message)
        if match:
            self._add("fs_error", match.group(1), excerpt(message, match.start()), line, count, fs="ext4", errno=_errno(message))
            return
        match = _JOURNAL.search(message)
        if match:
            self._add("fs_error", match.group(1), excerpt(message, match.start()), line, count, fs="ext4")
            return
        match = _EXT4.search(message)
        if not match:
            return
        device, words = match.groups()
        # "re-mounted ... ro" and "Remounting filesystem read-write" are what an administrator asked for.
        if "Remounting filesystem read-only" in words:
            self._add("remount_ro", device, excerpt(message, match.start()), line, count, fs="ext4")
        elif _EXT4_LOST.search(words):
            self._add("lost_write", device, excerpt(message, match.start()), line, count, op="WRITE", fs="ext4", errno=_errno(words))
        elif _EXT4_BAD.search(words):
            self._add("fs_error", device, excerpt(message, match.start()), line, count, fs="ext4", errno=_errno(words))

    def _xfs(self, message: str, line: Line, count: int) -> None:
        match = _XFS.search(message)
        if match and _XFS_BAD.search(match.group(2)):
            self._add("fs_error", match.group(1), excerpt(message, match.start()), line, count, fs="xfs", errno=_errno(match.group(2)))

    def _btrfs(self, message: str, line: Line, count: int) -> None:
        match = _BTRFS.search(message)
        if not match:
            return
        level, device, words = match.groups()
        if "forced readonly" in words:
            self._add("remount_ro", device, excerpt(message, match.start()), line, count, fs="btrfs")
        elif level in ("error", "critical") or (level == "warning" and _BTRFS_WARNING.search(words)):
            self._add("fs_error", device, excerpt(message, match.start()), line, count, fs="btrfs", errno=_errno(words))

    def _add(self, kind: str, device: str, text: str, line: Line, count: int, **facts: t.Any) -> Draft:
        fields = {"kind": kind, "dev": device, "op": None, "sector": None, "errno": None, "fs": None, **facts}
        key = tuple(fields.values())
        return self.drafts.merge(key, line, dict(fields, text=text), count, (kind, device))


def _places(message: str, words: str, behind: t.Pattern[str]) -> t.Iterator[t.Tuple[str, t.Match[str]]]:
    """Wherever the words stand and the pattern fits behind them: the text before, and the match."""
    at = message.find(words)
    while at >= 0:
        match = behind.match(message, at + len(words))
        if match:
            yield message[max(0, at - 80) : at], match
        at = message.find(words, at + len(words))


def _errno(words: str) -> t.Optional[int]:
    match = _ERRNO.search(words)
    return int(match.group(1)) if match else None
