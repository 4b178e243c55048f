# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run keeps of the boot's log, so that the next one judges the whole of it and reads only what is new. Private to kentino.gpu.

Not the findings are kept but the records that they rest on: a fault that the driver takes back later, one that comes back
a third time and a policy that changed meanwhile then come out as if everything had been read at once.
"""

from __future__ import annotations

import dataclasses
import typing as t

from .._parse.kernel_log_records import AerError, DriverFault, KernelLog, OomKill, Origin, OtherEvent, StorageError, SxidEvent, XidEvent

# Far more than a boot of a working node has; of a log gone mad the rest is kept as in a report, see C(telling).
MAX_RECORDS = 200
_MAX_LINE_CHARACTERS = 500

_FAMILIES: t.Mapping[str, t.Any] = {
    "events": XidEvent,
    "sxids": SxidEvent,
    "driver_faults": DriverFault,
    "aer": AerError,
    "oom": OomKill,
    "storage": StorageError,
    "other": OtherEvent,
}
# What makes two records of one family say something different.
_TELLING = ("xid", "sxid", "kind", "severity", "scope", "pci", "port", "dev", "switch")

Record = t.TypeVar("Record")


@dataclasses.dataclass(frozen=True)
class Memory:
    """What earlier runs saw of one boot. C(cursor) is a place in C(source): in the journal, or in the kernel's ring buffer."""

    boot_id: t.Optional[str] = None
    boot: str = "current"  # which boots were read: current or all
    source: str = ""
    cursor: t.Optional[str] = None
    log: KernelLog = dataclasses.field(default_factory=KernelLog)

    def place_in(self, source: str) -> t.Optional[str]:
        return self.cursor if self.source == source else None

    def as_dict(self) -> t.Dict[str, t.Any]:
        log: t.Dict[str, t.Any] = {name: [_without_defaults(record) for record in getattr(self.log, name)] for name in _FAMILIES}
        log.update(
            unrecognised=list(self.log.unrecognised[:MAX_RECORDS]),
            gpu_uuids=dict(self.log.gpu_uuids),
            gpu_serials=dict(self.log.gpu_serials),
            affected=list(self.log.affected),
            rate_limited=self.log.rate_limited,
            suppressed=self.log.suppressed,
            unreadable_records=self.log.unreadable_records,
            recovered=self.log.recovered,
            first_time=self.log.first_time,
            last_time=self.log.last_time,
        )
        return {"boot_id": self.boot_id, "boot": self.boot, "source": self.source, "cursor": self.cursor, "log": log}


def recall(stored: t.Any, boot_id: t.Optional[str], boot: str) -> Memory:
    """The memory of this boot; an empty one where there is none, or none that can be read.

    What was open in another boot was ended, or not, by the reboot: the new boot's log tells.
    """
    try:
        if boot_id is None or (stored["boot_id"], stored["boot"]) != (boot_id, boot):
            return Memory(boot_id, boot)
        log = dict(stored["log"])
        for name, family in _FAMILIES.items():
            log[name] = tuple(_record(family, record) for record in log[name])
        log.update(unrecognised=tuple(log["unrecognised"]), affected=tuple(log["affected"]))
        return Memory(boot_id, boot, stored["source"], stored["cursor"], KernelLog(**log))
    except (KeyError, TypeError, AttributeError, ValueError):
        return Memory(boot_id, boot)


def before(log: KernelLog, seconds: t.Optional[float]) -> KernelLog:
    """What happened earlier in the boot than a reading from there on; nothing where the reading's beginning is not known.

    The journal and the ring buffer give a line the same time since boot.
    """
    if seconds is None:
        return KernelLog(gpu_uuids=log.gpu_uuids, gpu_serials=log.gpu_serials)
    kept: t.Dict[str, t.Any] = {name: tuple(_earlier_than(seconds, getattr(log, name))) for name in _FAMILIES}
    return dataclasses.replace(log, **kept, unreadable_records=0, suppressed=0)


def _earlier_than(seconds: float, records: t.Iterable[t.Any]) -> t.Iterator[t.Any]:
    for record in records:
        uptime = record.origin.uptime_seconds
        if uptime is not None and uptime < seconds and record.origin.boot != "previous":
            yield record


def joined(earlier: KernelLog, later: KernelLog) -> KernelLog:
    """Both as one log; how much was read is told by the later one alone."""
    both: t.Dict[str, t.Any] = {name: getattr(earlier, name) + getattr(later, name) for name in _FAMILIES}
    for name in ("unrecognised", "affected"):
        both[name] = tuple(dict.fromkeys(getattr(earlier, name) + getattr(later, name)))
    return dataclasses.replace(
        later,
        **both,
        gpu_uuids={**earlier.gpu_uuids, **later.gpu_uuids},
        gpu_serials={**earlier.gpu_serials, **later.gpu_serials},
        rate_limited=earlier.rate_limited or later.rate_limited,
        suppressed=earlier.suppressed + later.suppressed,
        unreadable_records=earlier.unreadable_records + later.unreadable_records,
        recovered=earlier.recovered if later.recovered is None else later.recovered,
        first_time=earlier.first_time or later.first_time,
        last_time=later.last_time or earlier.last_time,
    )


def size(log: KernelLog) -> int:
    """How many things it tells of."""
    return sum(len(getattr(log, name)) for name in _FAMILIES) + len(log.unrecognised) + log.unreadable_records


def limited(log: KernelLog) -> KernelLog:
    """With at most C(MAX_RECORDS) of each family."""
    fewer: t.Dict[str, t.Any] = {name: telling(getattr(log, name)) for name in _FAMILIES}
    return dataclasses.replace(log, **fewer)


def telling(records: t.Sequence[Record], most: int = MAX_RECORDS) -> t.Tuple[Record, ...]:
    """At most so many, in order: the first of each kind and place, then the newest."""
    if len(records) <= most:
        return tuple(records)
    first: t.Dict[t.Tuple[t.Any, ...], int] = {}
    for index, record in enumerate(records):
        first.setdefault(tuple(getattr(record, name, None) for name in _TELLING), index)
    chosen = set(list(first.values())[: most - 1])
    for index in range(len(records) - 1, -1, -1):
        if len(chosen) >= most:
            break
        chosen.add(index)
    return tuple(records[index] for index in sorted(chosen))


def shortened(log: KernelLog) -> KernelLog:
    """With at most C(_MAX_LINE_CHARACTERS) of each line: a report and a memory hold hundreds of them."""
    lines: t.Dict[str, t.Any] = {name: tuple(map(_shortened, getattr(log, name))) for name in _FAMILIES}
    return dataclasses.replace(log, **lines)


def _shortened(record: t.Any) -> t.Any:
    if len(record.origin.raw) <= _MAX_LINE_CHARACTERS:
        return record
    return dataclasses.replace(record, origin=dataclasses.replace(record.origin, raw=record.origin.raw[:_MAX_LINE_CHARACTERS] + "..."))


def _without_defaults(record: t.Any) -> t.Dict[str, t.Any]:
    values: t.Dict[str, t.Any] = {}
    for one in dataclasses.fields(record):
        value = getattr(record, one.name)
        if one.name == "origin":
            values["origin"] = _without_defaults(value)
        elif value != one.default and not (one.default is dataclasses.MISSING and value == {}):
            values[one.name] = value
    return values


def _record(family: t.Any, stored: t.Mapping[str, t.Any]) -> t.Any:
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in stored.items()}
    values["origin"] = Origin(**stored["origin"])
    return family(**values)
