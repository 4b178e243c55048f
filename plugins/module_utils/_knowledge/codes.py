# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the codes of findings mean, beside Xids and SXids. Private to kentino.gpu."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass

from . import dcgm_errors
from .kernel_events import EVENTS

# What the verdict of such a finding is, at its worst.
FAIL, WARN, UNKNOWN, INFO = (
    "fails the check",
    "warns",
    "leaves the verdict unknown, so the gate stays shut",
    "is information only",
)

_WEIGHTS = {"critical": FAIL, "warning": WARN, "info": INFO}


@dataclass(frozen=True)
class CodeEntry:
    """A code, or the beginning of several."""

    code: str
    meaning: str  # without a full stop
    weight: str
    action: str
    advice: str


_RESEAT = "Reseat card, riser and power plug; swap the card with a good one to see whether the fault follows the card or the slot."
_COOLING = "Check fans, air flow, dust and the room's temperature; a GPU hotter than its siblings may have lost contact to its cooler."
_MEMORY_RESET = "Let running work end, reset the GPU, and test its memory before the next long run."
_SETTING = "Set it as the inventory says, or correct the inventory."
_AGAIN = "Run the check again; nothing is said about the hardware."

# A code that is here decides over its beginning.
CODES: t.Tuple[CodeEntry, ...] = (
    # GPU: presence and state
    CodeEntry("dryrun.", "The dry run did not show that the GPUs can train together", UNKNOWN, "none", "Read the message; run it again."),
    CodeEntry(
        "dryrun.busy",
        "GPUs are in use, or it cannot be told whether they are: nothing was run",
        FAIL,
        "look_at_code",
        "End what uses them.",
    ),
    CodeEntry(
        "dryrun.rank_died",
        "A rank of the dry run ended of itself; the others only waited for it",
        FAIL,
        "look_at_code",
        "The message says how it ended; read the kernel log of that time.",
    ),
    CodeEntry(
        "dryrun.rank_hung",
        "A rank did not enter the collective in which the others waited",
        FAIL,
        "reset_gpu",
        "Read the kernel log of that time for an Xid first; state D means a reboot.",
    ),
    CodeEntry(
        "dryrun.straggler",
        "A rank computes longer than the others, which wait for it",
        WARN,
        "check_cooling",
        "Look at clocks, power limit, throttling and who else uses this GPU and its CPU.",
    ),
    CodeEntry(
        "dryrun.loss_not_finite",
        "A rank computed a loss that is no number",
        FAIL,
        "contact_vendor",
        "Test this GPU alone; if all ranks did, suspect precision or build first.",
    ),
    CodeEntry(
        "dryrun.gradient_not_finite",
        "A rank computed a gradient that is no number",
        FAIL,
        "contact_vendor",
        "Test this GPU alone; if only the sum overflows, take bfloat16.",
    ),
    CodeEntry(
        "dryrun.loss_differs",
        "A rank computed another loss than the others from the same batch and weights",
        FAIL,
        "contact_vendor",
        "Test this GPU alone before it is trusted.",
    ),
    CodeEntry(
        "dryrun.gradient_differs",
        "A rank computed another gradient than the others",
        FAIL,
        "contact_vendor",
        "Test this GPU alone before it is trusted.",
    ),
    CodeEntry(
        "dryrun.collective_wrong",
        "A collective handed on something else than the ranks sent",
        FAIL,
        "contact_vendor",
        "Run nccl_test with P2P on and off; look at ACS and IOMMU.",
    ),
    CodeEntry(
        "dryrun.oom",
        "An allocation failed at this size; the message names the cause",
        FAIL,
        "look_at_code",
        "Follow the advice of the finding: size, another process, fragmentation or a limit.",
    ),
    CodeEntry(
        "dryrun.alloc_retries",
        "PyTorch had to give memory back to go on: no room is left at this size",
        WARN,
        "look_at_code",
        "A smaller batch or shorter sequence, or expandable segments.",
    ),
    CodeEntry(
        "dryrun.no_gpu",
        "PyTorch could not use a GPU, or does not say which one it used",
        FAIL,
        "look_at_code",
        "Compare with nvidia-smi: driver, build of PyTorch, fabric, CUDA_VISIBLE_DEVICES.",
    ),
    CodeEntry("dryrun.rank_count", "Not as many ranks, or not as many GPUs, took part as expected", UNKNOWN, "none", _AGAIN),
    CodeEntry("dryrun.incomplete", "The dry run did not come to its end, and nothing shows why", UNKNOWN, "none", _AGAIN),
    CodeEntry("dryrun.exit_status", "torchrun ended with a bad status after a clean run", UNKNOWN, "none", _AGAIN),
    CodeEntry(
        "dryrun.drill",
        "A fault was asked for: nothing is said about the hardware",
        UNKNOWN,
        "none",
        "Unset KENTINO_DRYRUN_FAULT for a real run.",
    ),
    CodeEntry(
        "gpu.", "Something about a GPU as the driver describes it", WARN, "look_at_code", "Read the finding's own message and advice."
    ),
    CodeEntry(
        "gpu.lost", "A GPU stands on the bus or in the inventory and does not answer", FAIL, "reseat", _RESEAT + " No RMA before that."
    ),
    CodeEntry("gpu.none", "The driver sees no GPU", FAIL, "reseat", "Check power and seating, whether the driver is loaded, and lspci."),
    CodeEntry(
        "gpu.count", "Fewer or more GPUs than expected", FAIL, "reseat", "A missing GPU: check power first, then seating; lspci tells."
    ),
    CodeEntry("gpu.incomplete", "The tool's answer ends too early: what is missing is not known", UNKNOWN, "none", _AGAIN),
    CodeEntry(
        "gpu.state", "The counters of the last run could not be kept or read: growth cannot be told", INFO, "none", "Check the state file."
    ),
    CodeEntry("gpu.reset_required", "The driver itself asks for a reset of this GPU", FAIL, "reset_gpu", "Drain it, then reset it."),
    CodeEntry(
        "gpu.reboot_required", "The driver itself asks for a reboot; a reset is not enough", FAIL, "reboot_node", "Drain the node, reboot."
    ),
    CodeEntry(
        "gpu.recovery_action",
        "The driver asks for a recovery other than reset or reboot",
        FAIL,
        "contact_vendor",
        "Read the driver's word in the message: an IMEX domain is restarted, anything unknown is a question to the vendor.",
    ),
    CodeEntry(
        "gpu.value_error",
        "The GPU answers a question with an error in place of a value",
        FAIL,
        "reset_gpu",
        "Lost: reseat. External power: check the plugs. Otherwise reset it; if the errors come back, reboot, then ask the vendor.",
    ),
    CodeEntry(
        "gpu.value_missing", "A value that health depends on is not in the answer", UNKNOWN, "none", "Read it as root with a newer tool."
    ),
    # GPU: memory
    CodeEntry("gpu.ecc_uncorrectable", "Uncorrectable memory errors since the driver was loaded", FAIL, "reset_gpu", _MEMORY_RESET),
    CodeEntry(
        "gpu.ecc_correctable",
        "Corrected memory errors, more than a healthy card shows or growing",
        FAIL,
        "contact_vendor",
        "Watch the counter and plan the replacement: corrected errors that grow come before uncorrectable ones (Xid 92, then 48).",
    ),
    CodeEntry(
        "gpu.ecc_aggregate",
        "Uncorrectable memory errors in the card's past",
        WARN,
        "contact_vendor",
        "Past, as long as none is added: watch it.",
    ),
    CodeEntry(
        "gpu.ecc_mode", "ECC is not as it should be, or changes at the next reset", WARN, "reset_gpu", "Set it with nvidia-smi -e, reset."
    ),
    CodeEntry("gpu.row_remap_failed", "A bad memory row could not be replaced (as Xid 64)", FAIL, "replace", "Ask the vendor for an RMA."),
    CodeEntry("gpu.row_remap_limit", "So many rows were replaced that the card is worn out", FAIL, "replace", "Ask the vendor for an RMA."),
    CodeEntry("gpu.row_remap_pending", "A replaced row becomes active at the next reset (as Xid 63)", FAIL, "reset_gpu", _MEMORY_RESET),
    CodeEntry("gpu.row_remap_spares", "A memory bank has no spare row left", WARN, "contact_vendor", "Plan the replacement of the card."),
    CodeEntry("gpu.retired_pages", "Many memory pages are retired (before Ampere)", FAIL, "replace", "Ask the vendor for an RMA."),
    CodeEntry("gpu.retired_pages_pending", "A retired page becomes active at the next reset", FAIL, "reset_gpu", _MEMORY_RESET),
    CodeEntry("gpu.repair_pending", "A repair of the GPU waits for a reset", FAIL, "reset_gpu", _MEMORY_RESET),
    CodeEntry("gpu.unrepairable_memory", "The GPU has memory that it cannot repair", FAIL, "replace", "Ask the vendor for an RMA."),
    CodeEntry("gpu.sram", "Uncorrectable errors in on-chip memory, which has no spare rows", FAIL, "replace", "Ask the vendor for an RMA."),
    # GPU: heat and power
    CodeEntry("gpu.temperature", "The GPU is too hot", FAIL, "check_cooling", _COOLING),
    CodeEntry("gpu.memory_temperature", "The GPU's memory is too hot", WARN, "check_cooling", _COOLING),
    CodeEntry("gpu.idle_hot", "The GPU is hot without work", WARN, "check_cooling", _COOLING),
    CodeEntry("gpu.sw_thermal", "The driver lowers the clocks because of heat", WARN, "check_cooling", _COOLING),
    CodeEntry(
        "gpu.hw_slowdown",
        "Hardware cuts the clocks: heat, the power brake, or too high a draw",
        FAIL,
        "check_power",
        "Check the card's power plugs and the load of its supply, then fans and air flow.",
    ),
    CodeEntry(
        "gpu.power_limit", "The power limit is not as expected: the GPU is slower or hungrier than its siblings", WARN, "none", _SETTING
    ),
    # GPU: links
    CodeEntry("gpu.pcie_width", "The PCIe link runs with fewer lanes than it should", FAIL, "reseat", _RESEAT),
    CodeEntry(
        "gpu.pcie_gen", "The PCIe link runs slower than it should", FAIL, "reseat", "Look for a limit in the firmware setup. " + _RESEAT
    ),
    CodeEntry("gpu.pcie_replays", "The PCIe link repeats more packets than a sound one", WARN, "reseat", _RESEAT),
    CodeEntry(
        "gpu.nvlink_down", "Fewer NVLinks are up than there should be", FAIL, "reset_gpu", "Look for Xid 74 or 144 to 150; bridges: reseat."
    ),
    CodeEntry(
        "gpu.nvlink_errors", "An NVLink shows errors that grow", WARN, "contact_vendor", "Reseat bridge or board; then ask the vendor."
    ),
    CodeEntry("gpu.nvlink_unread", "The tool does not tell of NVLinks", INFO, "none", "Read them with NVML or nvidia-smi nvlink -s."),
    CodeEntry(
        "gpu.fabric",
        "The NVLink fabric is not up: the first CUDA call would fail",
        FAIL,
        "reboot_node",
        "Check that Fabric Manager runs in exactly the driver's version, then reset all GPUs together, or reboot.",
    ),
    # GPU: identity and use
    CodeEntry("gpu.device_id", "Another model than expected", FAIL, "none", "Correct the expectation or the card."),
    CodeEntry("gpu.name", "The product name is not the expected one", WARN, "none", _SETTING),
    CodeEntry("gpu.vbios", "The VBIOS is not the expected one", WARN, "contact_vendor", "Firmware comes from the vendor of the board."),
    CodeEntry("gpu.memory_total", "The GPU's memory is not as large as expected", FAIL, "contact_vendor", "Check ECC and the model first."),
    CodeEntry("gpu.unexpected", "A card that the inventory does not list", WARN, "none", "Enter the card, or find out where it came from."),
    CodeEntry("gpu.firmware_mismatch", "GPUs of one model differ in firmware or setting", WARN, "none", "Bring all of them to one state."),
    CodeEntry(
        "gpu.duplicate",
        "Two GPUs claim the same UUID or serial",
        WARN,
        "contact_vendor",
        "Read it again; a copy of firmware is a vendor's case.",
    ),
    CodeEntry("gpu.mig", "MIG mode is not as expected, or changes at the next reset", WARN, "reset_gpu", _SETTING),
    CodeEntry(
        "gpu.persistence",
        "Persistence mode is not as expected",
        WARN,
        "none",
        "Enable the unit nvidia-persistenced, or correct the inventory.",
    ),
    CodeEntry("gpu.compute_mode", "The compute mode keeps programs out", FAIL, "look_at_code", "A setting, not a fault: nvidia-smi -c 0."),
    CodeEntry(
        "gpu.foreign_process",
        "Somebody uses a GPU that should be free",
        FAIL,
        "look_at_code",
        "End what is left over, or allow it by name.",
    ),
    CodeEntry(
        "gpu.memory_held", "Memory is in use and no process is listed", WARN, "look_at_code", "Look into containers; then reset the GPU."
    ),
    # Power
    CodeEntry(
        "psu.",
        "Several GPUs are gone at once: one power supply, not so many broken GPUs",
        FAIL,
        "check_power",
        "Look at the supply that they share before touching any card: switch, mains plug, fuse, cables, the BMC's power readings.",
    ),
    # Driver, NVML, CUDA
    CodeEntry(
        "driver.", "The NVIDIA driver reports a failure without an Xid", FAIL, "reboot_node", "Read the line; then power-cycle the node."
    ),
    CodeEntry(
        "driver.not_loaded", "The NVIDIA driver is not loaded", FAIL, "reboot_node", "Check that it is built for this kernel and signed."
    ),
    CodeEntry("driver.nouveau", "The kernel drives the GPUs with nouveau", FAIL, "reboot_node", "Run the role nvidia_driver, then reboot."),
    CodeEntry("driver.not_installed", "No NVIDIA driver is installed", FAIL, "none", "Run the role nvidia_driver."),
    CodeEntry(
        "driver.not_built", "The driver has no module for the running kernel", FAIL, "none", "Install the kernel's headers; DKMS builds it."
    ),
    CodeEntry(
        "driver.no_library", "The module is loaded, and the driver's library is not installed", FAIL, "none", "Run the role nvidia_driver."
    ),
    CodeEntry(
        "driver.version_mismatch",
        "The driver was upgraded and the old one is still loaded: a reboot is pending, and the GPUs are not broken",
        FAIL,
        "reboot_node",
        "Reboot, or unload and load the nvidia modules; then hold the driver packages.",
    ),
    CodeEntry(
        "driver.reboot_pending", "Another version of the module is built than is loaded", WARN, "reboot_node", "Reboot when no job runs."
    ),
    CodeEntry(
        "driver.not_built_for_next_kernel",
        "The kernel that boots next has no module: after the next reboot there would be no GPUs",
        WARN,
        "none",
        "Install that kernel's headers; DKMS builds it.",
    ),
    CodeEntry(
        "driver.secure_boot_unsigned", "Secure Boot refuses the module", FAIL, "none", "Enrol the key that signed it (mokutil --import)."
    ),
    CodeEntry(
        "driver.secure_boot_no_key", "Secure Boot is on, and there is no key to sign modules with", WARN, "none", "Make and enrol one."
    ),
    CodeEntry(
        "driver.wrong_flavour", "The open or proprietary modules do not drive these GPUs", FAIL, "none", "Install the other flavour."
    ),
    CodeEntry("driver.foreign", "The driver came from no package", WARN, "none", "Uninstall it (nvidia-uninstall), or adopt it."),
    CodeEntry("driver.version", "The driver is not of the expected version", WARN, "none", _SETTING),
    CodeEntry("cuda.version", "CUDA is not of the expected version", WARN, "none", _SETTING),
    CodeEntry("nvml.", "NVML could not read the GPUs", UNKNOWN, "none", "Run nvidia-smi by hand and read what it says."),
    CodeEntry("nvml.permission", "The GPUs may not be read", UNKNOWN, "none", "Run it as root, or give the user access to /dev/nvidia*."),
    CodeEntry(
        "nvml.init_failed", "NVML cannot be initialised", UNKNOWN, "reboot_node", "In a container check device rights; else the kernel log."
    ),
    CodeEntry(
        "nvml.version_mismatch",
        "The driver was upgraded and the old one is still loaded: the GPUs are not broken, they cannot be judged",
        UNKNOWN,
        "reboot_node",
        "Reboot, or unload and load the nvidia modules; then hold the driver packages.",
    ),
    # Kernel log
    CodeEntry("kernel_log.", "Something about the kernel log itself", UNKNOWN, "none", "Read the finding's own message."),
    CodeEntry(
        "kernel_log.empty", "No kernel line was read, which is not evidence of health", UNKNOWN, "none", "Read it as root: journalctl -k."
    ),
    CodeEntry("kernel_log.unread", "The kernel log could not be read", UNKNOWN, "none", "Mend what the message names, then run it again."),
    CodeEntry("kernel_log.reader_failed", "The tool that printed the log ended with an error", UNKNOWN, "none", "Run it by hand, as root."),
    CodeEntry("kernel_log.unreadable", "Records of the log could not be read", UNKNOWN, "none", "Read the journal with --all."),
    CodeEntry(
        "kernel_log.unrecognised",
        "Lines speak of an Xid in no known form",
        UNKNOWN,
        "none",
        "Read them; report the wording to this project.",
    ),
    CodeEntry(
        "kernel_log.suppressed", "The log itself left lines out: counts are lower bounds", INFO, "none", "Look at what fills the log."
    ),
    CodeEntry(
        "kernel_log.gap",
        "Older lines are gone: counts are lower bounds",
        INFO,
        "none",
        "Run the check more often, or keep a larger journal.",
    ),
    CodeEntry("kernel_log.state", "The place to go on reading could not be kept", INFO, "none", "Check the state file and its folder."),
    CodeEntry("kernel_log.more", "The log shows more than a report can hold", INFO, "none", "Read the log itself on the node."),
    CodeEntry("pcie.", "A PCIe device or link failed", FAIL, "reseat", _RESEAT),
    CodeEntry(
        "storage.", "A disk or file system reports trouble", FAIL, "contact_vendor", "Save what can be saved; check SMART, seat and cable."
    ),
    CodeEntry("oom.", "The host ran out of memory and a process was killed", WARN, "restart_job", "Look at the job's need of host memory."),
    CodeEntry("kernel.", "The kernel reports something else worth knowing", WARN, "look_at_code", "Read the line."),
    # Tools, and the gate
    CodeEntry("tool.", "A tool did not do its work: nothing is known from it", UNKNOWN, "none", "Run it by hand and read what it says."),
    CodeEntry("tool.missing", "A tool or library is not installed", UNKNOWN, "none", "Install the package that the message names."),
    CodeEntry(
        "tool.garbled",
        "A tool's answer cannot be understood",
        UNKNOWN,
        "none",
        "Run it by hand, and report what it prints to this project.",
    ),
    CodeEntry(
        "tool.exit_status", "A tool ended with an error after a clean answer", UNKNOWN, "none", "Run it by hand and read what it says."
    ),
    CodeEntry(
        "tool.timeout",
        "A tool did not answer before its deadline; of nvidia-smi and NVML this often means a driver that hangs",
        UNKNOWN,
        "reboot_node",
        "Read the kernel log for Xid 119, 120 or 79 first. A longer deadline helps only on a very busy node.",
    ),
    CodeEntry(
        "gate.", "The gate could not use a result it was given", UNKNOWN, "none", "Mend what the message names, then run the check again."
    ),
    # Burn-in
    CodeEntry("burn.", "The burn-in did not show that the GPUs are sound", UNKNOWN, "none", "Read the message, then run it again."),
    CodeEntry(
        "burn.errors", "A GPU computed wrong results under load", FAIL, "replace", "If all GPUs do, suspect build, driver or power first."
    ),
    CodeEntry("burn.faulty", "gpu_burn calls a GPU faulty", FAIL, "replace", "If all GPUs are, suspect build, driver or power first."),
    CodeEntry("burn.died", "The process that loaded a GPU died", FAIL, "reset_gpu", "Read the kernel log of that time first."),
    CodeEntry(
        "burn.slow",
        "A GPU computes slower than its siblings or than it should",
        FAIL,
        "check_cooling",
        "Look at clocks, power limit, heat.",
    ),
    CodeEntry(
        "burn.no_progress",
        "A GPU did no work in the burn-in: nothing was measured",
        UNKNOWN,
        "none",
        "Run it longer; slow cards need minutes.",
    ),
    # DCGM diagnostic
    CodeEntry("dcgm.", "The DCGM diagnostic found something, or did not find out", FAIL, "contact_vendor", "Read the test's own words."),
    CodeEntry(
        "dcgm.failed", "A test of the DCGM diagnostic failed without a reason", FAIL, "contact_vendor", "Run that test again, with -v."
    ),
    CodeEntry("dcgm.warned", "A test of the DCGM diagnostic warns without a reason", WARN, "none", "Run that test again, with -v."),
    CodeEntry(
        "dcgm.nothing_ran", "No test of the DCGM diagnostic ran: nothing was measured", UNKNOWN, "none", "See what it skipped, and why."
    ),
    CodeEntry(
        "dcgm.runtime_error", "The DCGM diagnostic could not run", UNKNOWN, "none", "Mend what the message names, then run it again."
    ),
    CodeEntry("dcgm.unreadable", "The answer of the DCGM diagnostic is garbled or cut", UNKNOWN, "none", _AGAIN),
    CodeEntry("dcgm.status", "A test of the DCGM diagnostic has a status that is not known", UNKNOWN, "none", "Read it by hand."),
    CodeEntry("dcgm.overall", "DCGM calls the whole run bad, and no test shows why", UNKNOWN, "none", _AGAIN),
    CodeEntry(
        "dcgm.exit_status", "The status of the DCGM diagnostic and its results disagree", FAIL, "contact_vendor", "Run it again, with -v."
    ),
    # nccl-tests
    CodeEntry(
        "nccl.", "The bandwidth test between the GPUs did not show that they are sound", UNKNOWN, "none", "Read the message; run it again."
    ),
    CodeEntry(
        "nccl.wrong",
        "The GPUs computed wrong sums together",
        FAIL,
        "contact_vendor",
        "Trust no result of this node; find the GPU by burn-in.",
    ),
    CodeEntry(
        "nccl.slow",
        "The bus bandwidth is below what this platform reaches",
        FAIL,
        "look_at_code",
        "Check PCIe width, P2P, topology, Fabric Manager.",
    ),
    CodeEntry(
        "nccl.failure",
        "NCCL or CUDA failed during the test",
        FAIL,
        "look_at_code",
        "Read the kernel log of that time, then NCCL_DEBUG=INFO.",
    ),
    CodeEntry("nccl.crashed", "A process of the bandwidth test crashed", FAIL, "look_at_code", "Read the kernel log of that time first."),
    CodeEntry("nccl.last_error", "NCCL names an error although the test ended", WARN, "look_at_code", "Run it again with NCCL_DEBUG=INFO."),
    CodeEntry("nccl.not_validated", "Bandwidth was measured, the results were not checked", WARN, "none", "Run it with -c 1."),
    CodeEntry("nccl.warning", "NCCL printed a warning", INFO, "none", "Read it; it did not stop the test."),
    CodeEntry(
        "nccl.rows_missing", "The table has fewer sizes than were asked for", INFO, "none", "Mostly too little memory for the largest ones."
    ),
    # Under load: what was seen of the GPUs while burn-in or a test loaded them
    CodeEntry("load.", "What was seen of a GPU under load is not as it should be", WARN, "none", "Read the message."),
    CodeEntry(
        "load.throttled",
        "Clocks were cut under load because of heat or power",
        FAIL,
        "check_cooling",
        "Too hot: fans, air flow, dust. Power brake: plugs, cables and the load of the power supply.",
    ),
    CodeEntry("load.link_fell", "The PCIe link fell to a slower speed under load and stayed there", FAIL, "reseat", _RESEAT),
    CodeEntry(
        "load.low_power",
        "The GPU never came near its power limit under load, so full load was not tested",
        WARN,
        "check_power",
        "Run it with tensor cores and most of the memory. One GPU below its siblings: look at its clocks and cables.",
    ),
    CodeEntry(
        "load.low_clock",
        "A GPU runs at lower clocks than its siblings under the same load",
        WARN,
        "check_cooling",
        "Look at heat and power.",
    ),
    CodeEntry("load.unseen", "A GPU was never seen under load, although it should have been loaded", UNKNOWN, "none", _AGAIN),
    CodeEntry(
        "load.unsampled",
        "The driver told nothing of the GPUs for too long while they were loaded",
        UNKNOWN,
        "none",
        "A driver that blocks under load is a sign by itself: look at corrected memory errors and at the kernel log.",
    ),
    CodeEntry("load.shared", "Others came onto a GPU while it was tested", WARN, "look_at_code", "Keep the node free; run it again."),
    CodeEntry("load.progress", "How far a test is could not be told meanwhile", INFO, "none", "Check the file and its folder."),
    CodeEntry("load.left_running", "Something of a test still uses a GPU after it was killed", WARN, "look_at_code", "End it by hand."),
    # Steps of a preflight
    CodeEntry(
        "burn.busy", "GPUs are in use, or it cannot be told whether they are: nothing was run", FAIL, "look_at_code", "End what uses them."
    ),
    CodeEntry("burn.stopped", "The burn-in was stopped early, on a failure that is certain", FAIL, "none", "See what it was stopped for."),
    CodeEntry(
        "dcgm.busy", "GPUs are in use, or it cannot be told whether they are: nothing was run", FAIL, "look_at_code", "End what uses them."
    ),
    CodeEntry(
        "dcgm.mig",
        "MIG is on: the diagnostic cannot run on this node",
        UNKNOWN,
        "none",
        "Turn MIG off for the test, or test the jobs' way.",
    ),
    CodeEntry(
        "dcgm.retried",
        "A test that is known to fail right after another passed when run again",
        INFO,
        "none",
        "Nothing: both results are kept.",
    ),
    CodeEntry(
        "dcgm.profiling",
        "Metrics of the exporter could not be paused during the test",
        INFO,
        "none",
        "Nothing, unless tests failed for it.",
    ),
    CodeEntry(
        "dcgm.profiling_paused",
        "Metrics of the exporter are still paused after the test",
        WARN,
        "none",
        "Run dcgmi profile --resume, or restart the exporter.",
    ),
    CodeEntry(
        "nccl.busy", "GPUs are in use, or it cannot be told whether they are: nothing was run", FAIL, "look_at_code", "End what uses them."
    ),
    CodeEntry(
        "nccl.p2p_hang",
        "Peer-to-peer transfers hang; without them the GPUs work together",
        WARN,
        "look_at_code",
        "Run jobs with NCCL_P2P_DISABLE=1, or look at IOMMU, ACS and BAR size.",
    ),
    CodeEntry(
        "nccl.p2p_failed",
        "The test fails with peer-to-peer transfers; without them the GPUs work together",
        WARN,
        "look_at_code",
        "Run jobs with NCCL_P2P_DISABLE=1, or look at IOMMU, ACS and BAR size.",
    ),
    CodeEntry("nccl.p2p_slow", "Peer-to-peer transfers make it slower", INFO, "none", "Run jobs with NCCL_P2P_DISABLE=1."),
    CodeEntry("nccl.p2p_off", "It works with peer-to-peer transfers only", INFO, "none", "Nothing, as that is the default."),
    CodeEntry("nccl.stopped", "The test was stopped early, on a failure that is certain", FAIL, "none", "See what it was stopped for."),
    CodeEntry("nccl.search", "The search for the bad node did not come to its end", INFO, "none", "Run it over fewer nodes."),
    CodeEntry("nccl.report", "The test's own report file could not be used; its printed table was", INFO, "none", "Nothing."),
    CodeEntry("nccl.disagree", "Printed table and report file of one run disagree: neither is believed", UNKNOWN, "none", _AGAIN),
    CodeEntry(
        "nccl.slow_node", "Every group of nodes with this one in it is slow or fails", FAIL, "look_at_code", "Look at its NICs and cables."
    ),
    CodeEntry(
        "nccl.between_nodes",
        "Groups of nodes are good by themselves and bad together",
        FAIL,
        "look_at_code",
        "Look at the switches and cables between them.",
    ),
    # The environment of training
    CodeEntry("training_env.", "The environment that training starts with is not as it should be", WARN, "none", "Read the message."),
    CodeEntry("training_env.absent", "A file of the profile is not there", WARN, "none", "Run the role training_env."),
    CodeEntry(
        "training_env.conflict",
        "Somebody else sets another value than the profile",
        WARN,
        "look_at_code",
        "Put the value into training_env_extra, or take it out there.",
    ),
    CodeEntry(
        "training_env.deprecated", "A variable has an old name, or one that is read no more", WARN, "look_at_code", "Write the new name."
    ),
    CodeEntry(
        "training_env.differs",
        "A file of the profile was changed by hand",
        WARN,
        "none",
        "Run the role training_env; what should stay belongs into training_env_extra.",
    ),
    CodeEntry(
        "training_env.dump_left",
        "Dumps of earlier runs are in the way of new ones",
        WARN,
        "look_at_code",
        "Read them, then move them away.",
    ),
    CodeEntry(
        "training_env.dump_path",
        "Training users cannot write dumps of the flight recorder",
        FAIL,
        "look_at_code",
        "Run the role training_env.",
    ),
    CodeEntry(
        "training_env.dump_space",
        "There is too little room for dumps of the flight recorder",
        FAIL,
        "look_at_code",
        "Make room, or name another folder in training_env_dump_path.",
    ),
    CodeEntry("training_env.leftover", "A setting for finding faults is still there", WARN, "look_at_code", "Take it out."),
    CodeEntry(
        "training_env.memlock",
        "Processes may lock too little memory for RDMA",
        FAIL,
        "look_at_code",
        "Look at limits.d, LimitMEMLOCK and what started the node's container.",
    ),
    CodeEntry("training_env.misspelt", "A variable has a name that nothing reads", WARN, "look_at_code", "Correct the name."),
    CodeEntry(
        "training_env.names_for_all",
        "The version of PyTorch is not known: old and new names are set",
        INFO,
        "none",
        "Set training_env_torch_version or training_env_torch_python.",
    ),
    CodeEntry("training_env.not_asked", "A shell or unit could not be asked what it has", UNKNOWN, "none", _AGAIN),
    CodeEntry(
        "training_env.not_in_effect",
        "A shell or unit does not have the profile",
        FAIL,
        "look_at_code",
        "Look at what that shell reads, or at the unit's drop-ins.",
    ),
    CodeEntry(
        "training_env.p2p",
        "The NCCL test was better without peer-to-peer, and it is on",
        WARN,
        "look_at_code",
        "Set training_env_nccl_p2p to measured or off.",
    ),
    CodeEntry(
        "training_env.p2p_unmeasured",
        "Peer-to-peer between the PCIe cards was not measured",
        INFO,
        "none",
        "Run the preflight with its step nccl, then the role training_env.",
    ),
    CodeEntry(
        "training_env.shm",
        "/dev/shm is smaller than asked for",
        FAIL,
        "look_at_code",
        "Set training_env_shm_size; a container needs --shm-size.",
    ),
    CodeEntry(
        "training_env.torch",
        "The Python that was named does not tell its PyTorch",
        UNKNOWN,
        "none",
        "Install PyTorch there, or name another Python.",
    ),
    CodeEntry("training_env.unreadable", "Files or processes could not be looked at", UNKNOWN, "none", _AGAIN),
)


def lookup(code: str) -> t.Optional[CodeEntry]:
    """The entry of a code: its own, else that of its longest known beginning; None for a code of no known family."""
    event = EVENTS.get(code)
    if event is not None:
        return CodeEntry(code, event.meaning, _WEIGHTS[event.severity], event.action, event.advice)
    number = re.match(r"dcgm\.(\d{1,6})$", code)
    if number:
        error = dcgm_errors.lookup(int(number.group(1)))
        meaning = "DCGM diagnostic, error %d: %s" % (error.number, error.meaning)
        return CodeEntry(code, meaning, _WEIGHTS[error.severity], error.action, error.advice)
    fitting = [entry for entry in CODES if entry.code == code or _begins(code, entry.code)]
    return max(fitting, key=lambda entry: len(entry.code), default=None)


def _begins(code: str, beginning: str) -> bool:
    """Whole words only: gpu.sram begins gpu.sram_threshold, gpu.name does not begin gpu.names."""
    return code.startswith(beginning) and len(code) > len(beginning) and (beginning.endswith(".") or code[len(beginning)] == "_")
