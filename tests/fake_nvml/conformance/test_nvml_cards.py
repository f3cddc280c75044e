"""Simulated cards as any caller finds them, in each era."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pynvml
import pytest

from fake_nvml.box import Box
from fake_nvml.state import State
from tests.fake_nvml.conformance.calls import (
    GPU_IS_LOST,
    INSUFFICIENT_SIZE,
    INVALID_ARGUMENT,
    NOT_FOUND,
    NOT_SUPPORTED,
    address,
    cards,
    code,
    init_again,
    raw,
    shut_down,
)

pytestmark = pytest.mark.usefixtures("nvml")

MIB = 1024 * 1024


def test_it_says_what_the_box_says(state: State, driver: str) -> None:
    """Names, ids and capabilities are those of the box's cards; a call without an answer is not supported."""
    first, second, geforce = cards()

    assert pynvml.nvmlSystemGetDriverVersion() == driver
    assert pynvml.nvmlSystemGetNVMLVersion().endswith(f".{driver}")
    cuda = state.read().header.cuda
    assert pynvml.nvmlSystemGetCudaDriverVersion() == pynvml.nvmlSystemGetCudaDriverVersion_v2() == cuda
    assert [pynvml.nvmlDeviceGetName(card) for card in cards()] == [card.name for card in state.cards()]
    assert [pynvml.nvmlDeviceGetUUID(card) for card in cards()] == [card.uuid for card in state.cards()]
    assert address(pynvml.nvmlDeviceGetHandleBySerial(state.cards()[1].serial)) == address(second)
    assert code(pynvml.nvmlDeviceGetHandleBySerial, "") == NOT_FOUND
    assert [pynvml.nvmlDeviceGetMinorNumber(card) for card in cards()] == [0, 1, 2]
    assert tuple(pynvml.nvmlDeviceGetCudaComputeCapability(geforce)) == (6, 1)
    assert pynvml.nvmlDeviceGetPciInfo(first).pciDeviceId == 0x1EB810DE
    assert [pynvml.nvmlDeviceGetSupportedEventTypes(card) for card in (first, geforce)] == [0x1 | 0x2 | 0x8, 0x8]
    assert (pynvml.nvmlDeviceGetFanSpeed(geforce), pynvml.nvmlDeviceGetBrand(geforce)) == (23, 5)
    assert [pynvml.nvmlDeviceGetP2PStatus(first, other, 0) for other in (second, geforce)] == [0, 1]
    for absent in ("Serial", "EccMode", "VbiosVersion", "BAR1MemoryInfo"):
        assert code(getattr(pynvml, f"nvmlDeviceGet{absent}"), geforce) == NOT_SUPPORTED


def test_a_card_at_work_shows_what_was_set(state: State, branch: int) -> None:
    """Clocks and link are as fast as public captures have them; the sensors come from the state file."""
    card, uuid = cards()[0], state.cards()[0].uuid

    def speeds() -> list[int]:
        clocks = [pynvml.nvmlDeviceGetClockInfo(card, kind) for kind in range(4)]
        return [*clocks, pynvml.nvmlDeviceGetCurrPcieLinkGeneration(card), pynvml.nvmlDeviceGetPerformanceState(card)]

    assert speeds() == [300, 300, 405, 540, 1, 8]
    for key, value in (
        ("utilization", "40"), ("memory-utilization", "7"), ("pcie-sent", "51200"), ("pcie-received", "7"), ("encoder", "3"),
        ("temperature", "81"), ("power", "66"), ("ecc-uncorrected", "2"), ("ecc-corrected", "9"),
    ):  # fmt: skip
        state.set_value(uuid, key, value)
    assert speeds() == [1590, 1590, 5001, 1470, 3, 0]
    assert [pynvml.nvmlDeviceGetMaxClockInfo(card, kind) for kind in range(4)] == [1590, 1590, 5001, 1470]
    assert [pynvml.nvmlDeviceGetPcieThroughput(card, way) for way in (0, 1)] == [51200, 7]
    assert pynvml.nvmlDeviceGetEncoderUtilization(card) == [3, 167000]
    rates = pynvml.nvmlDeviceGetUtilizationRates(card)
    assert (rates.gpu, rates.memory, pynvml.nvmlDeviceGetTemperature(card, 0)) == (40, 7, 81)
    assert (pynvml.nvmlDeviceGetPowerUsage(card), pynvml.nvmlDeviceGetEnforcedPowerLimit(card)) == (66000, 70000)
    assert [pynvml.nvmlDeviceGetTotalEccErrors(card, kind, 0) for kind in (0, 1)] == [9, 2]
    assert code(pynvml.nvmlDeviceGetClockInfo, card, 4) == code(pynvml.nvmlDeviceGetTemperature, card, 7)
    assert code(pynvml.nvmlDeviceGetClockInfo, card, 4) == INVALID_ARGUMENT
    if branch >= 450:
        assert code(pynvml.nvmlDeviceGetMigMode, card) == NOT_SUPPORTED


