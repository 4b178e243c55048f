# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in for dcgmi of DCGM 3.3.9 and 4.4.2: diag, discovery, health, profile and the version."""

from __future__ import annotations

import os
import signal
import sys

from . import dcgm_document, load
from .clock import Clock
from .dcgm_plan import NO_TEST, NVVS_ERROR, OK, Diagnostic
from .state import Gpu, Node, folder, hang, is_process, obey

_KILLED, _PROFILING, _UNSUPPORTED, _BAD_PARAMETER = -53, -37, -36, -1
_TEXTS = {
    NVVS_ERROR: "DCGM GPU Diagnostic returned an error",
    _PROFILING: "The third-party Profiling module returned an unrecoverable error",
    _UNSUPPORTED: "Profiling is not supported for this group of GPUs or GPU",
    _KILLED: "The DCGM diagnostic was killed by a signal",
    NO_TEST: "Requested tests were not found among possible test choices.",
}
# Options of diag that take a value, beside those that are looked at.
_VALUED = (
    "--host", "-c", "--configfile", "-f", "--fakeGpuList", "--debugLogFile", "--statspath", "-d", "--debugLevel", "--throttle-mask",
    "--clocksevent-mask", "--check-interval", "-t", "--timeout", "--watch-frequency", "--ignoreErrorCodes", "-n",
    "--expectedNumEntities",
)  # fmt: skip


class Killed(Exception):
    """A signal asks for the end of the diagnostic."""


class Options:
    def __init__(self) -> None:
        self.run = "1"
        self.ids = ""
        self.group = False
        self.parameters = ""
        self.json = self.verbose = False
        self.iterations = 1


def main(argv: list[str]) -> int:
    path = folder()
    node = Node(path)
    obey(node, "dcgmi")
    commands = {"diag": _diag, "discovery": _discovery, "health": _health, "profile": _profile}
    if argv[:1] in (["-v"], ["--vv"], ["--version"]):
        version = node.get("dcgm.version")
        build = "Version : %s\nBuild ID : 1\nBuild Date : 2025-01-01\nBuild Type : Release\nCPU Arch : x86_64\n" % version
        sys.stdout.write("\nLocal build info:\n%s\nHostengine build info:\n%s" % (build, build))
        return 0
    if not argv or argv[0] not in commands:
        sys.stdout.write("ERROR: Invalid subsystem.\n\n")
        return _status(_BAD_PARAMETER)
    return _status(commands[argv[0]](path, node, argv[1:]))


def _status(code: int) -> int:
    return code & 255


def _gpus(node: Node) -> list[Gpu]:
    if node.get("nvml.hang") or any(gpu.steer("hang") for gpu in node.gpus()):
        hang(node.number("nvml.ignore_term") != 0)
    if node.number("nvml.init"):
        return []
    return [gpu for gpu in node.gpus() if not gpu.steer("handle_error") and not gpu.steer("error")]


def _discovery(_path: str, node: Node, _words: list[str]) -> int:
    switches = 0
    number = 0
    while node.get("pci.%d" % number):
        switches += "NVSwitch" in node.get("pci.%d" % number)
        number += 1
    sys.stdout.write(dcgm_document.discovery(_gpus(node), switches))
    return OK


def _health(_path: str, node: Node, words: list[str]) -> int:
    bad = [gpu for gpu in _gpus(node) if gpu.number("remap.failure") or gpu.number("remap.pending")]
    if "-j" in words or "--json" in words:
        overall = "Failure" if bad else "Healthy"
        sys.stdout.write(dcgm_document.styled({"body": {"Overall Health": {"value": overall}}, "header": ["Health Monitor Report"]}) + "\n")
        return OK
    if {"-c", "--check"} & set(words):
        rule = "+---------------------------+----------------------------------------------------------+\n"
        lines = [rule, "| %-84s |\n" % "Health Monitor Report", rule.replace("-", "=")]
        lines.append("| %-25s | %-56s |\n" % ("Overall Health", "Failure" if bad else "Healthy"))
        lines += ["| %-25s | %-56s |\n" % ("-> GPU %d" % gpu.index, "Failure") for gpu in bad]
        sys.stdout.write("".join([*lines, rule]))
    elif {"-s", "--set"} & {word.split("=")[0] for word in words}:
        sys.stdout.write("Health monitor systems set successfully.\n")
    else:
        sys.stdout.write("Health monitor systems report\n")
    return OK


def _profile(path: str, node: Node, words: list[str]) -> int:
    wanted = [word for word in ("pause", "resume") if "--" + word in words]
    if len(wanted) != 1:
        sys.stdout.write("Error: one of --list, --pause and --resume has to be given\n")
        return _BAD_PARAMETER
    if not node.number("dcgm.profiling"):
        sys.stdout.write("Error: unable to %s profiling metrics: %s.\n" % (wanted[0], _TEXTS[_UNSUPPORTED]))
        return _UNSUPPORTED
    with open(os.path.join(path, "profiling"), "a", encoding="utf-8") as handle:
        handle.write(wanted[0] + "\n")
    sys.stdout.write("Successfully %sd profiling.\n" % wanted[0])
    return OK


def _paused(path: str) -> bool:
    try:
        with open(os.path.join(path, "profiling"), encoding="utf-8") as handle:
            return handle.read().split()[-1:] == ["pause"]
    except FileNotFoundError:
        return False


