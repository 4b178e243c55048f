# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._parse.kernel_log_records import AerError, DriverFault, SxidEvent
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._judge.kernel_records import (
    GPU_A,
    GPU_B,
    HOUR,
    findings,
    only,
    origin,
    policy,
    recovery,
    short,
    xid,
)

SWITCH = "0000:84:00"
PORT = "0000:40:01.1"


def _sxid(number: int, word: t.Optional[str], seconds: t.Optional[float] = 0, **fields: t.Any) -> SxidEvent:
    return SxidEvent(number, SWITCH, switch=2, severity=word, origin=origin(seconds, fields.pop("boot", None)), **fields)


@pytest.mark.parametrize(
    ("event", "severity", "action"),
    [
        pytest.param(_sxid(20034, "fatal", link=4), "critical", "reset_gpu", id="fatal"),
        pytest.param(_sxid(26001, "fatal"), "critical", "reboot_node", id="fatal-of-the-switchs-controller"),
        pytest.param(_sxid(27002, "fatal"), "critical", "reseat", id="fatal-of-the-optics"),
        pytest.param(_sxid(12028, "non-fatal"), "warning", "contact_vendor", id="non-fatal"),
        pytest.param(_sxid(20009, "correctable"), "info", "none", id="correctable"),
        pytest.param(_sxid(19055, "non-fatal"), "info", "none", id="harmless-list"),
        pytest.param(_sxid(19055, "fatal"), "critical", "reset_gpu", id="fatal-although-on-the-harmless-list"),
        pytest.param(_sxid(20034, None, orphan=True), "warning", "reseat", id="headline-lost"),
        pytest.param(_sxid(45001, "fatal"), "critical", "contact_vendor", id="family-that-nobody-knows"),
        pytest.param(_sxid(20034, "fatal", boot="previous"), "info", "none", id="before-the-last-boot"),
    ],
)
def test_nvswitch_error_by_its_word(event: SxidEvent, severity: str, action: str) -> None:
    found = only(event)

    assert (found.code, found.severity, found.action) == ("sxid.%d" % event.sxid, severity, action)
    assert (found.subject.kind, found.subject.pci, found.subject.index) == ("nvswitch", SWITCH, 2)


def test_links_of_one_switch_are_one_finding() -> None:
    found = only(*(_sxid(20034, "fatal", link=link) for link in (40, 7, 41)))

    assert found.count == 3
    assert "links 7, 40, 41" in found.message


def test_continuation_whose_headline_is_there_is_no_second_event() -> None:
    assert only(_sxid(20034, "fatal", link=4), _sxid(20034, None, orphan=True)).severity == "critical"


@pytest.mark.parametrize(("seconds", "told"), [(20, True), (70, False), (None, False)], ids=["within-a-minute", "later", "time-not-known"])
def test_link_that_goes_down_with_a_gpu_says_so(seconds: t.Optional[float], told: bool) -> None:
    by_code = {one.code: one for one in findings(xid(79, 0), _sxid(20034, "fatal", seconds, link=4))}

    assert ("GPU %s failed at the same time" % GPU_A in by_code["sxid.20034"].message) is told


@pytest.mark.parametrize(
    ("kind", "severity", "action"),
    [
        ("rm_init_failed", "critical", "reboot_node"),
        ("memory_subsystem_error", "critical", "reset_gpu"),
        ("probe_failed", "critical", "reboot_node"),
        ("power_cables_missing", "critical", "check_power"),
        ("api_mismatch", "warning", "reboot_node"),
        ("something_new", "warning", "contact_vendor"),
    ],
)
def test_driver_failure_without_an_xid(kind: str, severity: str, action: str) -> None:
    found = only(DriverFault(kind, GPU_B, text="NVRM: words", origin=origin(0)))

    assert (found.code, found.severity, found.action) == ("driver." + kind, severity, action)
    assert found.subject.pci == GPU_B
    assert found.advice


def test_api_mismatch_is_no_broken_gpu() -> None:
    found = only(DriverFault("api_mismatch", origin=origin(0)))

    assert found.subject.kind == "node"
    assert "not a broken GPU" in found.message


def test_every_open_of_a_dead_gpu_repeats_and_is_one_finding() -> None:
    faults = [DriverFault("rm_init_failed", GPU_A, minor=3, code="0x26:0x56:1463", count=4, origin=origin(second)) for second in (0, 30)]

    both = findings(*faults, DriverFault("rm_init_failed", GPU_B, origin=origin(0)))
    assert sorted((one.subject.pci, one.count) for one in both) == [(GPU_A, 8), (GPU_B, 1)]
    assert "code 0x26:0x56:1463; device minor number 3" in next(one.message for one in both if one.subject.pci == GPU_A)


