"""The folder beside a state file describes its cards, read as a program reads a kernel's."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from fake_nvml.box import Box
from fake_nvml.fake_nvml_errors import StateError
from fake_nvml.native.build import library_folder
from fake_nvml.state import State
from fake_nvml.sysfs import folder_of, mount
from tests.fake_nvml.clients.nvml_client import ROOT

BOX = "t4x2"


def served(state: State) -> dict[str, int]:
    """Address and inode of each card that the driver has."""
    driver = folder_of(state.path) / "bus/pci/drivers/nvidia"
    return {link.name: link.lstat().st_ino for link in driver.iterdir()}


def test_a_card_is_described_as_by_a_kernel(state: State, state_path: Path) -> None:
    """Ids and kind as in its configuration space; two neighbours are below one root, a card with a screen is a VGA controller."""
    (state_path.parent / "box.yaml").write_text(
        'driver: "535"\ncards: [{model: l40s, count: 3, below_root: 2}, {model: rtx4090}]'
    )
    State.create(state.path, Box.load(str(state_path.parent / "box.yaml"), seed="node-1")).close()
    devices = sorted((folder_of(state.path) / "bus/pci/devices").iterdir())

    read = [[(one / name).read_text().strip() for name in ("vendor", "device", "class")] for one in devices]
    assert read == [["0x10de", "0x26b9", "0x030200"]] * 3 + [["0x10de", "0x2684", "0x030000"]]
    assert (devices[3] / "config").read_bytes()[:12] == bytes.fromhex("de10 8426 0000 0000 00 00 00 03")
    assert [one.resolve().parent.name for one in devices] == ["pci0000:03"] * 2 + ["pci0000:09", "pci0000:0c"]
    assert {(one / "driver").resolve() for one in devices} == {folder_of(state.path) / "bus/pci/drivers/nvidia"}


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that another user may read."""
    with tempfile.TemporaryDirectory(prefix="gs-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


# ``fake-nvml exec`` as another user, which may not run the tests' own interpreter: root becomes that user in it.
AS_USER = """
import ctypes, os, sys
from fake_nvml import main
user, arguments = int(sys.argv[1]), main.parse(sys.argv[2:])
os.setresgid(user, user, user), os.setresuid(user, user, user), ctypes.CDLL(None).prctl(4, 1)
main.run(arguments, dict(os.environ))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("user", [0, 65534])
def test_a_program_sees_the_cards_below_sys(open_folder: Path, user: int) -> None:
    """With what it reads of the machine itself; without the option it sees none of them."""
    with State.create(open_folder / "state", Box.load(BOX, seed="node-1")) as state:
        os.chown(folder_of(state.path) / "devices", user, user)
        libraries = library_folder(state.driver())
        shutil.copytree(libraries, open_folder / "libraries" / libraries.name)
        command = f"cat /sys/bus/pci/devices/{min(served(state))}/vendor && ls /sys/devices/system/cpu/online && id -u"
        argv = [sys.executable, "-c", AS_USER, str(user), "exec", "--state", str(state.path)]

    variables = {**os.environ, "FAKENVML_LIBRARIES": str(open_folder / "libraries")}
    for option, answer in ((["--sys"], ["0x10de", "/sys/devices/system/cpu/online", str(user)]), ([], [])):
        done = subprocess.run(
            [*argv, *option, "--", "sh", "-c", command], cwd=ROOT, env=variables, capture_output=True, text=True
        )
        if user and "unshare: Operation not permitted" in done.stderr:
            pytest.skip("this kernel gives users no namespaces")
        assert done.stdout.split() == answer, done.stderr


def test_a_kernel_that_refuses_is_an_error(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is mounted, and the error has the remedy."""
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: SimpleNamespace(unshare=lambda _: -1))

    with pytest.raises(StateError, match="cannot be mounted at /sys: unshare: .*; run as root, or where users"):
        mount(folder_of(state.path))


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


def test_each_card_has_an_address_of_its_own(
    state_path: Path, tmp_path: Path, ask: Callable[[], dict[str, Any]]
) -> None:
    """A card without a recorded address, or one that comes later, gets an address that no other card has."""
    State.create(state_path, Box.load("t4x2", seed="node-1")).close()
    entries = yaml.safe_load(yaml.safe_dump(ask()))
    entries["cards"].reverse()
    entries["cards"].insert(0, {"model": "t4"})
    (tmp_path / "box.yaml").write_text(yaml.safe_dump(entries))
    with State.create(state_path, Box.load(str(tmp_path / "box.yaml"), seed="node-1")) as state:
        state.add_card("t4")

        assert len(served(state)) == len({card.bus_id for card in state.cards()}) == 4
