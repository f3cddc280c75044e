"""Simulated cards as any caller finds them, in each era."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fake_nvml.box import Box
from fake_nvml.state import State
from tests.fake_nvml.conformance.layers import SIMULATED, Layer
from tests.fake_nvml.conformance.probed import Probed

MIB = 1024 * 1024
INVALID_ARGUMENT, NOT_SUPPORTED, INSUFFICIENT_SIZE, FUNCTION_NOT_FOUND, GPU_IS_LOST = 2, 3, 7, 13, 15


def cards(nvml: Probed) -> list[dict[str, int]]:
    """The handles of all cards that are listed."""
    return [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]


def test_it_says_what_the_box_says(nvml: Probed, state: State, layer: Layer) -> None:
    """Names, ids and capabilities are those of the box's cards; what no card answers is not supported, and not absent."""
    first, second, geforce = cards(nvml)

    assert nvml.nvmlSystemGetDriverVersion() == layer.driver
    assert nvml.nvmlSystemGetNVMLVersion().endswith(f".{layer.driver}")
    assert nvml.nvmlSystemGetCudaDriverVersion() == nvml.nvmlSystemGetCudaDriverVersion_v2() == state.read().header.cuda
    assert [nvml.nvmlDeviceGetName(card) for card in (first, geforce)] == [state.cards()[0].name, state.cards()[2].name]
    assert [nvml.nvmlDeviceGetUUID(card) for card in cards(nvml)] == [card.uuid for card in state.cards()]
    assert nvml.nvmlDeviceGetHandleBySerial(state.cards()[1].serial) == second
    assert nvml.code("nvmlDeviceGetHandleBySerial", "") == 6
    assert [nvml.nvmlDeviceGetMinorNumber(card) for card in cards(nvml)] == [0, 1, 2]
    assert nvml.nvmlDeviceGetCudaComputeCapability(geforce) == [6, 1]
    assert nvml.nvmlDeviceGetPciInfo(first)["pciDeviceId"] == 0x1EB810DE
    assert [nvml.nvmlDeviceGetSupportedEventTypes(card) for card in (first, geforce)] == [0x1 | 0x2 | 0x8, 0x8]
    assert (nvml.nvmlDeviceGetFanSpeed(geforce), nvml.nvmlDeviceGetBrand(geforce)) == (23, 5)
    assert [nvml.nvmlDeviceGetP2PStatus(first, other, 0) for other in (second, geforce)] == [0, 1]
    for absent in ("Serial", "EccMode", "VbiosVersion", "BAR1MemoryInfo"):
        assert nvml.code(f"nvmlDeviceGet{absent}", geforce) == NOT_SUPPORTED


def test_a_card_at_work_shows_what_was_set(nvml: Probed, state: State, branch: int) -> None:
    """Clocks and link are as fast as public captures have them; the sensors come from the state file."""
    (card, *_) = cards(nvml)
    uuid = state.cards()[0].uuid

    def speeds() -> list[int]:
        clocks = [nvml.nvmlDeviceGetClockInfo(card, kind) for kind in range(4)]
        return [*clocks, nvml.nvmlDeviceGetCurrPcieLinkGeneration(card), nvml.nvmlDeviceGetPerformanceState(card)]

    assert speeds() == [300, 300, 405, 540, 1, 8]
    for key, value in (
        ("utilization", "40"), ("memory-utilization", "7"), ("pcie-sent", "51200"), ("pcie-received", "7"), ("encoder", "3"),
        ("temperature", "81"), ("power", "66"), ("ecc-uncorrected", "2"), ("ecc-corrected", "9"),
    ):  # fmt: skip
        state.set_value(uuid, key, value)
    assert speeds() == [1590, 1590, 5001, 1470, 3, 0]
    assert [nvml.nvmlDeviceGetMaxClockInfo(card, kind) for kind in range(4)] == [1590, 1590, 5001, 1470]
    assert [nvml.nvmlDeviceGetPcieThroughput(card, way) for way in (0, 1)] == [51200, 7]
    assert nvml.nvmlDeviceGetEncoderUtilization(card) == [3, 167000]
    assert nvml.nvmlDeviceGetUtilizationRates(card) == {"gpu": 40, "memory": 7}
    assert nvml.nvmlDeviceGetTemperature(card, 0) == 81
    assert (nvml.nvmlDeviceGetPowerUsage(card), nvml.nvmlDeviceGetEnforcedPowerLimit(card)) == (66000, 70000)
    assert [nvml.nvmlDeviceGetTotalEccErrors(card, kind, 0) for kind in (0, 1)] == [9, 2]
    for name, number in (("ClockInfo", 4), ("Temperature", 7)):
        assert nvml.code(f"nvmlDeviceGet{name}", card, number) == INVALID_ARGUMENT
    if branch >= 450:
        assert nvml.code("nvmlDeviceGetMigMode", card) == NOT_SUPPORTED


