# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kernel's log of the simulated node: a whole boot, so that a reader has evidence, and what the faults add to it."""

from __future__ import annotations

import os
import re
import typing as t
from dataclasses import dataclass

from .scenario import HOME, Scenario

KERNEL = "kernel"
_SPEEDS = {1: "2.5 GT/s", 2: "5.0 GT/s", 3: "8.0 GT/s", 4: "16.0 GT/s", 5: "32.0 GT/s", 6: "64.0 GT/s"}
# What the kernel prints for a lane after its encoding, in Mb/s (include/linux/pci.h, PCIE_SPEED2MBS_ENC).
_LANE_MBPS = {1: 2000, 2: 4000, 3: 7877, 4: 15753, 5: 31506, 6: 63017}
_XID = re.compile(r"NVRM: Xid \(PCI:([0-9a-f:]+)\)")
_PREVIOUS_BOOT_SECONDS = 5 * 86400
_DOWN_SECONDS = 143


@dataclass(frozen=True)
class Entry:
    """A line of the journal: C(boot) is 0 for this one, -1 for the one before."""

    boot: int
    usec: int
    priority: int
    text: str
    source: str = KERNEL


def link_speed(gen: int) -> str:
    return _SPEEDS.get(gen, "Unknown") + (" PCIe" if gen in _SPEEDS else "")


def bandwidth(gen: int, width: int) -> str:
    return "%d.%03d" % divmod(_LANE_MBPS[gen] * width, 1000)


def boot_times(start_usec: int, uptime_seconds: int) -> t.Dict[int, t.Tuple[int, int]]:
    """Begin and end of each boot; this one has not ended."""
    begin = start_usec - uptime_seconds * 1000000
    end = begin - _DOWN_SECONDS * 1000000
    return {-1: (end - _PREVIOUS_BOOT_SECONDS * 1000000, end), 0: (begin, 0)}


def entries(scenario: Scenario, start_usec: int, moments: t.Mapping[str, int]) -> t.List[Entry]:
    """All lines in order. C(moments): for a fault that came into a running node, when that was."""
    boots = boot_times(start_usec, scenario.node["uptime_seconds"])
    found = []
    for boot, (begin, end) in boots.items():
        found += [Entry(boot, begin + int(at * 1e6), priority, text) for at, priority, text in _boot_lines(scenario)]
        found += [Entry(boot, begin + int(at * 1e6), priority, text, source) for at, priority, source, text in _user_lines(scenario)]
        if end:
            found.append(Entry(boot, end - 4000000, 6, "Stopped target multi-user.target - Multi-User System.", "systemd[1]"))
            found.append(Entry(boot, end - 1000000, 6, "systemd-shutdown[1]: Syncing filesystems and block devices."))
            found.append(Entry(boot, end, 4, "reboot: Restarting system"))
    for fault, entry in scenario.log:
        boot = entry.get("boot", 0)
        begin, end = boots[boot]
        if "after_boot" in entry:
            moment = begin + int(entry["after_boot"] * 1e6)
        elif boot == 0 and fault in moments:
            moment = moments[fault]
        else:
            moment = (end or start_usec) + entry["moment"] * 1000000
        found += [Entry(boot, moment + int(at * 1e6), priority, _filled(text, scenario)) for at, priority, text in entry["lines"]]
    found.sort(key=lambda entry: (entry.boot, entry.usec))
    return _announced(found, scenario)


def during(scenario: Scenario, event: t.Mapping[str, t.Any]) -> t.List[t.Tuple[float, int, str]]:
    """Lines of an event that comes with the load: seconds after it, priority, text on one line."""
    found = [Entry(0, int(at * 1e6), priority, _filled(text, scenario)) for at, priority, text in event.get("log", ())]
    return [(entry.usec / 1e6, entry.priority, entry.text.replace("\n", "\\n")) for entry in _announced(found, scenario)]


