# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every fault can be seen: at least one tool answers otherwise than on the healthy node."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

SIMULATOR = Path(__file__).resolve().parents[2] / "simulator"
sys.path.insert(0, str(SIMULATOR))
from simnode import in_process, render, scenario  # noqa: E402

TOOLS = (("nvidia-smi", "-q"), ("journalctl", "-o", "cat"), ("nvidia-smi", "nvlink", "-s"), ("lspci", "-D"))


def _base(fault: str) -> str:
    return next(base for base in ("h100x8", "rtx5090x8", "l40sx4") if scenario.can_have(base, fault))


def _answers(name: str, folder: Path) -> t.Iterator[t.Tuple[object, ...]]:
    render.prepare(scenario.load(name), str(folder), root=False)
    yield tuple(sorted(os.listdir(folder / "bin"))), (folder / "lib").exists() and len(os.listdir(folder / "lib"))
    for tool, *words in TOOLS:
        path = folder / "bin" / tool
        if not path.exists():
            yield ("missing",)
        elif "hung" in name:
            environment = dict(os.environ, **render.environment(str(folder)))
            try:
                done = subprocess.run([str(path), *words], capture_output=True, env=environment, timeout=0.4, check=False)
                yield (done.returncode,)
            except subprocess.TimeoutExpired:
                yield ("hangs",)
        else:
            done = in_process.run(str(folder), tool, *words)
            yield (done.returncode, re.sub(rb"Timestamp .*", b"", done.stdout), done.stderr)


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> t.Callable[[str], t.List[t.Tuple[object, ...]]]:
    known: t.Dict[str, t.List[t.Tuple[object, ...]]] = {}

    def answers(base: str) -> t.List[t.Tuple[object, ...]]:
        if base not in known:
            known[base] = list(_answers(base, tmp_path_factory.mktemp(base)))
        return known[base]

    return answers


def test_a_healthy_node_answers_the_same_twice(healthy: t.Callable[[str], t.List[t.Tuple[object, ...]]], tmp_path: Path) -> None:
    assert list(_answers("h100x8", tmp_path)) == healthy("h100x8")


# What comes only later is tested on its own.
@pytest.mark.parametrize("fault", [fault for fault in scenario.faults() if fault != "xid79_soon"])
def test_the_fault_shows(fault: str, healthy: t.Callable[[str], t.List[t.Tuple[object, ...]]], tmp_path: Path) -> None:
    base = _base(fault)
    answers = _answers("%s+%s" % (base, fault), tmp_path)
    assert any(found != expected for found, expected in zip(answers, healthy(base)))


def test_a_fault_that_comes_later_is_not_there_yet(tmp_path: Path) -> None:
    render.prepare(scenario.load("h100x8+xid79_soon"), str(tmp_path), root=False)
    start = int(re.search(r"^start=(\d+)$", (tmp_path / "node").read_text(), re.MULTILINE).group(1))  # type: ignore[union-attr]
    last = (tmp_path / "kernel.log").read_text().splitlines()[-2].split("\t")
    assert "Xid (PCI:0000:2a:00): 79" in last[5]
    assert int(last[1]) == start + 3000000
