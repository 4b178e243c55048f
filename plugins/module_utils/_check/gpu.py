# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check C(gpu): read every GPU, hold it against what is expected of this node. Private to kentino.gpu."""

from __future__ import annotations

import dataclasses
import json
import os
import time
import typing as t

from .._judge import gpu as judge
from .._knowledge import thresholds
from .._parse import nvml
from .._parse.gpu_records import Gpu, GpuReading
from .._probe import command, pci, state
from .._probe import nvml as nvml_probe
from .._report.model import NODE, Check, Finding, Subject

NAME = "gpu"
SOURCES = ("auto", "nvml", "nvidia_smi")
# Kept for the next run: who sat at which address.
_IDENTITY = ("uuid", "serial", "index")
# nvidia-smi -q -x prints some 30 kB for a GPU, and a block for each process. Of a tool gone mad the beginning is enough: the node
# waits while it is parsed.
_MAX_SMI_BYTES = 2 << 20
_MAD_SMI_BYTES = 1 << 15
_LAST_WORDS_BYTES = 1000


@dataclasses.dataclass(frozen=True)
class Options:
    source: str = "auto"  # auto: NVML where pynvml is installed, else nvidia-smi
    expected: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    limits: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)  # overrides of thresholds, by key
    state_path: t.Optional[str] = None
    save_state: bool = True
    deadline_seconds: float = 20


def run(options: Options) -> t.Tuple[Check, t.Dict[str, t.Any]]:
    """The check, and the reading it rests on. ValueError where an option is wrong, before anything is asked of the node."""
    command.check_deadline(options.deadline_seconds)
    judge.check_expected(options.expected)
    thresholds.limits(options.limits)
    remembered, complaint = state.load(options.state_path) if options.state_path else ({}, None)
    counters, seen = (_table(remembered, NAME, part) for part in ("counters", "seen"))
    reading = _recognised(_with_bus(read(options.source, options.deadline_seconds)), seen)
    now_usec = int(time.time() * 1e6)
    findings = list(judge.judge(reading, options.expected, options.limits, earlier=counters, now_usec=now_usec))
    findings = [_with_last_seen(finding, reading, seen) for finding in findings]
    if options.state_path and options.save_state and reading.gpus:
        # A card that now sits elsewhere is remembered at its new place only.
        here = _identities(reading)
        uuids = {names["uuid"] for names in here.values()}
        seen = {**{address: names for address, names in seen.items() if names["uuid"] not in uuids}, **here}
        remembered[NAME] = {"counters": {**counters, **judge.counters(reading, now_usec)}, "seen": seen}
        complaint = state.save(options.state_path, remembered) or complaint
    if complaint:
        findings.append(Finding("gpu.state", "info", NODE, complaint))
    evidence = ""
    if reading.gpus and reading.complete:
        evidence = "%d GPUs read through %s" % (len(reading.gpus), reading.source)
    return Check(NAME, evidence, tuple(findings), metrics=judge.metrics(reading)), facts(reading)


def read(source: str = "auto", deadline_seconds: float = 20) -> GpuReading:
    """One reading of all GPUs."""
    if source != "nvidia_smi":
        reading = _read_nvml(deadline_seconds)
        if source == "nvml" or reading.error_kind != "missing_library":
            return reading
    reading = _read_nvidia_smi(["-q", "-x"], deadline_seconds)
    if reading.error_kind == "garbled":
        # Some drivers print XML with invalid bytes or attributes; the plain form of the same report is another code path.
        plain = _read_nvidia_smi(["-q"], deadline_seconds)
        return plain if plain.gpus else reading
    return reading


def _read_nvml(deadline_seconds: float) -> GpuReading:
    done = command.call(_collect, "NVML", deadline_seconds)
    if done.outcome != "ended":
        kind = "garbled" if done.outcome == "truncated" else "timeout"
        return GpuReading("nvml", error_kind=kind, error=done.problem() + _last_words(done))
    try:
        raw = json.loads(done.stdout)
    except (ValueError, RecursionError):
        status = "was killed by signal %d" % -done.rc if done.rc and done.rc < 0 else "ended with status %s" % done.rc
        return GpuReading("nvml", error_kind="garbled", error="the NVML reader %s without an answer%s" % (status, _last_words(done)))
    return nvml.parse(raw)


def _collect() -> bytes:
    # In a child of ours, whose last word on stderr tells which GPU a hung driver was asked about.
    return json.dumps(nvml_probe.collect(_say)).encode()


def _say(text: str) -> None:
    os.write(2, text.encode("utf-8", "replace") + b"\n")


def _last_words(done: command.Completed) -> str:
    lines = done.stderr[-_LAST_WORDS_BYTES:].decode("utf-8", "replace").strip().splitlines()
    return "; its last words: " + lines[-1].strip() if lines else ""


