# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command line: exit statuses, what it prints, and that nothing makes it print a traceback."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import types
import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._cli import main
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import VERDICTS
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check.nodes import COMMAND, REPOSITORY, Node
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

KERNEL_LINES = "".join("[%12.6f] usb 1-1: new high-speed USB device number %d\n" % (second, second) for second in range(1, 30))
LOST = "[   40.000000] NVRM: Xid (PCI:0000:2a:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"


def run(capsys, *words: str) -> t.Tuple[int, str, str]:
    try:
        status = main.main(words)
    except SystemExit as exc:  # argparse
        status = int(exc.code or 0)
    printed = capsys.readouterr()
    return status, printed.out, printed.err


@pytest.fixture
def empty_node(tmp_path, monkeypatch):
    """A machine without tools, journal, GPUs and settings."""
    monkeypatch.setenv("KENTINO_GPU_ROOT", str(tmp_path / "root"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    return tmp_path


def kernel_log(folder, text: str) -> str:
    path = folder / "kern.log"
    path.write_text(text)
    return str(path)


# Exit statuses


@pytest.mark.parametrize(
    ("name", "words", "status"),
    [
        ("h100x8", ("--gpus", "8"), 0),
        ("l40sx4+ecc_climbing", (), 1),
        ("rtx5090x8+gpu_lost", (), 2),
        ("h100x8", ("--gpus", "9"), 2),
        ("h100x8+hung_journal", ("--deadline", "1.5"), 3),
    ],
)
def test_status_of_check(name, words, status, tmp_path):
    node = Node(tmp_path, name)
    if node.nvml_problem:
        pytest.skip(node.nvml_problem)
    done = node.cli("check", *words)
    assert (done.returncode, done.stderr) == (status, b"")
    lines = done.stdout.decode().splitlines()
    assert lines[0].startswith("SIMULATED NODE")
    assert lines[1].split(":")[0] == {0: "pass", 1: "warn", 2: "fail", 3: "unknown"}[status]
    assert lines[-1].startswith("kernel_log: ")


@pytest.mark.parametrize(
    ("log", "status"),
    [(KERNEL_LINES, 0), (KERNEL_LINES + LOST, 2), ("nothing of a kernel", 3), ("", 3)],
)
def test_status_of_a_file(empty_node, capsys, log, status):
    assert run(capsys, "check", "--checks", "kernel_log", "--kernel-log", kernel_log(empty_node, log))[0] == status


def test_check_that_was_not_asked_for_is_not_passed(empty_node, capsys):
    _status, out, _err = run(capsys, "check", "--checks", "kernel_log", "--kernel-log", kernel_log(empty_node, KERNEL_LINES), "--json")
    assert {check["name"]: check["verdict"] for check in json.loads(out)["checks"]} == {"gpu": "skip", "kernel_log": "pass"}


def test_machine_without_anything_cannot_be_told_and_the_table_says_why(empty_node, capsys):
    status, out, err = run(capsys, "check")
    assert (status, err) == (3, "")
    assert "nvidia-smi cannot be run" in out
    assert "journalctl was not found" in out
    assert "Traceback" not in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        pytest.param((), "required: command", id="nothing"),
        pytest.param(("chekc",), "invalid choice: 'chekc'", id="unknown command"),
        pytest.param(("check", "--gpus", "eight"), "invalid int value: 'eight'", id="no number"),
        pytest.param(("check", "--gpus", "-1"), "gpu_expected: count is -1", id="negative number"),
        pytest.param(("check", "--deadline", "0"), "above 0, for example 20", id="no time at all"),
        pytest.param(("check", "--deadline", "nan"), "above 0, for example 20", id="no number of seconds"),
        pytest.param(("check", "--checks", "gpus"), "expected one or more of gpu, kernel_log", id="unknown check"),
        pytest.param(("check", "--checks", ","), "expected one or more of gpu, kernel_log", id="no check"),
        pytest.param(("check", "--node", "/no/such.json"), "/no/such.json: no such file; expected a JSON object", id="no node file"),
        pytest.param(("explain",), "required: what", id="nothing to explain"),
        pytest.param(("explain", "the", "weather"), "cannot explain 'the weather': expected an Xid (79, xid 79)", id="not to be explained"),
        pytest.param(("explain", "999999"), "expected an Xid", id="no such number"),
        pytest.param(("explain", "\x00\x1b[31m"), "expected an Xid", id="control characters"),
        pytest.param(("parse",), "required: --kind", id="no kind"),
        pytest.param(("parse", "--kind", "poem"), "invalid choice: 'poem'", id="unknown kind"),
        pytest.param(("parse", "--kind", "kernel_log", "--rc", "one"), "--rc one: expected a number or none", id="no exit status"),
    ],
)
def test_wrong_usage_has_a_status_and_a_sentence_of_its_own(empty_node, capsys, monkeypatch, words, sentence):
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(b"")))
    status, out, err = run(capsys, *words)
    assert (status, out) == (main.EXIT_USAGE, "")
    assert sentence in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param("", "expected a JSON object with any of the keys expected, limits, xid_policy, state_path", id="empty"),
        pytest.param("{", "expected a JSON object", id="cut"),
        pytest.param("[" * 100000, "expected a JSON object", id="nested without end"),
        pytest.param("\udcff", "expected a JSON object", id="no text"),
        pytest.param("[]", "and no others", id="a list"),
        pytest.param('{"expectde": {}}', "and no others", id="misspelt key"),
        pytest.param('{"expected": [8]}', "expected is [8]; expected an object", id="a list where an object should be"),
        pytest.param('{"state_path": 7}', "state_path is 7; expected a path", id="a number where a path should be"),
        pytest.param('{"expected": {"cuont": 8}}', "did you mean 'count'", id="misspelt expectation"),
        pytest.param('{"limits": {"no_such_limit": 8}}', "no_such_limit", id="unknown limit"),
        pytest.param('{"xid_policy": {"79": {"severity": "awful"}}}', "awful", id="unknown severity"),
    ],
)
def test_node_file_that_is_wrong_is_named(empty_node, capsys, content, sentence):
    path = empty_node / "node.json"
    path.write_text(content, errors="surrogateescape")
    status, _out, err = run(capsys, "check", "--node", str(path))
    assert status == main.EXIT_USAGE
    assert sentence in err
    assert "Traceback" not in err


