# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Findings from a kernel log about the host: memory killer, disks, file systems, processes. Private to kentino.gpu."""

from __future__ import annotations

import dataclasses
import re
import typing as t

from .._knowledge.kernel_events import EVENTS, UNKNOWN, UNSUPPORTED, KernelEvent
from .._parse.kernel_log_records import KernelLog, OomKill, OtherEvent, StorageError
from .._report.model import NODE, SEVERITIES, Finding, Subject
from .kernel_faults import finding
from .kernel_policy import KernelPolicy

_ABOUT_FILE_SYSTEM = frozenset({"storage.remount_ro", "storage.fs_error"})

# The worst of what one disk shows names its finding; of equally bad kinds the first here.
_DECIDES = (
    "storage.nvme_dead",
    "storage.nvme_removed",
    "storage.capacity_lost",
    "storage.nvme_reset_failed",
    "storage.md_array_failed",
    "storage.md_disk_failure",
    "storage.medium_error",
    "storage.lost_write",
    "storage.fs_error",
    "storage.remount_ro",
)


def judge_oom(log: KernelLog, policy: KernelPolicy) -> t.Iterator[Finding]:
    groups: t.Dict[t.Tuple[t.Any, ...], t.List[OomKill]] = {}
    for kill in log.oom:
        code = "oom.invoked" if not kill.kill_confirmed else "oom.memcg" if kill.scope == "memcg" else "oom.kill"
        groups.setdefault((code, kill.name or kill.invoker, kill.origin.boot == "previous"), []).append(kill)
    for (code, name, _previous), kills in groups.items():
        subject = Subject("process", name=name) if name else NODE
        pids = [str(kill.pid) for kill in kills if kill.pid is not None]
        notes = ["pid " + ", ".join(pids[:5]) + (" and %d more" % (len(pids) - 5) if len(pids) > 5 else "")] if pids else []
        yield finding(code, EVENTS[code], subject, kills, policy, notes)


def judge_storage(log: KernelLog, policy: KernelPolicy) -> t.Iterator[Finding]:
    """One finding for each disk: time-out, failed reset, removal and errors of a dying drive are one cause."""
    groups: t.Dict[t.Tuple[t.Any, ...], t.List[StorageError]] = {}
    for error in log.storage:
        groups.setdefault((_disk(error.dev), _weigh(error).severity == "info", error.origin.boot == "previous"), []).append(error)
    for (disk, _harmless, _previous), errors in groups.items():
        yield _storage(disk, errors, policy)


def _storage(disk: t.Optional[str], errors: t.Sequence[StorageError], policy: KernelPolicy) -> Finding:
    ranked = sorted(errors, key=_rank)
    first = ranked[0]
    code, event = _code(first), _weigh(first)
    notes = [] if event is not UNKNOWN else [first.text]
    if first.op:
        notes.append("%s%s" % (first.op, " at sector %d" % first.sector if first.sector is not None else ""))
    devices = dict.fromkeys(error.dev for error in errors if error.dev and error.dev != disk)
    if devices:
        notes.append("on " + ", ".join(devices))
    others = [kind for kind in dict.fromkeys(error.kind for error in errors) if kind != first.kind]
    if others:
        notes.append("with " + ", ".join(kind.replace("_", " ") for kind in others))
    kind = "filesystem" if code in _ABOUT_FILE_SYSTEM else "disk"
    return finding(code, event, Subject(kind, name=disk) if disk else NODE, ranked, policy, notes)


def _disk(dev: t.Optional[str]) -> t.Optional[str]:
    """The controller of an NVMe name space or partition (nvme2n1p3: nvme2); any other device as it is."""
    name = re.sub(r"^/dev/", "", dev) if dev else None
    match = re.match(r"(nvme\d+)(?:c\d+)?n\d+(?:p\d+)?$", name or "")
    return match.group(1) if match else name


def _code(error: StorageError) -> str:
    # critical medium error, dev sda, sector 1234 op 0x0:(READ): the disk itself says that the place is bad
    if error.kind == "io_error" and "medium error" in error.text.lower():
        return "storage.medium_error"
    return "storage." + error.kind


def _weigh(error: StorageError) -> KernelEvent:
    code = _code(error)
    event = EVENTS.get(code, UNKNOWN)
    if code == "storage.io_error" and "not supported" in error.text.lower():
        return UNSUPPORTED
    if code == "storage.io_error" and error.op == "WRITE":
        return dataclasses.replace(event, severity="critical")
    return event


def _rank(error: StorageError) -> t.Tuple[int, int]:
    code = _code(error)
    return (-SEVERITIES.index(_weigh(error).severity), _DECIDES.index(code) if code in _DECIDES else len(_DECIDES))


def judge_other(log: KernelLog, policy: KernelPolicy) -> t.Iterator[Finding]:
    groups: t.Dict[t.Tuple[t.Any, ...], t.List[OtherEvent]] = {}
    for event in log.other:
        if not event.informational:
            groups.setdefault((event.kind, event.process, event.library, event.origin.boot == "previous"), []).append(event)
    for (kind, process, library, _previous), events in groups.items():
        code = "kernel." + kind
        about = EVENTS.get(code, UNKNOWN)
        notes = [events[0].text] if about is UNKNOWN else []
        if library:
            notes.append("in " + library)
        yield finding(code, about, Subject("process", name=process) if process else NODE, events, policy, notes)
