"""kubeconfig files as one, by kubectl's rules: of things with the same name, and of two current contexts, the first file's
counts; paths inside a file are relative to it. Fields that kubectl refuses, or that nothing here obeys, are refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from gpushare.bounds import YAML_CHARACTERS
from gpushare.errors import UsageError
from gpushare.foreign import UnreadableError, decode_yaml


class Cluster(msgspec.Struct, rename="kebab", omit_defaults=True):
    """How a server is reached and verified."""

    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    proxy_url: str = ""
    extensions: list[dict[str, Any]] = []


class Variable(msgspec.Struct):
    """A variable in the environment of a login plugin."""

    name: str
    value: str


class Exec(msgspec.Struct, rename="camel"):
    """A login plugin, called by the rules of client-go."""

    api_version: str | None = None
    command: str | None = None
    args: list[str] | None = None
    env: list[Variable] | None = None
    install_hint: str | None = None
    interactive_mode: str | None = None
    provide_cluster_info: bool = False


class User(msgspec.Struct, rename="kebab"):
    """A login, and the user as which it acts."""

    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    username: str = ""
    password: str = ""
    exec: Exec | None = None
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    auth_provider: Any = None
    as_: str = msgspec.field(name="as", default="")
    as_uid: str = ""
    as_groups: list[str] = []
    as_user_extra: dict[str, list[str]] = {}


class Context(msgspec.Struct):
    """The names of a cluster and a user, and the namespace of requests that name none."""

    cluster: str
    user: str = ""
    namespace: str = ""


class Access(NamedTuple):
    """The cluster and the user of a context; ``context`` is its name, ``namespace`` that of requests that name none."""

    context: str
    cluster: Cluster
    user: User
    namespace: str = ""


_Thing: TypeAlias = Cluster | User | Context
# The lists of named things, and what each thing is called in its entry.
_SECTIONS: Final[dict[str, tuple[str, type[_Thing]]]] = {
    "clusters": ("cluster", Cluster),
    "contexts": ("context", Context),
    "users": ("user", User),
}
# Fields that name a file.
_FILES: Final = ("certificate_authority", "client_certificate", "client_key", "token_file")


def read(paths: Sequence[Path], context: str | None) -> Access:
    """The cluster and the user of a context, by default of the current one. Raises UsageError for files that cannot be used."""
    current, found = _merged(paths)
    named = context or current
    files = ":".join(str(path) for path in paths if path.exists())
    if not named:
        raise UsageError(f"the kubeconfig {files} has no current context; pass --context")
    chosen: Context | None = found.get(("contexts", named))
    if chosen is None:
        raise UsageError(f"the kubeconfig {files} has no context {named!r}")
    try:
        cluster = found["clusters", chosen.cluster]
        user = found["users", chosen.user] if chosen.user else User()
    except KeyError as error:
        absent = error.args[0][1]
        raise UsageError(f"the context {named!r} of the kubeconfig names {absent!r}, which is not in it") from error
    if wrong := _wrong(cluster, user):
        raise UsageError(f"of the kubeconfig's context {named!r} {wrong}")
    # As for kubectl.
    cluster.server = cluster.server if "://" in cluster.server else f"http://{cluster.server}"
    return Access(named, cluster, user, chosen.namespace)


def _merged(paths: Sequence[Path]) -> tuple[str, dict[tuple[str, str], Any]]:
    """The current context, and the things by section and name."""
    documents = {path: document for path in paths if (document := _read(path)) is not None}
    if not documents:
        raise UsageError(f"there is no kubeconfig {paths[0]}; pass --kubeconfig or set KUBECONFIG")
    current, found = "", dict[tuple[str, str], Any]()
    for path, document in documents.items():
        current = current or str(document.get("current-context") or "")
        for section in _SECTIONS:
            for name, thing in _things(path, document, section).items():
                found.setdefault((section, name), thing)
    return current, found


def _wrong(cluster: Cluster, user: User) -> str:
    """The first reason why kubectl would refuse them, or why they would be obeyed otherwise than they are written."""
    authority = cluster.certificate_authority or cluster.certificate_authority_data
    certificate, key = user.client_certificate or user.client_certificate_data, user.client_key or user.client_key_data
    of_another = {"as-uid": user.as_uid, "as-groups": user.as_groups, "as-user-extra": user.as_user_extra}
    alone = next((field for field, value in of_another.items() if value and not user.as_), "")
    one, other = ("client-certificate", "client-key")[:: 1 if certificate else -1]
    checks = (
        (not cluster.server, "the cluster names no server"),
        (
            cluster.insecure_skip_tls_verify and authority,
            "the cluster names an authority and insecure-skip-tls-verify; kubectl refuses that too. Remove one of them",
        ),
        _twice(cluster, "certificate_authority"),
        _twice(user, "client_certificate"),
        _twice(user, "client_key"),
        (alone, f"the user has {alone}, but names no user to act as. Add as, or remove {alone}"),
        (
            (user.token or user.token_file) and user.username,
            "the user has a token and a username; kubectl refuses that too. Remove one of them",
        ),
        (bool(certificate) is not bool(key), f"the user has a {one} and no {other}. Add {other} or {other}-data"),
        (
            user.auth_provider,
            "the user logs in by auth-provider, which kubectl does not have any more either. Use exec, a login plugin",
        ),
    )
    return next((reason for is_wrong, reason in checks if is_wrong), "")


def _twice(thing: _Thing, field: str) -> tuple[bool, str]:
    name = field.replace("_", "-")
    is_twice = bool(getattr(thing, field) and getattr(thing, f"{field}_data"))
    return is_twice, f"{name} and {name}-data are there; kubectl refuses that too. Remove one of them"


def _read(path: Path) -> dict[str, Any] | None:
    """The document, None if there is no such file."""
    try:
        with path.open(encoding="utf-8") as file:
            document = decode_yaml(file.read(YAML_CHARACTERS.most + 1))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnreadableError as error:
        # Its own text quotes the file, in which tokens and keys are.
        raise UsageError(f"cannot read the kubeconfig {path}: it is no YAML{error.place}") from None
    except UnicodeDecodeError:
        raise UsageError(f"cannot read the kubeconfig {path}: it is no UTF-8") from None
    except OSError as error:
        raise UsageError(f"cannot read the kubeconfig {path}: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise UsageError(f"{path} is no kubeconfig: expected a mapping with clusters, contexts and users")
    return document


def _things(path: Path, document: dict[str, Any], section: str) -> dict[str, _Thing]:
    """The named things of a section, file names made absolute. Raises UsageError."""
    word, kind = _SECTIONS[section]
    # kubectl writes null for an empty list.
    entries = document.get(section) or []
    if not isinstance(entries, list):
        raise UsageError(f"{path}: {section} is no list")
    things: dict[str, _Thing] = {}
    for entry in entries:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            raise UsageError(f"{path}: an entry of {section} has no name")
        if name in things:
            raise UsageError(f"{path}: {section} has two entries named {name!r}; kubectl refuses that too")
        content = entry.get(word)
        if content is not None and not isinstance(content, dict):
            raise UsageError(f"{path}: the {word} {name!r} is no mapping")
        present = {field: value for field, value in (content or {}).items() if value is not None}
        try:
            things[name] = _absolute(path.absolute().parent, msgspec.convert(present, kind))
        except msgspec.ValidationError as error:
            raise UsageError(f"cannot use the kubeconfig {path}: the {word} {name!r}: {error}") from error
    return things


def _absolute(folder: Path, thing: _Thing) -> _Thing:
    for field in _FILES:
        if value := getattr(thing, field, ""):
            setattr(thing, field, str(folder / value))
    # As a shell does: a command with a slash is a file, one without is looked up on PATH.
    if isinstance(thing, User) and thing.exec and "/" in (thing.exec.command or ""):
        thing.exec.command = str(folder / str(thing.exec.command))
    return thing
