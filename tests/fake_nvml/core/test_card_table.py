"""The page for people."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fake_nvml.box import Box
from fake_nvml.core.call_faults import CallFault
from fake_nvml.core.card_state import CardState, ProcessState
from fake_nvml.core.card_table import fault_table, table
from fake_nvml.state import State

PAGE = """\
3 simulated cards, driver 418.87.00, CUDA 10.1

CARD  NAME                 UUID                                      MEMORY MIB    LOAD  TEMP  POWER       NOTES
0     Tesla T4             GPU-cea3a137-14f6-d659-e204-6571e4435562  1253 / 15079  40%   33 C  9 / 70 W    1 uncorrected errors
1     Tesla T4             GPU-053e9c12-f5b9-5425-7d5e-aaa8139986fe  -             -     -     -           lost
2     GeForce GTX 1080 Ti  GPU-e7d5bc88-3013-caf4-7663-952e3fce9636  0 / 11178     0%    33 C  31 / 250 W

CARD  PID   MIB   PROCESS
0     4711  1253  player
"""


@pytest.fixture
def cards(state_path: Path) -> list[CardState]:
    """A working card with an error, a lost one and an idle one."""
    with State.create(state_path, Box.load("mixed", seed="node-1")) as state:
        first, second, _ = state.cards()
        state.add_process(first.uuid, 4711, 1253, "player")
        state.set_value(first.uuid, "utilization", "40")
        state.post_xid(first.uuid, 94)
        state.lose(second.uuid)
        return state.cards()


def test_the_page_has_a_line_for_each_card_and_process(cards: list[CardState]) -> None:
    """Each column is as wide as its longest text, and no line ends with blanks."""
    assert table("418.87.00", "10.1", cards, [], 0) == PAGE


def test_a_box_without_cards_says_so() -> None:
    """The page still has its head, and no processes."""
    page = table("535.104.05", "12.2", [], [], 0)

    assert page.startswith("0 simulated cards, driver 535.104.05, CUDA 12.2\n\nCARD")
    assert "PROCESS" not in page


def test_what_is_wrong_with_the_library_stands_below() -> None:
    """A failing init and the number of faults are the last lines."""
    page = table("535.104.05", "12.2", [], [CallFault("nvmlInit*", None, 999, 0, None)], 9)

    assert page.endswith(
        "\n\nnvmlInit answers DRIVER_NOT_LOADED\n\nfaults of calls in force: 1; fake-nvml faults lists them\n"
    )


def test_what_is_unusual_about_a_card_is_noted(cards: list[CardState]) -> None:
    """ECC that is off, MIG, an advice, a compute mode; a value that the driver does not answer is a dash."""
    card = replace(cards[2], ecc=False, mig=True, recovery_action=2, compute_mode=3, temperature=None, power_watts=None)

    line = table("535.104.05", "12.2", [card], [], 0).splitlines()[-1]

    assert line.endswith("0%    -     - / 250 W  ECC off, recovery action 2, MIG on, exclusive-process")


def test_a_text_that_cannot_be_printed_stays_on_its_line(cards: list[CardState]) -> None:
    """A process may have any name, and its memory may be unknown."""
    card = replace(cards[0], processes=(ProcessState(7, "a\nb\x1b", None),))

    assert table("418.87.00", "10.1", [card], [], 0).splitlines()[-1].split() == ["0", "7", "-", "a?b?"]


def test_faults_are_listed_with_what_is_left_of_them() -> None:
    """The card, the answer, the delay and the calls left."""
    faults = [CallFault("nvmlDeviceGet*", None, 0, 5.0, None), CallFault("nvmlInit", "GPU-a", 999, 0, 3)]

    assert fault_table(faults) == (
        "FUNCTION        CARD   ANSWERS   AFTER  CALLS LEFT\n"
        "nvmlDeviceGet*  any    as usual  5s     all\n"
        "nvmlInit        GPU-a  UNKNOWN   0s     3\n"
    )
    assert fault_table([]) == "no faults of calls\n"
