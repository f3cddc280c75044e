"""The folder beside a state file describes its cards, read as a program reads a kernel's."""

from __future__ import annotations

import pytest

from fake_nvml.box import Box
from fake_nvml.state import State
from fake_nvml.sysfs import folder_of

BOX = "t4x2"


def served(state: State) -> dict[str, int]:
    """Address and inode of each card that the driver has."""
    driver = folder_of(state.path) / "bus/pci/drivers/nvidia"
    return {link.name: link.lstat().st_ino for link in driver.iterdir()}


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


@pytest.mark.parametrize("left", ["bus/pci/drivers/nvidia", "bus/pci/devices", "devices/pci0000:09"])
def test_what_was_left_half_done_is_repaired_by_the_next_change(state: State, left: str) -> None:
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

    parts = [folder.glob(part) for part in ("bus/pci/drivers/nvidia/*", "bus/pci/devices/*", "devices/*/*")]
    assert [{path.name for path in part} for part in parts] == [set(before)] * 3
    assert len(list((folder / "devices").iterdir())) == len(before)
