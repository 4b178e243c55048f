# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse.kernel_log_records import DriverFault
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._judge.kernel_records import (
    GPU_A,
    GPU_B,
    HOUR,
    findings,
    incidents,
    only,
    origin,
    policy,
    recovery,
    short,
    xid,
)

REMAP_FAILED = {"remap_address": "0x00000003aa", "reason": "All reserved rows for bank are remapped"}


@pytest.mark.parametrize(
    ("events", "root", "xids", "verdict", "action"),
    [
        pytest.param([xid(48, 0)], 48, (48,), "fail", "reset_gpu", id="memory-error-alone"),
        pytest.param(
            [xid(48, 0), xid(171, 0), xid(63, 0.2), xid(94, 0.3, rst=False, d_rst=False), xid(94, 0.4), xid(45, 0.5), xid(43, 1)],
            48,
            (48, 171, 63, 94, 45, 43),
            "fail",
            "reset_gpu",
            id="one-memory-fault-prints-seven-lines",
        ),
        pytest.param([xid(94, 0), xid(63, 0.1), xid(48, 0.2)], 48, (94, 63, 48), "fail", "reset_gpu", id="primary-printed-last"),
        pytest.param(
            [xid(64, 0, **REMAP_FAILED), xid(94, 0.06)], 64, (64, 94), "fail", "replace", id="failed-repair-decides-over-the-94-behind-it"
        ),
        pytest.param([xid(48, 0), xid(64, 0.1), xid(95, 0.2)], 64, (48, 64, 95), "fail", "replace", id="failed-repair-decides-over-48"),
        pytest.param([xid(172, 0), xid(45, 1)], 172, (172, 45), "fail", "reset_gpu", id="172-whose-48-was-lost"),
        pytest.param([xid(95, 0, rst=False)], 95, (95,), "fail", "reset_gpu", id="uncontained-though-RST-says-No"),
        pytest.param([xid(63, 0, pending_reset=True)], 63, (63,), "warn", "reset_gpu", id="recorded-repair-warns"),
        pytest.param([xid(94, 0, rst=False, d_rst=False)], 94, (94,), "warn", "restart_job", id="contained-asks-for-no-reset"),
        pytest.param([xid(94, 0, rst=False, d_rst=True)], 94, (94,), "fail", "reset_gpu", id="contained-with-D-RST-Yes"),
        pytest.param([xid(94, 0, rst=True, d_rst=False)], 94, (94,), "fail", "reset_gpu", id="contained-with-RST-Yes"),
        pytest.param(
            [xid(119, 0), xid(79, 3), xid(45, 3.2), recovery(2, 4)], 79, (119, 79, 45, 154), "fail", "reseat", id="lost-GPU-explains-119"
        ),
        pytest.param([xid(119, 0), recovery(2, 1)], 119, (119, 154), "fail", "reboot_node", id="154-raises-the-action"),
        pytest.param([xid(13, 0), xid(13, 0), xid(43, 1), xid(45, 1)], 13, (13, 43, 45), "pass", "look_at_code", id="application-fault"),
        pytest.param([xid(13, 0), xid(109, 5)], 109, (13, 109), "fail", "reset_gpu", id="13-then-109"),
        pytest.param([xid(45, 0, count=64)], 45, (45,), "pass", "look_at_code", id="45-alone-is-a-Ctrl-C"),
        pytest.param([xid(43, 0)], 43, (43,), "pass", "look_at_code", id="43-alone"),
        pytest.param([xid(31, 0)], 31, (31,), "pass", "look_at_code", id="31-alone"),
        pytest.param([xid(39, 0)], 39, (39,), "warn", "restart_job", id="copy-engine-alone"),
        pytest.param([xid(92, 0)], 92, (92,), "warn", "none", id="many-corrected-errors"),
        pytest.param([xid(121, 0)], 121, (121,), "pass", "none", id="corrected-chip-link-error"),
        pytest.param([xid(142, 0)], 142, (142,), "warn", "contact_vendor", id="legacy-or-rare-number"),
        pytest.param([xid(412, 0)], 412, (412,), "warn", "contact_vendor", id="number-that-nobody-knows"),
        pytest.param([xid(45, 0, root_xid=145)], 145, (45,), "fail", "reset_gpu", id="root-survives-only-as-reference"),
        pytest.param([xid(45, 0, root_xid=13)], 13, (45,), "pass", "look_at_code", id="reference-to-an-application-fault"),
        pytest.param([xid(45, 0, root_xid=79)], 79, (45,), "fail", "reseat", id="reference-to-a-loss"),
        pytest.param([recovery(1, 0)], 154, (154,), "fail", "reset_gpu", id="154-alone-asks-for-a-reset"),
        pytest.param([recovery(3, 0)], 154, (154,), "fail", "reset_gpu", id="154-drain-P2P"),
        pytest.param([recovery(4, 0)], 154, (154,), "fail", "reset_gpu", id="154-drain-and-reset"),
        pytest.param([recovery(2, 0)], 154, (154,), "fail", "reboot_node", id="154-reboot"),
        pytest.param([recovery(5, 0)], 154, (154,), "fail", "contact_vendor", id="154-IMEX-domain"),
        pytest.param([recovery(9, 0)], 154, (154,), "fail", "contact_vendor", id="154-code-unknown"),
        pytest.param([xid(154, 0)], 154, (154,), "fail", "contact_vendor", id="154-cut-before-its-words"),
        pytest.param([recovery(0, 0)], 154, (154,), "pass", "none", id="154-to-None-alone"),
        pytest.param([xid(31, 0), recovery(1, 1)], 154, (31, 154), "fail", "reset_gpu", id="an-accepted-31-must-not-hide-a-reset"),
        pytest.param([xid(63, 0), recovery(4, 1)], 63, (63, 154), "fail", "reset_gpu", id="154-behind-63-belongs-to-it"),
        pytest.param([xid(74, 0, registers=["0x0"] * 4 + ["0x100000"])], 74, (74,), "warn", "none", id="74-threshold-bits-only"),
        pytest.param([xid(74, 0, registers=["0x10000"])], 74, (74,), "fail", "reseat", id="74-mechanical-bit"),
        pytest.param([xid(74, 0, link=3)], 74, (74,), "fail", "reset_gpu", id="74-without-registers"),
    ],
)
def test_one_incident(events: t.Sequence[t.Any], root: int, xids: t.Tuple[int, ...], verdict: str, action: str) -> None:
    (incident,) = incidents(*events)

    assert (incident.root_xid, incident.xids, incident.verdict, incident.action) == (root, xids, verdict, action)
    assert incident.pci == GPU_A
    assert (incident.first, incident.last) == (events[0].origin.time, events[-1].origin.time)
    assert incident.finding.code == "xid.%d" % root
    assert incident.finding.count == sum(event.count for event in events)


