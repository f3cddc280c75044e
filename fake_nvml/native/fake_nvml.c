/* Simulated cards as a libnvidia-ml.so.1: NVML's calls, answered from the state file that the other programs of the node
 * share. What the records mean, how readers and writers keep out of each other's way, and what a fault does is said once,
 * in layout.py; state_file.h is generated from it. Everything that is not here answers NOT_SUPPORTED (stubs.c, generated).
 *
 * A call looks the same throughout: ask() or ask_card() takes a hold on the session, meets the faults and copies what the
 * answer needs; answer() lets go. Locks: `lock` guards the session, its users and the event sets, and is never held while
 * waiting. The file's own lock is for writing, and for reading where a writer died half way.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "state_file.h"

#ifndef DEFAULT_STATE /* tests build with folders of their own */
#define DEFAULT_STATE "/run/fakenvml/state"
#define REAL_DRIVER "/proc/driver/nvidia"
#endif

/* Who finds this symbol in a process has simulated cards before him. */
const char fakenvml_version[] = FAKENVML_MARKER;

/* ---- The session: from the first nvmlInit to the last nvmlShutdown, and as long as a call of that time runs. ---- */

struct session {
    StateFile *file;
    int descriptor;
    bool writable;
    unsigned holders;           /* calls in progress, and one for being the current session */
    unsigned count;             /* cards at init ... */
    unsigned slots[CARDS];      /* ... the slot of each, by NVML's index ... */
    Card known[CARDS];          /* ... and what was in each slot */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct session *current;
static unsigned users; /* nvmlInit without its nvmlShutdown */
static char handles[CARDS]; /* a card's handle is the address of its place here, the same in every session */

struct event_set {
    struct event_set *next_set;
    uint64_t handle, next_event, wanted[CARDS], since[CARDS];
};

static struct event_set *event_sets;
static uint64_t event_sets_made;

static void hold(struct session *session) { session->holders++; }

static void let_go(struct session *session)
{
    pthread_mutex_lock(&lock);
    bool last = --session->holders == 0;
    pthread_mutex_unlock(&lock);
    if (last) {
        munmap(session->file, sizeof(StateFile));
        close(session->descriptor);
        free(session);
    }
}

/* ---- Reading and writing the file. ---- */

struct reading {
    uint64_t sequence;
    int attempts, descriptor; /* the second: a lock on the file, from LOCK_AFTER attempts on; 0 for none */
};

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

/* Loop around copying: `struct reading r = {0}; while (reading(session, &r)) { copy }`. Ends when a copy is whole. */
static bool reading(const struct session *session, struct reading *r)
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

static int begin_writing(const struct session *session)
{
    int descriptor = session->writable ? lock_file(session, LOCK_EX) : -1;
    if (descriptor >= 0)
        atomic_fetch_or((_Atomic uint64_t *)&session->file->header.sequence, 1);
    return descriptor;
}

static void end_writing(const struct session *session, int descriptor)
{
    atomic_fetch_add((_Atomic uint64_t *)&session->file->header.sequence, 1);
    close(descriptor);
}

/* ---- Faults. ---- */

enum { NO_CARD = CARDS }; /* the slot of a call that is about no card */

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

/* Take one call off a counted fault; false where others were quicker and no fault is left. */
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

/* The code of the fault that a call meets, after its delay; SUCCESS for none. */
static int meet(const struct session *session, const char *function, unsigned slot)
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

struct question {
    struct session *session;
    unsigned slot;
    Card card;
    uint64_t used; /* bytes of the card in use, without the driver's own */
};

/* The session's card in a slot as it is now. GPU_IS_LOST where it does not answer, or another one is in its place. */
static int look(struct question *q, unsigned slot)
{
    const StateFile *file = q->session->file;
    uint32_t count = 0;
    struct reading r = {0};
    q->slot = slot;
    while (reading(q->session, &r)) {
        count = file->header.card_count;
        q->card = file->cards[slot];
        q->used = q->card.memory_other;
        for (unsigned row = 0; row < file->header.process_rows && row < PROCESSES; row++) {
            const Process *process = &file->processes[row];
            if (process->kind != FREE && process->card == slot && process->memory != UNKNOWN64)
                q->used += process->memory;
        }
    }
    bool same = slot < count && memcmp(q->card.uuid, q->session->known[slot].uuid, sizeof q->card.uuid) == 0;
    return same && q->card.state != LOST ? SUCCESS : GPU_IS_LOST;
}

static int enter(struct question *q)
{
    pthread_mutex_lock(&lock);
    q->session = current;
    if (current != NULL)
        hold(current);
    pthread_mutex_unlock(&lock);
    return q->session == NULL ? UNINITIALIZED : SUCCESS;
}

static int answer(struct question *q, int code)
{
    if (q->session != NULL)
        let_go(q->session);
    return code;
}

/* Begin a call that is about no card. */
static int ask(struct question *q, const char *function)
{
    int code = enter(q);
    return code == SUCCESS ? meet(q->session, function, NO_CARD) : code;
}

static bool listed(const struct session *session, unsigned slot)
{
    return slot < CARDS && session->known[slot].uuid[0] != 0;
}

/* Begin a call with a card's handle; NULL and strangers are invalid, and `out` must lead somewhere. */
static int ask_card(struct question *q, const char *function, const void *handle, const void *out)
{
    int code = enter(q);
    if (code != SUCCESS)
        return code;
    uintptr_t slot = (uintptr_t)handle - (uintptr_t)handles;
    if (slot >= CARDS || !listed(q->session, (unsigned)slot))
        return INVALID_ARGUMENT;
    if ((code = meet(q->session, function, (unsigned)slot)) != SUCCESS)
        return code;
    code = look(q, (unsigned)slot);
    return code == SUCCESS && out == NULL ? INVALID_ARGUMENT : code;
}

/* End a call that looks a card up; `slot` is NO_CARD where there is none, which is `missing`. */
static int found_card(struct question *q, const char *function, unsigned slot, int missing, void **handle)
{
    int code = meet(q->session, function, slot);
    if (code == SUCCESS)
        code = slot == NO_CARD ? missing : look(q, slot);
    if (code == SUCCESS)
        *handle = &handles[slot];
    return answer(q, code);
}

static int write_text(char *buffer, unsigned size, const char *text, size_t room)
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

/* Where the state is: the variable, the node's place, else beside this library. */
static const char *state_path(char *room, size_t size)
{
    const char *named = getenv("FAKENVML_STATE");
    if (named != NULL && *named != 0)
        return named;
    if (access(REAL_DRIVER, F_OK) == 0) {
        fprintf(stderr, "fake nvml: this machine has a real NVIDIA driver (" REAL_DRIVER "); "
                        "to have simulated cards all the same, set FAKENVML_STATE to the path of their state file\n");
        return NULL;
    }
    Dl_info self;
    if (access(DEFAULT_STATE, F_OK) == 0 || dladdr(fakenvml_version, &self) == 0)
        return DEFAULT_STATE;
    const char *slash = strrchr(self.dli_fname, '/');
    snprintf(room, size, "%.*sfakenvml.state", slash == NULL ? 0 : (int)(slash - self.dli_fname) + 1, self.dli_fname);
    return room;
}

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

static struct session *open_session(int *code)
{
    char room[PATH_MAX];
    const char *path = state_path(room, sizeof room);
    struct session *session = path == NULL ? NULL : calloc(1, sizeof *session);
    *code = session == NULL ? DRIVER_NOT_LOADED : map_file(session, path);
    if (*code == SUCCESS) {
        hold(session);
        return session;
    }
    if (session != NULL) {
        if (session->file != NULL && session->file != MAP_FAILED)
            munmap(session->file, sizeof(StateFile));
        if (session->descriptor >= 0)
            close(session->descriptor);
        free(session);
    }
    return NULL;
}

static int take_down_cards(struct session *session)
{
    const StateFile *file = session->file;
    int code = SUCCESS;
    struct reading r = {0};
    while (reading(session, &r)) {
        code = (int)file->header.init_return;
        session->count = 0;
        memset(session->known, 0, sizeof session->known);
        for (unsigned slot = 0; slot < file->header.card_count && slot < CARDS; slot++)
            if (file->cards[slot].uuid[0] != 0) {
                session->known[slot] = file->cards[slot];
                session->slots[session->count++] = slot;
            }
    }
    return code;
}

static int init(const char *function)
{
    struct question q = {0};
    int code = enter(&q);
    if (code == UNINITIALIZED && (q.session = open_session(&code)) == NULL)
        return code;
    if ((code = meet(q.session, function, NO_CARD)) != SUCCESS)
        return answer(&q, code);
    pthread_mutex_lock(&lock);
    if (current == NULL && (code = take_down_cards(q.session)) == SUCCESS)
        hold(current = q.session);
    users += code == SUCCESS;
    pthread_mutex_unlock(&lock);
    return answer(&q, code);
}

int nvmlInit(void) { return init(__func__); }
int nvmlInit_v2(void) { return init(__func__); }
int nvmlInitWithFlags(unsigned flags) { return (void)flags, init(__func__); }

int nvmlShutdown(void)
{
    struct question q;
    int code = ask(&q, __func__);
    if (code != SUCCESS)
        return answer(&q, code);
    pthread_mutex_lock(&lock);
    if (users == 0) {
        code = UNINITIALIZED; /* another thread was quicker */
    } else if (--users == 0) {
        current->holders--; /* never the last: this call holds it */
        current = NULL;
        for (struct event_set *set = event_sets, *next; set != NULL; set = next) {
            next = set->next_set;
            free(set);
        }
        event_sets = NULL;
    }
    pthread_mutex_unlock(&lock);
    return answer(&q, code);
}

const char *nvmlErrorString(int code)
{
    for (size_t row = 0; row < sizeof fakenvml_texts / sizeof *fakenvml_texts; row++)
        if (fakenvml_texts[row].code == code)
            return fakenvml_texts[row].text;
    return FAKENVML_UNKNOWN_TEXT;
}

/* What the generated functions answer. */
int fakenvml_not_supported(const char *function)
{
    struct question q;
    int code = ask(&q, function);
    return answer(&q, code == SUCCESS ? NOT_SUPPORTED : code);
}

/* ---- The system. ---- */

static Header header_of(const struct session *session)
{
    Header header;
    struct reading r = {0};
    while (reading(session, &r))
        header = session->file->header;
    return header;
}

static int version(const char *function, char *buffer, unsigned size, bool with_cuda)
{
    struct question q;
    char text[96];
    int code = ask(&q, function);
    if (code == SUCCESS) {
        Header header = header_of(q.session);
        int before = with_cuda ? snprintf(text, sizeof text, "%u.", header.cuda / 1000) : 0;
        snprintf(text + before, sizeof text - (size_t)before, "%.63s", header.driver);
        code = write_text(buffer, size, text, sizeof text);
    }
    return answer(&q, code);
}

int nvmlSystemGetDriverVersion(char *buffer, unsigned size) { return version(__func__, buffer, size, false); }
int nvmlSystemGetNVMLVersion(char *buffer, unsigned size) { return version(__func__, buffer, size, true); }

static int cuda_version(const char *function, int *out)
{
    struct question q;
    int code = ask(&q, function);
    if (code == SUCCESS && out == NULL)
        code = INVALID_ARGUMENT;
    if (code == SUCCESS)
        *out = (int)header_of(q.session).cuda;
    return answer(&q, code);
}

int nvmlSystemGetCudaDriverVersion(int *out) { return cuda_version(__func__, out); }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { return cuda_version(__func__, out); }

int nvmlSystemGetProcessName(unsigned pid, char *buffer, unsigned size)
{
    struct question q;
    Process found = {0};
    int code = ask(&q, __func__);
    struct reading r = {0};
    while (code == SUCCESS && reading(q.session, &r)) {
        const StateFile *file = q.session->file;
        found.kind = FREE;
        for (unsigned row = 0; row < file->header.process_rows && row < PROCESSES && found.kind == FREE; row++)
            if (file->processes[row].kind != FREE && file->processes[row].pid == pid)
                found = file->processes[row];
    }
    if (code == SUCCESS && found.kind == FREE)
        code = NOT_FOUND;
    if (code == SUCCESS && buffer == NULL)
        code = INVALID_ARGUMENT;
    if (code == SUCCESS && size > 0) /* a long name is cut */
        snprintf(buffer, size, "%.*s", (int)sizeof found.name, found.name);
    return answer(&q, code);
}

/* ---- Finding cards. ---- */

static int device_count(const char *function, unsigned *out)
{
    struct question q;
    int code = ask(&q, function);
    if (code == SUCCESS && out == NULL)
        code = INVALID_ARGUMENT;
    if (code == SUCCESS)
        *out = q.session->count;
    return answer(&q, code);
}

int nvmlDeviceGetCount(unsigned *out) { return device_count(__func__, out); }
int nvmlDeviceGetCount_v2(unsigned *out) { return device_count(__func__, out); }

static int by_index(const char *function, unsigned index, void **handle)
{
    struct question q;
    int code = enter(&q);
    if (code != SUCCESS || handle == NULL)
        return answer(&q, code == SUCCESS ? INVALID_ARGUMENT : code);
    return found_card(&q, function, index < q.session->count ? q.session->slots[index] : NO_CARD, INVALID_ARGUMENT, handle);
}

int nvmlDeviceGetHandleByIndex(unsigned index, void **handle) { return by_index(__func__, index, handle); }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) { return by_index(__func__, index, handle); }

