"""How a user of a kubeconfig logs in, by kubectl's precedence, and as which user it acts.

A token file comes before a token, which counts if the file cannot be read; then comes a name with a password. A login plugin is
called for a user that has none of these and no client certificate. ``e2e/kubectl/test_kubeconfig.py`` compares it with kubectl.

A plugin is a program that answers a token, called by the rules of client-go's exec plugins
(``k8s.io/client-go/plugin/pkg/client/auth/exec``): its messages go to our stderr, because it may ask a person to sign in; it reads
our stdin only if that is a terminal and the kubeconfig allows it; and it is given the cluster if ``provideClusterInfo`` is set.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import urllib.parse
from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx2
import msgspec
import yaml
from lightkube.config.client_adapter import BearerAuth, BearerTokenFileAuth
from lightkube.core.exceptions import ConfigError

from gpushare.errors import UsageError
from gpushare.kube.api_errors import UnauthorizedError

_T = TypeVar("_T")
_CERTIFICATES: Final = ("client-certificate", "client-certificate-data")
# The exceptions of lightkube's logins, besides those of the operating system.
_ODD_ANSWERS: Final = (LookupError, TypeError, ValueError)
_VERSIONS: Final = tuple(f"client.authentication.k8s.io/{name}" for name in ("v1", "v1beta1"))
_NEVER, _IF_AVAILABLE, _ALWAYS = "Never", "IfAvailable", "Always"
_MODES: Final = (_NEVER, _IF_AVAILABLE, _ALWAYS)
# The fields of a cluster that a plugin gets, by the names that kubeconfig and plugin have for them.
_CLUSTER_FIELDS: Final = (
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "certificate-authority-data",
    "proxy-url",
)
_EXTENSION: Final = "client.authentication.k8s.io/exec"
_UNAUTHORIZED: Final = 401


class Login(httpx2.Auth):
    """Another login, if there is one, and headers for each request.

    Whatever that login raises (file, process and JSON errors) becomes UnauthorizedError; nothing was sent to the API server then.
    """

    def __init__(self, login: httpx2.Auth | None, headers: Sequence[tuple[str, str]] = ()) -> None:
        self._login = login
        self._headers = headers

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Hand requests and answers through."""
        request.headers = httpx2.Headers([*request.headers.multi_items(), *self._headers])
        if self._login is None:
            yield request
            return
        flow = self._login.async_auth_flow(request)
        try:
            following = await _explained(anext(flow))
            while True:
                answer = yield following
                try:
                    following = await _explained(flow.asend(answer))
                except StopAsyncIteration:
                    return
        finally:
            await flow.aclose()


def login_of(user: Mapping[str, Any], cluster: Mapping[str, Any]) -> Login | None:
    """The login of a user, by the fields of its kubeconfig; None if it has none. Raises UsageError for a plugin of another kind."""
    login, headers = _own_login(user, cluster), _impersonation(user)
    return None if login is None and not headers else Login(login, headers)


def _own_login(user: Mapping[str, Any], cluster: Mapping[str, Any]) -> httpx2.Auth | None:
    token, token_file = user.get("token"), user.get("tokenFile")
    if token_file and not (token and not _has_text(Path(token_file))):
        return BearerTokenFileAuth(token_file)
    if token:
        return BearerAuth(token)
    if user.get("username"):
        return httpx2.BasicAuth(user["username"], user.get("password") or "")
    if user.get("exec") and not any(user.get(field) for field in _CERTIFICATES):
        return PluginLogin(user["exec"], cluster)
    return None