@pytest.mark.parametrize(
    ("word", "status", "severity", "action"),
    [
        pytest.param("fatal", "0x00000040", "critical", "reset_gpu", id="text-and-sheet-fatal"),
        pytest.param("nonfatal", "0x00000040", "critical", "reset_gpu", id="sheet-fatal-is-the-worse"),
        pytest.param("nonfatal", "0x00000100", "info", "none", id="harmless-row"),
        pytest.param("nonfatal", "0x00000001", "warning", "restart_job", id="follow-154-and-none-came"),
        pytest.param("fatal", "0x0badc0de", "critical", "reset_gpu", id="no-row-and-text-fatal"),
    ],
)
def test_nvlink5_by_its_registers(word: str, status: str, severity: str, action: str) -> None:
    event = xid(145, 0, subcode="RLW_REMAP", severity=word, intrinfo="0x00000082", errorstatus=status)

    found = only(event, under=policy(driver_version="570.86.15"))

    assert (found.severity, found.action) == (severity, action)


def test_nvlink5_follows_the_154_behind_it() -> None:
    event = xid(145, 0, subcode="RLW_REMAP", severity="nonfatal", intrinfo="0x82", errorstatus="0x1")

    assert only(event, recovery(4, 1)).action == "reset_gpu"
    assert only(event, recovery(1, 1), recovery(0, 30)).severity == "info"


