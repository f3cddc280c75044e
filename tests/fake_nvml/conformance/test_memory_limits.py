"""Limits of memory by cgroup, as callers of driver 615 meet them."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import pynvml
import pytest

from fake_nvml.core.limits import LimitOptions
from fake_nvml.core.returns import DOES_NOTHING, code_name
from fake_nvml.fake_nvml_errors import CardFullError, StateError
from fake_nvml.native.build import LIBRARY, library_folder
from fake_nvml.state import State
from tests.fake_nvml.conformance.calls import (
    INVALID_ARGUMENT,
    NO_PERMISSION,
    NOT_FOUND,
    NOT_SUPPORTED,
    cards,
    code,
    raw,
)

pytestmark = [
    pytest.mark.parametrize("driver", ["615.71.09"], indirect=True),
    pytest.mark.usefixtures("nvml", "as_root"),
]

BOX = "t4x2"
GIB, NONE = 2**30, 2**64 - 1
OPERATING_SYSTEM = 17


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver takes this process for root's, also if another user runs the tests."""
    monkeypatch.setenv("FAKENVML_AS_ROOT", "1")


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    """The directory of a pod's cgroup, with one of a container in it."""
    (tmp_path / "pod" / "container").mkdir(parents=True)
    return tmp_path / "pod"


def limit(cgroup: Path | None, soft: int, hard: int, card: int = 0) -> int:
    """The code of a Set."""
    name = None if cgroup is None else os.fsencode(cgroup)
    wanted = pynvml.c_nvmlSetMemoryLimits_v1_t(nameSpace=name, softLimit=soft, hardLimit=hard)
    return code(pynvml.nvmlDeviceSetMemoryLimits_v1, cards()[card], wanted)


def limits(cgroup: Path, card: int = 0) -> Any:
    """Soft, hard and used bytes that a Get answers, or its code."""
    found = pynvml.c_nvmlGetMemoryLimits_v1_t(nameSpace=os.fsencode(cgroup))
    failed = code(pynvml.nvmlDeviceGetMemoryLimits_v1, cards()[card], found)
    return failed or (found.softLimit, found.hardLimit, found.currentUsed)


def test_a_limit_is_that_of_a_card_and_a_cgroup(state: State, pod: Path) -> None:
    """A cgroup has its own limit, else the nearest above; the last one set holds, and 0 with the maximum is none."""
    container, uuid = pod / "container", state.cards()[0].uuid
    assert (limit(pod, 0, 4 * GIB), limit(container, GIB, 2 * GIB)) == (0, 0)
    state.add_process(uuid, 100, 500, "player", cgroup=container)
    state.add_process(uuid, 101, 20, "player", cgroup=container)
    state.add_process(uuid, 102, 1000, "player")

    assert (limits(pod), limits(container)) == ((0, 4 * GIB, 0), (GIB, 2 * GIB, 520 * 2**20))
    (container / "inner").mkdir()
    assert limits(container / "inner") == (GIB, 2 * GIB, 0)
    assert (limits(container, card=1), limits(pod.parent)) == (NOT_FOUND, NOT_FOUND)
    assert limit(container, 0, NONE) == 0
    assert limits(container) == (0, NONE, 520 * 2**20)


