"""Defects of the original's extender that others see, from D19 on (CONTRIBUTING.md has the list): each a case that it fails.

Elsewhere are D19 (e2e/conformance/test_bad_input.py), D20 (test_defect_refused_binding.py), D23 (test_extender_wire.py), D24
(test_held_bind.py), D25 (test_extender_prioritize.py, test_preemption.py) and D28 (test_defect_manifests.py).
"""

from __future__ import annotations

import json
from typing import Final

import pytest

from clusters.api.resources import NODES
from clusters.targets import Target
from e2e import spec
from e2e.builders import booking, gpu_pod
from e2e.extender.extender_under_test import ExtenderUnderTest
from e2e.observer import Observer

pytestmark = pytest.mark.stand_in_only("no kubelet has a part in it")

# The annotations with which a pod's author would pretend that it has a card.
FORGERY: Final = {
    spec.POD_INDEX: "1",
    spec.POD_UNITS: "1",
    spec.POD_DEVICE_UNITS: "1000",
    spec.POD_ASSIGNED: "true",
    spec.POD_ASSUME_TIME: "1",
    spec.POD_ALLOCATION: json.dumps({"0": {"1": 1}}),
    spec.POD_EXTENDER: "gpushare/1",
}


@pytest.mark.promise("D26")
async def test_d26_nothing_but_the_contract_is_open(stage: ExtenderUnderTest) -> None:
    """D26: profiles of the program and much else could be read by any pod. (Certificates: test_tls.py.)"""
    root = "/".join(stage.cluster.extender_url().split("/")[:3])
    paths = (
        "/debug/pprof/",
        "/debug/pprof/goroutine",
        "/debug/pprof/profile",
        "/debug/vars",
        "/",
        "/openapi.json",
        "/docs",
    )

    answered = {path: (await stage.observer.get(root + path)).status_code for path in paths}
    assert {path: status for path, status in answered.items() if not 400 <= status < 500} == {}


@pytest.mark.promise("D29")
@pytest.mark.needs("call")
async def test_d29_a_pod_that_was_asked_about_too_early_is_called(stage: ExtenderUnderTest, name: str) -> None:
    """D29: asked about a full node only while another has room, a pod waited five minutes; now the other node shows its room."""
    await stage.node(f"{name}-full", 100, 1)
    await stage.node(name, 100, 1)
    await stage.booked("there", f"{name}-full", 0, 60)
    await stage.used(f"{name}-full", 60)
    (pod,) = await stage.create(stage.pod("waits", 50))

    async with stage.calling(name):
        assert await stage.fits(pod, f"{name}-full") == []
    if stage.claims("room"):
        rooms = [
            spec.NODE_ROOM in ((await stage.api.get(NODES, node))["metadata"].get("annotations") or {})
            for node in (name, f"{name}-full")
        ]
        assert rooms == [True, False]


@pytest.mark.promise("D30")
async def test_d30_an_amount_by_a_pods_author_is_not_believed(stage: ExtenderUnderTest, name: str) -> None:
    """D30: a pod that came past the scheduler was booked with what its author wrote, and not with what it asks for."""
    await stage.node(name, 14)
    await stage.create(stage.pod("modest", 9, bound_to=name, annotations=booking(1, card=0)))

    await stage.used(name, 9)


@pytest.mark.needs("device_plugin")
@pytest.mark.promise("API-008")
async def test_card_annotations_by_a_pods_author_are_written_again(observer: Observer, target: Target) -> None:
    """Before the bind they book nothing; the bind writes all of them, and the pod runs on the card in the book."""
    # An extender that knows one card for each pod does not know this one.
    unknown = () if "several-cards" in target.claims else (spec.POD_ALLOCATION,)
    forgery = {name: text for name, text in FORGERY.items() if name not in unknown}
    waiting = gpu_pod("waiting", 3, node="nowhere", annotations=forgery)
    await observer.create(gpu_pod("there", 12, node="a2"), waiting)
    (there,) = await observer.running("there")
    (pod,) = await observer.run(gpu_pod("forged", 5, node="a2", annotations=forgery))
    annotations = pod["metadata"]["annotations"]

    assert annotations[spec.POD_INDEX] != there["metadata"]["annotations"][spec.POD_INDEX]
    assert (annotations[spec.POD_UNITS], annotations[spec.POD_DEVICE_UNITS]) == ("5", "14")
    assert annotations.get(spec.POD_ALLOCATION) != FORGERY[spec.POD_ALLOCATION]
    assert int(annotations[spec.POD_ASSUME_TIME]) > 1
    await observer.check_all("there", "forged")
