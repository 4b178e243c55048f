# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._cli import parse_nvidia_smi
from hypothesis import given, settings
from hypothesis import strategies as st

# A healthy L40S as nvidia-smi -q prints it, the sections that tell of health.
HEALTHY = """\
GPU 00000000:C2:00.0
    Product Name                          : NVIDIA L40S
    GPU UUID                              : GPU-0a1b2c3d-0003-4000-8000-00000000c0de
    MIG Mode
        Current                           : N/A
        Pending                           : N/A
    GPU Reset Status
        Reset Required                    : No
        Drain and Reset Recommended       : No
    PCI
        Bus Id                            : 00000000:C2:00.0
        Replays Since Reset               : 0
    Fan Speed                             : N/A
    Clocks Event Reasons
        Idle                              : Active
        SW Power Cap                      : Not Active
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
            HW Power Brake Slowdown       : Not Active
        SW Thermal Slowdown               : Not Active
    FB Memory Usage
        Total                             : 46068 MiB
        Used                              : 3 MiB
    Utilization
        Gpu                               : 0 %
    ECC Mode
        Current                           : Enabled
        Pending                           : Enabled
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable            : 0
            DRAM Correctable              : 0
            DRAM Uncorrectable            : 0
        Aggregate
            SRAM Correctable              : 0
            SRAM Uncorrectable            : 0
            DRAM Correctable              : 3
            DRAM Uncorrectable            : 0
    Retired Pages
        Single Bit ECC                    : N/A
        Double Bit ECC                    : N/A
        Pending Page Blacklist            : N/A
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 0
        Pending                           : No
        Remapping Failure Occurred        : No
    Temperature
        GPU Current Temp                  : 33 C
"""
LOST = "Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error\n"


def with_(was: str, now: str, nth: int = 0) -> str:
    """HEALTHY with the value of the C(nth) line that holds C(was) changed."""
    lines = HEALTHY.split("\n")
    at = [number for number, line in enumerate(lines) if line.strip().startswith(was)][nth]
    lines[at] = lines[at].split(" : ")[0] + " : " + now
    return "\n".join(lines)


def test_a_healthy_gpu() -> None:
    answer = parse_nvidia_smi.answer(HEALTHY, 0)
    assert (answer["verdict"], answer["action"], answer["exit_code"], answer["lost"]) == ("pass", "none", 0, [])
    (gpu,) = answer["gpus"]
    assert (gpu["pci"], gpu["index"], gpu["state"], gpu["uuid"]) == ("0000:c2:00", None, "ok", "GPU-0a1b2c3d-0003-4000-8000-00000000c0de")
    assert (gpu["temp_c"], gpu["util_pct"], gpu["mem_used_mib"], gpu["fan"]) == (33, 0, 3, None)
    assert (gpu["reset_required"], gpu["recovery_action"], gpu["pcie_replays"]) == (False, None, 0)
    assert gpu["ecc"]["supported"] is True
    assert gpu["ecc"]["volatile"] == {"sram_correctable": 0, "sram_uncorrectable": 0, "dram_correctable": 0, "dram_uncorrectable": 0}
    assert gpu["ecc"]["aggregate"]["dram_correctable"] == 3
    assert set(gpu["ecc"]["unknown"].values()) == {None}
    assert (gpu["retired"], gpu["remapped"]["pending"], gpu["remapped"]["failure"]) == (None, False, False)
    assert (gpu["throttle"]["hw_slowdown"], gpu["throttle"]["idle"], gpu["throttle"]["sync_boost"]) == (False, True, None)


