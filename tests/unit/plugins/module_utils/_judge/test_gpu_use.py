# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import gpu as judge
from ansible_collections.kentino.gpu.plugins.module_utils._parse.gpu_records import Gpu, GpuProcess
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._judge.gpu_cards import (
    H100,
    RTX_5090,
    change,
    node,
    of_one,
)

MIG = [("gpu.mig", "warn", "reset_gpu")]
ON = {"mig_mode": True, "mig_mode_pending": True}


@pytest.mark.parametrize(
    ("card", "expected", "findings"),
    [
        pytest.param(H100, {"mig": False}, [], id="off, off expected"),
        pytest.param(H100, {"mig": True}, MIG, id="off, on expected"),
        pytest.param(change(H100, **ON), {"mig": True}, [], id="on, on expected"),
        pytest.param(change(H100, **ON), {"mig": False}, MIG, id="on, off expected"),
        pytest.param(change(H100, mig_mode_pending=True), {"mig": False}, MIG, id="will be on"),
        pytest.param(change(H100, mig_mode_pending=None), {"mig": False}, [], id="pending mode not told"),
        pytest.param(RTX_5090, {"mig": True}, [("gpu.mig", "warn", "none")], id="not supported, on expected"),
        pytest.param(RTX_5090, {"mig": False}, [], id="not supported, off expected"),
    ],
)
def test_mig(card: Gpu, expected: t.Dict[str, t.Any], findings: t.List[t.Any]) -> None:
    assert of_one(card, expected) == findings


def test_mig_of_which_nothing_is_expected_is_told() -> None:
    assert [(one.code, one.severity) for one in judge.judge(node(change(H100, **ON)), {}, {})] == [("gpu.mig", "info")]


PERSISTENCE = [("gpu.persistence", "warn", "none")]


@pytest.mark.parametrize(
    ("facts", "expected", "findings"),
    [
        pytest.param({"persistence_mode": False}, {}, [], id="persistence off"),
        pytest.param({"persistence_mode": False}, {"persistence": True}, PERSISTENCE, id="persistence off, on expected"),
        pytest.param({}, {"persistence": False}, PERSISTENCE, id="persistence on, off expected"),
        pytest.param(
            {"persistence_mode": None, "unsupported": frozenset({"persistence_mode"})},
            {"persistence": True},
            PERSISTENCE,
            id="not supported",
        ),
        pytest.param({"compute_mode": "Exclusive_Process"}, {}, [], id="exclusive"),
        pytest.param({"compute_mode": "Exclusive_Process"}, {"compute_mode": "exclusive process"}, [], id="as expected"),
        pytest.param({}, {"compute_mode": "Exclusive Process"}, [("gpu.compute_mode", "warn", "none")], id="shared, exclusive expected"),
        pytest.param({"compute_mode": "Prohibited"}, {}, [("gpu.compute_mode", "fail", "look_at_code")], id="prohibited"),
        pytest.param({"compute_mode": "Prohibited"}, {"compute_mode": "Prohibited"}, [], id="prohibited as expected"),
    ],
)
def test_settings(facts: t.Dict[str, t.Any], expected: t.Dict[str, t.Any], findings: t.List[t.Any]) -> None:
    assert of_one(change(H100, **facts), expected) == findings


STALE = GpuProcess(4711, "/opt/venv/bin/python3", "compute", 61000)
DISPLAY = GpuProcess(1200, "/usr/lib/xorg/Xorg", "graphics", 80)
BURN = GpuProcess(900, "./gpu_burn", "compute", 70000)
NAMELESS = GpuProcess(5, None, None, None)
FOREIGN = [("gpu.foreign_process", "fail", "look_at_code")]


@pytest.mark.parametrize(
    ("processes", "expected", "findings"),
    [
        pytest.param((), {"idle": True}, [], id="free"),
        pytest.param((STALE,), {}, [], id="busy, nothing expected"),
        pytest.param((STALE,), {"idle": False}, [], id="busy, need not be free"),
        pytest.param((STALE,), {"idle": True}, FOREIGN, id="a stale process"),
        pytest.param((BURN,), {"idle": True}, [], id="our own"),
        pytest.param((DISPLAY,), {"idle": True}, FOREIGN, id="a display"),
        pytest.param((DISPLAY,), {"idle": True, "allowed_processes": ["Xorg"]}, [], id="a display that may be"),
        pytest.param((DISPLAY,), {"idle": True, "allowed_processes": ["/usr/bin/xorg"]}, [], id="a display that may be, by a path"),
        pytest.param((DISPLAY, STALE, BURN), {"idle": True, "allowed_processes": ["Xorg"]}, FOREIGN, id="one of three"),
        pytest.param((NAMELESS,), {"idle": True, "allowed_processes": ["Xorg"]}, FOREIGN, id="no name"),
    ],
)
def test_processes(processes: t.Tuple[GpuProcess, ...], expected: t.Dict[str, t.Any], findings: t.List[t.Any]) -> None:
    used = 61100 if processes else 6
    assert of_one(change(H100, processes=processes, memory_used_mib=used), expected, own_pids=[900]) == findings


def test_who_holds_the_gpu_is_named() -> None:
    processes = (STALE, NAMELESS, DISPLAY, GpuProcess(1201, "gnome-shell", used_mib=4))
    (finding,) = judge.judge(node(change(H100, processes=processes)), {"idle": True}, {})
    assert finding.message.startswith("4 processes use the GPU, none allowed: pid 4711 /opt/venv/bin/python3 61000 MiB; pid 5 (no name)")
    assert finding.message.endswith(", and 1 more")
    assert len(finding.evidence) == 4


HELD = [("gpu.memory_held", "warn", "look_at_code")]


@pytest.mark.parametrize(
    ("facts", "findings"),
    [
        pytest.param({"memory_used_mib": 1025}, HELD, id="1025 MiB and nobody there"),
        pytest.param({"memory_used_mib": 1024}, [], id="1024 MiB"),
        pytest.param({"memory_used_mib": 60000, "processes": (STALE,)}, [], id="a process holds it"),
        pytest.param({"memory_used_mib": 60000, "processes": None}, [], id="processes not told"),
        pytest.param({"memory_used_mib": 60000, **ON}, [], id="MIG: the instances list their own"),
        pytest.param({"memory_used_mib": 1400, "memory_free_mib": 80159, "memory_reserved_mib": 700}, [], id="used counts the reserve"),
        pytest.param({"memory_used_mib": 1400, "memory_free_mib": 79459, "memory_reserved_mib": 700}, HELD, id="used does not count it"),
    ],
)
def test_memory_that_nobody_holds(facts: t.Dict[str, t.Any], findings: t.List[t.Any]) -> None:
    assert of_one(change(H100, **facts)) == findings
