"""A recording of cards, and the box that is made of it."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pynvml
import pytest
import yaml

from fake_nvml.box import Box, box_names
from fake_nvml.errors import CatalogueError, RecordError
from fake_nvml.recording import record
from fake_nvml.show import as_data, render
from fake_nvml.state import State

# What each kind of box answers: with and without ECC, MIG, links, sockets; before and after what 450, 510 and 550 brought.
BOXES = [(name, None) for name in box_names()] + [("t4x2", "410"), ("t4x2", "470"), ("mixed", "510"), ("a100x8", "580")]


@pytest.fixture
def recorded(state_path: Path, clean_pynvml: None) -> dict[str, Any]:
    """A recording of a100x8, with something going on."""
    with State.create(state_path, Box.load("a100x8", seed="node-1", driver="570")) as state:
        first = state.cards()[0].uuid
        state.add_process(first, 4711, 1253, "player")
        state.post_xid(first, 48)
        state.set_value(first, "mig", "on")
    return record(state=state_path, library=None)


def loaded(tmp_path: Path, content: object, seed: str | None = None, driver: str | None = None) -> Box:
    path = tmp_path / "recorded.yaml"
    path.write_text(yaml.safe_dump(content))
    return Box.load(str(path), seed=seed, driver=driver)


@pytest.mark.parametrize(("name", "driver"), BOXES, ids=lambda value: str(value))
def test_a_recorded_box_is_that_box(
    state_path: Path, tmp_path: Path, clean_pynvml: None, name: str, driver: str | None
) -> None:
    """Every field of every record, of every box that comes along."""
    with State.create(state_path, Box.load(name, seed="node-1", driver=driver)) as state:
        before = state.read()
        content = record(state=state_path, library=None)

        State.create(state_path, loaded(tmp_path, content)).close()

        after = state.read()
    assert as_data_of(after) == as_data_of(before)


def as_data_of(content: Any) -> dict[str, Any]:
    cards = [
        {field: getattr(content.cards[slot], field) for field, _ in content.cards[slot]._fields_ if field != "reserved"}
        for slot in range(content.header.card_count)
    ]
    # A driver without that function cannot say what nobody can ask.
    old = content.header.cuda < 12040
    return {
        "header": as_data(content)["driver"],
        "cards": [{**card, "recovery_action": 0} if old else card for card in cards],
    }


def test_a_recording_says_what_was_simulated_and_answered(recorded: dict[str, Any]) -> None:
    assert (recorded["simulated"], recorded["driver"]) == (True, "570.124.06")
    assert recorded["system"]["nvmlSystemGetCudaDriverVersion"] == 12080
    first = recorded["cards"][0]["recorded"]
    assert first["nvmlDeviceGetName"] == "NVIDIA A100-SXM4-80GB"
    assert first["nvmlDeviceGetMemoryInfo_v2"]["total"] == 81920 * 1024**2
    assert first["nvmlDeviceGetFieldValues recovery action"] == 1
    assert first["nvmlDeviceGetMigMode"] == [1, 1]
    assert len(first["nvmlDeviceGetNvLinkState"]) == 12
    assert [row["pid"] for row in first["nvmlDeviceGetComputeRunningProcesses"]] == [4711]


def test_what_a_driver_did_not_answer_is_recorded_by_its_code(state_path: Path, clean_pynvml: None) -> None:
    with State.create(state_path, Box.load("mixed", seed="node-1", driver="470")) as state:
        state.add_fault("nvmlDeviceGetPowerUsage", code=999)
        state.lose(state.cards()[1].uuid)

    first, second, third = (card["recorded"] for card in record(state=state_path, library=None)["cards"])

    assert first["nvmlDeviceGetPowerUsage"] == {"returns": "UNKNOWN"}
    assert first["nvmlDeviceGetMemoryInfo_v2"] == {"returns": "FUNCTION_NOT_FOUND"}
    assert first["nvmlDeviceGetComputeRunningProcesses"] == {"returns": "FUNCTION_NOT_FOUND"}
    assert first["nvmlDeviceGetComputeRunningProcesses_v2"] == []
    assert second == {"nvmlDeviceGetHandleByIndex": {"returns": "GPU_IS_LOST"}}
    assert third["nvmlDeviceGetSerial"] == {"returns": "NOT_SUPPORTED"}


def test_a_card_that_answered_nothing_is_lost(state_path: Path, tmp_path: Path, clean_pynvml: None) -> None:
    with State.create(state_path, Box.load("t4x2", seed="node-1")) as state:
        state.lose(state.cards()[0].uuid)
    content = record(state=state_path, library=None)

    with State.create(state_path, loaded(tmp_path, content)) as state:
        assert [(card.lost, card.name) for card in state.cards()] == [(True, ""), (False, "Tesla T4")]
        assert state.cards()[0].uuid.startswith("GPU-")


def test_a_recorded_box_begins_idle(recorded: dict[str, Any], state_path: Path, tmp_path: Path) -> None:
    with State.create(state_path, loaded(tmp_path, recorded)) as state:
        assert (state.cards()[0].used_mib, state.cards()[0].processes) == (0, ())


def test_another_node_with_recorded_cards_has_uuids_of_its_own(recorded: dict[str, Any], tmp_path: Path) -> None:
    own = [card.uuid for card in Box.load("a100x8", seed="node-1").cards]

    assert [card.uuid for card in loaded(tmp_path, recorded).cards] == own
    assert {card.uuid for card in loaded(tmp_path, recorded, seed="node-2").cards}.isdisjoint(own)
    assert all(card.serial for card in loaded(tmp_path, recorded, seed="node-2").cards)


def test_recorded_cards_are_known_under_their_own_driver_only(recorded: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match="recorded under driver 570.124.06; nobody knows them under 535.104.05"):
        loaded(tmp_path, recorded, driver="535")


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        ("nvmlDeviceGetMemoryInfo_v2", {"total": "much"}),
        ("nvmlDeviceGetPciInfo", 3),
        ("nvmlDeviceGetCudaComputeCapability", [8]),
        ("nvmlDeviceGetTemperature", "warm"),
        ("nvmlDeviceGetNvLinkState", 3),
    ],
)
def test_a_recording_that_somebody_spoiled_is_refused(
    recorded: dict[str, Any], tmp_path: Path, call: str, answer: object
) -> None:
    spoiled = copy.deepcopy(recorded)
    spoiled["cards"][3]["recorded"][call] = answer

    with pytest.raises(CatalogueError, match=r"cards\[3\]: recorded is not what fake-nvml record writes"):
        loaded(tmp_path, spoiled)


@pytest.mark.parametrize("calls", [None, [], "much"])
def test_a_recording_of_nothing_is_refused(recorded: dict[str, Any], tmp_path: Path, calls: object) -> None:
    recorded["cards"][0]["recorded"] = calls

    with pytest.raises(CatalogueError, match=r"cards\[0\]: recorded is not what"):
        loaded(tmp_path, recorded)


def test_what_was_not_even_asked_is_not_known(recorded: dict[str, Any], tmp_path: Path) -> None:
    """An older recording, or one that somebody shortened."""
    recorded["cards"] = [{"recorded": {"nvmlDeviceGetMemoryInfo": {"total": 2**30}}}]

    (card,) = loaded(tmp_path, recorded).cards

    assert card.uuid == Box.load("t4x1", seed="node").cards[0].uuid
    assert (card.serial, card.fields["memory_total"], card.fields["numa"]) == ("", 2**30, -1)
    assert (card.fields["temperature"], card.fields["ecc_supported"]) == (0xFFFFFFFF, 0)


def test_cards_without_memory_cannot_be_simulated(recorded: dict[str, Any], tmp_path: Path) -> None:
    for call in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"):
        recorded["cards"][0]["recorded"][call] = {"returns": "UNKNOWN"}

    with pytest.raises(CatalogueError, match="did not say how much memory"):
        loaded(tmp_path, recorded)


def test_where_there_is_no_nvml_it_says_so(tmp_path: Path, clean_pynvml: None) -> None:
    with pytest.raises(RecordError, match="no NVML to record"):
        record(state=None, library=tmp_path / "libnvidia-ml.so.1")
    with pytest.raises(RecordError, match="Driver Not Loaded"):
        record(state=tmp_path / "no-state", library=None)


def test_a_driver_that_stops_to_answer_is_an_error(state_path: Path, clean_pynvml: None) -> None:
    with State.create(state_path, Box.load("t4x2", seed="node-1")) as state:
        state.add_fault("nvmlDeviceGetCount", code=999)

    with pytest.raises(RecordError, match="stopped to answer"):
        record(state=state_path, library=None)
    assert pynvml._nvmlLib_refcount == 0


@pytest.mark.parametrize("layer", ["python", "c"])
def test_what_a_recorded_driver_did_not_say_stays_unsaid(
    state_path: Path, tmp_path: Path, clean_pynvml: None, layer: str
) -> None:
    """A card of a recording answers the recorded refusals again."""
    unsaid = ("Serial", "Temperature", "PowerUsage", "PowerManagementLimit", "EccMode", "MigMode", "MemoryAffinity")
    with State.create(state_path, Box.load("a100x8", seed="node-1")) as state:
        for name in unsaid:
            state.add_fault(f"nvmlDeviceGet{name}", code=3)
    content = record(state=state_path, library=None)

    State.create(state_path, loaded(tmp_path, content)).close()

    with State.open(state_path) as state:
        assert (state.cards()[0].temperature, state.cards()[0].power_watts, state.cards()[0].serial) == (None, None, "")
        assert "N/A / N/A" in " ".join(render("table", state.read()).split())
    again = asked(layer, state_path)
    for name in unsaid:
        assert again["cards"][0]["recorded"][f"nvmlDeviceGet{name}"] == {"returns": "NOT_SUPPORTED"}, name


def asked(layer: str, state_path: Path) -> dict[str, Any]:
    """A recording made by the command on one of the layers."""
    done = subprocess.run(
        [sys.executable, "-m", "fake_nvml.main", "exec", "--layer", layer, "--state", str(state_path), "--",
         sys.executable, "-m", "fake_nvml.main", "record", *(
            ["--library", "libnvidia-ml.so.1"] if layer == "c" else [])],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(yaml.safe_load(done.stdout))
