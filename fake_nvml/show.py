"""The output of ``fake-nvml show``: a table for people, or JSON or YAML."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn, TextIO

import yaml

from fake_nvml.core.call_faults import CallFault, call_faults
from fake_nvml.core.card_state import CardState, card_states
from fake_nvml.core.card_table import table
from fake_nvml.core.layout import StateFile
from fake_nvml.core.returns import code_name
from fake_nvml.state import State

FORMATS = ("table", "json", "yaml")
# Between two looks for a change, and the longest without printing, in seconds.
_LOOK_SECONDS = 0.1
_REDRAW_SECONDS = 1.0
# On a terminal: the cursor to the first place, and nothing below it.
_CLEAR = "\x1b[H\x1b[J"


def watch(
    state: State, output: str, out: TextIO, *, monotonic: Callable[[], float], sleep: Callable[[float], None]
) -> NoReturn:
    """Print the cards on each change and each second; a terminal shows the last only. Ends by KeyboardInterrupt."""
    while True:
        printed = monotonic()
        content = state.read()
        page = render(output, content)
        out.write(_CLEAR + page if out.isatty() else page)
        out.flush()
        while monotonic() - printed < _REDRAW_SECONDS and state.read().header.sequence == content.header.sequence:
            sleep(_LOOK_SECONDS)


def render(output: str, content: StateFile) -> str:
    """The state in the format ``output``: table, json or yaml."""
    data, header = as_data(content), content.header
    if output == "table":
        return table(data["driver"], data["cuda"], card_states(content), call_faults(content), header.init_return)
    return json.dumps(data, indent=2) + "\n" if output == "json" else yaml.safe_dump(data, sort_keys=False)


def as_data(content: StateFile) -> dict[str, Any]:
    """The state as JSON's types; memory in MiB, power in watts, temperature in degrees Celsius."""
    header = content.header
    return {
        "simulated": True,
        "driver": header.driver.decode(errors="replace"),
        "cuda": f"{header.cuda // 1000}.{header.cuda % 1000 // 10}",
        "cards": [_card(card) for card in card_states(content)],
        "init_fails": code_name(header.init_return) if header.init_return else None,
        "faults": [_fault(fault) for fault in call_faults(content)],
    }


def _fault(fault: CallFault) -> dict[str, Any]:
    """``card`` null: any, ``code`` null: slow only, ``count`` null: for ever."""
    return {
        "function": fault.function,
        "card": fault.card,
        "code": code_name(fault.code) if fault.code else None,
        "seconds": fault.seconds,
        "count": fault.count,
    }


def _card(card: CardState) -> dict[str, Any]:
    memory = {"total_mib": card.total_mib, "used_mib": card.used_mib, "reserved_mib": card.reserved_mib}
    ecc = {"on": card.ecc, "corrected": card.ecc_corrected, "uncorrected": card.ecc_uncorrected}
    return {
        "index": card.index,
        "uuid": card.uuid,
        "name": card.name,
        "serial": card.serial,
        "memory": memory,
        "processes": [{"pid": row.pid, "name": row.name, "mib": row.mib} for row in card.processes],
        "utilization": card.utilization,
        "temperature": card.temperature,
        "power": {"watts": card.power_watts, "limit_watts": card.power_limit_watts},
        "numa": card.numa,
        "mig": card.mig,
        "lost": card.lost,
        "bus_id": card.bus_id,
        "ecc": None if card.ecc is None else ecc,
        "recovery_action": card.recovery_action,
        "fan": card.fan,
        "compute_mode": card.compute_mode,
        "refused": dict(card.refused),
    }