def other_box(state: State, cards_of_it: str, folder: Path) -> list[Any]:
    """The handles of the cards of another box, under the same driver."""
    box = folder / "box.yaml"
    box.write_text(f'driver: "{state.driver()}"\ncards: [{cards_of_it}]\n')
    State.create(state.path, Box.load(str(box), seed="node-1")).close()
    init_again()
    return cards()


@pytest.mark.parametrize("driver", ["450.80.02", "580.65.06"], indirect=True)
def test_mig_is_a_mode_without_slices(state: State, tmp_path: Path) -> None:
    """The mode that was set is there at once and pending; no slice is found."""
    (card,) = other_box(state, "{model: a100-sxm4-80gb}", tmp_path)
    assert list(pynvml.nvmlDeviceGetMigMode(card)) == [0, 0]

    state.set_value(state.cards()[0].uuid, "mig", "on")

    assert list(pynvml.nvmlDeviceGetMigMode(card)) == [1, 1]
    assert (pynvml.nvmlDeviceGetMaxMigDeviceCount(card), pynvml.nvmlDeviceIsMigDeviceHandle(card).value) == (7, 0)
    assert code(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, card, 0) == NOT_FOUND


def test_process_lists_have_a_size(state: State, branch: int) -> None:
    """A call without an array, or with one that is too small, returns the number of processes alone."""
    for pid in (1, 2, 3):
        state.add_process(state.cards()[0].uuid, pid, 1, f"player-{pid}")
    name = "nvmlDeviceGetComputeRunningProcesses" + ("_v3" if branch >= 510 else "_v2" if branch >= 450 else "")

    def asked(room: int, rows: Any) -> tuple[int, int]:
        count = ctypes.c_uint(room)
        return raw(name, cards()[0], ctypes.byref(count), rows), count.value

    assert asked(0, None) == (INSUFFICIENT_SIZE, 3)
    rows = (pynvml.c_nvmlProcessInfo_t * 4)()
    assert asked(2, rows) == (INSUFFICIENT_SIZE, 3)
    assert [row.pid for row in rows] == [0] * 4
    if branch >= 450:  # the first struct is no more in pynvml, which has this array
        assert asked(4, rows) == (0, 3)
        assert [(row.pid, row.usedGpuMemory) for row in rows] == [(1, MIB), (2, MIB), (3, MIB), (0, 0)]
    assert pynvml.nvmlSystemGetProcessName(2) == "player-2"
    assert code(pynvml.nvmlSystemGetProcessName, 4711) == NOT_FOUND


