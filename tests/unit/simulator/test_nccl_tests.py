# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-ins for nccl-tests and mpirun: what our own parser and judge read of their table and of their JSON file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import nccl as judge
from ansible_collections.kentino.gpu.plugins.module_utils._parse import nccl_tests as parser
from ansible_collections.kentino.gpu.plugins.module_utils._parse.nccl_tests_records import NcclTests, Run

SIMULATOR = Path(__file__).resolve().parents[2] / "simulator"
sys.path.insert(0, str(SIMULATOR))
from simnode import in_process, render, scenario, state  # noqa: E402

GIB = 1 << 30
SWEEP = ("-b", "8", "-e", "4G", "-f", "2")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "sendrecv", "alltoall")


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KENTINO_SIM_SPEED", "1e9")
    for name in ("NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_NVLS_ENABLE", "NCCL_DEBUG", "NCCL_TESTS_MIN_BW", "CUDA_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    for name in ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"):
        monkeypatch.setenv(name, "1")


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


def _run(name: str, *words: str) -> NcclTests:
    done = in_process.run(str(_node(name)), words[0], *words[1:])
    return parser.parse(done.stdout.decode() + done.stderr.decode(), done.returncode)


def _only(found: NcclTests) -> Run:
    (run,) = found.runs
    return run


def _busbw(run: Run, size: int) -> float:
    (row,) = [row for row in run.rows if row.size == size]
    return judge.busbw(row) or 0.0


@pytest.mark.parametrize(
    ("base", "gpus", "size", "floor"),
    [
        ("h100x8", 8, 16 * GIB, 476),
        ("h100x8", 8, 4 * GIB, 474),
        ("rtx5090x8", 8, GIB, 27.9),
        ("rtx5090x8", 4, GIB, 34.8),
        ("l40sx4", 4, GIB, 20),
    ],
)
def test_a_healthy_node(base: str, gpus: int, size: int, floor: float) -> None:
    found = _run(base, "all_reduce_perf", "-b", "8", "-e", str(size), "-f", "2", "-g", str(gpus))
    run = _only(found)
    policy = {"expected_ranks": gpus, "floor": {"value": floor, "message_bytes": size, "gpus": gpus}}
    assert judge.judge(found, policy) == ()
    assert found.exit_status == 0
    assert _busbw(run, size) < floor * 1.04
    assert (run.tests_version, run.nccl_version, run.program) == ("2.17.9", "2.28.9", "all_reduce_perf")
    assert (run.validation, run.validated, run.complete) == (1, True, True)
    assert [rank.device for rank in run.ranks] == list(range(gpus))
    assert {rank.host for rank in run.ranks} == {"simulated-node"}
    assert [rank.bus for rank in run.ranks] == [gpu["bus_id"][:-2] for gpu in scenario.load(base).gpus[:gpus]]
    assert found.unrecognised == ()


def test_bandwidth_rises_with_the_size() -> None:
    run = _only(_run("h100x8", "all_reduce_perf", "-b", "8", "-e", "16G", "-f", "2", "-g", "8"))
    rates = [judge.busbw(row) or 0 for row in run.rows]
    assert [row.size for row in run.rows] == [8 << place for place in range(32)]
    assert all(after >= before * 0.98 for before, after in zip(rates, rates[1:]))
    # As measured on 8 H200.
    assert 1.2 < _busbw(run, 32768) < 1.6
    assert 380 < _busbw(run, 128 << 20) < 420
    assert 440 < _busbw(run, 512 << 20) < 465
    assert (run.average_busbw or 0) < 200, "the average mixes in the small sizes"


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective(collective: str) -> None:
    found = _run("h100x8", collective + "_perf", *SWEEP, "-g", "8")
    run = _only(found)
    assert judge.judge(found, {"expected_ranks": 8}) == ()
    assert run.program == collective + "_perf"
    reduces = collective in ("all_reduce", "reduce_scatter", "reduce", "sendrecv")
    assert {row.redop for row in run.rows} == {"sum" if reduces else None}
    assert {row.root for row in run.rows} == {0 if collective in ("broadcast", "reduce") else None}
    shared = collective in ("all_gather", "reduce_scatter", "alltoall")
    assert run.rows[-1].count == GIB // (8 if shared else 1)
    factor = {"all_reduce": 1.75}.get(collective, 0.875 if shared else 1.0)
    last = run.rows[-1].out_of_place
    assert last is not None
    assert (last.busbw or 0) == pytest.approx((last.algbw or 0) * factor, rel=0.001)


