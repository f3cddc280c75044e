"""The frame of the comparison works."""

from __future__ import annotations

from typing import Any

from e2e.parity.sides import Both, Side


async def test_the_nodes_list_is_empty_on_both(both: Both) -> None:
    """D1: both sides answer a list of nodes alike."""

    async def observe(side: Side) -> Any:
        answer = await side.call("GET", "/api/v1/nodes")
        return [answer.code, answer.body]

    assert (await both.same(observe))[0] == 200
