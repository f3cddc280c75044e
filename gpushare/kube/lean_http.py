"""HTTP for programs that send much: the part of httpx's client that ``ApiClient`` needs, on aiohttp.

A small request over TLS takes httpx about a millisecond of processor time (httpcore, h11, anyio, a URL that is parsed twice) and
aiohttp a quarter: a bind is such a request, and so is each event of a watch. The programs that send little stay with httpx,
which lightkube brings anyway: aiohttp takes 7 MiB of memory. Proxies are httpx's as well.

Errors are httpx's, so that no caller can tell the two apart. Nothing is sent twice but after a 401, which shows that nothing
was done: aiohttp itself repeats a PUT or DELETE whose connection broke, and the second would find the first one's work.
"""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import aiohttp
import httpx2
import yarl

from gpushare import __version__

if TYPE_CHECKING:
    from aiohttp.connector import Connection

_UNAUTHORIZED: Final = 401
_PIECEMEAL_BYTES: Final = 1 << 16
# Change nothing, so aiohttp may send them again when a kept connection turns out to be closed.
_SAFE_METHODS: Final = ("GET", "HEAD")
_USER_AGENT: Final = f"gpushare/{__version__}"


class _Asked(NamedTuple):
    """A request; ``silence`` is how long its answer may say nothing, in seconds."""

    method: str
    path: str
    content: bytes | None
    params: Mapping[str, str]
    headers: Mapping[str, str]
    silence: float | None


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
        """The whole body, which is ``content`` from then on; read again it is the same. Raises httpx2.TransportError."""
        self.content += b"".join([piece async for piece in self.aiter_bytes()])
        return self.content

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises httpx2.TransportError, also after a silence of ``silence`` seconds."""
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

    ``login`` is asked for our identity, with the first request and whenever the server does not accept it. ``timeout_seconds``
    limits each wait; None: for ever. Raises ValueError and httpx2.InvalidURL for a URL that is none.
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
        # Both parse it later, for a request.
        httpx2.URL(url), yarl.URL(url)
        self._url = url.rstrip("/")
        self._tls = tls
        self._login = login
        self._timeout_seconds = timeout_seconds
        self._connections = connections
        self._idle_seconds = idle_seconds
        self._session: aiohttp.ClientSession | None = None
        # The headers of the last login, and how many logins there were.
        self._shown: list[tuple[str, str]] = []
        self._logins = 0
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
        asked = _Asked(method, path, content, params or {}, headers or {}, self._timeout_seconds)
        async with self._answered(asked) as answer:
            await answer.aread()
            return answer

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, *, params: Mapping[str, str], timeout: httpx2.Timeout
    ) -> AsyncIterator[LeanAnswer]:
        """The answer from its headers on; ``timeout.read`` is how long it may say nothing. Raises as ``request``."""
        async with self._answered(_Asked(method, path, None, params, {}, timeout.read)) as answer:
            yield answer

    @asynccontextmanager
    async def _answered(self, asked: _Asked) -> AsyncIterator[LeanAnswer]:
        logins = self._logins or await self._log_in(0)
        shown = self._shown
        # A body that was not read to its end takes its connection with it.
        async with await self._send(asked, shown) as response:
            answer = LeanAnswer(response, asked.silence)
            if response.status != _UNAUTHORIZED or self._login is None:
                yield answer
                return
            # Its connection is free for other requests while we log in.
            await answer.aread()
        await self._log_in(logins)
        if self._shown == shown:
            yield answer
            return
        async with await self._send(asked, self._shown) as response:
            yield LeanAnswer(response, asked.silence)

    async def _send(self, asked: _Asked, shown: Sequence[tuple[str, str]]) -> aiohttp.ClientResponse:
        wait, silence = self._timeout_seconds, asked.silence
        limits = aiohttp.ClientTimeout(total=None, connect=wait, sock_connect=wait, sock_read=silence)
        # aiohttp's own limits begin when all is sent, end with a 1xx, and are rounded up by as much as a second.
        whole = None if wait is None or silence is None else wait + silence + 1
        with _as_transport_errors():
            async with asyncio.timeout(whole):
                try:
                    # The caller has quoted the path.
                    url = yarl.URL(self._url + asked.path, encoded=True)
                    return await self._opened().request(
                        asked.method,
                        url.with_query(asked.params) if asked.params else url,
                        data=_payload(asked.content),
                        headers=[*shown, *asked.headers.items()],
                        timeout=limits,
                        allow_redirects=False,
                    )
                except aiohttp.ClientConnectorError:
                    # One of its kinds, about the server's certificate, is a ValueError too.
                    raise
                except (ValueError, aiohttp.NonHttpUrlClientError) as error:
                    # A token or a URL that cannot be sent; the error's own words may have the token in them.
                    what = f"{type(error).__name__}: the server's URL or the login's token cannot be used"
                    raise httpx2.UnsupportedProtocol(what) from error

    async def _log_in(self, logins: int) -> int:
        """Ask the login, unless another request has since the count was ``logins``; the count now."""
        async with self._logging_in:
            if self._logins == logins:
                self._shown = await self._credentials(again=logins > 0)
                self._logins += 1
            return self._logins

    async def _credentials(self, *, again: bool) -> list[tuple[str, str]]:
        """The headers that the login adds; ``again``: those that it added before were refused."""
        if self._login is None:
            return []
        request = httpx2.Request("GET", self._url)
        without = {*request.headers}
        flow = self._login.async_auth_flow(request)
        try:
            shown = await anext(flow)
            if again:
                shown = await flow.asend(httpx2.Response(_UNAUTHORIZED))
        except StopAsyncIteration:
            return self._shown
        finally:
            await flow.aclose()
        return [(name, text) for name, text in shown.headers.multi_items() if name not in without]

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
                request_class=_Request,
            )
        return self._session


def _payload(content: bytes | None) -> bytes | io.BytesIO | None:
    """A large body is sent piece by piece, so that other requests have their turn."""
    return content if content is None or len(content) < _PIECEMEAL_BYTES else io.BytesIO(content)


class _StaleError(aiohttp.ServerDisconnectedError):
    """A kept connection on which the server has sent something in between. Nothing was sent."""


class _Request(aiohttp.ClientRequest):
    """Takes no kept connection on which something waits to be read: it would pass for the answer, then each answer for the next."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        """Send it. Raises _StaleError."""
        if conn.protocol is None or conn.protocol.should_close:
            raise _StaleError
        return await super().send(conn)


async def _once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    try:
        return await handler(request)
    except (aiohttp.ClientConnectorError, _StaleError):
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
    except (aiohttp.ClientConnectorError, _StaleError) as error:
        raise httpx2.ConnectError(str(error)) from error
    # A TimeoutError in here is one of ours: one of the caller's comes as a cancellation.
    except TimeoutError as error:
        raise httpx2.ReadTimeout("it said nothing for too long") from error
    except (aiohttp.ClientError, OSError) as error:
        raise httpx2.ReadError(f"{type(error).__name__}: {error}") from error
