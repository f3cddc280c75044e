"""The output of ``fake-nvml show``: the cards as a table for people, or as JSON or YAML."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from fake_nvml.core.call_faults import CallFault, call_faults
from fake_nvml.core.card_state import CardState, ProcessState, card_states
from fake_nvml.core.layout import StateFile
from fake_nvml.core.nvml_table import table
from fake_nvml.core.returns import code_name

FORMATS = ("table", "json", "yaml")


def render(output: str, content: StateFile) -> str:
    """The state in the format ``output``: table, json or yaml."""
    if output == "json":
        return json.dumps(as_data(content), indent=2) + "\n"
    if output == "yaml":
        return yaml.safe_dump(as_data(content), sort_keys=False)
    header = content.header
    faults = call_faults(content)
    return table(
        header.driver.decode(errors="replace"), _cuda(header.cuda), card_states(content), faults, header.init_return
    )


def as_data(content: StateFile) -> dict[str, Any]:
    """The state as JSON's types; memory in MiB, power in watts, temperature in degrees Celsius."""
    header = content.header
    return {
        "simulated": True,
        "driver": header.driver.decode(errors="replace"),
        "cuda": _cuda(header.cuda),
        "cards": [_card(card) for card in card_states(content)],
        "init_fails": code_name(header.init_return) if header.init_return else None,
        "faults": [fault_data(fault) for fault in call_faults(content)],
    }


def render_faults(output: str, faults: Sequence[CallFault]) -> str:
    """The faults of calls in the format ``output``; if two apply to a call, the first in the list happens."""
    data = [fault_data(fault) for fault in faults]
    if output == "json":
        return json.dumps(data, indent=2) + "\n"
    if output == "yaml":
        return yaml.safe_dump(data, sort_keys=False)
    if not faults:
        return "no faults of calls\n"
    rows = [("FUNCTION", "CARD", "ANSWERS", "AFTER", "CALLS LEFT"), *map(_fault_row, data)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join("  ".join(map(str.ljust, row, widths)).rstrip() + "\n" for row in rows)


def _fault_row(fault: Mapping[str, Any]) -> tuple[str, ...]:
    card, answers = fault["card"] or "any", fault["code"] or "as usual"
    left = "all" if fault["count"] is None else str(fault["count"])
    return fault["function"], card, answers, f"{fault['seconds']:g}s", left


def fault_data(fault: CallFault) -> dict[str, Any]:
    """One fault of calls as JSON's types; ``card`` null: any, ``code`` null: slow only, ``count`` null: for ever."""
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
        "processes": [_process(process) for process in card.processes],
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


def _process(process: ProcessState) -> dict[str, Any]:
    return {"pid": process.pid, "name": process.name, "mib": process.mib}


def _cuda(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"
