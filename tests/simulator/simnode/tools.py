# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in tools by name, and the modules that they are."""

from __future__ import annotations

_COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "sendrecv", "alltoall")

TOOLS = {
    **{name: name.replace("-", "_") for name in ("nvidia-smi", "journalctl", "dmesg", "lspci", "gpu_burn", "dcgmi", "mpirun")},
    **{name + "_perf": "nccl_tests" for name in _COLLECTIVES},
}
