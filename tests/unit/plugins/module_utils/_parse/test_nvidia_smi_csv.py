# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse import nvidia_smi
from ansible_collections.kentino.gpu.plugins.module_utils._parse.gpu_records import EccCounters, GpuProcess, RowRemap

A = "GPU-aaaaaaaa-1111-4000-8000-00000000c0de"
B = "GPU-bbbbbbbb-2222-4000-8000-00000000c0de"


def test_query_gpu_with_header_and_units() -> None:
    reading = nvidia_smi.parse(
        "index, name, uuid, pci.bus_id, temperature.gpu, utilization.gpu [%], memory.used [MiB], power.draw [W], pcie.link.width.current,"
        " ecc.errors.uncorrected.volatile.total, clocks_event_reasons.active, driver_version, count\n"
        "0, NVIDIA L40S, " + A + ", 00000000:01:00.0, 44, 7 %, 120 MiB, 88.50 W, 16, 0, 0x0000000000000001, 550.90.07, 2\n"
        "1, NVIDIA L40S, " + B + ", 00000000:C1:00.0, 61, 0 %, 2 MiB, [N/A], 8, 3, 0x0000000000000048, 550.90.07, 2\n",
        0,
    )
    assert (reading.source, reading.complete, reading.attached, reading.driver_version) == ("nvidia-smi csv", True, 2, "550.90.07")
    first, second = reading.gpus
    assert (first.index, first.uuid, first.pci, first.name, first.state) == (0, A, "0000:01:00", "NVIDIA L40S", "ok")
    assert (first.temperature_c, first.utilisation_pct, first.memory_used_mib, first.power_watts, first.pcie_width) == (
        44,
        7,
        120,
        88.5,
        16,
    )
    assert first.ecc_volatile == EccCounters(None, 0, None, 0, None, 0)
    assert (first.event_reasons["idle"], first.event_reasons["hw_slowdown"]) == (True, False)
    assert (second.power_watts, second.unsupported, second.pcie_width) == (None, {"power_watts"}, 8)
    assert second.ecc_volatile == EccCounters(uncorrectable=3)
    assert [name for name, value in second.event_reasons.items() if value] == ["hw_slowdown", "hw_thermal_slowdown"]


@pytest.mark.parametrize(
    ("column", "cell", "field", "value"),
    [
        pytest.param("memory.used", "4096", "memory_used_mib", 4096, id="no units"),
        pytest.param("fan.speed [%]", "[Unknown Error]", "fan_pct", None, id="error"),
        pytest.param("pstate", "P8", "performance_state", "P8", id="performance state"),
        pytest.param("clocks_throttle_reasons.hw_slowdown", "Active", "event_reasons", {"hw_slowdown": True}, id="old name"),
        pytest.param("clocks_event_reasons.hw_slowdown", "Not Active", "event_reasons", {"hw_slowdown": False}, id="new name"),
        pytest.param("clocks_event_reasons.sw_power_cap", "[N/A]", "event_reasons", {}, id="reason N/A"),
        pytest.param("ecc.errors.corrected.aggregate.dram", "9", "ecc_aggregate", EccCounters(dram_correctable=9), id="DRAM"),
        pytest.param(
            "ecc.errors.uncorrected.volatile.device_memory", "2", "ecc_volatile", EccCounters(dram_uncorrectable=2), id="its old name"
        ),
        pytest.param("ecc.errors.uncorrected.volatile.sram.secded", "2", "ecc_volatile", EccCounters(sram_uncorrectable=2), id="SEC-DED"),
        pytest.param("ecc.errors.corrected.volatile.l2_cache", "1", "ecc_volatile", EccCounters(sram_correctable=1), id="Volta"),
        pytest.param("retired_pages.pending", "Yes", "retired", None, id="see below"),
        pytest.param("gpu_recovery_action", "Reset", "state", "requires_reset", id="recovery action"),
        pytest.param("mig.mode.current", "Enabled", "mig_mode", True, id="MIG"),
        pytest.param("fabric.state", "Completed", "fabric_state", "Completed", id="fabric"),
        pytest.param("enforced.power.limit [W]", "300.00 W", "power_limit_watts", 300.0, id="power limit"),
        pytest.param("a.column.of.the.future", "[GPU is lost]", "state", "lost", id="an error in a column not known"),
    ],
)
def test_columns(column: str, cell: str, field: str, value: t.Any) -> None:
    (gpu,) = nvidia_smi.parse("index, temperature.gpu, %s\n7, 40, %s\n" % (column, cell)).gpus
    assert (gpu.index, gpu.temperature_c) == (7, 40)
    if column == "retired_pages.pending":
        assert gpu.retired is not None
        assert gpu.retired.pending is True
    else:
        assert getattr(gpu, field) == value


