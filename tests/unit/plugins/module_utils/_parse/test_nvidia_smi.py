# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import random
import typing as t
from pathlib import Path

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse import nvidia_smi
from ansible_collections.kentino.gpu.plugins.module_utils._parse.gpu_records import Gpu, GpuReading
from hypothesis import given, settings
from hypothesis import strategies as st

FOLDER = Path(__file__).parent / "nvidia_smi"
TEXT = (FOLDER / "h100x2_570_q.txt").read_text(encoding="utf-8")
XML = (FOLDER / "h100x2_570.xml").read_text(encoding="utf-8")
ROW = """\
|   1  NVIDIA H100 80GB HBM3          On  |   00000000:AB:00.0 Off |                    0 |
|ERR!   58C    P0            599W /  650W |       5MiB /  81559MiB |     97%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+
"""


@pytest.mark.parametrize(
    ("line", "lost"),
    [
        pytest.param("Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error", "0000:0b:00", id="driver 340 to 515"),
        pytest.param("Unable to determine the device handle for GPU0000:17:00.0: Unknown Error", "0000:17:00", id="driver 525: no blank"),
        pytest.param("Unable to determine the device handle for GPU3: 0000:5D:00.0: Unknown Error", "0000:5d:00", id="driver 550: index"),
        pytest.param("Unable to detect the device handle for GPU0000:B1:00.0: Unknown Error", "0000:b1:00", id="another verb"),
        pytest.param(
            "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the system to recover this GPU",
            "0000:02:00",
            id="GPU is lost",
        ),
        pytest.param("unable to determine the device handle for gpu 00000000:41:00.0: Not Found", "0000:41:00", id="lower case"),
        pytest.param("Unable to determine the device handle for GPU 000:AB:90.0: Unknown Error", "000:AB:90.0", id="garbled: kept"),
        pytest.param("Unable to determine the device handle for GPU ******: Unknown Error", "******", id="blacked out: kept"),
        pytest.param(
            "host7: Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error", "0000:0b:00", id="behind a prefix"
        ),
    ],
)
@pytest.mark.parametrize("beside", ["alone", "before", "after", "around"])
def test_a_lost_gpu_is_named_whatever_stands_beside_it(line: str, lost: str, beside: str) -> None:
    texts = {"alone": line, "before": line + "\n" + TEXT, "after": XML + line, "around": line + "\n" + ROW + line + "\n"}
    reading = nvidia_smi.parse(texts[beside])
    assert reading.lost == (lost,)
    assert len(reading.gpus) == {"alone": 0, "before": 2, "after": 2, "around": 1}[beside]


def test_one_of_two_gpus_lost_and_named_is_a_whole_report() -> None:
    message = "Unable to determine the device handle for GPU0000:AB:00.0: Unknown Error\n"
    for text in (message + TEXT[: TEXT.index("GPU 00000000:AB")], TEXT[: TEXT.index("GPU 00000000:AB")] + message):
        reading = nvidia_smi.parse(text, 0)
        assert (len(reading.gpus), reading.lost, reading.complete, reading.attached) == (1, ("0000:ab:00",), True, 2)


def test_a_loss_that_names_no_address() -> None:
    reading = nvidia_smi.parse("GPU 3 is lost. Reboot the system to recover this GPU\n")
    assert [(gpu.index, gpu.pci, gpu.state) for gpu in reading.gpus] == [(3, None, "lost")]


@pytest.mark.parametrize(
    ("text", "rc", "kind"),
    [
        pytest.param("No devices were found", 6, "no_devices", id="no devices"),
        pytest.param(
            "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.163",
            18,
            "version_mismatch",
            id="mismatch",
        ),
        pytest.param("Failed to initialize NVML: Unknown Error", 255, "init_failed", id="NVML"),
        pytest.param("Failed to initialize NVML: Insufficient Permissions", 4, "permission", id="permission"),
        pytest.param("Failed to initialize NVML: GPU access blocked by the operating system", 17, "permission", id="blocked"),
        pytest.param(
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver"
            " is installed and running.",
            9,
            "driver_not_loaded",
            id="driver not loaded",
        ),
        pytest.param("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", 12, "missing_library", id="library"),
        pytest.param("bash: nvidia-smi: command not found", 127, "missing_tool", id="tool"),
        pytest.param('Field "temprature" is not a valid field to query.', 2, "other", id="field"),
        pytest.param(
            "Unable to determine the device handle for GPU 0000:41:00.0: Insufficient Permissions", 4, "permission", id="no right"
        ),
        pytest.param("", None, "other", id="nothing"),
        pytest.param("", 124, "timeout", id="nothing, killed by a watchdog"),
        pytest.param("", -9, "timeout", id="nothing, killed"),
        pytest.param("", 15, "other", id="nothing, fallen off the bus"),
        pytest.param("", 77, "other", id="nothing, status without a meaning"),
        pytest.param("The quick brown fox", 0, "garbled", id="something else"),
        pytest.param('{"gpus": []}', 0, "garbled", id="JSON"),
    ],
)
def test_messages_in_place_of_a_report(text: str, rc: t.Optional[int], kind: str) -> None:
    reading = nvidia_smi.parse(text, rc)
    assert (reading.gpus, reading.lost, reading.complete, reading.error_kind) == ((), (), False, kind)
    assert reading.error


