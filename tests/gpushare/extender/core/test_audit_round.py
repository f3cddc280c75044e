"""Tests of ``audit_round``: most let one event arrive between the list and the correction of a suspect."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import pytest

from gpushare import wire
from gpushare.extender.core.audit_round import MOST_ODD, Difference, DriftKind, Round, Suspect
from gpushare.extender.core.book import Book
from gpushare.manifests import Node, Pod
from gpushare.model.node import Booking
from tests.gpushare.extender.core import booked


def node(cards: int = 2, published: str | None = None) -> Node:
    """Cards of 14."""
    return booked.node(memory=14 * cards, count=cards, cards=published)


def pod(
    on: str | None = "n", card: object = 0, version: object = 5, units: object = 3, phase: str = "Running", **more: str
) -> Pod:
    """The pod ``default/p``, at one version."""
    card = None if on is None or wire.ANNOTATION_INDEX in more else card
    return booked.pod("u", units, name="p", on=on, card=card, version=version, phase=phase, annotations=more)


ASSIGNED = {"ALIYUN_COM_GPU_MEM_ASSIGNED": "true"}


@dataclass
class BookUnderAudit:
    """A book, and what may be under way."""

    book: Book = field(default_factory=Book)
    under_way: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.book.set_node(node())

    def round(self) -> Round:
        return Round(self.book, lambda *pod: pod[:2] == ("default", "p") and pod[2] in self.under_way)

    def listed(self, *pods: Pod, nodes: Collection[Node] = (node(),)) -> tuple[Round, list[Suspect]]:
        audit = self.round()
        for one in nodes:
            audit.see_node(one)
        for each in pods:
            audit.see_pod(each)
        return audit, audit.end()

    def suspected(self, *pods: Pod, nodes: Collection[Node] = (node(),)) -> Callable[[], Difference | None]:
        """A function that settles the one suspect."""
        audit, (suspect,) = self.listed(*pods, nodes=nodes)
        return lambda: audit.settle(suspect)

    def odd(self, *pods: Pod, nodes: Collection[Node] = (node(),)) -> list[tuple[str, str, int]]:
        """Kind, name and units of each oddity in this list."""
        return [(one.kind, one.name, one.units) for one in self.listed(*pods, nodes=nodes)[0].odd]

    def used(self) -> list[int]:
        return [device.used for device in self.book.snapshot().nodes["n"].devices]

    def assume(self) -> None:
        self.book.assume("n", Booking("u", "default", "p", 3, ((0, 3),)))


CARDS = "0=14+1=14"
DELETED = pod()
DELETED.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("known", "listed", "kind", "units", "book", "api"),
    [
        (None, pod(), "missing", 3, "nothing", "n:0=3"),
        (None, pod(card=None), "missing", 3, "nothing", "n:?=3"),
        (None, pod(card=None, units=1), "missing", 1, "nothing", "n:?=1"),
        (pod(), None, "phantom", 3, "n:0=3", "gone"),
        (pod(), pod(None), "phantom", 3, "n:0=3", "not bound"),
        (pod(), pod(units=0), "phantom", 3, "n:0=3", "n"),
        (pod(), pod("m"), "other_node", 3, "n:0=3", "m:0=3"),
        (pod(), pod(units=5), "other_amount", 2, "n:0=3", "n:0=5"),
        (pod(units=5), pod(), "other_amount", 2, "n:0=5", "n:0=3"),
        (pod(), DELETED, "other_details", 0, "n:0=3", "n:0=3"),
        (pod(None), None, "pending_phantom", 0, "pending", "gone"),
        (None, pod(None), "pending_missing", 0, "nothing", "not bound"),
        (pod(None), pod(None, version=6), "pending_other", 0, "pending", "not bound"),
    ],
)
def test_a_difference_shows_both_sides(
    known: Pod | None, listed: Pod | None, kind: DriftKind, units: int, book: str, api: str
) -> None:
    """The pod, how many units are wrong, and where the book and the API have them. The next audit finds none."""
    on = BookUnderAudit()
    if known is not None:
        on.book.set_pod(known)
    pods = [] if listed is None else [listed]
    audit, (suspect,) = on.listed(*pods)

    assert audit.settle(suspect) == Difference(kind, "default", "p", "u", units, book, api)
    assert on.listed(*pods)[1] == []


@pytest.mark.parametrize(
    ("listed", "kind", "units", "book", "api"),
    [
        ([], "node_phantom", 28, CARDS, "not there"),
        ([node(3)], "node_other_cards", 14, CARDS, CARDS + "+2=14"),
        ([node(1)], "node_other_cards", 14, CARDS, "0=14"),
        ([node(0)], "node_other_cards", 28, CARDS, "none"),
    ],
)
def test_a_node_with_other_cards_shows_both_lists(
    listed: list[Node], kind: DriftKind, units: int, book: str, api: str
) -> None:
    """Its cards by index, each with its size. The next audit finds no difference."""
    on = BookUnderAudit()
    audit, (suspect,) = on.listed(nodes=listed)

    assert audit.settle(suspect) == Difference(kind, "", "n", "n", units, book, api)
    assert on.listed(nodes=listed)[1] == []


def test_a_difference_shows_that_the_plugin_let_the_pod_in() -> None:
    """An assigned pod runs on the card, whatever the book has of it."""
    assert [one.is_assigned for one, _ in BookUnderAudit().listed(pod(**ASSIGNED))[1]] == [True]


def test_gone_objects_come_before_listed_ones() -> None:
    """Nodes and pods each by name or uid, whatever the order in the book."""
    on = BookUnderAudit()
    for name in ("c", "b"):
        other = node()
        other.metadata.name = name
        on.book.set_node(other)
        gone = pod()
        gone.metadata.uid = gone.metadata.name = name
        on.book.set_pod(gone)

    assert [one.uid for one, _ in on.listed(pod())[1]] == ["b", "c", "b", "c", "u"]


def waits(on: BookUnderAudit) -> None:
    """The pod waits and is assumed."""
    on.book.set_pod(pod(None))
    on.assume()


def bind_again(on: BookUnderAudit) -> None:
    """The assumption ends, and another bind of the pod begins."""
    on.book.forget("u", "n")
    on.assume()


@pytest.mark.parametrize(
    ("before", "listed", "meanwhile", "used"),
    [
        (None, pod(), lambda on: on.book.remove_pod(pod().metadata), [0, 0]),
        (None, pod(), lambda on: on.book.set_pod(pod(card=1, version=6)), [0, 3]),
        (None, pod(), lambda on: on.book.restart_history(), [0, 0]),
        (None, pod(None), BookUnderAudit.assume, [3, 0]),
        (waits, pod(None), lambda on: on.book.touch("u"), [3, 0]),
        (waits, pod(None), bind_again, [3, 0]),
    ],
    ids=["ended", "moved", "a restore of etcd", "bound first", "the bind renewed", "bound again"],
)
def test_a_pod_that_changed_after_the_list_is_not_settled(
    before: Callable[[BookUnderAudit], object] | None,
    listed: Pod,
    meanwhile: Callable[[BookUnderAudit], object],
    used: list[int],
) -> None:
    """The list is older than the watch's event or our bind, or of a history that is lost; the book stays as that made it."""
    on = BookUnderAudit()
    if before is not None:
        before(on)
    settle = on.suspected(listed)
    meanwhile(on)

    assert settle() is None
    assert on.used() == used


