"""Promises of gpushare.deviceplugin.core.id_limits."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.deviceplugin.core.announced_cards import PhysicalCard, describe_cards
from gpushare.deviceplugin.core.devices import MOST_IDS_OF_A_POD, check_ids, check_ids_of_pod, device_list, encoded_size
from gpushare.deviceplugin.proto import deviceplugin_pb2 as pb
from gpushare.errors import TooManyIdsError
from gpushare.model.cards import CardFacts, NodeCards
from gpushare.model.quantity import MemoryUnit

GIB, MIB = MemoryUnit(1024), MemoryUnit(1)
# The memory of an H200 by its driver.
H200 = 143_771


def facts(count: int, mib: int, unit: MemoryUnit, slots: int = 0) -> NodeCards:
    """Equal cards."""
    cards = [PhysicalCard(i, f"GPU-{uuid.UUID(int=(i + 1) << 96)}", "card", mib) for i in range(count)]
    return describe_cards(cards, unit, "boot", slots=slots)


@given(st.integers(1, 3), st.sampled_from([0, 1, 9, 10, 11, 99, 100, 101, 400, 1000, 1001]))
def test_the_computed_size_is_the_encoded_size_of_a_sick_node(count: int, units: int) -> None:
    """To the byte, against the real encoder."""
    cards = [
        CardFacts(i, f"GPU-{uuid.UUID(int=(i + 1) << 96)}", "m", units, units, healthy=False) for i in range(count)
    ]
    message = pb.ListAndWatchResponse(devices=[pb.Device(ID=one, health=health) for one, health in device_list(cards)])

    assert encoded_size(cards) == message.ByteSize()


def test_list_too_large_for_a_kubelet_is_refused_with_a_unit() -> None:
    """Eight cards of 80 GiB in MiB are 655,360 ids: 16 MB, and 4 MiB is the limit."""
    cards = facts(8, 81920, MIB)
    with pytest.raises(TooManyIdsError, match="use --memory-unit 8MiB") as refused:
        check_ids(cards, "v1.35.1", None)

    assert "655360 ids" in str(refused.value)
    check_ids(facts(8, 81920, MemoryUnit.parse("8MiB")), "v1.35.1", None)


@pytest.mark.parametrize("version", ["v1.36.3", "v1.40.0-alpha.1", "v2.0.0", "", "nonsense"])
def test_new_or_unknown_kubelet_gets_few_thousand_ids(version: str) -> None:
    """From 1.36 on it stands still over tens of thousands."""
    cards = facts(2, 15360, MIB)
    with pytest.raises(TooManyIdsError, match="--max-ids 30720"):
        check_ids(cards, version, None)

    check_ids(cards, version, 30720)
    check_ids(facts(2, 15360, MemoryUnit.parse("8MiB")), version, None)


def test_an_old_kubelet_takes_what_fits_in_four_mebibytes() -> None:
    """Two T4 in MiB, as the original announces them."""
    check_ids(facts(2, 15360, MIB), "v1.28.2", None)


def test_an_operators_limit_holds_for_old_kubelets_too() -> None:
    """--max-ids is a word, not a hint."""
    with pytest.raises(TooManyIdsError, match="more than 100"):
        check_ids(facts(1, 15360, MIB), "v1.28.2", 100)


@pytest.mark.parametrize(
    ("unit", "kubelet", "fitting"),
    [("MiB", "v1.30.0", "16MiB"), ("MiB", "v1.36.3", "512MiB"), ("256MiB", "v1.36.3", "512MiB")],
)
def test_eight_h200_in_a_small_unit_are_refused_with_the_remedy(unit: str, kubelet: str, fitting: str) -> None:
    """The refusal names both ways out, and both work."""
    with pytest.raises(TooManyIdsError) as refused:
        check_ids(facts(8, H200, MemoryUnit.parse(unit)), kubelet, None)

    assert f"use --memory-unit {fitting}, or --mode slots" in str(refused.value)
    check_ids(facts(8, H200, MemoryUnit.parse(fitting)), kubelet, None)
    check_ids(facts(8, H200, MIB, slots=48), kubelet, None)


@pytest.mark.parametrize("kubelet", ["v1.19.0", "v1.30.0", "v1.36.3", ""])
def test_eight_h200_in_gibibytes_are_served_everywhere(kubelet: str) -> None:
    """1,120 ids."""
    check_ids(facts(8, H200, GIB), kubelet, None)


def test_the_ids_of_eight_h200_are_short() -> None:
    """At most 63 characters, whatever the unit; here 20 at most."""
    assert max(len(one) for one, _ in device_list(facts(8, H200, MIB).cards)) <= 20


def test_where_no_unit_leaves_each_card_one_only_slots_are_named() -> None:
    """A unit larger than the smallest card is no way out."""
    with pytest.raises(TooManyIdsError, match="use --mode slots") as refused:
        check_ids(facts(8, 2048, GIB), "v1.30.0", 4)

    assert "--memory-unit 4096MiB" not in str(refused.value)


def test_too_many_slots_are_refused_with_a_number_that_fits() -> None:
    """Slots are ids too."""
    with pytest.raises(TooManyIdsError, match="--slots 600 makes 4800 ids, .* use --slots 500, or --max-ids 4800"):
        check_ids(facts(8, H200, MIB, slots=600), "v1.36.3", None)

    check_ids(facts(8, H200, MIB, slots=500), "v1.36.3", None)


@pytest.mark.promise("DP-023")
def test_pod_with_an_unwritable_status_is_refused() -> None:
    """A new kubelet writes each id into it; an old one does not."""
    cards = facts(1, 81920, MIB)
    with pytest.raises(TooManyIdsError, match="each into the pod's status.* --memory-unit 32MiB, or --mode slots"):
        check_ids_of_pod(MOST_IDS_OF_A_POD + 1, cards, "v1.36.3")

    check_ids_of_pod(MOST_IDS_OF_A_POD, cards, "v1.36.3")
    check_ids_of_pod(81920, cards, "v1.35.9")
    check_ids_of_pod(81920, facts(1, 81920, MIB, slots=48), "v1.36.3")
