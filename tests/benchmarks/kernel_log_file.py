# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A large kernel log as a busy node writes it: one line in ten thousand is of interest, and every kind of interest occurs."""

from __future__ import annotations

import random
import typing as t
from pathlib import Path

LINES_PER_BLOCK = 10000
_BLOCKS = 8

_ORDINARY = (
    "docker0: port {a}(veth{b:07x}) entered blocking state",
    "docker0: port {a}(veth{b:07x}) entered forwarding state",
    "veth{b:07x}: renamed from eth0",
    "eth0: Link is Up - 25Gbps/Full - flow control rx/tx",
    'audit: type=1400 audit(1764441{a:03d}.{a:03d}:{b}): apparmor="STATUS" operation="profile_replace" name="docker-default" pid={b}',
    "e1000e 0000:{d:02x}:00.0 eno{d}: NIC Link is Up 1000 Mbps Full Duplex, Flow Control: None",
    "device-mapper: uevent: version 1.0.3",
    "loop{d}: detected change from 0 to {b}",
    "usb {d}-{d}: new high-speed USB device number {a} using xhci_hcd",
    "perf: interrupt took too long ({b} > 2500), lowering kernel.perf_event_max_sample_rate to {b}",
    "TCP: request_sock_TCP: Possible SYN flooding on port {b}. Sending cookies.",
    "nfs: server storage-{d} not responding, still trying",
    "nfs: server storage-{d} OK",
    "mlx5_core 0000:{d:02x}:00.0: Rate limit: 127 rates are supported, range: 0Mbps to 195312Mbps",
    "pci 0000:{d:02x}:00.0: BAR 0 [mem 0x{b:016x}-0x{b:016x} 64bit pref]",
    "cgroup: fork rejected by pids controller in /system.slice/job-{b}.scope",
    "IPv6: ADDRCONF(NETDEV_CHANGE): veth{b:07x}: link becomes ready",
    "hrtimer: interrupt took {b} ns",
    "systemd[1]: Started session-{b}.scope - Session {b} of User trainer.",
    "python3[{b}]: step {b} loss 2.{a:03d} tokens/s 812{a:03d}",
)

# By the needle that each holds. A needle with no line here gets a plain one, so that none is left out when the parser learns a new one.
_OF_INTEREST = (
    "NVRM: Xid (PCI:0000:{d:02x}:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:{d:02x}:00): 31, pid={b}, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS",
    "NVRM: Xid (PCI:0000:{d:02x}:00): 63, Row Remapper: New row (0x000000000{b:05x}) marked for remapping, reset gpu to activate.",
    "NVRM: Xid (PCI:0000:{d:02x}:00): 94, pid={b}, name=python3, Contained: SM (0x1). RST: No, D-RST: No",
    "nvidia-nvswitch{d}: SXid (PCI:0000:{d:02x}:00.0): 20034, Fatal, Link {d} LTSSM Fault Up",
    "pcieport 0000:{d:02x}:01.0: AER: Corrected error message received from 0000:{d:02x}:00.0",
    "Out of memory: Killed process {b} (python3) total-vm:{b}kB, anon-rss:{b}kB, file-rss:0kB, shmem-rss:0kB, UID:1000",
    "nvme nvme{d}: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff",
)


def write(path: Path, size_bytes: int, needles: t.Sequence[bytes]) -> int:
    """Returns how many lines of interest the file has. The same arguments give the same file."""
    chance = random.Random(79)
    blocks = [[_line(chance, chance.choice(_ORDINARY)) for _number in range(LINES_PER_BLOCK - 1)] for _block in range(_BLOCKS)]
    for block in blocks:
        for line in block:
            # A line that happens to hold a needle would make "one in ten thousand" untrue.
            assert not any(needle in line for needle in needles), line
    kinds = [*_OF_INTEREST, *_plain(needles)]
    partial = path.with_suffix(".partial")
    written = count = 0
    with partial.open("wb", buffering=1 << 20) as handle:
        while written < size_bytes:
            block = blocks[count % _BLOCKS]
            middle = chance.randrange(len(block))
            found = _line(chance, kinds[count % len(kinds)])
            written += handle.write(b"".join([*block[:middle], found, *block[middle:]]))
            count += 1
    if count < len(kinds):
        raise ValueError("%d bytes are too few for one line of every kind" % size_bytes)
    partial.replace(path)
    return count


def _plain(needles: t.Sequence[bytes]) -> t.List[str]:
    known = "\n".join(_OF_INTEREST).encode()
    return [needle.decode().replace("{", "{{").replace("}", "}}") for needle in needles if needle not in known]


def _line(chance: random.Random, text: str) -> bytes:
    second = chance.randrange(86400)
    clock = "Nov 29 %02d:%02d:%02d" % (second // 3600, second // 60 % 60, second % 60)
    filled = text.format(a=chance.randrange(1, 1000), b=chance.randrange(3000, 400000), d=chance.randrange(1, 9))
    return ("%s gpu-node-07 kernel: [%12.6f] %s\n" % (clock, second + chance.random(), filled)).encode()
