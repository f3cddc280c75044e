"""What people and programs read of the cards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from fake_nvml.box import Box
from fake_nvml.card_state import CardState
from fake_nvml.show import render
from fake_nvml.state import State

TABLE = """\
simulated cards  driver 418.87.00  CUDA 10.1

INDEX  NAME                 UUID                                      MEMORY-USAGE        UTIL  TEMP  POWER       STATE
0      Tesla T4             GPU-cea3a137-14f6-d659-e204-6571e4435562  1253MiB / 15079MiB  40%   33C   9W / 70W    ok
1      Tesla T4             GPU-053e9c12-f5b9-5425-7d5e-aaa8139986fe  0MiB / 15079MiB     0%    33C   9W / 70W    lost
2      GeForce GTX 1080 Ti  GPU-e7d5bc88-3013-caf4-7663-952e3fce9636  0MiB / 11178MiB     0%    33C   31W / 250W  ok

INDEX  PID   NAME    MEMORY
0      4711  player  1253MiB
"""


@pytest.fixture
def cards(state_path: Path) -> list[CardState]:
    with State.create(state_path, Box.load("mixed", seed="node-1")) as state:
        first, second, _ = state.cards()
        state.add_process(first.uuid, 4711, 1253, "player")
        state.set_value(first.uuid, "utilization", "40")
        state.set_value(second.uuid, "state", "lost")
        return state.cards()


def test_the_table_is_for_people(cards: list[CardState]) -> None:
    assert render("table", "418.87.00", 10010, cards) == TABLE


def test_an_empty_table_says_so() -> None:
    assert render("table", "535.104.05", 12020, []).splitlines() == [
        "simulated cards  driver 535.104.05  CUDA 12.2",
        "",
        "INDEX  NAME  UUID  MEMORY-USAGE  UTIL  TEMP  POWER  STATE",
        "",
        "no processes",
    ]


def test_json_has_what_programs_ask_for(cards: list[CardState]) -> None:
    data = json.loads(render("json", "418.87.00", 10010, cards))

    assert (data["simulated"], data["driver"], data["cuda"]) == (True, "418.87.00", "10.1")
    first = data["cards"][0]
    assert (first["index"], first["name"], first["uuid"]) == (0, "Tesla T4", cards[0].uuid)
    assert first["memory"] == {"total_mib": 15079, "used_mib": 1253, "reserved_mib": 0}
    assert first["processes"] == [{"pid": 4711, "name": "player", "mib": 1253}]
    assert [card["lost"] for card in data["cards"]] == [False, True, False]


def test_yaml_says_the_same_as_json(cards: list[CardState]) -> None:
    assert yaml.safe_load(render("yaml", "418.87.00", 10010, cards)) == json.loads(
        render("json", "418.87.00", 10010, cards)
    )