@pytest.mark.parametrize("layer", [one for one in SIMULATED if one.branch >= 535 and one.kind != "sanitized"], ids=str)
def test_mig_is_a_mode_without_slices(nvml: Probed, state: State, layer: Layer, tmp_path: Path) -> None:
    """The mode that was set is there at once and pending; no slice is found."""
    (card,) = other_box(nvml, state, "{model: a100-sxm4-80gb}", tmp_path, layer)
    assert nvml.nvmlDeviceGetMigMode(card) == [0, 0]

    state.set_value(state.cards()[0].uuid, "mig", "on")

    assert nvml.nvmlDeviceGetMigMode(card) == [1, 1]
    assert (nvml.nvmlDeviceGetMaxMigDeviceCount(card), nvml.nvmlDeviceIsMigDeviceHandle(card)) == (7, 0)
    assert nvml.code("nvmlDeviceGetMigDeviceHandleByIndex", card, 0) == 6


def test_process_lists_have_a_size(nvml: Probed, state: State, branch: int) -> None:
    """A call without an array returns the number of processes."""
    (card, *_) = cards(nvml)
    for pid in (1, 2, 3):
        state.add_process(state.cards()[0].uuid, pid, 1, "player")
    name = "nvmlDeviceGetComputeRunningProcesses" + ("_v3" if branch >= 510 else "_v2" if branch >= 450 else "")

    assert nvml.raw(name, card, {"out": 0}, None) == (INSUFFICIENT_SIZE, [3])
    assert nvml.raw(name, card, {"out": 2}, {"array": 2}) == (INSUFFICIENT_SIZE, [3, [0, 0]])
    if branch >= 450:  # the first struct is no more in pynvml, which has this array
        assert nvml.raw(name, card, {"out": 4}, {"array": 4}) == (0, [3, [1, 2, 3, 0]])


def test_a_removed_card_is_lost_until_init_and_then_not_listed(nvml: Probed, state: State) -> None:
    """The others move up with the next init; a card in the place of another has its handle."""
    first, second, third = cards(nvml)
    uuids = [card.uuid for card in state.cards()]
    state.remove_card(uuids[1])
    new = state.change_uuid(uuids[0])

    assert nvml.nvmlDeviceGetCount() == 3
    assert [nvml.code("nvmlDeviceGetName", card) for card in (first, second)] == [GPU_IS_LOST] * 2
    assert nvml.nvmlDeviceGetIndex(third) == 2

    nvml.nvmlShutdown()
    nvml.nvmlInit()
    assert [nvml.nvmlDeviceGetUUID(card) for card in cards(nvml)] == [new, uuids[2]]
    assert cards(nvml) == [first, third]
    assert [nvml.nvmlDeviceGetIndex(card) for card in (first, third)] == [0, 1]
    assert nvml.code("nvmlDeviceGetName", second) == INVALID_ARGUMENT


def test_another_box_is_seen_after_a_new_init_only(nvml: Probed, state: State, layer: Layer) -> None:
    """The first init fixes the list of cards until the last shutdown; a card that is gone since is lost."""
    first = cards(nvml)[0]
    State.create(state.path, Box.load("gtx1080tix1", seed="other", driver=layer.driver)).close()

    nvml.nvmlInit()
    nvml.nvmlShutdown()
    assert nvml.nvmlDeviceGetCount() == 3
    assert (nvml.code("nvmlDeviceGetName", first), nvml.code("nvmlDeviceGetHandleByIndex", 1)) == (GPU_IS_LOST,) * 2
    nvml.nvmlShutdown()
    nvml.nvmlInit()
    assert nvml.nvmlDeviceGetCount() == 1


