# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in for dcgmi: what our own parser and judge read of its diagnostic, its time, and the other commands."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import dcgm as judge
from ansible_collections.kentino.gpu.plugins.module_utils._parse import dcgm_diag as parser

SIMULATOR = Path(__file__).resolve().parents[2] / "simulator"
sys.path.insert(0, str(SIMULATOR))
from simnode import dcgm_document, dcgm_plan, in_process, render, scenario, state  # noqa: E402


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KENTINO_SIM_SPEED", "1e9")


_NODES: t.Dict[str, Path] = {}


@pytest.fixture(autouse=True, scope="module")
def _made_once(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[None]:
    """Nodes are made once for all tests here: nothing that they do to one matters to the next."""
    _NODES.clear()
    _NODES[""] = tmp_path_factory.mktemp("nodes")
    yield
    _NODES.clear()


def _node(name: str) -> Path:
    if name not in _NODES:
        _NODES[name] = _NODES[""] / str(len(_NODES))
        render.prepare(scenario.load(name), str(_NODES[name]), root=False)
    return _NODES[name]


def _dcgmi(folder: Path, *words: str) -> t.Tuple[int, str]:
    done = in_process.run(str(folder), "dcgmi", *words)
    assert not done.stderr
    return done.returncode, done.stdout.decode()


def _diag(name: str, *words: str) -> parser.DcgmDiag:
    code, out = _dcgmi(_node(name), "diag", "-j", *words)
    return parser.parse(out, code)


NEW = ["software", "memory", "pcie", "diagnostic", "nvbandwidth", "memory_bandwidth", "targeted_stress", "targeted_power", "memtest"]
OLD = ["GPU Memory", "PCIe", "Diagnostic", "Memory Bandwidth", "Targeted Stress", "Targeted Power", "Memtest", "Pulse Test"]


@pytest.mark.parametrize(
    ("name", "level", "gpus", "tests"),
    [
        ("h100x8", "1", 8, NEW[:1]),
        ("h100x8", "2", 8, NEW[:3]),
        ("h100x8", "3", 8, NEW[:8]),
        ("h100x8", "4", 8, [*NEW, "pulse_test"]),
        ("rtx5090x8", "3", 8, NEW[:8]),
        ("l40sx4", "2", 4, OLD[:2]),
        ("l40sx4", "3", 4, OLD[:6]),
        ("l40sx4", "4", 4, OLD),
        ("h100x8+dcgm_3", "3", 8, OLD[:6]),
    ],
)
def test_a_healthy_node(name: str, level: str, gpus: int, tests: t.List[str]) -> None:
    found = _diag(name, "-r", level)
    (run,) = found.runs
    assert judge.judge(found, {"expected_gpus": gpus}) == ()
    assert (found.complete, found.exit_status) == (True, 0)
    assert {test.name for test in run.tests if test.name == "software" or test.category != "Deployment"} == set(tests)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("h100x8", "4.4.2"),
        ("rtx5090x8", "4.4.2"),
        ("l40sx4", "3.3.9"),
    ],
)
def test_versions_and_serial_numbers(name: str, version: str) -> None:
    """In 3.3 they stand beside "DCGM GPU Diagnostic", not in it (HelperJsonBuildOutput in dcgmi/Diag.cpp)."""
    (run,) = _diag(name, "-r", "1").runs
    gpus = scenario.load(name).gpus
    assert (run.dcgm_version, run.driver_version) == (version, scenario.load(name).node["driver"])
    assert [run.entities["GPU", place] for place in range(len(gpus))] == [gpu["serial"] if gpu["serial"] != "0" else None for gpu in gpus]


def test_a_consumer_card_is_spared_some_tests() -> None:
    (run,) = _diag("rtx5090x8", "-r", "3").runs
    assert {test.name for test in run.tests if test.status == "skip"} == {"memory", "memory_bandwidth"}


