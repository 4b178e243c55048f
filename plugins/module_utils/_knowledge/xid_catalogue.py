# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every Xid number means and what a person does about it. Private to kentino.gpu.

Severity and action follow NVIDIA's reading: the Xid catalogue spreadsheet dated 2025-09-30 (it ends at 172), the older Xid
listing, and the open driver 595.45.04 for later numbers. Others who keep such tables (leptonai gpud, NVIDIA NVSentinel,
NVIDIA k8s-device-plugin, Azure health checks, sichek, AWS) are named in the rationale where they disagree. Where NVIDIA says
nothing need be done and another table calls the same number fatal, the entry is at most a warning.
"""

from __future__ import annotations

import dataclasses
import typing as t
from dataclasses import dataclass

from .._report.model import ACTIONS, SEVERITIES


@dataclass(frozen=True)
class XidEntry:
    """One Xid number. Severity and action speak of a single event; what an incident comes to is the judge's business."""

    number: int
    symbol: str  # the driver's own name
    meaning: str  # what happened, without a full stop
    sources: t.Tuple[str, ...]  # where the trouble can come from; empty where nobody says
    severity: str
    action: str
    later_action: str  # when it comes back
    app_caused: str  # can an application alone cause it: yes possible no unknown
    advice: str  # what a person does, beyond the action word
    rationale: str  # NVIDIA's reading, and who disagrees
    applies_to: t.Tuple[str, ...]  # of A100 H100 B100 GB200; empty: none of these, older or other chips only
    since: str = ""  # driver from which this number, or its link to Xid 154, exists
    seen_with: str = ""  # what else the driver prints with it
    page: bool = False  # somebody is called at the first line, whatever the incident comes to
    decided_by: str = ""  # message or subcode: the text of the line decides, severity and action here are what holds without it
    known: bool = True
    overridden: t.FrozenSet[str] = frozenset()  # fields that the inventory set


HW, FW, DRIVER, APP = "hardware", "firmware", "driver", "application"
PCIE, NVLINK, C2C = "PCIe", "NVLink", "chip-to-chip link"
SYSMEM, FBMEM, THERMAL, POWER = "system memory", "GPU memory", "heat", "power"

A100_ON = ("A100", "H100", "B100", "GB200")
H100_ON = ("H100", "B100", "GB200")
BLACKWELL = ("B100", "GB200")

_R565 = "Xid 154 follows it from driver R565 (CUDA 12.7)"
_R575 = "Xid 154 follows it from driver R575 (CUDA 12.9)"
_NEWER = "open driver 595; newer than NVIDIA's public catalogue, which ends at 172"

_FIFO = "Command (push buffer) stream to the GPU was malformed or corrupted"
_FIFO_SOURCES = (DRIVER, SYSMEM, PCIE, FBMEM)


def _legacy(
    number: int,
    symbol: str,
    meaning: str,
    sources: t.Tuple[str, ...],
    app_caused: str,
    severity: str = "warning",
    more: str = "",
    advice: str = "",
) -> XidEntry:
    """A number that NVIDIA's catalogue marks unused on A100 and later; old drivers and old chips still print it."""
    return XidEntry(
        number,
        symbol,
        meaning,
        sources,
        severity,
        action="contact_vendor",
        later_action="contact_vendor",
        app_caused=app_caused,
        advice=advice
        or "Save nvidia-bug-report and the kernel log, note card and driver version, and ask the vendor. Update an old driver first.",
        rationale="NVIDIA's catalogue marks the number unused on A100 to GB200 (its mark may mean V100 or older only) and says to"
        " contact support; the older listing still describes it." + (" " + more if more else ""),
        applies_to=(),
    )


def _engine(
    number: int,
    symbol: str,
    meaning: str,
    sources: t.Tuple[str, ...] = (HW, DRIVER),
    applies_to: t.Tuple[str, ...] = A100_ON,
    more: str = "",
) -> XidEntry:
    """An exception in one of the GPU's fixed-function engines."""
    return XidEntry(
        number,
        symbol,
        meaning,
        sources,
        severity="warning",
        action="restart_job",
        later_action="contact_vendor",
        app_caused="possible",
        advice="Restart the job. The same engine failing again on the same GPU, with other jobs, points to the card: run a diagnostic on"
        " it.",
        rationale="NVIDIA: restart the application, contact support if it stays." + (" " + more if more else ""),
        applies_to=applies_to,
    )


def _copy_engine(number: int, engine: int, applies_to: t.Tuple[str, ...], more: str = "") -> XidEntry:
    symbol, meaning = "ROBUST_CHANNEL_CE%d_ERROR" % engine, "Copy engine %d raised an exception" % engine
    return _engine(number, symbol, meaning, (HW, DRIVER, APP), applies_to, more)


_CE_OLD = "The older listing and gpud call the number unused."
_CE_NEW = "Blackwell only; the older listing and gpud call the number reserved."


def _nvlink5(
    number: int,
    symbol: str,
    meaning: str,
    sources: t.Tuple[str, ...],
    severity: str,
    action: str,
    more: str,
    app_caused: str = "no",
) -> XidEntry:
    """NVLink of Blackwell: one number holds harmless and fatal events, the words and registers behind it tell them apart."""
    return XidEntry(
        number,
        symbol,
        meaning,
        sources,
        severity,
        action,
        later_action="contact_vendor",
        app_caused=app_caused,
        advice="Read the words after the number (unit, Fatal or Nonfatal, link) and follow Xid 154 where the driver printed one."
        " If several GPUs complain at once, look for the one device or cable at the other end first.",
        rationale="NVIDIA decodes it by unit, interrupt word and error status; where the text and the decode sheet disagree the worse"
        " is taken. gpud reads other bits of the interrupt word. " + more,
        applies_to=BLACKWELL,
        since=_R565,
        seen_with="45 for the jobs that lose their channels, 154 with the recovery action, the same family on the peers",
        decided_by="subcode",
    )


