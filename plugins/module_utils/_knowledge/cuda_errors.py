# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What errors of CUDA and ends by a signal mean for a program that is known to be right. Private to kentino.gpu."""

from __future__ import annotations

import typing as t

_READ_LOG = "read the kernel log of that time for an Xid first"

# Part of the text (lower case), what to do, what to add. The first that fits decides.
_ERRORS: t.Tuple[t.Tuple[str, str, str], ...] = (
    (
        "uncorrectable ecc",
        "reset_gpu",
        "the GPU's memory failed: read the kernel log for Xid 48, 63, 64, 94 and 95, which say whether it is worn",
    ),
    ("uncorrectable nvlink", "reset_gpu", "an NVLink failed: read the kernel log for Xid 74 or 144 to 150"),
    ("gpu is lost", "reseat", "the GPU fell off the bus: read the kernel log for Xid 79"),
    ("fallen off the bus", "reseat", "the GPU fell off the bus: read the kernel log for Xid 79"),
    ("no kernel image is available", "look_at_code", "this build of PyTorch has no code for this GPU: install one for a newer CUDA"),
    (
        "driver version is insufficient",
        "look_at_code",
        "the driver is older than the CUDA of this PyTorch: update one, or take another build",
    ),
    (
        "driver on your system is too old",
        "look_at_code",
        "the driver is older than the CUDA of this PyTorch: update one, or take another build",
    ),
    ("forward compatibility", "look_at_code", "the CUDA libraries do not fit this driver or GPU: take a build for the installed driver"),
    ("driver/library version mismatch", "reboot_node", "the driver's libraries were updated, its kernel module was not: reboot"),
    (
        "system not yet initialized",
        "look_at_code",
        "the NVLink fabric is not up: start nvidia-fabricmanager in the version of the driver, and wait for the fabric state Completed",
    ),
    ("devices are busy or unavailable", "look_at_code", "another process holds the GPU, or its compute mode allows one process or none"),
    ("no cuda-capable device", "look_at_code", "CUDA sees no GPU: CUDA_VISIBLE_DEVICES, the container's devices, or the driver"),
    ("not compiled with cuda", "look_at_code", "this is the CPU build of PyTorch: install the one for CUDA"),
    ("found no nvidia driver", "look_at_code", "no driver is loaded: nvidia-smi tells why"),
    ("illegal memory access", "reset_gpu", "the job is known to be right: " + _READ_LOG),
    ("misaligned address", "reset_gpu", "the job is known to be right: " + _READ_LOG),
    ("illegal instruction", "reset_gpu", "the job is known to be right: " + _READ_LOG),
    ("launch failure", "reset_gpu", "the job is known to be right: " + _READ_LOG),
    ("launch timed out", "look_at_code", "a display runs on this GPU, and the driver ends kernels that take long there"),
    ("unknown error", "reset_gpu", _READ_LOG + "; after a suspend, reload nvidia_uvm"),
    ("cuda error", "reset_gpu", _READ_LOG),
    ("cuda driver error", "reset_gpu", _READ_LOG),
    ("cuda failure", "reset_gpu", _READ_LOG),
    ("cudnn_status_", "reset_gpu", _READ_LOG + "; a cuDNN that does not fit this PyTorch does this too"),
    ("cublas_status_", "reset_gpu", _READ_LOG + "; a GPU whose memory is full does this too"),
)

_SIGNALS: t.Mapping[str, t.Tuple[str, str]] = {
    "SIGKILL": ("look_at_code", "read the kernel log for the out-of-memory killer: host memory, or the limit of a container or unit"),
    "SIGBUS": ("look_at_code", "shared memory or a mapped file ran out of space: look at the size of /dev/shm, and for I/O errors"),
    "SIGSEGV": ("look_at_code", "a crash in PyTorch, NCCL or the driver's library: " + _READ_LOG),
    "SIGABRT": ("look_at_code", "the end of the rank's log says what gave up; " + _READ_LOG),
    "SIGILL": ("look_at_code", "this build of PyTorch needs a newer CPU, or the CPU is at fault"),
    "SIGFPE": ("look_at_code", "a crash in a library, or the CPU is at fault"),
    "SIGTERM": ("restart_job", "somebody ended it: a scheduler, a unit that was stopped, a person"),
    "SIGINT": ("restart_job", "somebody ended it"),
    "SIGHUP": ("restart_job", "the session it ran in was closed"),
}


def error(text: str) -> t.Optional[t.Tuple[str, str]]:
    """What to do about an error of the device or its driver, and what to add; None where C(text) tells of none."""
    lower = text.lower()
    return next(((action, advice) for sign, action, advice in _ERRORS if sign in lower), None)


def signalled(name: t.Optional[str]) -> t.Tuple[str, str]:
    """The same for a process that was ended by a signal."""
    return _SIGNALS.get(name or "", ("look_at_code", "the end of the rank's log may say why"))
