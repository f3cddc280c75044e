/* Simulated cards as a libnvidia-ml.so.1: NVML's calls, answered from the state file that all programs of the node share.
 * What the records mean, how readers and writers keep out of each other's way, and what a fault does is written in
 * layout.py; state_file.h is generated from it. Functions that are in no file here answer NOT_SUPPORTED (stubs.c, generated).
 *
 * A call looks the same throughout: ask() or ask_card() takes a hold on the session, meets the faults and copies what the
 * answer needs. This file has that, init and shutdown; cards.c the calls about cards, events.c those about events.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "place.h"
#include "session.h"

/* A program that finds this symbol runs on simulated cards. */
const char fakenvml_version[] = FAKENVML_MARKER;

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
struct session *fake_current;
char fake_handles[CARDS];
static unsigned users; /* nvmlInit without its nvmlShutdown */

/* ---- Reading and writing the file. ---- */

enum { LOCK_AFTER = 200 };

/* flock binds to an open file; one for each use keeps threads and forked children apart. */
static int lock_file(const struct session *session, int kind)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", session->descriptor);
    int descriptor = open(path, (kind == LOCK_EX ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    while (descriptor >= 0 && flock(descriptor, kind) != 0)
        if (errno != EINTR) {
            close(descriptor);
            return -1;
        }
    return descriptor;
}

bool reading(const struct session *session, struct reading *r)
{
    _Atomic uint64_t *sequence = (_Atomic uint64_t *)&session->file->header.sequence;
    atomic_thread_fence(memory_order_acquire);
    if (r->descriptor != 0) { /* that copy was made under the lock */
        if (r->descriptor > 0)
            close(r->descriptor);
        return false;
    }
    if (r->attempts > 0 && r->sequence % 2 == 0 && atomic_load(sequence) == r->sequence)
        return false;
    while (++r->attempts <= LOCK_AFTER) {
        r->sequence = atomic_load(sequence);
        if (r->sequence % 2 == 0)
            return true;
        sched_yield();
    }
    r->descriptor = lock_file(session, LOCK_SH);
    return true;
}

Header header_of(const struct session *session)
{
    Header header;
    struct reading r = {0};
    while (reading(session, &r))
        header = session->file->header;
    return header;
}

int begin_writing(const struct session *session)
{
    int descriptor = session->writable ? lock_file(session, LOCK_EX) : -1;
    if (descriptor >= 0)
        atomic_fetch_or((_Atomic uint64_t *)&session->file->header.sequence, 1);
    return descriptor;
}

void end_writing(const struct session *session, int descriptor)
{
    atomic_fetch_add((_Atomic uint64_t *)&session->file->header.sequence, 1);
    close(descriptor);
}

/* ---- Faults. ---- */

static bool names(const char *pattern, size_t length, const char *function)
{
    if (length > 0 && pattern[length - 1] == '*')
        return strncmp(pattern, function, length - 1) == 0;
    if (strncmp(pattern, function, length) != 0)
        return false;
    const char *rest = function + length;
    return *rest == 0 || (strncmp(rest, "_v", 2) == 0 && rest[2] != 0 && rest[2 + strspn(rest + 2, "0123456789")] == 0);
}

static int find_fault(const struct session *session, const char *function, unsigned slot, Fault *found)
{
    const Fault *rows = session->file->faults;
    for (int row = 0; row < FAULTS; row++) {
        if (rows[row].used != 1 || rows[row].count == 0 || (rows[row].card != UNKNOWN32 && rows[row].card != slot))
            continue;
        *found = rows[row];
        if (names(found->function, strnlen(found->function, sizeof found->function), function))
            return row;
    }
    return -1;
}

/* Take one call off a counted fault; false if others were quicker and no fault is left. */
static bool wear(const struct session *session, const char *function, unsigned slot, Fault *found)
{
    int descriptor = begin_writing(session);
    if (descriptor < 0)
        return true; /* read only: it never wears off */
    int row = find_fault(session, function, slot, found);
    Fault *fault = row < 0 ? NULL : &session->file->faults[row];
    if (fault != NULL && fault->count != FOR_EVER && --fault->count == 0)
        fault->used = 0;
    end_writing(session, descriptor);
    return fault != NULL;
}

int meet(const struct session *session, const char *function, unsigned slot)
{
    Fault fault;
    int row = -1;
    struct reading r = {0};
    while (reading(session, &r))
        row = find_fault(session, function, slot, &fault);
    if (row < 0 || (fault.count != FOR_EVER && !wear(session, function, slot, &fault)))
        return SUCCESS;
    struct timespec left = {(time_t)(fault.delay / 1000000), (long)(fault.delay % 1000000) * 1000};
    while (fault.delay > 0 && nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
    return (int)fault.code;
}

/* ---- A call: what it asks for, and which card it is about. ---- */

bool lives(const struct session *session, unsigned row, uint32_t *pid)
{
    const Process *process = &session->file->processes[row];
    *pid = process->pid;
    if (process->kind == FREE || process->held == 0)
        return process->kind != FREE;
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)(sizeof(StateFile) + row), .l_len = 1};
    if (fcntl(session->descriptor, F_GETLK, &lock) != 0)
        return true; /* a file system without locks: then it is as it is written */
    *pid = (uint32_t)lock.l_pid;
    return lock.l_type != F_UNLCK;
}

