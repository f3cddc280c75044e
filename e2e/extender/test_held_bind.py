"""A bind that waits for the API server holds up no question (defect D24)."""

from __future__ import annotations

import asyncio
import json

import pytest

from clusters.api.connection import TransportError
from clusters.api.waiting import until
from e2e import spec
from e2e.extender.extender_under_test import ExtenderUnderTest
from e2e.tcp_proxy import proxy_to_api

pytestmark = pytest.mark.stand_in_only("no kubelet has a part in it")


@pytest.mark.promise("D24", "EXT-025")
async def test_d24_a_held_bind_holds_up_no_question(stage: ExtenderUnderTest) -> None:
    """D24: a node's lock was held over a bind's requests and taken for each question about it; then the bind goes on."""
    (pod,) = await stage.create(stage.pod("p", 3))
    account = stage.folder / "kubeconfig"
    async with proxy_to_api(await stage.account(), account) as proxy, stage.extender(account=account) as url:
        proxy.hold_requests()
        try:
            bind = asyncio.create_task(stage.bind(pod, "a2", url))
            await until(lambda: proxy.held, bool, "the bind's request is on the proxy")
            question = json.dumps({"Pod": stage.pod("q", 1), "Nodes": None, "NodeNames": ["a1", "a2", "nowhere"]})
            try:
                answer = await stage.observer.post_to(url + spec.FILTER, question)
            except TransportError as error:
                pytest.fail(f"no answer while the bind is held: {error}")

            assert answer.json()["NodeNames"] == ["a1", "a2"]
            assert not bind.done()
            proxy.restore()
            assert await bind == ""
        finally:
            proxy.restore()
