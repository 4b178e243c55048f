# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._probe import guard, watch

ROOT = Path(__file__).resolve().parents[5]
# A shell that ignores SIGTERM and leaves children in the background, in its own group and out of it, as MPI and diagnostics do.
STUBBORN = (
    "trap '' TERM; sleep 300 & setsid sleep 300 & (setsid sh -c 'trap \"\" TERM HUP; sleep 300; :' &) ; "
    "echo begun; while :; do sleep 300; done"
)


def with_marker(tmp_path: Path, script: str) -> t.Tuple[t.List[str], str]:
    """A shell whose children all carry the marker in their environment."""
    marker = "MARKER_%s" % tmp_path.name.replace("-", "_")
    return ["env", marker + "=1", "sh", "-c", script], marker


def left(marker: str) -> t.List[str]:
    """Processes that still carry the marker."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (marker + "=1").encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def wait_until(test: t.Callable[[], t.Any], seconds: float = 60.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if test():
            return True
        time.sleep(0.01)
    return False


def test_output_and_status_of_a_tool_that_ends():
    done = watch.watch(["sh", "-c", "echo out; echo err >&2; exit 3"], 60)
    assert (done.outcome, done.rc, done.stdout, done.stderr, done.problem()) == ("ended", 3, b"out\n", b"err\n", "")


def test_end_of_the_tool_is_not_waited_for_until_the_next_tick():
    done = watch.watch(["sleep", "0.2"], 300, on_tick=lambda: None, tick_seconds=120)
    assert (done.outcome, done.rc) == ("ended", 0)
    assert 0.2 <= done.seconds < 60


def test_tool_that_something_else_kills_ends_by_that_signal():
    assert watch.watch(["sh", "-c", "kill -9 $$"], 60).rc == -9


def test_tool_that_ends_at_once_is_never_missed():
    ends = [watch.watch(["sh", "-c", "kill -9 $$"], 60) for _time in range(25)]
    assert {(done.outcome, done.rc) for done in ends} == {("ended", -9)}


def test_missing_tool_is_named():
    assert watch.watch(["no-such-tool"], 10).outcome == "missing"


def test_file_without_an_interpreter_is_denied(tmp_path):
    tool = tmp_path / "broken"
    tool.write_text("#!/no/such/interpreter\n")
    tool.chmod(0o755)
    done = watch.watch([str(tool)], 60)
    assert done.outcome == "denied"
    assert "No such file" in done.problem()


@pytest.mark.parametrize(
    ("script", "printed"),
    [
        pytest.param("echo begun; exec sleep 300", b"begun\n", id="sleeps"),
        pytest.param(STUBBORN, b"begun\n", id="ignores SIGTERM and scatters children"),
        pytest.param("exec >&- 2>&-; sleep 300", b"", id="closed its output and lives on"),
    ],
)
def test_hung_tool_is_killed_with_all_that_came_of_it(script, printed, tmp_path):
    argv, marker = with_marker(tmp_path, script)
    done = watch.watch(argv, 1, term_seconds=0.2)
    assert (done.outcome, done.rc, done.stdout) == ("timeout", None, printed)
    assert 1 <= done.seconds < 60
    assert left(marker) == []


def test_children_that_outlive_the_tool_are_ended_at_once(tmp_path):
    argv, marker = with_marker(tmp_path, "(setsid sleep 300 &); sleep 300 & echo answer; exit 0")
    done = watch.watch(argv, 300)
    assert (done.outcome, done.rc, done.stdout) == ("ended", 0, b"answer\n")
    assert done.seconds < 60
    assert left(marker) == []


def test_tool_is_stopped_for_what_it_prints(tmp_path):
    argv, marker = with_marker(tmp_path, "echo fine; sleep 0.1; echo DIED; sleep 300")
    seen = []

    def listen(chunk: bytes) -> t.Optional[str]:
        seen.append(chunk)
        return "a GPU died" if b"DIED" in chunk else None

    done = watch.watch(argv, 60, on_stdout=listen)
    assert (done.outcome, done.why, b"".join(seen)) == ("stopped", "a GPU died", b"fine\nDIED\n")
    assert re.search(r"stopped after \d+ s: a GPU died", done.problem())
    assert left(marker) == []


def test_tool_is_stopped_by_a_tick():
    ticks: t.List[float] = []
    done = watch.watch(["sleep", "300"], 60, on_tick=lambda: ticks.append(0) or ("enough" if len(ticks) == 3 else None), tick_seconds=0.05)
    assert (done.outcome, done.why, len(ticks)) == ("stopped", "enough", 3)


def test_a_second_source_is_read_beside_the_tool():
    beside = guard.start_function(lambda out: os.write(out, b"hot") and None)
    try:
        done = watch.watch(["sleep", "300"], 60, readers={beside.stdout: lambda chunk: "it is " + chunk.decode()})
    finally:
        beside.close()
    assert (done.outcome, done.why) == ("stopped", "it is hot")


def test_folder_and_variables_are_the_tools(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    variables = {"CUDA_VISIBLE_DEVICES": None, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    done = watch.watch(
        ["sh", "-c", "pwd; echo ${CUDA_VISIBLE_DEVICES-unset} $CUDA_DEVICE_ORDER"], 10, folder=str(tmp_path), variables=variables
    )
    assert done.stdout.decode().split() == [str(tmp_path), "unset", "PCI_BUS_ID"]


def test_flood_is_cut():
    assert watch.watch(["yes"], 60, max_bytes=1 << 16).outcome == "truncated"


def test_listener_that_raises_leaves_no_tool(tmp_path):
    argv, marker = with_marker(tmp_path, "echo x; sleep 300")
    with pytest.raises(ZeroDivisionError):
        watch.watch(argv, 60, on_stdout=lambda chunk: 1 / 0)
    assert left(marker) == []


MODULE = """
import sys
sys.path.insert(0, sys.argv[1])
from ansible_collections.kentino.gpu.plugins.module_utils._probe import guard, watch
with guard.interruptible():
    watch.watch(["sh", "-c", sys.argv[2]], 600, term_seconds=0.2, afterwards=["touch", sys.argv[3]])
