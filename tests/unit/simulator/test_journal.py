# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-ins for journalctl, dmesg and lspci."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest

SIMULATOR = Path(__file__).resolve().parents[2] / "simulator"
sys.path.insert(0, str(SIMULATOR))
from simnode import in_process, render, scenario  # noqa: E402

Run = t.Callable[..., "subprocess.CompletedProcess[bytes]"]
XID79 = "NVRM: Xid (PCI:0000:5d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> t.Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folders: t.Dict[str, str] = {}

    def tool(name: str, command: str, *words: str) -> subprocess.CompletedProcess[bytes]:
        if name not in folders:
            folders[name] = str(tmp_path_factory.mktemp("node"))
            render.prepare(scenario.load(name), folders[name], root=False)
        return in_process.run(folders[name], command, *words)

    return tool


def _records(run: Run, name: str, *words: str) -> t.List[t.Dict[str, t.Any]]:
    done = run(name, "journalctl", "--output=json", "--no-pager", "--quiet", *words)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_healthy_node_has_the_log_of_a_whole_boot(run: Run) -> None:
    found = _records(run, "h100x8", "--boot=0", "_TRANSPORT=kernel")
    messages = [record["MESSAGE"] for record in found]
    assert len(found) > 200
    assert messages[0].startswith("Linux version ")
    assert any(message.startswith("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.172.08") for message in messages)
    assert sum(message.endswith("type 00 class 0x030200 PCIe Endpoint") for message in messages) == 8
    assert not [message for message in messages if re.search(r"Xid|SXid|fallen|AER:|error", message)]


def test_records_are_shaped_like_those_of_journald(run: Run) -> None:
    record = _records(run, "h100x8+gpu_lost", "-k", "-n", "1")[0]
    usec = int(record["__REALTIME_TIMESTAMP"])
    assert abs(usec / 1e6 - (time.time() - 840)) < 60
    assert {key: record[key] for key in ("_TRANSPORT", "PRIORITY", "SYSLOG_IDENTIFIER", "SYSLOG_FACILITY", "_HOSTNAME")} == {
        "_TRANSPORT": "kernel",
        "PRIORITY": "4",
        "SYSLOG_IDENTIFIER": "kernel",
        "SYSLOG_FACILITY": "0",
        "_HOSTNAME": "simulated-node",
    }
    form = r"s=[0-9a-f]{32};i=([0-9a-f]+);b=([0-9a-f]{32});m=([0-9a-f]+);t=([0-9a-f]+);x=[0-9a-f]+"
    match = re.fullmatch(form, record["__CURSOR"])
    assert match is not None
    assert match.group(2) == record["_BOOT_ID"]
    assert int(match.group(3), 16) == int(record["__MONOTONIC_TIMESTAMP"])
    assert int(match.group(4), 16) == usec


def test_the_driver_names_a_gpu_before_its_first_xid(run: Run) -> None:
    messages = [record["MESSAGE"] for record in _records(run, "h100x8+gpu_lost", "-k")]
    place = messages.index(XID79)
    assert messages[place - 2 : place] == [
        "NVRM: GPU at PCI:0000:5d:00: GPU-94f2d6b0-c8e1-4375-b1a9-3d7506ef82d4",
        "NVRM: GPU Board Serial Number: 1654923011986",
    ]


def test_fields_can_be_chosen(run: Run) -> None:
    record = _records(run, "h100x8", "-k", "-n1", "--output-fields=MESSAGE,_BOOT_ID")[0]
    assert {key for key in record if not key.startswith("__")} == {"MESSAGE", "_BOOT_ID"}
    assert "__CURSOR" in record


def test_boots_are_told_apart(run: Run) -> None:
    listed = run("h100x8+old_boot_xid79", "journalctl", "--list-boots").stdout.decode().splitlines()
    assert [line.split()[0] for line in listed] == ["IDX", "-1", "0"]
    now, before = (_records(run, "h100x8+old_boot_xid79", "-k", "--boot=" + boot) for boot in ("0", "-1"))
    assert {record["_BOOT_ID"] for record in before} == {listed[1].split()[1]}
    assert {record["_BOOT_ID"] for record in now} == {listed[2].split()[1]}
    assert [len([record for record in records if ": 79," in record["MESSAGE"]]) for records in (now, before)] == [0, 1]
    everything = _records(run, "h100x8+old_boot_xid79", "_TRANSPORT=kernel")
    assert len(everything) == len(now) + len(before)


