"""Changes of simulated cards."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_nvml.box import Box
from fake_nvml.core.card_changes import made_serial
from fake_nvml.core.layout import CARDS, PROCESSES
from fake_nvml.core.values import KEYS
from fake_nvml.fake_nvml_errors import CardFullError, CatalogueError, StateError
from fake_nvml.state import State


def test_a_new_state_shows_the_box_idle(state: State) -> None:
    """Names, totals and UUIDs are the box's; a GeForce has no serial number."""
    cards = state.cards()
    assert [card.name for card in cards] == ["Tesla T4", "Tesla T4", "GeForce GTX 1080 Ti"]
    assert [card.total_mib for card in cards] == [15079, 15079, 11178]
    assert [card.index for card in cards] == [0, 1, 2]
    assert [bool(card.serial) for card in cards] == [True, True, False]
    assert {card.used_mib for card in cards} == {0}
    assert {card.processes for card in cards} == {()}
    assert [card.uuid for card in cards] == [card.uuid for card in Box.load("mixed", seed="node-1").cards]


def test_a_full_card_refuses_and_says_what_is_free(state: State) -> None:
    """The error of a full card names the free memory, and the card is not changed."""
    uuid = state.cards()[2].uuid
    state.add_process(uuid, 100, 11000, "player")

    with pytest.raises(CardFullError, match="178 MiB free; process 101 asks for 179 MiB"):
        state.add_process(uuid, 101, 179, "player")

    assert state.cards()[2].used_mib == 11000
    assert state.read().header.process_rows == 1


def test_what_the_driver_keeps_is_not_free(state_path: Path) -> None:
    """Reserved memory cannot be given to a process."""
    with State.create(state_path, Box.load("t4x1", seed="node", driver="535.104.05")) as state:
        (card,) = state.cards()
        assert (card.total_mib, card.reserved_mib, card.used_mib) == (15360, 393, 0)

        with pytest.raises(CardFullError, match="14967 MiB free"):
            state.add_process(card.uuid, 100, 14968, "player")


@pytest.mark.parametrize("name", ["", "x" * 63, "x" * 64, "ü" * 40, "\udcff", "a\nb"])
def test_any_name_of_a_process_fits(state: State, name: str) -> None:
    """The name of a process is cut at a whole character."""
    uuid = state.cards()[0].uuid

    state.add_process(uuid, 100, 1, name)

    shown = state.cards()[0].processes[0].name
    assert shown == name.encode(errors="replace")[:63].decode(errors="ignore")


def test_a_full_process_table_refuses_and_keeps_all(state: State) -> None:
    """The row of an ended process is free."""
    uuid = state.cards()[0].uuid
    for pid in range(1, PROCESSES + 1):
        state.add_process(uuid, pid, 1, "player")

    with pytest.raises(StateError, match="^no room for another process: 1024 are there; remove some$"):
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
        ("recovery-action", "node-reboot", "recovery_action", 2),
        ("recovery-action", "2", "recovery_action", 2),
    ],
)
def test_a_value_that_is_set_is_the_cards(state: State, key: str, value: str, field: str, expected: object) -> None:
    """The other cards keep theirs."""
    state.set_value(state.cards()[0].uuid, key, value)

    assert getattr(state.cards()[0], field) == expected
    assert getattr(state.cards()[1], field) != expected


def test_memory_used_is_the_whole_with_the_processes(state: State) -> None:
    """The memory in use cannot be less than the processes use, or more than there is."""
    uuid = state.cards()[0].uuid
    state.add_process(uuid, 100, 1000, "player")

    state.set_value(uuid, "memory-used", "1500")
    assert state.cards()[0].used_mib == 1500

    text = r"^memory-used goes from 1000 \(its processes\) to 15079 MiB, not"
    with pytest.raises(StateError, match=f"{text} 999$"):
        state.set_value(uuid, "memory-used", "999")
    with pytest.raises(StateError, match=f"{text} 15080$"):
        state.set_value(uuid, "memory-used", "15080")
    for used in (1000, 15079):
        state.set_value(uuid, "memory-used", str(used))
        assert state.cards()[0].used_mib == used


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("colour", "red", "^no key 'colour'; there are memory-used, utilization, .*, recovery-action$"),
        ("utilization", "101", r"^utilization is a whole number from 0 to 100 \(percent of .*\), not '101'$"),
        ("utilization", "-1", "whole number"),
        ("utilization", "1.5", "whole number"),
        ("utilization", "\u0663", "whole number"),
        ("state", "ill", "^state is healthy or lost, not 'ill'$"),
        ("state", "1", "healthy or lost, not '1'"),
        ("recovery-action", "reset", "none, gpu-reset"),
        ("mig", "on", "^Tesla T4 has no mig$"),
        ("recovery-action", "8", "0 to 7"),
    ],
)
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


