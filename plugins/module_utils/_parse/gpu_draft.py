# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Collects what a source says of one GPU, in any order, and makes the record of it. Private to kentino.gpu.

Names are those of Gpu's fields. A part of a field is named with a dot (C(remapped.pending), C(event_reasons.idle)), a second
source of the same field with a slash (C(power_watts/1)): the first that has a value counts.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from . import gpu_values as values
from .gpu_records import EVENT_REASONS, EccCounters, Gpu, GpuProcess, NvLink, RetiredPages, RowRemap
from .gpu_values import Failed, Reading, Scalar, Unsupported

_Reader = t.Callable[[str], Reading]

_UNITS = {
    "C": (
        "temperature_c memory_temperature_c temperature_margin_c temperature_slowdown_c temperature_shutdown_c"
        " temperature_max_operating_c margin_slowdown_c margin_shutdown_c"
    ),
    "%": "utilisation_pct memory_utilisation_pct fan_pct",
    "MHz": "clock_sm_mhz clock_memory_mhz clock_sm_max_mhz clock_memory_max_mhz",
}
_WATTS = "power_watts power_limit_watts power_limit_default_watts power_limit_max_watts"
_MEBIBYTES = "memory_total_mib memory_used_mib memory_free_mib memory_reserved_mib bar1_total_mib"
_COUNTS = "index minor pcie_gen pcie_gen_max pcie_replays pcie_replay_rollovers"
_FLAGS = (
    "reset_required drain_reset_recommended ecc_mode ecc_mode_pending sram_threshold_exceeded unrepairable_memory"
    " mig_mode mig_mode_pending persistence_mode"
)
_WORDS = "uuid serial name architecture vbios board_part inforom recovery_action compute_mode fabric_state fabric_status fabric_health"

ECC_SECTIONS = ("ecc_volatile", "ecc_aggregate", "ecc_section_unknown")
_ECC_PARTS = ("sram_correctable", "sram_uncorrectable", "dram_correctable", "dram_uncorrectable", "correctable", "uncorrectable")
_ON_CHIP = ("register_file", "l1_cache", "l2_cache", "texture_memory", "texture_shared", "cbu")
_REMAP_PARTS = ("correctable", "uncorrectable", "pending", "failure")
_REPAIRS = ("channel", "tpc")
_NESTED = (*ECC_SECTIONS, "retired", "remapped", "event_reasons", "repair_pending")

# Unreadable here says nothing of the GPU's health: pastes have these blacked out.
_DESCRIBE = ("pci", "device_id", "subsystem_id", "uuid", "serial", "name", "architecture", "vbios", "board_part", "inforom")
# What shows that a GPU was measured, not only named.
_MEASURED = (
    "temperature_c",
    "utilisation_pct",
    "memory_used_mib",
    "power_watts",
    "performance_state",
    "recovery_action",
    "reset_required",
    "pcie_replays",
)


def _status_only(text: str) -> Reading:
    """A record printed as one word: C(Remapped Rows : N/A)."""
    return values.status(text) or values.unreadable(text)


def _board_part(text: str) -> Reading:
    # Before driver 515, "GPU Part Number" held the board's number (692-2G506-0200-003); now it is the chip's (20B2-895-A1).
    if re.match(r"[0-9]{3}-[0-9A-Z]{5}-", text.strip()):
        return text.strip()
    return Unsupported(text.strip())


def _readers() -> t.Dict[str, _Reader]:
    readers: t.Dict[str, _Reader] = {
        "pci": values.address,
        "device_id": values.pci_id,
        "subsystem_id": values.pci_id,
        "performance_state": values.performance_state,
        "pcie_width": values.link_width,
        "pcie_width_max": values.link_width,
        "board_part/1": _board_part,
        "processes": _status_only,
    }
    for unit, names in _UNITS.items():
        readers.update((name, _with_unit(values.whole, unit)) for name in names.split())
    readers.update((name, _with_unit(values.decimal, "W")) for name in _WATTS.split())
    readers.update((name, values.mebibytes) for name in _MEBIBYTES.split())
    readers.update((name, values.count) for name in _COUNTS.split())
    readers.update((name, values.flag) for name in _FLAGS.split())
    readers.update((name, values.words) for name in _WORDS.split())
    readers.update((name, _status_only) for name in _NESTED)
    return readers


