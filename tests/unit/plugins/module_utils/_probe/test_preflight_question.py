# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The shell must say the same as the module, whatever the files hold."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._probe import lease, preflight_question, progress
from ansible_collections.kentino.gpu.plugins.module_utils._probe.preflight_run import Run

STARTED = json.dumps({"started": True, "finished": False, "ansible_job_id": "j1.2"})
RESULT = json.dumps({"verdict": "pass", "facts": {"text": "x" * 9000}})
GONE = 0x3FFFFE  # above the highest pid of Linux


def ask(folder, job, lease_seconds=None, step="burn", environment=None):
    script = preflight_question.script(str(folder), "night 7".replace(" ", "-"), str(job), lease_seconds)
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, env=environment or os.environ, check=True)
    return preflight_question.answer(done.stdout, step)


def tell(folder, pid, age=0.0, step="burn", state="running"):
    path = folder / "night-7" / (step + ".progress.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"state": state, "percent": 40.5, "errors": 2, "pid": pid, "updated_usec": int((time.time() - age) * 1e6)}
    path.write_text(json.dumps(content))


TOLD = {
    "nothing": lambda folder: None,
    "runs": lambda folder: tell(folder, os.getpid()),
    "has ended": lambda folder: tell(folder, os.getpid(), state="finished"),
    "gone a moment ago": lambda folder: tell(folder, GONE, age=1),
    "gone for long": lambda folder: tell(folder, GONE, age=3600),
    "another process has its number": lambda folder: tell(folder, os.getpid(), age=1e7),
    "rubbish": lambda folder: [
        (folder / "night-7").mkdir(parents=True),
        (folder / "night-7/burn.progress.json").write_text("@@end {\n@@x"),
    ],
    "another step runs": lambda folder: tell(folder, os.getpid(), step="nccl"),
}


@pytest.mark.parametrize("told", TOLD)
@pytest.mark.parametrize("content", [None, "", STARTED, RESULT, '{"failed": 1, "msg": "no"}', "{"], ids=lambda text: str(text)[:12])
def test_shell_and_module_say_the_same(tmp_path, told, content):
    folder, job = tmp_path / "pre'flight", tmp_path / "j 1$.2"
    folder.mkdir()
    TOLD[told](folder)
    if content is not None:
        job.write_text(content)
        os.utime(job, (time.time() - 600, time.time() - 600))
    run = Run(str(folder), "night-7")
    state, progress_told = run.status("burn", str(job))
    answer = ask(folder, job)
    assert (answer["state"], answer["running"]) == (state, state in ("starting", "running"))
    assert {key: answer[key] for key in ("percent", "errors", "pid")} == {
        key: progress_told.get(key) for key in ("percent", "errors", "pid")
    }
    assert answer["open"] == [item["step"] for item in run.running()]


@pytest.mark.parametrize("written", [True, False], ids=["with its result", "its result is a moment away"])
@pytest.mark.parametrize("tool", ["cat", "sed", "date", "getconf", "stat", "head"])
def test_a_step_that_ends_while_it_is_asked_is_not_lost(tmp_path, tool, written):
    folder, job, tools = tmp_path / "preflight", tmp_path / "job", tmp_path / "tools"
    tell(folder, os.getpid())
    job.write_text(STARTED)
    os.utime(job, (time.time() - 600, time.time() - 600))
    (tmp_path / "result").write_text(RESULT)
    tools.mkdir()
    # Just before the shell calls the tool for the first time.
    ending = """#!/bin/sh
PATH=%(path)s
if mkdir %(once)s 2>/dev/null; then
    printf '{"state": "finished", "pid": %(pid)d, "updated_usec": %%s}' "$(date +%%s%%6N)" >%(told)s
    %(write)s
fi
exec %(tool)s "$@"
""" % {
        "path": shlex.quote(os.environ["PATH"]),
        "once": tmp_path / "once",
        "pid": os.getpid(),
        "told": folder / "night-7/burn.progress.json",
        "write": "mv %s %s" % (tmp_path / "result", job) if written else ":",
        "tool": tool,
    }
    (tools / tool).write_text(ending)
    (tools / tool).chmod(0o755)
    answer = ask(folder, job, environment=dict(os.environ, PATH="%s:%s" % (tools, os.environ["PATH"])))
    assert (tmp_path / "once").exists()
    assert answer["state"] in ("running", "finished")


def test_what_a_step_writes_is_understood_below_a_root_too(tmp_path, monkeypatch):
    monkeypatch.setenv("KENTINO_GPU_ROOT", str(tmp_path / "root"))
    run = Run("/var/lib/runs", "night-7")
    assert progress.write(run.progress_path("burn"), {"step": "burn", "state": "running", "percent": 7.5, "hottest_c": 71}) is None
    answer = ask("/var/lib/runs", tmp_path / "none")
    assert (answer["state"], answer["percent"], answer["hottest_c"], answer["open"]) == ("running", 7.5, 71, ["burn"])


def test_the_lease_is_what_steps_read(tmp_path):
    run = Run(str(tmp_path / "new"), "night-7")
    assert ask(tmp_path / "new", tmp_path / "none", 100)["complaints"] == []
    assert lease.expired(run.progress_path("burn")) is None
    assert ask(tmp_path / "new", tmp_path / "none", 1e-9)["complaints"] == []
    assert lease.expired(run.progress_path("burn"))
    assert sorted(os.listdir(run.folder)) == [lease.FILE]


def test_a_lease_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("no folder")
    assert "cannot be written" in ask(tmp_path / "file", tmp_path / "none", 100)["complaints"][0]


@pytest.mark.parametrize(
    "text", ["", "sh: syntax error", "@@now x\n@@end", "@@end", "@@now 1 2 100\n", '@@now 1 2 100\n@@job x\n{"started": 1}\n@@end', "\0@@"]
)
def test_an_answer_that_is_not_whole_is_none(text):
    assert preflight_question.answer(text, "burn") is None


def test_an_answer_cut_anywhere_is_none(tmp_path):
    tell(tmp_path, os.getpid())
    job = tmp_path / "job"
    job.write_text(STARTED)
    script = preflight_question.script(str(tmp_path), "night-7", str(job), None)
    text = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout.rstrip("\n")
    assert preflight_question.answer(text, "burn")
    assert {preflight_question.answer(text[:length], "burn") for length in range(len(text))} == {None}