def test_nvlink5_without_registers_is_taken_for_the_worst() -> None:
    found = only(xid(149, 0))

    assert (found.severity, found.action) == ("critical", "reset_gpu")
    assert "registers are missing" in found.message


def test_all_gpus_are_judged_and_a_whole_address_tells_them_apart() -> None:
    found = incidents(xid(79, 0, "0000:10:1c"), xid(31, 0, "0000:10:1d"), xid(48, 0.1, "0001:10:1c"))

    assert [(one.pci, one.root_xid) for one in found] == [("0000:10:1c", 79), ("0000:10:1d", 31), ("0001:10:1c", 48)]


def test_events_further_apart_than_the_window_are_two_incidents() -> None:
    events = [xid(48, 0), xid(94, 61)]

    assert len(incidents(*events)) == 2
    assert len(incidents(*events, under=policy(limits={"incident_window_seconds": 90}))) == 1


def test_window_slides_with_a_storm() -> None:
    assert len(incidents(*(xid(119, 45 * number) for number in range(10)))) == 1


def _storm(number: int, seconds: float, end: float, count: int, **fields: t.Any) -> t.Any:
    """Equal lines, which the parser makes one record of, with the time of the last in its detail."""
    last = origin(end)
    return xid(number, seconds, count=count, last_time=last.time, last_usec=last.usec, **fields)


@pytest.mark.parametrize(
    ("events", "roots"),
    [
        pytest.param([_storm(119, 0, 600, 14), recovery(1, 300)], [119], id="in-the-midst-of-a-storm"),
        pytest.param([_storm(119, 0, 600, 14), xid(45, 640)], [119], id="behind-a-storm"),
        pytest.param([_storm(119, 0, 600, 14), xid(45, 700)], [119, 45], id="long-behind-a-storm"),
        pytest.param([_storm(92, 0, 20 * HOUR, 2), xid(31, 10 * HOUR)], [92, 31], id="between-two-lines-far-apart"),
    ],
)
def test_equal_lines_are_one_record_with_two_ends(events: t.Sequence[t.Any], roots: t.Sequence[int]) -> None:
    assert [one.root_xid for one in incidents(*events)] == roots


def test_warning_ages_from_its_last_line() -> None:
    now = int(origin(30 * HOUR).usec or 0)

    assert only(_storm(63, 0, 20 * HOUR, 5), under=policy(now_usec=now)).severity == "warning"
    assert only(_storm(63, 0, 2 * HOUR, 5), under=policy(now_usec=now)).severity == "info"
    assert only(xid(63, 0, count=5), under=policy(now_usec=now)).severity == "warning"


def test_named_cause_joins_lines_beyond_the_window() -> None:
    (incident,) = incidents(xid(109, 0), xid(45, 900, root_xid=109))

    assert incident.xids == (109, 45)


def test_cause_named_hours_later_is_an_incident_of_its_own() -> None:
    assert [one.root_xid for one in incidents(xid(109, 0), xid(45, 5 * HOUR, root_xid=109))] == [109, 109]


@pytest.mark.parametrize(
    ("events", "roots"),
    [
        pytest.param([xid(48), xid(63), xid(94), xid(45), xid(45)], [48], id="one-memory-fault"),
        pytest.param([xid(13), xid(13), xid(43), xid(45)], [13], id="one-application-fault"),
        pytest.param([xid(79), xid(45), recovery(2)], [79], id="one-loss"),
        pytest.param([xid(13, pid=71), xid(43, pid=71), xid(13, pid=95), xid(45, pid=95)], [13, 13], id="two-processes"),
        pytest.param([xid(31, pid=71), xid(48)], [31, 48], id="unrelated-numbers"),
        pytest.param([xid(13, pid=71), xid(109, pid=71)], [109], id="13-then-109"),
        pytest.param([xid(119), xid(79)], [79], id="firmware-then-loss"),
        pytest.param([xid(79), xid(79, pci=GPU_B)], [79, 79], id="two-GPUs"),
    ],
)
def test_log_without_times_folds_by_order(events: t.Sequence[t.Any], roots: t.Sequence[int]) -> None:
    assert [one.root_xid for one in incidents(*events)] == roots


