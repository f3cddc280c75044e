"""The arguments of ``fake-nvml``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, Final

from fake_nvml.box import box_names
from fake_nvml.core.answers import SET_LIMITS
from fake_nvml.core.card_table import FORMATS
from fake_nvml.core.limits import NO_LIMIT
from fake_nvml.core.records import FILES_TO_MISS
from fake_nvml.core.values import KEYS
from fake_nvml.guard import DEFAULT_STATE, STATE_VARIABLE

_EPILOG: Final = (
    "CARD is an index as shown, or a UUID. fake-nvml COMMAND --help says more. Exit codes: 0 good, 1 failed, 2 usage."
)


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
    parser = argparse.ArgumentParser(
        prog="fake-nvml",
        description="Simulated NVIDIA cards for programs that use NVML.",
        epilog=_EPILOG,
        allow_abbrev=False,
    )
    state, card = argparse.ArgumentParser(add_help=False), argparse.ArgumentParser(add_help=False)
    state.add_argument(
        "--state", metavar="PATH", help=f"the state file (default: ${STATE_VARIABLE}, else {DEFAULT_STATE})"
    )
    card.add_argument("card", metavar="CARD", help="index or UUID")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", title="Commands")

    def command(name: str, description: str, *, of_card: bool = False, **more: Any) -> argparse.ArgumentParser:
        parents = [state, card] if of_card else [state]
        about = {"help": description, "description": description, **more}
        return commands.add_parser(name, parents=parents, allow_abbrev=False, **about)

    for add in (_add_cards, _add_programs, _add_card_events, _add_call_faults):
        add(command)
    process = commands.add_parser("process", help="A process on a card.", allow_abbrev=False)
    actions = process.add_subparsers(dest="action", required=True, metavar="add|remove")
    begins = actions.add_parser(
        "add", parents=[state, card], description="A process uses memory of a card from now on."
    )
    ends = actions.add_parser("remove", parents=[state, card], description="A process is gone.")
    for action in (begins, ends):
        action.add_argument("pid", metavar="PID", type=int)
    begins.add_argument("mib", metavar="MIB", type=_mib, help="or unknown: the driver has no figure")
    _add_limits(commands, state, card)
    begins.add_argument("--name", default="python", help="the program's name (default: python)")
    return parser


def _mib(text: str) -> int | None:
    return None if text == "unknown" else int(text)


def _add_limits(commands: Any, state: argparse.ArgumentParser, card: argparse.ArgumentParser) -> None:
    about = "Limits of memory, which drivers from 615 on have: list, set or clear them."
    limits = commands.add_parser("limits", parents=[state], help=about, description=about, allow_abbrev=False)
    actions = limits.add_subparsers(dest="action", metavar="list|set|clear")
    limits.set_defaults(action="list")
    actions.add_parser("list", description="List the limits and what is used of them.")
    change = actions.add_parser("set", parents=[card], description="Limit a cgroup on a card, as the driver does it.")
    change.add_argument("cgroup", metavar="CGROUP_DIR", help="the directory of the cgroup, or any other")
    for name in ("soft", "hard"):
        change.add_argument(name, metavar=name.upper(), help=f"4GiB, 512MiB, a number of bytes, or {NO_LIMIT}")
    clear = actions.add_parser("clear", description="Drop all limits, as after the driver was loaded again.")
    clear.add_argument("--dead", action="store_true", help="only those of directories that are gone")


_Command = Callable[..., argparse.ArgumentParser]


def _add_cards(command: _Command) -> None:
    init = command("init", "Make a state file with the cards of a box, or put another box into it.")
    init.add_argument(
        "--box", default="mixed", metavar="NAME|FILE", help=f"the cards: {', '.join(box_names())} (default: mixed)"
    )
    init.add_argument("--driver", metavar="VERSION", help="instead of the box's own: 418, 418.87 or 535.104.05")
    init.add_argument("--seed", help="a node's name: UUIDs follow from it (default: node; recorded cards keep theirs)")

    show = command("show", "Print the cards and their processes.")
    show.add_argument("-o", "--output", choices=FORMATS, default="table", help="(default: table)")

    record = command(
        "record",
        "Write what NVML answers about this node's cards into a box file for init, with the return code of each call. "
        "Reads the simulated cards where --state or FAKENVML_STATE names them, else the node's own driver.",
    )
    record.add_argument("-o", "--output", metavar="FILE", help="(default: print it)")
    record.add_argument("--library", metavar="PATH", help="the NVML library to ask, instead")


def _add_programs(command: _Command) -> None:
    run = command(
        "exec",
        "Run a program on the simulated cards; it takes this command's place, pid and exit code.",
        usage="fake-nvml exec [--state PATH] [--sys] -- CMD [ARG ...]",
    )
    run.add_argument(
        "--sys", action="store_true", help="it sees the simulated cards below /sys, too; needs root or user namespaces"
    )


def _add_card_events(command: _Command) -> None:
    keys = "; ".join([*(f"{name}: {key.help}" for name, key in KEYS.items()), "uuid: another card is in its place"])
    change = command("set", "Change a value of a card: memory, load, temperature ...", of_card=True, epilog=keys)
    change.add_argument("key", metavar="KEY", choices=(*KEYS, "uuid"))
    change.add_argument("value", metavar="VALUE")
    xid = command("xid", "Report an Xid on a card, which may leave errors and an advice on it.", of_card=True)
    xid.add_argument("xid", metavar="XID", type=int)
    xid.add_argument("--lose", action="store_true", help="the card answers nothing from then on")
    command("lose", 'Answer "GPU is lost" for a card, which keeps its index.', of_card=True)
    command("repair", "Let a card answer again, with recovery action none.", of_card=True)
    add = command("add", "Plug a card in; programs see it after their next nvmlInit.")
    add.add_argument("--model", required=True, metavar="NAME", help="of the catalogue, as t4 or h200")
    add.add_argument("--numa", type=int, metavar="NODE", help="its NUMA node (default: not known)")
    command("remove", "Pull a card out, with its processes; it is lost for programs that know it.", of_card=True)
    swap = command("swap", "Put another card of the model in a card's place: healthy and idle.", of_card=True)
    for parser in (add, swap):
        parser.add_argument("--uuid", metavar="UUID", help="(default: a new one)")
    reboot = command("reboot", "What a reboot leaves: processes, errors, advice and faults are gone, lost cards back.")
    reboot.add_argument("--still-lost", action="store_true", help="lost cards stay lost")


def _add_call_faults(command: _Command) -> None:
    slow = command("slow", "Make calls of a C function slow; any version of it, or all that begin with FUNCTION*.")
    fail = command("fail", "Let calls of a C function fail; any version of it, or all that begin with FUNCTION*.")
    for parser, seconds in ((slow, 5.0), (fail, 0.0)):
        parser.add_argument("function", metavar="FUNCTION", help="as nvmlDeviceGetMemoryInfo or nvmlDeviceGet*")
        parser.add_argument("--card", metavar="CARD", help="only for this card (default: any)")
        parser.add_argument("--count", type=int, metavar="N", help="only the next N calls (default: until cleared)")
        parser.add_argument("--seconds", type=float, default=seconds, help=f"to wait before (default: {seconds:g})")
    fail.add_argument(
        "--with",
        required=True,
        dest="code",
        metavar="CODE|NAME",
        help=f"as 15, GPU_IS_LOST or UNKNOWN; SUCCESS lets {SET_LIMITS} keep nothing",
    )
    faults = command("faults", "List the faults of calls in force, or clear them.")
    faults.add_argument("action", nargs="?", choices=("list", "clear"), default="list")
    init_fails = command("init-fails", "Let nvmlInit fail from now on, as without a driver.")
    init_fails.add_argument("code", metavar="CODE|NAME|none", help="as DRIVER_NOT_LOADED; none: it works")
    file = command("device-file", "Take a device file away from containers, in which CUDA fails then, or give it back.")
    file.add_argument("file", metavar="FILE", choices=FILES_TO_MISS, help=f"of /dev: {', '.join(FILES_TO_MISS)}")
    file.add_argument("presence", metavar="missing|there", choices=("missing", "there"))
