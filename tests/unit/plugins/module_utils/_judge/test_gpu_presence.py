# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import gpu as judge
from ansible_collections.kentino.gpu.plugins.module_utils._parse.gpu_records import Gpu, GpuReading
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._judge.gpu_cards import H100, RTX_5090, change, node, several, told

CARDS = several(RTX_5090, 8)  # 0000:10:00 to 0000:17:00
BY_NUMBER = {"psu_a": [0, 1, 2, 3], "psu_b": [4, 5, 6, 7]}
BY_ADDRESS = {
    "psu_a": ["0000:10:00", "0000:11:00", "0000:12:00", "0000:13:00"],
    "psu_b": ["0000:14:00", "0000:15:00", "0000:16:00", "0000:17:00"],
}


@pytest.mark.parametrize(
    ("kind", "source", "code", "verdict", "action", "words"),
    [
        ("missing_library", "nvml", "tool.missing", "unknown", "none", "python3-pynvml"),
        ("missing_tool", "nvidia-smi", "tool.missing", "unknown", "none", "nvidia-utils"),
        ("timeout", "nvml", "tool.timeout", "unknown", "reboot_node", "unresponsive"),
        ("garbled", "nvidia-smi xml", "tool.garbled", "unknown", "none", "cannot be understood"),
        ("version_mismatch", "nvml", "nvml.version_mismatch", "unknown", "reboot_node", "old one is still loaded"),
        ("driver_not_loaded", "nvidia-smi text", "driver.not_loaded", "unknown", "reboot_node", "not loaded"),
        ("permission", "nvml", "nvml.permission", "unknown", "none", "root"),
        ("init_failed", "nvml", "nvml.init_failed", "unknown", "reboot_node", "initialised"),
        ("other", "nvml", "nvml.error", "unknown", "none", "could not be read"),
        ("a kind of tomorrow", "nvml", "nvml.error", "unknown", "none", "could not be read"),
    ],
)
def test_a_reading_that_failed_leaves_the_gpus_undetermined(
    kind: str, source: str, code: str, verdict: str, action: str, words: str
) -> None:
    (finding,) = judge.judge(GpuReading(source, error_kind=kind, error="as the tool said"), {"count": 8}, {})
    assert (finding.code, finding.verdict, finding.action) == (code, verdict, action)
    assert words in finding.message + finding.advice
    assert finding.evidence == ("as the tool said",)


@pytest.mark.parametrize(("source", "name"), [("nvml", "pynvml"), ("nvidia-smi xml", "nvidia-smi"), ("nvidia-smi", "nvidia-smi")])
def test_a_failed_tool_is_the_subject(source: str, name: str) -> None:
    (finding,) = judge.judge(GpuReading(source, error_kind="timeout"), {}, {})
    assert (finding.subject.kind, finding.subject.name, finding.evidence) == ("tool", name, ())


def test_faults_in_the_part_that_was_read_before_a_timeout_count() -> None:
    reading = GpuReading("nvidia-smi text", (change(H100, recovery_action="Reset"),), error_kind="timeout")
    assert told(judge.judge(reading, {"count": 8}, {})) == [
        ("tool.timeout", "unknown", "reboot_node"),
        ("gpu.reset_required", "fail", "reset_gpu"),
    ]


NO_DEVICES = GpuReading("nvml", error_kind="no_devices", error="No devices were found")


@pytest.mark.parametrize(
    ("reading", "expected", "findings"),
    [
        pytest.param(NO_DEVICES, {}, [("gpu.none", "fail", "reseat")], id="no devices, number not given"),
        pytest.param(NO_DEVICES, {"count": 8}, [("gpu.none", "fail", "reseat")], id="no devices, eight expected"),
        pytest.param(NO_DEVICES, {"count": 0}, [], id="no devices, none expected"),
        pytest.param(GpuReading("nvml", attached=0, complete=True), {}, [("gpu.none", "fail", "reseat")], id="driver counts none"),
        pytest.param(GpuReading("nvml", attached=0, complete=True), {"count": 0}, [], id="driver counts none, none expected"),
        pytest.param(GpuReading("nvidia-smi text"), {}, [("gpu.none", "unknown", "none")], id="empty output"),
        pytest.param(GpuReading("nvidia-smi text"), {"count": 0}, [("gpu.none", "unknown", "none")], id="empty output, none expected"),
        pytest.param(GpuReading("nvidia-smi csv", complete=True), {}, [("gpu.none", "unknown", "none")], id="a header and no row"),
    ],
)
def test_no_gpu_at_all(reading: GpuReading, expected: t.Dict[str, t.Any], findings: t.List[t.Any]) -> None:
    assert told(judge.judge(reading, expected, {})) == findings


