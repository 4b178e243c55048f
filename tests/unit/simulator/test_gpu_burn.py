# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in for gpu_burn: what our own parser and judge read of it, its time, and the load that NVML sees meanwhile."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import burn as judge
from ansible_collections.kentino.gpu.plugins.module_utils._parse import gpu_burn as parser

SIMULATOR = Path(__file__).resolve().parents[2] / "simulator"
sys.path.insert(0, str(SIMULATOR))
from simnode import in_process, render, scenario, state  # noqa: E402

POLICY = {"run_seconds": 300, "slow_tolerance_pct": 10}


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KENTINO_SIM_SPEED", "1e9")


class Ran(t.NamedTuple):
    code: int
    out: str
    err: str

    def record(self) -> parser.GpuBurn:
        return parser.parse(self.out + self.err, self.code)


def _prepare(name: str, folder: Path) -> t.Dict[str, str]:
    problem = render.prepare(scenario.load(name), str(folder), root=False)
    if problem:
        pytest.skip(problem)
    return dict(os.environ, **render.environment(str(folder)))


def _burn(name: str, folder: Path, *words: str) -> Ran:
    _prepare(name, folder)
    before = os.getcwd()
    os.chdir(folder / "bin")
    try:
        done = in_process.run(str(folder), "gpu_burn", *words)
    finally:
        os.chdir(before)
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize(("base", "gpus", "gflops"), [("h100x8", 8, 50800), ("rtx5090x8", 8, 73900), ("l40sx4", 4, 42700)])
def test_a_healthy_node(base: str, gpus: int, gflops: int, tmp_path: Path) -> None:
    ran = _burn(base, tmp_path, "300")
    record = ran.record()
    assert judge.judge(record, dict(POLICY, expected_gpus=gpus)) == ()
    assert (ran.code, record.complete, record.requested_seconds, record.precision) == (0, True, 300, "FLOATS")
    assert [gpu.uuid for gpu in record.listed] == [gpu["uuid"] for gpu in scenario.load(base).gpus]
    assert all("[simulated]" in gpu.name for gpu in record.listed)
    assert record.progress[-1].percent == 100
    assert record.unrecognised == ()
    rates = judge.rates_gflops(record)
    assert sorted(rates) == list(range(gpus))
    assert all(abs(rate - gflops) < gflops * 0.02 for rate in rates.values())
    assert len(set(rates.values())) == gpus, "cards differ a little"
    first, last = (record.progress[place].temps_c for place in (0, -1))
    assert all(before + 15 < after < 80 for before, after in zip(first, last) if before is not None and after is not None)


def test_every_client_says_how_cuda_started(tmp_path: Path) -> None:
    """Since November 2025, also where it started well."""
    ran = _burn("l40sx4", tmp_path, "600")
    assert ran.err == "cuInit returned 0 (no error)\n" * 4
    assert ran.record().init_errors == ()


@pytest.mark.parametrize(
    ("words", "seconds", "precision", "gpus"),
    [
        pytest.param(["-d", "-m", "4096", "60"], 60, "DOUBLES", 4, id="doubles"),
        pytest.param(["-tc", "60"], 60, "FLOATS, using Tensor Cores", 4, id="tensor cores"),
        pytest.param(["-i", "2", "60"], 60, "FLOATS", 1, id="one GPU"),
        pytest.param(["-i3", "-m", "50%", "60"], 60, "FLOATS", 1, id="half of the memory of one GPU"),
        pytest.param(["-m", "4096", "-stts", "2", "60"], 60, "FLOATS", 4, id="some memory, less patience"),
        pytest.param(["-m", "4096"], 10, "FLOATS", 4, id="no time: ten seconds"),
    ],
)
def test_options(words: t.List[str], seconds: int, precision: str, gpus: int, tmp_path: Path) -> None:
    record = _burn("l40sx4", tmp_path, *words).record()
    assert (record.requested_seconds, record.precision, record.announced) == (seconds, precision, gpus)
    assert record.complete
    assert record.progress


@pytest.mark.parametrize("words", [["-m"], ["60", "-i"], ["-m", "much", "60"]])
def test_options_that_lack_their_value(words: t.List[str], tmp_path: Path) -> None:
    ran = _burn("l40sx4", tmp_path, *words)
    assert ran.code == 22
    assert "Syntax error near -" in ran.err


def test_the_time_comes_last(tmp_path: Path) -> None:
    """The word behind as many as there are options: 4 is the end of -stts here, and the time."""
    assert _burn("l40sx4", tmp_path, "600", "-stts", "4").record().requested_seconds == 4


