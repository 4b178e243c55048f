/* Copyright (c) 2026, Kentino
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Simulated NVML: PCIe link, temperature, power, clocks, modes.
 */

#include "state.h"

/* PCIe link */

NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "pcie.gen")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie.gen_max")
NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, "pcie.gen_device_max")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "pcie.width")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie.width_max")
NUMBER(nvmlDeviceGetPcieLinkMaxSpeed, "pcie.gen_max")
NUMBER(nvmlDeviceGetPcieReplayCounter, "pcie.replays")

API int nvmlDeviceGetPcieSpeed(gpu_t gpu, unsigned *out)
{
    static const unsigned mbps[] = {0, 2500, 5000, 8000, 16000, 32000, 64000};
    int code = get_uint(gpu, "pcie.gen", out);
    if (code == OK)
        *out = *out < 7 ? mbps[*out] : 0;
    return code;
}

API int nvmlDeviceGetPcieThroughput(gpu_t gpu, unsigned kind, unsigned *out)
{
    static const char *const names[] = {"pcie.tx", "pcie.rx"};
    return OF_KIND(gpu, names, kind, out);
}

/* Temperature, fan, power, clocks */

NUMBER(nvmlDeviceGetFanSpeed, "fan")
NUMBER(nvmlDeviceGetNumFans, "fans")
NUMBER(nvmlDeviceGetPerformanceState, "pstate")
NUMBER(nvmlDeviceGetPowerState, "pstate")
NUMBER(nvmlDeviceGetPowerUsage, "power.draw")
NUMBER(nvmlDeviceGetPowerManagementLimit, "power.limit")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power.limit")
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "power.default")
PAIR(nvmlDeviceGetPowerManagementLimitConstraints, "power.min", "power.max")

API int nvmlDeviceGetPowerManagementMode(gpu_t gpu, unsigned *out)
{
    int code = get_uint(gpu, "power.limit", out);
    if (code == OK)
        *out = 1;
    return code;
}

COUNTER(nvmlDeviceGetTotalEnergyConsumption, "energy")

API int nvmlDeviceGetFanSpeed_v2(gpu_t gpu, unsigned fan, unsigned *out)
{
    (void)fan;
    return get_uint(gpu, "fan", out);
}

API int nvmlDeviceGetTemperature(gpu_t gpu, unsigned sensor, unsigned *out)
{
    return sensor ? INVALID_ARGUMENT : get_uint(gpu, "temp.gpu", out);
}

struct temperature {
    unsigned version, sensor;
    int value;
};

API int nvmlDeviceGetTemperatureV(gpu_t gpu, struct temperature *out)
{
    if (!out)
        return INVALID_ARGUMENT;
    if (out->version != 0x100000c)
        return VERSION_MISMATCH;
    return out->sensor ? INVALID_ARGUMENT : get_uint(gpu, "temp.gpu", (unsigned *)&out->value);
}

API int nvmlDeviceGetTemperatureThreshold(gpu_t gpu, unsigned kind, unsigned *out)
{
    static const char *const names[] = {"temp.shutdown", "temp.slowdown", "temp.memory_max", "temp.gpu_max"};
    return kind < 4 ? get_uint(gpu, names[kind], out) : NOT_SUPPORTED;
}

struct margin {
    unsigned version;
    int value;
};

API int nvmlDeviceGetMarginTemperature(gpu_t gpu, struct margin *out)
{
    if (!out)
        return INVALID_ARGUMENT;
    if (out->version != 0x1000008)
        return VERSION_MISMATCH;
    return get_uint(gpu, "temp.margin", (unsigned *)&out->value);
}

API int nvmlDeviceGetClockInfo(gpu_t gpu, unsigned kind, unsigned *out)
{
    static const char *const names[] = {"clock.graphics", "clock.sm", "clock.memory", "clock.video"};
    return OF_KIND(gpu, names, kind, out);
}

API int nvmlDeviceGetMaxClockInfo(gpu_t gpu, unsigned kind, unsigned *out)
{
    static const char *const names[] = {"clock.graphics_max", "clock.sm_max", "clock.memory_max", "clock.video_max"};
    return OF_KIND(gpu, names, kind, out);
}

