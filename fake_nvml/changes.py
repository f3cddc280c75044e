"""The commands that change simulated cards, for the command line and for a scenario's steps.

Each answers the line that it prints.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from fake_nvml.core.call_faults import parse_code
from fake_nvml.core.card_state import CardState
from fake_nvml.fake_nvml_errors import StateError
from fake_nvml.state import State


def change(state: State, arguments: argparse.Namespace) -> str:
    """Do one parsed command. Raises FakeNvmlError, with nothing changed, if it makes no sense on these cards."""
    return CHANGES[arguments.command](state, arguments)


def find_card(state: State, card: str) -> CardState:
    """A card by its index or UUID. Raises StateError."""
    for known in state.cards():
        if card in (str(known.index), known.uuid):
            return known
    raise StateError(f"no card {card!r} in this box; fake-nvml show lists them")


def _set(state: State, arguments: argparse.Namespace) -> str:
    card = find_card(state, arguments.card)
    state.set_value(card.uuid, arguments.key, arguments.value)
    return f"card {card.index}: {arguments.key} is {arguments.value}"


def _process(state: State, arguments: argparse.Namespace) -> str:
    card, pid = find_card(state, arguments.card), arguments.pid
    if arguments.action == "add":
        state.add_process(card.uuid, pid, arguments.mib, arguments.name)
        return f"card {card.index}: process {pid} uses {arguments.mib} MiB"
    if not state.remove_process(card.uuid, pid):
        raise StateError(f"no process {pid} on card {arguments.card}; fake-nvml show lists them")
    return f"card {card.index}: process {pid} is gone"


def _xid(state: State, arguments: argparse.Namespace) -> str:
    card = find_card(state, arguments.card)
    state.post_xid(card.uuid, arguments.xid, lose=arguments.lose)
    return f"card {card.index}: Xid {arguments.xid} reported" + (", and lost" if arguments.lose else "")


def _lose(state: State, arguments: argparse.Namespace) -> str:
    card = find_card(state, arguments.card)
    state.lose(card.uuid)
    return f"card {card.index}: lost"


def _repair(state: State, arguments: argparse.Namespace) -> str:
    card = find_card(state, arguments.card)
    state.repair(card.uuid)
    return f"card {card.index}: repaired"


def _add(state: State, arguments: argparse.Namespace) -> str:
    uuid = state.add_card(arguments.model, uuid=arguments.uuid, numa=arguments.numa)
    return f"card {find_card(state, uuid).index}: added {uuid}"


def _remove(state: State, arguments: argparse.Namespace) -> str:
    card = find_card(state, arguments.card)
    state.remove_card(card.uuid)
    return f"card {card.index}: removed {card.uuid}"


def _swap(state: State, arguments: argparse.Namespace) -> str:
    card = find_card(state, arguments.card)
    new = state.change_uuid(card.uuid, arguments.uuid)
    return f"card {card.index}: {card.uuid} is now {new}"


def _slow(state: State, arguments: argparse.Namespace) -> str:
    _add_fault(state, arguments, 0)
    return f"{arguments.function}: slow by {arguments.seconds:g} s"


def _fail(state: State, arguments: argparse.Namespace) -> str:
    _add_fault(state, arguments, parse_code(arguments.code))
    return f"{arguments.function}: fails with {arguments.code}"


def _add_fault(state: State, arguments: argparse.Namespace, code: int) -> None:
    card = None if arguments.card is None else find_card(state, arguments.card).uuid
    state.add_fault(arguments.function, card=card, code=code, seconds=arguments.seconds, count=arguments.count)


def _faults_clear(state: State, _arguments: argparse.Namespace) -> str:
    return f"faults cleared: {state.clear_faults()}"


def _init_fails(state: State, arguments: argparse.Namespace) -> str:
    code = 0 if arguments.code.lower() == "none" else parse_code(arguments.code)
    state.set_init_return(code)
    return f"nvmlInit answers {arguments.code}" if code else "nvmlInit answers success"


def _reboot(state: State, arguments: argparse.Namespace) -> str:
    state.reboot(still_lost=arguments.still_lost)
    return "rebooted"


CHANGES: Final[Mapping[str, Callable[[State, argparse.Namespace], str]]] = MappingProxyType(
    {
        "set": _set,
        "process": _process,
        "xid": _xid,
        "lose": _lose,
        "repair": _repair,
        "add": _add,
        "remove": _remove,
        "swap": _swap,
        "slow": _slow,
        "fail": _fail,
        "faults": _faults_clear,
        "init-fails": _init_fails,
        "reboot": _reboot,
    }
)
