"""Simulated cards as any caller finds them, the same from both libraries in each era."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fake_nvml.box import Box
from fake_nvml.core.answers import PLACES
from fake_nvml.state import State
from tests.fake_nvml.conformance.layers import SIMULATED, Layer
from tests.fake_nvml.conformance.probed import CallError, Probed

MIB = 1024 * 1024
INVALID_ARGUMENT, NOT_SUPPORTED, INSUFFICIENT_SIZE, FUNCTION_NOT_FOUND, GPU_IS_LOST = 2, 3, 7, 13, 15


def cards(nvml: Probed) -> list[dict[str, int]]:
    """The handles of all cards that are listed."""
    return [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]


def test_it_says_what_the_box_says(nvml: Probed, state: State, layer: Layer) -> None:
    """Names, ids and capabilities are those of the box's cards."""
    first, second, geforce = cards(nvml)

    assert nvml.nvmlSystemGetDriverVersion() == layer.driver
    assert nvml.nvmlSystemGetNVMLVersion().endswith(f".{layer.driver}")
    assert nvml.nvmlSystemGetCudaDriverVersion() == nvml.nvmlSystemGetCudaDriverVersion_v2() == state.read().header.cuda
    assert [nvml.nvmlDeviceGetName(card) for card in (first, geforce)] == [state.cards()[0].name, state.cards()[2].name]
    assert [nvml.nvmlDeviceGetUUID(card) for card in cards(nvml)] == [card.uuid for card in state.cards()]
    assert nvml.nvmlDeviceGetHandleBySerial(state.cards()[1].serial) == second
    assert [nvml.nvmlDeviceGetMinorNumber(card) for card in cards(nvml)] == [0, 1, 2]
    assert nvml.nvmlDeviceGetCudaComputeCapability(geforce) == [6, 1]
    assert nvml.nvmlDeviceGetPciInfo(first)["pciDeviceId"] == 0x1EB810DE
    assert nvml.nvmlDeviceGetBrand(geforce) == 5
    assert nvml.nvmlDeviceGetSupportedEventTypes(first) == 0x1 | 0x2 | 0x8
    assert nvml.nvmlDeviceGetSupportedEventTypes(geforce) == 0x8
    for absent in ("nvmlDeviceGetSerial", "nvmlDeviceGetEccMode"):
        assert nvml.code(absent, geforce) == NOT_SUPPORTED
    assert nvml.code("nvmlDeviceGetHandleBySerial", "") == 6


def test_what_it_cannot_answer_is_not_supported_and_not_absent(nvml: Probed) -> None:
    """A caller gets a code, not a missing symbol."""
    (card, *_) = cards(nvml)

    for name in ("VbiosVersion", "BAR1MemoryInfo", "BoardId"):
        assert nvml.code(f"nvmlDeviceGet{name}", card) == NOT_SUPPORTED


def test_null_is_no_handle(nvml: Probed) -> None:
    """Every function refuses NULL as an invalid argument; a real driver (580.159.04) ends the process of its caller instead."""
    for name in ("Name", "UUID", "MemoryInfo", "UtilizationRates", "SupportedEventTypes"):
        assert nvml.code(f"nvmlDeviceGet{name}", None) == INVALID_ARGUMENT


def test_an_idle_card_has_the_speeds_of_its_model(nvml: Probed, state: State) -> None:
    """Figures of public captures: a T4 has no fan, a 1080 Ti has one."""
    first, _, geforce = cards(nvml)

    assert [nvml.nvmlDeviceGetClockInfo(first, kind) for kind in range(4)] == [300, 300, 405, 540]
    assert [nvml.nvmlDeviceGetMaxClockInfo(first, kind) for kind in range(4)] == [1590, 1590, 5001, 1470]
    assert nvml.code("nvmlDeviceGetClockInfo", first, 4) == 2
    link = ("CurrPcieLinkGeneration", "MaxPcieLinkGeneration", "CurrPcieLinkWidth", "MaxPcieLinkWidth")
    assert [nvml.ask({"call": f"nvmlDeviceGet{name}", "arguments": [first]}) for name in link] == [1, 3, 16, 16]
    assert [nvml.nvmlDeviceGetPcieThroughput(first, way) for way in (0, 1)] == [0, 0]
    assert nvml.nvmlDeviceGetEncoderUtilization(first) == nvml.nvmlDeviceGetDecoderUtilization(first) == [0, 167000]
    assert nvml.code("nvmlDeviceGetFanSpeed", first) == NOT_SUPPORTED
    assert (nvml.nvmlDeviceGetFanSpeed(geforce), nvml.nvmlDeviceGetPerformanceState(first)) == (23, 8)


