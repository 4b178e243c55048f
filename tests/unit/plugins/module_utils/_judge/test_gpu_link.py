# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import gpu as judge
from ansible_collections.kentino.gpu.plugins.module_utils._parse.gpu_records import Gpu, NvLink
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._judge.gpu_cards import (
    H100,
    QUIET,
    RTX_5090,
    T4,
    change,
    node,
    of_one,
    several,
    told,
)

WIDTH_BAD = [("gpu.pcie_width", "fail", "reseat")]
WIDTH_ODD = [("gpu.pcie_width", "warn", "reseat")]
GEN_BAD = [("gpu.pcie_gen", "fail", "reseat")]
GEN_ODD = [("gpu.pcie_gen", "warn", "reseat")]
NO_MODEL = {"device_id": "10de:0fff"}
LOADED = {"performance_state": "P0", "utilisation_pct": 97, "event_reasons": dict(QUIET, idle=False)}
DOWN = [("gpu.nvlink_down", "fail", "reset_gpu")]
FABRIC = [("gpu.fabric", "fail", "reboot_node")]
FABRIC_UNKNOWN = [("gpu.fabric", "unknown", "none")]


@pytest.mark.parametrize(
    ("facts", "expected", "findings"),
    [
        pytest.param({"pcie_width": 4}, {"pcie_width": 16}, WIDTH_BAD, id="x4, x16 expected"),
        pytest.param({"pcie_width": 8, "pcie_width_max": 8}, {"pcie_width": 16}, WIDTH_BAD, id="a slot of x8, x16 expected"),
        pytest.param({"pcie_width": 8}, {"pcie_width": 8}, [], id="x8 expected and found, the card could do x16"),
        pytest.param({"pcie_width": 16}, {"pcie_width": 8}, [], id="wider than expected"),
        pytest.param({"pcie_width": 8}, {}, WIDTH_BAD, id="x8 of a model with x16"),
        pytest.param({"pcie_width": 8, "pcie_width_max": None}, {}, WIDTH_BAD, id="x8 of a model with x16, possible width not told"),
        pytest.param({"pcie_width": 8, "pcie_width_max": 8}, {}, WIDTH_ODD, id="x8 because the slot has no more"),
        pytest.param({"pcie_width": 8, **NO_MODEL}, {}, WIDTH_ODD, id="an unknown model below what is possible"),
        pytest.param({"pcie_width": 8, "pcie_width_max": 8, **NO_MODEL}, {}, [], id="an unknown model at what is possible"),
        pytest.param({"pcie_width": None, "unsupported": RTX_5090.unsupported | {"pcie_width"}}, {}, [], id="not supported"),
    ],
)
def test_width(facts: t.Dict[str, t.Any], expected: t.Dict[str, t.Any], findings: t.List[t.Any]) -> None:
    assert of_one(change(RTX_5090, **facts), expected) == findings


def test_a_width_below_that_of_the_siblings_is_named_though_the_model_is_unknown() -> None:
    first, *rest = several(change(RTX_5090, **NO_MODEL), 4)
    (finding,) = judge.judge(node(change(first, pcie_width=4), *rest), {}, {})
    assert (finding.code, finding.verdict) == ("gpu.pcie_width", "fail")
    assert finding.message == "link width x4, its siblings have x16"


@pytest.mark.parametrize(
    ("facts", "expected", "findings"),
    [
        pytest.param({"pcie_gen": 1}, {}, [], id="slow at idle"),
        pytest.param({"pcie_gen": 1}, {"pcie_gen": 5}, [], id="slow at idle, generation 5 expected"),
        pytest.param({"pcie_gen": 3, **LOADED}, {}, GEN_ODD, id="slow under load"),
        pytest.param({"pcie_gen": 3, **LOADED}, {"pcie_gen": 4}, GEN_ODD, id="slower under load than expected"),
        pytest.param({"pcie_gen": 4, **LOADED}, {"pcie_gen": 4}, [], id="as expected under load, though more is possible"),
        pytest.param({"pcie_gen": 3, **LOADED, "performance_state": "P2"}, {}, [], id="not in P0"),
        pytest.param({"pcie_gen": 3, **LOADED, "utilisation_pct": 0}, {}, [], id="no load"),
        pytest.param({"pcie_gen": 3, **LOADED, "utilisation_pct": None}, {}, [], id="load not told"),
        pytest.param({"pcie_gen": 3, **LOADED, "event_reasons": QUIET}, {}, [], id="idle by its own word"),
        pytest.param({"pcie_gen_max": 4}, {"pcie_gen": 5}, GEN_BAD, id="generation 5 expected and out of reach"),
        pytest.param({"pcie_gen_max": 4}, {"pcie_gen": 4}, [], id="generation 4 expected and possible"),
        pytest.param({"pcie_gen_max": 4}, {}, [], id="an older host"),
    ],
)
def test_generation(facts: t.Dict[str, t.Any], expected: t.Dict[str, t.Any], findings: t.List[t.Any]) -> None:
    assert of_one(change(RTX_5090, **facts), expected) == findings


