# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._knowledge import actions, codes, kernel_events, kernel_log_limits, sxid_catalogue
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import ACTIONS, SEVERITIES


def test_every_action_word_has_one_sentence_in_the_order_of_urgency() -> None:
    assert tuple(actions.SENTENCES) == ACTIONS
    for sentence in actions.SENTENCES.values():
        assert re.match(r"[A-Z].*\.$", sentence)


def test_reseating_comes_before_any_return() -> None:
    assert "no RMA before that" in actions.sentence("reseat")


def test_unknown_action_word_is_given_back() -> None:
    assert actions.sentence("dance") == "dance"


@pytest.mark.parametrize(
    ("sxid", "symbol", "harmless", "known"),
    [
        (20034, "NVSWITCH_DLPL", False, True),
        (12028, "NVSWITCH_EGRESS", False, True),
        (11012, "NVSWITCH_INGRESS", True, True),
        (22013, "NVSWITCH_MINION", True, True),
        (24002, "NVSWITCH_SOURCETRACK", True, True),
        (24007, "NVSWITCH_SOURCETRACK", False, True),
        (30999, "NVSWITCH_REDUCTIONTSTATE", False, True),
        (31000, "", False, False),
        (99, "", False, False),
    ],
)
def test_sxid_by_family_and_harmless_list(sxid: int, symbol: str, harmless: bool, known: bool) -> None:
    entry = sxid_catalogue.lookup(sxid)

    assert (entry.number, entry.symbol, entry.harmless, entry.known) == (sxid, symbol, harmless, known)
    assert entry.action in ACTIONS
    assert entry.later_action in ACTIONS


def test_families_cover_the_thousands_without_a_gap() -> None:
    assert [family[0] for family in sxid_catalogue.FAMILIES] == list(range(10000, 31000, 1000))


def test_the_harmless_list_is_that_of_the_fabric_manager_guide() -> None:
    assert len(sxid_catalogue.HARMLESS) == 20
    for sxid in sxid_catalogue.HARMLESS:
        assert sxid_catalogue.lookup(sxid).note


@pytest.mark.parametrize(
    ("code", "beginning"),
    [
        ("gpu.pcie_width", "gpu.pcie_width"),
        ("gpu.sram_threshold", "gpu.sram"),
        ("gpu.retired_pages_pending", "gpu.retired_pages_pending"),
        ("gpu.something_new", "gpu."),
        ("psu.lost", "psu."),
        ("tool.timeout", "tool.timeout"),
        ("tool.denied", "tool."),
        ("driver.not_loaded", "driver.not_loaded"),
        ("driver.rm_init_failed", "driver.rm_init_failed"),
        ("kernel_log.suppressed", "kernel_log.suppressed"),
        ("storage.nvme_removed", "storage.nvme_removed"),
        ("gate.nothing_ran", "gate."),
        ("dcgm.failed", "dcgm.failed"),
        ("dcgm.error", "dcgm."),
        ("dcgm.52", "dcgm.52"),
        ("dcgm.99999", "dcgm.99999"),
        ("nccl.rank_count", "nccl."),
    ],
)
def test_code_is_explained_by_its_own_entry_or_its_family(code: str, beginning: str) -> None:
    entry = codes.lookup(code)

    assert entry is not None
    assert entry.code == beginning
    assert entry.meaning
    assert entry.action in ACTIONS


@pytest.mark.parametrize("code", ["", "gpu", "gpu.", "weather.rain", "gpulost", "xid.79"])
def test_code_of_no_family_is_not_explained(code: str) -> None:
    assert codes.lookup(code) is None or code == "gpu."


def test_beginnings_are_whole_words() -> None:
    entry = codes.lookup("gpu.names")

    assert entry is not None
    assert entry.code == "gpu."


@pytest.mark.parametrize("entry", codes.CODES, ids=lambda entry: entry.code)
def test_every_code_says_what_it_means_how_bad_it_is_and_what_to_do(entry: codes.CodeEntry) -> None:
    assert entry.weight in (codes.FAIL, codes.WARN, codes.UNKNOWN, codes.INFO)
    assert entry.action in ACTIONS
    assert entry.advice.endswith(".")
    assert not entry.meaning.endswith(".")


def test_no_code_is_listed_twice() -> None:
    names = [entry.code for entry in codes.CODES] + list(kernel_events.EVENTS)

    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "event", [*kernel_events.EVENTS.values(), kernel_events.UNKNOWN, kernel_events.UNSUPPORTED], ids=lambda event: event.meaning
)
def test_every_kernel_event_uses_house_words(event: kernel_events.KernelEvent) -> None:
    assert event.severity in SEVERITIES
    assert event.action in ACTIONS
    assert event.advice.endswith(".")


def test_every_limit_has_a_unit_conditions_and_a_source() -> None:
    for threshold in kernel_log_limits.THRESHOLDS:
        assert threshold.unit
        assert threshold.conditions
        assert threshold.source
        assert threshold.trust in ("vendor", "field", "own")
        assert re.match(r"\d{4}-\d\d-\d\d$", threshold.date)


def test_limits_take_the_inventorys_figures() -> None:
    values = kernel_log_limits.limits({"incident_window_seconds": 30})

    assert values["incident_window_seconds"] == 30
    assert values["power_loss_seconds"] == 5


@pytest.mark.parametrize(
    ("overrides", "parts"),
    [
        ({"incident_window": 30}, ("'incident_window'", "incident_window_seconds")),
        ({"weather": 30}, ("'weather'", "use one of")),
        ({"comes_back": "3"}, ("comes_back", "'3'", "without quotes")),
        ({"comes_back": True}, ("comes_back", "True", "number")),
        ({"comes_back": -1}, ("comes_back", "-1", "0 or more")),
        ({"comes_back": float("nan")}, ("comes_back", "nan", "number")),
    ],
    ids=["nearly-right-key", "no-such-key", "text", "boolean", "negative", "not-a-number"],
)
def test_bad_limit_is_refused_with_a_hint(overrides: t.Any, parts: t.Tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="kernel log limits") as caught:
        kernel_log_limits.limits(overrides)

    for part in parts:
        assert part in str(caught.value)
