"""``fake-nvml``: make simulated cards, look at them, change them, and run programs on them.

Exit codes: 0 good, 1 failed, 2 usage, 130 after Ctrl-C; ``exec`` becomes the command, and its exit code is the command's.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import yaml

from fake_nvml import sysfs
from fake_nvml.box import Box
from fake_nvml.command_line import parse
from fake_nvml.core.call_faults import parse_code
from fake_nvml.core.card_state import CardState
from fake_nvml.core.card_table import fault_table, limit_table, render
from fake_nvml.core.limits import parse_size
from fake_nvml.fake_nvml_errors import FakeNvmlError, RecordError, StateError
from fake_nvml.guard import DEFAULT_STATE, DRIVER_FOLDER, STATE_VARIABLE, check_real_driver
from fake_nvml.native.build import LIBRARY, library_folder
from fake_nvml.recording import record
from fake_nvml.state import State

_INTERRUPTED = 130
_LIBRARIES = "LD_LIBRARY_PATH"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; answers the exit code. Usage errors leave through SystemExit(2), as argparse does."""
    environment = dict(os.environ)  # noqa: TID251  # a program's own main
    arguments = parse(sys.argv[1:] if argv is None else argv)
    try:
        return run(arguments, environment)
    except FakeNvmlError as error:
        sys.stderr.write(f"fake-nvml: {error}\n")
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has enough; the rest of the buffer would fail again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def run(arguments: argparse.Namespace, environment: Mapping[str, str], *, driver_folder: Path = DRIVER_FOLDER) -> int:
    """Run parsed arguments in an environment."""
    variable = environment.get(STATE_VARIABLE)
    path = Path(arguments.state or variable or DEFAULT_STATE)
    if arguments.command in ("init", "exec"):
        check_real_driver(on_purpose=bool(variable), driver_folder=driver_folder)
    if arguments.command == "init":
        return _init(path, arguments)
    if arguments.command == "exec":
        return _exec(path, arguments, environment)
    if arguments.command == "record":
        return _record(path if arguments.state or variable else None, arguments, environment)
    with State.open(path) as state:
        if arguments.command == "show":
            sys.stdout.write(render(arguments.output, state.read()))
            return 0
        if arguments.command in ("faults", "limits") and arguments.action == "list":
            listed = fault_table(state.faults()) if arguments.command == "faults" else limit_table(state.limits())
            sys.stdout.write(listed)
            return 0
        sys.stdout.write(change(state, arguments) + "\n")
        return 0


def _init(path: Path, arguments: argparse.Namespace) -> int:
    box = Box.load(arguments.box, seed=arguments.seed, driver=arguments.driver)
    State.create(path, box).close()
    sys.stdout.write(f"{len(box.cards)} simulated cards, driver {box.driver}, in {path}\n")
    if box.dropped:
        sys.stderr.write(f"fake-nvml: recorded, but not simulated: {', '.join(sorted(box.dropped))}\n")
    return 0


def _record(path: Path | None, arguments: argparse.Namespace, environment: Mapping[str, str]) -> int:
    library = None if arguments.library is None else Path(arguments.library)
    if path is not None and library is None:
        with State.open(path) as state:
            library = library_folder(state.driver(), environment) / LIBRARY
        # The library reads it, in this process.
        os.environ[STATE_VARIABLE] = str(path)  # noqa: TID251  # a program's own main
    content = record(library)
    page = f"# Written by fake-nvml record.\n{yaml.safe_dump(content, sort_keys=False)}"
    kind = "simulated" if content["simulated"] else "real"
    if arguments.output is None:
        sys.stdout.write(page)
    else:
        try:
            Path(arguments.output).write_text(page, encoding="utf-8")
        except OSError as error:
            raise RecordError(f"{arguments.output} cannot be written: {error.strerror}") from error
    sys.stderr.write(f"fake-nvml: {len(content['cards'])} {kind} cards recorded, driver {content['driver']}\n")
    return 0


def change(state: State, arguments: argparse.Namespace) -> str:
    """Do one parsed command that changes cards; the line that it prints.

    One that is about a card gets the card's UUID, and its line begins with the card. Raises FakeNvmlError, with nothing changed, if
    it makes no sense on these cards.
    """
    if arguments.command in _OF_THE_NODE:
        do, text = _OF_THE_NODE[arguments.command]
        return text.format(answer=do(state, arguments), **vars(arguments))
    of_card, text = _OF_A_CARD[arguments.command]
    card = _find_card(state, arguments.card)
    answer = of_card(state, card.uuid, arguments)
    return f"card {card.index}: {text.format(answer=answer, of=card.uuid, **vars(arguments))}"


def _find_card(state: State, card: str) -> CardState:
    """A card by its index or UUID. Raises StateError."""
    for known in state.cards():
        if card in (str(known.index), known.uuid):
            return known
    raise StateError(f"no card {card!r} in this box; fake-nvml show lists them")


