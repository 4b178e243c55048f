/* Copyright (c) 2026, Kentino
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * libnvidia-ml.so.1 of the simulated node: the library itself, handles and identity. A symbol that none of these files has is
 * "Function Not Found" for the caller, as with a library that is older than the call. Layouts and numbers follow NVIDIA's nvml.h
 * as the bindings in nvidia-ml-py describe it.
 */

#include "state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Library and system */

API int nvmlInitWithFlags(unsigned flags)
{
    char buffer[TEXT_BYTES];
    const char *value;
    int code;
    unsigned i;
    (void)flags;
    if (load() < 0)
        return DRIVER_NOT_LOADED;
    value = lookup("nvml.hang", buffer);
    if (value && !strcmp(value, "init"))
        hang();
    code = (int)node_number("nvml.init", OK);
    if (code)
        return code;
    for (i = 0; i < MAX_GPUS; i++)
        gpus[i].index = i;
    users++;
    count_reading();
    return OK;
}

API int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API int nvmlInit(void) { return nvmlInitWithFlags(0); }

API int nvmlShutdown(void)
{
    if (!users)
        return UNINITIALIZED;
    users--;
    return OK;
}

API const char *nvmlErrorString(int code)
{
    switch (code) {
    case OK: return "Success";
    case 15: return "GPU is lost";
    case 16: return "GPU requires reset";
    case 18: return "Driver/library version mismatch";
    case VERSION_MISMATCH: return "Argument version mismatch";
    case 26: return "Requested functionality has been deprecated";
    case 999: return "Unknown Error";
    default: return "Simulated error";
    }
}

static int system_text(const char *key, char *out, unsigned length)
{
    char buffer[TEXT_BYTES];
    const char *value;
    if (!users)
        return UNINITIALIZED;
    value = lookup(key, buffer);
    return answer(value) ? answer(value) : copy_text(value, out, length);
}

API int nvmlSystemGetDriverVersion(char *out, unsigned length) { return system_text("driver", out, length); }
API int nvmlSystemGetNVMLVersion(char *out, unsigned length) { return system_text("nvml.version", out, length); }

API int nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    if (!out)
        return INVALID_ARGUMENT;
    *out = (int)node_number("cuda_number", 0);
    return *out ? OK : NOT_SUPPORTED;
}

API int nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }

API int nvmlSystemGetProcessName(unsigned pid, char *out, unsigned length)
{
    char key[TEXT_BYTES], buffer[TEXT_BYTES];
    const char *value;
    int gpu, process;
    if (!users)
        return UNINITIALIZED;
    for (gpu = 0; gpu < gpu_count(); gpu++)
        for (process = 0;; process++) {
            snprintf(key, sizeof key, "gpu.%d.process.%d.pid", gpu, process);
            value = lookup(key, buffer);
            if (!value)
                break;
            if ((unsigned)atoll(value) != pid)
                continue;
            snprintf(key, sizeof key, "gpu.%d.process.%d.name", gpu, process);
            value = lookup(key, buffer);
            return answer(value) ? answer(value) : copy_text(value, out, length);
        }
    return NOT_FOUND;
}

API int nvmlUnitGetCount(unsigned *out)
{
    if (!out)
        return INVALID_ARGUMENT;
    *out = 0;
    return users ? OK : UNINITIALIZED;
}

/* Handles */

API int nvmlDeviceGetCount_v2(unsigned *out)
{
    if (!users)
        return UNINITIALIZED;
    if (!out)
        return INVALID_ARGUMENT;
    /* A process that stays initialised starts a new reading here, and sees what was changed under it. */
    if (reading_was_used())
        count_reading();
    reload_if_changed();
    *out = (unsigned)gpu_count();
    return OK;
}

API int nvmlDeviceGetCount(unsigned *out) { return nvmlDeviceGetCount_v2(out); }

API int nvmlDeviceGetHandleByIndex_v2(unsigned index, gpu_t *out)
{
    char key[TEXT_BYTES];
    int code;
    if (!users)
        return UNINITIALIZED;
    if (!out || index >= (unsigned)gpu_count())
        return INVALID_ARGUMENT;
    snprintf(key, sizeof key, "gpu.%u.handle_error", index);
    code = (int)node_number(key, OK);
    if (code == OK)
        *out = &gpus[index];
    return code;
}

API int nvmlDeviceGetHandleByIndex(unsigned index, gpu_t *out) { return nvmlDeviceGetHandleByIndex_v2(index, out); }

static int handle_by(const char *name, const char *wanted, gpu_t *out)
{
    char buffer[TEXT_BYTES];
    const char *value;
    int i;
    if (!users)
        return UNINITIALIZED;
    if (!wanted || !out)
        return INVALID_ARGUMENT;
    for (i = 0; i < gpu_count(); i++)
        if (static_value(&gpus[i], name, buffer, &value) == OK && !strcasecmp(value, wanted))
            return nvmlDeviceGetHandleByIndex_v2((unsigned)i, out);
    return NOT_FOUND;
}