def test_node_file_that_may_not_be_read_is_named(empty_node, capsys):
    status, _out, err = run(capsys, "check", "--node", str(empty_node))
    assert (status, "Is a directory" in err) == (main.EXIT_USAGE, True)


def test_node_file_says_what_is_expected_and_how_an_xid_counts(empty_node, capsys):
    log = kernel_log(empty_node, KERNEL_LINES + LOST)
    folder = empty_node / "root/etc/kentino-gpu"
    folder.mkdir(parents=True)
    (folder / "node.json").write_text('{"expected": {"count": 8}, "limits": null, "xid_policy": {"79": {"severity": "warning"}}}')
    assert run(capsys, "check", "--checks", "kernel_log", "--kernel-log", log)[0] == 1


def test_state_file_is_written_where_it_is_named(tmp_path):
    node = Node(tmp_path, "l40sx4")
    for words in ("176 kernel log lines", "0 new kernel log lines"):
        done = node.cli("check", "--state", "/var/lib/kentino-gpu/state.json")
        assert words in done.stdout.decode()
    assert node.state.stat().st_mode & 0o777 == 0o600


# What is printed

REPORT = {
    "action": str, "changed": bool, "checks": list, "facts": dict, "findings": list, "metrics": dict, "simulated": bool, "verdict": str,
}  # fmt: skip
FINDING = {
    "action", "advice", "check", "code", "count", "evidence", "first", "last", "message", "severity", "subject", "verdict",
}  # fmt: skip


def test_keys_of_the_json_report(empty_node, capsys):
    log = kernel_log(empty_node, KERNEL_LINES + LOST)
    _status, out, _err = run(capsys, "check", "--kernel-log", log, "--json")
    report = json.loads(out)
    assert {key: type(value) for key, value in report.items()} == REPORT
    assert {frozenset(finding) for finding in report["findings"]} == {frozenset(FINDING)}
    assert {frozenset(check) for check in report["checks"]} == {frozenset({"name", "verdict", "action", "evidence", "skipped"})}
    assert {"events", "incidents", "sxids", "totals", "cursor", "boot_id", "records", "source"} <= set(report["facts"]["kernel_log"])
    assert {"gpus", "source", "driver_version", "complete", "error", "lost"} <= set(report["facts"]["gpu"])


def test_table_says_first_what_to_do(empty_node, capsys):
    _status, out, _err = run(capsys, "check", "--checks", "kernel_log", "--kernel-log", kernel_log(empty_node, KERNEL_LINES + LOST))
    assert out.startswith("fail: reseat GPU 0000:2a:00: Xid 79: ")
    assert max(map(len, out.splitlines()[1:])) < 250


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_kernel_log_may_be_compressed_and_several(empty_node, capsys, suffix):
    first, second = empty_node / "a.log", empty_node / ("b.log" + suffix)
    first.write_text(KERNEL_LINES)
    second.write_bytes(gzip.compress(LOST.encode()) if suffix else LOST.encode())
    words = ("check", "--checks", "kernel_log", "--kernel-log", str(first), "--kernel-log", str(second))
    status, out, _err = run(capsys, *words)
    assert status == 2
    assert "%s, %s" % (first, second) in out


