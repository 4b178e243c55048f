# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What every error number of DCGM's diagnostic means and what a person does about it. Private to kentino.gpu.

Numbers, names, and NVIDIA's severity and category are those of dcgm_errors.h and dcgm_errors.c at DCGM 4.6.0; numbers are only
ever added at the end. Our severity speaks of the error as such, wherever it is recorded: never milder than NVIDIA's isolate and
reset, and where a fault and a setting are both possible it is the fault.
"""

from __future__ import annotations

import dataclasses
import typing as t
from dataclasses import dataclass

from .._report.model import ACTIONS, SEVERITIES

# dcgmErrorSeverity_t, the number in the document being the place.
NVIDIA_SEVERITIES = ("none", "monitor", "isolate", "unknown", "triage", "config", "reset")
# With these NVIDIA asks to take the GPU out of service, whatever else the document says.
GRAVE = ("isolate", "reset")

# dcgmErrorCategory_t, likewise.
CATEGORIES = (
    "none",
    "performance threshold",
    "performance violation",
    "software configuration",
    "software library",
    "software xid",
    "software cuda",
    "software eud",
    "software other",
    "hardware thermal",
    "hardware memory",
    "hardware nvlink",
    "hardware nvswitch",
    "hardware pcie",
    "hardware power",
    "hardware other",
    "internal other",
)


@dataclass(frozen=True)
class DcgmError:
    number: int
    name: str  # DCGM_FR_ in front of it in the header
    nvidia_severity: str
    category: str
    severity: str  # ours: info warning critical
    action: str
    meaning: str  # without a full stop
    # A setting that the owner changes: it puts neither the hardware nor what was measured in question. Known by the number
    # only: ABORTED (47) has the same severity and category as PERSISTENCE_MODE (29).
    setting: bool = False
    # Says why a test was skipped, and nothing of the GPU.
    explains_skip: bool = False
    advice: str = ""
    known: bool = True


_INFO, _WARN, _CRIT = "info", "warning", "critical"

# Number, name, NVIDIA's severity and category, our severity, action, meaning.
_ROWS: t.Tuple[t.Tuple[int, str, int, int, str, str, str], ...] = (
    (0, "OK", 3, 0, _INFO, "none", "No error"),
    (1, "UNKNOWN", 3, 0, _CRIT, "contact_vendor", "DCGM could not tell which error it was"),
    (2, "UNRECOGNIZED", 3, 0, _CRIT, "contact_vendor", "Error number that this DCGM does not know"),
    (3, "PCI_REPLAY_RATE", 2, 13, _CRIT, "reseat", "Too many PCIe replays in a minute"),
    (4, "VOLATILE_DBE_DETECTED", 2, 10, _CRIT, "reset_gpu", "Uncorrectable memory errors since the driver was loaded"),
    (5, "VOLATILE_SBE_DETECTED", 1, 10, _WARN, "none", "Many corrected memory errors since the driver was loaded"),
    (6, "PENDING_PAGE_RETIREMENTS", 6, 10, _CRIT, "reset_gpu", "A memory page waits to be retired"),
    (7, "RETIRED_PAGES_LIMIT", 2, 10, _CRIT, "replace", "More pages retired than a card may have"),
    (8, "RETIRED_PAGES_DBE_LIMIT", 2, 10, _CRIT, "replace", "Many pages retired for uncorrectable errors, the last ones within a week"),
    (9, "CORRUPT_INFOROM", 4, 15, _CRIT, "contact_vendor", "The card's InfoROM is corrupt"),
    (10, "CLOCKS_EVENT_THERMAL", 1, 9, _WARN, "check_cooling", "Clocks lowered because of heat"),
    (11, "POWER_UNREADABLE", 1, 14, _WARN, "reset_gpu", "Power draw cannot be read"),
    (12, "CLOCKS_EVENT_POWER", 1, 14, _WARN, "check_power", "Clocks lowered because of power"),
    (13, "NVLINK_ERROR_THRESHOLD", 2, 11, _CRIT, "reseat", "Too many errors on an NVLink"),
    (14, "NVLINK_DOWN", 4, 11, _CRIT, "reset_gpu", "An NVLink is down"),
    (15, "NVSWITCH_FATAL_ERROR", 2, 12, _CRIT, "reboot_node", "Fatal error of an NVSwitch"),
    (16, "NVSWITCH_NON_FATAL_ERROR", 1, 12, _WARN, "none", "Error of an NVSwitch that it got over"),
    (17, "NVSWITCH_DOWN", 1, 12, _CRIT, "reboot_node", "An NVSwitch is down"),
    (18, "NO_ACCESS_TO_FILE", 5, 8, _WARN, "none", "A device file or another file may not be opened"),
    (19, "NVML_API", 1, 4, _CRIT, "reboot_node", "A call of NVML failed"),
    (20, "DEVICE_COUNT_MISMATCH", 5, 8, _CRIT, "reboot_node", "NVML and /dev disagree on how many GPUs there are"),
    (21, "BAD_PARAMETER", 3, 16, _WARN, "contact_vendor", "A function of DCGM was called wrongly"),
    (22, "CANNOT_OPEN_LIB", 4, 4, _WARN, "none", "A library cannot be loaded"),
    (23, "DENYLISTED_DRIVER", 5, 3, _WARN, "none", "A driver that does not go with NVIDIA's is loaded"),
    (24, "NVML_LIB_BAD", 2, 4, _CRIT, "reboot_node", "The NVML library lacks functions"),
    (25, "GRAPHICS_PROCESSES", 6, 8, _CRIT, "reset_gpu", "Graphics processes use the GPU"),
    (26, "HOSTENGINE_CONN", 1, 16, _WARN, "none", "The connection to nv-hostengine failed"),
    (27, "FIELD_QUERY", 1, 16, _WARN, "none", "DCGM could not read a field"),
    (28, "BAD_CUDA_ENV", 5, 6, _WARN, "none", "An environment variable slows CUDA down"),
    (29, "PERSISTENCE_MODE", 5, 8, _WARN, "none", "Persistence mode is off"),
    (30, "LOW_BANDWIDTH", 4, 13, _CRIT, "reseat", "PCIe or NVLink bandwidth is too low"),
    (31, "HIGH_LATENCY", 4, 13, _CRIT, "reseat", "PCIe or NVLink latency is too high"),
    (32, "CANNOT_GET_FIELD_TAG", 1, 16, _WARN, "none", "DCGM does not know a field"),
    (33, "FIELD_VIOLATION", 2, 15, _CRIT, "contact_vendor", "An error counter that must stay at zero has risen"),
    (34, "FIELD_THRESHOLD", 1, 2, _WARN, "contact_vendor", "A counter is above its limit"),
    (35, "FIELD_VIOLATION_DBL", 2, 2, _CRIT, "contact_vendor", "An error value that must stay at zero has risen"),
    (36, "FIELD_THRESHOLD_DBL", 2, 2, _CRIT, "contact_vendor", "A value is above its limit"),
    (37, "UNSUPPORTED_FIELD_TYPE", 4, 16, _WARN, "contact_vendor", "DCGM cannot watch a field of this type"),
    (38, "FIELD_THRESHOLD_TS", 2, 1, _CRIT, "contact_vendor", "A counter rose faster than it may during the test"),
    (39, "FIELD_THRESHOLD_TS_DBL", 2, 1, _CRIT, "contact_vendor", "A value rose faster than it may during the test"),
    (40, "THERMAL_VIOLATIONS", 1, 9, _WARN, "check_cooling", "The GPU was slowed by heat during the test"),
    (41, "THERMAL_VIOLATIONS_TS", 1, 9, _WARN, "check_cooling", "The GPU was slowed by heat from a moment of the test on"),
    (42, "TEMP_VIOLATION", 1, 9, _WARN, "check_cooling", "Temperature above the limit that was set for the test"),
    (43, "CLOCKS_EVENT_VIOLATION", 1, 15, _WARN, "check_cooling", "Clocks were lowered during the test"),
    (44, "INTERNAL", 4, 16, _CRIT, "contact_vendor", "Internal error of the test"),
    (45, "PCIE_GENERATION", 4, 13, _CRIT, "reseat", "PCIe link of a lower generation than asked for"),
    (46, "PCIE_WIDTH", 5, 13, _CRIT, "reseat", "PCIe link narrower than asked for"),
    (47, "ABORTED", 5, 8, _CRIT, "none", "The test was aborted"),
    (48, "TEST_DISABLED", 5, 3, _INFO, "none", "The test is switched off for this GPU"),
    (49, "CANNOT_GET_STAT", 4, 16, _CRIT, "reset_gpu", "Telemetry that the test needs could not be had"),
    (50, "STRESS_LEVEL", 4, 1, _CRIT, "check_cooling", "The GPU computes more slowly than asked for"),
    (51, "CUDA_API", 1, 6, _CRIT, "reset_gpu", "A call of CUDA failed"),
    (52, "FAULTY_MEMORY", 2, 10, _CRIT, "replace", "Faulty memory cells"),
    (53, "CANNOT_SET_WATCHES", 1, 16, _WARN, "none", "DCGM could not watch the fields that the test needs"),
    (54, "CUDA_UNBOUND", 4, 6, _CRIT, "reset_gpu", "The GPU lost its CUDA context"),
    (55, "ECC_DISABLED", 5, 10, _WARN, "none", "ECC is off"),
    (56, "MEMORY_ALLOC", 4, 8, _WARN, "none", "Too little free memory on the GPU for the test"),
    (57, "CUDA_DBE", 2, 10, _CRIT, "reset_gpu", "CUDA met an uncorrectable memory error"),
    (58, "MEMORY_MISMATCH", 2, 10, _CRIT, "replace", "Memory gave back something else than was written, and nobody noticed"),
    (59, "CUDA_DEVICE", 4, 6, _CRIT, "reboot_node", "CUDA does not see this GPU"),
    (60, "ECC_UNSUPPORTED", 5, 10, _INFO, "none", "ECC is off, or this GPU has none"),
    (61, "ECC_PENDING", 1, 10, _WARN, "reset_gpu", "A change of the ECC mode waits for a reset"),
    (62, "MEMORY_BANDWIDTH", 4, 1, _CRIT, "check_cooling", "Memory bandwidth is too low"),
    (63, "TARGET_POWER", 4, 14, _CRIT, "check_power", "The GPU does not reach the power that was asked for"),
    (64, "API_FAIL", 4, 8, _CRIT, "reset_gpu", "A call that the test needs failed"),
    (65, "API_FAIL_GPU", 4, 8, _CRIT, "reset_gpu", "A call that the test needs failed on this GPU"),
    (66, "CUDA_CONTEXT", 4, 6, _CRIT, "reset_gpu", "CUDA could not make a context on this GPU"),
    (67, "DCGM_API", 4, 16, _WARN, "none", "A call of DCGM failed"),
    (68, "CONCURRENT_GPUS", 5, 3, _INFO, "none", "The test needs two GPUs or more"),
    (69, "TOO_MANY_ERRORS", 1, 8, _CRIT, "none", "More errors than the answer has room for"),
    (70, "NVLINK_CRC_ERROR_THRESHOLD", 2, 11, _CRIT, "reseat", "Too many CRC errors on NVLinks in a second"),
    (71, "NVLINK_ERROR_CRITICAL", 2, 11, _CRIT, "reseat", "NVLink errors of a kind that must not happen"),
    (72, "ENFORCED_POWER_LIMIT", 5, 14, _WARN, "none", "The power limit is set below what the test needs"),
    (73, "MEMORY_ALLOC_HOST", 4, 8, _WARN, "none", "Too little free memory on the host for the test"),
    (74, "GPU_OP_MODE", 1, 3, _WARN, "none", "Operation mode of the GPU in which the test cannot run"),
    (75, "NO_MEMORY_CLOCKS", 1, 10, _WARN, "none", "No memory clock that fits the test"),
    (76, "NO_GRAPHICS_CLOCKS", 1, 15, _WARN, "none", "No graphics clock that fits the test"),
    (77, "HAD_TO_RESTORE_STATE", 4, 8, _WARN, "none", "The test left settings of the GPU changed, DCGM put them back"),
    (78, "L1TAG_UNSUPPORTED", 5, 8, _INFO, "none", "This GPU has no L1 tag test"),
    (79, "L1TAG_MISCOMPARE", 2, 10, _CRIT, "replace", "The L1 cache gave back something else than was written"),
    (80, "ROW_REMAP_FAILURE", 6, 10, _CRIT, "replace", "A memory row could not be remapped"),
    (81, "UNCONTAINED_ERROR", 2, 5, _CRIT, "reset_gpu", "Uncorrectable error that spread beyond one program (Xid 95)"),
    (82, "EMPTY_GPU_LIST", 5, 3, _CRIT, "none", "The test was given no GPU"),
    (83, "DBE_PENDING_PAGE_RETIREMENTS", 6, 10, _CRIT, "reset_gpu", "A page with an uncorrectable error waits to be retired"),
    (84, "UNCORRECTABLE_ROW_REMAP", 6, 10, _CRIT, "reset_gpu", "A row was remapped for uncorrectable errors"),
    (85, "PENDING_ROW_REMAP", 6, 10, _CRIT, "reset_gpu", "A row waits to be remapped"),
    (86, "BROKEN_P2P_MEMORY_DEVICE", 2, 15, _CRIT, "contact_vendor", "Copies from other GPUs to this one arrive wrong"),
    (87, "BROKEN_P2P_WRITER_DEVICE", 2, 15, _CRIT, "contact_vendor", "Copies from this GPU to others arrive wrong"),
    (88, "NVSWITCH_NVLINK_DOWN", 2, 11, _CRIT, "reboot_node", "A link of an NVSwitch is down"),
    (89, "EUD_BINARY_PERMISSIONS", 4, 7, _WARN, "none", "The EUD program has the wrong owner or rights"),
    (90, "EUD_NON_ROOT_USER", 4, 7, _WARN, "none", "EUD was not run as root"),
    (91, "EUD_SPAWN_FAILURE", 4, 7, _WARN, "none", "The EUD program could not be started"),
    (92, "EUD_TIMEOUT", 4, 7, _CRIT, "contact_vendor", "EUD did not end in time"),
    (93, "EUD_ZOMBIE", 4, 7, _CRIT, "reboot_node", "The EUD program stayed behind"),
    (94, "EUD_NON_ZERO_EXIT_CODE", 4, 7, _CRIT, "contact_vendor", "EUD ended with an error"),
    (95, "EUD_TEST_FAILED", 2, 7, _CRIT, "replace", "EUD found a fault"),
    (96, "FILE_CREATE_PERMISSIONS", 5, 3, _WARN, "none", "DCGM may not write in its working directory"),
    (97, "PAUSE_RESUME_FAILED", 4, 16, _WARN, "none", "DCGM could not stop or restart its watches"),
    (98, "PCIE_H_REPLAY_VIOLATION", 2, 13, _CRIT, "reseat", "Corrected PCIe errors during the test"),
    (99, "GPU_EXPECTED_NVLINKS_UP", 4, 11, _CRIT, "reset_gpu", "Fewer NVLinks of the GPU are up than expected"),
    (100, "NVSWITCH_EXPECTED_NVLINKS_UP", 4, 11, _CRIT, "reboot_node", "Fewer NVLinks of the NVSwitch are up than expected"),
    (101, "XID_ERROR", 4, 5, _CRIT, "reset_gpu", "An Xid was reported"),
    (102, "SBE_VIOLATION", 2, 10, _CRIT, "reset_gpu", "Corrected memory errors during the test"),
    (103, "DBE_VIOLATION", 2, 10, _CRIT, "reset_gpu", "Uncorrectable memory errors during the test"),
    (104, "PCIE_REPLAY_VIOLATION", 2, 13, _CRIT, "reseat", "PCIe replays during the test"),
    (105, "SBE_THRESHOLD_VIOLATION", 2, 10, _CRIT, "reset_gpu", "More corrected memory errors than allowed"),
    (106, "DBE_THRESHOLD_VIOLATION", 2, 10, _CRIT, "reset_gpu", "More uncorrectable memory errors than allowed"),
    (107, "PCIE_REPLAY_THRESHOLD_VIOLATION", 2, 13, _CRIT, "reseat", "More PCIe replays than allowed"),
    (108, "CUDA_FM_NOT_INITIALIZED", 1, 6, _CRIT, "reboot_node", "CUDA waits for Fabric Manager"),
    (109, "SXID_ERROR", 2, 5, _CRIT, "reboot_node", "An NVSwitch reported a fatal error (SXid)"),
    (110, "GFLOPS_THRESHOLD_VIOLATION", 4, 2, _CRIT, "check_cooling", "One GPU computes more slowly than the others"),
    (111, "NAN_VALUE", 2, 10, _CRIT, "replace", "A computation gave something that is not a number"),
    (112, "FABRIC_MANAGER_TRAINING_ERROR", 5, 6, _CRIT, "reboot_node", "Fabric Manager did not finish training the links"),
    (113, "BROKEN_P2P_PCIE_MEMORY_DEVICE", 2, 13, _CRIT, "reseat", "Copies over PCIe to this GPU arrive wrong"),
    (114, "BROKEN_P2P_PCIE_WRITER_DEVICE", 2, 13, _CRIT, "reseat", "Copies over PCIe from this GPU arrive wrong"),
    (115, "BROKEN_P2P_NVLINK_MEMORY_DEVICE", 2, 11, _CRIT, "contact_vendor", "Copies over NVLink to this GPU arrive wrong"),
    (116, "BROKEN_P2P_NVLINK_WRITER_DEVICE", 2, 11, _CRIT, "contact_vendor", "Copies over NVLink from this GPU arrive wrong"),
    (117, "TEST_SKIPPED", 5, 3, _INFO, "none", "The test was skipped"),
    (118, "SRAM_THRESHOLD", 2, 10, _CRIT, "replace", "SRAM errors above the limit of a card's life"),
    (119, "NVLINK_EFFECTIVE_BER_THRESHOLD", 2, 11, _CRIT, "reseat", "Effective bit error rate of an NVLink above its limit"),
    (120, "FALLEN_OFF_BUS", 2, 15, _CRIT, "check_power", "The GPU fell off the bus"),
    (121, "NVLINK_SYMBOL_BER_THRESHOLD", 2, 11, _CRIT, "reseat", "Symbol error rate of an NVLink above its limit"),
    (122, "IMEX_UNHEALTHY", 2, 8, _CRIT, "contact_vendor", "The IMEX domain or daemon is not well"),
    (123, "FABRIC_PROBE_STATE", 1, 11, _CRIT, "reset_gpu", "The GPU has not joined its NVLink fabric"),
    (124, "BINARY_PERMISSIONS", 4, 8, _WARN, "none", "A program of the test has the wrong owner or rights"),
    (125, "GPU_RECOVERY_RESET", 6, 15, _CRIT, "reset_gpu", "The driver asks for a reset of the GPU"),
    (126, "GPU_RECOVERY_REBOOT", 2, 15, _CRIT, "reboot_node", "The driver asks for a reboot"),
    (127, "GPU_RECOVERY_DRAIN_P2P", 6, 15, _CRIT, "reset_gpu", "The driver asks to drain peer-to-peer traffic"),
    (
        128,
        "GPU_RECOVERY_DRAIN_RESET",
        6,
        15,
        _CRIT,
        "reset_gpu",
        "The GPU is degraded until it is drained and reset",
    ),
    (129, "NCCL_ERROR", 6, 15, _CRIT, "reset_gpu", "NCCL failed"),
    (130, "RETEST_REQUESTED", 4, 8, _CRIT, "none", "The test wants to be run again before it says anything"),
    (131, "CONTAINED_ERROR", 1, 5, _WARN, "restart_job", "Uncorrectable error that hit one program only (Xid 94)"),
    (132, "UNCORRECTABLE_ROW_REMAP_LIMIT", 4, 10, _CRIT, "replace", "More rows remapped for uncorrectable errors than a card may have"),
)

# Numbers that count as settings, with what to set.
_SETTINGS: t.Mapping[int, str] = {
    18: "give the user that runs DCGM the right to open the file it names",
    23: "keep that driver from loading: blacklist it and rebuild the initramfs",
    28: "unset the variable it names for the diagnostic and for jobs",
    29: "run nvidia-persistenced, or nvidia-smi -pm 1",
    55: "switch ECC on with nvidia-smi -e 1 and reboot, or leave out this test",
    72: "raise the power limit with nvidia-smi -pl",
    89: "give the EUD program to root and take away write rights of others",
    90: "run nv-hostengine as root",
    96: "give the user that runs DCGM a directory it can write to",
    124: "give the program it names to root and take away write rights of others",
}
_SKIPS = frozenset((48, 55, 60, 68, 78, 117))
_ADVICE: t.Mapping[int, str] = {
    22: "install the library it names",
    25: "stop the display server or the program, then run the test again",
    26: "start nvidia-dcgm",
    47: "run the test again; nothing was measured",
    50: "look at clocks, power limit and throttling; compare with its siblings",
    56: "stop what uses the GPU's memory and run the test again",
    62: "look at clocks, power limit and throttling; compare with its siblings",
    69: "test fewer GPUs or fewer tests at a time",
    73: "stop what uses the host's memory and run the test again",
    82: "name the GPUs to test, and look whether DCGM sees them",
    101: "read the number in the kernel log",
    108: "look at nvidia-fabricmanager: it must run, in the version of the driver",
    110: "look at clocks, power limit and throttling",
    112: "look at nvidia-fabricmanager: it must run, in the version of the driver",
    120: "power and seating before the card",
    130: "run the test again",
}

# Exit status of dcgmi: dcgmReturn_t (dcgm_structs.h), which is negative, in the eight bits that a status has.
STATUS_ERROR, STATUS_ISOLATE = 226, 205
STATUSES: t.Mapping[int, str] = {
    STATUS_ERROR: "the diagnostic found an error",
    STATUS_ISOLATE: "the diagnostic asks to isolate a GPU",
    197: "no connection is set up for a multi-node diagnostic",
    198: "none of the tests asked for exists",
    199: "NVML did not answer in time",
    200: "NVML is not loaded",
    202: "nv-hostengine is paused",
    203: "the diagnostic was killed",
    204: "the diagnostic's program nvvs is missing",
    206: "a plugin of the diagnostic crashed",
    212: "the driver is too old for the diagnostic",
    213: "a field reached the threshold that was set for it",
    215: "the diagnostic could not be started",
    216: "the diagnostic's answer could not be read",
    217: "another diagnostic is running",
    219: "the profiling counters are in use by somebody else",
    220: "this GPU has no profiling counters",
    221: "the group holds no GPU",
    222: "the GPUs are in use",
    223: "a module of DCGM is not loaded",
    235: "no connection to nv-hostengine",
    237: "a GPU needs a reset",
    238: "a GPU is lost",
    242: "no data",
    245: "time-out",
    253: "error without a name",
    255: "a wrong parameter",
}


def _entry(row: t.Tuple[int, str, int, int, str, str, str]) -> DcgmError:
    number, name, nvidia_severity, category, severity, action, meaning = row
    return DcgmError(
        number,
        name,
        NVIDIA_SEVERITIES[nvidia_severity],
        CATEGORIES[category],
        severity,
        action,
        meaning,
        number in _SETTINGS,
        number in _SKIPS,
        _SETTINGS.get(number, _ADVICE.get(number, "")),
    )


ERRORS: t.Mapping[int, DcgmError] = {row[0]: _entry(row) for row in _ROWS}


def lookup(number: t.Optional[int], overrides: t.Optional[t.Mapping[t.Any, t.Mapping[str, t.Any]]] = None) -> DcgmError:
    """The entry for C(number). One that is not in the table, or no number at all, gives one that says so and is critical.

    C(overrides) is the inventory's policy: number, as number or text, to C(severity) and C(action); a wrong one raises
    C(ValueError).
    """
    if number is None:
        entry = DcgmError(-1, "NONE", "unknown", "none", _CRIT, "contact_vendor", "Error without a number", known=False)
    elif number in ERRORS:
        entry = ERRORS[number]
    else:
        entry = DcgmError(number, "UNLISTED", "unknown", "none", _CRIT, "contact_vendor", "Error newer than our table", known=False)
    wanted = (overrides or {}).get(number, (overrides or {}).get(str(number)))
    if wanted is None:
        return entry
    changes: t.Dict[str, t.Any] = _checked(number, wanted)
    return dataclasses.replace(entry, **changes)


def _checked(number: t.Optional[int], wanted: t.Mapping[str, t.Any]) -> t.Dict[str, t.Any]:
    allowed = {"severity": SEVERITIES, "action": ACTIONS}
    for key, value in wanted.items():
        if key not in allowed:
            raise ValueError("DCGM error %s: %s is not one of severity, action" % (number, key))
        if value not in allowed[key]:
            raise ValueError("DCGM error %s: %s %r is not one of %s" % (number, key, value, ", ".join(allowed[key])))
    return dict(wanted)


def nvidia_severity(number: t.Optional[int]) -> t.Optional[str]:
    """The word for C(error_severity) of a document; None where it has none or one that we do not know."""
    return NVIDIA_SEVERITIES[number] if number is not None and 0 <= number < len(NVIDIA_SEVERITIES) else None
