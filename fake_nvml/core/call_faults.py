"""Faults of calls: rows that make a function of the library slow, or fail (``layout``, Faults, has the meaning of a row)."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from fake_nvml.core.faults import in_force, names
from fake_nvml.core.layout import FAULTS, FOR_EVER, UNKNOWN32, Fault, StateFile
from fake_nvml.core.records import slot_of
from fake_nvml.core.returns import CODES, SUCCESS
from fake_nvml.fake_nvml_errors import StateError

# As long as a row has room for, with the NUL.
_PATTERN = re.compile(r"(nvml[0-9A-Za-z_]{0,58}\*?|\*)")
_MOST_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class CallFault:
    """One fault in force. ``card`` None: any; ``code`` 0: the call goes on after the delay; ``count`` None: for ever."""

    function: str
    card: str | None
    code: int
    seconds: float
    count: int | None


def parse_code(text: str) -> int:
    """A return code by number or name. Raises StateError with the names."""
    if text.isascii() and text.isdigit() and 0 < int(text) < 2**31:
        return int(text)
    name = text.upper().replace("-", "_").removeprefix("NVML_").removeprefix("ERROR_")
    code = CODES.get(name, SUCCESS)
    if code == SUCCESS:
        raise StateError(f"no return code {text!r}; a number from 1 on, or one of {', '.join([*CODES][1:])}")
    return code


def add_fault(content: StateFile, fault: CallFault) -> None:
    """Put a fault in force, in a writer; one of the same function and card is replaced.

    Raises StateError, before any change, for an unknown function or card, nonsensical numbers, and a full table.
    """
    _check(fault)
    slot = UNKNOWN32 if fault.card is None else slot_of(content, fault.card)
    row = _row_for(content, fault.function.encode(), slot)
    row.used = 0
    row.function, row.card, row.code = fault.function.encode(), slot, fault.code
    row.delay = round(fault.seconds * 1_000_000)
    row.count = FOR_EVER if fault.count is None else fault.count
    row.used = 1


def call_faults(content: StateFile) -> list[CallFault]:
    """All faults in force; if two apply to a call, the first one happens."""
    return [_fault(content, row) for row in content.faults if in_force(row)]


def clear_faults(content: StateFile) -> int:
    """No call is slow or fails any more, in a writer; answers how many faults there were."""
    cleared = 0
    for row in content.faults:
        cleared += in_force(row)
        row.used = 0
    return cleared


def _check(fault: CallFault) -> None:
    check_function(fault.function)
    if not 0 <= fault.seconds <= _MOST_SECONDS:
        raise StateError(f"a call is slow by 0 to {_MOST_SECONDS} seconds, not {fault.seconds:g}")
    if fault.count is not None and not 0 < fault.count < FOR_EVER:
        raise StateError(f"a fault happens 1 to {FOR_EVER - 1} times, not {fault.count}; without a count for ever")
    if not 0 <= fault.code < 2**31:
        raise StateError(f"return codes are numbers from 1 on, not {fault.code}")
    if fault.code == 0 and fault.seconds == 0:
        raise StateError("a fault needs a return code or a delay")


def check_function(pattern: str) -> None:
    """Raise StateError if a fault's function names none that a library answers, so that a typo shows."""
    from fake_nvml.calls import CALLS  # at the end of a chain that begins at the library

    if not _PATTERN.fullmatch(pattern):
        raise StateError(
            f"{pattern!r} is no function; write C's name, as nvmlDeviceGetMemoryInfo, or a beginning and *"
        )
    if any(names(pattern, function) for function in CALLS):
        return
    close = difflib.get_close_matches(pattern, CALLS, n=3)
    hint = f"; is it {' or '.join(close)}?" if close else ""
    raise StateError(f"no function {pattern!r} that cards answer{hint}")


def _row_for(content: StateFile, function: bytes, slot: int) -> Fault:
    row: Fault
    for row in content.faults:
        if in_force(row) and row.function == function and row.card == slot:
            return row
    for row in content.faults:
        if not in_force(row):
            return row
    raise StateError(f"no room for another fault: {FAULTS} are there; fake-nvml faults clear")


def _fault(content: StateFile, row: Fault) -> CallFault:
    card = None if row.card == UNKNOWN32 else content.cards[row.card].uuid.decode(errors="replace")
    count = None if row.count == FOR_EVER else row.count
    return CallFault(row.function.decode(errors="replace"), card, row.code, row.delay / 1_000_000, count)