def test_second_process_on_the_same_gpu_is_the_next_incident() -> None:
    assert len(incidents(xid(31, 0, pid=71), xid(31, 20, pid=95))) == 2
    assert len(incidents(xid(31, 0, pid=71), xid(31, 2, pid=95))) == 1


def test_loss_in_plain_words_is_the_same_loss() -> None:
    plain = DriverFault("gpu_lost", GPU_A, equivalent_xid=79, text="GPU has fallen off the bus.", origin=origin(0.1))

    found = only(xid(79, 0), plain)

    assert (found.code, found.count) == ("xid.79", 1)
    assert "no Xid" not in found.message


def test_loss_in_plain_words_alone_counts_as_79() -> None:
    found = only(DriverFault("gpu_lost_at_probe", GPU_B, equivalent_xid=79, text="not responding to commands", origin=origin(0)))

    assert (found.code, found.severity, found.action, found.subject.pci) == ("xid.79", "critical", "reseat", GPU_B)
    assert "the driver printed no Xid for it" in found.message
    assert found.evidence == ("not responding to commands",)


def test_gsp_timeout_without_address_belongs_to_the_only_gpu_in_trouble() -> None:
    nameless = DriverFault("gsp_timeout", equivalent_xid=119, gpu_index=2, text="rpcRecvPoll timedout", origin=origin(0))

    (incident,) = incidents(nameless, recovery(1, 30, GPU_B))
    assert (incident.pci, incident.root_xid, incident.action) == (GPU_B, 119, "reset_gpu")
    assert "the driver's GPU 2" in only(nameless).message


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        pytest.param([xid(119, 0), recovery(1, 1), recovery(0, 600)], [("xid.119", "info", "none")], id="reset-done"),
        pytest.param(
            [xid(48, 0), xid(94, 500), recovery(0, 900)], [("xid.48", "info", "none"), ("xid.94", "info", "none")], id="all-before-it"
        ),
        pytest.param([xid(79, 0), recovery(2, 1), recovery(0, 900)], [("xid.79", "warning", "reseat")], id="a-loose-card-stays-a-warning"),
        pytest.param([xid(64, 0), recovery(0, 900)], [("xid.64", "critical", "replace")], id="a-failed-repair-stays"),
        pytest.param([recovery(4, 0), recovery(1, 50), recovery(0, 90)], [("xid.154", "info", "none")], id="from-drain-to-reset-to-done"),
        pytest.param(
            [recovery(2, 0), recovery(1, 600)], [("xid.154", "critical", "reset_gpu"), ("xid.154", "info", "none")], id="last-line-counts"
        ),
        pytest.param(
            [recovery(0, 0), xid(119, 600)], [("xid.119", "critical", "reset_gpu"), ("xid.154", "info", "none")], id="fault-after-it-stands"
        ),
        pytest.param(
            [xid(119, 0), recovery(0, 600, GPU_B)], [("xid.119", "critical", "reset_gpu"), ("xid.154", "info", "none")], id="other-GPU"
        ),
    ],
)
def test_recovery_clears_what_a_reset_mends(events: t.Sequence[t.Any], expected: t.Sequence[t.Tuple[str, str, str]]) -> None:
    assert sorted(short(findings(*events))) == sorted(expected)


def test_cleared_incident_says_when() -> None:
    assert "cleared by Xid 154 to None at 2026-03-14T12:10:00+00:00" in only(xid(119, 0), recovery(0, 600)).message


def test_previous_boots_are_history_for_this_one() -> None:
    old = [xid(79, -9000, boot="previous"), xid(64, -8000, GPU_B, boot="previous"), xid(92, -8000, "0000:77:00", boot="previous")]

    assert short(findings(*old)) == [("xid.64", "warning", "replace"), ("xid.79", "info", "none"), ("xid.92", "info", "none")]
    for found in findings(*old):
        assert "before the last boot" in found.message
    assert [one.severity for one in findings(*old, under=policy(boot="all"))] == ["critical", "critical", "warning"]


def test_recovery_of_a_previous_boot_clears_nothing_in_this_one() -> None:
    found = short(findings(xid(119, 0), recovery(0, 900, boot="previous")))

    assert ("xid.119", "critical", "reset_gpu") in found