def test_an_older_host_is_told() -> None:
    (finding,) = judge.judge(node(change(RTX_5090, pcie_gen_max=4)), {}, {})
    assert (finding.code, finding.severity) == ("gpu.pcie_gen", "info")


def test_a_slot_slower_than_the_others_is_found() -> None:
    first, *rest = several(RTX_5090, 4)
    assert told(judge.judge(node(change(first, pcie_gen_max=3), *rest), {}, {})) == GEN_ODD


MINUTE = 60_000_000
REPLAYS = [("gpu.pcie_replays", "warn", "reseat")]


@pytest.mark.parametrize(
    ("card", "before", "now", "elapsed", "severity"),
    [
        # Generation 5, 16 lanes: 1.92 x 16 rounded up is 31 a minute. Generation 4: 16. Generation 3: 8.
        pytest.param(RTX_5090, 100, 131, MINUTE, None, id="31 in a minute, generation 5"),
        pytest.param(RTX_5090, 100, 132, MINUTE, "warning", id="32 in a minute, generation 5"),
        pytest.param(change(RTX_5090, pcie_gen=4, pcie_gen_max=4), 100, 117, MINUTE, "warning", id="17 in a minute, generation 4"),
        pytest.param(T4, 0, 8, MINUTE, None, id="8 in a minute, generation 3"),
        pytest.param(T4, 0, 9, MINUTE, "warning", id="9 in a minute, generation 3"),
        pytest.param(change(RTX_5090, pcie_width=8, pcie_width_max=8), 0, 17, MINUTE, "warning", id="17 in a minute, 8 lanes"),
        pytest.param(RTX_5090, 0, 300, 10 * MINUTE, None, id="300 in ten minutes"),
        pytest.param(RTX_5090, 0, 320, 10 * MINUTE, "warning", id="320 in ten minutes"),
        pytest.param(RTX_5090, 0, 20, 1_000_000, None, id="20 in a second are less than a minute may have"),
        pytest.param(RTX_5090, 5000, 40, MINUTE, "warning", id="counter reset in between, 40 since"),
        pytest.param(RTX_5090, 5000, 10, MINUTE, None, id="counter reset in between, 10 since"),
        pytest.param(RTX_5090, 0, 500, None, "info", id="time not known"),
        pytest.param(RTX_5090, 0, 500, -5, "info", id="clock went back"),
        pytest.param(change(RTX_5090, pcie_gen_max=9), 0, 500, MINUTE, "info", id="a generation without a limit"),
        pytest.param(RTX_5090, 500, 500, MINUTE, None, id="no growth"),
        pytest.param(RTX_5090, None, 20, MINUTE, None, id="no earlier count, few"),
        pytest.param(RTX_5090, None, 120, MINUTE, "info", id="no earlier count, many"),
    ],
)
def test_replays(card: Gpu, before: t.Optional[int], now: int, elapsed: t.Optional[int], severity: t.Optional[str]) -> None:
    earlier: t.Dict[t.Any, t.Any] = {} if before is None else {card.uuid: {"pcie_replays": before, "usec": 7}}
    now_usec = None if elapsed is None else 7 + elapsed
    findings = judge.judge(node(change(card, pcie_replays=now), driver_version="550.1"), {}, {}, earlier=earlier, now_usec=now_usec)
    found = [one.severity for one in findings if one.code == "gpu.pcie_replays"]
    assert found == ([] if severity is None else [severity])


