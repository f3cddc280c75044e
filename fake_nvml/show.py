"""The output of ``fake-nvml show``: a table for people, or JSON or YAML."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NoReturn, TextIO

import yaml

from fake_nvml.core.call_faults import CallFault, call_faults
from fake_nvml.core.card_state import CardState, card_states
from fake_nvml.core.card_table import limit_table, table
from fake_nvml.core.layout import StateFile, as_text
from fake_nvml.core.limits import MemoryLimit, backend, memory_limits
from fake_nvml.core.records import missing_files
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
        page = table(data["driver"], data["cuda"], card_states(content), call_faults(content), header.init_return)
        limits = memory_limits(content)
        page += f"\n{limit_table(limits)}" if limits else ""
        return page + "".join(f"\ncontainers have no /dev/{name}\n" for name in data["missing_device_files"])
    return json.dumps(data, indent=2) + "\n" if output == "json" else yaml.safe_dump(data, sort_keys=False)


def as_data(content: StateFile) -> dict[str, Any]:
    """The state as JSON's types; memory in MiB, power in watts, temperature in degrees Celsius."""
    header = content.header
    return {
        "simulated": True,
        "driver": as_text(header.driver),
        "cuda": f"{header.cuda // 1000}.{header.cuda % 1000 // 10}",
        "cards": [_card(card) for card in card_states(content)],
        "init_fails": code_name(header.init_return) if header.init_return else None,
        "missing_device_files": missing_files(content),
        "limits_backend": backend(content),
        "memory_limits": [_limit(limit) for limit in memory_limits(content)],
        "faults": [_fault(fault) for fault in call_faults(content)],
    }


def _limit(limit: MemoryLimit) -> dict[str, Any]:
    """``hard_bytes`` null: none."""
    data = asdict(limit)
    sizes = {f"{name}_bytes": data.pop(name) for name in ("soft", "hard", "used")}
    return {**data, **sizes}


def _fault(fault: CallFault) -> dict[str, Any]:
    """``card`` null: any, ``code`` null: slow only, ``count`` null: for ever."""
    return {**asdict(fault), "code": code_name(fault.code) if fault.code else None}


def _card(card: CardState) -> dict[str, Any]:
    data = asdict(card)
    memory = {name: data.pop(name) for name in ("total_mib", "used_mib", "reserved_mib")}
    power = {"watts": data.pop("power_watts"), "limit_watts": data.pop("power_limit_watts")}
    ecc = {"on": data.pop("ecc"), "corrected": data.pop("ecc_corrected"), "uncorrected": data.pop("ecc_uncorrected")}
    parts = {"memory": memory, "power": power, "ecc": None if card.ecc is None else ecc}
    return {**data, "processes": list(data["processes"]), **parts}
