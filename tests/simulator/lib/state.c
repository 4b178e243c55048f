/* Copyright (c) 2026, Kentino
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Reads the flat file that simnode/render.py writes: "key=value" for a fact, "key@rule=value" for a change. Over it lie two more
 * of the same form: "happened", what a run has done to the node for good, and "load", what a tool does to it while it lives.
 *
 * A value "N/A", and a key that the file lacks, is NVML_ERROR_NOT_SUPPORTED; "!15" is NVML error 15. What changes from reading
 * to reading is worked out as in simnode/state.py, which the stand-in tools use.
 */

#include "state.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOOK_USEC 20000

struct line {
    char *key;
    char *rule; /* of a change: what stands between '@' and '=' */
    char *value;
};

struct table {
    const char *name;
    char *content;
    struct line *facts, *changes;
    size_t fact_count, change_count;
    struct timespec modified;
    ino_t inode; /* a file that is replaced within one tick of the clock has the same time */
};

struct gpu gpus[MAX_GPUS];
int users;

static struct table node = {.name = "node"}, happened = {.name = "happened"}, load_of_tool = {.name = "load"};
static int load_lives;
static long long looked_usec; /* when it was last seen whether a tool loads the GPUs */
static long long start_usec;
static long long readings;
static int asked; /* a device was queried since the last reading was counted */

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct line *)a)->key, ((const struct line *)b)->key);
}

static int path_of(char *path, size_t size, const char *name)
{
    const char *folder = getenv("KENTINO_SIM_STATE");
    if (!folder || !*folder)
        return -1;
    return snprintf(path, size, "%s/%s", folder, name) < (int)size ? 0 : -1;
}

static char *read_file(const char *path, struct table *out)
{
    struct stat status;
    char *content = NULL;
    ssize_t got, used = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return NULL;
    if (fstat(file, &status) == 0 && (content = malloc((size_t)status.st_size + 1))) {
        while (used < status.st_size && (got = read(file, content + used, (size_t)(status.st_size - used))) > 0)
            used += got;
        content[used] = '\0';
        out->modified = status.st_mtim;
        out->inode = status.st_ino;
    }
    close(file);
    return content;
}

