"""The folder beside a state file describes its cards, read as a program reads a kernel's."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import yaml

from fake_nvml.box import Box
from fake_nvml.core.returns import Code
from fake_nvml.fake_nvml_errors import StateError
from fake_nvml.recording import record
from fake_nvml.state import State
from fake_nvml.sysfs import folder_of

BOX = "t4x2"


def served(state: State) -> dict[str, int]:
    """Address and inode of each card that the driver has."""
    driver = folder_of(state.path) / "bus/pci/drivers/nvidia"
    return {link.name: link.lstat().st_ino for link in driver.iterdir()}


def uuid_of(state: State, index: int) -> str:
    """The UUID of the card with an index."""
    return state.cards()[index].uuid


def test_the_driver_serves_each_card_of_the_box(state: State) -> None:
    """At NVML's address, written as the kernel writes it; the links lead to the device."""
    addresses = {card.bus_id.lower().removeprefix("0000") for card in state.cards()}
    folder = folder_of(state.path) / "bus/pci"

    assert set(served(state)) == addresses == {path.name for path in (folder / "devices").iterdir()}
    for address in addresses:
        assert (folder / "drivers/nvidia" / address).resolve() == (folder / "devices" / address).resolve()
        assert (folder / "devices" / address / "numa_node").read_text() == "-1\n"


def test_a_card_that_comes_and_goes_is_reported(state: State) -> None:
    """A new card is there with its NUMA node, and the kernel's files about the other cards stay as they are."""
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


def test_card_that_is_put_back_is_another_link_each_time(state: State) -> None:
    """A card that is put back gets another inode, although a file system gives a freed inode to the next file."""
    first, seen = uuid_of(state, 0), []
    for _ in range(4):
        before = served(state)
        state.remove_card(first)
        (gone,) = before.keys() - served(state).keys()
        seen.append(before[gone])
        state.add_card("t4", uuid=first)

    assert len(set(seen)) == 4


@pytest.mark.parametrize("start", ["reboot", "init", "init after the file was deleted"])
def test_after_a_start_all_cards_are_read_again(state: State, start: str) -> None:
    """The cards keep their addresses and get other links, so a reader reads all of them again."""
    before = served(state)
    if start == "reboot":
        state.reboot()
    else:
        if start != "init":
            state.path.unlink()
        State.create(state.path, Box.load("t4x2", seed="node-1")).close()
    after = served(state)

    assert before.keys() == after.keys()
    assert not set(before.values()) & set(after.values())


def test_a_sick_or_lost_card_stays_with_its_driver(state: State) -> None:
    """The kernel knows nothing of it, also if it lists another."""
    before = served(state)
    state.post_xid(uuid_of(state, 0), 48)
    state.lose(uuid_of(state, 1))
    state.add_card("t4")

    assert before.items() < served(state).items()


def test_without_a_driver_the_kernel_tells_of_no_cards(state: State) -> None:
    """The driver's folder is gone; a driver that is back has taken all cards again."""
    before, driver = served(state), folder_of(state.path) / "bus/pci/drivers/nvidia"
    state.set_init_return(Code.DRIVER_NOT_LOADED)
    assert not driver.exists()
    state.set_init_return(0)

    assert served(state).keys() == before.keys()
    assert not set(served(state).values()) & set(before.values())


@pytest.mark.parametrize("left", ["bus/pci/drivers/nvidia", "bus/pci/devices", "devices"])
def test_what_was_left_half_done_is_put_right_by_the_next_change(state: State, left: str) -> None:
    """A command that was killed in between leaves neither a device nor a card without one."""
    folder, before = folder_of(state.path), served(state)
    added = state.add_card("t4")
    (address,) = served(state).keys() - before.keys()
    path = folder / left / address
    path.unlink() if path.is_symlink() else (path / "simulated_card").unlink()
    state.lose(added)
    state.reboot()
    assert (folder / "bus/pci/drivers/nvidia" / address / "numa_node").read_text() == "-1\n"
    path.unlink() if path.is_symlink() else (path / "simulated_card").unlink()
    state.remove_card(added)

    parts = [folder / part for part in ("bus/pci/drivers/nvidia", "bus/pci/devices", "devices")]
    assert [{path.name for path in part.iterdir()} for part in parts] == [set(before)] * 3


def test_any_process_may_read_it(state_path: Path) -> None:
    """Whatever its owner's umask is."""
    before = os.umask(0o077)
    try:
        state_path.parent.mkdir(0o755)
        State.create(state_path, Box.load("t4x1", seed="node-1")).close()
    finally:
        os.umask(before)
    folder = folder_of(state_path)

    assert {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()} == {0o644}
    assert {path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*")) if path.is_dir()} == {0o755}


def test_where_it_cannot_be_written_nothing_changes(state: State) -> None:
    """The error has the remedy; the cards are as before."""
    folder, before = folder_of(state.path), state.cards()
    shutil.rmtree(folder / "gone")
    (folder / "gone").write_text("in the way")

    for change in (lambda: state.add_card("t4"), lambda: state.remove_card(before[0].uuid), state.reboot):
        with pytest.raises(StateError, match=r"state\.sys/gone cannot be written: .* a change of cards writes both"):
            change()
    assert state.cards() == before


def test_cards_change_only_if_the_kernels_view_can_follow(state: State, tmp_path: Path) -> None:
    """A container that has the state file alone cannot add a card, because programs elsewhere would not see it.

    A link to the file counts as the file.
    """
    (tmp_path / "other").mkdir()
    (tmp_path / "other/state").hardlink_to(state.path)
    (tmp_path / "link").symlink_to(state.path)
    with State.open(tmp_path / "other/state") as alone, pytest.raises(StateError, match="where both are mounted"):
        alone.add_card("t4")
    assert len(state.cards()) == 2
    with State.open(tmp_path / "link") as linked:
        linked.add_card("t4")

    assert len(served(state)) == 3


def test_each_card_has_an_address_of_its_own(state_path: Path, tmp_path: Path, clean_pynvml: None) -> None:
    """A card without a recorded address, or one that comes later, gets an address that no other card has."""
    with State.create(state_path, Box.load("t4x2", seed="node-1")) as state:
        entries = yaml.safe_load(yaml.safe_dump(record(state=state.path, library=None)))
    entries["cards"].reverse()
    entries["cards"].insert(0, {"model": "t4"})
    (tmp_path / "box.yaml").write_text(yaml.safe_dump(entries))
    with State.create(state_path, Box.load(str(tmp_path / "box.yaml"), seed="node-1")) as state:
        state.add_card("t4")

        assert len(served(state)) == len({card.bus_id for card in state.cards()}) == 4
