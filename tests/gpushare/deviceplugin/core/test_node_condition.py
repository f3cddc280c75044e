"""Promises of gpushare.deviceplugin.core.node_condition."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gpushare.deviceplugin.core.node_condition import ENDED, Health, health_of, no_cards, report_for
from gpushare.manifests import ReportedNode
from gpushare.model.cards import CardFacts, NodeCards
from gpushare.model.conditions import HEARTBEAT_SECONDS

HEALTHY = CardFacts(0, "GPU-0", "Tesla T4", 15079, 14)
UNHEALTHY = CardFacts(1, "GPU-1", "Tesla T4", 15079, 14, healthy=False, reason="Xid 79")
HEALTHS = st.sampled_from([ENDED, no_cards("no driver"), Health("True", "CardsHealthy", "card 0 is healthy")])


def cards(*facts: CardFacts) -> NodeCards:
    """An announcement."""
    return NodeCards(1, "ids", "GiB", "boot", facts)


def written(node: dict[str, Any], health: Health, overuse: str, now: float) -> dict[str, Any] | None:
    """The Node after the write, None without one; as the API server merges it."""
    patch = report_for(msgspec.convert(node, ReportedNode), health, overuse, now)
    if patch is None:
        return None
    annotations = {**node["metadata"]["annotations"], **patch.get("metadata", {}).get("annotations", {})}
    kept = {name: text for name, text in annotations.items() if text is not None}
    return {"metadata": {"annotations": kept}, "status": {**node["status"], **patch.get("status", {})}}


def test_condition_names_each_card_and_its_state() -> None:
    """The unhealthy cards come first, with their reasons."""
    unhealthy, healthy = "card 1 (Tesla T4, GPU-1) is unhealthy: Xid 79", "card 0 (Tesla T4, GPU-0) is healthy"

    assert health_of(cards(HEALTHY, UNHEALTHY)) == ("False", "CardsUnhealthy", f"{unhealthy}; {healthy}")
    assert health_of(cards(HEALTHY)) == ("True", "CardsHealthy", healthy)
    assert health_of(cards()) == ("False", "NoCards", "no card is shared")
    # A planned change is no fault.
    mig = {"GPU-2": "in MIG mode"}
    held = msgspec.structs.replace(HEALTHY, index=2, uuid="GPU-2", healthy=False, reason="in MIG mode")
    told = f"{healthy}; card GPU-2 is not shared: in MIG mode"
    assert health_of(cards(HEALTHY), mig) == health_of(cards(HEALTHY, held), mig) == ("True", "CardsHealthy", told)
    assert health_of(cards(), mig) == (
        "False", "NoCards", "no card is shared; card GPU-2 is not shared: in MIG mode"
    )  # fmt: skip


def test_many_cards_make_no_endless_message() -> None:
    """It is for people."""
    assert len(health_of(cards(*[UNHEALTHY] * 128)).message) == len(no_cards("x" * 10_000).message) == 4096


@given(health=HEALTHS, overuse=st.sampled_from(["", "[]"]), now=st.integers(0, 10**9))
def test_a_node_that_shows_all_is_written_once(health: Health, overuse: str, now: int) -> None:
    """After the write there is nothing to write until the heartbeat is due, and then the time of the change stays."""
    node = written({"metadata": {"annotations": {"x": "y"}}, "status": {}}, health, overuse, now)

    assert node is not None
    assert node["metadata"]["annotations"].get("aliyun.com/gpushare-overuse", "") == overuse
    assert written(node, health, overuse, now + HEARTBEAT_SECONDS - 1) is None
    beaten = written(node, health, overuse, now + HEARTBEAT_SECONDS)
    assert beaten is not None
    before, after = node["status"]["conditions"][0], beaten["status"]["conditions"][0]
    assert before["lastTransitionTime"] == after["lastTransitionTime"]
    assert before["lastHeartbeatTime"] < after["lastHeartbeatTime"]


@given(before=HEALTHS, after=HEALTHS)
def test_time_of_change_is_that_of_the_status(before: Health, after: Health) -> None:
    """Another reason of the same status is written and keeps the time."""
    node = written({"metadata": {"annotations": {}}, "status": {}}, before, "", 100)
    assert node is not None
    changed = written(node, after, "", 200)

    assert (changed is None) == (before == after)
    if changed is not None:
        then, now = node["status"]["conditions"][0], changed["status"]["conditions"][0]
        assert (then["lastTransitionTime"] == now["lastTransitionTime"]) == (before.status == after.status)


def test_clock_that_went_back_does_not_end_the_heartbeat() -> None:
    """A heartbeat of the far future is replaced, and so is one that cannot be read."""
    node = written({"metadata": {"annotations": {}}, "status": {}}, ENDED, "", 10**9)
    assert node is not None
    assert written(node, ENDED, "", 10**9 - HEARTBEAT_SECONDS) is not None
    assert written(node, ENDED, "", 10**9 - HEARTBEAT_SECONDS + 1) is None
    node["status"]["conditions"][0]["lastHeartbeatTime"] = "soon"
    assert written(node, ENDED, "", 10**9) is not None


def test_annotation_goes_when_no_pod_overuses() -> None:
    """The condition is not written beside it if it stays."""
    node = written({"metadata": {"annotations": {}}, "status": {}}, ENDED, "[1]", 100)
    assert node is not None
    patch = report_for(msgspec.convert(node, ReportedNode), ENDED, "", 101)

    assert patch == {"metadata": {"annotations": {"aliyun.com/gpushare-overuse": None}}}
