# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the burn-in is run: its command line, its folder, its GPUs, its end. What it finds is in test_preflight_faults."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._check import burn
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import report
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check import nodes
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check.nodes import REPOSITORY, Node, render

GOOD = """
echo 'Burning for 60 seconds.'
printf "\\r50.0%%  proc'd: 100 (9000 Gflop/s) - 100 (9000 Gflop/s)   errors: 0 - 0   temps: 61 C - 62 C "
printf "\\r100.0%%  proc'd: 200 (9000 Gflop/s) - 200 (9000 Gflop/s)   errors: 0 - 0   temps: 61 C - 62 C "
printf '\\nTested 2 GPUs:\\n\\tGPU 0: OK\\n\\tGPU 1: OK\\n'
"""


@pytest.fixture
def node(tmp_path: Path) -> Node:
    made = Node(tmp_path, "h100x8")
    if made.nvml_problem:
        pytest.skip(made.nvml_problem)
    return made


def ask(node: Node, **options: t.Any) -> t.Dict[str, t.Any]:
    told = {"expected": {"count": node.count}, "sample_seconds": 0.1, "seconds": 60, **options}

    def question() -> t.Dict[str, t.Any]:
        check, facts = burn.run(burn.Options(**told))
        return report([check], simulated=facts["simulated"], facts={"burn": facts})

    answer: t.Dict[str, t.Any] = node.ask(question)
    return answer


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, ["600"]),
        ({"seconds": 3600, "doubles": True}, ["-d", "3600"]),
        ({"tensor_cores": True, "memory": "80%"}, ["-tc", "-m", "80%", "600"]),
        ({"memory": "20000"}, ["-m", "20000", "600"]),
    ],
)
def test_command_line(options, words, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "gpu_burn").write_text("#!/bin/sh\n")
    (tmp_path / "gpu_burn").chmod(0o755)
    argv, folder = burn.command(burn.Options(**options))
    assert (argv, folder) == ([str(tmp_path / "gpu_burn"), *words], str(tmp_path))


def test_folder_is_the_one_with_the_compare_kernel(tmp_path, monkeypatch):
    home, links = tmp_path / "home", tmp_path / "bin"
    for folder in (home, links):
        folder.mkdir()
    (home / "gpu_burn").write_text("#!/bin/sh\n")
    (home / "gpu_burn").chmod(0o755)
    (home / "compare.fatbin").write_text("")
    (links / "gpu_burn").symlink_to(home / "gpu_burn")
    monkeypatch.setenv("PATH", str(links))
    assert burn.command(burn.Options())[1] == str(home)
    (links / "compare.ptx").write_text("")
    assert burn.command(burn.Options())[1] == str(links)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seconds": 0}, "seconds is 0, expected 1 or more"),
        ({"memory": "90 %"}, "memory is '90 %'"),
        ({"memory": "101%"}, "memory is '101%'"),
        ({"memory": "0"}, "memory is '0'"),
        ({"floor_gflops": {"value": 0}}, "floor_gflops.value is 0"),
        ({"limits": {"load_power": 5}}, "'load_power' is no threshold"),
        ({"expected": {"counts": 5}}, "'counts' is no key"),
        ({"xid_policy": {63: {"severity": "bad"}}}, "bad"),
        ({"gpus": [0, 9]}, "there is no GPU 9, expected indexes out of 0, 1, 2"),
    ],
)
def test_wrong_option_is_told_before_anything_runs(options, words, node):
    node.tool("gpu_burn", "touch %s/ran" % node.folder)

    def question():
        try:
            burn.run(burn.Options(**options))
        except ValueError as exc:
            return str(exc)
        return "no error"

    assert words in node.ask(question)
    assert not (node.folder / "ran").exists()


def test_missing_tool_says_where_to_get_it(tmp_path):
    node = Node(tmp_path, "h100x8")
    (tmp_path / "bin" / "gpu_burn").unlink()
    result = ask(node)
    assert (result["verdict"], nodes.codes(result)) == ("unknown", ["tool.missing"])
    assert "wilicc/gpu-burn" in result["findings"][0]["message"]


def test_all_gpus_are_burnt_whatever_the_caller_sees(node):
    node.environment["CUDA_VISIBLE_DEVICES"] = "3"
    node.tool("gpu_burn", 'echo "[${CUDA_VISIBLE_DEVICES-all}] $CUDA_DEVICE_ORDER"')
    assert "[all] PCI_BUS_ID" in ask(node)["facts"]["burn"]["output_tail"]


