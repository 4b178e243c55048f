# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A scenario written out as a state directory, from which the stand-in tools and the NVML stub answer.

node        facts and changes, one a line (see state.py)
kernel.log  every line of the journal: boot, real time and time since boot in microseconds, priority, source, text
readings    one byte for each reading of the GPUs so far
load        what the tool that computes on the GPUs does to them as long as it lives (see load.py)
happened    what such tools have done to them for good
kernel.added  lines of kernel.log that such tools added
profiling   what dcgmi profile was asked for, a word a line
meta.json   what the directory was made from
bin, lib    the tools and the library that this node has
root        the node's files: /sys, /proc and /dev/kmsg, for a probe that is told to look below it
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
import typing as t
import uuid

from . import build, kernel_log
from .scenario import Scenario
from .tools import TOOLS

MARK = " [simulated]"
_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# These describe the node to the renderer; the tools do not need them.
_NOT_FACTS = ("absent", "gone", "processes", "nvlink", "class", "pci_name", "audio", "psu")


def prepare(scenario: Scenario, folder: str, root: bool = True) -> t.Optional[str]:
    """Make or bring up to date C(folder). Returns why NVML is not simulated, where it should be and is not.

    Without C(root) there are no /sys and /proc, a hundred small files that tests of the tools alone can do without.

    A directory that already is this scenario goes on as it is. Another scenario of the same node is a fault (or repair) of the
    running node: its boot, its clock and the number of readings stay, and what the new fault logs is logged now.
    """
    os.makedirs(folder, exist_ok=True)
    meta = _meta(folder)
    if meta.get("base") != scenario.base:
        meta = {"base": scenario.base, "start": _now(), "boot_ids": {"0": uuid.uuid4().hex, "-1": uuid.uuid4().hex}, "moments": {}}
        _write(folder, "readings", b"")
        for name in ("load", "happened", "kernel.added", "profiling"):
            _remove(os.path.join(folder, name))
    elif meta.get("name") != scenario.name:
        for fault in scenario.faults:
            if fault not in meta["faults"]:
                meta["moments"][fault] = _now()
    if meta.get("name") != scenario.name:
        _remove(os.path.join(folder, "happened"))  # repaired, or broken anew
        meta.update(name=scenario.name, faults=scenario.faults)
        _write(folder, "node", _node_file(scenario, meta).encode())
        _log(scenario, folder, meta)
        if root:
            _root(scenario, folder, meta)
        _write(folder, "meta.json", json.dumps(meta, indent=1).encode())
    _tools(scenario, folder)
    return _library(scenario, folder)


