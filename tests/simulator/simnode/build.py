# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build the NVML stub with the machine's C compiler, when it is needed and only then."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import typing as t

NAME = "libnvidia-ml.so.1"
_SOURCES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib")
_REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(_SOURCES)))


def folder() -> str:
    return os.path.join(_REPOSITORY, "build", "simulator")


def library(fallback: str) -> t.Tuple[t.Optional[str], t.Optional[str]]:
    """Path of the library, or None and why there is none. Where the repository cannot be written to, it is built in C(fallback)."""
    target = folder()
    try:
        os.makedirs(target, exist_ok=True)
    except OSError:
        target = ""
    if not target or not os.access(target, os.W_OK):
        target = os.path.join(os.path.abspath(fallback), "build")
        os.makedirs(target, exist_ok=True)
    path = os.path.join(target, NAME)
    sources = sorted(glob.glob(os.path.join(_SOURCES, "*.[ch]")))
    if os.path.exists(path) and os.path.getmtime(path) >= max(os.path.getmtime(source) for source in sources):
        return path, None
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        return None, "no C compiler (cc, gcc, clang) was found: NVML is not simulated, nvidia-smi is"
    # Under a name of its own first: two test runs may build at the same time.
    partial = "%s.%d" % (path, os.getpid())
    argv = [compiler, "-std=c99", "-D_GNU_SOURCE", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname," + NAME, "-o", partial]
    try:
        argv += [source for source in sources if source.endswith(".c")]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    except OSError as exc:
        return None, "%s could not be started (%s): NVML is not simulated, nvidia-smi is" % (compiler, exc)
    if done.returncode:
        return None, "the NVML stub could not be built, nvidia-smi only:\n" + done.stderr
    os.replace(partial, path)
    return path, None