# Reads on from number to number; a test holds it complete and in order.
ENTRIES: t.Tuple[XidEntry, ...] = (
    _legacy(1, "ROBUST_CHANNEL_FIFO_ERROR_FIFO_METHOD", _FIFO, _FIFO_SOURCES, "possible"),
    _legacy(2, "ROBUST_CHANNEL_FIFO_ERROR_SW_METHOD", _FIFO, _FIFO_SOURCES, "possible"),
    _legacy(3, "ROBUST_CHANNEL_FIFO_ERROR_UNK_METHOD", _FIFO, _FIFO_SOURCES, "possible"),
    _legacy(4, "ROBUST_CHANNEL_FIFO_ERROR_CHANNEL_BUSY", _FIFO, _FIFO_SOURCES, "possible"),
    _legacy(5, "ROBUST_CHANNEL_FIFO_ERROR_RUNOUT_OVERFLOW", "Reserved number, its meaning was never published", (), "unknown"),
    _legacy(6, "ROBUST_CHANNEL_FIFO_ERROR_PARSE_ERR", "Command stream could not be parsed by the front end", _FIFO_SOURCES, "possible"),
    _legacy(7, "ROBUST_CHANNEL_FIFO_ERROR_PTE_ERR", "Push buffer address invalid or corrupted", (DRIVER, PCIE, FBMEM), "no"),
    XidEntry(
        8,
        "ROBUST_CHANNEL_FIFO_ERROR_IDLE_TIMEOUT",
        "GPU made no progress on a channel within the time allowed",
        (DRIVER, APP, PCIE, THERMAL),
        severity="warning",
        action="restart_job",
        later_action="contact_vendor",
        app_caused="possible",
        advice="Restart the job. If it comes back on the same GPU look at its temperature and its PCIe link before blaming the code.",
        rationale="NVIDIA: restart the application, then contact support. The older listing names application, driver, bus and heat.",
        applies_to=A100_ON,
    ),
    _legacy(
        9, "ROBUST_CHANNEL_GR_ERROR_INSTANCE", "Driver programmed the GPU wrongly", (DRIVER,), "no", "critical", "gpud: fatal, reboot."
    ),
    _legacy(10, "ROBUST_CHANNEL_GR_ERROR_SINGLE_STEP", "Single-step trap", (), "unknown"),
    XidEntry(
        11,
        "ROBUST_CHANNEL_GR_ERROR_MISSING_HW",
        "Command stream invalid or corrupted (it names a unit this GPU does not have)",
        (DRIVER, SYSMEM, PCIE, FBMEM),
        severity="warning",
        action="restart_job",
        later_action="look_at_code",
        app_caused="possible",
        advice="Restart the job. If it comes back check that the program was built for this GPU and this CUDA version.",
        rationale="NVIDIA: restart the application, then check application and CUDA. gpud: warning.",
        applies_to=A100_ON,
    ),
    _legacy(
        12,
        "ROBUST_CHANNEL_GR_ERROR_SW_METHOD",
        "Driver failed while handling a GPU exception",
        (DRIVER,),
        "no",
        "critical",
        "gpud: fatal, reboot.",
    ),
    XidEntry(
        13,
        "ROBUST_CHANNEL_GR_EXCEPTION / ROBUST_CHANNEL_GR_ERROR_SW_NOTIFY",
        "Graphics or compute engine exception: illegal instruction, out-of-range address, warp or class error",
        (HW, DRIVER, APP, SYSMEM, PCIE, THERMAL, FBMEM),
        severity="warning",
        action="look_at_code",
        later_action="contact_vendor",
        app_caused="yes",
        advice="Look at the CUDA kernel of the named process (compute-sanitizer finds the access). The same GPC and TPC failing again"
        " with other processes points to the card: run a diagnostic on it.",
        rationale="NVIDIA: restart the application; the same GPC and TPC repeating is suspected hardware, a single or wandering place is"
        " the application. NVIDIA's Kubernetes plugin does not count it as a health matter; gpud: warning.",
        applies_to=A100_ON,
        seen_with="several lines for one fault (warp, global exception, registers), then 43 or 45; a 109 that follows decides instead",
    ),
    XidEntry(
        14,
        "ROBUST_CHANNEL_FAKE_ERROR",
        "Test error injected from user space",
        (APP,),
        severity="info",
        action="none",
        later_action="contact_vendor",
        app_caused="yes",
        advice="Find out who injects errors here. Only drivers older than about 2012 printed real channel faults under this number.",
        rationale="NVIDIA: ignore. gpud: warning.",
        applies_to=A100_ON,
    ),
    _legacy(15, "ROBUST_CHANNEL_SCANLINE_TIMEOUT", "Wait for a scan line timed out", (), "unknown"),
    _legacy(
        16,
        "ROBUST_CHANNEL_VBLANK_CALLBACK_TIMEOUT",
        "Display engine missed its vertical blank callback (display hung)",
        (DRIVER,),
        "no",
        more="gpud: fatal, reboot, though compute nodes drive no display.",
    ),
    _legacy(17, "ROBUST_CHANNEL_PARAMETER_ERROR", "Parameter error, reserved number", (), "unknown"),
    _legacy(
        18,
        "ROBUST_CHANNEL_BUS_MASTER_TIMEOUT_ERROR",
        "Bus mastering found switched off in the GPU's PCI configuration space",
        (DRIVER,),
        "no",
        "critical",
        "gpud: fatal, reboot.",
    ),
    _legacy(19, "ROBUST_CHANNEL_DISP_MISSED_NOTIFIER", "Display engine notifier missed", (DRIVER,), "no", more="gpud: fatal, reboot."),
    _legacy(20, "ROBUST_CHANNEL_MPEG_ERROR_SW_METHOD", "Command stream of the MPEG engine invalid", _FIFO_SOURCES, "possible"),
    _legacy(21, "ROBUST_CHANNEL_ME_ERROR_SW_METHOD", "Command stream of the motion-estimation engine invalid", _FIFO_SOURCES, "possible"),
    _legacy(22, "ROBUST_CHANNEL_VP_ERROR_SW_METHOD", "Command stream of the video processor invalid", _FIFO_SOURCES, "possible"),
    _legacy(23, "ROBUST_CHANNEL_RC_LOGGING_ENABLED", "Logging of channel faults was switched on", (), "unknown"),
    _legacy(
        24,
        "ROBUST_CHANNEL_GR_SEMAPHORE_TIMEOUT",
        "Wait for a semaphore on the GPU timed out",
        (DRIVER, APP, SYSMEM, PCIE, THERMAL, FBMEM),
        "possible",
    ),
    XidEntry(
        25,
        "ROBUST_CHANNEL_GR_ILLEGAL_NOTIFY",
        "Command stream invalid or illegal (illegal notification)",
        (DRIVER, APP, SYSMEM, PCIE, FBMEM),
        severity="warning",
        action="restart_job",
        later_action="look_at_code",
        app_caused="possible",
        advice="Restart the job. If it comes back check the program and its CUDA version.",
        rationale="NVIDIA: restart the application, then check application and CUDA. gpud: warning.",
        applies_to=A100_ON,
    ),
    _legacy(
        26,
        "ROBUST_CHANNEL_FIFO_ERROR_FBISTATE_TIMEOUT",
        "Frame buffer interface timed out",
        (DRIVER,),
        "no",
        "critical",
        "gpud: fatal, reboot.",
    ),
    _legacy(27, "ROBUST_CHANNEL_VP_ERROR", "Exception in an old video engine", (DRIVER,), "possible", more="gpud: fatal, reboot."),
    _legacy(28, "ROBUST_CHANNEL_VP2_ERROR", "Exception in an old video engine", (DRIVER,), "possible", more="gpud: fatal, reboot."),
    _legacy(29, "ROBUST_CHANNEL_BSP_ERROR", "Exception in an old video engine", (DRIVER,), "possible", more="gpud: fatal, reboot."),
    _legacy(
        30,
        "ROBUST_CHANNEL_BAD_ADDR_ACCESS",
        "Bad address in a semaphore access",
        (DRIVER,),
        "possible",
        more="Driver 595 calls it unused error 30. gpud: fatal, reboot.",
    ),
    XidEntry(
        31,
        "ROBUST_CHANNEL_FIFO_ERROR_MMU_ERR_FLT",
        "GPU memory page fault: an engine touched an unmapped or forbidden virtual address",
        (HW, DRIVER, APP),
        severity="warning",
        action="look_at_code",
        later_action="contact_vendor",
        app_caused="yes",
        advice="Look at the program that the line names (compute-sanitizer finds the access). The same GPU faulting again under"
        " different jobs, and no other GPU, points to the card: run a diagnostic on it.",
        rationale="NVIDIA: restart the application; repeats on one GPU under different jobs are suspected hardware, faults on different"
        " GPUs are the application. sichek rates it critical; gpud: warning.",
        applies_to=A100_ON,
        seen_with="43 or 45 for the process that is ended",
    ),
    XidEntry(
        32,
        "ROBUST_CHANNEL_PBDMA_ERROR",
        "DMA engine that fetches the command stream over PCIe found it corrupted or invalid",
        (DRIVER, SYSMEM, PCIE, THERMAL, FBMEM),
        severity="critical",
        action="restart_job",
        later_action="reseat",
        app_caused="no",
        advice="Restart the job, then read the PCIe replay counter and the AER lines of the slot. If it comes back suspect riser, slot or"
        " cable rather than the program.",
        rationale="NVIDIA: mostly signal quality on PCIe and generally not the application, yet its bucket says restart the application and"
        " check it. gpud: fatal, reboot and inspection.",
        applies_to=A100_ON,
        seen_with="PCIe AER lines of the port above the GPU",
    ),
    _legacy(
        33,
        "ROBUST_CHANNEL_SEC_ERROR",
        "Error in the internal security micro-controller",
        (DRIVER,),
        "no",
        "critical",
        "gpud: fatal, reboot.",
    ),
    _legacy(34, "ROBUST_CHANNEL_MSVLD_ERROR", "Exception in an old video decoder", (DRIVER,), "possible", more="gpud: fatal, reboot."),
    _legacy(35, "ROBUST_CHANNEL_MSPDEC_ERROR", "Exception in an old video decoder", (DRIVER,), "possible", more="gpud: fatal, reboot."),
    _legacy(
        36, "ROBUST_CHANNEL_MSPPP_ERROR", "Exception in an old video post-processor", (DRIVER,), "possible", more="gpud: fatal, reboot."
    ),
    XidEntry(
        37,
        "ROBUST_CHANNEL_FECS_ERR_UNIMP_FIRMWARE_METHOD",
        "Context-switch firmware was given a method it does not know",
        (DRIVER, SYSMEM, PCIE),
        severity="warning",
        action="none",
        later_action="look_at_code",
        app_caused="possible",
        advice="Note it. If it comes back check the program and its CUDA version.",
        rationale="NVIDIA: ignore, then check the application. Absent from the open driver 595. gpud: warning.",
        applies_to=A100_ON,
    ),
    XidEntry(
        38,
        "ROBUST_CHANNEL_FECS_ERR_WATCHDOG_TIMEOUT",
        "Watchdog of the context-switch firmware timed out",
        (DRIVER,),
        severity="warning",
        action="none",
        later_action="contact_vendor",
        app_caused="no",
        advice="Note it and watch the GPU. If it comes back save nvidia-bug-report and ask the vendor.",
        rationale="NVIDIA: ignore, contact support if it recurs. gpud disagrees: fatal, reboot and inspection. NVIDIA's reading is kept, so"
        " it warns and does not stop a run.",
        applies_to=A100_ON,
    ),
    _copy_engine(39, 0, A100_ON, _CE_OLD),
    _copy_engine(40, 1, A100_ON, _CE_OLD),
    _copy_engine(41, 2, A100_ON, _CE_OLD),
    _legacy(
        42, "ROBUST_CHANNEL_VIC_ERROR", "Video image compositor raised an exception", (DRIVER,), "possible", more="gpud: fatal, reboot."
    ),
    XidEntry(
        43,
        "ROBUST_CHANNEL_RESETCHANNEL_VERIF_ERROR",
        "A channel was reset after a fault made by software: the process ends, the GPU stays healthy",
        (DRIVER, APP),
        severity="warning",
        action="look_at_code",
        later_action="contact_vendor",
        app_caused="yes",
        advice="Look at the program that the line names. Where 13, 31, 69 or a worse number stands before it, that one is the cause.",
        rationale="NVIDIA: ignore, the GPU is healthy; contact support if it recurs without a cause. gpud: warning.",
        applies_to=A100_ON,
        seen_with="13, 31 or 69 before it: those are the cause",
    ),
    XidEntry(
        44,
        "ROBUST_CHANNEL_GR_FAULT_DURING_CTXSW",
        "Graphics engine faulted while switching contexts",
        (DRIVER,),
        severity="warning",
        action="none",
        later_action="contact_vendor",
        app_caused="no",
        advice="Note it and watch the GPU. If it comes back save nvidia-bug-report and ask the vendor.",
        rationale="NVIDIA: ignore, contact support if it recurs. gpud disagrees: fatal, reboot and inspection, after the DeepSeek"
        " Fire-Flyer paper. NVIDIA's reading is kept, so it warns and does not stop a run.",
        applies_to=A100_ON,
    ),
    XidEntry(
        45,
        "ROBUST_CHANNEL_PREEMPTIVE_REMOVAL",
        "A channel was torn down early: Ctrl-C, a killed process, a GPU reset, or the clean-up after another Xid",
        (DRIVER, APP),
        severity="warning",
        action="look_at_code",
        later_action="contact_vendor",
        app_caused="yes",
        advice="Follow the Xid that stands before it or that it names as its cause. Alone it only says that a process ended or was killed;"
        " alone on an NVSwitch machine, restart Fabric Manager with no job running.",
        rationale="NVIDIA: with another Xid ignore it and follow the other; alone, restart Fabric Manager on NVSwitch systems. gpud:"
        " ignore.",
        applies_to=A100_ON,
        since="newer drivers (about 580) add 'caused by previous Xid N'",
        seen_with="any Xid that ends a job; one line for each channel, often dozens",
    ),
    XidEntry(
        46,
        "ROBUST_CHANNEL_GPU_TIMEOUT_ERROR",
        "GPU stopped processing (engine timeout)",
        (DRIVER,),
        severity="critical",
        action="reset_gpu",
        later_action="contact_vendor",
        app_caused="no",
        advice="Stop the jobs on this GPU and reset it; power-cycle the node if the reset fails.",
        rationale="NVIDIA: reset the GPU, then contact support. gpud: fatal, reboot. The line may carry nothing after the number.",
        applies_to=A100_ON,
    ),
    _legacy(47, "ROBUST_CHANNEL_NVENC0_ERROR", "Video encoder 0 raised an exception", (DRIVER,), "possible", more="gpud: fatal, reboot."),
    XidEntry(
        48,
        "ROBUST_CHANNEL_GPU_ECC_DBE",
        "Uncorrectable (double-bit) ECC error in GPU memory or in an on-chip memory",
        (HW,),
        severity="critical",
        action="reset_gpu",
        later_action="contact_vendor",
        app_caused="no",
        advice="Stop the jobs on this GPU and reset it, so that the bad row is replaced by a spare. Then read the remapped rows: a failed"
        " remapping (Xid 64) or no spare left means replace the card. If the line names an SRAM, check whether its error threshold"
        " is exceeded. If it comes back run the vendor's field diagnostic.",
        rationale="NVIDIA: alone, reset the GPU; with 63 or 64, drain and reset. gpud: fatal, reboot and inspection. Before Ampere a"
        " page is retired instead of a row remapped, active after a driver reload.",
        applies_to=A100_ON,
        since=_R565 + "; newer drivers add 171 or 172 for the same event",
        seen_with="63 or 64 (repair recorded or failed), 94 or 95 (contained or not), 171 or 172 (which memory), 45: one event, not"
        " several",
        page=True,
    ),
    _legacy(49, "SILENT_RUNNING_CONSTANT_LEVEL_SET_BY_REGISTRY", "Silent-running level set by the driver's registry", (), "no"),
    _legacy(50, "SILENT_RUNNING_LEVEL_TRANSITION_DUE_TO_RC_ERROR", "Silent-running level changed after a channel fault", (), "no"),
    _legacy(51, "SILENT_RUNNING_STRESS_TEST_FAILURE", "Silent-running stress test failed", (), "no"),
    _legacy(52, "SILENT_RUNNING_LEVEL_TRANS_DUE_TO_TEMP_RISE", "Clock level changed because of a rise in temperature", (), "no"),
    _legacy(53, "SILENT_RUNNING_TEMP_REDUCED_CLOCKING", "Clocks lowered because of temperature", (), "no"),
    XidEntry(
        54,
        "SILENT_RUNNING_PWR_REDUCED_CLOCKING",
        "Auxiliary power is not connected to the board",
        (HW, POWER),
        severity="critical",
        action="reseat",
        later_action="contact_vendor",
        app_caused="no",
        advice="Switch the node off, reseat the card's power plugs at both ends, and check for a loose or scorched contact.",
        rationale="NVIDIA: check the mechanics, then contact support; not on GB200. gpud: only a warning.",
        applies_to=("A100", "H100", "B100"),
    ),
    _legacy(55, "SILENT_RUNNING_TEMPERATURE_READ_ERROR", "Temperature sensor could not be read", (), "no"),
    _legacy(
        56,
        "DISPLAY_CHANNEL_EXCEPTION",
        "Display channel raised an exception",
        (HW, DRIVER),
        "possible",
        more="Azure's check: node fault; gpud: warning.",
    ),
    _legacy(
        57,
        "FB_LINK_TRAINING_FAILURE_ERROR",
        "Training of the memory interface failed",
        (HW, DRIVER, FBMEM),
        "no",
        "critical",
        "Azure's check: node fault; gpud: warning.",
    ),
    _legacy(
        58,
        "FB_MEMORY_ERROR",
        "Memory interface found unstable",
        (HW, DRIVER),
        "no",
        "critical",
        "Azure's check: node fault; gpud: warning.",
    ),
    _legacy(59, "PMU_ERROR", "Power-management controller failed (older drivers)", (DRIVER,), "no", "critical", "gpud: fatal, reboot."),
    _engine(
        60,
        "ROBUST_CHANNEL_SEC2_ERROR",
        "Security engine SEC2 or video processor raised an exception",
        (DRIVER,),
        more="Its catalogue names software as the thing to look into. gpud disagrees: fatal, reboot.",
    ),
    _legacy(61, "PMU_BREAKPOINT", "Power-management controller hit a breakpoint", (), "no", "critical", "gpud: fatal, reboot."),
    XidEntry(
        62,
        "PMU_HALT_ERROR",
        "Power-management controller of the GPU halted",
        (HW, DRIVER, THERMAL),
        severity="critical",
        action="reset_gpu",
        later_action="contact_vendor",
        app_caused="no",
        advice="Stop the jobs on this GPU and reset it. If it comes back look at temperature, power and VBIOS version before the card is"
        " sent in.",
        rationale="NVIDIA: reset the GPU, then contact support. gpud: fatal, reboot and inspection. The text is hexadecimal words only.",
        applies_to=A100_ON,
        since=_R565,
        seen_with="154 with the recovery action, 45",
    ),
    XidEntry(
        63,
        "INFOROM_DRAM_RETIREMENT_EVENT",
        "A memory repair was recorded: a row will be remapped (Ampere and later) or a page retired (older)",
        (HW, DRIVER, FBMEM),
        severity="warning",
        action="reset_gpu",
        later_action="contact_vendor",
        app_caused="no",
        advice="No need to stop the job: the repair is recorded and becomes active at the next GPU reset, so reset when convenient. Watch"
        " how many spare rows are left. With 48, drain and reset now.",
        rationale="NVIDIA: nothing to do at once, the remapping needs a reset to become active. gpud: fatal, reboot; sichek: critical while"
        " pending; imbue: bad. Sites that drained nodes on 63 lost good nodes, so it is recorded and warned about.",
        applies_to=A100_ON,
        since=_R565,
        seen_with="48 (the error), 94 or 95 (contained or not), 45",
        page=True,
    ),
    XidEntry(
        64,
        "INFOROM_DRAM_RETIREMENT_FAILURE",
        "A memory repair failed: no spare row is left, or the repair could not be recorded",
        (HW, DRIVER),
        severity="critical",
        action="replace",
        later_action="replace",
        app_caused="no",
        advice="Take the GPU out of service. Reset it once and read the remapped rows: a remapping failure is the vendor's own criterion"
        " for a return, so save nvidia-bug-report and open the case.",
        rationale="NVIDIA: reset the GPU at once and contact support; a remapping failure is an RMA criterion, and AWS moved the number"
        " from reset to isolate for that reason. gpud: fatal. On Blackwell it comes only when channel repair is used up.",
        applies_to=A100_ON,
        since=_R565,
        seen_with="48 before it; a 94 after it asks only for a restart and is not the decision",
    ),
    _legacy(
        65,
        "ROBUST_CHANNEL_NVENC1_ERROR",
        "Video encoder 1 raised an exception",
        (HW, DRIVER),
        "possible",
        more="gpud: fatal, reboot and inspection.",
    ),
    XidEntry(
        66,
        "ROBUST_CHANNEL_FECS_ERR_REG_ACCESS_VIOLATION",
        "Context-switch firmware saw a register access that is not allowed",
        (DRIVER, APP),
        severity="warning",
        action="none",
        later_action="look_at_code",
        app_caused="possible",
        advice="Note it. If it comes back look at the program and the driver version.",
        rationale="NVIDIA: ignore, then look into the software. Absent from the open driver 595. gpud: warning.",
        applies_to=A100_ON,
    ),
    XidEntry(
        67,
        "ROBUST_CHANNEL_FECS_ERR_VERIF_VIOLATION",
        "Context-switch firmware saw a verification rule broken by the driver",
        (DRIVER, APP),
        severity="warning",
        action="none",
        later_action="contact_vendor",
        app_caused="possible",
        advice="Note it. If it comes back save nvidia-bug-report and ask the vendor.",
        rationale="NVIDIA: ignore, then contact support. Absent from the open driver 595. gpud: warning.",
        applies_to=A100_ON,
    ),
    XidEntry(
        68,
        "ROBUST_CHANNEL_NVDEC0_ERROR",
        "Video decoder 0 raised an exception",
        (HW, DRIVER, APP),
        severity="warning",
        action="look_at_code",
        later_action="contact_vendor",
        app_caused="yes",
        advice="Look at the program that decodes video and at its input: a broken stream is enough. The same GPU failing again with other"
        " input points to the card.",
        rationale="NVIDIA: restart the application; its Kubernetes plugin counts 68 as an application error. Older gpud (fatal, reboot),"
        " Azure and imbue take it for hardware.",
        applies_to=A100_ON,
    ),
    XidEntry(
        69,
        "ROBUST_CHANNEL_GR_CLASS_ERROR",
        "Graphics or compute class error: a method is not valid for the class",
        (HW, DRIVER, APP),
        severity="warning",
        action="restart_job",
        later_action="look_at_code",
        app_caused="possible",
        advice="Restart the job. If it comes back check the program and its CUDA version.",
        rationale="NVIDIA: restart the application, then check application and CUDA; the older listing names only hardware and driver. gpud"
        " disagrees: fatal, reboot and inspection.",
        applies_to=A100_ON,
        seen_with="43 or 45 for the process that is ended",
    ),
    _copy_engine(70, 3, A100_ON),
    _copy_engine(71, 4, A100_ON),
    _copy_engine(72, 5, A100_ON),
    _legacy(
        73,
        "ROBUST_CHANNEL_NVENC2_ERROR",
        "Video encoder 2 raised an exception",
        (HW, DRIVER),
        "possible",
        more="AWS SageMaker HyperPod documents 73 as the number to inject when a reboot is to be tested: it may be a test.",
    ),
    XidEntry(
        74,
        "NVLINK_ERROR",
        "NVLink error (V100 to H100): a link failed fatally or could not be trained",
        (HW, DRIVER, PCIE),
        severity="critical",
        action="reset_gpu",
        later_action="reseat",
        app_caused="no",
        advice="Stop the jobs on all GPUs of this fabric and reset. If another GPU was lost at the same moment it is the cause: recover"
        " that one first. The same link failing again: check seating and bridge of that link, then run the vendor's diagnostic.",
        rationale="NVIDIA: decode the registers behind the link number; some bits are harmless, most ask for reseating and diagnostics."
        " A dead GPU or NVSwitch also raises it on healthy peers. gpud: fatal, reboot and inspection. Blackwell prints 144 to 150 instead.",
        applies_to=("A100", "H100"),
        since=_R565,
        seen_with="79 or 74 on the GPU at the other end, SXid 20034 and 19084 on the switches, 45",
        decided_by="message",
    ),
    _copy_engine(75, 6, A100_ON),
    _copy_engine(76, 7, A100_ON),
    _copy_engine(77, 8, A100_ON),
    XidEntry(
        78,
        "VGPU_START_ERROR",
        "A virtual GPU could not start: guest and host driver do not fit, or its type is not supported",
        (DRIVER,),
        severity="warning",
        action="contact_vendor",
        later_action="contact_vendor",
        app_caused="no",
        advice="Bring guest and host to driver versions that NVIDIA lists as compatible; the card is not broken.",
        rationale="NVIDIA: update the software. gpud disagrees: fatal, reboot.",
        applies_to=A100_ON,
    ),
    XidEntry(
        79,
        "ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS",
        "GPU no longer answers on PCIe: it has fallen off the bus",
        (HW, DRIVER, SYSMEM, PCIE, THERMAL),
        severity="critical",
        action="reseat",
        later_action="contact_vendor",
        app_caused="no",
        advice="Power the node off, reseat card and riser, recable and check power at both ends, check temperatures and fans,"
        " power-cycle, then retest under load before any RMA. On riser builds it is nearly always riser or power plug. If several GPUs"
        " went at the same moment look at the power supply they share. Only a card that fails again in a known good slot is a case for"
        " the vendor.",
        rationale="NVIDIA's own bucket is a restart of the machine (often a power cycle), then contact support; with Xid 154 it asks for a"
        " node reboot. We put reseating first because a reboot brings the card back and leaves a loose contact as it was. gpud: fatal,"
        " reboot and inspection.",
        applies_to=A100_ON,
        since=_R565,
        seen_with="the same loss in plain words without an Xid, 45, 154 with node reboot, 74 and SXid 20034 on NVLink peers, AER lines"
        " before it",
        page=True,
    ),
    XidEntry(
        80,
        "PBDMA_PUSHBUFFER_CRC_MISMATCH",
        "Check sum of the command stream is wrong: data was corrupted on the way to the GPU",
        (HW, DRIVER, SYSMEM, PCIE, FBMEM),
        severity="warning",
        action="restart_job",
        later_action="reseat",
        app_caused="possible",
        advice="Restart the job. If it comes back suspect the PCIe path (riser, slot, cable) and the host's memory.",
        rationale="NVIDIA: restart the application, then check it; the older listing names hardware, bus and system memory. gpud: warning.",
        applies_to=("A100", "H100"),
    ),
    _legacy(81, "ROBUST_CHANNEL_VGA_SUBSYSTEM_ERROR", "VGA subsystem failed", (HW,), "no", more="gpud: fatal, inspection."),
    _engine(82, "ROBUST_CHANNEL_NVJPG0_ERROR", "JPEG engine 0 raised an exception"),
    _engine(83, "ROBUST_CHANNEL_NVDEC1_ERROR", "Video decoder 1 raised an exception"),
    _engine(84, "ROBUST_CHANNEL_NVDEC2_ERROR", "Video decoder 2 raised an exception"),
    _copy_engine(85, 9, A100_ON),
    _engine(86, "ROBUST_CHANNEL_OFA0_ERROR", "Optical-flow engine 0 raised an exception"),
    _legacy(87, "NVTELEMETRY_DRIVER_REPORT", "Telemetry report of the driver, reserved number", (), "no"),
    _engine(88, "ROBUST_CHANNEL_NVDEC3_ERROR", "Video decoder 3 raised an exception"),
    _engine(89, "ROBUST_CHANNEL_NVDEC4_ERROR", "Video decoder 4 raised an exception"),
    _legacy(90, "LTC_ERROR", "L2 cache error, reserved number", (HW,), "no"),
    _legacy(91, "RESERVED_XID", "Reserved number", (), "unknown"),
    XidEntry(
        92,
        "EXCESSIVE_SBE_INTERRUPTS",
        "Corrected single-bit ECC errors come too often",
        (HW, DRIVER),
        severity="warning",
        action="none",
        later_action="contact_vendor",
        app_caused="no",
        advice="The job may go on: every error so far was corrected. Read the ECC counters and the remapped rows now, and again tomorrow: a"
        " rate that grows comes before Xid 48, so plan the replacement of that card.",
        rationale="NVIDIA: ignore, contact support if it stays. It is an alarm of a rate, not one line for each bit, and not a containment"
        " event (those are 94 and 95). gpud: ignore; sichek: critical; Azure's check: node fault.",
        applies_to=A100_ON,
        seen_with="later 63 and 48, when a weak row gives way",
        page=True,
    ),
    XidEntry(
        93,
        "INFOROM_ERASE_LIMIT_EXCEEDED",
        "The card's InfoROM was written too often (not fatal)",
        (DRIVER, APP),
        severity="info",
        action="none",
        later_action="contact_vendor",
        app_caused="possible",
        advice="Find out what writes to the InfoROM so often (firmware flashing in a loop).",
        rationale="NVIDIA: ignore, then contact support; A100 only. gpud: warning.",
        applies_to=("A100",),
    ),
    XidEntry(
        94,
        "ROBUST_CHANNEL_CONTAINED_ERROR",
        "Contained memory error: uncorrectable data reached one application, only that one is ended",
        (HW, DRIVER, FBMEM),
        severity="warning",
        action="restart_job",
        later_action="reset_gpu",
        app_caused="no",
        advice="Restart that job; the other jobs on the GPU may go on. Reset the GPU when convenient, a row remapping is waiting. If the"
        " line says RST: Yes or D-RST: Yes, reset before anything runs here again.",
        rationale="NVIDIA: restart the application. gpud and imbue: bad, reboot; DCGM: warning. The driver can print it with a"
        " drain-and-reset flag (MIG), which is honoured.",
        applies_to=A100_ON,
        since=_R565,
        seen_with="48 and 63 (64 if the repair failed, which decides), 45; one line with the unit, then one for each channel",
    ),
    XidEntry(
        95,
        "ROBUST_CHANNEL_UNCONTAINED_ERROR",
        "Uncontained memory error: bad data may have reached several applications",
        (HW, DRIVER, FBMEM),
        severity="critical",
        action="reset_gpu",
        later_action="contact_vendor",
        app_caused="no",
        advice="Stop every job on this GPU and reset it before any of them starts again; results since the error are not to be trusted.",
        rationale="NVIDIA: reset the GPU. The line may still say RST: No. gpud: fatal, reboot and inspection.",
        applies_to=A100_ON,
        since=_R565,
        seen_with="48, 63 or 64, 45",
    ),
    _engine(96, "ROBUST_CHANNEL_NVDEC5_ERROR", "Video decoder 5 raised an exception", applies_to=H100_ON),
    _engine(97, "ROBUST_CHANNEL_NVDEC6_ERROR", "Video decoder 6 raised an exception", applies_to=H100_ON),
    _engine(98, "ROBUST_CHANNEL_NVDEC7_ERROR", "Video decoder 7 raised an exception", applies_to=H100_ON),
    _engine(99, "ROBUST_CHANNEL_NVJPG1_ERROR", "JPEG engine 1 raised an exception", applies_to=H100_ON),
    _engine(100, "ROBUST_CHANNEL_NVJPG2_ERROR", "JPEG engine 2 raised an exception", applies_to=H100_ON),
    _engine(101, "ROBUST_CHANNEL_NVJPG3_ERROR", "JPEG engine 3 raised an exception", applies_to=H100_ON),
    _engine(102, "ROBUST_CHANNEL_NVJPG4_ERROR", "JPEG engine 4 raised an exception", applies_to=H100_ON),
    _engine(103, "ROBUST_CHANNEL_NVJPG5_ERROR", "JPEG engine 5 raised an exception", applies_to=H100_ON),
    _engine(104, "ROBUST_CHANNEL_NVJPG6_ERROR", "JPEG engine 6 raised an exception", applies_to=H100_ON),
    _engine(105, "ROBUST_CHANNEL_NVJPG7_ERROR", "JPEG engine 7 raised an exception", applies_to=H100_ON),
    XidEntry(
        106,
        "SMBPBI_TEST_MESSAGE",
        "Test message sent through the out-of-band management interface",
        (APP,),
        severity="info",
        action="none",
        later_action="none",
        app_caused="yes",
        advice="Nothing. A management tool tested its message path.",
        rationale="NVIDIA: ignore. gpud: warning.",
        applies_to=A100_ON,
    ),
    XidEntry(
        107,
        "SMBPBI_TEST_MESSAGE_SILENT",
        "Silent test message sent through the out-of-band management interface",
        (APP,),
        severity="info",
        action="none",
        later_action="none",
        app_caused="yes",
        advice="Nothing. A management tool tested its message path.",
        rationale="NVIDIA: ignore. gpud: warning.",
        applies_to=A100_ON,
    ),
    XidEntry(
        108,
        "NVLINK_REMOTE_TRANSLATION_ERROR",
        "An access to a peer GPU over NVLink could not be translated there",
        (DRIVER, APP, NVLINK),
        severity="warning",
        action="none",
        later_action="look_at_code",
        app_caused="possible",
        advice="Look at the program's peer-to-peer accesses, as for Xid 137.",
        rationale="NVIDIA's catalogue says unused and yet that it applies, ignore and follow 137; the open driver 595 prints it. gpud:"
        " reserved.",
        applies_to=A100_ON,
        seen_with="137 on the other GPU",
    ),
    XidEntry(
        109,
        "ROBUST_CHANNEL_CTXSW_TIMEOUT_ERROR",
        "Context switch timed out: a channel hangs on the GPU",
        (HW, DRIVER, APP, SYSMEM, PCIE, THERMAL, FBMEM),
        severity="critical",
        action="reset_gpu",
        later_action="contact_vendor",
        app_caused="possible",
        advice="Stop the jobs on this GPU and reset it. If a 13 or 31 of the same program stands before it look at the program too.",
        rationale="NVIDIA: reset the GPU, then contact support. gpud: only a warning; Meta's gcm ignores it.",
        applies_to=A100_ON,
        since="Xid 154 follows it from driver R570 (CUDA 12.7)",
        seen_with="13 or 31 of the same process before it, 45, 154",
    ),
    XidEntry(
        110,
        "SEC_FAULT_ERROR",
        "Security fault in the GPU",
        (HW,),
        severity="critical",
        action="reset_gpu",
        later_action="reboot_node",
        app_caused="no",
        advice="Undo recent hardware changes and reset the GPU; if it stays power-cycle the node, a warm reboot may not clear it.",
        rationale="NVIDIA: reset the GPU after undoing hardware changes; a comment in its driver says only a cold reset clears it. gpud:"
        " fatal, reboot and inspection.",
        applies_to=H100_ON,
        since=_R565,
    ),
    _legacy(111, "BUNDLE_ERROR_EVENT", "Display command bundle failed", (HW, DRIVER, PCIE), "no"),
    _legacy(112, "DISP_SUPERVISOR_ERROR", "Display supervisor failed", (HW, DRIVER), "no"),
    _legacy(113, "DP_LT_FAILURE", "DisplayPort link training failed", (HW, DRIVER), "no"),
    _legacy(114, "HEAD_RG_UNDERFLOW", "Display pipeline ran dry", (HW, DRIVER, FBMEM), "no"),
    _legacy(115, "CORE_CHANNEL_REGS", "Register error in the display core channel", (HW, DRIVER), "no"),
    _legacy(116, "WINDOW_CHANNEL_REGS", "Register error in a display window channel", (HW, DRIVER), "no"),
    _legacy(117, "CURSOR_CHANNEL_REGS", "Register error in the display cursor channel", (HW, DRIVER), "no"),
    _legacy(118, "HEAD_REGS", "Register error in a display head", (HW, DRIVER), "no"),
    XidEntry(
        119,
        "GSP_RPC_TIMEOUT",
        "The GPU's system processor (GSP) did not answer the driver in time",
        (HW, DRIVER, SYSMEM, PCIE, THERMAL, FBMEM),
        severity="critical",
        action="reset_gpu",
        later_action="reboot_node",
        app_caused="no",
        advice="Stop the jobs on this GPU and reset it: all later calls to it fail. If it comes back power-cycle the node, then look at"
        " driver version and PCIe link.",
        rationale="NVIDIA: reset the GPU, then look into the software. gpud: fatal, reboot and inspection. Driver 595 prints 175 instead"
        " when the memory subsystem hangs.",
        applies_to=A100_ON,
        seen_with="dozens of history and stack lines, 154, 45; then the driver limits the lines ('printing 1 of every 30')",
    ),
    XidEntry(
        120,
        "GSP_ERROR",
        "The firmware of the GPU's system processor (GSP) crashed",
        (HW, DRIVER, SYSMEM, PCIE, THERMAL, FBMEM),
        severity="critical",
        action="reset_gpu",
        later_action="contact_vendor",
        app_caused="no",
        advice="Stop the jobs on this GPU and reset it. If it comes back save nvidia-bug-report (the crash dump is in it) and change the"
        " driver version.",
        rationale="NVIDIA: reset the GPU, then look into the software. gpud: fatal, reboot and inspection.",
        applies_to=A100_ON,
        since=_R565,
        seen_with="a crash dump of many lines, 154, 119",
    ),
    XidEntry(
        121,
        "C2C_ERROR",
        "Corrected error on the chip-to-chip link to a Grace CPU",
        (HW, C2C),
        severity="info",
        action="none",
        later_action="contact_vendor",
        app_caused="no",
        advice="Nothing now: it was corrected. A reset at the next service window trains the link anew. The fatal one is Xid 173.",
        rationale="NVIDIA: ignore, corrected, no effect on operation. gpud contradicts: fatal, reboot and inspection.",
        applies_to=("GB200",),
        since="Grace machines only (GH200, GB200)",
    ),
    _legacy(122, "SPI_PMU_RPC_READ_FAIL", "Reading the card's flash memory failed", (HW, DRIVER), "no", more="gpud: warning."),
    _legacy(
        123,
        "SPI_PMU_RPC_WRITE_FAIL",
        "Writing the card's flash memory failed",
        (HW, DRIVER),
        "no",
        more="gpud: fatal, reboot and inspection.",
    ),
    _legacy(124, "SPI_PMU_RPC_ERASE_FAIL", "Erasing the card's flash memory failed", (HW, DRIVER), "no", more="gpud: warning."),
    _legacy(
        125,
        "INFOROM_FS_ERROR",
        "File system of the card's InfoROM failed",
        (HW, DRIVER),
        "no",
        more="gpud: warning.",
        advice="See whether nvidia-smi warns of a corrupt InfoROM; that is a case for the vendor.",
    ),
    _copy_engine(126, 10, BLACKWELL, _CE_NEW),
    _copy_engine(127, 11, BLACKWELL, _CE_NEW),
    _copy_engine(128, 12, BLACKWELL, _CE_NEW),
    _copy_engine(129, 13, BLACKWELL, _CE_NEW),
    _copy_engine(130, 14, BLACKWELL, _CE_NEW),
    _copy_engine(131, 15, BLACKWELL, _CE_NEW),
    _copy_engine(132, 16, BLACKWELL, _CE_NEW),
    _copy_engine(133, 17, BLACKWELL, "Blackwell only; gpud's table lacks the number."),
    _copy_engine(134, 18, BLACKWELL, _CE_NEW),
    _copy_engine(135, 19, BLACKWELL, _CE_NEW),
    XidEntry(
        136,
        "ALI_TRAINING_FAIL",
        "Automatic initialisation of an NVLink failed in training",
        (HW, NVLINK),
        severity="critical",
        action="reset_gpu",
        later_action="reseat",
        app_caused="no",
        advice="Reset the GPU. If the link fails again check seating and bridge of that link.",
        rationale="NVIDIA: reset the GPU, then look into the signal of the link; H100 only. gpud: warning.",
        applies_to=("H100",),
        since=_R565,
    ),
    XidEntry(
        137,
        "NVLINK_PRIV_ERR",
        "A peer GPU reported an illegal access over NVLink",
        (APP, DRIVER, NVLINK),
        severity="warning",
        action="look_at_code",
        later_action="contact_vendor",
        app_caused="yes",
        advice="Look at the program's peer-to-peer accesses: the fault is where the access comes from, not on the GPU that reports it.",
        rationale="NVIDIA: ignore on the GPU, debug the application. gpud: warning.",
        applies_to=A100_ON,
        seen_with="108 or 31 on the other GPU, 43, 45",
    ),
    XidEntry(
        138,
        "ROBUST_CHANNEL_DLA_ERROR",
        "Deep-learning accelerator engine (DLA) failed",
        (HW, DRIVER),
        severity="warning",
        action="contact_vendor",
        later_action="contact_vendor",
        app_caused="unknown",
        advice="Not expected on a server GPU. Save nvidia-bug-report and ask the vendor.",
        rationale="NVIDIA's catalogue marks it unused and says contact support; the open driver defines it for Jetson class chips. gpud:"
        " warning.",
        applies_to=(),
    ),
    _engine(139, "ROBUST_CHANNEL_OFA1_ERROR", "Optical-flow engine 1 raised an exception", applies_to=BLACKWELL),
    XidEntry(
        140,
        "UNRECOVERABLE_ECC_ERROR_ESCAPE",
        "Uncorrectable ECC error that the usual repair could not take care of",
        (HW, DRIVER, FBMEM),
        severity="critical",
        action="reset_gpu",
        later_action="contact_vendor",
        app_caused="no",
        advice="Stop the jobs on this GPU and reset it; results since the error are not to be trusted. If it comes back it is a case for"
        " the vendor.",
        rationale="NVIDIA: reset the GPU, contact support if it persists. gpud: fatal, reboot and inspection. The text gives four"
        " counts: DRAM, L2 cache, MMU, PCIe.",
        applies_to=A100_ON,
        seen_with="48, 95",
    ),
    XidEntry(
        141,
        "ROBUST_CHANNEL_FAST_PATH_ERROR",
        "Error in CUDA's fast submission path",
        (DRIVER,),
        severity="warning",
        action="none",
        later_action="contact_vendor",
        app_caused="possible",
        advice="Note it. If it comes back save nvidia-bug-report and ask the vendor.",
        rationale="NVIDIA: ignore, then contact support. gpud: reserved.",
        applies_to=H100_ON,
    ),
    XidEntry(
        142,
        "ROBUST_CHANNEL_NVENC3_ERROR",
        "Video encoder 3 raised an exception",
        (HW, DRIVER),
        severity="warning",
        action="contact_vendor",
        later_action="contact_vendor",
        app_caused="possible",
        advice="Restart the program that encodes video, save nvidia-bug-report and ask the vendor.",
        rationale="NVIDIA: contact support; GB200 only. gpud's table names another thing under this number (unrecovered ECC), wrongly.",
        applies_to=("GB200",),
    ),
    XidEntry(
        143,
        "GPU_INIT_ERROR",
        "GPU initialisation failed: its firmware or VBIOS did not finish",
        (HW, DRIVER, FBMEM),
        severity="critical",
        action="reset_gpu",
        later_action="contact_vendor",
        app_caused="no",
        advice="Reset the GPU, then power-cycle the node. If it still fails check power and seating, then it is a case for the vendor.",
        rationale="NVIDIA: reset the GPU, then contact support. gpud: fatal, inspection.",
        applies_to=H100_ON,
        since=_R575,
        seen_with="'RmInitAdapter failed' for the same GPU",
    ),
    _nvlink5(
        144,
        "NVLINK_SAW_ERROR",
        "NVLink error in the SAW block (Blackwell)",
        (HW, NVLINK),
        "critical",
        "reset_gpu",
        "Rows are either harmless or ask for a GPU reset.",
    ),
    _nvlink5(
        145,
        "NVLINK_RLW_ERROR",
        "NVLink error in the RLW block (Blackwell): remapping, responses, receive pipe, source tracking",
        (HW, DRIVER, APP, NVLINK),
        "critical",
        "reset_gpu",
        "Remapping errors are often software: follow 154, without one restart the job. Source tracking can be packets lost elsewhere.",
        app_caused="possible",
    ),
    _nvlink5(
        146,
        "NVLINK_TLW_ERROR",
        "NVLink error in the TLW block (Blackwell): transaction layer",
        (HW, NVLINK),
        "critical",
        "reset_gpu",
        "Rows are either harmless or ask for a GPU reset.",
    ),
    _nvlink5(
        147,
        "NVLINK_TREX_ERROR",
        "NVLink error in the TREX block (Blackwell)",
        (DRIVER, NVLINK),
        "warning",
        "none",
        "The sheet says it is not in production code.",
    ),
    _nvlink5(
        148,
        "NVLINK_NVLPW_CTRL_ERROR",
        "NVLink error in the wrapper control block (Blackwell)",
        (DRIVER, NVLINK),
        "warning",
        "none",
        "Only one row is published, a harmless one of the software.",
    ),
    _nvlink5(
        149,
        "NVLINK_NETIR_ERROR",
        "NVLink event of the network layer (Blackwell): link down, bit errors, firmware of the link",
        (HW, NVLINK),
        "critical",
        "reset_gpu",
        "A link that goes down asks for drain and reset, with the reason in the interrupt word (peer, signal, heat, user); bit-error events"
        " do not. The link number may be -1.",
    ),
    _nvlink5(
        150,
        "NVLINK_MSE_ERROR",
        "NVLink management engine stopped (Blackwell)",
        (FW, NVLINK),
        "critical",
        "reset_gpu",
        "All published rows are fatal and ask for a GPU reset.",
    ),
    XidEntry(
        151,
        "ROBUST_CHANNEL_KEY_ROTATION_ERROR",
        "Rotation of the encryption keys failed (confidential computing)",
        (DRIVER,),
        severity="critical",
        action="reboot_node",
        later_action="contact_vendor",
        app_caused="no",
        advice="Restart the virtual machine (the node, where there is none): the keys are made anew at start.",
        rationale="NVIDIA: restart the VM, then contact support. gpud: warning, reboot.",
        applies_to=H100_ON,
    ),
    XidEntry(
        152,
        "ROBUST_CHANNEL_DLA_SMMU_ERROR",
        "Address translation error of the deep-learning accelerator (DLA)",
        (HW, DRIVER),
        severity="warning",
        action="none",
        later_action="contact_vendor",
        app_caused="unknown",
        advice="Not expected on a server GPU. Note it; if it comes back ask the vendor.",
        rationale="NVIDIA: ignore, then contact support; on none of A100 to GB200. The open driver 595 calls it reserved.",
        applies_to=(),
    ),
    XidEntry(
        153,
        "ROBUST_CHANNEL_DLA_TIMEOUT",
        "Deep-learning accelerator (DLA) timed out",
        (HW, DRIVER),
        severity="warning",
        action="none",
        later_action="contact_vendor",
        app_caused="unknown",
        advice="Not expected on a server GPU. Note it; if it comes back ask the vendor.",
        rationale="NVIDIA: ignore, then contact support; on none of A100 to GB200. The open driver 595 calls it reserved.",
        applies_to=(),
    ),
    XidEntry(
        154,
        "GPU_RECOVERY_ACTION_CHANGED",
        "The driver changed what it recommends for this GPU; a summary of other Xids, no fault of its own",
        (DRIVER,),
        severity="warning",
        action="contact_vendor",
        later_action="contact_vendor",
        app_caused="no",
        advice="The last such line of a GPU counts: to 'None' it has recovered. Drain before the reset where the line says drain; an IMEX"
        " domain is restarted on all its nodes. The Xid before it is the cause.",
        rationale="NVIDIA: informational about another Xid, but it names the recovery. The codes are not in order of severity: from"
        " drain to reset is progress. gpud has no event for it.",
        applies_to=A100_ON,
        since="driver R565; code 5 (IMEX domain) in driver 595",
        seen_with="the Xid that is the cause, within the same seconds",
        decided_by="message",
    ),
    XidEntry(
        155,
        "NVLINK_SW_DEFINED_ERROR",
        "NVLink event that software defines: a link was taken down on purpose, sleep included",
        (DRIVER, NVLINK),
        severity="critical",
        action="reset_gpu",
        later_action="look_at_code",
        app_caused="no",
        advice="Find out who took the link down (an administrator, a service, power saving). If nobody did, reset the GPU.",
        rationale="NVIDIA: reset the GPU, then look into software and user, for an intended link-down raises it as well. gpud: warning,"
        " reboot.",
        applies_to=BLACKWELL,
        since=_R565,
    ),
    XidEntry(
        156,
        "RESOURCE_RETIREMENT_EVENT",
        "A unit of the GPU (a TPC or other) was marked for retirement",
        (HW,),
        severity="critical",
        action="reset_gpu",
        later_action="none",
        app_caused="no",
        advice="Stop the jobs on this GPU and reset it: the retirement becomes active. Afterwards the GPU works on with its spare.",
        rationale="NVIDIA: reset the GPU, then ignore. gpud: warning, reboot.",
        applies_to=H100_ON,
        since=_R565,
    ),
    XidEntry(
        157,
        "RESOURCE_RETIREMENT_FAILURE",
        "A unit of the GPU should be retired and no spare is left",
        (HW,),
        severity="warning",
        action="none",
        later_action="contact_vendor",
        app_caused="no",
        advice="Jobs may go on, but the bad unit stays in use and will fail again: plan the replacement of the card.",
        rationale="NVIDIA: ignore now, then contact support.",
        applies_to=H100_ON,
    ),
    XidEntry(
        158,
        "GPU_FATAL_TIMEOUT",
        "GPU hit a fatal timeout",
        (HW, DRIVER),
        severity="critical",
        action="reset_gpu",
        later_action="contact_vendor",
        app_caused="no",
        advice="Stop the jobs on this GPU and reset it; power-cycle the node if the reset fails.",
        rationale="NVIDIA: reset the GPU, then contact support. gpud: warning, reboot.",
        applies_to=A100_ON,
        since="Xid 154 follows it from its introduction",
        seen_with="154",
    ),
    XidEntry(
        159,
        "ROBUST_CHANNEL_CHI_NON_DATA_ERROR",
        "Error without data on the chip-to-chip interface",
        (HW, C2C),
        severity="warning",
        action="reset_gpu",
        later_action="contact_vendor",
        app_caused="no",
        advice="Reset the GPU if managed memory (UVM) or vGPU is in use; otherwise note it. It usually follows another error: look for"
        " that.",
        rationale="NVIDIA: reset if UVM or vGPU is used, otherwise ignore; report it if it comes alone.",
        applies_to=BLACKWELL,
        since="Xid 154 follows it from its introduction",
    ),
    XidEntry(
        160,
        "CHANNEL_RETIREMENT_EVENT",
        "Retirement of a memory channel was recorded",
        (HW, FBMEM),
        severity="warning",
        action="none",
        later_action="reset_gpu",
        app_caused="no",
        advice="Note it; the repair becomes active at the next reset. Read the repair status in nvidia-smi.",
        rationale="NVIDIA: ignore, then look into the software. Repair of HBM channels on Blackwell.",
        applies_to=BLACKWELL,
        since=_R575,
        seen_with="48, 63",
    ),
    XidEntry(
        161,
        "CHANNEL_RETIREMENT_FAILURE",
        "Retirement of a memory channel failed",
        (HW, FBMEM),
        severity="warning",
        action="none",
        later_action="contact_vendor",
        app_caused="no",
        advice="Keep an eye on this card: a repair that fails means that no spare is left, row remapping (63, 64) is next.",
        rationale="NVIDIA: ignore, then look into the software. We keep it visible as a warning, since the spare is used up.",
        applies_to=BLACKWELL,
        since=_R575,
        seen_with="48, 63, 64",
    ),
    XidEntry(
        162,
        "PSHC_REENGAGED",
        "Power-smoothing hardware works again",
        (HW, POWER),
        severity="info",
        action="none",
        later_action="none",
        app_caused="no",
        advice="Nothing. It ends an earlier 163.",
        rationale="NVIDIA gives no bucket; gpud neither. The open driver's names begin with ISINK instead of PSHC.",
        applies_to=BLACKWELL,
        seen_with="163 before it",
    ),
    XidEntry(
        163,
        "PSHC_DISENGAGED",
        "Power-smoothing hardware switched itself off (heat or timeout)",
        (HW, THERMAL, POWER),
        severity="warning",
        action="none",
        later_action="check_cooling",
        app_caused="no",
        advice="The GPU works on without power smoothing. Look at its temperature; a reset or driver reload switches it on again.",
        rationale="NVIDIA gives no bucket and says no reset is needed. gpud: warning, reboot.",
        applies_to=BLACKWELL,
    ),
    XidEntry(
        164,
        "PSHC_LOW_LIFETIME",
        "Power-smoothing hardware is near the end of its life",
        (HW, POWER),
        severity="warning",
        action="contact_vendor",
        later_action="replace",
        app_caused="no",
        advice="Plan the replacement of the card if this site needs power smoothing; the GPU itself works.",
        rationale="NVIDIA gives no bucket; its trigger text says to plan a replacement if smoothing is needed.",
        applies_to=BLACKWELL,
    ),
    XidEntry(
        165,
        "PSHC_ZERO_LIFETIME",
        "Power-smoothing hardware is worn out",
        (HW, POWER),
        severity="warning",
        action="contact_vendor",
        later_action="replace",
        app_caused="no",
        advice="Replace the card if swings of its power draw are not acceptable here; the GPU itself works.",
        rationale="NVIDIA gives no bucket; its trigger text says to replace if power swings are not acceptable.",
        applies_to=BLACKWELL,
    ),
    XidEntry(
        166,
        "NVLINK_SECURE_CRYPTO_ERR",
        "Encrypted NVLink: traffic came before the link was set up for encryption",
        (DRIVER, NVLINK),
        severity="critical",
        action="contact_vendor",
        later_action="contact_vendor",
        app_caused="no",
        advice="Only in confidential computing. Check that all GPUs of the fabric were set up the same way, then ask the vendor.",
        rationale="NVIDIA gives no bucket. gpud: warning, reboot. The open driver 595 names it NVLINK_SECURE_NVLE_ERROR.",
        applies_to=BLACKWELL,
    ),
    XidEntry(
        167,
        "PCIE_FATAL_TIMEOUT",
        "Fatal timeout on PCIe",
        (HW, PCIE),
        severity="critical",
        action="reboot_node",
        later_action="reseat",
        app_caused="no",
        advice="Power-cycle the node. Treat it like a lost GPU (Xid 79): check riser, slot, power and heat before the card is sent in.",
        rationale="NVIDIA gives no bucket. gpud: warning, reboot. Treated like 79 until it is documented.",
        applies_to=H100_ON,
        seen_with="79, AER lines of the port above the GPU",
    ),
    XidEntry(
        168,
        "REDUCED_GPU_MEMORY_CAPACITY",
        "Less GPU memory is usable: errors in the write-protected region",
        (HW, FBMEM),
        severity="critical",
        action="contact_vendor",
        later_action="replace",
        app_caused="no",
        advice="Switch ECC on and reboot; with ECC on this is not expected. If it stays, it is a case for the vendor.",
        rationale="NVIDIA gives no bucket; expected only with ECC switched off.",
        applies_to=A100_ON,
    ),
    XidEntry(
        169,
        "SEC2_HALT_ERROR",
        "Security micro-controller (SEC2) halted",
        (HW, FW),
        severity="critical",
        action="reset_gpu",
        later_action="contact_vendor",
        app_caused="no",
        advice="Stop the jobs on this GPU and reset it; power-cycle the node if it stays.",
        rationale="NVIDIA gives no bucket. gpud: warning, reboot.",
        applies_to=H100_ON,
    ),
    XidEntry(
        170,
        "NVLINK_SECURE_OTHER",
        "Interrupt of the encrypted NVLink (confidential computing)",
        (DRIVER, NVLINK),
        severity="warning",
        action="contact_vendor",
        later_action="contact_vendor",
        app_caused="possible",
        advice="Look at the program's peer-to-peer accesses, save nvidia-bug-report and ask the vendor.",
        rationale="NVIDIA gives no bucket. gpud: check application and GPU. The open driver 595 names it NVLINK_SECURE_ERROR.",
        applies_to=BLACKWELL,
    ),
    XidEntry(
        171,
        "UNCORRECTABLE_DRAM_ERROR",
        "Detail of Xid 48: the uncorrectable error was in the GPU's DRAM",
        (HW, FBMEM),
        severity="critical",
        action="reset_gpu",
        later_action="contact_vendor",
        app_caused="no",
        advice="As for Xid 48: stop the jobs on this GPU, reset it, read the remapped rows.",
        rationale="NVIDIA gives no bucket of its own: follow 48, 63 and 64.",
        applies_to=A100_ON,
        seen_with="48 (the same event), 63 or 64, 94 or 95, 45",
    ),
    XidEntry(
        172,
        "UNCORRECTABLE_SRAM_ERROR",
        "Detail of Xid 48: the uncorrectable error was in an on-chip SRAM",
        (HW,),
        severity="critical",
        action="reset_gpu",
        later_action="contact_vendor",
        app_caused="no",
        advice="As for Xid 48: stop the jobs on this GPU and reset it. Rows cannot mend an SRAM: if nvidia-smi says the SRAM threshold is"
        " exceeded it is a case for the vendor.",
        rationale="NVIDIA gives no bucket of its own: follow 48. gpud: warning, reboot.",
        applies_to=A100_ON,
        seen_with="48 (the same event), 95, 45",
    ),
    XidEntry(
        173,
        "C2C_FATAL_LINK_FAILURE",
        "Chip-to-chip link to the CPU failed fatally",
        (HW, C2C),
        severity="critical",
        action="reboot_node",
        later_action="contact_vendor",
        app_caused="no",
        advice="Power-cycle the node; if it comes back it is a case for the vendor.",
        rationale="NVIDIA publishes no bucket. gpud: warning, reboot.",
        applies_to=("GB200",),
        since=_NEWER,
    ),
    XidEntry(
        174,
        "ROBUST_CHANNEL_RESETCHANNEL_KILL_PROCESS_SILENT",
        "A channel was reset and its process ended silently (read from the name, not verified)",
        (DRIVER, APP),
        severity="warning",
        action="restart_job",
        later_action="look_at_code",
        app_caused="possible",
        advice="Restart the job; if it comes back look at the program that the line names.",
        rationale="NVIDIA publishes no meaning and no bucket; gpud's table does not have it.",
        applies_to=A100_ON,
        since=_NEWER,
    ),
    XidEntry(
        175,
        "MEMORY_SUBSYSTEM_ERROR",
        "The GPU's memory subsystem hangs: a GSP timeout that the driver puts down to it",
        (HW, DRIVER, FBMEM),
        severity="critical",
        action="reset_gpu",
        later_action="contact_vendor",
        app_caused="no",
        advice="Stop the jobs on this GPU and reset it; power-cycle the node if the reset fails. If it comes back it is a case for the"
        " vendor.",
        rationale="NVIDIA publishes no bucket; the driver prints it in place of 119 when the memory subsystem is the cause.",
        applies_to=A100_ON,
        since=_NEWER,
        seen_with="'Memory Subsystem Error detected', 'GSP Timeout', 154",
    ),
    XidEntry(
        176,
        "PCIE_CORRECTABLE_ERROR_FAULT",
        "Corrected PCIe errors passed a threshold",
        (HW, PCIE),
        severity="warning",
        action="contact_vendor",
        later_action="reseat",
        app_caused="no",
        advice="Read the PCIe replay counter and the AER lines of the slot, then check riser, slot and cable before asking the vendor.",
        rationale="NVIDIA publishes no bucket, and nothing in the open driver prints it yet.",
        applies_to=A100_ON,
        since=_NEWER,
        seen_with="corrected AER lines of the port above the GPU",
    ),
)

