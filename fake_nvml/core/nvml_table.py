"""The cards and their processes in the shape that readers of nvidia-smi know, and marked as simulated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fake_nvml.core.call_faults import CallFault
from fake_nvml.core.card_state import CardState, ProcessState
from fake_nvml.core.returns import code_name

_WIDE = 88
# The three cells of a card.
_WIDTHS = (42, 22, 22)
_RULE = "+" + "-" * _WIDE + "+"
_NOT_THERE = "N/A"
# As nvidia-smi shortens them.
_COMPUTE_MODES = ("Default", "E. Thread", "Prohibited", "E. Process")

_CARD_HEADER = (
    (" GPU  Name                  Persistence-M ", " Bus-Id        Disp.A ", " Volatile Uncorr. ECC "),
    (" Fan  Temp   Perf           Pwr:Usage/Cap ", "         Memory-Usage ", " GPU-Util  Compute M. "),
    (" UUID", "", "               MIG M. "),
)
_PROCESS_HEADER = (
    " Processes:",
    "  GPU   GI   CI        PID   Type   Process name                             GPU Memory ",
    "        ID   ID                                                              Usage      ",
)


def table(
    driver: str, cuda: str, cards: Sequence[CardState], faults: Sequence[CallFault] = (), init_return: int = 0
) -> str:
    """The whole page; what is wrong with the library itself stands at its end."""
    lines = [
        _RULE,
        _wide(f" FAKE-NVML (simulated)       Driver Version: {driver:<14}   CUDA Version: {cuda}"),
        _cells("-", "+", edge="|"),
        *(_row(row) for row in _CARD_HEADER),
        _cells("=", "+", edge="|"),
    ]
    for card in cards:
        lines += [*(_row(row) for row in _card(card)), _cells("-", "+")]
    if not cards:
        lines += [_wide("  No cards"), _RULE]
    lines += ["", _RULE, *map(_wide, _PROCESS_HEADER), "|" + "=" * _WIDE + "|"]
    rows = [_process(card, process) for card in cards for process in card.processes]
    lines += [*map(_wide, rows or ["  No running processes found"]), _RULE, *_trouble(faults, init_return)]
    return "\n".join(lines) + "\n"


def _card(card: CardState) -> tuple[tuple[str, str, str], ...]:
    mig = ("Enabled" if card.mig else "Disabled") if card.can_mig else _NOT_THERE
    ecc = _NOT_THERE if card.ecc is None else str(card.ecc_uncorrected) if card.ecc else "Off"
    first = f" {card.index:>3}  {card.name:<31.31} {'On ' if card.persistence else 'Off'} "
    bus = f" {card.bus_id:>16} Off "
    last = f" {card.uuid}"
    if card.lost:
        lost = (" ERR!  ERR!  ERR!            ERR! /  ERR! ", f"{'GPU is lost':>21} ", f" {'ERR!':>7}  {'ERR!':>11} ")
        return (first, bus, f" {'ERR!':>20} "), lost, (last, "", f" {'ERR!':>20} ")
    power = f"{_watts(card.power_watts)} / {_watts(card.power_limit_watts):>4}"
    degrees = _NOT_THERE if card.temperature is None else f"{card.temperature}C"
    performance = _NOT_THERE if card.performance_state is None else f"P{card.performance_state}"
    fan = _NOT_THERE if card.fan is None else f"{card.fan}%"
    sensors = f" {fan:<4} {degrees:>4}    {performance:<3}{power:>24} "
    used = f"{card.used_mib}MiB / {card.total_mib}MiB" if card.total_mib else "Not Supported"
    memory = f"{used:>21} "
    mode = _NOT_THERE if card.compute_mode is None else dict(enumerate(_COMPUTE_MODES)).get(card.compute_mode, "?")
    load = f" {f'{card.utilization}%':>7}  {mode:>11} "
    return (first, bus, f" {ecc:>20} "), (sensors, memory, load), (last, "", f" {mig:>20} ")


def _watts(watts: float | None) -> str:
    return _NOT_THERE if watts is None else f"{watts:.0f}W"


def _process(card: CardState, process: ProcessState) -> str:
    memory = _NOT_THERE if process.mib is None else f"{process.mib}MiB"
    # A name may hold anything; a line of the table may not.
    name = "".join(character if character.isprintable() else "?" for character in process.name)
    return f"  {card.index:>3}   N/A  N/A {process.pid:>9}      C   {name:<40.40} {memory:>10} "


def _trouble(faults: Sequence[CallFault], init_return: int) -> Iterator[str]:
    if init_return:
        yield f"nvmlInit answers {code_name(init_return)}"
    if faults:
        yield f"faults of calls in force: {len(faults)}; fake-nvml faults lists them"


def _cells(line: str, joint: str, *, edge: str = "+") -> str:
    return edge + joint.join(line * width for width in _WIDTHS) + edge


def _row(cells: Sequence[str]) -> str:
    return "|" + "|".join(f"{cell:<{width}.{width}}" for cell, width in zip(cells, _WIDTHS, strict=True)) + "|"


def _wide(text: str) -> str:
    return f"|{text:<{_WIDE}.{_WIDE}}|"