/* A card's name of some kind, written into `text`. */
typedef void (*name_of)(const Card *card, char *text, size_t size);

static void uuid_of(const Card *card, char *text, size_t size) { snprintf(text, size, "%.95s", card->uuid); }
static void serial_of(const Card *card, char *text, size_t size) { snprintf(text, size, "%.31s", card->serial); }

static void bus_id(const Card *card, char *text, size_t size)
{
    snprintf(text, size, "%08X:%02X:%02X.0", card->pci_domain, card->pci_bus, card->pci_device);
}

static int by_name(const char *function, const char *wanted, name_of name, void **handle)
{
    struct question q;
    unsigned slot = NO_CARD;
    int code = enter(&q);
    if (code != SUCCESS || wanted == NULL || handle == NULL)
        return answer(&q, code == SUCCESS ? INVALID_ARGUMENT : code);
    for (unsigned index = q.session->count; index-- > 0;) {
        char text[128];
        name(&q.session->known[q.session->slots[index]], text, sizeof text);
        if (*text != 0 && (name == bus_id ? strcasecmp : strcmp)(text, wanted) == 0)
            slot = q.session->slots[index];
    }
    return found_card(&q, function, slot, NOT_FOUND, handle);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) { return by_name(__func__, uuid, uuid_of, handle); }
