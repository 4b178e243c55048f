# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Samples of a node under load, GPU by GPU, each weighed by the time it stands for. Private to kentino.gpu."""

from __future__ import annotations

import statistics
import typing as t
from dataclasses import dataclass

from .._parse.gpu_records import EVENT_REASONS, Gpu, GpuReading


@dataclass(frozen=True)
class Sample:
    seconds: float  # since the load began
    reading: GpuReading


_Seen = t.Tuple[float, float, Gpu]  # when, for how long, what


@dataclass(frozen=True)
class Track:
    """One GPU over time; C(loaded) are the samples of C(seen) in which it was under load."""

    index: int
    seen: t.Tuple[_Seen, ...]
    loaded: t.Tuple[_Seen, ...]

    @property
    def newest(self) -> Gpu:
        return self.seen[-1][2]

    @property
    def known(self) -> Gpu:
        """As it last said who it is: a lost GPU no longer does."""
        return next((gpu for _time, _weight, gpu in reversed(self.seen) if gpu.uuid or gpu.serial), self.newest)

    @property
    def model(self) -> t.Optional[str]:
        return self.known.device_id or self.known.name

    def share_pct(self, reason: str) -> float:
        """For how much of the loaded time C(reason) cut the clocks."""
        whole = sum(weight for _time, weight, gpu in self.loaded if gpu.event_reasons)
        return sum(weight for _time, weight, gpu in self.loaded if gpu.event_reasons.get(reason)) / whole * 100 if whole else 0.0

    def seconds_above(self, limit: float) -> float:
        return sum(weight for _time, weight, gpu in self.loaded if gpu.temperature_c is not None and gpu.temperature_c > limit)

    def values(self, name: str) -> t.List[t.Any]:
        return [getattr(gpu, name) for _time, _weight, gpu in self.loaded if getattr(gpu, name) is not None]

    def median(self, name: str) -> t.Optional[float]:
        values = self.values(name)
        return float(statistics.median(values)) if values else None

    def numbers(self) -> t.Dict[str, t.Any]:
        reasons = {name: round(self.share_pct(name), 1) for name in EVENT_REASONS.values() if name != "idle"}
        numbers = {
            "samples_loaded": len(self.loaded),
            "temperature_max_c": max(self.values("temperature_c"), default=None),
            "memory_temperature_max_c": max(self.values("memory_temperature_c"), default=None),
            "power_max_watts": max(self.values("power_watts"), default=None),
            "power_median_watts": self.median("power_watts"),
            "clock_sm_median_mhz": self.median("clock_sm_mhz"),
            "pcie_gen": max(self.values("pcie_gen"), default=None),
            "pcie_width": min(self.values("pcie_width"), default=None),
            "throttle_share_pct": {name: share for name, share in reasons.items() if share} or None,
        }
        return {name: value for name, value in numbers.items() if value is not None}


def tracks(
    samples: t.Sequence[Sample],
    limits: t.Mapping[str, t.Any],
    gpus: t.Optional[t.Collection[int]] = None,
    end_seconds: t.Optional[float] = None,
) -> t.List[Track]:
    """The GPUs in order of their index; a sample stands for the time until the next one, the last one until the end of the load."""
    readable = [sample for sample in samples if sample.reading.gpus]
    times = [sample.seconds for sample in readable]
    ends = [*times[1:], max([*times[-1:], end_seconds or 0.0], default=0.0)]
    seen: t.Dict[int, t.List[_Seen]] = {}
    for sample, end in zip(readable, ends):
        for gpu in sample.reading.gpus:
            if gpu.index is not None and (gpus is None or gpu.index in gpus):
                # A burst of samples must not weigh nothing.
                weight = max(end - sample.seconds, 0.01)
                seen.setdefault(gpu.index, []).append((sample.seconds, weight, gpu))
    return [Track(index, tuple(seen[index]), tuple(one for one in seen[index] if _is_loaded(one[2], limits))) for index in sorted(seen)]


def _is_loaded(gpu: Gpu, limits: t.Mapping[str, t.Any]) -> bool:
    if gpu.state == "lost":
        return False
    if gpu.utilisation_pct is None:
        # Slices of a GPU, and some virtual ones, do not tell.
        return not gpu.event_reasons.get("idle")
    return gpu.utilisation_pct >= limits["load_utilisation_pct"]


def uncorrectable(gpu: Gpu) -> t.Optional[int]:
    """Uncorrectable errors since the driver was loaded; None where they are not counted."""
    counters = gpu.ecc_volatile
    if counters is None:
        return None
    parts = [counters.sram_uncorrectable, counters.dram_uncorrectable]
    known = [part for part in parts if part is not None]
    if counters.uncorrectable is None and not known:
        return None
    return max(sum(known), counters.uncorrectable or 0)
