/* As much of CUDA as a program needs to take memory of a simulated card, write to it and read it: a libcuda.so.1.
 *
 * An allocation counts on the card as memory of this process (held.c), and every program on the state file sees it. Its bytes are
 * not kept: an allocation has the one byte that it was last filled with. Nothing is computed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "held.h"
#include "place.h"

#define EXPORT __attribute__((visibility("default")))

enum {
    CU_OK = 0, CU_INVALID_VALUE = 1, CU_OUT_OF_MEMORY = 2, CU_NOT_INITIALIZED = 3, CU_NO_DEVICE = 100, CU_INVALID_DEVICE = 101,
    CU_INVALID_CONTEXT = 201, CU_ILLEGAL_ADDRESS = 700, CU_UNKNOWN = 999,
};

static const struct { int code; const char *name, *text; } errors[] = {
    {CU_OK, "CUDA_SUCCESS", "no error"},
    {CU_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CU_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CU_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CU_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CU_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CU_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CU_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

struct allocation {
    uint64_t address, size;
    unsigned slot;
    unsigned char byte;
    bool limited; /* managed memory is not */
    struct allocation *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned devices[CARDS], count; /* slots, by CUDA's ordinal */
static bool initialized;
static int current = -1; /* the slot of the one context */
static struct allocation *allocations;
static uint64_t contexts[CARDS]; /* bytes that the context itself has of each card */
static uint64_t next_address = 0x7f0000000000;

/* ---- Which devices. ---- */

/* A card by its place in what the container sees, or by so much of its UUID as no other card has; -1 for none.
   A number is read as strtol does it: "1st" is 1. */
static int device_of(const unsigned *seen, unsigned most, const char *name, size_t length)
{
    int found = -1;
    char *end;
    long place = strtol(name, &end, 10);
    if (end != name)
        return place >= 0 && place < (long)most ? (int)seen[place] : -1;
    for (unsigned at = 0; at < most; at++)
        if (length > 4 && strncmp(held_file->cards[seen[at]].uuid, name, length) == 0) {
            if (found >= 0)
                return -1;
            found = (int)seen[at];
        }
    return found;
}

/* The cards that the container sees and that answer, in NVML's order. */
static unsigned seen_cards(unsigned seen[CARDS])
{
    unsigned slots[CARDS], most = 0;
    bool is_seen[CARDS] = {false};
    const char *visible = getenv("FAKENVML_VISIBLE");
    if (visible == NULL)
        visible = getenv("NVIDIA_VISIBLE_DEVICES");
    unsigned named = visible_slots(held_file, visible == NULL ? "all" : visible, slots);
    for (unsigned place = 0; place < named; place++)
        is_seen[slots[place]] = held_file->cards[slots[place]].state != LOST;
    for (unsigned slot = 0; slot < CARDS; slot++)
        if (is_seen[slot])
            seen[most++] = slot;
    return most;
}

/* CUDA_VISIBLE_DEVICES chooses and orders; what follows an unknown name in it is ignored, and a card that it has twice hides all. */
static void find_devices(void)
{
    unsigned seen[CARDS], most = seen_cards(seen);
    const char *chosen = getenv("CUDA_VISIBLE_DEVICES");
    count = 0;
    for (unsigned place = 0; chosen == NULL && place < most; place++)
        devices[count++] = seen[place];
    while (chosen != NULL && *chosen != 0 && count < CARDS) {
        size_t length = strcspn(chosen, ",");
        int slot = device_of(seen, most, chosen, length);
        if (slot < 0)
            return;
        for (unsigned place = 0; place < count; place++)
            if (devices[place] == (unsigned)slot) {
                count = 0;
                return;
            }
        devices[count++] = (unsigned)slot;
        chosen += length + (chosen[length] == ',');
    }
}

