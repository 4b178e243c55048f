# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import time

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._probe import journal

XID = "NVRM: Xid (PCI:0000:41:00): 79, pid=0, GPU has fallen off the bus."


def record(number: int, message: str = "usb 1-1: new device") -> str:
    return json.dumps({"__CURSOR": "c%d" % number, "_BOOT_ID": "b" * 32, "_TRANSPORT": "kernel", "MESSAGE": message})


@pytest.fixture
def journalctl(tmp_path, monkeypatch):
    """Installs a journalctl that runs a shell script and notes its arguments."""
    monkeypatch.setenv("PATH", "%s:%s" % (tmp_path, os.environ["PATH"]))

    def install(script: str):
        tool = tmp_path / "journalctl"
        tool.write_text('#!/bin/sh\nprintf "%%s\\n" "$*" >> %s/calls\n%s\n' % (tmp_path, script))
        tool.chmod(0o755)
        return tmp_path / "calls"

    return install


def prints(*records: str) -> str:
    return "cat <<'EOF'\n%s\nEOF" % "\n".join(records)


def test_lines_of_interest_are_kept_and_all_are_counted(journalctl):
    calls = journalctl(prints(record(1), record(2, XID), record(3)))
    reading = journal.read()
    assert (reading.records, reading.cursor, reading.boot_id, reading.error) == (3, "c3", "b" * 32, None)
    assert XID in b"\n".join(reading.lines).decode()
    assert "--boot=0" in calls.read_text()
    assert "_TRANSPORT=kernel" in calls.read_text()


def test_no_priority_is_filtered(journalctl):
    calls = journalctl(prints(record(1)))
    journal.read()
    assert not [word for word in calls.read_text().split() if word.startswith(("-p", "--priority"))]


def test_all_boots(journalctl):
    calls = journalctl(prints(record(1)))
    journal.read(boot="all")
    assert "--boot" not in calls.read_text()


def test_from_a_cursor_only_what_is_new(journalctl):
    calls = journalctl(prints(record(7, XID), record(8)))
    reading = journal.read(cursor="c7")
    assert "--cursor=c7" in calls.read_text()
    assert (reading.records, reading.cursor, reading.gap, reading.error) == (1, "c8", False, None)
    assert XID not in b"\n".join(reading.lines).decode()


def test_nothing_new_is_an_answer_when_the_cursor_is_still_there(journalctl):
    journalctl(prints(record(7)))
    reading = journal.read(cursor="c7")
    assert (reading.records, reading.cursor, reading.error) == (0, "c7", None)


def test_vanished_cursor_is_a_gap_and_everything_is_read(journalctl):
    calls = journalctl(prints(record(20, XID), record(21)))
    reading = journal.read(cursor="c7")
    assert (reading.gap, reading.records, reading.cursor) == (True, 2, "c21")
    assert XID in b"\n".join(reading.lines).decode()
    assert "--cursor" not in calls.read_text().splitlines()[1]


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        pytest.param("true", "empty", "no kernel record", id="prints nothing and says success"),
        pytest.param("echo 'No journal files were found.' >&2; exit 1", "failed", "No journal files were found", id="fails"),
        pytest.param("exec sleep 60", "timeout", "did not answer", id="hangs"),
        pytest.param(
            prints(record(1)) + "\necho 'Journal file x is truncated, ignoring file.' >&2", "failed", "ignoring file", id="damaged file"
        ),
    ],
)
def test_what_went_wrong_is_named(journalctl, script, kind, words):
    journalctl(script)
    begin = time.monotonic()
    reading = journal.read(deadline_seconds=3 if kind == "timeout" else 60)
    assert time.monotonic() - begin < 30
    assert reading.error_kind == kind
    assert words in reading.error


def test_output_before_a_hang_is_kept(journalctl):
    journalctl(prints(record(1, XID)) + "\nexec sleep 60")
    reading = journal.read(deadline_seconds=3)
    assert reading.error_kind == "timeout"
    assert XID in b"\n".join(reading.lines).decode()


def test_missing_journalctl(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert journal.read().error_kind == "missing_tool"


def test_ring_buffer_is_read_below_the_root(monkeypatch, tmp_path):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "kmsg").write_text("6,0,100,-;Linux version 6.1\n4,1,200,-;%s\n" % XID)
    monkeypatch.setenv("KENTINO_GPU_ROOT", str(tmp_path))
    reading = journal.read_kmsg()
    assert (reading.records, reading.gap, reading.error) == (2, False, None)
    assert XID in b"\n".join(reading.lines).decode()


def test_ring_buffer_that_lost_its_beginning_is_a_gap(monkeypatch, tmp_path):
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "kmsg").write_text("6,512,100,-;eth0: link up\n")
    monkeypatch.setenv("KENTINO_GPU_ROOT", str(tmp_path))
    assert journal.read_kmsg().gap is True


def test_no_ring_buffer(monkeypatch, tmp_path):
    monkeypatch.setenv("KENTINO_GPU_ROOT", str(tmp_path))
    assert journal.read_kmsg().error_kind == "denied"