@pytest.mark.parametrize(
    ("text", "verdict", "action"),
    [
        pytest.param(with_("Reset Required", "Yes"), "fail", "reset_gpu", id="reset required"),
        pytest.param(with_("Drain and", "Yes"), "fail", "reset_gpu", id="drain and reset"),
        pytest.param(with_("Product Name", "NVIDIA L40S\n    GPU Recovery Action : Reboot"), "fail", "reboot_node", id="reboot"),
        pytest.param(with_("Pending", "Yes", 2), "fail", "reset_gpu", id="remap pending"),
        pytest.param(with_("Remapping Failure", "Yes"), "fail", "replace", id="remap failed"),
        pytest.param(with_("DRAM Uncorrectable", "1"), "fail", "reset_gpu", id="uncorrectable since the driver was loaded"),
        pytest.param(with_("HW Thermal", "Active"), "fail", "check_cooling", id="thermal slowdown"),
        pytest.param(with_("HW Power", "Active"), "fail", "check_power", id="power brake"),
        pytest.param(with_("Fan Speed", "ERR!"), "fail", "reset_gpu", id="ERR!"),
        pytest.param(LOST, "fail", "reseat", id="a lost GPU alone"),
        pytest.param(LOST + HEALTHY, "fail", "reseat", id="a lost GPU before"),
        pytest.param(HEALTHY + LOST, "fail", "reseat", id="a lost GPU behind"),
        pytest.param(with_("GPU Current Temp", "GPU is lost"), "fail", "reseat", id="lost in place of a value"),
        pytest.param("SRAM Uncorrectable : 0\nDRAM Uncorrectable : 2\n", "fail", "reset_gpu", id="uncorrectable, since when is not told"),
    ],
)
def test_faults(text: str, verdict: str, action: str) -> None:
    answer = parse_nvidia_smi.answer(text, None)
    assert (answer["verdict"], answer["action"]) == (verdict, action)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="nothing"),
        pytest.param("Tux was here\n", id="something else"),
        pytest.param("Failed to initialize NVML: Driver/library version mismatch\n", id="mismatch"),
        pytest.param(HEALTHY[: HEALTHY.rindex(" C")], id="cut in a value"),
        pytest.param(HEALTHY[: HEALTHY.index("Enabled") + 3], id="cut in a word"),
        pytest.param(HEALTHY[: HEALTHY.rindex("        GPU Current")], id="cut at a heading"),
        pytest.param("Attached GPUs : 2\n" + HEALTHY, id="one of two"),
        pytest.param(with_("GPU Current Temp", "3\ufffd C"), id="a value that cannot be read"),
        pytest.param(
            with_("HW Slowdown", "Not Active").replace("HW Slowdown  ", "New HW Slowdown").replace("HW T", "New HW T"), id="renamed keys"
        ),
        pytest.param("GPU 0: NVIDIA L40S (UUID: GPU-0a1b2c3d-0003-4000-8000-00000000c0de)\n", id="named and not measured"),
        pytest.param(HEALTHY[HEALTHY.index("    ECC Errors") :], id="a healthy fragment that names no GPU"),
    ],
)
def test_what_proves_nothing_is_unknown(text: str) -> None:
    assert parse_nvidia_smi.answer(text, None)["verdict"] == "unknown"


@pytest.mark.parametrize(
    ("rc", "verdict", "action"),
    [
        (15, "fail", "reseat"),
        (8, "fail", "check_power"),
        (16, "fail", "reset_gpu"),
        (14, "unknown", "none"),
        (255, "unknown", "none"),
        (9, "unknown", "reboot_node"),
        (-9, "unknown", "reboot_node"),
    ],
)
def test_a_bad_exit_status_beside_a_good_text_is_no_pass(rc: int, verdict: str, action: str) -> None:
    answer = parse_nvidia_smi.answer(HEALTHY, rc)
    assert (answer["verdict"], answer["action"], answer["exit_code"]) == (verdict, action, rc)


@pytest.mark.parametrize(
    ("values", "supported"),
    [
        ({"Current": "N/A", "Pending": "N/A", "Counter": "N/A"}, False),
        ({"Current": "Disabled", "Pending": "Disabled", "Counter": "N/A"}, True),
        ({"Current": "Enabled", "Pending": "Enabled", "Counter": "7"}, True),
    ],
)
def test_ecc_that_a_gpu_lacks_is_neither_zero_nor_a_fault(values: t.Mapping[str, str], supported: bool) -> None:
    text = (
        HEALTHY[: HEALTHY.index("    ECC Mode")]
        + "    ECC Mode\n        Current : {Current}\n        Pending : {Pending}\n    ECC Errors\n"
    )
    text += "        Volatile\n            DRAM Correctable : {Counter}\n        Aggregate\n            DRAM Correctable : {Counter}\n"
    text += "    Temperature\n        GPU Current Temp : 40 C\n"
    answer = parse_nvidia_smi.answer(text.format(**values), 0)
    ecc = answer["gpus"][0]["ecc"]
    assert ecc["supported"] is supported
    assert ecc["volatile"]["dram_correctable"] == (7 if values["Counter"] == "7" else None)
    assert answer["verdict"] == "pass"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(HEALTHY.split("\n")) | st.text(max_size=10), max_size=12), st.none() | st.integers(-9, 255))
def test_every_answer_is_json_and_nothing_without_a_name_passes(lines: t.List[str], rc: t.Optional[int]) -> None:
    text = "\n".join(lines)
    answer = parse_nvidia_smi.answer(text, rc)
    json.dumps(answer)
    assert answer["verdict"] in ("pass", "warn", "fail", "unknown")
    names = ("GPU 0", "    GPU UUID", "        Bus Id")
    assert answer["verdict"] != "pass" or any(line.startswith(names) for line in lines)