def test_a_client_that_has_to_be_killed_loses_what_it_held_back(tmp_path: Path) -> None:
    """A batch of doubles takes this card longer than the 30 seconds that it is given to end."""
    record = _burn("l40sx4", tmp_path, "-d", "600").record()
    assert record.forced_kill
    assert record.complete
    assert record.precision is None


def test_a_short_run_measures_nothing_and_calls_it_ok(tmp_path: Path) -> None:
    record = _burn("h100x8", tmp_path, "10").record()
    assert record.progress == ()
    assert set(record.results) == {(gpu, "OK") for gpu in range(8)}


def test_the_list(tmp_path: Path) -> None:
    assert _burn("l40sx4", tmp_path, "-l").out.startswith("ID 0: NVIDIA L40S [simulated], 47")


Found = t.Set[t.Tuple[str, t.Optional[int]]]
FAULTS: t.List[t.Tuple[str, int, Found]] = [
    ("burn_errors", 0, {("burn.errors", 2)}),
    ("burn_faulty", 0, {("burn.errors", 1)}),
    ("burn_died", 0, {("burn.died", 3)}),
    ("burn_gpu_missing", 0, {("burn.gpu_count", None)}),
    ("burn_no_work", 0, {("burn.no_progress", 1)}),
    ("burn_slow_gpu", 0, {("burn.slow", 2)}),
    ("burn_throttled", 0, {("burn.slow", 1)}),
    ("burn_xid48", 0, {("burn.died", 2)}),
    ("burn_xid79", 0, {("burn.died", 1)}),
    ("burn_cut_output", 0, {("burn.incomplete", None)}),
    ("burn_init_failure", 0, {("burn.init", None), ("burn.no_progress", None)}),
    # These show elsewhere: in NVML and in the log.
    ("burn_link_down", 0, set()),
    ("burn_too_hot", 0, set()),
    ("burn_ecc", 0, set()),
    ("burn_xid94", 0, set()),
    ("burn_low_power", 0, set()),
]


@pytest.mark.parametrize(("fault", "code", "expected"), FAULTS, ids=[fault for fault, _code, _expected in FAULTS])
def test_faults(fault: str, code: int, expected: Found, tmp_path: Path) -> None:
    ran = _burn("h100x8+" + fault, tmp_path, "300")
    findings = judge.judge(ran.record(), dict(POLICY, expected_gpus=8))
    assert ran.code == code
    assert {(finding.code, finding.subject.index) for finding in findings} == expected


def test_errors_that_a_summary_wiped_out_are_on_middle_records_only(tmp_path: Path) -> None:
    record = _burn("h100x8+burn_errors", tmp_path, "600").record()
    seen = [progress.percent or 0 for progress in record.progress if progress.errors[2]]
    assert 41 <= min(seen) < max(seen) < 53
    assert dict(record.results)[2] == "OK"


def test_a_faulty_gpu_is_called_so(tmp_path: Path) -> None:
    assert judge.faulty(_burn("l40sx4+burn_faulty", tmp_path, "600").record()) == (1,)


def test_all_clients_dead(tmp_path: Path) -> None:
    wanted = scenario.load("l40sx4")
    for gpu in wanted.gpus:
        gpu["burn"] = {"dies_at": 20, "dies_of": "unspecified launch failure"}
    render.prepare(wanted, str(tmp_path), root=False)
    done = in_process.run(str(tmp_path), "gpu_burn", "-c", str(tmp_path / "bin/compare.ptx"), "600")
    record = parser.parse(done.stdout.decode() + done.stderr.decode(), done.returncode)
    assert done.returncode == 123
    assert record.aborted
    assert judge.died(record) == (0, 1, 2, 3)
    assert not record.complete


@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("h100x8+driver_not_loaded", 19, "no CUDA-capable device is detected"),
        ("h100x8+version_mismatch", 19, "unsupported display driver"),
        ("h100x8+fabric_not_ready", 19, "system not yet initialized"),
    ],
)
def test_cuda_does_not_start(name: str, code: int, said: str, tmp_path: Path) -> None:
    ran = _burn(name, tmp_path, "600")
    assert ran.code == code
    (finding, *_rest) = judge.judge(ran.record(), {})
    assert finding.code == "burn.init"
    assert said in ran.err


