"""Promises of gpushare.deviceplugin.core.stuck_pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from gpushare import wire
from gpushare.deviceplugin.core.stuck_pods import StuckPod, stuck_pods
from gpushare.manifests import Pod
from gpushare.model.node import Booking, Device, NodeInfo, lay_out

RESTART = (
    "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices "
    "aliyun.com/gpu-mem, which is unexpected"
)
REPLICA_SET = {"kind": "ReplicaSet", "name": "web-5f7", "uid": "o", "controller": True}


def pod(
    units: object = 2, *, phase: str = "Failed", reason: str = "UnexpectedAdmissionError", message: str | None = RESTART,
    owner: dict[str, Any] | None = None, limits: dict[str, Any] | None = None, **metadata: Any,
) -> Pod:  # fmt: skip
    """A pod that the kubelet turned away."""
    asked = {"limits": {"aliyun.com/gpu-mem": units, **(limits or {})}}
    document = {
        "metadata": {"name": "p", "uid": "u", "ownerReferences": [owner] if owner else None, **metadata},
        "spec": {"containers": [{"name": "c", "resources": asked}, {"name": "beside"}]},
        "status": {"phase": phase, "reason": reason, "message": message},
    }
    return msgspec.convert(document, Pod)


def found(*pods: Pod, held: dict[str, str] | None = None, booked: Mapping[str, int] = {}) -> list[StuckPod]:
    """The stuck pods of a node with a healthy and an unhealthy card; ``booked`` has by uid what pods have of the first."""

    def without(uid: str) -> NodeInfo:
        there = [Booking(one, "team", one, units, ((0, units),)) for one, units in booked.items() if one != uid]
        return lay_out("", (Device(0, 14, model="Tesla T4"), Device(1, 14, healthy=False)), there)

    return stuck_pods(pods, without, held or {})


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("UnexpectedAdmissionError", "Allocate failed due to cannot allocate unregistered device aliyun.com/gpu-mem"),
        ("UnexpectedAdmissionError", "Allocate failed due to endpoint of aliyun.com/gpu-slot has been stopped"),
        ("UnexpectedAdmissionError", "Allocate failed due to rpc error: code = Unavailable desc = error reading: EOF"),
        ("UnexpectedAdmissionError", None),
        ("UnexpectedAdmissionError", RESTART),
        ("OutOfaliyun.com/gpu-mem", "Node didn't have enough resource: aliyun.com/gpu-mem"),
        ("OutOfaliyun.com/gpu-slot", "Node didn't have enough resource: aliyun.com/gpu-slot"),
    ],
)
def test_every_way_to_be_turned_away_for_our_resource_counts(reason: str, message: str | None) -> None:
    """The kubelet's texts, of before and of 1.36."""
    one = pod(reason=reason, message=message)
    (stuck,) = found(one)

    assert (stuck.cause, stuck.metadata) == (f"{reason}: {message or ''}", one.metadata)
    if wire.RESOURCE_PREFIX in f"{message}":
        assert len(found(pod(reason=reason, message=message, limits={"nvidia.com/gpu": 1}))) == 1


OTHERS = {
    "it runs": pod(phase="Running"),
    "it succeeded": pod(phase="Succeeded"),
    "it failed by itself": pod(reason="Error", message="exit 1"),
    "it was evicted": pod(reason="Evicted", message="aliyun.com/gpu-mem"),
    "too little of another resource": pod(reason="OutOfcpu", message="cpu"),
    "another plugin's resource": pod(message="no healthy devices nvidia.com/gpu", limits={"nvidia.com/gpu": 1}),
    "some plugin's answer, and it asks two": pod(message="rpc error", limits={"example.com/nic": 1}),
    "it asks for none of ours": pod(0),
    "it asks for nothing that is a number": pod("1.5"),
    "no card that is healthy could hold it": pod(15),
    "it is being deleted": pod(deletionTimestamp="2026-01-01T00:00:00Z"),
    "nothing is known": Pod(),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_no_other_pod_is_stuck(other: Pod) -> None:
    """Another's reason, one that has not passed, or no pod of ours."""
    assert [stuck.cause for stuck in found(other, pod())] == [f"UnexpectedAdmissionError: {RESTART}"]


@pytest.mark.parametrize(
    ("booked", "asked", "no_room"),
    [
        ({}, {}, ""),
        ({"full": 14}, {}, wire.REASON_NO_CARD_FITS),
        ({"full": 13}, {"units": 1}, ""),
        ({}, {"annotations": {"gpushare.aliyun.com/same-card": "g"}}, ""),
        ({"full": 9}, {"units": 14, "annotations": {"gpushare.aliyun.com/split": "whole"}}, wire.REASON_NO_CARD_FITS),
        ({"full": 9}, {"units": 14, "annotations": {"gpushare.aliyun.com/split": "14,14"}}, None),
        ({"full": 14}, {"annotations": {"gpushare.aliyun.com/card-model": "H100"}}, None),
        ({"full": 14}, {"owner": REPLICA_SET}, None),
        ({"full": 13}, {"owner": REPLICA_SET, "units": 1}, ""),
    ],
)
def test_what_runs_on_the_node_counts(booked: dict[str, int], asked: dict[str, Any], no_room: str | None) -> None:
    """A pod is stuck only if a card has room for it now. While there is none, one that nothing replaces is reported as such."""
    one = pod(asked.pop("units", 2), **asked)

    assert [stuck.no_room for stuck in found(one, booked=booked)] == ([] if no_room is None else [no_room])


def test_a_held_pod_gives_its_own_room_back() -> None:
    """A pod that is held for good stands in the way of its own successor."""
    held = pod(14, phase="Pending", reason="", owner=REPLICA_SET)

    assert len(found(held, held={"u": "its ids lie on two cards"}, booked={"u": 14})) == 1


def test_a_pod_held_for_good_is_stuck_while_it_waits() -> None:
    """The reason is the plugin's own; once it has ended it is another case."""
    (stuck,) = found(pod(phase="Pending", reason="", owner=REPLICA_SET), held={"u": "its ids lie on two cards"})

    assert (stuck.cause, stuck.keep_because) == ("its ids lie on two cards", "")
    assert found(pod(phase="Succeeded", reason=""), held={"u": "x"}) == []


NO_CONTROLLER = "no controller would replace it"
STATIC = "it is a static pod: its file makes it, not the API"
KEPT = {
    "of a ReplicaSet, which replaces it": ({"owner": REPLICA_SET}, "ReplicaSet web-5f7", ""),
    "bare": ({}, "", NO_CONTROLLER),
    "owned by no controller": ({"owner": {**REPLICA_SET, "controller": None}}, "", NO_CONTROLLER),
    "of a Job": (
        {"owner": {**REPLICA_SET, "kind": "Job"}},
        "Job web-5f7",
        "its Job replaces failed pods by itself and counts them",
    ),
    "static": ({"owner": {**REPLICA_SET, "kind": "Node"}}, "Node web-5f7", STATIC),
}


@pytest.mark.parametrize(("given", "owner", "because"), KEPT.values(), ids=KEPT.keys())
def test_a_pod_without_a_controller_is_kept(given: dict[str, Any], owner: str, because: str) -> None:
    """A pod without a controller that would replace it is kept, and the reason is given."""
    (stuck,) = found(pod(**given))

    assert (stuck.owner, stuck.keep_because) == (owner, because)


def test_a_long_message_is_cut() -> None:
    """An event holds 1024 characters, and has more text than this."""
    assert len(found(pod(message="aliyun.com/gpu-mem" + "x" * 5000))[0].cause) == 300
