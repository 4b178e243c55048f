# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._cli.explain import explain
from ansible_collections.kentino.gpu.plugins.module_utils._knowledge import actions, codes, kernel_events, sxid_catalogue, xid_catalogue

# Words of NVIDIA's catalogue that mean nothing to an operator.
_TOKENS = re.compile(
    r"RESET_GPU|RESTART_|CONTACT_SUPPORT|WORKFLOW_|CHECK_(?:APP|UVM|MECH)|INVESTIGATE_|SYMPATHETIC_|REPORT_ISSUE|XID_1\d\d_|IGNORE|UPDATE_SWFW|_FLOW\b"
)

LOST = "[ 4711.250000] NVRM: Xid (PCI:0000:3d:00): 79, pid=2211, name=train.py, GPU has fallen off the bus."


@pytest.mark.parametrize("number", range(1, 177))
def test_every_xid_reads_well_at_night(number: int) -> None:
    text = explain(str(number))
    lines = text.split("\n")

    assert lines[0].startswith("Xid %d: " % number)
    assert any(sentence in " ".join(text.split()) for sentence in actions.SENTENCES.values())
    assert not _TOKENS.search(text)
    assert max(len(line) for line in lines) <= 110
    assert 8 <= len(lines) <= 26
    assert all(line.strip() for line in lines)
    for label in ("How bad:", "How:", "Application:", "Who says so:", "Driver name:"):
        assert label in text


@pytest.mark.parametrize(
    "what",
    ["79", " 79 ", "xid 79", "Xid79", "XID.79", "xid.79", "xid:79", "xid-79", "Xid #79", "xid_79", LOST, "x " + LOST],
)
def test_one_xid_in_many_spellings(what: str) -> None:
    assert explain(what).startswith("Xid 79: GPU no longer answers on PCIe")


def test_79_says_to_reseat_before_anything_is_sent_in_and_what_nvidia_says() -> None:
    text = " ".join(explain("79").split())

    assert "Do first: Reseat the card, riser and power cables, then retest; no RMA before that." in text
    assert "It pages at once." in text
    assert "NVIDIA's own bucket is a restart of the machine" in text


def test_pasted_line_is_judged_itself() -> None:
    line = "NVRM: Xid (PCI:0001:22:00): 145, RLW_RSPCOL Nonfatal XC0 i0 Link 7 (0x000000a2 0x00000002 0x0 0x0)"

    text = " ".join(explain(line).split())

    assert "This line: GPU 0001:22:00, critical: RLW_RSPCOL link 7; the line says Nonfatal, NVIDIA's sheet says fatal" in text


@pytest.mark.parametrize(
    ("line", "title"),
    [
        pytest.param("[  9.1] NVRM: GPU 0000:21:00.0: GPU has fallen off the bus.", "Xid 79: ", id="loss-in-plain-words"),
        pytest.param("[  9.1] NVRM: GPU 0000:21:00.0: RmInitAdapter failed! (0x24:0x65:1497)", "driver.rm_init_failed: ", id="driver"),
        pytest.param("kernel: nvme nvme4: Removing after probe failure status: -19", "storage.nvme_removed: ", id="drive"),
        pytest.param("nvidia-nvswitch3: SXid (PCI:0000:c8:00.0): 12028, Non-fatal, Link 11 egress", "SXid 12028 (NVSwitch): ", id="switch"),
    ],
)
def test_pasted_lines_without_an_xid(line: str, title: str) -> None:
    assert explain(line).startswith(title)


@pytest.mark.parametrize("what", ["sxid 20034", "SXid20034", "sxid.20034", "SXID: 20034"])
def test_sxid_in_many_spellings(what: str) -> None:
    text = explain(what)

    assert text.startswith("SXid 20034 (NVSwitch): ")
    assert "Xid 79 or 74" in text


def test_harmless_sxid_says_so() -> None:
    assert "Harmless unless the line says Fatal." in explain("sxid 19057")
    assert "nobody outside NVIDIA knows" in explain("sxid 99999")


@pytest.mark.parametrize("family", sxid_catalogue.FAMILIES, ids=lambda family: str(family[0]))
def test_every_sxid_family_is_explained(family: t.Any) -> None:
    assert family[2] in explain("sxid %d" % (family[0] + 7))


@pytest.mark.parametrize(
    "code",
    [
        *(entry.code for entry in codes.CODES if not entry.code.endswith(".")),
        *kernel_events.EVENTS,
        "psu.lost",
        "gpu.whatever",
        "tool.denied",
    ],
)
def test_every_code_of_a_finding_is_explained(code: str) -> None:
    text = explain(code)

    assert text.startswith(code + ": ")
    assert "Do first:" in text


def test_number_that_nobody_knows_is_explained_as_such() -> None:
    assert "nobody outside NVIDIA knows this number" in explain("xid 700")


@pytest.mark.parametrize(
    "what", ["", "  ", "0", "xid", "xid 0", "2026", "sxid", "79 80", "gpu", "gpu.", "weather.rain", "all is well", "x" * 500]
)
def test_anything_else_is_refused_with_what_was_expected(what: str) -> None:
    with pytest.raises(ValueError, match="cannot explain") as caught:
        explain(what)

    for part in ("expected an Xid (79", "an SXid (sxid 20034)", "gpu.pcie_width", "a line of the kernel log"):
        assert part in str(caught.value)
    assert len(str(caught.value)) < 300


def test_inventorys_word_is_explained_and_named() -> None:
    text = explain("63", {63: {"severity": "critical", "action": "replace", "advice": "Call Jana."}})

    assert "Critical" in text
    assert actions.SENTENCES["replace"] in text
    assert "Call Jana." in text
    assert "This site's gpu_xid_policy sets action, advice, severity." in text


def test_explanation_of_154_lists_what_the_line_may_ask_for() -> None:
    text = " ".join(explain("154").split())

    assert "To a reset: " + actions.SENTENCES["reset_gpu"] in text
    assert "To a reboot: " + actions.SENTENCES["reboot_node"] in text


def test_catalogue_holds_no_raw_token_either() -> None:
    for entry in xid_catalogue.ENTRIES:
        assert not _TOKENS.search(" ".join((entry.meaning, entry.advice, entry.rationale, entry.seen_with, entry.since)))
