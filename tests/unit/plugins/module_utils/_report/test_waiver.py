# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import NODE, Finding, Subject
from ansible_collections.kentino.gpu.plugins.module_utils._report.waiver import Waiver, WaiverError, read_waivers
from hypothesis import given, settings
from hypothesis import strategies as st

BERLIN = timezone(timedelta(hours=2))
NOW = datetime(2026, 6, 30, 23, 30, tzinfo=BERLIN)
WHOLE = {"code": "gpu.pcie_width", "subject": "1320523004417", "reason": "riser ordered", "until": "2026-09-30"}
CARD = Subject("gpu", index=3, pci="0000:c1:00", uuid="GPU-5D1e", serial="1320523004417")


def _read(**fields):
    return read_waivers([{**WHOLE, **fields}], NOW)[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        pytest.param("gpu.*", "must be a list of dictionaries with code, subject, reason and until; got the text 'gpu.*'", id="text"),
        pytest.param(WHOLE, "must be a list", id="one dictionary"),
        pytest.param([WHOLE, "gpu.*"], "item 2: expected a dictionary", id="item is a text"),
        pytest.param([{**WHOLE, "code": None}], "item 1: code is missing", id="no code"),
        pytest.param([{**WHOLE, "code": ["a"]}], "item 1: code is missing or is no text", id="code is a list"),
        pytest.param([{**WHOLE, "subject": " "}], "item 1: subject is missing", id="blank subject"),
        pytest.param([{key: value for key, value in WHOLE.items() if key != "reason"}], "item 1: reason is missing", id="no reason"),
        pytest.param([{**WHOLE, "reason": True}], "item 1: reason is missing", id="reason is a boolean"),
        pytest.param([{**WHOLE, "until": None}], "item 1: until is missing", id="no end"),
        pytest.param([{**WHOLE, "until": "never"}], "expected YYYY-MM-DD", id="end is a word"),
        pytest.param([{**WHOLE, "until": "2026-02-30"}], "expected YYYY-MM-DD", id="no such day"),
        pytest.param([{**WHOLE, "until": "30.09.2026"}], "expected YYYY-MM-DD", id="another notation"),
        pytest.param([{**WHOLE, "until": "20260930"}], "expected YYYY-MM-DD", id="accepted by Python 3.11 and not by 3.9"),
        pytest.param([{**WHOLE, "until": 20260930}], "expected YYYY-MM-DD", id="number"),
        pytest.param([{**WHOLE, "until": "2026-09-30T12:00+99:00"}], "expected YYYY-MM-DD", id="no such time zone"),
        pytest.param([{**WHOLE, "unknown": "yes"}], "unknown must be true or false", id="boolean as text"),
        pytest.param([{**WHOLE, "host": ""}], "host is missing or is no text", id="empty host"),
        pytest.param([{**WHOLE, "untill": "2027-01-01"}], "untill is not a field of a waiver", id="misspelt field"),
    ],
)
def test_what_is_no_waiver_is_refused_with_the_item_and_what_was_expected(given, said):
    with pytest.raises(WaiverError) as refused:
        read_waivers(given, NOW)
    assert said in str(refused.value)


@pytest.mark.parametrize("nothing", [None, [], ()])
def test_no_waivers(nothing):
    assert read_waivers(nothing, NOW) == ()


@pytest.mark.parametrize(
    ("until", "expired"),
    [
        pytest.param("2026-06-30", False, id="the last day counts"),
        pytest.param("2026-06-29", True, id="the day before"),
        pytest.param(date(2026, 6, 30), False, id="unquoted date in YAML"),
        pytest.param(date(2026, 6, 29), True, id="unquoted date in YAML, past"),
        pytest.param("2026-06-30T23:30", False, id="time on our clock, this minute"),
        pytest.param("2026-06-30 23:29:59", True, id="time on our clock, a second ago"),
        pytest.param("2026-06-30T21:30Z", False, id="time in UTC, this minute"),
        pytest.param("2026-06-30T22:00+0200", True, id="time zone without colon"),
        pytest.param(datetime(2026, 6, 30, 21, 29, tzinfo=timezone.utc), True, id="unquoted time in YAML"),
        pytest.param(datetime(2026, 6, 30, 23, 31), False, id="unquoted time without zone"),
    ],
)
def test_expired(until, expired):
    assert _read(until=until).expired is expired


def test_far():
    assert not _read(until="2027-07-01").far
    assert _read(until="2027-07-02").far
    assert _read(until="9999-12-31T23:59-11:00").far


@pytest.mark.parametrize(
    ("fields", "covers"),
    [
        pytest.param({}, True, id="exact"),
        pytest.param({"code": "gpu.pcie_*"}, True, id="pattern"),
        pytest.param({"code": "GPU.PCIE_WIDTH"}, True, id="capitals"),
        pytest.param({"code": "gpu.pcie"}, False, id="beginning of a code is not the code"),
        pytest.param({"code": "gpu.pcie_speed"}, False, id="another code"),
        pytest.param({"subject": "*"}, True, id="any subject"),
        pytest.param({"subject": 1320523004417}, True, id="serial that YAML read as a number"),
        pytest.param({"subject": "gpu-5d1E"}, True, id="UUID in other case"),
        pytest.param({"subject": "00000000:C1:00.0"}, True, id="address as nvidia-smi prints it"),
        pytest.param({"subject": "c1:00.0"}, True, id="address as lspci prints it"),
        pytest.param({"subject": "00010000:c1:00.0"}, False, id="address in another domain"),
        pytest.param({"subject": "GPU 3"}, True, id="index"),
        pytest.param({"subject": "gpu"}, True, id="kind"),
        pytest.param({"subject": "1320523004"}, False, id="beginning of a serial"),
        pytest.param({"subject": "132052300*"}, False, id="subjects are no patterns"),
        pytest.param({"host": "gpu-*"}, True, id="host pattern"),
        pytest.param({"host": "GPU-07"}, True, id="host in capitals"),
        pytest.param({"host": "gpu-08"}, False, id="another host"),
    ],
)
def test_covers(fields, covers):
    found = dict(Finding("gpu.pcie_width", "warning", CARD, "x4").as_dict())
    assert _read(**fields).covers(found, "gpu-07") is covers


def test_the_name_of_the_host_is_a_name_of_its_node():
    found = Finding("log.gap", "warning", NODE, "gap").as_dict()
    assert _read(code="log.gap", subject="gpu-07").covers(found, "gpu-07")
    assert not _read(code="log.gap", subject="gpu-07").covers(found, "gpu-08")


def test_mark_says_why_and_until_when():
    assert _read(by="operations").mark() == {"reason": "riser ordered", "until": "2026-09-30", "by": "operations"}


JUNK = [None, True, 0, 7, "", "*", "[z-a]", "\ud800", "2026-13-01", [], ["x"], {}, 10**5000, date(2026, 7, 1)]
FIELDS = {key: st.sampled_from([value, value, *JUNK]) for key, value in WHOLE.items()}
OPTIONAL = {key: st.sampled_from(JUNK) for key in ("host", "by", "unknown", "extra")}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.fixed_dictionaries(FIELDS, optional=OPTIONAL) | st.sampled_from(JUNK), max_size=3) | st.sampled_from(JUNK))
def test_anything_is_a_waiver_or_refused(given):
    try:
        waivers = read_waivers(given, NOW)
    except WaiverError:
        return
    assert all(isinstance(waiver, Waiver) and waiver.reason and waiver.until for waiver in waivers)
