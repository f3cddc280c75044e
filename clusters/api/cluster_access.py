"""The way to a cluster, and the login there, from kubeconfig files: merged as kubectl merges those of $KUBECONFIG."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp
import yaml

# A path in a file is relative to the file's own folder.
_PATHS: Final = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_PARTS: Final = {"clusters": "cluster", "users": "user", "contexts": "context"}


class ClusterAccess(NamedTuple):
    """A server, the client's side of TLS unless it is plain HTTP, and the Authorization header, which each call reads again."""

    url: str
    tls: ssl.SSLContext | None
    authorization: Callable[[], Awaitable[str]]


def access(paths: Sequence[Path], context: str = "") -> ClusterAccess:
    """By a context of these files, the current one unless named. Raises OSError and ValueError."""
    text = ", ".join(map(str, paths))
    try:
        whole = merged(paths)
        name = context or whole["current-context"]
        if not name:
            raise ValueError(f"{text}: no current context")
        chosen = whole["contexts"][name]
        cluster, user = (
            whole["clusters"][chosen["cluster"]],
            whole["users"][chosen["user"]] if chosen.get("user") else {},
        )
        url = str(cluster["server"])
        tls = None if url.startswith("http://") else _tls(cluster, user)
    except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{text} is not a usable kubeconfig: {error}") from error
    return ClusterAccess(url, tls, partial(_authorization, user))


def merged(paths: Sequence[Path]) -> dict[str, Any]:
    """The parts of the files that are there, by name: for each name the first file that has it counts.

    Raises FileNotFoundError if none is there, and what YAML of another shape raises.
    """
    files = [path.expanduser() for path in paths]
    documents = [(path, yaml.safe_load(path.read_text()) or {}) for path in files if path.is_file()]
    if not documents:
        raise FileNotFoundError(f"there is no kubeconfig at {', '.join(map(str, paths))}")
    whole: dict[str, Any] = {part: {} for part in _PARTS}
    for path, document in documents:
        for part, key in _PARTS.items():
            for item in document.get(part) or ():
                whole[part].setdefault(item["name"], _absolute(item[key] or {}, path.parent))
    current = (document.get("current-context") for _, document in documents)
    return {**whole, "current-context": next(filter(None, current), None)}


def _absolute(content: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    return {**content, **{name: str(folder.absolute() / content[name]) for name in _PATHS if content.get(name)}}


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    def found(fields: Mapping[str, Any], name: str) -> bytes:
        return pem(base64.b64decode(fields.get(f"{name}-data") or ""), fields.get(name) or "")

    return trusting(
        found(cluster, "certificate-authority"),
        found(user, "client-certificate"),
        found(user, "client-key"),
        insecure=bool(cluster.get("insecure-skip-tls-verify")),
    )


def pem(data: bytes, file: str) -> bytes:
    """The bytes that are given as data, else those of a file, else none. Raises OSError."""
    return data or (Path(file).read_bytes() if file else b"")


def trusting(authority: bytes, certificate: bytes, key: bytes, *, insecure: bool) -> ssl.SSLContext:
    """A client that trusts this authority (b"": those of the machine) and shows this certificate (b"": none), all in PEM.

    Raises OSError and ValueError.
    """
    # Comments between certificates may be in any language, and Python takes ASCII only.
    context = ssl.create_default_context(cadata=authority.decode("ascii", "replace").replace("\ufffd", "?") or None)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        # OpenSSL reads a certificate and its key from files only.
        with tempfile.NamedTemporaryFile(suffix=".pem") as both:
            both.write(certificate + b"\n" + key)
            both.flush()
            context.load_cert_chain(both.name)
    return context


async def _authorization(user: Mapping[str, Any]) -> str:
    """Empty if the user has no login but a certificate. Raises OSError and ValueError."""
    if path := user.get("tokenFile"):
        return f"Bearer {Path(path).read_text().strip()}"
    if token := user.get("token"):
        return f"Bearer {token}"
    if plugin := user.get("exec"):
        return f"Bearer {await _token_of(plugin)}"
    if name := user.get("username"):
        return aiohttp.encode_basic_auth(name, user.get("password") or "")
    return ""


async def _token_of(plugin: Mapping[str, Any]) -> str:
    """The token that a login plugin prints; its messages go to our stderr."""
    asked = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": {"interactive": False}}
    own = {one["name"]: one["value"] for one in plugin.get("env") or ()}
    process = await asyncio.create_subprocess_exec(
        plugin["command"],
        *(plugin.get("args") or ()),
        env={**os.environ, "KUBERNETES_EXEC_INFO": json.dumps(asked), **own},  # noqa: TID251  # a child as any other
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    try:
        return str(json.loads(output)["status"]["token"])
    except (ValueError, LookupError, TypeError):
        # Its output may be a secret.
        raise ValueError(
            f"the login plugin {plugin['command']} gave no token (exit code {process.returncode})"
        ) from None
