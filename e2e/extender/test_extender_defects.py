"""Defects of the original's extender, by their numbers (CONTRIBUTING.md has the list): each a case that it fails.

Elsewhere are D14 (e2e/device_plugin/test_defects.py), D16 to D18 (test_defect_races.py), D19 (e2e/conformance/test_bad_input.py),
D20 and D24 (test_binding.py), D21 and D22 (e2e/scenarios/test_containers.py), D23 (test_extender_wire.py), D25 (also
test_extender_prioritize.py, test_preemption.py) and D28 (test_defect_manifests.py).
"""

from __future__ import annotations

from typing import Final

import pytest

from clusters.api.connection import Connection
from clusters.api.waiting import eventually, until
from clusters.provider import NodeSpec
from e2e import spec
from e2e.attacks.api_proxy import ApiProxy
from e2e.builders import booking, gpu_pod
from e2e.checkers.pod_requests import card_of
from e2e.extender import schedulers
from e2e.extender.extender_under_test import ExtenderUnderTest
from e2e.live_history import LiveHistory
from e2e.observer import Observer, OwnCluster, observing
from e2e.tcp_proxy import proxy_to_api

# A node of two cards of 14 units. On one card the scheduler's own sum would hide D15: it counts pods that leave.
_NODE: Final = "a2"
# Longer than the case, which ends it.
_STOPS_VERY_SLOWLY: Final = {"HOLDS_MIB": 1024, "STOP_SECONDS": 600}
ON_STAND_INS: Final = pytest.mark.stand_in_only("no kubelet has a part in it")


@pytest.mark.promise("D06")
@pytest.mark.needs("device_plugin")
async def test_d06_cards_of_unequal_size_are_not_averaged(observer: Observer) -> None:
    """D06: the total was divided by the count, so that 14 + 14 + 10 were three cards of 12: one of 14 fits twice, and no more."""
    await observer.run(gpu_pod("one", 14, node="b2"), gpu_pod("two", 14, node="b2"))
    await observer.create(gpu_pod("three", 12, node="b2"))
    await observer.waits_because("three", "nsufficient")

    await observer.check_all("one", "two")


@pytest.mark.promise("D10")
@pytest.mark.needs("device_plugin")
@pytest.mark.stand_in_only("its node has a plugin of its own")
async def test_d10_an_unhealthy_card_gets_no_pod(own: OwnCluster) -> None:
    """D10: the extender read the node's capacity alone, so that a pod went to the card that its plugin reports as unhealthy."""
    async with own([NodeSpec("unhealthy", box="t4x2", driver="470.57", plugin_options={"health": "true"})]) as cluster:
        await cluster.fake_nvml("unhealthy", "xid", "0", "79")
        async with observing(cluster, "unhealthy") as observer:
            await observer.shows("unhealthy", "14")
            (pod,) = await observer.run(gpu_pod("p", 3, node="unhealthy"))
            assert card_of(pod) == 1


@pytest.mark.promise("D11")
async def test_d11_a_text_that_is_no_number_bans_no_card(stage: ExtenderUnderTest, name: str) -> None:
    """D11: whatever could not be read was card 0; a number beside it counts."""
    await stage.node(name, 20, 2)
    await stage.booked("there", name, 0, 4)
    await stage.used(name, 4, 0)
    for gpus in ("", "x", "-1", "1.5", "none"):
        async with stage.banned(name, f"{gpus},1"):
            # Card 1 is unhealthy; the word beside it bans no card, and card 0 has six units.
            await _largest(stage, name, 6)
        await _largest(stage, name, 10)


@pytest.mark.promise("D12")
async def test_d12_more_used_than_there_is_leaves_nothing(stage: ExtenderUnderTest, name: str) -> None:
    """D12: the difference wrapped round, and a card with 20 of 16 used had room for a million."""
    await stage.node(name, 16, 1)
    await stage.booked("heavy", name, 0, 20)
    await stage.used(name, 20)

    for units in (1, 16, 1_000_000):
        assert await stage.fits(stage.pod("p", units), name) == []


@pytest.mark.promise("D13")
async def test_d13_cards_that_change_are_seen(stage: ExtenderUnderTest, name: str) -> None:
    """D13: a node stayed as it was at first sight, until the extender restarted."""
    await stage.node(name, 16, 1)
    for units, count, fits, large in ((160, 2, 80, 81), (24, 1, 24, 25), (8, 4, 2, 3)):
        await stage.resize(name, units, count)

        assert await stage.fits(stage.pod("p", fits), name) == [name]
        assert await stage.fits(stage.pod("p", large), name) == []


