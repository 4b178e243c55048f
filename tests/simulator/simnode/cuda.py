# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What CUDA sees of the simulated node. Its order is that of CUDA_DEVICE_ORDER=PCI_BUS_ID: all GPUs of a node are alike."""

from __future__ import annotations

import os

from .state import Gpu, Node, hang

# cuInit's answer to NVML's error at the start: no module, a library of another version, no device files.
_CODES = {9: 100, 18: 803, 999: 999}
_TEXTS = {
    100: "no CUDA-capable device is detected",
    802: "system not yet initialized",
    803: "system has unsupported display driver / cuda driver combination",
    999: "unknown error",
}
SUCCESS = "no error"


def devices(node: Node) -> tuple[list[Gpu], int, str]:
    """The devices; cuInit's code and its words."""
    if node.get("nvml.hang") or any(gpu.steer("hang") for gpu in node.gpus()):
        hang(node.number("nvml.ignore_term") != 0)
    code = 0
    if node.number("nvml.init"):
        code = _CODES.get(node.number("nvml.init"), 999)
    elif any(gpu.number("fabric.state") in (1, 2) for gpu in node.gpus()):
        code = 802
    if code:
        return [], code, _TEXTS[code]
    found = [gpu for gpu in node.gpus() if not gpu.steer("handle_error") and not gpu.steer("error") and not gpu.steer("cuda.absent")]
    found = _visible(found)
    return (found, 0, SUCCESS) if found else ([], 100, _TEXTS[100])


def _visible(gpus: list[Gpu]) -> list[Gpu]:
    words = os.environ.get("CUDA_VISIBLE_DEVICES")
    if words is None:
        return gpus
    chosen: list[Gpu] = []
    for word in words.split(","):
        named = [
            gpu
            for number, gpu in enumerate(gpus)
            if word.strip() == str(number) or (word[:4] == "GPU-" and gpu.raw("uuid").startswith(word))
        ]
        if not named:  # CUDA stops at the first that it does not know
            break
        chosen += [gpu for gpu in named[:1] if gpu not in chosen]
    return chosen


def memory_mib(gpu: Gpu) -> tuple[int, int]:
    """In all, and what is free once a program has its context."""
    total = (gpu.number("memory.total") or 0) - (gpu.number("memory.reserved") or 0)
    return total, total - (gpu.number("memory.used") or 0) - 523
