"""Promises of gpushare.model.pod."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from gpushare.errors import InvalidWishError
from gpushare.manifests import Container, ObjectMeta, Pod, PodSpec, Resources
from gpushare.model.pod import (
    Request,
    cpu_request,
    gpu_containers,
    is_finished,
    is_lingering,
    names_card_resources,
    pod_request,
    request_of,
    slot_request,
    split_container,
    was_started,
)


def container(name: str, units: object = None, **more: object) -> dict[str, object]:
    """A container that asks for units, as limit."""
    resources = {} if units is None else {"limits": {"aliyun.com/gpu-mem": units}}
    return {"name": name, "resources": resources, **more}


def pod(containers: Sequence[object], init: Sequence[object] | None = None, **status: object) -> Pod:
    """A pod as the API server would send it."""
    document = {"metadata": {"name": "p"}, "spec": {"containers": containers, "initContainers": init}, "status": status}
    return msgspec.convert(document, Pod)


SIDECAR = container("s", "2", restartPolicy="Always")
# Containers, init containers, and the units that the pod holds.
WORST: dict[str, tuple[list[object], list[object], int]] = {
    "containers run together": ([container("a", "1"), container("b", "2"), container("c")], [], 3),
    "init containers run alone": ([container("a", "2")], [container("i", "5"), container("j", "1")], 5),
    "a sidecar runs beside all after it": (
        [container("a", "3")], [container("i", "4"), SIDECAR, container("j", "4")], 6,
    ),
    "sidecars run together": ([container("a", "1")], [SIDECAR, container("t", "3", restartPolicy="Always")], 6),
}  # fmt: skip


@pytest.mark.parametrize(("containers", "init", "units"), WORST.values(), ids=WORST.keys())
def test_a_pod_requests_what_it_holds_at_its_worst_moment(
    containers: list[object], init: list[object], units: int
) -> None:
    """The scheduler's own rule for requests."""
    assert pod_request(pod(containers, init)) == units
    assert request_of(pod(containers, init)).units == units


@pytest.mark.parametrize(
    ("resources", "milli"),
    [
        ({"requests": {"cpu": "1500m"}}, 1500),
        ({"requests": {"cpu": "much"}}, 0),
        ({"requests": {"memory": "1Gi"}}, 0),
        ({"limits": {"cpu": "4"}}, 0),
        (None, 0),
    ],
)
def test_a_pod_asks_for_the_cpu_of_its_containers(resources: object, milli: int) -> None:
    """A container without a quantity for it asks for none."""
    assert cpu_request(pod([{"name": "a", "resources": resources}])) == milli


def test_limit_counts_and_the_request_only_without_a_limit() -> None:
    """Kubernetes wants both equal; a hand-written one may name either."""
    both = {"name": "a", "resources": {"limits": {"aliyun.com/gpu-mem": "2"}, "requests": {"aliyun.com/gpu-mem": "9"}}}
    only = {"name": "b", "resources": {"limits": {"cpu": "1"}, "requests": {"aliyun.com/gpu-mem": "3"}}}

    assert pod_request(pod([both, only])) == 5


@pytest.mark.promise("EXT-003")
def test_nulls_are_absent() -> None:
    """Go sends null for empty lists and maps."""
    document = {"metadata": {"name": "p"}, "spec": {"containers": None, "initContainers": None}, "status": None}
    empty = msgspec.convert(document, Pod)

    assert (pod_request(empty), gpu_containers(empty), is_finished(empty)) == (0, (), False)
    assert (request_of(empty), was_started(empty)) == (Request(0, 0), False)


@pytest.mark.parametrize(
    ("resources", "names"),
    [
        ({"limits": {"aliyun.com/gpu-mem": "0"}}, True),
        ({"requests": {"aliyun.com/gpu-slot": "1"}}, True),
        ({"limits": {"cpu": "1", "nvidia.com/gpu": "1"}, "requests": {"cpu": "1"}}, False),
        ({}, False),
        (None, False),
    ],
)
def test_a_pod_names_our_resources_in_any_container(resources: object, names: bool) -> None:
    """Also with the quantity 0: a scheduler then asks an extender."""
    one = {"name": "a", "resources": resources}

    assert names_card_resources(pod([container("b"), one])) is names
    assert names_card_resources(pod([container("b")], [one])) is names


def test_gpu_containers_come_in_the_kubelets_order() -> None:
    """Init containers first, then containers, those without a request left out."""
    ordered = gpu_containers(pod([container("a", "1"), container("b")], [container("i", "2")]))

    assert ordered == (("i", 2), ("a", 1))