@pytest.mark.promise("D15")
async def test_d15_a_leaving_pod_keeps_its_card(observer: Observer) -> None:
    """Nine units leave slowly, nine are beside them, and nine new ones wait: the node has 28, and no card has nine left."""
    history = LiveHistory(observer.cards(_NODE))
    async with history.following(observer.cluster.api):
        leaving = gpu_pod("leaving", 9, node=_NODE, plays=_STOPS_VERY_SLOWLY)
        leaving["spec"]["terminationGracePeriodSeconds"] = 600
        await observer.run(leaving, gpu_pod("beside", 9, node=_NODE))
        await observer.delete("leaving")
        await observer.create(gpu_pod("new", 9, node=_NODE))

        async def outcome() -> list[object]:
            return [*history.findings, *await observer.events("new", "FailedScheduling")]

        await eventually(outcome, bool, "the new pod waits, or over-books a card")

        assert history.findings == []
        assert (await observer.pod("leaving"))["status"]["phase"] == "Running"
        assert not (await observer.pod("new"))["spec"].get("nodeName")
        await observer.check_all("beside")


@pytest.mark.promise("D25")
async def test_d25_scores_look_at_the_cards(stage: ExtenderUnderTest, name: str) -> None:
    """D25: prioritize was missing, and a scheduler that does not know cards chose among the nodes that hold a pod."""
    nodes = [f"{name}-empty", name]
    for node in nodes:
        await stage.node(node, 100, 1)
    await stage.booked("there", name, 0, 60)
    await stage.used(name, 60)

    empty, fuller = (one["Score"] for one in await stage.prioritize(stage.pod("p", 30), *nodes))
    assert empty != fuller


@ON_STAND_INS
@pytest.mark.promise("D26")
async def test_d26_nothing_but_the_contract_is_open(stage: ExtenderUnderTest) -> None:
    """D26: profiles of the program and much else could be read by any pod. (Certificates: test_tls.py.)"""
    root = "/".join(stage.cluster.extender_url().split("/")[:3])
    paths = (
        "/debug/pprof/",
        "/debug/pprof/goroutine",
        "/debug/pprof/profile",
        "/debug/vars",
        "/",
        "/openapi.json",
        "/docs",
    )

    answered = {path: (await stage.observer.get(root + path)).status_code for path in paths}
    assert {path: status for path, status in answered.items() if not 400 <= status < 500} == {}


@ON_STAND_INS
@pytest.mark.promise("D29")
async def test_d29_a_pod_that_was_refused_too_early_is_bound(stage: ExtenderUnderTest, name: str) -> None:
    """D29: asked before its watch showed a free card, the extender refused it, and the pod waited five minutes."""
    await stage.node(name, 100)
    await stage.booked("there", name, 0, 60)
    account = stage.folder / "kubeconfig"
    async with (
        proxy_to_api(await stage.account(), account) as api,
        stage.extender(account=account) as url,
        ApiProxy(Connection(url)) as extender,
        stage.scheduler(stage.configuration(extender.url)),
    ):
        await stage.used(name, 60, url=url)
        await stage.create(stage.pod("waits", 50, scheduler=schedulers.NAME, node=name))
        await stage.observer.waits_because("waits", "")
        try:
            api.cut(silent=True)
            earlier = len(extender.calls)
            await stage.observer.delete("there", 0)
            await until(
                lambda: extender.calls[earlier:],
                lambda calls: any(call.path.endswith(spec.FILTER) and call.received for call in calls),
                "the scheduler has asked again",
            )
            assert "nodeName" not in (await stage.observer.pod("waits"))["spec"]
        finally:
            api.restore()

        assert await stage.bound_to("waits", seconds=60) == name


@ON_STAND_INS
@pytest.mark.promise("D30")
async def test_d30_an_amount_by_a_pods_author_is_not_believed(stage: ExtenderUnderTest, name: str) -> None:
    """D30: a pod that came past the scheduler was booked with what its author wrote, and not with what it asks for."""
    await stage.node(name, 14)
    await stage.create(stage.pod("modest", 9, bound_to=name, annotations=booking(1, card=0)))

    await stage.used(name, 9)


async def _largest(stage: ExtenderUnderTest, node: str, units: int) -> None:
    """Wait until the node takes a pod of this number of units, and no larger one."""

    async def taken() -> list[bool]:
        return [bool(await stage.fits(stage.pod("p", one), node)) for one in (units, units + 1)]

    await eventually(
        taken, lambda seen: seen == [True, False], f"a pod of {units} units fits on {node}, and no larger one"
    )