def environment(folder: str) -> t.Dict[str, str]:
    """What a process needs to see the simulated node instead of the machine."""
    folder = os.path.abspath(folder)
    libraries = [os.path.join(folder, "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    return {
        "PATH": os.pathsep.join((os.path.join(folder, "bin"), os.environ.get("PATH", os.defpath))),
        "LD_LIBRARY_PATH": os.pathsep.join(path for path in libraries if path),
        "KENTINO_GPU_ROOT": os.path.join(folder, "root"),
        "KENTINO_SIM_STATE": folder,
    }


def visible(scenario: Scenario) -> t.List[t.Dict[str, t.Any]]:
    """The GPUs that the driver has, in PCI order."""
    return [gpu for gpu in scenario.gpus if not gpu.get("absent") and not gpu.get("gone")]


def _meta(folder: str) -> t.Dict[str, t.Any]:
    try:
        with open(os.path.join(folder, "meta.json"), encoding="utf-8") as handle:
            found: t.Dict[str, t.Any] = json.load(handle)
    except FileNotFoundError:
        return {}
    return found


def _node_file(scenario: Scenario, meta: t.Mapping[str, t.Any]) -> str:
    node = scenario.node
    lines = [
        ("scenario", scenario.name),
        ("start", meta["start"]),
        ("boot_id", meta["boot_ids"]["0"]),
        ("previous_boot_id", meta["boot_ids"]["-1"]),
        ("driver", node["driver"]),
        ("cuda", node["cuda"]),
        ("cuda_number", node["cuda_number"]),
        ("dtd", node["dtd"]),
        ("nvml.version", node["nvml"] + MARK),
        ("gpus", len(visible(scenario))),
    ]
    lines += [("nvml." + key, value) for key, value in scenario.nvml.items()]
    lines += _flat("dcgm.", scenario.dcgm)
    lines += _flat("nccl.", scenario.nccl)
    for tool, behaviour in scenario.tools.items():
        lines += [("tool.%s.%s" % (tool, key), value) for key, value in behaviour.items()]
    minor = 0
    index = 0
    places = {}
    for number, gpu in enumerate(scenario.gpus):
        if gpu.get("absent"):
            continue
        if not gpu.get("gone"):
            places["gpu.%d." % number] = "gpu.%d." % index
            lines += [("gpu.%d.%s" % (index, key), value) for key, value in _facts(scenario, gpu, minor)]
            index += 1
        minor += 1
    for change in scenario.changes:
        prefix = ".".join(change["key"].split(".")[:2]) + "."
        if prefix in places:
            lines.append((places[prefix] + change["key"][len(prefix) :] + "@" + _rule(change), _value(change)))
    lines += _events(scenario, places)
    lines += [("pci.%d" % number, device) for number, device in enumerate(_pci_lines(scenario))]
    return "".join("%s=%s\n" % (key, "N/A" if value is None else value) for key, value in lines)


def _events(scenario: Scenario, places: t.Mapping[str, str]) -> t.Iterator[t.Tuple[str, t.Any]]:
    for number, event in enumerate(scenario.during_burn):
        prefix = "event.%d." % number
        yield prefix + "percent", event["percent"]
        facts = [(".".join(key.split(".")[:2]) + ".", key, value) for key, value in event["facts"].items()]
        for place, (gpu, key, value) in enumerate(fact for fact in facts if fact[0] in places):
            yield prefix + "fact.%d" % place, "%s=%s" % (places[gpu] + key[len(gpu) :], value)
        for place, (at, priority, text) in enumerate(kernel_log.during(scenario, event)):
            yield prefix + "log.%d" % place, "%f %d %s" % (at, priority, text)


def _rule(change: t.Mapping[str, t.Any]) -> str:
    if "from_reading" in change:
        return "from_reading:%d" % change["from_reading"]
    if "after_seconds" in change:
        return "after_seconds:%d" % change["after_seconds"]
    return "per_reading" if "per_reading" in change else "per_second"


def _value(change: t.Mapping[str, t.Any]) -> t.Any:
    return change["value"] if "value" in change else change.get("per_reading", change.get("per_second"))


def _facts(scenario: Scenario, gpu: t.Mapping[str, t.Any], minor: int) -> t.Iterator[t.Tuple[str, t.Any]]:
    own = {key: value for key, value in gpu.items() if key not in _NOT_FACTS}
    own["name"] = gpu["name"] + MARK
    own["minor"] = minor
    own["pci_class"] = int(gpu["class"][4:6], 16)
    own["board_id"] = int(gpu["bus_id"].split(":")[1], 16) << 8
    memory = dict(gpu["memory"])
    memory["free"] = memory["total"] - memory["reserved"] - memory["used"]
    own["memory"] = memory
    remap = dict(gpu["remap"])
    if remap["max"] is not None:
        remap["max"] -= remap.pop("max_less", 0)
    own["remap"] = remap
    yield from _flat("", own)
    processes = gpu.get("processes", [])
    for number, process in enumerate(processes):
        yield from _flat("process.%d." % number, process)
    nvlink = gpu.get("nvlink", {})
    for key in ("count", "speed"):
        yield "nvlink." + key, nvlink.get(key)
    for link in range(nvlink.get("count", 0)):
        facts: t.Dict[str, t.Any] = dict.fromkeys(("crc", "replay", "recovery", "recovery_events"), 0)
        facts.update(state=1, speed=nvlink["speed"], version=nvlink["version"])
        facts["remote"] = scenario.nvswitches[link % len(scenario.nvswitches)]
        facts.update(nvlink.get(str(link), {}))
        yield from _flat("nvlink.%d." % link, facts)


def _flat(prefix: str, facts: t.Mapping[str, t.Any]) -> t.Iterator[t.Tuple[str, t.Any]]:
    for key, value in facts.items():
        if isinstance(value, dict):
            yield from _flat(prefix + key + ".", value)
        else:
            yield prefix + key, value


def _pci_devices(scenario: Scenario) -> t.Iterator[t.Dict[str, t.Any]]:
    """Everything on the bus that lspci and /sys show."""
    yield from scenario.devices
    for bus_id in scenario.nvswitches:
        yield {
            "bus_id": bus_id, "vendor": "0x10de", "device": "0x22a3", "class": "0x068000", "name": "GH100 [H100 NVSwitch]",
            "driver": "nvidia-nvswitch",
        }  # fmt: skip
    for gpu in visible(scenario):
        pcie = gpu["pcie"]
        lost = bool(gpu.get("off_bus"))
        common = {"bus_id": gpu["bus_id"], "vendor": "0x10de", "lost": lost, "subsystem": gpu["subsystem_id"].lower(), "numa": gpu["numa"]}
        yield dict(
            common, device=gpu["device_id"][:6].lower(), name=gpu["pci_name"], driver="nvidia", gen=pcie["gen"], width=pcie["width"],
            gen_max=min(pcie["gen_device_max"], pcie["gen_host_max"]), width_max=pcie["width_max"], **{"class": gpu["class"]},
        )  # fmt: skip
        if "audio" in gpu:
            yield dict(
                common, bus_id=gpu["bus_id"][:-1] + "1", device=gpu["audio"], name="GB202 High Definition Audio Controller",
                driver="snd_hda_intel", **{"class": "0x040300"},
            )  # fmt: skip


def _pci_lines(scenario: Scenario) -> t.List[str]:
    devices = sorted(_pci_devices(scenario), key=lambda device: str(device["bus_id"]))
    keys = ("bus_id", "class", "vendor", "device", "lost", "name")
    return ["|".join(str(int(device.get(key, 0)) if key == "lost" else device[key]) for key in keys) for device in devices]


def _log(scenario: Scenario, folder: str, meta: t.Mapping[str, t.Any]) -> None:
    begins = {boot: times[0] for boot, times in kernel_log.boot_times(meta["start"], scenario.node["uptime_seconds"]).items()}
    entries = kernel_log.entries(scenario, meta["start"], meta["moments"])
    rows = []
    kmsg: t.List[str] = []
    for entry in entries:
        since_boot = entry.usec - begins[entry.boot]
        text = entry.text.replace("\n", "\\n")
        rows.append("%d\t%d\t%d\t%d\t%s\t%s\n" % (entry.boot, entry.usec, since_boot, entry.priority, entry.source, text))
        if entry.boot == 0 and entry.source == kernel_log.KERNEL and entry.usec <= _now():
            kmsg.append("%d,%d,%d,-;%s\n" % (entry.priority, len(kmsg), since_boot, entry.text.replace("\n", "\\x0a")))
    for row in _added(folder):
        _boot, _usec, since_boot, priority, _source, text = row.rstrip("\n").split("\t", 5)
        rows.append(row)
        kmsg.append("%s,%d,%s,-;%s\n" % (priority, len(kmsg), since_boot, text.replace("\\n", "\\x0a")))
    rows.sort(key=lambda row: tuple(int(word) for word in row.split("\t", 2)[:2]))
    _write(folder, "kernel.log", "".join(rows).encode())
    os.makedirs(os.path.join(folder, "root/dev"), exist_ok=True)
    _remove(os.path.join(folder, "root/dev/kmsg"))
    if "kmsg" not in scenario.missing:
        _write(folder, "root/dev/kmsg", "".join(kmsg).encode())


def _added(folder: str) -> t.List[str]:
    """What tools let the kernel log: it was read, so it stays in the log also when the scenario changes."""
    try:
        with open(os.path.join(folder, "kernel.added"), encoding="utf-8") as handle:
            return handle.readlines()
    except FileNotFoundError:
        return []


def _root(scenario: Scenario, folder: str, meta: t.Mapping[str, t.Any]) -> None:
    root = os.path.join(folder, "root")
    for name in ("sys", "proc"):
        shutil.rmtree(os.path.join(root, name), ignore_errors=True)
    boot_id = str(uuid.UUID(meta["boot_ids"]["0"]))
    # Packages are for the kernel that runs.
    release = scenario.node["kernel"] if scenario.equipped else os.uname().release
    files = {"proc/sys/kernel/random/boot_id": boot_id, "proc/sys/kernel/osrelease": release}
    if scenario.node.get("driver_loaded", 1):
        driver = scenario.node["driver"]
        files["sys/module/nvidia/version"] = driver
        module = "Open Kernel Module for x86_64" if scenario.node.get("open_modules", 1) else "x86_64 Kernel Module"
        files["proc/driver/nvidia/version"] = "NVRM version: NVIDIA UNIX %s  %s  Release Build" % (module, driver)
    for device in _pci_devices(scenario):
        files.update(_pci_files(device))
    for folder_name in {os.path.dirname(name) for name in files}:
        os.makedirs(os.path.join(root, folder_name), exist_ok=True)
    for name, content in files.items():
        path = os.path.join(root, name)
        with open(path, "w", encoding="utf-8") as handle:
            handle.write(content + "\n")
    for device in _pci_devices(scenario):
        if scenario.node.get("driver_loaded", 1) or not str(device["driver"]).startswith("nvidia"):
            drivers = os.path.join(root, "sys/bus/pci/drivers", device["driver"])
            os.makedirs(drivers, exist_ok=True)
            link = os.path.join(root, "sys/bus/pci/devices", device["bus_id"], "driver")
            os.symlink(os.path.relpath(drivers, os.path.dirname(link)), link)


def _pci_files(device: t.Mapping[str, t.Any]) -> t.Iterator[t.Tuple[str, str]]:
    lost = device.get("lost")
    files = {"vendor": device["vendor"], "device": device["device"], "class": device["class"]}
    if device["driver"] == "nvidia":
        files["subsystem_vendor"] = "0x" + str(device["subsystem"])[-4:]
        files["subsystem_device"] = str(device["subsystem"])[:6]
        files["numa_node"] = str(device["numa"])
        for when, gen, width in (("current", device["gen"], device["width"]), ("max", device["gen_max"], device["width_max"])):
            # The link registers of a device that is off the bus read ff.
            files[when + "_link_width"] = "63" if lost else str(width)
            files[when + "_link_speed"] = "Unknown" if lost else kernel_log.link_speed(gen)
    for name, content in files.items():
        yield "sys/bus/pci/devices/%s/%s" % (device["bus_id"], name), content


def _tools(scenario: Scenario, folder: str) -> None:
    """Small scripts that start the tools with this Python and without its site packages: a third of the time or less."""
    os.makedirs(os.path.join(folder, "bin"), exist_ok=True)
    if "gpu_burn" not in scenario.missing and scenario.equipped:
        _write(folder, "bin/compare.ptx", b"// The kernel that gpu_burn looks for in its working directory.\n")
    for tool, module in TOOLS.items():
        path = os.path.join(folder, "bin", tool)
        _remove(path)
        if tool in scenario.missing or not scenario.equipped:
            continue
        if len(sys.executable) > 100 or " " in sys.executable:  # what a "#!" line takes
            os.symlink(os.path.join(_HOME, "bin", "nccl_tests" if module == "nccl_tests" else tool), path)
            continue
        with open(path, "w", encoding="utf-8") as handle:
            handle.write("#!%s -IS\nimport sys\n\nsys.path.insert(0, %r)\n" % (sys.executable, _HOME))
            handle.write("from simnode.%s import main\n\nsys.exit(main(sys.argv[1:]))\n" % module)
        os.chmod(path, 0o755)


def _library(scenario: Scenario, folder: str) -> t.Optional[str]:
    path = os.path.join(folder, "lib", build.NAME)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    _remove(path)
    if build.NAME in scenario.missing or not scenario.equipped:
        return None
    library, problem = build.library(folder)
    if library:
        os.symlink(library, path)
    return problem


def _remove(path: str) -> None:
    if os.path.lexists(path):
        os.remove(path)


def _write(folder: str, name: str, content: bytes) -> None:
    """Whole or not at all: a tool may be reading."""
    path = os.path.join(folder, name)
    with open(path + ".new", "wb") as handle:
        handle.write(content)
    os.replace(path + ".new", path)


def _now() -> int:
    return int(time.time() * 1e6)
