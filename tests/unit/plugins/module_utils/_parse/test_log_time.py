# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import datetime

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse import log_time
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._parse.kernel_lines import parse
from hypothesis import given, settings
from hypothesis import strategies as st


def line(stamp: str, bus: int = 0x4B) -> str:
    return "%s gx7 kernel: NVRM: Xid (PCI:0000:%02x:00): 43, pid=8, name=a, Ch 0000000c" % (stamp, bus)


def times(text: str, reference: str):
    return [one.origin.time for one in parse(text, reference=datetime.datetime.fromisoformat(reference)).events]


@pytest.mark.parametrize(
    ("stamp", "reference", "time"),
    [
        ("Mar 07 09:05:01", "2026-03-14T12:00:00", "2026-03-07T09:05:01"),
        ("Dec 31 23:59:50", "2026-01-01T00:10:00", "2025-12-31T23:59:50"),
        ("Jan  1 00:00:05", "2026-01-01T00:10:00", "2026-01-01T00:00:05"),
        # A clock of another zone may be ahead by up to a day.
        ("Mar 15 05:00:00", "2026-03-14T12:00:00", "2026-03-15T05:00:00"),
        ("Mar 16 05:00:00", "2026-03-14T12:00:00", "2025-03-16T05:00:00"),
        ("Feb 29 10:00:00", "2026-03-14T12:00:00", "2024-02-29T10:00:00"),
        ("Mar 07 09:05:01", "2026-03-14T12:00:00+00:00", "2026-03-07T09:05:01"),
        ("Feb 30 09:05:01", "2026-03-14T12:00:00", None),
        ("Mar 07 25:05:01", "2026-03-14T12:00:00", None),
    ],
)
def test_year_of_a_date_without_one(stamp, reference, time):
    assert times(line(stamp), reference) == [time]


def test_without_a_reference_only_dates_with_a_year_are_times():
    log = parse(line("Mar 07 09:05:01") + "\n" + line("2026-03-07T09:05:01+01:00", 0x4C), reference=None)
    assert [one.origin.time for one in log.events] == [None, "2026-03-07T09:05:01+01:00"]


def test_step_back_of_more_than_half_a_year_is_a_years_end():
    text = "\n".join([line("Nov 20 10:00:00", 1), line("Feb 03 10:00:00", 2), line("Dec 30 10:00:00", 3), line("Jan 02 10:00:00", 4)])
    assert times(text, "2026-03-14T12:00:00") == [
        "2024-11-20T10:00:00",
        "2025-02-03T10:00:00",
        "2025-12-30T10:00:00",
        "2026-01-02T10:00:00",
    ]


def test_smaller_step_back_is_a_log_pasted_out_of_order():
    assert times(line("Mar 07 10:00:00", 1) + "\n" + line("Jan 20 10:00:00", 2), "2026-03-14T12:00:00") == [
        "2026-03-07T10:00:00",
        "2026-01-20T10:00:00",
    ]


@pytest.mark.parametrize(
    ("name", "month"),
    [
        ("Jan", 1), ("déc.", 12), ("Mär", 3), ("févr.", 2), ("окт", 10), ("sie", 8), ("11月", 11), ("1月", 1), ("13月", None), ("5월", 5),
        ("SEP", 9), ("kesä", 6), ("x", None), ("", None), ("月", None),
    ],
)  # fmt: skip
def test_month_names(name, month):
    assert log_time.month_number(name) == month


def test_microseconds_out_of_range_are_no_time():
    assert log_time.from_usec(10**19) is None


@settings(max_examples=60, deadline=None)
@given(
    moment=st.datetimes(datetime.datetime(2020, 1, 1), datetime.datetime(2030, 1, 1)),
    age=st.timedeltas(datetime.timedelta(0), datetime.timedelta(days=360)),
)
def test_any_date_of_the_last_year_gets_its_own_year(moment, age):
    moment = moment.replace(microsecond=0)
    assert times(line(moment.strftime("%b %d %H:%M:%S")), (moment + age).isoformat()) == [moment.isoformat()]
