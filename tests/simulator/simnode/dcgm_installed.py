# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-ins of the DCGM packages: nv-hostengine, and dcgmi that needs it.

The host engine does nothing but be there and say its version: what dcgmi prints is computed in its own process (see dcgmi.py).
"""

from __future__ import annotations

import signal
import socket
import sys

from . import dcgmi
from .state import Node

ADDRESS = ("127.0.0.1", 5555)
_NO_CONNECTION = 255 & -21


def main(argv: list[str], version: str) -> int:
    """C(dcgmi)."""
    running = hostengine_version()
    if argv[:1] in (["-v"], ["--vv"], ["--version"]):
        return _versions(version, running)
    # The diagnostic starts an engine of its own where none runs.
    if not running and argv[:1] != ["diag"]:
        sys.stdout.write(
            "Error: unable to establish a connection to the specified host: localhost\n"
            "Error: Unable to connect to host engine. Host engine connection invalid/disconnected.\n"
        )
        return _NO_CONNECTION

    class Installed(Node):
        """The node as the scenario has it, with the DCGM of the package."""

        def __init__(self, path: str, count: bool = False) -> None:
            super().__init__(path, count)
            self.facts["dcgm.version"] = running or version

    dcgmi.Node = Installed  # type: ignore[misc]
    return dcgmi.main(argv)


def _versions(version: str, running: str) -> int:
    build = "Version : %s\nBuild ID : 1\nBuild Date : 2025-01-01\nBuild Type : Release\nCPU Arch : x86_64\n"
    sys.stdout.write("\nLocal build info:\n" + build % version)
    if running:
        sys.stdout.write("\nHostengine build info:\n" + build % running)
        return 0
    sys.stdout.write("\nUnable to connect to host engine. Host engine connection invalid/disconnected.\n")
    return _NO_CONNECTION


def hostengine_version() -> str:
    """Of the engine that runs; empty where none does."""
    try:
        with socket.create_connection(ADDRESS, timeout=5) as connection:
            return connection.makefile().readline().strip()
    except OSError:
        return ""


def hostengine(argv: list[str], version: str) -> int:
    """C(nv-hostengine -n)."""
    if "--version" in argv:
        sys.stdout.write("Version : %s\n" % version)
        return 0
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))
    server = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind(ADDRESS)
    except OSError as exc:
        sys.stderr.write("Err: Failed to start DCGM Server: %s\n" % exc.strerror)
        return 255
    server.listen(16)
    sys.stdout.write("DCGM initialized\nStarted host engine version %s using port number: %d [simulated]\n" % (version, ADDRESS[1]))
    sys.stdout.flush()
    while True:
        connection, _address = server.accept()
        with connection:
            connection.sendall((version + "\n").encode())
