# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Does what is installed, built and loaded of the driver fit together, now and after the next boot. Private to kentino.gpu."""

from __future__ import annotations

import typing as t

from .._knowledge import driver as knowledge
from .._parse.driver_records import DriverReading
from .._report.model import NODE, Finding


def judge(reading: DriverReading, device_ids: t.Sequence[str]) -> t.Iterator[Finding]:
    """Findings on a node that has these GPUs."""
    yield from _judge_loaded(reading)
    yield from _judge_next_boot(reading)
    yield from _judge_secure_boot(reading)
    yield from _judge_flavour(reading, device_ids)
    yield from _judge_foreign(reading)


def reboot_required(reading: DriverReading) -> bool:
    """Whether the module that is loaded is not the one that is installed."""
    if reading.loaded is None:
        return False
    return any(version not in (None, reading.loaded) for version in (reading.library, _version(reading, reading.running)))


def _version(reading: DriverReading, kernel: str) -> t.Optional[str]:
    built = reading.modules.get(kernel)
    return built.version if built else None


def _judge_loaded(reading: DriverReading) -> t.Iterator[Finding]:
    built = reading.modules.get(reading.running)
    if reading.nouveau:
        message = "nouveau is loaded and holds the GPUs, so the NVIDIA driver cannot"
        advice = "blacklist it, rebuild the initramfs and reboot; the role nvidia_driver does all but the last"
        yield Finding("driver.nouveau", "critical", NODE, message, "reboot_node", advice=advice)
    if reading.loaded is not None:
        yield from _judge_agreement(reading)
    elif built is None and reading.library is None:
        advice = "run the role nvidia_driver"
        yield Finding("driver.not_installed", "critical", NODE, "no NVIDIA driver is installed", advice=advice)
    elif built is None:
        message = "the library is %s and no module is built for the running kernel %s" % (reading.library, reading.running)
        yield Finding("driver.not_built", "critical", NODE, message, advice=_how_to_build(reading, reading.running))
    elif not reading.nouveau and not _unsigned(reading, reading.running):
        message = "the module %s is built for the running kernel %s and not loaded" % (
            built.version or "of unknown version",
            reading.running,
        )
        advice = "modprobe nvidia, and read the kernel log where that fails"
        yield Finding("driver.not_loaded", "critical", NODE, message, advice=advice)


def _judge_agreement(reading: DriverReading) -> t.Iterator[Finding]:
    if reading.library is None:
        message = "the module %s is loaded and libnvidia-ml.so.1 is nowhere: no program can use the GPUs" % reading.loaded
        yield Finding("driver.no_library", "critical", NODE, message, advice="run the role nvidia_driver")
    elif reading.library != reading.loaded:
        message = "reboot pending: the module %s is loaded, the library is %s" % (reading.loaded, reading.library)
        advice = "nothing is said against the GPUs; reboot, or unload and load the nvidia modules, and hold the driver packages"
        yield Finding("driver.version_mismatch", "critical", NODE, message, "reboot_node", advice=advice)
    elif reboot_required(reading):
        message = "reboot pending: the module %s is loaded, %s is built" % (reading.loaded, _version(reading, reading.running))
        yield Finding("driver.reboot_pending", "warning", NODE, message, "reboot_node", advice="reboot when no job runs")


def _judge_next_boot(reading: DriverReading) -> t.Iterator[Finding]:
    kernel = reading.next_boot
    built = reading.modules.get(kernel)
    if not any((reading.loaded, reading.library, reading.modules.get(reading.running))):
        return
    if kernel != reading.running and built is None:
        message = "no module is built for %s, which boots next: the GPUs are gone after the next reboot" % kernel
        yield Finding("driver.not_built_for_next_kernel", "warning", NODE, message, advice=_how_to_build(reading, kernel))
    elif kernel != reading.running and built is not None and reading.library not in (None, built.version) and built.version:
        message = "for %s, which boots next, the module is %s, and the library is %s" % (kernel, built.version, reading.library)
        yield Finding("driver.not_built_for_next_kernel", "warning", NODE, message, advice=_how_to_build(reading, kernel))


def _how_to_build(reading: DriverReading, kernel: str) -> str:
    if reading.headers.get(kernel):
        return "the headers are there: run dkms autoinstall -k %s and read its make.log" % kernel
    return "its headers are missing: install linux-headers-%s (Debian, Ubuntu) or kernel-devel-%s (EL), then dkms autoinstall" % (
        kernel,
        kernel,
    )


def _unsigned(reading: DriverReading, kernel: str) -> bool:
    """Whether the kernel, under Secure Boot, would refuse the module that is built for it."""
    built = reading.modules.get(kernel)
    if not reading.secure_boot or built is None or built.signed is None:
        return False
    # Signed by a distribution's key it needs no key of ours; that it was loaded is the proof.
    return not built.signed or (reading.mok_enrolled is False and reading.certificate is not None)


def _is_proven(reading: DriverReading) -> bool:
    """Whether the module that boots next is the one that the running kernel accepted."""
    built = reading.modules.get(reading.next_boot)
    return reading.next_boot == reading.running and built is not None and built.version in (None, reading.loaded)


def _judge_secure_boot(reading: DriverReading) -> t.Iterator[Finding]:
    if not reading.secure_boot:
        return
    advice = "enrol the key of DKMS at the console: mokutil --import %s, then reboot; or turn Secure Boot off" % (
        reading.certificate or "/var/lib/dkms/mok.pub"
    )
    if reading.loaded is None and _unsigned(reading, reading.running):
        why = "signed with a key that is not enrolled" if reading.modules[reading.running].signed else "not signed"  # type: ignore[union-attr]
        message = "Secure Boot is on and the module is %s: the kernel refuses it" % why
        yield Finding("driver.secure_boot_unsigned", "critical", NODE, message, advice=advice)
    elif reading.loaded is None and not reading.mok_enrolled and not any(reading.modules.values()):
        message = "Secure Boot is on and no key to sign modules with is enrolled: what DKMS builds here will be refused"
        yield Finding("driver.secure_boot_no_key", "warning", NODE, message, advice=advice)
    elif _unsigned(reading, reading.next_boot) and not _is_proven(reading):
        message = "Secure Boot is on and the module for %s, which boots next, would be refused" % reading.next_boot
        yield Finding("driver.secure_boot_unsigned", "warning", NODE, message, advice=advice)


def _judge_flavour(reading: DriverReading, device_ids: t.Sequence[str]) -> t.Iterator[Finding]:
    built = reading.modules.get(reading.running)
    flavour = reading.loaded_flavour or (built.flavour if built else None)
    for device_id in sorted(set(device_ids)):
        chip = knowledge.chip(device_id)
        if flavour and chip and chip.needs not in (None, flavour):
            message = "%s (%s) needs the %s kernel modules, these are the %s ones" % (device_id, chip.name, chip.needs, flavour)
            advice = "let nvidia_driver_kernel_modules be auto and run the role nvidia_driver"
            yield Finding("driver.wrong_flavour", "critical", NODE, message, advice=advice)


def _judge_foreign(reading: DriverReading) -> t.Iterator[Finding]:
    if reading.foreign is None:
        return
    what = {"runfile": "by NVIDIA's runfile installer", "library": "by no package", "module": "by no package"}[reading.foreign]
    message = "a driver was installed %s" % what
    advice = "uninstall it (nvidia-uninstall), or set nvidia_driver_foreign to adopt: packages over it would mix two drivers"
    yield Finding("driver.foreign", "warning", NODE, message, evidence=reading.foreign_traces, advice=advice)
