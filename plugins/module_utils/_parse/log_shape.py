# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which lines of a log are worth reading, and which are a kernel's at all; both without opening them. Private to kentino.gpu.

A line that matters holds one of the needles or stands at most C(CONTEXT_LINES) lines behind one that does. All others are skipped, so
that a log sifted beforehand (C(grep --text --fixed-strings --after-context)) says the same as the whole of it.
"""

from __future__ import annotations

import re
import typing as t

from .lazy_pattern import lazy

Text = t.Union[str, bytes]

# Far more than the lines of one report (AER, GHES, a probe that failed), and than the fields of one exported journal record.
CONTEXT_LINES = 32

# A message of unprintable bytes is a list of numbers in JSON, and one that was lost is null: its text cannot be searched for.
JSON_BYTES_NEEDLE = b'"MESSAGE":['
JSON_NULL_NEEDLE = b'"MESSAGE":null'

NEEDLES: t.Tuple[bytes, ...] = (
    # Driver and NVSwitch
    b"Xid",
    b"XID (",
    b"NVRM",
    b"fallen off the bus",
    b"failed with error",
    b"NVSwitch",
    # PCIe
    b"AER: ",
    b"PCIe Bus Error",
    b"DPC: ",
    b"[Hardware Error]",
    b"pciehp",
    b"PCIe bandwidth",
    # Memory killer
    b"oom-kill",
    b"Kill process",
    b"Killed ",
    b"earlyoom",
    # Storage
    b"nvme ",
    b"(sct 0x",
    b"error, dev ",
    b"I/O error",
    b"capacity change",
    b"EXT4-fs",
    b"Aborting journal",
    b"XFS (",
    b"BTRFS",
    b"md/raid",
    # Others
    b"segfault at",
    b"traps: ",
    b"nobody cared",
    # What changes the meaning of other lines: repetition, loss, a new boot
    b"message repeated",
    b"uppressed",
    b"essages lost",
    b"essages dropped",
    b"drop messages",
    b"kernel messages",
    b"-- Boot ",
    b"-- Reboot",
    b"Linux version",
    # Records whose text is elsewhere or unreadable: journal JSON, export, json-pretty; dmesg -J
    JSON_BYTES_NEEDLE,
    JSON_NULL_NEEDLE,
    b'"MESSAGE": [',
    b'"MESSAGE": null',
    b"__REALTIME_TIMESTAMP=",
    b'__REALTIME_TIMESTAMP" :',
    b'"pri":',
)
_NEEDLE_TEXTS = tuple(needle.decode("ascii") for needle in NEEDLES)

# In a long text only this much around a needle is read: the kernel's own limit is about 1000 bytes.
_LONG_CHARACTERS = 16384
_BEFORE_CHARACTERS = 300
_BEHIND_CHARACTERS = 2000
_EXCERPT_CHARACTERS = 500
_ANY_NEEDLE = lazy("|".join(map(re.escape, _NEEDLE_TEXTS)))

# The kernel's stamps and tags at the head of a line, and its drivers' words where there is no envelope (dmesg -t, journalctl -o cat).
_HEAD = lazy(
    r"\s{0,20}(?:\x1b?\[[0-9;]{0,8}m)?(?:<\d{1,3}>)?(?:"
    r"(?:\S{1,255}: )?(?:kern|user|daemon|auth|syslog)\s{0,8}:\s?(?:emerg|alert|crit|err|error|warn|warning|notice|info|debug)\s{0,8}:|"
    r"\d{1,4},\d{1,20},\d{1,20},[-c+]|"
    r"(?:[\w.-]{1,255}: {1,4})?\[\s{0,12}[+<]?\s{0,12}\d{1,10}\.\d{3,9}[^\]\n]{0,24}\]|"
    r"\[(?:[^\s\d\[\]]{1,6} )?(?:[^\s\d\[\]]{2,10}|\d{1,2}[^\s\d\[\]]{1,3}) {0,2}\d{1,2} \d\d:\d\d(?::\d\d \d{4})?\]|"
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]\d\d|"
    r"\d{1,10}\.\d{6}\] |"
    r"1 \S{1,64} \S{1,255} kernel |"
    r"kernel(?:\[\d{1,10}\])?: |"
    r"(?:\{\d{1,10}\})?\[Hardware Error\]: |"
    r"NVRM: |nvidia-nvswitch\d+: |"
    r"nvidia(?: \w{4,8}:|[:_]|-(?:nvlink|uvm|modeset|drm|peermem|fs|caps)\b)|"
    r"pcieport |nvme nvme\d|EXT4-fs |XFS \(|BTRFS |Linux version \d|ACPI: |pci \w{4}:|usb \d-|"
    r"mlx5_core |smpboot: |x86/|e820: |DMI: |Kernel command line: |Command line: )"
)
_HEAD_BYTES = lazy(_HEAD.pattern.encode("ascii"))
_TIME = lazy(r"\d\d:\d\d|\d{9}\.\d")
_TIME_BYTES = lazy(_TIME.pattern.encode("ascii"))
_TAG_CHARACTERS = 300
# Records of the kernel's transport, of dmesg -J, and collectors' copies that keep the kernel's stamp.
_RECORD = lazy(
    r"\"_TRANSPORT\" ?: ?\"kernel\"|_TRANSPORT=kernel|\s{0,20}\"msg\": |\"dmesg\"|\"textPayload\".{0,20}\[ {0,8}\d{1,10}\.\d{6}\]"
)
_RECORD_BYTES = lazy(_RECORD.pattern.encode("ascii"))


def is_kernel(raw: Text) -> bool:
    """Whether the line looks like one of a kernel log: by its envelope, or by a driver's name where there is none."""
    if isinstance(raw, bytes):
        tag = raw.find(b" kernel: ", 0, _TAG_CHARACTERS)
        if (tag >= 0 and _TIME_BYTES.search(raw, 0, tag)) or _HEAD_BYTES.match(raw):
            return True
        return (b'"' in raw or b"_TRANSPORT" in raw) and bool(_RECORD_BYTES.search(raw, 0, 8192))
    tag = raw.find(" kernel: ", 0, _TAG_CHARACTERS)
    if (tag >= 0 and _TIME.search(raw, 0, tag)) or _HEAD.match(raw):
        return True
    return ('"' in raw or "_TRANSPORT" in raw) and bool(_RECORD.search(raw, 0, 8192))


def present(block: Text) -> t.Sequence[Text]:
    """The needles that a block of lines holds."""
    if isinstance(block, bytes):
        return [needle for needle in NEEDLES if needle in block]
    return [needle for needle in _NEEDLE_TEXTS if needle in block]


def wanted(text: str) -> bool:
    return any(needle in text for needle in _NEEDLE_TEXTS)


def excerpt(message: str, at: int = 0) -> str:
    """What a record keeps of a message: the whole, or of a long one what stands around the place C(at)."""
    if len(message) > _EXCERPT_CHARACTERS:
        message = message[max(0, at - 100) : max(0, at - 100) + _EXCERPT_CHARACTERS]
    return message.strip()


def windows(text: str) -> t.Iterator[str]:
    """The parts of a text that can hold something: the whole of it, or of a very long one the surroundings of its needles."""
    if len(text) <= _LONG_CHARACTERS:
        yield text
        return
    start = end = 0
    for match in _ANY_NEEDLE.finditer(text):
        if match.start() - _BEFORE_CHARACTERS > end:
            if end:
                yield text[start:end]
            start = match.start() - _BEFORE_CHARACTERS
        end = match.end() + _BEHIND_CHARACTERS
    if end:
        yield text[start:end]
