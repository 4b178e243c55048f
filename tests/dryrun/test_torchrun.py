# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The dry run for real: torchrun, several ranks, Gloo on the CPU. Needs PyTorch, and no GPU."""

from __future__ import annotations

import glob
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._check import dryrun

SMALL = {"width": 64, "heads": 4, "layers": 1, "vocabulary": 64, "batch_size": 2, "sequence_length": 16, "steps": 2}
# A start of PyTorch takes seconds, on a busy machine many: only what is between two ranks has to be quick.
KNOWN = {"device": "cpu", "python": sys.executable, "timeout_seconds": 5.0, "run_seconds": 180.0, **SMALL}
# Steps of some milliseconds on shared cores scatter widely; the slow rank of a drill is slower by hundreds.
STEADY = {"dryrun_slow_floor_seconds": 0.2}


def _run(monkeypatch, ranks, fault="", **more):
    monkeypatch.setenv("KENTINO_DRYRUN_FAULT", fault)
    check, facts = dryrun.run(dryrun.Options(**{**KNOWN, "ranks": ranks, "limits": STEADY, **more}))
    json.dumps(facts, allow_nan=False)
    return check, facts


def _named(check):
    """Code, verdict and rank of all that was found but the drill itself."""
    return [(one.code, one.verdict, one.subject.index) for one in check.findings if one.code != "dryrun.drill"]


def _processes(folder):
    """What still runs the job of this folder."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as handle:
                if folder.encode() in handle.read():
                    found.append(int(path.split("/")[2]))
        except OSError:
            continue
    return found


def test_four_ranks_pass(monkeypatch):
    check, facts = _run(monkeypatch, 4)
    assert (check.verdict, _named(check)) == ("pass", [])
    assert "4 ranks on cpu went through a warm-up and 2 steps" in check.evidence
    losses = [[step["loss"] for step in rank["steps"]] for rank in facts["ranks"]]
    assert losses[0] == losses[1] == losses[2] == losses[3]
    # It learns: gradients, all-reduce and optimiser do what they are named for.
    assert losses[0][0] > losses[0][1] > losses[0][2] > 0
    assert all(step["compute_seconds"] > 0 and step["reduce_seconds"] > 0 for rank in facts["ranks"] for step in rank["steps"])
    assert not os.path.exists(os.path.dirname(facts["argv"][-1]))


def test_the_dead_rank_is_named(monkeypatch):
    check, facts = _run(monkeypatch, 4, "die:rank=2,step=1")
    assert _named(check) == [("dryrun.rank_died", "fail", 2)]
    message = check.findings[0].message
    assert "was killed by SIGKILL in backward of step 1" in message
    assert "pid %d" % facts["ranks"][2]["pid"] in message
    assert facts["ranks"][2]["exit_code"] == -9


def test_the_hung_rank_is_named(monkeypatch):
    check, facts = _run(monkeypatch, 4, "hang:rank=1,step=1")
    assert _named(check) == [("dryrun.rank_hung", "fail", 1)]
    assert "did not enter allreduce of step 1, where 3 ranks waited; last seen in backward of step 1" in check.findings[0].message
    assert any("_suffer" in line for line in check.findings[0].evidence)
    assert facts["outcome"] == "ended"


def test_a_rank_that_hangs_before_it_joins_is_named(monkeypatch):
    check, _facts = _run(monkeypatch, 2, "hang:rank=1,phase=broadcast")
    assert _named(check) == [("dryrun.rank_hung", "fail", 1)]
    assert "last seen in build" in check.findings[0].message


def test_a_rank_that_ignores_everything_but_sigkill_is_ended_in_time(monkeypatch):
    # torchrun itself would wait for 30 seconds, and so do we.
    monkeypatch.setattr(dryrun, "_LAST_SECONDS", 1.0)
    check, facts = _run(monkeypatch, 2, "deaf:rank=1,step=1")
    assert facts["outcome"] == "stopped"
    assert _named(check) == [("dryrun.rank_hung", "fail", 1), ("dryrun.incomplete", "unknown", None)]
    assert not _processes(os.path.dirname(facts["argv"][-1]))


def test_what_each_rank_computes_is_compared(monkeypatch):
    check, _facts = _run(monkeypatch, 4, "wrong:rank=1,step=1;slow:rank=3,seconds=0.5")
    assert _named(check) == [("dryrun.loss_differs", "fail", 1), ("dryrun.straggler", "warn", 3)]


def test_the_first_rank_with_no_number_is_named(monkeypatch):
    check, _facts = _run(monkeypatch, 3, "nan:rank=0,step=1")
    assert _named(check) == [("dryrun.loss_not_finite", "fail", 0)]


def test_memory_that_is_full_is_told_by_its_cause(monkeypatch):
    check, _facts = _run(monkeypatch, 2, "oom:rank=1,step=1")
    assert _named(check) == [("dryrun.oom", "fail", 1)]
    assert "activations" in check.findings[0].message


def test_a_job_that_does_not_fit_the_host_says_so(monkeypatch):
    # 256 TiB for the tokens' vectors: no machine has them, and none is touched.
    check, _facts = _run(monkeypatch, 2, vocabulary=1 << 40)
    assert [(code, verdict) for code, verdict, _rank in _named(check)] == [("dryrun.oom", "fail")]
    assert "host" in check.findings[0].message


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=lambda number: number.name)
def test_nothing_is_left_when_the_module_is_killed(monkeypatch, tmp_path, number):
    monkeypatch.setenv("KENTINO_DRYRUN_FAULT", "hang:rank=1,step=1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    options = {**KNOWN, "ranks": 2, "timeout_seconds": 100.0}
    script = "import sys\nsys.path[:0] = %r\nfrom %s import dryrun\ndryrun.run(dryrun.Options(**%r))" % (
        [path for path in sys.path if path.endswith(".collections")],
        "ansible_collections.kentino.gpu.plugins.module_utils._check",
        options,
    )
    module = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
    until = time.monotonic() + 120
    while not glob.glob(str(tmp_path / "*/rank_1.jsonl")):
        assert time.monotonic() < until
        time.sleep(0.2)
    assert len(_processes(str(tmp_path))) >= 3
    module.send_signal(number)
    module.wait(30)
    until = time.monotonic() + 10
    while (_processes(str(tmp_path)) or os.listdir(tmp_path)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not _processes(str(tmp_path))
    assert os.listdir(tmp_path) == []
