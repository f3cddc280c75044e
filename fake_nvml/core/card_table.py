"""The cards, their processes and the faults of their calls, marked as simulated: as a page for people, or as data for programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from fake_nvml.core.call_faults import CallFault, call_faults
from fake_nvml.core.card_state import CardState, card_states
from fake_nvml.core.layout import StateFile, as_text
from fake_nvml.core.limits import MemoryLimit, backend, memory_limits, shown_size
from fake_nvml.core.records import missing_files
from fake_nvml.core.returns import code_name
from fake_nvml.core.values import COMPUTE_MODES

FORMATS = ("table", "json")
_UNKNOWN = "-"
_CARDS = ("CARD", "NAME", "UUID", "MEMORY MIB", "LOAD", "TEMP", "POWER", "NOTES")
_PROCESSES = ("CARD", "PID", "MIB", "PROCESS")
_LIMITS = ("CARD", "SOFT", "HARD", "USED", "CGROUP")
_FAULTS = ("FUNCTION", "CARD", "ANSWERS", "AFTER", "CALLS LEFT")


def render(output: str, content: StateFile) -> str:
    """The state in the format ``output``: table or json."""
    data, header = as_data(content), content.header
    if output == "table":
        page = _table(data["driver"], data["cuda"], card_states(content), call_faults(content), header.init_return)
        limits = memory_limits(content)
        page += f"\n{limit_table(limits)}" if limits else ""
        return page + "".join(f"\ncontainers have no /dev/{name}\n" for name in data["missing_device_files"])
    return json.dumps(data, indent=2) + "\n"


def as_data(content: StateFile) -> dict[str, Any]:
    """The state as JSON's types; memory in MiB, power in watts, temperature in degrees Celsius."""
    header = content.header
    return {
        "simulated": True,
        "driver": as_text(header.driver),
        "cuda": f"{header.cuda // 1000}.{header.cuda % 1000 // 10}",
        "cards": [_card_data(card) for card in card_states(content)],
        "init_fails": code_name(header.init_return) if header.init_return else None,
        "missing_device_files": missing_files(content),
        "limits_backend": backend(content),
        "memory_limits": [_limit_data(limit) for limit in memory_limits(content)],
        "faults": [_fault_data(fault) for fault in call_faults(content)],
    }


def _table(driver: str, cuda: str, cards: Sequence[CardState], faults: Sequence[CallFault], init_return: int) -> str:
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


def _limit_data(limit: MemoryLimit) -> dict[str, Any]:
    """``hard_bytes`` null: none."""
    data = asdict(limit)
    sizes = {f"{name}_bytes": data.pop(name) for name in ("soft", "hard", "used")}
    return {**data, **sizes}


def _fault_data(fault: CallFault) -> dict[str, Any]:
    """``card`` null: any, ``code`` null: slow only, ``count`` null: for ever."""
    return {**asdict(fault), "code": code_name(fault.code) if fault.code else None}


def _card_data(card: CardState) -> dict[str, Any]:
    data = asdict(card)
    memory = {name: data.pop(name) for name in ("total_mib", "used_mib", "reserved_mib")}
    power = {"watts": data.pop("power_watts"), "limit_watts": data.pop("power_limit_watts")}
    ecc = {"on": data.pop("ecc"), "corrected": data.pop("ecc_corrected"), "uncorrected": data.pop("ecc_uncorrected")}
    parts = {"memory": memory, "power": power, "ecc": None if card.ecc is None else ecc}
    return {**data, "processes": list(data["processes"]), **parts}