def test_chosen_gpus_are_named_by_their_own_numbers(node):
    """The tool numbers what it sees from 0 on."""
    node.environment["KENTINO_SIM_SPEED"] = "100"
    node.become("h100x8+burn_errors")
    result = ask(node, gpus=[2, 5], seconds=200)
    wrong = nodes.finding(result, "burn.errors")
    assert (wrong["subject"]["index"], wrong["subject"]["pci"]) == (2, node.pci(2))
    assert wrong["message"].startswith("GPU 2 computed wrong results")
    assert result["facts"]["burn"]["gpus"] == [2, 5]


def test_number_of_a_gpu_is_not_guessed(node):
    """CUDA leaves out GPUs that NVML lists: number 1 of seven may be any of two cards."""
    counts = " - ".join(["100 (9000 Gflop/s)"] * 7)
    errors = " - ".join(["0", "5  (WARNING!)", *["0"] * 5])
    record = "\r50.0%%  proc'd: %s   errors: %s   temps: %s \r" % (counts, errors, " - ".join(["61 C"] * 7))
    (node.folder / "record").write_text(record)
    node.tool("gpu_burn", "cat %s/record; exec sleep 60" % node.folder)
    result = ask(node)
    assert nodes.finding(result, "burn.errors")["subject"].get("index") is None
    assert result["verdict"] == "fail"


def test_shorter_than_a_minute_proves_nothing(node):
    node.environment["KENTINO_SIM_SPEED"] = "60"
    short = ask(node, seconds=20)
    assert "burn.short" in nodes.codes(short)
    assert short["verdict"] == "unknown"
    assert "burn.short" not in nodes.codes(ask(node, seconds=20, minimum_seconds=20))


def test_floor_is_held_for_each_gpu(node):
    node.environment["KENTINO_SIM_SPEED"] = "100"
    result = ask(node, seconds=200, floor_gflops={"value": 50700, "source": "test"})
    slow = [item for item in result["findings"] if item["code"] == "burn.slow"]
    assert result["verdict"] == "fail"
    assert 0 < len(slow) < 8


@pytest.mark.parametrize("how", ["kill -9 $$", "kill -TERM $$", "exit 3", "exit 0"])
def test_tool_that_ends_without_a_result_is_no_pass(how, node):
    node.tool("gpu_burn", GOOD.replace("Tested", "Teste") + how)
    assert ask(node)["verdict"] == "unknown"


def test_bad_status_after_a_clean_result_is_no_pass(node):
    node.tool("gpu_burn", GOOD + "exit 3")
    assert "burn.exit_status" in nodes.codes(ask(node, gpus=[0, 1], expected={}))


def test_hung_tool_is_ended_inside_deadline_and_five_seconds(node, monkeypatch):
    monkeypatch.setattr(burn, "_GRACE_SECONDS", 0.2)
    node.tool("gpu_burn", "trap '' TERM INT HUP; (setsid sleep 300 &); while :; do sleep 300 & wait; done")
    begin = time.monotonic()
    result = ask(node, seconds=1)
    assert time.monotonic() - begin < 60
    assert (result["verdict"], result["facts"]["burn"]["outcome"]) == ("unknown", "timeout")
    assert running(node) == []


def test_a_driver_that_hangs_under_load_does_not_hold_us_longer(node, tmp_path_factory, monkeypatch):
    monkeypatch.setattr(burn, "_GRACE_SECONDS", 0.2)
    sick = Node(tmp_path_factory.mktemp("sick"), "h100x8+hung_gpu")
    node.tool("gpu_burn", "cp %s/node %s/node; trap '' TERM; while :; do sleep 300 & wait; done" % (sick.folder, node.folder))
    begin = time.monotonic()
    result = ask(node, seconds=1)
    assert time.monotonic() - begin < 60
    assert result["verdict"] == "unknown"
    hung = {item["subject"]["label"] for item in result["findings"] if item["code"] == "tool.timeout"}
    assert hung == {"tool gpu_burn", "tool pynvml"}
    assert result["action"] == "reboot_node"
    assert running(node) == []


