# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import preflight
from ansible_collections.kentino.gpu.plugins.module_utils._probe import lease, preflight_run, progress
from ansible_collections.kentino.gpu.plugins.module_utils._probe.preflight_run import Run

PASSED = {"verdict": "pass", "checks": [{"name": "burn"}]}


@pytest.fixture
def run(tmp_path):
    return Run(str(tmp_path / "preflight"), "nightly-7")


@pytest.fixture
def child():
    """A process of ours that tells progress; ended whatever happens."""
    children = []

    def start(code="import time; time.sleep(60)"):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        children.append(process)
        return process

    yield start
    for process in children:
        process.kill()
        process.wait()
        process.stdout.close()


def tell(run, step, pid, state="running", age=0.0, **more):
    path = run.progress_path(step)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    content = dict({"step": step, "state": state, "percent": 40.0}, pid=pid, updated_usec=int((time.time() - age) * 1e6), **more)
    with open(path, "w", encoding="utf-8") as handle:
        json.dump(content, handle)


def job(tmp_path, content, age=0.0):
    path = tmp_path / "j1.2"
    path.write_text(content)
    os.utime(path, (time.time() - age, time.time() - age))
    return str(path)


GONE = 0x3FFFFE  # above the highest pid of Linux
STARTED = json.dumps({"started": True, "finished": False, "ansible_job_id": "j1.2"})


def test_nothing_was_ever_run(run):
    assert run.status("burn") == ("absent", {})
    assert (run.steps(), run.running(), run.records(), run.stop()) == ([], [], ({}, []), ([], []))


def test_a_running_step(run, child, tmp_path):
    tell(run, "burn", child().pid)
    for path in (None, job(tmp_path, STARTED, age=5)):
        standing, told = run.status("burn", path)
        assert (standing, told["percent"]) == ("running", 40.0)


@pytest.mark.parametrize("content", ["", STARTED], ids=["the file is empty yet", "it tells no progress yet"])
def test_a_job_that_begins(run, tmp_path, content):
    assert run.status("burn", job(tmp_path, content)) == ("starting", {})


def test_progress_of_an_earlier_attempt_is_not_taken_for_this_one(run, tmp_path):
    tell(run, "burn", GONE, age=3600)
    assert run.status("burn", job(tmp_path, STARTED)) == ("starting", {})


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(PASSED),
        json.dumps({"failed": True, "msg": "Timeout exceeded"}),
        json.dumps({"started": True, "finished": True, "verdict": "pass"}),
    ],
    ids=["the module's result", "ended by Ansible", "newer Ansible"],
)
def test_a_job_that_has_ended(run, tmp_path, content):
    tell(run, "burn", GONE)
    assert run.status("burn", job(tmp_path, content))[0] == "finished"


@pytest.mark.parametrize("content", [STARTED, None], ids=["the job has begun", "its file is not there"])
@pytest.mark.parametrize(
    ("age", "standing"),
    [(1, "running"), (-1, "running"), (60, "lost"), (-3600, "lost")],
    ids=["its result is a moment away", "told while we look", "it was killed", "the clock was set back"],
)
def test_a_process_that_is_gone_without_a_result(run, tmp_path, age, standing, content):
    tell(run, "burn", GONE, age=age)
    path = job(tmp_path, content, age=3600) if content else str(tmp_path / "nowhere")
    assert run.status("burn", path)[0] == standing


def test_a_job_that_ends_while_its_process_is_looked_for(run, tmp_path, monkeypatch):
    tell(run, "burn", GONE, age=60)
    path = job(tmp_path, STARTED, age=600)

    def look(_told):
        job(tmp_path, json.dumps(PASSED))
        return False

    monkeypatch.setattr(preflight_run, "_is_running", look)
    assert run.status("burn", path)[0] == "finished"


@pytest.mark.parametrize("verdict", ["pass", "warn", "fail"])
def test_result_is_collected_kept_and_its_file_removed(run, tmp_path, verdict):
    left = dict(PASSED, verdict=verdict, invocation={"module_args": {}}, stderr="")
    path = job(tmp_path, json.dumps(left))
    assert run.collect("burn", path) == (left, [])
    assert run.records()[0] == {"burn": dict(PASSED, verdict=verdict)}
    assert not os.path.exists(path)


@pytest.mark.parametrize(
    "left", [{"failed": True, "msg": "Timeout exceeded"}, dict(PASSED, verdict="unknown")], ids=["broken off", "unknown"]
)
def test_what_settles_nothing_is_collected_and_not_kept(run, tmp_path, left):
    path = job(tmp_path, json.dumps(left))
    assert run.collect("burn", path) == (left, [])
    assert (run.records()[0], os.path.exists(path)) == ({}, False)


@pytest.mark.parametrize("content", ["", "{", STARTED])
def test_job_that_still_runs_is_left_alone(run, tmp_path, content):
    path = job(tmp_path, content)
    assert run.collect("burn", path) == ({}, [])
    assert os.path.exists(path)


