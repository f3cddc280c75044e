"""The page for people."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fake_nvml.box import Box
from fake_nvml.core.call_faults import CallFault
from fake_nvml.core.card_state import CardState, ProcessState, card_states
from fake_nvml.core.fill import fill
from fake_nvml.core.layout import blank
from fake_nvml.core.nvml_table import table
from fake_nvml.state import State

PAGE = """\
+----------------------------------------------------------------------------------------+
| FAKE-NVML (simulated)       Driver Version: 418.87.00        CUDA Version: 10.1        |
|------------------------------------------+----------------------+----------------------|
| GPU  Name                  Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf           Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |
| UUID                                     |                      |               MIG M. |
|==========================================+======================+======================|
|   0  Tesla T4                        Off | 00000000:04:00.0 Off |                    1 |
| N/A   33C    P0                9W /  70W |   1253MiB / 15079MiB |     40%      Default |
| GPU-cea3a137-14f6-d659-e204-6571e4435562 |                      |                  N/A |
+------------------------------------------+----------------------+----------------------+
|   1  Tesla T4                        Off | 00000000:07:00.0 Off |                 ERR! |
| ERR!  ERR!  ERR!            ERR! /  ERR! |          GPU is lost |    ERR!         ERR! |
| GPU-053e9c12-f5b9-5425-7d5e-aaa8139986fe |                      |                 ERR! |
+------------------------------------------+----------------------+----------------------+
|   2  GeForce GTX 1080 Ti             Off | 00000000:0A:00.0 Off |                  N/A |
| 23%   33C    P8               31W / 250W |      0MiB / 11178MiB |      0%      Default |
| GPU-e7d5bc88-3013-caf4-7663-952e3fce9636 |                      |                  N/A |
+------------------------------------------+----------------------+----------------------+

+----------------------------------------------------------------------------------------+
| Processes:                                                                             |
|  GPU   GI   CI        PID   Type   Process name                             GPU Memory |
|        ID   ID                                                              Usage      |
|========================================================================================|
|    0   N/A  N/A      4711      C   player                                      1253MiB |
+----------------------------------------------------------------------------------------+
"""


@pytest.fixture
def cards(state_path: Path) -> list[CardState]:
    with State.create(state_path, Box.load("mixed", seed="node-1")) as state:
        first, second, _ = state.cards()
        state.add_process(first.uuid, 4711, 1253, "player")
        state.set_value(first.uuid, "utilization", "40")
        state.post_xid(first.uuid, 48)
        state.lose(second.uuid)
        return state.cards()


def test_the_page_is_what_readers_of_nvidia_smi_expect(cards: list[CardState]) -> None:
    """It is compared line by line."""
    assert table("418.87.00", "10.1", cards) == PAGE


def test_a_box_without_cards_says_so() -> None:
    """The page has its lines all the same."""
    page = table("535.104.05", "12.2", [])

    assert "No cards" in page
    assert "No running processes found" in page


def test_what_is_wrong_with_the_library_stands_below() -> None:
    """A failing init and the number of faults are the last lines."""
    page = table("535.104.05", "12.2", [], [CallFault("nvmlInit*", None, 999, 0, None)], 9)

    assert page.splitlines()[-2:] == [
        "nvmlInit answers DRIVER_NOT_LOADED",
        "faults of calls in force: 1; fake-nvml faults lists them",
    ]


@given(st.text(max_size=80), st.one_of(st.none(), st.integers(0, 10**6)), st.integers(1, 2**31 - 1))
def test_every_line_is_as_wide_as_all_others(name: str, mib: int | None, pid: int) -> None:
    """Whatever a process is called, and on the largest card."""
    content = blank()
    fill(content, Box.load("h200x8", seed="node"))
    (card, *_) = card_states(content)
    row = CardState(
        **{**{f: getattr(card, f) for f in CardState.__slots__}, "processes": (ProcessState(pid, name, mib),)}
    )

    lines = table("570.124.06", "12.8", [row]).split("\n")

    assert {len(line) for line in lines if line} == {90}
