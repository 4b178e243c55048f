# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in for nvidia-smi prints what the real one prints."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import typing as t
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

SIMULATOR = Path(__file__).resolve().parents[2] / "simulator"
sys.path.insert(0, str(SIMULATOR))
from simnode import in_process, render, scenario  # noqa: E402

NODES = {"h100x8": 8, "rtx5090x8": 8, "l40sx4": 4}
Run = t.Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folders: t.Dict[str, str] = {}

    def tool(name: str, *words: str) -> subprocess.CompletedProcess[bytes]:
        if name not in folders:
            folders[name] = str(tmp_path_factory.mktemp("node"))
            render.prepare(scenario.load(name), folders[name], root=False)
        return in_process.run(folders[name], "nvidia-smi", *words)

    return tool


@pytest.mark.parametrize("base", NODES)
def test_xml_parses_and_counts_right(run: Run, base: str) -> None:
    done = run(base, "-q", "-x")
    assert done.returncode == 0
    assert done.stdout.startswith(b'<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n')
    root = ElementTree.fromstring(done.stdout)
    gpus = root.findall("gpu")
    assert root.findtext("attached_gpus") == str(NODES[base]) == str(len(gpus))
    assert all(str(gpu.findtext("product_name")).endswith(" [simulated]") for gpu in gpus)
    described = scenario.load(base).gpus
    assert [gpu.findtext("uuid") for gpu in gpus] == [gpu["uuid"] for gpu in described]
    assert [gpu.get("id") for gpu in gpus] == ["0000" + gpu["bus_id"].upper() for gpu in described]


def test_xml_says_what_is_not_supported(run: Run) -> None:
    gpu = ElementTree.fromstring(run("rtx5090x8", "-q", "-x").stdout).findall("gpu")[0]
    assert gpu.findtext("remapped_rows") == "N/A"
    assert gpu.findtext("ecc_errors/volatile/dram_correctable") == "N/A"
    assert gpu.findtext("mig_devices", "").strip() == "None"
    assert gpu.findtext("gpu_reset_status/reset_required") == "Requested functionality has been deprecated"


def test_only_the_newer_branch_prints_event_counters(run: Run) -> None:
    counters = "clocks_event_reasons_counters/clocks_event_reasons_counters_hw_therm_slowdown"
    newer, older = (ElementTree.fromstring(run(base, "-q", "-x").stdout).findall("gpu")[0] for base in ("l40sx4", "h100x8"))
    assert newer.findtext(counters) == "0 us"
    assert older.findtext(counters) is None


@pytest.mark.parametrize("base", NODES)
def test_text_report(run: Run, base: str) -> None:
    printed = run(base, "-q").stdout.decode()
    lines = printed.splitlines()
    assert lines[1] == "==============NVSMI LOG=============="
    assert "Attached GPUs                             : %d" % NODES[base] in lines
    assert sum(line.startswith("GPU 00000000:") for line in lines) == NODES[base]
    assert printed.count("[simulated]") == NODES[base]
    assert {line.index(" : ") for line in lines if line.startswith("    ") and " : " in line} == {41}


def test_text_and_xml_agree(run: Run) -> None:
    text = run("h100x8+remap_pending", "-q", "-i", "2").stdout.decode()
    gpu = ElementTree.fromstring(run("h100x8+remap_pending", "-q", "-x", "-i", "2").stdout).findall("gpu")[0]
    assert "        Pending                           : Yes\n        Remapping Failure Occurred        : No\n" in text
    assert gpu.findtext("remapped_rows/remapped_row_pending") == "Yes"
    assert "            Max                           : 2559 bank(s)\n" in text
    assert gpu.findtext("remapped_rows/row_remapper_histogram/row_remapper_histogram_max") == "2559 bank(s)"
    assert "    GPU Recovery Action                   : Drain and Reset\n" in text
    assert gpu.findtext("gpu_recovery_action") == "Drain and Reset"


def test_the_report_can_be_narrowed_to_sections(run: Run) -> None:
    lines = run("h100x8", "-q", "-d", "ROW_REMAPPER,ECC", "-i", "0").stdout.decode().splitlines()
    titles = [line.strip() for line in lines if line.startswith("    ") and line[4] != " "]
    assert titles == ["ECC Mode", "ECC Errors", "Remapped Rows"]


