"""Promises of clusters.waiting."""

from __future__ import annotations

import asyncio

import pytest

from clusters.waiting import all_or_none


async def test_the_first_failure_ends_the_others_before_it_is_raised() -> None:
    """Or they would start programs in a cluster that has been taken down."""
    ended: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("slow")

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("it")

    with pytest.raises(ValueError, match="it"):
        await all_or_none(slow(), fails())

    assert ended == ["slow"]


async def test_all_are_done() -> None:
    """At once."""
    met = asyncio.Barrier(3)

    async def meet() -> None:
        async with met:
            pass

    await all_or_none(meet(), meet(), meet())