_BY_NUMBER = {entry.number: entry for entry in ENTRIES}

OVERRIDABLE = ("severity", "action", "advice", "page")


def lookup(xid: int) -> XidEntry:
    """The entry of a number; an unknown one is answered too, so that its event is reported and not lost."""
    return _BY_NUMBER.get(xid) or _unknown(xid)


def with_overrides(policy: t.Optional[t.Mapping[t.Any, t.Any]]) -> t.Callable[[int], XidEntry]:
    """A C(lookup) in which the inventory's C(gpu_xid_policy) has the last word.

    C({63: {"severity": "info", "action": "none", "advice": "...", "page": false}}), each field optional, numbers as int or text.
    Raises ValueError that names the input, what was expected and what to do.
    """
    if policy is None:
        policy = {}
    if not isinstance(policy, t.Mapping):
        raise ValueError(
            "gpu_xid_policy is %s, expected a mapping of Xid number to fields; write for example {63: {severity: info}}" % _shown(policy)
        )
    changed = {}
    for key, fields in policy.items():
        number = _number(key)
        if number in changed:
            raise ValueError("gpu_xid_policy names Xid %d twice, expected once; merge the two entries" % number)
        changed[number] = dataclasses.replace(lookup(number), **_checked(number, fields), overridden=frozenset(fields))
    return lambda xid: changed.get(xid) or lookup(xid)


