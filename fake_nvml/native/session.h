/* The session that a call runs in, and the question that it asks; every call needs both. See session.c. */
#pragma once
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "state_file.h"

/* From the first nvmlInit to the last nvmlShutdown, and as long as a call of that time runs. */
struct session {
    StateFile *file;
    int descriptor;
    bool writable;
    unsigned holders;      /* calls in progress, and one for being the current session */
    unsigned count;        /* cards at init ... */
    unsigned slots[CARDS]; /* ... the slot of each, by NVML's index ... */
    Card known[CARDS];     /* ... and what was in each slot */
};

/* A call: its session, and the card that it is about, as that is now. */
struct question {
    struct session *session;
    unsigned slot;
    Card card;
    uint64_t used; /* bytes of the card in use, without the driver's own */
};

struct reading {
    uint64_t sequence;
    int attempts, descriptor; /* the second: a lock on the file, from LOCK_AFTER attempts on; 0 for none */
};

enum { NO_CARD = CARDS }; /* the slot of a call that is about no card */

extern pthread_mutex_t fake_lock;    /* over the session, its users and the event sets; never held while waiting */
extern struct session *fake_current; /* NULL before nvmlInit */
extern char fake_handles[CARDS];     /* a card's handle is the address of its place here, the same in every session */

extern const int fakenvml_era;          /* the branch that this library is as old as ... */
extern const char fakenvml_release[];   /* ... a release of it ... */
extern const unsigned fakenvml_cuda;    /* ... and its CUDA version; all three in era.c */

/* Loop around copying: `struct reading r = {0}; while (reading(session, &r)) { copy }`. Ends when a copy is whole. */
bool reading(const struct session *session, struct reading *r);
/* Around a change of the file: a lock on it, -1 if it may not be written; and its end, which gives the lock back. */
int begin_writing(const struct session *session);
void end_writing(const struct session *session, int descriptor);
/* The code of the fault that a call meets, after its delay; SUCCESS for none. */
int meet(const struct session *session, const char *function, unsigned slot);
/* The session's card in a slot as it is now. GPU_IS_LOST if it does not answer, or another one is in its place. */
int look(struct question *q, unsigned slot);
/* The code that a record answers a key of answers.py with, SUCCESS if it answers it; NULL is the key of no function. */
int refusal(const uint16_t *refused, const char *key);
/* Is a process in this row, for this session's reader? Its pid, as that reader knows it. Asks the kernel about rows that are held. */
bool lives(const struct session *session, unsigned row, uint32_t *pid);
/* Takes a hold on the session; UNINITIALIZED if there is none. */
int enter(struct question *q);
/* Begins a call that is about no card. */
int ask(struct question *q, const char *function);
/* Begins a call with a card's handle; NULL and strangers are invalid, and `out` must lead somewhere. */
int ask_card(struct question *q, const char *function, const void *handle, const void *out);
/* Lets go of the session. */
void answered(struct question *q);
/* Answers a text; `room` is the most that it can be long. */
int write_text(char *buffer, unsigned size, const char *text, size_t room);
Header header_of(const struct session *session);
/* Frees all event sets, under the lock. */
void forget_event_sets(void);

/* A question `q` that is let go of wherever the function ends. */
#define QUESTION(q) __attribute__((cleanup(answered))) struct question q = {0}
/* The same, and on to the next line only if the call may go on. */
#define ASK_AS(q, function) QUESTION(q); for (int code = ask(&q, function); code != SUCCESS;) return code
#define ASK_CARD_AS(q, function, handle, out) \
    QUESTION(q); for (int code = ask_card(&q, function, handle, out); code != SUCCESS;) return code
#define ASK(q) ASK_AS(q, __func__)
#define ASK_CARD(q, handle, out) ASK_CARD_AS(q, __func__, handle, out)
