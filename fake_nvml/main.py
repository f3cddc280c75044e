"""``fake-nvml``: make simulated cards, look at them, change them, and run programs on them.

Exit codes: 0 good, 1 failed, 2 usage; ``exec`` becomes the command, and its exit code is the command's.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from fake_nvml.box import Box, box_names
from fake_nvml.errors import FakeNvmlError, StateError
from fake_nvml.guard import DEFAULT_STATE, DRIVER_FOLDER, STATE_VARIABLE, check_real_driver
from fake_nvml.show import render
from fake_nvml.state import State
from fake_nvml.values import KEYS

_HOOK = Path(__file__).with_name("hook")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; answers the exit code. Usage errors leave through SystemExit(2), as argparse does."""
    environment = dict(os.environ)  # noqa: TID251  # a program's own main
    arguments = parse(sys.argv[1:] if argv is None else argv)
    try:
        return run(arguments, environment)
    except FakeNvmlError as error:
        sys.stderr.write(f"fake-nvml: {error}\n")
        return 1


def run(arguments: argparse.Namespace, environment: Mapping[str, str], *, driver_folder: Path = DRIVER_FOLDER) -> int:
    """Run parsed arguments in an environment."""
    variable = environment.get(STATE_VARIABLE)
    path = Path(arguments.state or variable or DEFAULT_STATE)
    if arguments.command in ("init", "exec"):
        check_real_driver(on_purpose=bool(variable), driver_folder=driver_folder)
    if arguments.command == "init":
        return _init(path, arguments)
    with State.open(path) as state:
        if arguments.command == "show":
            content = state.read().header
            sys.stdout.write(render(arguments.output, state.driver(), content.cuda, state.cards()))
            return 0
        if arguments.command != "exec":
            return _change(state, arguments)
    return _exec(path, arguments.argv, environment)


def _init(path: Path, arguments: argparse.Namespace) -> int:
    box = Box.load(arguments.box, seed=arguments.seed, driver=arguments.driver)
    State.create(path, box).close()
    sys.stdout.write(f"{len(box.cards)} simulated cards, driver {box.driver}, in {path}\n")
    return 0


def _change(state: State, arguments: argparse.Namespace) -> int:
    uuid = _uuid(state, arguments.card)
    if arguments.command == "set":
        state.set_value(uuid, arguments.key, arguments.value)
    elif arguments.command == "xid":
        state.post_xid(uuid, arguments.xid)
    elif arguments.action == "add":
        state.add_process(uuid, arguments.pid, arguments.mib, arguments.name)
    elif not state.remove_process(uuid, arguments.pid):
        raise StateError(f"no process {arguments.pid} on card {arguments.card}; fake-nvml show lists them")
    return 0


def _uuid(state: State, card: str) -> str:
    """A card's UUID by its index or UUID."""
    for known in state.cards():
        if card in (str(known.index), known.uuid):
            return known.uuid
    raise StateError(f"no card {card!r} in {state.path}; fake-nvml show lists them")


def _exec(path: Path, command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Become the command: its pid is this one's, and signals reach it directly."""
    search = [str(_HOOK), *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    child = {
        **environment,
        STATE_VARIABLE: str(path.absolute()),
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(search)),
    }
    sys.stderr.write(f"fake-nvml: simulated cards for {command[0]}\n")
    sys.stderr.flush()
    try:
        os.execvpe(command[0], list(command), child)  # noqa: S606  # no shell is the point
    except OSError as error:
        raise StateError(f"cannot run {command[0]}: {error.strerror}") from error


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments; what follows the first ``--`` is ``exec``'s command. Usage errors leave as SystemExit(2)."""
    own, separator, command = list(argv), False, []
    if "--" in own:
        position = own.index("--")
        own, separator, command = own[:position], True, own[position + 1 :]
    parser = _parser()
    arguments = parser.parse_args(own)
    if arguments.command == "exec" and not command:
        parser.error("exec needs a program: fake-nvml exec -- CMD [ARG ...]")
    if arguments.command != "exec" and separator:
        parser.error(f"{arguments.command} takes nothing after --")
    arguments.argv = command
    return arguments


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fake-nvml", description="Simulated NVIDIA cards for programs that use NVML.")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--state", metavar="PATH", help=f"the state file (default: ${STATE_VARIABLE}, else {DEFAULT_STATE})"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    init = commands.add_parser("init", parents=[common], help="make a state file, or put another box into it")
    init.add_argument(
        "--box", default="mixed", metavar="NAME|FILE", help=f"the cards: {', '.join(box_names())} (default: mixed)"
    )
    init.add_argument("--driver", metavar="VERSION", help="instead of the box's own, as 418.87 or 535.104.05")
    init.add_argument("--seed", default="node", help="a node's name: UUIDs follow from it (default: node)")

    show = commands.add_parser("show", parents=[common], help="print the cards and their processes")
    show.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table")

    change = commands.add_parser("set", parents=[common], help="change a value of a card", epilog=_key_help())
    change.add_argument("card", metavar="CARD", help="index or UUID")
    change.add_argument("key", metavar="KEY", choices=tuple(KEYS))
    change.add_argument("value", metavar="VALUE")

    _add_process_parser(commands, common)

    xid = commands.add_parser("xid", parents=[common], help="report an Xid on a card")
    xid.add_argument("card", metavar="CARD", help="index or UUID")
    xid.add_argument("xid", metavar="XID", type=int)

    commands.add_parser(
        "exec",
        parents=[common],
        help="run a program on the simulated cards",
        usage="fake-nvml exec [--state PATH] -- CMD [ARG ...]",
    )
    return parser


def _add_process_parser(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], common: argparse.ArgumentParser
) -> None:
    process = commands.add_parser("process", help="processes on a card")
    actions = process.add_subparsers(dest="action", required=True, metavar="ACTION")
    add = actions.add_parser("add", parents=[common], help="a process uses memory from now on")
    remove = actions.add_parser("remove", parents=[common], help="a process is gone")
    for parser in (add, remove):
        parser.add_argument("card", metavar="CARD", help="index or UUID")
        parser.add_argument("pid", metavar="PID", type=int)
    add.add_argument("mib", metavar="MIB", type=int)
    add.add_argument("--name", default="python", help="the program's name (default: python)")


def _key_help() -> str:
    return "; ".join(f"{name}: {key.help}" for name, key in KEYS.items())


if __name__ == "__main__":
    sys.exit(main())