API int nvmlDeviceGetHandleByUUID(const char *uuid, gpu_t *out) { return handle_by("uuid", uuid, out); }
API int nvmlDeviceGetHandleBySerial(const char *serial, gpu_t *out) { return handle_by("serial", serial, out); }

API int nvmlDeviceGetHandleByPciBusId_v2(const char *wanted, gpu_t *out)
{
    char address[32];
    unsigned domain, bus, device, function = 0;
    if (!wanted || sscanf(wanted, "%x:%x:%x.%u", &domain, &bus, &device, &function) < 3)
        return INVALID_ARGUMENT;
    snprintf(address, sizeof address, "%04x:%02x:%02x.%u", domain, bus, device, function);
    return handle_by("bus_id", address, out);
}

API int nvmlDeviceGetHandleByPciBusId(const char *wanted, gpu_t *out) { return nvmlDeviceGetHandleByPciBusId_v2(wanted, out); }

/* Identity */

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
TEXT(nvmlDeviceGetBoardPartNumber, "board_part")
TEXT(nvmlDeviceGetInforomImageVersion, "inforom.image")
NUMBER(nvmlDeviceGetMinorNumber, "minor")
NUMBER(nvmlDeviceGetBoardId, "board_id")
NUMBER(nvmlDeviceGetBrand, "brand_number")
NUMBER(nvmlDeviceGetModuleId, "module")
NUMBER(nvmlDeviceGetArchitecture, "architecture_number")
NUMBER(nvmlDeviceGetNumGpuCores, "cores")
NUMBER(nvmlDeviceGetMemoryBusWidth, "bus_width")
NUMBER(nvmlDeviceGetNumaNodeId, "numa")

API int nvmlDeviceGetIndex(gpu_t gpu, unsigned *out)
{
    int code = known(gpu);
    if (code == OK && out)
        *out = gpu->index;
    return code;
}

API int nvmlDeviceGetMultiGpuBoard(gpu_t gpu, unsigned *out)
{
    int code = known(gpu);
    if (code == OK && out)
        *out = 0;
    return code;
}

API int nvmlDeviceGetInforomVersion(gpu_t gpu, unsigned object, char *out, unsigned length)
{
    static const char *const names[] = {"inforom.oem", "inforom.ecc", "inforom.power"};
    return object < 3 ? get_text(gpu, names[object], out, length) : INVALID_ARGUMENT;
}

API int nvmlDeviceGetGspFirmwareVersion(gpu_t gpu, char *out) { return get_text(gpu, "gsp", out, 80); }

API int nvmlDeviceGetCudaComputeCapability(gpu_t gpu, int *major, int *minor)
{
    char capability[16];
    int code = get_text(gpu, "compute_capability", capability, sizeof capability);
    if (code == OK && (!major || !minor || sscanf(capability, "%d.%d", major, minor) != 2))
        return INVALID_ARGUMENT;
    return code;
}

int fill_pci(const char *address, struct pci *out)
{
    unsigned function = 0;
    memset(out, 0, sizeof *out);
    if (sscanf(address, "%x:%x:%x.%u", &out->domain, &out->bus, &out->device, &function) < 3)
        return INVALID_ARGUMENT;
    snprintf(out->legacy, sizeof out->legacy, "%04X:%02X:%02X.%u", out->domain & 0xffff, out->bus & 0xff, out->device & 0xff, function & 7);
    snprintf(out->bus_id, sizeof out->bus_id, "%08X:%02X:%02X.%u", out->domain, out->bus & 0xff, out->device & 0xff, function & 7);
    return OK;
}

API int nvmlDeviceGetPciInfo_v3(gpu_t gpu, struct pci *out)
{
    char buffer[TEXT_BYTES];
    const char *value;
    int code = static_value(gpu, "bus_id", buffer, &value);
    if (code)
        return code;
    if (!out || fill_pci(value, out))
        return INVALID_ARGUMENT;
    if (static_value(gpu, "device_id", buffer, &value) == OK)
        out->device_id = (unsigned)strtoul(value, NULL, 16);
    if (static_value(gpu, "subsystem_id", buffer, &value) == OK)
        out->subsystem_id = (unsigned)strtoul(value, NULL, 16);
    return OK;
}

API int nvmlDeviceGetPciInfo_v2(gpu_t gpu, struct pci *out) { return nvmlDeviceGetPciInfo_v3(gpu, out); }
API int nvmlDeviceGetPciInfo(gpu_t gpu, struct pci *out) { return nvmlDeviceGetPciInfo_v3(gpu, out); }