def _process(state: State, uuid: str, asked: argparse.Namespace) -> str:
    if asked.action == "add":
        state.add_process(uuid, asked.pid, asked.mib, asked.name)
        return f"process {asked.pid} uses {'unknown' if asked.mib is None else asked.mib} MiB"
    if not state.remove_process(uuid, asked.pid):
        raise StateError(f"no process {asked.pid} on card {asked.card}; fake-nvml show lists them")
    return f"process {asked.pid} is gone"


def _xid(state: State, uuid: str, asked: argparse.Namespace) -> str:
    state.post_xid(uuid, asked.xid, lose=asked.lose)
    return ", and lost" if asked.lose else ""


def _add(state: State, asked: argparse.Namespace) -> str:
    uuid = state.add_card(asked.model, uuid=asked.uuid, numa=asked.numa)
    return f"card {_find_card(state, uuid).index}: added {uuid}"


def _fault(state: State, asked: argparse.Namespace) -> None:
    card = None if asked.card is None else _find_card(state, asked.card).uuid
    code = parse_code(asked.code) if asked.command == "fail" else 0
    state.add_fault(asked.function, card=card, code=code, seconds=asked.seconds, count=asked.count)


def _limits(state: State, asked: argparse.Namespace) -> str:
    if asked.action == "clear":
        return f"limits cleared: {state.clear_limits(dead=asked.dead)}"
    card, soft, hard = _find_card(state, asked.card), parse_size(asked.soft), parse_size(asked.hard)
    if soft is None:
        raise StateError("a soft limit is an amount; 0 for none")
    state.set_limit(card.uuid, Path(asked.cgroup), soft, hard)
    return f"card {card.index}: {asked.cgroup} is limited to {asked.hard}"


def _init_fails(state: State, asked: argparse.Namespace) -> object:
    code = 0 if asked.code.lower() == "none" else parse_code(asked.code)
    state.set_init_return(code)
    return asked.code if code else "success"


# By command, the change and the line about it, with the change's answer and the arguments.
_OF_A_CARD: Final[Mapping[str, tuple[Callable[[State, str, argparse.Namespace], object], str]]] = {
    "set": (lambda state, uuid, asked: state.set_value(uuid, asked.key, asked.value), "{key} is {value}"),
    "process": (_process, "{answer}"),
    "xid": (_xid, "Xid {xid} reported{answer}"),
    "lose": (lambda state, uuid, asked: state.lose(uuid), "lost"),
    "repair": (lambda state, uuid, asked: state.repair(uuid), "repaired"),
    "remove": (lambda state, uuid, asked: state.remove_card(uuid), "removed {of}"),
    "swap": (lambda state, uuid, asked: state.change_uuid(uuid, asked.uuid), "{of} is now {answer}"),
}
_OF_THE_NODE: Final[Mapping[str, tuple[Callable[[State, argparse.Namespace], object], str]]] = {
    "add": (_add, "{answer}"),
    "slow": (_fault, "{function}: slow by {seconds:g} s"),
    "fail": (_fault, "{function}: fails with {code}"),
    "faults": (lambda state, asked: state.clear_faults(), "faults cleared: {answer}"),
    "limits": (_limits, "{answer}"),
    "init-fails": (_init_fails, "nvmlInit answers {answer}"),
    "device-file": (
        lambda state, asked: state.set_device_file(asked.file, missing=asked.presence == "missing"),
        "/dev/{file} is {presence} in containers",
    ),
    "reboot": (lambda state, asked: state.reboot(still_lost=asked.still_lost), "rebooted"),
}
# The commands of ``change``.
CHANGES: Final = (*_OF_A_CARD, *_OF_THE_NODE)


def environment_with_cards(path: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment in which a program finds the cards of a state file, under the library of their present driver.

    Raises FakeNvmlError.
    """
    with State.open(path) as state:
        driver = state.driver()
    # The library is first in the loader's path, so that any program finds it, in whatever language.
    known = filter(None, environment.get(_LIBRARIES, "").split(os.pathsep))
    libraries = os.pathsep.join(dict.fromkeys([str(library_folder(driver, environment)), *known]))
    return {**environment, STATE_VARIABLE: str(path.absolute()), _LIBRARIES: libraries}


def _exec(path: Path, arguments: argparse.Namespace, environment: Mapping[str, str]) -> int:
    """Become the command: its pid is this one's, and signals reach it directly."""
    if arguments.sys:
        sysfs.mount(sysfs.folder_of(path))
    child = environment_with_cards(path, environment)
    command = arguments.argv
    sys.stderr.write(f"fake-nvml: simulated cards for {command[0]}\n")
    sys.stderr.flush()
    try:
        os.execvpe(command[0], list(command), child)  # noqa: S606  # no shell is the point
    except OSError as error:
        raise StateError(f"cannot run {command[0]}: {error.strerror}") from error


if __name__ == "__main__":
    sys.exit(main())
