# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The journal's records, for journalctl and dmesg."""

from __future__ import annotations

import os
import time

from .state import Node

KERNEL = "kernel"
HOSTNAME = "simulated-node"
MACHINE_ID = "51a0de0000000000000000000000f00d"
_SEQUENCE_ID = "51a0de00000000000000000000005e90"


class Record:
    """A record as journald keeps it; C(text) may hold what is no text (surrogate escapes)."""

    def __init__(self, number: int, boot: int, boot_id: str, usec: int, since_boot: int, priority: int, source: str, text: str) -> None:
        self.number = number
        self.boot = boot
        self.boot_id = boot_id
        self.usec = usec
        self.since_boot = since_boot
        self.priority = priority
        self.identifier, _bracket, pid = source.partition("[")
        self.pid = pid.rstrip("]")
        self.text = text

    @property
    def kernel(self) -> bool:
        return self.identifier == KERNEL and not self.pid

    @property
    def cursor(self) -> str:
        place = (_SEQUENCE_ID, self.number, self.boot_id, self.since_boot, self.usec, self.number * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF)
        return "s=%s;i=%x;b=%s;m=%x;t=%x;x=%x" % place

    def fields(self) -> dict[str, str]:
        found = {
            "__CURSOR": self.cursor,
            "__REALTIME_TIMESTAMP": str(self.usec),
            "__MONOTONIC_TIMESTAMP": str(self.since_boot),
            "__SEQNUM": str(self.number),
            "__SEQNUM_ID": _SEQUENCE_ID,
            "_BOOT_ID": self.boot_id,
            "_MACHINE_ID": MACHINE_ID,
            "_HOSTNAME": HOSTNAME,
            "_RUNTIME_SCOPE": "system",
            "PRIORITY": str(self.priority),
            "SYSLOG_FACILITY": "0" if self.kernel else "3",
            "SYSLOG_IDENTIFIER": self.identifier,
            "MESSAGE": self.text,
        }
        if self.kernel:
            found.update(_TRANSPORT="kernel", _SOURCE_MONOTONIC_TIMESTAMP=str(self.since_boot))
        else:
            found.update(_TRANSPORT="syslog", _PID=self.pid, _COMM=self.identifier)
        return found


def records(folder: str, node: Node, split: bool = True) -> list[Record]:
    """All that was logged until now. journald makes a record of each line of a message, the ring buffer (no C(split)) does not."""
    now = int(time.time() * 1e6)
    boot_ids = {0: node.get("boot_id"), -1: node.get("previous_boot_id")}
    found: list[Record] = []
    with open(os.path.join(folder, "kernel.log"), encoding="utf-8", errors="surrogateescape") as handle:
        for line in handle:
            boot, usec, since_boot, priority, source, text = line.rstrip("\n").split("\t", 5)
            if int(usec) > now:
                continue
            for part in text.split("\\n") if split else [text.replace("\\n", "\n")]:
                number = len(found) + 1
                found.append(Record(number, int(boot), boot_ids[int(boot)], int(usec), int(since_boot), int(priority), source, part))
    return found
