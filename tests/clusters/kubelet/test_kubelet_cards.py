"""Which cards a simulated container sees."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clusters.kubelet.kubelet_cards import CardError, Cards, visible_cards
from fake_nvml.box import Box
from fake_nvml.state import State


@pytest.fixture
def state(tmp_path) -> Iterator[State]:
    with State.create(tmp_path / "nvml", Box.load("t4x2", seed="n1")) as state:
        yield state


@pytest.mark.parametrize(
    ("value", "indices"),
    [
        ("0", [0]),
        ("1", [1]),
        ("1,0", [1, 0]),
        ("0,0", [0]),
        ("all", [0, 1]),
        ("none", []),
        ("void", []),
        ("", []),
        (None, []),
        ("2", []),
        ("0,7", []),
        ("no-gpu-has-10GiB-to-run", []),
        ("-1", []),
    ],
)
def test_the_variable_says_which_cards_are_seen(state, value, indices) -> None:
    """In the variable's order; whatever names no card of the node makes none visible."""
    assert [card.index for card in visible_cards(value, state.cards())] == indices


def test_a_card_may_be_named_by_its_uuid(state) -> None:
    """Indices and UUIDs may stand in one list, and its order counts."""
    first, second = state.cards()

    assert visible_cards(f"{second.uuid},0", state.cards()) == (second, first)


def test_memory_is_written_into_the_state_file_and_taken_out(state) -> None:
    """Another process sees the memory while the process lives."""
    cards, uuid = Cards(state), state.cards()[1].uuid
    cards.add_process(uuid, 5_000_000, 1253, "python")

    with State.open(state.path) as other:
        assert [card.used_mib for card in other.cards()] == [0, 1253]
    cards.remove_process(uuid, 5_000_000)
    assert state.cards()[1].processes == ()


def test_a_full_card_says_that_cuda_is_out_of_memory(state) -> None:
    """The text is the one that programs print."""
    cards, uuid = Cards(state), state.cards()[0].uuid

    with pytest.raises(CardError, match="CUDA out of memory"):
        cards.add_process(uuid, 5_000_000, 99_999, "python")


def test_a_node_without_cards_gives_none() -> None:
    """Whatever the variable names."""
    assert Cards().visible("all") == ()
