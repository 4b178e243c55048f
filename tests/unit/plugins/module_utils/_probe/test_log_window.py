# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._probe import log_window
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._check.nodes import Node

XID = "NVRM: Xid (PCI:0000:2a:00): 79, GPU has fallen off the bus."


def texts(reading):
    return [line for line in reading.lines if b"Xid" in line]


@pytest.mark.parametrize("source", ["auto", "journal", "kmsg"])
def test_only_what_came_behind_the_mark(source, tmp_path):
    node = Node(tmp_path, "h100x8+xid79_only")

    def question():
        mark = log_window.mark(source)
        before = log_window.read(mark, 5)
        node.say(XID, "something else")
        after = log_window.read(mark, 5)
        return [mark.error, before.error, len(texts(before)), before.follows, after.error, len(texts(after)), after.records]

    assert node.ask(question) == [None, None, 0, True, None, 1, 2]


def test_without_a_journal_the_ring_buffer_is_marked(tmp_path):
    node = Node(tmp_path, "h100x8+no_journal")
    assert node.ask(lambda: log_window.mark().source) == "kmsg"


def test_without_any_log_it_says_why(tmp_path):
    node = Node(tmp_path, "h100x8+no_kernel_log")
    error = node.ask(lambda: log_window.read(log_window.mark(), 5).error)
    assert "kmsg" in error


def test_a_journal_that_hangs_is_not_one_that_is_missing(tmp_path):
    node = Node(tmp_path, "h100x8")
    node.tool("journalctl", "exec sleep 60")
    found = node.ask(lambda: vars(log_window.mark("auto", 0.3)))
    assert (found["source"], found["cursor"]) == ("journal", None)
    assert "did not answer" in found["error"]


def test_rubbish_is_no_place(tmp_path):
    node = Node(tmp_path, "h100x8")
    node.tool("journalctl", "echo rubbish; echo '[1]'; echo '{\"__CURSOR\": 3}'")
    assert node.ask(lambda: log_window.mark("journal").cursor) is None
