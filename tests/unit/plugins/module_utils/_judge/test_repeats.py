# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._judge.kernel_records import (
    GPU_A,
    GPU_B,
    HOUR,
    findings,
    origin,
    policy,
    short,
    xid,
)


def _exceptions(*places: t.Tuple[float, int, int, t.Optional[int]]) -> t.List[t.Any]:
    """Xid 13 at (seconds, GPC, TPC, pid)."""
    return [xid(13, seconds, gpc=gpc, tpc=tpc, sm=0, pid=pid) for seconds, gpc, tpc, pid in places]


@pytest.mark.parametrize(
    ("events", "severity"),
    [
        pytest.param(_exceptions((0, 4, 2, 71), (HOUR, 4, 2, 95)), "warning", id="same-unit-two-processes"),
        pytest.param(_exceptions((0, 4, 2, 71), (HOUR, 4, 2, 71)), "info", id="same-unit-one-process"),
        pytest.param(_exceptions((0, 4, 2, None), (HOUR, 4, 2, None)), "warning", id="same-unit-process-no-longer-known"),
        pytest.param(_exceptions((0, 4, 2, 71), (HOUR, 4, 3, 95)), "info", id="wandering-unit"),
        pytest.param(_exceptions((0, 4, 2, 71), (25 * HOUR, 4, 2, 95)), "info", id="more-than-a-day-apart"),
        pytest.param(
            _exceptions((0, 4, 2, 71), (0, 5, 1, 71), (0, 1, 0, 71), (HOUR, 4, 2, 95), (HOUR, 0, 0, 95)),
            "info",
            id="faults-all-over-the-chip",
        ),
    ],
)
def test_application_exception_that_follows_a_unit(events: t.Sequence[t.Any], severity: str) -> None:
    found = findings(*events)

    assert {one.severity for one in found} == {severity}
    assert all(("hardware suspected" in one.message) == (severity == "warning") for one in found)


def test_suspected_unit_asks_the_vendor_and_names_the_place() -> None:
    (found,) = findings(*_exceptions((0, 4, 2, 71), (HOUR, 4, 2, 95)))

    assert (found.code, found.action, found.count) == ("xid.13", "contact_vendor", 2)
    assert "GPC 4 TPC 2" in found.message


@pytest.mark.parametrize(
    ("on_a", "on_b", "severity"),
    [
        pytest.param(4, 0, "info", id="four-times"),
        pytest.param(5, 0, "warning", id="five-times-on-one-GPU"),
        pytest.param(5, 2, "warning", id="far-more-than-on-another"),
        pytest.param(5, 5, "info", id="on-every-GPU-the-program-is-wrong"),
    ],
)
def test_page_faults_that_follow_a_card(on_a: int, on_b: int, severity: str) -> None:
    events = [xid(31, HOUR * number, GPU_A, pid=100 + number) for number in range(on_a)]
    events += [xid(31, HOUR * number, GPU_B, pid=200 + number) for number in range(on_b)]

    found = [one for one in findings(*events) if one.subject.pci == GPU_A]

    assert {one.severity for one in found} == {severity}


def test_page_faults_of_one_process_are_its_own_matter() -> None:
    assert {one.severity for one in findings(*(xid(31, HOUR * number, pid=71) for number in range(8)))} == {"info"}


def test_channels_torn_down_again_and_again_are_no_suspicion() -> None:
    assert {one.severity for one in findings(*(xid(45, HOUR * number, pid=number + 1) for number in range(9)))} == {"info"}


def test_inventorys_severity_is_not_raised() -> None:
    found = findings(*_exceptions((0, 4, 2, 71), (HOUR, 4, 2, 95)), under=policy(xid_policy={13: {"severity": "info"}}))

    assert {one.severity for one in found} == {"info"}


@pytest.mark.parametrize(
    ("number", "times", "expected"),
    [
        pytest.param(92, 2, ("xid.92", "warning", "none"), id="92-twice"),
        pytest.param(92, 3, ("xid.92", "warning", "contact_vendor"), id="92-three-times"),
        pytest.param(94, 3, ("xid.94", "warning", "reset_gpu"), id="94-three-times"),
        pytest.param(79, 3, ("xid.79", "critical", "reseat"), id="79-three-times-stays-what-it-is"),
    ],
)
def test_warning_that_comes_back_gets_its_later_action(number: int, times: int, expected: t.Tuple[str, str, str]) -> None:
    assert short(findings(*(xid(number, HOUR * place) for place in range(times)))) == [expected]


def test_equal_lines_in_one_record_are_so_many_times() -> None:
    def repeated(number: int, count: int, hours: float, **fields: t.Any) -> t.Any:
        last = origin(hours * HOUR)
        return xid(number, 0, count=count, last_time=last.time, last_usec=last.usec, **fields)

    assert short(findings(repeated(92, 3, 5))) == [("xid.92", "warning", "contact_vendor")]
    assert short(findings(repeated(92, 3, 0.01))) == [("xid.92", "warning", "none")]
    assert short(findings(repeated(13, 2, 5, gpc=1, tpc=2))) == [("xid.13", "warning", "contact_vendor")]
    assert short(findings(repeated(13, 2, 5, gpc=1, tpc=2, pid=71))) == [("xid.13", "info", "look_at_code")]


def test_comes_back_within_a_day_only() -> None:
    assert short(findings(*(xid(92, 20 * HOUR * place) for place in range(4)))) == [("xid.92", "warning", "none")]
