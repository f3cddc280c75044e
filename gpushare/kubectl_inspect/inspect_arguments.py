"""The command line, as the original's users type it: Go's spellings (``-d=true``, ``--d``, ``-kubeconfig x``), glog's flags."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpushare import __version__
from gpushare.flags import seconds_of
from gpushare.kubectl_inspect.core.report_text import FIELDS, JSON, YAML, field_of

_COMMAND: Final = "kubectl inspect gpushare"
# The original's logging flags: read, and without effect.
_GLOG_SWITCHES: Final = frozenset({"logtostderr", "alsologtostderr"})
_GLOG_VALUES: Final = frozenset({"v", "vmodule", "stderrthreshold", "log_dir", "log_backtrace_at"})
_LONG: Final = frozenset(
    {"kubeconfig", "context", "request-timeout", "help", "version", "output", "namespace", "sort-by"}
)
# Switches, by each of their names, and what argparse knows them as.
_SWITCHES: Final = {"d": "-d", "A": "-A", "all-namespaces": "-A", "no-headers": "--no-headers"}
_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})


@dataclass(frozen=True, slots=True)
class Arguments:
    """The command line. ``request_timeout_seconds`` is None for no limit, ``namespace`` for all, ``output`` for the table."""

    node: str | None
    details: bool
    kubeconfig: str | None
    context: str | None
    request_timeout_seconds: float | None
    output: str | None = None
    namespace: str | None = None
    headers: bool = True
    sort_by: str = "name"


def parse(program: str, argv: Sequence[str]) -> Arguments:
    """Read the command line; argparse ends the program with 2 on one that makes no sense, with 0 after the help."""
    parser = _parser(_COMMAND if Path(program).name.startswith("kubectl-") else Path(program).name)
    parsed = parser.parse_args(_from_go(argv))
    return Arguments(
        node=parsed.node or None,
        details=parsed.details,
        kubeconfig=parsed.kubeconfig or None,
        context=parsed.context or None,
        request_timeout_seconds=parsed.request_timeout,
        output=parsed.output,
        namespace=None if parsed.all_namespaces else parsed.namespace or None,
        headers=not parsed.no_headers,
        sort_by=parsed.sort_by,
    )


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="Show which pod holds how much memory of which card.",
        allow_abbrev=False,
    )
    parser.add_argument("node", nargs="?", help="only this node (default: all nodes that have shared cards)")
    parser.add_argument("-d", dest="details", action="store_true", help="one line for each pod")
    parser.add_argument(
        "-o",
        "--output",
        choices=[JSON, YAML],
        help="a document for programs, with cards, pods and warnings, instead of the table",
    )
    parser.add_argument(
        "-n",
        "--namespace",
        metavar="NAME",
        help="only pods of this namespace, and nodes that have some; the sums of a node stay those of all its pods",
    )
    parser.add_argument("-A", "--all-namespaces", action="store_true", help="pods of all namespaces (the default)")
    parser.add_argument(
        "--no-headers", action="store_true", help="the table without its header, and without the cluster's sum"
    )
    parser.add_argument(
        "--sort-by",
        metavar="FIELD",
        type=_field,
        default="name",
        help=f"order of the nodes: {', '.join(FIELDS)} (default: %(default)s)",
    )
    parser.add_argument(
        "--kubeconfig", metavar="FILE", help="kubeconfig (default: $KUBECONFIG, else ~/.kube/config, else in-cluster)"
    )
    parser.add_argument("--context", metavar="NAME", help="context of the kubeconfig (default: its current one)")
    parser.add_argument(
        "--request-timeout",
        metavar="TIME",
        type=_duration,
        default="10s",
        help="longest wait for an answer, such as 5s or 1m; 0 for no limit (default: %(default)s)",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    return parser


def _from_go(argv: Sequence[str]) -> list[str]:
    """The same arguments in argparse's spelling, without glog's."""
    rest = list(argv)
    found: list[str] = []
    while rest:
        word = rest.pop(0)
        match = re.fullmatch(r"--?([A-Za-z][\w-]*)(?:=(.*))?", word, re.DOTALL)
        if word == "--":
            return [*found, word, *rest]
        if match is None:
            found.append(word)
        elif match[1] in _GLOG_VALUES and match[2] is None:
            rest = rest[1:]
        elif match[1] not in _GLOG_VALUES:
            found.extend(_switch_or_long(word, match[1], match[2]))
    return found


def _switch_or_long(word: str, name: str, value: str | None) -> list[str]:
    if name in _GLOG_SWITCHES or (name in _SWITCHES and value in _FALSE):
        return []
    if name in _SWITCHES and (value is None or value in _TRUE):
        return [_SWITCHES[name]]
    if name in _LONG:
        return [f"--{name}" if value is None else f"--{name}={value}"]
    return [word]


def _field(text: str) -> str:
    field = field_of(text)
    if field is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no field of a node; there are {', '.join(FIELDS)}")
    return field


def _duration(text: str) -> float | None:
    """Seconds of a duration; none for 0 and for an empty text, as kubectl takes them."""
    seconds = seconds_of(text) if text else 0.0
    if seconds is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 5s, 1m30s or 0")
    return seconds or None