int nvmlDeviceGetHandleBySerial(const char *serial, void **handle) { return by_name(__func__, serial, serial_of, handle); }

/* A domain may be written with fewer than eight digits. */
static int by_bus_id(const char *function, const char *wanted, void **handle)
{
    char text[64] = "";
    const char *colon = wanted == NULL ? NULL : strchr(wanted, ':');
    int missing = colon == NULL || colon - wanted > 8 ? 0 : 8 - (int)(colon - wanted);
    snprintf(text, sizeof text, "%.*s%.48s", missing, "00000000", wanted == NULL ? "" : wanted);
    return by_name(function, wanted == NULL ? NULL : text, bus_id, handle);
}

int nvmlDeviceGetHandleByPciBusId(const char *bus, void **handle) { return by_bus_id(__func__, bus, handle); }
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **handle) { return by_bus_id(__func__, bus, handle); }

/* ---- One card: numbers and texts. `card` is its record, `q` the question. ---- */

#define NUMBER(type, name, supported, value)                       \
    int name(void *handle, type *out)                              \
    {                                                              \
        struct question q;                                         \
        int code = ask_card(&q, __func__, handle, out);            \
        const Card *card = &q.card;                                \
        (void)card;                                                \
        if (code == SUCCESS && !(supported))                       \
            code = NOT_SUPPORTED;                                  \
        if (code == SUCCESS)                                       \
            *out = (type)(value);                                  \
        return answer(&q, code);                                   \
    }

