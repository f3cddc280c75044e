"""The devices that the simulated kubelet knows."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.kubelet.kubelet_devices import Allocation, AllocationError, Choice, Count, Device, DeviceBook, complete

R = "example.com/slice"


def book_of(*names: str) -> DeviceBook:
    book = DeviceBook()
    book.replace_devices(R, [Device(name) for name in names])
    return book


@pytest.mark.promise("G3-02")
def test_a_list_replaces_the_one_before() -> None:
    """A device that the new list does not name is gone; sick ones count in the capacity only."""
    book = book_of("a", "b", "c")
    book.replace_devices(R, [Device("c"), Device("d", healthy=False)])

    assert book.counts() == {R: Count(2, 1)}


def test_a_plugin_lost_before_its_first_list_counts_zero() -> None:
    """The resource is known without devices."""
    book = DeviceBook()
    book.mark_unhealthy(R)

    assert book.counts() == {R: Count(0, 0)}
    assert book.knows(R)


@pytest.mark.parametrize(
    ("prepare", "text"),
    [
        (lambda b: b.mark_unhealthy(R), "no healthy devices present; cannot allocate unhealthy devices"),
        (lambda b: b.replace_devices(R, [Device("a")]), "Requested: 2, Available: 1"),
        (lambda b: b.store(Allocation("other", "c", R, ("a",))), "Requested: 2, Available: 1"),
    ],
    ids=["sick", "few", "taken"],
)
def test_a_choice_that_cannot_be_made_says_why(prepare, text) -> None:
    """Sick, missing and taken devices give the kubelet's texts."""
    book = book_of("a", "b")
    prepare(book)

    with pytest.raises(AllocationError, match=text):
        book.choose(("p", "c", R), 2, (), random.Random(1))


def test_sick_device_of_a_restarting_container_is_an_error() -> None:
    """A container does not get another device than it had."""
    book = book_of("a", "b")
    book.store(Allocation("p", "c", R, ("a",)))
    book.replace_devices(R, [Device("a", healthy=False), Device("b")])

    with pytest.raises(AllocationError, match="previously allocated devices are no longer healthy"):
        book.choose(("p", "c", R), 1, (), random.Random(1))


def test_devices_of_ended_pods_come_back_at_the_next_look() -> None:
    """The devices of ended pods stay in use until the living pods are known."""
    book = book_of("a")
    book.store(Allocation("ended", "c", R, ("a",)))

    assert book.in_use(R) == {"a"}
    book.release_all_but({"living"})
    assert book.in_use(R) == set()


def test_wishes_count_as_far_as_they_are_free() -> None:
    """Ids that are taken, unknown or named twice are replaced."""
    choice = Choice(reused=("r",), available=frozenset("abc"), missing=2)

    chosen = complete(choice, ["r", "z", "b", "b"], random.Random(1))

    assert chosen[:2] == ("r", "b")
    assert len(set(chosen)) == 3
    assert chosen[2] in ("a", "c")


sizes = st.lists(st.tuples(st.integers(1, 6), st.booleans(), st.lists(st.integers(0, 11))), max_size=12)


@given(sizes, st.integers())
def test_no_id_belongs_to_two_pods(requests, seed) -> None:
    """Whatever is asked, wished and ended in whatever order: living pods never share an id, sizes are exact."""
    names = [f"id{i}" for i in range(12)]
    book, rng = book_of(*names), random.Random(seed)
    living: set[str] = set()
    for number, (size, ends, wishes) in enumerate(requests):
        uid = f"pod{number}"
        try:
            choice = book.choose((uid, "c", R), size, (), rng)
        except AllocationError:
            assert len(book.in_use(R)) + size > 12
        else:
            assert choice is not None
            book.store(Allocation(uid, "c", R, complete(choice, [names[w] for w in wishes], rng)))
            living.add(uid)
        if ends and living:
            living.discard(rng.choice(sorted(living)))
            book.release_all_but(living)
        held = [i for a in book.allocations() for i in a.ids]
        assert len(held) == len(set(held))
        assert set(held) <= set(names)
    assert all(len(a.ids) == requests[int(a.pod_uid[3:])][0] for a in book.allocations())


@given(st.integers(0, 5), st.integers(1, 8), st.integers())
def test_reusable_ids_come_first(reusable, size, seed) -> None:
    """A container takes from its pod's ended init containers as much as it can, and new ids only for the rest."""
    names = [f"id{i}" for i in range(12)]
    old, rng = tuple(names[:reusable]), random.Random(seed)
    book = book_of(*names)
    book.store(Allocation("p", "init", R, old))

    choice = book.choose(("p", "c", R), size, old, rng)
    assert choice is not None
    ids = complete(choice, (), rng)

    assert len(set(ids)) == size
    assert len(set(ids) & set(old)) == min(size, reusable)


@pytest.mark.promise("G3-06")
def test_the_same_seed_gives_the_same_ids() -> None:
    """Another seed gives others."""
    choice = Choice((), frozenset(map(str, range(100))), 5)

    assert complete(choice, (), random.Random(7)) == complete(choice, (), random.Random(7))
    assert complete(choice, (), random.Random(7)) != complete(choice, (), random.Random(8))


def test_a_look_that_frees_nothing_changes_nothing() -> None:
    """A release that finds no pod with devices leaves the devices in use as they are."""
    book = book_of("a", "b")
    book.take(R, ["a"])
    book.release_all_but(set())

    assert book.in_use(R) == {"a"}


def test_removed_resource_shows_zero_and_has_no_plugin() -> None:
    """A removed resource counts 0 and is known only while a pod has some of it, and none of it can be allocated."""
    book = book_of("a")
    book.remove(R)

    assert book.counts() == {R: Count(0, 0)}
    assert not book.knows(R)
    assert book.resources() == ()
    book.store(Allocation("p", "c", R, ("a",)))
    assert book.knows(R)
    with pytest.raises(AllocationError, match=f"cannot allocate unregistered device {R}"):
        book.choose(("q", "c", R), 1, (), random.Random(1))


def test_none_of_a_resource_needs_a_plugin_too() -> None:
    """A container with a limit of 0 gets no device, and still fails while none is healthy."""
    book = book_of("a")
    assert book.choose(("p", "c", R), 0, (), random.Random(1)) is None
    book.mark_unhealthy(R)

    with pytest.raises(AllocationError, match="no healthy devices present"):
        book.choose(("p", "c", R), 0, (), random.Random(1))


def test_pod_shows_the_last_health_from_its_plugin() -> None:
    """A device keeps the last health that its plugin announced, and one that was never announced counts as healthy."""
    book = DeviceBook()
    book.replace_devices(R, [Device("a"), Device("b", healthy=False)])
    book.mark_unhealthy(R)

    assert [book.is_healthy(R, name) for name in "abc"] == [True, False, True]


def test_of_too_many_wishes_any_may_come_true() -> None:
    """A plugin that prefers more ids than are missing leaves the choice among them to the kubelet."""
    choice = Choice(reused=(), available=frozenset("abcd"), missing=1)

    assert {complete(choice, ["a", "b"], random.Random(seed)) for seed in range(20)} == {("a",), ("b",)}


def test_a_removed_resource_is_reported_once() -> None:
    """A removed resource is reported as zero once; after that an operator, or a plugin in slots mode, may set its amount."""
    book = book_of("a")
    book.remove(R)
    book.told([])
    assert book.counts() == {R: Count(0, 0)}

    book.told([R])
    assert book.counts() == {}