def _boot_lines(scenario: Scenario) -> t.Iterator[t.Tuple[float, int, str]]:
    blocks = {"@pci": _pci_lines, "@devices": _device_lines, "@driver": _driver_lines}
    facts = dict(scenario.node, memory_mib=scenario.node["memory_kib"] // 1024)
    with open(os.path.join(HOME, "boot.txt"), encoding="utf-8") as handle:
        for line in handle:
            line = line.rstrip("\n")
            if line in blocks:
                yield from blocks[line](scenario)
            elif "nvidia-uvm" in line and not scenario.node.get("driver_loaded", 1):
                continue
            elif not line.startswith("#"):
                at, priority, text = line.split(" ", 2)
                yield float(at), int(priority), text.format_map(facts)


def _present(scenario: Scenario) -> t.List[t.Dict[str, t.Any]]:
    return [gpu for gpu in scenario.gpus if not gpu.get("absent")]


def _pci_lines(scenario: Scenario) -> t.Iterator[t.Tuple[float, int, str]]:
    at = 2.001402
    for device in scenario.devices:
        vendor, identity = device["vendor"][2:], device["device"][2:]
        yield at, 6, "pci %s: [%s:%s] type 00 class %s PCIe Endpoint" % (device["bus_id"], vendor, identity, device["class"])
        yield at + 0.000031, 6, "pci %s: BAR 0 [mem 0x%08x-0x%08x 64bit]" % (device["bus_id"], 0x90000000, 0x90003FFF)
        at += 0.006
    for bus_id in scenario.nvswitches:
        yield at, 6, "pci %s: [10de:22a3] type 00 class 0x068000 PCIe Endpoint" % bus_id
        yield at + 0.000028, 6, "pci %s: BAR 0 [mem 0x22a000000000-0x22a001ffffff 64bit pref]" % bus_id
        at += 0.004
    for number, gpu in enumerate(_present(scenario)):
        base = 0x200000000000 + number * 0x4000000000
        yield at, 6, "pci %s: [10de:%s] type 00 class %s PCIe Endpoint" % (gpu["bus_id"], gpu["device_id"][2:6].lower(), gpu["class"])
        yield at + 0.000019, 6, "pci %s: BAR 0 [mem 0x%x-0x%x 64bit pref]" % (gpu["bus_id"], base + 0x2000000000, base + 0x2000FFFFFF)
        yield at + 0.000027, 6, "pci %s: BAR 2 [mem 0x%x-0x%x 64bit pref]" % (gpu["bus_id"], base, base + (gpu["bar1"]["total"] << 20) - 1)
        yield at + 0.000101, 6, "pci %s: PME# supported from D0 D3hot" % gpu["bus_id"]
        at += 0.011


def _device_lines(scenario: Scenario) -> t.Iterator[t.Tuple[float, int, str]]:
    at = 4.520118
    number = 0
    for device in scenario.devices:
        bus_id, gen, width = device["bus_id"], device["gen"], device["width"]
        if device["driver"] == "nvme":
            yield at, 6, "nvme nvme%d: pci function %s" % (number, bus_id)
            yield at + 0.021, 6, "nvme nvme%d: 64/0/0 default/read/poll queues" % number
            yield at + 0.031, 6, " nvme%dn1: p1 p2" % number
            number += 1
        elif device["driver"] == "mlx5_core":
            yield at, 6, "mlx5_core %s: firmware version: 28.43.2026" % bus_id
            speed = (bandwidth(gen, width), link_speed(gen), width)
            yield at + 0.001, 6, "mlx5_core %s: %s Gb/s available PCIe bandwidth (%s x%d link)" % ((bus_id, *speed))
            yield at + 1.302, 6, "mlx5_core %s: Rate limit: 127 rates are supported, range: 0Mbps to 195312Mbps" % bus_id
        elif device["driver"] == "ixgbe":
            yield at, 6, "ixgbe %s: Multiqueue Enabled: Rx Queue count = 63, Tx Queue count = 63 XDP Queue count = 0" % bus_id
        else:
            yield at, 6, "[drm] Initialized %s 0.1.0 for %s on minor 0" % (device["driver"], bus_id)
        at += 0.04


def _driver_lines(scenario: Scenario) -> t.Iterator[t.Tuple[float, int, str]]:
    if not scenario.node.get("driver_loaded", 1):
        return
    driver = scenario.node["driver"]
    at = 10.204118
    yield at, 4, "nvidia: loading out-of-tree module taints kernel."
    yield at + 0.00002, 4, "nvidia: module verification failed: signature and/or required key missing - tainting kernel"
    yield at + 0.091, 6, "nvidia-nvlink: Nvlink Core is being initialized, major device number 511"
    yield at + 0.0911, 6, ""
    for gpu in _present(scenario):
        at += 0.002
        yield at + 0.1, 6, "nvidia %s: enabling device (0140 -> 0142)" % gpu["bus_id"]
        if gpu["class"] == "0x030000":
            yield at + 0.1001, 6, "nvidia %s: vgaarb: VGA decodes changed: olddecodes=io+mem,decodes=none:owns=none" % gpu["bus_id"]
    for number, bus_id in enumerate(scenario.nvswitches):
        identity = "Vendor Id = 0x10de, Device Id = 0x22a3, Class = 0x68000"
        yield at + 0.12, 6, "nvidia-nvswitch%d: Probing device %s, %s" % (number, bus_id, identity)
        at += 0.001
    at = 10.402
    yield at, 5, "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build  (dvs-builder@U22-I3-AE18-09-6)" % driver
    yield at + 0.6, 6, "nvidia-modeset: Loading NVIDIA UNIX Open Kernel Mode Setting Driver for x86_64  %s  Release Build" % driver
    at = 11.1
    for number, gpu in enumerate(_present(scenario)):
        domain, bus, rest = gpu["bus_id"].split(":")
        gpu_id = int(domain, 16) << 16 | int(bus, 16) << 8 | int(rest.split(".")[0], 16)
        yield at, 6, "[drm] [nvidia-drm] [GPU ID 0x%08x] Loading driver" % gpu_id
        yield at + 0.21, 6, "[drm] Initialized nvidia-drm 0.0.0 for %s on minor %d" % (gpu["bus_id"], number + 1)
        at += 0.24


def _user_lines(scenario: Scenario) -> t.Iterator[t.Tuple[float, int, str, str]]:
    yield 6.95, 6, "systemd[1]", "Started systemd-journald.service - Journal Service."
    if scenario.node.get("driver_loaded", 1):
        yield 18.2, 6, "systemd[1]", "Started nvidia-persistenced.service - NVIDIA Persistence Daemon."
        yield 18.21, 5, "nvidia-persistenced[2307]", "Started (2307)"
    if scenario.nvswitches:
        yield 19.4, 6, "nv-fabricmanager[2388]", "Connected to 1 node."
        yield 24.9, 6, "nv-fabricmanager[2388]", "Successfully configured all the available NVSwitches to route GPU NVLink traffic."
    yield 21.3, 6, "sshd[2402]", "Server listening on 0.0.0.0 port 22."
    yield 26.0, 6, "systemd[1]", "Reached target multi-user.target - Multi-User System."


def _filled(text: str, scenario: Scenario) -> str:
    """C({3.pci}) and the like; C({node.driver})."""

    def fact(match: t.Match[str]) -> str:
        subject, name = match.group(1), match.group(2)
        return str(scenario.node[name]) if subject == "node" else _gpu_fact(scenario.gpus[int(subject)], name)

    return re.sub(r"\{(node|\d+)\.(\w+)\}", fact, text)


def _gpu_fact(gpu: t.Mapping[str, t.Any], name: str) -> str:
    domain, bus, rest = gpu["bus_id"].split(":")
    gen = min(gpu["pcie"]["gen_device_max"], gpu["pcie"]["gen_host_max"])
    derived = {
        "pci": "%s:%s:%s" % (domain, bus, rest.split(".")[0]),
        "port": "%s:%02x:01.0" % (domain, int(bus, 16) - 1),
        "speed": link_speed(gen).replace(" PCIe", ""),
        "bandwidth_x4": bandwidth(gen, 4),
        "bandwidth_x16": bandwidth(gen, 16),
    }
    return derived.get(name) or str(gpu[name])


def _announced(found: t.List[Entry], scenario: Scenario) -> t.List[Entry]:
    """Before a GPU's first Xid of a boot the driver says which GPU that address is."""
    known = {_gpu_fact(gpu, "pci"): gpu for gpu in scenario.gpus}
    done: t.Set[t.Tuple[int, str]] = set()
    result: t.List[Entry] = []
    for entry in found:
        match = _XID.search(entry.text)
        if match and (entry.boot, match.group(1)) not in done and match.group(1) in known:
            done.add((entry.boot, match.group(1)))
            gpu = known[match.group(1)]
            for text in ("GPU at PCI:%s: %s" % (match.group(1), gpu["uuid"]), "GPU Board Serial Number: %s" % gpu["serial"]):
                result.append(Entry(entry.boot, entry.usec, 4, "NVRM: " + text))
        result.append(entry)
    return result
