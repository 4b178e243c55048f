# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A Python that says it has PyTorch, and a torchrun that only writes what the ranks of a run would have recorded.

The words in FAKE_DRYRUN say what becomes of the run. The records are written with the job's own code.
"""

from __future__ import annotations

import stat
import sys
import typing as t
from pathlib import Path

_TEXT = r"""#!%(python)s
import json, os, signal, subprocess, sys, time

words = os.environ.get("FAKE_DRYRUN", "").split()
if sys.argv[1] == "-c":
    print(json.dumps({"torch": os.environ.get("FAKE_TORCH", "2.9.1")}))
    sys.exit(0)
ranks = int(next(word for word in sys.argv if word.startswith("--nproc-per-node=")).split("=")[1])
job, spec = sys.argv[-2:]
sys.path.insert(0, os.path.dirname(job))
import dryrun_job

with open(spec) as handle:
    spec = json.load(handle)
with open(os.environ["FAKE_SAW"], "w") as handle:
    json.dump({"argv": sys.argv, "spec": spec, "environment": dict(os.environ)}, handle)
pids = [os.getpid()] * ranks
if "orphan" in words:
    orphan = subprocess.Popen(["sleep", "300"], start_new_session=True)
    pids = [orphan.pid] * ranks
if "dead" in words:
    pids[1] = 1 << 22  # one more than there can be
for rank in range(ranks):
    records = dryrun_job.Records(spec["results_path"], rank)
    records.write("rank", rank=rank, local_rank=rank, world=ranks, pid=pids[rank], host="fake")
    for phase in dryrun_job.BEFORE_STEPS:
        records.enter(phase)
    records.write("versions", torch="2.9.1", cuda="12.8")
    if spec["device"] == "cuda":
        records.write("device", index=rank, name="NVIDIA H100", uuid="GPU-%%d" %% rank if "uuid" in words else None, pci=None)
    behind = rank == 1 and ("dead" in words or "hang" in words)
    for step in range(spec["steps"] + 1):
        for phase in dryrun_job.IN_STEP:
            if step == 1 and (phase == "allreduce" and behind or phase == "optimiser" and ("dead" in words or "hang" in words)):
                break
            records.enter(phase, step)
        else:
            values = dict(loss=5.0, gradient_norm=2.0, reduced_gradient_norm=2.0, compute_seconds=0.1, reduce_seconds=0.1, step_seconds=0.2)
            records.write("step", step=step, parts=[1] * ranks, gathered_losses=[5.0] * ranks, **values)
            continue
        break
    else:
        records.write("memory", peak_reserved_bytes=1 << 30, alloc_retries=0)
        records.write("finished")
    if "dead" in words and not behind:
        records.write("error", phase="allreduce", step=1, type="RuntimeError", text="Connection closed by peer", stack=[])
if "hang" in words or "orphan" in words:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(300)
if "dead" in words:
    print("failed (exitcode: -9) local_rank: 1 (pid: %%d) of binary: python" %% pids[1], file=sys.stderr)
    sys.exit(1)
sys.exit(int(os.environ.get("FAKE_STATUS", "0")))
"""


def make(folder: Path, monkeypatch: t.Any, words: str = "") -> str:
    """The path of such a Python; what it was asked is in C(saw.json) beside it."""
    path = folder / "python-with-torch"
    path.write_text(_TEXT % {"python": sys.executable})
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("FAKE_DRYRUN", words)
    monkeypatch.setenv("FAKE_SAW", str(folder / "saw.json"))
    monkeypatch.delenv("KENTINO_DRYRUN_FAULT", raising=False)
    return str(path)
