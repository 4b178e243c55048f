# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the NVIDIA driver says without an Xid: announcements, failures, diagnosis. Private to kentino.gpu."""

from __future__ import annotations

import re
import typing as t

from . import pci_address
from .lazy_pattern import lazy
from .log_drafts import Draft, Drafts
from .log_envelope import Line
from .log_shape import excerpt

_ANNOUNCED = lazy(r"GPU at (?:PCI:)?(" + pci_address.ADDRESS + r"): (GPU-[0-9a-fA-F-]{8,64})", re.ASCII)
_SERIAL = lazy(r"GPU Board Serial Number: {0,4}([0-9A-Za-z]{0,40})", re.ASCII)
_GPU = lazy(r"GPU(?: at)? (?:PCI:)?(" + pci_address.ADDRESS + ")", re.ASCII)
_ANY_ADDRESS = lazy(r"(?<![0-9a-fA-F])" + pci_address.ADDRESS, re.ASCII)
_INDEX = lazy(r"NVRM: {0,4}GPU(\d{1,4}) ", re.ASCII)
_INIT_CODE = lazy(r"\((0x[0-9a-fA-F]{1,8}(?::[0-9a-fA-Fx]{1,8}){0,4})\)", re.ASCII)
_MINOR = lazy(r"minor (?:number )?(\d{1,6})", re.ASCII)
_STATUS = lazy(r"\[(NV_ERR_[A-Z_]{1,60})\] \((0x[0-9a-fA-F]{1,8})\)", re.ASCII)
# The same without the driver's prefix, which a paste or a collector may have cut.
LOST_UNPREFIXED = lazy(r"GPU(?: at)? (?:PCI:)?" + pci_address.ADDRESS + r":? {0,4}(?:GPU )?has fallen off the bus", re.ASCII)
_PROBE_HEAD = lazy(r"The NVIDIA GPU (?:PCI:)?(" + pci_address.ADDRESS + ")", re.ASCII)
# nvidia: probe of 0000:b3:00.0 failed with error -1
# nvidia 0000:b3:00.0: probe with driver nvidia failed with error -1   (from kernel 6.11 on)
_PROBE = lazy(
    r"nvidia(?:: probe of (%s)| (%s): probe with driver nvidia) failed with error (-?\d{1,6})" % ((pci_address.ADDRESS,) * 2), re.ASCII
)

# Status words that mean the GPU or its firmware no longer answers; other failed checks are the driver talking to itself.
_GONE = frozenset(("NV_ERR_TIMEOUT", "NV_ERR_GPU_IS_LOST", "NV_ERR_RESET_REQUIRED", "NV_ERR_GPU_IN_FULLCHIP_RESET"))

# Said of a healthy GPU, or repeating what another line says.
_SILENT = lazy(
    r"loading NVIDIA|GPU is on Board|A GPU crash dump has been created|nvidia-bug-report|the NVIDIA kernel module is unloaded"
    r"|[Pp]ersistence mode is deprecated|this kernel module has the version|make sure that this kernel module"
    r"|components have the same version|[Cc]reated a GPU|Reported by libos|^\s{0,8}NVRM:\s{0,80}$",
    re.ASCII,
)

