"""A recording of cards, and the box that is made of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import pytest
import yaml

import fake_nvml
from fake_nvml.box import Box, box_names
from fake_nvml.core.answers import SYSTEM_KEYS
from fake_nvml.core.recorded import recorded_card, unknown_calls
from fake_nvml.core.returns import CODES, Code
from fake_nvml.fake_nvml_errors import CatalogueError, RecordError
from fake_nvml.recording import record, steady
from fake_nvml.state import State

BOX_FOLDER = Path(fake_nvml.__file__).with_name("boxes")
# Boxes that `fake-nvml record` wrote on a real card.
RECORDED = [
    name for name in box_names() if "simulated" in yaml.safe_load(BOX_FOLDER.joinpath(f"{name}.yaml").read_text())
]
# The kinds of boxes: with and without ECC, MIG, links, sockets; before and after the additions of 450, 510 and 550.
BOXES = [(name, None) for name in box_names()] + [("t4x2", "410"), ("t4x2", "470"), ("mixed", "510"), ("a100x8", "580")]
UNKNOWN, MISSING = {"returns": "UNKNOWN"}, {"returns": "FUNCTION_NOT_FOUND"}
# The calls of one card with NVLinks and ECC, without a fan.
H100 = yaml.safe_load(BOX_FOLDER.joinpath("h100x1.yaml").read_text())["cards"][0]["recorded"]

Ask = Callable[[], dict[str, Any]]


def loaded(tmp_path: Path, content: object, seed: str | None = None, driver: str | None = None) -> Box:
    """The box that is made of a recording."""
    path = tmp_path / "recorded.yaml"
    path.write_text(yaml.safe_dump(content))
    return Box.load(str(path), seed=seed, driver=driver)


@pytest.mark.parametrize(("name", "driver"), BOXES, ids=lambda value: str(value))
def test_a_recorded_box_answers_as_that_box(
    state_path: Path, tmp_path: Path, ask: Ask, name: str, driver: str | None
) -> None:
    """Every answer and return code of every box is that of the recorded cards, as is a value that was set."""
    with (
        State.create(state_path, Box.load(name, seed="node-1", driver=driver)) as state,
        state.mapped.writing() as content,
    ):
        for card in content.cards[: content.header.card_count]:
            card.compute_mode, card.persistence, card.mig_mode, card.mig_pending, card.fan = 3, 1, 1, 1, 61
    before = ask()

    State.create(state_path, loaded(tmp_path, before)).close()

    assert before["simulated"]
    assert ask() == before


@pytest.mark.parametrize("name", RECORDED)
def test_simulated_cards_answer_as_the_real_ones(state_path: Path, ask: Ask, name: str) -> None:
    """A box that was recorded on a real card gives each steady answer that the card gave."""
    real = yaml.safe_load(BOX_FOLDER.joinpath(f"{name}.yaml").read_text())
    State.create(state_path, Box.load(name, seed=None)).close()

    assert not real["simulated"]
    now, then = steady(ask()), steady(real)
    assert [{call: one[call] for call in other} for one, other in zip(now, then, strict=True)] == then


def test_each_function_keeps_each_code_it_was_recorded_with(state_path: Path, tmp_path: Path, ask: Ask) -> None:
    """One card for each code that a call may answer; each function of the card, and of the node, answers it."""
    codes = [name for name in CODES if name not in ("SUCCESS", "UNINITIALIZED", "GPU_IS_LOST")]
    State.create(state_path, Box.load("h100x8", seed="node-1", driver="580")).close()
    content = ask()
    first = content["cards"][0]["recorded"]
    content["cards"] = [{"recorded": {name: {"returns": code} for name in first}} for code in codes]
    # Without event sets there is nothing to listen with, whatever a card answers.
    content["system"] |= {name: {"returns": "NO_PERMISSION"} for name in SYSTEM_KEYS - {"nvmlEventSetCreate"}}

    State.create(state_path, loaded(tmp_path, content)).close()

    again = ask()
    assert again["system"] == content["system"]
    for code, card in zip(codes, again["cards"], strict=True):
        unasked = {name for name in first if name.startswith("nvmlDeviceGetHandleBy")}  # by names that it does not say
        expected: dict[str, Any] = {name: {"returns": code} for name in first if name not in unasked}
        if code == "NOT_FOUND":  # which is how a card answers that has no slice
            expected["nvmlDeviceGetMigDeviceHandleByIndex"] = 0
        assert card["recorded"] == expected, code


@pytest.mark.parametrize("code", ["NOT_SUPPORTED", "GPU_IS_LOST", "UNKNOWN", "4711"])
def test_a_card_whose_handle_failed_fails_with_that_code(state_path: Path, tmp_path: Path, ask: Ask, code: str) -> None:
    """A card that did not even have a handle keeps its place in the box."""
    State.create(state_path, Box.load("t4x2", seed="node-1")).close()
    content = ask()
    content["cards"][0]["recorded"] = {"nvmlDeviceGetHandleByIndex": {"returns": code}}

    State.create(state_path, loaded(tmp_path, content)).close()

    assert ask()["cards"] == content["cards"]


def test_another_node_with_recorded_cards_has_uuids_of_its_own(state_path: Path, tmp_path: Path, ask: Ask) -> None:
    """The recorded UUIDs are those of one node alone, and its cards are known under their own driver only."""
    with State.create(state_path, Box.load("t4x2", seed="node-1", driver="570")) as state:
        own = [card.uuid for card in state.cards()]
        state.add_process(own[0], 4711, 1253, "player")
    recording = ask()

    with State.create(state_path, loaded(tmp_path, recording)) as state:
        assert [(card.uuid, card.processes) for card in state.cards()] == [(uuid, ()) for uuid in own]
    others = loaded(tmp_path, recording, seed="node-2").cards
    assert {card.uuid for card in others}.isdisjoint(own)
    assert all(card.serial for card in others)
    with pytest.raises(CatalogueError, match="recorded under driver 570.124.06; record them under 535.104.05 too"):
        loaded(tmp_path, recording, driver="535")


def test_a_node_without_an_nvml_that_answers_is_refused(state_path: Path, tmp_path: Path, ask: Ask) -> None:
    """A missing library or driver, and one that stops to answer, have errors of their own; the session is closed."""
    with pytest.raises(RecordError, match="no NVML to record"):
        record(tmp_path / "libnvidia-ml.so.1")
    with State.create(state_path, Box.load("t4x2", seed="node-1")) as state:
        state.add_fault("nvmlDeviceGetCount", code=999)
        with pytest.raises(RecordError, match="stopped answering"):
            ask()
        state.set_init_return(9)
        with pytest.raises(RecordError, match="Driver Not Loaded"):
            ask()
    assert pynvml._nvmlLib_refcount == 0


@pytest.mark.parametrize(
    ("calls", "field", "value"),
    [
        ({"nvmlDeviceGetMaxClockInfo sm": None}, "clock_sm", H100["nvmlDeviceGetClockInfo sm"]),
        ({"nvmlDeviceGetMaxPcieLinkWidth": None}, "pcie_width", H100["nvmlDeviceGetCurrPcieLinkWidth"]),
        ({"nvmlDeviceGetNumFans": MISSING, "nvmlDeviceGetFanSpeed": 20}, "fans", 1),
        ({"nvmlDeviceGetTemperature": None, "nvmlDeviceGetTemperatureV": 41}, "temperature", 41),
        ({"nvmlDeviceGetSupportedEventTypes": None, "nvmlDeviceRegisterEvents": 9}, "events", 9),
        ({"nvmlDeviceGetMemoryInfo_v2": None}, "memory_reserved", 0),
        ({"nvmlDeviceGetMemoryAffinity": UNKNOWN}, "numa", -1),
        ({"nvmlDeviceGetEccMode": None}, "ecc_supported", 0),
        pytest.param({"nvmlDeviceGetName": "\ufffd" * 60}, "name", ("\ufffd" * 31).encode(), id="garbled name"),
    ],
    ids=str,
)
def test_what_is_not_known_follows_from_other_answers(calls: dict[str, Any], field: str, value: object) -> None:
    """A limit is as high as what the idle card showed, and an older or newer function stands in."""
    assert recorded_card({**H100, **calls}).fields[field] == value


@pytest.mark.parametrize(
    ("calls", "key", "code"),
    [
        ({"nvmlDeviceGetPowerUsage": {"returns": "65535"}}, "nvmlDeviceGetPowerUsage", 65535),
        ({"nvmlDeviceGetPowerUsage": None}, "nvmlDeviceGetPowerUsage", Code.NOT_SUPPORTED),
        ({"nvmlDeviceGetPciInfo": MISSING}, "nvmlDeviceGetPciInfo_v2", Code.FUNCTION_NOT_FOUND),
        ({}, "nvmlDeviceGetPowerUsage", Code.NOT_SUPPORTED),
        ({}, "nvmlDeviceGetName", None),
    ],
    ids=str,
)
def test_a_call_without_a_version_speaks_of_every_one(calls: dict[str, Any], key: str, code: int | None) -> None:
    """A call without a version stands for the versions that a recording lacks; a value that it lacks is not known."""
    assert recorded_card({"nvmlDeviceGetName": "Tesla T4", **calls}).refused.get(key) == code


@pytest.mark.parametrize(
    "calls",
    [
        None,
        {"nvmlDeviceGetMemoryInfo_v2": {"total": "much"}},
        {"nvmlDeviceGetCudaComputeCapability": [8]},
        {"nvmlDeviceGetPowerManagementLimit": float("inf")},
        {"nvmlDeviceGetUUID": "GPU-\0-1"},
        *({"nvmlDeviceGetPowerUsage": {"returns": code}} for code in ("MUCH", "65536")),
    ],
    ids=str,
)
def test_a_spoiled_recording_is_refused(tmp_path: Path, calls: dict[str, Any] | None) -> None:
    """The error names the card, or the part that is about the node."""
    cards = [{"recorded": H100}, {"recorded": calls and {**H100, **calls}}]

    with pytest.raises(CatalogueError, match=r"cards\[1\]: recorded is not what fake-nvml record writes"):
        loaded(tmp_path, {"driver": "580.159.04", "cards": cards})
    with pytest.raises(CatalogueError, match="system is not what fake-nvml record writes"):
        loaded(tmp_path, {"driver": "580.159.04", "cards": [], "system": ["x"]})


def test_calls_without_a_place_are_named(tmp_path: Path) -> None:
    """A recorded call that has no place in a state is listed as dropped; a name without a version is known."""
    calls = {**H100, "nvmlDeviceGetMood": "calm", "nvmlDeviceGetHandleByPciBusId": 1}

    assert loaded(tmp_path, {"driver": "580.159.04", "cards": [{"recorded": calls}]}).dropped == {"nvmlDeviceGetMood"}
    assert list(unknown_calls(3)) == []