#define PAIR(type, name, supported, one, other)                    \
    int name(void *handle, type *first, type *second)              \
    {                                                              \
        struct question q;                                         \
        int code = ask_card(&q, __func__, handle, first);          \
        const Card *card = &q.card;                                \
        if (code == SUCCESS && second == NULL)                     \
            code = INVALID_ARGUMENT;                               \
        if (code == SUCCESS && !(supported))                       \
            code = NOT_SUPPORTED;                                  \
        if (code == SUCCESS) {                                     \
            *first = (type)(one);                                  \
            *second = (type)(other);                               \
        }                                                          \
        return answer(&q, code);                                   \
    }

#define TEXT(name, field)                                                          \
    int name(void *handle, char *buffer, unsigned size)                            \
    {                                                                              \
        struct question q;                                                         \
        int code = ask_card(&q, __func__, handle, buffer);                         \
        if (code == SUCCESS)                                                       \
            code = q.card.field[0] == 0                                            \
                       ? NOT_SUPPORTED                                             \
                       : write_text(buffer, size, q.card.field, sizeof q.card.field); \
        return answer(&q, code);                                                   \
    }

static unsigned index_of(const struct question *q)
{
    unsigned index = 0;
    while (q->session->slots[index] != q->slot)
        index++;
    return index;
}

static uint32_t architecture(const Card *card)
{
    for (size_t row = 0; row < sizeof fakenvml_architectures / sizeof *fakenvml_architectures; row++)
        if (card->compute_major * 100 + card->compute_minor >= fakenvml_architectures[row].capability)
            return fakenvml_architectures[row].number;
    return UNKNOWN32;
}

static uint64_t supported_events(const Card *card)
{
    return card->ecc_supported ? EVENT_SINGLE_BIT | EVENT_DOUBLE_BIT | EVENT_XID : EVENT_XID;
}

