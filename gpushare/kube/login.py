"""How a user of a kubeconfig logs in, by kubectl's precedence, and as which user it acts.

A token file comes before a token, which counts if the file cannot be read; then comes a name with a password. A login plugin is
called for a user that has none of these and no client certificate. ``e2e/parity/test_kubeconfig.py`` compares it with kubectl.

A plugin is a program that answers a token, a client certificate with its key, or both. It is called by the rules of client-go's
exec plugins (``k8s.io/client-go/plugin/pkg/client/auth/exec``): its messages go to our stderr, because it may ask a person to sign
in; it reads our stdin only if that is a terminal and the kubeconfig allows it; and it is given the cluster if
``provideClusterInfo`` is set.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from gpushare.errors import UsageError
from gpushare.foreign import UnreadableError, decode_yaml
from gpushare.kube.api_errors import UnauthorizedError
from gpushare.kube.kubeconfig import Cluster, Exec, User

_VERSIONS: Final = tuple(f"client.authentication.k8s.io/{name}" for name in ("v1", "v1beta1"))
_NEVER, _IF_AVAILABLE, _ALWAYS = "Never", "IfAvailable", "Always"
_MODES: Final = (_NEVER, _IF_AVAILABLE, _ALWAYS)
# The fields of a cluster that a plugin does not get as the kubeconfig has them.
_OWN_FIELDS: Final = ("certificate-authority", "extensions")
_EXTENSION: Final = "client.authentication.k8s.io/exec"


class Login:
    """The login of ``user`` at ``cluster``. Raises UsageError for a plugin of another kind.

    ``present`` is given the client certificate and the key that a plugin answers, as PEM, for connections from then on.
    """

    def __init__(self, user: User, cluster: Cluster, present: Callable[[str, str], None]) -> None:
        self._user = user
        self._present = present
        has_other = user.token or user.token_file or user.username
        has_certificate = user.client_certificate or user.client_certificate_data
        self._plugin = None
        if user.exec is not None and not has_other and not has_certificate:
            self._plugin = _Plugin(user.exec, cluster)
        self._impersonation = _impersonation(user)

    async def __call__(self) -> list[tuple[str, str]]:
        """The headers of a request. Raises UnauthorizedError; nothing was sent to the API server then."""
        authorization = await self._authorization()
        return [*([("Authorization", authorization)] if authorization else []), *self._impersonation]

    async def _authorization(self) -> str:
        user = self._user
        if self._plugin is not None:
            given = await self._plugin.ask()
            if given.client_certificate_data:
                try:
                    self._present(given.client_certificate_data, given.client_key_data)
                except (OSError, ValueError) as error:
                    raise UnauthorizedError(
                        f"the login plugin answered a certificate that cannot be used: {error}"
                    ) from error
            return f"Bearer {given.token}" if given.token else ""
        if token := _token_in(user.token_file, user.token) if user.token_file else user.token:
            return f"Bearer {token}"
        if user.username:
            return "Basic " + base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
        return ""


def _token_in(path: str, spare: str) -> str:
    """The token in a file; ``spare`` if it has none. Raises UnauthorizedError."""
    try:
        token, why = Path(path).read_text().strip(), "it is empty"
    except (OSError, UnicodeDecodeError) as error:
        token, why = "", str(error)
    if not token and not spare:
        raise UnauthorizedError(f"the kubeconfig's token file {path} has no token: {why}")
    return token or spare


def _impersonation(user: User) -> list[tuple[str, str]]:
    """The headers by which a user acts as another one (``as``, ``as-uid``, ``as-groups``, ``as-user-extra``)."""
    headers = [("Impersonate-User", user.as_), ("Impersonate-Uid", user.as_uid)]
    headers += [("Impersonate-Group", group) for group in user.as_groups]
    for key, values in user.as_user_extra.items():
        headers += [(f"Impersonate-Extra-{urllib.parse.quote(key, safe='')}", value) for value in values]
    return [(name, text) for name, text in headers if text]


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""


class _Credential(msgspec.Struct, frozen=True, rename="camel"):
    """The output of a plugin."""

    api_version: str = ""
    kind: str = ""
    status: _Status = _Status()


class _Plugin:
    def __init__(self, plugin: Exec, cluster: Cluster) -> None:
        version, mode = str(plugin.api_version), plugin.interactive_mode or ""
        if version not in _VERSIONS:
            raise UsageError(f"the login plugin's apiVersion is {version!r}; it must be one of {', '.join(_VERSIONS)}")
        if not plugin.command:
            raise UsageError("the login plugin has no command")
        # Only the older version has a default.
        self._mode = mode or (_IF_AVAILABLE if version != _VERSIONS[0] else "")
        if self._mode not in _MODES:
            raise UsageError(
                f"the login plugin's interactiveMode is {self._mode!r}; it must be one of {', '.join(_MODES)}"
            )
        self._plugin = plugin
        self._name = str(plugin.command)
        self._version = version
        self._cluster = {"cluster": _information(cluster)} if plugin.provide_cluster_info else {}

    async def ask(self) -> _Status:
        """Another answer each time. Raises UnauthorizedError."""
        is_interactive = self._mode != _NEVER and sys.stdin is not None and sys.stdin.isatty()
        if self._mode == _ALWAYS and not is_interactive:
            raise UnauthorizedError(f"the login plugin {self._name} needs a terminal (interactiveMode: Always)")
        spec = {"interactive": is_interactive, **self._cluster}
        information = json.dumps({"apiVersion": self._version, "kind": "ExecCredential", "spec": spec})
        own = {one.name: one.value for one in self._plugin.env or ()}
        try:
            process = await asyncio.create_subprocess_exec(
                self._name,
                *(self._plugin.args or ()),
                # A child of ours, as any other: it finds its files and its login by the variables of the person that started us.
                env={**os.environ, "KUBERNETES_EXEC_INFO": information, **own},  # noqa: TID251
                stdin=None if is_interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
            )
        except FileNotFoundError as error:
            hint = self._plugin.install_hint or ""
            raise UnauthorizedError(f"there is no login plugin {self._name}. {hint}".strip()) from error
        except (OSError, ValueError) as error:
            raise UnauthorizedError(f"the login plugin {self._name} cannot be started: {error}") from error
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode:
            raise UnauthorizedError(
                f"the login plugin {self._name} ended with {process.returncode}; its messages are on stderr"
            )
        return self._status_in(output)

    def _status_in(self, output: bytes) -> _Status:
        """The login that the plugin printed, as JSON or YAML. Raises UnauthorizedError with a text without any of the output."""
        try:
            found = msgspec.convert(decode_yaml(output), _Credential)
        except (UnreadableError, msgspec.ValidationError):
            found = _Credential()
        if found.api_version != self._version or found.kind not in ("", "ExecCredential"):
            raise UnauthorizedError(
                f"the login plugin {self._name} did not answer an ExecCredential of {self._version}"
            )
        status = found.status
        if bool(status.client_certificate_data) is not bool(status.client_key_data):
            raise UnauthorizedError(
                f"the login plugin {self._name} answered a certificate without a key, or a key without one"
            )
        if not (status.token or status.client_certificate_data):
            raise UnauthorizedError(f"the login plugin {self._name} answered neither a token nor a certificate")
        return status


def _information(cluster: Cluster) -> dict[str, Any]:
    """The fields of the cluster that a plugin is given, by the names that the kubeconfig has for them."""
    fields = msgspec.to_builtins(cluster)
    found = {name: value for name, value in fields.items() if name not in _OWN_FIELDS}
    config = next((one.get("extension") for one in cluster.extensions if one.get("name") == _EXTENSION), None)
    return found if config is None else {**found, "config": config}
