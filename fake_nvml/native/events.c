/* Event sets: each has its own place in the ring of events, so every listener sees every event. */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "session.h"

struct event_set {
    struct event_set *next_set;
    uint64_t handle, next_event, wanted[CARDS], since[CARDS];
};

/* A waiter that is not woken looks again after so long; in milliseconds. */
enum { SLICE_MS = 50, SET_STRIDE = 0x100 };

static struct event_set *event_sets; /* under fake_lock, as all that they say */
static uint64_t event_sets_made;

static struct event_set *find_set(const void *handle)
{
    struct event_set *set = event_sets;
    while (set != NULL && set->handle != (uintptr_t)handle)
        set = set->next_set;
    return set;
}

void forget_event_sets(void)
{
    for (struct event_set *set = event_sets, *next; set != NULL; set = next) {
        next = set->next_set;
        free(set);
    }
    event_sets = NULL;
}

int nvmlEventSetCreate(void **out)
{
    ASK(q);
    if (out == NULL)
        return INVALID_ARGUMENT;
    struct event_set *set = calloc(1, sizeof *set);
    if (set == NULL)
        return MEMORY;
    pthread_mutex_lock(&fake_lock);
    set->handle = 0x7FB000000000 + SET_STRIDE * event_sets_made++; /* an address that no later set gets again */
    set->next_set = event_sets;
    event_sets = set;
    *out = (void *)(uintptr_t)set->handle;
    pthread_mutex_unlock(&fake_lock);
    return SUCCESS;
}

int nvmlEventSetFree(void *handle)
{
    ASK(q);
    pthread_mutex_lock(&fake_lock);
    struct event_set *set = find_set(handle), **place = &event_sets;
    while (set != NULL && *place != set)
        place = &(*place)->next_set;
    if (set != NULL)
        *place = set->next_set;
    pthread_mutex_unlock(&fake_lock);
    free(set);
    return set == NULL ? INVALID_ARGUMENT : SUCCESS;
}

int nvmlDeviceRegisterEvents(void *handle, unsigned long long types, void *set_handle)
{
    ASK_CARD(q, handle, set_handle);
    if ((types & ~q.card.events) != 0)
        return NOT_SUPPORTED;
    uint64_t now = header_of(q.session).next_event;
    pthread_mutex_lock(&fake_lock);
    struct event_set *set = find_set(set_handle);
    if (set != NULL) {
        bool first = true;
        for (unsigned slot = 0; slot < CARDS; slot++)
            first = first && set->wanted[slot] == 0;
        if (first)
            set->next_event = now;
        if (set->wanted[q.slot] == 0)
            set->since[q.slot] = now;
        set->wanted[q.slot] |= types;
    }
    pthread_mutex_unlock(&fake_lock);
    return set == NULL ? INVALID_ARGUMENT : SUCCESS;
}

/* Whether an event is one of the set's: of a wanted type, since the registration, and not of the slot's next card. */
static bool is_for(const struct event_set *set, const struct session *session, const Event *event)
{
    if (event->card >= CARDS || (set->wanted[event->card] & event->type) == 0 || event->number < set->since[event->card])
        return false;
    const Card *card = &session->file->cards[event->card], *known = &session->known[event->card];
    return card->uuid[0] == 0 || memcmp(card->uuid, known->uuid, sizeof card->uuid) == 0 || event->number < card->first_event;
}

/* The set's next event. */
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

/* One look: the next event, or what ends the wait, or TIMEOUT. */
static int poll_set(struct question *q, const void *handle, Event *event)
{
    uint64_t wanted[CARDS];
    pthread_mutex_lock(&fake_lock);
    struct event_set *set = find_set(handle);
    int code = q->session != fake_current ? UNINITIALIZED : set == NULL ? INVALID_ARGUMENT : TIMEOUT;
    if (code == TIMEOUT && take(set, q->session, event))
        code = SUCCESS;
    if (code == TIMEOUT)
        memcpy(wanted, set->wanted, sizeof wanted);
    pthread_mutex_unlock(&fake_lock);
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
    ASK_AS(q, function);
    if (out == NULL)
        return INVALID_ARGUMENT;
    uint32_t *wake = &q.session->file->header.wake;
    int64_t end = now_ns() + timeout_ms * 1000000LL;
    for (;;) {
        uint32_t before = atomic_load((_Atomic uint32_t *)wake);
        int code = poll_set(&q, handle, event);
        int64_t left = end - now_ns(), slice = left < SLICE_MS * 1000000LL ? left : SLICE_MS * 1000000LL;
        if (code != TIMEOUT || left <= 0)
            return code;
        struct timespec most = {slice / 1000000000, slice % 1000000000};
        syscall(SYS_futex, wake, FUTEX_WAIT, before, &most, NULL, 0);
    }
}

struct event_v1 { void *device; uint64_t type, data; };
struct event_v2 { void *device; uint64_t type, data; uint32_t gpu_instance, compute_instance; };

int nvmlEventSetWait(void *set, struct event_v1 *out, unsigned timeout_ms)
{
    Event event;
    int code = wait_for(__func__, set, timeout_ms, out, &event);
    if (code == SUCCESS)
        *out = (struct event_v1){&fake_handles[event.card], event.type, event.data};
    return code;
}

int nvmlEventSetWait_v2(void *set, struct event_v2 *out, unsigned timeout_ms)
{
    Event event;
    int code = wait_for(__func__, set, timeout_ms, out, &event);
    if (code == SUCCESS)
        *out = (struct event_v2){&fake_handles[event.card], event.type, event.data, event.gpu_instance, event.compute_instance};
    return code;
}