def test_too_large_a_message_is_made_smaller() -> None:
    run = _only(_run("rtx5090x8", "all_reduce_perf", "-b", "1G", "-e", "16G", "-f", "2", "-g", "8"))
    assert run.reduced_bytes is not None
    assert 8 * GIB < run.reduced_bytes < 16 * GIB
    assert [row.size for row in run.rows] == [GIB, 2 * GIB, 4 * GIB, 8 * GIB]


def test_one_gpu_talks_to_itself() -> None:
    found = _run("h100x8", "all_reduce_perf", *SWEEP)
    assert "nccl.single_rank" in {finding.code for finding in judge.judge(found, {})}


def test_more_gpus_than_there_are() -> None:
    found = _run("h100x8+burn_gpu_missing", "all_reduce_perf", *SWEEP, "-g", "8")
    assert found.exit_status == 5
    assert {finding.verdict for finding in judge.judge(found, {})} <= {"unknown", "fail"}
    assert any("8 requested but only 7" in line for line in (*found.aborts, *found.unrecognised))


def test_no_driver() -> None:
    found = _run("l40sx4+driver_not_loaded", "all_reduce_perf", *SWEEP, "-g", "4")
    assert found.exit_status == 2
    assert "no CUDA-capable device" in (_only(found).failures[0].message or "")


def test_unchecked_results_are_no_results() -> None:
    found = _run("l40sx4", "all_reduce_perf", *SWEEP, "-g", "4", "-c", "0")
    assert (found.exit_status, _only(found).validated, _only(found).bounds_okay) == (0, False, True)
    assert [finding.code for finding in judge.judge(found, {})] == ["nccl.not_validated"]


Found = t.List[t.Tuple[str, str]]
FAULTS: t.List[t.Tuple[str, int, Found]] = [
    ("nccl_wrong", 7, [("nccl.failure", "fail"), ("nccl.wrong", "fail")]),
    ("nccl_no_footer", 0, [("nccl.incomplete", "unknown")]),
    ("nccl_failure", 3, [("nccl.failure", "fail"), ("nccl.incomplete", "unknown"), ("nccl.slow", "unknown")]),
    ("nccl_half_bandwidth", 0, [("nccl.slow", "fail")]),
    ("nccl_p2p_slow", 0, [("nccl.slow", "fail")]),
    ("nccl_slow_node", 0, []),
]


@pytest.mark.parametrize(("fault", "code", "expected"), FAULTS, ids=[fault for fault, _code, _expected in FAULTS])
@pytest.mark.parametrize(("base", "gpus", "floor"), [("h100x8", 8, 460), ("rtx5090x8", 8, 25)])
def test_faults(fault: str, code: int, expected: Found, base: str, gpus: int, floor: float) -> None:
    found = _run("%s+%s" % (base, fault), "all_reduce_perf", *SWEEP, "-g", str(gpus))
    policy = {"expected_ranks": gpus, "floor": {"value": floor, "message_bytes": 4 * GIB, "gpus": gpus}}
    assert found.exit_status == code
    assert [(finding.code, finding.verdict) for finding in judge.judge(found, policy)] == expected


def test_wrong_results_are_counted() -> None:
    run = _only(_run("l40sx4+nccl_wrong", "all_reduce_perf", *SWEEP, "-g", "4"))
    assert [bool(side.wrong) for row in run.rows[-4:] for side in row.sides()] == [False] * 2 + [True] * 6
    assert (run.out_of_bounds, run.bounds_okay) == (6, False)


