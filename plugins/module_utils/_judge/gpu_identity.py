# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Is it the GPU, firmware and driver that should be here, and is it like its siblings. Private to kentino.gpu."""

from __future__ import annotations

import typing as t
from collections import Counter

from .._parse.gpu_records import Gpu
from .._report.model import NODE, Finding
from .gpu_context import Context, found, subject
from .gpu_expected import fold


def judge_driver(context: Context) -> t.Iterator[Finding]:
    """Driver and CUDA version of the node; a beginning such as 570 stands for all versions of that branch."""
    reading = context.reading
    if reading.error_kind is not None or not reading.gpus:
        return
    for key, what in (("driver_version", "driver"), ("cuda_version", "CUDA")):
        expected, value = context.expected.get(key), getattr(reading, key)
        code = "%s.version" % what.lower()
        if expected is None:
            continue
        if value is None:
            if reading.complete:
                yield Finding(code, "warning", NODE, "%s version is not told, %s expected" % (what, expected), undetermined=True)
        elif value != expected and not value.startswith(expected + "."):
            advice = "install the expected version, or correct the expectation"
            yield Finding(code, "warning", NODE, "%s version %s, %s expected" % (what, value, expected), advice=advice)


def judge_identity(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    expected = context.expected
    wanted = expected.get("device_id")
    if wanted and gpu.device_id and gpu.device_id.lower() != wanted:
        message = "PCI device %s (%s), %s expected" % (gpu.device_id, gpu.name or "no name", wanted)
        yield found(gpu, "gpu.device_id", "critical", message, advice="another model than ordered: correct the expectation or the card")
    wanted = expected.get("name")
    if wanted and gpu.name and fold(gpu.name) != fold(wanted):
        yield found(gpu, "gpu.name", "warning", "name '%s', '%s' expected" % (gpu.name, wanted))
    wanted = expected.get("vbios")
    if wanted and gpu.vbios and gpu.vbios.lower() != wanted.lower():
        advice = "firmware comes from the vendor of the board"
        yield found(gpu, "gpu.vbios", "warning", "VBIOS %s, %s expected" % (gpu.vbios, wanted), "contact_vendor", advice)
    yield from _judge_memory(gpu, context)
    yield from _judge_membership(gpu, context)


def _judge_memory(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    wanted, total = context.expected.get("memory_total_mib"), gpu.memory_total_mib
    if wanted is None or total is None or _about(total, wanted, context):
        return
    message = "%d MiB of memory, %d MiB expected" % (total, wanted)
    if total < wanted:
        advice = "ECC on GDDR memory takes one sixteenth of it; otherwise it is another model, or memory is disabled"
        yield found(gpu, "gpu.memory_total", "critical", message, "contact_vendor", advice)
    else:
        yield found(gpu, "gpu.memory_total", "warning", message)


def _judge_membership(gpu: Gpu, context: Context) -> t.Iterator[Finding]:
    told = [
        (attribute, getattr(gpu, attribute), context.expected[key])
        for key, attribute in (("uuids", "uuid"), ("serials", "serial"))
        if context.expected.get(key) and getattr(gpu, attribute)
    ]
    if told and not any(value.lower() in {name.lower() for name in names} for dummy, value, names in told):
        message = "%s %s is not among the cards of this node" % (told[0][0], told[0][1])
        advice = "enter a replaced card in the inventory, or find out where it came from"
        yield found(gpu, "gpu.unexpected", "warning", message, advice=advice)


def judge_siblings(context: Context) -> t.Iterator[Finding]:
    """GPUs of one model that are not alike, and names that occur twice."""
    yield from _judge_duplicates(context)
    groups: t.Dict[str, t.List[Gpu]] = {}
    for gpu in context.answering():
        model = gpu.device_id or gpu.name
        if model:
            groups.setdefault(model, []).append(gpu)
    for group in groups.values():
        yield from _judge_group(group, context)


def _judge_group(group: t.Sequence[Gpu], context: Context) -> t.Iterator[Finding]:
    odd: t.Dict[int, t.List[str]] = {}
    for what, value_of in _ALIKE:
        values = [value_of(gpu) for gpu in group]
        counts = Counter(value for value in values if value is not None).most_common()
        if len(counts) < 2 or (what == "memory" and all(_about(value, counts[0][0], context) for value, dummy in counts)):
            continue
        if counts[0][1] == counts[1][1]:
            evidence = ["%s: %s %s" % (subject(gpu).label(), what, value) for gpu, value in zip(group, values)]
            message = "%s differs among GPUs of one model: %s" % (what, ", ".join("%s (%d)" % pair for pair in counts))
            yield Finding("gpu.firmware_mismatch", "warning", NODE, message, evidence=tuple(evidence), advice=_ADVICE)
            continue
        for number, value in enumerate(values):
            if value is not None and value != counts[0][0]:
                odd.setdefault(number, []).append("%s %s, %d siblings have %s" % (what, value, counts[0][1], counts[0][0]))
    for number, differences in odd.items():
        yield found(group[number], "gpu.firmware_mismatch", "warning", "; ".join(differences), advice=_ADVICE, evidence=differences)


_ADVICE = "bring all cards of one model to one firmware and setting; the odd one makes the whole job slow or fails alone"


def _judge_duplicates(context: Context) -> t.Iterator[Finding]:
    for attribute in ("uuid", "serial"):
        holders: t.Dict[str, t.List[Gpu]] = {}
        for gpu in context.answering():
            known = context.platform(gpu)
            value = getattr(gpu, attribute)
            # Boards with several GPUs have one serial; consumer boards without one may say 0.
            if not value or (attribute == "serial" and ((known and known.shares_board) or not value.strip("0 "))):
                continue
            holders.setdefault(value, []).append(gpu)
        for value, gpus in holders.items():
            if len(gpus) > 1:
                evidence = tuple(subject(gpu).label() for gpu in gpus)
                message = "%d GPUs have the %s %s, each should have its own" % (len(gpus), attribute, value)
                advice = "the output lists a GPU twice, or a card carries copied firmware"
                yield Finding("gpu.duplicate", "warning", NODE, message, "contact_vendor", evidence, advice)


def _about(value: int, wanted: int, context: Context) -> bool:
    return abs(value - wanted) <= wanted * context.limits["memory_total_tolerance_pct"] / 100.0


def _power(gpu: Gpu) -> t.Optional[str]:
    # The limit now set is judged against the default; the default itself tells boards apart.
    watts = gpu.power_limit_default_watts if gpu.power_limit_default_watts is not None else gpu.power_limit_watts
    return None if watts is None else "%g W" % watts


_ALIKE: t.Tuple[t.Tuple[str, t.Callable[[Gpu], t.Any]], ...] = (
    ("VBIOS", lambda gpu: gpu.vbios),
    ("InfoROM", lambda gpu: gpu.inforom),
    ("board part", lambda gpu: gpu.board_part),
    ("memory", lambda gpu: gpu.memory_total_mib),
    ("power limit", _power),
)
