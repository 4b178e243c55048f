# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.kentino.gpu.plugins.module_utils._judge import gpu as judge
from ansible_collections.kentino.gpu.plugins.module_utils._parse.gpu_records import EccCounters, Gpu, GpuReading, RetiredPages, RowRemap
from ansible_collections.kentino.gpu.tests.unit.plugins.module_utils._judge.gpu_cards import (
    ALL_SPARE,
    H100,
    NO_ERRORS,
    RTX_5090,
    T4,
    change,
    node,
    of_one,
    told,
)

OLD_DRIVER = {"driver_version": "535.183.01"}
GROWS = [("gpu.ecc_correctable", "warn", "contact_vendor")]
FAILING = [("gpu.ecc_correctable", "fail", "contact_vendor")]
UNCORRECTABLE = [("gpu.ecc_uncorrectable", "fail", "reset_gpu")]


@pytest.mark.parametrize(
    ("card", "expected", "findings"),
    [
        pytest.param(change(H100, ecc_mode=False, ecc_mode_pending=False), {}, [("gpu.ecc_mode", "warn", "reset_gpu")], id="H100 off"),
        pytest.param(change(H100, ecc_mode=False, ecc_mode_pending=False), {"ecc": False}, [], id="H100 off, off expected"),
        pytest.param(change(H100, ecc_mode_pending=False), {}, [("gpu.ecc_mode", "warn", "reset_gpu")], id="H100 will be off"),
        pytest.param(H100, {"ecc": False}, [("gpu.ecc_mode", "warn", "reset_gpu")], id="H100 on, off expected"),
        pytest.param(change(RTX_5090, device_id="10de:2bb1", ecc_mode=False), {}, [], id="RTX PRO off: the owner's choice"),
        pytest.param(
            change(RTX_5090, device_id="10de:2bb1", ecc_mode=False),
            {"ecc": True},
            [("gpu.ecc_mode", "warn", "reset_gpu")],
            id="RTX PRO off, on expected",
        ),
        pytest.param(change(RTX_5090, device_id="10de:2684", ecc_mode=False), {}, [], id="RTX 4090 off"),
        pytest.param(RTX_5090, {"ecc": True}, [("gpu.ecc_mode", "warn", "none")], id="RTX 5090 has none, on expected"),
        pytest.param(RTX_5090, {"ecc": False}, [], id="RTX 5090 has none, off expected"),
    ],
)
def test_mode(card: Gpu, expected: t.Dict[str, t.Any], findings: t.List[t.Any]) -> None:
    assert of_one(card, expected) == findings


@pytest.mark.parametrize(
    ("facts", "findings"),
    [
        pytest.param({"ecc_volatile": EccCounters(0, 0, 0, 2), "ecc_aggregate": EccCounters(0, 0, 0, 2)}, UNCORRECTABLE, id="DRAM, once"),
        pytest.param({"ecc_volatile": EccCounters(0, 1, 0, 2)}, UNCORRECTABLE, id="SRAM and DRAM, once"),
        pytest.param({"ecc_volatile": EccCounters(uncorrectable=3)}, UNCORRECTABLE, id="a sum alone, as in the table"),
        pytest.param({"ecc_aggregate": EccCounters(0, 0, 0, 3)}, [], id="in earlier boots, rows told"),
        pytest.param({"ecc_aggregate": EccCounters(0, 4, 0, 0)}, [], id="four SRAM errors in its life"),
        pytest.param({"ecc_aggregate": EccCounters(0, 5, 0, 1)}, [("gpu.sram_uncorrectable", "fail", "replace")], id="five SRAM errors"),
        pytest.param({"ecc_aggregate": EccCounters(0, 0, 900000, 0)}, [], id="corrected ones in its life"),
        pytest.param({"ecc_volatile": EccCounters(0, 0, 1000, 0)}, [], id="1000 corrected"),
        pytest.param({"ecc_volatile": EccCounters(500, 0, 501, 0)}, GROWS, id="1001 corrected in SRAM and DRAM"),
        pytest.param({"ecc_volatile": EccCounters(correctable=1001, uncorrectable=0)}, GROWS, id="1001 corrected, a sum alone"),
    ],
)
def test_counters(facts: t.Dict[str, t.Any], findings: t.List[t.Any]) -> None:
    assert of_one(change(H100, **facts)) == findings


def test_past_errors_are_told_and_count_where_the_rows_are_not_told() -> None:
    past = change(H100, ecc_aggregate=EccCounters(0, 0, 0, 3))
    assert [(one.code, one.severity) for one in judge.judge(node(past), {}, {})] == [("gpu.ecc_aggregate", "info")]
    fragment = GpuReading("nvidia-smi text", (Gpu(ecc_aggregate=EccCounters(0, 0, 0, 3)),))
    assert ("gpu.ecc_aggregate", "warn", "none") in told(judge.judge(fragment, {}, {}))


def test_past_errors_that_grew_since_the_earlier_reading_count() -> None:
    earlier = judge.counters(node(change(H100, ecc_aggregate=EccCounters(0, 0, 0, 2))), 1)
    grown = change(H100, ecc_aggregate=EccCounters(0, 0, 0, 3))
    assert of_one(grown, earlier=earlier) == [("gpu.ecc_aggregate", "warn", "contact_vendor")]


def test_counters_without_heading_are_named_so() -> None:
    fragment = GpuReading("nvidia-smi text", (Gpu(ecc_section_unknown=EccCounters(0, 0, 177, 2)),))
    found = judge.judge(fragment, {}, {})
    assert told(found) == [("gpu.incomplete", "unknown", "none"), ("gpu.ecc_uncorrectable", "warn", "reset_gpu")]
    assert "DRAM 2" in found[1].message


