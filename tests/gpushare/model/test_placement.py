"""Promises of gpushare.model.placement."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare import wire
from gpushare.errors import DoesNotFitError
from gpushare.model.allocation import Shares
from gpushare.model.forecast import Forecast, PodClass
from gpushare.model.node import Booking, Device, NodeInfo, lay_out
from gpushare.model.placement import Question, Snapshot, choose, question, reason_against
from gpushare.model.pod import Request
from gpushare.model.wishes import Wishes

DEVICES = st.lists(
    st.builds(Device, index=st.just(0), total=st.integers(0, 20), used=st.integers(0, 25), healthy=st.booleans()),
    max_size=8,
).map(lambda devices: tuple(Device(i, d.total, d.used, d.healthy) for i, d in enumerate(devices)))


def node(*devices: Device) -> NodeInfo:
    """A node with these cards."""
    return lay_out("n", devices, [])


@given(DEVICES, st.integers(1, 25))
def test_chosen_card_is_the_tightest_that_holds_the_request(devices: tuple[Device, ...], request: int) -> None:
    """Never over-fills, never an unhealthy card, best fit; and refuses only if no card holds it."""
    fitting = [device for device in devices if device.healthy and device.total - device.used >= request]
    try:
        ((index, units),) = choose(node(*devices), Question(Request(request)))
    except DoesNotFitError:
        assert not fitting
        return

    chosen = devices[index]
    assert (chosen in fitting, units) == (True, request)
    assert all((chosen.free, chosen.index) <= (device.free, device.index) for device in fitting)


# Two of one model, of which one is small, and one of another model.
T4, SMALL_T4, A100 = (
    Device(0, 14, uuid="GPU-0", model="Tesla T4"),
    Device(1, 8, uuid="GPU-1", model="Tesla T4"),
    Device(2, 79, uuid="GPU-2", model="NVIDIA A100-SXM4-80GB", numa=1),
)


def wishing(units: int, **wishes: object) -> Question:
    """A question of a pod with wishes."""
    return Question(Request(units, wishes=Wishes(**wishes)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("devices", "asked", "reason"),
    [
        ((), Question(Request(20)), wire.REASON_NOT_A_GPU_NODE),
        ((Device(0, 14, healthy=False),), Question(Request(20)), wire.REASON_ALL_CARDS_UNHEALTHY),
        ((Device(0, 14), Device(1, 40, healthy=False)), Question(Request(20)), wire.REASON_NO_CARD_LARGE_ENOUGH),
        ((Device(0, 14, 1), Device(1, 24, 5)), Question(Request(20)), wire.REASON_NO_CARD_FITS),
        ((Device(0, 80, slots=2, slots_used=2),), Question(Request(10)), wire.REASON_NO_SLOT),
        ((Device(0, 80, 70, slots=2, slots_used=2),), Question(Request(10)), wire.REASON_NO_SLOT),
        ((Device(0, 80, 75, slots=2, slots_used=2),), Question(Request(10)), wire.REASON_NO_CARD_FITS),
        (
            (Device(0, 80, uuid="GPU-0", slots=1, slots_used=1),),
            wishing(4, uuids=frozenset({"gpu-0"})),
            wire.REASON_NO_SLOT,
        ),
        ((Device(0, 80, slots=2), Device(1, 8, slots=9)), Question(Request(10, 3)), wire.REASON_TOO_MANY_CONTAINERS),
        ((Device(0, 80, slots=2),), Question(Request(10, names_slots=False)), wire.REASON_SLOT_MISSING),
        ((Device(0, 80, healthy=False, slots=2),), Question(Request(10)), wire.REASON_ALL_CARDS_UNHEALTHY),
        ((Device(0, 8, slots=2),), Question(Request(10)), wire.REASON_NO_CARD_LARGE_ENOUGH),
        ((T4,), wishing(4, models=(" a100 ",)), wire.REASON_NO_SUCH_CARD),
        ((Device(0, 14),), wishing(4, models=(" a100 ",)), wire.REASON_CARDS_UNSAID),
        ((Device(0, 14),), wishing(4, banned_uuids=frozenset({"gpu-0"})), wire.REASON_CARDS_UNSAID),
        ((T4, A100), wishing(20, models=(" t4 ",)), wire.REASON_NO_CARD_LARGE_ENOUGH),
        ((T4, Device(2, 14, 11, uuid="GPU-2")), wishing(4, uuids=frozenset({"gpu-2"})), wire.REASON_NO_CARD_FITS),
        ((T4,), wishing(10, whole=True), wire.REASON_NO_WHOLE_CARD),
        ((), wishing(10, whole=True), wire.REASON_NOT_A_GPU_NODE),
        ((Device(0, 14, 1, uuid="GPU-0"),), wishing(14, whole=True), wire.REASON_NO_CARD_FITS),
        ((T4, SMALL_T4), wishing(20, split=(10, 10)), wire.REASON_TOO_FEW_CARDS),
        ((T4,), wishing(8, split=(4, 4)), wire.REASON_TOO_FEW_CARDS),
        ((Device(0, 14), Device(1, 14)), wishing(8, split=(4, 4)), wire.REASON_ONE_CARD_A_CONTAINER),
        (
            (Device(0, 14, uuid="a", slots=4), Device(1, 14, uuid="b", slots=4)),
            wishing(8, split=(4, 4)),
            wire.REASON_ONE_CARD_A_CONTAINER,
        ),
        ((T4, Device(1, 14, 13, uuid="b")), wishing(8, split=(4, 4)), wire.REASON_NO_CARDS_FOR_SPLIT),
    ],
)
def test_a_refusal_says_what_would_have_to_change(devices: tuple[Device, ...], asked: Question, reason: str) -> None:
    """Each reason is another thing to do: another node, a repair, a larger card, its slots, another wish, or patience."""
    assert reason_against(node(*devices), asked) == reason
    with pytest.raises(DoesNotFitError, match=reason):
        choose(node(*devices), asked)


def asking(request: Request, policy: str, usual: int) -> Question:
    """The value if pods of this number of units are expected."""
    return question(request, Snapshot(forecast=lambda: Forecast({PodClass(usual): 1})), policy)


def expecting(free_cpu: dict[str, int]) -> Question:
    """The value where pods of 8 units are rare and need 1 CPU, and the request takes half of one."""
    snapshot = Snapshot(forecast=lambda: Forecast({PodClass(2): 99, PodClass(8, cpu_milli=1000): 1}), free_cpu=free_cpu)
    return question(Request(2), snapshot, "fragmentation", cpu_milli=500)


TESLAS = T4, SMALL_T4, A100
ONE_SLOT = Device(0, 80, uuid="GPU-0", slots=1, slots_used=1), Device(1, 80, uuid="GPU-1", slots=1)
# A tie between card 2, which is on the NUMA node of card 0, and card 1; and no tie.
TIE, NO_TIE = (
    (Device(0, 14, uuid="0"), Device(1, 14, used, uuid="1", numa=1), Device(2, 14, uuid="2")) for used in (0, 9)
)
BROKEN = Device(0, 16, 10), Device(1, 16, 11), Device(2, 16)
THREE = Device(0, 16, 10, uuid="a"), Device(1, 16, 8, uuid="b"), Device(2, 16, 10, uuid="c")
EIGHT = Device(0, 16, 8), Device(1, 16, 6)
# The node's cards, the question, and the cards that the pod gets.
CHOSEN: dict[str, tuple[tuple[Device, ...], Question, Shares]] = {
    "without a wish the tightest": (TESLAS, Question(Request(4)), ((1, 4),)),
    "a model": (TESLAS, wishing(4, models=(" a100 ",)), ((2, 4),)),
    "not this model": (TESLAS, wishing(4, banned_models=(" tesla t4 ",)), ((2, 4),)),
    "UUIDs": (TESLAS, wishing(4, uuids=frozenset({"gpu-0", "gpu-2"})), ((0, 4),)),
    "not this UUID": (TESLAS, wishing(4, banned_uuids=frozenset({"gpu-1"})), ((0, 4),)),
    "models, and not these UUIDs": (
        TESLAS, wishing(4, models=(" t4 ", " a100 "), banned_uuids=frozenset({"gpu-0", "gpu-1"})), ((2, 4),),
    ),
    "a whole card: a larger one would leave room for others": (TESLAS, wishing(14, whole=True), ((0, 14),)),
    "a wished card with a free slot": (ONE_SLOT, wishing(4, uuids=frozenset({"gpu-1"})), ((1, 4),)),
    "each part of a split has a card of its own": (TESLAS, wishing(20, split=(12, 8)), ((0, 12), (1, 8))),
    "the larger part first, on the tightest that is left": (TESLAS, wishing(28, split=(14, 14)), ((0, 14), (2, 14))),
    "the NUMA node breaks a tie before the index": (TIE, wishing(8, split=(4, 4)), ((0, 4), (2, 4))),
    "and no more than a tie": (NO_TIE, wishing(8, split=(4, 4)), ((0, 4), (1, 4))),
    "binpack": (BROKEN, asking(Request(4), "binpack", 8), ((1, 4),)),
    "spread": (BROKEN, asking(Request(4), "spread", 8), ((2, 4),)),
    "spread compares the free part of a card": (
        (Device(0, 40, 20), Device(1, 16, 4)), Question(Request(4), "spread"), ((1, 4),),
    ),
    "fragmentation spares a card for the usual pod": (
        (Device(0, 16, 10), Device(1, 16, 8)), asking(Request(4), "fragmentation", 8), ((0, 4),),
    ),
    "for each part of a split": (
        THREE, asking(Request(8, wishes=Wishes(split=(4, 4))), "fragmentation", 8), ((0, 4), (2, 4)),
    ),
    "CPU is not counted": (EIGHT, expecting({}), ((1, 2),)),
    "there is CPU for the usual pod": (EIGHT, expecting({"n": 1500}), ((1, 2),)),
    "no card is spared for a pod without CPU": (EIGHT, expecting({"n": 1499}), ((0, 2),)),
}  # fmt: skip


@pytest.mark.parametrize(("devices", "asked", "shares"), CHOSEN.values(), ids=CHOSEN.keys())
def test_pod_gets_the_card_of_its_wishes_and_its_policy(
    devices: tuple[Device, ...], asked: Question, shares: Shares
) -> None:
    """A wish comes before the policy, although another card fits better."""
    assert choose(node(*devices), asked) == shares


def test_a_node_never_has_less_than_no_cpu() -> None:
    """A pod may ask for more than is free: the scheduler's other checks judge that."""
    asked = Question(Request(1), cpu_milli=500, free_cpu={"n": 400, "m": 501})

    assert (asked.cpu_left("n"), asked.cpu_left("m"), asked.cpu_left("unknown")) == (0, 1, None)