@pytest.mark.parametrize(
    ("event", "hours", "severity"),
    [
        pytest.param(xid(63, 0), 23, "warning", id="fresh-warning"),
        pytest.param(xid(63, 0), 25, "info", id="old-warning"),
        pytest.param(xid(48, 0), 200, "critical", id="critical-does-not-age"),
        pytest.param(xid(63), 200, "warning", id="time-not-known"),
    ],
)
def test_warnings_age_and_critical_ones_do_not(event: t.Any, hours: float, severity: str) -> None:
    now = int(origin(hours * HOUR).usec or 0)

    found = only(event, under=policy(now_usec=now))

    assert found.severity == severity
    assert ("hours ago" in found.message) == (severity == "info")


def test_warning_hours_are_a_setting() -> None:
    now = int(origin(3 * HOUR).usec or 0)

    assert only(xid(63, 0), under=policy(now_usec=now, warning_hours=2)).severity == "info"


def test_same_incident_again_is_one_finding_that_says_how_often() -> None:
    found = only(*(xid(92, 400 * number) for number in range(2)))

    assert (found.count, found.severity) == (2, "warning")
    assert found.message.endswith("; 2 times")
    assert (found.first, found.last) == ("2026-03-14T12:00:00+00:00", "2026-03-14T12:06:40+00:00")
    assert len(found.evidence) == 2


def test_evidence_is_the_first_lines_of_the_root_first() -> None:
    found = only(*(xid(45, number) for number in range(20)), xid(48, 20))

    assert len(found.evidence) == 5
    assert found.evidence[0].endswith(": 48, 20")


def test_subject_carries_what_the_log_tells_of_the_gpu() -> None:
    found = only(xid(79, 0), gpu_uuids={GPU_A: "GPU-0f0f"}, gpu_serials={GPU_A: "132"})
    told = only(xid(79, 0, uuid="GPU-aaaa", serial="99"))

    assert (found.subject.uuid, found.subject.serial) == ("GPU-0f0f", "132")
    assert (told.subject.uuid, told.subject.serial) == ("GPU-aaaa", "99")


def test_message_names_process_instance_and_other_numbers() -> None:
    found = only(xid(31, 0, pid=71, name="train.py", gpu_instance=3), xid(43, 0.1))

    assert "in train.py (pid 71)" in found.message
    assert "MIG GPU instance 3" in found.message
    assert "with Xid 43" in found.message


@pytest.mark.parametrize(("number", "named"), [(31, True), (94, True), (109, True), (79, False), (95, False)])
def test_process_is_named_where_it_matters(number: int, named: bool) -> None:
    assert ("train.py (pid 71)" in only(xid(number, 0, pid=71, name="train.py")).message) is named


def test_link_fault_beside_a_lost_gpu_says_which_to_recover_first() -> None:
    by_code = {one.code: one for one in findings(xid(79, 0), xid(74, 2, GPU_B))}

    assert "GPU %s was lost at the same time" % GPU_A in by_code["xid.74"].message
    assert "at the same time" not in by_code["xid.79"].message


@pytest.mark.parametrize(
    ("xid_policy", "severity", "action"),
    [
        pytest.param({63: {"severity": "info"}}, "info", "reset_gpu", id="severity"),
        pytest.param({"63": {"severity": "critical", "action": "replace"}}, "critical", "replace", id="both"),
    ],
)
def test_inventory_has_the_last_word(xid_policy: t.Any, severity: str, action: str) -> None:
    found = only(xid(63, 0), under=policy(xid_policy=xid_policy))

    assert (found.severity, found.action) == (severity, action)


def test_inventory_may_hold_an_application_fault_against_the_node() -> None:
    found = only(xid(13, 0), under=policy(xid_policy={13: {"severity": "critical", "advice": "Stop everything."}}))

    assert (found.severity, found.advice) == ("critical", "Stop everything.")


def test_inventory_rules_over_the_words_of_a_line() -> None:
    assert only(recovery(1, 0), under=policy(xid_policy={154: {"severity": "info"}})).severity == "info"