def test_a_card_works_at_full_speed(nvml: Probed, state: State) -> None:
    """A card with load has the clocks, link and modes that were set."""
    (card, *_) = cards(nvml)
    uuid = state.cards()[0].uuid
    for key, value in (
        ("utilization", "40"), ("pcie-sent", "51200"), ("pcie-received", "7"), ("encoder", "3"), ("decoder", "4"),
        ("compute-mode", "exclusive-process"), ("persistence", "on"),
    ):  # fmt: skip
        state.set_value(uuid, key, value)

    assert [nvml.nvmlDeviceGetClockInfo(card, kind) for kind in range(4)] == [1590, 1590, 5001, 1470]
    assert (nvml.nvmlDeviceGetCurrPcieLinkGeneration(card), nvml.nvmlDeviceGetPerformanceState(card)) == (3, 0)
    assert [nvml.nvmlDeviceGetPcieThroughput(card, way) for way in (0, 1)] == [51200, 7]
    assert (nvml.nvmlDeviceGetEncoderUtilization(card)[0], nvml.nvmlDeviceGetDecoderUtilization(card)[0]) == (3, 4)
    assert (nvml.nvmlDeviceGetComputeMode(card), nvml.nvmlDeviceGetPersistenceMode(card)) == (3, 1)


def test_the_sensors_show_what_was_set(nvml: Probed, state: State, branch: int) -> None:
    """Load, temperature, power and ECC counts come from the state file."""
    uuid = state.cards()[0].uuid
    for key, value in (
        ("utilization", "40"), ("memory-utilization", "7"), ("temperature", "81"), ("power", "66"),
        ("ecc-uncorrected", "2"), ("ecc-corrected", "9"),
    ):  # fmt: skip
        state.set_value(uuid, key, value)
    (card, *_) = cards(nvml)

    assert nvml.nvmlDeviceGetUtilizationRates(card) == {"gpu": 40, "memory": 7}
    assert nvml.nvmlDeviceGetTemperature(card, 0) == 81
    assert nvml.code("nvmlDeviceGetTemperature", card, 7) == 2
    assert (nvml.nvmlDeviceGetPowerUsage(card), nvml.nvmlDeviceGetEnforcedPowerLimit(card)) == (66000, 70000)
    assert nvml.nvmlDeviceGetPowerManagementLimit(card) == 70000
    assert [nvml.nvmlDeviceGetTotalEccErrors(card, kind, 0) for kind in (0, 1)] == [9, 2]
    assert nvml.nvmlDeviceGetEccMode(card) == [1, 1]
    if branch >= 450:
        assert nvml.code("nvmlDeviceGetMigMode", card) == NOT_SUPPORTED
        assert nvml.nvmlDeviceGetArchitecture(card) == 6


@pytest.mark.parametrize("code", [NOT_SUPPORTED, 4, 999])
def test_what_a_card_refuses_is_answered_by_its_code(nvml: Probed, state: State, code: int) -> None:
    """One function alone, one kind of number of a function, and a function that is written out in each library."""
    (card, *_) = cards(nvml)
    with state.mapped.writing() as content:
        for key in ("PowerUsage", "Temperature", "ClockInfo memory", "MemoryInfo", "PciInfo_v3", "HandleByIndex_v2"):
            content.cards[0].refused[PLACES[f"nvmlDeviceGet{key}"]] = code

    for name in ("PowerUsage", "MemoryInfo", "PciInfo"):
        assert nvml.code(f"nvmlDeviceGet{name}", card) == code
    for name, number in (("Temperature", 0), ("ClockInfo", 2)):
        assert nvml.code(f"nvmlDeviceGet{name}", card, number) == code
    assert nvml.code("nvmlDeviceGetHandleByIndex", 0) == code
    assert nvml.nvmlDeviceGetClockInfo(card, 0) == 300
    assert nvml.nvmlDeviceGetEnforcedPowerLimit(card) == 70000


