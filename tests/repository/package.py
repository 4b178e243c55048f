# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Debian package of the test repository: upstream's name, version, relations and places; inside are the simulator's tools."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import typing as t
from dataclasses import dataclass, field

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Where a test node has this repository's simulator, and the state of its GPUs.
SIMULATOR = "/opt/simulated-node/tests/simulator"
STATE = "/var/lib/simulated-node"
CUDA = "cuda"  # the repository /compute/cuda/repos/<distribution>/x86_64
DISTRIBUTION = "distribution"  # what Debian or Ubuntu itself would have, but cannot have for the kernel of a test
CONTAINER_TOOLKIT = "container_toolkit"
# By the names of the CUDA repositories.
DEBIAN, UBUNTU = ("debian12", "debian13"), ("ubuntu2204", "ubuntu2404")


@dataclass(frozen=True)
class Package:
    """C(files): content by absolute path; a path below bin or sbin is executable. C(links): target by path. C(copies): file by path.

    C(scripts): postinst and the like, run by sh with "set -e". C(fields): further control fields, such as Depends.
    """

    name: str
    version: str
    fields: t.Mapping[str, str] = field(default_factory=dict)
    files: t.Mapping[str, str] = field(default_factory=dict)
    links: t.Mapping[str, str] = field(default_factory=dict)
    copies: t.Mapping[str, str] = field(default_factory=dict)
    scripts: t.Mapping[str, str] = field(default_factory=dict)
    conffiles: t.Tuple[str, ...] = ()
    architecture: str = "amd64"
    repository: str = CUDA
    # Of DEBIAN and UBUNTU; empty: all of them.
    distributions: t.Tuple[str, ...] = ()


def tool(module: str) -> str:
    """Script of a stand-in tool: C(simnode/<module>.py) of the simulator."""
    return (
        "#!/usr/bin/python3 -IS\n# A simulated tool: no GPU is used.\nimport os\nimport sys\n\n"
        "os.environ.setdefault('KENTINO_SIM_STATE', %r)\nsys.path.insert(0, %r)\n"
        "from simnode.%s import main\n\nsys.exit(main(sys.argv[1:]))\n" % (STATE, SIMULATOR, module)
    )


def lay_out(package: Package, tree: str) -> None:
    """Write what the package brings below C(tree)."""
    for path, content in package.files.items():
        write(tree + path, content, 0o755 if {"bin", "sbin"} & set(path.split("/")[:-1]) else 0o644)
    for path, source in package.copies.items():
        os.makedirs(os.path.dirname(tree + path), exist_ok=True)
        shutil.copy(source, tree + path)
    for path, target in package.links.items():
        os.makedirs(os.path.dirname(tree + path), exist_ok=True)
        os.symlink(target, tree + path)


def build(package: Package, folder: str) -> str:
    """Path of the C(.deb) in C(folder)."""
    tree = os.path.join(folder, package.name)
    lay_out(package, tree)
    control = {
        "Package": package.name,
        "Version": package.version,
        "Architecture": package.architecture,
        "Maintainer": "kentino.gpu tests <tests@kentino.invalid>",
        "Section": "misc",
        "Priority": "optional",
        **package.fields,
        "Description": "simulated stand-in for %s\n Made by the tests of kentino.gpu; no GPU is used." % package.name,
    }
    write(tree + "/DEBIAN/control", "".join("%s: %s\n" % item for item in control.items()), 0o644)
    for name, script in package.scripts.items():
        write(tree + "/DEBIAN/" + name, "#!/bin/sh\nset -e\n" + script, 0o755)
    if package.conffiles:
        write(tree + "/DEBIAN/conffiles", "".join(path + "\n" for path in package.conffiles), 0o644)
    target = os.path.join(folder, "%s_%s_%s.deb" % (package.name, package.version.replace(":", "%3a"), package.architecture))
    argv = ["dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, target]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit("%s: %s" % (shlex.join(argv), done.stderr))
    shutil.rmtree(tree)
    return target


def write(path: str, content: str, mode: int) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as handle:
        handle.write(content)
    os.chmod(path, mode)
