# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in for nv-fabricmanager on a node that gets its driver from packages.

It refuses another version than the driver's and a node without NVSwitches, as the real one does, and leaves its version in the
file C(fabric) of the state directory: the node's stand-in for the kernel then lets the GPUs say that the fabric is complete.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from .state import Node, folder

PID_FILE = "/run/nvidia-fabricmanager/nv-fabricmanager.pid"
KERNEL = "/opt/node/driver"
_QUERY = "request to query NVSwitch device information from NVSwitch driver failed with error:"


def main(argv: list[str], version: str) -> int:
    if "--version" in argv or "-v" in argv:
        sys.stdout.write("Fabric Manager version is : %s\n" % version)
        return 0
    path = folder()
    problem = _problem(path, version)
    if problem:
        sys.stderr.write(problem + "\n")
        return 1
    with open(os.path.join(path, "fabric"), "w", encoding="utf-8") as handle:
        handle.write(version + "\n")
    if os.path.exists(KERNEL):
        subprocess.run([KERNEL, "settle"], check=True)
    sys.stdout.write(
        "Connected to 1 node.\nSuccessfully configured all the available NVSwitches to route GPU NVLink traffic. [simulated]\n"
    )
    sys.stdout.flush()
    return _stay()


def _problem(path: str, version: str) -> str:
    try:
        with open(os.path.join(path, "loaded"), encoding="utf-8") as handle:
            loaded = handle.read().split()
    except FileNotFoundError:
        loaded = []
    if not loaded:
        return _QUERY + "Driver not loaded [simulated]"
    if loaded[0] != version:
        return (
            "fabric manager NVIDIA GPU driver interface version %s don't match with driver version %s. "
            "Please update with matching NVIDIA driver package." % (version, loaded[0])
        )
    node = Node(path)
    devices = (node.get("pci.%d" % number) for number in range(1000))
    if not any("NVSwitch" in device for device in devices):
        return _QUERY + "WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]"
    return ""


def _stay() -> int:
    """In the background, as the real one does where its configuration has DAEMONIZE=1."""
    if os.fork():
        return 0
    os.setsid()
    os.makedirs(os.path.dirname(PID_FILE), exist_ok=True)
    with open(PID_FILE, "w", encoding="utf-8") as handle:
        handle.write("%d\n" % os.getpid())
    # systemd waits for the file and for the end of the first process, in this order or the other.
    while True:
        signal.pause()
