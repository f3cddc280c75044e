/* Memory of simulated cards, held by this process: its rows in the node's state file, one for each card that it uses.
 *
 * layout.py says what the records mean, how a writer keeps out of the others' way, and how a process holds its row: by a lock
 * that the kernel drops with it. The file is opened once and never closed: closing any descriptor of it would drop that lock,
 * and so does an nvmlShutdown in the same process.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cgroup.h"
#include "held.h"

StateFile *held_file;
static int descriptor = -1;
static bool ours[PROCESSES]; /* rows whose lock we have */
static struct chain cgroup;   /* of this process, when it opened the file */

/* ---- The file. ---- */

bool open_cards(const char *path, char *reason, size_t size)
{
    struct stat status;
    descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (descriptor < 0 || fstat(descriptor, &status) != 0) {
        int why = errno;
        snprintf(reason, size, "the simulated cards in %s cannot be used: %s", path, strerror(why));
        errno = why;
        return false;
    }
    bool fits = status.st_size == sizeof(StateFile);
    void *mapped = fits ? mmap(NULL, sizeof(StateFile), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0) : MAP_FAILED;
    if (mapped == MAP_FAILED || memcmp(((StateFile *)mapped)->header.magic, FAKENVML_MAGIC, 8) != 0 ||
        ((StateFile *)mapped)->header.version != VERSION) {
        snprintf(reason, size, "%s is no state file that this program knows (version %d)", path, VERSION);
        errno = EINVAL;
        return false;
    }
    held_file = mapped;
    cgroup = own_chain();
    return true;
}

static struct flock lock_of(unsigned row, short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)(sizeof(StateFile) + row), .l_len = 1};
}

/* Is a process behind the row? Our own lock is no conflict for us, so the kernel would not name it. */
static bool lives(unsigned row)
{
    const Process *process = &held_file->processes[row];
    if (process->kind == FREE || process->held == 0 || ours[row])
        return process->kind != FREE;
    struct flock lock = lock_of(row, F_WRLCK);
    return fcntl(descriptor, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

void begin_writing(void)
{
    while (flock(descriptor, LOCK_EX) != 0 && errno == EINTR)
        ;
    atomic_fetch_or((_Atomic uint64_t *)&held_file->header.sequence, 1);
    for (unsigned row = 0; row < held_file->header.process_rows && row < PROCESSES; row++)
        if (!lives(row))
            held_file->processes[row].kind = FREE;
}

void end_writing(void)
{
    atomic_fetch_add((_Atomic uint32_t *)&held_file->header.wake, 1);
    atomic_fetch_add((_Atomic uint64_t *)&held_file->header.sequence, 1);
    syscall(SYS_futex, &held_file->header.wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    flock(descriptor, LOCK_UN);
}

/* ---- Holding. ---- */

static uint64_t whole_of(unsigned slot)
{
    const Card *card = &held_file->cards[slot];
    return card->memory_total - card->memory_reserved;
}

static uint64_t limit_on(unsigned slot)
{
    const Limit *limit = limit_of(held_file, slot, &cgroup);
    return limit == NULL ? UNKNOWN64 : limit->hard;
}

static uint64_t less(uint64_t one, uint64_t other) { return one < other ? one : other; }

uint64_t room_on(unsigned slot) { return less(whole_of(slot), limit_on(slot)); }

uint64_t free_on(unsigned slot, bool limited)
{
    uint64_t used = held_file->cards[slot].memory_other, whole = whole_of(slot), charged = 0;
    for (unsigned row = 0; row < held_file->header.process_rows && row < PROCESSES; row++) {
        const Process *process = &held_file->processes[row];
        if (process->card != slot || process->memory == UNKNOWN64 || !lives(row))
            continue;
        used += process->memory;
        if (cgroup.length > 0 && process->cgroup == cgroup.inodes[0])
            charged += process->memory - process->managed;
    }
    uint64_t limit = limited ? limit_on(slot) : UNKNOWN64;
    return less(used < whole ? whole - used : 0, charged < limit ? limit - charged : 0);
}

/* A free row without a lock, locked by us from now on; -1 if the table is full. */
static int lock_row(void)
{
    for (unsigned row = 0; row < PROCESSES; row++) {
        if (row < held_file->header.process_rows && held_file->processes[row].kind != FREE)
            continue;
        struct flock lock = lock_of(row, F_WRLCK);
        if (fcntl(descriptor, F_SETLK, &lock) != 0)
            continue; /* of a process that is just about to end, or whose card was taken away */
        ours[row] = true;
        if (row >= held_file->header.process_rows)
            held_file->header.process_rows = row + 1;
        return (int)row;
    }
    return -1;
}

/* Our row on a card. A card that is pulled and a reboot clear the rows, and others may have come since. */
static Process *own_row(unsigned slot)
{
    for (unsigned place = 0; place < PROCESSES; place++) {
        Process *row = &held_file->processes[place];
        if (ours[place] && row->kind != FREE && row->held == 1 && row->card == slot && row->pid == (uint32_t)getpid())
            return row;
    }
    return NULL;
}

bool hold_memory(unsigned slot, uint64_t bytes, bool limited, const char *name)
{
    Process *row = own_row(slot);
    if (row == NULL) {
        int own = lock_row();
        if (own < 0)
            return false;
        row = &held_file->processes[own];
        memset(row, 0, sizeof *row);
        snprintf(row->name, sizeof row->name, "%s", name);
        row->gpu_instance = row->compute_instance = UNKNOWN32;
        row->pid = (uint32_t)getpid();
        row->card = slot;
        row->held = 1;
        row->cgroup = cgroup.length > 0 ? cgroup.inodes[0] : 0;
    }
    row->memory += bytes;
    row->managed += limited ? 0 : bytes;
    row->kind = COMPUTE;
    return true;
}

void let_go_of_memory(unsigned slot, uint64_t bytes, bool limited)
{
    Process *row = own_row(slot);
    if (row == NULL)
        return;
    row->memory -= less(bytes, row->memory);
    row->managed -= limited ? 0 : less(bytes, row->managed);
    if (row->memory == 0)
        row->kind = FREE;
}
