# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._report import progress

BURN = {"step": "burn", "state": "running", "running": True, "percent": 42.4, "elapsed_seconds": 254.0, "total_seconds": 600, "errors": 0}
HOT = dict(BURN, hottest_c=71, hottest_gpu=3)


def test_one_line_for_each_host():
    assert progress.lines(
        "burn", {"gpu-1": HOT, "gpu-2": dict(BURN, percent=None, errors=12, elapsed_seconds=3723.0, total_seconds=7200)}
    ) == [
        "host   step  state    done    time                hottest       errors",
        "gpu-1  burn  running  42 %    4:14 of 10:00       71 C (GPU 3)  0",
        "gpu-2  burn  running  < 52 %  1:02:03 of 2:00:00  -             12",
    ]


def test_hosts_of_another_step_are_left_out():
    assert progress.lines("burn", {"gpu-1": dict(HOT, step="dcgm"), "gpu-2": {}}) == []
    assert progress.running("burn", {"gpu-1": dict(HOT, step="dcgm"), "gpu-2": {}}) == 0


@pytest.mark.parametrize(
    ("elapsed", "more", "pause"),
    [
        (100, {}, 20.0),
        (590, {}, 10.0),
        (599, {}, 2.0),
        (630, {}, 2.0),
        (700, {}, 20.0),
        (630, {"running": False}, 20.0),
        (630, {"step": "dcgm"}, 20.0),
        (630, {"total_seconds": None}, 20.0),
        (None, {}, 20.0),
    ],
    ids=["far from its end", "near", "very near", "any moment", "long overdue", "ended", "other step", "no total", "nothing told"],
)
def test_end_of_a_step_is_noticed_soon(elapsed, more, pause):
    assert progress.pause_seconds("burn", {"gpu-1": dict(BURN, elapsed_seconds=elapsed, **more), "gpu-2": dict(BURN)}, 20.0) == pause


def test_a_host_that_does_not_answer_is_told():
    standings = {"gpu-1": {"unreachable": True, "msg": "timed out"}, "gpu-2": dict(HOT, running=False, state="finished")}
    assert "unreachable" in progress.lines("burn", standings)[1]
    assert progress.running("burn", standings) == 1


@pytest.mark.parametrize("odd", [None, "hot", [], {}, float("inf"), True, -1])
def test_no_value_of_a_node_raises(odd):
    told = dict(dict.fromkeys(HOT, odd), step="burn")
    assert len(progress.lines("burn", {"gpu-1": told})) == 2


def test_text_of_a_node_stays_on_its_line():
    (_head, line) = progress.lines("burn", {"gpu-1": dict(HOT, state="run\nning\x1b[31m")})
    assert "\x1b" not in line
