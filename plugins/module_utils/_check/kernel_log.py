# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check C(kernel_log): read the kernel's log, judge it, remember where to go on. Private to kentino.gpu."""

from __future__ import annotations

import dataclasses
import datetime
import time
import typing as t

from .._judge import kernel_log as judge
from .._parse import kernel_log as parser
from .._parse.kernel_log_records import KernelLog
from .._parse.pci_address import normalise
from .._probe import command, journal, state
from .._probe.log_reading import LogReading
from .._report.model import NODE, VERDICTS, Check, Finding, Subject
from . import kernel_log_memory
from .kernel_log_memory import Memory

NAME = "kernel_log"
SOURCES = ("auto", "journal", "kmsg", "file")

# A report goes over the network and into a terminal. Of a log gone mad it holds the most telling and says how much there was.
MAX_LISTED = 200

# Where there is no journal the kernel's ring buffer answers in its place; where it cannot be read, if the ring still holds the whole
# boot. A journal that hangs, breaks off or prints rubbish is a fault by itself, and leaves a doubt.
_NO_JOURNAL = ("missing_tool", "empty", "denied")
_NO_FILES = "No journal files were found"  # with status 1
_EARLIER = " (seen in an earlier run, no reboot or recovery since)"
_TOOLS = {"journal": "journalctl", "kmsg": "/dev/kmsg"}
_BY_HAND = "Read it by hand as root (journalctl -k, dmesg): what stands there was not judged."
_MEND = "Mend the journal (systemctl status systemd-journald): the ring buffer forgets its oldest lines and ends with the boot."
_CODE = {"missing_tool": "tool.missing", "timeout": "tool.timeout", "garbled": "tool.garbled"}


@dataclasses.dataclass(frozen=True)
class Options:
    source: str = "auto"  # auto: the journal, or /dev/kmsg where it does not tell
    paths: t.Sequence[str] = ()  # for source file; patterns allowed
    rotated: bool = False  # also older generations of the paths
    boot: str = "current"  # current or all
    since: t.Optional[str] = None  # as journalctl takes it
    cursor: t.Optional[str] = None
    state_path: t.Optional[str] = None  # without meaning for source file: what is remembered is this node's own log
    save_state: bool = True
    deadline_seconds: float = 20
    policy: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)  # xid_policy, power_domains, warning_hours
    known_gpus: t.Sequence[str] = ()  # PCI addresses that the GPUs' own check saw
    gpu_count: t.Optional[int] = None  # how many there should be


def run(options: Options) -> t.Tuple[Check, t.Dict[str, t.Any]]:
    """The check, and the facts it rests on: events, incidents, cursor and where the lines came from.

    ValueError where an option is wrong, before anything is asked of the node.
    """
    command.check_deadline(options.deadline_seconds)
    if options.source == "file" and not options.paths:
        raise ValueError("the kernel log is to be read from a file and none is named; expected one path or pattern at least")
    # In this node's own log what an earlier boot said is history, in a file from elsewhere there may be no running boot.
    judged = "current" if options.boot == "all" and options.source != "file" else options.boot
    policy = judge.KernelPolicy.from_mapping({**options.policy, "now_usec": int(time.time() * 1e6), "boot": judged})
    boot_id = journal.boot_id()
    state_path = options.state_path if options.source != "file" else None
    remembered, complaint = state.load(state_path) if state_path else ({}, None)
    memory = kernel_log_memory.recall(remembered.get(NAME), boot_id, options.boot)
    readings = _read(options, memory)
    last = readings[-1]
    new = _parse(readings, options)
    earlier = _earlier(memory, last, options)
    log = kernel_log_memory.joined(earlier, new)
    policy = dataclasses.replace(policy, gpu_pci=policy.gpu_pci or _gpus_by_index(log, options))
    unread = tuple(_reading_findings(readings))
    # Why nothing was read is told once.
    told = any(finding.undetermined for finding in unread)
    findings = [*unread, *(found for found in _judged(log, earlier, new, policy) if not (told and found.code == "kernel_log.empty"))]
    if state_path and options.save_state and last.cursor and boot_id:
        kept = Memory(boot_id, options.boot, last.source, last.cursor, kernel_log_memory.limited(log))
        remembered[NAME] = kept.as_dict()
        complaint = state.save(state_path, remembered) or complaint
    if complaint:
        findings.append(Finding("kernel_log.state", "info", NODE, complaint))
    check = Check(NAME, _evidence(readings, new), _listed(findings), metrics=_metrics(new))
    return check, _facts(readings, new, log, boot_id, judge.incidents(log, policy))


