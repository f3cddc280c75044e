"""The output of fake-nvml for people and programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from fake_nvml.box import Box
from fake_nvml.core.layout import StateFile
from fake_nvml.show import as_data, render
from fake_nvml.state import State


@pytest.fixture
def content(state_path: Path) -> StateFile:
    with State.create(state_path, Box.load("mixed", seed="node-1")) as state:
        first, second, _ = state.cards()
        state.add_process(first.uuid, 4711, 1253, "player")
        state.set_value(first.uuid, "utilization", "40")
        state.lose(second.uuid)
        state.add_fault("nvmlDeviceGetName", card=first.uuid, code=15, count=3)
        return state.read()


def test_json_has_what_programs_ask_for(content: StateFile) -> None:
    """Units are in the names of the fields."""
    data = json.loads(render("json", content))

    assert (data["simulated"], data["driver"], data["cuda"]) == (True, "418.87.00", "10.1")
    first = data["cards"][0]
    assert (first["index"], first["name"], first["serial"]) == (0, "Tesla T4", "8344114671396")
    assert first["uuid"] == "GPU-cea3a137-14f6-d659-e204-6571e4435562"
    assert first["memory"] == {"total_mib": 15079, "used_mib": 1253, "reserved_mib": 0}
    assert first["processes"] == [{"pid": 4711, "name": "player", "mib": 1253}]
    assert (first["power"], first["temperature"]) == ({"watts": 8.75, "limit_watts": 70.0}, 33)
    assert (first["bus_id"], first["recovery_action"]) == ("00000000:04:00.0", 0)
    assert [card["lost"] for card in data["cards"]] == [False, True, False]
    assert [card["ecc"] is None for card in data["cards"]] == [False, False, True]


def test_json_says_what_is_wrong_with_the_library(content: StateFile) -> None:
    """Faults and a failing init are in it."""
    data = as_data(content)

    assert data["init_fails"] is None
    assert data["faults"] == [
        {
            "function": "nvmlDeviceGetName",
            "card": "GPU-cea3a137-14f6-d659-e204-6571e4435562",
            "code": "GPU_IS_LOST",
            "seconds": 0.0,
            "count": 3,
        }
    ]
    content.header.init_return = 9
    assert as_data(content)["init_fails"] == "DRIVER_NOT_LOADED"


def test_yaml_says_the_same_as_json(content: StateFile) -> None:
    """Both are equal as data."""
    assert yaml.safe_load(render("yaml", content)) == json.loads(render("json", content))


def test_the_table_is_of_the_same_cards(content: StateFile) -> None:
    """It has every UUID."""
    page = render("table", content)

    assert "418.87.00" in page
    assert "CUDA Version: 10.1" in page
    assert all(card["uuid"] in page for card in as_data(content)["cards"])