def test_kernel_log_that_is_missing_is_unknown_and_named(empty_node, capsys):
    status, out, _err = run(capsys, "check", "--checks", "kernel_log", "--kernel-log", "/no/such.log")
    assert (status, "/no/such.log: No such file or directory" in out) == (3, True)


# Parsers


@pytest.fixture
def parse(capsys, monkeypatch):
    def answer(kind: str, content: bytes, rc: str = "none") -> t.Dict[str, t.Any]:
        monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(content)))
        status, out, err = run(capsys, "parse", "--kind", kind, "--rc", rc)
        assert (status, err, out.count("\n")) == (0, "", 1)
        answered: t.Dict[str, t.Any] = json.loads(out, parse_constant=lambda word: pytest.fail("no JSON: %s" % word))
        return answered

    return answer


CONTENTS = {
    "nothing": b"",
    "a newline": b"\n",
    "NUL bytes": b"\x00" * 1000,
    "bytes without sense": bytes(range(256)) * 400,
    "half a character": "\u00e9".encode()[:-1],
    "a byte order mark": b"\xff\xfe" + "NVRM: Xid".encode("utf-16-le"),
    "a huge line": b"x" * 1000000,
    "a huge line of brackets": b"[{" * 100000,
    "a huge number": b'{"a": ' + b"9" * 100000 + b"}",
    "numbers that JSON does not have": b'{"a": NaN, "b": Infinity, "c": 1e999}',
    "an array": b"[]",
    "a proxy's error": b"<html><body><h1>502 Bad Gateway</h1></body></html>",
}


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("kind", main.KINDS)
def test_every_parser_answers_with_one_object_and_no_pass(parse, kind, content):
    for rc in ("none",) if content.startswith("a huge") else ("none", "0", "-9", "255"):
        answer = parse(kind, CONTENTS[content], rc)
        assert answer["verdict"] in ("unknown", "fail")


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(main.KINDS), st.binary(max_size=300), st.sampled_from(("none", "0", "1", "-11")))
def test_no_bytes_break_a_parser(parse, kind, content, rc):
    verdict = parse(kind, content, rc)["verdict"]
    # A line of a kernel log that says nothing bad can be as short as its tag.
    assert verdict in VERDICTS
    assert verdict != "pass" or kind == "kernel_log"


def test_characters_that_the_terminal_does_not_have_end_nothing(tmp_path):
    node = Node(tmp_path, "l40sx4+garbled_output")
    done = node.cli("check", env={"PYTHONIOENCODING": "latin-1"})
    assert done.returncode in (2, 3)
    assert (done.stderr, b"tool.garbled" in done.stdout) == (b"", True)


# The script


def call(*words: str, **options: t.Any) -> subprocess.CompletedProcess[bytes]:
    options = {"capture_output": True, "check": False, "timeout": 60, **options}
    return subprocess.run([sys.executable, str(COMMAND), *words], **options)


@pytest.mark.parametrize("lines", [0, 1])
def test_reader_that_goes_away_is_no_error(tmp_path, lines):
    read_end, write_end = os.pipe()
    child = subprocess.Popen([sys.executable, str(COMMAND), "explain", "79"], stdout=write_end, stderr=subprocess.PIPE)
    os.close(write_end)
    if not lines:
        os.close(read_end)
    _out, err = child.communicate(timeout=60)
    if lines:
        os.close(read_end)
    assert err == b""
    assert child.returncode == (0 if lines else main.EXIT_STATUS["unknown"])


def test_script_runs_from_elsewhere_and_through_a_link(tmp_path):
    link = tmp_path / "bin" / "kgpu"
    link.parent.mkdir()
    link.symlink_to(COMMAND)
    done = subprocess.run([str(link), "explain", "xid", "48"], cwd=str(tmp_path), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"Xid 48")


def test_script_is_not_led_astray_by_files_beside_the_caller(tmp_path):
    for name in ("plugins", "json", "kernel_log"):
        (tmp_path / (name + ".py")).write_text("raise SystemExit('the wrong file')\n")
    done = call("explain", "79", cwd=str(tmp_path))
    assert done.returncode == 0, done.stderr


def test_script_runs_under_the_oldest_python_that_nodes_have():
    candidates = (["python3.9"], [str(REPOSITORY / "tests/tools/python"), "3.9"])
    python = ""
    for argv in candidates:
        try:
            probe = [*argv, "-c", "import sys; print(sys.executable)"] if argv[0].endswith("3.9") else argv
            done = subprocess.run(probe, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        python = done.stdout.strip()
        break
    if not python:
        pytest.skip("there is no Python 3.9 on this machine")
    done = subprocess.run([python, str(COMMAND), "parse", "--kind", "kernel_log"], input=LOST.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["action"] == "reseat"
