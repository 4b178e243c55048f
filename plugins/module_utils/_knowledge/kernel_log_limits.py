# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every limit the kernel log is held against, with its source. Private to kentino.gpu."""

from __future__ import annotations

import math
import typing as t

from .nearest import hint
from .thresholds import Number, Threshold

_READ = "2026-11-29"

THRESHOLDS: t.Tuple[Threshold, ...] = (
    Threshold(
        "incident_window_seconds",
        60,
        "seconds",
        "Xids of one GPU at most this far apart are one incident",
        "no source found; the driver prints the lines of one fault within seconds, a drain and reset takes longer",
        _READ,
        "own",
    ),
    Threshold(
        "reference_window_seconds",
        3600,
        "seconds",
        "a line that names an earlier Xid as its cause belongs to that one's incident if it is at most this old",
        "no source found; channels of a hung job are torn down when the job ends",
        _READ,
        "own",
    ),
    Threshold(
        "burst_seconds",
        5,
        "seconds",
        "faults of different processes on one GPU within this time are one burst, not one process after another",
        "no source found; ranks that share a GPU fail together",
        _READ,
        "own",
    ),
    Threshold(
        "power_loss_seconds",
        5,
        "seconds",
        "GPUs lost within this time may have lost one power supply",
        "founding article: four GPUs gone within milliseconds are one supply; the driver notices a loss only when it next asks the GPU",
        _READ,
        "own",
    ),
    Threshold(
        "power_loss_gpus",
        3,
        "GPUs",
        "so many lost at once, without a map of the power domains, count as one power supply",
        "no source found; two at once can share a riser or a switch",
        _READ,
        "own",
    ),
    Threshold(
        "repeat_hours",
        24,
        "hours",
        "faults of one GPU within this time are counted together",
        "NVIDIA NVSentinel, repeat rules of Xid 13 and 31",
        _READ,
        "field",
    ),
    Threshold(
        "repeats_same_unit",
        2,
        "incidents",
        "an exception in the same GPC and TPC under different processes; suspected hardware from here on",
        "NVIDIA workflow for Xid 13; NVSentinel counts 2 in 24 hours",
        _READ,
        "vendor",
    ),
    Threshold(
        "repeats_one_gpu",
        5,
        "incidents",
        "application faults on one GPU and not on its siblings; suspected hardware from here on",
        "NVIDIA NVSentinel: 5 events in 24 hours",
        _READ,
        "field",
    ),
    Threshold(
        "comes_back",
        3,
        "incidents",
        "the same warning on one GPU; from here on the action for a fault that comes back",
        "no source found; NVIDIA says 'if it recurs' without a number",
        _READ,
        "own",
    ),
    Threshold(
        "aer_correctable_per_minute",
        16,
        "errors per minute",
        "corrected PCIe errors of one port, logged with times; a warning above it. The figure of PCIe generation 4 with 16 lanes",
        "NVIDIA DCGM, DcgmHealthWatch.cpp, replay rate from a bit error rate of 1e-12; generation 5 with 16 lanes gives 31",
        _READ,
        "vendor",
    ),
    Threshold(
        "aer_correctable_untimed",
        30,
        "errors",
        "corrected PCIe errors of one port in a log without times; a warning above it",
        "about a minute at DCGM's replay rate for generation 5 with 16 lanes",
        _READ,
        "own",
    ),
)


def limits(overrides: t.Optional[t.Mapping[str, t.Any]] = None) -> t.Dict[str, Number]:
    """Every limit by key, with the inventory's overrides; C(ValueError) for a key or a value that is none."""
    values: t.Dict[str, Number] = {threshold.key: threshold.value for threshold in THRESHOLDS}
    for key, value in (overrides or {}).items():
        if key not in values:
            raise ValueError("kernel log limits: '%s' is no limit of the kernel log; %s" % (key, hint(key, sorted(values))))
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
            unit = next(threshold.unit for threshold in THRESHOLDS if threshold.key == key)
            raise ValueError(
                "kernel log limits: %s is %r; expected a number of %s, 0 or more. Write it without quotes, as in %s: %g"
                % (key, value, unit, key, values[key])
            )
        values[key] = value
    return values
