# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Judge GPUs by what was seen of them while something loaded them. Private to kentino.gpu.

Heat, link and memory are held against the limits that hold at any time, each at its worst moment under load. What shows only
over time is judged here: clocks cut for a share of the time, a link that falls, a draw that never comes near the limit.
"""

from __future__ import annotations

import dataclasses
import statistics
import typing as t

from .._parse.gpu_records import Gpu, GpuReading
from .._report.model import NODE, Finding, Subject
from . import gpu as gpu_judge
from . import gpu_link, gpu_thermal, load_shares
from .gpu_context import Context, found, subject
from .load_shares import Sample, Track

POLICY_KEYS = ("expected", "limits", "gpus", "power_share_pct", "slow_tolerance_pct", "own_names", "end_seconds")

_COOLING = "check fans, airflow, dust and the room's temperature"
_CLOCKS = "look at power limit, heat and the event reasons of this GPU; its siblings run the same load"
_RESEAT = "reseat the card, its riser or its cable; swap it with a good one to see whether the fault follows the card or the slot"
_SHOWN = 3
_OF_THE_LOAD = ("load.unseen", "load.low_power", "load.unsampled")


def judge(samples: t.Sequence[Sample], policy: t.Mapping[str, t.Any]) -> t.Tuple[Finding, ...]:
    """What was wrong with the GPUs under load.

    C(policy): C(expected) and C(limits), checked and complete; optional: C(gpus), the indexes that were loaded; C(end_seconds),
    when the load ended; C(power_share_pct) and C(slow_tolerance_pct) in place of those limits, 0 for "not judged";
    C(own_names), programs that are the load.
    """
    tracks = load_shares.tracks(samples, policy["limits"], policy.get("gpus"), policy.get("end_seconds"))
    findings = list(_judge_silence(samples, policy))
    for track in tracks:
        findings += _judge_track(track, policy)
    findings += _judge_as_ever(samples, tracks, policy)
    findings += _judge_clocks(tracks, policy)
    return tuple(_together(findings, len(tracks)))


def _together(findings: t.Sequence[Finding], gpus: int) -> t.Iterator[Finding]:
    """What is so on every GPU is not about the GPUs but about the load."""
    for code in _OF_THE_LOAD:
        alike = [finding for finding in findings if finding.code == code]
        if gpus > 1 and len(alike) == gpus:
            message = "on each of the %d GPUs, the first: %s" % (gpus, alike[0].message)
            yield dataclasses.replace(alike[0], subject=NODE, message=message, evidence=tuple(one.message for one in alike), count=gpus)
        else:
            yield from alike
    yield from (finding for finding in findings if finding.code not in _OF_THE_LOAD)


def emergency(now: GpuReading, first: GpuReading, gpus: t.Optional[t.Collection[int]] = None) -> t.Optional[t.Tuple[Subject, str]]:
    """A GPU that must not be loaded any longer, and why: too hot to live, gone, or with memory that fails."""
    before = {gpu.index: gpu for gpu in first.gpus}
    for gpu in now.gpus:
        if gpus is not None and gpu.index not in gpus:
            continue
        known = before.get(gpu.index, gpu)
        if gpu.state == "lost" and known.state != "lost":
            return subject(known), "the driver lost the GPU"
        limit = gpu.temperature_shutdown_c or known.temperature_shutdown_c
        if gpu.temperature_c is not None and limit is not None and 0 < limit <= gpu.temperature_c:
            return subject(known), "%d C, it shuts down at %d C" % (gpu.temperature_c, limit)
        then, errors = load_shares.uncorrectable(known), load_shares.uncorrectable(gpu)
        if then is not None and errors is not None and errors > then:
            return subject(known), "%d more uncorrectable memory errors" % (errors - then)
    return None


def metrics(samples: t.Sequence[Sample], policy: t.Mapping[str, t.Any]) -> t.Dict[str, t.Dict[str, t.Any]]:
    """By GPU index: the highest and median values under load, and the share of the time for each reason to cut clocks."""
    tracks = load_shares.tracks(samples, policy["limits"], policy.get("gpus"), policy.get("end_seconds"))
    return {str(track.index): track.numbers() for track in tracks}


def _judge_silence(samples: t.Sequence[Sample], policy: t.Mapping[str, t.Any]) -> t.Iterator[Finding]:
    longest = policy["limits"]["load_silence_seconds"]
    end = policy.get("end_seconds")
    times = [0.0, *(sample.seconds for sample in samples if sample.reading.gpus)]
    gaps = [after - before for before, after in zip(times, [*times[1:], max(times[-1], end or 0.0)])]
    if len(times) == 1:
        errors = [sample.reading.error for sample in samples if sample.reading.error]
        why = ": %s" % errors[0] if errors else ""
        yield _unknown("load.unsampled", NODE, "the GPUs could not be looked at while they were loaded%s" % why)
    elif max(gaps) > longest:
        message = "the driver told nothing of the GPUs for %.0f s under load, %g s allowed" % (max(gaps), longest)
        yield _unknown(
            "load.unsampled", NODE, message, "a driver that blocks under load is a sign by itself: look at corrected memory errors"
        )


def _judge_track(track: Track, policy: t.Mapping[str, t.Any]) -> t.Iterator[Finding]:
    if track.seen[0][2].state == "lost":
        return  # it was gone before the load, and others tell so
    if track.newest.state == "lost":
        yield found(track.known, "gpu.lost", "critical", "the driver lost the GPU under load", "reseat", _RESEAT + "; no RMA before that")
        return
    if not track.loaded:
        seen = max((gpu.utilisation_pct or 0 for _time, _weight, gpu in track.seen), default=0)
        message = "never seen under load: utilisation %d %% at most in %d samples" % (seen, len(track.seen))
        yield _unknown("load.unseen", subject(track.known), message)
        return
    yield from _judge_throttling(track, policy["limits"])
    yield from _judge_fallen_link(track)
    yield from _judge_errors(track)
    yield from _judge_power(track, policy)
    yield from _judge_company(track, policy.get("own_names"))


def _judge_throttling(track: Track, limits: t.Mapping[str, t.Any]) -> t.Iterator[Finding]:
    allowed = limits["load_throttle_share_pct"]
    hot, brake, hardware = (track.share_pct(reason) for reason in ("hw_thermal_slowdown", "hw_power_brake", "hw_slowdown"))
    words = "hardware cut the clocks for %.0f %% of the loaded time: %s"
    if hot:
        yield _throttled(track, words % (hot, "too hot"), _weight(hot, allowed), "check_cooling", _COOLING)
    if brake:
        advice = "check power plugs and cables of the card and the load of its power supply"
        yield _throttled(track, words % (brake, "power brake from outside the GPU"), _weight(brake, allowed), "check_power", advice)
    if hardware and not hot and not brake:
        message = words % (hardware, "heat, power brake or too high a draw, which one is not told")
        yield _throttled(track, message, _weight(hardware, allowed), "check_power", _COOLING + ", power plugs and cables")
    soft = track.share_pct("sw_thermal")
    if soft and not hot:
        message = "the driver lowered the clocks because of heat for %.0f %% of the loaded time, %g %% allowed" % (soft, allowed)
        yield _throttled(track, message, "warning" if soft > allowed else "info", "check_cooling", _COOLING)


def _weight(share: float, allowed: float) -> str:
    return "critical" if share > allowed else "warning"


def _throttled(track: Track, message: str, severity: str, action: str, advice: str) -> Finding:
    return found(track.known, "load.throttled", severity, message, "none" if severity == "info" else action, advice)


def _judge_fallen_link(track: Track) -> t.Iterator[Finding]:
    """The link ran at a speed and fell back for the rest of the load; a single slow sample may be a pause between batches."""
    speeds = [(when, gpu.pcie_gen) for when, _weight, gpu in track.loaded if gpu.pcie_gen is not None]
    best = max((speed for _when, speed in speeds), default=0)
    last_best = max((place for place, (_when, speed) in enumerate(speeds) if speed == best), default=0)
    if len(speeds) - last_best > 2:
        when, speed = speeds[last_best + 1]
        message = "the PCIe link fell from generation %d to %d after %.0f s under load and stayed there" % (best, speed, when)
        yield found(track.known, "load.link_fell", "critical", message, "reseat", _RESEAT)


def _judge_errors(track: Track) -> t.Iterator[Finding]:
    counts = [count for count in (load_shares.uncorrectable(gpu) for _time, _weight, gpu in track.seen) if count is not None]
    if counts and counts[-1] > counts[0]:
        message = "%d uncorrectable memory errors were added under load; 0 allowed" % (counts[-1] - counts[0])
        advice = "let running work end, then reset the GPU; test its memory before the next long run"
        yield found(track.known, "gpu.ecc_uncorrectable", "critical", message, "reset_gpu", advice)


def _judge_power(track: Track, policy: t.Mapping[str, t.Any]) -> t.Iterator[Finding]:
    share = policy.get("power_share_pct")
    share = policy["limits"]["load_power_share_pct"] if share is None else share
    pairs = [(gpu.power_watts, gpu.power_limit_watts) for _time, _weight, gpu in track.loaded]
    shares = [watts / limit * 100 for watts, limit in pairs if watts is not None and limit]
    if share and shares and max(shares) < share:
        watts, limit = max((watts, limit) for watts, limit in pairs if watts is not None and limit)
        message = "drew %.0f W at most, %.0f %% of its limit of %.0f W; %g %% expected under full load" % (watts, max(shares), limit, share)
        advice = "run it with tensor cores and most of the memory; one GPU below its siblings: look at clocks and power cables"
        yield found(track.known, "load.low_power", "warning", message, "check_power", advice)


def _judge_company(track: Track, own_names: t.Optional[t.Collection[str]]) -> t.Iterator[Finding]:
    if own_names is None:
        return
    strangers = {
        process.pid: process.name
        for _time, _weight, gpu in track.seen
        for process in gpu.processes or ()
        if process.name and process.name.split()[0].rsplit("/", 1)[-1] not in own_names
    }
    if strangers:
        evidence = ["pid %d %s" % (pid, name) for pid, name in sorted(strangers.items())]
        message = "others came onto the GPU while it was loaded: %s" % "; ".join(evidence[:_SHOWN])
        yield found(track.known, "load.shared", "warning", message, "look_at_code", "keep the node free and run it again", evidence)


def _judge_as_ever(samples: t.Sequence[Sample], tracks: t.Sequence[Track], policy: t.Mapping[str, t.Any]) -> t.Iterator[Finding]:
    """The rules that hold at any time, on each GPU as it was at its worst under load."""
    limits = policy["limits"]
    worst = [_at_worst(track) for track in tracks if track.loaded and track.newest.state != "lost"]
    if not worst:
        return
    readings = [sample.reading for sample in samples if sample.reading.gpus]
    earlier = gpu_judge.counters(readings[0], 0)
    last_usec = int((samples[-1].seconds - samples[0].seconds) * 1e6)
    reading = GpuReading(readings[-1].source, tuple(worst), complete=True)
    context = Context(reading, policy["expected"], limits, earlier=earlier, now_usec=last_usec)
    by_index = {track.index: track for track in tracks}
    for gpu in worst:
        for rule in (gpu_thermal.judge_memory_temperature, gpu_link.judge_pcie_width, gpu_link.judge_pcie_gen, gpu_link.judge_pcie_replays):
            yield from (finding for finding in rule(gpu, context) if finding.severity != "info")
        for finding in gpu_thermal.judge_temperature(gpu, context):
            yield _with_time(finding, by_index[gpu.index or 0].seconds_above(limits["temperature_c"]), limits)


def _at_worst(track: Track) -> Gpu:
    def extreme(choose: t.Callable[..., t.Any], name: str) -> t.Any:
        values = [getattr(gpu, name) for _time, _weight, gpu in track.loaded if getattr(gpu, name) is not None]
        return choose(values) if values else None

    return dataclasses.replace(
        track.known,
        temperature_c=extreme(max, "temperature_c"),
        memory_temperature_c=extreme(max, "memory_temperature_c"),
        temperature_margin_c=extreme(min, "temperature_margin_c"),
        pcie_width=extreme(min, "pcie_width"),
        pcie_gen=extreme(max, "pcie_gen"),
        pcie_replays=track.newest.pcie_replays,
        # As the rules know a GPU under load.
        utilisation_pct=100,
        performance_state="P0",
        event_reasons={},
    )


def _with_time(finding: Finding, seconds: float, limits: t.Mapping[str, t.Any]) -> Finding:
    long = seconds > limits["load_temperature_seconds"]
    message = "%s; above %g C for %.0f s under load" % (finding.message, limits["temperature_c"], seconds)
    return dataclasses.replace(finding, message=message, severity="critical" if long else finding.severity)


def _judge_clocks(tracks: t.Sequence[Track], policy: t.Mapping[str, t.Any]) -> t.Iterator[Finding]:
    tolerance = policy.get("slow_tolerance_pct")
    tolerance = policy["limits"]["load_slow_tolerance_pct"] if tolerance is None else tolerance
    clocks = {track.index: track.median("clock_sm_mhz") for track in tracks if track.loaded}
    for track in tracks:
        own = clocks.get(track.index)
        siblings = [clocks[other.index] for other in tracks if other is not track and other.index in clocks and other.model == track.model]
        known = [clock for clock in siblings if clock is not None]
        if not tolerance or own is None or len(known) < 2:
            continue
        middle = statistics.median(known)
        if own < middle * (1 - tolerance / 100):
            message = "SM clock %.0f MHz under load, its siblings %.0f; at most %g %% less allowed" % (own, middle, tolerance)
            yield found(track.known, "load.low_clock", "warning", message, "check_cooling", _CLOCKS)


def _unknown(code: str, about: Subject, message: str, advice: str = "") -> Finding:
    return Finding(code, "warning", about, message, "none", (), advice, undetermined=True)
