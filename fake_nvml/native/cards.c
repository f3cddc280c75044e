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

static void write_pci(const Card *card, struct pci *out, char *full, size_t size)
{
    char text[32];
    bus_id(card, text, sizeof text);
    *out = (struct pci){"", card->pci_domain, card->pci_bus, card->pci_device, card->pci_device_id, card->pci_subsystem_id};
    snprintf(out->bus_id, sizeof out->bus_id, "%.15s", text + 4); /* with a domain of four digits */
    snprintf(full, size, "%s", text);
}

static int pci_info(const char *function, void *handle, struct pci *out, char *full, size_t size)
{
    ASK_CARD_AS(q, function, handle, out);
    write_pci(&q.card, out, full, size);
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

/* ---- One card: its links, and how far another one is. ---- */

/* The card at the other end of a link that leads to no switch; one without a UUID if none is there. */
static Card peer_of(const struct question *q, unsigned link)
{
    const Card *one = &q->card;
    Card peer = {0};
    struct reading r = {0};
    unsigned others = one->nvlink_peers > 1 ? one->nvlink_peers - 1 : 1;
    unsigned first = q->slot - q->slot % (others + 1), slot = first + link % others;
    slot += slot >= q->slot; /* a card is linked to all of its group but itself */
    while (one->nvswitches == 0 && one->nvlink_peers > 1 && slot < CARDS && reading(q->session, &r))
        peer = q->session->file->cards[slot];
    return peer.pci_device_id == one->pci_device_id ? peer : (Card){0};
}

static bool is_active(const struct question *q, unsigned link)
{
    return q->card.nvswitches > 0 || peer_of(q, link).uuid[0] != 0;
}

/* Begins a call about a link of a card; only one that leads somewhere has something at its other end. */
static int ask_link(struct question *q, const char *function, void *handle, unsigned link, const void *out, bool other_end)
{
    int code = ask_card(q, function, handle, out);
    if (code == SUCCESS && link >= q->card.nvlinks)
        code = INVALID_ARGUMENT;
    return code == SUCCESS && other_end && !is_active(q, link) ? NOT_SUPPORTED : code;
}

#define ASK_LINK(q, function, other_end) \
    QUESTION(q); for (int code = ask_link(&q, function, handle, link, out, other_end); code != SUCCESS;) return code

int nvmlDeviceGetNvLinkState(void *handle, unsigned link, unsigned *out)
{
    ASK_LINK(q, __func__, false);
    *out = is_active(&q, link);
    return SUCCESS;
}

int nvmlDeviceGetNvLinkCapability(void *handle, unsigned link, unsigned capability, unsigned *out)
{
    ASK_LINK(q, __func__, false);
    if (capability > NVLINK_CAPABILITY_VALID)
        return INVALID_ARGUMENT;
    *out = capability < NVLINK_CAPABILITY_SLI || q.card.compute_major >= (capability == NVLINK_CAPABILITY_SLI ? 8U : 9U);
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *handle, unsigned link, unsigned *out)
{
    ASK_LINK(q, __func__, true);
    *out = q.card.nvswitches > 0 ? NVLINK_TO_SWITCH : NVLINK_TO_CARD;
    return SUCCESS;
}

static int nvlink_remote(const char *function, void *handle, unsigned link, struct pci *out, char *full, size_t size)
{
    ASK_LINK(q, function, true);
    Card other = peer_of(&q, link);
    if (q.card.nvswitches > 0)
        other = (Card){.pci_bus = NVSWITCH_BUS + link % q.card.nvswitches, .pci_device_id = NVSWITCH_ID};
    write_pci(&other, out, full, size);
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemotePciInfo(void *handle, unsigned link, struct pci_v2 *out)
{
    return nvlink_remote(__func__, handle, link, (struct pci *)out, NULL, 0);
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *handle, unsigned link, struct pci_v3 *out)
{
    return nvlink_remote(__func__, handle, link, (struct pci *)out, out == NULL ? NULL : out->bus_id, sizeof out->bus_id);
}

/* Begins a call about two cards: `q` is about the second, and `first` is the other. */
static int ask_two(struct question *q, const char *function, void *one, void *other, const void *out, struct question *first)
{
    int code = ask_card(q, function, one, out);
    *first = *q;
    uintptr_t slot = (uintptr_t)other - (uintptr_t)fake_handles;
    if (code == SUCCESS && (slot >= CARDS || q->session->known[slot].uuid[0] == 0))
        code = INVALID_ARGUMENT;
    if (code == SUCCESS)
        code = look(q, (unsigned)slot);
    return code == SUCCESS ? refusal(q->card.refused, function) : code;
}

#define ASK_TWO(q, first) \
    QUESTION(q); struct question first; \
    for (int code = ask_two(&q, __func__, handle, other, out, &first); code != SUCCESS;) return code

int nvmlDeviceGetTopologyCommonAncestor(void *handle, void *other, unsigned *out)
{
    ASK_TWO(q, first);
    if (q.slot == first.slot)
        *out = TOPOLOGY_INTERNAL;
    else if (q.card.pci_domain == first.card.pci_domain && q.card.pci_root == first.card.pci_root)
        *out = TOPOLOGY_SINGLE;
    else if (q.card.numa == first.card.numa)
        *out = q.card.numa < 0 ? TOPOLOGY_HOSTBRIDGE : TOPOLOGY_NODE;
    else
        *out = TOPOLOGY_SYSTEM;
    return SUCCESS;
}

static bool are_linked(const struct question *one, const struct question *other)
{
    bool linked = one->card.nvswitches > 0 && other->card.nvswitches > 0;
    for (unsigned link = 0; link < one->card.nvlinks; link++)
        linked = linked || strcmp(peer_of(one, link).uuid, other->card.uuid) == 0;
    return linked;
}

int nvmlDeviceGetP2PStatus(void *handle, void *other, unsigned index, unsigned *out)
{
    ASK_TWO(q, first);
    if (index > P2P_LAST || q.slot == first.slot)
        return INVALID_ARGUMENT;
    bool over_link = index == P2P_NVLINK || index == P2P_ATOMICS;
    if (over_link)
        *out = are_linked(&first, &q) ? P2P_OK : P2P_NOT_SUPPORTED;
    else
        *out = first.card.ecc_supported && q.card.ecc_supported ? P2P_OK : P2P_CHIPSET_NOT_SUPPORTED;
    return SUCCESS;
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
