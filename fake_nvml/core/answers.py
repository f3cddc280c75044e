"""Tables of the functions that answer straight from a card's record (``answers.txt``); the library in C is made of them.

A key is a function's name, or its name and the word of what it was asked for (``nvmlDeviceGetClockInfo memory``). A record
keeps a return code for each key (``refused``): 0, or what the function answers instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from fake_nvml.eras import rows


@dataclass(frozen=True, slots=True)
class Answer:
    """``fields`` of the record, one for each place that the function writes to; ``idle`` instead while no kernel runs.

    ``type`` is C's type of each place.
    """

    fields: tuple[str, ...]
    idle: tuple[str, ...] = ()
    type: str = "unsigned"


# Functions of a card and of nothing else.
PLAIN: Final[dict[str, Answer]] = {}
# Functions that take an argument for which of several numbers they answer: that argument -> a word for it, and the answer.
CHOSEN: Final[dict[str, dict[int, tuple[str, Answer]]]] = {}
for _function, _choice, _type, _fields, _idle in map(str.split, rows("answers.txt")):
    _answer = Answer(tuple(_fields.split(",")), () if _idle == "-" else (_idle,), _type.replace("-", " "))
    _number, _, _word = _choice.partition(":")
    if _choice == "-":
        PLAIN[_function] = _answer
    else:
        CHOSEN.setdefault(_function, {})[int(_number)] = _word, _answer
# Functions of ``CHOSEN`` that have another argument after that one, which changes nothing.
TOLD_MORE: Final = frozenset({"nvmlDeviceGetTotalEccErrors"})

# Functions that answer a text of the record; one that is empty is not supported.
TEXTS: Final[Mapping[str, str]] = MappingProxyType(
    {"nvmlDeviceGetName": "name", "nvmlDeviceGetUUID": "uuid", "nvmlDeviceGetSerial": "serial"}
)

# Functions that are written out in the library -> the fields that they answer and that ``fake-nvml set`` changes.
_FIELDS: Final = {
    "nvmlDeviceGetTemperatureV": ("temperature",),
    "nvmlDeviceGetUtilizationRates": ("utilization", "memory_utilization"),
}
RECOVERY_ACTION: Final = "nvmlDeviceGetFieldValues recovery action"
OF_NVLINKS: Final = tuple(
    f"nvmlDeviceGetNvLink{name}"
    for name in ("State", "Capability", "RemoteDeviceType", "RemotePciInfo", "RemotePciInfo_v2")
)
# Functions that are written out in the library, and may be refused too.
_WRITTEN_OUT: Final = (
    *("nvmlDeviceGetHandleByIndex", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByUUID"),
    *("nvmlDeviceGetHandleBySerial", "nvmlDeviceGetHandleByPciBusId", "nvmlDeviceGetHandleByPciBusId_v2"),
    *("nvmlDeviceGetIndex", "nvmlDeviceGetPciInfo", "nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo_v3"),
    *("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetUtilizationRates"),
    *(
        f"nvmlDeviceGet{kind}RunningProcesses{version}"
        for kind in ("Compute", "Graphics", "MPSCompute")
        for version in ("", "_v2", "_v3")
    ),
    *("nvmlDeviceGetTemperatureV", "nvmlDeviceGetFieldValues", RECOVERY_ACTION, "nvmlDeviceGetMemoryAffinity"),
    *("nvmlDeviceGetMigDeviceHandleByIndex", "nvmlDeviceIsMigDeviceHandle", "nvmlDeviceRegisterEvents"),
    *("nvmlDeviceGetTopologyCommonAncestor", "nvmlDeviceGetP2PStatus", *OF_NVLINKS),
)
# Functions that are about no card, and may be refused: the header keeps their codes.
SYSTEM_KEYS: Final = frozenset(
    {
        *("nvmlSystemGetNVMLVersion", "nvmlSystemGetCudaDriverVersion", "nvmlSystemGetCudaDriverVersion_v2"),
        *("nvmlSystemGetProcessName", "nvmlEventSetCreate"),
    }
)
_VERSION: Final = re.compile(r"_v\d+$")


# Key -> what it answers, of ``PLAIN`` and ``CHOSEN``.
ANSWERS: Final[Mapping[str, Answer]] = MappingProxyType(
    {
        **PLAIN,
        **{f"{function} {word}".strip(): answer for function, row in CHOSEN.items() for word, answer in row.values()},
    }
)
# Keys that cannot be answered if a recording lacks the value.
NEED_A_VALUE: Final = frozenset(
    {
        *ANSWERS,
        *("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryAffinity"),
        *(*OF_NVLINKS, RECOVERY_ACTION),
    }
)
# All keys, sorted: the place of a key here is its place in ``refused``.
KEYS: Final = tuple(sorted({*ANSWERS, *TEXTS, *_WRITTEN_OUT, *SYSTEM_KEYS}))
PLACES: Final[Mapping[str, int]] = MappingProxyType({key: place for place, key in enumerate(KEYS)})


def function_of(key: str) -> str:
    """The function that a key is of."""
    return key.partition(" ")[0]


GET_LIMITS: Final = "nvmlDeviceGetMemoryLimits_v1"
SET_LIMITS: Final = "nvmlDeviceSetMemoryLimits_v1"
# All functions that the library answers; those that no card refuses have no key.
FUNCTIONS: Final = frozenset(
    {
        *(function_of(key) for key in KEYS),
        *("nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown", "nvmlErrorString"),
        *("nvmlSystemGetDriverVersion", "nvmlDeviceGetCount", "nvmlDeviceGetCount_v2"),
        *("nvmlEventSetFree", "nvmlEventSetWait", "nvmlEventSetWait_v2"),
        *(GET_LIMITS, SET_LIMITS),
    }
)


def unversioned(key: str) -> str:
    """The name that stands for every version of a key's function."""
    return _VERSION.sub("", key)


def keys_of_field(field: str) -> list[str]:
    """The keys that answer a field."""
    tables = {key: (*answer.fields, *answer.idle) for key, answer in ANSWERS.items()} | _FIELDS
    return [key for key, fields in tables.items() if field in fields]
