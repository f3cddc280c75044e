"""HTTP for who sends much: what ``ApiClient`` needs of httpx's client, on aiohttp.

A small request over TLS takes httpx about a millisecond of processor time (httpcore, h11, anyio, a URL that is parsed twice) and
aiohttp a quarter: a bind is such a request, and so is each event of a watch. The programs that send little stay with httpx,
which lightkube brings anyway: aiohttp takes 7 MiB of memory. Proxies are httpx's as well.

Errors are httpx's, so that nobody above can tell the two apart. Nothing is sent twice but after a 401, which says that nothing
was done: by itself aiohttp repeats a PUT or DELETE whose connection broke, and the second finds what the first has done.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import aiohttp
import httpx2
import yarl

from gpushare import __version__

_UNAUTHORIZED: Final = 401
# Change nothing, so aiohttp may send them again when a kept connection turns out to be closed.
_SAFE_METHODS: Final = ("GET", "HEAD")
_USER_AGENT: Final = f"gpushare/{__version__}"


class LeanAnswer:
    """The part of ``httpx2.Response`` that is read of one."""

    def __init__(self, response: aiohttp.ClientResponse, silence: float | None) -> None:
        self.status_code = response.status
        self.is_success = 200 <= response.status < 300
        self.headers: Mapping[str, str] = response.headers
        self.content = b""
        self._response = response
        self._silence = silence

    async def aread(self) -> bytes:
        """The whole body, which is ``content`` from then on. Raises httpx2.TransportError."""
        self.content = b"".join([piece async for piece in self.aiter_bytes()])
        return self.content

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises httpx2.TransportError, also after so long a silence."""
        content = self._response.content
        while not content.at_eof():
            # aiohttp's own limit is gone once it has met a chunk that is none.
            with _as_transport_errors():
                async with asyncio.timeout(self._silence):
                    piece = await content.readany()
            if piece:
                yield piece


class LeanHttp:
    """A pool of ``connections`` to one server, each kept for ``idle_seconds`` without a request.

    ``login`` is asked who we are, with the first request and whenever the server does not believe it. ``timeout_seconds`` limits
    each wait; None: for ever.
    """

    def __init__(
        self,
        url: str,
        tls: ssl.SSLContext,
        login: httpx2.Auth | None,
        *,
        timeout_seconds: float | None,
        connections: int,
        idle_seconds: float,
    ) -> None:
        self._url = url.rstrip("/")
        self._tls = tls
        self._login = login
        self._timeout_seconds = timeout_seconds
        self._connections = connections
        self._idle_seconds = idle_seconds
        self._session: aiohttp.ClientSession | None = None
        self._shown: dict[str, str] | None = None
        self._logging_in = asyncio.Lock()

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> LeanAnswer:
        """The whole answer, whatever its status. Raises httpx2.TransportError, and what the login raises."""
        async with self._answered(method, path, content, params, headers, self._timeout_seconds) as answer:
            await answer.aread()
            return answer

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, params: Mapping[str, str], timeout: httpx2.Timeout
    ) -> AsyncIterator[LeanAnswer]:
        """The answer from its headers on; ``timeout.read`` is how long it may say nothing. Raises as ``request``."""
        async with self._answered(method, path, None, params, None, timeout.read) as answer:
            yield answer

    @asynccontextmanager
    async def _answered(
        self,
        method: str,
        path: str,
        content: bytes | None,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
        silence: float | None,
    ) -> AsyncIterator[LeanAnswer]:
        # The path is quoted by who made it.
        url = yarl.URL(self._url + path, encoded=True)
        if params:
            url = url.with_query(params)
        shown = self._shown if self._shown is not None else await self._credentials(refused=None)
        response = await self._send(method, url, content, {**shown, **(headers or {})}, silence)
        if response.status == _UNAUTHORIZED and (newer := await self._credentials(refused=shown)) != shown:
            response.release()
            response = await self._send(method, url, content, {**newer, **(headers or {})}, silence)
        # A body that was not read to its end takes its connection with it.
        async with response:
            yield LeanAnswer(response, silence)

    async def _send(
        self, method: str, url: yarl.URL, content: bytes | None, headers: Mapping[str, str], silence: float | None
    ) -> aiohttp.ClientResponse:
        wait = self._timeout_seconds
        limits = aiohttp.ClientTimeout(total=None, connect=wait, sock_connect=wait, sock_read=silence)
        with _as_transport_errors():
            return await self._opened().request(
                method, url, data=content, headers=headers, timeout=limits, allow_redirects=False
            )

    async def _credentials(self, refused: Mapping[str, str] | None) -> dict[str, str]:
        """The header that says who we are; another one than that which the server ``refused``, where there is another."""
        async with self._logging_in:
            # Who waited meanwhile may have what another one was given.
            if self._shown is None or self._shown == refused:
                self._shown = await self._log_in(again=refused is not None)
            return self._shown

    async def _log_in(self, *, again: bool) -> dict[str, str]:
        if self._login is None:
            return {}
        flow = self._login.async_auth_flow(httpx2.Request("GET", self._url))
        try:
            shown = await anext(flow)
            if again:
                shown = await flow.asend(httpx2.Response(_UNAUTHORIZED))
        except StopAsyncIteration:
            return self._shown or {}
        finally:
            await flow.aclose()
        return {"Authorization": shown.headers["Authorization"]}

    def _opened(self) -> aiohttp.ClientSession:
        """With the first request, as it belongs to the loop that runs."""
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=self._connections, ssl=self._tls, keepalive_timeout=self._idle_seconds
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                headers={"User-Agent": _USER_AGENT},
                skip_auto_headers=("Content-Type",),
                cookie_jar=aiohttp.DummyCookieJar(),
                middlewares=(_once,),
            )
        return self._session


async def _once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
        if request.method in _SAFE_METHODS:
            raise
        raise aiohttp.ClientConnectionError(f"{type(error).__name__}: {error}") from error


@contextmanager
def _as_transport_errors() -> Generator[None]:
    """Those of connecting apart from all others: after them nothing can have happened."""
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise httpx2.ConnectTimeout(str(error)) from error
    except aiohttp.ClientConnectorError as error:
        raise httpx2.ConnectError(str(error)) from error
    # A TimeoutError in here is one of ours: one of the caller's comes as a cancellation.
    except TimeoutError as error:
        raise httpx2.ReadTimeout("it said nothing for too long") from error
    except (aiohttp.ClientError, OSError) as error:
        raise httpx2.ReadError(f"{type(error).__name__}: {error}") from error
