/* Where the state of the simulated cards is. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "place.h"

#ifndef DEFAULT_STATE /* tests build with folders of their own */
#define DEFAULT_STATE "/run/fakenvml/state"
#define REAL_DRIVER "/proc/driver/nvidia"
#endif

const char *state_path(char *room, size_t size)
{
    const char *named = getenv("FAKENVML_STATE");
    if (named != NULL && *named != 0)
        return named;
    if (access(REAL_DRIVER, F_OK) == 0) {
        fprintf(stderr, "fake nvml: this machine has a real NVIDIA driver (" REAL_DRIVER "); "
                        "to have simulated cards all the same, set FAKENVML_STATE to the path of their state file\n");
        return NULL;
    }
    static const char here = 0;
    Dl_info self;
    if (access(DEFAULT_STATE, F_OK) == 0 || dladdr(&here, &self) == 0)
        return DEFAULT_STATE;
    const char *slash = strrchr(self.dli_fname, '/');
    snprintf(room, size, "%.*sfakenvml.state", slash == NULL ? 0 : (int)(slash - self.dli_fname) + 1, self.dli_fname);
    return room;
}
