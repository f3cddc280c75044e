"""kubeconfig files as one document, by kubectl's rules: of things with the same name, and of two current contexts, the
first file's counts; paths inside a file are relative to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from gpushare.errors import UsageError

# The lists of named things, and what each thing is called in its entry.
_SECTIONS: Final = {"clusters": "cluster", "contexts": "context", "users": "user"}
# Fields that name a file. lightkube resolves the certificates itself, but against one file for all.
_FILES: Final = {
    "cluster": ("certificate-authority",),
    "user": ("client-certificate", "client-key", "tokenFile"),
}

# Fields that say more of the user that is impersonated, and by which a cluster names the authority that it trusts.
_IMPERSONATED: Final = ("as-uid", "as-groups", "as-user-extra")
_AUTHORITIES: Final = ("certificate-authority", "certificate-authority-data")


def load(paths: Sequence[Path]) -> dict[str, Any]:
    """The merged document. Raises UsageError for a file that cannot be read or is no kubeconfig."""
    merged: dict[str, Any] = {"current-context": None, **{section: [] for section in _SECTIONS}}
    known: set[tuple[str, str]] = set()
    for path in paths:
        document = _read(path)
        merged["current-context"] = merged["current-context"] or document.get("current-context")
        own: set[tuple[str, str]] = set()
        for section, name, content in _entries(path, document):
            if (section, name) in own:
                raise UsageError(f"{path}: {section} has two entries named {name!r}; kubectl refuses that too")
            own.add((section, name))
            if (section, name) not in known:
                known.add((section, name))
                merged[section].append({"name": name, _SECTIONS[section]: content})
    return merged


def content_of(document: dict[str, Any], section: str, name: str) -> dict[str, Any]:
    """The fields of a cluster or user of a merged kubeconfig; none if it is not there."""
    found = (entry[_SECTIONS[section]] for entry in document[section] if entry["name"] == name)
    return dict(next(found, {}))


def check_fields(cluster: Mapping[str, Any], user: Mapping[str, Any], context: str) -> None:
    """Refuse all that kubectl refuses, and all that would be done otherwise than in the file. Raises UsageError."""
    for reason in (_wrong_cluster(cluster), _wrong_user(user)):
        if reason:
            raise UsageError(f"of the kubeconfig's context {context!r} {reason}")


def _wrong_cluster(cluster: Mapping[str, Any]) -> str:
    if not cluster.get("server"):
        return "the cluster names no server"
    if cluster.get("insecure-skip-tls-verify") and any(cluster.get(field) for field in _AUTHORITIES):
        return (
            "the cluster names an authority and insecure-skip-tls-verify; kubectl refuses that too. Remove one of them"
        )
    return ""


def _wrong_user(user: Mapping[str, Any]) -> str:
    for field in _IMPERSONATED:
        if user.get(field) and not user.get("as"):
            return f"the user has {field}, but names no user to act as. Add as, or remove {field}"
    if (user.get("token") or user.get("tokenFile")) and user.get("username"):
        return "the user has a token and a username; kubectl refuses that too. Remove one of them"
    for one, other in (("client-certificate", "client-key"), ("client-key", "client-certificate")):
        if _has(user, one) and not _has(user, other):
            return f"the user has a {one} and no {other}. Add {other} or {other}-data"
    if user.get("auth-provider"):
        return (
            "the user logs in by auth-provider, which kubectl does not have any more either. Use exec, a login plugin"
        )
    return ""


def server_of(cluster: Mapping[str, Any]) -> str:
    """The server's URL; http if it has no scheme, as for kubectl."""
    server = str(cluster.get("server") or "")
    return server if "://" in server else f"http://{server}"


def _has(user: Mapping[str, Any], field: str) -> bool:
    """Is it there, as a file or as data?"""
    return bool(user.get(field) or user.get(f"{field}-data"))


def _read(path: Path) -> dict[str, Any]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        # Its own text quotes the file, in which tokens and keys are.
        raise UsageError(f"cannot read the kubeconfig {path}: {_place_of(error)}") from None
    except UnicodeDecodeError:
        raise UsageError(f"cannot read the kubeconfig {path}: it is no UTF-8") from None
    except OSError as error:
        raise UsageError(f"cannot read the kubeconfig {path}: {error}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise UsageError(f"{path} is no kubeconfig: expected a mapping with clusters, contexts and users")
    return document


def _place_of(error: yaml.YAMLError) -> str:
    """Where a file is no YAML, and why, without a piece of the file."""
    mark = getattr(error, "problem_mark", None)
    place = "" if mark is None else f" at line {mark.line + 1}, column {mark.column + 1}"
    return f"it is no YAML{place}"


def _entries(path: Path, document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """``(section, name, content)`` of all named things, file names made absolute. Raises UsageError."""
    for section, word in _SECTIONS.items():
        # kubectl writes null for an empty list.
        entries = document.get(section) or []
        if not isinstance(entries, list):
            raise UsageError(f"{path}: {section} is no list")
        for entry in entries:
            content = entry.get(word) if isinstance(entry, dict) else None
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                raise UsageError(f"{path}: an entry of {section} has no name")
            if content is not None and not isinstance(content, dict):
                raise UsageError(f"{path}: the {word} {entry['name']!r} is no mapping")
            yield section, entry["name"], _absolute(path, word, dict(content or {}))


def _absolute(path: Path, word: str, content: dict[str, Any]) -> dict[str, Any]:
    folder = path.absolute().parent
    for field in _FILES.get(word, ()):
        if content.get(field):
            content[field] = str(folder / str(content[field]))
    plugin = content.get("exec")
    # As a shell does: a command with a slash is a file, one without is looked up on PATH.
    if word == "user" and isinstance(plugin, dict) and "/" in str(plugin.get("command")):
        content["exec"] = {**plugin, "command": str(folder / str(plugin["command"]))}
    return content
