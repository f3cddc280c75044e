"""How a user of a kubeconfig logs in, by kubectl's precedence, and as which user it acts.

A token file comes before a token, which counts if the file cannot be read; then comes a name with a password. A login plugin is
called for a user that has none of these and no client certificate. ``e2e/kubectl/test_kubeconfig.py`` compares it with kubectl.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any, Final

import httpx2
from lightkube.config.client_adapter import BearerAuth, BearerTokenFileAuth

from gpushare.kube.plugin_login import PluginLogin

_CERTIFICATES: Final = ("client-certificate", "client-certificate-data")


def login_of(user: Mapping[str, Any], cluster: Mapping[str, Any]) -> httpx2.Auth | None:
    """The login of a user, by the fields of its kubeconfig; None if it has none. Raises UsageError for a plugin of another kind."""
    login = _own_login(user, cluster)
    headers = impersonation(user)
    return Impersonation(login, headers) if headers else login


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


def impersonation(user: Mapping[str, Any]) -> list[tuple[str, str]]:
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


class Impersonation(httpx2.Auth):
    """Adds headers to each request of another login, or to requests without one."""

    def __init__(self, login: httpx2.Auth | None, headers: list[tuple[str, str]]) -> None:
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
            following = await anext(flow)
            while True:
                answer = yield following
                try:
                    following = await flow.asend(answer)
                except StopAsyncIteration:
                    return
        finally:
            await flow.aclose()


def _has_text(path: Path) -> bool:
    try:
        return bool(path.read_text().strip())
    except (OSError, UnicodeDecodeError):
        return False
