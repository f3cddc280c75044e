"""The cards, their processes and the faults of their calls as a page for people, marked as simulated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fake_nvml.core.call_faults import CallFault
from fake_nvml.core.card_state import CardState
from fake_nvml.core.limits import MemoryLimit, shown_size
from fake_nvml.core.returns import code_name
from fake_nvml.core.values import COMPUTE_MODES

_UNKNOWN = "-"
_CARDS = ("CARD", "NAME", "UUID", "MEMORY MIB", "LOAD", "TEMP", "POWER", "NOTES")
_PROCESSES = ("CARD", "PID", "MIB", "PROCESS")
_LIMITS = ("CARD", "SOFT", "HARD", "USED", "CGROUP")
_FAULTS = ("FUNCTION", "CARD", "ANSWERS", "AFTER", "CALLS LEFT")


def table(driver: str, cuda: str, cards: Sequence[CardState], faults: Sequence[CallFault], init_return: int) -> str:
    """The whole page; what is wrong with the library itself stands at its end."""
    page = f"{len(cards)} simulated cards, driver {driver}, CUDA {cuda}\n\n" + _columns(_CARDS, map(_card, cards))
    processes = [
        (str(card.index), str(row.pid), _shown(row.mib), _printable(row.name))
        for card in cards
        for row in card.processes
    ]
    if processes:
        page += "\n" + _columns(_PROCESSES, processes)
    if init_return:
        page += f"\nnvmlInit answers {code_name(init_return)}\n"
    if faults:
        page += f"\nfaults of calls in force: {len(faults)}; fake-nvml faults lists them\n"
    return page


def fault_table(faults: Sequence[CallFault]) -> str:
    """The faults of calls, the first to happen first."""
    return _columns(_FAULTS, map(_fault, faults)) if faults else "no faults of calls\n"


def limit_table(limits: Sequence[MemoryLimit]) -> str:
    """The limits of memory, by card."""
    return _columns(_LIMITS, map(_limit, limits)) if limits else "no limits of memory\n"


def _columns(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows below their head, each column as wide as its longest text."""
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join("  ".join(map(str.ljust, line, widths)).rstrip() + "\n" for line in lines)


def _card(card: CardState) -> tuple[str, ...]:
    names = (str(card.index), _printable(card.name), _printable(card.uuid))
    if card.lost:
        return (*names, *[_UNKNOWN] * 4, "lost")
    memory = f"{card.used_mib} / {card.total_mib or _UNKNOWN}"
    power = f"{_shown(card.power_watts)} / {_shown(card.power_limit_watts, ' W')}"
    sensors = (f"{card.utilization}%", _shown(card.temperature, " C"), power)
    return (*names, memory, *sensors, ", ".join(_notes(card)))


def _notes(card: CardState) -> Iterator[str]:
    """The states of a card that are not usual."""
    if card.ecc is False:
        yield "ECC off"
    if card.ecc_uncorrected:
        yield f"{card.ecc_uncorrected} uncorrected errors"
    if card.recovery_action:
        yield f"recovery action {card.recovery_action}"
    if card.mig:
        yield "MIG on"
    yield from (mode for mode, number in COMPUTE_MODES.items() if number and number == card.compute_mode)


def _fault(fault: CallFault) -> tuple[str, ...]:
    answers = code_name(fault.code) if fault.code else "as usual"
    left = "all" if fault.count is None else str(fault.count)
    return fault.function, fault.card or "any", answers, f"{fault.seconds:g}s", left


def _limit(limit: MemoryLimit) -> tuple[str, ...]:
    sizes = (shown_size(limit.soft), shown_size(limit.hard), shown_size(limit.used))
    return limit.card, *sizes, _printable(limit.path) or f"inode {limit.cgroup}"


def _shown(number: float | None, unit: str = "") -> str:
    return _UNKNOWN if number is None else f"{number:.0f}{unit}"


def _printable(text: str) -> str:
    """A driver's or a program's text may hold anything; a line of a table may not."""
    return "".join(character if character.isprintable() else "?" for character in text)