def test_output_cut_off_is_one_undetermined_finding() -> None:
    reading = node(*several(RTX_5090, 3), attached=None, complete=False, unrecognised=("    FB Mem",))
    (finding,) = judge.judge(reading, {}, {})
    assert (finding.code, finding.verdict, finding.evidence) == ("gpu.incomplete", "unknown", ("    FB Mem",))
    assert finding.message.endswith("GPUs read: 3")


@pytest.mark.parametrize(
    ("reading", "expected", "findings"),
    [
        pytest.param(node(*CARDS[:7]), {"count": 8}, [("gpu.count", "fail", "reseat")], id="fewer than the inventory says"),
        pytest.param(
            node(*CARDS[:7], attached=8, complete=False),
            {},
            [("gpu.incomplete", "unknown", "none"), ("gpu.count", "fail", "reseat")],
            id="fewer than the driver says",
        ),
        pytest.param(node(*CARDS), {"count": 4}, [("gpu.count", "warn", "none")], id="more than expected"),
        pytest.param(node(*CARDS[:7]), {}, [], id="number not given"),
        pytest.param(node(*CARDS[:7], lost=("0000:17:00",)), {"count": 8}, [("gpu.lost", "fail", "reseat")], id="the missing one is lost"),
        pytest.param(
            node(*CARDS[:6], lost=("0000:17:00",)),
            {"count": 8},
            [("gpu.count", "fail", "reseat"), ("gpu.lost", "fail", "reseat")],
            id="one lost and one missing",
        ),
        pytest.param(
            GpuReading("nvidia-smi text", lost=("0000:09:00", "000:ba:80")),
            {"count": 8},
            [("gpu.incomplete", "unknown", "none"), ("gpu.lost", "fail", "reseat"), ("gpu.lost", "fail", "reseat")],
            id="nvidia-smi lists the lost alone",
        ),
    ],
)
def test_count(reading: GpuReading, expected: t.Dict[str, t.Any], findings: t.List[t.Any]) -> None:
    assert sorted(told(judge.judge(reading, expected, {}))) == sorted(findings)


@pytest.mark.parametrize(
    ("key", "attribute"),
    [("uuids", "uuid"), ("serials", "serial")],
)
def test_missing_cards_are_named_as_the_inventory_names_them(key: str, attribute: str) -> None:
    cards = several(H100, 8)
    names = [getattr(card, attribute) for card in cards]
    finding = next(one for one in judge.judge(node(*cards[:6]), {key: names}, {}) if one.code == "gpu.count")
    assert finding.evidence == tuple(names[6:])
    assert finding.message == "6 of 8 GPUs answer; missing: %s, %s" % (names[6], names[7])


def test_a_missing_card_is_named_by_its_address() -> None:
    (finding,) = judge.judge(node(*CARDS[:7]), {"count": 8, "power_domains": BY_ADDRESS}, {})
    assert (finding.code, finding.evidence) == ("gpu.count", ("0000:17:00",))


def test_a_card_missing_by_uuid_and_by_address_is_one_card() -> None:
    expected = {"count": 8, "power_domains": BY_ADDRESS, "uuids": [card.uuid for card in CARDS]}
    (finding,) = judge.judge(node(*CARDS[:7]), expected, {})
    assert finding.message == "7 of 8 GPUs answer; missing: 0000:17:00"


def test_a_swapped_card_is_unexpected_and_none_is_missing() -> None:
    expected = {"count": 8, "uuids": [card.uuid for card in CARDS[:7]] + ["GPU-of-the-old-card"]}
    assert told(judge.judge(node(*CARDS), expected, {})) == [("gpu.unexpected", "warn", "none")]


def test_a_lost_gpu_keeps_the_names_it_is_known_by() -> None:
    (finding,) = judge.judge(node(change(H100, state="lost")), {}, {})
    assert (finding.subject.serial, finding.subject.pci, finding.code) == (H100.serial, H100.pci, "gpu.lost")


