# Copyright (c) 2026, Kentino
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every limit a GPU is held against: where it comes from and how far to trust it. Private to kentino.gpu.

C(trust) is one of: C(vendor) (NVIDIA states or ships it), C(field) (operators of large fleets use it), C(own) (chosen here;
override it where you know better).
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from .nearest import hint

Number = t.Union[int, float]

TRUST = ("vendor", "field", "own")


@dataclass(frozen=True)
class Threshold:
    key: str  # the name under which an inventory overrides it
    value: Number
    unit: str
    conditions: str  # when it applies and what passing it means
    source: str
    date: str  # when the source was read, ISO 8601
    trust: str


_READ = "2026-11-29"

_DCGM_REPLAYS = "NVIDIA DCGM, DcgmHealthWatch.cpp: a bit error rate of 1e-12 at the raw rate of each PCIe generation"
# Replays that a sound link may show, per lane and minute, by PCIe generation.
_REPLAYS = {1: 0.15, 2: 0.3, 3: 0.48, 4: 0.96, 5: 1.92, 6: 3.84}

THRESHOLDS: t.Tuple[Threshold, ...] = (
    Threshold(
        "temperature_c",
        85,
        "degrees Celsius",
        "GPU core, at any load; a warning above it, because one reading does not show how long it lasts",
        "Kentino alert policy: page above 85 degrees for more than 5 minutes",
        _READ,
        "own",
    ),
    Threshold(
        "temperature_critical_c",
        95,
        "degrees Celsius",
        "GPU core; critical from here on, also where the GPU does not tell at which temperature it slows down",
        "scitix/sichek, critical limit of its H100 specification",
        _READ,
        "field",
    ),
    Threshold(
        "temperature_margin_c",
        0,
        "degrees Celsius",
        "distance to the highest operating temperature (T.Limit); critical at or below it",
        "NVIDIA DCGM field 153 as NVSentinel uses it; slowdown begins at a margin of -2 or -3",
        _READ,
        "field",
    ),
    Threshold(
        "memory_temperature_c",
        95,
        "degrees Celsius",
        "HBM, at any load; a warning above it. GPUs with GDDR do not report this temperature",
        "no vendor figure captured; NVIDIA reports the limit only as a margin",
        _READ,
        "own",
    ),
    Threshold(
        "idle_temperature_c",
        70,
        "degrees Celsius",
        "GPU core while utilisation is below idle_utilisation_pct; a warning above it",
        "oracle-quickstart/oci-hpc, idle-hot check (there for 30 minutes)",
        _READ,
        "field",
    ),
    Threshold(
        "idle_utilisation_pct",
        10,
        "percent",
        "a GPU below this utilisation counts as idle for idle_temperature_c",
        "oracle-quickstart/oci-hpc, idle-hot check",
        _READ,
        "field",
    ),
    Threshold(
        "row_remap_uncorrectable",
        512,
        "rows",
        "rows remapped for uncorrectable errors over the card's life; critical at or above it",
        "NVIDIA DCGM health watch; scitix/sichek uses the same",
        _READ,
        "vendor",
    ),
    Threshold(
        "sram_uncorrectable_aggregate",
        4,
        "errors",
        "uncorrectable SRAM errors over the card's life; critical above it, because SRAM has no spare rows",
        "scitix/sichek specification; stas00/ml-engineering names the same",
        _READ,
        "field",
    ),
    Threshold(
        "retired_pages_total",
        63,
        "pages",
        "GPUs before Ampere: pages retired for single and double bit errors together; critical at or above it",
        "NVIDIA DCGM, DCGM_LIMIT_MAX_RETIRED_PAGES",
        _READ,
        "vendor",
    ),
    Threshold(
        "retired_pages_double_bit",
        15,
        "pages",
        "GPUs before Ampere: pages retired for double bit errors; a warning above it",
        "NVIDIA DCGM, DCGM_LIMIT_MAX_RETIRED_PAGES_SOFT_LIMIT (there together with one more page a week)",
        _READ,
        "vendor",
    ),
    Threshold(
        "ecc_correctable_volatile",
        1000,
        "errors",
        "corrected errors since the driver was loaded, where no earlier reading shows the trend; a warning above it",
        "no source found; a healthy card shows single ones, a degrading HBM thousands a second",
        _READ,
        "own",
    ),
    Threshold(
        "ecc_correctable_growth",
        0,
        "errors",
        "corrected errors added since the earlier reading; a warning above it",
        "Kentino alert policy: a rising volatile counter opens a ticket",
        _READ,
        "own",
    ),
    Threshold(
        "ecc_correctable_per_second",
        10,
        "errors per second",
        "corrected errors between two readings; critical at or above it, the memory is failing",
        "NVIDIA DCGM defines a limit of 10 that no code of it uses; NVIDIA/DCGM#313 saw 4,647 to 17,657 a second on a degrading HBM",
        _READ,
        "own",
    ),
    Threshold(
        "nvlink_crc_per_second",
        100,
        "errors per second",
        "CRC errors of one link between two readings; a warning at or above it, the link repeats what it lost",
        "NVIDIA DCGM, DCGM_LIMIT_MAX_NVLINK_CRC_ERROR",
        _READ,
        "vendor",
    ),
    Threshold(
        "memory_held_mib",
        1024,
        "MiB",
        "memory in use on a GPU that lists no process; a warning above it. Drivers themselves reserve some hundred MiB",
        "no source found; above what drivers reserve on idle cards, far below what a training process takes",
        _READ,
        "own",
    ),
    Threshold(
        "memory_total_tolerance_pct",
        1,
        "percent",
        "difference of the total memory from the expected one or from siblings that is no difference",
        "drivers differ by some MiB in what they reserve",
        _READ,
        "own",
    ),
    Threshold(
        "power_limit_tolerance_watts",
        1,
        "watts",
        "difference of the power limit from the expected or default one that is no difference",
        "drivers round the limit",
        _READ,
        "own",
    ),
    *(
        Threshold(
            "pcie_replays_per_lane_minute_gen%d" % generation,
            value,
            "replays per lane and minute",
            "PCIe generation %d, times the lanes, rounded up; a warning above it" % generation,
            _DCGM_REPLAYS,
            _READ,
            "vendor",
        )
        for generation, value in sorted(_REPLAYS.items())
    ),
    # Under load: burn-in, and whatever else is run while the GPUs are sampled.
    Threshold(
        "load_utilisation_pct",
        50,
        "percent",
        "a GPU at or above this utilisation counts as loaded; what is judged under load is judged in these samples",
        "no source found; burn-in keeps a GPU near 100, between two batches it may fall for a moment",
        _READ,
        "own",
    ),
    Threshold(
        "load_power_share_pct",
        70,
        "percent of the power limit",
        "highest draw seen under a burn-in; a warning below it, because such a load does not show what full load would",
        "in single precision without tensor cores, which draws least: eight H100 580 to 650 of 700 W (huggingface/gpu-fryer#4), "
        "RTX 4090 380 of 450 W (wilicc/gpu-burn#68); wilicc/gpu-burn#114 reports a load far below the limit",
        _READ,
        "own",
    ),
    Threshold(
        "load_throttle_share_pct",
        20,
        "percent of the loaded time",
        "clocks cut because of heat or power; hardware: a warning at once and critical above it, the driver's own cut: a warning above it",
        "oracle-quickstart/oci-hpc: throttled for more than 20 percent of the time",
        _READ,
        "field",
    ),
    Threshold(
        "load_slow_tolerance_pct",
        10,
        "percent below the median of the siblings",
        "throughput or SM clock of a GPU against those of the same model in the node, slow side only; a warning below it",
        "huggingface/gpu-fryer: 10 percent below the best GPU",
        _READ,
        "field",
    ),
    Threshold(
        "load_temperature_seconds",
        300,
        "seconds",
        "time above temperature_c under load; critical beyond it",
        "Kentino alert policy: page above 85 degrees for more than 5 minutes",
        _READ,
        "own",
    ),
    Threshold(
        "load_silence_seconds",
        60,
        "seconds",
        "longest time without a sample under load; beyond it what happened meanwhile is not known",
        "NVIDIA/DCGM#313: a card with failing memory let its tools wait for more than 45 seconds under load",
        _READ,
        "own",
    ),
    Threshold(
        "burn_seconds",
        60,
        "seconds",
        "shortest burn-in in single precision that proves anything: a large card needs some 10 seconds for each progress record",
        "wilicc/gpu-burn: two batches over 90 percent of the memory come before the first record; issue 124, a run too short for one",
        _READ,
        "own",
    ),
    Threshold(
        "burn_doubles_seconds",
        180,
        "seconds",
        "the same in double precision, of which GeForce and L40S cards compute 1/64: a batch takes a minute",
        "wilicc/gpu-burn, 1.1 TFLOP for each matrix product; NVIDIA data sheets for the rate",
        _READ,
        "own",
    ),
    # Longest time for dcgmi diag by level.
    Threshold(
        "dcgm_seconds_level1",
        300,
        "seconds",
        "dcgmi diag -r 1 on up to 8 GPUs; then it is ended and the verdict unknown",
        "NVIDIA DCGM documentation: seconds; with margin for a host engine that has to start",
        _READ,
        "own",
    ),
    Threshold(
        "dcgm_seconds_level2",
        1800,
        "seconds",
        "dcgmi diag -r 2, likewise",
        "AWS SageMaker HyperPod limits it to 30 minutes; 2 to 10 minutes are reported",
        _READ,
        "field",
    ),
    Threshold(
        "dcgm_seconds_level3",
        3600,
        "seconds",
        "dcgmi diag -r 3, likewise",
        "AWS SageMaker HyperPod limits it to 60 minutes; 10 to 15 minutes are reported",
        _READ,
        "field",
    ),
    Threshold(
        "dcgm_seconds_level4",
        10800,
        "seconds",
        "dcgmi diag -r 4, likewise",
        "AWS SageMaker HyperPod limits it to 180 minutes; 45 to 135 minutes are reported",
        _READ,
        "field",
    ),
    Threshold(
        "dryrun_slow_tolerance_pct",
        15,
        "percent above the median of the other ranks",
        "time of forward and backward of a rank, median of its steps, slow side only, among GPUs of one model; a warning above it",
        "huggingface/gpu-fryer: 10 percent over minutes of load; a few short steps scatter more",
        _READ,
        "own",
    ),
    Threshold(
        "dryrun_slow_floor_seconds",
        0.005,
        "seconds",
        "the same difference as an absolute: below it, it is the jitter of kernel launches and of the host, whatever the percentage",
        "no source found; a launch takes some 10 microseconds, a step of a small block has hundreds of them",
        _READ,
        "own",
    ),
    Threshold(
        "dryrun_loss_tolerance_pct",
        0.1,
        "percent of the loss",
        "ranks compute the same batch with the same weights; critical above it. GPUs of one model agree to the last bit",
        "no source found; different kernels in bfloat16 differ by some hundredths of a percent in the mean over a batch",
        _READ,
        "own",
    ),
    Threshold(
        "dryrun_gradient_tolerance_pct",
        1,
        "percent of the norm",
        "norm of each rank's own gradient, likewise; wider, because attention adds up in no fixed order on its way back",
        "no source found; the order of additions changes the norm by less than a thousandth in bfloat16",
        _READ,
        "own",
    ),
    Threshold(
        "dryrun_foreign_memory_pct",
        5,
        "percent of the GPU's memory",
        "memory of other processes that counts as a reason why an allocation failed",
        "no source found; a display server takes less, a process left over from training more",
        _READ,
        "own",
    ),
)


def limits(overrides: t.Optional[t.Mapping[str, t.Any]] = None) -> t.Dict[str, Number]:
    """Every limit by key, with the inventory's overrides; C(ValueError) for a key or a value that is none."""
    values: t.Dict[str, Number] = {threshold.key: threshold.value for threshold in THRESHOLDS}
    for key, value in (overrides or {}).items():
        if key not in values:
            raise ValueError("limits: '%s' is no threshold of kentino.gpu; %s" % (key, hint(key, sorted(values))))
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            unit = next(threshold.unit for threshold in THRESHOLDS if threshold.key == key)
            raise ValueError(
                "limits: %s is %r; expected a number of %s. Write it without quotes, as in %s: %g" % (key, value, unit, key, values[key])
            )
        if value < 0 and not key.startswith("temperature"):
            raise ValueError("limits: %s is %g; expected 0 or more. Raise it, or leave it out for %g" % (key, value, values[key]))
        values[key] = value
    return values