@pytest.mark.parametrize("base", NODES)
def test_table_keeps_its_columns(run: Run, base: str) -> None:
    lines = run(base).stdout.decode().splitlines()[1:]
    assert {len(line) for line in lines} == {91, 89}
    assert [line for line in lines if len(line) == 89] == [" " * 89]
    rows = [line for line in lines if "00000000:" in line]
    assert len(rows) == NODES[base]
    assert all("[simulated]" in row for row in rows)
    assert "|  No running processes found" in lines[-2]


def test_table_shows_a_process(run: Run) -> None:
    lines = run("l40sx4+foreign_process").stdout.decode().splitlines()
    assert lines[-2] == "|    2   N/A  N/A           48213      C   python3                               20480MiB |"


def test_list(run: Run) -> None:
    lines = run("l40sx4", "-L").stdout.decode().splitlines()
    assert lines[3] == "GPU 3: NVIDIA L40S [simulated] (UUID: GPU-5e14a7d2-9cb0-4f83-b6e5-20fa98d7b144)"
    assert len(lines) == 4


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (
            ["--query-gpu=index,name,memory.total,power.draw", "--format=csv"],
            "index, name, memory.total [MiB], power.draw [W]\n2, NVIDIA L40S [simulated], 46068 MiB, 34.93 W\n",
        ),
        (["--query-gpu=pci.bus_id,temperature.gpu", "--format=csv,noheader,nounits"], "00000000:CA:00.0, 29\n"),
        (["--query-gpu=fan.speed,mig.mode.current", "--format=csv,noheader"], "[N/A], [N/A]\n"),
        (
            ["--query-gpu=clocks_throttle_reasons.active,clocks.sm", "--format=csv"],
            "clocks_event_reasons.active, clocks.current.sm [MHz]\n0x0000000000000001, 210 MHz\n",
        ),
        (
            ["--query-remapped-rows=gpu_bus_id,remapped_rows.pending,remapped_rows.failure", "--format=csv"],
            "gpu_bus_id, remapped_rows.pending, remapped_rows.failure\n00000000:CA:00.0, No, No\n",
        ),
        (["--query-compute-apps=pid,name,used_memory", "--format=csv"], "pid, process_name, used_gpu_memory [MiB]\n"),
    ],
)
def test_csv(run: Run, words: t.List[str], printed: str) -> None:
    done = run("l40sx4", *words, "-i", "2")
    assert (done.returncode, done.stdout.decode()) == (0, printed)


def test_csv_of_processes(run: Run) -> None:
    done = run("l40sx4+foreign_process", "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader")
    assert done.stdout == b"48213, python3, 20480 MiB\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--query-gpu=nonsense", "--format=csv"], 2, b'Field "nonsense" is not a valid field to query.'),
        (["--query-gpu=name"], 2, b'"--format=" switch is missing'),
        (["--frobnicate"], 2, b"Invalid combination of input arguments"),
        (["-i", "17"], 6, b"No devices were found"),
    ],
)
def test_misuse(run: Run, words: t.List[str], code: int, said: bytes) -> None:
    done = run("l40sx4", *words)
    assert done.returncode == code
    assert said in done.stdout


@pytest.mark.parametrize("chosen", ["3", "GPU-94f2d6b0-c8e1-4375-b1a9-3d7506ef82d4", "1654923011986", "0000:5d:00.0", "00000000:5D:00.0"])
def test_a_gpu_is_chosen_by_any_of_its_names(run: Run, chosen: str) -> None:
    assert run("h100x8", "--query-gpu=index", "--format=csv,noheader", "-i", chosen).stdout == b"3\n"


@pytest.mark.parametrize("words", [[], ["-q"], ["-L"], ["--query-gpu=index", "--format=csv"]])
def test_a_lost_gpu_is_named_and_left_out(run: Run, words: t.List[str]) -> None:
    done = run("h100x8+gpu_lost", *words)
    assert done.stdout.startswith(b"Unable to determine the device handle for GPU3: 0000:5D:00.0: Unknown Error\n")
    assert done.stdout.count(b"5D:00.0") == 1
    assert b"No devices" not in done.stdout