def test_a_gpu_that_is_lost_or_waits_for_a_reset() -> None:
    reading = nvidia_smi.parse(
        "index, pci.bus_id, temperature.gpu\n0, 00000000:01:00.0, 30\n1, 00000000:02:00.0, [GPU is lost]\n"
        "2, 00000000:03:00.0, [GPU requires reset]\n"
    )
    assert [gpu.state for gpu in reading.gpus] == ["ok", "lost", "requires_reset"]
    assert [gpu.temperature_c for gpu in reading.gpus] == [30, None, None]
    assert reading.lost == ("0000:02:00",)


def test_without_a_header_only_the_unmistakable_is_read() -> None:
    reading = nvidia_smi.parse("0, %s, 34, 5\n1, %s, [GPU requires reset], [N/A]\n" % (A, B))
    assert [(gpu.index, gpu.uuid, gpu.state, gpu.temperature_c) for gpu in reading.gpus] == [
        (0, A, None, None),
        (1, B, "requires_reset", None),
    ]


def test_query_remapped_rows() -> None:
    reading = nvidia_smi.parse(
        "gpu_bus_id, gpu_uuid, remapped_rows.correctable, remapped_rows.uncorrectable, remapped_rows.pending, remapped_rows.failure\n"
        "00000000:01:00.0, %s, 1, 2, Yes, No\n00000000:C1:00.0, %s, 0, 0, 0, 0\n" % (A, B)
    )
    assert [gpu.remapped for gpu in reading.gpus] == [RowRemap(1, 2, True, False), RowRemap(0, 0, False, False)]
    assert [gpu.pci for gpu in reading.gpus] == ["0000:01:00", "0000:c1:00"]


def test_query_compute_apps() -> None:
    reading = nvidia_smi.parse(
        "pid, process_name, used_gpu_memory [MiB], gpu_uuid\n11, python -c a, b, 1000 MiB, %s\n12, [Not Found], [N/A], %s\n" % (A, A)
    )
    assert [gpu.processes for gpu in reading.gpus] == [
        (GpuProcess(11, "python -c a, b", "compute", 1000), GpuProcess(12, None, "compute", None))
    ]
    assert reading.gpus[0].errors == {}


def test_the_last_row_of_a_loop_counts() -> None:
    reading = nvidia_smi.parse("timestamp, index, temperature.gpu\n10:00, 0, 40\n10:00, 1, 41\n10:01, 0, 50\n10:01, 1, [GPU is lost]\n")
    assert [(gpu.temperature_c, gpu.state) for gpu in reading.gpus] == [(50, "ok"), (None, "lost")]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("index, name, temperature.gpu\n0, NVIDIA L40S, 44\n1, NVIDIA L", id="inside a row"),
        pytest.param("index, name, temperature.gpu\n0, NVIDIA L40S, 44\n1, NVIDIA L40S, ", id="before the last cell"),
        pytest.param("index, temperature.gpu, count\n0, 44, 2\n", id="a row is missing"),
    ],
)
def test_a_cut_text_is_not_complete(text: str) -> None:
    reading = nvidia_smi.parse(text)
    assert (reading.complete, reading.error_kind) == (False, "garbled")
    assert reading.gpus[0].state == "ok"


def test_list_of_gpus() -> None:
    reading = nvidia_smi.parse(
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: %s)\n  MIG 3g.40gb     Device  0: (UUID: MIG-aaaaaaaa-1111-4000-8000-00000000c0de)\n"
        "GPU 1: NVIDIA H100 80GB HBM3 (UUID: %s)\n" % (A, B)
    )
    assert [(gpu.index, gpu.name, gpu.uuid, gpu.state) for gpu in reading.gpus] == [
        (0, "NVIDIA H100 80GB HBM3", A, None),
        (1, "NVIDIA H100 80GB HBM3", B, None),
    ]
    assert not reading.complete
