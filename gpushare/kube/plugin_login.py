"""The login plugin of a kubeconfig: a program that answers a token, called as kubectl calls it.

The rules are those of client-go's exec plugins (``k8s.io/client-go/plugin/pkg/client/auth/exec``): the plugin's messages go to
our stderr, because it may ask a person to sign in; it reads our stdin only if that is a terminal and the kubeconfig allows it;
and it is given the cluster if ``provideClusterInfo`` is set.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

import httpx2
import msgspec
import yaml

from gpushare.errors import UsageError
from gpushare.kube.api_errors import UnauthorizedError

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
