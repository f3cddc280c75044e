"""The command line of kubectl gpushare: a verb, then its own flags."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpushare import __version__, wire
from gpushare.cli import answer_forms, flags
from gpushare.cli.answer_forms import OUTPUTS
from gpushare.cli.completion import Completion, answer
from gpushare.cli.flags import duration, flag, flags_of, group, number, optional, switch
from gpushare.cli.kubectl_flags import TYPES, ApiFlags, type_of, typed_name
from gpushare.errors import UsageError

_COMMAND: Final = "kubectl gpushare"
# The types of objects that are pods, or make some.
EXPLAINED: Final = tuple(one for one in TYPES if one != "node")
# More than any cluster has room for, and few enough to be placed one by one.
_MOST_REPLICAS: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The form of the answer; ``output`` is None for the usual one."""

    namespace: str | None = flag("namespace", "namespace", "", optional(str), alias="n", shown="that of the context")
    output: str | None = flag(
        "output", "form of the answer", "", optional(str), alias="o", choices=OUTPUTS, shown="text for people"
    )
    no_headers: bool = switch("no-headers", "tables without their headers")
    api: ApiFlags = group(ApiFlags)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainArguments:
    """``kubectl gpushare explain NAME``, ``TYPE/NAME`` or ``TYPE NAME``."""

    pod: str = flag(
        "pod", "NAME or TYPE/NAME of a pod, or of what makes pods; or a TYPE, before NAME", is_positional=True
    )
    name: str = flag("name", "the NAME behind a TYPE", is_positional=True)
    view: View = group(View)

    def __post_init__(self) -> None:
        """Raises UsageError."""
        if not self.pod:
            raise UsageError(f"which pod? {_COMMAND} explain POD [-n NAMESPACE], or TYPE/NAME")
        _ = self.wanted

    @property
    def wanted(self) -> tuple[str, str]:
        """The type, "" if none is given, and the name. Raises UsageError."""
        text = f"{self.pod}/{self.name}" if self.name else self.pod
        try:
            return typed_name(text, EXPLAINED)
        except UsageError as error:
            raise UsageError(f"{text!r}{error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateArguments:
    """``kubectl gpushare simulate -f FILE``."""

    filenames: tuple[str, ...] = flag(
        "filename",
        "manifest of pods or of what makes them: a file, a folder, - for the standard input; may be given several times",
        "",
        lambda text: tuple(filter(None, text.split(","))),
        alias="f",
        is_list=True,
    )
    recursive: bool = switch("recursive", "look in the folders of a folder, too", alias="R")
    replicas: int | None = flag(
        "replicas",
        "how many pods of each object; a DaemonSet has one on each of its nodes",
        "",
        optional(number(0, _MOST_REPLICAS)),
        shown="that of the object",
    )
    policy: str = flag("policy", "the extender's --policy", wire.POLICY_BINPACK, str, choices=wire.POLICIES)
    dry_run: bool = switch(
        "admission",
        "have the API server admit each pod first, by a dry run: its defaults, policies and quotas count",
        "true",
    )
    check: bool = switch("check", "exit with 3 if not all pods have room, or some could not be judged")
    view: View = group(View)

    def __post_init__(self) -> None:
        """Raises UsageError."""
        if not self.filenames:
            raise UsageError(f"which pods? {_COMMAND} simulate -f FILE")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsArguments:
    """``kubectl gpushare events``."""

    names: tuple[tuple[str, str], ...] = flag(
        "name",
        "only events about these objects, as NAME or TYPE/NAME",
        "",
        lambda text: (typed_name(text, ("node", *EXPLAINED)),) if text else (),
        is_positional=True,
        is_list=True,
    )
    """Type and name; the type is "" for a name alone."""
    all_namespaces: bool = switch("all-namespaces", "events of all namespaces, and of nodes", alias="A")
    view: View = group(View)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorArguments:
    """``kubectl gpushare doctor``."""

    assumed_for: float = flag("assumed-for", "how long a pod may have a card and not start", "5m", duration())
    view: View = group(View)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopArguments:
    """``kubectl gpushare top``."""

    words: tuple[str, ...] = flag(
        "things",
        "nodes or pods, and the names of some; or TYPE/NAME",
        "",
        lambda text: (text,) if text else (),
        is_positional=True,
        is_list=True,
        shown="pods",
    )
    all_namespaces: bool = switch("all-namespaces", "pods of all namespaces", alias="A")
    metrics_port: int = flag(
        "metrics-port",
        "port of --metrics-address of the device plugins, which runs with --usage",
        "12347",
        number(1, 65535),
    )
    view: View = group(View)

    def __post_init__(self) -> None:
        """Raises UsageError."""
        _ = self.wanted

    @property
    def wanted(self) -> tuple[str, tuple[str, ...]]:
        """``nodes`` or ``pods``, and the names of those that are asked for, none for all. Raises UsageError."""
        first, types = self.words[:1], ("node", "pod")
        try:
            kind = type_of(first[0], types) if first and "/" not in first[0] else ""
            named = [typed_name(word, types) for word in self.words[bool(kind) :]]
        except UsageError as error:
            raise UsageError(f"{' '.join(self.words)!r}{error}") from error
        kinds = {one for one, _ in [(kind, ""), *named] if one} or {"pod"}
        if len(kinds) > 1:
            raise UsageError(f"{' '.join(self.words)!r} names nodes and pods: ask about one of them")
        return f"{kinds.pop()}s", tuple(name for _, name in named)


Arguments = ExplainArguments | SimulateArguments | TopArguments | EventsArguments | DoctorArguments
VERBS: Final[dict[str, tuple[type[Arguments], str]]] = {
    "explain": (
        ExplainArguments,
        "Explain why a pod waits, node by node and card by card, or which card it has and why.",
    ),
    "simulate": (
        SimulateArguments,
        "Show where pods would land, how many fit until the cluster is full, and the largest that fits.",
    ),
    "top": (TopArguments, "Show what nodes or pods booked of the cards' memory, and what they really hold."),
    "events": (EventsArguments, "Show the events that the programs of gpushare wrote, the last one last."),
    "doctor": (
        DoctorArguments,
        "Name what is wrong with the installation, its nodes, cards and pods; nothing is changed.",
    ),
}


def parse(program: str, argv: Sequence[str]) -> Arguments:
    """Read the command line. Raises UsageError; the program ends after the help with 0, and on an unknown flag with 2."""
    name = _COMMAND if Path(program).name.startswith("kubectl-") else Path(program).name
    verb = argv[0] if argv else ""
    if verb in ("-h", "--help", "-help", "help"):
        sys.stdout.write(usage(name))
        raise SystemExit(0)
    if verb in ("--version", "-version"):
        sys.stdout.write(f"{name} {__version__}\n")
        raise SystemExit(0)
    if verb not in VERBS:
        raise UsageError(f"{f'{verb!r} is no command' if verb else 'no command'}; there are {', '.join(VERBS)}")
    kind, description = VERBS[verb]
    return flags.parse(kind, f"{name} {verb}", description, argv[1:], {})


def usage(name: str) -> str:
    """The help of the program itself."""
    width = max(map(len, VERBS)) + 2
    lines = "".join(f"  {verb.ljust(width)}{description}\n" for verb, (_, description) in VERBS.items())
    return f"usage: {name} COMMAND [flags]\n\n{lines}\n{name} COMMAND --help shows the flags of a command.\n"


def complete(argv: Sequence[str] | None = None) -> int:
    """The console script ``kubectl_complete-gpushare``, which kubectl asks; exit code 0, also if there is no completion."""
    words = sys.argv[1:] if argv is None else argv
    return answer_forms.exit_code(lambda: _complete(words))


def _complete(words: Sequence[str]) -> int:
    if len(words) > 1 and words[0] in VERBS:
        return answer([*flags_of(VERBS[words[0]][0])], words[1:], os.environ, sys.stdout)  # noqa: TID251  # a main
    verbs = tuple((verb, description) for verb, (_, description) in VERBS.items())
    sys.stdout.write(Completion(verbs if len(words) < 2 else (), typed="".join(words[:1])).text())
    return 0