SECOND = 1_000_000


@pytest.mark.parametrize(
    ("before", "now", "seconds", "findings"),
    [
        pytest.param((0, 0), (0, 0), 3600, [], id="none"),
        pytest.param((0, 40), (0, 40), 3600, [], id="no more"),
        pytest.param((0, 40), (0, 41), 3600, GROWS, id="one more in an hour"),
        pytest.param((3, 40), (4, 40), 3600, GROWS, id="one more in SRAM"),
        pytest.param((0, 40), (0, 41), None, GROWS, id="one more, time not known"),
        pytest.param((0, 0), (0, 599), 60, GROWS, id="just below ten a second"),
        pytest.param((0, 0), (0, 600), 60, FAILING, id="ten a second"),
        pytest.param((0, 0), (0, 278820), 60, FAILING, id="4,647 a second: a degrading HBM"),
        pytest.param((0, 900), (0, 2), 3600, GROWS, id="driver loaded again, two since"),
        pytest.param((0, 900), (0, 0), 3600, [], id="driver loaded again, none since"),
        pytest.param((0, 0), (0, 9), 0.001, GROWS, id="readings that nearly coincide make no rate"),
    ],
)
def test_growth(before: t.Tuple[int, int], now: t.Tuple[int, int], seconds: t.Optional[float], findings: t.List[t.Any]) -> None:
    old, new = (change(H100, ecc_volatile=EccCounters(sram, 0, dram, 0)) for sram, dram in (before, now))
    now_usec = None if seconds is None else 5 + int(seconds * SECOND)
    assert of_one(new, earlier=judge.counters(node(old), 5), now_usec=now_usec) == findings


def test_growth_is_seen_in_aggregate_counters_where_no_volatile_ones_are_told() -> None:
    blind = frozenset(H100.unsupported | {"ecc_volatile"})
    old = change(H100, ecc_volatile=None, unsupported=blind, ecc_aggregate=EccCounters(correctable=4))
    new = change(old, ecc_aggregate=EccCounters(correctable=6))
    assert of_one(new, earlier=judge.counters(node(old), 5)) == GROWS


def test_growth_that_the_inventory_allows() -> None:
    earlier = judge.counters(node(H100), 5)
    grown = node(change(H100, ecc_volatile=EccCounters(0, 0, 3, 0)))
    assert told(judge.judge(grown, {}, {"ecc_correctable_growth": 3}, earlier=earlier)) == []


@pytest.mark.parametrize(
    ("rows", "findings"),
    [
        pytest.param(RowRemap(3, 8, False, False, ALL_SPARE), [], id="rows remapped, done"),
        pytest.param(RowRemap(1, 0, True, False, ALL_SPARE), [("gpu.row_remap_pending", "fail", "reset_gpu")], id="pending"),
        pytest.param(RowRemap(0, 511, False, False, ALL_SPARE), [], id="511 rows"),
        pytest.param(RowRemap(0, 512, False, False, ALL_SPARE), [("gpu.row_remap_limit", "fail", "replace")], id="512 rows"),
        pytest.param(RowRemap(0, 1, False, True, {"none": 2}), [("gpu.row_remap_failed", "fail", "replace")], id="failed"),
        pytest.param(
            RowRemap(0, 1, True, True, {}),
            [("gpu.row_remap_failed", "fail", "replace"), ("gpu.row_remap_pending", "fail", "reset_gpu")],
            id="failed and pending",
        ),
        pytest.param(RowRemap(0, 8, False, False, {"none": 1}), [("gpu.row_remap_spares", "warn", "contact_vendor")], id="a bank used up"),
        pytest.param(RowRemap(histogram={"max": 640}), [], id="histogram alone"),
        pytest.param(RowRemap(), [("gpu.value_missing", "unknown", "none")], id="a section with nothing in it"),
    ],
)
def test_rows(rows: RowRemap, findings: t.List[t.Any]) -> None:
    assert of_one(change(H100, remapped=rows)) == findings


@pytest.mark.parametrize(
    ("pages", "findings"),
    [
        pytest.param(RetiredPages(2, 15, False), [], id="15 for double bit errors"),
        pytest.param(RetiredPages(0, 16, False), [("gpu.retired_pages", "warn", "contact_vendor")], id="16 for double bit errors"),
        pytest.param(RetiredPages(62, 0, False), [], id="62 in all"),
        pytest.param(RetiredPages(50, 13, False), [("gpu.retired_pages", "fail", "replace")], id="63 in all"),
        pytest.param(RetiredPages(1, None, True), [("gpu.retired_pages_pending", "fail", "reset_gpu")], id="pending"),
    ],
)
def test_pages_of_a_t4(pages: RetiredPages, findings: t.List[t.Any]) -> None:
    assert told(judge.judge(node(change(T4, retired=pages), **OLD_DRIVER), {}, {})) == findings


def test_repairs_of_blackwell() -> None:
    findings = judge.judge(node(change(H100, repair_pending=("channel", "tpc"))), {}, {})
    assert told(findings) == [("gpu.repair_pending", "fail", "reset_gpu")]
    assert "channel, tpc" in findings[0].message


def test_a_consumer_card_without_ecc_is_not_punished() -> None:
    assert RTX_5090.ecc_volatile is None
    assert of_one(RTX_5090) == []
    assert of_one(change(RTX_5090, unsupported=frozenset())) == []


def test_a_clean_card_has_no_finding_at_all() -> None:
    assert judge.judge(node(change(H100, ecc_aggregate=NO_ERRORS)), {}, {}) == ()
