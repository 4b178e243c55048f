# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the dry run needs on the node: a Python that has PyTorch, a folder for its job, and a look at its ranks meanwhile.

Private to kentino.gpu.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import shutil
import tempfile
import time
import typing as t

from . import command, dryrun_job
from .root import under_root

# Where images put a Python that is not on the PATH.
_HOMES = ("/opt/conda/bin", "/opt/venv/bin", "/opt/pytorch/bin")
_MOST = 12
# The version without importing PyTorch: that takes seconds, minutes from a cold disk.
_ASK = """
import importlib.util, json, os, runpy, sys
spec = importlib.util.find_spec("torch")
version = None
if spec is not None and spec.origin:
    version = runpy.run_path(os.path.join(os.path.dirname(spec.origin), "version.py")).get("__version__")
print(json.dumps({"executable": sys.executable, "torch": str(version) if version is not None else None}))
"""
_RANK_FILE = re.compile(r"rank_(\d{1,6})\.(jsonl|log)")
_MOST_BYTES = 4 << 20


class Python(t.NamedTuple):
    path: str
    torch: t.Optional[str]  # its version
    problem: str = ""  # why it did not tell


def pythons(wanted: t.Optional[str]) -> t.List[str]:
    """The paths to ask: the one that is wanted, or each C(python3) there is, those on the PATH first."""
    if wanted:
        return [shutil.which(wanted) or wanted]
    folders = [*os.environ.get("PATH", os.defpath).split(os.pathsep), *_HOMES]
    found = [os.path.join(folder, "python3") for folder in folders if folder]
    # Not by what a link leads to: that a virtual environment has PyTorch is told by its own path.
    return [path for path in dict.fromkeys(found) if os.access(path, os.X_OK)][:_MOST]


def ask(path: str, deadline_seconds: float) -> Python:
    """Which PyTorch the Python at C(path) has."""
    done = command.run([path, "-c", _ASK], deadline_seconds)
    if done.outcome != "ended":
        return Python(path, None, done.problem())
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    try:
        answer = json.loads(lines[-1]) if lines else None
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return Python(path, None, "%s did not answer: %s" % (path, words[-1] if words else "status %s" % done.rc))
    version = answer.get("torch")
    return Python(path, version if isinstance(version, str) else None)


class Folder:
    """What a run needs and what it leaves: C(with Folder(...) as folder)."""

    def __init__(self, keep_below: t.Optional[str] = None) -> None:
        """Kept below C(keep_below), each run for itself: what an earlier one left would name the wrong culprit. Else removed."""
        self._kept = keep_below is not None
        if keep_below is None:
            self.path = tempfile.mkdtemp(prefix="kentino-dryrun-")
        else:
            parent = under_root(keep_below)
            os.makedirs(parent, mode=0o755, exist_ok=True)
            self.path = tempfile.mkdtemp(prefix=time.strftime("%Y%m%dT%H%M%S-"), dir=parent)
        self.job, self.spec = os.path.join(self.path, "dryrun_job.py"), os.path.join(self.path, "spec.json")

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *_exc: t.Any) -> None:
        if not self._kept:
            shutil.rmtree(self.path, ignore_errors=True)

    def write(self, spec: t.Mapping[str, t.Any]) -> None:
        """The job, whose text travels with the module, and what is asked of it."""
        for path, text in ((self.job, inspect.getsource(dryrun_job)), (self.spec, json.dumps(dict(spec, results_path=self.path)))):
            with open(path, "w", encoding="utf-8") as handle:
                handle.write(text)

    def records(self) -> t.Dict[int, str]:
        """What the ranks recorded, by number."""
        return self._read("jsonl")

    def logs(self) -> t.Dict[int, str]:
        """What they printed, likewise; of a log gone mad the end."""
        return self._read("log")

    def _read(self, ending: str) -> t.Dict[int, str]:
        found: t.Dict[int, str] = {}
        with contextlib.suppress(OSError):
            for name in sorted(os.listdir(self.path)):
                match = _RANK_FILE.fullmatch(name)
                if match and match.group(2) == ending:
                    found[int(match.group(1))] = _end_of(os.path.join(self.path, name))
        return found


def _end_of(path: str) -> str:
    with open(path, "rb") as handle:
        size = handle.seek(0, os.SEEK_END)
        handle.seek(max(0, size - _MOST_BYTES))
        return handle.read().decode("utf-8", "replace")


def process_state(pid: int) -> str:
    """R S D T Z of C(pid), as the kernel has it, or C(gone); nothing where it does not say."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as handle:
            # The name of the process, in parentheses, may itself hold blanks and parentheses.
            return handle.read().rpartition(b")")[2].split()[0].decode()
    except FileNotFoundError:
        return "gone"
    except (OSError, IndexError):
        return ""
