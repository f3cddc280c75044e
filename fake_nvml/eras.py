"""Which symbols a library of a driver branch has: what is younger is really absent, as callers find it on old nodes.

Ages of _v2 and _v3 of the process lists, of nvmlDeviceGetMemoryInfo_v2 and of MIG are those that clients with a
fallback know; those of the rest are inferred from NVIDIA's change logs. A symbol that is not listed is taken to be as
old as any driver here.
"""

from __future__ import annotations

from typing import Final

_SINCE: Final = {
    # MIG came with the A100, and with it events and processes that name an instance.
    "nvmlDeviceGetComputeRunningProcesses_v2": 450,
    "nvmlDeviceGetGraphicsRunningProcesses_v2": 450,
    "nvmlEventSetWait_v2": 450,
    "nvmlDeviceGetArchitecture": 450,
    "nvmlDeviceGetAttributes": 450,
    "nvmlDeviceGetAttributes_v2": 450,
    "nvmlDeviceGetComputeInstanceId": 450,
    "nvmlDeviceGetDeviceHandleFromMigDeviceHandle": 450,
    "nvmlDeviceGetGpuInstanceId": 450,
    "nvmlDeviceGetMaxMigDeviceCount": 450,
    "nvmlDeviceGetMigDeviceHandleByIndex": 450,
    "nvmlDeviceGetMigMode": 450,
    "nvmlDeviceGetRemappedRows": 450,
    "nvmlDeviceIsMigDeviceHandle": 450,
    "nvmlDeviceGetMemoryAffinity": 455,
    "nvmlDeviceGetMPSComputeRunningProcesses": 460,
    "nvmlDeviceGetMPSComputeRunningProcesses_v2": 470,
    # The split of reserved memory, and the process lists of today.
    "nvmlDeviceGetComputeRunningProcesses_v3": 510,
    "nvmlDeviceGetGraphicsRunningProcesses_v3": 510,
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": 510,
    "nvmlDeviceGetMemoryInfo_v2": 510,
    "nvmlDeviceGetFanSpeed_v2": 510,
    "nvmlDeviceGetNumGpuCores": 510,
    "nvmlDeviceGetModuleId": 535,
    "nvmlDeviceGetRunningProcessDetailList": 535,
    "nvmlSystemGetConfComputeState": 535,
    "nvmlDeviceGetConfComputeMemSizeInfo": 535,
    "nvmlDeviceGetNumaNodeId": 545,
    "nvmlDeviceGetDriverModel_v2": 560,
    "nvmlDeviceGetTemperatureV": 565,
    "nvmlDeviceGetHandleByUUIDV": 570,
    "nvmlDeviceGetRemappedRows_v2": 580,
    "nvmlEventSetWait_v3": 580,
}

# Branches that a library is built for: the oldest, and each from which on there are symbols that were not there before.
OLDEST: Final = 418
ERAS: Final = (OLDEST, *sorted(set(_SINCE.values())))

# The first branch that answers field 230, "what recovers this card"; inferred.
RECOVERY_ACTION_SINCE: Final = 550


def has_symbol(name: str, branch: int) -> bool:
    """Whether a library of this driver branch exports ``name``."""
    return name.startswith("nvml") and branch >= _SINCE.get(name, 0)


def era_of(branch: int) -> int:
    """The branch of ``ERAS`` whose library has the same symbols as a driver of this branch."""
    return max((era for era in ERAS if era <= branch), default=OLDEST)
