"""Logins that fail in our own words: a token file that is gone, a plugin that is missing, fails or answers oddly.

Without this, whatever the login raises (file, process and JSON errors) would cross the edge in the middle of a request.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable
from typing import Final, TypeVar

import httpx2
from lightkube.core.exceptions import ConfigError

from gpushare.kube.api_errors import UnauthorizedError

_T = TypeVar("_T")
# The exceptions of lightkube's logins, besides those of the operating system.
_ODD_ANSWERS: Final = (LookupError, TypeError, ValueError)


class ExplainedLogin(httpx2.Auth):
    """Another login, with failures that become UnauthorizedError. No request was sent to the API server then."""

    def __init__(self, login: httpx2.Auth) -> None:
        self._login = login

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Hand requests and answers through."""
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
