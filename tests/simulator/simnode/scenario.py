# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Scenarios by name: a node (C(h100x8)) and what is wrong with it (C(h100x8+link_x4+xid79_only))."""

from __future__ import annotations

import copy
import json
import os
import typing as t
from dataclasses import dataclass, field

HOME = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "scenarios")


class ScenarioError(Exception):
    """A name that does not exist, or a fault that this node cannot have; the text is for people."""


@dataclass
class Scenario:
    name: str
    base: str
    faults: t.List[str] = field(default_factory=list)
    node: t.Dict[str, t.Any] = field(default_factory=dict)
    gpus: t.List[t.Dict[str, t.Any]] = field(default_factory=list)
    nvswitches: t.List[str] = field(default_factory=list)
    devices: t.List[t.Dict[str, t.Any]] = field(default_factory=list)
    nvml: t.Dict[str, t.Any] = field(default_factory=dict)
    tools: t.Dict[str, t.Dict[str, t.Any]] = field(default_factory=dict)
    missing: t.List[str] = field(default_factory=list)
    # Whether the tools and the library come with the scenario; else packages bring them.
    equipped: bool = True
    changes: t.List[t.Dict[str, t.Any]] = field(default_factory=list)
    dcgm: t.Dict[str, t.Any] = field(default_factory=dict)
    nccl: t.Dict[str, t.Any] = field(default_factory=dict)
    # What happens while gpu_burn runs: per cent of its run, facts to change, lines for the log.
    during_burn: t.List[t.Dict[str, t.Any]] = field(default_factory=list)
    # Of each fault its own log entries: they begin when the fault does.
    log: t.List[t.Tuple[str, t.Dict[str, t.Any]]] = field(default_factory=list)


def nodes() -> t.Dict[str, str]:
    return _abouts(HOME)


def faults() -> t.Dict[str, str]:
    return _abouts(os.path.join(HOME, "faults"))


def can_have(base: str, fault: str) -> bool:
    try:
        load("%s+%s" % (base, fault))
    except ScenarioError:
        return False
    return True


def load(name: str) -> Scenario:
    base, *fault_names = name.split("+")
    if base not in _names(HOME):
        raise ScenarioError("there is no node %r; the nodes are %s" % (base, ", ".join(_names(HOME))))
    described = _read(os.path.join(HOME, base + ".json"))
    scenario = Scenario(
        name,
        base,
        node=described["node"],
        nvswitches=described.get("nvswitches", []),
        devices=described.get("devices", []),
        dcgm=described.get("dcgm", {}),
        nccl=described.get("nccl", {}),
    )
    scenario.gpus = [_merged(copy.deepcopy(described["gpu"]), gpu) for gpu in described["gpus"]]
    for fault in fault_names:
        _apply(scenario, fault)
    return scenario


# What a driver branch brought; NVML's number is that of CUDA.
_CUDA = {535: (12, 2), 550: (12, 4), 570: (12, 8), 575: (12, 9), 580: (13, 0), 590: (13, 1), 595: (13, 2)}


def with_driver(scenario: Scenario, loaded: t.Optional[str], library: t.Optional[str], fabric: bool, open_modules: bool = True) -> None:
    """The driver comes from the node's own packages: C(loaded) is the version of its kernel module, C(library) that of its
    user-space half, None where there is none. C(fabric): a Fabric Manager has brought the NVSwitch fabric up."""
    scenario.equipped = False
    flavour = "open" if open_modules else "proprietary"
    scenario.name += " (%s driver %s, library %s, fabric %s)" % (flavour, loaded or "none", library or "none", "up" if fabric else "down")
    scenario.node["open_modules"] = int(open_modules)
    if loaded:
        major, minor = _CUDA[max(branch for branch in _CUDA if branch <= int(loaded.split(".", maxsplit=1)[0]))]
        scenario.node.update(
            driver=loaded, cuda="%d.%d" % (major, minor), cuda_number=major * 1000 + minor * 10, nvml="%d.%s" % (major, loaded)
        )
        for gpu in scenario.gpus:
            gpu["gsp"] = loaded if gpu.get("gsp") else gpu.get("gsp")
    if not loaded:
        scenario.nvml["init"] = 9
        scenario.node["driver_loaded"] = 0
    elif library and library != loaded:
        scenario.nvml.update(init=18, library=library)
    if not fabric and scenario.gpus[0]["fabric"]["state"]:
        for gpu in scenario.gpus:
            gpu["fabric"] = dict(gpu["fabric"], state=2)


