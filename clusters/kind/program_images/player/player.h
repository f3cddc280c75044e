/* The player: one small program that stands for whatever a pod would run on its card. See player.c. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* ---- cards.c: memory of a simulated card. ---- */

/* Takes `mib` more on the first card that `visible` (NVIDIA_VISIBLE_DEVICES) names. False, with the reason, where it cannot be. */
bool take_memory(const char *visible, unsigned long mib, const char *name, char *reason, size_t size);
/* Gives all of it back. */
void return_memory(void);

/* ---- commands.c: the few commands that a container may name instead. ---- */

struct outcome {
    int code;
    bool ended;  /* by `exit`, or told to: nothing comes after it */
    bool strange; /* a word that is not known here; code says 127 */
};

/* Waits so many seconds, negative: for ever. False when the process shall end now. */
typedef bool (*wait_function)(double seconds);

/* Runs words (`sleep 5`), or `sh -c` and its text. */
struct outcome run_command(int count, char **words, wait_function wait);
/* Seconds of `90`, `1.5m`, `infinity` (-1). False for anything else. */
bool parse_duration(const char *text, double *seconds);
