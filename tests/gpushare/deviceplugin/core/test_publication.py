"""Promises of gpushare.deviceplugin.core.publication."""

from __future__ import annotations

import msgspec
import pytest

from gpushare.deviceplugin.core.announced_cards import CardChange, about_us, amounts, changes_between, patch_for, shape
from gpushare.manifests import Node, NodeStatus, NodeSystemInfo, ObjectMeta
from gpushare.model.cards import CardFacts, NodeCards, encode_cards

A, B = CardFacts(0, "GPU-a", "m", 15360, 15), CardFacts(1, "GPU-b", "m", 11264, 11)
CARDS = NodeCards(1, "ids", "GiB", "boot", (A, B))
SLOTS = NodeCards(
    1, "slots", "MiB", "boot", (CardFacts(0, "GPU-a", "m", 100, 100, 4), CardFacts(1, "GPU-b", "m", 50, 50, 4))
)


def node(**capacity: str) -> Node:
    named = {f"aliyun.com/gpu-{name}": amount for name, amount in capacity.items()}
    return Node(ObjectMeta(name="n"), NodeStatus(capacity={"cpu": "8", **named}))


def sick(card: CardFacts, reason: str) -> CardFacts:
    return msgspec.structs.replace(card, healthy=False, reason=reason)


def with_cards(*cards: CardFacts) -> NodeCards:
    return msgspec.structs.replace(CARDS, cards=cards)


@pytest.mark.parametrize(("memory", "count"), [(None, "2"), ("0", "2"), ("26", "2"), ("30", "0"), ("15", "0")])
def test_count_is_there_when_the_kubelets_sum_is_for_these_cards(memory: str | None, count: str) -> None:
    """D14, and worse: total ÷ count over the wrong sum is a wrong size for every card."""
    there = node(mem=memory) if memory is not None else node()

    assert amounts(there, CARDS, is_moving=False) == {"aliyun.com/gpu-count": count}


def test_while_cards_come_or_go_the_count_is_zero() -> None:
    """The count is 0 until the sum is the new one."""
    assert amounts(node(mem="26"), CARDS, is_moving=True) == {"aliyun.com/gpu-count": "0"}


@pytest.mark.parametrize(("is_moving", "count"), [(False, "2"), (True, "0")])
def test_in_slots_mode_the_sum_is_ours_to_write(is_moving: bool, count: str) -> None:
    """The kubelet counts slots there, not units."""
    assert amounts(node(mem="7"), SLOTS, is_moving=is_moving) == {
        "aliyun.com/gpu-count": count,
        "aliyun.com/gpu-mem": "150",
    }


def test_health_is_no_change_of_shape() -> None:
    """The kubelet's counts stay; index, size and UUID do not."""
    assert shape(with_cards(A, sick(B, "Xid 48"))) == shape(CARDS)
    assert shape(with_cards(A)) != shape(CARDS)
    assert shape(with_cards(A, msgspec.structs.replace(B, index=2))) != shape(CARDS)


def test_what_others_write_is_not_about_us() -> None:
    """A kubelet writes its node every few minutes; only what we read or write is a reason to look."""
    plain = node(mem="26", count="2")
    heart = msgspec.structs.replace(plain, metadata=ObjectMeta(name="n", resource_version="7", labels={"a": "b"}))
    heart.status = NodeStatus(capacity={"cpu": "9", "aliyun.com/gpu-mem": "26", "aliyun.com/gpu-count": "2"})

    assert about_us(heart) == about_us(plain)
    assert about_us(Node()) == about_us(Node(ObjectMeta(name="n")))


@pytest.mark.parametrize(
    "changed",
    [
        node(mem="0", count="2"),
        node(mem="26"),
        Node(ObjectMeta(uid="other"), node(mem="26", count="2").status),
        Node(ObjectMeta(annotations={"gpushare.aliyun.com/recovered": "0"}), node(mem="26", count="2").status),
        Node(ObjectMeta(annotations={"aliyun.com/gpushare-cards": "{}"}), node(mem="26", count="2").status),
        Node(ObjectMeta(labels={"cgpu.disable.isolation": "true"}), node(mem="26", count="2").status),
        Node(
            ObjectMeta(),
            NodeStatus(
                capacity=node(mem="26", count="2").status.capacity,  # type: ignore[union-attr]
                node_info=NodeSystemInfo(boot_id="two"),
            ),
        ),
    ],
)
def test_what_we_read_is_about_us(changed: Node) -> None:
    """Each part that the plugin reads or writes makes a difference."""
    assert about_us(changed) != about_us(node(mem="26", count="2"))


def test_who_fell_ill_recovered_or_went_is_news() -> None:
    """A card that is new and well is none, nor one that is as sick as before."""
    c, d, e = (CardFacts(i, f"GPU-{i}", "m", 1, 1) for i in (2, 3, 4))
    before = with_cards(A, sick(B, "Xid 48"), c, sick(d, "lost"))
    after = with_cards(sick(A, "lost"), B, sick(d, "lost"), e, CardFacts(5, "GPU-5", "m", 1, 1))

    assert changes_between(before, after, {"GPU-b": "an operator's annotation"}) == (
        CardChange(c, False, "taken out of the machine"),
        CardChange(sick(A, "lost"), False, "lost"),
        CardChange(B, True, "an operator's annotation"),
    )


def test_card_that_arrives_sick_or_recovers_is_news_too() -> None:
    """A condition without a rule is reported by the reason that it no longer has."""
    before, after = with_cards(sick(A, "ConfigMap")), with_cards(A, sick(B, "Xid 48"))

    assert changes_between(before, after, {}) == (
        CardChange(A, True, "no longer: ConfigMap"),
        CardChange(sick(B, "Xid 48"), False, "Xid 48"),
    )


def test_one_write_has_annotation_count_and_operators_word() -> None:
    """One patch has the cards, the count and the removal of an operator's word that was acted on. A Node with all gets none."""
    there = node(mem="26", count="2")
    there.metadata.annotations = {"gpushare.aliyun.com/recovered": "0", "aliyun.com/gpushare-cards": "old"}
    patch = patch_for(there, CARDS, "0", is_moving=False)
    wanted = {"aliyun.com/gpu-count": "2"}

    assert patch == {
        "metadata": {
            "annotations": {"aliyun.com/gpushare-cards": encode_cards(CARDS), "gpushare.aliyun.com/recovered": None}
        },
        "status": {"capacity": wanted, "allocatable": wanted},
    }
    other = patch_for(there, CARDS, "1", is_moving=False)
    assert other is not None
    assert "gpushare.aliyun.com/recovered" not in other["metadata"]["annotations"]
    there.metadata.annotations = {"aliyun.com/gpushare-cards": encode_cards(CARDS)}
    assert patch_for(there, CARDS, "", is_moving=False) is None
    assert patch_for(Node(), CARDS, "", is_moving=False) is not None


def test_amounts_are_compared_by_value_and_by_presence() -> None:
    """An API server writes 160000 as 160k; an amount of 0 is written if none is there."""
    big = NodeCards(1, "slots", "MiB", "b", (CardFacts(0, "GPU-a", "m", 160_000, 160_000, 4),))
    there = node(mem="160k", count="1")
    there.metadata.annotations = {"aliyun.com/gpushare-cards": encode_cards(big)}
    none = with_cards()
    bare = node()
    bare.metadata.annotations = {"aliyun.com/gpushare-cards": encode_cards(none)}

    assert patch_for(there, big, "", is_moving=False) is None
    assert patch_for(bare, none, "", is_moving=False) is not None
