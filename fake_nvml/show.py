"""What ``fake-nvml show`` prints: the cards as a table for people, or as JSON or YAML."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import yaml

from fake_nvml.state import CardState, ProcessState

_CARD_COLUMNS = ("INDEX", "NAME", "UUID", "MEMORY-USAGE", "UTIL", "TEMP", "POWER", "STATE")
_PROCESS_COLUMNS = ("INDEX", "PID", "NAME", "MEMORY")


def render(output: str, driver: str, cuda: int, cards: Sequence[CardState]) -> str:
    """The cards in the format ``output``: table, json or yaml."""
    if output == "json":
        return json.dumps(as_data(driver, cuda, cards), indent=2) + "\n"
    if output == "yaml":
        return yaml.safe_dump(as_data(driver, cuda, cards), sort_keys=False)
    return _tables(driver, cuda, cards)


def as_data(driver: str, cuda: int, cards: Sequence[CardState]) -> dict[str, Any]:
    """The cards as JSON's types; memory in MiB, power in watts, temperature in degrees Celsius."""
    return {"simulated": True, "driver": driver, "cuda": _cuda(cuda), "cards": [_card(card) for card in cards]}


def _card(card: CardState) -> dict[str, Any]:
    memory = {"total_mib": card.total_mib, "used_mib": card.used_mib, "reserved_mib": card.reserved_mib}
    return {
        "index": card.index,
        "uuid": card.uuid,
        "name": card.name,
        "serial": card.serial,
        "memory": memory,
        "processes": [_process(process) for process in card.processes],
        "utilization": card.utilization,
        "temperature": card.temperature,
        "power": {"watts": card.power_watts, "limit_watts": card.power_limit_watts},
        "numa": card.numa,
        "mig": card.mig,
        "lost": card.lost,
    }


def _process(process: ProcessState) -> dict[str, Any]:
    return {"pid": process.pid, "name": process.name, "mib": process.mib}


def _tables(driver: str, cuda: int, cards: Sequence[CardState]) -> str:
    lines = [f"simulated cards  driver {driver}  CUDA {_cuda(cuda)}", ""]
    lines += _columns([_CARD_COLUMNS, *map(_card_row, cards)])
    rows = [_process_row(card, process) for card in cards for process in card.processes]
    lines += ["", *(_columns([_PROCESS_COLUMNS, *rows]) if rows else ["no processes"])]
    return "\n".join(lines) + "\n"


def _card_row(card: CardState) -> tuple[str, ...]:
    state = "lost" if card.lost else "MIG" if card.mig else "ok"
    return (
        str(card.index),
        card.name,
        card.uuid,
        f"{card.used_mib}MiB / {card.total_mib}MiB",
        f"{card.utilization}%",
        f"{card.temperature}C",
        f"{card.power_watts:.0f}W / {card.power_limit_watts:.0f}W",
        state,
    )


def _process_row(card: CardState, process: ProcessState) -> tuple[str, ...]:
    return str(card.index), str(process.pid), process.name, "N/A" if process.mib is None else f"{process.mib}MiB"


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _cuda(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"
