/* The player: one small static program that stands for whatever a pod would run on its card.
 *
 * Its log begins with its GPU variables, one NAME=value a line. Then it holds memory of the first simulated card that it sees,
 * until it is told to stop:
 *
 *     SIMULATED_HOLDS_MIB     MiB to hold (1253, as the demo of the original gpushare does; with a command: 0)
 *     SIMULATED_GROWS_MIB     MiB that each SIGUSR1 adds (512)
 *     SIMULATED_EXITS_AFTER   seconds until it ends by itself, with
 *     SIMULATED_EXIT_CODE     (0)
 *     SIMULATED_STOP_SECONDS  seconds that it goes on after SIGTERM (0); it then ends with 143
 *     FAKENVML_STATE          the state file of the node's simulated cards
 *
 * Without a state file it says so and holds nothing. No card, or a card without room: the reason, and exit code 1.
 *
 * Called by another name (`sleep`, `sh`), or with words behind its own, it runs that command instead (commands.c), and still does
 * what the variables above say.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "held.h"
#include "player.h"

enum { ROOM = 512, TERMINATED = 128 + SIGTERM, CANNOT_RUN = 128 };
static const char *const DEFAULT_STATE = "/var/lib/gpushare-simulated/state";
static const double WITHOUT_END = -1;

extern char **environ;

static const char *process_name = "python"; /* what the original's demo is in the card's list */
static double deadline;                     /* on the monotonic clock; negative: none ... */
static int planned_code;                    /* ... and with which code it ends then */
static double stop_seconds;
static unsigned long grows_mib;
static bool holds;
static int exit_code = -1; /* decided: by the deadline, by a signal, or for want of memory */

/* ---- Variables. ---- */

static bool is_gpu_variable(const char *entry)
{
    static const char *const begins[] = {"NVIDIA_", "CGPU_", "GPU_", "ALIYUN_COM_GPU_"};
    for (size_t place = 0; place < sizeof begins / sizeof *begins; place++)
        if (strncmp(entry, begins[place], strlen(begins[place])) == 0)
            return true;
    return false;
}

static int compare_texts(const void *one, const void *other) { return strcmp(*(char *const *)one, *(char *const *)other); }

static void print_gpu_variables(void)
{
    size_t count = 0;
    while (environ[count] != NULL)
        count++;
    qsort(environ, count, sizeof *environ, compare_texts);
    for (size_t place = 0; place < count; place++)
        if (is_gpu_variable(environ[place]))
            puts(environ[place]);
}

/* A variable's number, not negative; the default where it is not set. Ends the program where it is none. */
static double number_of(const char *name, double otherwise)
{
    const char *text = getenv(name);
    if (text == NULL)
        return otherwise;
    char *rest;
    double number = strtod(text, &rest);
    if (*text == 0 || *rest != 0 || number < 0 || number > 1e12) {
        printf("error: %s='%s' is not a number\n", name, text);
        exit(CANNOT_RUN);
    }
    return number;
}

/* ---- Time and signals. ---- */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static void fail(const char *reason)
{
    printf("error: %s\n", reason);
    exit_code = 1;
}

static void grow(void)
{
    char reason[ROOM];
    if (!holds)
        puts("SIGUSR1: no simulated card here, nothing to add");
    else if (!take_memory(getenv("NVIDIA_VISIBLE_DEVICES"), grows_mib, process_name, reason, sizeof reason))
        fail(reason);
    else
        printf("holds %lu MiB more\n", grows_mib);
}

static void told_to_stop(void)
{
    double then = now() + stop_seconds;
    if (stop_seconds <= 0) {
        exit_code = TERMINATED;
        return;
    }
    puts("asked to stop");
    if (deadline < 0 || then < deadline) { /* told again, it is later: nothing changes */
        deadline = then;
        planned_code = TERMINATED;
    }
}

