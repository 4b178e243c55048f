/* Copyright (c) 2026, Kentino
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Simulated NVML: NVLink, fabric and the generic field values.
 */

#include "state.h"

#include <stdio.h>
#include <string.h>

/* NVLink and fabric */

static int link_uint(gpu_t gpu, unsigned link, const char *name, unsigned *out)
{
    char key[TEXT_BYTES];
    snprintf(key, sizeof key, "nvlink.%u.%s", link, name);
    return get_uint(gpu, key, out);
}

API int nvmlDeviceGetNvLinkState(gpu_t gpu, unsigned link, unsigned *out) { return link_uint(gpu, link, "state", out); }
API int nvmlDeviceGetNvLinkVersion(gpu_t gpu, unsigned link, unsigned *out) { return link_uint(gpu, link, "version", out); }

API int nvmlDeviceGetNvLinkErrorCounter(gpu_t gpu, unsigned link, unsigned kind, uint64_t *out)
{
    static const char *const names[] = {"replay", "recovery", "crc", "crc"};
    char key[TEXT_BYTES];
    if (kind > 3)
        return NOT_SUPPORTED;
    snprintf(key, sizeof key, "nvlink.%u.%s", link, names[kind]);
    return get_u64(gpu, key, out);
}

API int nvmlDeviceGetNvLinkCapability(gpu_t gpu, unsigned link, unsigned capability, unsigned *out)
{
    unsigned state;
    int code = link_uint(gpu, link, "state", &state);
    if (code == OK && out)
        *out = capability < 4 || capability == 5;
    return code;
}

API int nvmlDeviceGetNvLinkRemotePciInfo_v2(gpu_t gpu, unsigned link, struct pci *out)
{
    char key[TEXT_BYTES], address[32];
    int code;
    snprintf(key, sizeof key, "nvlink.%u.remote", link);
    code = get_text(gpu, key, address, sizeof address);
    if (code || !out)
        return code ? code : INVALID_ARGUMENT;
    code = fill_pci(address, out);
    out->device_id = 0x22a310de; /* an NVSwitch */
    return code;
}

API int nvmlDeviceGetNvLinkRemoteDeviceType(gpu_t gpu, unsigned link, unsigned *out)
{
    unsigned state;
    int code = link_uint(gpu, link, "state", &state);
    if (code == OK && out)
        *out = 2; /* a switch */
    return code;
}

static int fabric(gpu_t gpu, unsigned char *uuid, unsigned *status, unsigned *clique, unsigned *state)
{
    int code;
    if ((code = get_uint(gpu, "fabric.status", status)) || (code = get_uint(gpu, "fabric.clique", clique)))
        return code;
    memset(uuid, 0, 16);
    return get_uint(gpu, "fabric.state", state);
}

struct fabric_v1 {
    unsigned char uuid[16];
    unsigned status, clique, state;
};

API int nvmlDeviceGetGpuFabricInfo(gpu_t gpu, struct fabric_v1 *out)
{
    return out ? fabric(gpu, out->uuid, &out->status, &out->clique, &out->state) : INVALID_ARGUMENT;
}

struct fabric_v3 {
    unsigned version;
    unsigned char uuid[16];
    unsigned status, clique, state, health;
    unsigned char summary;
};

API int nvmlDeviceGetGpuFabricInfoV(gpu_t gpu, struct fabric_v3 *out)
{
    int code = known(gpu);
    if (code || !out)
        return code ? code : INVALID_ARGUMENT;
    /* The third version of the structure came after the 570 branch. */
    if (out->version != 0x2000024 && (out->version != 0x3000028 || node_number("driver", 0) < 575))
        return VERSION_MISMATCH;
    code = fabric(gpu, out->uuid, &out->status, &out->clique, &out->state);
    if (code == OK)
        out->health = 0;
    if (code == OK && out->version == 0x3000028)
        out->summary = 0;
    return code;
}

/* Field values */

struct field_value {
    uint32_t field, scope;
    int64_t timestamp, latency;
    uint32_t type, code;
    union {
        unsigned u;
        unsigned long long ull;
        long long sll;
        int i;
    } value;
};

enum { UINT = 1, ULONGLONG = 3, INT = 5 };

static const struct field {
    unsigned id;
    unsigned type;
    const char *name; /* with %u for the link */
} fields[] = {
    {1, UINT, "ecc.current"},
    {2, UINT, "ecc.pending"},
    {29, ULONGLONG, "retired.single_bit"},
    {30, ULONGLONG, "retired.double_bit"},
    {31, ULONGLONG, "retired.pending"},
    {82, UINT, "temp.memory"},
    {83, ULONGLONG, "energy"},
    {90, UINT, "nvlink.speed"},
    {91, UINT, "nvlink.count"},
    {94, UINT, "pcie.replays"},
    {95, UINT, "pcie.rollovers"},
    {142, UINT, "remap.correctable"},
    {143, UINT, "remap.uncorrectable"},
    {144, UINT, "remap.pending"},
    {145, UINT, "remap.failure"},
    {161, ULONGLONG, "nvlink.%u.replay"},
    {162, ULONGLONG, "nvlink.%u.recovery"},
    {163, ULONGLONG, "nvlink.%u.crc"},
    {164, UINT, "nvlink.%u.speed"},
    {165, UINT, "nvlink.%u.state"},
    {166, UINT, "nvlink.%u.version"},
    {185, UINT, "power.average"},
    {186, UINT, "power.draw"},
    {187, UINT, "power.min"},
    {188, UINT, "power.max"},
    {189, UINT, "power.default"},
    {190, UINT, "power.limit"},
    {192, UINT, "power.limit"},
    {193, INT, "temp.t_shutdown"},
    {194, INT, "temp.t_slowdown"},
    {195, INT, "temp.t_memory_max"},
    {196, INT, "temp.t_gpu_max"},
    {215, ULONGLONG, "nvlink.%u.recovery_events"},
    {226, UINT, "reset.required"},
    {227, UINT, "reset.drain"},
    {230, UINT, "recovery"},
};

static int field_value(gpu_t gpu, struct field_value *out)
{
    char name[TEXT_BYTES];
    long long number = 0;
    size_t i;
    int code;
    for (i = 0; i < sizeof fields / sizeof *fields; i++) {
        if (fields[i].id != out->field)
            continue;
        snprintf(name, sizeof name, fields[i].name, out->scope);
        code = get_number(gpu, name, &number);
        out->type = fields[i].type;
        if (out->type == UINT)
            out->value.u = (unsigned)number;
        else if (out->type == INT)
            out->value.i = (int)number;
        else
            out->value.ull = (unsigned long long)number;
        return code;
    }
    return NOT_SUPPORTED;
}

API int nvmlDeviceGetFieldValues(gpu_t gpu, int count, struct field_value *values)
{
    char buffer[TEXT_BYTES];
    const char *value;
    int i, code = value_of(gpu, "bus_id", buffer, &value);
    if (code)
        return code;
    if (!values || count < 1)
        return INVALID_ARGUMENT;
    for (i = 0; i < count; i++) {
        values[i].value.ull = 0;
        values[i].timestamp = now_usec();
        values[i].latency = 0;
        values[i].code = (uint32_t)field_value(gpu, &values[i]);
    }
    return OK;
}
