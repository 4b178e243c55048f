# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the driver says of a GPU's state, which values it answers with an error, which are not there. Private to kentino.gpu."""

from __future__ import annotations

import re
import typing as t

from .._parse.gpu_records import Gpu
from .._report.model import Finding
from .gpu_context import Context, found, has_value, is_absent, is_unsupported
from .gpu_expected import fold

_DRAIN = "let running work end or stop it, then reset; on NVSwitch boards reset all GPUs together"
# The driver's words (nvidia-smi -q, Xid 154): code, action, next step.
_RECOVERY: t.Mapping[str, t.Tuple[str, str, str]] = {
    "reset": ("gpu.reset_required", "reset_gpu", "reset it when nothing runs on it: nvidia-smi --gpu-reset -i INDEX"),
    "drain p2p": ("gpu.reset_required", "reset_gpu", "stop work that uses peer-to-peer on this GPU; " + _DRAIN),
    "drain and reset": ("gpu.reset_required", "reset_gpu", _DRAIN),
    "bus reset": ("gpu.reset_required", "reset_gpu", _DRAIN),
    "reboot": ("gpu.reboot_required", "reboot_node", "a reset does not help; drain the node and reboot it"),
    "system reboot": ("gpu.reboot_required", "reboot_node", "a reset does not help; drain the node and reboot it"),
    # Driver 595 and newer.
    "recover imex domain": ("gpu.recovery_action", "reboot_node", "restart IMEX on all nodes of the domain; if that fails, reboot"),
}
_UNKNOWN_WORD = ("gpu.recovery_action", "contact_vendor", "this word of the driver is not known here: ask NVIDIA what it wants")
_NOTHING_TO_DO = ("", "none", "n/a", "[n/a]", "not supported", "[not supported]")

# R565 brought the recovery action and Xid 154.
_RECOVERY_SINCE_DRIVER = 565

# NVML's texts in the place of a value, by what they say of the GPU. "Requires restart" is the Python bindings' wording.
_ERROR_TEXTS: t.Tuple[t.Tuple[str, str], ...] = (
    ("is lost", "lost"),
    ("fallen off", "lost"),
    ("requires re", "reset"),
    ("needs re", "reset"),
    ("reset required", "reset"),
    ("external power", "power"),
    ("insufficient power", "power"),
    ("inforom", "inforom"),
    ("unknown error", "fault"),
    ("err!", "fault"),
    ("not ready", "fault"),
    ("not in ready", "fault"),
    ("permission", "denied"),
)
# Kind, action, what it means, next step.
_FAULTS: t.Tuple[t.Tuple[str, str, str, str], ...] = (
    ("lost", "reseat", "the GPU is lost", "power the node off, reseat the card and its power plug"),
    ("power", "check_power", "the GPU lacks external power", "look for a loose or missing power plug at the card"),
    ("inforom", "contact_vendor", "the GPU's InfoROM is corrupt", "a firmware update by the vendor may mend it"),
    ("reset", "reset_gpu", "the GPU requires a reset", ""),
    ("fault", "reset_gpu", "the GPU answers with errors", "if the errors come back after a reset, reboot, then call the vendor"),
)

# Without these the GPU's health cannot be told.
_IMPORTANT = (
    "uuid",
    "pci",
    "temperature_c",
    "memory_total_mib",
    "memory_used_mib",
    "pcie_width",
    "event_reasons",
    "recovery_action",
    "reset_required",
    "ecc_mode",
    "ecc_volatile",
    "ecc_aggregate",
    "remapped",
    "retired",
    "fabric_state",
)
_MEASURED = (
    "temperature_c",
    "temperature_margin_c",
    "power_watts",
    "memory_used_mib",
    "utilisation_pct",
    "recovery_action",
    "reset_required",
    "ecc_volatile",
    "ecc_aggregate",
    "ecc_section_unknown",
    "remapped",
    "retired",
    "event_reasons",
    "pcie_width",
    "pcie_replays",
)

_EXPECTED_FIELDS = {
    "device_id": "device_id",
    "name": "name",
    "memory_total_mib": "memory_total_mib",
    "pcie_width": "pcie_width",
    "pcie_gen": "pcie_gen_max",
    "nvlinks": "nvlinks",
    "vbios": "vbios",
    "ecc": "ecc_mode",
    "mig": "mig_mode",
    "persistence": "persistence_mode",
    "compute_mode": "compute_mode",
    "power_limit_watts": "power_limit_watts",
}
# What a GPU that does not support it is: fine where it is not wanted, judged by its own rule where it is.
_JUDGED_WHERE_UNSUPPORTED = ("ecc", "mig", "persistence", "nvlinks")

# hw_slowdown covers the other two; without it both must be there.
_HW_REASONS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake")


