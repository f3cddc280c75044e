"""The arguments of k3s and RKE2, from each source in the order in which the program reads them.

Its file is config.yaml, or the one that ``K3S_CONFIG_FILE`` or ``--config`` names; then come the files of the folder beside it.
A key replaces the list of the files before; a key with ``+`` appends to it. An argument of the command line replaces the list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gpushare.setup.core.command_line import SCRIPTS, Service, find, on_node, services, values_of
from gpushare.setup.core.faults import SetupRefusedError
from gpushare.setup.core.yaml_edit import load, mapping

KINDS: Final = ("rke2", "k3s")
# The file that a server reads if nothing names another.
CONFIG: Final = "/etc/rancher/{}/config.yaml"
ARGUMENTS: Final = "kube-scheduler-arg"
MOUNTS: Final = "kube-scheduler-extra-mount"
_DISABLED: Final = "disable-scheduler"
_FOLDER: Final = "data-dir"


class Given(NamedTuple):
    """A value, and the file that gives it."""

    value: str
    path: str


@dataclass(slots=True)
class Server:
    """The configuration of a server of k3s or RKE2."""

    config: str
    """Its file."""
    restart: str
    """The command that restarts it."""
    values: dict[str, list[Given]] = field(default_factory=dict)
    """By key, without dashes; those that count."""
    replaced_by: dict[str, str] = field(default_factory=dict)
    """By key: the file that is not ``config``, and whose list replaces the one there."""

    @property
    def data(self) -> str:
        """The folder of its data; "" for the default."""
        return next((one.value for one in reversed(self.values.get(_FOLDER, []))), "")

    def named(self, flag: str) -> Given | None:
        """The value of a flag of kube-scheduler; the last one wins."""
        found = None
        for value, path in self.values.get(ARGUMENTS, ()):
            name, _, text = value.lstrip("-").partition("=")
            found = Given(text, path) if name == flag else found
        return found

    def on_node(self, path: str) -> str:
        """The path of the node that kube-scheduler sees as ``path``: that itself, if no mount brings another there."""
        mounts = [one.value.split(":") for one in self.values.get(MOUNTS, ())]
        return on_node(path, {one[1]: one[0] for one in mounts if len(one) > 1}) or path


def start(files: Mapping[str, str], kind: str) -> tuple[Service, tuple[str, ...]] | None:
    """The service that starts the server, and its arguments; None if no unit or script does. Raises SetupRefusedError."""
    found = []
    for service in services(files, kind):
        command = find(service.words, kind)
        if command is not None and "server" in command.words:
            before = service.words[: -len(command.words)]
            service.environment |= dict(word.partition("=")[::2] for word in before if re.match(r"\w+=", word))
            found.append((service, command.words[command.words.index("server") + 1 :]))
    if len(found) > 1:
        paths = ", ".join(service.path for service, _ in found)
        raise SetupRefusedError(f"several services start a server of {kind}: {paths}", "remove those that are not used")
    return found[0] if found else None


def config_of(files: Mapping[str, str], kind: str) -> str:
    """The path of the server's file. Raises SetupRefusedError."""
    started = start(files, kind)
    if started is None:
        return CONFIG.format(kind)
    service, words = started
    variable = service.environment.get(f"{kind.upper()}_CONFIG_FILE")
    named = values_of(words, ("--config", "-c"))
    found = variable or (named[0] if named else CONFIG.format(kind))
    if "://" in found:
        raise SetupRefusedError(
            f"{service.path}: {kind} reads its configuration from {found}",
            f"add kube-scheduler's file to {ARGUMENTS} there: {found}",
        )
    return found


def read(files: Mapping[str, str], kind: str) -> Server:
    """Raises SetupRefusedError."""
    server = Server(config_of(files, kind), f"systemctl restart {'rke2-server' if kind == 'rke2' else kind}")
    # The file comes before its folder.
    for path in sorted(one for one in files if one == server.config or one.startswith(f"{server.config}.d/")):
        for key, value in mapping(load(files[path], path)).items():
            _take(
                server,
                str(key),
                [Given(_text(one), path) for one in (value if isinstance(value, list) else [value])],
                path,
            )
    _take_command_line(server, files, kind)
    disabled = server.values.get(_DISABLED, [])
    if disabled and disabled[-1].value == "true":
        raise SetupRefusedError(
            f"{disabled[-1].path}: {_DISABLED} is set, so this server runs no kube-scheduler",
            "run gpushare-setup on a server that runs one",
        )
    return server


def _take_command_line(server: Server, files: Mapping[str, str], kind: str) -> None:
    started = start(files, kind)
    if started is None:
        return
    service, words = started
    is_openrc = service.path.startswith(SCRIPTS)
    server.restart = f"rc-service {service.name} restart" if is_openrc else f"systemctl restart {service.name}"
    variable = service.environment.get(f"{kind.upper()}_DATA_DIR")
    given = {
        ARGUMENTS: values_of(words, (f"--{ARGUMENTS}",)),
        MOUNTS: values_of(words, (f"--{MOUNTS}",)),
        _FOLDER: values_of(words, (f"--{_FOLDER}", "-d")) or ([variable] if variable else []),
        _DISABLED: ["true"] if {f"--{_DISABLED}", f"--{_DISABLED}=true"} & {*words} else [],
    }
    for key, found in given.items():
        if found:
            _take(server, key, [Given(one, service.path) for one in found], service.path)


def _take(server: Server, key: str, given: list[Given], path: str) -> None:
    plain = key.removesuffix("+")
    if key != plain and plain in server.values:
        server.values[plain] = server.values[plain] + given
        return
    server.values[plain] = given
    if path != server.config and key == plain:
        server.replaced_by[plain] = path


def _text(value: Any) -> str:
    """As the program writes a value of YAML onto its command line."""
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
