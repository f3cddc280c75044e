/* Memory of the first simulated card that the container sees, held by this process (held.c of fake_nvml). */
#define _GNU_SOURCE
#include <stdio.h>

#include "held.h"
#include "place.h"
#include "player.h"

#define MIB (1024ULL * 1024)

bool take_memory(const char *visible, unsigned long mib, const char *name, char *reason, size_t size)
{
    bool taken = false;
    unsigned slots[CARDS];
    begin_writing();
    if (visible_slots(held_file, visible, slots) == 0) {
        snprintf(reason, size, "no CUDA-capable device is detected");
    } else {
        uint64_t left = free_on(slots[0], true) / MIB;
        if (mib > left)
            snprintf(reason, size, "CUDA out of memory: card %s has %llu MiB free; this process asks for %lu MiB",
                     held_file->cards[slots[0]].uuid, (unsigned long long)left, mib);
        else if (!(taken = hold_memory(slots[0], mib * MIB, true, name)))
            snprintf(reason, size, "no room for another process: %d are there", PROCESSES);
    }
    end_writing();
    return taken;
}

void return_memory(void)
{
    if (held_file == NULL)
        return;
    begin_writing();
    for (unsigned slot = 0; slot < CARDS; slot++)
        let_go_of_memory(slot, UINT64_MAX, true);
    end_writing();
}