def test_an_older_tool_stops_at_the_lost_gpu(run: Run) -> None:
    done = run("h100x8+gpu_lost_old_tool")
    assert done.returncode == 15
    reason = b"GPU is lost.  Reboot the system to recover this GPU"
    assert done.stdout == b"Unable to determine the device handle for GPU 0000:5D:00.0: %s\n" % reason


def test_a_gpu_that_answers_every_query_with_an_error(run: Run) -> None:
    name = "h100x8+gpu_lost_queries"
    row = run(name, "--query-gpu=temperature.gpu,pci.bus_id", "--format=csv,noheader", "-i", "3").stdout
    assert row == b"[GPU is lost], 00000000:5D:00.0\n"
    assert run(name).stdout.count(b"ERR!") > 5
    assert len(ElementTree.fromstring(run(name, "-q", "-x").stdout).findall("gpu")) == 8


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        ("driver_not_loaded", 9, b"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."),
        ("nvml_error", 255, b"Failed to initialize NVML: Unknown Error\n"),
        ("version_mismatch", 18, b"Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.65\n"),
    ],
)
def test_failures_of_the_driver(run: Run, fault: str, code: int, said: bytes) -> None:
    done = run("l40sx4+" + fault, "-q", "-x")
    assert done.returncode == code
    assert done.stdout.startswith(said)


def test_garbled_output_is_no_xml_and_no_text(run: Run) -> None:
    done = run("h100x8+garbled_output", "-q", "-x")
    assert done.returncode == 0
    with pytest.raises(ElementTree.ParseError):
        ElementTree.fromstring(done.stdout)
    with pytest.raises(UnicodeDecodeError):
        done.stdout.decode()


def test_cut_output_has_no_end(run: Run) -> None:
    done = run("h100x8+cut_output", "-q", "-x")
    assert done.returncode == 0
    assert done.stdout.startswith(b"<?xml")
    assert b"</nvidia_smi_log>" not in done.stdout


def test_counters_climb_from_reading_to_reading(run: Run) -> None:
    query = ("--query-gpu=ecc.errors.corrected.volatile.dram", "--format=csv,noheader", "-i", "6")
    counts = [int(run("h100x8+ecc_climbing", *query).stdout) for _reading in range(3)]
    assert counts == [118203, 118203 + 4647, 118203 + 2 * 4647]


def test_the_tool_on_the_path_is_the_stand_in(run: Run, tmp_path: Path) -> None:
    render.prepare(scenario.load("l40sx4"), str(tmp_path), root=False)
    environment = dict(os.environ, **render.environment(str(tmp_path)))
    done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, timeout=60, check=False, env=environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, run("l40sx4", "-L").stdout, b"")


@pytest.mark.parametrize(("fault", "obeys"), [("hung_tool", True), ("hung_tool_ignore_term", False)])
def test_a_hung_tool_hangs_until_it_is_killed(fault: str, obeys: bool, tmp_path: Path) -> None:
    render.prepare(scenario.load("l40sx4+" + fault), str(tmp_path), root=False)
    environment = dict(os.environ, **render.environment(str(tmp_path)))
    child = subprocess.Popen([str(tmp_path / "bin/nvidia-smi")], env=environment, stdout=subprocess.PIPE)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.4)
        child.terminate()
        if obeys:
            assert child.wait(5) == -signal.SIGTERM
        else:
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(0.3)
    finally:
        child.kill()
        child.communicate()


def test_a_hung_gpu_leaves_half_a_report(tmp_path: Path) -> None:
    render.prepare(scenario.load("l40sx4+hung_gpu"), str(tmp_path), root=False)
    environment = dict(os.environ, **render.environment(str(tmp_path)))
    child = subprocess.Popen([str(tmp_path / "bin/nvidia-smi"), "-q"], env=environment, stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        os.set_blocking(child.stdout.fileno(), False)
        printed = b""
        until = time.monotonic() + 60
        while printed.count(b"EGM") < 2 and time.monotonic() < until:
            printed += child.stdout.read() or b""
            time.sleep(0.02)
        time.sleep(0.1)
        assert child.poll() is None
        assert not child.stdout.read(), "nothing more after the GPU that hangs"
    finally:
        child.kill()
        child.communicate()
    assert printed.count(b"Product Name") == 2
