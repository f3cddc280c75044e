"""Promises of gpushare.extender.core.book: what each event books and frees."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from gpushare.extender.core.book import ENDED_REMEMBERED, Book
from gpushare.extender.core.reservations import State
from gpushare.manifests import ObjectMeta
from gpushare.model.cards import CardFacts, NodeCards, encode_cards
from tests.gpushare.extender.core.booked import booking, node, pod, used


def test_an_acknowledged_bind_is_believed(book: Book) -> None:
    """The watch was broken, so the first state of the bound pod is one that its author has changed: both cards are booked."""
    book.set_pod(pod("u", 4))
    book.assume("n", replace(booking("u", 4, 0), card_size=14))
    book.bound(pod("u").metadata, "n", 0)
    book.set_pod(pod("u", 4, on="n", card=1, version=1), has_gap=True)
    assert (used(book), book.placed_on("n")[0][0].card_size) == ([4, 4], 14)

    book.audited()
    book.audited()
    assert used(book) == [4, 4]


def test_an_unreadable_pod_keeps_what_it_has(book: Book) -> None:
    """A booking is not given away because its pod cannot be read any more, and the node goes on."""
    book.set_pod(pod("u", 4, on="n", card=0))
    book.set_unreadable(pod("u").metadata, "n")

    assert used(book) == [4, 0]
    assert book.snapshot().nodes["n"].published.refusal is None


def test_a_node_with_an_unreadable_pod_gets_no_pods(book: Book) -> None:
    """It may have any card there. Another node goes on, and so does this one once the pod can be read or is gone."""
    book.set_node(node("m"))
    book.set_unreadable(pod("u").metadata, "m")
    assert book.snapshot().nodes["m"].published.refusal is not None
    for uid in ("u", "v", "waits"):
        book.set_unreadable(pod(uid).metadata, "" if uid == "waits" else "n")
    refusals = [book.snapshot().nodes[name].published.refusal for name in ("n", "m")]
    assert refusals == ["a pod on the node cannot be read, so it is not known which GPUs have room", None]

    book.remove_pod(pod("u").metadata)
    assert book.snapshot().nodes["n"].published.refusal is not None

    book.set_pod(pod("v", 4, on="n", card=1))
    assert (book.snapshot().nodes["n"].published.refusal, used(book)) == (None, [0, 4])

    book.remove_pod(pod("v").metadata)
    book.set_unreadable(pod("v").metadata, "n")
    assert book.snapshot().nodes["n"].published.refusal is None


def test_pending_pods_are_kept_small(book: Book) -> None:
    """300 pods with 250 kB of annotations each leave a few hundred bytes."""
    for number in range(300):
        large = pod(f"u{number}", 4)
        large.metadata.annotations = {"note": "x" * 250_000}
        large.metadata.labels = {"note": "x" * 60}
        book.set_pod(large)

    kept = [book.pending_pod("default", f"u{number}") for number in range(300)]
    assert len(msgspec.json.encode(kept)) < 300 * 1000
    assert sum(len(one.metadata.annotations or {}) for one in kept if one is not None) == 0


def test_a_dispute_ends_where_our_plugin_runs(book: Book) -> None:
    """A conflict ends after two audits if our plugin runs on the node, because it corrects annotations that are wrong."""
    facts = tuple(CardFacts(index, f"GPU-{index}", "m", 14, 14) for index in (0, 1))
    book.set_node(node(cards=encode_cards(NodeCards(1, "ids", "GiB", "", facts))))
    book.set_pod(pod("u", 4, on="n", card=0), has_gap=False)
    book.set_pod(pod("u", 4, on="n", card=1, version=9), has_gap=True)
    book.audited()
    assert used(book) == [4, 4]

    book.touched = set()
    book.audited()

    assert (used(book), book.touched) == ([0, 4], {"u"})
    book.touched = set()
    book.audited()
    assert book.touched == set(), "there is no conflict any more"
    assert book.set_pod(pod("u", 4, on="n", card=1), has_gap=False) is None

    book.set_pod(pod("u", 4, on="n", card=0, version=10), has_gap=True)
    book.remove_pod(pod("u").metadata)
    book.audited()
    assert used(book) == [0, 0]


def test_a_restored_pod_is_booked(book: Book) -> None:
    """A restored pod is booked again, because its end was in a history that is lost."""
    book.set_pod(pod("u", 4, on="n", card=1))
    book.remove_pod(pod("u").metadata)
    book.set_pod(pod("u", 4, on="n", card=1))
    assert used(book) == [0, 0]

    assert book.restores == 0
    book.restart_history()
    assert book.restores == 1
    book.set_pod(pod("u", 4, on="n", card=0), has_gap=False)

    assert used(book) == [4, 0], "nothing that was believed of it counts"


def test_a_lost_bind_frees_its_card(book: Book) -> None:
    """The restored state shows the pod unbound, so its booking does not hold, nor that of a pod without a card."""
    book.set_pod(pod("v", 4, on="n"))
    book.set_pod(pod("u", 4, on="n", card=0))
    book.set_pod(pod("u", 4))
    assert used(book) == [4, 0], "without a restore it is an old event"
    book.restart_history()
    assert used(book) == [4, 0]

    for uid in ("u", "v"):
        book.set_pod(pod(uid, 4))

    assert (used(book), book.snapshot().nodes["n"].unplaced) == ([0, 0], 0)
    assert book.is_pending(pod("u").metadata)
    book.set_pod(pod("u", 4, on="n", card=1), has_gap=False)
    assert used(book) == [0, 4]


def test_a_bind_under_way_survives_a_restore(book: Book) -> None:
    """A bind under way keeps its room after a restore, because its request may still take effect."""
    book.assume("n", booking("u", 4, 0))
    book.restart_history()
    book.set_pod(pod("u", 4))

    assert used(book) == [4, 0]


def test_a_pod_that_has_finished_frees_its_card(book: Book) -> None:
    """A pod that has ended by its phase keeps its card as long as a container of it runs (defect D15)."""
    book.set_pod(pod("u", 4, on="n", card=0, phase="Failed", running=True))
    assert used(book) == [4, 0]
    book.set_pod(pod("u", 4, on="n", card=0, phase="Failed"))
    assert (used(book), book.fate_of(pod("u").metadata).state) == ([0, 0], State.GONE)


def test_the_memory_of_ended_pods_is_bounded(book: Book) -> None:
    """Years of pods do not pile up."""
    ended = [ObjectMeta(name="x", namespace="d", uid=str(number)) for number in range(ENDED_REMEMBERED + 5)]
    for one in ended:
        book.remove_pod(one)

    assert {book.fate_of(one).state for one in ended[:5]} == {State.UNKNOWN}
    assert {book.fate_of(one).state for one in ended[5:]} == {State.GONE}


def test_bookings_outlive_the_node_object(book: Book) -> None:
    """A node that is deleted and comes back with other cards still has its pods (defects D13, D14)."""
    book.set_pod(pod("a", 3, on="n", card=0))
    book.remove_node("n")
    assert "n" not in book.snapshot().nodes

    book.set_node(node(memory=0, count=2))
    assert book.snapshot().nodes["n"].devices == ()

    book.set_node(node(memory=40, count=1))
    assert used(book) == [3]
    assert book.snapshot().nodes["n"].largest_free == 37


def test_a_card_declared_unhealthy_is_not_free_and_comes_back(book: Book) -> None:
    """The ConfigMap of the contract; an empty one ends it."""
    book.set_unhealthy("n", frozenset({0}))
    assert [device.free for device in book.snapshot().nodes["n"].devices] == [0, 14]

    book.set_unhealthy("n", frozenset())
    book.set_unhealthy("elsewhere", frozenset({1}))
    assert [device.free for device in book.snapshot().nodes["n"].devices] == [14, 14]


def test_a_pod_that_the_api_shows_elsewhere_moves(book: Book) -> None:
    """A pod that the API shows on another node moves there, and one that was resized to nothing books nothing any more."""
    book.set_node(node("m"))
    book.set_pod(pod("a", 3, on="n", card=0))
    book.set_pod(pod("a", 3, on="m", card=1))
    assert (used(book), used(book, "m")) == ([0, 0], [0, 3])

    assert book.set_pod(pod("a", 0, on="m", card=1)) is None
    assert book.snapshot().nodes["m"].bookings == ()
