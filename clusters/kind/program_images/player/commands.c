/* The commands that clusters/images/behaviour.py knows, for real: true, false, echo, env, exit, sleep, and kill, alone or in
 * `sh -c` with `;`, `&&` and line breaks between them. Quotes and backslashes hold words together; nothing is expanded.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "player.h"

enum { MOST_WORDS = 256, NOT_UNDERSTOOD = 127 };

extern char **environ;

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static struct outcome ends_with(int code) { return (struct outcome){code, false, false}; }

/* ---- Single commands. ---- */

bool parse_duration(const char *text, double *seconds)
{
    if (strcmp(text, "infinity") == 0 || strcmp(text, "inf") == 0) {
        *seconds = -1;
        return true;
    }
    char *rest;
    size_t digits = strspn(text, "0123456789.");
    *seconds = strtod(text, &rest);
    if (digits == 0 || rest != text + digits)
        return false;
    double unit = *rest == 0 || *rest == 's' ? 1 : *rest == 'm' ? 60 : *rest == 'h' ? 3600 : *rest == 'd' ? 86400 : 0;
    *seconds *= unit;
    return unit != 0 && (*rest == 0 || rest[1] == 0);
}

static int compare_texts(const void *one, const void *other) { return strcmp(*(char *const *)one, *(char *const *)other); }

/* Sorted in place, as the stand-in prints it: environ is our own copy of the pointers. */
static struct outcome print_environment(void)
{
    size_t count = 0;
    while (environ[count] != NULL)
        count++;
    qsort(environ, count, sizeof *environ, compare_texts);
    for (size_t place = 0; place < count; place++)
        puts(environ[place]);
    return ends_with(0);
}

static struct outcome print_words(int count, char **words)
{
    for (int place = 0; place < count; place++)
        printf("%s%s", place == 0 ? "" : " ", words[place]);
    puts("");
    return ends_with(0);
}

static int signal_number(const char *name)
{
    static const struct { const char *name; int number; } known[] = {
        {"HUP", SIGHUP}, {"INT", SIGINT}, {"KILL", SIGKILL}, {"TERM", SIGTERM}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2},
    };
    name += strncmp(name, "SIG", 3) == 0 ? 3 : 0;
    for (size_t place = 0; place < sizeof known / sizeof *known; place++)
        if (strcmp(known[place].name, name) == 0)
            return known[place].number;
    char *rest;
    long number = strtol(name, &rest, 10);
    return *name == 0 || *rest != 0 || number < 0 || number > 64 ? -1 : (int)number;
}

/* So that a signal can be sent from `kubectl exec`: `kill -USR1 1`. */
static struct outcome send_signal(int count, char **words)
{
    int number = count == 2 && words[0][0] == '-' ? signal_number(words[0] + 1) : SIGTERM;
    char *rest = "?";
    long pid = count == 1 || count == 2 ? strtol(words[count - 1], &rest, 10) : 0;
    if (number < 0 || *rest != 0 || pid < 1) {
        fprintf(stderr, "kill: say kill [-SIGNAL] PID\n");
        return ends_with(2);
    }
    if (kill((pid_t)pid, number) != 0) {
        fprintf(stderr, "kill: %ld: %s\n", pid, strerror(errno));
        return ends_with(1);
    }
    return ends_with(0);
}

static struct outcome leave(const char *text)
{
    return (struct outcome){(int)(strtoul(text, NULL, 10) % 256), true, false};
}

static struct outcome pause_for(const char *text, wait_function wait)
{
    double seconds;
    if (!parse_duration(text, &seconds)) {
        fprintf(stderr, "sleep: %s is no time: say 5, 1.5m, 1h or infinity\n", text);
        return ends_with(1);
    }
    return wait(seconds) ? ends_with(0) : (struct outcome){0, true, false};
}

static struct outcome run_script(const char *text, wait_function wait);

static bool is_shell(const char *name) { return strcmp(name, "sh") == 0 || strcmp(name, "bash") == 0; }

static bool is_option_c(const char *word)
{
    size_t length = strlen(word);
    return length >= 2 && word[0] == '-' && word[length - 1] == 'c' && strspn(word + 1, "abcdefghijklmnopqrstuvwxyz") == length - 1;
}

struct outcome run_command(int count, char **words, wait_function wait)
{
    const char *name = last_part(words[0]);
    if (strcmp(name, "true") == 0 || strcmp(name, "false") == 0)
        return ends_with(name[0] == 'f');
    if (strcmp(name, "echo") == 0)
        return print_words(count - 1, words + 1);
    if (count == 1 && (strcmp(name, "env") == 0 || strcmp(name, "printenv") == 0))
        return print_environment();
    if (count == 2 && strcmp(name, "exit") == 0 && words[1][0] != 0 && words[1][strspn(words[1], "0123456789")] == 0)
        return leave(words[1]);
    if (count == 2 && strcmp(name, "sleep") == 0)
        return pause_for(words[1], wait);
    if (strcmp(name, "kill") == 0)
        return send_signal(count - 1, words + 1);
    if (count == 3 && is_shell(name) && is_option_c(words[1]))
        return run_script(words[2], wait);
    fprintf(stderr, "%s: not a command of this image, which knows true, false, echo, env, exit N, sleep N, kill and sh -c\n", name);
    return (struct outcome){NOT_UNDERSTOOD, false, true};
}

/* ---- sh -c. ---- */

enum separator { THEN, AND, END };

/* Reads one command's words from *text into `room`; answers what stands behind it. */
static enum separator read_words(const char **text, char *room, char **words, int *count)
{
    const char *next = *text;
    *count = 0;
    for (;;) {
        while (*next == ' ' || *next == '\t')
            next++;
        if (*next == 0 || *next == ';' || *next == '\n' || strncmp(next, "&&", 2) == 0)
            break;
        if (*count < MOST_WORDS)
            words[(*count)++] = room;
        char quote = 0;
        for (; *next != 0 && (quote != 0 || (strchr(" \t;\n", *next) == NULL && strncmp(next, "&&", 2) != 0)); next++) {
            if (*next == quote || (quote == 0 && (*next == '\'' || *next == '"')))
                quote = quote == 0 ? *next : 0;
            else
                *room++ = *next == '\\' && quote != '\'' && next[1] != 0 ? *++next : *next;
        }
        *room++ = 0;
    }
    enum separator found = *next == 0 ? END : *next == '&' ? AND : THEN;
    *text = next + (found == END ? 0 : found == AND ? 2 : 1);
    return found;
}

static struct outcome run_script(const char *text, wait_function wait)
{
    struct outcome last = {0, false, false};
    enum separator before = THEN, after;
    char *room = malloc(strlen(text) * 2 + 2);
    char *words[MOST_WORDS];
    do {
        int count;
        after = read_words(&text, room, words, &count);
        if (count > 0 && (before != AND || last.code == 0))
            last = run_command(count, words, wait);
        before = count > 0 ? after : before;
    } while (after != END && !last.ended);
    free(room);
    return last;
}