TEXT(nvmlDeviceGetName, name)
TEXT(nvmlDeviceGetUUID, uuid)
TEXT(nvmlDeviceGetSerial, serial)
NUMBER(unsigned, nvmlDeviceGetIndex, true, index_of(&q))
NUMBER(unsigned, nvmlDeviceGetMinorNumber, true, card->minor)
NUMBER(unsigned, nvmlDeviceGetBrand, true, card->brand)
NUMBER(unsigned, nvmlDeviceGetArchitecture, true, architecture(card))
NUMBER(unsigned, nvmlDeviceGetPowerUsage, true, card->power)
NUMBER(unsigned, nvmlDeviceGetPowerManagementLimit, true, card->power_limit)
NUMBER(unsigned, nvmlDeviceGetEnforcedPowerLimit, true, card->power_limit)
NUMBER(unsigned, nvmlDeviceGetComputeMode, true, 0)
NUMBER(unsigned, nvmlDeviceGetPersistenceMode, true, 0)
NUMBER(unsigned, nvmlDeviceGetDisplayActive, true, 0)
NUMBER(unsigned, nvmlDeviceGetMaxMigDeviceCount, true, card->mig_slices)
NUMBER(unsigned, nvmlDeviceIsMigDeviceHandle, true, 0)
NUMBER(unsigned long long, nvmlDeviceGetSupportedEventTypes, true, supported_events(card))
PAIR(int, nvmlDeviceGetCudaComputeCapability, true, card->compute_major, card->compute_minor)
PAIR(unsigned, nvmlDeviceGetEccMode, card->ecc_supported, card->ecc_mode, card->ecc_mode)
PAIR(unsigned, nvmlDeviceGetMigMode, card->mig_slices, card->mig_mode, card->mig_pending)

int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **out)
{
    struct question q;
    int code = ask_card(&q, __func__, handle, out);
    return (void)index, answer(&q, code == SUCCESS ? NOT_FOUND : code); /* MIG mode is simulated, its slices are not */
}

int nvmlDeviceGetTemperature(void *handle, unsigned sensor, unsigned *out)
{
    struct question q;
    int code = ask_card(&q, __func__, handle, out);
    if (code == SUCCESS && sensor != 0)
        code = INVALID_ARGUMENT;
    if (code == SUCCESS)
        *out = q.card.temperature;
    return answer(&q, code);
}

struct temperature_v1 { uint32_t version, sensor; int32_t temperature; };

int nvmlDeviceGetTemperatureV(void *handle, struct temperature_v1 *out)
{
    struct question q;
    int code = ask_card(&q, __func__, handle, out);
    if (code == SUCCESS && out->version != TEMPERATURE_V1)
        code = ARGUMENT_VERSION_MISMATCH;
    if (code == SUCCESS && out->sensor != 0)
        code = INVALID_ARGUMENT;
    if (code == SUCCESS)
        out->temperature = (int32_t)q.card.temperature;
    return answer(&q, code);
}

int nvmlDeviceGetTotalEccErrors(void *handle, unsigned kind, unsigned counter, unsigned long long *out)
{
    struct question q;
    int code = ask_card(&q, __func__, handle, out);
    if (code == SUCCESS && !q.card.ecc_supported)
        code = NOT_SUPPORTED;
    if (code == SUCCESS)
        *out = kind == 0 ? q.card.ecc_corrected : q.card.ecc_uncorrected;
    return (void)counter, answer(&q, code);
}

int nvmlDeviceGetNvLinkState(void *handle, unsigned link, unsigned *out)
{
    struct question q;
    int code = ask_card(&q, __func__, handle, out);
    if (code == SUCCESS && link >= q.card.nvlinks)
        code = q.card.nvlinks == 0 ? NOT_SUPPORTED : INVALID_ARGUMENT;
    if (code == SUCCESS)
        *out = 1;
    return answer(&q, code);
}

/* A bit set of NUMA nodes, in unsigned longs. */
int nvmlDeviceGetMemoryAffinity(void *handle, unsigned words, unsigned long *nodes, unsigned scope)
{
    struct question q;
    int code = ask_card(&q, __func__, handle, nodes);
    if (code == SUCCESS && q.card.numa < 0)
        code = NOT_SUPPORTED;
    if (code == SUCCESS && (unsigned)q.card.numa / (8 * sizeof *nodes) >= words)
        code = INSUFFICIENT_SIZE;
    if (code == SUCCESS) {
        memset(nodes, 0, words * sizeof *nodes);
        nodes[(unsigned)q.card.numa / (8 * sizeof *nodes)] = 1UL << (unsigned)q.card.numa % (8 * sizeof *nodes);
    }
    return (void)scope, answer(&q, code);
}

