"""HTTP to one server, on aiohttp: connections that are kept, and our identity in each request.

Errors of aiohttp end here, as UnreachableError. Nothing is sent twice but after a 401, which shows that nothing was done: aiohttp
itself repeats a PUT or DELETE whose connection broke, and the second would find the first one's work.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import aiohttp
import yarl

from gpushare import __version__
from gpushare.kube.api_errors import UnreachableError

if TYPE_CHECKING:
    from aiohttp.connector import Connection

# Asked for the headers of our identity: with the first request, and whenever the server does not accept those that it gave.
Login: TypeAlias = Callable[[], Awaitable[Sequence[tuple[str, str]]]]

# How long a connection without requests is kept, in seconds. Longer than we pause between any two, as a TLS handshake costs
# more than all the rest of a request; shorter than an API server keeps it (90 s).
IDLE_SECONDS: Final = 60.0
# The most connections, and all are kept: with more, 64 binds spend much of their processor time on handshakes. The price: of an
# API server that takes a second for a write no more than 28 pods a second are bound (four connections are watches); the others
# wait for their turn.
CONNECTIONS: Final = 32
_UNAUTHORIZED: Final = 401
# Change nothing, so aiohttp may send them again when a kept connection turns out to be closed.
_SAFE_METHODS: Final = ("GET", "HEAD")
_USER_AGENT: Final = f"gpushare/{__version__}"


class Answer:
    """The answer to ``what``, from its headers on. Its methods raise UnreachableError, also after so long a silence."""

    def __init__(self, response: aiohttp.ClientResponse, what: str, silence_seconds: float | None) -> None:
        self.status = response.status
        self.is_success = 200 <= response.status < 300
        self.headers: Mapping[str, str] = response.headers
        self._response = response
        self._what = what
        self._silence_seconds = silence_seconds

    async def read(self) -> bytes:
        """The whole body."""
        return b"".join([piece async for piece in self.pieces()])

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        content = self._response.content
        while not content.at_eof():
            # aiohttp's own limit is gone once it has met a chunk that is none.
            with _as_unreachable(self._what):
                async with asyncio.timeout(self._silence_seconds):
                    piece = await content.readany()
            if piece:
                yield piece


class HttpPool:
    """Connections to the server at ``url``, through an HTTP or SOCKS5 ``proxy`` if there is one.

    ``timeout_seconds`` limits each wait; None: for ever. Raises ValueError for a URL that is none.
    """

    def __init__(
        self, url: str, tls: ssl.SSLContext, login: Login, *, proxy: str | None = None, timeout_seconds: float | None
    ) -> None:
        # It is parsed again for each request.
        yarl.URL(url)
        self._url = url.rstrip("/")
        self._tls = tls
        self._login = login
        self._proxy = proxy
        self._is_socks = proxy is not None and proxy.startswith("socks5")
        self._timeout_seconds = timeout_seconds
        self._session: aiohttp.ClientSession | None = None
        # The headers of the last login, and how many logins there were.
        self._shown: Sequence[tuple[str, str]] = ()
        self._logins = 0
        self._logging_in = asyncio.Lock()

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def answer(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        content: bytes | None = None,
        content_type: str = "",
        silence_seconds: float = 0.0,
    ) -> AsyncIterator[Answer]:
        """The answer, whatever its status; it may say nothing for ``silence_seconds`` instead of the timeout.

        Raises UnreachableError, and UnauthorizedError of the login.
        """
        silence = silence_seconds or self._timeout_seconds
        send = partial(self._send, method, path, params, content, content_type, silence)
        logins = self._logins or await self._log_in(0)
        # A body that was not read to its end takes its connection with it.
        async with await send() as response:
            if response.status != _UNAUTHORIZED:
                yield Answer(response, f"{method} {path}", silence)
                return
        await self._log_in(logins)
        async with await send() as response:
            yield Answer(response, f"{method} {path}", silence)

    async def _log_in(self, logins: int) -> int:
        """Log in again, unless another request has since the count was ``logins``; the count now."""
        async with self._logging_in:
            if self._logins == logins:
                self._shown = await self._login()
                self._logins += 1
            return self._logins

    async def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        content: bytes | None,
        content_type: str,
        silence: float | None,
    ) -> aiohttp.ClientResponse:
        wait = self._timeout_seconds
        # aiohttp's own limits begin when all is sent, end with a 1xx, and are rounded up by as much as a second.
        whole = None if wait is None or silence is None else wait + silence + 1
        with _as_unreachable(f"{method} {path}"):
            async with asyncio.timeout(whole):
                try:
                    # The caller has quoted the path.
                    url = yarl.URL(self._url + path, encoded=True)
                    return await self._opened().request(
                        method,
                        url.with_query(params) if params else url,
                        data=content,
                        headers=[*self._shown, *([("Content-Type", content_type)] if content_type else ())],
                        proxy=None if self._is_socks else self._proxy,
                        timeout=aiohttp.ClientTimeout(total=None, connect=wait, sock_connect=wait, sock_read=silence),
                        allow_redirects=False,
                    )
                except aiohttp.ClientConnectorError:
                    # One of its kinds, about the server's certificate, is a ValueError too.
                    raise
                except (ValueError, aiohttp.NonHttpUrlClientError) as error:
                    # The error's own words may have the token in them.
                    what = f"{type(error).__name__}: the server's URL or the login's token cannot be used"
                    raise _UnsendableError(what) from error

    def _opened(self) -> aiohttp.ClientSession:
        """With the first request, as it belongs to the loop that runs."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=self._connector(limit=CONNECTIONS, ssl=self._tls, keepalive_timeout=IDLE_SECONDS),
                headers={"User-Agent": _USER_AGENT},
                skip_auto_headers=("Content-Type",),
                cookie_jar=aiohttp.DummyCookieJar(),
                middlewares=(_once,),
                request_class=_Request,
            )
        return self._session

    def _connector(self, **options: Any) -> aiohttp.TCPConnector:
        if not self._is_socks:
            return aiohttp.TCPConnector(**options)
        from gpushare.kube.socks import SocksConnector  # takes longer than a request

        return SocksConnector(str(self._proxy), **options)


class _UnsendableError(aiohttp.ClientError):
    """A token or a URL that cannot be sent. Nothing was sent."""


class _StaleError(aiohttp.ServerDisconnectedError):
    """A kept connection on which the server has sent something in between. Nothing was sent."""


# After these nothing can have happened.
_NOT_SENT: Final = (
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientConnectorError,
    aiohttp.ClientHttpProxyError,
    _UnsendableError,
    _StaleError,
)


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
def _as_unreachable(what: str) -> Generator[None]:
    """A TimeoutError in here is one of ours: one of the caller's comes as a cancellation."""
    try:
        yield
    except (aiohttp.ClientError, OSError) as error:
        why, sent = _explained(error), not isinstance(error, _NOT_SENT)
        raise UnreachableError(f"{what}: no answer from the API server: {why}", may_have_happened=sent) from error


def _explained(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientHttpProxyError):
        # Its own text quotes the proxy's URL, which may have a password.
        return f"the proxy refused: {error.status} {error.message}"
    if isinstance(error, _NOT_SENT):
        return str(error)
    if isinstance(error, TimeoutError):
        return "it said nothing for too long"
    return f"{type(error).__name__}: {error}"