def test_what_follows_from_a_lost_gpu_is_told_once() -> None:
    lost = DriverFault("gpu_lost_at_probe", GPU_A, equivalent_xid=79, origin=origin(0))
    probe = DriverFault("probe_failed", GPU_A, code="-1", origin=origin(0.1))
    count = DriverFault("probe_failed", text="The NVIDIA probe routine failed for 1 device(s).", origin=origin(0.2))
    other = DriverFault("rm_init_failed", GPU_B, origin=origin(1))

    found = [(one.code, one.severity, one.subject.pci) for one in findings(lost, probe, count, other)]

    assert sorted(found, key=str) == [
        ("driver.probe_failed", "info", GPU_A),
        ("driver.probe_failed", "info", None),
        ("driver.rm_init_failed", "critical", GPU_B),
        ("xid.79", "critical", GPU_A),
    ]
    assert [one.severity for one in findings(count)] == ["critical"]


def test_driver_diagnosis_is_no_finding() -> None:
    assert (
        findings(DriverFault("driver_trace", informational=True), DriverFault("gsp_timeout", equivalent_xid=119, informational=True)) == ()
    )


@pytest.mark.parametrize(("end", "severity"), [(600, "info"), (-600, "critical")], ids=["reset-afterwards", "reset-before"])
def test_recovery_clears_a_driver_failure_that_a_reset_mends(end: float, severity: str) -> None:
    fault = DriverFault("memory_subsystem_error", GPU_A, origin=origin(0))

    assert {one.severity for one in findings(fault, recovery(0, end)) if one.code == "driver.memory_subsystem_error"} == {severity}


def _aer(severity: str, seconds: t.Optional[float] = 0, **fields: t.Any) -> AerError:
    return AerError(PORT, severity, origin=origin(seconds), **fields)


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        pytest.param([_aer("uncorrectable_fatal")], ("pcie.aer_fatal", "critical", "reseat"), id="fatal"),
        pytest.param([_aer("uncorrectable_nonfatal")], ("pcie.aer_nonfatal", "warning", "reseat"), id="nonfatal"),
        pytest.param([_aer("correctable")], ("pcie.aer_correctable", "info", "none"), id="one-corrected"),
        pytest.param([_aer("correctable", second) for second in range(16)], ("pcie.aer_correctable", "info", "none"), id="16-in-a-minute"),
        pytest.param(
            [_aer("correctable", second) for second in range(17)], ("pcie.aer_correctable", "warning", "reseat"), id="17-in-a-minute"
        ),
        pytest.param([_aer("correctable", 4 * n) for n in range(40)], ("pcie.aer_correctable", "info", "none"), id="40-in-some-minutes"),
        pytest.param([_aer("correctable", None, count=30)], ("pcie.aer_correctable", "info", "none"), id="30-without-times"),
        pytest.param([_aer("correctable", None, count=31)], ("pcie.aer_correctable", "warning", "reseat"), id="31-without-times"),
    ],
)
def test_pcie_errors_of_a_port(errors: t.Sequence[AerError], expected: t.Tuple[str, str, str]) -> None:
    found = only(*errors)

    assert (found.code, found.severity, found.action) == expected
    assert (found.subject.kind, found.subject.pci) == ("pcie_port", PORT)


@pytest.mark.parametrize(
    ("count", "end", "severity"),
    [(17, "2026-03-14T12:00:30+00:00", "warning"), (17, "2026-03-14T12:02:00+00:00", "info"), (31, None, "warning"), (30, None, "info")],
    ids=["log-ends-at-once", "log-ends-two-minutes-later", "many-and-no-end", "some-and-no-end"],
)
def test_equal_errors_in_one_record_count_over_the_rest_of_the_log(count: int, end: t.Optional[str], severity: str) -> None:
    assert only(_aer("correctable", 0, count=count), last_time=end).severity == severity


def test_record_whose_last_line_is_not_known_does_not_age() -> None:
    now = int(origin(100 * HOUR).usec or 0)
    fault = {"kind": "api_mismatch", "origin": origin(0)}

    assert only(DriverFault(**fault), under=policy(now_usec=now)).severity == "info"
    assert only(DriverFault(**fault, count=9), under=policy(now_usec=now)).severity == "warning"


def test_corrected_errors_name_the_measured_and_the_allowed_figure() -> None:
    found = only(*(_aer("correctable", second) for second in range(20)), under=policy(limits={"aer_correctable_per_minute": 18}))

    assert "20 within a minute, 18 are allowed" in found.message


def test_fatal_pcie_error_names_bits_devices_and_that_they_did_not_recover() -> None:
    error = _aer("uncorrectable_fatal", error_type="Transaction Layer", bits=("SDES", "CmpltTO"), source="0000:41:00")

    found = only(error, affected=(GPU_B,), recovered=False)

    for part in ("Transaction Layer (SDES, CmpltTO)", "from 0000:41:00", "devices behind it: " + GPU_B, "could not recover"):
        assert part in found.message


def test_device_that_did_not_recover_without_its_error_line() -> None:
    assert short(findings(affected=(GPU_B,), recovered=False)) == [("pcie.not_recovered", "critical", "reboot_node")]
    assert findings(recovered=True) == ()