/* ---- One card: memory, load, PCI, fields. ---- */

struct memory { uint64_t total, free, used; };
struct memory_v2 { uint32_t version; uint64_t total, reserved, free, used; };
struct rates { uint32_t gpu, memory; };
struct pci_v2 { char bus_id[16]; uint32_t domain, bus, device, device_id, subsystem_id, reserved[4]; };
struct pci_v3 { char bus_id_legacy[16]; uint32_t domain, bus, device, device_id, subsystem_id; char bus_id[32]; };
struct field { uint32_t id, scope; int64_t timestamp, latency; uint32_t type; int32_t code; union { uint32_t u; uint64_t room; } value; };

/* Version 1 has no place for reserved memory and counts it as used. */
int nvmlDeviceGetMemoryInfo(void *handle, struct memory *out)
{
    struct question q;
    int code = ask_card(&q, __func__, handle, out);
    if (code == SUCCESS) {
        uint64_t used = q.used + q.card.memory_reserved;
        *out = (struct memory){q.card.memory_total, q.card.memory_total - used, used};
    }
    return answer(&q, code);
}

int nvmlDeviceGetMemoryInfo_v2(void *handle, struct memory_v2 *out)
{
    struct question q;
    int code = ask_card(&q, __func__, handle, out);
    if (code == SUCCESS && out->version != MEMORY_V2)
        code = ARGUMENT_VERSION_MISMATCH;
    if (code == SUCCESS) {
        uint64_t total = q.card.memory_total, reserved = q.card.memory_reserved;
        *out = (struct memory_v2){MEMORY_V2, total, reserved, total - reserved - q.used, q.used};
    }
    return answer(&q, code);
}

int nvmlDeviceGetUtilizationRates(void *handle, struct rates *out)
{
    struct question q;
    int code = ask_card(&q, __func__, handle, out);
    if (code == SUCCESS)
        *out = (struct rates){q.card.utilization, q.card.memory_utilization};
    return answer(&q, code);
}

static int pci_info(const char *function, void *handle, struct pci_v2 *v2, struct pci_v3 *v3)
{
    struct question q;
    char full[64];
    int code = ask_card(&q, function, handle, v3 == NULL ? (void *)v2 : v3);
    const Card *card = &q.card;
    if (code == SUCCESS && v3 != NULL) {
        *v3 = (struct pci_v3){.domain = card->pci_domain, .bus = card->pci_bus, .device = card->pci_device};
        v3->device_id = card->pci_device_id, v3->subsystem_id = card->pci_subsystem_id;
        bus_id(card, full, sizeof full);
        snprintf(v3->bus_id_legacy, sizeof v3->bus_id_legacy, "%.15s", full + 4);
        snprintf(v3->bus_id, sizeof v3->bus_id, "%.31s", full);
    } else if (code == SUCCESS) {
        *v2 = (struct pci_v2){.domain = card->pci_domain, .bus = card->pci_bus, .device = card->pci_device};
        v2->device_id = card->pci_device_id, v2->subsystem_id = card->pci_subsystem_id;
        bus_id(card, full, sizeof full);
        snprintf(v2->bus_id, sizeof v2->bus_id, "%.15s", full + 4);
    }
    return answer(&q, code);
}

int nvmlDeviceGetPciInfo(void *handle, struct pci_v2 *out) { return pci_info(__func__, handle, out, NULL); }
int nvmlDeviceGetPciInfo_v2(void *handle, struct pci_v2 *out) { return pci_info(__func__, handle, out, NULL); }
int nvmlDeviceGetPciInfo_v3(void *handle, struct pci_v3 *out) { return pci_info(__func__, handle, NULL, out); }

/* Each value carries its own code; only the recovery action is known, and not to old drivers. */
int nvmlDeviceGetFieldValues(void *handle, int count, struct field *values)
{
    struct question q;
    int code = ask_card(&q, __func__, handle, values);
    bool known = code == SUCCESS && atoi(header_of(q.session).driver) >= RECOVERY_ACTION_SINCE;
    for (int place = 0; code == SUCCESS && place < count; place++) {
        struct field *value = &values[place];
        value->code = NOT_SUPPORTED;
        if (value->id == FIELD_RECOVERY_ACTION && known) {
            value->code = SUCCESS;
            value->type = VALUE_UNSIGNED_INT;
            value->value.u = q.card.recovery_action;
        }
    }
    return answer(&q, code);
}