def test_suspect_of_a_bind_under_way_is_left_to_the_next_audit() -> None:
    """While its bind is under way no audit waits for the watch, so the watch may have its events still to come."""
    on = BookUnderAudit()
    audit, (suspect,) = on.listed(pod())
    on.under_way.add("u")
    assert audit.has_moved(suspect[0])
    on.under_way.clear()
    assert audit.settle(suspect) is None
    assert on.used() == [0, 0]


def test_bind_answered_before_its_page_is_read_keeps_its_card() -> None:
    """The list is of the moment before the bind, and the watch has come no further; no request is under way any more."""
    on = BookUnderAudit()
    on.book.set_pod(pod(None))
    on.assume()
    audit = on.round()
    on.book.bound(pod(None).metadata, "n", 0)
    audit.see_node(node())
    audit.see_pod(pod(None))
    assert [audit.settle(suspect) for suspect in audit.end()] == []
    assert on.used() == [3, 0]


def test_an_assumption_without_a_request_is_drift() -> None:
    """A bind under way is none."""
    on = BookUnderAudit()
    on.book.set_pod(pod(None))
    on.assume()
    on.under_way.add("u")
    assert on.listed(pod(None))[1] == []
    on.under_way.clear()
    found = on.suspected(pod(None))()
    assert found is not None
    assert (found.kind, found.units, on.used()) == ("stale_assumption", 3, [0, 0])
    assert on.book.pending_pod("default", "p") is not None


def test_a_node_is_reconciled_unless_it_had_an_event() -> None:
    """Gone, or with other cards."""
    on = BookUnderAudit()
    settle = on.suspected(nodes=())
    on.book.set_node(node())
    assert settle() is None
    settle = on.suspected(nodes=[node(3)])
    on.book.remove_node("n")
    assert settle() is None
    found = on.suspected(nodes=[node(3)])()
    assert found is not None
    assert (found.kind, found.units, on.used()) == ("node_missing", 42, [0, 0, 0])


def test_cards_that_were_declared_unhealthy_are_no_drift() -> None:
    """The list does not know of the ConfigMap, and a node that is missing in the book has them."""
    on = BookUnderAudit()
    on.book.set_unhealthy("n", frozenset({1}))
    assert on.listed()[1] == []
    on.book.remove_node("n")
    missing = Difference("node_missing", "", "n", "n", 28, "not there", "0=14+1=14(unhealthy)")
    assert [one for one, _ in on.listed()[1]] == [missing]


