"""The page, its document and the changes of it. All viewers share one document, which is made at most once a second and in slices.

Without a viewer it is made once a minute, for the trends. A document that is younger than a second is not made again.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from gpushare import __version__, wire
from gpushare.bounds import VIEWERS
from gpushare.extender.core.book import Book
from gpushare.extender.core.filter_cache import FilterCache
from gpushare.extender.core.page_document import Facts, PageDocument
from gpushare.extender.core.page_history import Decisions
from gpushare.extender.core.page_text import fragments, view_of
from gpushare.kube.reflector import Contact
from gpushare.serving.http_connection import JSON, Answer, HttpRequest
from gpushare.serving.open_connections import Audience

_LOG = logging.getLogger(__name__)

# Between two documents, and between two messages to a viewer if nothing changes, in seconds.
REFRESH_SECONDS: Final = 1.0
BEAT_SECONDS: Final = 10.0
_HTML: Final = b"text/html; charset=utf-8"
_EVENTS: Final = b"text/event-stream; charset=utf-8"
_FULL: Final = Answer(503, body=f"{VIEWERS.refusal}; ask for ui/state now and then\n".encode())
_PAGE: Final = Path(__file__).with_name("page.html")
_PLACE: Final = re.compile(r"{{([a-z-]+)}}")
_SAFE: Final = b"cache-control: no-store\r\nx-content-type-options: nosniff\r\nreferrer-policy: no-referrer\r\n"


class LivePage:
    """``run`` keeps it live, ``answers`` are its paths. ``monotonic`` is the clock of ``contacts`` and of the filter cache.

    ``ahead`` is as in ``Facts``.
    """

    def __init__(
        self,
        book: Book,
        filter_cache: FilterCache,
        decisions: Decisions,
        *,
        policy: str,
        is_ready: Callable[[], bool],
        contacts: Callable[[], Mapping[str, Contact]],
        monotonic: Callable[[], float],
        ahead: float = 0.0,
    ) -> None:
        self._book, self._filter_cache, self._decisions = book, filter_cache, decisions
        self._policy, self._is_ready, self._contacts, self._monotonic = policy, is_ready, contacts, monotonic
        self._ahead = ahead
        self.document = PageDocument()
        self.viewers = Audience(VIEWERS)
        self._making = asyncio.Lock()
        # Pages are written one at a time, so that a scheduler has its turn between any two of those that come together.
        self._writing = asyncio.Lock()
        self._whole = b""
        self.made_at = self._sent_at = float("-inf")
        self._template = _PAGE.read_text(encoding="utf-8")
        self._headers = _SAFE + b"content-security-policy: %b\r\n" % policy_of(self._template).encode()
        self.answers: dict[str, Callable[[HttpRequest], Answer | Awaitable[Answer]]] = {
            wire.PATH_PAGE: self._page,
            wire.PATH_PAGE_STATE: self._state,
            wire.PATH_PAGE_EVENTS: self._events,
        }

    async def run(self) -> None:
        """Keep the trends, and the viewers if there are some, up to date until cancelled."""
        while True:
            if len(self.viewers) or self.document.trends.is_due(self._monotonic()):
                try:
                    await self.refresh()
                except Exception:
                    # Pods are bound without a page, too.
                    _LOG.exception("failed to make the page")
            await asyncio.sleep(REFRESH_SECONDS)

    async def refresh(self) -> None:
        """Make the document again, unless the present one is young enough, and send what has changed."""
        async with self._making:
            now = self._monotonic()
            if now - self.made_at < REFRESH_SECONDS:
                return
            await self._make(now)
            self.made_at, self._whole = now, b""
            if self.document.changes or now - self._sent_at >= BEAT_SECONDS:
                self._sent_at = now
                self.viewers.send(_event(self.document.changes or self.document.beat))

    async def _make(self, now: float) -> None:
        try:
            for _ in self.document.refresh(self._book, self._filter_cache, self._decisions, self._facts(), now):
                await asyncio.sleep(0)
        except BaseException:
            # Half of it may be new. No viewer has this version, so each asks for the next document as a whole.
            self.document = PageDocument(trends=self.document.trends, version=self.document.version + 1)
            raise

    def _facts(self) -> Facts:
        ages = {
            name: None if one.last_answer_at is None else int(one.last_answer_at)
            for name, one in self._contacts().items()
        }
        return Facts(__version__, self._policy, self._is_ready(), ages, self._ahead)

    async def _page(self, request: HttpRequest) -> Answer:
        await self.refresh()
        async with self._writing:
            await asyncio.sleep(0)
            found = fragments(self.document, view_of(request.query))
            text = _PLACE.sub(lambda place: found[place[1]], self._template)
            return Answer(200, _HTML, text.encode(), headers=self._headers)

    async def _state(self, _: HttpRequest) -> Answer:
        await self.refresh()
        self._whole = self._whole or self.document.whole
        return Answer(200, JSON, self._whole, headers=_SAFE)

    def _events(self, _: HttpRequest) -> Answer:
        """Changes, from the next on; the first message has the version that they begin with."""
        if self.viewers.is_full:
            return _FULL
        return Answer(
            200, _EVENTS, b"retry: 3000\n\n" + _event(self.document.beat), headers=_SAFE, audience=self.viewers
        )


def _event(document: bytes) -> bytes:
    return b"data: %b\n\n" % document


def policy_of(page: str) -> str:
    """A content security policy that allows the page's own script and style, by their digests, and requests to its own server."""
    own = ""
    for kind in ("script", "style"):
        # The one element of that kind has no attributes.
        (text,) = re.findall(f"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
        own += f"{kind}-src 'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'; "
    return (
        f"default-src 'none'; {own}img-src data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
