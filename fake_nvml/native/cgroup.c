/* Which cgroup a process or a caller's path is of, and which limit of memory that has. layout.py, Limits, has the rules. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cgroup.h"

struct chain chain_of(const char *directory)
{
    struct chain chain = {.length = 0};
    struct stat status, first;
    int at = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (at >= 0 && chain.length < MOST_ABOVE && fstat(at, &status) == 0) {
        if (chain.length == 0)
            first = status;
        if (status.st_dev != first.st_dev || (chain.length > 0 && status.st_ino == chain.inodes[chain.length - 1]))
            break; /* another file system, or the top */
        chain.inodes[chain.length++] = status.st_ino;
        int above = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = above;
    }
    if (at >= 0)
        close(at);
    return chain;
}

struct chain own_chain(void)
{
    const char *named = getenv("FAKENVML_CGROUP");
    char line[PATH_MAX], directory[PATH_MAX + 16] = "";
    FILE *lines = named == NULL ? fopen("/proc/self/cgroup", "re") : NULL;
    while (lines != NULL && fgets(line, sizeof line, lines) != NULL)
        if (strncmp(line, "0::", 3) == 0)
            snprintf(directory, sizeof directory, "/sys/fs/cgroup%.*s", (int)strcspn(line + 3, "\n"), line + 3);
    if (lines != NULL)
        fclose(lines);
    return chain_of(named == NULL ? directory : named);
}

const Limit *limit_of(const StateFile *file, unsigned slot, const struct chain *chain)
{
    for (unsigned place = 0; place < chain->length; place++)
        for (unsigned row = 0; row < LIMITS; row++) {
            const Limit *limit = &file->limits[row];
            if (limit->used && limit->card == slot && limit->cgroup == chain->inodes[place])
                return limit;
        }
    return NULL;
}