def judge_state(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    """Resets and reboots that are asked for. Sometimes the only sign: all counters read 0 again after an Xid 95 that nobody saw."""
    word = fold(gpu.recovery_action or "")
    plain = re.sub(r"^(?:gpu|node) | required$", "", word)
    plain = {"imex domain recovery": "recover imex domain", "drain reset": "drain and reset"}.get(plain, plain)
    flags = [
        text
        for is_set, text in (
            (gpu.state == "requires_reset", "state: requires reset"),
            (gpu.reset_required, "Reset Required: Yes"),
            (gpu.drain_reset_recommended, "Drain and Reset Recommended: Yes"),
        )
        if is_set
    ]
    evidence = (*flags, *(["Recovery Action: %s" % gpu.recovery_action] if gpu.recovery_action else []))
    if _is_nothing(gpu.recovery_action):
        if flags:
            code, action, advice = _RECOVERY["drain and reset" if flags[0].startswith("Drain") else "reset"]
            yield found(gpu, code, "critical", "the driver asks for a reset (%s)" % ", ".join(flags), action, advice, evidence)
        return
    code, action, advice = _RECOVERY.get(plain, _UNKNOWN_WORD)
    yield found(gpu, code, "critical", "recovery action '%s', 'None' allowed" % gpu.recovery_action, action, advice, evidence)


def _is_nothing(word: t.Optional[str]) -> bool:
    return fold(word or "") in _NOTHING_TO_DO


def judge_errors(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    """Values that answered with an error. nvidia-smi exits 0 with ERR! in its table: the value counts, not the status."""
    kinds: t.Dict[str, t.List[str]] = {}
    for name, text in sorted(gpu.errors.items()):
        kinds.setdefault(_error_kind(name, text), []).append("%s: %s" % (name, text))
    # The state says it already.
    if gpu.state == "requires_reset" or gpu.reset_required:
        kinds.pop("reset", None)
    for kind, action, meaning, advice in _FAULTS:
        if kind in kinds:
            message = "%s: %s" % (meaning, ", ".join(kinds[kind][:3]))
            yield found(gpu, "gpu.value_error", "critical", message, action, advice, kinds[kind])
    if gpu.state == "error" and not any(kind in kinds for kind, *dummy in _FAULTS) and _is_nothing(gpu.recovery_action):
        message = "the GPU is reported as faulty (state error)"
        evidence = [line for lines in kinds.values() for line in lines]
        yield found(gpu, "gpu.value_error", "critical", message, "reset_gpu", evidence=evidence)
    if "denied" in kinds:
        message = "not allowed to read %s" % ", ".join(kinds["denied"][:3])
        yield found(gpu, "gpu.value_error", "warning", message, advice="run it as root", evidence=kinds["denied"], undetermined=True)
    if "unreadable" in kinds:
        message = "cannot be read: %s" % ", ".join(kinds["unreadable"][:3])
        yield found(gpu, "gpu.value_error", "warning", message, evidence=kinds["unreadable"], undetermined=True)
    if "minor" in kinds:
        message = "cannot be read and does not matter: %s" % ", ".join(kinds["minor"][:3])
        yield found(gpu, "gpu.value_error", "info", message, evidence=kinds["minor"])


def _error_kind(name: str, text: str) -> str:
    words = text.lower()
    kind = next((kind for part, kind in _ERROR_TEXTS if part in words), "unreadable")
    if kind in ("denied", "unreadable") and name.split(".")[0] not in _IMPORTANT:
        return "minor"
    return kind


def judge_missing(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    """Values that should be here and are not. Absent is not healthy."""
    missing = [name for name in _needed(gpu, context) if is_absent(gpu, name)]
    missing += _missing_reasons(gpu)
    unanswered = [name for name in _expected_untold(gpu, context) if name not in missing]
    if context.whole and not any(has_value(gpu, name) for name in _MEASURED) and not gpu.errors and gpu.state in (None, "ok"):
        missing.append("any measured value")
    if missing or unanswered:
        parts = ["not told: %s" % ", ".join(missing)] if missing else []
        parts += ["expected but not told: %s" % ", ".join(unanswered)] if unanswered else []
        advice = "read it with NVML (nvidia-ml-py of the driver's branch or newer) or nvidia-smi -q -x as root"
        yield found(gpu, "gpu.value_missing", "warning", "; ".join(parts), advice=advice, undetermined=True)


def _needed(gpu: Gpu, context: Context) -> t.Iterator[str]:
    if not context.full:
        return
    yield from ("uuid", "pci", "temperature_c", "memory_total_mib", "memory_used_mib")
    if context.detailed(gpu):
        yield from ("pcie_width", "event_reasons")
    known = context.platform(gpu)
    if known is None or known.grade != "datacentre":
        return
    if _driver_branch(context) >= _RECOVERY_SINCE_DRIVER:
        yield "recovery_action"
    # Counters stand still where ECC is off, and a sliced GPU does not tell of remapped rows.
    if known.ecc == "standard":
        yield "ecc_mode"
        if gpu.ecc_mode is not False and not is_unsupported(gpu, "ecc_mode"):
            yield "ecc_volatile"
            if known.row_remap and not gpu.mig_mode:
                yield "remapped"


def _driver_branch(context: Context) -> int:
    match = re.match(r"\d{1,6}", context.reading.driver_version or "")
    return int(match.group()) if match else 0


def _missing_reasons(gpu: Gpu) -> t.List[str]:
    """Renamed keys leave the harmless reasons in the mapping and the decisive ones out of it.

    Seen in nvidia-smi -q (version not known): the hardware keys with a word in front, C(SW Power Cap) unchanged.
    """
    if not gpu.event_reasons or "hw_slowdown" in gpu.event_reasons:
        return []
    excused = {item.rsplit(".", 1)[-1] for item in (*gpu.unsupported, *gpu.errors)}
    return [name for name in _HW_REASONS if name not in gpu.event_reasons and name not in excused]


def _expected_untold(gpu: Gpu, context: Context) -> t.Iterator[str]:
    if not context.whole:
        return
    for key, name in _EXPECTED_FIELDS.items():
        if context.expected.get(key) is None or has_value(gpu, name):
            continue
        if is_absent(gpu, name) or (is_unsupported(gpu, name) and key not in _JUDGED_WHERE_UNSUPPORTED):
            yield name
    lists = [attribute for key, attribute in (("uuids", "uuid"), ("serials", "serial")) if context.expected.get(key)]
    if lists and not any(getattr(gpu, attribute) for attribute in lists):
        yield " or ".join(lists)
    if context.expected.get("idle") and gpu.processes is None:
        yield "processes"
