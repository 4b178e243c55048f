# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a kernel log says, as records. Absent facts are None, never zero. Private to kentino.gpu."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Origin:
    """Where and when a line was seen."""

    raw: str = ""  # the line as it stood in the source
    time: t.Optional[str] = None  # ISO 8601, with the offset where the source has one
    usec: t.Optional[int] = None  # microseconds since the epoch where the source has them
    uptime_seconds: t.Optional[float] = None  # kernel's own clock since boot
    seq: t.Optional[int] = None
    level: t.Optional[str] = None  # emerg alert crit err warn notice info debug
    boot: t.Optional[str] = None  # "current" or "previous", where the source tells boots apart
    host: t.Optional[str] = None


@dataclass(frozen=True)
class XidEvent:
    xid: int
    pci: t.Optional[str]  # dddd:bb:dd, or the text found where it is not an address
    gpu_instance: t.Optional[int] = None  # MIG
    compute_instance: t.Optional[int] = None
    pid: t.Optional[int] = None
    name: t.Optional[str] = None
    count: int = 1
    text: str = ""
    uuid: t.Optional[str] = None  # from the driver's own announcement of this address
    serial: t.Optional[str] = None
    detail: t.Mapping[str, t.Any] = field(default_factory=dict)
    origin: Origin = Origin()


@dataclass(frozen=True)
class SxidEvent:
    sxid: int
    pci: t.Optional[str]
    switch: t.Optional[int] = None
    severity: t.Optional[str] = None  # fatal non-fatal correctable
    link: t.Optional[int] = None
    text: str = ""
    orphan: bool = False  # a continuation whose headline was lost
    count: int = 1
    origin: Origin = Origin()


@dataclass(frozen=True)
class DriverFault:
    """A failure that the driver reports without an Xid."""

    kind: str
    pci: t.Optional[str] = None
    gpu_index: t.Optional[int] = None  # the driver's own instance number, neither CUDA's nor the minor
    minor: t.Optional[int] = None
    code: t.Optional[str] = None
    equivalent_xid: t.Optional[int] = None
    informational: bool = False
    text: str = ""
    count: int = 1
    origin: Origin = Origin()


@dataclass(frozen=True)
class AerError:
    port: str  # the reporting port
    severity: str  # correctable uncorrectable_nonfatal uncorrectable_fatal
    error_type: t.Optional[str] = None  # as printed: Data Link Layer
    bits: t.Tuple[str, ...] = ()
    first: t.Optional[str] = None
    multiple: bool = False
    source: t.Optional[str] = None  # None where the kernel did not capture it
    count: int = 1
    origin: Origin = Origin()


@dataclass(frozen=True)
class OomKill:
    pid: t.Optional[int]
    name: t.Optional[str] = None
    scope: t.Optional[str] = None  # global memcg
    uid: t.Optional[int] = None
    invoker: t.Optional[str] = None
    kill_confirmed: bool = True
    text: str = ""
    origin: Origin = Origin()


@dataclass(frozen=True)
class StorageError:
    kind: str
    dev: t.Optional[str]
    op: t.Optional[str] = None  # READ WRITE
    sector: t.Optional[int] = None
    errno: t.Optional[int] = None
    fs: t.Optional[str] = None
    text: str = ""
    count: int = 1
    origin: Origin = Origin()


@dataclass(frozen=True)
class OtherEvent:
    kind: str
    process: t.Optional[str] = None
    pid: t.Optional[int] = None
    library: t.Optional[str] = None
    informational: bool = False
    text: str = ""
    count: int = 1
    origin: Origin = Origin()


@dataclass(frozen=True)
class KernelLog:
    """Everything of interest in one reading, each family in the order printed."""

    events: t.Tuple[XidEvent, ...] = ()
    sxids: t.Tuple[SxidEvent, ...] = ()
    driver_faults: t.Tuple[DriverFault, ...] = ()
    aer: t.Tuple[AerError, ...] = ()
    oom: t.Tuple[OomKill, ...] = ()
    storage: t.Tuple[StorageError, ...] = ()
    other: t.Tuple[OtherEvent, ...] = ()
    unrecognised: t.Tuple[str, ...] = ()  # names Xid, SXid or NVRM in an event's place and fits no known form
    gpu_uuids: t.Mapping[str, str] = field(default_factory=dict)  # PCI address to UUID, as the driver announced
    gpu_serials: t.Mapping[str, str] = field(default_factory=dict)
    affected: t.Tuple[str, ...] = ()  # PCI addresses of devices hit by a PCIe error that is not their own
    rate_limited: bool = False
    suppressed: int = 0  # lines known to be missing: all counts are then lower bounds
    unreadable_records: int = 0
    boots: int = 1
    recovered: t.Optional[bool] = None  # False: the kernel said a PCIe device can't recover
    lines: int = 0  # lines or records read
    kernel_lines: int = 0  # of these, lines that look like a kernel log at all
    first_time: t.Optional[str] = None
    last_time: t.Optional[str] = None
