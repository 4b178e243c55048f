# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse.torchelastic import Ending, Torchelastic, parse, signal_name
from hypothesis import given, settings
from hypothesis import strategies as st

BLOCK_213 = """\
W0314 09:15:26.087000 4755 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 5069 closing signal SIGTERM
W0314 09:15:26.087000 4755 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 5071 closing signal SIGTERM
E0314 09:15:26.267000 4755 torch/distributed/elastic/api.py:9] failed (exitcode: -7) local_rank: 2 (pid: 5074) of binary: python
Traceback (most recent call last):
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
======================================================
job.py FAILED
------------------------------------------------------
Failures:
[1]:
  time      : 2026-03-14_09:15:26
  host      : node4
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 5069)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 5069
[2]:
  time      : 2026-03-14_09:15:26
  host      : node4
  rank      : 1 (local_rank: 1)
  exitcode  : 3 (pid: 5071)\x20
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-03-14_09:15:25
  host      : node4
  rank      : 2 (local_rank: 2)
  exitcode  : -7 (pid: 5074)  (SIGBUS)
  error_file: <N/A>
  traceback : Signal 7 (SIGBUS) received by PID 5074
======================================================
"""


def test_the_closing_block_of_2_13_names_every_process_once():
    found = parse(BLOCK_213)
    assert [(ending.rank, ending.exit_code, ending.pid, ending.signal) for ending in found.endings] == [
        (0, -15, 5069, "SIGTERM"),
        (1, 3, 5071, None),
        (2, -7, 5074, "SIGBUS"),
    ]
    assert found.root == Ending(-7, 5074, 2, 2, "node4", "2026-03-14_09:15:25", "SIGBUS", "Signal 7 (SIGBUS) received by PID 5074")
    assert found.closed_pids == (5069, 5071)
    assert found.complete
    assert found.endings[1].text is None


def test_the_block_before_2_12_does_not_name_the_signal():
    text = BLOCK_213.replace("  (SIGBUS)", "").replace("  (SIGTERM)", "")
    assert [ending.signal for ending in parse(text).endings] == ["SIGTERM", None, "SIGBUS"]


def test_the_lines_of_1_13_are_enough():
    text = (
        "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 812 closing signal SIGTERM\n"
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -11) local_rank: 3 (pid: 817) of binary: /usr/bin/python3\n"
    )
    found = parse(text)
    assert found.root == Ending(-11, 817, local_rank=3, signal="SIGSEGV")
    assert (found.endings, found.closed_pids, found.complete) == ((found.root,), (812,), False)


def test_the_line_and_the_block_are_one_process():
    assert len(parse(BLOCK_213).endings) == 3


def test_a_block_on_one_line_reads_the_same():
    flat = parse(BLOCK_213.replace("\n", "  "))
    assert [(ending.rank, ending.exit_code, ending.pid) for ending in flat.endings] == [(0, -15, 5069), (1, 3, 5071), (2, -7, 5074)]
    assert flat.root is not None
    assert flat.root.pid == 5074


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="silent, as torchrun is where all went well"),
        pytest.param("I1104 09:58:01.610000 2606 torch/distributed/launcher/api.py:194]   max_restarts     : 0\n", id="its configuration"),
    ],
)
def test_nothing_to_tell(text):
    assert parse(text) == Torchelastic()


def test_a_block_that_is_cut_is_not_complete_and_invents_no_process():
    pids = {ending.pid for ending in parse(BLOCK_213).endings}
    for cut in range(len(BLOCK_213)):
        found = parse(BLOCK_213[:cut])
        assert {ending.pid for ending in found.endings} <= pids
        assert not found.complete or cut > len(BLOCK_213) - 60


@given(st.text())
@settings(max_examples=60, deadline=None)
def test_no_input_raises(text):
    parse(text)
    parse("Root Cause (first observed failure):\nexitcode : %s (pid: 1" % text)


@pytest.mark.parametrize(("code", "name"), [(-9, "SIGKILL"), (-6, "SIGABRT"), (-40, "signal 40"), (0, None), (1, None)])
def test_names_of_signals(code, name):
    assert signal_name(code) == name
