# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Are the GPUs there: could they be read, are they as many as there should be, which are lost. Private to kentino.gpu."""

from __future__ import annotations

import typing as t

from .._report.model import NODE, Finding, Subject
from .gpu_context import Context, subject

_TOOLS = {"nvml": "pynvml"}

# Code, severity, action, what it means, next step. All of them leave open how the GPUs are.
_UNREADABLE: t.Mapping[str, t.Tuple[str, str, str, str, str]] = {
    "missing_library": (
        "tool.missing",
        "warning",
        "none",
        "NVML cannot be loaded, no GPU could be read",
        "install python3-pynvml (Debian, Ubuntu) or nvidia-ml-py (PyPI), or let nvidia-smi be read; libnvidia-ml comes with the driver",
    ),
    "missing_tool": (
        "tool.missing",
        "warning",
        "none",
        "nvidia-smi cannot be run, no GPU could be read",
        "install nvidia-utils of the driver's branch (it holds nvidia-smi), or the driver itself",
    ),
    "timeout": (
        "tool.timeout",
        "critical",
        "reboot_node",
        "the driver did not answer before the deadline: it is unresponsive",
        "look for Xid and GSP lines in the kernel log before the reboot; a longer deadline helps only on a very busy node",
    ),
    "garbled": ("tool.garbled", "warning", "none", "the answer cannot be understood", "run it by hand and report what it prints"),
    "version_mismatch": (
        "nvml.version_mismatch",
        "critical",
        "reboot_node",
        "the driver was updated and the old one is still loaded: the GPUs cannot be judged",
        "reboot, or unload and load the nvidia modules; then hold the driver packages",
    ),
    "driver_not_loaded": (
        "driver.not_loaded",
        "critical",
        "reboot_node",
        "the NVIDIA driver is not loaded",
        "check that it is built for the running kernel and signed where Secure Boot is on; if so, a reboot loads it",
    ),
    "permission": (
        "nvml.permission",
        "warning",
        "none",
        "the GPUs may not be read",
        "run it as root, or give the user access to /dev/nvidia*",
    ),
    "init_failed": (
        "nvml.init_failed",
        "critical",
        "reboot_node",
        "NVML cannot be initialised",
        "inside a container look at its device rights first; elsewhere read the kernel log, then reboot",
    ),
}
_OTHER = ("nvml.error", "warning", "none", "the GPUs could not be read", "run nvidia-smi by hand and report what it prints")


def judge_reading(context: Context) -> t.Iterator[Finding]:
    """The reading as a whole."""
    reading = context.reading
    if reading.error_kind == "no_devices":
        yield _none(context)
    elif reading.error_kind is not None:
        code, severity, action, message, advice = _UNREADABLE.get(reading.error_kind, _OTHER)
        about = Subject("tool", _TOOLS.get(reading.source, "nvidia-smi")) if code.startswith("tool.") else NODE
        why = " ".join((reading.error or "").split())
        message = "%s (source %s%s)" % (message, reading.source, ": " + why[:160] if why else "")
        yield Finding(code, severity, about, message, action, _said(context), advice, True)
    elif not reading.gpus and not reading.lost:
        yield _none(context)
    elif not reading.complete:
        told = "GPUs read: %d" % len(reading.gpus)
        told += ", announced: %d" % reading.attached if reading.attached is not None else ""
        message = "the output of %s is not whole; %s" % (reading.source, told)
        evidence = reading.unrecognised[:3]
        yield Finding("gpu.incomplete", "warning", NODE, message, evidence=evidence, advice="read it again", undetermined=True)


def judge_presence(context: Context) -> t.Iterator[Finding]:
    """Lost, missing and surplus GPUs. GPUs that hang on one power supply and are gone together are one lost supply, not many GPUs."""
    lost = _lost(context)
    missing = _missing_addresses(context, lost)
    gone = set(lost) | missing
    explained: t.Set[str] = set()
    for name, members in _domains(context, lost).items():
        if len(members) >= 2 and members <= gone:
            explained |= members
            yield _psu(name, members, lost)
    yield from (_lost_gpu(about) for address, about in lost.items() if address not in explained)
    yield from _judge_count(context, lost, missing, explained)


def _none(context: Context) -> Finding:
    reading, count = context.reading, context.expected.get("count")
    if count == 0 and (reading.error_kind == "no_devices" or reading.complete):
        return Finding("gpu.none", "info", NODE, "no GPU, as expected")
    wanted = "%d expected" % count if count else "the expected number is not given"
    if reading.error_kind == "no_devices" or (reading.complete and reading.attached == 0):
        advice = "reseat the cards and their power plugs, then look for them with lspci"
        return Finding("gpu.none", "critical", NODE, "the driver sees no GPU, %s" % wanted, "reseat", _said(context), advice)
    message = "no GPU was read from %s and no error was given, %s" % (reading.source, wanted)
    return Finding("gpu.none", "warning", NODE, message, undetermined=True)


def _said(context: Context) -> t.Tuple[str, ...]:
    return (context.reading.error,) if context.reading.error else ()


def _lost(context: Context) -> t.Dict[str, Subject]:
    """Lost GPUs by address, or by whatever name they have."""
    found = {address: Subject("gpu", pci=address) for address in context.reading.lost}
    for number, gpu in enumerate(context.reading.gpus):
        if context.is_lost(gpu):
            found[gpu.pci or gpu.uuid or gpu.serial or "gpu %d" % number] = subject(gpu)
    return found


