# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in for Open MPI's mpirun: as much as nccl-tests needs.

Hosts are names and nothing else: the program runs here, once for all ranks where it is one of nccl-tests, else once for each.
"""

from __future__ import annotations

import os
import sys

from .journal import HOSTNAME
from .state import Node, folder, obey
from .tools import TOOLS

_FLAGS = (
    "--allow-run-as-root", "--tag-output", "--oversubscribe", "--nooversubscribe", "-q", "--quiet", "-v", "--verbose", "--display-map",
    "--report-bindings", "--nolocal", "--merge-stderr-to-stdout",
)  # fmt: skip
# Options and how many words they take.
_VALUED = {
    "-mca": 2, "--mca": 2, "--prtemca": 2, "--gmca": 2, "--bind-to": 1, "--rank-by": 1, "--prefix": 1, "--wdir": 1, "-wdir": 1,
    "--timeout": 1, "--output": 1, "--output-filename": 1, "--tune": 1, "--path": 1,
}  # fmt: skip
_RULE = "-" * 74


class Options:
    def __init__(self) -> None:
        self.processes = 0
        self.per_node = 0
        self.hosts: dict[str, int] = {}
        self.exported: dict[str, str] = {}
        self.flags: set[str] = set()
        self.command: list[str] = []


def main(argv: list[str]) -> int:
    path = folder()
    obey(Node(path), "mpirun")
    if argv[:1] in (["--version"], ["-V"]):
        sys.stdout.write("mpirun (Open MPI) 4.1.6 [simulated]\n\nReport bugs to http://www.open-mpi.org/community/help/\n")
        return 0
    options = _parse(argv)
    if isinstance(options, str):
        return _refuse(options)
    told = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")  # it wants both
    allowed = "--allow-run-as-root" in options.flags or all(os.environ.get(name) == "1" for name in told)
    if os.geteuid() == 0 and not allowed:
        return _refuse("mpirun has detected an attempt to run as root.\n\nThe option --allow-run-as-root lets it do so all the same.")
    layout = _layout(options)
    if layout is None:
        wanted = (options.processes, options.command[0])
        return _refuse("There are not enough slots available in the system to satisfy the %d\nslots that were requested by the application:"
                       "\n\n  %s" % wanted)  # fmt: skip
    return _run(path, options, layout)


def _refuse(message: str) -> int:
    sys.stderr.write("%s\n%s\n%s\n" % (_RULE, message, _RULE))
    return 1


def _parse(argv: list[str]) -> Options | str:
    options = Options()
    words = list(argv)
    while words and words[0].startswith("-"):
        word = words.pop(0)
        if word in _FLAGS:
            options.flags.add(word)
            continue
        if word in _VALUED:
            del words[: _VALUED[word]]
            continue
        if not words:
            return 'mpirun: Error: option "%s" did not have enough parameters' % word
        value = words.pop(0)
        if word in ("-np", "-n", "--np", "-c"):
            options.processes = int(value)
        elif word in ("-N", "-npernode", "--npernode"):
            options.per_node = int(value)
        elif word in ("--map-by", "-map-by"):
            parts = value.split(":")
            if parts[0] == "ppr":
                options.per_node = int(parts[1])
        elif word in ("-H", "-host", "--host"):
            for part in value.split(","):
                host, _colon, slots = part.partition(":")
                options.hosts[host] = options.hosts.get(host, 0) + int(slots or 1)
        elif word in ("-hostfile", "--hostfile", "-machinefile", "--machinefile"):
            problem = _hostfile(options, value)
            if problem:
                return problem
        elif word == "-x":
            name, equals, given = value.partition("=")
            if equals or name in os.environ:
                options.exported[name] = given if equals else os.environ[name]
        else:
            return "mpirun: Error: unknown option \"%s\"\nType 'mpirun --help' for usage." % word
    options.command = words
    return options if words else "mpirun could not find anything to do."


def _hostfile(options: Options, path: str) -> str:
    try:
        with open(path, encoding="utf-8") as handle:
            lines = [line.split("#")[0].split() for line in handle]
    except OSError:
        return "Open RTE was unable to open the hostfile:\n    %s\nCheck to make sure the path and filename are correct." % path
    for words in filter(None, lines):
        slots = [word.split("=")[1] for word in words[1:] if word.startswith(("slots=", "max_slots=", "max-slots="))]
        options.hosts[words[0]] = options.hosts.get(words[0], 0) + int(slots[0] if slots else 1)
    return ""


def _layout(options: Options) -> list[tuple[str, int]] | None:
    """Processes by host; None where there are not enough slots."""
    hosts = dict(options.hosts) or {HOSTNAME: max(1, options.processes, options.per_node)}
    if options.per_node:
        hosts = dict.fromkeys(hosts, options.per_node)
    count = options.processes or sum(hosts.values())
    if count > sum(hosts.values()) and "--oversubscribe" not in options.flags:
        return None
    found = []
    for place, (host, slots) in enumerate(hosts.items()):
        here = count if place == len(hosts) - 1 else min(slots, count)
        if here:
            found.append((host, here))
        count -= here
    return found


def _run(path: str, options: Options, layout: list[tuple[str, int]]) -> int:
    before = dict(os.environ)
    if any(host not in (HOSTNAME, "localhost", "127.0.0.1") for host, _count in layout):
        # Another host gets of the environment what -x names.
        for name in [name for name in os.environ if name.startswith("NCCL_")]:
            del os.environ[name]
    os.environ.update(options.exported)
    os.environ["KENTINO_SIM_MPI"] = ",".join("%s:%d" % place for place in layout)
    try:
        program = os.path.basename(options.command[0])
        if TOOLS.get(program) == "nccl_tests" and os.path.exists(os.path.join(path, "bin", program)):
            from . import nccl_tests

            sys.argv[0] = program
            return nccl_tests.main(options.command[1:])
        return _each(options.command, layout)
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)


def _each(command: list[str], layout: list[tuple[str, int]]) -> int:
    import subprocess

    size = sum(count for _host, count in layout)
    children = []
    rank = 0
    for _host, count in layout:
        for local in range(count):
            places = {"OMPI_COMM_WORLD_SIZE": size, "OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_LOCAL_RANK": local}
            environment = dict(os.environ, **{name: str(value) for name, value in places.items()})
            try:
                children.append(subprocess.Popen(command, env=environment))
            except OSError:
                return _refuse("mpirun was unable to find the specified executable file:\n\nExecutable: %s" % command[0])
            rank += 1
    codes = [child.wait() for child in children]
    return max((128 - code if code < 0 else code for code in codes), default=0)
