"""Promises of gpushare.model.pod: how much of a pod stays in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare import wire
from gpushare.bounds import ALLOCATION_CHARACTERS, ANNOTATION_KEPT, QUANTITY_TEXT, WISH_CHARACTERS
from gpushare.errors import GpushareError
from gpushare.manifests import Container, Pod, PodSpec, Resources
from gpushare.model.allocation import Allocation, read_allocation
from gpushare.model.pod import (
    MIRROR,
    cpu_request,
    gpu_containers,
    is_deleting,
    is_finished,
    kept_of,
    request_of,
    split_container,
    was_started,
)


def allocation_or_reason(pod: Pod) -> tuple[Allocation | None, str | None]:
    """The allocation by the pod's own annotations."""
    return read_allocation(pod, pod.metadata.annotations)


READERS: tuple[Callable[[Pod], object], ...] = (
    allocation_or_reason,
    cpu_request,
    gpu_containers,
    is_deleting,
    is_finished,
    request_of,
    split_container,
    was_started,
)
TEXTS = st.one_of(
    st.sampled_from(["", "0", "1", "true", "T4,A100", "whole", "8,4", '{"0":{"0":1,"1":2}}', "GPU-0a", "binpack"]),
    st.builds(lambda text, times: text * times, st.sampled_from(["1", "a,", "x", " "]), st.integers(0, 9000)),
)
AMOUNTS = st.dictionaries(
    st.sampled_from([wire.RESOURCE_MEMORY, wire.RESOURCE_SLOT, "cpu", "memory", "a.b/gpu", "c.d/gpu"]),
    st.sampled_from(["0", "1", "3", "1.5", "500m", "1" * 65, 2]),
)
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("abc"), "resources": st.fixed_dictionaries({"limits": AMOUNTS, "requests": AMOUNTS})},
        optional={"restartPolicy": st.just("Always")},
    ),
    max_size=3,
)
FAILURE = {"reason": "StartError", "message": "hook failed to set memory limits" + "x" * 5000}
STATES = st.sampled_from([{"running": {}}, {"waiting": {}}, {"terminated": {}}, {"terminated": FAILURE}])
STATUSES = st.lists(
    st.fixed_dictionaries(
        {"name": st.just("a")},
        optional={"state": STATES, "lastState": STATES, "containerID": st.just("r://" + "0" * 64)},
    ),
    max_size=2,
)
PODS = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {
                "name": st.just("p"),
                "namespace": st.just("d"),
                "annotations": st.dictionaries(
                    st.sampled_from([v for k, v in vars(wire).items() if k.startswith(("ANNOTATION_", "WISH_"))]), TEXTS
                ),
            }
        ),
        "spec": st.fixed_dictionaries({"containers": CONTAINERS, "initContainers": CONTAINERS}),
        "status": st.fixed_dictionaries(
            {"phase": st.sampled_from(["Pending", "Running", "Failed"]), "containerStatuses": STATUSES}
        ),
    }
)


def answers(pod: Pod) -> list[object]:
    """The answer of each reader, or why it refuses."""
    found: list[object] = []
    for reader in READERS:
        try:
            found.append(reader(pod))
        except GpushareError as error:
            found.append(str(error))
    return found


def pod(**metadata: Any) -> Pod:
    """A pod of 3 units."""
    spec = {"containers": [{"name": "c", "resources": {"limits": {wire.RESOURCE_MEMORY: "3"}}}]}
    return msgspec.convert({"metadata": {"name": "p", "namespace": "d", "uid": "u", **metadata}, "spec": spec}, Pod)


def size(kept: Pod) -> int:
    return len(msgspec.json.encode(kept))


@given(PODS)
def test_every_reader_finds_in_it_what_is_in_the_pod(document: dict[str, Any]) -> None:
    """Every reader gives the same answer for the kept pod, or a refusal with the same text."""
    whole = msgspec.convert(document, Pod)

    assert answers(kept_of(whole)) == answers(whole)
    assert kept_of(kept_of(whole)) == kept_of(whole)


def test_foreign_annotations_are_not_kept() -> None:
    """Foreign annotations and labels are not kept, however many. The one that marks a static pod is."""
    ours = {MIRROR: "hash", wire.ANNOTATION_INDEX: "1"}
    large = pod(annotations={"note": "x" * 250_000, **ours}, labels={f"l{n}": "x" * 60 for n in range(4000)})

    assert size(large) > 500_000
    assert size(kept_of(large)) < 1000
    assert kept_of(large).metadata.annotations == ours


