/* The calls about limits of memory, which drivers from R615 on have. */
#define _GNU_SOURCE
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroup.h"
#include "session.h"

struct set_limits { const char *directory; uint64_t soft, hard; };
struct get_limits { const char *directory; uint64_t soft, hard, used; };

/* Begins a call about a cgroup of a card; both structs begin with the path of its directory. */
static int ask_cgroup(struct question *q, const char *function, void *handle, const void *limits, struct chain *chain)
{
    int code = ask_card(q, function, handle, limits);
    if (code != SUCCESS)
        return code;
    if (header_of(q->session).limits == LIMITS_NONE || q->card.mig_mode)
        return NOT_SUPPORTED;
    const char *directory = *(const char *const *)limits;
    if (directory == NULL)
        return INVALID_ARGUMENT;
    *chain = chain_of(directory);
    return chain->length == 0 ? OPERATING_SYSTEM : SUCCESS;
}

/* What processes of a cgroup hold of the card, as limits count it. */
static uint64_t charged(const struct question *q, uint64_t cgroup)
{
    const StateFile *file = q->session->file;
    uint64_t bytes = 0;
    uint32_t pid;
    for (unsigned row = 0; row < file->header.process_rows && row < PROCESSES; row++) {
        const Process *process = &file->processes[row];
        bool counts = process->card == q->slot && process->cgroup == cgroup && process->memory != UNKNOWN64;
        if (counts && lives(q->session, row, &pid))
            bytes += process->memory - process->managed;
    }
    return bytes;
}

static bool is_gone(const Limit *limit)
{
    struct stat status;
    return limit->path[0] != 0 && (stat(limit->path, &status) != 0 || status.st_ino != limit->cgroup);
}

/* The row of a cgroup, else a free one; dead rows are dropped on the way. NULL if the table is full. */
static Limit *row_for(StateFile *file, unsigned slot, uint64_t cgroup)
{
    Limit *found = NULL;
    for (Limit *row = file->limits; row < file->limits + LIMITS; row++) {
        if (row->used && !file->header.dead_limits && is_gone(row))
            row->used = 0;
        if (row->used && row->card == slot && row->cgroup == cgroup)
            return row;
        if (!row->used && found == NULL)
            found = row;
    }
    return found;
}

static int write_limits(const struct question *q, const struct set_limits *limits, uint64_t cgroup)
{
    char path[PATH_MAX] = "";
    if (realpath(limits->directory, path) == NULL)
        return OPERATING_SYSTEM;
    int descriptor = begin_writing(q->session);
    if (descriptor < 0)
        return NO_PERMISSION;
    StateFile *file = q->session->file;
    Limit *row = row_for(file, q->slot, cgroup);
    /* The driver's own counting refuses less than is in use. */
    bool is_low = file->header.limits == LIMITS_MISC && limits->hard < charged(q, cgroup);
    if (row != NULL && !is_low) {
        *row = (Limit){0, q->slot, cgroup, limits->soft, limits->hard, "", ""};
        if (strlen(path) < sizeof row->path)
            memcpy(row->path, path, strlen(path));
        row->used = 1;
    }
    end_writing(q->session, descriptor);
    return is_low ? INVALID_ARGUMENT : row == NULL ? INSUFFICIENT_RESOURCES : SUCCESS;
}

/* FAKENVML_AS_ROOT lets a program that is not root play one that is. */
int nvmlDeviceSetMemoryLimits_v1(void *handle, struct set_limits *limits)
{
    QUESTION(q);
    struct chain chain;
    int code = ask_cgroup(&q, __func__, handle, limits, &chain);
    if (code != SUCCESS)
        return code == DOES_NOTHING ? SUCCESS : code;
    if (geteuid() != 0 && getenv("FAKENVML_AS_ROOT") == NULL)
        return NO_PERMISSION;
    uint64_t total = q.card.memory_total > 0 ? q.card.memory_total : UNKNOWN64;
    bool is_limit = limits->hard != UNKNOWN64;
    if (limits->soft > limits->hard || limits->soft > total || (is_limit && limits->hard > total))
        return INVALID_ARGUMENT;
    return write_limits(&q, limits, chain.inodes[0]);
}

int nvmlDeviceGetMemoryLimits_v1(void *handle, struct get_limits *limits)
{
    QUESTION(q);
    struct chain chain;
    int code = ask_cgroup(&q, __func__, handle, limits, &chain);
    if (code != SUCCESS)
        return code;
    Limit found = {0};
    uint64_t used = 0;
    struct reading r = {0};
    while (reading(q.session, &r)) {
        const Limit *row = limit_of(q.session->file, q.slot, &chain);
        found = row == NULL ? (Limit){0} : *row;
        used = charged(&q, chain.inodes[0]);
    }
    if (!found.used)
        return header_of(q.session).limits == LIMITS_MISC ? NOT_SUPPORTED : NOT_FOUND;
    limits->soft = found.soft;
    limits->hard = found.hard;
    limits->used = used;
    return SUCCESS;
}
