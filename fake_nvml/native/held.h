/* Memory of simulated cards that this process holds. See held.c. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "state_file.h"

/* The mapped state file, once it is open. */
extern StateFile *held_file;

/* Opens the state file. False, with the reason in `reason`, if it is none; ENOENT in errno if nothing is there. */
bool open_cards(const char *path, char *reason, size_t size);
/* Around each use of the functions below, and around reading; rows of processes that have ended are freed. */
void begin_writing(void);
void end_writing(void);
/* Bytes of a card for this process, within the limit of its cgroup, and how many of these are free; managed memory is not limited. */
uint64_t room_on(unsigned slot);
uint64_t free_on(unsigned slot, bool limited);
/* Puts bytes onto our row of a card; the caller has seen that they are free. False if the table of processes is full. */
bool hold_memory(unsigned slot, uint64_t bytes, bool limited, const char *name);
/* Takes bytes off it; a row without memory goes. */
void let_go_of_memory(unsigned slot, uint64_t bytes, bool limited);