def test_the_boot_id_is_that_of_the_running_kernel(tmp_path: Path) -> None:
    render.prepare(scenario.load("h100x8"), str(tmp_path))
    boot_id = (tmp_path / "root/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
    environment = dict(os.environ, **render.environment(str(tmp_path)))
    argv = [str(tmp_path / "bin/journalctl"), "-k", "-n", "1", "-o", "json"]
    assert json.loads(subprocess.check_output(argv, env=environment))["_BOOT_ID"] == boot_id


@pytest.mark.parametrize(
    ("words", "count"),
    [(["-n", "5"], 5), (["-n5"], 5), (["--lines=5"], 5), (["-kn3"], 3), (["--lines=+2"], 2), (["-n", "0"], 0), (["-p", "emerg"], 0)],
)
def test_lines(run: Run, words: t.List[str], count: int) -> None:
    assert len(_records(run, "h100x8", *words)) == count


def test_the_last_lines_come_last_and_reverse_turns_them(run: Run) -> None:
    forward = _records(run, "h100x8", "-k", "-n", "4")
    assert _records(run, "h100x8", "-k", "-n", "4", "--reverse") == forward[::-1]
    assert _records(run, "h100x8", "-k")[-4:] == forward


def test_cursor_and_after_cursor(run: Run) -> None:
    found = _records(run, "h100x8+gpu_lost", "-k")
    cursor = found[-3]["__CURSOR"]
    assert _records(run, "h100x8+gpu_lost", "-k", "--cursor=" + cursor) == found[-3:]
    assert _records(run, "h100x8+gpu_lost", "-k", "--after-cursor=" + cursor) == found[-2:]
    assert _records(run, "h100x8+gpu_lost", "-k", "--after-cursor=" + found[-1]["__CURSOR"]) == []


def test_a_cursor_that_the_journal_does_not_hold_leads_to_its_time(run: Run) -> None:
    found = _records(run, "h100x8+gpu_lost", "-k")
    foreign = re.sub("i=[0-9a-f]+", "i=ffffff", found[-1]["__CURSOR"])
    answered = _records(run, "h100x8+gpu_lost", "-k", "--cursor=" + foreign)
    assert answered == found[-1:]
    assert answered[0]["__CURSOR"] != foreign


def test_show_cursor_and_cursor_file(run: Run, tmp_path: Path) -> None:
    last = _records(run, "h100x8", "-k", "-n", "1")[0]["__CURSOR"]
    done = run("h100x8", "journalctl", "-k", "-n", "2", "-o", "cat", "--show-cursor")
    assert done.stdout.decode().splitlines()[-1] == "-- cursor: " + last
    kept = tmp_path / "cursor"
    assert len(_records(run, "h100x8", "-k", "--cursor-file=%s" % kept)) > 200
    assert _records(run, "h100x8", "-k", "--cursor-file=%s" % kept) == []


@pytest.mark.parametrize("form", ["15 min ago", "-15min", "-900s", "@%s", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S UTC"])
def test_since(run: Run, form: str) -> None:
    since = time.strftime(form.replace("%s", "%d" % (time.time() - 900)), time.gmtime(time.time() - 900))
    found = _records(run, "h100x8+gpu_lost", "-k", "--since=" + since)
    assert found[0]["MESSAGE"].startswith("NVRM: GPU at PCI:")
    assert len(found) == len(_records(run, "h100x8+gpu_lost", "-k")) - len(_records(run, "h100x8", "-k"))


def test_until(run: Run) -> None:
    assert XID79 not in [record["MESSAGE"] for record in _records(run, "h100x8+gpu_lost", "-k", "--until=-1h")]


def test_grep_and_priority_and_identifier(run: Run) -> None:
    assert {record["MESSAGE"] for record in _records(run, "h100x8+gpu_lost", "-k", "--grep=xid.*: 79,")} == {XID79}
    assert XID79 not in [record["MESSAGE"] for record in _records(run, "h100x8+gpu_lost", "-k", "-p", "err")]
    assert {record["_COMM"] for record in _records(run, "h100x8", "-t", "nv-fabricmanager")} == {"nv-fabricmanager"}
    assert all(record["_TRANSPORT"] == "syslog" for record in _records(run, "h100x8", "-u", "sshd.service"))


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("short", r"[A-Z][a-z]{2} [ 0-9]{2} [0-9:]{8} simulated-node kernel: NVRM: "),
        ("short-iso", r"20[0-9-]{8}T[0-9:]{8}\+00:00 simulated-node kernel: NVRM: "),
        ("short-iso-precise", r"20[0-9-]{8}T[0-9:]{8}\.[0-9]{6}\+00:00 simulated-node kernel: NVRM: "),
        ("short-monotonic", r"\[[ 0-9]{5,}\.[0-9]{6}\] simulated-node kernel: NVRM: "),
        ("short-unix", r"[0-9]{10}\.[0-9]{6} simulated-node kernel: NVRM: "),
        ("cat", r"NVRM: "),
    ],
)
def test_output_forms(run: Run, form: str, line: str) -> None:
    printed = run("h100x8+gpu_lost", "journalctl", "-k", "-n", "1", "-o", form).stdout.decode()
    assert re.match(line, printed)
    assert printed.count("\n") == 1


def test_a_message_of_several_lines_is_several_records(run: Run) -> None:
    messages = [record["MESSAGE"] for record in _records(run, "l40sx4+version_mismatch", "-k", "-n", "4")]
    assert [message.split(":")[0] for message in messages] == ["NVRM"] * 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--frobnicate"], "journalctl: unrecognized option '--frobnicate'"),
        (["-o", "xml"], "Unknown output format 'xml'."),
        (["--since=when it broke"], "Failed to parse timestamp: when it broke"),
        (["--boot=-7"], "Data from the specified boot (-7) is not available: No such boot ID in journal"),
        (["--cursor=nonsense"], "Failed to seek to cursor: Invalid argument"),
    ],
)
def test_misuse(run: Run, words: t.List[str], said: str) -> None:
    done = run("h100x8", "journalctl", *words)
    assert done.returncode == 1
    assert done.stderr.decode().strip() == said
    assert not done.stdout


