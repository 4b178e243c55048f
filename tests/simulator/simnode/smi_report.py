# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""C(nvidia-smi -q) and C(-q -x): the two forms of the report."""

from __future__ import annotations

import time

from .smi_gpu import gpu_lines
from .state import Gpu, Node

# What -d SECTION keeps of the report.
SECTIONS = {
    "MEMORY": ("FB Memory Usage", "BAR1 Memory Usage", "Conf Compute Protected Memory Usage"),
    "UTILIZATION": ("Utilization",),
    "ECC": ("ECC Mode", "ECC Errors"),
    "TEMPERATURE": ("Temperature",),
    "POWER": ("GPU Power Readings", "GPU Memory Power Readings ", "Module Power Readings"),
    "CLOCK": ("Clocks", "Applications Clocks", "Default Applications Clocks", "Max Clocks", "Max Customer Boost Clocks", "Clock Policy"),
    "COMPUTE": ("Compute Mode",),
    "PIDS": ("Processes",),
    "PERFORMANCE": ("Performance State", "Clocks Event Reasons", "Clocks Event Reasons Counters", "Sparse Operation Mode"),
    "PAGE_RETIREMENT": ("Retired Pages",),
    "ROW_REMAPPER": ("Remapped Rows",),
    "VOLTAGE": ("Voltage",),
    "RESET_STATUS": ("GPU Reset Status", "GPU Recovery Action"),
    "GSP_FIRMWARE_VERSION": ("GSP Firmware Version",),
}


def text_header(node: Node, attached: int) -> str:
    lines = [
        ("Timestamp", time.strftime("%a %b %e %H:%M:%S %Y")),
        ("Driver Version", node.get("driver")),
        ("CUDA Version", node.get("cuda")),
    ]
    written = "".join("%-42s: %s\n" % line for line in lines)
    return "\n==============NVSMI LOG==============\n\n" + written + "\n%-42s: %d\n" % ("Attached GPUs", attached)


def text(gpu: Gpu, sections: list[str]) -> str:
    wanted = {label for section in sections for label in SECTIONS[section]}
    lines = [line for line in gpu_lines(gpu) if not wanted or line[0] in wanted]
    return "GPU %s\n%s\n" % (gpu.bus_id, _text(lines, 1))


def _text(lines: list, depth: int) -> str:
    found = []
    for label, _tag, value in lines:
        if label is None:
            continue
        if isinstance(value, tuple):
            value = value[0]
        label = "    " * depth + label
        if isinstance(value, list):
            found.append(label + "\n" + _text(value, depth + 1))
        else:
            found.append("%-42s: %s\n" % (label, value))
    return "".join(found)


def xml_header(node: Node, attached: int) -> str:
    return (
        '<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v%s.dtd">\n<nvidia_smi_log>\n'
        "\t<timestamp>%s</timestamp>\n\t<driver_version>%s</driver_version>\n\t<cuda_version>%s</cuda_version>\n\t<attached_gpus>%d</attached_gpus>\n"
        % (node.get("dtd"), time.strftime("%a %b %e %H:%M:%S %Y"), node.get("driver"), node.get("cuda"), attached)
    )


def xml(gpu: Gpu) -> str:
    return '\t<gpu id="%s">\n%s\t</gpu>\n\n' % (gpu.bus_id, _xml(gpu_lines(gpu), 2))


def xml_footer() -> str:
    return "</nvidia_smi_log>\n"


def _xml(lines: list, depth: int) -> str:
    found = []
    indent = "\t" * depth
    for _label, tag, value in lines:
        if tag is None:
            continue
        if isinstance(value, tuple):
            value = value[1]
        if isinstance(value, list):
            found.append("%s<%s>\n%s%s</%s>\n" % (indent, tag, _xml(value, depth + 1), indent, tag))
        else:
            value = value.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            found.append("%s<%s>%s</%s>\n" % (indent, tag, value, tag))
    return "".join(found)
