"""The output of fake-nvml for people and programs."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from fake_nvml.box import Box
from fake_nvml.core.layout import StateFile
from fake_nvml.show import as_data, render, watch
from fake_nvml.state import State


@pytest.fixture
def state(state_path: Path) -> Iterator[State]:
    """A working card, a lost one and an idle one, and a fault of a call."""
    with State.create(state_path, Box.load("mixed", seed="node-1")) as state:
        first, second, _ = state.cards()
        state.add_process(first.uuid, 4711, 1253, "player")
        state.set_value(first.uuid, "utilization", "40")
        state.lose(second.uuid)
        state.add_fault("nvmlDeviceGetName", card=first.uuid, code=15, count=3)
        yield state


@pytest.fixture
def content(state: State) -> StateFile:
    """All that is in the state file."""
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


def test_missing_device_files_are_shown(state: State) -> None:
    """The table and the JSON name them, until a reboot brings them back."""
    state.set_device_file("nvidia-uvm", missing=True)
    content = state.read()

    assert as_data(content)["missing_device_files"] == ["nvidia-uvm"]
    assert render("table", content).endswith("\ncontainers have no /dev/nvidia-uvm\n")
    state.reboot()
    assert as_data(state.read())["missing_device_files"] == []


def test_yaml_says_the_same_as_json(content: StateFile) -> None:
    """The YAML and the JSON are equal as data."""
    assert yaml.safe_load(render("yaml", content)) == json.loads(render("json", content))


class Terminal(io.StringIO):
    """Output that is a terminal."""

    def isatty(self) -> bool:
        return True


def pages(state: State, out: io.StringIO, sleeps: int, act: Callable[[int], None] = lambda _: None) -> str:
    """The output in ``sleeps`` sleeps, each of which takes its time and then does ``act``."""
    now, number = 0.0, 0

    def sleep(seconds: float) -> None:
        nonlocal now, number
        now, number = now + seconds, number + 1
        act(number)
        if number == sleeps:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        watch(state, "json", out, monotonic=lambda: now, sleep=sleep)
    return out.getvalue()


def test_a_change_is_printed_at_the_next_look(state: State) -> None:
    """The page before it is printed, too."""
    uuid = state.cards()[0].uuid

    def change(number: int) -> None:
        if number == 2:
            state.set_value(uuid, "temperature", "80")

    first, second = pages(state, io.StringIO(), 4, change).split("}\n{")

    assert json.loads(first + "}")["cards"][0]["temperature"] == 33
    assert json.loads("{" + second)["cards"][0]["temperature"] == 80


def test_without_a_change_it_is_printed_each_second(state: State) -> None:
    """Looks in between print nothing."""
    assert pages(state, io.StringIO(), 25).count('"simulated": true') == 3


def test_a_terminal_shows_the_last_page_only(state: State) -> None:
    """Each page clears the screen."""
    assert pages(state, Terminal(), 12).count("\x1b[H\x1b[J{") == 2
