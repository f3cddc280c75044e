"""Promises of gpushare.extender.placement."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare import wire
from gpushare.errors import DoesNotFitError
from gpushare.extender.placement import choose_device, reason_against
from gpushare.model.device import Device
from gpushare.model.node import NodeInfo, lay_out
from gpushare.model.pod import Request

DEVICES = st.lists(
    st.builds(Device, index=st.just(0), total=st.integers(0, 20), used=st.integers(0, 25), healthy=st.booleans()),
    max_size=8,
).map(lambda devices: tuple(Device(i, d.total, d.used, d.healthy) for i, d in enumerate(devices)))


def node(*devices: Device) -> NodeInfo:
    """A node with these cards."""
    return lay_out("n", devices, [])


@given(DEVICES, st.integers(1, 25))
def test_the_chosen_card_holds_the_request_and_no_tighter_one_does(devices: tuple[Device, ...], request: int) -> None:
    """Never over-fills, never a sick card, best fit; and refuses only where no card holds it."""
    fitting = [device for device in devices if device.healthy and device.total - device.used >= request]
    try:
        chosen = choose_device(node(*devices), Request(request))
    except DoesNotFitError:
        assert not fitting
        return

    assert chosen in fitting
    assert all((chosen.free, chosen.index) <= (device.free, device.index) for device in fitting)


@pytest.mark.parametrize(
    ("devices", "reason"),
    [
        ((), wire.REASON_NOT_A_GPU_NODE),
        ((Device(0, 14, healthy=False),), wire.REASON_ALL_CARDS_UNHEALTHY),
        ((Device(0, 14), Device(1, 40, healthy=False)), wire.REASON_NO_CARD_LARGE_ENOUGH),
        ((Device(0, 14, 1), Device(1, 24, 5)), wire.REASON_NO_CARD_FITS),
    ],
)
def test_a_refusal_says_what_would_have_to_change(devices: tuple[Device, ...], reason: str) -> None:
    """Each reason is another thing to do: another node, a repair, a larger card, or patience."""
    assert reason_against(node(*devices), Request(20)) == reason
    with pytest.raises(DoesNotFitError, match=reason):
        choose_device(node(*devices), Request(20))


def test_unequal_cards_are_not_averaged() -> None:
    """60 of 80+24 fits on the large card; the original booked each as 52 (defect D6)."""
    assert choose_device(node(Device(0, 24), Device(1, 80)), Request(60)).index == 1


def test_a_card_without_a_slot_is_passed_over_and_the_next_best_taken() -> None:
    """Best fit among those that hold memory and containers."""
    cards = node(
        Device(0, 80, 70, slots=4, slots_used=4), Device(1, 80, 60, slots=4, slots_used=3), Device(2, 80, 20, slots=4)
    )

    assert choose_device(cards, Request(10)).index == 1
    assert choose_device(cards, Request(10, 2)).index == 2


@pytest.mark.parametrize(
    ("devices", "asked", "reason"),
    [
        ((Device(0, 80, slots=2, slots_used=2),), Request(10), wire.REASON_NO_SLOT),
        ((Device(0, 80, 75, slots=2, slots_used=2),), Request(10), wire.REASON_NO_CARD_FITS),
        ((Device(0, 80, slots=2), Device(1, 8, slots=9)), Request(10, 3), wire.REASON_TOO_MANY_CONTAINERS),
        ((Device(0, 80, slots=2),), Request(10, names_slots=False), wire.REASON_SLOT_MISSING),
        ((Device(0, 80, healthy=False, slots=2),), Request(10), wire.REASON_ALL_CARDS_UNHEALTHY),
        ((Device(0, 8, slots=2),), Request(10), wire.REASON_NO_CARD_LARGE_ENOUGH),
    ],
)
def test_a_refusal_in_slots_mode_says_memory_or_slots(devices: tuple[Device, ...], asked: Request, reason: str) -> None:
    """A pod that does not name its slots is refused before anything else is looked at."""
    assert reason_against(node(*devices), asked) == reason
    with pytest.raises(DoesNotFitError, match=reason):
        choose_device(node(*devices), asked)
