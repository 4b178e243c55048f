# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._parse.kernel_lines import parse


def aer(text):
    return [(one.port, one.severity, one.error_type, one.bits, one.first, one.multiple, one.source, one.count) for one in parse(text).aer]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "pcieport 0000:60:03.1: AER: Corrected error received: id=6018\n"
            "pcieport 0000:60:03.1: PCIe Bus Error: severity=Corrected, type=Data Link Layer, id=6019(Transmitter ID)\n"
            "pcieport 0000:60:03.1:   device [8086:6f08] error status/mask=00001000/00002000\n"
            "pcieport 0000:60:03.1:    [12] Replay Timer Timeout  ",
            [("0000:60:03.1", "correctable", "Data Link Layer", ("Replay Timer Timeout",), None, False, "0000:60:03.0", 1)],
            id="kernel 4.15: requester id, long bit names",
        ),
        pytest.param(
            "pcieport 0000:60:03.0: AER: Multiple Uncorrected (Fatal) error received: 0000:60:03.0\n"
            "pcieport 0000:60:03.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)\n"
            "pcieport 0000:60:03.0:   device [8086:6f08] error status/mask=00004020/00000000\n"
            "pcieport 0000:60:03.0:    [ 5] SDES                  \n"
            "pcieport 0000:60:03.0:    [14] CmpltTO                (First)",
            [("0000:60:03.0", "uncorrectable_fatal", "Transaction Layer", ("SDES", "CmpltTO"), "CmpltTO", True, "0000:60:03.0", 1)],
            id="kernel 5.4",
        ),
        pytest.param(
            "pcieport 0000:60:03.1: AER: Correctable error message received from 0000:61:00.0\n"
            "nvidia 0000:61:00.0: AER: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)\n"
            "nvidia 0000:61:00.0: AER:   device [10de:2684] error status/mask=00000001/00000000\n"
            "nvidia 0000:61:00.0: AER:    [ 0] RxErr                  (First)",
            [("0000:60:03.1", "correctable", "Physical Layer", ("RxErr",), "RxErr", False, "0000:61:00.0", 1)],
            id="kernel 6.9: the device behind the port tells the details",
        ),
        pytest.param(
            "pcieport 0000:60:03.1: AER: Uncorrectable (Non-Fatal) error message received from 0000:00:00.0\n"
            "pcieport 0000:60:03.1: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer, (Completer ID)",
            [("0000:60:03.1", "uncorrectable_nonfatal", "Transaction Layer", (), None, False, None, 1)],
            id="source not caught",
        ),
        pytest.param(
            "pcieport 0000:60:03.1: AER: Uncorrectable (Non-Fatal) error received from 0000:61:00.0\n"
            "snd_hda_intel 0000:61:00.1: PCIe Bus Error: Uncorrectable (Non-Fatal), type=Transaction Layer",
            [("0000:60:03.1", "uncorrectable_nonfatal", "Transaction Layer", (), None, False, "0000:61:00.0", 1)],
            id="severity without its key, another function of the source",
        ),
        pytest.param(
            "pcieport 0000:60:03.1: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
            [("0000:60:03.1", "correctable", "Physical Layer", (), None, False, None, 1)],
            id="headline lost",
        ),
        pytest.param(
            "pcieport 0000:60:03.1: AER: Uncorrected (Fatal) error received: 0000:61:00.0",
            [("0000:60:03.1", "uncorrectable_fatal", None, (), None, False, "0000:61:00.0", 1)],
            id="only the headline",
        ),
        pytest.param(
            "pcieport 0000:60:03.1: PCIe Bus Error: severity=Uncorrected (Fa",
            [("0000:60:03.1", "uncorrectable_fatal", None, (), None, False, None, 1)],
            id="cut in the word that tells fatal",
        ),
        pytest.param(
            "pcieport 0000:60:03.1: AER: Correctable error message received from 0000:61:00.0\n"
            "nvidia 0000:61:00.0: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Receiver ID)\n"
            "nvidia 0000:61:00.0:   device [10de:2684] error status/mask=00001040/00000000",
            [("0000:60:03.1", "correctable", "Data Link Layer", ("BadTLP", "Timeout"), None, False, "0000:61:00.0", 1)],
            id="bit lines lost: the status register tells them",
        ),
        pytest.param(
            "pcieport 0000:60:03.1: DPC: containment event, status:0x1f01 source:0x0000\n"
            "pcieport 0000:60:03.1: DPC: unmasked uncorrectable error detected\n"
            "pcieport 0000:60:03.1: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer, (Receiver ID)\n"
            "pcieport 0000:60:03.1:    [ 5] SDES                   (First)",
            [("0000:60:03.1", "uncorrectable_nonfatal", "Transaction Layer", ("SDES",), "SDES", False, None, 1)],
            id="DPC, then the error behind it",
        ),
        pytest.param(
            "pcieport 0000:60:03.1: DPC: containment event, status:0x1f03 source:0x6100",
            [("0000:60:03.1", "uncorrectable_nonfatal", None, (), None, False, "0000:61:00.0", 1)],
            id="DPC on a non-fatal message",
        ),
        pytest.param(
            "pcieport 0000:60:03.1: DPC: containment event, status:0x1f05, ERR_FATAL received from 0000:61:00.0",
            [("0000:60:03.1", "uncorrectable_fatal", None, (), None, False, "0000:61:00.0", 1)],
            id="DPC on a fatal message, kernel 6.12",
        ),
        pytest.param(
            "{3}[Hardware Error]: event severity: recoverable\n{3}[Hardware Error]:   section_type: PCIe error\n"
            "{3}[Hardware Error]:   device_id: 0000:60:03.1\n{3}[Hardware Error]:   vendor_id: 0x8086, device_id: 0x6f08\n"
            "pcieport 0000:60:03.1: AER: aer_status: 0x00004000, aer_mask: 0x00000000\n"
            "pcieport 0000:60:03.1: AER: aer_layer=Transaction Layer, aer_agent=Requester ID",
            [("0000:60:03.1", "uncorrectable_nonfatal", "Transaction Layer", ("CmpltTO",), None, False, None, 1)],
            id="firmware first (GHES)",
        ),
    ],
)
def test_reports(text, expected):
    assert aer(text) == expected
    assert aer("\n".join("[%d.000001] %s" % (number, line) for number, line in enumerate(text.split("\n"), 100))) == expected