"""


@pytest.fixture
def module(tmp_path):
    """A process that watches the stubborn tool, in a group of its own as under Ansible's async wrapper."""
    marker = "MARKER_%s" % tmp_path.name.replace("-", "_")
    argv = [sys.executable, "-c", MODULE, str(ROOT / ".collections"), STUBBORN, str(tmp_path / "afterwards")]
    child = subprocess.Popen(argv, env=dict(os.environ, **{marker: "1"}), start_new_session=True, stdout=subprocess.PIPE)
    # The module, its supervisor, the shell and its sleeps.
    assert wait_until(lambda: len(left(marker)) >= 7), left(marker)
    yield child, marker
    child.kill()
    child.wait()
    child.stdout.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_interrupted_module_ends_after_its_tool(module, number):
    child, marker = module
    child.send_signal(number)
    assert child.wait(60) == 128 + number
    assert left(marker) == []


@pytest.mark.parametrize("kill", [os.kill, os.killpg], ids=["alone", "with its process group"])
def test_killed_module_takes_its_tool_with_it(module, kill, tmp_path):
    child, marker = module
    kill(child.pid, signal.SIGKILL)
    child.wait(60)
    assert wait_until(lambda: not left(marker)), left(marker)
    assert (tmp_path / "afterwards").exists()


def test_killed_supervisor_takes_the_tool_with_it(tmp_path):
    argv, marker = with_marker(tmp_path, "exec sleep 300")
    killed: t.List[int] = []

    def kill_supervisor() -> None:
        children = Path("/proc/self/task/%d/children" % os.getpid()).read_text().split()
        killed.extend(int(child) for child in children if b"sh" not in Path("/proc/%s/comm" % child).read_bytes())
        os.kill(killed[0], signal.SIGKILL)

    done = watch.watch(argv, 60, on_tick=kill_supervisor, tick_seconds=0.3)
    assert done.outcome == "lost"
    assert "was killed" in done.problem()
    assert wait_until(lambda: not left(marker))


def test_a_signal_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with guard.interruptible():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_are_put_back():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(guard.Interrupted) as caught, guard.interruptible():
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before
