# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""C(nvidia-smi) without arguments: the table, in the columns of the 570 branch."""

from __future__ import annotations

import time

from .smi_gpu import COMPUTE_MODES, processes, pstate, word
from .state import NOT_AVAILABLE, Gpu, Node

_MARK = " [simulated]"
_RULE = "+-----------------------------------------+------------------------+----------------------+\n"
_EDGE = "+-----------------------------------------------------------------------------------------+\n"


def head(node: Node) -> str:
    driver = node.get("driver")
    return (
        time.strftime("%a %b %e %H:%M:%S %Y       \n")
        + _EDGE
        + "| NVIDIA-SMI %-23sDriver Version: %-15sCUDA Version: %-9s|\n" % (driver, driver, node.get("cuda"))
        + "|-----------------------------------------+------------------------+----------------------+\n"
        + "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |\n"
        + "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |\n"
        + "|                                         |                        |               MIG M. |\n"
        + "|=========================================+========================+======================|\n"
    )


def row(gpu: Gpu) -> str:
    name = _short(gpu.raw("name"))
    persistence = word(gpu, "persistence", ("Off", "On"))
    active = word(gpu, "display.active", ("Off", "On"))
    if gpu.steer("error"):
        persistence, active = "ERR!", "ERR!"
    first = "|%4d  %-27s    %-4s|   %s %-3s |%21s |\n" % (gpu.index, name, persistence, gpu.bus_id, active[:3], _uncorrected(gpu))
    power = "%s / %5s " % (_number(gpu, "power.draw", "W", 1000), _number(gpu, "power.limit", "W", 1000))
    second = "|%4s%6s    %-3s%24s|%23s |%8s%13s |\n" % (
        _number(gpu, "fan", "%"),
        _number(gpu, "temp.gpu", "C"),
        "ERR!"[:3] if gpu.steer("error") else pstate(gpu),
        power,
        "%s / %9s" % (_number(gpu, "memory.used", "MiB"), _number(gpu, "memory.total", "MiB")),
        _number(gpu, "util.gpu", "%"),
        "ERR!" if gpu.steer("error") else word(gpu, "compute_mode", COMPUTE_MODES)[:10],
    )
    mig = "ERR!" if gpu.steer("error") else word(gpu, "mig.current", ("Disabled", "Enabled"))
    return first + second + "|%41s|%24s|%21s |\n" % ("", "", mig) + _RULE


def _short(name: str) -> str:
    """27 characters, as in the real table; here the mark must not be what is cut."""
    if len(name) <= 27:
        return name
    return name[: 24 - len(_MARK)] + "..." + _MARK


def _number(gpu: Gpu, name: str, unit: str, scale: int = 1) -> str:
    number = gpu.number(name)
    if number is None:
        return NOT_AVAILABLE if gpu.get(name) == NOT_AVAILABLE else "ERR!"
    return "%d%s" % (round(number / scale), unit)


def _uncorrected(gpu: Gpu) -> str:
    counts = [gpu.number("ecc.volatile." + name) for name in ("sram_parity", "sram_secded", "dram_uncorrectable")]
    if None in counts:
        if gpu.steer("error"):
            return "ERR!"
        return "Off" if gpu.number("ecc.current") == 0 else NOT_AVAILABLE
    return str(sum(count or 0 for count in counts))


def foot(gpus: list[Gpu]) -> str:
    lines = [
        " " * 89 + "\n",
        _EDGE,
        "| Processes:                                                                              |\n",
        "|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |\n",
        "|        ID   ID                                                               Usage      |\n",
        "|=========================================================================================|\n",
    ]
    rows = []
    for gpu in gpus:
        for process in processes(gpu):
            used = process["used"] + "MiB" if process["used"] != NOT_AVAILABLE else NOT_AVAILABLE
            rows.append(
                "|%5d   N/A  N/A %15s %6s   %-35s %10s |\n" % (gpu.index, process["pid"], process["type"], process["name"][:35], used)
            )
    if not rows:
        rows.append("|  No running processes found                                                             |\n")
    return "".join([*lines, *rows, _EDGE])