/* ---- One card: its processes. ---- */

struct process_v1 { uint32_t pid; uint64_t memory; };
struct process_v2 { uint32_t pid; uint64_t memory; uint32_t gpu_instance, compute_instance; };

/* Copies up to `room` processes of a kind into `rows` and answers how many there are. */
static unsigned copy_processes(const struct question *q, uint32_t kind, unsigned room, Process *rows)
{
    const StateFile *file = q->session->file;
    unsigned count = 0;
    struct reading r = {0};
    while (reading(q->session, &r)) {
        count = 0;
        for (unsigned row = 0; row < file->header.process_rows && row < PROCESSES; row++)
            if (file->processes[row].kind == kind && file->processes[row].card == q->slot && count++ < room)
                rows[count - 1] = file->processes[row];
    }
    return count;
}

/* Too small an array, or NULL, gets the needed count and INSUFFICIENT_SIZE. */
static int running(const char *function, void *handle, uint32_t kind, unsigned *count, struct process_v1 *v1, struct process_v2 *v2)
{
    struct question q;
    int code = ask_card(&q, function, handle, count);
    if (code != SUCCESS)
        return answer(&q, code);
    Process *rows = malloc(PROCESSES * sizeof *rows);
    if (rows == NULL)
        return answer(&q, MEMORY);
    unsigned there = copy_processes(&q, kind, PROCESSES, rows), room = v1 == NULL && v2 == NULL ? 0 : *count;
    code = there > room ? INSUFFICIENT_SIZE : SUCCESS;
    for (unsigned row = 0; code == SUCCESS && row < there; row++)
        if (v2 != NULL)
            v2[row] = (struct process_v2){rows[row].pid, rows[row].memory, rows[row].gpu_instance, rows[row].compute_instance};
        else
            v1[row] = (struct process_v1){rows[row].pid, rows[row].memory};
    *count = there;
    free(rows);
    return answer(&q, code);
}

#define RUNNING(name, kind)                                                                                         \
    int name(void *h, unsigned *count, struct process_v1 *rows) { return running(__func__, h, kind, count, rows, NULL); }      \
    int name##_v2(void *h, unsigned *count, struct process_v2 *rows) { return running(__func__, h, kind, count, NULL, rows); } \
    int name##_v3(void *h, unsigned *count, struct process_v2 *rows) { return running(__func__, h, kind, count, NULL, rows); }

RUNNING(nvmlDeviceGetComputeRunningProcesses, COMPUTE)
RUNNING(nvmlDeviceGetGraphicsRunningProcesses, GRAPHICS)
RUNNING(nvmlDeviceGetMPSComputeRunningProcesses, MPS)

/* ---- Events: each set has its own place in the ring, so every listener sees every event. ---- */

struct event_v1 { void *device; uint64_t type, data; };
struct event_v2 { void *device; uint64_t type, data; uint32_t gpu_instance, compute_instance; };

/* Without writer's help a wait looks again after so long; in milliseconds. */
enum { SLICE_MS = 50, SET_STRIDE = 0x100 };

static struct event_set *find_set(const void *handle)
{
    struct event_set *set = event_sets;
    while (set != NULL && set->handle != (uintptr_t)handle)
        set = set->next_set;
    return set;
}

int nvmlEventSetCreate(void **out)
{
    struct question q;
    int code = ask(&q, __func__);
    struct event_set *set = code == SUCCESS && out != NULL ? calloc(1, sizeof *set) : NULL;
    if (code == SUCCESS && out == NULL)
        code = INVALID_ARGUMENT;
    else if (code == SUCCESS && set == NULL)
        code = MEMORY;
    if (code == SUCCESS) {
        pthread_mutex_lock(&lock);
        set->handle = 0x7FB000000000 + SET_STRIDE * event_sets_made++; /* an address that no later set gets again */
        set->next_set = event_sets;
        event_sets = set;
        *out = (void *)(uintptr_t)set->handle;
        pthread_mutex_unlock(&lock);
    }
    return answer(&q, code);
}

int nvmlEventSetFree(void *handle)
{
    struct question q;
    int code = ask(&q, __func__);
    if (code != SUCCESS)
        return answer(&q, code);
    pthread_mutex_lock(&lock);
    struct event_set *set = find_set(handle), **place = &event_sets;
    while (set != NULL && *place != set)
        place = &(*place)->next_set;
    if (set != NULL)
        *place = set->next_set;
    pthread_mutex_unlock(&lock);
    free(set);
    return answer(&q, set == NULL ? INVALID_ARGUMENT : SUCCESS);
}

