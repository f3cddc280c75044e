"""How a node starts a service: the systemd unit with its drop-ins and environment files, or OpenRC's script."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from gpushare.setup.core.command_line import base_name, expanded, without_redirections
from gpushare.setup.core.faults import SetupRefusedError

# The first folder wins.
FOLDERS: Final = tuple(f"{one}/systemd/system" for one in ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"))
SCRIPTS: Final = "/etc/init.d"
_OPENRC_ENVIRONMENT: Final = ("/etc/environment", "/etc/rancher/k3s/k3s.env")
_ASSIGNMENT: Final = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?(\w+)=("(?:[^"\\]|\\.)*"|'[^']*'|[^\s;]*)""", re.MULTILINE | re.DOTALL
)


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
        words = without_redirections(f"{known.get('command', '')} {known.get('command_args', '')}")
    except ValueError as error:
        raise SetupRefusedError(f"{path}: command_args cannot be read: {error}", "close the quotes there") from error
    return Service(base_name(path), path, expanded(words, known), known)
