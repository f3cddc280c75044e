"""Promises of gpushare.model.limits: the texts on a pod and on a node, and failures of NVIDIA's hook."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare.bounds import OVERUSE_TEXT, OVERUSERS
from gpushare.manifests import ContainerStatus
from gpushare.model.limits import (
    STATES,
    CardOveruse,
    ContainerLimit,
    encode_limits,
    encode_overuse,
    hook_failure,
    read_limits,
    read_overuse,
)
from gpushare.model.quantity import LARGEST

NUMBERS = st.integers(0, LARGEST)
LIMITS = st.lists(
    st.builds(ContainerLimit, st.text(max_size=20), NUMBERS, st.sampled_from(STATES), NUMBERS), max_size=9
)


@given(limits=LIMITS)
def test_limits_are_read_as_they_were_written(limits: list[ContainerLimit]) -> None:
    """By container and card, whatever the order they are given in."""
    assert sorted(read_limits(encode_limits(limits)), key=str) == sorted(limits, key=str)
    assert encode_limits(limits[::-1]) == encode_limits(limits) or len({(o.container, o.index) for o in limits}) < len(
        limits
    )


@pytest.mark.parametrize(
    "text",
    [
        None, "", "no JSON", '[["c",0,"sure",1]]', '[["c",-1,"none",1]]', f'[["c",0,"none",{2**63}]]',
        f'[["{"c" * 254}",0,"none",1]]', "[" * 8193, '{"c":1}',
    ],
)  # fmt: skip
def test_a_text_that_is_not_ours_names_no_limits(text: str | None) -> None:
    """An author may write anything."""
    assert read_limits(text) == ()


def test_more_limits_than_fit_are_not_published() -> None:
    """A text that no reader takes would be of no use."""
    assert encode_limits(ContainerLimit(f"container-{at}", 0, "enforced", 4096) for at in range(1000)) == ""


STDERR = r'stderr: time="2026-11-28T10:00:00Z" level=error msg="failed to set memory limits for gpu \"GPU-1\": Not Supported"'
CREATE = "failed to create containerd task: OCI runtime create failed: runc create failed: unable to start container process: "
V1 = 'stderr: level=error msg="setting GPU memory limits is only supported in cgroup v2"'
OLD = (
    CREATE
    + "error running hook #0: exit status 127, stderr: symbol lookup error: undefined symbol: nvmlDeviceSetMemoryLimits_v1"
)


def state(kind: str, reason: str | None, message: str | None) -> dict[str, Any]:
    return {kind: {"reason": reason, "message": message}}


BACK_OFF = state("waiting", "CrashLoopBackOff", "back-off 5m0s restarting failed container")


@pytest.mark.parametrize(
    ("status", "fails"),
    [
        ({"state": state("waiting", "RunContainerError", CREATE + "error running hook #0: " + STDERR)}, True),
        ({"state": state("waiting", "RunContainerError", CREATE + "error running createRuntime hook #0: " + V1)}, True),
        ({"state": state("waiting", "CreateContainerError", "hook apply-cuda-memory-limits failed")}, True),
        ({"state": state("terminated", "StartError", OLD)}, True),
        ({"state": BACK_OFF, "lastState": state("terminated", "StartError", OLD)}, True),
        ({"state": {"running": {}}, "lastState": state("terminated", "StartError", OLD)}, False),
        ({"state": BACK_OFF, "lastState": {"running": {}}}, False),
        ({"state": state("terminated", "Error", OLD)}, False),
        ({"state": state("terminated", "StartError", None)}, False),
        ({"state": state("waiting", "RunContainerError", CREATE + "error running hook #0: device busy")}, False),
        ({"state": state("waiting", "RunContainerError", CREATE + 'exec: "apply-cuda-memory-limits": not found')}, False),
        ({"state": state("waiting", "RunContainerError", CREATE + r'exec: "hook \"failed to set memory limits": no')}, False),
        ({"state": state("waiting", "RunContainerError", "x" * 4096 + OLD)}, False),
        ({}, False),
    ],
    ids=str,
)  # fmt: skip
def test_a_failure_of_the_hook_is_the_runtimes_word(status: dict[str, Any], fails: bool) -> None:
    """The author of a pod can feign none by a command, or by the message of a container that has run."""
    assert (hook_failure(msgspec.convert({"name": "c", **status}, ContainerStatus)) != "") is fails


UIDS = st.uuids().map(str)
PODS = st.lists(st.builds(CardOveruse, UIDS, st.integers(0, 127), NUMBERS, NUMBERS), max_size=8)


@given(found=PODS)
def test_reader_gets_what_the_writer_published(found: list[CardOveruse]) -> None:
    """In the order of cards, whatever the order of the look."""
    assert read_overuse(encode_overuse(found)) == tuple(sorted(found, key=lambda one: (one.index, one.uid)))


def test_no_pods_are_no_annotation() -> None:
    """The annotation goes away with the last pod."""
    assert encode_overuse([]) == ""
    assert read_overuse(None) == read_overuse("") == ()


def test_worst_pods_of_too_many_are_named() -> None:
    """The text stays within what its readers take, and with the largest numbers too."""
    pods = [CardOveruse(f"{number:036}", 0, 1024, 1024 + number) for number in range(1000)]
    named = read_overuse(encode_overuse(pods))
    largest = [CardOveruse("u" * 36, 127, LARGEST, LARGEST)] * 1000

    assert [one.used - 1024 for one in named] == [*range(1000 - OVERUSERS.most, 1000)]
    assert len(encode_overuse(largest)) <= OVERUSE_TEXT.most


@pytest.mark.parametrize(
    "text",
    [
        "no json", "{}", '[["u",0,1]]', '[["u",0,1,"2"]]', '[["u",-1,1,2]]', f'[["u",0,1,{LARGEST + 1}]]',
        f'[["{"u" * 254}",0,1,2]]', f'[["u",0,1,2]]{" " * OVERUSE_TEXT.most}', '[["\ud800",0,1,2]]',
        "[" + '["u",0,1,2],' * OVERUSERS.most + '["u",0,1,2]]', "[" * 1500 + "]" * 1500,
    ],
)  # fmt: skip
def test_a_text_that_is_not_ours_names_no_pods(text: str) -> None:
    """A node can write anything."""
    assert read_overuse(text) == ()
