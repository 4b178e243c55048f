/* Copyright (c) 2026, Kentino
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * What the simulated node is like at this reading: the facts of $KENTINO_SIM_STATE/node and the changes among them.
 */

#ifndef KENTINO_SIM_STATE_H
#define KENTINO_SIM_STATE_H

#include <stdint.h>

#define API __attribute__((visibility("default")))
#define MAX_GPUS 64
#define TEXT_BYTES 256

/* NVML's return codes, as far as they are needed here. */
enum {
    OK = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    VERSION_MISMATCH = 25,
};

struct gpu {
    unsigned index;
};
typedef struct gpu *gpu_t;

extern struct gpu gpus[MAX_GPUS];
extern int users; /* nvmlInit without its nvmlShutdown */

int load(void);
void reload_if_changed(void);
void count_reading(void);
int reading_was_used(void);
long long now_usec(void);
void hang(void);

/* The value of a key at this reading, in the buffer (TEXT_BYTES) or elsewhere; NULL where there is none. */
const char *lookup(const char *key, char *buffer);
long long node_number(const char *key, long long otherwise);
int answer(const char *value);
int copy_text(const char *value, char *out, unsigned length);

int gpu_count(void);
int known(gpu_t gpu);
/* What is known of a GPU without asking it, its place on the bus, and what only the GPU itself can tell. */
int static_value(gpu_t gpu, const char *name, char *buffer, const char **value);
int value_of(gpu_t gpu, const char *name, char *buffer, const char **value);
int get_number(gpu_t gpu, const char *name, long long *number);
int get_uint(gpu_t gpu, const char *name, unsigned *out);
int get_u64(gpu_t gpu, const char *name, uint64_t *out);
int get_text(gpu_t gpu, const char *name, char *out, unsigned length);
int get_pair(gpu_t gpu, const char *first, unsigned *one, const char *second, unsigned *two);
int get_of_kind(gpu_t gpu, const char *const *names, unsigned count, unsigned kind, unsigned *out);

struct pci {
    char legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
};
int fill_pci(const char *address, struct pci *out);

#define NUMBER(function, name) API int function(gpu_t gpu, unsigned *out) { return get_uint(gpu, name, out); }
#define COUNTER(function, name) API int function(gpu_t gpu, uint64_t *out) { return get_u64(gpu, name, out); }
#define TEXT(function, name) API int function(gpu_t gpu, char *out, unsigned length) { return get_text(gpu, name, out, length); }
#define PAIR(function, first, second) API int function(gpu_t gpu, unsigned *one, unsigned *two) { return get_pair(gpu, first, one, second, two); }
#define OF_KIND(gpu, names, kind, out) get_of_kind(gpu, names, sizeof names / sizeof *names, kind, out)

#endif