long long now_usec(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static const char *raw(const struct table *table, const char *key)
{
    struct line wanted = {(char *)key, NULL, NULL};
    struct line *found = table->fact_count ? bsearch(&wanted, table->facts, table->fact_count, sizeof *table->facts, by_key) : NULL;
    return found ? found->value : NULL;
}

static void clear(struct table *table)
{
    free(table->content);
    free(table->facts);
    free(table->changes);
    table->content = NULL;
    table->facts = table->changes = NULL;
    table->fact_count = table->change_count = 0;
    memset(&table->modified, 0, sizeof table->modified);
    table->inode = 0;
}

static int load_table(struct table *table)
{
    char path[4096];
    char *next, *equals, *at, *here;
    size_t lines = 1;
    clear(table);
    if (path_of(path, sizeof path, table->name) < 0)
        return -1;
    here = table->content = read_file(path, table);
    if (!here)
        return -1;
    for (next = here; *next; next++)
        lines += *next == '\n';
    table->facts = calloc(lines, sizeof *table->facts);
    table->changes = calloc(lines, sizeof *table->changes);
    if (!table->facts || !table->changes)
        abort();
    for (; here && *here; here = next) {
        next = strchr(here, '\n');
        if (next)
            *next++ = '\0';
        equals = strchr(here, '=');
        if (!equals)
            continue;
        *equals = '\0';
        at = strchr(here, '@');
        if (at) {
            *at = '\0';
            table->changes[table->change_count].key = here;
            table->changes[table->change_count].rule = at + 1;
            table->changes[table->change_count++].value = equals + 1;
        } else {
            table->facts[table->fact_count].key = here;
            table->facts[table->fact_count++].value = equals + 1;
        }
    }
    qsort(table->facts, table->fact_count, sizeof *table->facts, by_key);
    return 0;
}

static int is_outdated(const struct table *table)
{
    char path[4096];
    struct stat status;
    if (path_of(path, sizeof path, table->name) < 0 || stat(path, &status) < 0)
        return table->content != NULL;
    return status.st_ino != table->inode || status.st_mtim.tv_sec != table->modified.tv_sec ||
           status.st_mtim.tv_nsec != table->modified.tv_nsec;
}

/* Whether that process runs, and not another one under its number. One that nobody has waited for yet has ended. */
static int alive(const char *pid, const char *since)
{
    char path[64], status[1024], *word;
    ssize_t got;
    int file, field;
    if (!pid || !since)
        return 0;
    snprintf(path, sizeof path, "/proc/%d/stat", atoi(pid));
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    got = read(file, status, sizeof status - 1);
    close(file);
    status[got > 0 ? got : 0] = '\0';
    word = strrchr(status, ')'); /* the name before it may hold blanks and parentheses */
    if (!word || !word[1] || word[2] == 'Z' || word[2] == 'X')
        return 0;
    for (field = 2; word && field < 22; field++)
        word = strchr(word + 1, ' ');
    return word && atoll(word + 1) == atoll(since);
}

static void look_for_load(void)
{
    if (is_outdated(&happened))
        load_table(&happened);
    if (is_outdated(&load_of_tool))
        load_table(&load_of_tool);
    load_lives = load_of_tool.content && alive(raw(&load_of_tool, "load.pid"), raw(&load_of_tool, "load.since"));
    looked_usec = now_usec();
}

int load(void)
{
    const char *start;
    if (load_table(&node) < 0)
        return -1;
    start = raw(&node, "start");
    start_usec = start ? atoll(start) : now_usec();
    look_for_load();
    return 0;
}

void reload_if_changed(void)
{
    if (is_outdated(&node))
        load();
    else
        look_for_load();
}

/* A reading is one byte in a file that every process appends to: no lock is needed, and none can be left behind. */
void count_reading(void)
{
    char path[4096];
    struct stat status;
    int file;
    asked = 0;
    if (path_of(path, sizeof path, "readings") < 0)
        return;
    file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0)
        return;
    if (write(file, ".", 1) == 1 && fstat(file, &status) == 0)
        readings = status.st_size;
    close(file);
}

static const char *changed(const struct line *change, const char *value, char *buffer)
{
    const char *argument = strchr(change->rule, ':');
    long long seconds = (now_usec() - start_usec) / 1000000, steps;
    if (!strncmp(change->rule, "from_reading:", 13))
        return readings >= atoll(argument + 1) ? change->value : value;
    if (!strncmp(change->rule, "after_seconds:", 14))
        return seconds >= atoll(argument + 1) ? change->value : value;
    steps = !strcmp(change->rule, "per_reading") ? readings - 1 : seconds;
    snprintf(buffer, TEXT_BYTES, "%lld", (value ? atoll(value) : 0) + atoll(change->value) * (steps > 0 ? steps : 0));
    return buffer;
}

static const char *loaded(const struct line *change, const char *value, char *buffer)
{
    const char *started = raw(&load_of_tool, "load.started"), *speed = raw(&load_of_tool, "load.speed");
    double seconds = (double)(now_usec() - (started ? atoll(started) : 0)) / 1e6 * (speed ? atof(speed) : 1), part;
    long long begin, target, duration;
    if (seconds < 0)
        seconds = 0;
    if (sscanf(change->rule, "ramp:%lld:%lld", &begin, &duration) == 2) {
        target = atoll(change->value);
        part = duration > 0 && seconds < (double)duration ? seconds / (double)duration : 1;
        snprintf(buffer, TEXT_BYTES, "%lld", (long long)((double)begin + (double)(target - begin) * part * (2 - part) + 0.5));
    } else {
        snprintf(buffer, TEXT_BYTES, "%lld", (value ? atoll(value) : 0) + atoll(change->value) * (long long)seconds);
    }
    return buffer;
}

