"""Promises of gpushare.extender.core.reservations."""

from __future__ import annotations

import pytest

from gpushare.extender.core.reservations import (
    EMPTY,
    Fate,
    Guard,
    Reservation,
    State,
    UnreadableGuardError,
    decode,
    encode,
    laid_on,
    settle,
)
from gpushare.extender.node_guard import name_of
from gpushare.model.node import Booking, Device, lay_out


def booking(uid: str, units: int = 3, card: int = 0) -> Booking:
    """A pod that is about to be bound."""
    return Booking(uid, "ns", f"pod-{uid}", units, ((card, units),), 2)


def test_a_guard_is_read_back_as_written() -> None:
    """A guard is read back as written, also that of a pod on several cards. No text is an empty guard."""
    split = Booking("b", "ns", "b", 5, ((0, 2), (3, 3)), 1)
    guard = Guard(1, 17, {}).with_pod(booking("a"), "me").with_pod(split, "me").with_pod(booking("a"), "you")

    assert decode(encode(guard)) == guard
    assert guard.pods["a"].by == {"me", "you"}
    assert [guard.pods[one.uid].booking(one.uid) for one in (booking("a"), split)] == [booking("a"), split]
    assert decode(None) == decode("") == EMPTY


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "cannot be read: Input data was truncated"),
        ("[]", "cannot be read: Expected `object`"),
        ('{"v":2,"seen":0,"pods":{}}', "are of form 2, and this extender reads 1 only"),
        ('{"v":2,"pods":["of another form"]}', "are of form 2"),
        ('{"v":1,"x":' + "[" * 100_000, "cannot be read: it is nested too deeply"),
        (
            '{"v":1,"seen":0,"pods":{"u":{"namespace":"n","name":"p","units":1,"by":[],"cards":{"x":1}}}}',
            "cannot be read: Expected `int`",
        ),
    ],
)
def test_a_guard_that_is_not_ours_to_read_is_an_error(text: str, reason: str) -> None:
    """A guard that cannot be read is an error, because nothing may be decided as if it were empty."""
    with pytest.raises(UnreadableGuardError, match=f"the node's reservations {reason}"):
        decode(text)


def test_reservation_stays_until_its_pod_is_bound_or_never() -> None:
    """A reservation stays until its pod is bound or never will be. The newest version of a bound pod is kept in the guard."""
    fates = {
        "pending": Fate(State.PENDING),
        "unknown": Fate(State.UNKNOWN),
        "bound": Fate(State.BOUND, 40),
        "older": Fate(State.BOUND, 30),
        "gone": Fate(State.GONE),
        "refused": Fate(State.PENDING),
    }
    guard = Guard(1, 20, {})
    for uid in fates:
        guard = guard.with_pod(booking(uid), "me")
    settled = settle(guard, lambda one: fates[one.uid], lambda uid, one: one.name == f"pod-{uid}" == "pod-refused")

    assert settled == Guard(1, 40, {uid: guard.pods[uid] for uid in ("pending", "unknown")})
    assert settle(Guard(1, 50, {}), lambda one: fates[one.uid], lambda uid, one: False).seen == 50


def test_reservations_lie_on_the_cards_beside_the_book() -> None:
    """A pod that it shows is not counted twice."""
    node = lay_out("n", (Device(0, 14), Device(1, 14)), [booking("shown", 4, 1)])
    guard = EMPTY.with_pod(booking("shown", 4, 1), "me").with_pod(booking("new", 5, 0), "you")

    laid = laid_on(node, guard)
    assert ([device.used for device in laid.devices], [one.uid for one in laid.bookings]) == ([5, 4], ["shown", "new"])
    assert laid_on(node, EMPTY) is node


def test_a_guard_has_a_name_that_kubernetes_takes() -> None:
    """The longest node's too."""
    assert name_of("a1") == "gpushare-node-a1"
    assert len(name_of("n" * 253)) <= 253
    assert name_of("n" * 253) != name_of("n" * 252 + "m")


def test_an_unreadable_guard_names_no_pods() -> None:
    """The error becomes an event of the pod that should be bound, and the reserved pods may be of other namespaces."""
    secret = '{"namespace":"secret","name":"plan","units":1,"by":[],"cards":{"x":1}}'
    for text in ('{"v":1,"seen":0,"pods":{"u":' + secret + "}}", '{"v":1,"pods":{"u":' + secret):
        with pytest.raises(UnreadableGuardError) as refused:
            decode(text)
        assert "secret" not in str(refused.value)
        assert "plan" not in str(refused.value)


def test_a_guard_has_so_many_pods() -> None:
    """A guard of more than 512 pods is neither written nor read."""
    one = Reservation("ns", "p", 3, {0: 3}, frozenset())
    guard = Guard(1, 0, {str(at): one for at in range(512)})

    assert decode(encode(guard)) == guard
    assert guard.with_pod(booking("0"), "me").pods["0"].by == {"me"}
    assert len(Guard(1, 0, dict.fromkeys(map(str, range(511)), one)).with_pod(booking("new"), "me").pods) == 512
    with pytest.raises(UnreadableGuardError, match="limited to 512 pods"):
        guard.with_pod(booking("new"), "me")
    with pytest.raises(UnreadableGuardError, match="limited to 512 pods"):
        decode(encode(Guard(1, 0, {**guard.pods, "new": one})))
