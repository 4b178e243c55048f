# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in for nvidia-smi."""

from __future__ import annotations

import sys

from .state import ERROR_WORDS, Gpu, Node, folder, hang, obey

_NOT_LOADED = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. "
    "Make sure that the latest NVIDIA driver is installed and running.\n\n"
)


class Output:
    """Holds back what is printed, so that a scenario can spoil the whole of it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.parts: list[str] = []

    def add(self, text: str) -> None:
        self.parts.append(text)

    def flush(self) -> None:
        data = "".join(self.parts).encode()
        self.parts = []
        cut = self.node.number("tool.nvidia-smi.cut")  # per cent that are printed
        if cut:
            data = data[: len(data) * cut // 100]
        if self.node.number("tool.nvidia-smi.garble"):
            data = bytes(byte ^ 0x80 if place % 11 == 7 else byte for place, byte in enumerate(data))
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


class Options:
    def __init__(self) -> None:
        self.mode = "table"  # table report list csv version nvlink
        self.xml = False
        self.ids: list[str] = []
        self.sections: list[str] = []
        self.query = ""  # gpu, remapped-rows, compute-apps
        self.fields: list[str] = []
        self.csv: list[str] = []
        self.errors = False  # of nvlink


def main(argv: list[str]) -> int:
    node = Node(folder(), count=True)
    obey(node, "nvidia-smi")
    if argv and argv[0] in ("-h", "--help"):
        sys.stdout.write("NVIDIA System Management Interface -- v%s [simulated]\n" % node.get("driver"))
        return 0
    options = _parse(argv)
    if isinstance(options, str):
        sys.stdout.write(options)
        return 2
    output = Output(node)
    try:
        return _run(node, options, output)
    finally:
        output.flush()


def _parse(argv: list[str]) -> Options | str:
    options = Options()
    words = list(argv)
    if words[:1] == ["nvlink"]:
        options.mode = "nvlink"
        words.pop(0)
    while words:
        word = words.pop(0)
        name, equals, value = word.partition("=")
        if name in ("-q", "--query"):
            options.mode = "report"
        elif name in ("-x", "--xml-format"):
            options.xml = True
        elif name in ("-L", "--list-gpus"):
            options.mode = "list"
        elif name == "--version":
            options.mode = "version"
        elif options.mode == "nvlink" and name in ("-s", "--status", "-e", "--errorcounters"):
            options.errors = name in ("-e", "--errorcounters")
        elif name in ("-i", "--id", "-d", "--display", "--format") or name.startswith("--query-"):
            value = value if equals else words.pop(0) if words else ""
            problem = _valued(options, name, value)
            if problem:
                return problem
        else:
            return "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n"
    if options.mode == "csv" and "csv" not in options.csv:
        return "\"--format=\" switch is missing. Please run 'nvidia-smi -h' for help.\n\n"
    return options


def _valued(options: Options, name: str, value: str) -> str:
    items = [item.strip() for item in value.split(",") if item.strip()]
    if name in ("-i", "--id"):
        options.ids += items
    elif name in ("-d", "--display"):
        from .smi_report import SECTIONS

        for item in items:
            if item.upper() not in SECTIONS:
                return "Invalid display type %s. Please run 'nvidia-smi -h' for help.\n\n" % item
            options.sections.append(item.upper())
    elif name == "--format":
        options.csv = items
    else:
        options.mode = "csv"
        options.query = name[len("--query-") :]
        options.fields = items
        if options.query not in ("gpu", "remapped-rows", "compute-apps"):
            return "Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n"
    return ""


def _run(node: Node, options: Options, output: Output) -> int:
    if node.get("nvml.init") == "9":
        output.add(_NOT_LOADED)
        return 9
    if node.get("nvml.init") == "18":
        branch = ".".join(node.get("nvml.library").split(".")[:2])
        output.add("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: %s\n" % branch)
        return 18
    if node.number("nvml.init"):
        output.add("Failed to initialize NVML: %s\n" % ERROR_WORDS.get(node.number("nvml.init"), "Unknown Error"))
        return min(node.number("nvml.init"), 255)
    if options.mode == "version":
        driver = node.get("driver")
        for title, value in (
            ("NVIDIA-SMI version", driver),
            ("NVML version", ".".join(driver.split(".")[:2])),
            ("DRIVER version", driver),
            ("CUDA Version", node.get("cuda")),
        ):
            output.add("%-20s: %s\n" % (title, value))
        return 0
    chosen = [gpu for gpu in node.gpus() if not options.ids or _meant(gpu, options.ids)]
    if not chosen:
        output.add("No devices were found\n")
        return 6
    return _print(node, options, output, chosen)


def _meant(gpu: Gpu, ids: list[str]) -> bool:
    names = (str(gpu.index), gpu.raw("uuid"), gpu.raw("serial"), gpu.bus_id, gpu.bus_id[4:])
    return any(one.lower() in (name.lower() for name in names) for one in ids)


def _alive(node: Node, output: Output, gpus: list[Gpu]) -> tuple[list[Gpu], int]:
    """The GPUs whose handle is given out. The others are named first; older tools end there (C(stop_at_lost))."""
    alive = []
    for gpu in gpus:
        code = gpu.steer("handle_error")
        if not code:
            alive.append(gpu)
        elif node.number("tool.nvidia-smi.stop_at_lost"):
            reason = "GPU is lost.  Reboot the system to recover this GPU" if code == 15 else ERROR_WORDS.get(code, "Unknown Error")
            output.add("Unable to determine the device handle for GPU %s: %s\n" % (gpu.bus_id[4:], reason))
            return [], code
        else:
            # Seen in this form since the 550 branch, whatever the NVML error.
            output.add("Unable to determine the device handle for GPU%d: %s: Unknown Error\n" % (gpu.index, gpu.bus_id[4:]))
    if not alive:
        output.add("No devices were found\n")
    return alive, 0 if alive else 6


def _print(node: Node, options: Options, output: Output, chosen: list[Gpu]) -> int:
    alive, code = _alive(node, output, chosen)
    if code:
        return code
    if options.mode == "list":
        for gpu in alive:
            _wait(gpu, output)
            output.add("GPU %d: %s (UUID: %s)\n" % (gpu.index, gpu.get("name"), gpu.get("uuid")))
        return 0
    if options.mode == "csv":
        return _csv(options, output, alive)
    if options.mode == "nvlink":
        _nvlink(options, output, alive)
    elif options.mode == "report":
        _report(node, options, output, alive)
    else:
        from . import smi_table

        output.add(smi_table.head(node))
        for gpu in alive:
            _wait(gpu, output)
            output.add(smi_table.row(gpu))
        output.add(smi_table.foot(alive))
    return 0


def _wait(gpu: Gpu, output: Output) -> None:
    if gpu.steer("hang"):
        output.flush()
        hang(gpu.node.number("tool.nvidia-smi.ignore_term") != 0)


def _report(node: Node, options: Options, output: Output, gpus: list[Gpu]) -> None:
    from . import smi_report

    output.add(smi_report.xml_header(node, node.number("gpus")) if options.xml else smi_report.text_header(node, node.number("gpus")))
    for gpu in gpus:
        _wait(gpu, output)
        output.add(smi_report.xml(gpu) if options.xml else smi_report.text(gpu, options.sections))
    if options.xml:
        output.add(smi_report.xml_footer())


def _csv(options: Options, output: Output, gpus: list[Gpu]) -> int:
    from . import smi_query

    units = "nounits" not in options.csv
    of_process = options.query == "compute-apps"
    rows = []
    try:
        for gpu in gpus:
            _wait(gpu, output)
            rows += smi_query.process_rows(gpu, options.fields, units) if of_process else [smi_query.gpu_row(gpu, options.fields, units)]
    except smi_query.UnknownField as exc:
        output.add('Field "%s" is not a valid field to query.\n\n' % exc)
        return 2
    if "noheader" not in options.csv:
        rows.insert(0, smi_query.header(options.fields, units, of_process))
    output.add("".join(row + "\n" for row in rows))
    return 0


def _nvlink(options: Options, output: Output, gpus: list[Gpu]) -> None:
    for gpu in gpus:
        _wait(gpu, output)
        count = gpu.number("nvlink.count")
        output.add("GPU %d: %s (UUID: %s)\n" % (gpu.index, gpu.get("name"), gpu.get("uuid")))
        for link in range(count or 0):
            prefix = "nvlink.%d." % link
            if options.errors:
                for title, name in (("Replay Errors", "replay"), ("Recovery Errors", "recovery"), ("CRC Errors", "crc")):
                    output.add("\t Link %d: %s: %s\n" % (link, title, gpu.get(prefix + name)))
            elif gpu.number(prefix + "state") == 1:
                output.add("\t Link %d: %.3f GB/s\n" % (link, (gpu.number(prefix + "speed") or 0) / 1000))
            else:
                output.add("\t Link %d: <inactive>\n" % link)