# Kind, what to look for, Xid of the same meaning. In order: the first that fits names the line.
_FAULTS: t.Tuple[t.Tuple[str, t.Pattern[str], t.Optional[int]], ...] = tuple(
    (kind, lazy(pattern, re.ASCII), xid)
    for kind, pattern, xid in (
        ("memory_subsystem_error", r"Memory Subsystem Error detected", None),
        ("gsp_timeout", r"GSP Timeout \*|rpcRecvPoll timed ?out|Rate limiting GSP RPC error prints", 119),
        ("gsp_timeout", r"GSP RPC [Tt]imeout|[Tt]imeout (?:after \d+ ?s )?(?:of )?waiting for RPC", 119),
        ("gpu_lost", r"(?:has|have) fallen off the bus|GPU is lost", 79),
        ("power_cables_missing", r"power cables? connected|not have the necessary power", None),
        ("bar_invalid", r"PCI I/O region assigned to your NVIDIA device is invalid", None),
        ("api_mismatch", r"API mismatch", None),
        ("probe_not_called", r"NVIDIA probe routine was not called", None),
        ("probe_failed", r"NVIDIA probe routine failed|None of the NVIDIA (?:devices|graphics adapters) were initialized", None),
        ("no_gpu_found", r"No NVIDIA (?:GPU|graphics adapter|devices?)s? (?:found|probed)", None),
        ("gpu_unsupported", r"is not supported by|does not support this GPU|Legacy drivers", None),
        ("firmware_missing", r"failed to (?:load|find) (?:.{0,40} )?firmware|firmware .{0,80} (?:not found|missing)", None),
        ("interrupt_missing", r"Can't find an IRQ|your NVIDIA card is not receiving interrupts", None),
    )
)
# Dumps, tables and stack traces; the driver indents what belongs to the line before.
_TRACE = lazy(
    r"TRACE|RISC-V|CSR|[Rr]egister|NVRM:\s{4,}|GSP_RM_|NV_VGPU_MSG|[Cc]ore ?[Dd]ump|[Cc]all [Tt]race|history"
    r"|0x[0-9a-fA-F]{8}.{0,40}0x[0-9a-fA-F]{8}",
    re.ASCII,
)