def _read_nvidia_smi(arguments: t.Sequence[str], deadline_seconds: float) -> GpuReading:
    # Ansible compiles whatever a module imports anew on every node: this reader is only needed where NVML is not.
    from .._parse import nvidia_smi

    done = command.run(["nvidia-smi", *arguments], deadline_seconds, max_bytes=_MAX_SMI_BYTES)
    if done.outcome in ("missing", "denied"):
        return GpuReading("nvidia-smi", error_kind="missing_tool", error=done.problem())
    most = _MAD_SMI_BYTES if done.outcome == "truncated" else _MAX_SMI_BYTES
    reading = nvidia_smi.parse((done.stdout[:most] + b"\n" + done.stderr[:most]).decode("utf-8", "replace"), done.rc)
    if done.outcome != "ended":
        kind = "garbled" if done.outcome == "truncated" else "timeout"
        return dataclasses.replace(reading, complete=False, error_kind=kind, error=done.problem())
    return reading


def _with_bus(reading: GpuReading) -> GpuReading:
    """Hold the driver's list against the PCI bus: a lost GPU no longer tells its address, or is left out altogether."""
    on_bus = pci.nvidia_gpus()
    if on_bus is None or not reading.gpus or not reading.complete:
        return reading
    known = {gpu.pci for gpu in reading.gpus} | set(reading.lost)
    missing = [address for address in on_bus if address not in known]
    nameless = [gpu for gpu in reading.gpus if gpu.pci is None]
    if len(nameless) != len(missing):
        return dataclasses.replace(reading, lost=reading.lost + tuple(missing))
    # NVML numbers GPUs in the order of their addresses, so the nameless ones and the missing addresses go together.
    gpus = tuple(dataclasses.replace(gpu, pci=missing.pop(0)) if gpu.pci is None else gpu for gpu in reading.gpus)
    return dataclasses.replace(reading, gpus=gpus)


def _recognised(reading: GpuReading, seen: t.Mapping[str, t.Any]) -> GpuReading:
    """Give a GPU that no longer says who it is the identity that the last run saw at its address."""
    here = {gpu.uuid for gpu in reading.gpus}

    def recognised(gpu: Gpu) -> Gpu:
        names = seen.get(gpu.pci or "") if gpu.state == "lost" and gpu.uuid is None else None
        # A card that answers from another place is not the lost one: the addresses have moved since.
        if not isinstance(names, dict) or names.get("uuid") in here:
            return gpu
        fresh: t.Dict[str, t.Any] = {key: names.get(key) for key in _IDENTITY if getattr(gpu, key) is None}
        return dataclasses.replace(gpu, **fresh)

    return dataclasses.replace(reading, gpus=tuple(map(recognised, reading.gpus)))


def _with_last_seen(finding: Finding, reading: GpuReading, seen: t.Mapping[str, t.Any]) -> Finding:
    """Which GPU is missing: the one that an earlier run saw and that is no longer there."""
    if finding.code != "gpu.count" or finding.severity != "critical" or finding.evidence:
        return finding
    here = {gpu.uuid for gpu in reading.gpus} | {gpu.pci for gpu in reading.gpus}
    gone = [
        Subject("gpu", "", names.get("index"), address, names.get("uuid"), names.get("serial")).label()
        for address, names in sorted(seen.items())
        if address not in here and names.get("uuid") not in here
    ]
    if not gone:
        return finding
    message = finding.message.replace("; which ones is not known", "") + "; an earlier run still saw " + ", ".join(gone)
    return dataclasses.replace(finding, message=message, evidence=tuple(gone))


def _identities(reading: GpuReading) -> t.Dict[str, t.Dict[str, t.Any]]:
    return {gpu.pci: {key: getattr(gpu, key) for key in _IDENTITY} for gpu in reading.gpus if gpu.pci and gpu.uuid}


def _table(remembered: t.Mapping[str, t.Any], *path: str) -> t.Dict[str, t.Any]:
    """A table of the stored state; empty where the file holds something else."""
    value: t.Any = remembered
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return dict(value) if isinstance(value, dict) else {}


def facts(reading: GpuReading) -> t.Dict[str, t.Any]:
    """The reading as JSON: values that the GPU does not have are left out."""
    return {
        "source": reading.source,
        "driver_version": reading.driver_version,
        "cuda_version": reading.cuda_version,
        "nvml_version": reading.nvml_version,
        "complete": reading.complete,
        "error": reading.error,
        "lost": list(reading.lost),
        "simulated": reading.simulated,
        "gpus": [_plain(gpu) for gpu in reading.gpus],
    }


def _plain(record: t.Any) -> t.Dict[str, t.Any]:
    return {key: _value(value) for key, value in vars(record).items() if value is not None}


def _value(value: t.Any) -> t.Any:
    if dataclasses.is_dataclass(value):
        return _plain(value)
    if isinstance(value, (tuple, frozenset)):
        items = sorted(value) if isinstance(value, frozenset) else value
        return [_value(item) for item in items]
    if isinstance(value, t.Mapping):
        return {str(key): _value(item) for key, item in value.items()}
    return value
