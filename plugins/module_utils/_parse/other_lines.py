# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Further lines that explain a failed node: crashed processes, lost slots and interrupts, the Fabric Manager. Private to kentino.gpu."""

from __future__ import annotations

import re
import typing as t

from .lazy_pattern import lazy
from .log_drafts import Draft, Drafts
from .log_envelope import Line
from .log_shape import excerpt

# python3[4242]: segfault at 8 ip 00007f.. sp 00007f.. error 4 in libnccl.so.2[7f..+1a000] likely on CPU 3 (6.x)
_SEGFAULT = lazy(r"segfault at [0-9a-fA-F]{1,16} ")
# traps: python3[4242] general protection fault ip:7f.. sp:7f.. error:0 in libcuda.so.535[7f..+3000]
_TRAP = lazy(r"traps: ([^\n\[]{1,32}\[\d{1,10}\]:? )(?:general protection fault|trap [a-z ]{1,40})", re.ASCII)
_OWNER = lazy(r"\[(\d{1,10})\]: $", re.ASCII)
_LIBRARY = lazy(r" error[ :][0-9a-fA-F]{1,8}(?: cpu \d{1,5})? in ([^\s\[]{1,200})\[")
_SLOT = lazy(r"pciehp: Slot\([^)\n]{1,32}\): (Link Down|Card not present)", re.ASCII)
# mlx5_core 0000:ca:00.0: 126.016 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x8 link at 0000:c0:01.0 (capable of ..)
_WIDTH = lazy(r"available PCIe bandwidth, limited by [\d.]{1,8} GT/s PCIe x\d{1,2} link at ", re.ASCII)
_TASK_NAME_CHARACTERS = 16
_NO_SWITCH = lazy(r"NV_WARN_NOTHING_TO_DO|request to query NVSwitch device information from NVSwitch driver failed")


class OtherReader:
    def __init__(self, touched: t.List[t.Tuple[Draft, int]]) -> None:
        self.drafts = Drafts(touched)

    def read(self, message: str, line: Line, count: int) -> None:
        if "segfault at" in message:
            for match in _SEGFAULT.finditer(message):
                self._crash("segfault", message[max(0, match.start() - 100) : match.start()], message, match, line, count)
        if "traps: " in message:
            for match in _TRAP.finditer(message):
                self._crash("general_protection", match.group(1).rstrip(": ") + ": ", message, match, line, count)
        if "nobody cared" in message and "irq" in message:
            self.add("irq_nobody_cared", message, line, count)
        if "pciehp" in message:
            for match in _SLOT.finditer(message):
                kind = "pciehp_link_down" if match.group(1) == "Link Down" else "pciehp_card_not_present"
                self.add(kind, excerpt(message, match.start()), line, count)
        if "available PCIe bandwidth" in message and _WIDTH.search(message):
            self.add("pcie_bandwidth_limited", message, line, count, informational=True)
        if "NVSwitch" in message and _NO_SWITCH.search(message):
            self.add("fabricmanager_no_switch", message, line, count)

    def hardware_error(self, line: Line, section: str, severity: t.Optional[str]) -> None:
        """What firmware reports of other parts than PCIe."""
        words = "%s error reported by firmware: %s" % (severity or "hardware", section)
        self.add("hardware_error", words, line, 1, informational=severity in ("corrected", "info"))

    def _crash(self, kind: str, before: str, message: str, words: t.Match[str], line: Line, count: int) -> None:
        library = _LIBRARY.search(message, words.end(), words.end() + 300)
        facts: t.Dict[str, t.Any] = {"process": None, "pid": None, "library": library.group(1) if library else None}
        owner = _OWNER.search(before)
        if owner:
            process = before[: owner.start()]
            if len(process) > _TASK_NAME_CHARACTERS:  # words of a quoting tool stand before it
                process = re.split(r"[:\]] ", process)[-1]
            facts.update(process=process.strip() or None, pid=int(owner.group(1)))
        self.add(kind, excerpt(message, words.start()), line, count, **facts)

    def add(self, kind: str, message: str, line: Line, count: int, **facts: t.Any) -> Draft:
        text = excerpt(message)
        key = (kind, *facts.values(), None if "process" in facts else text)
        return self.drafts.merge(key, line, dict(facts, kind=kind, text=text), count, kind)