@pytest.mark.parametrize("where", ["limits", "requests"])
def test_foreign_resources_are_not_kept(where: str) -> None:
    """Foreign resources, ports, volumes and affinity are not kept. One resource stays: another plugin may refuse the pod for it."""
    foreign = {f"example.com/r{n}": "1" for n in range(5000)}
    container = {"name": "c", "resources": {where: foreign}, "ports": [{"hostPort": n} for n in range(1, 3000)]}
    spec = {"containers": [container], "volumes": [{"persistentVolumeClaim": {}}] * 3000, "affinity": {}}
    large = msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, Pod)

    assert size(large) > 100_000
    assert size(kept_of(large)) < 1000
    (kept,) = kept_of(large).spec.containers or ()
    assert list(getattr(kept.resources, where)) == ["example.com/r0"]


def test_messages_of_containers_are_not_kept() -> None:
    """Nor are their ids: equal statuses are one in memory."""
    long = {"reason": "Error", "message": "m" * 9000}
    states = {"waiting": long, "terminated": long}
    statuses = [{"name": "c", "containerID": "x" * 9000, "state": states, "lastState": states}] * 3
    document = {"metadata": {"name": "p"}, "status": {"containerStatuses": statuses, "initContainerStatuses": statuses}}

    assert size(kept_of(msgspec.convert(document, Pod))) < 1500


def test_what_controls_a_pod_is_kept() -> None:
    """The other owners are not, nor more of the kubelet's message than a person reads."""
    owners = [{"kind": "A", "uid": str(n)} for n in range(3)] + [{"kind": "Job", "uid": "j", "controller": True}]
    message = {"phase": "Failed", "message": "m" * 9000}
    document = {"metadata": {"name": "p", "ownerReferences": owners}, "status": message}
    kept = kept_of(msgspec.convert(document, Pod))

    assert [owner.uid for owner in kept.metadata.owner_references or ()] == ["j"]
    assert kept.status is not None
    assert kept.status.message == "m" * 4096
    assert kept_of(Pod()) == Pod()


def test_a_kept_pod_stays_on_its_node_with_its_priority() -> None:
    """The extender reads both of them when it preempts, and its book has the kept pod."""
    spec = {"nodeName": "n", "priority": 7}

    assert kept_of(msgspec.convert({"spec": spec}, Pod)).spec == PodSpec(node_name="n", priority=7)


@pytest.mark.parametrize(("containers", "is_shared"), [(1, True), (100, False)])
def test_pods_of_one_template_share_their_containers(containers: int, is_shared: bool) -> None:
    """Equal containers and statuses are in memory once, unless they are large: an author decides about their size."""
    names = [{"name": f"container-{number}"} for number in range(containers)]
    document = {"spec": {"containers": names}, "status": {"phase": "Running", "containerStatuses": names}}
    one, other = (kept_of(msgspec.convert(document, Pod)) for _ in range(2))

    assert one == other
    assert one.status is not None
    assert other.status is not None
    assert (one.spec.containers is other.spec.containers) == is_shared
    assert (one.status.container_statuses is other.status.container_statuses) == is_shared


def test_a_text_is_cut_one_character_behind_its_bound() -> None:
    """Its reader still sees that it is too large; of a wish that nothing reads only the name stays."""
    bounds = {
        wire.ANNOTATION_INDEX: ANNOTATION_KEPT,
        wire.WISH_MODEL: WISH_CHARACTERS,
        wire.ANNOTATION_ALLOCATION: ALLOCATION_CHARACTERS,
    }
    long = dict.fromkeys((*bounds, wire.PEOPLE_PREFIX + "unknown"), "1" * 9000)
    amounts = {"limits": {wire.RESOURCE_MEMORY: "1" * 9000}}
    whole = {"metadata": {"annotations": long}, "spec": {"containers": [{"name": "c", "resources": amounts}]}}
    kept = kept_of(msgspec.convert(whole, Pod))

    cut = {name: "1" * (bound.most + 1) for name, bound in bounds.items()}
    assert kept.metadata.annotations == cut | {wire.PEOPLE_PREFIX + "unknown": ""}
    resources = Resources(limits={wire.RESOURCE_MEMORY: "1" * (QUANTITY_TEXT.most + 1)})
    assert kept.spec.containers == [Container(name="c", resources=resources)]
