"""Which fault of the state file a call meets; ``layout`` has the meaning of a row. Pure, so that both libraries can be held
against it.
"""

from __future__ import annotations

import re

from fake_nvml.core.layout import FAULTS, FOR_EVER, UNKNOWN32, Fault, StateFile

# The function that names the fault never has one.
NEVER_FAILS = "nvmlErrorString"
_VERSION = re.compile(r"_v\d+")


def in_force(fault: Fault) -> bool:
    """Whether a row holds a fault that still applies; a writer may take any other row."""
    return bool(fault.used == 1 and fault.count != 0)


def names(pattern: str, function: str) -> bool:
    """Whether a row's ``function`` means this C function: the same name, any version of it, or a beginning with ``*``."""
    if function == NEVER_FAILS:
        return False
    if pattern.endswith("*"):
        return function.startswith(pattern[:-1])
    rest = function.removeprefix(pattern) if function.startswith(pattern) else "?"
    return rest == "" or _VERSION.fullmatch(rest) is not None


def applies(fault: Fault, function: str, slot: int | None) -> bool:
    """Whether a row is in force for a call about the card in ``slot`` (None: about no card)."""
    if not in_force(fault) or fault.card not in (UNKNOWN32, slot):
        return False
    return names(fault.function.decode(errors="replace"), function)


def find(content: StateFile, function: str, slot: int | None) -> int | None:
    """The number of the first row that applies to a call."""
    return next((row for row in range(FAULTS) if applies(content.faults[row], function, slot)), None)


def wear(fault: Fault) -> None:
    """Count one call, in a writer: the last one ends the fault."""
    if fault.count == FOR_EVER:
        return
    fault.count -= 1
    if fault.count == 0:
        fault.used = 0
