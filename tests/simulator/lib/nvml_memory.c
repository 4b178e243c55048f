/* Copyright (c) 2026, Kentino
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Simulated NVML: memory, its errors and who uses it.
 */

#include "state.h"

#include <stdio.h>
#include <string.h>

/* Memory */

struct memory {
    uint64_t total, free, used;
};

struct memory_v2 {
    unsigned version;
    uint64_t total, reserved, free, used;
};

API int nvmlDeviceGetMemoryInfo_v2(gpu_t gpu, struct memory_v2 *out)
{
    int code;
    if (!out)
        return INVALID_ARGUMENT;
    if (out->version != 0x2000028)
        return VERSION_MISMATCH;
    if ((code = get_u64(gpu, "memory.total", &out->total)) || (code = get_u64(gpu, "memory.reserved", &out->reserved)) ||
        (code = get_u64(gpu, "memory.free", &out->free)) || (code = get_u64(gpu, "memory.used", &out->used)))
        return code;
    out->total <<= 20, out->reserved <<= 20, out->free <<= 20, out->used <<= 20;
    return OK;
}

API int nvmlDeviceGetMemoryInfo(gpu_t gpu, struct memory *out)
{
    struct memory_v2 memory = {0x2000028, 0, 0, 0, 0};
    int code = nvmlDeviceGetMemoryInfo_v2(gpu, &memory);
    if (code == OK && out) {
        out->total = memory.total;
        out->free = memory.free;
        out->used = memory.used + memory.reserved; /* the first version of the call counts the driver's own share as used */
    }
    return code;
}

API int nvmlDeviceGetBAR1MemoryInfo(gpu_t gpu, struct memory *out)
{
    int code;
    if (!out)
        return INVALID_ARGUMENT;
    if ((code = get_u64(gpu, "bar1.total", &out->total)) || (code = get_u64(gpu, "bar1.used", &out->used)))
        return code;
    out->total <<= 20, out->used <<= 20;
    out->free = out->total - out->used;
    return OK;
}

/* ECC, row remapping, page retirement */

PAIR(nvmlDeviceGetEccMode, "ecc.current", "ecc.pending")
NUMBER(nvmlDeviceGetDefaultEccMode, "ecc.default")

static int add_counter(gpu_t gpu, unsigned kind, const char *name, uint64_t *sum)
{
    char key[TEXT_BYTES];
    uint64_t count = 0;
    int code;
    snprintf(key, sizeof key, "ecc.%s.%s", kind ? "aggregate" : "volatile", name);
    code = get_u64(gpu, key, &count);
    *sum += count;
    return code;
}

API int nvmlDeviceGetMemoryErrorCounter(gpu_t gpu, unsigned type, unsigned kind, unsigned location, uint64_t *out)
{
    int code;
    if (!out || type > 1 || kind > 1)
        return INVALID_ARGUMENT;
    if (location != 2 && location != 7)
        return NOT_SUPPORTED; /* Ampere and later count by memory technology, not by structure */
    *out = 0;
    if (location == 2)
        return add_counter(gpu, kind, type ? "dram_uncorrectable" : "dram_correctable", out);
    if (!type)
        return add_counter(gpu, kind, "sram_correctable", out);
    code = add_counter(gpu, kind, "sram_parity", out);
    return code ? code : add_counter(gpu, kind, "sram_secded", out);
}

API int nvmlDeviceGetTotalEccErrors(gpu_t gpu, unsigned type, unsigned kind, uint64_t *out)
{
    uint64_t sram = 0;
    int code = nvmlDeviceGetMemoryErrorCounter(gpu, type, kind, 2, out);
    if (code == OK && (code = nvmlDeviceGetMemoryErrorCounter(gpu, type, kind, 7, &sram)) == OK)
        *out += sram;
    return code;
}

struct sram {
    unsigned version;
    uint64_t aggregate_parity, aggregate_secded, aggregate_correctable;
    uint64_t volatile_parity, volatile_secded, volatile_correctable;
    uint64_t l2, sm, pcie, mcu, other;
    unsigned threshold_exceeded;
};

API int nvmlDeviceGetSramEccErrorStatus(gpu_t gpu, struct sram *out)
{
    int code;
    if (!out)
        return INVALID_ARGUMENT;
    if (out->version != 0x1000068)
        return VERSION_MISMATCH;
    memset(out, 0, sizeof *out);
    out->version = 0x1000068;
    if ((code = add_counter(gpu, 1, "sram_parity", &out->aggregate_parity)) ||
        (code = add_counter(gpu, 1, "sram_secded", &out->aggregate_secded)) ||
        (code = add_counter(gpu, 1, "sram_correctable", &out->aggregate_correctable)) ||
        (code = add_counter(gpu, 0, "sram_parity", &out->volatile_parity)) ||
        (code = add_counter(gpu, 0, "sram_secded", &out->volatile_secded)) ||
        (code = add_counter(gpu, 0, "sram_correctable", &out->volatile_correctable)) ||
        (code = get_u64(gpu, "ecc.sources.l2", &out->l2)) || (code = get_u64(gpu, "ecc.sources.sm", &out->sm)) ||
        (code = get_u64(gpu, "ecc.sources.pcie", &out->pcie)) || (code = get_u64(gpu, "ecc.sources.mcu", &out->mcu)) ||
        (code = get_u64(gpu, "ecc.sources.other", &out->other)))
        return code;
    return get_uint(gpu, "ecc.threshold", &out->threshold_exceeded);
}

