"""The commands that change simulated cards, for the command line and for a scenario's steps.

Each answers the line that it prints; one that is about a card gets the card's UUID, and its line begins with the card.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from fake_nvml.core.call_faults import parse_code
from fake_nvml.core.card_state import CardState
from fake_nvml.core.limits import parse_size
from fake_nvml.fake_nvml_errors import StateError
from fake_nvml.state import State


def change(state: State, arguments: argparse.Namespace) -> str:
    """Do one parsed command. Raises FakeNvmlError, with nothing changed, if it makes no sense on these cards."""
    of_card = _OF_A_CARD.get(arguments.command)
    if of_card is None:
        return _OF_THE_NODE[arguments.command](state, arguments)
    card = _find_card(state, arguments.card)
    return f"card {card.index}: {of_card(state, card.uuid, arguments)}"


def _find_card(state: State, card: str) -> CardState:
    """A card by its index or UUID. Raises StateError."""
    for known in state.cards():
        if card in (str(known.index), known.uuid):
            return known
    raise StateError(f"no card {card!r} in this box; fake-nvml show lists them")


def _set(state: State, uuid: str, arguments: argparse.Namespace) -> str:
    state.set_value(uuid, arguments.key, arguments.value)
    return f"{arguments.key} is {arguments.value}"


def _process(state: State, uuid: str, arguments: argparse.Namespace) -> str:
    pid = arguments.pid
    if arguments.action == "add":
        state.add_process(uuid, pid, arguments.mib, arguments.name)
        return f"process {pid} uses {arguments.mib} MiB"
    if not state.remove_process(uuid, pid):
        raise StateError(f"no process {pid} on card {arguments.card}; fake-nvml show lists them")
    return f"process {pid} is gone"


def _xid(state: State, uuid: str, arguments: argparse.Namespace) -> str:
    state.post_xid(uuid, arguments.xid, lose=arguments.lose)
    return f"Xid {arguments.xid} reported" + (", and lost" if arguments.lose else "")


def _lose(state: State, uuid: str, _: argparse.Namespace) -> str:
    state.lose(uuid)
    return "lost"


def _repair(state: State, uuid: str, _: argparse.Namespace) -> str:
    state.repair(uuid)
    return "repaired"


def _remove(state: State, uuid: str, _: argparse.Namespace) -> str:
    state.remove_card(uuid)
    return f"removed {uuid}"


def _swap(state: State, uuid: str, arguments: argparse.Namespace) -> str:
    return f"{uuid} is now {state.change_uuid(uuid, arguments.uuid)}"


def _add(state: State, arguments: argparse.Namespace) -> str:
    uuid = state.add_card(arguments.model, uuid=arguments.uuid, numa=arguments.numa)
    return f"card {_find_card(state, uuid).index}: added {uuid}"


def _fault(state: State, arguments: argparse.Namespace) -> str:
    fails = arguments.command == "fail"
    card = None if arguments.card is None else _find_card(state, arguments.card).uuid
    code, seconds = parse_code(arguments.code) if fails else 0, arguments.seconds
    state.add_fault(arguments.function, card=card, code=code, seconds=seconds, count=arguments.count)
    return f"{arguments.function}: " + (f"fails with {arguments.code}" if fails else f"slow by {seconds:g} s")


def _faults_clear(state: State, _: argparse.Namespace) -> str:
    return f"faults cleared: {state.clear_faults()}"


def _limits(state: State, arguments: argparse.Namespace) -> str:
    if arguments.action == "clear":
        return f"limits cleared: {state.clear_limits(dead=arguments.dead)}"
    card, soft, hard = _find_card(state, arguments.card), parse_size(arguments.soft), parse_size(arguments.hard)
    if soft is None:
        raise StateError("a soft limit is an amount; 0 for none")
    state.set_limit(card.uuid, Path(arguments.cgroup), soft, hard)
    return f"card {card.index}: {arguments.cgroup} is limited to {arguments.hard}"


def _init_fails(state: State, arguments: argparse.Namespace) -> str:
    code = 0 if arguments.code.lower() == "none" else parse_code(arguments.code)
    state.set_init_return(code)
    return f"nvmlInit answers {arguments.code}" if code else "nvmlInit answers success"


def _device_file(state: State, arguments: argparse.Namespace) -> str:
    state.set_device_file(arguments.file, missing=arguments.presence == "missing")
    return f"/dev/{arguments.file} is {arguments.presence} in containers"


def _reboot(state: State, arguments: argparse.Namespace) -> str:
    state.reboot(still_lost=arguments.still_lost)
    return "rebooted"


_OF_A_CARD: Final[Mapping[str, Callable[[State, str, argparse.Namespace], str]]] = MappingProxyType(
    {
        "set": _set,
        "process": _process,
        "xid": _xid,
        "lose": _lose,
        "repair": _repair,
        "remove": _remove,
        "swap": _swap,
    }
)
_OF_THE_NODE: Final[Mapping[str, Callable[[State, argparse.Namespace], str]]] = MappingProxyType(
    {
        "add": _add,
        "slow": _fault,
        "fail": _fault,
        "faults": _faults_clear,
        "limits": _limits,
        "init-fails": _init_fails,
        "device-file": _device_file,
        "reboot": _reboot,
    }
)
# The commands of ``change``.
CHANGES: Final = (*_OF_A_CARD, *_OF_THE_NODE)