def test_it_needs_its_kernel_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _prepare("l40sx4", tmp_path)
    monkeypatch.chdir(tmp_path)
    done = in_process.run(str(tmp_path), "gpu_burn", "600")
    assert done.returncode == 123
    assert b"couldn't find compare kernel: compare.ptx" in done.stderr
    assert in_process.run(str(tmp_path), "gpu_burn", "-c", "bin/compare.ptx", "600").returncode == 0


def test_the_same_run_prints_the_same(tmp_path: Path) -> None:
    texts = []
    for name in ("a", "b"):
        lines = _burn("rtx5090x8", tmp_path / name, "120").out.splitlines()
        texts.append([line for line in lines if "Summary at" not in line])
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("fault", "said", "facts"),
    [
        ("burn_ecc", "", {"gpu.2.ecc.volatile.dram_uncorrectable": "4", "gpu.2.ecc.aggregate.dram_uncorrectable": "4"}),
        ("burn_xid48", "Xid (PCI:0000:3a:00): 48, pid={pid}, name=gpu_burn", {"gpu.2.remap.pending": "1"}),
        ("burn_xid79", "Xid (PCI:0000:2a:00): 79, pid={pid}, name=gpu_burn", {"gpu.1.handle_error": "15"}),
        ("burn_xid94", "Xid (PCI:0000:5d:00): 94, ", {}),
    ],
)
def test_what_happened_during_the_burn_stays(fault: str, said: str, facts: t.Dict[str, str], tmp_path: Path) -> None:
    folder, said = str(tmp_path), said.replace("{pid}", str(os.getpid()))
    _prepare("h100x8+" + fault, tmp_path)
    before = in_process.run(folder, "journalctl", "-k", "-o", "cat").stdout.decode()
    node = state.Node(folder)
    assert all(node.get(key) in ("0", "") for key in facts)
    _burn("h100x8+" + fault, tmp_path, "600")
    after = in_process.run(folder, "journalctl", "-k", "-o", "cat").stdout.decode()
    ring = (tmp_path / "root/dev/kmsg").read_text().splitlines()
    assert after.startswith(before)
    assert not said or said not in before
    assert said in after
    assert said in "".join(ring[-6:])
    assert [int(line.split(",")[1]) for line in ring] == list(range(len(ring)))
    node = state.Node(folder)
    assert {key: node.get(key) for key in facts} == facts
    # The node is repaired: what it counted is gone, what it logged is not.
    render.prepare(scenario.load("h100x8"), folder)
    assert "happened" not in os.listdir(folder)
    assert in_process.run(folder, "journalctl", "-k", "-o", "cat").stdout.decode() == after


def test_a_node_with_a_journal_of_its_own_is_told(tmp_path: Path) -> None:
    _prepare("h100x8+burn_xid94", tmp_path)
    program = tmp_path / "kernel-line"
    program.write_text('#!/bin/sh\nprintf "%%s|" "$@" >>%s/told\n' % tmp_path)
    program.chmod(0o755)
    before = (tmp_path / "kernel.log").read_text()
    _burn("h100x8+burn_xid94", tmp_path, "600")
    told = (tmp_path / "told").read_text().split("|")
    assert told[:2] == ["--priority", "4"]
    assert "94, pid='<unknown>'" in told[-2]
    assert (tmp_path / "kernel.log").read_text() == before


def _start(name: str, folder: Path, speed: float, *words: str) -> subprocess.Popen[bytes]:
    environment = dict(_prepare(name, folder), KENTINO_SIM_SPEED=str(speed))
    pipe = subprocess.PIPE
    tool = str(folder / "bin/gpu_burn")
    return subprocess.Popen([tool, *words], cwd=folder / "bin", env=environment, stdout=pipe, stderr=pipe, start_new_session=True)


