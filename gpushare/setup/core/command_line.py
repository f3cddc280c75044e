"""Which program the words of a command line start, behind shells and wrappers, and the flags and files that it gets."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

_SHELLS: Final = frozenset({"sh", "ash", "bash", "dash"})
# Programs that start the program of their later words.
_WRAPPERS: Final = frozenset({
    "dumb-init", "env", "exec", "go-runner", "hyperkube", "ionice", "nice", "nohup", "taskset", "tini",
})  # fmt: skip
# Flags of kube-scheduler that take no word of their own.
_SWITCHES: Final = frozenset({
    "alsologtostderr", "authentication-skip-lookup", "contention-profiling", "leader-elect", "logtostderr", "profiling",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Command:
    """The words behind a program."""

    words: tuple[str, ...]
    is_script: bool = False
    """They are in the script of a shell."""


def find(words: Sequence[str], program: str) -> Command | None:
    """The words behind this program; None if the command line starts another."""
    words = list(words)
    while words and re.match(r"\w+=", words[0]):
        del words[0]
    name = base_name(words[0]) if words else ""
    if name == program:
        return Command(tuple(words[1:]))
    if name in _SHELLS:
        found = (find(one, program) for one in _commands(_script(words)))
        return next((replace(one, is_script=True) for one in found if one is not None), None)
    if name in _WRAPPERS:
        # hyperkube, of releases before 1.19, also knows its programs by shorter names.
        short = program.removeprefix("kube-") if name == "hyperkube" else program
        at = next((at for at, word in enumerate(words) if base_name(word) in (program, short)), None)
        return None if at is None else Command(tuple(words[at + 1 :]))
    return None


def base_name(word: str) -> str:
    """The last part of a path."""
    return word.rpartition("/")[2]


def without_redirections(text: str) -> list[str]:
    """The words of a shell's command, up to the first that is none of the program's. Raises ValueError."""
    return next(_commands(text), [])


def _script(words: Sequence[str]) -> str:
    """The word behind ``-c``, ``-ec`` and the like."""
    at = next((at for at, word in enumerate(words) if re.fullmatch(r"-\w*c\w*", word)), len(words))
    return "".join(words[at + 1 : at + 2])


def _commands(script: str) -> Iterator[list[str]]:
    """The commands of a script, each up to a redirection."""
    lines = script.replace("\\\n", " ").replace("\n", ";")
    reader = shlex.shlex(lines, posix=True, punctuation_chars=True)
    reader.whitespace_split, reader.commenters = True, ""
    words: list[str] = []
    is_over = False
    for word in (*reader, ";"):
        if set(word) <= set(";&|()"):
            yield words
            words, is_over = [], False
        elif set(word) <= set("<>&"):
            # The number before it is that of a stream.
            words, is_over = words[:-1] if words[-1:] and words[-1].isdigit() else words, True
        elif not is_over:
            words.append(word)


def flags_of(words: Sequence[str]) -> dict[str, str]:
    """Flags by name without dashes, as Go's pflag reads them: the last one wins, and a value may be the next word.

    Raises ValueError with a word that is no flag.
    """
    found: dict[str, str] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-"):
            raise ValueError(word)
        if not equals:
            has_value = rest and not rest[0].startswith("-") and name not in _SWITCHES
            value = rest.pop(0) if has_value else "true"
        found[name] = value
    return found


def values_of(words: Sequence[str], names: Collection[str]) -> list[str]:
    """The values of a flag that may be given several times, under any of these names with their dashes."""
    found = []
    for word, following in zip(words, [*words[1:], ""], strict=False):
        name, equals, value = word.partition("=")
        if name in names:
            found.append(value if equals else following)
    return found


def expanded(words: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """The words with variables as systemd fills them: ``${A}`` within a word, ``$A`` as words of its own; "" if unknown."""
    found: list[str] = []
    for word in words:
        alone = re.fullmatch(r"\$(\w+)", word)
        if alone:
            found += shlex.split(variables.get(alone[1], ""))
        else:
            found.append(re.sub(r"\$\{(\w+)\}", lambda name: variables.get(name[1], ""), word).replace("$$", "$"))
    return found


def on_node(path: str, mounts: Mapping[str, str]) -> str | None:
    """The path of the node that a container sees as ``path``; ``mounts`` has the node's paths by those of the container."""
    for inside in sorted(mounts, reverse=True):
        if path == inside or path.startswith(f"{inside.rstrip('/')}/"):
            return mounts[inside].rstrip("/") + path[len(inside.rstrip("/")) :]
    return None
