# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What nvidia-smi says instead of, or beside, its report: messages and exit status. Private to kentino.gpu.

The tool prints its errors on stdout or stderr as it happens to, so they are looked for in every line.
"""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from .gpu_values import pci_address
from .lazy_pattern import lazy

# Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error
# Unable to determine the device handle for GPU0000:17:00.0: Unknown Error         (525, no blank)
# Unable to determine the device handle for GPU1: 0000:3B:00.0: Unknown Error      (550, with the index)
# Unable to detect the device handle for GPU0000:B1:00.0: Unknown Error
_HANDLE = lazy(
    r"unable to \w+ the device handle for gpu\s*(?:([0-9]{1,4}):?\s+)?(?!\s)([^\s:]\S{0,40}?)\s*(?::\s+|:?$)(.*)$", re.IGNORECASE
)
_ADDRESS = lazy(
    r"(?<![0-9A-Fa-f:])(?:[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}(?:\.[0-7])?|[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])(?![0-9A-Fa-f:])"
)
_INDEX = lazy(r"\bGPU ?([0-9]{1,3})\b", re.IGNORECASE)
# WARNING: infoROM is corrupted at gpu 0000:41:00.0
_INFOROM = lazy(r"inforom is corrupted(?: at gpu (\S+))?", re.IGNORECASE)
_WARNING = lazy(r"\s*WARNING:", re.IGNORECASE)

# The first that fits names the kind.
_MESSAGES: t.Tuple[t.Tuple[str, str], ...] = (
    ("driver/library version mismatch", "version_mismatch"),
    ("nvml/rm version mismatch", "version_mismatch"),
    ("api mismatch", "version_mismatch"),
    ("couldn't communicate with the nvidia driver", "driver_not_loaded"),
    ("could not communicate with the nvidia driver", "driver_not_loaded"),
    ("driver not loaded", "driver_not_loaded"),
    ("driver is not loaded", "driver_not_loaded"),
    ("failed to initialize nvml: nvml shared library", "missing_library"),
    ("nvidia-smi couldn't find libnvidia-ml", "missing_library"),
    ("couldn't find libnvidia-ml", "missing_library"),
    ("libnvidia-ml.so", "missing_library"),
    ("nvml shared library not found", "missing_library"),
    ("failed to initialize nvml: insufficient perm", "permission"),
    ("insufficient permissions", "permission"),
    ("failed to initialize nvml: gpu access blocked", "permission"),
    ("gpu access blocked by the operating system", "permission"),
    ("failed to initialize nvml", "init_failed"),
    ("failed to properly shut down nvml", "other"),
    ("no devices were found", "no_devices"),
    ("no devices found", "no_devices"),
    ("nvidia-smi: command not found", "missing_tool"),
    ("nvidia-smi: not found", "missing_tool"),
    ("nvidia-smi: no such file", "missing_tool"),
    ("nvidia-smi': no such file", "missing_tool"),
    ('"nvidia-smi": executable file not found', "missing_tool"),
    ("is not recognized as an internal or external command", "missing_tool"),
    ("is not a valid field to query", "other"),
    ("invalid combination of input arguments", "other"),
    ("unable to determine the", "other"),
    ("unable to retrieve", "other"),
    ("unable to detect", "other"),
    ("nvidia-smi has failed because", "other"),
    ("unknown error", "other"),
    ("segmentation fault", "other"),
)

# nvidia-smi(1), "return value"; 124 and 137 are those of a watchdog around it.
EXIT_STATUS: t.Mapping[int, t.Tuple[str, str]] = {
    2: ("other", "an argument is not valid"),
    3: ("other", "the operation is not available on this device"),
    4: ("permission", "the user may not ask this"),
    6: ("no_devices", "no device was found"),
    8: ("other", "the external power cables of a device are not properly attached"),
    9: ("driver_not_loaded", "the NVIDIA driver is not loaded"),
    10: ("other", "the kernel driver detected an interrupt problem with a GPU"),
    12: ("missing_library", "the library libnvidia-ml could not be found or loaded"),
    13: ("version_mismatch", "libnvidia-ml lacks a function that nvidia-smi needs"),
    14: ("other", "an infoROM is corrupted"),
    15: ("other", "a GPU has fallen off the bus or cannot be reached"),
    16: ("other", "a GPU needs a reset"),
    18: ("version_mismatch", "driver and library are of different versions"),
    124: ("timeout", "it was stopped by a time limit"),
    126: ("missing_tool", "it could not be executed"),
    127: ("missing_tool", "it was not found"),
    137: ("timeout", "it was killed"),
    255: ("other", "an internal error of the driver"),
}


@dataclass
class Messages:
    """What the error lines tell."""

    lost: t.List[str] = field(default_factory=list)
    lost_unnamed: t.List[t.Optional[int]] = field(default_factory=list)  # by index, or by nothing
    kind: t.Optional[str] = None
    text: t.Optional[str] = None
    inforom: t.List[str] = field(default_factory=list)  # addresses, or "" where none is named
    other: t.List[str] = field(default_factory=list)  # warnings

    def note(self, kind: str, line: str) -> None:
        if self.kind is None:
            self.kind, self.text = kind, " ".join(line.split())[:300]


def is_message(line: str) -> bool:
    """Whether C(line) names the handle of a GPU that could not be had."""
    return bool(_HANDLE.search(line))


def take(line: str, into: Messages) -> bool:
    """Whether C(line) is a message of the tool; what it tells goes to C(into)."""
    lower = line.lower()
    if "unable to" not in lower and " : " in line and not lower.lstrip().startswith(("error", "warning")):
        return False  # a line of -q whose value is an error
    match = _HANDLE.search(line)
    if match:
        _handle(match.group(2), match.group(3), line, into)
        return True
    match = _INFOROM.search(line)
    if match:
        into.inforom.append(pci_address((match.group(1) or "").rstrip(".,;")))
        return True
    if "is lost" in lower or "fallen off the bus" in lower:
        address, index = _ADDRESS.search(line), _INDEX.search(line)
        if address:
            _lose(address.group(), into)
        else:
            into.lost_unnamed.append(int(index.group(1)) if index else None)
        return True
    for words, kind in _MESSAGES:
        if words in lower:
            into.note(kind, line)
            return True
    if _WARNING.match(line):
        into.other.append(" ".join(line.split())[:200])
        return True
    return False


def _handle(address: str, reason: str, line: str, into: Messages) -> None:
    if "permission" in reason.lower():
        into.note("permission", line)
    else:
        _lose(address.rstrip(":"), into)


def _lose(address: str, into: Messages) -> None:
    plain = pci_address(address)
    if plain not in into.lost:
        into.lost.append(plain)


def by_exit_status(rc: t.Optional[int]) -> t.Tuple[t.Optional[str], t.Optional[str]]:
    """C((kind, text)) of an exit status that is not good; C((None, None)) for 0 and for none."""
    if not rc:
        return None, None
    if rc < 0:
        return "timeout" if rc in (-9, -15) else "other", "nvidia-smi was ended by signal %d" % -rc
    kind, meaning = EXIT_STATUS.get(rc, ("other", "no documented meaning"))
    return kind, "nvidia-smi ended with status %d: %s" % (rc, meaning)
