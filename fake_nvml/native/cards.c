/* The calls about the system and its cards. Structs are NVML's, by their versions. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "session.h"

/* ---- The system. ---- */

int nvmlSystemGetDriverVersion(char *buffer, unsigned size)
{
    ASK(q);
    Header header = header_of(q.session);
    return write_text(buffer, size, header.driver, sizeof header.driver);
}

static int cuda_version(const char *function, int *out)
{
    ASK_AS(q, function);
    if (out == NULL)
        return INVALID_ARGUMENT;
    *out = (int)header_of(q.session).cuda;
    return SUCCESS;
}

int nvmlSystemGetCudaDriverVersion(int *out) { return cuda_version(__func__, out); }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { return cuda_version(__func__, out); }

int nvmlSystemGetProcessName(unsigned pid, char *buffer, unsigned size)
{
    ASK(q);
    const StateFile *file = q.session->file;
    Process found = {.kind = FREE};
    uint32_t known;
    struct reading r = {0};
    while (reading(q.session, &r)) {
        found.kind = FREE;
        for (unsigned row = 0; row < file->header.process_rows && row < PROCESSES && found.kind == FREE; row++)
            if (lives(q.session, row, &known) && known == pid)
                found = file->processes[row];
    }
    if (found.kind == FREE)
        return NOT_FOUND;
    if (buffer == NULL)
        return INVALID_ARGUMENT;
    if (size > 0) /* a long name is cut */
        snprintf(buffer, size, "%.*s", (int)sizeof found.name, found.name);
    return SUCCESS;
}

/* ---- Finding cards. ---- */

static int device_count(const char *function, unsigned *out)
{
    ASK_AS(q, function);
    if (out == NULL)
        return INVALID_ARGUMENT;
    *out = q.session->count;
    return SUCCESS;
}

int nvmlDeviceGetCount(unsigned *out) { return device_count(__func__, out); }
int nvmlDeviceGetCount_v2(unsigned *out) { return device_count(__func__, out); }

/* Ends a call that looks a card up; `slot` is NO_CARD if there is none, which is `missing`. */
static int found_card(struct question *q, const char *function, unsigned slot, int missing, void **handle)
{
    int code = meet(q->session, function, slot);
    if (code == SUCCESS)
        code = slot == NO_CARD ? missing : look(q, slot);
    if (code == SUCCESS)
        code = refusal(q->card.refused, function);
    if (code == SUCCESS)
        *handle = &fake_handles[slot];
    return code;
}

static int by_index(const char *function, unsigned index, void **handle)
{
    QUESTION(q);
    int code = enter(&q);
    if (code != SUCCESS || handle == NULL)
        return code == SUCCESS ? INVALID_ARGUMENT : code;
    return found_card(&q, function, index < q.session->count ? q.session->slots[index] : NO_CARD, INVALID_ARGUMENT, handle);
}

int nvmlDeviceGetHandleByIndex(unsigned index, void **handle) { return by_index(__func__, index, handle); }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) { return by_index(__func__, index, handle); }

/* Writes a card's name of some kind. */
typedef void name_of(const Card *card, char *text, size_t size);

static void uuid_of(const Card *card, char *text, size_t size) { snprintf(text, size, "%.95s", card->uuid); }
static void serial_of(const Card *card, char *text, size_t size) { snprintf(text, size, "%.31s", card->serial); }
static void bus_id(const Card *card, char *text, size_t size)
{
    snprintf(text, size, "%08X:%02X:%02X.0", card->pci_domain, card->pci_bus, card->pci_device);
}

