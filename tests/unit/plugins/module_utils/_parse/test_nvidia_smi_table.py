# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse import nvidia_smi
from ansible_collections.kentino.gpu.plugins.module_utils._parse.gpu_records import EccCounters, GpuProcess

HEAD_390 = """\
Tue Feb  3 04:05:06 2026
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 390.157                Driver Version: 390.157                   |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
"""
V100_390 = """\
|   0  Tesla V100-SXM2...  On   | 00000000:1A:00.0 Off |                    0 |
| N/A   43C    P0    61W / 300W |   2222MiB / 16160MiB |     12%   E. Process |
+-------------------------------+----------------------+----------------------+
"""
TITAN_390 = """\
|   1  TITAN Xp            Off  | 00000000:3C:00.0  On |                  N/A |
| 23%   38C    P8     9W / 250W |    411MiB / 12196MiB |      3%      Default |
+-------------------------------+----------------------+----------------------+
"""
PROCESSES_390 = """\

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    0      4321      C   python train.py                             2211MiB |
|    1      1212      G   /usr/lib/xorg/Xorg                           400MiB |
+-----------------------------------------------------------------------------+
"""

HEAD_550 = """\
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 550.163.01             Driver Version: 550.163.01     CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
"""
A100_550 = """\
|   0  NVIDIA A100-SXM4-80GB          On  |   00000000:1B:00.0 Off |                    0 |
| N/A   35C    P0             66W /  400W |       5MiB /  81920MiB |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
"""
L40S_550 = """\
|   1  NVIDIA L40S                    On  |   00000000:A1:00.0 Off |                  Off |
| 30%   52C    P2            142W /  350W |   32100MiB /  49140MiB |     71%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
"""
PROCESSES_550 = """\

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI        PID   Type   Process name                              GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    1   N/A  N/A      9876    C+G   ./render --scene 7                          32000MiB |
+-----------------------------------------------------------------------------------------+
"""
MIG_550 = """\

+-----------------------------------------------------------------------------------------+
| MIG devices:                                                                            |
+------------------+----------------------------------+-----------+-----------------------+
| GPU  GI  CI  MIG |                     Memory-Usage |        Vol|      Shared           |
|      ID  ID  Dev |                       BAR1-Usage | SM     Unc| CE ENC  DEC  OFA  JPG |
|                  |                                  |        ECC|                       |
|==================+==================================+===========+=======================|
|  0    1   0   0  |              37MiB / 40192MiB    | 42      3 |  3   0    2    0    0 |
|                  |               0MiB / 65535MiB    |           |                       |
+------------------+----------------------------------+-----------+-----------------------+
"""
WHOLE = HEAD_550 + A100_550 + L40S_550 + PROCESSES_550


def test_table_of_driver_390() -> None:
    reading = nvidia_smi.parse(HEAD_390 + V100_390 + TITAN_390 + PROCESSES_390, 0)
    assert (reading.source, reading.complete, reading.driver_version, reading.cuda_version) == ("nvidia-smi table", True, "390.157", None)
    first, second = reading.gpus
    assert (first.index, first.pci, first.name, first.state) == (0, "0000:1a:00", "Tesla V100-SXM2...", "ok")
    assert (first.persistence_mode, first.compute_mode, first.ecc_mode) == (True, "Exclusive_Process", True)
    assert (first.temperature_c, first.performance_state, first.power_watts, first.power_limit_watts) == (43, "P0", 61.0, 300.0)
    assert (first.memory_used_mib, first.memory_total_mib, first.utilisation_pct, first.fan_pct) == (2222, 16160, 12, None)
    assert first.ecc_volatile == EccCounters(None, 0, None, 0, None, 0)
    assert "fan_pct" in first.unsupported
    assert first.processes == (GpuProcess(4321, "python train.py", "compute", 2211),)
    assert (second.fan_pct, second.temperature_c, second.power_watts) == (23, 38, 9.0)
    assert {"ecc_mode", "ecc_volatile"} <= second.unsupported
    assert second.processes == (GpuProcess(1212, "/usr/lib/xorg/Xorg", "graphics", 400),)


def test_table_of_driver_550() -> None:
    reading = nvidia_smi.parse(WHOLE, 0)
    assert (reading.complete, reading.driver_version, reading.cuda_version, reading.unrecognised) == (True, "550.163.01", "12.4", ())
    first, second = reading.gpus
    assert (first.mig_mode, first.processes, first.memory_used_mib) == (False, (), 5)
    assert (second.ecc_mode, second.ecc_volatile, second.mig_mode) == (False, None, None)
    assert (second.index, second.utilisation_pct, second.power_watts, second.fan_pct) == (1, 71, 142.0, 30)
    assert second.processes == (GpuProcess(9876, "./render --scene 7", "compute", 32000),)


