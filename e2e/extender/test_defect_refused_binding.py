"""D20: a bind that the API server refuses leaves nothing behind, whatever the extender wrote before."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
import yaml

from clusters.api.api_client import Object
from clusters.api.connection import Connection
from clusters.api.waiting import eventually
from e2e import spec
from e2e.attacks.api_proxy import ApiProxy, Call
from e2e.checkers.extender_answers import is_refusal, refused_binds
from e2e.checkers.history import Asked
from e2e.checkers.judgement import judge
from e2e.extender.extender_under_test import ExtenderUnderTest

pytestmark = pytest.mark.stand_in_only("no kubelet has a part in it")


@pytest.mark.promise("D20")
async def test_d20_a_refused_binding_leaves_no_annotation(stage: ExtenderUnderTest, name: str) -> None:
    """A refusal that no extender can foresee meets the Binding: then the pod names no card, and the next bind succeeds."""
    await stage.node(name, 14, 1)
    (pod,) = await stage.create(stage.pod("p", 9))
    account = await stage.account()
    proxy = ApiProxy(Connection.from_kubeconfig(account))
    through = yaml.safe_load(account.read_text())
    through["clusters"][0]["cluster"] = {"server": proxy.url}
    (stage.folder / "kubeconfig").write_text(yaml.safe_dump(through))
    is_shut = True

    async def refuse(call: Call) -> int:
        return 403 if is_shut and call.path.endswith("/binding") else 0

    async def left() -> list[str]:
        return list(map(str, judge([refused, await stage.observer.listed()], refused_binds)))

    proxy.refuse = refuse
    await proxy.open()
    try:
        async with stage.extender(account=stage.folder / "kubeconfig") as url:
            refused = await _bind(stage, pod, name, url)
            assert is_refusal(refused)
            await eventually(left, lambda found: not found, "no annotation of the refused pod names a card")
            await stage.used(name, 0, url=url)
            is_shut = False
            accepted = await _bind(stage, pod, name, url)
            assert not is_refusal(accepted), accepted
            await stage.used(name, 9, url=url)
    finally:
        await proxy.close()
    assert (await stage.observer.pod("p"))["spec"]["nodeName"] == name
    await stage.used(name, 9)


async def _bind(stage: ExtenderUnderTest, pod: Object, node: str, url: str) -> Asked:
    """Order the pod onto the node; whichever status it is answered with."""
    metadata = pod["metadata"]
    order = {"PodName": metadata["name"], "PodNamespace": stage.namespace, "PodUID": metadata["uid"], "Node": node}
    answer = await stage.observer.post_to(url + spec.BIND, json.dumps(order))
    said: Any = None
    with contextlib.suppress(ValueError):
        said = answer.json()
    return Asked(0.0, spec.BIND, order, said, answer.status_code)