def test_result_that_cannot_be_kept_is_returned_all_the_same(tmp_path):
    (tmp_path / "runs").write_text("no folder")
    result, complaints = preflight_run.Run(str(tmp_path / "runs"), "x").collect("burn", job(tmp_path, json.dumps(PASSED)))
    assert result == PASSED
    assert "cannot be written" in complaints[0]


def test_what_settles_a_step_is_the_same_on_node_and_controller():
    assert preflight_run.SETTLED == preflight.SETTLED


def test_a_job_that_never_told_anything_and_whose_file_is_gone(run, tmp_path):
    assert run.status("burn", str(tmp_path / "nowhere"))[0] == "lost"


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"\xff\xfe", b'{"pid": "x", "state": "running"}', b'{"pid": 1e300, "updated_usec": []}']
)
def test_damaged_progress_raises_nothing(run, content):
    os.makedirs(run.folder)
    with open(run.progress_path("burn"), "wb") as handle:
        handle.write(content)
    assert run.status("burn")[0] in ("absent", "lost")
    assert run.running() == []


def test_another_process_with_the_number_is_left_alone(run, child):
    process = child()
    tell(run, "burn", process.pid, age=3600)
    assert run.running() == []
    assert run.stop() == ([], [])
    assert process.poll() is None


@pytest.mark.parametrize(
    "code",
    ["import time; time.sleep(60)", "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"],
    ids=["ends when asked", "must be killed"],
)
def test_stop(run, child, monkeypatch, code):
    monkeypatch.setattr(preflight_run, "_TERM_SECONDS", 0.5)
    process = child(code)
    if "deaf" in code:
        assert process.stdout.readline() == b"deaf\n"
    tell(run, "burn", process.pid)
    tell(run, "nccl", GONE)
    assert run.stop() == ([{"step": "burn", "pid": process.pid}], [])
    assert process.wait(5) in (-signal.SIGTERM, -signal.SIGKILL)


def test_results_come_back(run):
    assert run.record("burn", PASSED) is None
    assert run.record("nccl", {"verdict": "fail"}) is None
    assert run.records() == ({"burn": PASSED, "nccl": {"verdict": "fail"}}, [])


def test_a_changed_result_is_not_believed(run):
    run.record("burn", {"verdict": "fail"})
    path = os.path.join(run.folder, "burn.result.json")
    with open(path, encoding="utf-8") as handle:
        content = handle.read()
    with open(path, "w", encoding="utf-8") as handle:
        handle.write(content.replace("fail", "pass"))
    found, complaints = run.records()
    assert found == {}
    assert "changed or damaged" in complaints[0]


def test_old_runs_are_removed_and_the_running_is_not(tmp_path, child, monkeypatch):
    monkeypatch.setattr(preflight_run, "_KEPT_RUNS", 3)
    state_path = str(tmp_path)
    for number in range(5):
        one = Run(state_path, "run-%d" % number)
        tell(one, "burn", child().pid if number == 1 else GONE)
        os.utime(one.folder, (number, number))
    Run(state_path, "run-9").record("burn", PASSED)
    assert preflight_run.runs(state_path) == ["run-1", "run-3", "run-4", "run-9"]


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "a b", "-x", "x" * 101, "x\n"])
def test_a_name_cannot_lead_elsewhere(run, tmp_path, name):
    with pytest.raises(ValueError, match="run_id is"):
        Run(str(tmp_path), name)
    with pytest.raises(ValueError, match="step is"):
        run.progress_path(name)


def test_nobody_ever_watched(run):
    assert lease.expired(None) is None
    assert lease.expired(run.progress_path("burn")) is None


def test_a_lease_runs_out(run, monkeypatch):
    assert run.watch(100) is None
    assert lease.expired(run.progress_path("burn")) is None
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    monkeypatch.setattr(lease, "_now", lambda: now + 130)
    assert "for 3" in lease.expired(run.progress_path("burn"))
    # A step that began only then has the whole time before it.
    assert lease.expired(run.progress_path("burn"), 10) is None
    assert lease.expired(run.progress_path("burn"), 110) is not None
    monkeypatch.undo()
    assert run.watch(100) is None
    assert lease.expired(run.progress_path("burn")) is None


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"renewed_seconds": "soon", "seconds": 1}'])
def test_a_damaged_lease_ends_nothing(run, content):
    os.makedirs(run.folder)
    with open(os.path.join(run.folder, lease.FILE), "w", encoding="utf-8") as handle:
        handle.write(content)
    assert lease.expired(run.progress_path("burn")) is None


def test_what_a_step_tells_is_what_is_read(run, monkeypatch):
    """The other side of the file: the one that modules write with."""
    assert progress.write(run.progress_path("burn"), {"step": "burn", "state": "running", "percent": 7.5}) is None
    standing, told = run.status("burn")
    assert (standing, told["percent"], told["pid"]) == ("running", 7.5, os.getpid())