Found = t.Set[t.Tuple[str, str, t.Optional[int]]]
FAULTS: t.List[t.Tuple[str, str, int, Found]] = [
    ("h100x8+dcgm_memory", "3", 205, {("dcgm.52", "fail", 2)}),
    ("l40sx4+dcgm_memory", "3", 205, {("dcgm.52", "fail", 2)}),
    ("h100x8+dcgm_pcie", "2", 226, {("dcgm.46", "fail", 1)}),
    ("h100x8+link_x4", "2", 226, {("dcgm.46", "fail", 1)}),
    ("h100x8+dcgm_skips_all", "3", 0, {("dcgm.nothing_ran", "unknown", None), ("dcgm.skipped", "unknown", None)}),
    ("h100x8+dcgm_not_run", "2", 0, {("dcgm.not_run", "unknown", None)}),
    ("h100x8+dcgm_error_in_pass", "3", 226, {("dcgm.56", "warn", 3)}),
    ("l40sx4+dcgm_error_in_pass", "3", 0, {("dcgm.56", "warn", 3)}),
    ("h100x8+dcgm_persistence", "1", 226, {("dcgm.29", "warn", 1)}),
    ("l40sx4+dcgm_persistence", "1", 226, {("dcgm.29", "warn", 1)}),
    # An uncorrectable error asks for isolation.
    ("h100x8+remap_pending", "1", 205, {("dcgm.85", "fail", 2), ("dcgm.4", "fail", 2)}),
]


@pytest.mark.parametrize(("name", "level", "code", "expected"), FAULTS)
def test_faults(name: str, level: str, code: int, expected: Found) -> None:
    found = _diag(name, "-r", level)
    assert found.exit_status == code
    assert {(one.code, one.verdict, one.subject.index) for one in judge.judge(found, {})} == expected


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("h100x8+dcgm_runtime_error", 217, "already running"),
        ("l40sx4+dcgm_runtime_error", 217, "already running"),
        ("h100x8+dcgm_profiling_lock", 219, "(-37) : The third-party Profiling module"),
        ("l40sx4+dcgm_profiling_lock", 219, "(-37) The third-party Profiling module"),
        ("h100x8+mig_enabled", 226, "MIG enabled and the diagnostic is attempting to run on 8 GPUs"),
        ("h100x8+driver_not_loaded", 221, "No supported GPUs"),
    ],
)
def test_a_diagnostic_that_cannot_run(name: str, code: int, said: str) -> None:
    found = _diag(name, "-r", "3")
    (run,) = found.runs
    assert (found.exit_status, found.complete) == (code, True)
    assert said in (run.runtime_error or "")
    assert {finding.verdict for finding in judge.judge(found, {})} == {"unknown"}


def test_one_gpu_in_mig_mode() -> None:
    (run,) = _diag("h100x8+mig_enabled", "-r", "2", "-i", "3").runs
    assert "no compute instances are configured" in (run.runtime_error or "")


def test_the_profiling_lock_is_paused_and_resumed() -> None:
    assert _diag("h100x8+dcgm_profiling_lock", "-r", "1").exit_status == 219
    node = _node("h100x8+dcgm_profiling_lock")
    assert _dcgmi(node, "profile", "--pause") == (0, "Successfully paused profiling.\n")
    assert _diag("h100x8+dcgm_profiling_lock", "-r", "1").exit_status == 0
    assert _dcgmi(node, "profile", "--resume") == (0, "Successfully resumed profiling.\n")
    assert _diag("h100x8+dcgm_profiling_lock", "-r", "1").exit_status == 219
    assert (node / "profiling").read_text() == "pause\nresume\n"


def test_a_consumer_card_has_no_profiling_to_pause() -> None:
    code, out = _dcgmi(_node("rtx5090x8"), "profile", "--pause")
    assert code == 220
    assert "Profiling is not supported" in out
    assert not (_node("rtx5090x8") / "profiling").exists()


