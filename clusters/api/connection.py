"""HTTP as the harness speaks it: a pool of connections to one server, whole answers and streams."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import os
import re
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import aiohttp
import multidict
import yaml
import yarl

from clusters.api.exchanges import note

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


# For connecting, and between two pieces of an answer, in seconds. A real API server takes three to say that it does not know a
# version yet.
ANSWER_SECONDS: Final = 30.0
# A server of uvicorn's closes a connection that idled for five seconds; no request may go into one that is about to close.
_IDLE_SECONDS: Final = 3.0
# A body from here on is not written in one go.
_PIECEMEAL_BYTES: Final = 1 << 16
_UNAUTHORIZED: Final = 401
# An API server keeps 10,000 levels of managedFields, and Python's decoder follows them by recursion. So many levels are kept.
_DEEPEST: Final = 64
_BRACKET_OR_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[{\[]|[}\]]', re.DOTALL)
_SAFE_METHODS: Final = ("GET", "HEAD")
# The name that stands in logs, and in an object's managed fields.
_USER_AGENT: Final = "gpushare-clusters"


class TransportError(Exception):
    """No answer, or not the whole of it: the server is away, the connection broke, or its certificate is not trusted."""


def decoded(text: bytes) -> Any:
    """JSON of an API server; in an object with too many levels, null stands for the deepest. Raises ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        return json.loads(b"".join(_shallow(text)))


def _shallow(text: bytes) -> Iterator[bytes]:
    depth, kept = 0, 0
    for token in _BRACKET_OR_STRING.finditer(text):
        if token[0] in b"{[":
            depth += 1
            if depth == _DEEPEST:
                yield text[kept : token.start()] + b"null"
        elif token[0] in b"}]":
            depth -= 1
            if depth == _DEEPEST - 1:
                kept = token.end()
    yield text[kept:]


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, headers (a name may stand there more than once), and the body."""

    status_code: int
    headers: multidict.CIMultiDictProxy[str]
    content: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.content.decode(errors="replace")

    def json(self) -> Any:
        """The body as JSON. Raises ValueError."""
        return decoded(self.content)


class Stream:
    """An answer that comes in pieces; it ends with the connection. Its methods raise TransportError."""

    def __init__(self, response: aiohttp.ClientResponse, silent_for: float | None) -> None:
        self.status_code = response.status
        self.headers = response.headers
        self._response = response
        self._silent_for = silent_for

    async def read(self) -> bytes:
        """The rest of the body."""
        return b"".join([piece async for piece in self.pieces()])

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes. If the connection breaks, pieces that were not read yet are lost with the rest."""
        while True:
            # aiohttp's own limit is gone once it has met a chunk that is none.
            with _as_transport_errors():
                async with asyncio.timeout(self._silent_for):
                    piece = await self._response.content.readany()
            if not piece:
                return
            yield piece

    async def lines(self) -> AsyncIterator[bytes]:
        """Whole lines, ended by a line feed; other line ends of Unicode may stand inside JSON strings."""
        rest = b""
        async for piece in self.pieces():
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line


