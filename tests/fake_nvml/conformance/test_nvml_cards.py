"""Simulated cards as any caller finds them, in each era."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pynvml
import pytest

from fake_nvml.state import State
from tests.fake_nvml.conformance.calls import (
    GPU_IS_LOST,
    INVALID_ARGUMENT,
    NOT_FOUND,
    address,
    cards,
    code,
    init_again,
    shut_down,
)

pytestmark = pytest.mark.usefixtures("nvml")

MIB = 1024 * 1024


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


@pytest.mark.parametrize("damage", [b"", b"FAKENVML\x7f"], ids=["empty", "another version"])
def test_a_state_file_of_another_version_is_a_mismatch(state: State, damage: bytes) -> None:
    """An empty file is one, too."""
    shut_down()
    state.path.unlink()  # the one that is mapped must not be cut
    state.path.write_bytes(damage)

    assert code(pynvml.nvmlInit) == 18


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