@pytest.mark.parametrize(
    ("name", "words", "tests", "gpus"),
    [
        ("h100x8", ["-r", "pcie,targeted_power"], {"software", "pcie", "targeted_power"}, 8),
        ("h100x8", ["--run", "memory bandwidth", "-i", "0,5"], {"software", "memory_bandwidth"}, 2),
        ("h100x8", ["--run=2", "--entity-id", "gpu:1"], {"software", "memory", "pcie"}, 1),
        ("h100x8+dcgm_3", ["-r", "pulse test", "-i", "0"], {"Pulse Test"}, 1),
    ],
)
def test_chosen_tests_and_gpus(name: str, words: t.List[str], tests: t.Set[str], gpus: int) -> None:
    (run,) = _diag(name, *words).runs
    assert {test.name for test in run.tests if test.category != "Deployment" or test.name == "software"} == tests
    assert len({result.id for test in run.tests for result in test.results if result.id is not None}) == gpus


def test_an_unknown_test() -> None:
    found = _diag("h100x8", "-r", "burn_in")
    assert found.exit_status == 198
    assert "not found among possible test choices" in (found.runs[0].runtime_error or "")


@pytest.mark.parametrize("words", [["-r"], ["--nonsense"], ["-r", "1", "-p", "pcie.test_duration"], ["--iterations", "0"]])
def test_wrong_options(words: t.List[str]) -> None:
    code, out = _dcgmi(_node("h100x8"), "diag", *words)
    assert code == 255
    assert out.startswith("PARSE ERROR: ")


@pytest.mark.parametrize(("name", "runs", "overall"), [("h100x8", 3, "Pass"), ("h100x8+dcgm_pcie", 1, "Fail")])
def test_iterations(name: str, runs: int, overall: str) -> None:
    found = _diag(name, "-r", "2", "--iterations", "3")
    assert [run.iteration for run in found.runs] == list(range(1, runs + 1))
    assert (found.overall, found.complete) == (overall, True)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("h100x8+dcgm_memory", "|                           | GPU2: Fail                                     |"),
        ("h100x8+dcgm_3+dcgm_memory", "|                           | Fail - GPU: 2                                  |"),
        ("h100x8+dcgm_3", "| Targeted Power            | Pass - All                                     |"),
        ("h100x8", "| targeted_power            | Pass                                           |"),
    ],
)
def test_the_table(name: str, row: str) -> None:
    code, out = _dcgmi(_node(name), "diag", "-r", "3")
    lines = out.splitlines()
    assert row in lines
    assert lines[0] == "Successfully ran diagnostic for group."
    assert {len(line) for line in lines[1:]} == {78}
    assert any(test.status == "fail" for run in parser.parse(out, code).runs for test in run.tests) == ("memory" in name)


@pytest.mark.parametrize("version", ["3.3.9", "4.4.2"])
@pytest.mark.parametrize(("level", "least", "most"), [("1", 1, 10), ("2", 60, 180), ("3", 480, 900), ("4", 2700, 8100)])
def test_how_long_a_level_takes(level: str, least: int, most: int, version: str) -> None:
    node = state.Node(str(_node("h100x8+dcgm_3" if version == "3.3.9" else "h100x8")))
    plan = dcgm_plan.Diagnostic(node, node.gpus(), level, "")
    assert least <= sum(test.seconds for test in plan.tests) <= most
    shorter = dcgm_plan.Diagnostic(node, node.gpus(), level, "targeted_power.test_duration=28;pcie.x=1")
    saved = sum(test.seconds for test in plan.tests) - sum(test.seconds for test in shorter.tests)
    assert saved == (100 if level in "34" else 0)