int nvmlDeviceRegisterEvents(void *handle, unsigned long long types, void *set_handle)
{
    struct question q;
    int code = ask_card(&q, __func__, handle, set_handle);
    if (code == SUCCESS && (types & ~supported_events(&q.card)) != 0)
        code = NOT_SUPPORTED;
    if (code != SUCCESS)
        return answer(&q, code);
    uint64_t now = header_of(q.session).next_event;
    pthread_mutex_lock(&lock);
    struct event_set *set = find_set(set_handle);
    bool first = set != NULL;
    for (unsigned slot = 0; first && slot < CARDS; slot++)
        first = set->wanted[slot] == 0;
    if (first)
        set->next_event = now;
    if (set != NULL && set->wanted[q.slot] == 0)
        set->since[q.slot] = now;
    if (set != NULL)
        set->wanted[q.slot] |= types;
    pthread_mutex_unlock(&lock);
    return answer(&q, set == NULL ? INVALID_ARGUMENT : SUCCESS);
}

/* Whether an event is one of the set's: of a wanted type, since the registration, and not of the slot's next card. */
static bool is_for(const struct event_set *set, const struct session *session, const Event *event)
{
    if (event->card >= CARDS || (set->wanted[event->card] & event->type) == 0 || event->number < set->since[event->card])
        return false;
    const Card *card = &session->file->cards[event->card], *known = &session->known[event->card];
    return card->uuid[0] == 0 || memcmp(card->uuid, known->uuid, sizeof card->uuid) == 0 || event->number < card->first_event;
}

/* The set's next event, under `lock`. */
static bool take(struct event_set *set, const struct session *session, Event *event)
{
    bool found = false;
    uint64_t next = set->next_event;
    struct reading r = {0};
    while (reading(session, &r)) {
        uint64_t end = session->file->header.next_event;
        next = set->next_event + EVENTS < end ? end - EVENTS : set->next_event; /* the oldest are overwritten */
        for (found = false; next < end && !found; next++) {
            *event = session->file->events[next % EVENTS];
            found = is_for(set, session, event);
        }
    }
    set->next_event = next;
    return found;
}

static int poll_set(struct question *q, const void *handle, Event *event)
{
    uint64_t wanted[CARDS];
    pthread_mutex_lock(&lock);
    struct event_set *set = find_set(handle);
    int code = q->session != current ? UNINITIALIZED : set == NULL ? INVALID_ARGUMENT : TIMEOUT;
    if (code == TIMEOUT) {
        if (take(set, q->session, event))
            code = SUCCESS;
        memcpy(wanted, set->wanted, sizeof wanted);
    }
    pthread_mutex_unlock(&lock);
    for (unsigned slot = 0; code == TIMEOUT && slot < CARDS; slot++) /* what happened before a loss comes first */
        if (wanted[slot] != 0 && look(q, slot) != SUCCESS)
            code = GPU_IS_LOST;
    return code;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int wait_for(const char *function, const void *handle, unsigned timeout_ms, const void *out, Event *event)
{
    struct question q;
    int code = ask(&q, function);
    if (code == SUCCESS && out == NULL)
        code = INVALID_ARGUMENT;
    if (code != SUCCESS)
        return answer(&q, code);
    uint32_t *wake = &q.session->file->header.wake;
    int64_t end = now_ns() + timeout_ms * 1000000LL;
    for (;;) {
        uint32_t before = atomic_load((_Atomic uint32_t *)wake);
        code = poll_set(&q, handle, event);
        int64_t left = end - now_ns();
        if (code != TIMEOUT || left <= 0)
            return answer(&q, code);
        int64_t slice = left < SLICE_MS * 1000000LL ? left : SLICE_MS * 1000000LL;
        struct timespec most = {slice / 1000000000, slice % 1000000000};
        syscall(SYS_futex, wake, FUTEX_WAIT, before, &most, NULL, 0);
    }
}

int nvmlEventSetWait(void *set, struct event_v1 *out, unsigned timeout_ms)
{
    Event event;
    int code = wait_for(__func__, set, timeout_ms, out, &event);
    if (code == SUCCESS)
        *out = (struct event_v1){&handles[event.card], event.type, event.data};
    return code;
}

int nvmlEventSetWait_v2(void *set, struct event_v2 *out, unsigned timeout_ms)
{
    Event event;
    int code = wait_for(__func__, set, timeout_ms, out, &event);
    if (code == SUCCESS)
        *out = (struct event_v2){&handles[event.card], event.type, event.data, event.gpu_instance, event.compute_instance};
    return code;
}
