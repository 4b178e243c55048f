# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._knowledge import nvlink4, nvlink5
from hypothesis import given
from hypothesis import strategies as st

OLD, NEW = "570.124.06", "580.65.06"


@pytest.mark.parametrize(
    ("xid", "subcode", "intrinfo", "status", "driver", "severity", "action"),
    [
        pytest.param(144, "SAW_MVB", 0x021, 0x4, OLD, "info", "none", id="570-harmless-row"),
        pytest.param(144, "SAW_MVB", 0x021, 0x2, OLD, "critical", "reset_gpu", id="570-fatal-row"),
        pytest.param(144, "SAW_MVB", 0x001, 0x2, NEW, "critical", "reset_gpu", id="580-fatal-row"),
        pytest.param(144, "SAW_MVB", 0x001, 0x8, NEW, "warning", "none", id="580-harmless-now-vendor-later"),
        pytest.param(145, "RLW_REMAP", 0x082, 0x10, OLD, "warning", "restart_job", id="570-follows-154"),
        pytest.param(145, "RLW_RXPIPE", 0x0C2, 0x1, OLD, "warning", "none", id="570-pipe-not-flagged"),
        pytest.param(145, "RLW_RXPIPE", 0x4C2, 0x1, OLD, "critical", "reset_gpu", id="570-pipe-flagged-bit-10"),
        pytest.param(145, "RLW_RXPIPE", 0x086, 0x1, NEW, "critical", "reset_gpu", id="580-pipe-flagged-bit-7"),
        pytest.param(146, "TLW_RX_PIPE1", 0x00B, 0x4, NEW, "critical", "reset_gpu", id="580-second-pipe-has-its-own-field"),
        pytest.param(149, "NETIR_BER_EVENT", 0x226, 0x2, OLD, "warning", "none", id="570-bit-errors-are-not-fatal"),
        pytest.param(149, "NETIR_LINK_DOWN", 0x02600011, 0x0, NEW, "warning", "none", id="580-link-taken-down-by-software"),
        pytest.param(149, "NETIR_LINK_EVT", 0x015001C6, 0x7, OLD, "critical", "reset_gpu", id="570-link-down-by-the-peer-any-status"),
        pytest.param(150, "MSE_WATCHDOG", 0x0, 0x0, NEW, "critical", "reset_gpu", id="580-management-engine"),
    ],
)
def test_decode_by_driver_generation(xid: int, subcode: str, intrinfo: int, status: int, driver: str, severity: str, action: str) -> None:
    found = nvlink5.decode(xid, subcode, intrinfo, status, driver)

    assert found.known
    assert not found.ambiguous
    assert (found.severity, found.action) == (severity, action)


def test_every_row_of_the_sheet_is_found_under_both_layouts() -> None:
    for unit in nvlink5.UNITS:
        for row in unit.rows:
            for driver, word in ((OLD, unit.word_v1), (NEW, unit.word_v2)):
                found = nvlink5.decode(unit.xid, unit.names[0], row.reason << 20 | word, row.status or 0, driver)
                assert found.known, (unit, row, driver)
                assert (found.severity == "critical") == (row.now == nvlink5.RESET), (unit, row, driver)


def test_text_and_sheet_disagree_the_worse_is_taken_and_said() -> None:
    found = nvlink5.decode(145, "RLW_REMAP", "0x00000082", "0x00000080", OLD, word="Nonfatal")

    assert found.conflict
    assert (found.severity, found.action) == ("critical", "reset_gpu")
    assert "line says Nonfatal, NVIDIA's sheet says fatal" in found.note


def test_text_says_fatal_where_the_sheet_does_not() -> None:
    found = nvlink5.decode(144, "SAW_MVB", 0x021, 0x4, OLD, word="Fatal")

    assert found.conflict
    assert (found.severity, found.action) == ("critical", "reset_gpu")


@pytest.mark.parametrize("word", ["Fatal", "Nonfatal", "Non-fatal", None])
def test_row_whose_severity_depends_on_a_flag_is_no_conflict(word: t.Optional[str]) -> None:
    found = nvlink5.decode(145, "RLW_RXPIPE", 0x4C2, 0x2, OLD, word=word)

    assert not found.conflict
    assert found.severity == "critical"


@pytest.mark.parametrize("driver", [None, "", "open kernel module"], ids=["not-told", "empty", "unreadable"])
def test_unknown_driver_tries_both_layouts(driver: t.Optional[str]) -> None:
    assert nvlink5.decode(145, None, 0x082, 0x40, driver).severity == "critical"
    assert nvlink5.decode(145, None, 0x004, 0x40, driver).severity == "critical"