def _apply(scenario: Scenario, fault: str) -> None:
    known = _names(os.path.join(HOME, "faults"))
    if fault not in known:
        raise ScenarioError("there is no fault %r; the faults are %s" % (fault, ", ".join(known)))
    overlay = _read(os.path.join(HOME, "faults", fault + ".json"))
    for included in overlay.get("includes", ()):
        _apply(scenario, included)
    _check_needs(scenario, fault, overlay.get("needs"))
    for gpu in scenario.gpus:
        _merged(gpu, overlay.get("all_gpus", {}))
    for key, facts in overlay.get("gpus", {}).items():
        _merged(_awake(scenario.gpus[_index(scenario, fault, key)], facts), facts)
    for change in overlay.get("changes", ()):
        first, index, rest = change["key"].split(".", 2)
        scenario.changes.append(dict(change, key="%s.%d.%s" % (first, _index(scenario, fault, index), rest)))
    for event in overlay.get("during_burn", ()):
        facts = {}
        for key, value in event.get("facts", {}).items():
            first, index, rest = key.split(".", 2)
            facts["%s.%d.%s" % (first, _index(scenario, fault, index), rest)] = value
        scenario.during_burn.append(dict(event, facts=facts))
    _merged(scenario.node, overlay.get("node", {}))
    _merged(scenario.dcgm, overlay.get("dcgm", {}))
    _merged(scenario.nccl, overlay.get("nccl", {}))
    _merged(scenario.nvml, overlay.get("nvml", {}))
    _merged(scenario.tools, overlay.get("tools", {}))
    scenario.missing += [name for name in overlay.get("missing", ()) if name not in scenario.missing]
    scenario.log += [(fault, entry) for entry in overlay.get("log", ())]
    scenario.faults.append(fault)


def _awake(gpu: t.Dict[str, t.Any], facts: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
    """A card that is busy has its link at full speed; at rest some cards lower it."""
    link = gpu["pcie"]
    if facts.get("util", {}).get("gpu"):
        link.update(gen=link["gen_max"], gen_device=link["gen_device_max"])
    return gpu


def _check_needs(scenario: Scenario, fault: str, need: t.Optional[str]) -> None:
    has = {
        None: True,
        "ecc": scenario.gpus[0]["ecc"]["current"] is not None,
        "remap": scenario.gpus[0]["remap"]["pending"] is not None,
        "fabric": scenario.gpus[0]["fabric"]["state"] != 0,
        "nvlink": "nvlink" in scenario.gpus[0],
        "mig": scenario.gpus[0]["mig"]["current"] is not None,
    }[need]
    if not has:
        raise ScenarioError("fault %s needs GPUs with %s, which those of %s have not" % (fault, need, scenario.base))


def _index(scenario: Scenario, fault: str, key: str) -> int:
    """Negative ones count from the last GPU."""
    index = int(key)
    index += len(scenario.gpus) if index < 0 else 0
    if not 0 <= index < len(scenario.gpus):
        raise ScenarioError("fault %s is about GPU %s, %s has only %d GPUs" % (fault, key, scenario.base, len(scenario.gpus)))
    return index


def _merged(onto: t.Dict[str, t.Any], overlay: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
    for key, value in overlay.items():
        if isinstance(value, dict) and isinstance(onto.get(key), dict):
            _merged(onto[key], value)
        else:
            onto[key] = copy.deepcopy(value)
    return onto


def _names(folder: str) -> t.List[str]:
    return sorted(name[:-5] for name in os.listdir(folder) if name.endswith(".json"))


def _abouts(folder: str) -> t.Dict[str, str]:
    return {name: _read(os.path.join(folder, name + ".json"))["about"] for name in _names(folder)}


def _read(path: str) -> t.Dict[str, t.Any]:
    with open(path, encoding="utf-8") as handle:
        found: t.Dict[str, t.Any] = json.load(handle)
    return found
