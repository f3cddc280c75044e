"""What the folder beside a state file says of its cards, read as a program reads a kernel's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fake_nvml.box import Box
from fake_nvml.errors import StateError
from fake_nvml.state import State
from fake_nvml.sysfs import folder_of


@pytest.fixture
def state(state_path: Path) -> Iterator[State]:
    with State.create(state_path, Box.load("t4x2", seed="node-1")) as created:
        yield created


def served(state: State) -> dict[str, int]:
    """Address and inode of each card that the driver has."""
    driver = folder_of(state.path) / "bus/pci/drivers/nvidia"
    return {link.name: link.lstat().st_ino for link in driver.iterdir()}


def uuid_of(state: State, index: int) -> str:
    return state.cards()[index].uuid


def test_the_driver_serves_each_card_of_the_box(state: State) -> None:
    """At the address that NVML says, written as the kernel writes it; the links lead to the device."""
    addresses = {card.bus_id.lower().removeprefix("0000") for card in state.cards()}
    folder = folder_of(state.path) / "bus/pci"

    assert set(served(state)) == addresses == {path.name for path in (folder / "devices").iterdir()}
    for address in addresses:
        assert (folder / "drivers/nvidia" / address).resolve() == (folder / "devices" / address).resolve()
        assert (folder / "devices" / address / "numa_node").read_text() == "-1\n"


def test_a_card_that_comes_and_goes_is_told_of(state: State) -> None:
    """With its NUMA node; what the kernel says of the others stays as it is."""
    before = served(state)
    added = state.add_card("t4", numa=1)
    with_it = served(state)
    (address,) = with_it.keys() - before.keys()
    numa = folder_of(state.path) / "bus/pci/devices" / address / "numa_node"
    assert (before.items() <= with_it.items(), numa.read_text()) == (True, "1\n")
    state.remove_card(added)

    assert (served(state), numa.exists()) == (before, False)


def test_another_card_in_the_place_is_another_link(state: State) -> None:
    """By its inode: the address is the same."""
    before = served(state)
    state.change_uuid(uuid_of(state, 0))
    after = served(state)

    assert before.keys() == after.keys()
    assert sorted(before[address] == after[address] for address in before) == [False, True]


def test_a_card_that_is_taken_out_and_put_back_is_another_link(state: State) -> None:
    """Also where nobody looked in between, and a file system gives the inode that came free to the next file."""
    first, before = uuid_of(state, 0), served(state)
    state.remove_card(first)
    state.add_card("t4", uuid=first)

    assert sorted(before[address] == inode for address, inode in served(state).items()) == [False, True]


@pytest.mark.parametrize("anew", ["reboot", "init"])
def test_after_a_start_all_cards_are_taken_anew(state: State, anew: str) -> None:
    before = served(state)
    if anew == "reboot":
        state.reboot()
    else:
        State.create(state.path, Box.load("t4x2", seed="node-1")).close()
    after = served(state)

    assert before.keys() == after.keys()
    assert not set(before.values()) & set(after.values())


def test_a_sick_or_lost_card_stays_with_its_driver(state: State) -> None:
    """The kernel knows nothing of it."""
    before = served(state)
    state.post_xid(uuid_of(state, 0), 48)
    state.lose(uuid_of(state, 1))
    state.repair(uuid_of(state, 1))

    assert served(state) == before


def test_what_was_left_half_said_is_put_right_with_the_next_change(state: State) -> None:
    """A command that was killed between the cards and the folder."""
    folder = folder_of(state.path) / "bus/pci"
    before = served(state)
    (left, _) = before
    (folder / "drivers/nvidia" / left).unlink()
    state.remove_card(state.add_card("t4"))

    assert served(state).keys() == before.keys()


def test_a_folder_that_cannot_be_written_is_an_error(state_path: Path) -> None:
    """That names it."""
    state_path.parent.mkdir()
    folder_of(state_path).write_text("in the way")

    with pytest.raises(StateError, match=r"state\.sys.* cannot be written"):
        State.create(state_path, Box.load("t4x1", seed="node-1"))