int look(struct question *q, unsigned slot)
{
    const StateFile *file = q->session->file;
    uint32_t count = 0, pid;
    struct reading r = {0};
    q->slot = slot;
    while (reading(q->session, &r)) {
        count = file->header.card_count;
        q->card = file->cards[slot];
        q->used = q->card.memory_other;
        for (unsigned row = 0; row < file->header.process_rows && row < PROCESSES; row++) {
            const Process *process = &file->processes[row];
            if (process->card == slot && process->memory != UNKNOWN64 && lives(q->session, row, &pid))
                q->used += process->memory;
        }
    }
    bool same = slot < count && memcmp(q->card.uuid, q->session->known[slot].uuid, sizeof q->card.uuid) == 0;
    return same && q->card.state != LOST ? SUCCESS : GPU_IS_LOST;
}

static int compare_keys(const void *wanted, const void *key) { return strcmp(wanted, *(const char *const *)key); }

int refusal(const uint16_t *refused, const char *key)
{
    const size_t size = sizeof *fakenvml_keys;
    const char *const *found = bsearch(key, fakenvml_keys, sizeof fakenvml_keys / size, size, compare_keys);
    return found == NULL ? SUCCESS : refused[found - fakenvml_keys];
}

int enter(struct question *q)
{
    pthread_mutex_lock(&fake_lock);
    if ((q->session = fake_current) != NULL)
        q->session->holders++;
    pthread_mutex_unlock(&fake_lock);
    return q->session == NULL ? UNINITIALIZED : SUCCESS;
}

static void close_session(struct session *session)
{
    if (session->file != NULL && session->file != MAP_FAILED)
        munmap(session->file, sizeof(StateFile));
    if (session->descriptor >= 0)
        close(session->descriptor);
    free(session);
}

void answered(struct question *q)
{
    if (q->session == NULL)
        return;
    pthread_mutex_lock(&fake_lock);
    bool last = --q->session->holders == 0;
    pthread_mutex_unlock(&fake_lock);
    if (last)
        close_session(q->session);
}

int ask(struct question *q, const char *function)
{
    int code = enter(q);
    if (code == SUCCESS)
        code = meet(q->session, function, NO_CARD);
    return code == SUCCESS ? refusal(q->session->file->header.refused, function) : code;
}

int ask_card(struct question *q, const char *function, const void *handle, const void *out)
{
    int code = enter(q);
    if (code != SUCCESS)
        return code;
    uintptr_t slot = (uintptr_t)handle - (uintptr_t)fake_handles;
    if (slot >= CARDS || q->session->known[slot].uuid[0] == 0)
        return INVALID_ARGUMENT;
    if ((code = meet(q->session, function, (unsigned)slot)) != SUCCESS)
        return code;
    code = look(q, (unsigned)slot);
    if (code == SUCCESS)
        code = refusal(q->card.refused, function);
    return code == SUCCESS && out == NULL ? INVALID_ARGUMENT : code;
}

int write_text(char *buffer, unsigned size, const char *text, size_t room)
{
    size_t length = strnlen(text, room);
    if (buffer == NULL)
        return INVALID_ARGUMENT;
    if (length + 1 > size)
        return INSUFFICIENT_SIZE;
    memcpy(buffer, text, length);
    buffer[length] = 0;
    return SUCCESS;
}

/* ---- Init and shutdown. ---- */

