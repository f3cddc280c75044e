"""The part of an HTTP client that ``ApiClient`` needs: httpx's is one, and ``lean_http`` has another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import httpx2


class HttpAnswer(Protocol):
    """The part of an answer that is read."""

    @property
    def status_code(self) -> int:
        """The status in the first line."""

    @property
    def is_success(self) -> bool:
        """Is it a 2xx?"""

    @property
    def headers(self) -> Mapping[str, str]:
        """By names in any case."""

    @property
    def content(self) -> bytes:
        """The body, once it has been read."""

    def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises httpx2.HTTPError."""

    async def aread(self) -> bytes:
        """The whole body. Raises httpx2.HTTPError."""


class Http(Protocol):
    """A pool of connections to one server. Its methods raise httpx2.HTTPError."""

    async def request(
        self,
        method: str,
        path: str,
        /,
        *,
        content: bytes | None,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str],
    ) -> HttpAnswer:
        """The whole answer, whatever its status."""

    def stream(
        self, method: str, path: str, /, *, params: Mapping[str, str], timeout: httpx2.Timeout
    ) -> AbstractAsyncContextManager[HttpAnswer]:
        """The answer from its headers on."""

    async def aclose(self) -> None:
        """Close all connections."""
