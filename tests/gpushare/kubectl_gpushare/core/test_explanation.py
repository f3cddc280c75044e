"""Promises of the document of ``explain``."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gpushare.extender.core.explain import MOST_NODES
from gpushare.kubectl_gpushare.core.explanation import explain_pod
from gpushare.kubectl_gpushare.core.waiting_kinds import BAD_WISH
from tests.gpushare.kubectl_gpushare.small_cluster import Object, cluster, event, node, pod, subject


def explained(asked: Object, *objects: Object) -> dict[str, Any]:
    """The document about a pod of the cluster, which is in the list of pods too."""
    return explain_pod(subject(asked), cluster(*objects, asked), ())


def test_a_waiting_pod_is_shown_card_by_card() -> None:
    """Free and wanted units, the reason, and which pods would have to end."""
    answer = explained(pod(priorityClassName="x", priority=7), node(), pod("f", 12, "a", 0))
    (described,) = answer["nodes"]

    assert answer["pod"] == {"namespace": "team", "name": "p", "uid": "uid-p"}
    assert (answer["state"], answer["request"]["units"], answer["request"]["priority"]) == ("waiting", 4, 7)
    assert answer["fits"] == ["a"]
    assert [(card["free"], card["wanted"], card["reason"]) for card in described["cards"]] == [
        (2, 4, "too full"), (14, 4, ""),
    ]  # fmt: skip


def test_a_node_that_takes_the_pod_comes_first() -> None:
    """Before one that is too full or has no such card, and that before one that a rule excludes."""
    asked = pod(wishes={"card-model": "A100"})
    objects = (node("a", spec={"unschedulable": True}, model="A100"), node("b"), node("c", 4, model="A100"))
    many = (node(f"n{at:03}", 14) for at in range(MOST_NODES))

    assert [one["name"] for one in explained(asked, *objects)["nodes"]] == ["c", "b", "a"]
    left = explained(pod(), node("a", spec={"unschedulable": True}), node("b", 13), *many)
    assert (left["nodes"][-1]["name"], left["nodesLeftOut"]) == (f"n{MOST_NODES - 1:03}", 2)


def test_times_are_those_of_the_api(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the zone of the person is."""
    monkeypatch.setenv("TZ", "JST-9")
    time.tzset()
    try:
        assert explained(pod("p", 4, "a", 0), node())["boundAt"] == "2026-09-21T14:13:20Z"
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_full_card_names_the_pods_that_would_have_to_end() -> None:
    """The pods are those of the card."""
    answer = explained(pod(), node("a", 14), pod("f", 12, "a", 0))

    assert [one["name"] for one in answer["nodes"][0]["cards"][0]["roomIfEnded"]] == ["f"]
    lower = (node(), pod("f", 12, "a", 0), pod("g", 12, "a", 1))
    found = [explained(pod(priority=number), *lower)["nodes"][0] for number in (0, 5)]
    assert ["preemption" in one for one in found] == [False, True]


def test_a_node_that_a_rule_excludes_comes_last() -> None:
    """It takes no pod, however much room its cards have."""
    answer = explained(pod(), node("a", spec={"unschedulable": True}), node("b", 5), node("c"))

    assert [(one["name"], one["fits"], one["rule"]) for one in answer["nodes"]] == [
        ("c", True, ""), ("b", True, ""), ("a", False, "node(s) were unschedulable"),
    ]  # fmt: skip
    assert answer["fits"] == ["c", "b"]


def test_no_more_nodes_are_described_than_anyone_reads() -> None:
    """The others are counted."""
    answer = explained(pod(), *(node(f"n{at:03}", 14) for at in range(MOST_NODES + 3)))

    assert (len(answer["nodes"]), answer["nodesLeftOut"]) == (MOST_NODES, 3)


def test_a_pod_without_card_memory_has_rules_alone() -> None:
    """No card is shown for it."""
    answer = explained(pod(units=0, nodeSelector={"a": "b"}), node())

    assert (answer["nodes"], answer["nodesLeftOut"]) == ([], 0)
    assert [cause["kind"] for cause in answer["causes"]] == ["node-selector"]


def test_a_bound_pod_has_its_card_and_the_reason() -> None:
    """Its binder, its neighbours, and the card that the policy would choose now."""
    answer = explained(pod("p", 4, "a", 0), node(), pod("f", 12, "a", 1), pod("g", 6, "a", 0))

    assert (answer["state"], answer["node"], answer["boundBy"]) == ("bound", "a", "gpushare")
    assert (answer["boundAt"], answer["started"], answer["problem"]) == ("2026-09-21T14:13:20Z", True, "")
    assert [(card["held"], card["freeWithoutIt"]) for card in answer["cards"]] == [(4, 8), (0, 2)]
    assert [[one["name"] for one in card["sharedWith"]] for card in answer["cards"]] == [["g"], ["f"]]
    assert answer["policyWouldChoose"] == [0]


