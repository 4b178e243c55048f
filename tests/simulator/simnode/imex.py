# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-ins for nvidia-imex, which lets nodes of one NVLink domain share memory, and for nvidia-imex-ctl that asks it."""

from __future__ import annotations

import os
import signal
import sys

NODES = "/etc/nvidia-imex/nodes_config.cfg"
PID_FILE = "/run/nvidia-imex/nvidia-imex.pid"


def main(argv: list[str], version: str) -> int:
    if "-q" in argv:
        return _query()
    if "--version" in argv:
        sys.stdout.write("IMEX version is: %s\n" % version)
        return 0
    if not _nodes():
        sys.stderr.write("no node in %s [simulated]\n" % NODES)
        return 1
    os.makedirs(os.path.dirname(PID_FILE), exist_ok=True)
    with open(PID_FILE, "w", encoding="utf-8") as handle:
        handle.write("%d\n" % os.getpid())
    while True:
        signal.pause()


def _nodes() -> list[str]:
    try:
        with open(NODES, encoding="utf-8") as handle:
            lines = [line.strip() for line in handle]
    except FileNotFoundError:
        return []
    return [line for line in lines if line and not line.startswith("#")]


def _query() -> int:
    try:
        with open(PID_FILE, encoding="utf-8") as handle:
            os.kill(int(handle.read()), 0)
    except (OSError, ValueError):
        sys.stderr.write("Connection to IMEX failed [simulated]\n")
        return 1
    sys.stdout.write("READY\n")
    return 0
