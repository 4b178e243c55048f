# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""C(parse --kind nvidia_smi): what a text of nvidia-smi says as JSON. Private to kentino.gpu."""

from __future__ import annotations

import typing as t

from .._judge import gpu as judge
from .._parse import nvidia_smi, nvidia_smi_errors
from .._parse.gpu_records import EVENT_REASONS, EccCounters, Gpu, GpuReading, RetiredPages, RowRemap
from .._report.model import NODE, Finding, urgent, worst

# Exit statuses that name a fault, whatever the text says: severity and action.
_FAULT_STATUS: t.Mapping[int, t.Tuple[str, str]] = {
    8: ("critical", "check_power"),
    14: ("warning", "contact_vendor"),
    15: ("critical", "reseat"),
    16: ("critical", "reset_gpu"),
}


def answer(text: str, rc: t.Optional[int]) -> t.Dict[str, t.Any]:
    """The reading, a verdict and what to do.

    C(pass) takes a text that is whole, or an excerpt that does not break off, whose GPUs are all named, measured and well.
    An excerpt in which something is wrong is as bad as that, even where it does not say which GPU it is.
    """
    reading = nvidia_smi.parse(text, rc)
    findings = list(judge.judge(reading, {}, {}))
    if _is_excerpt(reading):
        # That an excerpt is not the whole output is how it is meant to be.
        findings = [finding for finding in findings if finding.code != "gpu.incomplete"]
    findings += _status_findings(reading, rc)
    found = worst(finding.verdict for finding in findings)
    if found in ("skip", "pass") or not _is_excerpt(reading):
        found = worst((found, _proven(reading)))
    return {
        "verdict": worst((found, _doubtful(reading))),
        "action": urgent(findings),
        "exit_code": rc,
        "lost": list(reading.lost),
        "gpus": [_gpu(gpu) for gpu in reading.gpus],
        "findings": [finding.as_dict() for finding in findings],
        "source": reading.source,
        "driver_version": reading.driver_version,
        "cuda_version": reading.cuda_version,
        "attached": reading.attached,
        "complete": reading.complete,
        "error_kind": reading.error_kind,
        "error": reading.error,
        "unrecognised": list(reading.unrecognised),
        "simulated": reading.simulated,
    }


def _is_excerpt(reading: GpuReading) -> bool:
    """Some GPUs out of an output, without the head that says how many there are."""
    return not reading.complete and reading.error_kind is None and reading.attached is None and bool(reading.gpus)


def _proven(reading: GpuReading) -> str:
    if not (reading.complete or _is_excerpt(reading)) or not reading.gpus:
        return "unknown"
    return "pass" if all(gpu.state == "ok" for gpu in reading.gpus) else "unknown"


def _doubtful(reading: GpuReading) -> str:
    """Uncorrectable errors whose heading is missing may be of this boot: nothing in the text rules that out."""
    sections = [gpu.ecc_section_unknown for gpu in reading.gpus if gpu.ecc_section_unknown]
    counts = [count for section in sections for count in (section.sram_uncorrectable, section.dram_uncorrectable, section.uncorrectable)]
    return "fail" if any(counts) else "skip"


def _status_findings(reading: GpuReading, rc: t.Optional[int]) -> t.Iterator[Finding]:
    if rc is not None and rc in _FAULT_STATUS and not reading.lost:
        severity, action = _FAULT_STATUS[rc]
        yield Finding("tool.exit_status", severity, NODE, nvidia_smi_errors.by_exit_status(rc)[1] or "", action)


def _gpu(gpu: Gpu) -> t.Dict[str, t.Any]:
    return {
        "index": gpu.index,
        "pci": gpu.pci,
        "uuid": gpu.uuid,
        "serial": gpu.serial,
        "name": gpu.name,
        "state": gpu.state,
        "fan": "error" if "fan_pct" in gpu.errors and gpu.fan_pct is None else gpu.fan_pct,
        "temp_c": gpu.temperature_c,
        "util_pct": gpu.utilisation_pct,
        "mem_used_mib": gpu.memory_used_mib,
        "mem_total_mib": gpu.memory_total_mib,
        "power_w": gpu.power_watts,
        "performance_state": gpu.performance_state,
        "recovery_action": gpu.recovery_action,
        "reset_required": gpu.reset_required,
        "pcie_gen": gpu.pcie_gen,
        "pcie_width": gpu.pcie_width,
        "pcie_replays": gpu.pcie_replays,
        "ecc": {
            "supported": _ecc_supported(gpu),
            "enabled": gpu.ecc_mode,
            "layout": gpu.ecc_layout,
            "volatile": _counters(gpu.ecc_volatile),
            "aggregate": _counters(gpu.ecc_aggregate),
            "unknown": _counters(gpu.ecc_section_unknown),
        },
        "retired": _parts(gpu.retired),
        "remapped": _parts(gpu.remapped),
        "throttle": {name: gpu.event_reasons.get(name) for name in EVENT_REASONS.values()},
        "unsupported": sorted(gpu.unsupported),
        "errors": dict(gpu.errors),
    }


def _ecc_supported(gpu: Gpu) -> t.Optional[bool]:
    """True where it can be switched or counts, False where the GPU says it has none, None where nothing is said."""
    if gpu.ecc_mode is not None or gpu.ecc_volatile or gpu.ecc_aggregate or gpu.ecc_section_unknown:
        return True
    return False if {"ecc_mode", "ecc_volatile", "ecc_aggregate", "ecc_section_unknown"} & gpu.unsupported else None


def _counters(counters: t.Optional[EccCounters]) -> t.Dict[str, t.Optional[int]]:
    """Sums only where the source gave them."""
    values = dict(vars(counters or EccCounters()))
    return {name: value for name, value in values.items() if value is not None or name.startswith(("sram_", "dram_"))}


def _parts(record: t.Union[RetiredPages, RowRemap, None]) -> t.Optional[t.Dict[str, t.Any]]:
    return None if record is None else {name: dict(value) if name == "histogram" else value for name, value in vars(record).items()}
