"""Lists and watches that break: every case about the product goes on over these."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.resources import PODS, Resource
from clusters.embedded.scheduling.informer import Informer


class Lists:
    """A client whose watches break after what was there at their begin: the next of ``lists``, the last for ever."""

    def __init__(self, *lists: str) -> None:
        self.lists = list(lists)

    async def watch(self, _: Resource) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        """The objects of one list."""
        for name in self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]:
            yield "ADDED", {"metadata": {"name": name, "namespace": "n", "uid": name}}
        yield "SYNCED", {}
        raise ApiError(403, "Forbidden", "no")


async def test_a_lost_deletion_comes_with_the_next_list() -> None:
    """A refused watch starts again from a list, and a consumer that chokes on one object gets the others."""
    seen: list[tuple[str, str]] = []

    def take(kind: str, item: dict[str, Any]) -> None:
        seen.append((kind, item["metadata"]["name"]))
        if kind == "DELETED":
            following.cancel()
        raise ValueError("makes no sense")

    informer = Informer(cast(ApiClient, Lists("ab", "b")), PODS, take)
    following = asyncio.create_task(informer.run())
    await asyncio.wait([following], timeout=30)

    assert seen == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "b"), ("DELETED", "a")]
    assert informer.synced.is_set()