def test_rows_of_mig_devices_are_no_gpus() -> None:
    reading = nvidia_smi.parse(HEAD_550 + A100_550.replace("Disabled", "Enabled*") + MIG_550 + PROCESSES_550)
    assert (len(reading.gpus), reading.gpus[0].mig_mode, reading.gpus[0].memory_used_mib, reading.complete) == (1, True, 5, True)


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        pytest.param("| 30%", "|ERR!", {"fan_pct": None, "temperature_c": 52, "state": "error"}, id="fan, glued to the border"),
        pytest.param("142W", "ERR!", {"power_watts": None, "power_limit_watts": 350.0, "state": "error"}, id="power"),
        pytest.param("142W", " N/A", {"power_watts": None, "power_limit_watts": 350.0, "state": "ok"}, id="power N/A"),
        pytest.param("142W /  350W", "N/A /  N/A  ", {"power_watts": None, "power_limit_watts": None, "state": "ok"}, id="both N/A"),
        pytest.param("142W", "Unknown Error", {"power_watts": None, "temperature_c": 52, "state": "error"}, id="error of two words"),
        pytest.param("32100MiB /  49140MiB", "  GPU is lost       ", {"memory_used_mib": None, "state": "lost"}, id="lost"),
        pytest.param("Off |\n", "ERR! |\n", {"ecc_mode": None, "state": "error"}, id="ECC"),
        pytest.param(
            "                  Off |\n", "                   12 |\n", {"ecc_volatile": EccCounters(uncorrectable=12)}, id="ECC errors"
        ),
        pytest.param("71%", "ERR!", {"utilisation_pct": None, "compute_mode": "Default"}, id="utilisation"),
        pytest.param("71% ", "N/A ", {"utilisation_pct": None, "state": "ok"}, id="utilisation N/A (MIG)"),
        pytest.param("On  |", "WDDM|", {"persistence_mode": None, "name": "NVIDIA L40S"}, id="driver model on Windows"),
        pytest.param(
            "NVIDIA L40S                ", "NVIDIA GeForce RTX 5090 ...", {"name": "NVIDIA GeForce RTX 5090 ..."}, id="name cut by the tool"
        ),
    ],
)
def test_cells(was: str, now: str, expected: t.Mapping[str, t.Any]) -> None:
    assert L40S_550.count(was) >= 1
    reading = nvidia_smi.parse(HEAD_550 + A100_550 + L40S_550.replace(was, now, 1) + PROCESSES_550)
    assert len(reading.gpus) == 2
    assert {name: getattr(reading.gpus[1], name) for name in expected} == expected
    assert reading.gpus[0].state == "ok"


def test_a_row_of_errors_is_a_lost_gpu() -> None:
    row = L40S_550.replace("NVIDIA L40S", "ERR!       ").replace("30%   52C    P2            142W", "ERR!  ERR! ERR!           ERR!")
    reading = nvidia_smi.parse(HEAD_550 + A100_550 + row.replace("32100MiB /  49140MiB", "GPU is lost         ") + PROCESSES_550)
    assert reading.lost == ("0000:a1:00",)
    assert (reading.gpus[1].index, reading.gpus[1].name, reading.gpus[1].state) == (1, None, "lost")


@pytest.mark.parametrize("prefix", ["> ", "# ", "    ", "#    ", "> > "])
def test_a_quoted_table(prefix: str) -> None:
    quoted = "\n".join(prefix + line for line in WHOLE.split("\n"))
    assert nvidia_smi.parse(quoted).gpus == nvidia_smi.parse(WHOLE).gpus


def test_rows_without_head_and_list_of_processes() -> None:
    reading = nvidia_smi.parse(L40S_550)
    assert (reading.complete, reading.error_kind, reading.gpus[0].state, reading.gpus[0].processes) == (False, None, "ok", None)


def test_the_last_print_of_a_loop_counts() -> None:
    reading = nvidia_smi.parse(WHOLE + WHOLE.replace("52C", "88C"))
    assert [gpu.temperature_c for gpu in reading.gpus] == [35, 88]
    assert reading.complete


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(HEAD_550 + A100_550 + L40S_550, "before its list of processes", id="after the last row"),
        pytest.param(HEAD_550 + A100_550, "before its list of processes", id="after a row that looks like the last"),
        pytest.param(HEAD_550 + A100_550 + L40S_550[:130], "inside the row of a GPU", id="inside a row"),
        pytest.param(HEAD_550 + A100_550 + L40S_550[:20], "inside the row of a GPU", id="inside the first cell"),
        pytest.param(HEAD_550 + A100_550 + L40S_550[:270], "inside the row of a GPU", id="before the rule"),
        pytest.param(L40S_550[:130], "inside the row of a GPU", id="an excerpt"),
        pytest.param(WHOLE.replace("|   1  NVIDIA", "|   \ufffd  NVIDIA"), "cannot be made out", id="index spoilt"),
        pytest.param(WHOLE.replace("|   1  NVIDIA", "\ufffd   1  NVIDIA"), "cannot be made out", id="border spoilt"),
    ],
)
def test_a_cut_or_spoilt_table_is_not_complete(text: str, error: str) -> None:
    reading = nvidia_smi.parse(text)
    assert (reading.complete, reading.error_kind) == (False, "garbled")
    assert error in (reading.error or "")


def test_no_cut_of_a_table_is_complete_before_its_list_of_processes() -> None:
    for at in range(0, WHOLE.index("| Processes:"), 37):
        assert not nvidia_smi.parse(WHOLE[:at]).complete
