# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._knowledge import xid_catalogue
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import ACTIONS, SEVERITIES


def test_every_number_from_1_to_176_has_its_entry_in_order() -> None:
    assert [entry.number for entry in xid_catalogue.ENTRIES] == list(range(1, 177))


@pytest.mark.parametrize("entry", xid_catalogue.ENTRIES, ids=lambda entry: str(entry.number))
def test_entry_uses_house_words_and_says_what_to_do(entry: xid_catalogue.XidEntry) -> None:
    assert entry.severity in SEVERITIES
    assert entry.action in ACTIONS
    assert entry.later_action in ACTIONS
    assert entry.app_caused in ("yes", "possible", "no", "unknown")
    assert set(entry.applies_to) <= {"A100", "H100", "B100", "GB200"}
    assert entry.decided_by in ("", "message", "subcode")
    assert entry.symbol
    assert entry.known
    assert entry.meaning[0].isupper()
    assert not entry.meaning.endswith(".")
    assert entry.advice.endswith(".")
    assert entry.rationale.endswith(".")


@pytest.mark.parametrize("entry", xid_catalogue.ENTRIES, ids=lambda entry: str(entry.number))
def test_a_critical_entry_names_something_to_do(entry: xid_catalogue.XidEntry) -> None:
    assert entry.severity != "critical" or entry.action not in ("none", "look_at_code")


def test_exactly_the_numbers_of_the_alert_policy_page_at_once() -> None:
    assert [entry.number for entry in xid_catalogue.ENTRIES if entry.page] == [48, 63, 79, 92]


@pytest.mark.parametrize(
    ("number", "severity", "action"),
    [
        pytest.param(13, "warning", "look_at_code", id="13-an-application-can-cause-it"),
        pytest.param(31, "warning", "look_at_code", id="31-an-application-can-cause-it"),
        pytest.param(38, "warning", "none", id="38-NVIDIA-ignores-what-gpud-calls-fatal"),
        pytest.param(44, "warning", "none", id="44-NVIDIA-ignores-what-gpud-calls-fatal"),
        pytest.param(48, "critical", "reset_gpu", id="48-memory-error"),
        pytest.param(54, "critical", "reseat", id="54-power-plug"),
        pytest.param(63, "warning", "reset_gpu", id="63-recorded-reset-when-convenient"),
        pytest.param(64, "critical", "replace", id="64-repair-failed"),
        pytest.param(79, "critical", "reseat", id="79-reseat-before-any-RMA"),
        pytest.param(92, "warning", "none", id="92-a-rate-not-a-containment"),
        pytest.param(94, "warning", "restart_job", id="94-contained"),
        pytest.param(95, "critical", "reset_gpu", id="95-uncontained"),
        pytest.param(109, "critical", "reset_gpu", id="109-hung-channel"),
        pytest.param(119, "critical", "reset_gpu", id="119-GSP"),
        pytest.param(121, "info", "none", id="121-corrected-gpud-contradicts"),
        pytest.param(151, "critical", "reboot_node", id="151-restart-the-VM"),
        pytest.param(161, "warning", "none", id="161-kept-visible"),
        pytest.param(173, "critical", "reboot_node", id="173-newer-than-the-catalogue"),
    ],
)
def test_reading_of_disputed_and_important_numbers(number: int, severity: str, action: str) -> None:
    entry = xid_catalogue.lookup(number)

    assert (entry.severity, entry.action) == (severity, action)


def test_79_names_nvidias_own_bucket_and_why_it_is_not_ours() -> None:
    entry = xid_catalogue.lookup(79)

    assert "restart of the machine" in entry.rationale
    for part in ("riser", "power", "temperatures", "power-cycle", "retest"):
        assert part in entry.advice


@pytest.mark.parametrize("number", [0, 177, 500, 999])
def test_unknown_number_is_answered_and_said_to_be_unknown(number: int) -> None:
    entry = xid_catalogue.lookup(number)

    assert entry.number == number
    assert not entry.known
    assert (entry.severity, entry.action) == ("warning", "contact_vendor")
    assert "nobody" in entry.meaning
    assert "not lost" in entry.rationale


@pytest.mark.parametrize("key", [63, "63", " 63 "], ids=["number", "text", "text-with-blanks"])
def test_inventory_overrides_single_fields(key: t.Any) -> None:
    lookup = xid_catalogue.with_overrides({key: {"severity": "info", "advice": "Ask Jana."}})

    changed, original = lookup(63), xid_catalogue.lookup(63)
    assert (changed.severity, changed.advice) == ("info", "Ask Jana.")
    assert (changed.action, changed.page, changed.meaning) == (original.action, original.page, original.meaning)
    assert changed.overridden == {"severity", "advice"}
    assert lookup(79) is xid_catalogue.lookup(79)


def test_inventory_may_judge_a_number_that_the_catalogue_does_not_know() -> None:
    entry = xid_catalogue.with_overrides({500: {"severity": "critical", "action": "reset_gpu", "page": True}})(500)

    assert (entry.severity, entry.action, entry.page, entry.known) == ("critical", "reset_gpu", True, False)


def test_no_policy_changes_nothing() -> None:
    assert xid_catalogue.with_overrides(None)(79) is xid_catalogue.with_overrides({})(79)


@pytest.mark.parametrize(
    ("policy", "parts"),
    [
        pytest.param([63], ("[63]", "mapping", "write"), id="a-list"),
        pytest.param({"sixty": {"severity": "info"}}, ("'sixty'", "Xid number", "write"), id="a-word-as-number"),
        pytest.param({True: {"severity": "info"}}, ("True", "Xid number", "write"), id="a-boolean-as-number"),
        pytest.param({0: {"severity": "info"}}, ("0", "from 1", "write"), id="zero"),
        pytest.param({1234: {"severity": "info"}}, ("1234", "to 999", "write"), id="four-digits"),
        pytest.param({63: "info"}, ("gpu_xid_policy[63]", "'info'", "mapping", "write"), id="fields-not-a-mapping"),
        pytest.param({63: {}}, ("gpu_xid_policy[63]", "mapping", "write"), id="no-field"),
        pytest.param({63: {"level": "info"}}, ("'level'", "severity, action, advice, page", "remove"), id="unknown-field"),
        pytest.param({63: {"severity": "fatal"}}, ("'fatal'", "info, warning, critical", "choose"), id="not-our-severity"),
        pytest.param({63: {"action": "rma"}}, ("'rma'", "replace", "choose"), id="not-our-action"),
        pytest.param({63: {"advice": " "}}, ("gpu_xid_policy[63].advice", "sentence", "write"), id="empty-advice"),
        pytest.param({63: {"page": "yes"}}, ("'yes'", "true or false", "write"), id="page-as-text"),
        pytest.param({63: {"severity": "info"}, "63": {"page": False}}, ("63 twice", "merge"), id="twice"),
    ],
)
def test_bad_override_is_refused_with_input_expectation_and_remedy(policy: t.Any, parts: t.Tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="gpu_xid_policy") as caught:
        xid_catalogue.with_overrides(policy)

    for part in parts:
        assert part in str(caught.value)
