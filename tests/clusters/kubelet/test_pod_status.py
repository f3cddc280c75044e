"""The pod status that follows from the states of containers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clusters.images.behaviour import Behaviour
from clusters.kubelet.pod_status import ContainerState, PodState, Waiting, phase_of, status_of
from clusters.kubelet.pods import Container, Kind, Rejection
from clusters.kubelet.runtime import Run

NOW = 1_700_000_000.0


def one(kind=Kind.APP, *codes, running=False, waiting=None) -> Any:
    """A container that ended with each of the codes, and runs again if ``running``."""
    item = Container(kind.value, "img", kind, {}, (), ())
    runs = []
    for attempt, code in enumerate((*codes, None) if running else codes):
        run = Run(item, Behaviour(), attempt, 5_000_000 + attempt, lambda: NOW)
        if code is not None:
            run.finish(code)
        runs.append(run)
    return ContainerState(item, tuple(runs), waiting)


def state_of(*containers, policy="Always", **more) -> PodState:
    return PodState(containers, policy, "2023-11-14T22:13:20Z", "127.0.0.1", "10.0.0.1", **more)


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        (state_of(one()), "Pending"),
        # As a real kubelet has it: a pod runs when each of its containers has been started.
        (state_of(one(running=True), one()), "Pending"),
        (state_of(one(Kind.APP, 1), one()), "Pending"),
        (state_of(one(running=True), one(Kind.APP, 1)), "Running"),
        (state_of(one(Kind.APP, 1)), "Running"),
        (state_of(one(Kind.APP, 0), policy="Never"), "Succeeded"),
        (state_of(one(Kind.APP, 0), one(Kind.APP, 3), policy="Never"), "Failed"),
        (state_of(one(Kind.APP, 0), policy="OnFailure"), "Succeeded"),
        (state_of(one(Kind.APP, 1), policy="OnFailure"), "Running"),
        (state_of(one(Kind.INIT, 1), one()), "Pending"),
        (state_of(one(Kind.INIT, 1), one(), policy="Never"), "Failed"),
        (state_of(one(Kind.SIDECAR, running=True), one()), "Pending"),
        (state_of(one(Kind.SIDECAR, running=True), one(Kind.APP, 0), policy="Never"), "Running"),
        (state_of(one(Kind.SIDECAR, 143), one(Kind.APP, 0), policy="Never"), "Succeeded"),
        (state_of(one(running=True), stopping=True), "Running"),
        (state_of(one(Kind.APP, 143), stopping=True), "Failed"),
        (state_of(one(Kind.APP, 0), stopping=True), "Succeeded"),
        (state_of(one(), stopping=True), "Failed"),
    ],
)
def test_the_phase_follows_from_the_containers(state, phase) -> None:
    """Init containers, sidecars, restart policy and deletion count as in a kubelet."""
    assert phase_of(state) == phase


def test_a_condition_keeps_its_time_until_it_changes() -> None:
    """A condition keeps its time until it changes, and a reason that is over is removed with null."""
    before = status_of(state_of(one()), NOW, [])["conditions"]
    after = {c["type"]: c for c in status_of(state_of(one(running=True)), NOW + 60, before)["conditions"]}

    assert after["Initialized"]["lastTransitionTime"] == "2023-11-14T22:13:20Z"
    assert after["Ready"] == {
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": "2023-11-14T22:14:20Z",
        "reason": None,
    }


def test_a_container_that_waits_after_a_failure_shows_both() -> None:
    """The wait is its state, the failure its last state."""
    waiting = Waiting("CrashLoopBackOff", "back-off 10s")
    (shown,) = status_of(state_of(one(Kind.APP, 1, 2, waiting=waiting)), NOW, [])["containerStatuses"]

    assert shown["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
    assert shown["lastState"]["terminated"]["exitCode"] == 2
    assert (shown["restartCount"], shown["ready"]) == (1, False)


def test_a_running_container_shows_the_end_before() -> None:
    """The exit code of the life before is its last state."""
    (shown,) = status_of(state_of(one(Kind.APP, 7, running=True)), NOW, [])["containerStatuses"]

    assert shown["state"] == {"running": {"startedAt": "2023-11-14T22:13:20Z"}}
    assert shown["lastState"]["terminated"]["exitCode"] == 7


@pytest.mark.parametrize(("inits", "reason"), [((), "ContainerCreating"), ((one(Kind.INIT),), "PodInitializing")])
def test_a_container_before_its_start_says_what_it_waits_for(inits, reason) -> None:
    """A pod with init containers has a reason of its own."""
    status = status_of(state_of(*inits, one()), NOW, [])

    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": reason}}


def test_the_devices_of_app_containers_are_shown() -> None:
    """A pod's status shows the devices of app containers, and none of sidecars."""
    devices = {"example.com/slice": {"a": True, "b": False}}
    containers = [replace(one(kind, running=True), devices=devices) for kind in (Kind.SIDECAR, Kind.APP)]
    status = status_of(state_of(*containers), NOW, [])

    assert "allocatedResourcesStatus" not in status["initContainerStatuses"][0]
    assert status["containerStatuses"][0]["allocatedResourcesStatus"] == [
        {
            "name": "example.com/slice",
            "resources": [{"resourceID": "a", "health": "Healthy"}, {"resourceID": "b", "health": "Unhealthy"}],
        }
    ]


def test_a_pod_that_was_not_let_in_has_no_more_than_the_reason() -> None:
    """A pod that was not admitted has phase, start time, reason and message, and neither conditions nor address."""
    rejection = Rejection("OutOfpods", "Pod was rejected: too many")

    assert status_of(state_of(one(), rejection=rejection), NOW, []) == {
        "phase": "Failed",
        "startTime": "2023-11-14T22:13:20Z",
        "reason": "OutOfpods",
        "message": "Pod was rejected: too many",
    }


def test_running_pod_that_was_not_let_in_again_is_not_ready() -> None:
    """A running pod that was not admitted again after a restart has the condition Ready=False."""
    rejection = Rejection("UnexpectedAdmissionError", "Pod was rejected: no devices")
    shown = status_of(state_of(one(running=True), rejection=rejection), NOW, [])["conditions"]

    assert {c["type"]: c["status"] for c in shown}["Ready"] == "False"
