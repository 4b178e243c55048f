# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs of the role that do not go as planned: a host that goes away, a person who gives up. And a baseline of several hosts."""

from __future__ import annotations

import json
import signal
import threading
import time
import typing as t

import pytest
from ansible_collections.kentino.gpu.tests.unit.roles.preflight.plays import Play, table

# What the burn-in of a node leaves when it has begun.
STARTED = "root/var/lib/kentino-gpu/preflight/%s/burn.progress.json"


@pytest.fixture
def play(tmp_path):
    return Play(tmp_path)


def wait_for(test: t.Callable[[], t.Any], seconds: float = 120.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if test():
            return True
        time.sleep(0.1)
    return False


def test_a_host_that_goes_away_is_given_up_and_the_others_become_a_baseline(play, tmp_path):
    for host in ("h100x8", "second", "third"):
        play.add(host, "h100x8")
    play.add("gone", "h100x8", ansible_connection="cut_off")
    begun = tmp_path / "nodes/gone" / (STARTED % "one")
    away = threading.Thread(target=lambda: wait_for(begun.exists) and (tmp_path / "cut_off").touch())
    away.start()
    ran = play.run(
        preflight_run_id="one",
        preflight_steps=["health", "burn", "nccl"],
        preflight_poll_seconds=1,
        preflight_unreachable_polls=2,
        preflight_baseline="learn",
        preflight_baseline_path=str(tmp_path / "kept/baseline.json"),
        # Slow enough that a busy machine still reads the GPUs often enough during the burn.
        preflight_burn_seconds=300,
        speed=15,
    )
    away.join()
    lost = ran["gates"]["gone"]
    assert (lost["open"], lost["verdict"], lost["action"]) == (False, "unknown", "check_power")
    assert "burn: the node did not answer any more while it ran" in lost["msg"]
    assert ran["results"]["gone"]["nccl"]["verdict"] == "skip"
    for host in ("h100x8", "second", "third"):
        assert ran["gates"][host]["open"], ran["gates"][host]["msg"]
    assert ["gone", "gate", "SHUT"] in [line.split()[:3] for line in table(ran["printed"])]
    book = json.loads((tmp_path / "kept/baseline.json").read_text())
    learned = {entry["measure"]: sorted(run["host"] for run in entry["runs"]) for entry in book["entries"]}
    assert learned == {measure: ["h100x8", "second", "third"] for measure in ("burn.gflops", "nccl.busbw_gbps")}


def test_a_run_that_nobody_watches_any_more_leaves_no_process(play, tmp_path):
    for host in ("h100x8", "second"):
        play.add(host, "h100x8")
    child = play.start(
        preflight_run_id="two", preflight_steps=["health", "burn"], preflight_poll_seconds=1, preflight_lease_seconds=6, speed=1
    )
    try:
        begun = [tmp_path / "nodes" / host / (STARTED % "two") for host in ("h100x8", "second")]
        assert wait_for(lambda: all(path.exists() for path in begun) and sum("gpu_burn" in line for line in play.left()) >= 2)
        child.send_signal(signal.SIGINT)
        child.communicate(timeout=60)
        assert any("gpu_burn" in line for line in play.left())
        assert wait_for(lambda: not play.left()), play.left()
    finally:
        child.kill()
        child.communicate()
