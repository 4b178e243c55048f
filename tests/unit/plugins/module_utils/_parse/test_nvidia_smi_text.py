# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import textwrap
import typing as t
from pathlib import Path

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse import nvidia_smi
from ansible_collections.kentino.gpu.plugins.module_utils._parse.gpu_records import EccCounters, Gpu, GpuProcess, RetiredPages, RowRemap

FOLDER = Path(__file__).parent / "nvidia_smi"
WHOLE = (FOLDER / "h100x2_570_q.txt").read_text(encoding="utf-8")

# V100, driver 450: counters by structure, keys of 32 columns.
VOLTA = """\
    Ecc Mode
        Current                     : Enabled
        Pending                     : Disabled
    ECC Errors
        Volatile
            Single Bit
                Device Memory       : 3
                Register File       : 0
                L1 Cache            : 1
                L2 Cache            : 0
                Texture Memory      : N/A
                Texture Shared      : N/A
                CBU                 : N/A
                Total               : 4
            Double Bit
                Device Memory       : 0
                Register File       : 0
                L1 Cache            : 0
                L2 Cache            : 2
                Texture Memory      : N/A
                Texture Shared      : N/A
                CBU                 : 0
                Total               : 2
        Aggregate
            Single Bit
                Device Memory       : 30
                Register File       : 5
                Total               : 35
            Double Bit
                Device Memory       : 7
                Register File       : 0
                Total               : 7
    Retired Pages
        Single Bit ECC              : 2
        Double Bit ECC              : 1
        Pending                     : Yes
"""

# A100 in MIG mode, driver 535: the headings of a MIG device are those of the GPU.
MIG = """\
GPU 00000000:0F:00.0
    Product Name                          : NVIDIA A100-SXM4-40GB
    MIG Mode
        Current                           : Enabled
        Pending                           : Disabled
    MIG Device
        Index                             : 0
        GPU Instance ID                   : 1
        Compute Instance ID               : 0
        Device Attributes
            Shared
                Multiprocessor count      : 42
                Copy Engine count         : 3
        ECC Errors
            Volatile
                SRAM Uncorrectable        : 9
        FB Memory Usage
            Total                         : 20096 MiB
            Used                          : 37 MiB
        BAR1 Memory Usage
            Total                         : 32767 MiB
    Accounting Mode                       : Disabled
    FB Memory Usage
        Total                             : 40960 MiB
        Used                              : 101 MiB
    Utilization
        Gpu                               : N/A
    ECC Errors
        Volatile
            SRAM Uncorrectable            : 0
"""


def only(text: str) -> Gpu:
    (gpu,) = nvidia_smi.parse(textwrap.dedent(text)).gpus
    return gpu


def test_whole_report_of_driver_570_is_what_its_xml_says() -> None:
    reading = nvidia_smi.parse(WHOLE, 0)
    same = nvidia_smi.parse((FOLDER / "h100x2_570.xml").read_text(encoding="utf-8"), 0)
    assert (reading.source, reading.complete, reading.error_kind, reading.attached) == ("nvidia-smi text", True, None, 2)
    assert (reading.driver_version, reading.cuda_version, reading.unrecognised) == ("570.172.08", "12.8", ())
    assert reading.gpus == same.gpus
    assert reading.gpus[0].processes == (GpuProcess(4711, "python3 train.py --lr 3e-4", "compute", 70000),)