def _start(name: str, folder: Path, speed: float, *words: str) -> subprocess.Popen[bytes]:
    render.prepare(scenario.load(name), str(folder), root=False)
    environment = dict(os.environ, **render.environment(str(folder)), KENTINO_SIM_SPEED=str(speed))
    return subprocess.Popen([str(folder / "bin/dcgmi"), *words], env=environment, stdout=subprocess.PIPE, start_new_session=True)


def _wait_for_load(folder: Path) -> None:
    until = time.monotonic() + 60
    while not (folder / "load").exists():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_it_takes_its_time_and_loads_the_gpus(tmp_path: Path) -> None:
    begin = time.monotonic()
    child = _start("l40sx4", tmp_path, 200, "diag", "-r", "2", "-j")
    _wait_for_load(tmp_path)
    busy = state.Node(str(tmp_path))
    out = child.communicate(timeout=60)[0]
    assert time.monotonic() - begin > 94 / 200
    assert child.returncode == 0
    assert json.loads(out)
    assert busy.get("gpu.0.process.0.name") == "nvvs"
    assert busy.number("gpu.0.util.gpu") == 100
    assert state.Node(str(tmp_path)).number("gpu.0.util.gpu") == 0


def test_a_signal_ends_the_diagnostic(tmp_path: Path) -> None:
    child = _start("h100x8", tmp_path, 10, "diag", "-r", "3", "-j")
    _wait_for_load(tmp_path)
    child.terminate()
    out = child.communicate(timeout=60)[0]
    found = parser.parse(out.decode(), child.returncode)
    assert child.returncode == 203
    assert "killed by a signal" in (found.runs[0].runtime_error or "")


def test_a_hang_heeds_nothing_but_sigkill(tmp_path: Path) -> None:
    child = _start("h100x8+dcgm_hung", tmp_path, 1e6, "diag", "-r", "3", "-j")
    _wait_for_load(tmp_path)
    time.sleep(0.2)
    child.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.3)
    child.kill()
    assert child.communicate(timeout=60)[0] == b""
    assert in_process.run(str(tmp_path), "dcgmi", "-v").returncode == 0, "only the diagnostic hangs"


@pytest.mark.parametrize(("name", "gpus", "switches"), [("h100x8", 8, 4), ("l40sx4", 4, 0), ("h100x8+gpu_lost", 7, 4)])
def test_discovery(name: str, gpus: int, switches: int) -> None:
    out = _dcgmi(_node(name), "discovery", "-l")[1].splitlines()
    assert out[0] == "%d GPUs found." % gpus
    assert "%d NvSwitches found." % switches in out
    assert sum("Device UUID: GPU-" in line for line in out) == gpus


@pytest.mark.parametrize(("name", "version"), [("h100x8", "4.4.2"), ("l40sx4", "3.3.9")])
def test_the_version(name: str, version: str) -> None:
    assert "Version : %s\n" % version in _dcgmi(_node(name), "-v")[1]


def test_health() -> None:
    assert "Healthy" in _dcgmi(_node("h100x8"), "health", "-g", "0", "-c")[1]
    assert json.loads(_dcgmi(_node("h100x8+remap_failed"), "health", "-c", "-j")[1])["body"]["Overall Health"]["value"] == "Failure"


def test_an_unknown_command() -> None:
    assert _dcgmi(_node("h100x8"), "diagnose") == (255, "ERROR: Invalid subsystem.\n\n")


def test_json_is_written_as_jsoncpp_does() -> None:
    value = {"b": [{"y": 1}], "a": 'x\ty"', "c": [], "d": ["2330"] * 8, "e": ["w" * 80]}
    text = dcgm_document.styled(value)
    assert json.loads(text) == value
    assert text.startswith('{\n\t"a" : "x\\ty\\"",\n\t"b" : \n\t[\n\t\t{\n\t\t\t"y" : 1\n\t\t}\n\t],\n\t"c" : [],\n\t"d" : [ "2330", ')
    assert text.endswith('"e" : \n\t[\n\t\t"%s"\n\t]\n}' % ("w" * 80))
