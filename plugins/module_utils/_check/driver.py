# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The check C(driver): hardware, kernels and driver of a node, and whether they fit together. Private to kentino.gpu."""

from __future__ import annotations

import os
import typing as t

from .._judge import driver as judge
from .._knowledge import driver as knowledge
from .._parse.driver_records import DriverReading
from .._probe import command
from .._probe import driver as probe
from .._report.model import NODE, Check, Finding

NAME = "driver"


def run(deadline_seconds: float = 20) -> t.Tuple[Check, t.Dict[str, t.Any]]:
    """The check, and what was read. ValueError where the deadline is no time to wait."""
    command.check_deadline(deadline_seconds)
    reading = probe.read(deadline_seconds)
    return _check(reading), facts(reading)


def _check(reading: DriverReading) -> Check:
    metrics = {"gpus_on_bus": len(reading.gpus or ()), "nvswitches_on_bus": len(reading.nvswitches)}
    if reading.gpus is None:
        finding = Finding("driver.no_bus", "warning", NODE, "there is no PCI bus to read: no GPU can be seen", undetermined=True)
        return Check(NAME, "", (finding,), metrics=metrics)
    if not reading.gpus:
        return Check(NAME, "", skipped="no NVIDIA GPU is on the PCI bus", metrics=metrics)
    evidence = "%d GPUs on the PCI bus; module %s, library %s" % (
        len(reading.gpus),
        reading.loaded or "not loaded",
        reading.library or "not installed",
    )
    return Check(NAME, evidence, tuple(judge.judge(reading, [gpu.device_id for gpu in reading.gpus])), metrics=metrics)


def facts(reading: DriverReading) -> t.Dict[str, t.Any]:
    """What the roles ask for."""
    gpus = reading.gpus or ()
    chips = [knowledge.chip(gpu.device_id) for gpu in gpus]
    capabilities = {chip.compute_capability for chip in chips if chip}
    return {
        "gpus": [{"bus_id": gpu.pci, "device_id": gpu.device_id, "driver": gpu.driver} for gpu in gpus],
        "nvswitches": [switch.pci for switch in reading.nvswitches],
        "nvlink5": any(chip.nvlink5 for chip in chips if chip),
        "compute_capabilities": sorted(capabilities, key=lambda text: [int(part) for part in text.split(".")]),
        "unknown_devices": sorted({gpu.device_id for gpu, chip in zip(gpus, chips) if chip is None}),
        "flavour": knowledge.flavour(gpu.device_id for gpu in gpus) if gpus else None,
        "needs": sorted({chip.needs for chip in chips if chip and chip.needs}),
        "module": {"loaded": reading.loaded, "flavour": reading.loaded_flavour},
        "library": reading.library,
        "kernels": {"running": reading.running, "next_boot": reading.next_boot},
        "headers": dict(reading.headers),
        "built": {kernel: built.version if built else None for kernel, built in reading.modules.items()},
        "signed": {kernel: built.signed if built else None for kernel, built in reading.modules.items()},
        "secure_boot": reading.secure_boot,
        "mok_enrolled": reading.mok_enrolled,
        "mok_certificate": reading.certificate,
        "nouveau": reading.nouveau,
        "foreign": reading.foreign,
        "foreign_traces": list(reading.foreign_traces),
        "reboot_required": judge.reboot_required(reading),
        "simulated": bool(os.environ.get("KENTINO_SIM_STATE")),
    }