def test_newest_temperature_function_exists_with_newest_driver(nvml: Probed, branch: int, layer: Layer) -> None:
    """The newest temperature function answers what the older one does."""
    if layer.pynvml or branch < 570:
        assert nvml.has("nvmlDeviceGetTemperatureV") is (branch >= 570)
        return
    (card, *_) = cards(nvml)

    assert nvml.nvmlDeviceGetTemperatureV(card, 0) == nvml.nvmlDeviceGetTemperature(card, 0)


def test_the_recovery_action_is_known_to_new_drivers(nvml: Probed, state: State, branch: int) -> None:
    """Before 550 field 230 is not supported."""
    state.set_value(state.cards()[0].uuid, "recovery-action", "1")
    (card, *_) = cards(nvml)

    action, other = nvml.nvmlDeviceGetFieldValues(card, [230, 1])

    assert other["nvmlReturn"] == NOT_SUPPORTED
    if branch < 550:
        assert action["nvmlReturn"] == NOT_SUPPORTED
    else:
        assert (action["nvmlReturn"], action["value"]["uiVal"]) == (0, 1)


def test_memory_is_split_as_the_driver_splits_it(nvml: Probed, state: State, branch: int) -> None:
    """The oldest struct counts reserved memory as used."""
    uuid = state.cards()[0].uuid
    state.add_process(uuid, 100, 1000, "player")
    total, reserved = state.cards()[0].total_mib, state.cards()[0].reserved_mib
    (card, *_) = cards(nvml)

    memory = nvml.nvmlDeviceGetMemoryInfo(card)

    assert [memory[part] // MIB for part in ("total", "used", "free")] == [
        total,
        1000 + reserved,
        total - 1000 - reserved,
    ]
    if branch >= 510:
        parts = nvml.nvmlDeviceGetMemoryInfo(card, version=0x02000028)
        assert [parts[part] // MIB for part in ("total", "reserved", "used")] == [total, reserved, 1000]


@pytest.mark.parametrize("count", [0, 1, 2, 40])
def test_process_lists_are_whole(nvml: Probed, state: State, branch: int, count: int) -> None:
    """Read with the struct that each symbol has: a wrong stride shows from the second row on."""
    uuid = state.cards()[1].uuid
    for pid in range(1, count + 1):
        state.add_process(uuid, pid, pid, f"player-{pid}")
    other, card, _ = cards(nvml)
    versions = ["_v3", ""] if branch >= 510 else ["_v2"] if branch >= 450 else []

    for version in versions:
        rows = nvml.ask({"call": f"nvmlDeviceGetComputeRunningProcesses{version}", "arguments": [card]})
        assert [(row["pid"], row["usedGpuMemory"]) for row in rows] == [(pid, pid * MIB) for pid in range(1, count + 1)]
        assert {row.get("gpuInstanceId", 0xFFFFFFFF) for row in rows} <= {0xFFFFFFFF}
        assert nvml.ask({"call": f"nvmlDeviceGetComputeRunningProcesses{version}", "arguments": [other]}) == []
        assert nvml.ask({"call": f"nvmlDeviceGetGraphicsRunningProcesses{version}", "arguments": [card]}) == []
    if count:
        assert nvml.nvmlSystemGetProcessName(count) == f"player-{count}"
    assert nvml.code("nvmlSystemGetProcessName", 4711) == 6


def test_a_size_query_answers_the_count(nvml: Probed, state: State, branch: int) -> None:
    """A call without an array returns the number of processes."""
    (card, *_) = cards(nvml)
    for pid in (1, 2, 3):
        state.add_process(state.cards()[0].uuid, pid, 1, "player")
    name = "nvmlDeviceGetComputeRunningProcesses" + ("_v3" if branch >= 510 else "_v2" if branch >= 450 else "")

    assert nvml.raw(name, card, {"out": 0}, None) == (INSUFFICIENT_SIZE, [3])
    assert nvml.raw(name, card, {"out": 2}, {"array": 2}) == (INSUFFICIENT_SIZE, [3, [0, 0]])
    if branch >= 450:  # the first struct is no more in pynvml, which has this array
        assert nvml.raw(name, card, {"out": 4}, {"array": 4}) == (0, [3, [1, 2, 3, 0]])


def test_the_driver_decides_which_functions_there_are(nvml: Probed, branch: int) -> None:
    """Each function exists from its driver on."""
    since = {
        "nvmlDeviceGetComputeRunningProcesses": 0,
        "nvmlEventSetWait_v2": 450,
        "nvmlDeviceGetComputeRunningProcesses_v2": 450,
        "nvmlDeviceGetMigMode": 450,
        "nvmlDeviceSetFanSpeed_v2": 515,
        "nvmlDeviceGetNumaNodeId": 550,
        "nvmlDeviceGetComputeRunningProcesses_v3": 510,
        "nvmlDeviceGetMemoryInfo_v2": 510,
        "nvmlDeviceGetTemperatureV": 570,
        "nvmlEventSetWait_v3": 615,
    }

    assert {name: nvml.has(name) for name in since} == {name: branch >= first for name, first in since.items()}


def test_todays_process_list_raises_on_an_old_driver(nvml: Probed, branch: int, layer: Layer) -> None:
    """The trap under callers: with a new pynvml it is no NVMLError."""
    (card, *_) = cards(nvml)
    if branch >= 510:
        assert nvml.nvmlDeviceGetComputeRunningProcesses(card) == []
        return

    with pytest.raises(CallError) as caught:
        nvml.nvmlDeviceGetComputeRunningProcesses(card)

    assert caught.value.name == ("NVMLError_FunctionNotFound" if layer.pynvml else "NVMLLibraryMismatchError")


def test_topology_is_the_boxs(nvml: Probed, state: State, branch: int) -> None:
    """The NUMA node is the one of the box, and there is no NVLink."""
    (card, *_) = cards(nvml)

    assert nvml.code("nvmlDeviceGetNvLinkState", card, 0) == NOT_SUPPORTED
    if branch >= 455:
        numa = state.cards()[0].numa
        expected = NOT_SUPPORTED if numa is None else 0
        assert nvml.code("nvmlDeviceGetMemoryAffinity", card, 2, 0) == expected


def test_a_lost_card_keeps_its_index_and_answers_nothing(nvml: Probed, state: State) -> None:
    """Once repaired, its old handle works again."""
    before, other, _ = cards(nvml)
    state.lose(state.cards()[0].uuid)

    assert nvml.nvmlDeviceGetCount() == 3
    assert nvml.code("nvmlDeviceGetHandleByIndex", 0) == GPU_IS_LOST
    assert nvml.code("nvmlDeviceGetHandleByUUID", state.cards()[0].uuid) == GPU_IS_LOST
    assert nvml.code("nvmlDeviceGetUUID", before) == GPU_IS_LOST
    assert nvml.nvmlDeviceGetIndex(other) == 1

    state.repair(state.cards()[0].uuid)
    assert nvml.nvmlDeviceGetIndex(before) == 0


def test_a_removed_card_is_lost_until_init_and_then_not_listed(nvml: Probed, state: State) -> None:
    """The others move up with the next init."""
    first, second, third = cards(nvml)
    uuids = [card.uuid for card in state.cards()]
    state.remove_card(uuids[1])

    assert nvml.nvmlDeviceGetCount() == 3
    assert nvml.code("nvmlDeviceGetName", second) == GPU_IS_LOST
    assert [nvml.nvmlDeviceGetIndex(card) for card in (first, third)] == [0, 2]

    nvml.nvmlShutdown()
    nvml.nvmlInit()
    assert [nvml.nvmlDeviceGetUUID(card) for card in cards(nvml)] == [uuids[0], uuids[2]]
    assert cards(nvml) == [first, third]
    assert [nvml.nvmlDeviceGetIndex(card) for card in (first, third)] == [0, 1]
    assert nvml.code("nvmlDeviceGetName", second) == 2


def test_an_added_card_is_seen_after_init(nvml: Probed, state: State) -> None:
    """A session does not learn of a card that came later."""
    state.add_card("t4")

    assert nvml.nvmlDeviceGetCount() == 3
    assert nvml.code("nvmlDeviceGetHandleByUUID", state.cards()[3].uuid) == 6

    nvml.nvmlShutdown()
    nvml.nvmlInit()
    assert [nvml.nvmlDeviceGetUUID(card) for card in cards(nvml)] == [card.uuid for card in state.cards()]


def test_another_card_in_the_slot_is_another_card(nvml: Probed, state: State) -> None:
    """The handle of the former card is lost."""
    before = cards(nvml)[0]
    new = state.change_uuid(state.cards()[0].uuid)

    assert nvml.code("nvmlDeviceGetUUID", before) == GPU_IS_LOST
    nvml.nvmlShutdown()
    nvml.nvmlInit()
    assert nvml.nvmlDeviceGetUUID(cards(nvml)[0]) == new


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


def test_what_happened_survives_a_new_init(nvml: Probed, state: State) -> None:
    """Losses and values are in the state file, not in the session."""
    uuid = state.cards()[1].uuid
    state.set_value(uuid, "temperature", "77")
    state.lose(state.cards()[0].uuid)
    nvml.nvmlShutdown()
    nvml.nvmlInit()

    assert nvml.code("nvmlDeviceGetHandleByIndex", 0) == GPU_IS_LOST
    assert nvml.nvmlDeviceGetTemperature(nvml.nvmlDeviceGetHandleByIndex(1), 0) == 77


def test_without_a_state_file_there_is_no_driver(nvml: Probed, state: State) -> None:
    """The library answers nvmlInit with DRIVER_NOT_LOADED if its state file is missing."""
    nvml.reset()
    state.path.unlink()

    assert nvml.code("nvmlInit") == 9


@pytest.mark.parametrize("damage", [b"", b"FAKENVML\x7f"], ids=["empty", "another version"])
def test_a_state_file_of_another_version_is_a_version_mismatch(nvml: Probed, state: State, damage: bytes) -> None:
    """An empty file is one, too."""
    nvml.reset()
    state.path.write_bytes(damage)

    assert nvml.code("nvmlInit") == 18


def test_after_a_writer_died_half_way_reads_go_on(nvml: Probed, state: State) -> None:
    """A reader does not wait for a writer that was killed."""
    (card, *_) = cards(nvml)
    with state.mapped.writing() as content:
        content.header.sequence -= 1  # even now, so odd at the end: as a writer leaves it that is killed

    assert state.read().header.sequence % 2 == 1
    assert nvml.nvmlDeviceGetTemperature(card, 0) == state.cards()[0].temperature


def test_a_reader_never_sees_half_a_write(nvml: Probed, state: State, layer: Layer) -> None:
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
    times = 100 if layer.kind == "python" else 1000  # a thousandth of the speed, and copies everything each time
    nvml.send({"distinct": ["nvmlDeviceGetMemoryInfo", [card], times]})

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


def ends(nvml: Probed, card: dict[str, int], links: int) -> list[str | None]:
    """The address at the other end of each link, None for a link that is not active."""
    active = [nvml.nvmlDeviceGetNvLinkState(card, link) for link in range(links)]
    return [
        nvml.nvmlDeviceGetNvLinkRemotePciInfo(card, link)["busId"] if active[link] else None for link in range(links)
    ]


def test_links_lead_to_the_other_cards(nvml: Probed, state: State, layer: Layer, branch: int, tmp_path: Path) -> None:
    """Each of the three others has two of six links; those to a card that is taken away are not active."""
    one, *others = other_box(nvml, state, "{model: v100-sxm2-16gb, count: 4}, {model: t4}", tmp_path, layer)
    addresses = [card.bus_id for card in state.cards()[1:4]]

    assert ends(nvml, one, 6) == addresses * 2
    assert ends(nvml, others[2], 2) == [state.cards()[0].bus_id, addresses[0]]
    if branch >= 470:
        assert nvml.nvmlDeviceGetNvLinkRemoteDeviceType(one, 0) == 0
    assert [nvml.nvmlDeviceGetNvLinkCapability(one, 0, asked) for asked in range(6)] == [1, 1, 1, 1, 0, 0]
    assert nvml.code("nvmlDeviceGetNvLinkCapability", one, 0, 6) == INVALID_ARGUMENT
    for name in ("State", "RemotePciInfo"):
        assert nvml.code(f"nvmlDeviceGetNvLink{name}", one, 6) == INVALID_ARGUMENT
        assert nvml.code(f"nvmlDeviceGetNvLink{name}", others[3], 0) == NOT_SUPPORTED
    assert [nvml.nvmlDeviceGetP2PStatus(one, others[0], index) for index in range(5)] == [0] * 5
    assert [nvml.nvmlDeviceGetP2PStatus(one, others[3], index) for index in range(5)] == [0, 0, 5, 5, 0]
    assert nvml.code("nvmlDeviceGetP2PStatus", one, one, 0) == INVALID_ARGUMENT
    assert nvml.code("nvmlDeviceGetP2PStatus", one, others[0], 5) == INVALID_ARGUMENT
    state.remove_card(state.cards()[1].uuid)
    assert ends(nvml, one, 3) == [None, *addresses[1:]]
    assert nvml.code("nvmlDeviceGetNvLinkRemotePciInfo", one, 0) == NOT_SUPPORTED


@pytest.mark.parametrize("layer", [one for one in SIMULATED if one.branch >= 535 and one.kind != "sanitized"], ids=str)
def test_links_lead_to_switches(nvml: Probed, state: State, layer: Layer, tmp_path: Path) -> None:
    """Every card of an HGX reaches every other, and the links of each are spread over the switches."""
    one, other, bare = other_box(nvml, state, "{model: h100-sxm5-80gb, count: 2}, {model: l4}", tmp_path, layer)

    assert ends(nvml, one, 18) == ends(nvml, other, 18)
    assert len({*ends(nvml, one, 18)}) == 4
    assert nvml.nvmlDeviceGetNvLinkRemoteDeviceType(one, 0) == 2
    assert [nvml.nvmlDeviceGetNvLinkCapability(one, 0, asked) for asked in range(6)] == [1] * 6
    assert [nvml.nvmlDeviceGetP2PStatus(one, with_it, 2) for with_it in (other, bare)] == [0, 5]


def test_cards_for_games_are_no_peers_over_pcie(nvml: Probed) -> None:
    """The driver reports it as the fault of the chipset."""
    first, second, geforce = cards(nvml)

    assert [nvml.nvmlDeviceGetP2PStatus(first, other, 0) for other in (second, geforce)] == [0, 1]


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


def test_texts_of_codes_are_as_old_as_the_driver(nvml: Probed, branch: int) -> None:
    """A text that a driver of that age did not have is unknown to it."""
    texts = {
        16: (0, "GPU requires reset"),
        23: (450, "Insufficient Resources"),
        24: (470, "Invalid Frequency"),
        25: (525, "Argument version mismatch"),
        27: (535, "System is not in ready state"),
        29: (550, "Resource not in correct state to perform requested operation"),
        30: (10_000, ""),
    }

    assert {code: nvml.nvmlErrorString(code) for code in texts} == {
        code: text if branch >= since else "Unknown Error" for code, (since, text) in texts.items()
    }


@pytest.mark.parametrize("has_failed", [False, True])
def test_before_init_it_answers_as_a_real_library(nvml: Probed, state: State, branch: int, has_failed: bool) -> None:
    """Measured on real libraries without a driver: shutdown succeeds, and from 535 on the version is known."""
    nvml.reset()
    if has_failed:
        state.set_init_return(9)
        assert nvml.code("nvmlInit") == 9

    assert nvml.raw("nvmlShutdown") == (0, [])
    code, (version,) = nvml.raw("nvmlSystemGetNVMLVersion", {"buffer": 80}, {"uint": 80})
    assert (code, version.endswith(state.driver())) == ((0, True) if branch >= 535 else (1, False))
    for name in ("nvmlSystemGetDriverVersion", "nvmlDeviceGetVbiosVersion", "nvmlDeviceGetCount_v2"):
        assert nvml.raw(name, {"buffer": 80}, {"uint": 80})[0] == 1