def _present(context: Context) -> t.Set[str]:
    return {gpu.pci for gpu in context.answering() if gpu.pci}


def _missing_addresses(context: Context, lost: t.Mapping[str, Subject]) -> t.Set[str]:
    """Addresses that the inventory wires to a power supply and that nobody named; not to be told of an output that lists no GPU."""
    if not context.reading.gpus or context.reading.error_kind:
        return set()
    wired = {member for members in context.expected.get("power_domains", {}).values() for member in members if isinstance(member, str)}
    return wired - _present(context) - set(lost)


def _domains(context: Context, lost: t.Mapping[str, Subject]) -> t.Dict[str, t.Set[str]]:
    """Power domains as sets of addresses; a domain with a member that has none is left out.

    NVML numbers GPUs in PCI order and closes the gap that a lost one leaves. So a number stands for an address only while all
    addresses, those of the lost included, are known.
    """
    known = sorted(_present(context) | set(lost), key=_order)
    counts = (context.expected.get("count"), context.reading.attached, len(context.reading.gpus))
    all_known = len(known) >= max(count or 0 for count in counts)
    domains = {}
    for name, members in context.expected.get("power_domains", {}).items():
        addresses = [
            member if isinstance(member, str) else known[member] if all_known and member < len(known) else None for member in members
        ]
        if all(addresses):
            domains[name] = {address for address in addresses if address}
    return domains


def _order(address: str) -> t.Tuple[int, t.Tuple[int, ...], str]:
    try:
        return (0, tuple(int(part, 16) for part in address.split(":")), address)
    except ValueError:
        return (1, (), address)


def _psu(name: str, members: t.Set[str], lost: t.Mapping[str, Subject]) -> Finding:
    names = sorted(members, key=_order)
    message = "all %d GPUs on power supply %s are gone: %s" % (len(names), name, ", ".join(names))
    advice = "one lost supply, not %d broken GPUs: check its plug, fuse and output before any card" % len(names)
    evidence = tuple("%s: %s" % (address, "lost" if address in lost else "not listed") for address in names)
    return Finding("psu.lost", "critical", Subject("psu", name), message, "check_power", evidence, advice)


def _lost_gpu(about: Subject) -> Finding:
    advice = (
        "power the node off, reseat card and riser, recable and check power at both ends, then retest under load before any RMA; "
        "if it comes back only until it is warm, check cooling"
    )
    return Finding("gpu.lost", "critical", about, "the GPU does not answer: lost from the bus", "reseat", advice=advice)


def _judge_count(context: Context, lost: t.Mapping[str, Subject], missing: t.Set[str], explained: t.Set[str]) -> t.Iterator[Finding]:
    reading, count = context.reading, context.expected.get("count")
    # An output that lists no GPU at all does not tell how many there are: one lost GPU can empty the whole list.
    if not reading.gpus or reading.error_kind:
        return
    there = len(context.answering()) + len(lost)
    hidden = len(explained - set(lost))
    addresses = sorted(missing - explained, key=_order)
    names = _missing_names(context, lost)
    if len(names) <= hidden + len(addresses):
        names = []
    wanted = max(count or 0, reading.attached or 0)
    short = max(wanted - there - hidden, len(addresses), len(names) - hidden)
    if short > 0:
        yield _too_few(context, max(wanted, there + hidden + short), short, names or addresses)
    elif count is not None and there > count:
        message = "GPUs there: %d, expected: %d" % (there, count)
        yield Finding("gpu.count", "warning", NODE, message, advice="correct the expected count, or find out whose card it is")


def _too_few(context: Context, wanted: int, short: int, names: t.Sequence[str]) -> Finding:
    message = "%d of %d GPUs answer" % (len(context.answering()), wanted)
    message += "; missing: %s" % ", ".join(names) if names else "; which ones is not known"
    for name, members in context.expected.get("power_domains", {}).items():
        together = len(names) >= 2 and set(names) <= set(members)
        alike = short >= 2 and not names and len(members) == short
        if together or alike:
            how = "all of them hang on power supply %s" if together else "as many are missing as hang on power supply %s"
            return Finding("gpu.count", "critical", NODE, message, "check_power", tuple(names), how % name + ": check it first")
    advice = "look for the card with lspci; reseat it, its riser and its power plug"
    return Finding("gpu.count", "critical", NODE, message, "reseat", tuple(names), advice)


def _missing_names(context: Context, lost: t.Mapping[str, Subject]) -> t.List[str]:
    """Cards the inventory names that no GPU is. A swapped card is no missing one: it shows as an unexpected GPU instead."""
    answering = context.answering()
    best: t.List[str] = []
    for key, attribute in (("uuids", "uuid"), ("serials", "serial")):
        named = {name.lower(): name for name in context.expected.get(key, ())}
        present = [(getattr(gpu, attribute) or "").lower() for gpu in answering]
        if not named or "" in present:
            continue
        seen = {*present, *((getattr(about, attribute) or "").lower() for about in lost.values())}
        absent = [name for folded, name in named.items() if folded not in seen]
        strangers = sum(1 for name in present if name not in named)
        nameless = sum(1 for about in lost.values() if not getattr(about, attribute))
        if len(absent) > strangers + nameless and len(absent) > len(best):
            best = absent
    return best