def test_unit_and_registers_of_different_units_take_the_worse() -> None:
    found = nvlink5.decode(145, "RLW_TAGSTATE", 0x0A2, 0x1, OLD, word="Nonfatal")

    assert found.ambiguous
    assert "disagree" in found.note


def test_unit_name_tells_rows_apart_where_registers_were_cut() -> None:
    cut = nvlink5.decode(150, "MSE_WATCHDOG", None, None, word="Fatal")
    harmless = nvlink5.decode(145, "RLW_SRC_TRACK", None, None, word="Nonfatal")

    assert (cut.severity, cut.action) == ("critical", "reset_gpu")
    assert harmless.severity == "warning"


@pytest.mark.parametrize(
    ("word", "severity", "action"),
    [("Fatal", "critical", "reset_gpu"), ("Nonfatal", "warning", "contact_vendor"), (None, "warning", "contact_vendor")],
)
def test_no_row_fits_and_the_words_decide(word: t.Optional[str], severity: str, action: str) -> None:
    found = nvlink5.decode(146, "TLW_NEW", 0x3FF, 0x77, NEW, word=word)

    assert not found.known
    assert found.rows == ()
    assert (found.severity, found.action) == (severity, action)
    assert "no row" in found.note


def test_link_down_reason_is_bits_25_to_20() -> None:
    assert nvlink5.decode(149, "NETIR_LINK_DOWN", 0x02A00011, 0x0, NEW).link_down_reason == 0x2A
    assert nvlink5.decode(149, "NETIR_LINK_DOWN", 0x00000011, 0x0, NEW).link_down_reason == 0
    assert nvlink5.decode(145, "RLW_REMAP", 0x082, 0x1, OLD).link_down_reason is None


@given(
    xid=st.integers(140, 155),
    subcode=st.one_of(st.none(), st.sampled_from(["RLW_REMAP", "netir", "MSE Degraded", "x/y"]), st.text(max_size=12)),
    intrinfo=st.one_of(st.none(), st.integers(-1, 2**33), st.text(max_size=12)),
    status=st.one_of(st.none(), st.integers(-1, 2**33), st.text(max_size=12)),
    driver=st.one_of(st.none(), st.text(max_size=12), st.sampled_from([OLD, NEW])),
    word=st.one_of(st.none(), st.sampled_from(["Fatal", "Nonfatal"]), st.text(max_size=8)),
)
def test_decode_never_raises_and_a_fatal_line_never_passes(
    xid: int, subcode: t.Any, intrinfo: t.Any, status: t.Any, driver: t.Any, word: t.Any
) -> None:
    found = nvlink5.decode(xid, subcode, intrinfo, status, driver, word)

    assert found.severity in ("info", "warning", "critical")
    if word == "Fatal":
        assert found.severity != "info"


@pytest.mark.parametrize(
    ("registers", "kind", "action"),
    [
        pytest.param(["0x0", "0x0", "0x10000", "0x0", "0x0", "0x0", "0x0"], nvlink4.REPEATS, "reset_gpu", id="third-word-bit-16"),
        pytest.param(["0x10000", "0x0", "0x0", "0x0", "0x0", "0x0", "0x0"], nvlink4.MECHANICAL, "reseat", id="first-word-bit-16"),
        pytest.param([1 << 23, 0, 0, 0, 0, 0, 0], nvlink4.HARMLESS, "none", id="first-word-ignorable-bit"),
        pytest.param([0, 0, 0, 0, 1 << 20 | 1 << 29, 0, 0], nvlink4.HARMLESS, "none", id="fifth-word-threshold-of-corrected-errors"),
        pytest.param([1 << 0 | 1 << 4, 0, 0, 0, 0, 0, 0], nvlink4.ECC, "reset_gpu", id="worst-bit-decides"),
        pytest.param([1 << 21, 0, 0, 0, 0, 0, 0], nvlink4.SIGNAL, "reseat", id="marginal-signal"),
        pytest.param([0, 0, 0, 1 << 18, 0, 0, 0], nvlink4.SYMPATHETIC, "reset_gpu", id="fourth-word-follows-another-error"),
        pytest.param([1 << 31, 0, 0, 0, 0, 0, 0], nvlink4.UNKNOWN, "contact_vendor", id="bit-that-nobody-describes"),
    ],
)
def test_registers_of_xid_74(registers: t.Sequence[t.Any], kind: str, action: str) -> None:
    found = nvlink4.decode(registers)

    assert found is not None
    assert (found.kind, found.action) == (kind, action)
    assert found.note


@pytest.mark.parametrize(
    "registers", [[], ["0x0"] * 7, [0, 5, 0, 0, 0, 9, 9], ["0x1", "zz"]], ids=["none", "zero", "other-words", "garbled"]
)
def test_registers_that_say_nothing(registers: t.Sequence[t.Any]) -> None:
    assert nvlink4.decode(registers) is None