def test_what_makes_no_sense_is_refused(state: State, pod: Path) -> None:
    """The code has the reason, and nothing is kept."""
    total, uuid = pynvml.nvmlDeviceGetMemoryInfo(cards()[0]).total, state.cards()[0].uuid
    refused = [(2 * GIB, GIB), (0, total + 1), (total + 1, NONE)]

    assert [limit(pod, soft, hard) for soft, hard in refused] == [INVALID_ARGUMENT] * 3
    assert limit(None, 0, GIB) == INVALID_ARGUMENT
    for soft, hard in refused:
        with pytest.raises(StateError, match="^limits go up to"):
            state.set_limit(uuid, pod, soft, None if hard == NONE else hard)
    assert raw("nvmlDeviceSetMemoryLimits_v1", cards()[0], None) == INVALID_ARGUMENT
    (pod / "file").touch()
    for wrong in (pod / "file", pod / "missing"):
        assert (limit(wrong, 0, GIB), limits(wrong)) == (OPERATING_SYSTEM, OPERATING_SYSTEM)
    assert limits(pod) == NOT_FOUND
    assert limit(pod, 0, total) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_only_root_sets_and_anyone_gets(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller without privilege reads what root has set."""
    monkeypatch.delenv("FAKENVML_AS_ROOT")
    (pod := state.path.with_name("pod")).mkdir()
    assert limit(pod, 0, GIB) == 0
    os.seteuid(65534)
    try:
        assert (limit(pod, 0, 2 * GIB), limits(pod)) == (NO_PERMISSION, (0, GIB, 0))
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    ("backend", "missing", "low"), [("dmem", NOT_FOUND, 0), ("misc", NOT_SUPPORTED, INVALID_ARGUMENT)]
)
def test_a_backend_shows_in_two_codes(state: State, pod: Path, backend: str, missing: int, low: int) -> None:
    """A driver that counts itself answers "not supported" for no limit, and refuses less than is in use."""
    state.set_limit_options(LimitOptions(backend))
    assert limits(pod) == missing
    state.add_process(state.cards()[0].uuid, 100, 2048, "player", cgroup=pod)

    assert limit(pod, 0, GIB) == low


def test_a_node_that_cannot_limit_says_so(state: State, pod: Path) -> None:
    """Neither a kernel without both controllers nor a card in MIG mode has limits; the command refuses them too."""
    uuid = state.cards()[0].uuid
    for able in (False, True):
        with state.mapped.writing() as content:
            content.header.limits, content.cards[0].mig_mode = (0, 1) if able else (2, 0)
        assert (limit(pod, 0, GIB), limits(pod)) == (NOT_SUPPORTED, NOT_SUPPORTED)
        with pytest.raises(StateError, match="no limits on"):
            state.set_limit(uuid, pod, 0, GIB)


@pytest.mark.parametrize("keeps", [False, True])
def test_a_dead_limit_is_inherited_only_if_the_box_says_so(
    state: State, pod: Path, tmp_path: Path, keeps: bool
) -> None:
    """A new directory with the inode of one that is gone has its limit, until the next Set drops that."""
    state.set_limit_options(LimitOptions("misc", keeps_dead=keeps))
    assert limit(pod, 0, GIB) == 0
    reborn = pod.rename(tmp_path / "reborn")  # a rename keeps the inode

    assert limits(reborn) == (0, GIB, 0)
    assert limit(reborn / "container", 0, 2 * GIB) == 0
    assert limits(reborn) == ((0, GIB, 0) if keeps else NOT_SUPPORTED)
    assert limit(reborn, 0, GIB) == 0
    reborn.rename(pod)
    assert state.clear_limits(dead=True) == (0 if keeps else 2)
    assert (len(state.limits()), state.clear_limits()) == ((2, 2) if keeps else (0, 0))


def test_a_set_can_succeed_and_keep_nothing(state: State, pod: Path) -> None:
    """The fault is one of Set alone; any other fault is met as well, and a reboot takes limits away."""
    state.add_fault("nvmlDeviceSetMemoryLimits", code=DOES_NOTHING, count=1)
    assert code_name(state.faults()[0].code) == "SUCCESS"
    state.add_fault("nvmlDeviceGetMemoryLimits_v1", code=NO_PERMISSION, count=1)

    assert (limit(pod, 0, GIB), limits(pod), limits(pod)) == (0, NO_PERMISSION, NOT_FOUND)
    assert (limit(pod, 0, GIB), limits(pod)) == (0, (0, GIB, 0))
    with pytest.raises(StateError, match="fault of nvmlDeviceSetMemoryLimits_v1 alone"):
        state.add_fault("nvmlDeviceGetName", code=DOES_NOTHING)
    state.reboot()
    assert limits(pod) == NOT_FOUND


def test_a_process_stays_within_the_limit_of_its_cgroup(state: State, pod: Path) -> None:
    """All processes of the cgroup count, others do not; a card that comes into the slot has no limit."""
    container, uuid = pod / "container", state.cards()[0].uuid
    assert limit(pod, 0, GIB) == 0
    state.add_process(uuid, 99, 2000, "player", cgroup=pod.parent)
    state.add_process(uuid, 100, 1000, "player", cgroup=container)

    with pytest.raises(CardFullError, match="24 MiB free"):
        state.add_process(uuid, 101, 25, "player", cgroup=container)
    state.add_process(uuid, 100, 1024, "player", cgroup=container)
    (pod / "file").touch()
    for wrong in ("missing", "file"):
        with pytest.raises(StateError, match="no directory of a cgroup"):
            state.add_process(uuid, 101, 1, "player", cgroup=pod / wrong)
    state.change_uuid(uuid)
    assert state.limits() == []


def test_the_table_of_limits_has_an_end(state: State, pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Set without room has a code; a limit of a path without room is kept without its path."""
    for number in range(256):
        (pod / str(number)).mkdir()
        state.set_limit(state.cards()[0].uuid, pod / str(number), 0, GIB)

    assert limit(pod, 0, GIB) == 23
    with pytest.raises(StateError, match="no room for another limit: 256"):
        state.set_limit(state.cards()[0].uuid, pod, 0, GIB)
    state.clear_limits()
    deep = pod / ("x" * 200) / ("y" * 200) / ("z" * 200)
    deep.mkdir(parents=True)
    assert limit(deep, 0, GIB) == 0
    assert [(one.path, one.used) for one in state.limits()] == [("", 0)]
    state.set_limit(state.cards()[0].uuid, deep, 0, None)
    assert [(one.path, one.hard) for one in state.limits()] == [("", None)]


def test_a_driver_before_615_has_no_such_function(state: State) -> None:
    """Programs that ask for it end, as the real hook does."""
    library = ctypes.CDLL(str(library_folder("610") / LIBRARY))

    assert not hasattr(library, "nvmlDeviceSetMemoryLimits_v1")
