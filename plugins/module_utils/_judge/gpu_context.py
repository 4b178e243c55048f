# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every rule about a GPU knows beside the GPU itself. Private to kentino.gpu."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, is_dataclass

from .._knowledge.platforms import Platform, platform
from .._parse.gpu_records import Gpu, GpuReading
from .._report.model import Finding, Subject

# Sources that tell everything a GPU has. Text may have passed through hands and be an excerpt; tables and CSV are one by nature.
_MACHINE = ("nvml", "nvidia-smi xml")
_FULL = (*_MACHINE, "nvidia-smi text")


class Growth(t.NamedTuple):
    delta: int
    seconds: t.Optional[float]  # None where the time between the readings is not known

    def per_second(self) -> t.Optional[float]:
        # Readings that nearly coincide make a rate out of a single event.
        return None if self.seconds is None else self.delta / max(self.seconds, 1.0)

    def words(self) -> str:
        if self.seconds is None:
            return "%d more since the earlier reading" % self.delta
        return "%d more in %.0f s" % (self.delta, self.seconds)


@dataclass(frozen=True)
class Context:
    reading: GpuReading
    expected: t.Mapping[str, t.Any]  # as check_expected returns it
    limits: t.Mapping[str, t.Union[int, float]]
    own_pids: t.FrozenSet[int] = frozenset()
    earlier: t.Mapping[str, t.Any] = field(default_factory=dict)
    now_usec: t.Optional[int] = None

    @property
    def whole(self) -> bool:
        """Whether a value that is not here is really missing, and not just in a part that was not given."""
        return self.reading.complete and self.reading.error_kind is None

    @property
    def full(self) -> bool:
        return self.whole and self.reading.source in _FULL

    def detailed(self, gpu: Gpu) -> bool:
        """Whether this reading of this GPU holds the PCI section and all that stands beside it."""
        return self.full and (self.reading.source in _MACHINE or gpu.device_id is not None)

    def platform(self, gpu: Gpu) -> t.Optional[Platform]:
        return platform(gpu.device_id)

    def siblings(self, gpu: Gpu) -> t.Tuple[Gpu, ...]:
        """The other GPUs of the same model that answer."""
        model = gpu.device_id or gpu.name
        if not model:
            return ()
        return tuple(other for other in self.answering() if other is not gpu and (other.device_id or other.name) == model)

    def answering(self) -> t.Tuple[Gpu, ...]:
        return tuple(gpu for gpu in self.reading.gpus if not self.is_lost(gpu))

    def is_lost(self, gpu: Gpu) -> bool:
        return gpu.state == "lost" or (gpu.pci is not None and gpu.pci in self.reading.lost)

    def growth(self, gpu: Gpu, *path: str, now: t.Optional[int] = None) -> t.Optional[Growth]:
        """How far a counter rose since the earlier reading; None where either does not tell.

        A counter that fell was set to zero in between (driver reload, GPU reset): all it holds is new.
        """
        now = value_at(gpu, path) if now is None else now
        record = next((self.earlier[key] for key in (gpu.uuid, gpu.serial, gpu.pci) if key and key in self.earlier), None)
        before = value_at(record, path)
        if now is None or before is None:
            return None
        then = value_at(record, ("usec",))
        elapsed = None if then is None or self.now_usec is None else (self.now_usec - then) / 1e6
        return Growth(now - before if now >= before else now, elapsed if elapsed and elapsed > 0 else None)


def value_at(record: t.Any, path: t.Sequence[str]) -> t.Optional[int]:
    """A whole number in records or mappings within each other."""
    for name in path:
        record = record.get(name) if isinstance(record, t.Mapping) else getattr(record, name, None)
    return record if isinstance(record, int) and not isinstance(record, bool) else None


def subject(gpu: Gpu) -> Subject:
    return Subject("gpu", gpu.name or "", gpu.index, gpu.pci, gpu.uuid, gpu.serial)


def found(
    gpu: Gpu,
    code: str,
    severity: str,
    message: str,
    action: str = "none",
    advice: str = "",
    evidence: t.Iterable[str] = (),
    undetermined: bool = False,
) -> Finding:
    return Finding(code, severity, subject(gpu), message, action, tuple(evidence), advice, undetermined)


def has_value(gpu: Gpu, name: str) -> bool:
    value = getattr(gpu, name)
    if is_dataclass(value):
        return any(part is not None and part != {} for part in vars(value).values())
    return value is not None and not (name in ("event_reasons", "nvlinks") and not value)


def is_unsupported(gpu: Gpu, name: str) -> bool:
    """Whether the GPU says that it does not have this field or any part of it."""
    return not has_value(gpu, name) and any(_belongs(item, name) for item in gpu.unsupported)


def is_absent(gpu: Gpu, name: str) -> bool:
    """Whether the source says nothing of this field: no value, no "not supported", no error."""
    return not has_value(gpu, name) and not any(_belongs(item, name) for item in (*gpu.unsupported, *gpu.errors))


def _belongs(item: str, name: str) -> bool:
    return item == name or item.startswith(name + ".")