def test_progress_is_told_while_it_runs_and_at_the_end(node):
    node.environment["KENTINO_SIM_SPEED"] = "100"
    path = node.folder / "root" / "run" / "burn.json"
    told: t.List[t.Dict[str, t.Any]] = []

    def question():
        pid = os.fork()
        if pid == 0:
            burn.run(burn.Options(seconds=200, sample_seconds=0.1, progress_path="/run/burn.json"))
            os._exit(0)
        while not os.waitpid(pid, os.WNOHANG)[0]:
            if path.exists():
                told.append(json.loads(path.read_text()))
            time.sleep(0.02)
        told.append(json.loads(path.read_text()))
        return [told[0], told[-1]]

    first, last = node.ask(question)
    assert (first["step"], first["state"], first["total_seconds"]) == ("burn", "running", 200)
    assert (last["state"], last["percent"], last["errors"]) == ("finished", 100.0, 0)
    assert last["hottest_c"] > 40
    assert last["hottest_gpu"] in range(8)


def test_progress_that_cannot_be_written_is_a_remark(node):
    node.environment["KENTINO_SIM_SPEED"] = "100"
    (node.folder / "root" / "file").write_text("")
    result = ask(node, seconds=200, progress_path="/file/burn.json")
    assert (result["verdict"], nodes.codes(result)) == ("pass", ["load.progress"])


def test_a_critical_xid_stops_the_burn(node, monkeypatch):
    """The log is read every ten seconds; here more often."""
    from ansible_collections.kentino.gpu.plugins.module_utils._check import under_load

    monkeypatch.setattr(under_load, "_TICK_SECONDS", 0.1)
    monkeypatch.setattr(under_load, "_LOG_SECONDS", 0.2)
    line = "NVRM: Xid (%s): 95, pid=4711, name=gpu_burn, Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No" % ("PCI:" + node.pci(4))
    log = node.folder / "kernel.log"
    row = "0\\t%%d\\t%%d\\t4\\tkernel\\t%s\\n" % line
    script = "import time; rows=open(%r).read().splitlines()[-1].split('\\t'); now=int(time.time()*1e6)"
    script += "; open(%r,'a').write(%r %% (now, int(rows[2])+now-int(rows[1])))"
    node.tool("gpu_burn", '%s -c "%s"; exec sleep 300' % (sys.executable, (script % (str(log), str(log), row)).replace('"', '\\"')))
    result = ask(node)
    assert result["facts"]["burn"]["outcome"] == "stopped"
    assert result["facts"]["burn"]["wall_seconds"] < 120
    assert nodes.finding(result, "xid.95")["subject"]["index"] == 4
    assert nodes.finding(result, "burn.stopped")["subject"]["index"] == 4


def test_a_journal_that_hangs_does_not_hold_the_burn(node):
    node.environment["KENTINO_SIM_SPEED"] = "100"
    node.tool("journalctl", "exec sleep 300")
    begin = time.monotonic()
    result = ask(node, seconds=200, deadline_seconds=3)
    assert result["verdict"] == "unknown"
    assert nodes.codes(result) == ["kernel_log.unread"]
    assert time.monotonic() - begin < 120


def test_without_kernel_log_where_it_is_not_wanted(tmp_path):
    node = Node(tmp_path, "h100x8+no_kernel_log")
    node.environment["KENTINO_SIM_SPEED"] = "100"
    assert ask(node, seconds=200, kernel_log_source="none")["verdict"] == "pass"


MODULE = """
import sys
sys.path.insert(0, sys.argv[1])
from ansible_collections.kentino.gpu.plugins.module_utils._check import burn
burn.run(burn.Options(seconds=600, progress_path=sys.argv[2]))
"""


def running(node: Node) -> t.List[str]:
    """Processes of this node."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            own = ("KENTINO_SIM_STATE=%s" % node.folder).encode() in (entry / "environ").read_bytes().split(b"\0")
            if entry.name.isdigit() and own:
                found.append((entry / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_module_that_is_ended(number, node):
    environment = {**os.environ, **render.environment(str(node.folder)), "KENTINO_SIM_SPEED": "1"}
    progress = node.folder / "burn.json"
    argv = [sys.executable, "-c", MODULE, str(REPOSITORY / ".collections"), str(progress)]
    environment.pop("KENTINO_GPU_ROOT")
    child = subprocess.Popen(argv, env=environment, start_new_session=True)
    try:
        until = time.monotonic() + 60
        while not any("gpu_burn" in line for line in running(node)):
            assert time.monotonic() < until
            time.sleep(0.02)
        os.killpg(child.pid, number)
        assert child.wait(60) in (128 + number, -number)
        until = time.monotonic() + 60
        while running(node) and time.monotonic() < until:
            time.sleep(0.02)
        assert running(node) == []
        if number == signal.SIGTERM:
            assert json.loads(progress.read_text())["state"] == "interrupted"
    finally:
        child.kill()
