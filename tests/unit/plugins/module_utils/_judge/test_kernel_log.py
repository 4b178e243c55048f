# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import kernel_clock, kernel_log
from ansible_collections.kentino.gpu.plugins.module_utils._judge.kernel_log import KernelPolicy
from ansible_collections.kentino.gpu.plugins.module_utils._parse.kernel_log_records import (
    KernelLog,
    OomKill,
    Origin,
    StorageError,
    XidEvent,
)
from ansible_collections.kentino.gpu.plugins.module_utils._report.model import ACTIONS, VERDICTS
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._judge.kernel_records import (
    GPU_A,
    GPU_B,
    HOUR,
    findings,
    log,
    origin,
    policy,
    short,
    xid,
)
from hypothesis import given
from hypothesis import strategies as st


def test_log_that_was_read_and_holds_nothing_is_no_finding() -> None:
    assert findings() == ()
    assert kernel_log.incidents(log(), policy()) == ()


@pytest.mark.parametrize(
    ("fields", "code", "verdict", "words"),
    [
        pytest.param({"kernel_lines": 0}, "kernel_log.empty", "unknown", "100 lines read, none of them a kernel's", id="other-text"),
        pytest.param({"lines": 0, "kernel_lines": 0}, "kernel_log.empty", "unknown", "not evidence of health", id="no-line"),
        pytest.param({"unreadable_records": 2}, "kernel_log.unreadable", "unknown", "2 records", id="unreadable-records"),
        pytest.param({"unrecognised": ("NVRM: Xid ???",)}, "kernel_log.unrecognised", "unknown", "NVRM: Xid ???", id="unknown-form"),
        pytest.param({"suppressed": 7}, "kernel_log.suppressed", "pass", "7 lines", id="lines-suppressed"),
        pytest.param({"rate_limited": True}, "kernel_log.suppressed", "pass", "lower bounds", id="rate-limited"),
    ],
)
def test_what_the_log_itself_tells(fields: t.Dict[str, t.Any], code: str, verdict: str, words: str) -> None:
    (found,) = findings(**fields)

    assert (found.code, found.verdict) == (code, verdict)
    assert words in found.message


def test_event_proves_that_the_log_was_read() -> None:
    assert short(findings(xid(45, 0), kernel_lines=0)) == [("xid.45", "info", "look_at_code")]


def test_worst_comes_first_and_what_could_not_be_told_before_a_warning() -> None:
    found = findings(xid(63, 0), xid(31, 0, GPU_B), xid(79, 0, "0000:99:00"), unreadable_records=1)

    assert [one.verdict for one in found] == ["fail", "unknown", "warn", "pass"]


def test_incidents_come_in_the_order_of_the_log() -> None:
    ours = (xid(31, 50, GPU_B), xid(79, 60, GPU_A), xid(31, 900, GPU_B))

    assert [(one.pci, one.root_xid) for one in kernel_log.incidents(log(*ours), policy())] == [(GPU_B, 31), (GPU_A, 79), (GPU_B, 31)]


@pytest.mark.parametrize(
    ("values", "parts"),
    [
        pytest.param({"weather": 1}, ("weather", "xid_policy", "remove"), id="unknown-key"),
        pytest.param({"boot": "last"}, ("'last'", "current, all"), id="boot"),
        pytest.param({"warning_hours": "24"}, ("'24'", "without quotes"), id="hours-as-text"),
        pytest.param({"warning_hours": -1}, ("-1", "0 or more"), id="negative-hours"),
        pytest.param({"warning_hours": True}, ("True", "number of hours"), id="hours-as-boolean"),
        pytest.param({"power_domains": ["a"]}, ("['a']", "mapping", "write for example"), id="domains-as-list"),
        pytest.param({"power_domains": {"a": "0000:01:00"}}, ("power_domains.a", "list", "write for example"), id="members-as-text"),
        pytest.param({"power_domains": {"a": []}}, ("power_domains.a", "list"), id="no-member"),
        pytest.param({"xid_policy": {63: {"severity": "bad"}}}, ("gpu_xid_policy[63]", "'bad'"), id="xid-policy"),
        pytest.param({"limits": {"comes_bakc": 3}}, ("comes_bakc", "comes_back"), id="limits"),
    ],
)
def test_bad_policy_is_refused_with_input_expectation_and_remedy(values: t.Dict[str, t.Any], parts: t.Tuple[str, ...]) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        KernelPolicy.from_mapping(values)

    for part in parts:
        assert part in str(caught.value)


def test_policy_takes_defaults_for_what_is_not_told() -> None:
    assert KernelPolicy.from_mapping({"now_usec": None, "driver_version": None}) == KernelPolicy()


