# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The preflight playbook against booted nodes with simulated GPUs: it has converged, so the gate has opened on both."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[4]
INVENTORY = REPOSITORY / "extensions/molecule/inventory/hosts.yml"
# Below the directory that stands for / to whatever asks about the simulated GPUs.
RUNS = "/var/lib/simulated-node/root/var/lib/kentino-gpu/preflight"


@pytest.fixture
def node(host):
    return host.check_output("cat /etc/hostname")


def run_preflight(node: str, run_id: str, *steps: str) -> subprocess.CompletedProcess:
    values = {"preflight_run_id": run_id, "preflight_steps": ["health", *steps], "preflight_poll_seconds": 3, "preflight_baseline": "off"}
    command = ["ansible-playbook", "--inventory", str(INVENTORY), "--limit", node, "--extra-vars", json.dumps(values)]
    return subprocess.run(
        [*command, str(REPOSITORY / "playbooks/preflight.yml")],
        env=dict(os.environ, ANSIBLE_STDOUT_CALLBACK="ansible.builtin.default"),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_every_step_has_left_its_result(host):
    kept = host.check_output("find %s/molecule -type f" % RUNS)
    for step in ("dcgm", "burn", "nccl"):
        assert step in kept, kept


def test_no_tool_is_left_running(host):
    running = host.check_output("ps -eo args || cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert not [tool for tool in ("gpu_burn ", "dcgmi ", "all_reduce_perf ") if tool in running], running


def test_gpu_that_computes_wrong_is_burnt_out_and_named(host, node):
    host.run_expect([0], "/opt/node/gpus h100x8+burn_errors")
    try:
        done = run_preflight(node, "wrong", "burn", "nccl")
    finally:
        host.run_expect([0], "/opt/node/gpus h100x8")
    assert done.returncode == 2, done.stdout
    assert "gate shut" in done.stdout + done.stderr, done.stdout
    assert "burn.errors" in done.stdout, done.stdout
    assert "GPU 2" in done.stdout, done.stdout
    assert "because burn failed" in done.stdout, done.stdout
    assert "Gflop/s, hottest" in done.stdout, done.stdout
    # A person reads a sentence, not the whole report in one line of JSON.
    assert '"findings"' not in done.stdout, done.stdout
