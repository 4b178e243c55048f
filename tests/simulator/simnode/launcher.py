# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command C(simulate)."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import typing as t

from . import build, render, scenario

_DESCRIPTION = "Run a command on a simulated GPU node: its nvidia-smi, journalctl, dmesg, lspci, NVML, /sys and /proc, without root."


def main(argv: t.Sequence[str]) -> int:
    words = list(argv)
    command: t.List[str] = []
    if "--" in words:
        command = words[words.index("--") + 1 :]
        words = words[: words.index("--")]
    options = _parser().parse_args(words)
    if options.list:
        return _list()
    if not options.scenario:
        return _fail("name a scenario, such as h100x8 or h100x8+link_x4; --list shows what there is")
    try:
        wanted = scenario.load(options.scenario)
    except scenario.ScenarioError as exc:
        return _fail("%s (--list explains them)" % exc)
    if options.driver:
        versions = [None if version == "none" else version for version in (options.driver, options.library)]
        scenario.with_driver(wanted, versions[0], versions[1], options.fabric == "up", options.flavour == "open")
    if options.env:
        return _environment(wanted, options)
    if not command:
        return _fail("give the command to run behind --")
    return _run(wanted, options.state, command)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="simulate", description=_DESCRIPTION, usage="simulate SCENARIO [--state DIR] -- command args...")
    parser.add_argument("scenario", nargs="?", help="node[+fault[+fault...]], such as h100x8+link_x4")
    parser.add_argument("--state", metavar="DIR", help="keep the node's state here: what changes goes on from call to call")
    parser.add_argument("--env", action="store_true", help="print the environment instead of running a command")
    packages = parser.add_argument_group("a node whose driver and tools come from packages, as those of the test nodes do")
    packages.add_argument("--driver", metavar="VERSION", help="of the loaded kernel module, or none")
    packages.add_argument("--library", metavar="VERSION", default="none", help="of libnvidia-ml, or none")
    packages.add_argument("--flavour", choices=("open", "proprietary"), default="open", help="of the kernel module")
    packages.add_argument("--fabric", choices=("up", "down"), default="down", help="what the Fabric Manager has made of the NVSwitches")
    parser.add_argument("--format", choices=("json", "shell", "yaml"), default="json", help="of --env")
    parser.add_argument("--list", action="store_true", help="what nodes and faults there are")
    return parser


def _list() -> int:
    for title, found in (("nodes", scenario.nodes()), ("faults", scenario.faults())):
        sys.stdout.write("%s\n" % title)
        for name, about in found.items():
            sys.stdout.write("  %-22s %s\n" % (name, about))
    return 0


def _prepare(wanted: scenario.Scenario, folder: str) -> None:
    problem = render.prepare(wanted, folder)
    if problem:
        sys.stderr.write("simulate: %s\n" % problem)


def _environment(wanted: scenario.Scenario, options: argparse.Namespace) -> int:
    folder = options.state or os.path.join(build.folder(), "state", wanted.name)
    _prepare(wanted, folder)
    for key, value in render.environment(folder).items():
        if options.format == "shell":
            sys.stdout.write("export %s=%s\n" % (key, shlex.quote(value)))
        elif options.format == "yaml":
            sys.stdout.write("%s: %s\n" % (key, json.dumps(value)))
    if options.format == "json":
        sys.stdout.write(json.dumps(render.environment(folder), indent=1) + "\n")
    return 0


def _run(wanted: scenario.Scenario, state: t.Optional[str], command: t.List[str]) -> int:
    folder = state or tempfile.mkdtemp(prefix="simulated-node-")
    try:
        _prepare(wanted, folder)
        environment = dict(os.environ, **render.environment(folder))
        environment.pop("NVIDIA_VISIBLE_DEVICES", None)  # as in a GPU container; this node shows all it has
        sys.stderr.write("SIMULATED NODE: %s, no GPU of this machine is used\n" % wanted.name)
        sys.stderr.flush()
        try:
            child = subprocess.Popen(command, env=environment)
        except OSError as exc:
            return _fail("%s: %s" % (command[0], exc.strerror), 127)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda received, _frame: child.send_signal(received))
        code = child.wait()
        return 128 - code if code < 0 else code
    finally:
        if not state:
            shutil.rmtree(folder, ignore_errors=True)


def _fail(message: str, code: int = 2) -> int:
    sys.stderr.write("simulate: %s\n" % message)
    return code