def test_a_bound_pod_that_no_card_would_take_now() -> None:
    """The card is over-booked: the policy would choose none."""
    answer = explained(pod("p", 4, "a", 0), node("a", 14), pod("f", 12, "a", 0))

    assert answer["policyWouldChoose"] == []
    assert answer["cards"][0]["reason"] == "too full"


def test_a_bound_pod_without_a_card_names_the_problem() -> None:
    """No extender bound it, or its annotations cannot be read, or name a card that is not there."""
    by_hand, odd, absent = pod("p", 4, "a"), pod("p", 4, "a", 0), pod("p", 4, "a", 9)
    odd["metadata"]["annotations"]["ALIYUN_COM_GPU_MEM_IDX"] = "x"
    found = [explained(one, node()) for one in (by_hand, odd, absent)]

    assert [one["boundBy"] for one in found] == ["", "gpushare", "gpushare"]
    assert [bool(one["problem"]) for one in found] == [False, True, True]
    assert "annotations name card 9" in found[2]["problem"]


def test_a_pod_of_another_extender() -> None:
    """An annotation that names no binder is another's; a time that is none is left out."""
    one = pod("p", 4, "a", 0)
    annotations = one["metadata"]["annotations"]
    del annotations["ALIYUN_COM_GPU_MEM_EXTENDER"]
    annotations["ALIYUN_COM_GPU_MEM_ASSUME_TIME"] = "9" * 19
    never = explained(one, node())
    annotations["ALIYUN_COM_GPU_MEM_ASSUME_TIME"] = "0"

    assert (never["boundBy"], never["boundAt"]) == ("another extender", "2286-11-20T17:46:39Z")
    assert explained(one, node())["boundAt"] == ""


def test_a_bound_pod_on_a_node_that_is_not_seen() -> None:
    """Nothing is known of its cards."""
    assert explained(pod("p", 4, "gone", 0), node())["cards"] == []


def test_a_bound_pod_without_card_memory() -> None:
    """It has no card."""
    assert explained(pod("p", 0, "a"), node())["cards"] == []
    asked = pod("p", 0, "a")
    compared = cluster(node(), asked, policy="fragmentation")
    assert explain_pod(subject(asked), compared, ())["cards"] == []


def test_a_wish_that_cannot_be_read_is_the_cause() -> None:
    """So it is for a pod that waits, and for one that came to its node by another road."""
    waiting, bound = pod(wishes={"x": "y"}), pod("p", 4, "a", wishes={"x": "y"})
    found = [explained(one, node()) for one in (waiting, bound)]

    assert [[cause["kind"] for cause in one["causes"]] for one in found] == [[BAD_WISH], [BAD_WISH]]
    assert [(one["state"], one.get("node")) for one in found] == [("waiting", None), ("bound", "a")]
    assert (found[0]["fits"], found[0]["nodes"]) == ([], [])
    assert found[0]["causes"][0]["message"].startswith("annotation gpushare.aliyun.com/x ")


def test_a_pod_that_has_ended() -> None:
    """It has no card any more."""
    done = pod("p", 4, "a", 0)
    done["status"]["phase"] = "Succeeded"

    assert explained(done, node())["state"] == "ended"


def test_events_of_interest_come_newest_first() -> None:
    """Ours and the scheduler's."""
    events = [
        event("FailedScheduling", "old", when="2026-01-01T00:00:00Z"),
        event("Pulled", "image", when="2026-01-03T00:00:00Z"),
        event("GPUShareHeld", "new", when="2026-01-02T00:00:00.5Z"),
        event("GPUShareHeld", "unknown"),
    ]
    answer = explain_pod(subject(pod()), cluster(node()), events)

    assert [one["message"] for one in answer["events"]] == ["new", "old", "unknown"]


def test_events_of_an_earlier_pod_are_not_shown() -> None:
    """A pod of the same name had another uid; an event without one counts."""
    events = [event("GPUShareHeld", text) for text in ("uid-p", "uid-gone", "")]
    for one in events:
        one.involved_object.uid = one.message
    answer = explain_pod(subject(pod()), cluster(node()), events)

    assert [one["message"] for one in answer["events"]] == ["uid-p", ""]


def test_the_schedulers_word_and_the_nominated_node() -> None:
    """Both are as the pod's status has them."""
    one = pod(schedulerName="mine")
    one["status"]["nominatedNodeName"] = "a"
    bare = pod()
    del bare["status"]

    assert explained(one, node())["scheduler"] == {
        "name": "mine", "reason": "Unschedulable", "message": "0/9 nodes are available", "nominatedNode": "a",
    }  # fmt: skip
    assert explained(bare, node())["scheduler"]["nominatedNode"] == ""