def _read(options: Options, memory: Memory) -> t.List[LogReading]:
    if options.source == "file":
        return _read_files(options)
    if options.source == "kmsg":
        return [journal.read_kmsg(memory.place_in("kmsg"), options.deadline_seconds)]
    cursor = options.cursor or memory.place_in("journal")
    reading = journal.read(options.boot, cursor, options.since, options.deadline_seconds)
    if not reading.error and not _kernel_lines(reading):
        error = "journalctl printed nothing that is a kernel record"
        reading = dataclasses.replace(reading, cursor=None, error_kind="garbled", error=error)
    if options.source == "journal" or not reading.error:
        return [reading]
    ring = journal.read_kmsg(memory.place_in("kmsg"), options.deadline_seconds)
    if ring.error:
        return [dataclasses.replace(reading, error="%s; %s" % (reading.error, ring.error))]
    none = reading.error_kind in _NO_JOURNAL or _NO_FILES in reading.error
    if none or (reading.error_kind == "failed" and not ring.gap):
        return [dataclasses.replace(ring, instead_of=reading.error)]
    return [reading, ring]


def _read_files(options: Options) -> t.List[LogReading]:
    # Ansible compiles whatever a module imports anew on every node: a node is asked for its files only where somebody says so.
    from .._probe import log_file

    names = [name for path in options.paths for name in log_file.expand(path, options.rotated)]
    if not names:
        return [LogReading("file", error_kind="failed", error="no log file found: %s" % ", ".join(options.paths))]
    until = time.monotonic() + options.deadline_seconds
    readings = [log_file.scan(name, max(0.1, until - time.monotonic())) for name in names]
    # A log is empty right after its rotation: no fault where its older generations have something to say.
    spoken = [reading for reading in readings if reading.error_kind != "empty"]
    return spoken or readings


def _parse(readings: t.Sequence[LogReading], options: Options) -> KernelLog:
    """All readings as one log. Files follow each other; a ring buffer beside a journal takes over where it begins."""
    log = KernelLog()
    current_boot = journal.boot_id() if options.boot == "all" and options.source != "file" else None
    for group in [readings] if options.source == "file" else [[reading] for reading in readings]:
        reference = next((reading.reference for reading in reversed(group) if reading.reference), None)
        moment = datetime.datetime.fromtimestamp(reference or time.time(), datetime.timezone.utc)
        lines = [line for reading in group for line in reading.lines]
        part = kernel_log_memory.shortened(parser.parse_lines(lines, reference=moment, current_boot=current_boot))
        log = kernel_log_memory.joined(kernel_log_memory.before(log, group[0].begins), part)
    # The lines kept are those of interest; that this is a kernel log at all is shown by the sample of all lines.
    proof = log.kernel_lines or sum(map(_kernel_lines, readings))
    return dataclasses.replace(log, lines=sum(reading.records for reading in readings), kernel_lines=proof)


def _kernel_lines(reading: LogReading) -> int:
    return parser.parse_lines(reading.sample).kernel_lines or parser.parse_lines(reading.lines[:1000]).kernel_lines


def _earlier(memory: Memory, reading: LogReading, options: Options) -> KernelLog:
    """What is remembered and was not read again."""
    if reading.begins is None or (reading.follows and not options.cursor):
        return memory.log
    # The time since boot does not tell lines of several boots apart.
    return kernel_log_memory.before(memory.log, reading.begins if options.boot == "current" else 0.0)


def _gpus_by_index(log: KernelLog, options: Options) -> t.Tuple[str, ...]:
    """Addresses in the order in which NVML numbers them; none unless all are known, as a lost GPU's number is given to the next."""
    told = [*options.known_gpus, *log.gpu_uuids, *log.gpu_serials, *(event.pci for event in log.events)]
    known = {address for address in map(normalise, filter(None, told)) if address}
    if not options.gpu_count or len(known) != options.gpu_count:
        return ()
    return tuple(sorted(known, key=lambda address: [int(part, 16) for part in address.split(":")]))


def _judged(log: KernelLog, earlier: KernelLog, new: KernelLog, policy: judge.KernelPolicy) -> t.Iterator[Finding]:
    """What is to be said of the boot as a whole, and of each thing whether anything new belongs to it."""
    found = judge.judge(log, policy)
    if not kernel_log_memory.size(earlier):
        yield from found
        return
    latest = judge.judge(new, policy)
    again = {_key(finding) for finding in latest}
    yield from (finding for finding in latest if finding.code == "kernel_log.empty")
    for finding in found:
        if finding.verdict != "pass" and _key(finding) not in again:
            finding = dataclasses.replace(finding, message=finding.message + _EARLIER)
        if finding.code != "kernel_log.empty":
            yield finding