def _number(key: t.Any) -> int:
    text = str(key).strip()
    if isinstance(key, bool) or not (text.isascii() and text.isdigit() and 0 < int(text) < 1000):
        raise ValueError("gpu_xid_policy has the key %s, expected an Xid number from 1 to 999; write the bare number" % _shown(key))
    return int(text)


def _checked(number: int, fields: t.Any) -> t.Dict[str, t.Any]:
    where = "gpu_xid_policy[%d]" % number
    if not isinstance(fields, t.Mapping) or not fields:
        raise ValueError(
            "%s is %s, expected a mapping with any of %s; write for example {severity: info}"
            % (where, _shown(fields), ", ".join(OVERRIDABLE))
        )
    allowed = {"severity": SEVERITIES, "action": ACTIONS}
    for name, value in fields.items():
        if name not in OVERRIDABLE:
            raise ValueError(
                "%s has the field %s, expected any of %s; correct or remove it" % (where, _shown(name), ", ".join(OVERRIDABLE))
            )
        if name in allowed and value not in allowed[name]:
            raise ValueError("%s.%s is %s, expected one of %s; choose one of them" % (where, name, _shown(value), ", ".join(allowed[name])))
        if name == "advice" and not (isinstance(value, str) and value.strip()):
            raise ValueError("%s.advice is %s, expected a sentence; write one or leave the field out" % (where, _shown(value)))
        if name == "page" and not isinstance(value, bool):
            raise ValueError("%s.page is %s, expected true or false; write one of them without quotes" % (where, _shown(value)))
    return dict(fields)


def _shown(value: t.Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _unknown(xid: int) -> XidEntry:
    return XidEntry(
        xid,
        "",
        "Not in any public list: nobody outside NVIDIA knows this number",
        (),
        severity="warning",
        action="contact_vendor",
        later_action="contact_vendor",
        app_caused="unknown",
        advice="Save nvidia-bug-report and the kernel log, note card and driver version, and ask the vendor. A driver newer than this"
        " collection may know it: see its release notes.",
        rationale="It is reported so that it is not lost; its severity is a guess on the safe side.",
        applies_to=(),
        known=False,
    )
