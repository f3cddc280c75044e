"""The flags by which programs for people reach an API server, and the names of objects, as kubectl has them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from gpushare.cli.flags import flag, optional, seconds_of
from gpushare.errors import UsageError

# By the word of a type: its API group, and kubectl's short word for it.
TYPES: Final[Mapping[str, tuple[str, str]]] = {
    "pod": ("", "po"),
    "node": ("", "no"),
    "deployment": ("apps", "deploy"),
    "replicaset": ("apps", "rs"),
    "statefulset": ("apps", "sts"),
    "daemonset": ("apps", "ds"),
    "replicationcontroller": ("", "rc"),
    "job": ("batch", "job"),
    "cronjob": ("batch", "cj"),
}


def typed_name(text: str, types: Sequence[str]) -> tuple[str, str]:
    """The type and the name of ``TYPE/NAME``; the type is "" for a name alone. Raises UsageError as a reader of flags does."""
    word, slash, name = text.rpartition("/")
    if not slash:
        return "", name
    if not name or "/" in word:
        raise UsageError(", not TYPE/NAME")
    return type_of(word, types), name


def type_of(text: str, types: Sequence[str]) -> str:
    """The type, one of these, that kubectl means by the word: singular, plural or short, also with a group. Raises UsageError."""
    word, _, group = text.lower().partition(".")
    for one in types:
        of_group, short = TYPES[one]
        if word in (one, f"{one}s", short) and re.fullmatch(rf"(v\d\w*\.)?({of_group})?", group):
            return one
    raise UsageError(f": {text!r} is none of the types {', '.join(types)}")


def qualified(kind: str) -> str:
    """The type of a kind as ``-o name`` has it, with its group."""
    group, _ = TYPES[kind.lower()]
    return f"{kind.lower()}.{group}" if group else kind.lower()


def path_of(kind: str, namespace: str) -> str:
    """The API's path of all objects of a type in a namespace."""
    group, _ = TYPES[kind]
    return f"{f'/apis/{group}/v1' if group else '/api/v1'}/namespaces/{quote(namespace, safe='')}/{kind}s"


def _timeout(text: str) -> float | None:
    """Seconds of a duration; none for 0 and for an empty text, as kubectl takes them."""
    seconds = seconds_of(text) if text else 0.0
    if seconds is None:
        raise UsageError(", not a duration such as 5s, 1m30s or 0")
    return seconds or None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiFlags:
    """The way to the API server. ``request_timeout`` is in seconds, None for no limit."""

    kubeconfig: str | None = flag(
        "kubeconfig", "kubeconfig", "", optional(str), shown="$KUBECONFIG, else ~/.kube/config, else in-cluster"
    )
    context: str | None = flag("context", "context of the kubeconfig", "", optional(str), shown="its current one")
    request_timeout: float | None = flag(
        "request-timeout", "longest wait for an answer, such as 5s or 1m; 0 for no limit", "10s", _timeout
    )
