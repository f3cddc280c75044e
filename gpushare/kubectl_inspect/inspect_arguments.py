"""The command line, as the original's users type it: Go's spellings (``-d=true``, ``--d``, ``-kubeconfig x``), glog's flags."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpushare.cli import answer_forms, flags
from gpushare.cli.answer_forms import OUTPUTS
from gpushare.cli.completion import answer
from gpushare.cli.flags import flag, group, optional, switch
from gpushare.cli.kubectl_flags import ApiFlags, typed_name
from gpushare.errors import UsageError
from gpushare.kubectl_inspect.core.report_text import FIELDS, field_of

_COMMAND: Final = "kubectl inspect gpushare"


def _field(text: str) -> str:
    if (field := field_of(text)) is None:
        raise UsageError(f", no field of a node; there are {', '.join(FIELDS)}")
    return field


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The command line; ``output`` is None for the table."""

    nodes: tuple[str, ...] = flag(
        "node",
        "only these nodes, as NAME or node/NAME (default: all nodes that have shared cards)",
        "",
        lambda text: (typed_name(text, ("node",))[1],) if text else (),
        is_positional=True,
        is_list=True,
    )
    details: bool = switch("d", "one line for each pod")
    output: str | None = flag(
        "output",
        "wide: a line for each card; json, yaml: a document for programs, with cards, pods and warnings; name: the nodes",
        "",
        optional(str),
        alias="o",
        choices=OUTPUTS,
        shown="the original's table",
    )
    namespace: str | None = flag(
        "namespace",
        "only pods of this namespace, and nodes that have some; the sums of a node stay those of all its pods",
        "",
        optional(str),
        alias="n",
    )
    selector: str = flag("selector", "only nodes that match this label selector, such as zone=x,!old", alias="l")
    all_namespaces: bool = switch("all-namespaces", "pods of all namespaces, whatever -n says", alias="A")
    no_headers: bool = switch("no-headers", "the table without its header, and without the cluster's sum")
    sort_by: str = flag("sort-by", f"order of the nodes: {', '.join(FIELDS)}", "name", _field)
    watch: bool = switch("watch", "after the answer, show the nodes that change, until Ctrl-C", alias="w")
    check: bool = switch(
        "check",
        "exit with 3, and name each on stderr, if a card is over-booked or unhealthy, a pod has been given a card and does not "
        "start, or annotations do not agree with the cards",
    )
    assumed_for: float = flag(
        "assumed-for", "for --check: how long a pod may have a card and not start", "5m", flags.duration()
    )
    api: ApiFlags = group(ApiFlags)

    def __post_init__(self) -> None:
        """Raises UsageError."""
        if self.watch and self.check:
            raise UsageError("--check answers once, and --watch does not end: leave one out")
        if self.nodes and self.selector:
            raise UsageError("nodes by their names, or nodes by -l: leave one out")
        if self.watch and len(self.nodes) > 1:
            raise UsageError("--watch follows one node, or all: leave the other names out")

    @property
    def of_namespace(self) -> str | None:
        """The namespace of the pods that are shown; None for all."""
        return None if self.all_namespaces else self.namespace


def parse(program: str, argv: Sequence[str]) -> Arguments:
    """Read the command line. Raises UsageError; argparse ends the program with 2 on an unknown flag, with 0 after the help."""
    name = _COMMAND if Path(program).name.startswith("kubectl-") else Path(program).name
    return flags.parse(Arguments, name, "Show which pod holds how much memory of which card.", argv, {})


def complete(argv: Sequence[str] | None = None) -> int:
    """The console script ``kubectl_complete-inspect-gpushare``, which kubectl asks; exit code 0, also if there is no completion."""
    words, declared = sys.argv[1:] if argv is None else argv, [*flags.flags_of(Arguments)]
    return answer_forms.exit_code(lambda: answer(declared, words, os.environ, sys.stdout))  # noqa: TID251  # a main