static int by_name(const char *function, const char *wanted, name_of *name, void **handle)
{
    QUESTION(q);
    unsigned slot = NO_CARD;
    int code = enter(&q);
    if (code != SUCCESS || wanted == NULL || handle == NULL)
        return code == SUCCESS ? INVALID_ARGUMENT : code;
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

/* ---- One card: what answers.c, which is generated, does not answer. ---- */

static unsigned index_of(const struct question *q)
{
    unsigned index = 0;
    while (q->session->slots[index] != q->slot)
        index++;
    return index;
}

int nvmlDeviceGetIndex(void *handle, unsigned *out)
{
    ASK_CARD(q, handle, out);
    *out = index_of(&q);
    return SUCCESS;
}

int nvmlDeviceIsMigDeviceHandle(void *handle, unsigned *out)
{
    ASK_CARD(q, handle, out);
    *out = 0;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **out)
{
    ASK_CARD(q, handle, out);
    return (void)index, NOT_FOUND; /* MIG mode is simulated, its slices are not */
}

struct temperature_v1 { uint32_t version, sensor; int32_t temperature; };

int nvmlDeviceGetTemperatureV(void *handle, struct temperature_v1 *out)
{
    ASK_CARD(q, handle, out);
    if (out->version != TEMPERATURE_V1)
        return ARGUMENT_VERSION_MISMATCH;
    if (out->sensor != 0)
        return INVALID_ARGUMENT;
    out->temperature = (int32_t)q.card.temperature;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkState(void *handle, unsigned link, unsigned *out)
{
    ASK_CARD(q, handle, out);
    if (link >= q.card.nvlinks)
        return INVALID_ARGUMENT;
    *out = 1;
    return SUCCESS;
}

/* A bit set of NUMA nodes, in unsigned longs. */
int nvmlDeviceGetMemoryAffinity(void *handle, unsigned words, unsigned long *nodes, unsigned scope)
{
    ASK_CARD(q, handle, nodes);
    unsigned bits = 8 * sizeof *nodes, numa = (unsigned)q.card.numa;
    if (numa / bits >= words)
        return INSUFFICIENT_SIZE;
    memset(nodes, 0, words * sizeof *nodes);
    nodes[numa / bits] = 1UL << numa % bits;
    return (void)scope, SUCCESS;
}

/* ---- One card: memory, load, PCI, fields. ---- */

struct memory { uint64_t total, free, used; };
struct memory_v2 { uint32_t version; uint64_t total, reserved, free, used; };
struct rates { uint32_t gpu, memory; };

/* Version 1 has no place for reserved memory and counts it as used. */
int nvmlDeviceGetMemoryInfo(void *handle, struct memory *out)
{
    ASK_CARD(q, handle, out);
    uint64_t used = q.used + q.card.memory_reserved;
    *out = (struct memory){q.card.memory_total, q.card.memory_total - used, used};
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo_v2(void *handle, struct memory_v2 *out)
{
    ASK_CARD(q, handle, out);
    if (out->version != MEMORY_V2)
        return FUNCTION_NOT_FOUND; /* 580.159.04 answers so */
    uint64_t total = q.card.memory_total, reserved = q.card.memory_reserved;
    *out = (struct memory_v2){MEMORY_V2, total, reserved, total - reserved - q.used, q.used};
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *handle, struct rates *out)
{
    ASK_CARD(q, handle, out);
    *out = (struct rates){q.card.utilization, q.card.memory_utilization};
    return SUCCESS;
}

struct pci { char bus_id[16]; uint32_t domain, bus, device, device_id, subsystem_id; };
struct pci_v2 { struct pci pci; uint32_t reserved[4]; };
struct pci_v3 { struct pci pci; char bus_id[32]; };

static int pci_info(const char *function, void *handle, struct pci *out, char *full, size_t size)
{
    ASK_CARD_AS(q, function, handle, out);
    const Card *card = &q.card;
    char text[32];
    bus_id(card, text, sizeof text);
    *out = (struct pci){"", card->pci_domain, card->pci_bus, card->pci_device, card->pci_device_id, card->pci_subsystem_id};
    snprintf(out->bus_id, sizeof out->bus_id, "%.15s", text + 4); /* with a domain of four digits */
    snprintf(full, size, "%s", text);
    return SUCCESS;
}

int nvmlDeviceGetPciInfo(void *handle, struct pci_v2 *out)
{
    int code = pci_info(__func__, handle, (struct pci *)out, NULL, 0);
    if (code == SUCCESS)
        out->pci.subsystem_id = 0; /* drivers leave it out of this version (580.159.04 on an H100 does) */
    return code;
}
int nvmlDeviceGetPciInfo_v2(void *handle, struct pci_v2 *out) { return pci_info(__func__, handle, (struct pci *)out, NULL, 0); }
int nvmlDeviceGetPciInfo_v3(void *handle, struct pci_v3 *out)
{
    return pci_info(__func__, handle, (struct pci *)out, out == NULL ? NULL : out->bus_id, sizeof out->bus_id);
}

struct field {
    uint32_t id, scope;
    int64_t timestamp, latency;
    uint32_t type;
    int32_t code;
    union { uint32_t number; uint64_t room; } value;
};

/* Each value carries its own code; only the recovery action is known. */
int nvmlDeviceGetFieldValues(void *handle, int count, struct field *values)
{
    ASK_CARD(q, handle, values);
    for (int place = 0; place < count; place++) {
        values[place].code = NOT_SUPPORTED;
        if (values[place].id == FIELD_RECOVERY_ACTION) {
            values[place].code = refusal(q.card.refused, RECOVERY_ACTION_KEY);
            values[place].type = VALUE_UNSIGNED_INT;
            values[place].value.number = q.card.recovery_action;
        }
    }
    return SUCCESS;
}

/* ---- One card: its processes. ---- */

struct process_v1 { uint32_t pid; uint64_t memory; };
struct process_v2 { uint32_t pid; uint64_t memory; uint32_t gpu_instance, compute_instance; };

static unsigned count_processes(const struct session *session, unsigned slot, uint32_t kind)
{
    const StateFile *file = session->file;
    uint32_t pid;
    unsigned count = 0;
    for (unsigned row = 0; row < file->header.process_rows && row < PROCESSES; row++)
        count += file->processes[row].kind == kind && file->processes[row].card == slot && lives(session, row, &pid);
    return count;
}

/* Too small an array, or NULL, gets the needed count and INSUFFICIENT_SIZE. */
static int running(const char *function, void *handle, uint32_t kind, unsigned *count, struct process_v1 *v1, struct process_v2 *v2)
{
    ASK_CARD_AS(q, function, handle, count);
    const StateFile *file = q.session->file;
    unsigned there = 0, room = v1 == NULL && v2 == NULL ? 0 : *count;
    uint32_t pid;
    struct reading r = {0};
    while (reading(q.session, &r)) {
        unsigned before = 0; /* first the count: too small an array stays as it was */
        there = count_processes(q.session, q.slot, kind);
        for (unsigned row = 0; there <= room && row < file->header.process_rows && row < PROCESSES; row++) {
            const Process *process = &file->processes[row];
            if (process->kind != kind || process->card != q.slot || before == there || !lives(q.session, row, &pid))
                continue;
            if (v1 != NULL)
                v1[before] = (struct process_v1){pid, process->memory};
            else
                v2[before] = (struct process_v2){pid, process->memory, process->gpu_instance, process->compute_instance};
            before++;
        }
        if (there <= room)
            there = before; /* one that held its row may have ended meanwhile */
    }
    *count = there;
    return there > room ? INSUFFICIENT_SIZE : SUCCESS;
}

#define RUNNING(name, kind)                                                                                                    \
    int name(void *h, unsigned *count, struct process_v1 *rows) { return running(__func__, h, kind, count, rows, NULL); }      \
    int name##_v2(void *h, unsigned *count, struct process_v2 *rows) { return running(__func__, h, kind, count, NULL, rows); } \
    int name##_v3(void *h, unsigned *count, struct process_v2 *rows) { return running(__func__, h, kind, count, NULL, rows); }

RUNNING(nvmlDeviceGetComputeRunningProcesses, COMPUTE)
RUNNING(nvmlDeviceGetGraphicsRunningProcesses, GRAPHICS)
RUNNING(nvmlDeviceGetMPSComputeRunningProcesses, MPS)
