"""Promises of gpushare.deviceplugin.core.holdings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpushare.deviceplugin.core.holdings import Entry, Grant, Holdings, lay, used_units
from gpushare.deviceplugin.core.kept_pods import KeptPod
from tests.gpushare.deviceplugin.core.bound_pod import bound_pod as pod

MEMORY, SLOT = "aliyun.com/gpu-mem", "aliyun.com/gpu-slot"


def entry(uid: str, *ids: str, container: str = "c", **more: object) -> Entry:
    """A line of the book."""
    return Entry(container, frozenset(ids), uid, **more)  # type: ignore[arg-type]


def cards_of(ids: Iterable[str]) -> dict[str, int]:
    """Ids of ours say their card first."""
    return {one: int(one[0]) for one in ids if one[0].isdigit()}


def laid(entries: Sequence[Entry], *pods: KeptPod, resource: str = MEMORY, **more: object) -> Holdings:
    """The holdings of these pods."""
    known = {one.metadata.uid: one for one in pods}
    guesses = more.pop("guesses", ())
    return lay(entries, guesses, lambda one: known.get(one.uid), cards_of, resource=resource, **more)  # type: ignore[arg-type]


def test_where_our_ids_lie_is_the_card() -> None:
    """The ids of pods that the plugin keeps, of the announced resource."""
    entries = [
        entry("a", "1x", "1y"),
        entry("a", "1y", container="init"),
        entry("gone", "0x"),
        entry("a", "0z", resource=SLOT),
        entry("go", "g1", "g2"),
    ]
    holdings = laid(entries, pod("a"), pod("go"))

    assert holdings.containers() == {"a": ["c", "init"], "go": ["c"]}
    assert (holdings.cards("a"), holdings.cards("go"), holdings.cards("gone")) == ({1}, frozenset(), frozenset())
    assert [dict(grant.by_card) for grant in holdings.grants] == [{1: 2}, {1: 1}, {}]
    assert laid(entries, pod("a"), resource=SLOT).containers() == {"a": ["c"]}
    (answered,) = laid([entry("a", "1x", variables={"NVIDIA_VISIBLE_DEVICES": "GPU-1"})], pod("a")).grants
    assert answered.variables == {"NVIDIA_VISIBLE_DEVICES": "GPU-1"}


def test_a_guess_counts_until_the_book_knows_better() -> None:
    """The kubelet's records decide which pod has the ids."""
    guess = Grant("a", "c", frozenset({"1x"}), {"1x": 1}, is_guess=True)
    pods = [pod("a"), pod("b")]

    assert laid([], *pods, guesses=[guess]).containers() == {"a": ["c"]}
    assert laid([entry("b", "1x"), entry("gone", "0x")], *pods, guesses=[guess]).containers() == {"b": ["c"]}
    assert laid([entry("gone", "1x")], *pods, guesses=[guess]).containers() == {}
    assert laid([entry("a", "0x")], *pods, guesses=[guess]).grants == laid([entry("a", "0x")], *pods).grants


def test_owner_of_shared_ids_is_the_container_with_just_these() -> None:
    """An init container's ids are reused by the containers after it."""
    holdings = laid([entry("a", "1x", "1y", container="init"), entry("a", "1x"), entry("b", "2x")], pod("a"), pod("b"))

    owners = [holdings.owner(ids) for ids in (["1x"], ["1y"], ["1y", "1x"], ["3x"])]
    assert [one.container if one else None for one in owners] == ["c", "init", "init", None]


def test_id_is_a_unit_and_foreign_ids_count_by_annotation() -> None:
    """Reused ids count once; ids that are being given out now do not count at all."""
    several = {"scheduler.framework.gpushare.allocation": '{"0":{"0":1,"1":2}}'}
    pods = [pod("a", card=0), pod("go", card=1), pod("many", 3, **several), pod("odd", card=None), pod("bad", card="x")]
    entries = [
        entry("a", "0x", "0y", container="init"),
        entry("a", "0x"),
        entry("go", "g1", "g2"),
        entry("many", "m1", "m2", "m3"),
        entry("odd", "o1"),
        entry("bad", "o2"),
    ]
    holdings = laid(entries, *pods)

    assert used_units(holdings, pods, counts_slots=False) == {0: 3, 1: 4}
    assert used_units(holdings, pods, counts_slots=False, besides=["0x"]) == {0: 2, 1: 4}


def test_where_slots_are_counted_a_pod_holds_what_it_asks_for() -> None:
    """However many slots it has; ids of others are units."""
    pods = [pod("a", 4000, card=0), pod("go", card=1), pod("odd", "1.5", card=2)]
    entries = [
        entry("a", "0x", resource=SLOT),
        entry("a", "0y", container="side", resource=SLOT),
        entry("go", "g1", "g2", resource=SLOT),
        entry("odd", "2x", resource=SLOT),
    ]

    assert used_units(laid(entries, *pods, resource=SLOT), pods, counts_slots=True) == {0: 4000, 1: 2, 2: 0}
