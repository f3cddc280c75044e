"""A recording of cards, and the box that is made of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pynvml
import pytest
import yaml

import fake_nvml
from fake_nvml.box import Box, box_names
from fake_nvml.calls import CALLS
from fake_nvml.core.answers import SYSTEM_KEYS
from fake_nvml.core.returns import CODES, Code
from fake_nvml.fake_nvml_errors import CatalogueError, RecordError
from fake_nvml.recording import record, steady
from fake_nvml.show import render
from fake_nvml.state import State

BOX_FOLDER = Path(fake_nvml.__file__).with_name("boxes")
# Boxes that `fake-nvml record` wrote on a real card.
RECORDED = [
    name for name in box_names() if "simulated" in yaml.safe_load(BOX_FOLDER.joinpath(f"{name}.yaml").read_text())
]
# The kinds of boxes: with and without ECC, MIG, links, sockets; before and after the additions of 450, 510 and 550.
BOXES = [(name, None) for name in box_names()] + [("t4x2", "410"), ("t4x2", "470"), ("mixed", "510"), ("a100x8", "580")]


# Without these there is nothing to record.
NEEDED = {
    *("nvmlInitWithFlags", "nvmlSystemGetDriverVersion", "nvmlDeviceGetCount", "nvmlDeviceGetCount_v2"),
}
# These are not asked, or their failure is no answer of a card.
UNASKED = {
    *("nvmlDeviceGetP2PStatus", "nvmlDeviceGetTopologyCommonAncestor"),  # of two cards
    *("nvmlInit", "nvmlInit_v2", "nvmlShutdown", "nvmlEventSetFree", "nvmlEventSetWait", "nvmlEventSetWait_v2"),
}


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
    """The box that is made of a recording."""
    path = tmp_path / "recorded.yaml"
    path.write_text(yaml.safe_dump(content))
    return Box.load(str(path), seed=seed, driver=driver)


@pytest.mark.parametrize(("name", "driver"), BOXES, ids=lambda value: str(value))
def test_a_recorded_box_answers_as_that_box(
    state_path: Path, tmp_path: Path, clean_pynvml: None, name: str, driver: str | None
) -> None:
    """Every answer and every return code, of every box that comes along."""
    State.create(state_path, Box.load(name, seed="node-1", driver=driver)).close()
    before = record(state=state_path, library=None)

    State.create(state_path, loaded(tmp_path, before)).close()

    assert record(state=state_path, library=None) == before


@pytest.mark.parametrize("name", RECORDED)
def test_simulated_cards_answer_as_the_real_ones(state_path: Path, clean_pynvml: None, name: str) -> None:
    """A box that was recorded on a real card gives each steady answer that the card gave."""
    box = Box.load(name, seed=None)
    real = yaml.safe_load(BOX_FOLDER.joinpath(f"{name}.yaml").read_text())
    State.create(state_path, box).close()

    assert not real["simulated"]
    simulated = steady(record(state=state_path, library=None))
    assert [{call: now[call] for call in then} for now, then in zip(simulated, steady(real), strict=True)] == steady(
        real
    )


def test_a_recording_says_what_was_simulated_and_answered(recorded: dict[str, Any]) -> None:
    """Each answer of each card is in it by the name of its call."""
    assert (recorded["simulated"], recorded["driver"]) == (True, "570.124.06")
    assert recorded["system"]["nvmlSystemGetCudaDriverVersion"] == 12080
    first = recorded["cards"][0]["recorded"]
    assert first["nvmlDeviceGetName"] == "NVIDIA A100-SXM4-80GB"
    assert first["nvmlDeviceGetMemoryInfo_v2"]["total"] == 81920 * 1024**2
    assert first["nvmlDeviceGetFieldValues recovery action"] == 1
    assert first["nvmlDeviceGetMigMode"] == [1, 1]
    assert (first["nvmlDeviceGetCudaComputeCapability"], first["nvmlDeviceGetArchitecture"]) == ([8, 0], 7)
    assert first["nvmlDeviceGetPciInfo_v3"]["pciDeviceId"] == 0x20B210DE
    assert (first["nvmlDeviceGetMaxMigDeviceCount"], first["nvmlDeviceGetMigDeviceHandleByIndex"]) == (7, 0)
    assert [card["recorded"]["nvmlDeviceGetMemoryAffinity"] for card in recorded["cards"]] == [[0]] * 4 + [[1]] * 4
    assert len(first["nvmlDeviceGetNvLinkState"]) == 12
    assert [row["pid"] for row in first["nvmlDeviceGetComputeRunningProcesses"]] == [4711]


def test_what_a_driver_did_not_answer_is_recorded_by_its_code(state_path: Path, clean_pynvml: None) -> None:
    """Missing functions and lost cards have codes, too."""
    with State.create(state_path, Box.load("mixed", seed="node-1", driver="470")) as state:
        state.add_fault("nvmlDeviceGetPowerUsage", code=999)
        state.lose(state.cards()[1].uuid)

    first, second, third = (card["recorded"] for card in record(state=state_path, library=None)["cards"])

    assert first["nvmlDeviceGetPowerUsage"] == {"returns": "UNKNOWN"}
    assert first["nvmlDeviceGetMemoryInfo_v2"] == {"returns": "FUNCTION_NOT_FOUND"}
    assert first["nvmlDeviceGetComputeRunningProcesses_v3"] == {"returns": "FUNCTION_NOT_FOUND"}
    assert first["nvmlDeviceGetComputeRunningProcesses_v2"] == first["nvmlDeviceGetComputeRunningProcesses"] == []
    assert second == {"nvmlDeviceGetHandleByIndex": {"returns": "GPU_IS_LOST"}}
    assert third["nvmlDeviceGetSerial"] == {"returns": "NOT_SUPPORTED"}


def test_a_card_that_answered_nothing_is_lost(state_path: Path, tmp_path: Path, clean_pynvml: None) -> None:
    """A card that answered nothing keeps its place in the box."""
    with State.create(state_path, Box.load("t4x2", seed="node-1")) as state:
        state.lose(state.cards()[0].uuid)
    content = record(state=state_path, library=None)

    with State.create(state_path, loaded(tmp_path, content)) as state:
        assert [(card.lost, card.name) for card in state.cards()] == [(True, ""), (False, "Tesla T4")]
        assert state.cards()[0].uuid.startswith("GPU-")


def test_a_recorded_box_begins_idle(recorded: dict[str, Any], state_path: Path, tmp_path: Path) -> None:
    """Processes are not taken over."""
    with State.create(state_path, loaded(tmp_path, recorded)) as state:
        assert (state.cards()[0].used_mib, state.cards()[0].processes) == (0, ())


def test_another_node_with_recorded_cards_has_uuids_of_its_own(recorded: dict[str, Any], tmp_path: Path) -> None:
    """The recorded UUIDs are those of one node alone."""
    own = [card.uuid for card in Box.load("a100x8", seed="node-1").cards]

    assert [card.uuid for card in loaded(tmp_path, recorded).cards] == own
    assert {card.uuid for card in loaded(tmp_path, recorded, seed="node-2").cards}.isdisjoint(own)
    assert all(card.serial for card in loaded(tmp_path, recorded, seed="node-2").cards)


def test_recorded_cards_are_known_under_their_own_driver_only(recorded: dict[str, Any], tmp_path: Path) -> None:
    """The error advises to record them under the other one."""
    with pytest.raises(CatalogueError, match="recorded under driver 570.124.06; record them under 535.104.05 too"):
        loaded(tmp_path, recorded, driver="535")


@pytest.mark.parametrize(
    "calls",
    [
        None,
        [],
        "much",
        {"nvmlDeviceGetMemoryInfo_v2": {"total": "much"}},
        {"nvmlDeviceGetMemoryInfo_v2": {"total": 2**64, "free": 0, "used": 0, "reserved": 0}},
        {"nvmlDeviceGetPciInfo_v3": 3},
        {"nvmlDeviceGetCudaComputeCapability": [8]},
        {"nvmlDeviceGetTemperature": "warm"},
        {"nvmlDeviceGetNvLinkState": 3},
        {"nvmlDeviceGetPowerManagementLimit": float("inf")},
        {"nvmlDeviceGetBrand": -1},
        {"nvmlDeviceGetBrand": 2**32},
        {"nvmlDeviceGetSerial": "1" * 33},
        {"nvmlDeviceGetUUID": "GPU-\0-1"},
        *({"nvmlDeviceGetPowerUsage": {"returns": code}} for code in ("MUCH", "-3", "65536")),
    ],
    ids=str,
)
def test_a_spoiled_recording_is_refused(recorded: dict[str, Any], tmp_path: Path, calls: Any) -> None:
    """The card is named."""
    card = recorded["cards"][3]
    card["recorded"] = {**card["recorded"], **calls} if isinstance(calls, dict) else calls

    with pytest.raises(CatalogueError, match=r"cards\[3\]: recorded is not what fake-nvml record writes"):
        loaded(tmp_path, recorded)


@pytest.mark.parametrize("system", [3, "much", ["x"], {"nvmlSystemGetCudaDriverVersion": {"returns": "MUCH"}}])
def test_a_recording_with_a_spoiled_system_is_refused(recorded: dict[str, Any], tmp_path: Path, system: object) -> None:
    """The error names the part of the file."""
    with pytest.raises(CatalogueError, match="system is not what fake-nvml record writes"):
        loaded(tmp_path, {**recorded, "system": system})


def test_a_long_garbled_name_is_cut_to_what_a_card_holds(recorded: dict[str, Any], tmp_path: Path) -> None:
    """Each byte that a driver answered outside of UTF-8 was recorded as a replacement character of three bytes."""
    recorded["cards"][0]["recorded"]["nvmlDeviceGetName"] = "\ufffd" * 60

    assert loaded(tmp_path, recorded).cards[0].fields["name"] == ("\ufffd" * 31).encode()


def test_what_was_not_even_asked_is_not_known(recorded: dict[str, Any], tmp_path: Path) -> None:
    """An older recording, or a shortened one."""
    recorded["cards"] = [{"recorded": {"nvmlDeviceGetMemoryInfo": {"total": 2**30}}}]

    (card,) = loaded(tmp_path, recorded).cards

    assert card.uuid == Box.load("t4x1", seed="node").cards[0].uuid
    assert (card.serial, card.fields["memory_total"], card.fields["numa"]) == ("", 2**30, -1)
    assert (card.refused["nvmlDeviceGetTemperature"], card.fields["ecc_supported"]) == (Code.NOT_SUPPORTED, 0)


def test_where_there_is_no_nvml_it_says_so(tmp_path: Path, clean_pynvml: None) -> None:
    """A missing library and a missing driver have errors of their own."""
    with pytest.raises(RecordError, match="no NVML to record"):
        record(state=None, library=tmp_path / "libnvidia-ml.so.1")
    with pytest.raises(RecordError, match="Driver Not Loaded"):
        record(state=tmp_path / "no-state", library=None)


def test_a_driver_that_stops_to_answer_is_an_error(state_path: Path, clean_pynvml: None) -> None:
    """The session is closed."""
    with State.create(state_path, Box.load("t4x2", seed="node-1")) as state:
        state.add_fault("nvmlDeviceGetCount", code=999)

    with pytest.raises(RecordError, match="stopped answering"):
        record(state=state_path, library=None)
    assert pynvml._nvmlLib_refcount == 0


@pytest.mark.parametrize("layer", ["python", "c"])
def test_each_function_keeps_each_code_it_was_recorded_with(
    state_path: Path, tmp_path: Path, clean_pynvml: None, layer: str
) -> None:
    """One card for each code that a call may answer; each function of the card, and of the node, answers it."""
    codes = [name for name in CODES if name not in ("SUCCESS", "UNINITIALIZED", "GPU_IS_LOST")]
    State.create(state_path, Box.load("h100x8", seed="node-1", driver="580")).close()
    content = record(state=state_path, library=None)
    first = content["cards"][0]["recorded"]
    content["cards"] = [{"recorded": {name: {"returns": code} for name in first}} for code in codes]
    # Without event sets there is nothing to listen with, whatever a card answers.
    content["system"] |= {name: {"returns": "NO_PERMISSION"} for name in SYSTEM_KEYS - {"nvmlEventSetCreate"}}

    State.create(state_path, loaded(tmp_path, content)).close()

    again = asked(layer, state_path)
    assert again["system"] == content["system"]
    for code, card in zip(codes, again["cards"], strict=True):
        unasked = {name for name in first if name.startswith("nvmlDeviceGetHandleBy")}  # by names that it does not say
        expected: dict[str, Any] = {name: {"returns": code} for name in first if name not in unasked}
        if code == "NOT_FOUND":  # which is how a card answers that has no slice
            expected["nvmlDeviceGetMigDeviceHandleByIndex"] = 0
        assert card["recorded"] == expected, code


@pytest.mark.parametrize("layer", ["python", "c"])
@pytest.mark.parametrize("code", ["NOT_SUPPORTED", "NO_PERMISSION", "UNKNOWN", "4711"])
def test_a_card_whose_handle_failed_fails_with_that_code(
    state_path: Path, tmp_path: Path, clean_pynvml: None, layer: str, code: str
) -> None:
    """The library in Python and the library in C answer the recorded code."""
    State.create(state_path, Box.load("t4x2", seed="node-1")).close()
    content = record(state=state_path, library=None)
    content["cards"][0]["recorded"] = {"nvmlDeviceGetHandleByIndex": {"returns": code}}

    State.create(state_path, loaded(tmp_path, content)).close()

    assert asked(layer, state_path)["cards"] == content["cards"]


@pytest.mark.parametrize("function", sorted(CALLS.keys() - {"nvmlErrorString"}))
def test_a_fault_of_any_call_is_recorded(state_path: Path, tmp_path: Path, clean_pynvml: None, function: str) -> None:
    """A call that fails on the recorded node fails with the same code on the simulated one, and no other call does."""
    (tmp_path / "box.yaml").write_text('driver: "580"\ncards: [{model: a100-sxm4-80gb, numa: 1}]')
    with State.create(state_path, Box.load(str(tmp_path / "box.yaml"), seed="node-1")) as state:
        state.add_fault(function, code=CODES["NO_PERMISSION"])
        try:
            before = record(state=state_path, library=None)
        except RecordError:
            assert function in NEEDED
            return
        State.create(state_path, loaded(tmp_path, before)).close()

    assert record(state=state_path, library=None) == before
    answers = [before["system"], *(card["recorded"] for card in before["cards"])]
    refused = [name for calls in answers for name, answer in calls.items() if answer == {"returns": "NO_PERMISSION"}]
    assert bool(refused) is (function not in UNASKED)


def test_an_older_recording_speaks_of_every_version(recorded: dict[str, Any], tmp_path: Path) -> None:
    """A refusal in an older recording counts for the newer versions of its function, and for the registration of events."""
    calls = recorded["cards"][0]["recorded"]
    newer = [name for name in calls if name.endswith("Processes_v3") or "PciInfo_v" in name]
    for name in (*newer, "nvmlDeviceGetTemperatureV"):
        del calls[name]
    del calls["nvmlDeviceRegisterEvents"]
    refused = ("ComputeRunningProcesses", "PciInfo", "SupportedEventTypes", "Temperature")
    calls |= {f"nvmlDeviceGet{name}": {"returns": "NOT_SUPPORTED"} for name in refused}
    calls["nvmlDeviceGetGraphicsRunningProcesses"] = {"returns": "FUNCTION_NOT_FOUND"}

    found = loaded(tmp_path, recorded).cards[0].refused

    assert {
        *(f"nvmlDeviceGet{name}" for name in (*refused, "ComputeRunningProcesses_v3", "PciInfo_v3", "TemperatureV")),
        "nvmlDeviceRegisterEvents",
    } <= {key for key, code in found.items() if code == Code.NOT_SUPPORTED}
    assert "nvmlDeviceGetGraphicsRunningProcesses" not in found, "the newest was missing, not this one"


def test_unknown_memory_is_not_supported(recorded: dict[str, Any], state_path: Path, tmp_path: Path) -> None:
    """Memory that the card shares with the processor; processes still use it."""
    for call in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2"):
        recorded["cards"][0]["recorded"][call] = {"returns": "NOT_SUPPORTED"}

    with State.create(state_path, loaded(tmp_path, recorded)) as state:
        state.add_process(state.cards()[0].uuid, 4711, 100_000, "player")

        assert (state.cards()[0].total_mib, state.cards()[0].used_mib) == (0, 100_000)
        assert "100000 / -" in render("table", state.read())
    again = record(state=state_path, library=None)["cards"][0]["recorded"]
    assert again["nvmlDeviceGetMemoryInfo"] == again["nvmlDeviceGetMemoryInfo_v2"] == {"returns": "NOT_SUPPORTED"}
    assert again["nvmlDeviceGetComputeRunningProcesses_v3"][0]["usedGpuMemory"] == 100_000 * 1024**2


def test_values_that_change_are_recorded(state_path: Path, tmp_path: Path, clean_pynvml: None) -> None:
    """Compute mode, persistence and fan come back."""
    with State.create(state_path, Box.load("gtx1080tix1", seed="node-1", driver="535")) as state:
        for key, value in (("compute-mode", "exclusive-process"), ("persistence", "on"), ("fan", "61")):
            state.set_value(state.cards()[0].uuid, key, value)
        content = record(state=state_path, library=None)
        State.create(state_path, loaded(tmp_path, content)).close()

        card = state.cards()[0]
        assert (card.compute_mode, state.read().cards[0].persistence, card.fan) == (3, 1, 61)


def test_the_newer_temperature_is_enough(recorded: dict[str, Any], tmp_path: Path) -> None:
    """The temperature of a driver that no longer answers the older function is the newer function's."""
    calls = recorded["cards"][0]["recorded"]
    calls |= {"nvmlDeviceGetTemperature": {"returns": "DEPRECATED"}, "nvmlDeviceGetTemperatureV": 41}

    card = loaded(tmp_path, recorded).cards[0]

    assert (card.fields["temperature"], card.refused["nvmlDeviceGetTemperature"]) == (41, CODES["DEPRECATED"])
    assert "nvmlDeviceGetTemperatureV" not in card.refused


def test_a_value_that_is_set_is_answered_from_then_on(state_path: Path) -> None:
    """A value that the card did not answer can be given to it."""
    with State.create(state_path, Box.load("vgpu", seed="node-1")) as state:
        assert state.cards()[0].temperature is None
        state.set_value(state.cards()[0].uuid, "temperature", "70")
        assert state.cards()[0].temperature == 70


def test_calls_without_a_place_are_named(recorded: dict[str, Any], tmp_path: Path) -> None:
    """A recorded call that has no place in a state is listed as dropped."""
    recorded["cards"][0]["recorded"]["nvmlDeviceGetMood"] = "calm"

    assert loaded(tmp_path, recorded).dropped == {"nvmlDeviceGetMood"}


def asked(layer: str, state_path: Path) -> dict[str, Any]:
    """A recording made by the command on one of the layers."""
    done = subprocess.run(
        [sys.executable, "-m", "fake_nvml.main", "exec", "--layer", layer, "--state", str(state_path), "--",
         sys.executable, "-m", "fake_nvml.main", "record", *(
            ["--library", "libnvidia-ml.so.1"] if layer == "c" else [])],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(yaml.safe_load(done.stdout))