@pytest.mark.parametrize(
    ("status", "finished"),
    [
        ({"phase": "Running"}, False),
        ({"phase": "Pending"}, False),
        ({"phase": "Succeeded"}, True),
        ({"phase": "Failed"}, True),
        ({"phase": "Failed", "containerStatuses": [{"name": "a", "state": {"running": {}}}]}, False),
        ({"phase": "Failed", "initContainerStatuses": [{"name": "a", "state": {"running": {}}}]}, False),
        ({"phase": "Failed", "containerStatuses": [{"name": "a", "state": {"terminated": {}}}, {"name": "b"}]}, True),
    ],
)
def test_a_pod_is_finished_when_its_containers_are_gone(status: dict[str, Any], finished: bool) -> None:
    """The phase alone does not free memory that a running container still uses."""
    assert is_finished(pod([container("a", "1")], **status)) is finished


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_note_of_the_plugin_ends_a_lingering_pod(phase: str) -> None:
    """The plugin writes that a boot has ended the processes; the note means nothing on a pod that has not ended by its phase."""
    status: dict[str, Any] = {"phase": phase, "containerStatuses": [{"name": "a", "state": {"running": {}}}]}
    one, other = pod([container("a", "1")], **status), pod([container("a", "1")], **status | {"phase": "Running"})

    assert (is_lingering(one), is_finished(one)) == (True, False)
    for each in (one, other):
        each.metadata.annotations = {"ALIYUN_COM_GPU_MEM_ENDED": "boot-2"}
    assert (is_lingering(one), is_finished(one)) == (False, True)
    assert (is_lingering(other), is_finished(other)) == (False, False)


@pytest.mark.parametrize(
    ("assigned", "status", "started"),
    [
        ("false", {"phase": "Running"}, True),
        ("true", {"phase": "Pending"}, False),
        ("true", {"phase": "Pending", "containerStatuses": [{"name": "a"}]}, True),
        ("true", {"phase": "Pending", "initContainerStatuses": [{"name": "a"}]}, True),
        ("false", {"phase": "Pending", "containerStatuses": [{"name": "a"}]}, False),
    ],
)
def test_a_pod_was_started_if_its_kubelet_knows_it_too(assigned: str, status: dict[str, Any], started: bool) -> None:
    """The note is copied with a manifest, the status is not."""
    one = pod([container("a", "1")], **status)
    one.metadata.annotations = {"ALIYUN_COM_GPU_MEM_ASSIGNED": assigned}

    assert was_started(one) is started


def slotted(name: str, units: object, slots: object = "1", **more: object) -> dict[str, object]:
    """A container that asks for units and slots."""
    return {"name": name, "resources": {"limits": {"aliyun.com/gpu-mem": units, "aliyun.com/gpu-slot": slots}}, **more}


def test_pod_holds_a_slot_for_each_container_with_memory() -> None:
    """By the rule of the units: init containers hand theirs on, sidecars keep theirs, the others need none."""
    init = [slotted("i", "9"), slotted("s", "1", restartPolicy="Always"), slotted("j", "9"), container("k")]

    assert slot_request(pod([slotted("a", "1"), container("b"), slotted("c", "2")], init)) == 3
    assert slot_request(pod([container("a")], init)) == 2
    assert slot_request(pod([container("a")])) == 0


@pytest.mark.parametrize(
    "containers",
    [
        [container("a", "3")],
        [slotted("a", "3", "2")],
        [slotted("a", "3", "0")],
        [slotted("a", "3"), container("b", "1")],
        [{"name": "a", "resources": {"limits": {"aliyun.com/gpu-mem": "3"}, "requests": {"aliyun.com/gpu-slot": "1"}}}],
    ],
    ids=["none", "two", "zero", "one of two containers", "a request alone"],
)
def test_container_without_exactly_one_slot_limit_names_none(containers: list[object]) -> None:
    """The kubelet allocates by limits; two slots may lie on two cards."""
    assert not request_of(pod(containers)).names_slots
    assert not request_of(pod([slotted("m", "1")], containers)).names_slots


def test_a_slot_without_memory_breaks_the_rule() -> None:
    """The plugin has no card for a slot without memory. A container without resources asks for neither."""
    lone = {"name": "l", "resources": {"limits": {"aliyun.com/gpu-slot": "1"}}}

    assert request_of(pod([slotted("a", "3"), {"name": "bare"}])) == Request(3, 1)
    assert request_of(pod([slotted("a", "3"), lone])) == Request(3, 1, names_slots=False)
    assert request_of(pod([lone])) == Request(0, 0, names_slots=False)


@pytest.mark.parametrize(
    ("split", "containers", "init", "is_good"),
    [
        ("2,1", [3], [], True),
        ("2,1", [0, 3], [], True),
        ("2,2", [3], [], False),
        ("2,1", [2, 1], [], False),
        ("2,1", [3], [3], False),
        ("2,1", [], [3], False),
    ],
)
def test_a_split_is_of_what_the_one_container_asks_for(
    split: str, containers: list[int], init: list[int], is_good: bool
) -> None:
    """The owner of each part would be unknown if two ask; and the parts are the whole."""

    def asking(units: int) -> Container:
        return Container(resources=Resources(limits={"aliyun.com/gpu-mem": units}) if units else None)

    spec = PodSpec(containers=list(map(asking, containers)), init_containers=list(map(asking, init)))
    pod = Pod(metadata=ObjectMeta(annotations={"gpushare.aliyun.com/split": split}), spec=spec)

    if is_good:
        assert request_of(pod).wishes.split == (2, 1)
        assert split_container(pod) == len(containers) - 1
    else:
        with pytest.raises(InvalidWishError, match="one container"):
            request_of(pod)