def _end(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.communicate()


def test_it_takes_its_time_and_tells_of_its_progress_meanwhile(tmp_path: Path) -> None:
    begin = time.monotonic()
    child = _start("l40sx4", tmp_path, 150, "120")
    try:
        assert child.stdout is not None
        seen = b""
        while b"proc'd" not in seen:
            more = os.read(child.stdout.fileno(), 65536)
            assert more, seen
            seen += more
        first = time.monotonic() - begin
        seen += child.stdout.read()
        whole = time.monotonic() - begin
    finally:
        _end(child)
    # 120 seconds and one, and 30 for its clients to end: at least a second of the machine's time, most of it after the first record.
    assert whole - first > 0.4
    assert 151 / 150 <= whole < 60
    assert b"Tested 4 GPUs:" in seen


READER = r"""
import json, os, sys, time
import pynvml as nv

def read(gpu):
    processes = nv.nvmlDeviceGetComputeRunningProcesses(gpu)
    return {
        "temperature": nv.nvmlDeviceGetTemperature(gpu, 0), "power": nv.nvmlDeviceGetPowerUsage(gpu) // 1000,
        "utilisation": nv.nvmlDeviceGetUtilizationRates(gpu).gpu, "clock": nv.nvmlDeviceGetClockInfo(gpu, 1),
        "reasons": nv.nvmlDeviceGetCurrentClocksEventReasons(gpu), "pstate": nv.nvmlDeviceGetPerformanceState(gpu),
        "link": [nv.nvmlDeviceGetCurrPcieLinkGeneration(gpu), nv.nvmlDeviceGetCurrPcieLinkWidth(gpu)],
        "memory": nv.nvmlDeviceGetMemoryInfo(gpu).used >> 30, "capped": nv.nvmlDeviceGetViolationStatus(gpu, 0).violationTime,
        "processes": [[process.pid, nv.nvmlSystemGetProcessName(process.pid), process.usedGpuMemory >> 30] for process in processes],
    }

# Handles are asked for once; then a line is answered with a reading.
nv.nvmlInit()
gpus = [nv.nvmlDeviceGetHandleByIndex(index) for index in range(nv.nvmlDeviceGetCount())]
for line in sys.stdin:
    print(json.dumps([read(gpu) for gpu in gpus]), flush=True)
"""
Reading = t.Callable[[], t.List[t.Dict[str, t.Any]]]


@pytest.fixture
def nvml(tmp_path: Path) -> t.Iterator[t.Callable[[t.Dict[str, str]], Reading]]:
    pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    children: t.List[subprocess.Popen[str]] = []

    def open_session(environment: t.Dict[str, str]) -> Reading:
        pipe = subprocess.PIPE
        child = subprocess.Popen([sys.executable, "-c", READER], env=environment, stdin=pipe, stdout=pipe, text=True)
        children.append(child)

        def read() -> t.List[t.Dict[str, t.Any]]:
            assert child.stdin is not None
            assert child.stdout is not None
            time.sleep(0.03)  # the library looks for a load fifty times a second
            child.stdin.write("\n")
            child.stdin.flush()
            found: t.List[t.Dict[str, t.Any]] = json.loads(child.stdout.readline())
            return found

        return read

    yield open_session
    for child in children:
        child.kill()
        child.communicate()


def _wait_for_load(folder: Path) -> None:
    until = time.monotonic() + 60
    while not (folder / "load").exists():
        assert time.monotonic() < until, "gpu_burn never loaded the GPUs"
        time.sleep(0.01)


def test_nvml_sees_the_load_as_long_as_it_lasts(tmp_path: Path, nvml: t.Callable[[t.Dict[str, str]], Reading]) -> None:
    read = nvml(_prepare("rtx5090x8", tmp_path))
    idle = read()
    child = _start("rtx5090x8", tmp_path, 2000, "100000")
    try:
        _wait_for_load(tmp_path)
        time.sleep(0.15)  # 300 seconds of the burn
        busy = read()
        time.sleep(0.05)
        later = read()
        smi = in_process.run(str(tmp_path), "nvidia-smi", "--query-compute-apps=pid,name,used_memory", "--format=csv,noheader").stdout
    finally:
        _end(child)
    after = read()
    for before, now in zip(idle, busy):
        assert 65 <= now["temperature"] <= 75
        assert now["temperature"] > before["temperature"] + 25
        assert 570 <= now["power"] <= 575
        assert now["link"] == [5, 16]
        assert before["link"] == [1, 16], "an idle link saves power"
        assert now["processes"] == [[child.pid, "gpu_burn", 28]]
        assert now["memory"] - before["memory"] >= 28
        assert (now["utilisation"], now["reasons"], now["pstate"], now["clock"]) == (100, 4, 0, 2347)
    assert later[0]["capped"] > busy[0]["capped"] > idle[0]["capped"]
    assert smi.decode().splitlines() == ["%d, gpu_burn, 28958 MiB" % child.pid] * 8
    assert after == idle, "the tool was killed: nobody cleaned up after it"


@pytest.mark.parametrize(
    ("fault", "gpu", "expected"),
    [
        ("burn_throttled", 1, {"reasons": 104, "clock": 1095}),
        ("burn_link_down", 3, {"link": [1, 8]}),
        ("burn_low_power", 0, {"reasons": 0, "utilisation": 100}),
    ],
)
def test_faults_of_the_time_under_load(
    fault: str, gpu: int, expected: t.Dict[str, t.Any], tmp_path: Path, nvml: t.Callable[[t.Dict[str, str]], Reading]
) -> None:
    read = nvml(_prepare("h100x8+" + fault, tmp_path))
    idle = read()[gpu]
    assert (idle["reasons"], idle["link"]) == (1, [5, 16])
    child = _start("h100x8+" + fault, tmp_path, 2000, "100000")
    try:
        _wait_for_load(tmp_path)
        busy = read()
    finally:
        _end(child)
    assert {key: busy[gpu][key] for key in expected} == expected
    assert busy[gpu]["power"] < 320 if fault == "burn_low_power" else busy[gpu]["power"] > 650
    assert fault == "burn_low_power" or all(busy[other]["reasons"] == 4 for other in range(8) if other != gpu)


def test_a_gpu_that_falls_off_the_bus_is_lost_for_those_that_hold_its_handle(tmp_path: Path, nvml: t.Callable[..., Reading]) -> None:
    environment = _prepare("h100x8+burn_xid79", tmp_path)
    read = nvml(environment)
    assert len(read()) == 8
    _burn("h100x8+burn_xid79", tmp_path, "600")
    with pytest.raises(json.JSONDecodeError):  # GPU is lost
        read()


def test_what_was_counted_under_load_is_not_forgotten(tmp_path: Path) -> None:
    _prepare("h100x8", tmp_path)
    before = state.Node(str(tmp_path)).number("gpu.0.energy")
    os.environ["KENTINO_SIM_SPEED"] = "4000"
    _burn("h100x8", tmp_path, "600")
    node = state.Node(str(tmp_path))
    assert not (tmp_path / "load").exists()
    assert 600 * 690000 < node.number("gpu.0.energy") - before < 20000 * 700000
    assert node.number("gpu.0.counter.sw_power_cap") > 600000000


def test_another_process_under_the_same_number_is_no_load(tmp_path: Path) -> None:
    _prepare("l40sx4", tmp_path)
    lines = ["load.pid=%d" % os.getpid(), "load.since=1", "load.started=0", "load.speed=1", "gpu.0.util.gpu=100"]
    (tmp_path / "load").write_text("\n".join(lines))
    assert state.Node(str(tmp_path)).number("gpu.0.util.gpu") == 0
    lines[1] = "load.since=" + state.since(os.getpid())
    (tmp_path / "load").write_text("\n".join(lines))
    assert state.Node(str(tmp_path)).number("gpu.0.util.gpu") == 100


def _members(group: int) -> t.List[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                words = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(words[2]) == group and words[0] not in "ZX":
                found.append(int(name))
    return found


@pytest.mark.parametrize(("fault", "ends"), [("burn_hung", True), ("burn_hung_ignore_term", False)])
def test_a_hang_has_a_client_that_hangs_too(fault: str, ends: bool, tmp_path: Path) -> None:
    child = _start("l40sx4+" + fault, tmp_path, 5000, "600")
    try:
        assert child.stdout is not None
        seen = b""
        until = time.monotonic() + 60
        while len(_members(child.pid)) < 2:
            assert time.monotonic() < until
            time.sleep(0.02)
        seen = os.read(child.stdout.fileno(), 1 << 20)
        assert b"44.8%" in seen
        assert b"46.0%" not in seen
        time.sleep(0.1)
        os.killpg(child.pid, signal.SIGTERM)
        until = time.monotonic() + (60 if ends else 0.3)
        while _members(child.pid) and time.monotonic() < until:
            time.sleep(0.02)
        assert len(_members(child.pid)) == (0 if ends else 2)
        child.kill()
        child.wait()
        assert len(_members(child.pid)) == (0 if ends else 1), "killing the tool alone leaves its client"
    finally:
        _end(child)
    until = time.monotonic() + 60
    while _members(child.pid) and time.monotonic() < until:
        time.sleep(0.02)
    assert _members(child.pid) == []


@pytest.mark.parametrize("fault", ["hung_tool", "hung_gpu"])
def test_a_driver_that_hangs_is_waited_for(fault: str, tmp_path: Path) -> None:
    child = _start("l40sx4+" + fault, tmp_path, 1e9, "600")
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.5)
    finally:
        _end(child)


@pytest.mark.parametrize("word", ["0", "-1", "fast", "inf", "nan"])
def test_a_speed_that_is_none_is_refused(word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KENTINO_SIM_SPEED", word)
    ran = _burn("l40sx4", tmp_path, "600")
    assert ran.code == 70
    assert "KENTINO_SIM_SPEED" in ran.err
