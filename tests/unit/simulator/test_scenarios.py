# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The simulated node: scenarios, the launcher and the state directory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

SIMULATOR = Path(__file__).resolve().parents[2] / "simulator"
sys.path.insert(0, str(SIMULATOR))
from simnode import build, launcher, render, scenario  # noqa: E402

NODES = {"h100x8": 8, "rtx5090x8": 8, "l40sx4": 4}


def simulate(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(SIMULATOR / "simulate"), *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)


def test_the_base_nodes_are_described() -> None:
    assert {name: len(scenario.load(name).gpus) for name in scenario.nodes()} == NODES


@pytest.mark.parametrize("base", NODES)
def test_gpus_of_a_node_are_told_apart(base: str) -> None:
    gpus = scenario.load(base).gpus
    for name in ("bus_id", "uuid"):
        assert len({gpu[name] for gpu in gpus}) == len(gpus)
    assert [gpu["bus_id"] for gpu in gpus] == sorted(gpu["bus_id"] for gpu in gpus)


@pytest.mark.parametrize("fault", scenario.faults())
def test_every_fault_fits_some_node(fault: str) -> None:
    assert any(scenario.can_have(base, fault) for base in NODES)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("h200x8", "there is no node 'h200x8'; the nodes are h100x8"),
        ("h100x8+on_fire", "there is no fault 'on_fire'; the faults are app_xid"),
        ("rtx5090x8+fabric_not_ready", "fault fabric_not_ready needs GPUs with fabric"),
        ("l40sx4+psu_lost", "fault psu_lost is about GPU 4, l40sx4 has only 4 GPUs"),
    ],
)
def test_a_scenario_that_cannot_be_says_why(name: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert launcher.main([name, "--", "true"]) == 2
    assert said in capsys.readouterr().err


def test_faults_can_be_combined() -> None:
    both = scenario.load("h100x8+link_x4+hot_gpu")
    assert both.gpus[1]["pcie"]["width"] == 4
    assert both.gpus[2]["temp"]["gpu"] == 90
    assert scenario.load("h100x8").gpus[1]["pcie"]["width"] == 16


def test_a_fault_may_include_others() -> None:
    found = scenario.load("h100x8+gpu_lost_old_tool")
    assert found.gpus[3]["handle_error"] == 15
    assert found.missing == [build.NAME]


def test_list_explains_every_node_and_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert launcher.main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    told = {line.split()[0]: line.split(None, 1)[1:] for line in lines if line.startswith("  ")}
    assert set(told) == {*scenario.nodes(), *scenario.faults()}
    assert all(told.values())


def test_the_command_runs_on_the_simulated_node_and_its_status_is_passed_on() -> None:
    done = simulate("h100x8", "--", "sh", "-c", "command -v nvidia-smi; ls $KENTINO_GPU_ROOT; exit 7")
    assert done.returncode == 7
    assert done.stderr == "SIMULATED NODE: h100x8, no GPU of this machine is used\n"
    tool, *root = done.stdout.splitlines()
    assert root == ["dev", "proc", "sys"]
    assert not os.path.exists(tool), "a state directory that nobody named goes when the command ends"


def test_a_command_that_is_killed_by_a_signal_ends_as_in_a_shell() -> None:
    assert simulate("l40sx4", "--", "sh", "-c", "kill -9 $$").returncode == 137


def test_a_command_that_does_not_exist() -> None:
    done = simulate("l40sx4", "--", "no-such-command")
    assert done.returncode == 127
    assert "no-such-command: No such file or directory" in done.stderr


@pytest.mark.parametrize("form", ["json", "shell", "yaml"])
def test_env_is_printed_for_other_programs(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert launcher.main(["h100x8", "--env", "--format", form, "--state", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    if form == "json":
        found = json.loads(printed)
    else:
        lines = [line.replace("export ", "").replace("=", ": ", 1) if form == "shell" else line for line in printed.splitlines()]
        found = {line.split(": ")[0]: line.split(": ", 1)[1].strip("'\"") for line in lines}
    assert found["KENTINO_SIM_STATE"] == str(tmp_path)
    assert found["KENTINO_GPU_ROOT"] == str(tmp_path / "root")
    assert found["PATH"].startswith(str(tmp_path / "bin") + ":")
    assert found["LD_LIBRARY_PATH"].startswith(str(tmp_path / "lib"))


def test_a_kept_state_goes_on_where_it_was(tmp_path: Path) -> None:
    wanted = scenario.load("h100x8+ecc_climbing")
    render.prepare(wanted, str(tmp_path))
    before = (tmp_path / "node").read_text()
    (tmp_path / "readings").write_bytes(b"....")
    render.prepare(wanted, str(tmp_path))
    assert (tmp_path / "node").read_text() == before
    assert (tmp_path / "readings").read_bytes() == b"...."


def test_a_fault_can_come_into_a_running_node(tmp_path: Path) -> None:
    render.prepare(scenario.load("h100x8"), str(tmp_path))
    healthy = _facts(tmp_path)
    log = (tmp_path / "kernel.log").read_text().splitlines()
    render.prepare(scenario.load("h100x8+gpu_lost"), str(tmp_path))
    lost = _facts(tmp_path)
    assert (lost["boot_id"], lost["start"]) == (healthy["boot_id"], healthy["start"])
    assert lost["gpu.3.handle_error"] == "15"
    grown = (tmp_path / "kernel.log").read_text().splitlines()
    assert grown[: len(log)] == log, "what was logged stays, or a reader's cursor would point elsewhere"
    assert int(grown[-1].split("\t")[1]) >= int(healthy["start"])


def test_another_node_starts_afresh(tmp_path: Path) -> None:
    render.prepare(scenario.load("h100x8"), str(tmp_path))
    first = _facts(tmp_path)
    render.prepare(scenario.load("l40sx4"), str(tmp_path))
    assert _facts(tmp_path)["boot_id"] != first["boot_id"]


@pytest.mark.parametrize(
    ("name", "gpus", "widths"),
    [
        ("h100x8", 8, ["16"] * 8),
        ("h100x8+gpu_lost", 8, ["16", "16", "16", "63", "16", "16", "16", "16"]),
        ("rtx5090x8+psu_lost", 4, ["16"] * 4),
        ("rtx5090x8+missing_gpu", 7, ["16"] * 7),
        ("l40sx4+link_x4", 4, ["16", "4", "16", "16"]),
    ],
)
def test_the_pci_bus_in_sysfs(name: str, gpus: int, widths: t.List[str], tmp_path: Path) -> None:
    render.prepare(scenario.load(name), str(tmp_path))
    devices = sorted((tmp_path / "root/sys/bus/pci/devices").iterdir())
    found = [
        device
        for device in devices
        if (device / "vendor").read_text() == "0x10de\n" and (device / "class").read_text().startswith(("0x0300", "0x0302"))
    ]
    assert len(found) == gpus
    assert [(device / "current_link_width").read_text().strip() for device in found] == widths
    assert {os.path.basename(os.path.realpath(device / "driver")) for device in found} == {"nvidia"}
    assert len(devices) > gpus, "a bus with nothing but GPUs would not show whether a reader tells them from the rest"


def test_no_driver_is_bound_where_none_is_loaded(tmp_path: Path) -> None:
    render.prepare(scenario.load("h100x8+driver_not_loaded"), str(tmp_path))
    assert not (tmp_path / "root/sys/bus/pci/devices/0000:18:00.0/driver").exists()
    assert not (tmp_path / "root/proc/driver").exists()


def test_a_missing_compiler_is_said_and_the_rest_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build, "folder", lambda: str(tmp_path / "build"))
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    monkeypatch.delenv("CC", raising=False)
    problem = render.prepare(scenario.load("l40sx4"), str(tmp_path / "state"))
    assert problem is not None
    assert "no C compiler" in problem
    assert (tmp_path / "state/bin/nvidia-smi").exists()
    assert not (tmp_path / "state/lib" / build.NAME).exists()


def test_a_tool_outside_a_simulated_node_refuses() -> None:
    environment = {key: value for key, value in os.environ.items() if key != "KENTINO_SIM_STATE"}
    argv = [sys.executable, str(SIMULATOR / "bin/nvidia-smi")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode == 70
    assert not done.stdout


def _facts(folder: Path) -> t.Dict[str, str]:
    return dict(line.split("=", 1) for line in (folder / "node").read_text().splitlines())
