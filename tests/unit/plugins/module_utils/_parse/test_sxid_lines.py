# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._parse.kernel_lines import parse


def sxids(text):
    return [(one.sxid, one.pci, one.switch, one.severity, one.link, one.orphan, one.count) for one in parse(text).sxids]


HEAD = "nvidia-nvswitch2: SXid (PCI:0000:c7:00.0): 22013, Non-fatal, Link 11 Minion Link DLREQ interrupt"
SEVERITY = "nvidia-nvswitch2: SXid (PCI:0000:c7:00.0): 22013, Severity 0 Engine instance 11 Sub-engine instance 00"
DATA = "nvidia-nvswitch2: SXid (PCI:0000:c7:00.0): 22013, Data {0x00000011, 0x00000000, 0x00000000, 0x00000000}"
OTHER = "nvidia-nvswitch0: SXid (PCI:0000:c5:00.0): 20034, Fatal, Link 40 LTSSM Fault Up (First)"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([HEAD, SEVERITY, DATA, DATA], [(22013, "0000:c7:00", 2, "non-fatal", 11, False, 1)], id="one error of four lines"),
        pytest.param(
            [HEAD, OTHER, SEVERITY, DATA],
            [(22013, "0000:c7:00", 2, "non-fatal", 11, False, 1), (20034, "0000:c5:00", 0, "fatal", 40, False, 1)],
            id="lines of two switches interleave",
        ),
        pytest.param([SEVERITY, DATA, DATA], [(22013, "0000:c7:00", 2, None, None, True, 1)], id="headline lost"),
        pytest.param([DATA], [(22013, "0000:c7:00", 2, None, None, True, 1)], id="only the data left"),
        pytest.param(
            [SEVERITY, HEAD, SEVERITY, DATA],
            [(22013, "0000:c7:00", 2, None, None, True, 1), (22013, "0000:c7:00", 2, "non-fatal", 11, False, 1)],
            id="rest of one error, then a whole one",
        ),
        pytest.param(
            [HEAD, SEVERITY, DATA, SEVERITY, DATA],
            [(22013, "0000:c7:00", 2, "non-fatal", 11, False, 1), (22013, "0000:c7:00", 2, None, None, True, 1)],
            id="second headline lost",
        ),
        pytest.param([HEAD, HEAD, SEVERITY, SEVERITY], [(22013, "0000:c7:00", 2, "non-fatal", 11, False, 2)], id="the same error twice"),
        pytest.param(
            ["nvidia-nvswitch1: SXid (PCI:0000:c6:00.0): 11012, Correctable, Link 03 ECC limit"],
            [(11012, "0000:c6:00", 1, "correctable", 3, False, 1)],
            id="corrected",
        ),
        pytest.param(
            ["nvidia-nvswitch1: SXid (PCI:0000:c6:00.0): 10003, Fatal, Host error, instance=4, chiplet=0"],
            [(10003, "0000:c6:00", 1, "fatal", None, False, 1)],
            id="no link in the text",
        ),
        pytest.param(
            ["SXid (PCI:0000:c6:00.0): 20034, LTSSM Fault Up"],
            [(20034, "0000:c6:00", None, None, None, False, 1)],
            id="neither switch nor severity",
        ),
    ],
)
def test_sxids(lines, expected):
    assert sxids("\n".join("[%d.000001] %s" % (number, line) for number, line in enumerate(lines, 7000))) == expected


def test_an_sxid_is_no_xid():
    log = parse(HEAD)
    assert (log.events, log.unrecognised) == ((), ())


@pytest.mark.parametrize(
    "text", ["nvidia-nvswitch2: SXid (PCI:0000:c7", "nvidia-nvswitch2: SXid (PCI:0000:c7:00.0): 2x", "nvidia-nvswitch2: SXid"]
)
def test_sxid_that_cannot_be_read_is_not_dropped(text):
    log = parse(text)
    assert (log.sxids, log.unrecognised) == ((), (text,))


MANAGER = (
    "[Jan 09 2026 19:17:49] [ERROR] [tid 431] detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id 00000000:C7:00.0"
    " physical id 2 port 18"
)


def test_fabric_manager_prints_each_line_twice():
    assert sxids(MANAGER + "\n" + MANAGER) == [(12028, "0000:c7:00", None, "non-fatal", 18, False, 1)]


def test_fabric_manager_repeats_what_the_driver_said():
    driver = "nvidia-nvswitch2: SXid (PCI:0000:c7:00.0): 12028, Non-fatal, Link 18 egress non-posted PRIV error"
    assert sxids(driver + "\n" + MANAGER) == [(12028, "0000:c7:00", 2, "non-fatal", 18, False, 1)]
    assert [one[1] for one in sxids(driver.replace("c7", "c6") + "\n" + MANAGER)] == ["0000:c6:00", "0000:c7:00"]