def _with_unit(reader: t.Callable[[str, str], Reading], unit: str) -> _Reader:
    return lambda text: reader(text, unit)


_READERS = _readers()
_PART_READERS: t.Dict[str, _Reader] = {
    "retired.pending": values.flag_or_bit,
    "remapped.pending": values.flag_or_bit,
    "remapped.failure": values.flag_or_bit,
}
# Fields that -q never prints without a unit: without one, the line was cut.
HAVE_UNIT = frozenset(" ".join([*_UNITS.values(), _WATTS, _MEBIBYTES]).split())


def reader(name: str) -> _Reader:
    """How the text of the field C(name) is read."""
    found = _READERS.get(name) or _READERS.get(name.partition("/")[0]) or _PART_READERS.get(name)
    if found:
        return found
    if name.startswith(("event_reasons.", "repair_pending.")):
        return values.flag
    if name.startswith("remapped.histogram."):
        return _with_unit(values.count, "bank(s)")
    return values.count


class Draft:
    """One GPU while it is being read. Nothing that was put in is taken back."""

    def __init__(self) -> None:
        self._values: t.Dict[str, Scalar] = {}
        self._unsupported: t.Set[str] = set()
        self._errors: t.Dict[str, Failed] = {}
        self.processes: t.Optional[t.List[GpuProcess]] = None
        self.nvlinks: t.List[NvLink] = []

    def put(self, name: str, text: str) -> Reading:
        """Read C(text) as the field C(name)."""
        reading = reader(name)(text)
        if name == "pci" and isinstance(reading, Failed) and reading.kind == "unreadable":
            reading = values.pci_address(text)
        self.set(name, reading)
        return reading

    def set(self, name: str, reading: Reading) -> None:
        """The first value of a field counts; a value beats "not supported"; an error is kept beside either."""
        if isinstance(reading, Unsupported):
            if name not in self._values:
                self._unsupported.add(name)
        elif isinstance(reading, Failed):
            self._errors.setdefault(name, reading)
        elif name == "serial" and not str(reading).strip("0"):
            # A GeForce has no serial number and prints 0: all of a node's cards would be one.
            self._unsupported.add(name)
        elif name not in self._values:
            self._values[name] = reading
            self._unsupported.discard(name)
        elif name.startswith("ecc_section_unknown."):
            # grep leaves the volatile and the aggregate line of one counter: the larger tells what there is to see.
            self._values[name] = max(self._values[name], reading)

    def get(self, name: str) -> t.Optional[Scalar]:
        for source in (name, name + "/1", name + "/2"):
            if source in self._values:
                return self._values[source]
        return None

    def named(self) -> bool:
        return any(name in self._values for name in ("pci", "uuid", "serial", "index"))

    def empty(self) -> bool:
        return not (self._values or self._unsupported or self._errors or self.processes)

    def fill(self, other: Draft) -> None:
        """Take from C(other) what is not known here."""
        for name, value in other._values.items():
            self.set(name, value)
        for name in other._unsupported:
            self.set(name, Unsupported(""))
        for name, error in other._errors.items():
            self.set(name, error)
        if self.processes is None:
            self.processes = other.processes
        self.nvlinks = self.nvlinks or other.nvlinks

    def kinds(self) -> t.FrozenSet[str]:
        """Kinds of the errors met."""
        return frozenset(error.kind for error in self._errors.values())

    def gpu(self) -> Gpu:
        """The record."""
        ecc = {section: self._ecc(section) for section in ECC_SECTIONS}
        reasons = {name: self.get("event_reasons." + name) for name in EVENT_REASONS.values()}
        remapped, retired = self._remapped(), self._retired()
        plain: t.Dict[str, t.Any] = {field.name: self.get(field.name) for field in dataclasses.fields(Gpu) if field.name in _READERS}
        plain.update((name, None) for name in _NESTED)
        plain.update(
            ecc,
            ecc_layout=self._layout(),
            event_reasons={name: value for name, value in reasons.items() if isinstance(value, bool)},
            remapped=remapped,
            retired=retired,
            repair_pending=tuple(name for name in _REPAIRS if self.get("repair_pending." + name) is True),
            processes=None if self.processes is None else tuple(self.processes),
            nvlinks=tuple(self.nvlinks),
            state=self.state(),
            errors={name.partition("/")[0]: error.text for name, error in sorted(self._errors.items(), reverse=True)},
            unsupported=self._unsupported_names(),
        )
        return Gpu(**plain)

    def state(self) -> t.Optional[str]:
        """C(ok) only for a GPU that is named, was measured, and answered nothing with an error."""
        kinds = self.kinds()
        action = str(self.get("recovery_action") or "none").lower()
        if "lost" in kinds:
            return "lost"
        due = self.get("reset_required") is True or self.get("drain_reset_recommended") is True
        if due or "reset" in kinds or "reset" in action or "reboot" in action:
            return "requires_reset"
        if "error" in kinds or action != "none":
            return "error"
        garbled = [name for name, error in self._errors.items() if error.kind == "unreadable" and name.partition("/")[0] not in _DESCRIBE]
        if garbled or not self.named():
            return None
        measured = any(self.get(name) is not None for name in _MEASURED) or any(self._ecc(section) for section in ECC_SECTIONS)
        return "ok" if measured else None

    def _unsupported_names(self) -> t.FrozenSet[str]:
        names = set()
        for name in self._unsupported:
            whole = name.partition(".")[0]
            if whole in _NESTED:
                parts = [key for key in (*self._values, *self._errors) if key == whole or key.startswith(whole + ".")]
                names.add(name if parts else whole)
            elif self.get(name.partition("/")[0]) is None:
                names.add(name.partition("/")[0])
        return frozenset(names)

    def _number(self, name: str) -> t.Optional[int]:
        value = self.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def _flag(self, name: str) -> t.Optional[bool]:
        value = self.get(name)
        return value if isinstance(value, bool) else None

    def _sum(self, names: t.Iterable[str]) -> t.Optional[int]:
        """The sum of those that have a value; None where none has."""
        found = [value for value in map(self._number, names) if value is not None]
        return sum(found) if found else None

    def _ecc(self, section: str) -> t.Optional[EccCounters]:
        counts = {part: self._number("%s.%s" % (section, part)) for part in _ECC_PARTS}
        if counts["sram_uncorrectable"] is None:
            # Hopper and newer count by how the error was seen.
            kinds = ("parity", "secded")
            counts["sram_uncorrectable"] = self._sum("%s.sram_uncorrectable_%s" % (section, kind) for kind in kinds)
        for bits, word in (("single_bit", "correctable"), ("double_bit", "uncorrectable")):
            self._volta(section, bits, word, counts)
            if counts[word] == 0:
                for part in ("sram_" + word, "dram_" + word):
                    if counts[part] is None and "%s.%s" % (section, part) not in self._unsupported:
                        counts[part] = 0
        return EccCounters(**counts) if any(value is not None for value in counts.values()) else None

    def _volta(self, section: str, bits: str, word: str, counts: t.Dict[str, t.Optional[int]]) -> None:
        """Volta and older count by structure: device memory is the DRAM, everything else is on the chip."""
        at = "%s.%s." % (section, bits)
        device, chip, total = self._number(at + "device_memory"), self._sum(at + name for name in _ON_CHIP), self._number(at + "total")
        if chip is None and device is not None and total is not None and total >= device:
            chip = total - device
        for part, value in (("dram_" + word, device), ("sram_" + word, chip), (word, total)):
            if counts[part] is None:
                counts[part] = value

    def _layout(self) -> t.Optional[str]:
        keys = [key for key in (*self._values, *self._unsupported, *self._errors) if key.startswith(ECC_SECTIONS)]
        if any(".single_bit." in key or ".double_bit." in key for key in keys):
            return "volta"
        return "ampere" if any(".sram_" in key or ".dram_" in key for key in keys) else None

    def _remapped(self) -> t.Optional[RowRemap]:
        start = "remapped.histogram."
        histogram = {key[len(start) :]: value for key, value in self._values.items() if key.startswith(start) and isinstance(value, int)}
        parts = [self.get("remapped." + part) for part in _REMAP_PARTS]
        if not histogram and all(part is None for part in parts):
            return None
        return RowRemap(
            self._number("remapped.correctable"),
            self._number("remapped.uncorrectable"),
            self._flag("remapped.pending"),
            self._flag("remapped.failure"),
            histogram,
        )

    def _retired(self) -> t.Optional[RetiredPages]:
        pages = RetiredPages(self._number("retired.single_bit"), self._number("retired.double_bit"), self._flag("retired.pending"))
        return None if pages == RetiredPages() else pages