def test_nothing_found_is_said_unless_quiet(run: Run) -> None:
    assert run("h100x8", "journalctl", "-k", "-p", "emerg").stdout == b"-- No entries --\n"
    assert run("h100x8", "journalctl", "-k", "-p", "emerg", "-q").stdout == b""


def test_no_journal(run: Run) -> None:
    done = run("h100x8+no_journal", "journalctl", "-k")
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"No journal files were found.\n")
    assert b"NVRM: loading" in run("h100x8+no_journal", "dmesg").stdout


def test_garbage_journal(run: Run) -> None:
    done = run("h100x8+garbage_journal", "journalctl", "-k", "-o", "json")
    assert done.returncode == 0
    readable = 0
    lines = done.stdout.splitlines()
    for line in lines:
        try:
            readable += isinstance(json.loads(line).get("MESSAGE"), str)
        except ValueError:
            continue
    assert len(lines) > 200
    assert readable == 0


def test_hung_journal(tmp_path: Path) -> None:
    render.prepare(scenario.load("h100x8+hung_journal"), str(tmp_path), root=False)
    environment = dict(os.environ, **render.environment(str(tmp_path)))
    child = subprocess.Popen([str(tmp_path / "bin/journalctl"), "-k"], env=environment, stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        assert len([child.stdout.readline() for _line in range(40)]) == 40
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.2)
    finally:
        child.kill()
        child.communicate()


def test_follow_prints_what_a_new_fault_logs(tmp_path: Path) -> None:
    render.prepare(scenario.load("h100x8"), str(tmp_path), root=False)
    environment = dict(os.environ, **render.environment(str(tmp_path)))
    argv = [str(tmp_path / "bin/journalctl"), "-k", "-f", "-n", "0", "-o", "cat"]
    child = subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        time.sleep(0.3)
        render.prepare(scenario.load("h100x8+xid79_only"), str(tmp_path), root=False)
        assert child.stdout.readline() == b"NVRM: GPU at PCI:0000:2a:00: GPU-0d9a6e52-71bb-46f5-8c37-2f8e94d0c7a2\n"
    finally:
        child.kill()
        child.communicate()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], r"\[[ 0-9]{5,}\.[0-9]{6}\] NVRM: "),
        (["-T"], r"\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9]{2} [0-9:]{8} 20[0-9]{2}\] NVRM: "),
        (["--time-format", "iso"], r"20[0-9-]{8}T[0-9:]{8},[0-9]{6}\+00:00 NVRM: "),
        (["-x"], r"kern  :warn  : \[[ 0-9]{5,}\.[0-9]{6}\] NVRM: "),
        (["-r"], r"<4>\[[ 0-9]{5,}\.[0-9]{6}\] NVRM: "),
    ],
)
def test_dmesg_forms(run: Run, words: t.List[str], line: str) -> None:
    assert re.match(line, run("h100x8+gpu_lost", "dmesg", *words).stdout.decode().splitlines()[-1])


def test_dmesg_json_and_level(run: Run) -> None:
    found = json.loads(run("h100x8+gpu_lost", "dmesg", "-J", "--level=warn").stdout)["dmesg"]
    assert {record["pri"] for record in found} == {4}
    assert XID79 in [record["msg"] for record in found]


def test_the_ring_buffer_as_a_file(tmp_path: Path) -> None:
    render.prepare(scenario.load("h100x8+gpu_lost"), str(tmp_path), root=False)
    lines = (tmp_path / "root/dev/kmsg").read_text().splitlines()
    assert re.match(r"5,0,0,-;Linux version ", lines[0])
    assert any(line.endswith(";" + XID79) for line in lines)
    assert any("please run\\x0aNVRM: nvidia-bug-report.sh" in line for line in lines)


def test_no_kernel_log_at_all(tmp_path: Path) -> None:
    render.prepare(scenario.load("h100x8+no_kernel_log"), str(tmp_path), root=False)
    assert [in_process.run(str(tmp_path), tool).returncode for tool in ("journalctl", "dmesg")] == [1, 1]
    assert not (tmp_path / "root/dev/kmsg").exists()


def test_lspci(run: Run) -> None:
    lines = run("rtx5090x8", "lspci", "-Dnn", "-d", "10de:").stdout.decode().splitlines()
    assert lines[0] == "0000:01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GB202 [GeForce RTX 5090] [10de:2b85] (rev a1)"
    assert len(lines) == 16, "each card has its audio function"
    lost = run("h100x8+gpu_lost", "lspci", "-d", "10de:2330").stdout.decode().splitlines()
    assert [line.endswith("(rev ff)") for line in lost].index(True) == 3