static int initialize(void)
{
    char room[PATH_MAX], reason[256];
    const char *path = state_path(room, sizeof room);
    if (path == NULL || (held_file == NULL && !open_cards(path, reason, sizeof reason)))
        return CU_NO_DEVICE;
    begin_writing();
    const Header *header = &held_file->header;
    int code = header->missing_files & UVM_FILE ? CU_UNKNOWN : CU_OK;
    if (header->init_return != SUCCESS)
        code = header->init_return == DRIVER_NOT_LOADED ? CU_NO_DEVICE : CU_UNKNOWN;
    if (code == CU_OK)
        find_devices();
    end_writing();
    return code == CU_OK && count == 0 ? CU_NO_DEVICE : code;
}

EXPORT int cuInit(unsigned flags)
{
    if (flags != 0)
        return CU_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    int code = initialized ? CU_OK : initialize();
    initialized = code == CU_OK;
    pthread_mutex_unlock(&lock);
    return code;
}

static int check_device(const void *out, int device)
{
    if (!initialized)
        return CU_NOT_INITIALIZED;
    if (out == NULL)
        return CU_INVALID_VALUE;
    return device < 0 || device >= (int)count ? CU_INVALID_DEVICE : CU_OK;
}

EXPORT int cuDriverGetVersion(int *version)
{
    if (version == NULL)
        return CU_INVALID_VALUE;
    *version = held_file == NULL ? 0 : (int)held_file->header.cuda;
    return CU_OK;
}

EXPORT int cuDeviceGetCount(int *number)
{
    int code = check_device(number, 0);
    if (code == CU_OK)
        *number = (int)count;
    return code;
}

EXPORT int cuDeviceGet(int *device, int ordinal)
{
    int code = check_device(device, ordinal);
    if (code == CU_OK)
        *device = ordinal;
    return code;
}

EXPORT int cuDeviceGetName(char *name, int size, int device)
{
    int code = check_device(name, device);
    if (code == CU_OK && size > 0)
        snprintf(name, (size_t)size, "%s", held_file->cards[devices[device]].name);
    return code;
}

EXPORT int cuDeviceGetUuid(unsigned char *uuid, int device)
{
    int code = check_device(uuid, device);
    if (code != CU_OK)
        return code;
    unsigned digits = 0, value;
    memset(uuid, 0, 16);
    for (const char *at = held_file->cards[devices[device]].uuid + 4; digits < 32 && *at != 0; at++)
        if (sscanf((char[]){*at, 0}, "%x", &value) == 1) {
            uuid[digits / 2] |= (unsigned char)(digits % 2 == 0 ? value << 4 : value);
            digits++;
        }
    return CU_OK;
}

EXPORT int cuDeviceGetUuid_v2(unsigned char *uuid, int device) { return cuDeviceGetUuid(uuid, device); }

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    int code = check_device(bytes, device);
    if (code == CU_OK)
        *bytes = room_on(devices[device]);
    return code;
}

/* ---- The context, one at a time. ---- */

/* Holds that much more, if it is free. */
static bool take(unsigned slot, uint64_t size, bool limited)
{
    begin_writing();
    bool held = size == 0 || (size <= free_on(slot, limited) && hold_memory(slot, size, limited, program_invocation_short_name));
    end_writing();
    return held;
}

static void give_back(unsigned slot, uint64_t size, bool limited)
{
    begin_writing();
    let_go_of_memory(slot, size, limited);
    end_writing();
}

