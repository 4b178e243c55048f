# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command line: check, explain, parse. Private to kentino.gpu."""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import sys
import typing as t

from .._probe.root import under_root

# As monitoring plugins do: 0 pass, 1 warn, 2 fail, 3 cannot tell. Wrong usage is none of these.
EXIT_STATUS = {"pass": 0, "warn": 1, "fail": 2, "unknown": 3, "skip": 3}
EXIT_USAGE = 64
NODE_FILE = "/etc/kentino-gpu/node.json"
KINDS = ("kernel_log", "nvidia_smi", "dcgm_json", "nccl_tests", "gpu_burn")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> t.NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, "%s: %s\n" % (self.prog, message))


def main(argv: t.Optional[t.Sequence[str]] = None) -> int:
    """Run one command; returns the exit status."""
    for stream in (sys.stdout, sys.stderr):
        # What a node prints may hold characters that this terminal has none for.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    options = _parser().parse_args(argv)
    try:
        return int(options.run(options))
    except ValueError as exc:
        sys.stderr.write("kentino-gpu: %s\n" % exc)
        return EXIT_USAGE
    except BrokenPipeError:
        # The reader (head, less) has seen enough; nothing more may be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_STATUS["unknown"]


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="kentino-gpu", description="Health of this machine's NVIDIA GPUs: evidence in, verdict out.")
    commands = parser.add_subparsers(dest="command", required=True, parser_class=_Parser)
    check = commands.add_parser("check", help="check this node; exit status 0 pass, 1 warn, 2 fail, 3 cannot tell")
    check.add_argument("--checks", default="gpu,kernel_log", help="comma-separated, of: gpu, kernel_log")
    check.add_argument("--json", action="store_true", help="the whole report as JSON instead of a table")
    check.add_argument("--node", metavar="FILE", help="JSON file that says what this node should be (default %s)" % NODE_FILE)
    check.add_argument("--gpus", type=int, metavar="N", help="how many GPUs this node should have")
    check.add_argument("--kernel-log", action="append", default=[], metavar="FILE", help="read this file instead of the journal")
    check.add_argument("--state", metavar="FILE", help="remember cursor and counters here; later runs read only what is new")
    check.add_argument("--deadline", type=float, default=20, metavar="S", help="seconds for each tool (default 20)")
    check.set_defaults(run=_check)
    explain = commands.add_parser("explain", help="what an Xid, an SXid or a finding means and what to do")
    explain.add_argument("what", nargs="+", help="79, sxid 20034, gpu.pcie_width, or a line of the log")
    explain.set_defaults(run=_explain)
    parse = commands.add_parser("parse", help="read a tool's text on standard input, print one JSON object")
    parse.add_argument("--kind", required=True, choices=KINDS)
    parse.add_argument("--rc", default="none", help="exit status of the tool that printed the text, or none")
    parse.set_defaults(run=_parse)
    return parser


def _write(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()  # here and not at exit, where nobody would notice that the reader is gone


def _check(options: argparse.Namespace) -> int:
    from .._check import gpu, health, kernel_log
    from .._report import table

    names = [name.strip() for name in options.checks.split(",") if name.strip()]
    unknown = [name for name in names if name not in health.CHECKS]
    if unknown or not names:
        raise ValueError("--checks %s: expected one or more of %s" % (options.checks, ", ".join(health.CHECKS)))
    node = _node(options.node)
    expected = dict(node["expected"])
    if options.gpus is not None:
        expected["count"] = options.gpus
    shared = {"state_path": options.state or node["state_path"], "deadline_seconds": options.deadline}
    result = health.run(
        names,
        gpu.Options(expected=expected, limits=node["limits"], **shared),
        kernel_log.Options(
            source="file" if options.kernel_log else "auto",
            paths=options.kernel_log,
            policy={"xid_policy": node["xid_policy"]},
            **shared,
        ),
    )
    if options.json:
        _write(json.dumps(result, indent=2, sort_keys=True))
    else:
        _write("\n".join(table.lines(result)))
    return EXIT_STATUS[result["verdict"]]


def _node(path: t.Optional[str]) -> t.Dict[str, t.Any]:
    """What the inventory would say of this node: expected, limits, xid_policy (each empty where it does not) and state_path."""
    name = path or under_root(NODE_FILE)
    said: t.Dict[str, t.Any] = {"expected": {}, "limits": {}, "xid_policy": {}, "state_path": None}
    shape = "expected a JSON object with any of the keys %s" % ", ".join(said)
    try:
        with open(name, encoding="utf-8") as handle:
            node = json.load(handle)
    except FileNotFoundError:
        if path:
            raise ValueError("%s: no such file; %s" % (path, shape)) from None
        return said
    except (OSError, ValueError, RecursionError) as exc:
        raise ValueError("%s: %s; %s" % (name, getattr(exc, "strerror", None) or exc, shape)) from exc
    if not isinstance(node, dict) or set(node) - set(said):
        raise ValueError("%s: %s and no others" % (name, shape))
    for key, value in node.items():
        if value is not None and not isinstance(value, str if key == "state_path" else dict):
            raise ValueError("%s: %s is %r; expected %s" % (name, key, value, "a path" if key == "state_path" else "an object"))
        said[key] = said[key] if value is None else value
    return said


def _explain(options: argparse.Namespace) -> int:
    from . import explain

    _write(explain.explain(" ".join(options.what)))
    return 0


def _parse(options: argparse.Namespace) -> int:
    if options.rc != "none" and not options.rc.lstrip("-").isdigit():
        raise ValueError("--rc %s: expected a number or none" % options.rc)
    rc = None if options.rc == "none" else int(options.rc)
    answer = importlib.import_module(".parse_" + options.kind, __package__).answer
    text = sys.stdin.buffer.read().decode("utf-8", "replace")
    _write(json.dumps(answer(text, rc)))
    return 0
