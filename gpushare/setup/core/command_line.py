"""Which program a command line starts, behind shells and wrappers, with which flags and files; and the services that have one.

A service is a systemd unit with its drop-ins and environment files, or OpenRC's script.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gpushare.setup.core.faults import SetupRefusedError

_SHELLS: Final = frozenset({"sh", "ash", "bash", "dash"})
# Programs that start the program of their later words.
_WRAPPERS: Final = frozenset({
    "dumb-init", "env", "exec", "go-runner", "hyperkube", "ionice", "nice", "nohup", "taskset", "tini",
})  # fmt: skip
# Flags of kube-scheduler that take no word of their own.
_SWITCHES: Final = frozenset({
    "alsologtostderr", "authentication-skip-lookup", "contention-profiling", "leader-elect", "logtostderr", "profiling",
})  # fmt: skip
# The first folder wins.
FOLDERS: Final = tuple(f"{one}/systemd/system" for one in ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"))
SCRIPTS: Final = "/etc/init.d"
_OPENRC_ENVIRONMENT: Final = ("/etc/environment", "/etc/rancher/k3s/k3s.env")
_ASSIGNMENT: Final = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?(\w+)=("(?:[^"\\]|\\.)*"|'[^']*'|[^\s;]*)""", re.MULTILINE | re.DOTALL
)


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


@dataclass(slots=True)
class Service:
    """A unit or script that starts a program."""

    name: str
    path: str
    """The file that has the command."""
    words: list[str] = field(default_factory=list)
    """The command line; empty if the files of its environment are still to be read."""
    environment: dict[str, str] = field(default_factory=dict)
    environment_files: list[str] = field(default_factory=list)


def patterns(name: str) -> tuple[str, ...]:
    """Patterns of the files that may start a service with a name that begins so."""
    units = (f"{folder}/{name}*.service{rest}" for folder in FOLDERS for rest in ("", ".d/*.conf"))
    return (*units, f"{SCRIPTS}/{name}*", f"/etc/conf.d/{name}*", *_OPENRC_ENVIRONMENT)


def services(files: Mapping[str, str], name: str) -> Iterator[Service]:
    """The services with a name that begins so. Raises SetupRefusedError."""
    units = {
        found[1]
        for path in files
        if (found := re.fullmatch(rf".*/systemd/system/({re.escape(name)}[^/]*)\.service", path))
    }
    for unit in sorted(units):
        yield _unit(files, unit)
    for path in sorted(files):
        if path.startswith(f"{SCRIPTS}/{name}"):
            yield _openrc(files, path)


def _unit(files: Mapping[str, str], name: str) -> Service:
    """Drop-ins come after the unit, in the order of their names, whatever their folder."""
    drop_ins = dict[str, str]()
    for folder in reversed(FOLDERS):
        within = f"{folder}/{name}.service.d/"
        drop_ins |= {path.removeprefix(within): path for path in files if path.startswith(within)}
    main = next(path for folder in FOLDERS if (path := f"{folder}/{name}.service") in files)
    found, command, given = Service(name, main), "", ""
    for path in (main, *(drop_ins[one] for one in sorted(drop_ins))):
        for key, value in _settings(files[path]):
            value = value.replace("%%", "\0").replace("%n", f"{name}.service")
            value = re.sub("%[Np]", name, value).replace("\0", "%")
            if key == "ExecStart":
                command, found.path = (command or value) if value else "", path
            elif key == "Environment":
                given = f"{given} {value}" if value else ""
            elif key == "EnvironmentFile":
                found.environment_files = [*found.environment_files, value.removeprefix("-")] if value else []
    found.environment = dict(one.partition("=")[::2] for one in _split(given, found.path))
    for path in found.environment_files:
        found.environment |= _assignments(files.get(path, ""))
    words = _split(command.lstrip("@-:+!"), found.path)
    found.words = words if command.startswith(":") else expanded(words, found.environment)
    return found


def _settings(text: str) -> Iterator[tuple[str, str]]:
    """The keys and values of the section Service; a comment may be within a line that goes on."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith(("#", ";"))]
    section = ""
    for line in re.sub(r"\\[ \t]*\n", " ", "\n".join(lines)).splitlines():
        key, equals, value = line.partition("=")
        if line.startswith("["):
            section = line.strip()
        elif equals and section == "[Service]":
            yield key.strip(), value.strip().removesuffix("\\").strip()


def _assignments(text: str) -> dict[str, str]:
    return {name: "".join(_split(value, "")[:1]) for name, value in _ASSIGNMENT.findall(text)}


def _split(text: str, path: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise SetupRefusedError(f"{path}: {text!r} cannot be read: {error}", "close the quotes there") from error


def _openrc(files: Mapping[str, str], path: str) -> Service:
    """The script is a shell's, of which only assignments are read."""
    known = dict[str, str]()
    for one in ("/etc/environment", _OPENRC_ENVIRONMENT[1], path.replace(SCRIPTS, "/etc/conf.d"), path):
        known |= _assignments(files.get(one, "").replace("\\\n", " "))
    try:
        words = next(_commands(f"{known.get('command', '')} {known.get('command_args', '')}"), [])
    except ValueError as error:
        raise SetupRefusedError(f"{path}: command_args cannot be read: {error}", "close the quotes there") from error
    return Service(base_name(path), path, expanded(words, known), known)
