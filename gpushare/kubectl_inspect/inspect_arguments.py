"""The command line, as the original's users type it: Go's spellings (``-d=true``, ``--d``, ``-kubeconfig x``), glog's flags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpushare import flags
from gpushare.errors import UsageError
from gpushare.flags import flag, group, optional, switch
from gpushare.kubectl_flags import ApiFlags
from gpushare.kubectl_inspect.core.report_text import FIELDS, JSON, YAML, field_of

_COMMAND: Final = "kubectl inspect gpushare"


def _field(text: str) -> str:
    if (field := field_of(text)) is None:
        raise UsageError(f", no field of a node; there are {', '.join(FIELDS)}")
    return field


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """The command line; ``output`` is None for the table."""

    node: str | None = flag(
        "node", "only this node (default: all nodes that have shared cards)", "", optional(str), is_positional=True
    )
    details: bool = switch("d", "one line for each pod")
    output: str | None = flag(
        "output",
        "a document for programs, with cards, pods and warnings, instead of the table",
        "",
        optional(str),
        alias="o",
        choices=(JSON, YAML),
    )
    namespace: str | None = flag(
        "namespace",
        "only pods of this namespace, and nodes that have some; the sums of a node stay those of all its pods",
        "",
        optional(str),
        alias="n",
    )
    all_namespaces: bool = switch("all-namespaces", "pods of all namespaces, whatever -n says", alias="A")
    no_headers: bool = switch("no-headers", "the table without its header, and without the cluster's sum")
    sort_by: str = flag("sort-by", f"order of the nodes: {', '.join(FIELDS)}", "name", _field)
    api: ApiFlags = group(ApiFlags)


def parse(program: str, argv: Sequence[str]) -> Arguments:
    """Read the command line. Raises UsageError; argparse ends the program with 2 on an unknown flag, with 0 after the help."""
    name = _COMMAND if Path(program).name.startswith("kubectl-") else Path(program).name
    return flags.parse(Arguments, name, "Show which pod holds how much memory of which card.", argv, {})