def test_earlier_counters_may_be_kept_by_serial() -> None:
    earlier: t.Dict[t.Any, t.Any] = {H100.serial: {"pcie_replays": 0, "usec": 0}}
    findings = judge.judge(node(change(H100, pcie_replays=900)), {}, {}, earlier=earlier, now_usec=MINUTE)
    assert told(findings) == REPLAYS
    assert "900 PCIe replays a minute" in findings[0].message
    assert "31 allowed" in findings[0].message


def _links(active: int, total: int = 18) -> t.Tuple[NvLink, ...]:
    return tuple(NvLink(link, link < active) for link in range(total))


@pytest.mark.parametrize(
    ("count", "facts", "expected", "findings"),
    [
        pytest.param(2, {"nvlinks": _links(17)}, {}, DOWN, id="one of 18 down"),
        pytest.param(2, {"nvlinks": _links(12, 12)}, {}, DOWN, id="six of 18 not listed"),
        pytest.param(2, {"nvlinks": _links(0)}, {}, DOWN, id="all down"),
        pytest.param(1, {"nvlinks": _links(0)}, {}, [], id="all down in a machine with one GPU"),
        pytest.param(1, {"nvlinks": _links(0)}, {"nvlinks": 18}, DOWN, id="all down in a machine with one GPU, 18 expected"),
        pytest.param(2, {"nvlinks": _links(12)}, {"nvlinks": 12}, [], id="12 expected"),
        pytest.param(2, {"nvlinks": ()}, {}, [], id="links not told"),
        pytest.param(
            2, {"nvlinks": (), "unsupported": frozenset({"nvlinks"})}, {"nvlinks": 18}, DOWN, id="links not supported, 18 expected"
        ),
        pytest.param(2, {"nvlinks": (), "unsupported": frozenset({"nvlinks"})}, {"nvlinks": 0}, [], id="links not supported, 0 expected"),
    ],
)
def test_nvlinks(count: int, facts: t.Dict[str, t.Any], expected: t.Dict[str, t.Any], findings: t.List[t.Any]) -> None:
    first, *rest = several(H100, count)
    assert told(judge.judge(node(change(first, **facts), *rest), expected, {}))[:1] == findings


def test_links_that_the_source_does_not_list_are_told_as_such() -> None:
    cards = [change(card, nvlinks=()) for card in several(H100, 2)]
    findings = judge.judge(node(*cards, source="nvidia-smi xml"), {}, {})
    assert [(one.code, one.severity) for one in findings] == [("gpu.nvlink_unread", "info")] * 2


@pytest.mark.parametrize(
    ("active", "expected", "findings"),
    [
        pytest.param((12, 12, 8), {}, [("gpu.nvlink_down", "warn", "reseat")], id="a bridge of three with a dead one"),
        pytest.param((12, 12, 0), {}, [], id="two of three bridged"),
        pytest.param((12, 12, 8), {"nvlinks": 12}, [("gpu.nvlink_down", "fail", "reseat")], id="12 expected"),
    ],
)
def test_bridged_cards(active: t.Tuple[int, ...], expected: t.Dict[str, t.Any], findings: t.List[t.Any]) -> None:
    bridged = several(change(H100, device_id="10de:2331", fabric_state=None, unsupported=frozenset({"fabric_state"})), len(active))
    cards = [change(card, nvlinks=_links(number)) for card, number in zip(bridged, active)]
    assert told(judge.judge(node(*cards), expected, {})) == findings


ERRORS = [("gpu.nvlink_errors", "warn", "contact_vendor")]