def _impersonation(user: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The headers by which a user acts as another one (``as``, ``as-uid``, ``as-groups``, ``as-user-extra``)."""
    if not user.get("as"):
        return []
    headers = [("Impersonate-User", str(user["as"]))]
    headers += [("Impersonate-Uid", str(user["as-uid"]))] if user.get("as-uid") else []
    headers += [("Impersonate-Group", str(group)) for group in user.get("as-groups") or ()]
    for key, values in (user.get("as-user-extra") or {}).items():
        name = f"Impersonate-Extra-{urllib.parse.quote(str(key), safe='')}"
        headers += [(name, str(value)) for value in values]
    return headers


def _has_text(path: Path) -> bool:
    try:
        return bool(path.read_text().strip())
    except (OSError, UnicodeDecodeError):
        return False


async def _explained(step: Awaitable[_T]) -> _T:
    try:
        return await step
    except (ConfigError, OSError) as error:
        raise UnauthorizedError(f"the kubeconfig's token file or login plugin failed: {error}") from error
    except _ODD_ANSWERS as error:
        # Only the kind of error is shown: the output of a plugin may be a secret.
        raise UnauthorizedError(
            f"the kubeconfig's login plugin gave no token ({type(error).__name__}); client certificates from plugins"
            " are not supported"
        ) from error


class _Status(msgspec.Struct, frozen=True):
    token: str = ""
    clientCertificateData: str = ""  # noqa: N815 (the API's name)


class _Credential(msgspec.Struct, frozen=True):
    """The output of a plugin, by the API's names."""

    apiVersion: str = ""  # noqa: N815
    kind: str = ""
    status: _Status = _Status()


class PluginLogin(httpx2.Auth):
    """``plugin`` is the ``exec`` of the user, ``cluster`` the cluster's part of the kubeconfig. Raises UsageError."""

    def __init__(self, plugin: Mapping[str, Any], cluster: Mapping[str, Any]) -> None:
        version, mode = str(plugin.get("apiVersion")), str(plugin.get("interactiveMode") or "")
        if version not in _VERSIONS:
            raise UsageError(f"the login plugin's apiVersion is {version!r}; it must be one of {', '.join(_VERSIONS)}")
        # Only the older version has a default.
        self._mode = mode or (_IF_AVAILABLE if version != _VERSIONS[0] else "")
        if self._mode not in _MODES:
            raise UsageError(
                f"the login plugin's interactiveMode is {self._mode!r}; it must be one of {', '.join(_MODES)}"
            )
        self._command = [str(plugin.get("command")), *map(str, plugin.get("args") or ())]
        self._hint = str(plugin.get("installHint") or "")
        self._own = {str(one["name"]): str(one["value"]) for one in plugin.get("env") or ()}
        self._version = version
        self._cluster = _information(cluster) if plugin.get("provideClusterInfo") else None
        self._bearer = ""

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """The token as long as it is accepted, then another one."""
        if self._bearer:
            request.headers["Authorization"] = self._bearer
            response = yield request
            if response.status_code != _UNAUTHORIZED:
                return
        request.headers["Authorization"] = self._bearer = f"Bearer {await self._token()}"
        yield request

    async def _token(self) -> str:
        is_interactive = self._mode != _NEVER and sys.stdin is not None and sys.stdin.isatty()
        if self._mode == _ALWAYS and not is_interactive:
            raise UnauthorizedError(f"the login plugin {self._command[0]} needs a terminal (interactiveMode: Always)")
        stdin = None if is_interactive else asyncio.subprocess.DEVNULL
        spec: dict[str, Any] = {"interactive": is_interactive}
        if self._cluster is not None:
            spec["cluster"] = self._cluster
        information = json.dumps({"apiVersion": self._version, "kind": "ExecCredential", "spec": spec})
        # A child of ours, as any other: it finds its files and its login by the variables of the person that started us.
        environment = {**os.environ, "KUBERNETES_EXEC_INFO": information, **self._own}  # noqa: TID251
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command, env=environment, stdin=stdin, stdout=asyncio.subprocess.PIPE
            )
        except FileNotFoundError as error:
            raise UnauthorizedError(f"there is no login plugin {self._command[0]}. {self._hint}".strip()) from error
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        if process.returncode:
            raise UnauthorizedError(
                f"the login plugin {self._command[0]} ended with {process.returncode}; its messages are on stderr"
            )
        return self._token_of(output)

    def _token_of(self, output: bytes) -> str:
        """The token that the plugin printed, as JSON or YAML. Raises UnauthorizedError with a text without any of the output."""
        try:
            found = msgspec.convert(yaml.safe_load(output), _Credential)
        except (ValueError, yaml.YAMLError, RecursionError):
            found = _Credential()
        if found.apiVersion != self._version or found.kind not in ("", "ExecCredential"):
            raise UnauthorizedError(
                f"the login plugin {self._command[0]} did not answer an ExecCredential of {self._version}"
            )
        if not found.status.token:
            hint = "; client certificates of plugins are not supported" if found.status.clientCertificateData else ""
            raise UnauthorizedError(f"the login plugin {self._command[0]} answered no token{hint}")
        return found.status.token


def _information(cluster: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: cluster[name] for name in _CLUSTER_FIELDS if cluster.get(name)}
    config = next(
        (one.get("extension") for one in cluster.get("extensions") or () if one.get("name") == _EXTENSION), None
    )
    return found if config is None else {**found, "config": config}