API int nvmlDeviceGetRemappedRows(gpu_t gpu, unsigned *correctable, unsigned *uncorrectable, unsigned *pending, unsigned *failure)
{
    int code;
    if ((code = get_uint(gpu, "remap.correctable", correctable)) || (code = get_uint(gpu, "remap.uncorrectable", uncorrectable)) ||
        (code = get_uint(gpu, "remap.pending", pending)))
        return code;
    return get_uint(gpu, "remap.failure", failure);
}

API int nvmlDeviceGetRowRemapperHistogram(gpu_t gpu, unsigned *out)
{
    static const char *const names[] = {"remap.max", "remap.high", "remap.partial", "remap.low", "remap.none"};
    unsigned i;
    int code = OK;
    for (i = 0; i < 5 && code == OK; i++)
        code = get_uint(gpu, names[i], out ? out + i : NULL);
    return code;
}

API int nvmlDeviceGetRetiredPagesPendingStatus(gpu_t gpu, unsigned *out) { return get_uint(gpu, "retired.pending", out); }

API int nvmlDeviceGetRetiredPages(gpu_t gpu, unsigned cause, unsigned *count, uint64_t *pages)
{
    unsigned have = 0, room, i;
    int code = get_uint(gpu, cause ? "retired.double_bit" : "retired.single_bit", &have);
    if (code)
        return code;
    if (!count)
        return INVALID_ARGUMENT;
    room = *count;
    *count = have;
    if (have > room || (have && !pages))
        return INSUFFICIENT_SIZE;
    for (i = 0; i < have; i++)
        pages[i] = 0x1000ULL * (i + 1);
    return OK;
}

struct repair {
    unsigned version, channel, tpc;
};

API int nvmlDeviceGetRepairStatus(gpu_t gpu, struct repair *out)
{
    int code;
    if (!out)
        return INVALID_ARGUMENT;
    if (out->version != 0x100000c)
        return VERSION_MISMATCH;
    code = get_uint(gpu, "repair.channel", &out->channel);
    return code ? code : get_uint(gpu, "repair.tpc", &out->tpc);
}

/* Processes */

struct process {
    unsigned pid;
    uint64_t used;
    unsigned gpu_instance, compute_instance;
};

static int processes(gpu_t gpu, char kind, unsigned *count, struct process *out)
{
    char key[TEXT_BYTES], buffer[TEXT_BYTES];
    const char *value;
    unsigned have = 0, room, i;
    long long number;
    int code = value_of(gpu, "bus_id", buffer, &value);
    if (code)
        return code;
    if (!count)
        return INVALID_ARGUMENT;
    room = *count;
    for (i = 0;; i++) {
        snprintf(key, sizeof key, "process.%u.type", i);
        code = value_of(gpu, key, buffer, &value);
        if (code == NOT_SUPPORTED)
            break;
        if (code)
            return code;
        if (*value != kind)
            continue;
        if (out && have < room) {
            snprintf(key, sizeof key, "process.%u.pid", i);
            out[have].pid = get_number(gpu, key, &number) == OK ? (unsigned)number : 0;
            snprintf(key, sizeof key, "process.%u.used", i);
            out[have].used = get_number(gpu, key, &number) == OK ? (uint64_t)number << 20 : UINT64_MAX;
            out[have].gpu_instance = out[have].compute_instance = UINT32_MAX;
        }
        have++;
    }
    *count = have;
    return have > room || (have && !out) ? INSUFFICIENT_SIZE : OK;
}

API int nvmlDeviceGetComputeRunningProcesses_v3(gpu_t gpu, unsigned *count, struct process *out) { return processes(gpu, 'C', count, out); }
API int nvmlDeviceGetComputeRunningProcesses_v2(gpu_t gpu, unsigned *count, struct process *out) { return processes(gpu, 'C', count, out); }
API int nvmlDeviceGetGraphicsRunningProcesses_v3(gpu_t gpu, unsigned *count, struct process *out) { return processes(gpu, 'G', count, out); }
API int nvmlDeviceGetGraphicsRunningProcesses_v2(gpu_t gpu, unsigned *count, struct process *out) { return processes(gpu, 'G', count, out); }
API int nvmlDeviceGetMPSComputeRunningProcesses_v3(gpu_t gpu, unsigned *count, struct process *out) { return processes(gpu, 'M', count, out); }