@pytest.mark.parametrize(
    ("name", "off", "least", "most"),
    [
        ("h100x8", "1", 20, 23),
        ("h100x8", "0", 470, 490),
        ("rtx5090x8", "1", 27, 29),
        ("l40sx4", "1", 16, 18),
        ("rtx5090x8+nccl_p2p_slow", "0", 16, 18),
        ("rtx5090x8+nccl_p2p_slow", "1", 27, 29),
        ("rtx5090x8+nccl_p2p_hung", "1", 27, 29),
    ],
)
def test_peer_to_peer_on_and_off(name: str, off: str, least: float, most: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_P2P_DISABLE", off)
    gpus = "4" if name.startswith("l40s") else "8"
    run = _only(_run(name, "all_reduce_perf", "-b", "4G", "-e", "4G", "-g", gpus))
    assert least < _busbw(run, 4 * GIB) < most


def test_without_help_from_the_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_NVLS_ENABLE", "0")
    assert 355 < _busbw(_only(_run("h100x8", "all_reduce_perf", "-b", "4G", "-e", "4G", "-g", "8")), 4 * GIB) < 370


def test_a_hang_and_its_time_out() -> None:
    found = _run("rtx5090x8+nccl_p2p_hung", "all_reduce_perf", *SWEEP, "-g", "8", "-T", "30")
    assert found.exit_status == 4
    assert _only(found).failures[0].result == "timeout"


@pytest.mark.parametrize(("least", "code", "okay"), [("400", 0, True), ("600", 7, False)])
def test_the_tools_own_floor(least: str, code: int, okay: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_TESTS_MIN_BW", least)
    found = _run("h100x8", "all_reduce_perf", "-b", "4G", "-e", "4G", "-g", "8")
    assert (found.exit_status, _only(found).average_okay) == (code, okay)


@pytest.mark.parametrize(
    ("words", "rows", "types"),
    [
        (["-b", "1M", "-e", "4M", "-i", "1M"], 4, {"float"}),
        (["-b", "1M", "-e", "4M", "-f", "2", "-N", "3"], 9, {"float"}),
        (["--minbytes=1M", "--maxbytes", "4M", "--stepfactor", "2", "-d", "bfloat16", "-o", "max"], 3, {"bfloat16"}),
        (["-b", "1M", "-e", "1M", "-o", "all"], 6, {"float"}),
        ([], 1, {"float"}),
    ],
)
def test_options(words: t.List[str], rows: int, types: t.Set[str]) -> None:
    run = _only(_run("l40sx4", "all_reduce_perf", "-g", "4", *words))
    assert (len(run.rows), {row.type for row in run.rows}) == (rows, types)


def test_time_stamps_and_processor_time() -> None:
    run = _only(_run("l40sx4", "all_reduce_perf", "-g", "4", "-S", "1", "-C", "1"))
    assert run.rows[0].timestamp is not None
    assert run.complete


# The JSON file.


def _report(name: str, path: Path, *words: str) -> t.Tuple[NcclTests, NcclTests]:
    """What is read of the table, and of the file."""
    table = _run(name, "all_reduce_perf", *SWEEP, *words, "-J", str(path))
    return table, parser.parse(path.read_text() if path.exists() else "", table.exit_status)


def test_the_file_says_what_the_table_says(tmp_path: Path) -> None:
    table, file = _report("h100x8", tmp_path / "out.json", "-g", "8")
    shown, written = _only(table), _only(file)
    policy = {"expected_ranks": 8, "floor": {"value": 460, "message_bytes": 4 * GIB, "gpus": 8}}
    assert judge.judge(file, policy) == ()
    assert (written.format, written.program, written.nccl_version, written.rank_count) == ("json", "all_reduce_perf", "2.28.9", 8)
    assert [(row.size, row.count, row.type, row.redop, row.root) for row in written.rows] == [
        (row.size, row.count, row.type, row.redop, row.root) for row in shown.rows
    ]
    for row, other in zip(written.rows, shown.rows):
        for side, same in zip(row.sides(), other.sides()):
            assert side.busbw == pytest.approx(same.busbw, abs=0.006)
            assert side.wrong == same.wrong == 0
    assert written.average_busbw == pytest.approx(shown.average_busbw, abs=0.001)


def test_an_old_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")
    assert _report("l40sx4", path, "-g", "4")[1].runs == ()
    assert path.read_text() == "old"
    assert _only(parser.parse((tmp_path / "out.json.0").read_text())).complete


@pytest.mark.parametrize("name", ["out.txt", "missing/out.json"])
def test_a_file_that_cannot_be_written(name: str, tmp_path: Path) -> None:
    table, file = _report("l40sx4", tmp_path / name, "-g", "4")
    assert _only(table).complete
    assert file.runs == ()


def test_a_run_that_aborts_leaves_a_cut_file(tmp_path: Path) -> None:
    table, file = _report("h100x8+nccl_failure", tmp_path / "out.json", "-g", "8")
    assert table.exit_status == 134
    assert not any(run.complete for run in file.runs)
    assert {finding.verdict for finding in judge.judge(file, {})} <= {"unknown", "fail"}


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ("nccl_wrong", {"nccl.wrong", "nccl.exit_status"}),
        ("nccl_no_footer", {"nccl.incomplete"}),
    ],
)
def test_faults_in_the_file(fault: str, expected: t.Set[str], tmp_path: Path) -> None:
    file = _report("h100x8+" + fault, tmp_path / "out.json", "-g", "8")[1]
    assert {finding.code for finding in judge.judge(file, {})} & expected