@pytest.mark.parametrize(
    "paste",
    [
        pytest.param(lambda line: line.strip(), id="all lines at the left"),
        pytest.param(lambda line: " " + line.strip() if line.startswith(" ") else line, id="runs of blanks as one"),
        pytest.param(lambda line: "        " + line, id="all shifted"),
        pytest.param(lambda line: "\t" + line, id="all shifted by a tab"),
        pytest.param(lambda line: " " * ((len(line) - len(line.lstrip())) // 2) + line.lstrip(), id="two blanks a level"),
        pytest.param(lambda line: "\t" * ((len(line) - len(line.lstrip())) // 4) + line.lstrip(), id="tabs"),
        pytest.param(lambda line: line[: len(line) - len(line.lstrip())] + " ".join(line.split()), id="columns lost"),
        pytest.param(lambda line: line + "\r", id="line ends of Windows"),
    ],
)
def test_pastes_that_changed_the_blanks(paste: t.Callable[[str], str]) -> None:
    reading = nvidia_smi.parse("\n".join(paste(line) for line in WHOLE.split("\n")))
    assert reading.complete
    assert reading.gpus == nvidia_smi.parse(WHOLE).gpus


@pytest.mark.parametrize("paste", [str, lambda text: "\n".join(line.strip() for line in text.split("\n"))], ids=["indented", "flat"])
def test_volta_counts_by_structure(paste: t.Callable[[str], str]) -> None:
    gpu = only(paste(VOLTA))
    assert gpu.ecc_layout == "volta"
    assert gpu.ecc_volatile == EccCounters(1, 2, 3, 0, 4, 2)
    assert gpu.ecc_aggregate == EccCounters(5, 0, 30, 7, 35, 7)
    assert gpu.retired == RetiredPages(2, 1, True)
    assert (gpu.ecc_mode, gpu.ecc_mode_pending) == (True, False)


@pytest.mark.parametrize("paste", [str, lambda text: "\n".join(line.strip() for line in text.split("\n"))], ids=["indented", "flat"])
def test_a_mig_device_is_not_the_gpu(paste: t.Callable[[str], str]) -> None:
    gpu = only(paste(MIG))
    assert (gpu.mig_mode, gpu.mig_mode_pending) == (True, False)
    assert (gpu.memory_total_mib, gpu.memory_used_mib) == (40960, 101)
    assert gpu.ecc_volatile == EccCounters(sram_uncorrectable=0)
    assert gpu.ecc_section_unknown is None
    assert (gpu.utilisation_pct, "utilisation_pct" in gpu.unsupported) == (None, True)


@pytest.mark.parametrize("heading", ["Clocks Throttle Reasons", "Clocks Event Reasons"])
def test_reasons_under_the_old_and_the_new_heading(heading: str) -> None:
    gpu = only(
        """\
        %s
            Idle                          : Not Active
            SW Power Cap                  : Active
            HW Slowdown                   : Active
                HW Thermal Slowdown       : Active
                HW Power Brake Slowdown   : Not Active
            Display Clock Setting         : Not Active
        """
        % heading
    )
    assert gpu.event_reasons == {
        "idle": False,
        "sw_power_cap": True,
        "hw_slowdown": True,
        "hw_thermal_slowdown": True,
        "hw_power_brake": False,
        "display_clocks": False,
    }


def test_a_renamed_reason_is_absent_and_kept_as_text() -> None:
    reading = nvidia_smi.parse(
        "    Clocks Event Reasons\n        Idle      : Active\n        Broken HW Slowdown    : Not Active\n"
        "            Broken HW Thermal Slowdown    : Not Active\n        Sync Boost    : Not Active\n"
    )
    assert reading.gpus[0].event_reasons == {"idle": True, "sync_boost": False}
    assert reading.unrecognised == ("Broken HW Slowdown : Not Active", "Broken HW Thermal Slowdown : Not Active")


def test_counters_of_the_reasons_are_no_reasons() -> None:
    counters = "    Clocks Event Reasons Counters\n        SW Power Capping : 12 us\n        Sync Boost : 0 us\n"
    gpu = only("GPU 00000000:01:00.0\n" + counters + "    Fan Speed : 5 %\n")
    assert (gpu.event_reasons, gpu.errors, gpu.fan_pct) == ({}, {}, 5)


def test_pending_under_three_headings_is_three_facts() -> None:
    gpu = only(
        """\
        GPU 00000000:01:00.0
            MIG Mode
                Current : Disabled
                Pending : Enabled
            ECC Mode
                Current : Enabled
                Pending : Disabled
            Remapped Rows
                Correctable Error : 0
                Uncorrectable Error : 2
                Pending : Yes
                Remapping Failure Occurred : No
        """
    )
    assert (gpu.mig_mode_pending, gpu.ecc_mode_pending) == (True, False)
    assert gpu.remapped == RowRemap(0, 2, True, False)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param("Fan Speed : ERR!\nPerformance State : P2", {"fan_pct": None, "performance_state": "P2"}, id="error"),
        pytest.param(
            "Power Readings\n    Power Draw : 58.10 W\n    Power Limit : 250.00 W\n    Enforced Power Limit : 240.00 W",
            {"power_watts": 58.1, "power_limit_watts": 240.0},
            id="power, driver 390",
        ),
        pytest.param(
            "GPU Power Readings\n    Average Power Draw : N/A\n    Instantaneous Power Draw : 9.5 W\n"
            "Module Power Readings\n    Power Draw : 99 W",
            {"power_watts": 9.5},
            id="power, driver 580",
        ),
        pytest.param(
            "Temperature\n    GPU Current Temp : 45 C\n    GPU Shutdown Temp : 97 C\n    GPU Slowdown Temp : 94 C",
            {"temperature_c": 45, "temperature_shutdown_c": 97, "temperature_slowdown_c": 94},
            id="absolute thresholds",
        ),
        pytest.param(
            "Temperature\n    GPU T.Limit Temp : -1 C\n    GPU Slowdown T.Limit Temp : -2 C",
            {"temperature_margin_c": -1, "margin_slowdown_c": -2},
            id="margins may be negative",
        ),
        pytest.param("GPU Part Number : 692-2G506-0200-003", {"board_part": "692-2G506-0200-003"}, id="driver 510: the board's number"),
        pytest.param("Board Part Number : N/A\nGPU Part Number : 2684-300-A1", {"board_part": None}, id="chip number is no board number"),
        pytest.param(
            "GPU Reset Status\n    Reset Required : Yes\n    Drain and Reset Recommended : No",
            {"reset_required": True, "drain_reset_recommended": False},
            id="reset status, driver 535",
        ),
        pytest.param(
            "GPU Reset Status\n    Reset Required : Requested functionality has been deprecated\nGPU Recovery Action : Reset",
            {"reset_required": None, "recovery_action": "Reset"},
            id="recovery action, driver 570",
        ),
        pytest.param("GPU Recovery Action : None", {"recovery_action": "None"}, id="None is an answer"),
        pytest.param(
            "ECC Errors\n    Channel Repair Pending : No\n    TPC Repair Pending : Yes", {"repair_pending": ("tpc",)}, id="Blackwell"
        ),
        pytest.param(
            "Fabric\n    State : In Progress\n    Status : N/A\n    Health\n        Summary : Limited Capacity",
            {"fabric_state": "In Progress", "fabric_status": None, "fabric_health": "Limited Capacity"},
            id="fabric",
        ),
        pytest.param("vGPU Software Licensed Product\n    Product Name : Workstation", {"name": None}, id="licence is no product"),
        pytest.param("Remapped Rows : N/A\nClocks Event Reasons : N/A", {"remapped": None, "event_reasons": {}}, id="records as one word"),
        pytest.param("Processes : None", {"processes": ()}, id="no processes"),
        pytest.param("Processes : N/A", {"processes": None}, id="processes not told"),
        pytest.param(
            "Processes\n    Process ID : 12\n        Type : G\n        Name : Xorg\n        Used GPU Memory : N/A\n"
            "    Process ID : 13\n        Type : C+G\n        Name : a : b\n        Used GPU Memory : 4 MiB",
            {"processes": (GpuProcess(12, "Xorg", "graphics", None), GpuProcess(13, "a : b", "compute", 4))},
            id="processes",
        ),
    ],
)
def test_keys(lines: str, expected: t.Mapping[str, t.Any]) -> None:
    indented = "\n".join("    " + line for line in lines.split("\n"))
    gpu = only("GPU 00000000:01:00.0\n%s\n    Minor Number : 0\n" % indented)
    assert {name: getattr(gpu, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        pytest.param("        Replays Since Reset : 7\n    Fan Speed : 3 %\n", "pcie_replays", 7, id="first heading lost"),
        pytest.param("    GPU UUID : GPU-1\n", "uuid", "GPU-1", id="a line of grep"),
        pytest.param("HW Thermal Slowdown : Active\n", "event_reasons", {"hw_thermal_slowdown": True}, id="a reason of grep"),
        pytest.param(
            "DRAM Uncorrectable : 2\nDRAM Uncorrectable : 9\n",
            "ecc_section_unknown",
            EccCounters(dram_uncorrectable=9),
            id="which section is not told: the larger",
        ),
        pytest.param("Pending : Yes\n", "remapped", None, id="Pending of what is not told"),
    ],
)
def test_fragments(text: str, field: str, value: t.Any) -> None:
    gpus = nvidia_smi.parse(text).gpus
    assert [getattr(gpu, field) for gpu in gpus] == ([value] if value is not None else [])
    assert all(gpu.pci is None and gpu.state is None for gpu in gpus)


def test_a_key_that_comes_back_is_another_gpu() -> None:
    reading = nvidia_smi.parse("    GPU Recovery Action : None\n    GPU Recovery Action : Reboot\n")
    assert [gpu.recovery_action for gpu in reading.gpus] == ["None", "Reboot"]


def test_lost_gpu_in_the_report() -> None:
    block = "    Product Name : GPU is lost\n    Processes : GPU is lost\n    Capabilities\n        EGM : GPU is lost\n"
    reading = nvidia_smi.parse(WHOLE[: WHOLE.index("GPU 00000000:AB")] + "GPU 00000000:AB:00.0\n" + block)
    assert reading.lost == ("0000:ab:00",)
    assert reading.complete
    assert [gpu.state for gpu in reading.gpus] == ["ok", "lost"]


def test_a_cut_report_is_never_complete() -> None:
    whole = nvidia_smi.parse(WHOLE)
    lines = WHOLE.rstrip().split("\n")
    places = [WHOLE.index(line) + len(line) for line in lines[4:-1:23]] + list(range(40, len(WHOLE) - 60, 1733))
    for at in places:
        reading = nvidia_smi.parse(WHOLE[:at])
        assert not reading.complete, WHOLE[max(0, at - 60) : at]
        for gpu, same in zip(reading.gpus, whole.gpus):
            assert gpu.state in (None, same.state)
            for name in ("temperature_c", "memory_used_mib", "power_watts", "recovery_action", "ecc_mode"):
                assert getattr(gpu, name) in (None, getattr(same, name)), WHOLE[max(0, at - 60) : at]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(WHOLE[: WHOLE.rindex("    Processes")], "the last GPU's block ends before capabilities", id="last sections missing"),
        pytest.param(WHOLE[: WHOLE.index("    Processes", 9)], "ends before its processes", id="of one GPU"),
        pytest.param(WHOLE[: WHOLE.index("GPU 00000000:AB")], "2 GPUs are attached, the text holds 1", id="the second GPU missing"),
        pytest.param(WHOLE[: WHOLE.rindex("T.Limit Temp") - 9], "ends inside a line: Memory Max O", id="inside a key"),
        pytest.param(
            "GPU 00000000:01:00.0\n    Temperature\n        GPU Current Temp : 4", "ends inside a line: GPU C", id="inside a value"
        ),
        pytest.param("GPU 00000000:01:00.0\n    Temperature\n", "ends at the heading Temperature", id="at a heading"),
        pytest.param("GPU 00000000:01:00.0\n    ECC Errors\n        Volat", "ends inside a line: Volat", id="inside a heading"),
        pytest.param(WHOLE.replace("GPU 00000000:AB", "GPV 00000000:AB"), "heading that cannot be made out: gpv", id="a header spoilt"),
        pytest.param(WHOLE.replace("GPU 00000000:AB:00.0\n", "\n"), "stands twice", id="a header lost"),
    ],
)
def test_how_a_text_breaks_off(text: str, error: str) -> None:
    reading = nvidia_smi.parse(text)
    assert not reading.complete
    assert error in (reading.error or "")


def test_a_display_of_some_sections_is_whole_by_itself() -> None:
    """nvidia-smi -q -d TEMPERATURE prints no product and no processes."""
    head = "==============NVSMI LOG==============\n\nTimestamp : now\nDriver Version : 550.1\nCUDA Version : 12.4\n\nAttached GPUs : 2\n"
    block = "GPU 00000000:%s:00.0\n    Temperature\n        GPU Current Temp : 40 C\n        GPU Target Temperature : N/A\n"
    assert nvidia_smi.parse(head + block % "01" + "\n" + block % "02").complete
    cut = (head + block % "01" + "\n" + block % "02").rsplit("        GPU Target", 1)[0]
    assert not nvidia_smi.parse(head + block % "01").complete
    assert nvidia_smi.parse(cut).gpus[1].temperature_c == 40


def test_the_last_print_of_a_loop_counts() -> None:
    later = WHOLE.replace(": 61 C", ": 77 C")
    reading = nvidia_smi.parse(WHOLE + later)
    assert [gpu.temperature_c for gpu in reading.gpus] == [77, 58]
    assert reading.complete
