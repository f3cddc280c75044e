/* Cgroups and the limits of memory that the state file has for them. See cgroup.c. */
#pragma once
#include "state_file.h"

enum { MOST_ABOVE = 64 };

/* The inodes of a directory and of those above it in its file system, the nearest first. */
struct chain {
    uint64_t inodes[MOST_ABOVE];
    unsigned length; /* 0: it is no directory that can be opened */
};

struct chain chain_of(const char *directory);
/* That of this process's own cgroup: FAKENVML_CGROUP names its directory, else version 2 is mounted below /sys/fs/cgroup. */
struct chain own_chain(void);
/* The row that holds for a cgroup on a card; NULL for none. */
const Limit *limit_of(const StateFile *file, unsigned slot, const struct chain *chain);