def test_a_lost_gpu_with_no_name_at_all_is_found() -> None:
    assert told(judge.judge(GpuReading("nvml", (Gpu(state="lost"),), complete=True), {}, {})) == [("gpu.lost", "fail", "reseat")]


@pytest.mark.parametrize("domains", [BY_NUMBER, BY_ADDRESS], ids=["by number", "by address"])
def test_four_lost_gpus_on_one_supply_are_one_supply(domains: t.Dict[str, t.Any]) -> None:
    # NVML numbers the four that are left 0 to 3 again.
    left = tuple(change(card, index=number) for number, card in enumerate(CARDS[4:]))
    reading = node(*left, attached=8, lost=("0000:10:00", "0000:11:00", "0000:12:00", "0000:13:00"))
    (finding,) = judge.judge(reading, {"count": 8, "power_domains": domains}, {})
    assert (finding.code, finding.verdict, finding.action) == ("psu.lost", "fail", "check_power")
    assert (finding.subject.kind, finding.subject.name) == ("psu", "psu_a")
    assert "0000:10:00" in finding.message


def test_four_unlisted_gpus_on_one_supply_are_one_supply() -> None:
    (finding,) = judge.judge(node(*CARDS[4:]), {"count": 8, "power_domains": BY_ADDRESS}, {})
    assert (finding.code, finding.subject.name, finding.action) == ("psu.lost", "psu_a", "check_power")


def test_lost_states_count_like_lost_addresses() -> None:
    cards = [change(card, state="lost") if card.index in (4, 5, 6, 7) else card for card in CARDS]
    (finding,) = judge.judge(node(*cards), {"power_domains": BY_NUMBER}, {})
    assert (finding.code, finding.subject.name) == ("psu.lost", "psu_b")


def test_gpus_lost_beside_a_lost_supply_are_told_apart() -> None:
    reading = node(*CARDS[4:7], lost=(*BY_ADDRESS["psu_a"], "0000:17:00"))
    findings = judge.judge(reading, {"count": 8, "power_domains": BY_ADDRESS}, {})
    assert [(one.code, one.subject.name or one.subject.pci) for one in findings] == [("psu.lost", "psu_a"), ("gpu.lost", "0000:17:00")]


def test_half_of_a_supply_is_no_lost_supply_but_points_to_it() -> None:
    (finding,) = judge.judge(node(*CARDS[2:]), {"count": 8, "power_domains": BY_ADDRESS}, {})
    assert (finding.code, finding.action) == ("gpu.count", "check_power")
    assert "psu_a" in finding.advice


def test_numbers_prove_nothing_while_addresses_are_missing_but_point_to_a_supply() -> None:
    left = tuple(change(card, index=number) for number, card in enumerate(CARDS[4:]))
    (finding,) = judge.judge(node(*left), {"count": 8, "power_domains": BY_NUMBER}, {})
    assert (finding.code, finding.action) == ("gpu.count", "check_power")
    assert "which ones is not known" in finding.message


def test_one_gpu_alone_on_its_supply_is_a_lost_gpu() -> None:
    reading = node(*CARDS[1:], lost=("0000:10:00",))
    assert told(judge.judge(reading, {"power_domains": {"a": [0], "b": [1, 2]}}, {})) == [("gpu.lost", "fail", "reseat")]


def test_a_domain_member_that_does_not_exist_is_no_lost_supply() -> None:
    assert told(judge.judge(node(*CARDS), {"power_domains": {"a": [8, 9]}}, {})) == []


def test_cards_missing_from_two_supplies_point_to_none() -> None:
    (finding,) = judge.judge(node(*CARDS[1:7]), {"count": 8, "power_domains": BY_ADDRESS}, {})
    assert (finding.code, finding.action, finding.evidence) == ("gpu.count", "reseat", ("0000:10:00", "0000:17:00"))


def test_what_a_hung_tool_did_not_come_to_is_not_missing() -> None:
    reading = GpuReading("nvidia-smi text", CARDS[:3], error_kind="timeout")
    expected = {"count": 8, "power_domains": BY_ADDRESS, "uuids": [card.uuid for card in CARDS]}
    assert told(judge.judge(reading, expected, {})) == [("tool.timeout", "unknown", "reboot_node")]
