"""Completion of a command line, as kubectl asks the program ``kubectl_complete-NAME`` of a plugin for it.

The answer has a line for each candidate, with what it means behind a tab, and a last one that directs the shell (cobra's protocol).
Names of objects come from the API server, quickly or not at all.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TextIO
from urllib.parse import quote

from gpushare.cli.flags import Flag, boolean, option_of
from gpushare.errors import GpushareError
from gpushare.kube import config
from gpushare.manifests import AnyObject

NODES: Final = "nodes"
PODS: Final = "pods"
NAMESPACES: Final = "namespaces"
# By the name of a flag or a positional word: the kind of object of which it takes a name.
_OBJECTS: Final[Mapping[str, str]] = {"pod": PODS, "node": NODES, "namespace": NAMESPACES}
# By the same: words that it takes and does not declare.
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {"things": (NODES, PODS)}
_FILES: Final = ("filename", "kubeconfig")
# The shell completes names of files itself, or does not.
_USUAL: Final = 0
_NO_FILES: Final = 4
# The shell waits for the answer.
_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Completion:
    """The words that may stand for the last one; each begins with ``typed``, after ``prefix``."""

    candidates: tuple[tuple[str, str], ...] = ()
    objects: str = ""
    """The kind of the objects whose names are candidates, too."""
    typed: str = ""
    prefix: str = ""
    files: bool = False

    def text(self, names: Iterable[str] = ()) -> str:
        """The answer, with the names of the objects."""
        found = [*self.candidates, *((name, "") for name in names)]
        lines = [f"{self.prefix}{word}\t{means}" for word, means in found if word.startswith(self.typed)]
        return "".join(f"{line.rstrip()}\n" for line in [*lines, f":{_USUAL if self.files else _NO_FILES}"])


def complete(declared: Sequence[Flag], words: Sequence[str]) -> Completion:
    """The completion of the last word, behind the others; an empty one begins a word."""
    *before, typed = words or [""]
    by_option = {option_of(name): one for one in declared for name in one.names if not one.is_positional}
    option, equals, value = typed.partition("=")
    if equals and option in by_option:
        return _value_of(by_option[option], value, prefix=f"{option}=")
    if before and (last := by_option.get(before[-1])) is not None and last.read is not boolean:
        return _value_of(last, typed)
    if typed.startswith("-"):
        return Completion(tuple((name, one.help) for name, one in by_option.items()), typed=typed)
    positional = [one for one in declared if one.is_positional]
    return _value_of(positional[0], typed) if positional else Completion()


def value_given(declared: Sequence[Flag], words: Sequence[str], name: str) -> str | None:
    """The value that the words give a flag, the last one; None if they give none."""
    (options,) = [{*map(option_of, one.names)} for one in declared if one.name == name]
    found = None
    for word, after in zip(words, [*words[1:], None], strict=False):
        option, equals, value = word.partition("=")
        if option in options:
            found = value if equals else after
    return found


def _value_of(one: Flag, typed: str, prefix: str = "") -> Completion:
    words = one.choices or _WORDS.get(one.name, ())
    return Completion(
        tuple((word, "") for word in words), _OBJECTS.get(one.name, ""), typed, prefix, files=one.name in _FILES
    )


def answer(declared: Sequence[Flag], words: Sequence[str], environment: Mapping[str, str], out: TextIO) -> int:
    """Write the completion of the last word; the exit code. Without an API server there are no names, and no error."""
    wanted = complete(declared, words)
    names: list[str] = []
    if wanted.objects:
        with contextlib.suppress(GpushareError, OSError, TimeoutError):
            names = asyncio.run(_names(wanted, declared, words, environment))
    out.write(wanted.text(names))
    return 0


async def _names(
    wanted: Completion, declared: Sequence[Flag], words: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    """Raises GpushareError and TimeoutError."""
    files = value_given(declared, words, "kubeconfig") or environment.get("KUBECONFIG")
    context = value_given(declared, words, "context")
    path = f"/api/v1/{wanted.objects}"
    if wanted.objects == PODS:
        namespace = value_given(declared, words, "namespace") or config.default_namespace(files, context)
        path = f"/api/v1/{NAMESPACES}/{quote(namespace, safe='')}/{PODS}"
    found: list[str] = []
    async with config.connect(files, context, timeout_seconds=_SECONDS) as client, asyncio.timeout(_SECONDS):
        await client.read_each(path, AnyObject, lambda one: found.append(one.metadata.name))
    return found