const char *lookup(const char *key, char *buffer)
{
    const char *value = raw(&node, key), *other;
    size_t i;
    /* Also for a process that keeps its handles and asks for nothing but a temperature. */
    if (now_usec() - looked_usec > LOOK_USEC)
        look_for_load();
    for (i = 0; i < node.change_count; i++)
        if (!strcmp(node.changes[i].key, key))
            value = changed(&node.changes[i], value, buffer);
    if ((other = raw(&happened, key)))
        value = other;
    if (!load_lives)
        return value;
    if ((other = raw(&load_of_tool, key)))
        value = other;
    for (i = 0; i < load_of_tool.change_count; i++)
        if (!strcmp(load_of_tool.changes[i].key, key))
            value = loaded(&load_of_tool.changes[i], value, buffer);
    return value;
}

int reading_was_used(void)
{
    return asked;
}

long long node_number(const char *key, long long otherwise)
{
    char buffer[TEXT_BYTES];
    const char *value = lookup(key, buffer);
    return value && *value ? atoll(value) : otherwise;
}

void hang(void)
{
    /* As a process in D state, as far as that goes without a driver. */
    if (node_number("nvml.ignore_term", 0)) {
        signal(SIGTERM, SIG_IGN);
        signal(SIGINT, SIG_IGN);
        signal(SIGHUP, SIG_IGN);
    }
    for (;;)
        pause();
}

int gpu_count(void)
{
    long long count = node_number("gpus", 0);
    return count < 0 ? 0 : count > MAX_GPUS ? MAX_GPUS : (int)count;
}

int known(gpu_t gpu)
{
    if (!users)
        return UNINITIALIZED;
    if (gpu < gpus || gpu >= gpus + gpu_count())
        return INVALID_ARGUMENT;
    return OK;
}

int answer(const char *value)
{
    if (!value || !strcmp(value, "N/A"))
        return NOT_SUPPORTED;
    if (*value == '!')
        return atoi(value + 1);
    return OK;
}

int static_value(gpu_t gpu, const char *name, char *buffer, const char **value)
{
    char key[TEXT_BYTES];
    int code = known(gpu);
    if (code)
        return code;
    asked = 1;
    snprintf(key, sizeof key, "gpu.%u.%s", gpu->index, name);
    *value = lookup(key, buffer);
    return answer(*value);
}

int value_of(gpu_t gpu, const char *name, char *buffer, const char **value)
{
    int code = static_value(gpu, "error", buffer, value);
    if (code == INVALID_ARGUMENT || code == UNINITIALIZED)
        return code;
    if (code == OK && atoi(*value))
        return atoi(*value);
    if (static_value(gpu, "hang", buffer, value) == OK && atoi(*value))
        hang();
    return static_value(gpu, name, buffer, value);
}

int get_number(gpu_t gpu, const char *name, long long *number)
{
    char buffer[TEXT_BYTES];
    const char *value;
    int code = value_of(gpu, name, buffer, &value);
    if (code == OK)
        *number = strtoll(value, NULL, 0);
    return code;
}

int get_uint(gpu_t gpu, const char *name, unsigned *out)
{
    long long number = 0;
    int code;
    if (!out)
        return INVALID_ARGUMENT;
    code = get_number(gpu, name, &number);
    if (code == OK)
        *out = (unsigned)number;
    return code;
}

int get_u64(gpu_t gpu, const char *name, uint64_t *out)
{
    long long number = 0;
    int code;
    if (!out)
        return INVALID_ARGUMENT;
    code = get_number(gpu, name, &number);
    if (code == OK)
        *out = (uint64_t)number;
    return code;
}

int copy_text(const char *value, char *out, unsigned length)
{
    if (!out)
        return INVALID_ARGUMENT;
    if (strlen(value) + 1 > length)
        return INSUFFICIENT_SIZE;
    strcpy(out, value);
    return OK;
}

int get_text(gpu_t gpu, const char *name, char *out, unsigned length)
{
    char buffer[TEXT_BYTES];
    const char *value;
    int code = value_of(gpu, name, buffer, &value);
    return code ? code : copy_text(value, out, length);
}

int get_pair(gpu_t gpu, const char *first, unsigned *one, const char *second, unsigned *two)
{
    int code = get_uint(gpu, first, one);
    return code ? code : get_uint(gpu, second, two);
}

int get_of_kind(gpu_t gpu, const char *const *names, unsigned count, unsigned kind, unsigned *out)
{
    return kind < count && names[kind] ? get_uint(gpu, names[kind], out) : INVALID_ARGUMENT;
}
