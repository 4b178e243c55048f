# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judge the GPUs of a node by what they say of themselves. Private to kentino.gpu."""

from __future__ import annotations

import dataclasses
import math
import typing as t

from .._knowledge import thresholds
from .._parse.gpu_records import Gpu, GpuReading
from .._report.model import ACTIONS, VERDICTS, Finding
from . import gpu_identity, gpu_link, gpu_memory, gpu_presence, gpu_state, gpu_thermal, gpu_use
from .gpu_context import Context, has_value
from .gpu_expected import KEYS, check_expected

__all__ = ["KEYS", "check_expected", "counters", "judge", "metrics"]

_NODE_RULES: t.Tuple[t.Callable[[Context], t.Iterable[Finding]], ...] = (
    gpu_presence.judge_reading,
    gpu_presence.judge_presence,
    gpu_identity.judge_driver,
    gpu_identity.judge_siblings,
)

_GPU_RULES: t.Tuple[t.Callable[[Gpu, Context], t.Iterable[Finding]], ...] = (
    gpu_state.judge_state,
    gpu_state.judge_errors,
    gpu_state.judge_missing,
    gpu_identity.judge_identity,
    gpu_memory.judge_uncorrectable,
    gpu_memory.judge_correctable,
    gpu_memory.judge_row_remap,
    gpu_memory.judge_retired_pages,
    gpu_memory.judge_repair,
    gpu_memory.judge_ecc_mode,
    gpu_thermal.judge_temperature,
    gpu_thermal.judge_memory_temperature,
    gpu_thermal.judge_slowdown,
    gpu_thermal.judge_power_limit,
    gpu_link.judge_pcie_width,
    gpu_link.judge_pcie_gen,
    gpu_link.judge_pcie_replays,
    gpu_link.judge_nvlinks,
    gpu_link.judge_nvlink_errors,
    gpu_link.judge_fabric,
    gpu_use.judge_mig,
    gpu_use.judge_persistence,
    gpu_use.judge_compute_mode,
    gpu_use.judge_processes,
    gpu_use.judge_held_memory,
)

_METRICS = (
    "temperature_c",
    "temperature_margin_c",
    "memory_temperature_c",
    "power_watts",
    "power_limit_watts",
    "utilisation_pct",
    "memory_utilisation_pct",
    "memory_total_mib",
    "memory_used_mib",
    "fan_pct",
    "clock_sm_mhz",
    "clock_memory_mhz",
    "pcie_gen",
    "pcie_width",
    "pcie_replays",
)


def judge(
    reading: GpuReading,
    expected: t.Mapping[str, t.Any],
    limits: t.Mapping[str, t.Any],
    own_pids: t.Collection[int] = (),
    earlier: t.Optional[t.Mapping[str, t.Any]] = None,
    now_usec: t.Optional[int] = None,
) -> t.Tuple[Finding, ...]:
    """Everything found, the node's own findings first, then GPU by GPU, each worst first.

    C(expected) is the inventory's C(gpu_expected), C(limits) overrides of thresholds by key; a wrong one raises C(ValueError).
    C(own_pids) are processes of ours that may use the GPUs. C(earlier) is what C(counters) returned at an earlier time; with
    C(now_usec), the time of this reading, growth becomes a rate. Without C(earlier) nothing is said of growth.
    """
    context = Context(
        reading,
        check_expected(expected),
        thresholds.limits(limits),
        frozenset(own_pids),
        earlier if isinstance(earlier, t.Mapping) else {},
        now_usec,
    )
    findings = [finding for rule in _NODE_RULES for finding in rule(context)]
    places = {_identity(gpu): place for place, gpu in enumerate(reading.gpus)}
    # A lost GPU has nothing else to say: whatever it answers is noise of the loss.
    findings += [finding for gpu in context.answering() for rule in _GPU_RULES for finding in rule(gpu, context)]
    return tuple(sorted(map(_on_one_line, findings), key=lambda finding: _rank(finding, places)))


def _on_one_line(finding: Finding) -> Finding:
    """Tools' words go into messages as they are, and a broken tool prints anything."""
    if finding.message.isprintable():
        return finding
    plain = "".join(character if character.isprintable() else " " for character in finding.message)
    return dataclasses.replace(finding, message=" ".join(plain.split()))


def _identity(about: t.Any) -> t.Tuple[t.Any, ...]:
    return (about.index, about.pci, about.uuid, about.serial)


def _rank(finding: Finding, places: t.Mapping[t.Tuple[t.Any, ...], int]) -> t.Tuple[int, int, int]:
    place = -1 if finding.subject.kind != "gpu" else places.get(_identity(finding.subject), len(places))
    return (place, -VERDICTS.index(finding.verdict), -ACTIONS.index(finding.action))


def metrics(reading: GpuReading) -> t.Dict[str, t.Dict[str, t.Any]]:
    """Numbers for reports and trends, by GPU: its index, else its address; a value that is not told is left out."""
    return {_name(gpu, number): _numbers(gpu) for number, gpu in enumerate(reading.gpus)}


def _name(gpu: Gpu, number: int) -> str:
    return str(gpu.index) if gpu.index is not None else gpu.pci or "gpu %d" % number


def _numbers(gpu: Gpu) -> t.Dict[str, t.Any]:
    values: t.Dict[str, t.Any] = {key: getattr(gpu, key) for key in ("pci", "uuid", "serial", *_METRICS)}
    for name in ("ecc_volatile", "ecc_aggregate"):
        values.update({"%s_%s" % (name, key): value for key, value in _plain(getattr(gpu, name)).items()})
    if gpu.remapped is not None:
        values["remapped_correctable"] = gpu.remapped.correctable
        values["remapped_uncorrectable"] = gpu.remapped.uncorrectable
    if gpu.nvlinks:
        values["nvlinks_active"] = sum(1 for link in gpu.nvlinks if link.active)
    # JSON has no word for infinity.
    return {key: value for key, value in values.items() if value is not None and (not isinstance(value, float) or math.isfinite(value))}


def counters(reading: GpuReading, now_usec: int) -> t.Dict[str, t.Dict[str, t.Any]]:
    """The counters of each answering GPU by UUID (else serial, else address), as JSON: what a later C(judge) takes as C(earlier)."""
    kept = {}
    for gpu in reading.gpus:
        key = gpu.uuid or gpu.serial or gpu.pci
        if key and gpu.state != "lost":
            kept[key] = {**_counted(gpu), "usec": now_usec}
    return kept


def _counted(gpu: Gpu) -> t.Dict[str, t.Any]:
    values: t.Dict[str, t.Any] = {} if gpu.pcie_replays is None else {"pcie_replays": gpu.pcie_replays}
    values.update({name: _plain(getattr(gpu, name)) for name in ("ecc_volatile", "ecc_aggregate") if has_value(gpu, name)})
    if gpu.nvlinks:
        names = ("crc_errors", "replay_errors", "recovery_errors")
        values["nvlinks"] = {str(link.link): _plain(link, names) for link in gpu.nvlinks}
    return values


def _plain(record: t.Any, names: t.Optional[t.Sequence[str]] = None) -> t.Dict[str, t.Any]:
    if record is None:
        return {}
    return {name: value for name, value in vars(record).items() if value is not None and (names is None or name in names)}