@pytest.mark.parametrize(
    "text",
    [
        "pcieport 0000:60:03.1: AER: enabled with IRQ 54",
        "pcieport 0000:60:03.1: DPC: enabled with IRQ 54",
        (
            "pcieport 0000:60:03.1: DPC: error containment capabilities: Int Msg #0, RPExt+ PoisonedTLP+ SwTrigger+ RP PIO Log "
            "4, DL_ActiveErr+"
        ),
        "acpi PNP0A08:02: _OSC: OS now controls [PCIeHotplug PME AER PCIeCapability LTR DPC]",
        "pcieport 0000:60:03.1: AER: Root Port link has been reset (0)",
        "nvidia 0000:61:00.0:    [ 0] RxErr",
        "{1}[Hardware Error]: event severity: info",
    ],
)
def test_lines_that_are_no_error(text):
    log = parse(text)
    assert (log.aer, log.affected, log.recovered, log.other) == ((), (), None, ())


def test_devices_that_an_error_reached_and_that_the_kernel_gave_up():
    log = parse(
        "nvidia 0000:62:00.0: AER: can't recover (no error_detected callback)\n"
        "snd_hda_intel 0000:62:00.1: AER: can't recover (no error_detected callback)\n"
        "pcieport 0000:60:03.0: AER: Uncorrected (Fatal) error received: 0000:61:00.0\n"
        "pcieport 0000:60:03.0: AER: Root Port link has been reset (0)\n"
        "pcieport 0000:60:03.0: AER: device recovery successful"
    )
    assert (log.affected, log.recovered) == (("0000:62:00", "0000:61:00"), False)


@pytest.mark.parametrize(("word", "recovered"), [("successful", True), ("failed", False)])
def test_outcome_of_recovery(word, recovered):
    assert parse("pcieport 0000:60:03.0: AER: device recovery " + word).recovered is recovered


def test_equal_reports_are_counted_and_others_are_not_mixed_in():
    report = (
        "pcieport 0000:60:03.1: AER: Correctable error message received from 0000:%s:00.0\n"
        "nvidia 0000:%s:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)\nnvidia 0000:%s:00.0:    [ 0] %s\n"
    )
    text = (report % ("61", "61", "61", "RxErr") + report % ("62", "62", "62", "BadTLP")) * 300
    assert [(source, bits, count) for dummy, dummy, dummy, bits, dummy, dummy, source, count in aer(text)] == [
        ("0000:61:00.0", ("RxErr",), 300),
        ("0000:62:00.0", ("BadTLP",), 300),
    ]


def test_reports_of_two_ports_interleave():
    text = (
        "pcieport 0000:60:03.1: AER: Corrected error received: 0000:61:00.0\n"
        "pcieport 0000:a0:01.0: AER: Corrected error received: 0000:a1:00.0\n"
        "nvidia 0000:a1:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Receiver ID)\n"
        "nvidia 0000:61:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)\n"
        "nvidia 0000:a1:00.0:    [ 7] BadDLLP\nnvidia 0000:61:00.0:    [ 0] RxErr"
    )
    assert [(port, layer, bits) for port, dummy, layer, bits, *dummies in aer(text)] == [
        ("0000:60:03.1", "Physical Layer", ("RxErr",)),
        ("0000:a0:01.0", "Data Link Layer", ("BadDLLP",)),
    ]


def test_firmware_report_of_another_part():
    log = parse("{2}[Hardware Error]: event severity: corrected\n{2}[Hardware Error]:   section_type: memory error")
    assert (log.aer, [(one.kind, one.informational) for one in log.other]) == ((), [("hardware_error", True)])