def test_an_old_version_has_no_file_and_says_how_it_is_used(tmp_path: Path) -> None:
    table, file = _report("h100x8+nccl_tests_2_13", tmp_path / "out.json", "-g", "8")
    assert (table.exit_status, table.runs, file.runs) == (0, (), ())
    assert any(line.startswith("USAGE: all_reduce_perf") for line in table.unrecognised)


def test_the_table_of_an_old_version() -> None:
    found = _run("h100x8+nccl_tests_2_13", "all_reduce_perf", *SWEEP, "-g", "8")
    run = _only(found)
    assert judge.judge(found, {"expected_ranks": 8}) == ()
    assert (run.tests_version, run.format, run.ranks[0].bus) == (None, "2.13+", "0x18")


# mpirun


def _mpirun(name: str, *words: str) -> NcclTests:
    return _run(name, "mpirun", *words)


@pytest.mark.parametrize(
    ("words", "hosts"),
    [
        (["-np", "8"], ["simulated-node"] * 8),
        (["-np", "4", "--bind-to", "none", "-mca", "btl", "^openib"], ["simulated-node"] * 4),
        (["-H", "a:2,b:2"], ["a"] * 2 + ["b"] * 2),
        (["--host", "a,a,b"], ["a", "a", "b"]),
        (["-np", "3", "-H", "a:2,b:2"], ["a", "a", "b"]),
        (["-H", "a,b", "-N", "4"], ["a"] * 4 + ["b"] * 4),
        (["--hostfile", "{hosts}", "--map-by", "ppr:2:node"], ["n1", "n1", "n2", "n2"]),
        (["--hostfile", "{hosts}"], ["n1"] * 8 + ["n2"] * 4),
        (["-np", "3", "-H", "a:1,b:1", "--oversubscribe"], ["a", "b", "b"]),
    ],
)
def test_ranks_by_host(words: t.List[str], hosts: t.List[str], tmp_path: Path) -> None:
    listed = tmp_path / "hosts"
    listed.write_text("# ours\nn1 slots=8\n\nn2 slots=4 max_slots=8\n")
    words = [word.replace("{hosts}", str(listed)) for word in words]
    found = _mpirun("h100x8", *words, "all_reduce_perf", "-b", "1G", "-e", "1G", "-g", "1")
    run = _only(found)
    assert judge.judge(found, {"expected_ranks": len(hosts)}) == ()
    assert [rank.host for rank in run.ranks] == hosts
    assert [rank.device for rank in run.ranks] == [hosts[:place].count(host) for place, host in enumerate(hosts)]


def test_several_nodes_share_the_network() -> None:
    run = _only(_mpirun("h100x8", "-H", "a:8,b:8", "all_reduce_perf", "-b", "4G", "-e", "4G"))
    assert 355 < _busbw(run, 4 * GIB) < 372


@pytest.mark.parametrize(
    ("hosts", "slow"),
    [(["01", "02", "03", "04"], True), (["01", "02"], False), (["03", "04"], True), (["03"], True), (["04"], False)],
)
@pytest.mark.parametrize("named", ["gpu-node-03", "other-03"])
def test_a_slow_node(hosts: t.List[str], slow: bool, named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if named != "gpu-node-03":
        monkeypatch.setenv("KENTINO_SIM_SLOW_HOST", named)
    words = ",".join("%s%s:8" % (named[:-2], host) for host in hosts)
    run = _only(_mpirun("h100x8+nccl_slow_node", "-H", words, "all_reduce_perf", "-b", "4G", "-e", "4G"))
    expected = (369 if len(hosts) > 1 else 483) * (0.34 if slow else 1)
    assert _busbw(run, 4 * GIB) == pytest.approx(expected, rel=0.03)


def test_a_rank_fails_on_another_node() -> None:
    found = _mpirun("h100x8+nccl_failure", "-H", "a:2,b:2", "all_reduce_perf", *SWEEP)
    (failure, *_frames) = _only(found).failures
    assert (failure.host, failure.pid) == ("b", os.getpid() + 3)
    assert found.aborts
    assert found.exit_status == 3


def test_another_node_gets_only_the_environment_that_is_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_P2P_DISABLE", "1")
    perf = ("all_reduce_perf", "-b", "4G", "-e", "4G")
    here = _only(_mpirun("h100x8", "-np", "8", *perf))
    there = _only(_mpirun("h100x8", "-H", "a:8", *perf))
    exported = _only(_mpirun("h100x8", "-H", "a:8", "-x", "NCCL_P2P_DISABLE", *perf))
    given = _only(_mpirun("h100x8", "-H", "a:8", "-x", "NCCL_P2P_DISABLE=1", *perf))
    assert [_busbw(run, 4 * GIB) > 400 for run in (here, there, exported, given)] == [False, True, False, False]
    assert os.environ["NCCL_P2P_DISABLE"] == "1"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-np", "9", "-H", "a:8", "all_reduce_perf"], "not enough slots available"),
        (["--hostfile", "/nowhere", "all_reduce_perf"], "unable to open the hostfile"),
        (["--nonsense", "x", "all_reduce_perf"], "unknown option"),
        (["-np", "2"], "could not find anything to do"),
        (["-np", "2", "no-such-program"], "unable to find the specified executable"),
    ],
)
def test_mpirun_refuses(words: t.List[str], said: str) -> None:
    done = in_process.run(str(_node("l40sx4")), "mpirun", *words)
    assert done.returncode == 1
    assert said in done.stderr.decode()