API int nvmlDeviceGetApplicationsClock(gpu_t gpu, unsigned kind, unsigned *out)
{
    static const char *const names[] = {"clock.graphics_app", "clock.graphics_app", "clock.memory_app"};
    return OF_KIND(gpu, names, kind, out);
}

API int nvmlDeviceGetDefaultApplicationsClock(gpu_t gpu, unsigned kind, unsigned *out)
{
    return nvmlDeviceGetApplicationsClock(gpu, kind, out);
}

API int nvmlDeviceGetMaxCustomerBoostClock(gpu_t gpu, unsigned kind, unsigned *out)
{
    static const char *const names[] = {"clock.boost", "clock.boost", "clock.memory_max"};
    return OF_KIND(gpu, names, kind, out);
}

API int nvmlDeviceGetClock(gpu_t gpu, unsigned kind, unsigned which, unsigned *out)
{
    if (which == 0)
        return nvmlDeviceGetClockInfo(gpu, kind, out);
    return which == 3 ? nvmlDeviceGetMaxCustomerBoostClock(gpu, kind, out) : nvmlDeviceGetApplicationsClock(gpu, kind, out);
}

COUNTER(nvmlDeviceGetCurrentClocksEventReasons, "reasons")
COUNTER(nvmlDeviceGetCurrentClocksThrottleReasons, "reasons")
COUNTER(nvmlDeviceGetSupportedClocksEventReasons, "reasons_supported")
COUNTER(nvmlDeviceGetSupportedClocksThrottleReasons, "reasons_supported")

struct violation {
    uint64_t reference, violation;
};

API int nvmlDeviceGetViolationStatus(gpu_t gpu, unsigned policy, struct violation *out)
{
    static const char *const names[] = {"counter.sw_power_cap", "counter.sw_thermal", "counter.sync_boost"};
    int code;
    if (!out || policy > 2)
        return out ? NOT_SUPPORTED : INVALID_ARGUMENT;
    code = get_u64(gpu, names[policy], &out->violation);
    out->violation *= 1000; /* the file counts microseconds, this call nanoseconds */
    out->reference = (uint64_t)now_usec() * 1000;
    return code;
}

/* Modes and use */

NUMBER(nvmlDeviceGetPersistenceMode, "persistence")
NUMBER(nvmlDeviceGetComputeMode, "compute_mode")
NUMBER(nvmlDeviceGetDisplayMode, "display.mode")
NUMBER(nvmlDeviceGetDisplayActive, "display.active")
NUMBER(nvmlDeviceGetAccountingMode, "accounting")
PAIR(nvmlDeviceGetMigMode, "mig.current", "mig.pending")
PAIR(nvmlDeviceGetEncoderUtilization, "util.encoder", "util.period")
PAIR(nvmlDeviceGetDecoderUtilization, "util.decoder", "util.period")
PAIR(nvmlDeviceGetJpgUtilization, "util.jpeg", "util.period")
PAIR(nvmlDeviceGetOfaUtilization, "util.ofa", "util.period")

API int nvmlDeviceGetUtilizationRates(gpu_t gpu, unsigned *out)
{
    return out ? get_pair(gpu, "util.gpu", out, "util.memory", out + 1) : INVALID_ARGUMENT;
}

API int nvmlDeviceGetMaxMigDeviceCount(gpu_t gpu, unsigned *out)
{
    unsigned divided = 0;
    int code = known(gpu);
    if (code == OK && out)
        *out = get_uint(gpu, "mig.current", &divided) == OK && divided ? 7 : 0;
    return code;
}

API int nvmlDeviceGetMigDeviceHandleByIndex(gpu_t gpu, unsigned index, gpu_t *out)
{
    (void)index, (void)out;
    return known(gpu) ? known(gpu) : NOT_FOUND;
}

API int nvmlDeviceGetVirtualizationMode(gpu_t gpu, unsigned *out)
{
    int code = known(gpu);
    if (code == OK && out)
        *out = 0;
    return code;
}
