# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the inventory says about judging a kernel log. Private to kentino.gpu."""

from __future__ import annotations

import dataclasses
import math
import typing as t
from dataclasses import dataclass, field

from .._knowledge import kernel_log_limits
from .._parse.pci_address import normalise

if t.TYPE_CHECKING:
    from .._knowledge.xid_catalogue import XidEntry

BOOTS = ("current", "all")
MAX_EVIDENCE = 5  # lines of each finding


@dataclass(frozen=True)
class KernelPolicy:
    """How to judge. Raises ValueError, naming the input, what was expected and what to do, when a value is none."""

    xid_policy: t.Mapping[t.Any, t.Any] = field(default_factory=dict)  # gpu_xid_policy of the inventory
    power_domains: t.Mapping[str, t.Sequence[str]] = field(default_factory=dict)  # name to GPUs, as PCI addresses or indexes
    gpu_pci: t.Sequence[str] = ()  # PCI addresses of this node's GPUs by index; only for power_domains that name indexes
    driver_version: t.Optional[str] = None
    now_usec: t.Optional[int] = None  # None: nothing ages
    warning_hours: float = 24  # older warnings are history
    boot: str = "current"  # current: what an earlier boot said is history
    limits: t.Mapping[str, t.Any] = field(default_factory=dict)  # overrides of kernel_log_limits
    lookup: t.Callable[[int], XidEntry] = field(init=False, compare=False, repr=False)
    limit: t.Mapping[str, t.Union[int, float]] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lookup", _lookup(self.xid_policy))
        object.__setattr__(self, "limit", kernel_log_limits.limits(self.limits))
        object.__setattr__(self, "power_domains", _domains(self.power_domains))
        object.__setattr__(self, "gpu_pci", tuple(normalise(str(address)) or str(address) for address in self.gpu_pci))
        hours = self.warning_hours
        if isinstance(hours, bool) or not isinstance(hours, (int, float)) or not math.isfinite(hours) or hours < 0:
            raise ValueError(
                "warning_hours is %r, expected a number of hours, 0 or more; write it without quotes, for example 24" % (hours,)
            )
        if self.boot not in BOOTS:
            raise ValueError("boot is %r, expected one of %s; choose one of them" % (self.boot, ", ".join(BOOTS)))

    @classmethod
    def from_mapping(cls, values: t.Mapping[str, t.Any]) -> KernelPolicy:
        """From plain data; keys that are absent or None keep their default."""
        known = [one.name for one in dataclasses.fields(cls) if one.init]
        wrong = sorted(str(key) for key in values if key not in known)
        if wrong:
            raise ValueError(
                "policy of the kernel log has %s, expected any of %s; correct or remove it" % (", ".join(wrong), ", ".join(known))
            )
        return cls(**{key: value for key, value in values.items() if value is not None})


def _lookup(overrides: t.Mapping[t.Any, t.Any]) -> t.Callable[[int], XidEntry]:
    """The catalogue is large, and a log without an Xid does not need it; what the inventory says is checked at once."""
    known: t.List[t.Callable[[int], XidEntry]] = []

    def lookup(xid: int) -> XidEntry:
        if not known:
            from .._knowledge import xid_catalogue

            known.append(xid_catalogue.with_overrides(overrides))
        return known[0](xid)

    if overrides:
        lookup(0)
    return lookup


def _domains(given: t.Any) -> t.Dict[str, t.Tuple[str, ...]]:
    example = "write for example {psu_a: ['0000:01:00', '0000:21:00']}"
    if not isinstance(given, t.Mapping):
        raise ValueError("power_domains is %r, expected a mapping of supply to the GPUs it feeds; %s" % (given, example))
    domains = {}
    for name, members in given.items():
        if isinstance(members, (str, bytes)) or not isinstance(members, t.Sequence) or not members:
            raise ValueError("power_domains.%s is %r, expected a list of PCI addresses or indexes; %s" % (name, members, example))
        domains[str(name)] = tuple(str(member).strip().lower() for member in members)
    return domains
