"""Changes of simulated cards: what is refused, and what a change leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fake_nvml.box import Box
from fake_nvml.core.answers import FUNCTIONS
from fake_nvml.core.call_faults import CallFault, parse_code
from fake_nvml.core.layout import CARDS, FAULTS, PROCESSES
from fake_nvml.core.returns import DOES_NOTHING
from fake_nvml.core.values import KEYS
from fake_nvml.fake_nvml_errors import CardFullError, CatalogueError, StateError
from fake_nvml.state import State


def test_a_full_card_refuses_and_says_what_is_free(state_path: Path) -> None:
    """The error of a full card names the free memory, without what the driver keeps, and the card is not changed."""
    with State.create(state_path, Box.load("t4x1", seed="node", driver="535.104.05")) as state:
        (card,) = state.cards()
        assert (card.total_mib, card.reserved_mib, card.used_mib) == (15360, 393, 0)
        state.add_process(card.uuid, 100, 14000, "player")
        state.add_process(card.uuid, 100, 14900, "player")

        with pytest.raises(CardFullError, match="67 MiB free; process 101 asks for 68 MiB"):
            state.add_process(card.uuid, 101, 68, "player")

        assert (state.cards()[0].used_mib, state.read().header.process_rows) == (14900, 1)
    # A card that shares the processor's memory has room for any amount.
    with State.create(state_path, Box.load("gb10", seed="node")) as state:
        state.add_process(state.cards()[0].uuid, 100, 10_000_000, "player")
        assert (state.cards()[0].total_mib, state.cards()[0].used_mib) == (0, 10_000_000)


def test_a_value_that_is_set_is_answered_from_then_on(state_path: Path) -> None:
    """A value that the card did not answer can be given to it."""
    with State.create(state_path, Box.load("vgpu", seed="node-1")) as state:
        assert state.cards()[0].temperature is None
        state.set_value(state.cards()[0].uuid, "temperature", "70")
        assert state.cards()[0].temperature == 70


def test_a_full_process_table_refuses_and_keeps_all(state: State) -> None:
    """The row of an ended process is free."""
    uuid = state.cards()[0].uuid
    for pid in range(1, PROCESSES + 1):
        state.add_process(uuid, pid, 1, "player")

    with pytest.raises(StateError, match="^no room for another process: 1024 are there; remove some$"):
        state.add_process(uuid, PROCESSES + 1, 1, "player")

    assert len(state.cards()[0].processes) == PROCESSES
    assert state.remove_process(uuid, 7)
    assert not state.remove_process(uuid, 7)
    state.add_process(uuid, PROCESSES + 1, 1, "player")


def test_memory_used_is_the_whole_with_the_processes(state: State) -> None:
    """The memory in use cannot be less than the processes use, or more than there is."""
    uuid = state.cards()[0].uuid
    state.add_process(uuid, 100, 1000, "player")

    text = r"^memory-used goes from 1000 \(its processes\) to 15079 MiB, not"
    for used in ("999", "15080"):
        with pytest.raises(StateError, match=f"{text} {used}$"):
            state.set_value(uuid, "memory-used", used)
    for used in ("1000", "15079"):
        state.set_value(uuid, "memory-used", used)
        assert state.cards()[0].used_mib == int(used)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("colour", "red", "^no key 'colour'; there are memory-used, utilization, .*, recovery-action$"),
        ("utilization", "101", r"^utilization is a whole number from 0 to 100 \(percent of .*\), not '101'$"),
        ("utilization", "\u0663", "whole number"),
        ("state", "unhealthy", "^state is healthy or lost, not 'unhealthy'$"),
        ("mig", "on", "^Tesla T4 has no mig$"),
        ("recovery-action", "8", "0 to 7"),
        *(("uuid", uuid, f"^{uuid!r} is no card's UUID; it begins with GPU-, then") for uuid in ("", "GPU-a b", "MIG-1")),
        ("uuid", "GPU-053e9c12-f5b9-5425-7d5e-aaa8139986fe", "has the UUID .* already; choose another"),
    ],
)  # fmt: skip
def test_a_value_that_makes_no_sense_is_refused(state: State, key: str, value: str, says: str) -> None:
    """A value that makes no sense is refused, and no card is changed."""
    before = state.cards()

    with pytest.raises(StateError, match=says):
        state.set_value(before[0].uuid, key, value)

    assert state.cards() == before


def test_every_key_takes_its_largest_value(state_path: Path) -> None:
    """On a card with ECC and MIG, and on one with a fan."""
    offered: set[str] = set()
    for box in ("a100x8", "gtx1080tix1"):
        with State.create(state_path, Box.load(box, seed="node")) as state:
            for name in [name for name, key in KEYS.items() if key.offered(state.read().cards[0])]:
                key = KEYS[name]
                value = next(iter(key.words)) if key.words else "0" if name == "memory-used" else str(key.most)
                state.set_value(state.cards()[0].uuid, name, value)
                offered.add(name)
    assert offered == KEYS.keys()


def test_another_card_has_nothing_of_the_one_before(state: State) -> None:
    """A card that comes takes the lowest free slot; processes, faults and events of its slot are not its own."""
    first, second, third = (card.uuid for card in state.cards())
    for uuid in (first, second):
        state.add_process(uuid, 100, 500, "a" * 62 + "\udcff\xfc")
        state.add_fault("nvmlDeviceGetName", card=uuid, code=999)
        state.post_xid(uuid, 48, lose=True)
    assert state.cards()[0].processes[0].name == "a" * 62 + "?"
    state.remove_card(second)

    new = state.add_card("t4", numa=1)
    swapped = state.change_uuid(first)
    assert state.add_card("gtx1080ti", uuid="GPU-mine") == "GPU-mine"
    state.change_uuid(third, "GPU-other")

    assert [card.uuid for card in state.cards()] == [swapped, new, "GPU-other", "GPU-mine"]
    shown = [(card.processes, card.lost, card.ecc_uncorrected, card.recovery_action) for card in state.cards()]
    assert (shown, state.faults()) == ([((), False, 0, 0)] * 4, [])
    assert (state.cards()[1].name, state.cards()[1].numa) == ("Tesla T4", 1)
    assert [len(card.serial) for card in state.cards()] == [13, 13, 0, 0]
    assert [card.first_event for card in state.read().cards[:4]] == [2] * 4
    for uuid in ("GPU-mine", "GPU-other"):
        state.remove_card(uuid)
    assert state.read().header.card_count == 2


def test_no_card_ever_gets_the_uuid_of_one_before(state: State, tmp_path: Path) -> None:
    """Twenty added and twenty exchanged cards have forty UUIDs, and the cards of another node have others."""
    uuids = set()
    for _ in range(20):
        uuid = state.add_card("t4")
        uuids.add(uuid)
        state.remove_card(uuid)
        uuids.add(state.change_uuid(state.cards()[0].uuid))
    with State.create(tmp_path / "other", Box.load("mixed", seed="node-2")) as other:
        uuids.add(other.add_card("t4"))

    assert len(uuids) == 41


def test_a_card_that_cannot_be_added_is_refused(state: State) -> None:
    """A driver that does not know it, a name of no model, and a full box leave the cards as they are."""
    with pytest.raises(CatalogueError, match="needs 550 or newer"):
        state.add_card("h200")
    with pytest.raises(CatalogueError, match="no card 't9' in the catalogue"):
        state.add_card("t9")
    for _ in range(CARDS - 3):
        state.add_card("t4")
    before = state.cards()
    with pytest.raises(StateError, match="^no room for another card: 64 are there; remove one$"):
        state.add_card("t4")

    assert (len(before), state.cards()) == (CARDS, before)


@pytest.mark.parametrize("still_lost", [False, True])
def test_a_reboot_leaves_the_cards_and_nothing_of_what_happened(state: State, still_lost: bool) -> None:
    """Values, processes and faults are gone; a broken card may stay lost."""
    before, generation = state.cards(), state.read().header.generation
    state.add_process(before[0].uuid, 100, 500, "player")
    state.set_value(before[1].uuid, "memory-used", "100")
    state.post_xid(before[0].uuid, 95)
    state.lose(before[2].uuid)
    state.add_fault("nvmlDeviceGet*", seconds=5)
    state.set_device_file("nvidia-uvm", missing=True)
    state.set_init_return(9)

    state.reboot(still_lost=still_lost)

    assert [card.lost for card in state.cards()] == [False, False, still_lost]
    state.repair(before[2].uuid)
    assert (state.cards(), state.faults()) == (before, [])
    header = state.read().header
    assert (header.init_return, header.missing_files, header.generation) == (0, 0, generation + 1)


@pytest.mark.parametrize(
    ("xid", "corrected", "uncorrected", "action"),
    [(31, 0, 0, 0), (48, 0, 1, 1), (79, 0, 0, 2), (92, 16, 0, 0), (7777, 0, 0, 0)],
)
def test_an_xid_leaves_what_its_row_says(state: State, xid: int, corrected: int, uncorrected: int, action: int) -> None:
    """ECC errors add up, a lesser advice does not take back a greater; a card without ECC has the advice alone."""
    for card in state.cards() * 2:
        state.post_xid(card.uuid, xid)
        state.post_xid(card.uuid, 43)

    left = [(card.ecc_corrected, card.ecc_uncorrected, card.recovery_action, card.lost) for card in state.cards()]
    assert left == [(2 * corrected, 2 * uncorrected, action, False)] * 2 + [(0, 0, action, False)]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda state, uuid: state.add_process(uuid, 0, 1, "player"), "a pid is from 1"),
        (lambda state, uuid: state.add_process(uuid, 1, -1, "player"), "memory from 0"),
        (lambda state, uuid: state.post_xid(uuid, 0), "Xids are numbers from 1 on"),
        (lambda state, uuid: state.set_init_return(-1), "return codes are numbers"),
        (lambda state, uuid: state.set_device_file("sda", missing=True), "one of nvidia-uvm$"),
        (lambda state, uuid: state.add_process("\udcff", 1, 1, "player"), "no card"),
        (lambda state, uuid: state.remove_process("GPU-no", 1), "no card"),
        (lambda state, uuid: state.set_value("GPU-no", "utilization", "1"), "no card"),
        (lambda state, uuid: state.add_fault("nvmlInit", card="GPU-no", code=9), "no card"),
    ],
)
def test_a_change_that_is_refused_changes_nothing(state: State, change: Callable[..., object], says: str) -> None:
    """A number outside of its range, and a card that is not there."""
    before = state.cards()

    with pytest.raises(StateError, match=says):
        change(state, before[0].uuid)

    assert (state.cards(), state.faults()) == (before, [])


def test_device_files_are_those_of_the_given_cards(state: State) -> None:
    """A container has the file of each of its cards and the shared ones; without a card it has none."""
    first, second, _ = (card.uuid for card in state.cards())

    assert state.device_files([second]) == ["nvidia-uvm", "nvidia-uvm-tools", "nvidiactl", "nvidia1"]
    assert state.device_files([]) == []
    state.set_device_file("nvidia-uvm", missing=True)
    assert state.device_files([first]) == ["nvidiactl", "nvidia0"]
    state.set_device_file("nvidia-uvm", missing=False)
    assert len(state.device_files([first])) == 4


def test_faults_are_listed_as_they_were_asked_for(state: State) -> None:
    """In the order in which they were added; one of the same function and card replaces the earlier one."""
    card = state.cards()[1].uuid
    state.add_fault("nvmlDeviceGetMemoryInfo", card=card, seconds=5)
    state.add_fault("nvmlDeviceGet*", code=4)
    state.add_fault("nvmlDeviceGet*", code=999, count=3)

    assert state.faults() == [
        CallFault("nvmlDeviceGetMemoryInfo", card, 0, 5.0, None),
        CallFault("nvmlDeviceGet*", None, 999, 0.0, 3),
    ]
    assert (state.clear_faults(), state.clear_faults(), state.faults()) == (2, 0, [])


def test_a_full_table_of_faults_takes_a_worn_row(state: State) -> None:
    """The row of a used fault is free."""
    for name in sorted(FUNCTIONS - {"nvmlErrorString", "nvmlInit"})[:FAULTS]:
        state.add_fault(name, code=999)

    with pytest.raises(StateError, match="^no room for another fault: 64 are there; fake-nvml faults clear$"):
        state.add_fault("nvmlInit", code=9)

    with state.mapped.writing() as content:
        content.faults[7].count = 0
    state.add_fault("nvmlInit", code=9)
    assert state.faults()[7].function == "nvmlInit"


@pytest.mark.parametrize(
    ("function", "more", "says"),
    [
        ("nvmlDeviceGetNam", {"code": 9}, "^no function .* that cards answer; is it nvmlDeviceGetName( or nvml\\w+){1,2}\\?$"),
        ("nvmlFoo*", {"code": 9}, r"^no function 'nvmlFoo\*' that cards answer$"),
        ("Init", {"code": 9}, r"^'Init' is no function; write C's name, as nvmlDeviceGetMemoryInfo, or a beginning and \*$"),
        ("nvmlErrorString", {"code": 9}, "^no function"),
        ("nvmlInit", {}, "^a fault needs a return code or a delay$"),
        ("nvmlInit", {"code": -1}, "^return codes are numbers from 1 on, not -1$"),
        ("nvmlInit", {"seconds": float("nan")}, "slow by 0 to 86400 seconds"),
        ("nvmlInit", {"code": 9, "count": 0}, "^a fault happens 1 to 4294967294 times, not 0; without a count for ever$"),
    ],
    ids=str,
)  # fmt: skip
def test_a_fault_that_makes_no_sense_is_refused(state: State, function: str, more: dict[str, Any], says: str) -> None:
    """A misspelt name gets the nearest one as advice; code, delay and count have their ranges."""
    with pytest.raises(StateError, match=says):
        state.add_fault(function, **more)

    assert state.faults() == []


@pytest.mark.parametrize(
    ("text", "code"),
    [("15", 15), ("gpu-is-lost", 15), ("NVML_ERROR_UNKNOWN", 999), ("12345", 12345), ("success", DOES_NOTHING)],
)
def test_a_code_is_a_number_or_a_name(text: str, code: int) -> None:
    """Names may be written as NVML, short, or with hyphens; the error for another text lists them, without that of success."""
    assert parse_code(text) == code
    names = "UNINITIALIZED, .*GPU_IS_LOST, .*UNKNOWN"
    for wrong in ("0", "-1", "", "LOST", "1.5", "2147483648", "\u0663"):
        with pytest.raises(StateError, match=f"^no return code {wrong!r}; a number from 1 on, or one of {names}$"):
            parse_code(wrong)