@pytest.mark.parametrize(
    ("name", "before", "now", "seconds", "findings"),
    [
        pytest.param("crc_errors", 0, 990, 10, [], id="99 CRC errors a second"),
        pytest.param("crc_errors", 0, 1000, 10, ERRORS, id="100 CRC errors a second"),
        pytest.param("crc_errors", 0, 1, None, ERRORS, id="a CRC error, time not known"),
        pytest.param("replay_errors", 4, 5, 3600, ERRORS, id="a replay in an hour"),
        pytest.param("recovery_errors", 4, 5, 3600, ERRORS, id="a recovery in an hour"),
        pytest.param("recovery_errors", 5, 5, 3600, [], id="old recoveries"),
    ],
)
def test_nvlink_errors(name: str, before: int, now: int, seconds: t.Optional[int], findings: t.List[t.Any]) -> None:
    old = change(H100, nvlinks=(change(H100.nvlinks[0], **{name: before}), *H100.nvlinks[1:]))
    new = change(H100, nvlinks=(change(H100.nvlinks[0], **{name: now}), *H100.nvlinks[1:]))
    now_usec = None if seconds is None else 1 + seconds * 1_000_000
    assert of_one(new, earlier=judge.counters(node(old), 1), now_usec=now_usec) == findings


@pytest.mark.parametrize(
    ("count", "facts", "expected", "findings"),
    [
        pytest.param(8, {"fabric_state": "completed", "fabric_status": "SUCCESS"}, {}, [], id="joined, in other letters"),
        pytest.param(8, {"fabric_state": "In Progress", "fabric_status": "Success"}, {}, FABRIC, id="in progress"),
        pytest.param(8, {"fabric_state": "Not Started", "fabric_status": None}, {}, FABRIC, id="not started"),
        pytest.param(8, {"fabric_status": "Insufficient Resources"}, {}, FABRIC, id="completed with an error"),
        pytest.param(8, {"fabric_state": "Wandering"}, {}, FABRIC, id="a word of tomorrow"),
        pytest.param(8, {"fabric_state": "N/A", "fabric_status": "N/A"}, {}, FABRIC, id="none on a board of eight"),
        pytest.param(4, {"fabric_state": "N/A", "fabric_status": "N/A"}, {}, [], id="none on a board of four, joined directly"),
        pytest.param(4, {"fabric_state": "N/A"}, {"fabric": True}, FABRIC, id="none on a board of four, expected"),
        pytest.param(1, {"fabric_state": None, "unsupported": frozenset({"fabric_state"})}, {"fabric": True}, FABRIC, id="not supported"),
        pytest.param(8, {"fabric_state": "In Progress"}, {"fabric": False}, [], id="not wanted"),
        pytest.param(8, {"fabric_state": None}, {}, FABRIC_UNKNOWN, id="not told"),
        pytest.param(8, {"fabric_status": None}, {}, FABRIC_UNKNOWN, id="status not told"),
        pytest.param(8, {"fabric_status": None, "unsupported": frozenset({"fabric_status"})}, {}, FABRIC, id="status not supported"),
        pytest.param(8, {"fabric_state": None, **NO_MODEL}, {}, [], id="not told by an unknown model"),
        pytest.param(8, {"fabric_state": None, **NO_MODEL}, {"fabric": True}, FABRIC_UNKNOWN, id="not told by an unknown model, expected"),
        pytest.param(8, {"fabric_state": "In Progress", **NO_MODEL}, {}, FABRIC, id="told by an unknown model"),
        pytest.param(8, {"fabric_health": "Healthy"}, {}, [], id="healthy"),
        pytest.param(8, {"fabric_health": "Limited Capacity"}, {}, [("gpu.fabric", "warn", "reset_gpu")], id="limited"),
        pytest.param(8, {"fabric_health": "Unhealthy"}, {}, [("gpu.fabric", "fail", "reset_gpu")], id="unhealthy"),
    ],
)
def test_fabric(count: int, facts: t.Dict[str, t.Any], expected: t.Dict[str, t.Any], findings: t.List[t.Any]) -> None:
    first, *rest = several(H100, count)
    assert told(judge.judge(node(change(first, **facts), *rest), expected, {})) == findings


def test_the_fabric_finding_says_what_would_follow() -> None:
    (finding,) = judge.judge(node(change(H100, fabric_state="In Progress")), {}, {})
    assert "CUDA error 802" in finding.message
    assert "Fabric Manager" in finding.advice


def test_an_a100_board_has_switches_and_tells_no_state() -> None:
    links = tuple(NvLink(link, True) for link in range(12))
    cards = several(change(H100, device_id="10de:20b2", pcie_gen=4, pcie_gen_max=4, fabric_state="N/A", nvlinks=links), 8)
    assert told(judge.judge(node(*cards), {}, {})) == []