def test_a_removed_card_is_lost_until_init_and_then_not_listed(state: State) -> None:
    """The others move up with the next init; a card in the place of another has its handle."""
    first, second, third = cards()
    uuids = [card.uuid for card in state.cards()]
    state.remove_card(uuids[1])
    swapped = state.change_uuid(uuids[0])

    assert pynvml.nvmlDeviceGetCount() == 3
    assert [code(pynvml.nvmlDeviceGetName, card) for card in (first, second)] == [GPU_IS_LOST] * 2
    assert pynvml.nvmlDeviceGetIndex(third) == 2

    init_again()
    assert [pynvml.nvmlDeviceGetUUID(card) for card in cards()] == [swapped, uuids[2]]
    assert [address(card) for card in cards()] == [address(first), address(third)]
    assert [pynvml.nvmlDeviceGetIndex(card) for card in (first, third)] == [0, 1]
    assert code(pynvml.nvmlDeviceGetName, second) == INVALID_ARGUMENT
    state.add_card("t4")
    assert pynvml.nvmlDeviceGetCount() == 2
    assert code(pynvml.nvmlDeviceGetHandleByUUID, state.cards()[1].uuid) == NOT_FOUND


def test_another_box_is_seen_after_a_new_init_only(state: State, driver: str) -> None:
    """The first init fixes the list of cards until the last shutdown; a card that is gone since is lost."""
    first = cards()[0]
    State.create(state.path, Box.load("gtx1080tix1", seed="other", driver=driver)).close()

    pynvml.nvmlInit()
    pynvml.nvmlShutdown()
    assert pynvml.nvmlDeviceGetCount() == 3
    assert code(pynvml.nvmlDeviceGetName, first) == code(pynvml.nvmlDeviceGetHandleByIndex, 1) == GPU_IS_LOST
    init_again()
    assert pynvml.nvmlDeviceGetCount() == 1


@pytest.mark.parametrize("damage", [b"", b"FAKENVML\x7f"], ids=["empty", "another version"])
def test_a_state_file_of_another_version_is_a_mismatch(state: State, damage: bytes) -> None:
    """An empty file is one, too."""
    shut_down()
    state.path.unlink()  # the one that is mapped must not be cut
    state.path.write_bytes(damage)

    assert code(pynvml.nvmlInit) == 18


def test_after_a_writer_died_half_way_reads_go_on(state: State) -> None:
    """A reader does not wait for a writer that was killed."""
    with state.mapped.writing() as content:
        content.header.sequence -= 1  # even now, so odd at the end: as a writer leaves it that is killed

    assert state.read().header.sequence % 2 == 1
    assert pynvml.nvmlDeviceGetTemperature(cards()[0], 0) == state.cards()[0].temperature


def test_a_reader_never_sees_half_a_write(state: State) -> None:
    """Memory goes from one process to another and back, a write each, while a caller adds up what is used."""
    card = cards()[0]
    state.add_process(state.cards()[0].uuid, 1, 1, "player")
    with state.mapped.writing() as content:  # as 899 calls more, each of which looks at every row
        content.header.process_rows = 900
        for index in range(1, 900):
            content.processes[index] = content.processes[0]
            content.processes[index].pid = index + 1

    def used(times: int) -> set[int]:
        return {pynvml.nvmlDeviceGetMemoryInfo(card).used for _ in range(times)}

    first = used(1)
    with ThreadPoolExecutor(1) as pool:
        seen = pool.submit(used, 1000)
        while not seen.done():
            with state.mapped.writing() as content:
                content.processes[0].memory, content.processes[899].memory = 2 * MIB, 0
            with state.mapped.writing() as content:
                content.processes[0].memory, content.processes[899].memory = 0, 2 * MIB

    assert seen.result() == first


def test_cards_meet_at_a_level_of_the_pcie_tree(state: State, tmp_path: Path) -> None:
    """Below one root, at one socket or across sockets; cards of unknown sockets meet at a bridge."""
    two, four = "{model: t4, count: 2}", "{model: t4, count: 4, numa: 0, below_root: 2}"
    handles = other_box(state, f"{two}, {four}, {{model: t4, numa: 1}}", tmp_path)
    first, ask = handles[2], pynvml.nvmlDeviceGetTopologyCommonAncestor

    assert [ask(first, other) for other in handles] == [50, 50, 0, 10, 40, 40, 50]
    assert ask(*handles[:2]) == 30
    assert [code(ask, first, None), code(ask, None, first)] == [INVALID_ARGUMENT] * 2
    state.lose(state.cards()[3].uuid)
    assert code(ask, first, handles[3]) == GPU_IS_LOST