/* Until that moment, or until the process shall end: then false. */
static bool wait_until(double moment)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGUSR1);
    while (exit_code < 0) {
        double at = now(), end = deadline >= 0 && (moment < 0 || deadline < moment) ? deadline : moment;
        if (end >= 0 && at >= end) {
            if (end == moment)
                return true;
            exit_code = planned_code;
            break;
        }
        /* A day is for ever in pieces. */
        double left = end < 0 || end - at > 86400 ? 86400 : end - at;
        struct timespec time = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
        switch (sigtimedwait(&signals, NULL, &time)) {
        case SIGTERM:
        case SIGINT:
            told_to_stop();
            break;
        case SIGUSR1:
            grow();
            break;
        }
    }
    return false;
}

static bool wait_for(double seconds) { return wait_until(seconds < 0 ? WITHOUT_END : now() + seconds); }

/* ---- Start and end. ---- */

static void begin_to_hold(double mib)
{
    const char *named = getenv("FAKENVML_STATE");
    const char *path = named != NULL && *named != 0 ? named : DEFAULT_STATE;
    char reason[ROOM];
    if (mib <= 0)
        return;
    if (!open_cards(path, reason, sizeof reason)) {
        if (errno == ENOENT || errno == ENOTDIR)
            printf("no simulated cards here (%s): holds nothing\n", path);
        else
            fail(reason);
        return;
    }
    holds = take_memory(getenv("NVIDIA_VISIBLE_DEVICES"), (unsigned long)mib, process_name, reason, sizeof reason);
    if (holds)
        printf("holds %lu MiB of a simulated card\n", (unsigned long)mib);
    else
        fail(reason);
}

static int play(int words, char **command)
{
    deadline = number_of("SIMULATED_EXITS_AFTER", WITHOUT_END);
    deadline += deadline < 0 ? 0 : now();
    stop_seconds = number_of("SIMULATED_STOP_SECONDS", 0);
    planned_code = (int)number_of("SIMULATED_EXIT_CODE", 0) % 256;
    grows_mib = (unsigned long)number_of("SIMULATED_GROWS_MIB", 512);
    begin_to_hold(number_of("SIMULATED_HOLDS_MIB", words > 0 ? 0 : 1253));
    if (exit_code < 0 && words == 0) {
        puts("Created device /job:localhost/replica:0/task:0/device:GPU:0");
        wait_for(WITHOUT_END);
    } else if (exit_code < 0) {
        struct outcome outcome = run_command(words, command, wait_for);
        planned_code = (int)number_of("SIMULATED_EXIT_CODE", outcome.code) % 256;
        /* Where a time was set for its end, a command that was quicker waits for it, as the stand-in does. */
        if (exit_code < 0 && deadline >= 0)
            wait_for(WITHOUT_END);
        if (exit_code < 0)
            exit_code = planned_code;
    }
    return_memory();
    return exit_code;
}

static int help(void)
{
    puts("usage: player [COMMAND WORD...]\n\n"
         "Stands for a program on a simulated card: prints its GPU variables, holds SIMULATED_HOLDS_MIB (1253) of the first card\n"
         "that NVIDIA_VISIBLE_DEVICES names in the state file FAKENVML_STATE (/var/lib/gpushare-simulated/state), takes\n"
         "SIMULATED_GROWS_MIB (512) more on each SIGUSR1, and ends at SIGTERM, or after SIMULATED_EXITS_AFTER seconds with\n"
         "SIMULATED_EXIT_CODE. COMMAND: true, false, echo, env, exit N, sleep N, kill -USR1 PID, sh -c '...; ... && ...'.");
    return 0;
}

int main(int count, char **words)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *slash = strrchr(words[0], '/');
    bool by_name = strcmp(slash == NULL ? words[0] : slash + 1, "player") == 0;
    int first = by_name ? 1 : 0;
    if (by_name && count == 2 && strcmp(words[1], "--help") == 0)
        return help();
    /* Beside the container's own process (`kubectl exec POD -- env`) a command is only that. */
    if (!by_name && getpid() != 1) {
        struct outcome outcome = run_command(count, words, wait_for);
        return exit_code < 0 ? outcome.code : exit_code;
    }
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL); /* before anything is held: an early SIGTERM must not leave it */
    if (count > first)
        process_name = "app";
    print_gpu_variables();
    return play(count - first, words + first);
}
