# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse import gpu_values as values
from ansible_collections.kentino.gpu.plugins.module_utils._parse.gpu_draft import Draft
from ansible_collections.kentino.gpu.plugins.module_utils._parse.gpu_records import EccCounters
from ansible_collections.kentino.gpu.plugins.module_utils._parse.gpu_values import Failed, Unsupported
from hypothesis import given, settings
from hypothesis import strategies as st

PARITY, SECDED, DEVICE = "sram_uncorrectable_parity", "sram_uncorrectable_secded", "double_bit.device_memory"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        pytest.param("00000000:CC:00.0", "0000:cc:00", id="8-digit domain of nvidia-smi"),
        pytest.param("0000:b1:00.0", "0000:b1:00", id="4-digit domain of the kernel"),
        pytest.param("PCI:0000:09:00", "0000:09:00", id="Xid line"),
        pytest.param("0A:1F.7", "0000:0a:1f", id="no domain"),
        pytest.param("00010000:01:00.0", "10000:01:00", id="domain beyond 4 digits (VMD)"),
        pytest.param(" 000:BA:80.0 ", "000:BA:80.0", id="3-digit domain, device 80: kept as found"),
        pytest.param("0000:BA:20.0", "0000:BA:20.0", id="device above 1f: kept as found"),
        pytest.param("******", "******", id="blacked out: kept as found"),
    ],
)
def test_pci_address(text: str, address: str) -> None:
    assert values.pci_address(text) == address


@pytest.mark.parametrize(
    "text",
    ["N/A", "[N/A]", "[Not Supported]", "Not Supported", "Requested functionality has been deprecated", "Function Not Found"],
)
def test_not_supported_is_its_own_type(text: str) -> None:
    assert isinstance(values.count(text), Unsupported)
    assert isinstance(values.flag(text), Unsupported)
    assert isinstance(values.words(text), Unsupported)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ERR!", "error"),
        ("[Unknown Error]", "error"),
        ("System is not in ready state", "error"),
        ("[GPU requires reset]", "reset"),
        ("GPU requires restart", "reset"),
        ("[GPU is lost]", "lost"),
        ("[Insufficient Permissions]", "permission"),
        ("Corrupted infoROM", "error"),
    ],
)
def test_an_error_is_its_own_type(text: str, kind: str) -> None:
    for reading in (values.whole(text, "C"), values.mebibytes(text), values.flag(text), values.words(text)):
        assert isinstance(reading, Failed)
        assert reading.kind == kind
        assert reading.text == text


@pytest.mark.parametrize(
    ("reading", "value"),
    [
        (values.whole("-8 C", "C"), -8),
        (values.whole("68", "C"), 68),
        (values.decimal("612.34 W", "W"), 612.34),
        (values.count("639 bank(s)", "bank(s)"), 639),
        (values.link_width("16x"), 16),
        (values.link_width("8"), 8),
        (values.mebibytes("81559 MiB"), 81559),
        (values.mebibytes("2.5 GiB"), 2560),
        (values.flag("Not Active"), False),
        (values.flag("Enabled*"), True),
        (values.flag_or_bit("1"), True),
        (values.words("None"), "None"),
        (values.performance_state("P8"), "P8"),
        (values.pci_id("0x233010DE"), "10de:2330"),
        (values.pci_id("16C110DE"), "10de:16c1"),
    ],
)
def test_values(reading: values.Reading, value: object) -> None:
    assert reading == value
    assert type(reading) is type(value)


@pytest.mark.parametrize(
    "reading",
    [
        values.whole("31 F", "C"),
        values.whole("3l C", "C"),
        values.whole("", "C"),
        values.count("-1"),
        values.count("1.5"),
        values.count("9" * 5000),
        values.flag("Enab"),
        values.flag("1"),
        values.mebibytes("12 parsecs"),
        values.words("  "),
        values.performance_state("P"),
        values.pci_id("0x2330"),
    ],
)
def test_what_is_not_a_value_is_unreadable_and_never_zero(reading: values.Reading) -> None:
    assert isinstance(reading, Failed)
    assert reading.kind == "unreadable"