def test_version_of_the_library_beside_a_mismatch() -> None:
    text = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.163\n"
    assert nvidia_smi.parse(text).nvml_version == "550.163"


def test_versions() -> None:
    text = "NVIDIA-SMI version  : 570.172.08\nNVML version        : 570.172\nDRIVER version      : 570.172.08\nCUDA Version        : 12.8\n"
    reading = nvidia_smi.parse(text)
    assert (reading.driver_version, reading.nvml_version, reading.cuda_version) == ("570.172.08", "570.172", "12.8")
    assert not reading.complete


@pytest.mark.parametrize("rc", [15, 255, 9, 1, -11])
def test_a_bad_exit_status_is_evidence_beside_a_good_report(rc: int) -> None:
    reading = nvidia_smi.parse(TEXT, rc)
    assert len(reading.gpus) == 2
    assert not reading.complete
    assert str(abs(rc)) in (reading.error or "")


@pytest.mark.parametrize(
    "text", [XML + "WARNING: infoROM is corrupted at gpu 0000:AB:00.0\n", "WARNING: infoROM is corrupted at gpu 0000:AB:00.0\n"]
)
def test_a_corrupt_inforom_is_an_error_of_its_gpu(text: str) -> None:
    (gpu,) = [gpu for gpu in nvidia_smi.parse(text).gpus if gpu.pci == "0000:ab:00"]
    assert gpu.errors == {"inforom": "infoROM is corrupted"}
    assert gpu.state == "error"


def test_two_forms_of_one_gpu_become_one() -> None:
    reading = nvidia_smi.parse(ROW + TEXT)
    assert [(gpu.index, gpu.pci, gpu.state) for gpu in reading.gpus] == [(0, "0000:2b:00", "ok"), (1, "0000:ab:00", "error")]
    assert (reading.gpus[1].uuid, reading.gpus[1].errors) == ("GPU-0a1b2c3d-0002-4000-8000-00000000c0de", {"fan_pct": "ERR!"})


def test_a_line_of_the_report_below_a_row_belongs_to_that_gpu() -> None:
    reading = nvidia_smi.parse(ROW + "    GPU Recovery Action                   : Reset\n")
    (gpu,) = reading.gpus
    assert (gpu.index, gpu.pci, gpu.recovery_action, gpu.state) == (1, "0000:ab:00", "Reset", "requires_reset")


def test_a_command_and_its_prompt_are_no_part_of_the_answer() -> None:
    reading = nvidia_smi.parse("root@node7:~# nvidia-smi -q\n" + TEXT)
    assert (reading.complete, reading.unrecognised) == (True, ())


def test_escape_sequences_are_no_part_of_the_answer() -> None:
    reading = nvidia_smi.parse("\x1b[1m" + TEXT.replace("Temperature", "\x1b[31mTemperature\x1b[0m"))
    assert reading.gpus == nvidia_smi.parse(TEXT).gpus


@pytest.mark.parametrize(
    ("text", "simulated"), [("# a simulated node\n" + TEXT, True), (TEXT, False), (TEXT.replace("HBM3\n", "HBM3 [simulated]\n"), True)]
)
def test_simulated(text: str, simulated: bool) -> None:
    assert nvidia_smi.parse(text).simulated is simulated


def values_of(gpu: Gpu) -> t.Iterator[t.Any]:
    for value in vars(gpu).values():
        yield from vars(value).values() if hasattr(value, "__dataclass_fields__") else (value,)


def check(reading: GpuReading, text: str) -> None:
    assert isinstance(reading, GpuReading)
    if "0" not in text:
        numbers = [value for gpu in reading.gpus for value in values_of(gpu) if isinstance(value, (int, float))]
        assert not [number for number in numbers if number == 0 and not isinstance(number, bool)]


WORDS = [line for text in (TEXT, XML, ROW) for line in text.split("\n")] + [
    "index, name",
    "[GPU is lost]",
    "\ufffd",
    "|",
    " : ",
    "<",
    ">",
    "/",
]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(WORDS) | st.text(max_size=20), max_size=30), st.sampled_from(["\n", "", " ", "|", "\r"]))
def test_no_text_raises_and_none_gives_a_zero_that_it_lacks(parts: t.List[str], glue: str) -> None:
    text = glue.join(parts)
    check(nvidia_smi.parse(text), text)


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([None, 0, 1, 15, -9]))
def test_no_bytes_raise(noise: bytes, rc: t.Optional[int]) -> None:
    nvidia_smi.parse(noise, rc)


@pytest.mark.parametrize("whole", [TEXT, XML], ids=["text", "xml"])
def test_spoilt_reports_raise_nothing_and_invent_no_gpu(whole: str) -> None:
    """Bytes lost, doubled and changed at random places."""
    dice = random.Random(570)
    for _dummy in range(15):
        spoilt = list(whole)
        for place in dice.sample(range(len(spoilt)), 12):
            spoilt[place] = dice.choice(["", "\ufffd", spoilt[place] * 2, dice.choice("<>:|/ x0\n")])
        reading = nvidia_smi.parse("".join(spoilt))
        if reading.complete:
            assert len(reading.gpus) == 2