def _diag(path: str, node: Node, words: list[str]) -> int:
    options = _parse(words)
    if isinstance(options, str):
        sys.stdout.write("PARSE ERROR: %s\n" % options)
        return _BAD_PARAMETER
    gpus = _gpus(node)
    if options.ids not in ("", "*", "*,cpu:*", "gpu:*"):
        numbers = [part.split(":")[-1].strip() for part in options.ids.split(",")]
        gpus = [gpu for gpu in gpus if str(gpu.index) in numbers or gpu.raw("uuid") in numbers]
    run = Diagnostic(node, gpus, options.run, options.parameters)
    refusal = _refusal(path, node, run, options)
    if refusal:
        return _refuse(run, options, *refusal)
    if is_process():
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, _killed)
    documents: list[object] = []
    code = OK
    try:
        for number in range(options.iterations):
            if options.iterations > 1 and not options.json:
                sys.stdout.write("\nRunning iteration %d of %d...\n" % (number + 1, options.iterations))
            _run(path, node, run)
            documents.append(dcgm_document.document(run))
            if not options.json:
                sys.stdout.write(dcgm_document.table(run, options.verbose))
            code = run.result()
            if code:
                break
    except Killed:
        return _refuse(run, options, _KILLED, _unable(run, options, _KILLED))
    if options.json:
        _print_json(documents, code, options)
    return code


def _killed(_number: int, _frame: object) -> None:
    raise Killed


def _print_json(documents: list[object], code: int, options: Options) -> None:
    if options.iterations == 1:
        sys.stdout.write(dcgm_document.styled(documents[0]) + "\n")
        return
    whole: dict[str, object] = {"iterations": documents, "Overall Result": "Fail" if code else "Pass"}
    if code:
        whole["Warning"] = _TEXTS.get(code, "The diagnostic returned an error that indicates the need to drain the GPU")
    sys.stdout.write(dcgm_document.styled(whole) + "\n\n")


def _parse(words: list[str]) -> Options | str:
    options = Options()
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name in ("-j", "--json"):
            options.json = True
        elif name in ("-v", "--verbose"):
            options.verbose = True
        elif name in ("--fail-early", "--statsonfail", "--enable-heartbeat"):
            pass
        elif name in ("-r", "--run", "-i", "--entity-id", "--gpuList", "-g", "--group", "-p", "--parameters", "--iterations", *_VALUED):
            if not equals:
                if not rest:
                    return "Argument: %s\n             Missing a value for this argument!" % name
                value = rest.pop(0)
            problem = _take(options, name, value)
            if problem:
                return problem
        else:
            return "Argument: %s\n             Couldn't find match for argument" % word
    return options


def _take(options: Options, name: str, value: str) -> str:
    if name in ("-r", "--run"):
        options.run = value
    elif name in ("-i", "--entity-id", "--gpuList"):
        options.ids = value
    elif name in ("-g", "--group"):
        options.group = True
    elif name in ("-p", "--parameters"):
        if any("=" not in part for part in value.split(";")):
            return "Improperly formatted parameters argument: '%s'" % value
        options.parameters = ";".join(filter(None, (options.parameters, value)))
    elif name == "--iterations":
        if not value.isdigit() or int(value) == 0:
            return "The value for iterations cannot be 0."
        options.iterations = int(value)
    return ""


def _unable(run: Diagnostic, options: Options, code: int) -> str:
    if run.new:
        return "Error: Unable to complete diagnostic for entities %s. Return: (%d) : %s\n" % (options.ids or "*,cpu:*", code, _TEXTS[code])
    return "Error: Unable to complete diagnostic for group %d. Return: (%d) %s." % (0x7FFFFFFF, code, _TEXTS[code])


def _refusal(path: str, node: Node, run: Diagnostic, options: Options) -> tuple[int, str] | None:
    """Why the diagnostic does not start: DCGM's code and its words."""
    if not run.found:
        return NO_TEST, _unable(run, options, NO_TEST)
    if node.get("dcgm.runtime_error"):
        return node.number("dcgm.runtime_code") or NVVS_ERROR, node.get("dcgm.runtime_error")
    if node.number("dcgm.profiling_lock") and not _paused(path):
        return _PROFILING, _unable(run, options, _PROFILING)
    divided = [gpu for gpu in run.gpus if gpu.number("mig.current") == 1]
    if divided and len(run.gpus) > 1:
        return NVVS_ERROR, (
            "Error: Cannot run diagnostic: CUDA does not support enumerating GPUs with MIG mode enabled, yet GPU %d is MIG enabled and "
            "the diagnostic is attempting to run on %d GPUs." % (divided[0].index, len(run.gpus))
        )
    if divided:
        return NVVS_ERROR, (
            "Error: Cannot run diagnostic: MIG is enabled, but no compute instances are configured. CUDA needs to execute on a "
            "compute instance if MIG is enabled."
        )
    if not run.gpus:
        return -35, "Error: No supported GPUs were found."
    return None


def _refuse(run: Diagnostic, options: Options, code: int, message: str) -> int:
    if options.json:
        sys.stdout.write(dcgm_document.styled(dcgm_document.runtime_error(run, message)) + "\n\n")
    else:
        sys.stdout.write(message + "\n")
    sys.stdout.flush()
    return code


def _run(path: str, node: Node, run: Diagnostic) -> None:
    """Take the time. Nothing is printed before the end."""
    clock = Clock()
    total = sum(test.seconds for test in run.tests if test.ran)
    hang_at = node.number("tool.dcgmi.hang_at")
    passed = 0.0
    for test in run.tests:
        if not test.ran:
            continue
        end = passed + test.seconds
        with _loaded(path, run, clock.speed, test.share):
            if hang_at and end >= total * hang_at / 100:
                clock.until(total * hang_at / 100)
                hang(node.number("tool.dcgmi.ignore_term") != 0)
            clock.until(end)
        passed = end


class _Idle:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_exception: object) -> None:
        pass


def _loaded(path: str, run: Diagnostic, speed: float, share: float) -> load.Load | _Idle:
    return load.Load(path, "nvvs", run.gpus, speed, share, used_mib=9200) if share else _Idle()