@pytest.mark.parametrize(
    ("earlier", "later", "seconds"),
    [
        pytest.param(Origin(time="2026-03-14T12:00:00+01:00"), Origin(time="2026-03-14T11:00:30Z"), 30.0, id="two-offsets"),
        pytest.param(Origin(time="2026-03-14T12:00:00.25"), Origin(time="2026-03-14T12:00:01.75"), 1.5, id="local-times"),
        pytest.param(Origin(time="2026-03-14T12:00:00+0530"), Origin(time="2026-03-14T12:00:60+0530"), 59.0, id="leap-second"),
        pytest.param(Origin(usec=5_000_000), Origin(usec=7_500_000), 2.5, id="journal-microseconds"),
        pytest.param(Origin(uptime_seconds=10.0), Origin(uptime_seconds=12.0), 2.0, id="uptimes"),
        pytest.param(Origin(time="2026-03-14T12:00:00"), Origin(time="2026-03-14T12:00:00Z"), None, id="local-and-UTC"),
        pytest.param(Origin(uptime_seconds=10.0), Origin(time="2026-03-14T12:00:00Z"), None, id="two-clocks"),
        pytest.param(Origin(uptime_seconds=10.0, boot="previous"), Origin(uptime_seconds=12.0, boot="current"), None, id="two-boots"),
        pytest.param(Origin(time="yesterday"), Origin(time="2026-13-41T12:00:00"), None, id="no-times"),
        pytest.param(
            Origin(time="2026-03-14T12:00:00.123456789Z"), Origin(time="2026-03-14T12:00:01,123456789Z"), 1.0, id="nanoseconds-and-comma"
        ),
    ],
)
def test_seconds_between(earlier: Origin, later: Origin, seconds: t.Optional[float]) -> None:
    distance = kernel_clock.seconds_between(kernel_clock.moment(earlier, 0), kernel_clock.moment(later, 1))

    assert distance == (None if seconds is None else pytest.approx(seconds, abs=1e-3))


def test_log_out_of_order_is_read_by_its_clock() -> None:
    (incident,) = kernel_log.incidents(log(xid(45, 2), xid(48, 1)), policy())

    assert incident.xids == (48, 45)


def test_time_without_an_offset_ages_half_a_day_later() -> None:
    event = XidEvent(63, GPU_A, origin=Origin(time="2026-03-14T12:00:00"))

    def severity(hours: float) -> str:
        now = int(origin(hours * HOUR).usec or 0)
        return kernel_log.judge(log(event), policy(now_usec=now))[0].severity

    assert (severity(35), severity(37)) == ("warning", "info")


_ORIGINS = st.builds(
    Origin,
    raw=st.sampled_from(["", "line"]),
    time=st.sampled_from([None, "2026-03-14T12:00:00", "2026-03-14T12:00:01+02:00", "garbage"]),
    usec=st.one_of(st.none(), st.integers(0, 10**16)),
    uptime_seconds=st.one_of(st.none(), st.floats(0, 1e7)),
    boot=st.sampled_from([None, "current", "previous"]),
)
_DETAILS = st.fixed_dictionaries(
    {},
    optional={
        "root_xid": st.integers(0, 200),
        "to_code": st.integers(-1, 7),
        "to_action": st.sampled_from(["None", "Node Reboot Required", ""]),
        "rst": st.booleans(),
        "registers": st.lists(st.sampled_from(["0x0", "0x10", "x"]), max_size=7),
        "gpc": st.integers(0, 3),
        "tpc": st.integers(0, 3),
        "subcode": st.sampled_from(["RLW_REMAP", "?"]),
        "intrinfo": st.sampled_from(["0x82", "z"]),
        "severity": st.sampled_from(["fatal", "nonfatal"]),
    },
)
_EVENTS = st.builds(
    XidEvent,
    xid=st.one_of(st.integers(0, 200), st.sampled_from([13, 43, 45, 48, 63, 79, 94, 154])),
    pci=st.sampled_from([None, GPU_A, GPU_B, "?"]),
    pid=st.one_of(st.none(), st.integers(0, 5)),
    count=st.integers(1, 3),
    detail=_DETAILS,
    origin=_ORIGINS,
)


@given(st.lists(_EVENTS, max_size=12), st.sampled_from(["current", "all"]), st.sampled_from([None, 2 * 10**15]))
def test_no_log_raises_and_no_xid_is_lost(events: t.List[XidEvent], boot: str, now: t.Optional[int]) -> None:
    record = KernelLog(events=tuple(events), lines=len(events), kernel_lines=len(events))
    under = policy(boot=boot, now_usec=now)

    incidents = kernel_log.incidents(record, under)
    found = [one for one in kernel_log.judge(record, under) if one.code.startswith("xid.")]

    told = sorted((one.pci or "", number) for one in incidents for number in one.xids)
    assert set(told) == {(event.pci or "", event.xid) for event in events}
    assert sum(one.count for one in found) == sum(event.count for event in events)
    assert all(one.verdict in VERDICTS and one.action in ACTIONS for one in incidents)
    assert {one.finding.code for one in incidents} == {one.code for one in found}


@given(
    st.lists(
        st.one_of(
            st.builds(
                StorageError, kind=st.sampled_from(["io_error", "x"]), dev=st.sampled_from([None, "nvme0n1", "/dev/"]), origin=_ORIGINS
            ),
            st.builds(OomKill, pid=st.one_of(st.none(), st.integers(0, 9)), kill_confirmed=st.booleans(), origin=_ORIGINS),
        ),
        max_size=6,
    )
)
def test_host_events_are_all_counted(events: t.List[t.Any]) -> None:
    assert sum(one.count for one in findings(*events)) == len(events)
