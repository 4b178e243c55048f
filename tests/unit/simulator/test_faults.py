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
from simnode import in_process, load, render, scenario, state  # noqa: E402

# Those that compute come last: what they do to the node is not to be seen in the others.
TOOLS = (
    ("nvidia-smi", "-q"),
    ("journalctl", "-o", "cat"),
    ("nvidia-smi", "nvlink", "-s"),
    ("lspci", "-D"),
    ("dcgmi", "-v"),
    ("dcgmi", "diag", "-r", "3", "-j"),
    ("all_reduce_perf", "-b", "1G", "-e", "1G", "-g", "4"),
    ("mpirun", "--allow-run-as-root", "-H", "gpu-node-02:2,gpu-node-03:2", "all_reduce_perf", "-b", "1G", "-e", "1G"),
    ("gpu_burn", "60"),
    ("journalctl", "-o", "cat"),
    ("nvidia-smi", "-q"),
)
CHANGING = re.compile(rb"Timestamp .*|Summary at: .*")


@pytest.fixture(autouse=True, scope="module")
def _fast() -> t.Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KENTINO_SIM_SPEED", "1e9")
        patch.chdir(SIMULATOR)  # and back at the end
        yield


def _base(fault: str) -> str:
    return next(base for base in ("h100x8", "rtx5090x8", "l40sx4") if scenario.can_have(base, fault))


def _answers(name: str, folder: Path) -> t.Iterator[t.Tuple[object, ...]]:
    render.prepare(scenario.load(name), str(folder), root=False)
    os.chdir(folder / "bin")  # gpu_burn looks there for its kernel
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
            yield (done.returncode, CHANGING.sub(b"", done.stdout), done.stderr)
    yield _under_load(folder)


def _under_load(folder: Path) -> t.Tuple[object, ...]:
    """Some faults are there only while a tool computes."""
    if not (folder / "bin/nvidia-smi").exists():
        return ("missing",)
    with load.Load(str(folder), "gpu_burn", state.Node(str(folder)).gpus(), speed=1e-9):
        return (CHANGING.sub(b"", in_process.run(str(folder), "nvidia-smi", "-q").stdout),)


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
