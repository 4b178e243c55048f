# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Records of a kernel log, built by hand, for the tests of its judge."""

from __future__ import annotations

import datetime
import typing as t

from ansible_collections.kentino.gpu.plugins.module_utils._judge import kernel_log as judge
from ansible_collections.kentino.gpu.plugins.module_utils._judge.incidents import Incident
from ansible_collections.kentino.gpu.plugins.module_utils._judge.kernel_log import KernelPolicy
from ansible_collections.kentino.gpu.plugins.module_utils._parse.kernel_log_records import (
    AerError,
    DriverFault,
    KernelLog,
    OomKill,
    Origin,
    OtherEvent,
    StorageError,
    SxidEvent,
    XidEvent,
)
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import Finding

GPU_A, GPU_B, GPU_C, GPU_D = "0000:1b:00", "0000:43:00", "0000:52:00", "0000:9d:00"

# Noon of a day, in microseconds; times of events are seconds after it.
NOON = datetime.datetime(2026, 3, 14, 12, tzinfo=datetime.timezone.utc)
HOUR = 3600.0

_FAMILIES = {
    XidEvent: "events",
    SxidEvent: "sxids",
    DriverFault: "driver_faults",
    AerError: "aer",
    OomKill: "oom",
    StorageError: "storage",
    OtherEvent: "other",
}


def origin(seconds: t.Optional[float] = None, boot: t.Optional[str] = None, raw: str = "") -> Origin:
    """Of a line so long after noon; without a time, of a log that has none."""
    if seconds is None:
        return Origin(raw=raw, boot=boot)
    moment = NOON + datetime.timedelta(seconds=seconds)
    return Origin(raw=raw, time=moment.isoformat(), usec=int(moment.timestamp() * 1e6), boot=boot)


def xid(
    number: int, seconds: t.Optional[float] = None, pci: t.Optional[str] = GPU_A, boot: t.Optional[str] = None, **fields: t.Any
) -> XidEvent:
    """Keywords that are no field of the record are details."""
    own = {name: fields.pop(name) for name in tuple(fields) if name in XidEvent.__dataclass_fields__ and name != "detail"}
    raw = "NVRM: Xid (PCI:%s): %d, %s" % (pci, number, seconds)
    return XidEvent(number, pci, detail=fields, origin=origin(seconds, boot, raw), **own)


def recovery(code: int, seconds: t.Optional[float] = None, pci: str = GPU_A, **fields: t.Any) -> XidEvent:
    names = ("None", "GPU Reset Required", "Node Reboot Required", "Drain P2P", "Drain and Reset", "Recover IMEX Domain")
    return xid(154, seconds, pci, to_code=code, to_action=names[code] if code < len(names) else "Unknown", **fields)


def log(*records: t.Any, **fields: t.Any) -> KernelLog:
    """A log that was read and holds these records, each in its family."""
    families: t.Dict[str, t.List[t.Any]] = {}
    for record in records:
        families.setdefault(_FAMILIES[type(record)], []).append(record)
    fields = {"lines": 100, "kernel_lines": 100, **fields}
    return KernelLog(**{name: tuple(items) for name, items in families.items()}, **fields)


def policy(**values: t.Any) -> KernelPolicy:
    return KernelPolicy.from_mapping(values)


def findings(*records: t.Any, under: t.Optional[KernelPolicy] = None, **fields: t.Any) -> t.Tuple[Finding, ...]:
    return judge.judge(log(*records, **fields), under or policy())


def only(*records: t.Any, under: t.Optional[KernelPolicy] = None, **fields: t.Any) -> Finding:
    """The one finding that these records come to."""
    (found,) = findings(*records, under=under, **fields)
    return found


def incidents(*records: t.Any, under: t.Optional[KernelPolicy] = None, **fields: t.Any) -> t.Tuple[Incident, ...]:
    return judge.incidents(log(*records, **fields), under or policy())


def short(found: t.Iterable[Finding]) -> t.List[t.Tuple[str, str, str]]:
    return [(one.code, one.severity, one.action) for one in found]
