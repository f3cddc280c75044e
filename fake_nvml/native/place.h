/* Where the state of the simulated cards is, and which cards a container sees of it. See place.c. */
#pragma once
#include <stddef.h>

#include "state_file.h"

/* The path: FAKENVML_STATE, the node's place, else beside this library, in `room`. NULL beside a real driver. */
const char *state_path(char *room, size_t size);
/* The slot of a card by NVML's index or by UUID; -1 for none. The index is the place among the slots that hold a card. */
int slot_of(const StateFile *file, const char *name, size_t length);
/* The slots that a value of NVIDIA_VISIBLE_DEVICES names, in its order, and how many; NULL, or an unknown name among them: none. */
unsigned visible_slots(const StateFile *file, const char *visible, unsigned slots[CARDS]);
