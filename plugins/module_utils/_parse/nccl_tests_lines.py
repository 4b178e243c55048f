# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lines of nccl-tests, NCCL and the launcher that are not rows of the table. Private to kentino.gpu."""

from __future__ import annotations

import re
import typing as t

from .lazy_pattern import lazy


def _any(*parts: str) -> t.Pattern[str]:
    return lazy("|".join(parts))


# "host1:7701:7793 [3] NCCL INFO ..", "[2025-03-01 10:00:00] host1:7701:7793 [3] graph/search.cc:890 NCCL WARN .."
NCCL = lazy(
    r"(?:\[[0-9: .TZ-]{8,40}\] ?)?([^\s:]{0,255}):[0-9]{1,10}:[0-9]{1,10} \[[^\]\s]{0,40}\] (?:[0-9.]+ )?(?:\S{1,255} )?"
    r"NCCL (INFO|WARN|TRACE|CALL|ERROR)\b"
)
# On a line of its own with NCCL_DEBUG=VERSION, behind "NCCL INFO" from 2.20 on.
NCCL_VERSION = lazy(r"NCCL version ([0-9][^\s,]{0,60})")

TESTS_VERSION = lazy(r"#\s*nccl-tests version (\S{1,60})(?:.*nccl-library=([0-9]{4,6}))?")
PROGRAM = lazy(r"#\s*Collective test (starting|concluded): *(\S{1,200})")
OPTIONS = lazy(r"nThread ([0-9]{1,6}) nGpus ([0-9]{1,6}) minBytes ([0-9]{1,18}) maxBytes ([0-9]{1,18})")
VALIDATION = lazy(r"validation: ([0-9]{1,9})(?![0-9])")
USING_DEVICES = lazy(r"#?\s*Using devices\s*\Z")
RANK_LINE = lazy(
    r"#\s*Rank\s+([0-9]{1,9})(?:\s+Group\s+([0-9]{1,9}))?(?:\s+Pid\s+([0-9]{1,18}))?\s+on\s+(\S+)\s+device\s+([0-9]{1,9})"
    r"\s+\[([^\]]*)\]\s*(.*)"
)
REDUCED = lazy(r"Reducing maxBytes to ([0-9]{1,18})")

BOUNDS_LINE = lazy(r"Out of bounds values\s*:\s*([0-9]{1,18})\s+(OK|FAILED)\b")
AVERAGE_LINE = lazy(
    r"Avg bus bandwidth\s*:\s*(-?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?(?:e[+-]?[0-9]{1,4})?|nan|inf))(?![0-9.])(?:\s+(OK|FAILED)\b)?",
    re.IGNORECASE,
)
LAST_ERROR = lazy(r"#\s*error:\s*(\S.*)")
WRONG_ON_RANK = lazy(r"rank=[0-9]{1,9} #wrong=(-?[0-9]{1,18})")

# "host1: Test NCCL failure common.cu:959 'internal error / '"; 1.x says no host: "NCCL failure all_reduce.cu:95 '..'".
MESSAGE = lazy(r"(?:([^\s:]{1,255}): )?(?:Test )?(?:NCCL|CUDA|Cuda) failure ([^\s:']{1,255}:[0-9]{1,9})\s*(?:'(.*)'?)?")
TIMEOUT = lazy(r"([^\s:]{1,255}): Test timeout \(([0-9]{1,9})s\) (\S{1,255}:[0-9]{1,9})")
# " .. host1 pid 4711: Test failure common.cu:844"; no pid in 2.0.
FRAME = lazy(r"\.\. (?:([^\s:]{1,255}) )?pid ([0-9]{1,18}): Test failure (\S{1,255})")
FRAME_WITHOUT_PID = lazy(r"\.\. ([^\s:]{1,255}): Test failure (\S{1,255})")

# Signals that a program gets for what it did itself; 9 and 15 come from the kernel's memory killer, a scheduler or a person.
CRASH = _any(
    r"signal (?:4|6|7|8|11)\b",
    r"Segmentation fault|Bus error|Illegal instruction|core dumped|\bAborted\b",
)
ABORT = _any(
    r"not enough slots available",
    r"process(?:es)? returned",
    r"returned a non-zero",
    r"exited on signal",
    r"exited with (?:exit code [1-9]|non-zero)",
    r"(?:mpirun|prterun) (?:was unable|noticed|detected)",
    r"MPI_ABORT",
    r"srun: error",
    r"BAD TERMINATION|KILLED BY SIGNAL|DUE TO TIME LIMIT|CANCELLED AT|\AKilled\Z",
    r"Invalid number of GPUs|Incompatible NCCL versions|invalid size specified",
)
# The shell, the loader or MPI, of this or of some other program: it tells something where no row follows.
CANNOT_LAUNCH = _any(
    r"error while loading shared libraries",
    r"not found",
    r"No such file or directory",
    r"Permission denied",
    r"Could not find the executable",
    r"cannot execute",
)
KNOWN = _any(
    r"\A[#\s]*\Z",
    r"\A-+\Z",
    r"(?:Blocking|Parallel Init|Swap Comms) Enabled",
    r"Per-Iteration Report|GPU memory usage|User Buffer Registration",
    r"Writing JSON output|skipping json output",
    r"out-of-place +(?:\(\+ per-iteration\) +)?in-place|\(us\) +\(GB/s\)",
    r"openib|more process(?:es)? ha(?:s|ve) sent help message|orte_base_help_aggregate",
)