class DriverReader:
    def __init__(self, touched: t.List[t.Tuple[Draft, int]]) -> None:
        self.drafts = Drafts(touched)
        self.rate_limited = False
        # By boot and address, as announced so far.
        self.uuids: t.Dict[t.Tuple[t.Any, str], str] = {}
        self.serials: t.Dict[t.Tuple[t.Any, str], str] = {}
        self.last_uuids: t.Dict[str, str] = {}
        self.last_serials: t.Dict[str, str] = {}
        self._announced: t.Optional[str] = None
        self._probed: t.Optional[t.Tuple[Line, str, str]] = None
        self._bar: t.Optional[Draft] = None
        self._no_minor: t.Dict[t.Hashable, Draft] = {}

    def read_probe(self, message: str, line: Line, count: int) -> None:
        """The kernel's own word on a failed probe."""
        match = _PROBE.search(message)
        if match:
            fields = {"kind": "probe_failed", "pci": pci_address.normalise(match.group(1) or match.group(2)), "code": match.group(3)}
            self._add(fields, message[match.start() : match.end()], line, count)

    def read(self, segment: str, line: Line, count: int) -> None:
        """One NVRM message without an Xid in it."""
        if ("GPU at " in segment or "Serial Number" in segment) and self._announcement(segment, line):
            return
        if self._probe_lines(segment, line, count) or self._init(segment, line, count):
            return
        self._fault(segment, line, count)

    def finish(self, xids: t.Iterable[Draft]) -> None:
        """Takes back what an Xid of the same boot says as well."""
        if self._probed and self._probed[2]:  # cut behind "installed in this system has"
            line, pci, text = self._probed
            self._add({"kind": "gpu_lost_at_probe", "pci": pci, "equivalent_xid": 79}, text, line, 1)
        lost: t.Set[t.Tuple[t.Any, t.Any]] = set()
        stuck: t.Set[t.Tuple[t.Any, t.Any]] = set()
        for draft in xids:
            which = {79: lost, 119: stuck, 120: stuck, 175: stuck}.get(draft.fields["xid"])
            if which is not None:
                # A line that does not name the GPU repeats an Xid of any of them.
                which |= {(draft.line.boot, draft.fields["pci"]), (draft.line.boot, None)}
        for draft in list(self.drafts):
            key = (draft.line.boot, draft.fields.get("pci"))
            if draft.fields["kind"] == "gpu_lost" and key in lost:
                self.drafts.drop(draft)
            elif draft.fields["kind"] == "gsp_timeout" and key in stuck:
                draft.fields["informational"] = True

    def _announcement(self, segment: str, line: Line) -> bool:
        match = _ANNOUNCED.search(segment)
        if match:
            self._announced = pci_address.normalise(match.group(1))
            if self._announced:
                self.uuids[line.boot, self._announced] = self.last_uuids[self._announced] = match.group(2)
            return True
        match = _SERIAL.search(segment)
        if match:
            if self._announced and match.group(1).strip("0"):  # a GeForce has none and prints 0
                self.serials[line.boot, self._announced] = self.last_serials[self._announced] = match.group(1)
            return True
        return False

    def _probe_lines(self, segment: str, line: Line, count: int) -> bool:
        """One message of three lines, which journald makes three records of (nv.c)::

        The NVIDIA GPU 0000:b3:00.0 / (PCI ID: 10de:26b5) installed in this system has / fallen off the bus and is not responding
        """
        head = _PROBE_HEAD.search(segment)
        if head:
            self._probed = (line, pci_address.normalise(head.group(1)) or head.group(1), "")
        if "is not responding to commands" in segment and "fallen off the bus" in segment:
            pci = self._probed[1] if self._probed else None
            self._add({"kind": "gpu_lost_at_probe", "pci": pci, "equivalent_xid": 79}, segment, line, count)
            self._probed = None
            return True
        if self._probed and "installed in this system has" in segment:
            self._probed = (*self._probed[:2], segment)
            return True
        return bool(head) and "support" not in segment

    def _init(self, segment: str, line: Line, count: int) -> bool:
        """C(RmInitAdapter failed! (code)), then C(rm_init_adapter failed, device minor number N): two lines of one failure."""
        first = "RmInitAdapter failed" in segment
        if not first and "rm_init_adapter" not in segment:
            return False
        pci, index = self._subject(segment)
        code = _INIT_CODE.search(segment)
        minor = _MINOR.search(segment)
        key = (line.boot, line.host, pci)
        if not first and key in self._no_minor:
            draft = self._no_minor.pop(key)
            draft.fields["minor"] = int(minor.group(1)) if minor else draft.fields.get("minor")
            return True
        fields = {"kind": "rm_init_failed", "pci": pci, "gpu_index": index, "code": code.group(1) if code else None}
        if minor:
            fields["minor"] = int(minor.group(1))
        draft = self._add(fields, segment, line, count, minor=False)
        if first:
            self._no_minor[key] = draft
        return True

    def _fault(self, segment: str, line: Line, count: int) -> None:
        if "Rate limiting" in segment:
            self.rate_limited = True
        pci, index = self._subject(segment)
        fields: t.Dict[str, t.Any] = {"pci": pci, "gpu_index": index}
        for kind, pattern, xid in _FAULTS:
            if pattern.search(segment):
                fields.update(kind=kind, equivalent_xid=xid)
                if kind == "gpu_unsupported" and self._probed:
                    fields["pci"] = self._probed[1]
                    self._probed = None
                draft = self._add(fields, segment, line, count)
                self._bar = draft if kind == "bar_invalid" else None
                return
        if self._bar is not None and "BAR" in segment:
            # BAR1 is 0M @ 0x0 (PCI:0000:c1:00.0): the line behind names the device
            address = _ANY_ADDRESS.search(segment)
            if address and not self._bar.fields.get("pci"):
                self._bar.fields["pci"] = pci_address.normalise(address.group())
            return
        status = _STATUS.search(segment)
        if status:
            fields.update(kind="driver_check_failed", code=status.group(2), informational=status.group(1) not in _GONE)
            self._add(fields, segment, line, count)
        elif not _SILENT.search(segment):
            fields.update(kind="driver_trace" if _TRACE.search(segment) else "driver_message", informational=True)
            self._add(fields, segment, line, count, text=False)

    def _subject(self, segment: str) -> t.Tuple[t.Optional[str], t.Optional[int]]:
        """The address, or the driver's own instance number: from 595 on it prefixes messages with C(GPU6 function:)."""
        match = _GPU.search(segment)
        index = _INDEX.match(segment)
        pci = pci_address.normalise(match.group(1)) if match else None
        return pci, int(index.group(1)) if index else None

    def _add(self, fields: t.Dict[str, t.Any], segment: str, line: Line, count: int, text: bool = True, minor: bool = True) -> Draft:
        """Of diagnosis without a meaning of its own (C(text) false) only the first line of a kind and GPU is kept, and the rest counted."""
        words = excerpt(segment)
        key = tuple(fields.get(name) for name in ("kind", "pci", "gpu_index", "code"))
        if minor:
            key += (fields.get("minor"),)
        if text and fields["kind"] not in ("rm_init_failed", "gsp_timeout"):
            key += (words,)
        kind = key[:3]
        return self.drafts.merge(key, line, dict(fields, text=words), count, kind)