def test_mpirun_does_not_run_as_root_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    node = str(_node("l40sx4"))
    assert b"attempt to run as root" in in_process.run(node, "mpirun", "-np", "2", "all_reduce_perf").stderr
    assert in_process.run(node, "mpirun", "--allow-run-as-root", "-np", "2", "all_reduce_perf").returncode == 0
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert in_process.run(node, "mpirun", "-np", "2", "all_reduce_perf").returncode == 0


def test_other_programs_run_once_for_each_rank(tmp_path: Path) -> None:
    script = 'echo "$OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE" >>%s/ranks; exit $OMPI_COMM_WORLD_LOCAL_RANK' % tmp_path
    done = in_process.run(str(_node("l40sx4")), "mpirun", "-H", "a:2,b:1", "sh", "-c", script)
    assert done.returncode == 1
    assert sorted((tmp_path / "ranks").read_text().splitlines()) == ["0 of 3", "1 of 3", "2 of 3"]


def test_the_program_under_its_own_name(tmp_path: Path) -> None:
    """As it is installed where the path of this Python is too long for a script's first line."""
    (tmp_path / "all_gather_perf").symlink_to(SIMULATOR / "bin/nccl_tests")
    environment = dict(os.environ, **render.environment(str(_node("l40sx4"))))
    out = subprocess.run(
        [str(tmp_path / "all_gather_perf"), "-g", "4"], env=environment, capture_output=True, timeout=60, check=True
    ).stdout
    assert _only(parser.parse(out.decode())).program == "all_gather_perf"


# Time and load


def _start(name: str, folder: Path, speed: float, *words: str) -> subprocess.Popen[bytes]:
    render.prepare(scenario.load(name), str(folder), root=False)
    environment = dict(os.environ, **render.environment(str(folder)), KENTINO_SIM_SPEED=str(speed))
    return subprocess.Popen([str(folder / "bin" / words[0]), *words[1:]], env=environment, stdout=subprocess.PIPE, start_new_session=True)


def test_it_takes_its_time_and_loads_the_gpus(tmp_path: Path) -> None:
    begin = time.monotonic()
    child = _start("rtx5090x8", tmp_path, 20, "all_reduce_perf", "-b", "1G", "-e", "4G", "-f", "2", "-g", "8")
    assert child.stdout is not None
    first = child.stdout.readline()
    while not (tmp_path / "load").exists():
        time.sleep(0.01)
    busy = state.Node(str(tmp_path))
    out = child.communicate(timeout=60)[0]
    # 1, 2 and 4 GiB at 28 GB/s, twice 22 times each.
    assert 20 / 20 < time.monotonic() - begin < 60
    assert first.startswith(b"# nccl-tests version 2.17.9")
    assert b"# Avg bus bandwidth" in out
    assert busy.get("gpu.7.process.0.name") == "all_reduce_perf"
    assert 200000 < busy.number("gpu.7.power.draw") < 400000
    assert state.Node(str(tmp_path)).number("gpu.7.util.gpu") == 0


@pytest.mark.parametrize("launcher", [(), ("mpirun", "-np", "8")])
def test_a_hang_prints_the_head_and_no_row(launcher: t.Tuple[str, ...], tmp_path: Path) -> None:
    gpus = "1" if launcher else "8"
    child = _start("rtx5090x8+nccl_p2p_hung", tmp_path, 1e6, *launcher, "all_reduce_perf", *SWEEP, "-g", gpus)
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(0.8)
    os.killpg(child.pid, signal.SIGTERM)
    out = child.communicate(timeout=60)[0]
    assert child.returncode == -signal.SIGTERM
    found = parser.parse(out.decode())
    assert (len(_only(found).ranks), _only(found).rows) == (8, ())
