"""Promises of gpushare.model.placement."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare import wire
from gpushare.errors import DoesNotFitError
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
    ("asked", "index"),
    [
        (wishing(4, models=(" a100 ",)), 2),
        (wishing(4, banned_models=(" tesla t4 ",)), 2),
        (wishing(4, uuids=frozenset({"gpu-0", "gpu-2"})), 0),
        (wishing(4, banned_uuids=frozenset({"gpu-1"})), 0),
        (wishing(4, models=(" t4 ", " a100 "), banned_uuids=frozenset({"gpu-0", "gpu-1"})), 2),
        # Exactly as large as the request, and empty: a larger card would leave room for others.
        (wishing(14, whole=True), 0),
    ],
)
def test_wished_card_is_taken_though_another_fits_better(asked: Question, index: int) -> None:
    """A wished card is taken although another fits better: without a wish it would be the small one, the tightest."""
    assert choose(node(T4, SMALL_T4, A100), Question(Request(4))) == ((1, 4),)
    assert choose(node(T4, SMALL_T4, A100), asked) == ((index, asked.request.units),)


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


def test_a_wish_on_a_node_in_slots_mode_needs_its_slots_too() -> None:
    """The card that is wished for has none left, though memory enough."""
    cards = (Device(0, 80, uuid="GPU-0", slots=1, slots_used=1), Device(1, 80, uuid="GPU-1", slots=1))

    assert choose(node(*cards), wishing(4, uuids=frozenset({"gpu-1"}))) == ((1, 4),)
    assert reason_against(node(*cards), wishing(4, uuids=frozenset({"gpu-0"}))) == wire.REASON_NO_SLOT


def test_a_split_gives_each_part_a_card_of_its_own() -> None:
    """The larger part first, each on the tightest card that is left."""
    assert choose(node(T4, SMALL_T4, A100), wishing(20, split=(12, 8))) == ((0, 12), (1, 8))
    assert choose(node(T4, SMALL_T4, A100), wishing(28, split=(14, 14))) == ((0, 14), (2, 14))


def test_equal_parts_of_a_split_stay_together() -> None:
    """The NUMA node breaks a tie, before the index does, and no more than a tie."""
    cards = [Device(index, 14, uuid=str(index), numa=numa) for index, numa in ((0, 0), (1, 1), (2, 0))]

    assert choose(node(*cards), wishing(8, split=(4, 4))) == ((0, 4), (2, 4))
    cards[1] = Device(1, 14, 9, uuid="1", numa=1)
    assert choose(node(*cards), wishing(8, split=(4, 4))) == ((0, 4), (1, 4))


def asking(request: Request, policy: str, usual: int) -> Question:
    """The value if pods of this number of units are expected."""
    return question(request, Snapshot(forecast=lambda: Forecast({PodClass(usual): 1})), policy)


@pytest.mark.parametrize(("policy", "index"), [("binpack", 1), ("spread", 2), ("fragmentation", 0)])
def test_each_policy_has_its_own_best_card(policy: str, index: int) -> None:
    """Requests of 8 are usual: on card 0 two of four free units stay useless as they were, elsewhere eight would be broken."""
    cards = node(Device(0, 16, 10), Device(1, 16, 11), Device(2, 16))
    devices = {"binpack": cards, "spread": cards, "fragmentation": node(Device(0, 16, 10), Device(1, 16, 8))}[policy]

    assert choose(devices, asking(Request(4), policy, 8))[0][0] == index


def test_spread_compares_the_free_part_of_a_card() -> None:
    """Three quarters of a small card are more than half of a large one."""
    assert choose(node(Device(0, 40, 20), Device(1, 16, 4)), Question(Request(4), "spread"))[0][0] == 1


@pytest.mark.parametrize(("free_cpu", "index"), [({}, 1), ({"n": 1500}, 1), ({"n": 1499}, 0)])
def test_fragmentation_spares_no_card_for_a_pod_without_cpu(free_cpu: dict[str, int], index: int) -> None:
    """Only card 1 still holds a pod of 8 afterwards. Such pods are rare and need 1 CPU, and the request takes half of one."""
    snapshot = Snapshot(forecast=lambda: Forecast({PodClass(2): 99, PodClass(8, cpu_milli=1000): 1}), free_cpu=free_cpu)
    asked = question(Request(2), snapshot, "fragmentation", cpu_milli=500)

    assert choose(node(Device(0, 16, 8), Device(1, 16, 6)), asked) == ((index, 2),)


def test_a_node_never_has_less_than_no_cpu() -> None:
    """A pod may ask for more than is free: the scheduler's other checks judge that."""
    asked = Question(Request(1), cpu_milli=500, free_cpu={"n": 400, "m": 501})

    assert (asked.cpu_left("n"), asked.cpu_left("m"), asked.cpu_left("unknown")) == (0, 1, None)


def test_a_split_takes_for_each_part_what_the_policy_likes() -> None:
    """Card 1 stays whole for a pod of 8."""
    cards = (Device(0, 16, 10, uuid="a"), Device(1, 16, 8, uuid="b"), Device(2, 16, 10, uuid="c"))

    assert choose(node(*cards), asking(Request(8, wishes=Wishes(split=(4, 4))), "fragmentation", 8)) == ((0, 4), (2, 4))


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