@settings(max_examples=60)
@given(st.text(max_size=40))
def test_no_text_raises_and_none_without_a_zero_reads_as_zero(text: str) -> None:
    for read in (values.count, values.flag, values.words, values.mebibytes, values.address, values.pci_id, values.link_width):
        reading = read(text)
        if reading == 0 and not isinstance(reading, bool):
            assert "0" in text
        if reading is False:
            assert text.strip().strip("[]*").strip().lower() in {"no", "disabled", "not active", "inactive", "off", "false"}


def test_a_value_beats_not_supported_and_leaves_errors_standing() -> None:
    draft = Draft()
    draft.put("power_watts", "N/A")
    draft.put("power_watts/1", "Unknown Error")
    draft.put("power_watts/2", "66.84 W")
    gpu = draft.gpu()
    assert gpu.power_watts == 66.84
    assert gpu.unsupported == frozenset()
    assert gpu.errors == {"power_watts": "Unknown Error"}


def test_a_record_of_which_nothing_is_supported_is_named_as_a_whole() -> None:
    draft = Draft()
    for part in ("correctable", "uncorrectable", "pending", "failure"):
        draft.put("remapped." + part, "N/A")
    draft.put("retired.single_bit", "0")
    draft.put("retired.pending", "N/A")
    gpu = draft.gpu()
    assert gpu.remapped is None
    assert gpu.unsupported == {"remapped", "retired.pending"}


@pytest.mark.parametrize(
    ("parts", "counters"),
    [
        pytest.param({PARITY: "2", SECDED: "3"}, EccCounters(sram_uncorrectable=5), id="Hopper sums"),
        pytest.param({PARITY: "2", SECDED: "N/A"}, EccCounters(sram_uncorrectable=2), id="one of two"),
        pytest.param({PARITY: "N/A", SECDED: "N/A"}, None, id="neither"),
        pytest.param({"uncorrectable": "0"}, EccCounters(None, 0, None, 0, None, 0), id="a sum of zero: both are zero"),
        pytest.param({"uncorrectable": "4"}, EccCounters(uncorrectable=4), id="a sum tells not which"),
        pytest.param({"uncorrectable": "0", "sram_uncorrectable": "N/A"}, EccCounters(None, None, None, 0, None, 0), id="N/A stays N/A"),
        pytest.param({DEVICE: "1", "double_bit.total": "4"}, EccCounters(None, 3, None, 1, None, 4), id="Volta: rest is on chip"),
    ],
)
def test_ecc_sums(parts: dict, counters: object) -> None:
    draft = Draft()
    for part, text in parts.items():
        draft.put("ecc_volatile." + part, text)
    assert draft.gpu().ecc_volatile == counters


@pytest.mark.parametrize(
    ("texts", "state"),
    [
        pytest.param({"temperature_c": "40 C"}, "ok", id="named and measured"),
        pytest.param({"vbios": "1"}, None, id="named only"),
        pytest.param({"fan_pct": "ERR!"}, "error", id="an error"),
        pytest.param({"fan_pct": "ERR!", "recovery_action": "Reset"}, "requires_reset", id="reset beats error"),
        pytest.param({"temperature_c": "[GPU requires reset]"}, "requires_reset", id="said in place of a value"),
        pytest.param({"drain_reset_recommended": "Yes"}, "requires_reset", id="drain and reset"),
        pytest.param({"recovery_action": "Drain P2P", "temperature_c": "40 C"}, "error", id="other recovery action"),
        pytest.param({"recovery_action": "None", "temperature_c": "40 C"}, "ok", id="recovery action None"),
        pytest.param({"recovery_action": "Reset", "serial": "GPU is lost"}, "lost", id="lost beats all"),
        pytest.param({"temperature_c": "4\ufffd C", "utilisation_pct": "5 %"}, None, id="unreadable value"),
        pytest.param({"serial": "", "temperature_c": "40 C"}, "ok", id="unreadable name"),
        pytest.param({"serial": "Insufficient Permissions", "temperature_c": "40 C"}, "ok", id="not allowed"),
    ],
)
def test_state(texts: dict, state: object) -> None:
    draft = Draft()
    draft.put("pci", "0000:01:00.0")
    for name, text in texts.items():
        draft.put(name, text)
    assert draft.gpu().state == state


def test_a_gpu_without_a_name_is_never_ok() -> None:
    draft = Draft()
    draft.put("temperature_c", "40 C")
    assert draft.gpu().state is None
