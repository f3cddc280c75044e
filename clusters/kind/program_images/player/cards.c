/* Memory of a simulated card, held by this process: its row in the node's state file.
 *
 * layout.py says what the records mean, how a writer keeps out of the others' way, and how a process holds its row: by a lock
 * that the kernel drops with it. state_file.h is generated from it. The file is opened once and never closed: closing any
 * descriptor of it would drop that lock.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "player.h"
#include "state_file.h"

#define MIB (1024ULL * 1024)

static StateFile *file;
static int descriptor = -1;
static int own = -1; /* our row */

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
    file = mapped;
    return true;
}

static struct flock lock_of(unsigned row, short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)(sizeof(StateFile) + row), .l_len = 1};
}

/* A row that somebody still stands behind. Our own lock is no conflict for us, so the kernel would not name it. */
static bool lives(unsigned row)
{
    const Process *process = &file->processes[row];
    if (process->kind == FREE || process->held == 0 || (int)row == own)
        return process->kind != FREE;
    struct flock lock = lock_of(row, F_WRLCK);
    return fcntl(descriptor, F_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

static void begin_writing(void)
{
    while (flock(descriptor, LOCK_EX) != 0 && errno == EINTR)
        ;
    atomic_fetch_or((_Atomic uint64_t *)&file->header.sequence, 1);
    for (unsigned row = 0; row < file->header.process_rows && row < PROCESSES; row++)
        if (!lives(row))
            file->processes[row].kind = FREE;
}

static void end_writing(void)
{
    atomic_fetch_add((_Atomic uint32_t *)&file->header.wake, 1);
    atomic_fetch_add((_Atomic uint64_t *)&file->header.sequence, 1);
    syscall(SYS_futex, &file->header.wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    flock(descriptor, LOCK_UN);
}

/* ---- Which card. ---- */

/* The slot of a card by NVML's index or by UUID; -1 for none. The index is the place among the slots that hold a card. */
static int slot_of(const char *name, size_t length)
{
    unsigned index = 0;
    char number[16];
    for (unsigned slot = 0; slot < file->header.card_count && slot < CARDS; slot++) {
        const Card *card = &file->cards[slot];
        if (card->uuid[0] == 0)
            continue;
        snprintf(number, sizeof number, "%u", index++);
        if ((strlen(card->uuid) == length && memcmp(card->uuid, name, length) == 0) ||
            (strlen(number) == length && memcmp(number, name, length) == 0))
            return (int)slot;
    }
    return -1;
}

/* The first card of NVIDIA_VISIBLE_DEVICES; none where any of its names is unknown, as NVIDIA's runtime refuses those. */
static int first_visible(const char *visible)
{
    if (visible == NULL || *visible == 0 || strcmp(visible, "none") == 0 || strcmp(visible, "void") == 0)
        return -1;
    if (strcmp(visible, "all") == 0)
        return slot_of("0", 1);
    int first = -1;
    for (const char *name = visible;; name++) {
        size_t length = strcspn(name, ",");
        int slot = slot_of(name, length);
        if (slot < 0)
            return -1;
        first = first < 0 ? slot : first;
        name += length;
        if (*name == 0)
            return first;
    }
}

/* ---- Holding. ---- */

static uint64_t used_on(unsigned slot)
{
    uint64_t used = file->cards[slot].memory_other;
    for (unsigned row = 0; row < file->header.process_rows && row < PROCESSES; row++) {
        const Process *process = &file->processes[row];
        if (process->kind != FREE && process->card == slot && process->memory != UNKNOWN64)
            used += process->memory;
    }
    return used;
}

/* A free row that nobody has locked, locked by us from now on; -1 where the table is full. */
static int lock_row(void)
{
    for (unsigned row = 0; row < PROCESSES; row++) {
        if (row < file->header.process_rows && file->processes[row].kind != FREE)
            continue;
        struct flock lock = lock_of(row, F_WRLCK);
        if (fcntl(descriptor, F_SETLK, &lock) != 0)
            continue; /* of a process that is just about to end, or whose card was taken away */
        if (row >= file->header.process_rows)
            file->header.process_rows = row + 1;
        return (int)row;
    }
    return -1;
}

/* Is our row still ours? Whoever pulls a card or reboots the node clears its rows, and others may have come since. */
static Process *own_row(void)
{
    Process *row = own < 0 ? NULL : &file->processes[own];
    return row != NULL && row->kind != FREE && row->held == 1 && row->pid == (uint32_t)getpid() ? row : NULL;
}

static bool write_row(int slot, uint64_t bytes, const char *name, char *reason, size_t size)
{
    Process *row = own_row();
    if (row == NULL) {
        own = lock_row();
        if (own < 0) {
            snprintf(reason, size, "no room for another process: %d are there", PROCESSES);
            return false;
        }
        row = &file->processes[own];
        memset(row, 0, sizeof *row);
        snprintf(row->name, sizeof row->name, "%s", name);
        row->gpu_instance = row->compute_instance = UNKNOWN32;
        row->pid = (uint32_t)getpid();
        row->card = (uint32_t)slot;
        row->held = 1;
    }
    row->memory += bytes;
    row->kind = COMPUTE;
    return true;
}

bool take_memory(const char *visible, unsigned long mib, const char *name, char *reason, size_t size)
{
    bool taken = false;
    begin_writing();
    int slot = first_visible(visible);
    if (slot < 0) {
        snprintf(reason, size, "no CUDA-capable device is detected");
    } else {
        const Card *card = &file->cards[slot];
        uint64_t room = card->memory_total - card->memory_reserved, used = used_on((unsigned)slot);
        uint64_t left = used < room ? (room - used) / MIB : 0;
        if (mib > left)
            snprintf(reason, size, "CUDA out of memory: card %s has %llu MiB free; this process asks for %lu MiB", card->uuid,
                     (unsigned long long)left, mib);
        else
            taken = write_row(slot, mib * MIB, name, reason, size);
    }
    end_writing();
    return taken;
}

void return_memory(void)
{
    if (file == NULL)
        return;
    begin_writing();
    Process *row = own_row();
    if (row != NULL)
        row->kind = FREE;
    end_writing();
    own = -1;
}
