"""Limits of memory by cgroup, as callers of driver 615 meet them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pynvml
import pytest

from fake_nvml.core.limits import LimitOptions
from fake_nvml.core.returns import DOES_NOTHING, code_name
from fake_nvml.fake_nvml_errors import StateError
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


@pytest.mark.parametrize(
    ("backend", "missing", "low"), [("dmem", NOT_FOUND, 0), ("misc", NOT_SUPPORTED, INVALID_ARGUMENT)]
)
def test_a_backend_shows_in_two_codes(state: State, pod: Path, backend: str, missing: int, low: int) -> None:
    """A driver that counts itself answers "not supported" for no limit, and refuses less than is in use."""
    state.set_limit_options(LimitOptions(backend))
    assert limits(pod) == missing
    state.add_process(state.cards()[0].uuid, 100, 2048, "player", cgroup=pod)

    assert limit(pod, 0, GIB) == low


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
