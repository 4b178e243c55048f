# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the variables are called that make PyTorch and NCCL tell of a hang. Private to kentino.gpu.

The names changed with the releases. Read off the wheels of PyTorch 1.13 to 2.14.
"""

from __future__ import annotations

import re
import typing as t

# Records for each rank: what the newest releases keep by themselves.
_FLIGHT_RECORDS = "2000"


def version(text: t.Optional[str]) -> t.Tuple[int, ...]:
    """C((2, 9, 0)) of C(2.9.0a0+50eac811a6.nv25.09); empty where C(text) is no version."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?", text or "", re.ASCII)
    return tuple(int(part or 0) for part in found.groups()) if found else ()


def hang_variables(torch_version: t.Optional[str], dump_prefix: str) -> t.Dict[str, str]:
    """So that a collective which times out ends the process, and leaves the flight recorder's dump in C(dump_prefix) + rank."""
    known = version(torch_version)
    if known and known < (2, 2):
        return {"NCCL_ASYNC_ERROR_HANDLING": "1"}
    variables = {
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
        # The dump needs both; which of them is on by default changed between releases.
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
        "TORCH_NCCL_ENABLE_MONITORING": "1",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": dump_prefix,
    }
    if known >= (2, 8):
        variables["TORCH_FR_BUFFER_SIZE"] = _FLIGHT_RECORDS
    else:
        variables["TORCH_NCCL_TRACE_BUFFER_SIZE"] = _FLIGHT_RECORDS
    if known >= (2, 9, 1):
        variables["TORCH_FR_DUMP_TEMP_FILE"] = dump_prefix
    return variables


def allocator_variable(torch_version: t.Optional[str]) -> str:
    """The one that holds C(expandable_segments:True)."""
    known = version(torch_version)
    return "PYTORCH_CUDA_ALLOC_CONF" if known and known < (2, 9) else "PYTORCH_ALLOC_CONF"
