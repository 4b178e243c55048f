# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Memory errors of a GPU: ECC counters, row remapping, page retirement, repairs. Private to kentino.gpu."""

from __future__ import annotations

import typing as t

from .._parse.gpu_records import EccCounters, Gpu
from .._report.model import Finding
from .gpu_context import Context, Growth, found, has_value, is_unsupported

_CORRECTABLE = ("sram_correctable", "dram_correctable")
_RESET = "let running work end, then reset the GPU; test its memory before the next long run"
_WATCH = "watch the counter and plan the replacement: corrected errors that grow come before uncorrectable ones"


def judge_ecc_mode(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    wanted, known = context.expected.get("ecc"), context.platform(gpu)
    switch = "nvidia-smi -e %d -i INDEX, then reset the GPU"
    if gpu.ecc_mode is None:
        if wanted and is_unsupported(gpu, "ecc_mode"):
            yield found(gpu, "gpu.ecc_mode", "warning", "the GPU does not support ECC, on expected")
        return
    if gpu.ecc_mode_pending is not None and gpu.ecc_mode_pending != gpu.ecc_mode:
        message = "ECC is %s and will be %s after a reset" % (_on(gpu.ecc_mode), _on(gpu.ecc_mode_pending))
        yield found(gpu, "gpu.ecc_mode", "warning", message, "reset_gpu")
    elif not gpu.ecc_mode and (wanted or (wanted is None and known and known.grade == "datacentre" and known.ecc == "standard")):
        why = "on expected" if wanted else "on when shipped"
        yield found(gpu, "gpu.ecc_mode", "warning", "ECC is off, %s: memory errors go unseen" % why, "reset_gpu", switch % 1)
    elif gpu.ecc_mode and wanted is False:
        yield found(gpu, "gpu.ecc_mode", "warning", "ECC is on, off expected", "reset_gpu", switch % 0)


def _on(mode: bool) -> str:
    return "on" if mode else "off"


def judge_uncorrectable(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    volatile, aggregate = _uncorrectable(gpu.ecc_volatile), _uncorrectable(gpu.ecc_aggregate)
    limit = context.limits["sram_uncorrectable_aggregate"]
    sram = gpu.ecc_aggregate.sram_uncorrectable if gpu.ecc_aggregate else None
    if volatile:
        message = "uncorrectable memory errors since the driver was loaded: %s; 0 allowed" % _words(volatile)
        yield found(gpu, "gpu.ecc_uncorrectable", "critical", message, "reset_gpu", _RESET)
    if gpu.sram_threshold_exceeded:
        message = "the GPU itself says that its limit of uncorrectable SRAM errors is exceeded"
        yield found(gpu, "gpu.sram_threshold", "critical", message, "replace")
    if sram is not None and sram > limit:
        message = "%d uncorrectable SRAM errors over the card's life, %g allowed" % (sram, limit)
        yield found(gpu, "gpu.sram_uncorrectable", "critical", message, "replace", "SRAM has no spare rows: ask for an RMA")
        aggregate.pop("sram_uncorrectable", None)
    if aggregate and not volatile:
        yield _judge_history(gpu, aggregate, context)
    unknown = _uncorrectable(gpu.ecc_section_unknown)
    if unknown:
        message = "uncorrectable memory errors: %s; whether of this boot or of the card's life is not told" % _words(unknown)
        yield found(gpu, "gpu.ecc_uncorrectable", "warning", message, "reset_gpu", "read it again with the headings")


def _judge_history(gpu: Gpu, aggregate: t.Mapping[str, int], context: Context) -> Finding:
    """Errors of earlier boots: past, as long as the rows or pages were replaced and none is added."""
    growths = [context.growth(gpu, "ecc_aggregate", name) for name in aggregate]
    added = [growth for growth in growths if growth is not None and growth.delta]
    message = "uncorrectable memory errors over the card's life, none since the driver was loaded: %s" % _words(aggregate)
    if added:
        return found(gpu, "gpu.ecc_aggregate", "warning", "%s; %s" % (message, added[0].words()), "contact_vendor", _WATCH)
    mended = any(has_value(gpu, name) or is_unsupported(gpu, name) for name in ("remapped", "retired"))
    if set(aggregate) != {"sram_uncorrectable"} and not mended:
        return found(gpu, "gpu.ecc_aggregate", "warning", message + "; whether the rows were replaced is not told")
    return found(gpu, "gpu.ecc_aggregate", "info", message)


def _uncorrectable(counters: t.Optional[EccCounters]) -> t.Dict[str, int]:
    if counters is None:
        return {}
    parts = {name: value for name in ("sram_uncorrectable", "dram_uncorrectable") for value in [getattr(counters, name)] if value}
    # A sum that exceeds its parts counts a memory that is not told on its own.
    if (counters.uncorrectable or 0) > sum(parts.values()):
        return {**parts, "uncorrectable": counters.uncorrectable or 0}
    return parts


def _words(counts: t.Mapping[str, int]) -> str:
    names = {"sram_uncorrectable": "SRAM", "dram_uncorrectable": "DRAM", "uncorrectable": "in all"}
    return ", ".join("%s %d" % (names[name], count) for name, count in counts.items())


def judge_correctable(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    counters = gpu.ecc_volatile
    total = max(sum(getattr(counters, name) or 0 for name in _CORRECTABLE), counters.correctable or 0) if counters else 0
    growth = _correctable_growth(gpu, context)
    limits = context.limits
    if growth is not None and growth.delta > limits["ecc_correctable_growth"]:
        rate = growth.per_second()
        message = "corrected memory errors: %s, %d since the driver was loaded" % (growth.words(), total)
        if rate is not None and rate >= limits["ecc_correctable_per_second"]:
            message = "%s; %.0f a second, %g allowed" % (message, rate, limits["ecc_correctable_per_second"])
            yield found(gpu, "gpu.ecc_correctable", "critical", message, "contact_vendor", "the memory is failing: take the GPU out of use")
            return
        message = "%s; growth of %g allowed" % (message, limits["ecc_correctable_growth"])
        yield found(gpu, "gpu.ecc_correctable", "warning", message, "contact_vendor", _WATCH)
    elif total > limits["ecc_correctable_volatile"]:
        message = "%d corrected memory errors since the driver was loaded, %g allowed" % (total, limits["ecc_correctable_volatile"])
        yield found(gpu, "gpu.ecc_correctable", "warning", message, "contact_vendor", _WATCH)
    elif total:
        yield found(gpu, "gpu.ecc_correctable", "info", "%d corrected memory errors since the driver was loaded" % total)


def _correctable_growth(gpu: Gpu, context: Context) -> t.Optional[Growth]:
    for section in ("ecc_volatile", "ecc_aggregate"):
        for names in (_CORRECTABLE, ("correctable",)):
            growths = [growth for growth in (context.growth(gpu, section, name) for name in names) if growth is not None]
            if growths:
                return Growth(sum(growth.delta for growth in growths), growths[0].seconds)
    return None


def judge_row_remap(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    rows = gpu.remapped
    if rows is None:
        return
    limit = context.limits["row_remap_uncorrectable"]
    if rows.failure:
        message = "a row could not be remapped: its bank has no spare row left"
        yield found(gpu, "gpu.row_remap_failed", "critical", message, "replace", "ask for an RMA")
    if rows.uncorrectable is not None and rows.uncorrectable >= limit:
        message = "%d rows remapped for uncorrectable errors, fewer than %g allowed" % (rows.uncorrectable, limit)
        yield found(gpu, "gpu.row_remap_limit", "critical", message, "replace", "ask for an RMA")
    if rows.pending:
        message = "a remapped row waits for a reset, nothing pending allowed"
        yield found(gpu, "gpu.row_remap_pending", "critical", message, "reset_gpu", _RESET)
    empty = rows.histogram.get("none") or 0
    if empty > 0 and not rows.failure:
        message = "%d memory banks have no spare row left, 0 allowed: the next bad row there cannot be remapped" % empty
        yield found(gpu, "gpu.row_remap_spares", "warning", message, "contact_vendor", "plan the replacement")


def judge_retired_pages(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    pages = gpu.retired
    if pages is None:
        return
    single, double = pages.single_bit or 0, pages.double_bit or 0
    hard, soft = context.limits["retired_pages_total"], context.limits["retired_pages_double_bit"]
    if single + double >= hard:
        message = "%d retired memory pages, fewer than %g allowed" % (single + double, hard)
        yield found(gpu, "gpu.retired_pages", "critical", message, "replace", "ask for an RMA")
    elif double > soft:
        message = "%d memory pages retired for double bit errors, %g allowed" % (double, soft)
        yield found(gpu, "gpu.retired_pages", "warning", message, "contact_vendor", "plan the replacement")
    if pages.pending:
        message = "a retired page waits for a reset, nothing pending allowed"
        yield found(gpu, "gpu.retired_pages_pending", "critical", message, "reset_gpu", _RESET)


def judge_repair(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    if gpu.repair_pending:
        message = "a repair waits for a reset (%s), nothing pending allowed" % ", ".join(gpu.repair_pending)
        yield found(gpu, "gpu.repair_pending", "critical", message, "reset_gpu", _RESET)
    if gpu.unrepairable_memory:
        message = "the GPU has memory that it cannot repair, none allowed"
        yield found(gpu, "gpu.unrepairable_memory", "critical", message, "replace", "ask for an RMA")
