# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse import kernel_log
from ansible_collections.kentino.gpu.plugins.module_utils._probe import log_file
from ansible_collections.kentino.gpu.plugins.module_utils._probe.log_reading import LineFilter

XID = b"Mar  3 04:05:06 host kernel: NVRM: Xid (PCI:0000:41:00): 48, pid=77, name=train, DBE"
NOISE = b"Mar  3 04:05:06 host kernel: usb 1-1: new high-speed USB device"
TEXT = b"\n".join([NOISE] * 40 + [XID] + [NOISE] * 40) + b"\n"


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        pytest.param("kern.log", bytes, id="plain"),
        pytest.param("kern.log.2.gz", gzip.compress, id="gzip"),
        pytest.param("kern.log.3.xz", lzma.compress, id="xz"),
        pytest.param("kern.log.4.bz2", bz2.compress, id="bzip2"),
    ],
)
def test_event_is_found_in(name, pack, tmp_path):
    path = tmp_path / name
    path.write_bytes(pack(TEXT))
    reading = log_file.scan(str(path))
    assert XID in reading.lines
    assert reading.error is None
    assert 70 <= reading.records <= 90
    assert reading.reference == os.stat(path).st_mtime


def test_plain_file_is_sifted_alike_with_and_without_grep(tmp_path, monkeypatch):
    path = tmp_path / "kern.log"
    path.write_bytes(TEXT)
    with_grep = log_file.scan(str(path))
    monkeypatch.setenv("PATH", str(tmp_path))
    without = log_file.scan(str(path))
    assert with_grep.lines == without.lines == (XID,) + (NOISE,) * kernel_log.CONTEXT_LINES


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        pytest.param("kern.log", b"", "empty", id="empty file"),
        pytest.param("kern.log.gz", gzip.compress(TEXT)[:60], "failed", id="cut gzip"),
        pytest.param("kern.log.gz", b"not gzip at all", "failed", id="false suffix"),
        pytest.param("kern.log.xz", lzma.compress(TEXT)[:-20], "failed", id="cut xz"),
    ],
)
def test_what_cannot_be_read_is_an_error(name, content, kind, tmp_path):
    path = tmp_path / name
    path.write_bytes(content)
    reading = log_file.scan(str(path))
    assert reading.error_kind == kind
    assert str(path) in reading.error


def test_missing_file_and_directory(tmp_path):
    assert log_file.scan(str(tmp_path / "none")).error
    assert "directory" in log_file.scan(str(tmp_path)).error


def test_rotated_generations_oldest_first(tmp_path):
    for age, name in enumerate(["kern.log", "kern.log.1", "kern.log.2.gz", "kern.log.10.gz"]):
        (tmp_path / name).write_bytes(b"")
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    (tmp_path / "kern.log.notes").write_bytes(b"")
    names = [os.path.basename(name) for name in log_file.expand(str(tmp_path / "kern.log"), rotated=True)]
    assert names == ["kern.log.10.gz", "kern.log.2.gz", "kern.log.1", "kern.log"]


def test_pattern(tmp_path):
    (tmp_path / "a.log").write_bytes(b"")
    assert log_file.expand(str(tmp_path / "*.log")) == [str(tmp_path / "a.log")]
    assert log_file.expand(str(tmp_path / "*.txt")) == []


@pytest.mark.parametrize("size", [1, 7, 64, 100000])
def test_filter_finds_the_line_wherever_the_blocks_are_cut(size):
    sieve = LineFilter()
    stream = io.BytesIO(TEXT)
    for chunk in iter(lambda: stream.read(size), b""):
        sieve.feed(chunk)
    sieve.close()
    assert (sieve.kept[0], sieve.records, len(sieve.kept)) == (XID, 81, 1 + kernel_log.CONTEXT_LINES)


def test_filter_keeps_a_last_line_without_newline():
    sieve = LineFilter()
    sieve.feed(NOISE + b"\n" + XID)
    sieve.close()
    assert (sieve.kept, sieve.records, sieve.last_line) == ([XID], 2, XID)


def test_filter_does_not_grow_without_end():
    sieve = LineFilter(max_kept_bytes=1000)
    for _ in range(100):
        sieve.feed(XID + b"\n")
    assert sieve.overflow
    assert sum(map(len, sieve.kept)) <= 1000


def test_block_without_newlines_is_cut():
    sieve = LineFilter()
    for _ in range(10):
        sieve.feed(b"x" * (1 << 20))
    sieve.close()
    assert sieve.records >= 2