def test_a_new_box_in_the_same_file_replaces_the_old_for_all(state: State, state_path: Path) -> None:
    """A state that is open shows the new cards."""
    state.add_process(state.cards()[0].uuid, 100, 1, "player")

    State.create(state_path, Box.load("t4x1", seed="node-2", driver="535.104.05")).close()

    (card,) = state.cards()
    assert (card.total_mib, card.processes, state.driver()) == (15360, (), "535.104.05")


def test_a_closed_state_says_so(state: State) -> None:
    """Closing it twice is no error."""
    state.close()
    state.close()

    with pytest.raises(StateError, match="closed"):
        state.cards()


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5), st.integers(-1, 9000)), max_size=30))
def test_used_memory_is_that_of_the_processes_within_the_card(
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


def test_a_lost_card_keeps_its_place_until_it_is_repaired(state: State) -> None:
    """The repair takes the advice away, too."""
    first, second, third = (card.uuid for card in state.cards())
    state.set_value(second, "recovery-action", "gpu-reset")

    state.lose(second)
    assert [(card.index, card.uuid, card.lost) for card in state.cards()] == [
        (0, first, False), (1, second, True), (2, third, False),
    ]  # fmt: skip

    state.repair(second)
    assert [(card.lost, card.recovery_action) for card in state.cards()] == [(False, 0)] * 3


def test_pulled_card_leaves_its_slot_with_processes_and_faults(state: State) -> None:
    """The other cards move up in the list, not in the file."""
    first, second, third = (card.uuid for card in state.cards())
    for uuid in (first, second):
        state.add_process(uuid, 100, 500, "player")
        state.add_fault("nvmlDeviceGetName", card=uuid, code=999)

    state.remove_card(first)

    assert [(card.index, card.uuid, card.used_mib) for card in state.cards()] == [(0, second, 500), (1, third, 0)]
    assert [fault.card for fault in state.faults()] == [second]
    content = state.read()
    assert (content.header.card_count, content.cards[0].uuid, content.cards[1].uuid) == (3, b"", second.encode())


def test_the_last_slot_is_given_back(state: State) -> None:
    """The count of cards ends at the last card, in whatever order the cards are pulled."""
    first, second, third = (card.uuid for card in state.cards())

    state.remove_card(second)
    state.remove_card(third)
    assert state.read().header.card_count == 1

    state.remove_card(first)
    assert (state.read().header.card_count, state.cards()) == (0, [])


def test_a_card_that_is_plugged_in_takes_the_lowest_free_slot(state: State) -> None:
    """Events from before it came are not its own."""
    first, second, third = (card.uuid for card in state.cards())
    state.remove_card(second)
    state.post_xid(first, 31)

    new = state.add_card("t4", numa=1)
    newer = state.add_card("gtx1080ti", uuid="GPU-mine")

    assert [card.uuid for card in state.cards()] == [first, new, third, "GPU-mine"]
    assert (newer, len({first, second, third, new})) == ("GPU-mine", 4)
    card = state.cards()[1]
    assert (card.name, card.total_mib, card.numa, bool(card.serial)) == ("Tesla T4", 15079, 1, True)
    assert state.cards()[3].serial == ""
    assert [state.read().cards[slot].first_event for slot in (0, 1)] == [0, 1]


def test_no_card_ever_gets_the_uuid_of_one_before(state: State) -> None:
    """Twenty added and twenty exchanged cards have forty UUIDs."""
    uuids = set()
    for _ in range(20):
        uuid = state.add_card("t4")
        uuids.add(uuid)
        state.remove_card(uuid)
        uuids.add(state.change_uuid(state.cards()[0].uuid))

    assert len(uuids) == 40


def test_new_cards_of_two_nodes_are_two_cards(tmp_path: Path) -> None:
    """The seed of the first card tells the nodes apart."""
    uuids = set()
    for seed in ("node-1", "node-2"):
        with State.create(tmp_path / seed / "state", Box.load("t4x1", seed=seed)) as state:
            uuids.add(state.add_card("t4"))

    assert len(uuids) == 2


def test_a_full_box_refuses_another_card(state: State) -> None:
    """A full box refuses another card, and no card is changed."""
    for _ in range(CARDS - 3):
        state.add_card("t4")
    before = state.cards()

    with pytest.raises(StateError, match="^no room for another card: 64 are there; remove one$"):
        state.add_card("t4")

    assert state.cards() == before


def test_a_card_that_the_driver_does_not_know_is_refused(state: State) -> None:
    """The error names the driver that the card needs."""
    before = bytes(state.read())

    with pytest.raises(CatalogueError, match="needs 550 or newer"):
        state.add_card("h200")
    with pytest.raises(CatalogueError, match="no card 't9' in the catalogue"):
        state.add_card("t9")

    assert state.cards()[-1].index == 2
    assert len(bytes(state.read())) == len(before)


@pytest.mark.parametrize("uuid", ["", "GPU-", "card", "GPU-a b", "GPU-" + "a" * 81, "GPU-ü", "MIG-1"])
def test_what_can_be_no_uuid_is_refused(state: State, uuid: str) -> None:
    """The card keeps its own."""
    known = state.cards()[0].uuid

    text = "is no card's UUID; it begins with GPU-, then letters, digits and dashes"
    with pytest.raises(StateError, match=f"^{uuid!r} {text}$"):
        state.set_value(known, "uuid", uuid)

    assert state.cards()[0].uuid == known


def test_no_two_cards_have_one_uuid(state: State) -> None:
    """The UUID of one card is refused to another one, by a change and for a new card."""
    first, second, _ = (card.uuid for card in state.cards())

    with pytest.raises(StateError, match="already"):
        state.change_uuid(first, second)
    with pytest.raises(StateError, match="already"):
        state.add_card("t4", uuid=first)


def test_a_swapped_card_is_idle_healthy_and_another(state: State) -> None:
    """The new card has the model and the place of the former one, and no serial number if that had none."""
    before = state.cards()[0]
    state.add_process(before.uuid, 100, 500, "player")
    state.post_xid(before.uuid, 48, lose=True)

    new = state.change_uuid(before.uuid)

    after = state.cards()[0]
    assert (after.uuid, after.processes, after.used_mib, after.lost) == (new, (), 0, False)
    assert (after.ecc_uncorrected, after.recovery_action) == (0, 0)
    assert after.serial not in ("", before.serial)
    assert after.serial == made_serial(new)
    assert state.read().cards[0].first_event == 1
    assert (after.name, after.total_mib, after.bus_id) == (before.name, before.total_mib, before.bus_id)
    state.change_uuid(state.cards()[2].uuid)
    assert state.cards()[2].serial == ""


@pytest.mark.parametrize("still_lost", [False, True])
def test_a_reboot_leaves_the_cards_and_nothing_of_what_happened(state: State, still_lost: bool) -> None:
    """Values, processes and faults are gone; a broken card may stay lost."""
    before, generation = state.cards(), state.read().header.generation
    state.add_process(before[0].uuid, 100, 500, "player")
    state.set_value(before[1].uuid, "memory-used", "100")
    state.post_xid(before[0].uuid, 95)
    state.lose(before[2].uuid)
    state.add_fault("nvmlDeviceGet*", seconds=5)
    state.set_init_return(9)

    state.reboot(still_lost=still_lost)

    assert [card.lost for card in state.cards()] == [False, False, still_lost]
    state.repair(before[2].uuid)
    assert (state.cards(), state.faults()) == (before, [])
    content = state.read()
    header = content.header
    assert (header.init_return, header.generation, header.process_rows) == (0, generation + 1, 0)
    assert not any(bytes(content.processes))
    assert not any(bytes(content.faults))


@pytest.mark.parametrize(
    ("xid", "corrected", "uncorrected", "action"),
    [(31, 0, 0, 0), (48, 0, 1, 1), (63, 0, 1, 1), (64, 0, 1, 1), (79, 0, 0, 2), (92, 16, 0, 0), (7777, 0, 0, 0)],
)
def test_an_xid_leaves_what_its_row_says(state: State, xid: int, corrected: int, uncorrected: int, action: int) -> None:
    """ECC errors add up and the advice follows from the catalogue; a card without ECC has the advice alone."""
    for card in state.cards() * 2:
        state.post_xid(card.uuid, xid)

    left = [(card.ecc_corrected, card.ecc_uncorrected, card.recovery_action, card.lost) for card in state.cards()]
    assert left == [(2 * corrected, 2 * uncorrected, action, False)] * 2 + [(0, 0, action, False)]


def test_a_lesser_advice_does_not_take_back_a_greater(state: State) -> None:
    """A reboot stays advised after a milder Xid."""
    uuid = state.cards()[0].uuid
    state.post_xid(uuid, 79)

    state.post_xid(uuid, 48)
    state.post_xid(uuid, 31)

    assert state.cards()[0].recovery_action == 2


def test_numbers_outside_of_their_range_are_refused(state: State) -> None:
    """Pids, amounts, Xids and return codes; nothing is changed."""
    before, uuid = bytes(state.read().cards), state.cards()[0].uuid
    for pid, mib in ((0, 1), (-1, 1), (2**31, 1), (1, -1)):
        with pytest.raises(StateError, match="a pid is from 1"):
            state.add_process(uuid, pid, mib, "player")
    for xid in (0, -1, 2**32):
        with pytest.raises(StateError, match="Xid"):
            state.post_xid(uuid, xid)
    for code in (-1, 2**31):
        with pytest.raises(StateError, match="return codes are numbers"):
            state.set_init_return(code)

    assert bytes(state.read().cards) == before


def test_every_change_of_a_missing_card_is_refused(state: State) -> None:
    """A change of a missing card is refused, and neither cards nor faults are changed."""
    before = state.cards()
    for change in (
        lambda: state.add_process("GPU-no", 1, 1, "player"),
        lambda: state.add_process("\udcff", 1, 1, "player"),
        lambda: state.remove_process("GPU-no", 1),
        lambda: state.set_value("GPU-no", "utilization", "1"),
        lambda: state.lose("GPU-no"),
        lambda: state.repair("GPU-no"),
        lambda: state.remove_card("GPU-no"),
        lambda: state.change_uuid("GPU-no"),
        lambda: state.set_value("GPU-no", "uuid", "GPU-new"),
        lambda: state.post_xid("", 31),
        lambda: state.add_fault("nvmlInit", card="GPU-no", code=9),
    ):
        with pytest.raises(StateError, match="no card"):
            change()

    assert (state.cards(), state.faults()) == (before, [])


def test_device_files_are_those_of_the_given_cards(state: State) -> None:
    """A container has the file of each of its cards and the shared ones; without a card it has none."""
    first, second, _ = (card.uuid for card in state.cards())

    assert state.device_files([second]) == ["nvidia-uvm", "nvidia-uvm-tools", "nvidiactl", "nvidia1"]
    assert state.device_files([first, second])[3:] == ["nvidia0", "nvidia1"]
    assert state.device_files([]) == []
    state.set_device_file("nvidia-uvm", missing=True)
    assert state.device_files([first]) == ["nvidiactl", "nvidia0"]
    state.set_device_file("nvidia-uvm", missing=False)
    assert len(state.device_files([first])) == 4


def test_only_a_known_device_file_can_be_missing(state: State) -> None:
    """The error names those that can."""
    with pytest.raises(StateError, match="^no device file 'sda' can be missing; one of nvidia-uvm$"):
        state.set_device_file("sda", missing=True)
