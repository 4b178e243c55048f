# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is known of a node's GPUs, kernels and driver. Private to kentino.gpu."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Module:
    """A kernel module as built. C(signed): it carries a signature, whoever's key that is; None where it could not be told."""

    version: t.Optional[str] = None
    flavour: t.Optional[str] = None
    signed: t.Optional[bool] = None


@dataclass(frozen=True)
class Device:
    pci: str  # dddd:bb:dd, lower case, no function
    device_id: str  # vvvv:dddd, lower case
    driver: t.Optional[str]  # the kernel module that holds it


@dataclass(frozen=True)
class DriverReading:
    """C(None) is what could not be told. C(modules) by kernel release: None where the module is not built for it."""

    gpus: t.Optional[t.Tuple[Device, ...]] = None  # None: no PCI bus to read
    nvswitches: t.Tuple[Device, ...] = ()
    loaded: t.Optional[str] = None
    loaded_flavour: t.Optional[str] = None
    library: t.Optional[str] = None
    library_path: t.Optional[str] = None
    running: str = ""
    next_boot: str = ""
    headers: t.Mapping[str, bool] = field(default_factory=dict)
    modules: t.Mapping[str, t.Optional[Module]] = field(default_factory=dict)
    secure_boot: t.Optional[bool] = None
    certificate: t.Optional[str] = None  # with which DKMS signs
    mok_enrolled: t.Optional[bool] = None
    nouveau: bool = False
    foreign: t.Optional[str] = None  # runfile, library, module
    foreign_traces: t.Tuple[str, ...] = ()
