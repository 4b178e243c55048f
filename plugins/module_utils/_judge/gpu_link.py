# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""PCIe link, NVLinks and NVSwitch fabric of a GPU. Private to kentino.gpu."""

from __future__ import annotations

import math
import typing as t

from .._parse.gpu_records import Gpu
from .._report.model import Finding
from .gpu_context import Context, Growth, found, is_absent, is_unsupported
from .gpu_expected import fold

_RESEAT = "reseat the card, its riser or its cable; swap it with a good one to see whether the fault follows the card or the slot"
_SLOT = "the slot offers no more; if it is built so, say so with pcie_width in gpu_expected"

# Boards of four H100 join their GPUs directly, and a virtual machine may have a few of a board's GPUs: both without a fabric.
_FEW_GPUS = 4


def judge_pcie_width(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    width, top = gpu.pcie_width, gpu.pcie_width_max
    if width is None:
        return
    wanted = context.expected.get("pcie_width")
    if wanted is not None:
        if width < wanted:
            yield found(gpu, "gpu.pcie_width", "critical", "link width x%d, x%d expected" % (width, wanted), "reseat", _RESEAT)
        return
    known = context.platform(gpu)
    model = (known.pcie_width if known else None) or 0
    widest = max((other.pcie_width or 0 for other in context.siblings(gpu)), default=0)
    if width < max(model, widest):
        why = "its siblings have x%d" % widest if widest > model else "this model has x%d" % model
        message = "link width x%d, %s" % (width, why)
        if top is not None and width >= top:
            yield found(gpu, "gpu.pcie_width", "warning", "%s; card and slot together offer x%d" % (message, top), "reseat", _SLOT)
        else:
            yield found(gpu, "gpu.pcie_width", "critical", message, "reseat", _RESEAT)
    elif top is not None and width < top:
        message = "link width x%d, card and slot together offer x%d" % (width, top)
        yield found(gpu, "gpu.pcie_width", "warning", message, "reseat", _RESEAT)


def judge_pcie_gen(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    """The generation falls at idle to save power, so what it is now counts under load only."""
    now, top, wanted = gpu.pcie_gen, gpu.pcie_gen_max, context.expected.get("pcie_gen")
    if wanted is not None and top is not None and top < wanted:
        message = "card and slot together reach PCIe generation %d, %d expected" % (top, wanted)
        yield found(gpu, "gpu.pcie_gen", "critical", message, "reseat", "look for a limit in the firmware setup; " + _RESEAT)
        return
    fastest = max((other.pcie_gen_max or 0 for other in context.siblings(gpu)), default=0)
    if wanted is None and top is not None and top < fastest:
        message = "card and slot together reach PCIe generation %d, siblings %d" % (top, fastest)
        yield found(gpu, "gpu.pcie_gen", "warning", message, "reseat", _RESEAT)
        return
    # A host faster than what is expected may run the link as expected.
    goal = wanted if wanted is not None else top
    if _is_busy(gpu) and now is not None and goal is not None and now < goal:
        message = "PCIe generation %d under load, %d %s" % (now, goal, "possible" if wanted is None else "expected")
        yield found(gpu, "gpu.pcie_gen", "warning", message, "reseat", _RESEAT)
        return
    known = context.platform(gpu)
    if wanted is None and known and known.pcie_gen and top is not None and top < known.pcie_gen:
        message = "PCIe generation %d is all that the host offers, the GPU could do %d" % (top, known.pcie_gen)
        yield found(gpu, "gpu.pcie_gen", "info", message)


def _is_busy(gpu: Gpu) -> bool:
    return gpu.performance_state == "P0" and not gpu.event_reasons.get("idle") and (gpu.utilisation_pct or 0) > 0


def judge_pcie_replays(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    allowed = _replays_per_minute(gpu, context)
    growth = context.growth(gpu, "pcie_replays")
    if growth is not None:
        yield from _judge_replay_growth(gpu, growth, allowed)
    elif (gpu.pcie_replays or 0) > (allowed or 0):
        message = "%d PCIe replays since the counter began; without an earlier reading their rate is not known" % (gpu.pcie_replays or 0)
        yield found(gpu, "gpu.pcie_replays", "info", message)


def _judge_replay_growth(gpu: Gpu, growth: Growth, allowed: t.Optional[int]) -> t.Iterator[Finding]:
    if growth.delta <= (allowed or 0):
        return
    if growth.seconds is None or allowed is None:
        yield found(gpu, "gpu.pcie_replays", "info", "PCIe replays: %s; whether that is much is not known" % growth.words())
        return
    # The limit is one per minute: a shorter time between two readings proves no more than a minute would.
    per_minute = growth.delta / max(growth.seconds / 60.0, 1.0)
    if per_minute > allowed:
        message = "%.0f PCIe replays a minute (%s), %d allowed" % (per_minute, growth.words(), allowed)
        yield found(gpu, "gpu.pcie_replays", "warning", message, "reseat", _RESEAT)


def _replays_per_minute(gpu: Gpu, context: Context) -> t.Optional[int]:
    # At idle the link runs slower than it can, with fewer errors: the faster rate is the more lenient one.
    generation = max(gpu.pcie_gen or 0, gpu.pcie_gen_max or 0)
    per_lane = context.limits.get("pcie_replays_per_lane_minute_gen%d" % generation)
    if per_lane is None or not gpu.pcie_width:
        return None
    return math.ceil(round(per_lane * gpu.pcie_width, 6))


def judge_nvlinks(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    active = sum(1 for link in gpu.nvlinks if link.active)
    wanted = context.expected.get("nvlinks")
    if wanted is None:
        wanted = _model_links(gpu, context)
        if wanted and not gpu.nvlinks:
            # nvidia-smi -q -x does not list links, so their absence there is not held against the GPU.
            if context.detailed(gpu) and is_absent(gpu, "nvlinks"):
                message = "NVLinks are not told by %s, this model has %d" % (context.reading.source, wanted)
                yield found(gpu, "gpu.nvlink_unread", "info", message)
            return
        if wanted is None:
            yield from _judge_links_by_siblings(gpu, active, context)
            return
    elif not gpu.nvlinks and not is_unsupported(gpu, "nvlinks"):
        return
    if active < wanted:
        down = [str(link.link) for link in gpu.nvlinks if not link.active]
        message = "%d NVLinks active, %d expected%s" % (active, wanted, "; not active: %s" % ", ".join(down) if down else "")
        known = context.platform(gpu)
        if known and known.form == "pcie":
            yield found(gpu, "gpu.nvlink_down", "critical", message, "reseat", "reseat the bridge on both cards", down)
        else:
            advice = "reset all GPUs of the board together; if the link stays down, look for Xid 74 or 144 to 150 and call the vendor"
            yield found(gpu, "gpu.nvlink_down", "critical", message, "reset_gpu", advice, down)


def _model_links(gpu: Gpu, context: Context) -> t.Optional[int]:
    """Links that every board of this model uses. A lone GPU (a slice of a board, in a virtual machine) has no peer for them."""
    known = context.platform(gpu)
    if known is None or not known.nvlinks or len(context.reading.gpus) < 2:
        return None
    return known.nvlinks


def _judge_links_by_siblings(gpu: Gpu, active: int, context: Context) -> t.Iterator[Finding]:
    most = max((sum(1 for link in other.nvlinks if link.active) for other in context.siblings(gpu)), default=0)
    # No active link at all is a card without a bridge.
    if 0 < active < most:
        message = "%d NVLinks active, siblings have %d" % (active, most)
        yield found(gpu, "gpu.nvlink_down", "warning", message, "reseat", "reseat the bridge on both cards")


def judge_nvlink_errors(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    bad = []
    for link in gpu.nvlinks:
        for name in ("crc_errors", "replay_errors", "recovery_errors"):
            growth = context.growth(gpu, "nvlinks", str(link.link), name, now=getattr(link, name))
            if growth is None or growth.delta == 0:
                continue
            rate = growth.per_second()
            # A link repeats what a CRC error lost: single ones are normal, where their rate can be told.
            if name == "crc_errors" and rate is not None and rate < context.limits["nvlink_crc_per_second"]:
                continue
            bad.append("link %d %s: %s" % (link.link, name.replace("_", " "), growth.words()))
    if bad:
        allowed = "%g CRC errors a second and no other error allowed" % context.limits["nvlink_crc_per_second"]
        advice = "reseat the bridge or the board; if they go on, call the vendor"
        yield found(gpu, "gpu.nvlink_errors", "warning", "%s; %s" % (", ".join(bad[:3]), allowed), "contact_vendor", advice, bad)


def judge_fabric(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    """Only Completed with Success is good: with anything else the first CUDA call fails (error 802)."""
    wanted = context.expected.get("fabric")
    if wanted is False:
        return
    known = context.platform(gpu)
    needed = bool(wanted or (known and known.fabric))
    if gpu.fabric_state is None and not is_unsupported(gpu, "fabric_state"):
        if needed and is_absent(gpu, "fabric_state") and (context.whole if wanted else context.detailed(gpu)):
            message = "the fabric state is not told, Completed with Success needed"
            advice = "read it with nvidia-smi -q -x or a newer nvidia-ml-py"
            yield found(gpu, "gpu.fabric", "warning", message, advice=advice, undetermined=True)
        return
    state = fold(gpu.fabric_state or "n/a")
    status = fold(gpu.fabric_status or ("n/a" if is_unsupported(gpu, "fabric_status") else ""))
    if state in ("n/a", "not supported") and not (wanted or (needed and len(context.reading.gpus) > _FEW_GPUS)):
        return
    if state == "completed" and status == "success":
        yield from _judge_fabric_health(gpu)
        return
    if state == "completed" and not status:
        message = "fabric state Completed, its status is not told, Success needed"
        yield found(gpu, "gpu.fabric", "warning", message, undetermined=True)
        return
    if "\ufffd" in (gpu.fabric_state or "") + (gpu.fabric_status or ""):
        message = "the fabric state came garbled, Completed with Success needed: '%s', '%s'" % (gpu.fabric_state, gpu.fabric_status)
        yield found(gpu, "gpu.fabric", "warning", message, undetermined=True)
        return
    message = "fabric state '%s', status '%s'; Completed with Success needed, CUDA error 802 would follow" % (
        gpu.fabric_state or "not supported",
        gpu.fabric_status or "not told",
    )
    advice = (
        "check that Fabric Manager runs in exactly the driver's version, and on NVLink 5 boards that ib_umad is loaded; "
        "after restarting it reset all GPUs, or reboot"
    )
    yield found(gpu, "gpu.fabric", "critical", message, "reboot_node", advice)


def _judge_fabric_health(gpu: Gpu) -> t.Iterator[Finding]:
    health = fold(gpu.fabric_health or "n/a")
    if health in ("healthy", "n/a", "not supported"):
        return
    severity = "warning" if health == "limited capacity" else "critical"
    message = "fabric health '%s', Healthy expected" % gpu.fabric_health
    yield found(gpu, "gpu.fabric", severity, message, "reset_gpu", "look for dead NVLinks and for SXid lines in the kernel log")
