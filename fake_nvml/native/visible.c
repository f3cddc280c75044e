/* Which simulated cards a container sees. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "place.h"

int slot_of(const StateFile *file, const char *name, size_t length)
{
    unsigned index = 0;
    char number[16];
    for (unsigned slot = 0; slot < file->header.card_count && slot < CARDS; slot++) {
        const Card *card = &file->cards[slot];
        if (card->uuid[0] == 0)
            continue;
        snprintf(number, sizeof number, "%u", index++);
        if ((strnlen(card->uuid, sizeof card->uuid) == length && memcmp(card->uuid, name, length) == 0) ||
            (strlen(number) == length && memcmp(number, name, length) == 0))
            return (int)slot;
    }
    return -1;
}

static unsigned all_slots(const StateFile *file, unsigned slots[CARDS])
{
    unsigned count = 0;
    for (unsigned slot = 0; slot < file->header.card_count && slot < CARDS; slot++)
        if (file->cards[slot].uuid[0] != 0)
            slots[count++] = slot;
    return count;
}

/* An unknown name: NVIDIA's runtime refuses such a container. */
unsigned visible_slots(const StateFile *file, const char *visible, unsigned slots[CARDS])
{
    if (visible == NULL || *visible == 0 || strcmp(visible, "none") == 0 || strcmp(visible, "void") == 0)
        return 0;
    if (strcmp(visible, "all") == 0)
        return all_slots(file, slots);
    unsigned count = 0;
    bool seen[CARDS] = {false};
    for (const char *name = visible;; name++) {
        size_t length = strcspn(name, ",");
        int slot = slot_of(file, name, length);
        if (slot < 0)
            return 0;
        if (!seen[slot])
            slots[count++] = (unsigned)slot;
        seen[slot] = true;
        name += length;
        if (*name == 0)
            return count;
    }
}
