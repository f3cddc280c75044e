"""Follows one kind of object for ever, whatever happens to the API server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import cast

from clusters.api.api_client import RETRY_SECONDS, ApiClient, Object, key_of
from clusters.api.resources import Resource

logger = logging.getLogger(__name__)

Events = AsyncGenerator[tuple[str, Object], None]


class Informer:
    """Hands each change to ``take`` and sets ``synced`` once everything that was there has been handed over."""

    def __init__(self, api: ApiClient, resource: Resource, take: Callable[[str, Object], None]) -> None:
        self._api = api
        self._resource = resource
        self._take = take
        self._known: dict[str, Object] = {}
        self.synced = asyncio.Event()

    async def run(self) -> None:
        """Follow until cancelled. A refusal (403, say) is logged and tried again."""
        while True:
            try:
                await self._follow()
            except Exception as error:
                logger.warning("watch of %s broke, starting again: %r", self._resource.plural, error)
            await asyncio.sleep(RETRY_SECONDS)

    async def _follow(self) -> None:
        """One watch from its beginning; what has gone since the watch before is handed over as deleted."""
        seen: set[str] | None = set()
        async with aclosing(cast(Events, self._api.watch(self._resource))) as events:
            async for kind, item in events:
                if kind == "SYNCED":
                    for key in self._known.keys() - (seen or set()):
                        self._hand_over("DELETED", key, self._known[key])
                    seen = None
                    self.synced.set()
                    continue
                key = key_of(item)
                if seen is not None:
                    seen.add(key)
                self._hand_over(kind, key, item)

    def _hand_over(self, kind: str, key: str, item: Object) -> None:
        if kind == "DELETED":
            self._known.pop(key, None)
        else:
            self._known[key] = item
        try:
            self._take(kind, item)
        except (ValueError, KeyError, TypeError) as error:
            # One object that makes no sense must not stop the others.
            logger.error("%s %s passed over: %r", self._resource.kind, key, error)