@pytest.mark.parametrize(
    ("damage", "code"), [(None, 9), (b"", 18), (b"FAKENVML\x7f", 18)], ids=["missing", "empty", "another version"]
)
def test_a_state_file_that_is_none_fails_init(nvml: Probed, state: State, damage: bytes | None, code: int) -> None:
    """A missing one is a driver that is not loaded, any other a mismatch of versions."""
    nvml.reset()
    state.path.unlink() if damage is None else state.path.write_bytes(damage)

    assert nvml.code("nvmlInit") == code


def test_after_a_writer_died_half_way_reads_go_on(nvml: Probed, state: State) -> None:
    """A reader does not wait for a writer that was killed."""
    (card, *_) = cards(nvml)
    with state.mapped.writing() as content:
        content.header.sequence -= 1  # even now, so odd at the end: as a writer leaves it that is killed

    assert state.read().header.sequence % 2 == 1
    assert nvml.nvmlDeviceGetTemperature(card, 0) == state.cards()[0].temperature


def test_a_reader_never_sees_half_a_write(nvml: Probed, state: State) -> None:
    """Memory goes from one process to another and back, a write each, while a caller adds up what is used."""
    (card, *_) = cards(nvml)
    uuid = state.cards()[0].uuid
    state.add_process(uuid, 1, 1, "player")
    with state.mapped.writing() as content:  # as 899 calls more, each of which looks at every row
        content.header.process_rows = 900
        for index in range(1, 900):
            content.processes[index] = content.processes[0]
            content.processes[index].pid = index + 1
    first = nvml.nvmlDeviceGetMemoryInfo(card)
    nvml.send({"distinct": ["nvmlDeviceGetMemoryInfo", [card], 1000]})

    while not nvml.answered():
        with state.mapped.writing() as content:
            content.processes[0].memory, content.processes[899].memory = 2 * MIB, 0
        with state.mapped.writing() as content:
            content.processes[0].memory, content.processes[899].memory = 0, 2 * MIB

    assert nvml.receive() == [first]


def other_box(nvml: Probed, state: State, cards_of_it: str, tmp_path: Path, layer: Layer) -> list[dict[str, int]]:
    """The handles of the cards of another box, under the layer's driver."""
    (tmp_path / "box.yaml").write_text(f'driver: "{layer.driver}"\ncards: [{cards_of_it}]\n')
    nvml.reset()
    State.create(state.path, Box.load(str(tmp_path / "box.yaml"), seed="node-1")).close()
    nvml.nvmlInit()
    return cards(nvml)


def test_cards_meet_at_a_level_of_the_pcie_tree(nvml: Probed, state: State, layer: Layer, tmp_path: Path) -> None:
    """Below one root, at one socket or across sockets; cards of unknown sockets meet at a bridge."""
    two, four = "{model: t4, count: 2}", "{model: t4, count: 4, numa: 0, below_root: 2}"
    handles = other_box(nvml, state, f"{two}, {four}, {{model: t4, numa: 1}}", tmp_path, layer)
    first = handles[2]

    assert [nvml.nvmlDeviceGetTopologyCommonAncestor(first, other) for other in handles] == [50, 50, 0, 10, 40, 40, 50]
    assert nvml.nvmlDeviceGetTopologyCommonAncestor(*handles[:2]) == 30
    assert nvml.code("nvmlDeviceGetTopologyCommonAncestor", first, None) == INVALID_ARGUMENT
    assert nvml.code("nvmlDeviceGetTopologyCommonAncestor", None, first) == INVALID_ARGUMENT
    state.lose(state.cards()[3].uuid)
    assert nvml.code("nvmlDeviceGetTopologyCommonAncestor", first, handles[3]) == GPU_IS_LOST


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_state_that_may_only_be_read_is_read(nvml: Probed, state: State) -> None:
    """A state that may only be read is read as from a read-only mount, even after a writer died half way."""
    nvml.reset()
    nvml.ask({"user": 65534})

    nvml.nvmlInit()
    (card, *_) = cards(nvml)
    state.set_value(state.cards()[0].uuid, "temperature", "70")
    assert nvml.nvmlDeviceGetTemperature(card, 0) == 70
    with state.mapped.writing() as content:
        content.header.sequence -= 1
    assert nvml.nvmlDeviceGetTemperature(card, 0) == 70