def _key(finding: Finding) -> t.Tuple[t.Any, ...]:
    about = finding.subject
    return (finding.code, about.kind, about.pci or about.name or about.index)


def _reading_findings(readings: t.Sequence[LogReading]) -> t.Iterator[Finding]:
    for reading in readings:
        if reading.error:
            subject = Subject("tool", name=_TOOLS[reading.source]) if reading.source in _TOOLS else NODE
            code = _CODE.get(reading.error_kind or "", "kernel_log.unread")
            message, advice = "the kernel log was not read: " + reading.error, "" if subject is NODE else _BY_HAND
            if reading.source == "journal" and len(readings) > 1:
                message, advice = message + "; the kernel's ring buffer was read in its place", _MEND
            yield Finding(code, "warning", subject, message, advice=advice, undetermined=True)
        if reading.gap:
            message = "older kernel lines are gone from the %s: counts are lower bounds" % reading.source
            yield Finding("kernel_log.gap", "info", NODE, message)


def _evidence(readings: t.Sequence[LogReading], log: KernelLog) -> str:
    """In words what was read; empty where a reading failed or no line of it was a kernel's."""
    if any(reading.error for reading in readings) or not log.kernel_lines:
        return ""
    where = ", ".join(reading.source + (" (%s)" % reading.instead_of if reading.instead_of else "") for reading in readings)
    return "%d %skernel log lines read from %s" % (log.lines, "new " if readings[-1].follows else "", where)


def _listed(findings: t.Sequence[Finding]) -> t.Tuple[Finding, ...]:
    if len(findings) <= MAX_LISTED:
        return tuple(findings)
    ranked = sorted(findings, key=lambda finding: VERDICTS.index(finding.verdict), reverse=True)
    message = "%d findings more, none of them worse" % (len(findings) - MAX_LISTED)
    return (*ranked[:MAX_LISTED], Finding("kernel_log.more", "info", NODE, message))


def _metrics(log: KernelLog) -> t.Dict[str, t.Any]:
    xids: t.Dict[str, int] = {}
    for event in log.events:
        xids[str(event.xid)] = xids.get(str(event.xid), 0) + event.count
    return {"lines": log.lines, "xids": xids, "sxids": len(log.sxids), "suppressed": log.suppressed}


def _facts(
    readings: t.Sequence[LogReading],
    new: KernelLog,
    log: KernelLog,
    boot_id: t.Optional[str],
    incidents: t.Sequence[judge.Incident],
) -> t.Dict[str, t.Any]:
    """Events are those of this reading, incidents those of the boot. The lists are cut at C(MAX_LISTED), C(totals) are not."""
    last = readings[-1]
    worst_last = sorted(range(len(incidents)), key=lambda place: (VERDICTS.index(incidents[place].verdict), place))
    return {
        "source": [reading.source for reading in readings],
        "cursor": last.cursor,
        "boot_id": last.boot_id or boot_id,
        "gpu_uuids": dict(list(log.gpu_uuids.items())[:MAX_LISTED]),
        "gpu_serials": dict(list(log.gpu_serials.items())[:MAX_LISTED]),
        "records": sum(reading.records for reading in readings),
        "simulated": any(b"simulated-node" in reading.last_line for reading in readings),
        "lower_bounds": bool(log.suppressed or log.rate_limited or log.unreadable_records or any(r.gap for r in readings)),
        "totals": {"events": len(new.events), "sxids": len(new.sxids), "incidents": len(incidents)},
        "events": [_plain(event) for event in kernel_log_memory.telling(new.events, MAX_LISTED)],
        "sxids": [_plain(event) for event in kernel_log_memory.telling(new.sxids, MAX_LISTED)],
        "incidents": [_plain(incidents[place]) for place in sorted(worst_last[-MAX_LISTED:])],
    }


def _plain(record: t.Any) -> t.Dict[str, t.Any]:
    values = {key: value for key, value in vars(record).items() if value not in (None, "")}
    origin = values.pop("origin", None)
    if origin is not None:
        values.update({key: value for key, value in vars(origin).items() if value not in (None, "")})
    finding = values.pop("finding", None)
    if finding is not None:
        values["finding"] = finding.as_dict()
    return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}