static int map_file(struct session *session, const char *path)
{
    session->writable = true;
    session->descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (session->descriptor < 0 && (errno == EACCES || errno == EPERM || errno == EROFS)) {
        session->writable = false;
        session->descriptor = open(path, O_RDONLY | O_CLOEXEC);
    }
    if (session->descriptor < 0)
        return errno == ENOENT || errno == ENOTDIR ? DRIVER_NOT_LOADED : LIB_RM_VERSION_MISMATCH;
    struct stat status;
    if (fstat(session->descriptor, &status) != 0 || status.st_size != sizeof(StateFile))
        return LIB_RM_VERSION_MISMATCH;
    int access = PROT_READ | (session->writable ? PROT_WRITE : 0);
    session->file = mmap(NULL, sizeof(StateFile), access, MAP_SHARED, session->descriptor, 0);
    if (session->file == MAP_FAILED)
        return LIB_RM_VERSION_MISMATCH;
    const Header *header = &session->file->header;
    bool ours = memcmp(header->magic, FAKENVML_MAGIC, sizeof header->magic) == 0;
    return ours && header->version == VERSION && header->size == sizeof(StateFile) ? SUCCESS : LIB_RM_VERSION_MISMATCH;
}

static int open_session(struct session **opened)
{
    char room[PATH_MAX];
    const char *path = state_path(room, sizeof room);
    struct session *session = path == NULL ? NULL : calloc(1, sizeof *session);
    if (session == NULL)
        return DRIVER_NOT_LOADED;
    int code = map_file(session, path);
    if (code == SUCCESS) {
        session->holders = 1;
        *opened = session;
    } else {
        close_session(session);
    }
    return code;
}

/* Libraries from 535 on answer it before nvmlInit too. */
int nvmlSystemGetNVMLVersion(char *buffer, unsigned size)
{
    QUESTION(q);
    int code = ask(&q, __func__);
    bool is_open = q.session != NULL;
    if (code != SUCCESS && (is_open || fakenvml_era < VERSION_BEFORE_INIT_SINCE))
        return code;
    if (!is_open)
        open_session(&q.session);
    char text[96];
    Header header = q.session == NULL ? (Header){.cuda = fakenvml_cuda} : header_of(q.session);
    snprintf(text, sizeof text, "%u.%.63s", header.cuda / 1000, q.session == NULL ? fakenvml_release : header.driver);
    return write_text(buffer, size, text, sizeof text);
}

static int take_down_cards(struct session *session)
{
    const StateFile *file = session->file;
    const char *visible = getenv("FAKENVML_VISIBLE"); /* what a container is given; other programs see all */
    int code = SUCCESS;
    struct reading r = {0};
    while (reading(session, &r)) {
        code = (int)file->header.init_return;
        session->count = 0;
        memset(session->known, 0, sizeof session->known);
        unsigned slots[CARDS], seen = visible_slots(file, visible == NULL ? "all" : visible, slots);
        for (unsigned place = 0; place < seen; place++)
            session->known[slots[place]] = file->cards[slots[place]];
        for (unsigned slot = 0; slot < CARDS; slot++)
            if (session->known[slot].uuid[0] != 0)
                session->slots[session->count++] = slot;
    }
    return code;
}

static int init(const char *function)
{
    QUESTION(q);
    int code = enter(&q);
    if (code == UNINITIALIZED)
        code = open_session(&q.session);
    if (code == SUCCESS)
        code = meet(q.session, function, NO_CARD);
    if (code != SUCCESS)
        return code;
    pthread_mutex_lock(&fake_lock);
    if (fake_current == NULL && (code = take_down_cards(q.session)) == SUCCESS) {
        fake_current = q.session;
        fake_current->holders++;
    }
    users += code == SUCCESS;
    pthread_mutex_unlock(&fake_lock);
    return code;
}

int nvmlInit(void) { return init(__func__); }
int nvmlInit_v2(void) { return init(__func__); }
int nvmlInitWithFlags(unsigned flags) { return (void)flags, init(__func__); }

/* Without an nvmlInit before it is a success, as in all real libraries. */
int nvmlShutdown(void)
{
    QUESTION(q);
    int code = ask(&q, __func__);
    if (code != SUCCESS)
        return code == UNINITIALIZED && q.session == NULL ? SUCCESS : code;
    pthread_mutex_lock(&fake_lock);
    if (users > 0 && --users == 0) { /* else another thread was quicker */
        fake_current->holders--; /* never the last: this call holds it, or a later one does */
        fake_current = NULL;
        forget_event_sets();
    }
    pthread_mutex_unlock(&fake_lock);
    return SUCCESS;
}

const char *nvmlErrorString(int code)
{
    for (size_t row = 0; row < sizeof fakenvml_texts / sizeof *fakenvml_texts; row++)
        if (fakenvml_texts[row].code == code && fakenvml_era >= fakenvml_texts[row].since)
            return fakenvml_texts[row].text;
    return FAKENVML_UNKNOWN_TEXT;
}

/* The answer of the generated functions. */
int fakenvml_not_supported(const char *function)
{
    ASK_AS(q, function);
    return NOT_SUPPORTED;
}
