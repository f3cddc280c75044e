"""What happens on simulated cards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_nvml.box import Box
from fake_nvml.card_state import ProcessState
from fake_nvml.errors import CardFullError, StateError
from fake_nvml.layout import PROCESSES
from fake_nvml.state import State
from fake_nvml.values import KEYS


@pytest.fixture
def state(state_path: Path) -> Iterator[State]:
    with State.create(state_path, Box.load("mixed", seed="node-1")) as created:
        yield created


def test_a_new_state_shows_the_box_idle(state: State) -> None:
    cards = state.cards()
    assert [card.name for card in cards] == ["Tesla T4", "Tesla T4", "GeForce GTX 1080 Ti"]
    assert [card.total_mib for card in cards] == [15079, 15079, 11178]
    assert [card.index for card in cards] == [0, 1, 2]
    assert {card.used_mib for card in cards} == {0}
    assert {card.processes for card in cards} == {()}
    assert [card.uuid for card in cards] == [card.uuid for card in Box.load("mixed", seed="node-1").cards]


def test_a_geforce_has_no_serial_number(state: State) -> None:
    assert [bool(card.serial) for card in state.cards()] == [True, True, False]


def test_processes_use_memory_of_their_card_only(state: State) -> None:
    first, second, _ = (card.uuid for card in state.cards())

    state.add_process(first, 100, 1253, "player")
    state.add_process(first, 101, 2048, "trainer")
    state.add_process(second, 100, 1, "player")

    assert [card.used_mib for card in state.cards()] == [3301, 1, 0]
    assert state.cards()[0].processes == (ProcessState(100, "player", 1253), ProcessState(101, "trainer", 2048))


def test_a_process_that_asks_again_is_the_same_process(state: State) -> None:
    uuid = state.cards()[0].uuid
    state.add_process(uuid, 100, 15000, "player")

    state.add_process(uuid, 100, 15079, "player")

    assert state.cards()[0].processes == (ProcessState(100, "player", 15079),)


def test_a_full_card_refuses_and_says_what_is_free(state: State) -> None:
    uuid = state.cards()[2].uuid
    state.add_process(uuid, 100, 11000, "player")

    with pytest.raises(CardFullError, match="178 MiB free; process 101 asks for 179 MiB"):
        state.add_process(uuid, 101, 179, "player")

    assert state.cards()[2].used_mib == 11000


def test_what_the_driver_keeps_is_not_free(state_path: Path) -> None:
    with State.create(state_path, Box.load("t4x1", seed="node", driver="535.104.05")) as state:
        (card,) = state.cards()
        assert (card.total_mib, card.reserved_mib, card.used_mib) == (15360, 393, 0)

        with pytest.raises(CardFullError, match="14967 MiB free"):
            state.add_process(card.uuid, 100, 14968, "player")


def test_a_process_that_ended_leaves_nothing(state: State) -> None:
    uuid = state.cards()[0].uuid
    state.add_process(uuid, 100, 5000, "player")

    assert state.remove_process(uuid, 100)
    assert not state.remove_process(uuid, 100)
    assert (state.cards()[0].used_mib, state.cards()[0].processes) == (0, ())


@pytest.mark.parametrize(("pid", "mib"), [(0, 1), (-1, 1), (2**31, 1), (1, -1)])
def test_what_can_be_no_process_is_refused(state: State, pid: int, mib: int) -> None:
    with pytest.raises(StateError, match="a pid is from 1"):
        state.add_process(state.cards()[0].uuid, pid, mib, "player")


def test_an_unknown_card_is_refused_by_every_change(state: State) -> None:
    for change in (
        lambda: state.add_process("GPU-no", 1, 1, "player"),
        lambda: state.remove_process("GPU-no", 1),
        lambda: state.set_value("GPU-no", "utilization", "1"),
        lambda: state.post_xid("GPU-no", 31),
        lambda: state.add_process("\udcff", 1, 1, "player"),
    ):
        with pytest.raises(StateError, match="no card"):
            change()


@pytest.mark.parametrize("name", ["", "x" * 63, "x" * 64, "ü" * 40, "\udcff", "a\nb"])
def test_any_name_of_a_process_fits(state: State, name: str) -> None:
    uuid = state.cards()[0].uuid

    state.add_process(uuid, 100, 1, name)

    shown = state.cards()[0].processes[0].name
    assert shown == name.encode(errors="replace")[:63].decode(errors="ignore")


def test_a_full_process_table_refuses_and_keeps_all(state: State) -> None:
    uuid = state.cards()[0].uuid
    for pid in range(1, PROCESSES + 1):
        state.add_process(uuid, pid, 1, "player")

    with pytest.raises(StateError, match="no room for another process"):
        state.add_process(uuid, PROCESSES + 1, 1, "player")

    assert len(state.cards()[0].processes) == PROCESSES
    state.remove_process(uuid, 7)
    state.add_process(uuid, PROCESSES + 1, 1, "player")


@pytest.mark.parametrize(
    ("key", "value", "field", "expected"),
    [
        ("memory-used", "300", "used_mib", 300),
        ("utilization", "97", "utilization", 97),
        ("temperature", "84", "temperature", 84),
        ("power", "70", "power_watts", 70.0),
        ("power-limit", "60", "power_limit_watts", 60.0),
        ("state", "lost", "lost", True),
    ],
)
def test_a_value_that_is_set_is_the_cards(state: State, key: str, value: str, field: str, expected: object) -> None:
    state.set_value(state.cards()[0].uuid, key, value)

    assert getattr(state.cards()[0], field) == expected
    assert getattr(state.cards()[1], field) != expected


def test_memory_used_is_the_whole_with_the_processes(state: State) -> None:
    uuid = state.cards()[0].uuid
    state.add_process(uuid, 100, 1000, "player")

    state.set_value(uuid, "memory-used", "1500")
    assert state.cards()[0].used_mib == 1500

    with pytest.raises(StateError, match="from 1000"):
        state.set_value(uuid, "memory-used", "999")
    with pytest.raises(StateError, match="to 15079 MiB"):
        state.set_value(uuid, "memory-used", "15080")


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("colour", "red", "no key 'colour'.*utilization"),
        ("utilization", "101", "0 to 100"),
        ("utilization", "-1", "whole number"),
        ("utilization", "1.5", "whole number"),
        ("utilization", "\u0663", "whole number"),
        ("state", "ill", "healthy or lost"),
        ("mig", "on", "Tesla T4 has no mig"),
        ("recovery-action", "8", "0 to 7"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(state: State, key: str, value: str, says: str) -> None:
    before = state.cards()

    with pytest.raises(StateError, match=says):
        state.set_value(before[0].uuid, key, value)

    assert state.cards() == before


def test_every_key_takes_its_largest_value(state_path: Path) -> None:
    with State.create(state_path, Box.load("a100x8", seed="node")) as state:
        for name, key in KEYS.items():
            value = next(iter(key.words)) if key.words else "0" if name == "memory-used" else str(key.most)
            state.set_value(state.cards()[0].uuid, name, value)


@pytest.mark.parametrize("xid", [0, -1, 2**32])
def test_what_can_be_no_xid_is_refused(state: State, xid: int) -> None:
    with pytest.raises(StateError, match="Xid"):
        state.post_xid(state.cards()[0].uuid, xid)


def test_a_new_box_in_the_same_file_replaces_the_old_for_all(state: State, state_path: Path) -> None:
    state.add_process(state.cards()[0].uuid, 100, 1, "player")

    State.create(state_path, Box.load("t4x1", seed="node-2", driver="535.104.05")).close()

    (card,) = state.cards()
    assert (card.total_mib, card.processes, state.driver()) == (15360, (), "535.104.05")


def test_a_closed_state_says_so(state: State) -> None:
    state.close()
    state.close()

    with pytest.raises(StateError, match="closed"):
        state.cards()


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5), st.integers(-1, 9000)), max_size=30))
def test_used_memory_is_always_that_of_the_processes_and_never_too_much(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, int]]
) -> None:
    """Against a dictionary: -1 MiB stands for the end of the process."""
    naive: dict[int, dict[int, int]] = {0: {}, 1: {}, 2: {}}
    with State.create(tmp_path_factory.mktemp("s") / "state", Box.load("mixed", seed="node")) as state:
        uuids = [card.uuid for card in state.cards()]
        totals = [card.total_mib for card in state.cards()]
        for card, pid, mib in steps:
            if mib < 0:
                assert state.remove_process(uuids[card], pid) == (naive[card].pop(pid, None) is not None)
                continue
            wanted = {**naive[card], pid: mib}
            if sum(wanted.values()) > totals[card]:
                with pytest.raises(CardFullError):
                    state.add_process(uuids[card], pid, mib, "player")
            else:
                state.add_process(uuids[card], pid, mib, "player")
                naive[card] = wanted

        shown = {card.index: {row.pid: row.mib for row in card.processes} for card in state.cards()}
        assert shown == naive
        assert [card.used_mib for card in state.cards()] == [sum(naive[index].values()) for index in range(3)]
