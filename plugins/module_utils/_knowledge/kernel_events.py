# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a kernel log says beside Xids and SXids: kinds of events, how bad, and what to do. Private to kentino.gpu."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass


@dataclass(frozen=True)
class KernelEvent:
    severity: str
    action: str
    meaning: str  # without a full stop
    advice: str


_DISK_GONE = (
    "Stop writing to it and save what can be saved. Check its seat, cable and backplane power before it is replaced; a drive that comes"
    " back after reseating is tested before it is trusted."
)
_FILE_SYSTEM = "Stop the jobs that write there, look at the disk below it first, then check the file system while it is not mounted."

# By code of the finding. The part after the dot is the kind that the parser gives.
EVENTS: t.Mapping[str, KernelEvent] = {
    # Driver
    "driver.rm_init_failed": KernelEvent(
        "critical",
        "reboot_node",
        "The driver could not initialise a GPU: it cannot be used",
        "Power-cycle the node. If it fails again look for an Xid before the line, check power and seating of the card, then the driver"
        " version against the card.",
    ),
    "driver.memory_subsystem_error": KernelEvent(
        "critical",
        "reset_gpu",
        "The driver found the GPU's memory subsystem hanging (as Xid 175)",
        "Stop the jobs on this GPU and reset it; power-cycle the node if it stays.",
    ),
    "driver.probe_failed": KernelEvent(
        "critical",
        "reboot_node",
        "The driver gave a GPU up while it was being started",
        "Read the lines before it for the reason: a GPU that is lost, a VBIOS that is not ready, a driver that does not fit the card. Then"
        " power-cycle the node.",
    ),
    "driver.probe_not_called": KernelEvent(
        "critical",
        "reboot_node",
        "The driver was loaded and found no GPU of its own: another driver holds it",
        "See which driver holds the card (lspci -k: nouveau, vfio-pci); keep that one from loading, then reboot.",
    ),
    "driver.no_gpu_found": KernelEvent(
        "critical",
        "reseat",
        "The driver found no GPU in this machine",
        "See whether lspci lists the cards. If it does not, check their power and seating; if it does, the driver does not fit them.",
    ),
    "driver.gpu_unsupported": KernelEvent(
        "critical",
        "none",
        "The driver does not support a GPU of this machine; the card is not broken",
        "Install the branch and the kind of driver that this GPU needs: Blackwell takes the open kernel modules only.",
    ),
    "driver.firmware_missing": KernelEvent(
        "critical",
        "none",
        "The driver did not find the firmware that it loads into the GPU; the card is not broken",
        "Install the firmware package of exactly the driver's version, then load the driver again.",
    ),
    "driver.interrupt_missing": KernelEvent(
        "critical",
        "reboot_node",
        "The GPU's interrupts do not arrive",
        "Reboot; if it comes back update the BIOS, and check its settings for PCIe and virtualisation.",
    ),
    "driver.power_cables_missing": KernelEvent(
        "critical",
        "check_power",
        "The driver found a GPU without its power cables",
        "Switch the node off and plug in all power cables of the card, at both ends.",
    ),
    "driver.driver_check_failed": KernelEvent(
        "warning",
        "reset_gpu",
        "A call of the driver to the GPU failed because the GPU no longer answers",
        "Look for an Xid close by. Stop the jobs on this GPU and reset it; power-cycle the node if it stays.",
    ),
    "driver.bar_invalid": KernelEvent(
        "critical",
        "contact_vendor",
        "The BIOS gave a GPU no usable address space",
        "Switch on 'Above 4G decoding' in the BIOS and update it; the card is not broken.",
    ),
    "driver.api_mismatch": KernelEvent(
        "warning",
        "reboot_node",
        "The driver was upgraded but not reloaded: programs of the new version meet the old kernel module; not a broken GPU",
        "Reboot, or unload and load the nvidia modules with no job running, then hold the driver packages. If only one container is"
        " refused, its libraries are of another version.",
    ),
    # PCIe
    "pcie.aer_fatal": KernelEvent(
        "critical",
        "reseat",
        "Uncorrectable fatal PCIe error: the link was lost or reset",
        "Reseat the card and the riser below this port, check cable and power, then retest under load. A link that was reset does not make"
        " the device work again.",
    ),
    "pcie.aer_nonfatal": KernelEvent(
        "warning",
        "reseat",
        "Uncorrectable PCIe error that the device survived",
        "Watch it: if it comes back reseat the card and the riser below this port.",
    ),
    "pcie.aer_correctable": KernelEvent(
        "warning",
        "reseat",
        "Corrected PCIe errors",
        "Single ones are normal. Many come from a riser, slot or cable at its limit: reseat it, or run the link one generation slower.",
    ),
    "pcie.not_recovered": KernelEvent(
        "critical",
        "reboot_node",
        "The kernel could not recover a PCIe device after an error",
        "Power-cycle the node, then reseat the device if the error comes back.",
    ),
    # Memory of the host
    "oom.kill": KernelEvent(
        "warning",
        "restart_job",
        "The kernel killed a process because the host ran out of memory",
        "Look at what the job needs in host memory (data loaders, pinned memory) before restarting it. Not a fault of the GPU.",
    ),
    "oom.memcg": KernelEvent(
        "info",
        "look_at_code",
        "The kernel killed a process because its own memory limit was reached",
        "Raise the memory limit of that job or container, or let it use less. The node is not short of memory.",
    ),
    "oom.invoked": KernelEvent(
        "warning",
        "restart_job",
        "The kernel ran out of memory and looked for a process to kill; whom it killed is not in the log",
        "See which job ended at that time, and what it needs in host memory.",
    ),
    # Storage
    "storage.nvme_timeout": KernelEvent(
        "warning",
        "contact_vendor",
        "An NVMe drive did not answer in time; the kernel asked again or reset it",
        "Look at its SMART log and firmware version. One that comes back is a case for the vendor.",
    ),
    "storage.nvme_controller_down": KernelEvent(
        "warning",
        "contact_vendor",
        "An NVMe drive fell silent and the kernel is resetting it",
        "If it comes back from the reset look at its power saving (APST, ASPM), firmware, seat and cable; if not it is lost.",
    ),
    "storage.nvme_apst_failed": KernelEvent(
        "info",
        "none",
        "An NVMe drive refused a power-saving setting",
        "Nothing, unless it also falls silent: then switch power saving off.",
    ),
    "storage.nvme_reset_failed": KernelEvent("critical", "contact_vendor", "An NVMe drive did not come back from a reset", _DISK_GONE),
    "storage.nvme_removed": KernelEvent("critical", "contact_vendor", "The kernel removed an NVMe drive that failed", _DISK_GONE),
    "storage.nvme_dead": KernelEvent("critical", "replace", "The kernel switched an NVMe drive off for good", _DISK_GONE),
    "storage.capacity_lost": KernelEvent("critical", "contact_vendor", "A disk dropped to size zero: it is gone", _DISK_GONE),
    "storage.medium_error": KernelEvent(
        "critical", "replace", "A disk cannot read or write a place on its medium", "Save what can be saved and replace the disk."
    ),
    "storage.io_error": KernelEvent(
        "warning",
        "contact_vendor",
        "A disk answered with an error",
        "Look at its SMART log, seat and cable. A write that failed means that data did not reach the disk.",
    ),
    "storage.lost_write": KernelEvent(
        "critical",
        "contact_vendor",
        "Data that should have been written is lost",
        "Treat files and checkpoints written since then as damaged. Then look at the disk below.",
    ),
    "storage.remount_ro": KernelEvent("critical", "contact_vendor", "A file system was switched to read-only after an error", _FILE_SYSTEM),
    "storage.fs_error": KernelEvent("critical", "contact_vendor", "A file system is damaged or was shut down", _FILE_SYSTEM),
    "storage.md_disk_failure": KernelEvent(
        "critical",
        "replace",
        "A disk of a software RAID failed; the array runs without its redundancy",
        "Check seat and cable of that disk, then replace it and let the array rebuild.",
    ),
    "storage.md_array_failed": KernelEvent(
        "critical",
        "replace",
        "A software RAID has too few disks left to run",
        "Do not force it. Check seat, cable and power of the missing disks first: two that fail at once mostly share one of these.",
    ),
    # Others
    "kernel.segfault": KernelEvent(
        "info",
        "look_at_code",
        "A process crashed by a wrong memory access",
        "Look at the program; inside libnccl or libcuda look at the versions of the libraries, too.",
    ),
    "kernel.general_protection": KernelEvent(
        "info",
        "look_at_code",
        "A process crashed by a wrong memory access",
        "Look at the program; inside libnccl or libcuda look at the versions of the libraries, too.",
    ),
    "kernel.pciehp_link_down": KernelEvent(
        "critical",
        "reseat",
        "A PCIe slot lost its link: the card in it is gone",
        "Check seat, riser and power of the card in that slot, unless somebody took it out on purpose.",
    ),
    "kernel.pciehp_card_not_present": KernelEvent(
        "critical",
        "reseat",
        "A PCIe slot no longer sees its card",
        "Check seat, riser and power of the card in that slot, unless somebody took it out on purpose.",
    ),
    "kernel.hardware_error": KernelEvent(
        "critical",
        "contact_vendor",
        "The firmware reports a hardware error of the host",
        "Read the BMC's event log for the part (memory module, processor), and have it replaced.",
    ),
    "kernel.irq_nobody_cared": KernelEvent(
        "warning",
        "reboot_node",
        "An interrupt was switched off because no driver wanted it: the devices on it are slow or deaf",
        "Find out which device shares that interrupt, then reboot. If it comes back update BIOS and driver.",
    ),
    "kernel.fabricmanager_no_switch": KernelEvent(
        "info",
        "none",
        "Fabric Manager found no NVSwitch",
        "Harmless on a machine without NVSwitch: disable the service there. On an NVSwitch machine the switches are missing.",
    ),
}

# The same kind as a disk error, told by the words of the line: a command that the disk does not support (trim, write zeroes).
UNSUPPORTED = KernelEvent(
    "info", "none", "A disk does not support a command that the kernel tried", "Nothing. The kernel goes on without it."
)
# Not on the list: told to people all the same.
UNKNOWN = KernelEvent(
    "warning",
    "contact_vendor",
    "The kernel reports trouble of a kind that is not on our list",
    "Read the line; it is reported so that it is not lost.",
)