EXPORT int cuCtxCreate_v2(void **context, unsigned flags, int device)
{
    (void)flags;
    int code = check_device(context, device);
    if (code != CU_OK)
        return code;
    unsigned slot = devices[device];
    pthread_mutex_lock(&lock);
    uint64_t own = contexts[slot] > 0 ? 0 : held_file->header.context;
    if (take(slot, own, true)) {
        contexts[slot] += own;
        current = (int)slot;
        *context = &devices[device];
    } else {
        code = CU_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

static int release(struct allocation **place)
{
    struct allocation *gone = *place;
    *place = gone->next;
    give_back(gone->slot, gone->size, gone->limited);
    free(gone);
    return CU_OK;
}

EXPORT int cuCtxDestroy_v2(void *context)
{
    if (current < 0 || context == NULL)
        return CU_INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    while (allocations != NULL)
        release(&allocations);
    give_back((unsigned)current, contexts[current], true);
    contexts[current] = 0;
    current = -1;
    pthread_mutex_unlock(&lock);
    return CU_OK;
}

/* ---- Memory. ---- */

EXPORT int cuMemGetInfo_v2(size_t *left, size_t *total)
{
    if (left == NULL || total == NULL)
        return CU_INVALID_VALUE;
    if (current < 0)
        return CU_INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    begin_writing();
    *left = free_on((unsigned)current, true);
    *total = room_on((unsigned)current);
    end_writing();
    pthread_mutex_unlock(&lock);
    return CU_OK;
}

static int allocate(uint64_t *address, size_t size, bool limited)
{
    if (address == NULL || size == 0)
        return CU_INVALID_VALUE;
    if (current < 0)
        return CU_INVALID_CONTEXT;
    struct allocation *taken = malloc(sizeof *taken);
    if (taken == NULL)
        return CU_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    unsigned slot = (unsigned)current;
    bool held = take(slot, size, limited);
    if (held) {
        *taken = (struct allocation){next_address, size, slot, 0, limited, allocations};
        *address = next_address;
        allocations = taken;
        next_address += size;
    } else {
        free(taken);
    }
    pthread_mutex_unlock(&lock);
    return held ? CU_OK : CU_OUT_OF_MEMORY;
}

EXPORT int cuMemAlloc_v2(uint64_t *address, size_t size) { return allocate(address, size, true); }

/* No limit counts it: it is taken to be on the card, and stays there. */
EXPORT int cuMemAllocManaged(uint64_t *address, size_t size, unsigned flags)
{
    return (void)flags, allocate(address, size, false);
}

EXPORT int cuMemFree_v2(uint64_t address)
{
    pthread_mutex_lock(&lock);
    struct allocation **place = &allocations;
    while (*place != NULL && (*place)->address != address)
        place = &(*place)->next;
    int code = *place == NULL ? CU_INVALID_VALUE : release(place);
    pthread_mutex_unlock(&lock);
    return code;
}

static struct allocation *around(uint64_t address, size_t size)
{
    for (struct allocation *one = allocations; one != NULL; one = one->next)
        if (address >= one->address && size <= one->size && address - one->address <= one->size - size)
            return one;
    return NULL;
}

EXPORT int cuMemsetD8_v2(uint64_t address, unsigned char byte, size_t size)
{
    pthread_mutex_lock(&lock);
    struct allocation *found = around(address, size);
    if (found != NULL)
        found->byte = byte;
    pthread_mutex_unlock(&lock);
    return found == NULL ? CU_ILLEGAL_ADDRESS : CU_OK;
}

EXPORT int cuMemcpyDtoH_v2(void *to, uint64_t address, size_t size)
{
    if (to == NULL)
        return CU_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct allocation *found = around(address, size);
    if (found != NULL)
        memset(to, found->byte, size);
    pthread_mutex_unlock(&lock);
    return found == NULL ? CU_ILLEGAL_ADDRESS : CU_OK;
}

/* ---- Texts. ---- */

static int answer_text(int code, const char **out, bool name)
{
    if (out == NULL)
        return CU_INVALID_VALUE;
    *out = NULL;
    for (size_t row = 0; row < sizeof errors / sizeof *errors; row++)
        if (errors[row].code == code)
            *out = name ? errors[row].name : errors[row].text;
    return *out == NULL ? CU_INVALID_VALUE : CU_OK;
}

EXPORT int cuGetErrorName(int code, const char **name) { return answer_text(code, name, true); }
EXPORT int cuGetErrorString(int code, const char **text) { return answer_text(code, text, false); }