def test_fragmentation_is_binpack_as_long_as_nothing_is_expected() -> None:
    """A new cluster has seen no pods."""
    assert question(Request(4), Snapshot(), "fragmentation") == Question(Request(4), "binpack")
    grouped = Request(4, wishes=Wishes(group="ns/g"))
    snapshot = Snapshot({"n": lay_out("n", (Device(0, 14),), [on_card("a", 0, "ns/g")])})
    assert question(grouped, snapshot, "fragmentation").group_cards == {"n": {0}}


def on_card(uid: str, index: int, group: str = "") -> Booking:
    """A pod of one unit."""
    return Booking(uid, "ns", uid, 1, ((index, 1),), group=group)


def test_pods_of_a_group_share_the_card_of_the_first() -> None:
    """Even if another is tighter. A group is within one namespace, and its first pod goes to any card."""
    empty = node(Device(0, 14), Device(1, 8))
    assert choose(empty, question(Request(2, wishes=Wishes(group="ns/g")), Snapshot({"n": empty}))) == ((1, 2),)
    first = lay_out("n", (Device(0, 14, 0), Device(1, 8)), [on_card("a", 0, "ns/g"), on_card("b", 1, "other/g")])
    second = lay_out("m", (Device(0, 14),), [])
    snapshot = Snapshot({"n": first, "m": second})
    asked = question(Request(2, wishes=Wishes(group="ns/g")), snapshot)

    assert choose(first, asked) == ((0, 2),)
    assert reason_against(second, asked) == wire.REASON_OTHER_CARD
    assert (
        reason_against(first, question(Request(14, wishes=Wishes(group="ns/g")), snapshot)) == wire.REASON_NO_CARD_FITS
    )


def test_a_pod_of_no_group_goes_to_any_card() -> None:
    """Though other pods of no group are elsewhere."""
    snapshot = Snapshot({"n": lay_out("n", (T4, SMALL_T4), [on_card("a", 0)]), "m": node(T4, A100)})

    assert choose(snapshot.nodes["m"], question(Request(2, wishes=Wishes(models=(" a100 ",))), snapshot)) == ((2, 2),)
