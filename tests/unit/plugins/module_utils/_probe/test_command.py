# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._probe import command

IGNORES_TERM = "trap '' TERM; echo begun; while :; do sleep 0.1; done"


def gone(marker: str) -> bool:
    """No process with this marker in its command line is left; SIGKILL takes a moment on a busy machine."""
    for _look in range(50):
        if not running(marker):
            return True
        time.sleep(0.1)
    return False


def running(marker: str) -> bool:
    for entry in Path("/proc").iterdir():
        try:
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if entry.name.isdigit() and int(entry.name) != os.getpid() and marker.encode() in line:
            return True
    return False


def test_output_and_status_of_a_tool_that_ends():
    done = command.run(["sh", "-c", "echo out; echo err >&2; exit 3"], 10)
    assert (done.outcome, done.rc, done.stdout, done.stderr, done.problem()) == ("ended", 3, b"out\n", b"err\n", "")


def test_missing_tool_is_named():
    done = command.run(["no-such-tool", "-q"], 10)
    assert done.outcome == "missing"
    assert "no-such-tool" in done.problem()


def test_file_without_an_interpreter_is_denied(tmp_path, monkeypatch):
    tool = tmp_path / "broken"
    tool.write_text("#!/no/such/interpreter\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command.run(["broken"], 10).outcome == "denied"


@pytest.mark.parametrize(
    ("script", "printed"),
    [
        pytest.param("echo begun; exec sleep 60", b"begun\n", id="sleeps"),
        pytest.param(IGNORES_TERM, b"begun\n", id="ignores SIGTERM"),
        pytest.param("echo begun; sleep 60 & sleep 60", b"begun\n", id="has children"),
        pytest.param("exec >&- 2>&-; sleep 60", b"", id="closed its output and lives on"),
    ],
)
def test_hung_tool_is_killed_whole_at_the_deadline_and_its_output_kept(script, printed, tmp_path):
    marker = "marker-%d-%s" % (os.getpid(), tmp_path.name)
    begin = time.monotonic()
    done = command.run(["sh", "-c", script + " # " + marker, marker], 3)
    assert time.monotonic() - begin < 30
    assert (done.outcome, done.rc, done.stdout) == ("timeout", None, printed)
    assert "did not answer" in done.problem()
    assert gone(marker)


def test_grandchild_that_holds_the_output_open_does_not_hold_us(tmp_path):
    marker = "marker-%d-%s" % (os.getpid(), tmp_path.name)
    done = command.run(["sh", "-c", "echo answer; sh -c 'sleep 60' %s & exit 0" % marker], 60)
    assert (done.outcome, done.stdout) == ("ended", b"answer\n")
    assert done.seconds < 30
    assert gone(marker)


def test_flood_is_cut():
    done = command.run(["yes"], 60, max_bytes=1 << 16)
    assert done.outcome == "truncated"
    assert len(done.stdout) >= 1 << 16


def test_output_goes_to_the_caller_as_it_comes():
    seen = []
    done = command.run(["sh", "-c", "echo a; echo b"], 10, on_stdout=seen.append)
    assert (b"".join(seen), done.stdout) == (b"a\nb\n", b"")


def test_locale_of_the_caller_does_not_reach_the_tool(monkeypatch):
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    monkeypatch.setenv("LC_TIME", "zh_CN.UTF-8")
    printed = command.run(["env"], 10).stdout.decode().splitlines()
    assert "LC_ALL=C" in printed
    assert not [line for line in printed if line.startswith(("LANG=", "LC_TIME="))]


def test_function_in_a_child_answers():
    done = command.call(lambda: b"x" * 300000, "reader", 10)
    assert (done.outcome, done.rc, len(done.stdout)) == ("ended", 0, 300000)


def test_function_that_hangs_is_killed():
    done = command.call(lambda: time.sleep(60) or b"", "NVML", 0.3)
    assert done.outcome == "timeout"
    assert "NVML did not answer" in done.problem()


def test_function_that_crashes_takes_only_its_child():
    done = command.call(lambda: os.kill(os.getpid(), 9) or b"", "NVML", 10)
    assert (done.outcome, done.rc, done.stdout) == ("ended", -9, b"")


def test_function_that_raises_gives_no_answer_and_a_bad_status():
    done = command.call(lambda: 1 / 0, "NVML", 10)
    assert (done.outcome, done.rc, done.stdout) == ("ended", 1, b"")
