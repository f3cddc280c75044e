"""Faults of calls: rows that make a function of the library slow, or fail (``layout``, Faults, has the meaning of a row)."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from fake_nvml.core.answers import FUNCTIONS, SET_LIMITS, unversioned
from fake_nvml.core.layout import FAULTS, FOR_EVER, UNKNOWN32, Fault, StateFile, as_text
from fake_nvml.core.records import slot_of
from fake_nvml.core.returns import CODES, DOES_NOTHING
from fake_nvml.fake_nvml_errors import StateError

# The function that names the fault never has one.
_NEVER_FAILS = "nvmlErrorString"
_VERSION = re.compile(r"_v\d+")
# As long as a row has room for, with the NUL.
_PATTERN = re.compile(r"(nvml[0-9A-Za-z_]{0,58}\*?|\*)")
_MOST_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class CallFault:
    """One fault in force. ``card`` None: any; ``count`` None: for ever.

    ``code`` 0: the call goes on after the delay; DOES_NOTHING: it is a success that keeps nothing.
    """

    function: str
    card: str | None
    code: int
    seconds: float
    count: int | None


def parse_code(text: str) -> int:
    """A return code by number or name, DOES_NOTHING for SUCCESS. Raises StateError with the names."""
    if text.isascii() and text.isdigit() and 0 < int(text) < 2**31:
        return int(text)
    name = text.upper().replace("-", "_").removeprefix("NVML_").removeprefix("ERROR_")
    if name not in CODES:
        raise StateError(f"no return code {text!r}; a number from 1 on, or one of {', '.join([*CODES][1:])}")
    return CODES[name] or DOES_NOTHING


def add_fault(content: StateFile, fault: CallFault) -> None:
    """Put a fault in force, in a writer; one of the same function and card is replaced.

    Raises StateError, before any change, for an unknown function or card, nonsensical numbers, and a full table.
    """
    _check_function(fault.function)
    if not 0 <= fault.seconds <= _MOST_SECONDS:
        raise StateError(f"a call is slow by 0 to {_MOST_SECONDS} seconds, not {fault.seconds:g}")
    if fault.count is not None and not 0 < fault.count < FOR_EVER:
        raise StateError(f"a fault happens 1 to {FOR_EVER - 1} times, not {fault.count}; without a count for ever")
    if not 0 <= fault.code < 2**31:
        raise StateError(f"return codes are numbers from 1 on, not {fault.code}")
    if fault.code == 0 and fault.seconds == 0:
        raise StateError("a fault needs a return code or a delay")
    if fault.code == DOES_NOTHING and fault.function not in (SET_LIMITS, unversioned(SET_LIMITS)):
        raise StateError(f"SUCCESS without a change is a fault of {SET_LIMITS} alone, not of {fault.function}")
    slot = UNKNOWN32 if fault.card is None else slot_of(content, fault.card)
    row = _row_for(content, fault.function.encode(), slot)
    row.used = 0
    row.function, row.card, row.code = fault.function.encode(), slot, fault.code
    row.delay = round(fault.seconds * 1_000_000)
    row.count = FOR_EVER if fault.count is None else fault.count
    row.used = 1


def call_faults(content: StateFile) -> list[CallFault]:
    """All faults in force; if two apply to a call, the first one happens."""
    return [_fault(content, row) for row in content.faults if _in_force(row)]


def clear_faults(content: StateFile) -> int:
    """No call is slow or fails any more, in a writer; answers how many faults there were."""
    cleared = 0
    for row in content.faults:
        cleared += _in_force(row)
        row.used = 0
    return cleared


def _in_force(fault: Fault) -> bool:
    """Whether a row holds a fault that still applies; a writer may take any other row."""
    return bool(fault.used == 1 and fault.count != 0)


def _names(pattern: str, function: str) -> bool:
    """Whether a row's ``function`` means this C function: the same name, any version of it, or a beginning with ``*``."""
    if function == _NEVER_FAILS:
        return False
    if pattern.endswith("*"):
        return function.startswith(pattern[:-1])
    return function == pattern or (function.startswith(pattern) and bool(_VERSION.fullmatch(function[len(pattern) :])))


def _check_function(pattern: str) -> None:
    """Raise StateError if a fault's function names none that the library answers, so that a typo shows."""
    if not _PATTERN.fullmatch(pattern):
        raise StateError(
            f"{pattern!r} is no function; write C's name, as nvmlDeviceGetMemoryInfo, or a beginning and *"
        )
    if not any(_names(pattern, function) for function in FUNCTIONS):
        close = difflib.get_close_matches(pattern, FUNCTIONS)
        hint = f"; is it {' or '.join(close)}?" if close else ""
        raise StateError(f"no function {pattern!r} that cards answer{hint}")


def _row_for(content: StateFile, function: bytes, slot: int) -> Fault:
    """The row of the same function and card, else the first that is free."""
    used = (row for row in content.faults if _in_force(row) and row.function == function and row.card == slot)
    free = (row for row in content.faults if not _in_force(row))
    row: Fault | None = next(used, None) or next(free, None)
    if row is None:
        raise StateError(f"no room for another fault: {FAULTS} are there; fake-nvml faults clear")
    return row


def _fault(content: StateFile, row: Fault) -> CallFault:
    card = None if row.card == UNKNOWN32 else as_text(content.cards[row.card].uuid)
    count = None if row.count == FOR_EVER else row.count
    return CallFault(as_text(row.function), card, row.code, row.delay / 1_000_000, count)