class Connection:
    """Paths are asked of ``url``; a whole URL may be given too. It connects when it is first asked something.

    ``authorization`` gives that header, with the first request and after each refusal.
    """

    def __init__(
        self,
        url: str = "",
        *,
        tls: ssl.SSLContext | None = None,
        headers: Mapping[str, str] | None = None,
        authorization: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._tls = tls
        self._headers = dict(headers or {})
        self._authorization = authorization
        self._opened: aiohttp.ClientSession | None = None
        self._opening = asyncio.Lock()

    @classmethod
    def from_kubeconfig(cls, path: Path | Sequence[Path], context: str = "") -> Self:
        """By a context of the kubeconfig at ``path``, the current one unless named.

        Several files are merged. Raises OSError and ValueError.
        """
        url, tls, authorization = access([path] if isinstance(path, Path) else path, context)
        return cls(url, tls=tls, authorization=authorization)

    async def close(self) -> None:
        """Close all connections; a later request opens others."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        content: bytes | str | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """The whole answer, whatever its status. Raises TransportError."""
        begun = time.monotonic()
        async with self.stream(method, path, content=content, params=params, headers=headers) as response:
            answer = Answer(response.status_code, response.headers, await response.read())
        if not self.url:
            # Whole URLs are those of programs; an API server's paths follow its own.
            note(f"{method} {path}", content, answer.status_code, answer.content, begun)
        return answer

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        content: bytes | str | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        silent_for: float | None = ANSWER_SECONDS,
    ) -> AsyncIterator[Stream]:
        """The answer from its headers on; it may say nothing ``silent_for`` seconds (None: for ever). Raises TransportError."""
        url = yarl.URL(path if path.startswith(("http://", "https://")) else self.url + path).update_query(params or {})
        body = content.encode() if isinstance(content, str) else content
        session = await self._session()
        response = await _send(session, method, url, body, headers, silent_for)
        # A server that no longer accepts the credentials gets newer ones, if there are some.
        newer = await self._credentials() if response.status == _UNAUTHORIZED else {}
        if not newer.items() <= session.headers.items():
            session.headers.update(newer)
            response.release()
            response = await _send(session, method, url, body, headers, silent_for)
        async with response:
            yield Stream(response, silent_for)

    async def _session(self) -> aiohttp.ClientSession:
        """The headers with the credentials: no request is sent before they are known."""
        async with self._opening:
            if self._opened is None:
                self._opened = _open(self._tls, {**self._headers, **await self._credentials()})
            return self._opened

    async def _credentials(self) -> dict[str, str]:
        """The header with the credentials, if there are some."""
        text = await self._authorization() if self._authorization is not None else ""
        return {"Authorization": text} if text else {}


def _open(tls: ssl.SSLContext | None, headers: Mapping[str, str]) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(
        limit=0,
        ssl=tls or True,
        keepalive_timeout=_IDLE_SECONDS,
        # Before 3.12.8 asyncio keeps a TLS connection if its peer does not answer the good-bye; later aiohttp warns of this flag.
        enable_cleanup_closed=sys.version_info < (3, 12, 8),
    )
    return aiohttp.ClientSession(
        connector=connector,
        headers={"User-Agent": _USER_AGENT, **headers},
        # Headers that a case leaves out are not sent: the case wants to see how the server answers then.
        skip_auto_headers=("Content-Type", "Accept-Encoding"),
        cookie_jar=aiohttp.DummyCookieJar(),
        middlewares=(_once,),
    )


async def _once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """aiohttp would send a PUT or DELETE again if its connection broke, as it does a GET: the second finds the change already made.

    A GET changes nothing, and a server may have closed a connection without a word: a real API server does after each upgrade
    that it refuses.
    """
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
        if request.method in _SAFE_METHODS:
            raise
        raise aiohttp.ClientConnectionError(f"{type(error).__name__}: {error}") from error


async def _send(
    session: aiohttp.ClientSession,
    method: str,
    url: yarl.URL,
    body: bytes | None,
    headers: Mapping[str, str] | None,
    silent_for: float | None,
) -> aiohttp.ClientResponse:
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=ANSWER_SECONDS, sock_read=silent_for)
    # A large body is sent in pieces: other tasks run in between.
    data = body if body is None or len(body) < _PIECEMEAL_BYTES else io.BytesIO(body)
    asked: dict[str, Any] = {"data": data, "headers": headers, "timeout": timeout, "allow_redirects": False}
    with _as_transport_errors():
        # Those count from when all is sent, which a server that reads nothing can put off.
        async with asyncio.timeout(None if silent_for is None else ANSWER_SECONDS + silent_for):
            return await session.request(method, url, **asked)


@contextmanager
def _as_transport_errors() -> Generator[None]:
    try:
        yield
    # A TimeoutError in here is one of ours: one of the caller's comes as a cancellation.
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise TransportError(f"{type(error).__name__}: {error}") from error