def test_odd_pods_are_remembered_up_to_a_number() -> None:
    """A cluster full of them must not fill the memory. All nodes and pods of the list are counted."""
    audit, _ = BookUnderAudit().listed(*[pod(card=None)] * (MOST_ODD + 5))

    assert [(one.kind, one.units) for one in audit.odd] == [("unplaced", 3)] * MOST_ODD
    assert (audit.nodes, audit.pods) == (1, MOST_ODD + 5)


def test_an_oddity_names_its_place() -> None:
    """The node and the annotation, so that a person finds it."""
    on = BookUnderAudit()
    forged = pod(card=7, units=20, **ASSIGNED)
    running = pod(units=15, **ASSIGNED)

    assert on.listed(forged, running, nodes=[node(published="{}")])[0].odd == [
        Difference("cards_in_conflict", "", "n", "n", 28, api="annotation and capacity contradict each other"),
        Difference("unplaced", "default", "p", "u", 20, api="n: ALIYUN_COM_GPU_MEM_IDX=7"),
        Difference("over_committed", "", "n", "n/0", 1, api="card 0: 15 of 14 units assigned"),
    ]


def test_absent_card_places_nothing_unless_no_cards_are_shown() -> None:
    """A node with a plugin that is not up yet has no description of its cards."""
    on = BookUnderAudit()
    many = pod(units=12, **{"scheduler.framework.gpushare.allocation": '{"0":{"0":4,"7":8}}'})
    assert on.odd(many, pod(card=7)) == [("unplaced", "p", 8), ("unplaced", "p", 3)]
    on.book.set_node(node(0))
    assert on.odd(pod(card=7)) == []


@pytest.mark.parametrize(
    ("annotations", "is_counted"),
    [
        (ASSIGNED, True),
        ({"ALIYUN_COM_GPU_MEM_ASSIGNED": "false"}, False),
        ({**ASSIGNED, "ALIYUN_COM_GPU_MEM_REPAIR": "1"}, False),
        ({**ASSIGNED, "ALIYUN_COM_GPU_MEM_IDX": "7"}, False),
    ],
)
def test_only_cards_that_run_too_much_are_over_committed(annotations: dict[str, str], is_counted: bool) -> None:
    """A pod with ASSIGNED=true has its card; a pod with a repair mark has none yet, and an unknown card has any amount."""
    found = BookUnderAudit().odd(pod(units=8, **annotations), pod(units=6, **ASSIGNED))
    assert "over_committed" not in {kind for kind, _, _ in found}
    found = BookUnderAudit().odd(pod(units=9, **annotations), pod(units=6, **ASSIGNED))
    assert (("over_committed", "n", 1) in found) is is_counted


def test_a_pod_of_several_cards_is_compared_card_by_card() -> None:
    """A pod on the same cards with other amounts has another amount. An assumption beside its booking is an old one."""
    many = pod(units=12, **{"scheduler.framework.gpushare.allocation": '{"0":{"0":4,"1":8}}'})
    on = BookUnderAudit()
    had = Booking("u", "default", "p", 12, ((0, 8), (1, 4)))
    on.book.assume("n", had)
    found = on.suspected(many)()
    assert found is not None
    assert (found.kind, found.units, found.book, found.api) == ("other_amount", 4, "n:0=8+n:1=4", "n:0=4+n:1=8")
    on.book.assume("m", had)
    found = on.suspected(many)()
    assert found is not None
    assert (found.kind, found.units) == ("stale_assumption", 12)


@pytest.mark.parametrize(
    ("nodes", "card", "kind"),
    [("n", 0, "unconfirmed"), ("n", 1, "other_card"), ("mn", 0, "unconfirmed"), ("mo", 0, "other_node")],
)
def test_an_assumption_is_compared_with_what_was_bound(nodes: str, card: int, kind: str) -> None:
    """On the card that was assumed the bind is only unconfirmed; of two assumptions the one on the pod's node counts."""
    on = BookUnderAudit()
    for name in nodes:
        on.book.assume(name, Booking("u", "default", "p", 3, ((0, 3),)))
    found = on.suspected(pod(card=card))()
    assert found is not None
    assert found.kind == kind


@pytest.mark.parametrize(("version", "kinds"), [(5, []), (6, ["other_card"])])
def test_a_later_version_may_be_the_end_of_a_repair(version: int, kinds: list[str]) -> None:
    """Between two versions the watch may have lost the marks; one version has one card."""
    on = BookUnderAudit()
    on.book.set_pod(pod(phase="Pending"))
    assert [one.kind for one, _ in on.listed(pod(card=1, version=version, phase="Pending"))[1]] == kinds


def test_a_waiting_pod_of_the_same_name_is_another() -> None:
    """The list is older than the end of the first pod, and the book has both."""
    on = BookUnderAudit()
    on.book.set_pod(pod())
    other = pod(None)
    other.metadata.uid = "v"
    on.book.set_pod(other)
    assert [(one.kind, one.uid) for one, _ in on.listed(pod())[1]] == [("pending_phantom", "v")]
