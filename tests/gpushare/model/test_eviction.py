"""Promises of gpushare.model.eviction."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from gpushare.manifests import DisruptionBudget, Pod
from gpushare.model.eviction import (
    Evictable,
    by_namespace,
    evictable_of,
    is_entangled,
    kept_budget,
    other_requests,
    protected,
)


def pod(spec: Mapping[str, object], status: object = None, **metadata: object) -> Pod:
    """A pod as the API server sends it."""
    return msgspec.convert(
        {"metadata": {"name": "p", "namespace": "ns", **metadata}, "spec": spec, "status": status}, Pod
    )


def container(**resources: dict[str, str]) -> dict[str, object]:
    """A container that asks."""
    return {"name": "c", "resources": resources}


def budget(allowed: int, selector: dict[str, object] | None, **status: object) -> DisruptionBudget:
    """A PodDisruptionBudget in namespace ns."""
    document = {
        "metadata": {"name": "b", "namespace": "ns"},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed, **status},
    }
    return msgspec.convert(document, DisruptionBudget)


def labelled(**labels: str) -> Evictable:
    """A pod with labels."""
    return Evictable(0, tuple(labels.items()), (), False, False)


def test_other_resources_count_at_their_worst_moment() -> None:
    """Containers together or the largest init container, each beside the sidecars before it; a limit stands for a request."""
    spec = {
        "initContainers": [container(requests={"cpu": "2"})],
        "containers": [
            container(requests={"cpu": "500m", "memory": "1Ki"}, limits={"aliyun.com/gpu-mem": "3", "x.io/y": "1"}),
            container(requests={"cpu": "0.25", "memory": "odd"}),
        ],
    }

    assert dict(other_requests(pod(spec))) == {"cpu": 2_000, "memory": 1_024_000, "x.io/y": 1_000}
    sidecar = container(requests={"cpu": "1", "x.io/y": "2"}) | {"restartPolicy": "Always"}
    init = [container(requests={"cpu": "4"}), sidecar, container(requests={"cpu": "5"})]
    beside = pod({"initContainers": init, "containers": [container(requests={"cpu": "2"})]})
    assert dict(other_requests(beside)) == {"cpu": 6_000, "x.io/y": 2_000}


@pytest.mark.parametrize(
    ("spec", "entangled"),
    [
        ({}, False),
        (
            {"affinity": {"nodeAffinity": {"x": 1}}, "volumes": [{"emptyDir": {}}], "containers": [{"ports": [{}]}]},
            False,
        ),
        ({"affinity": {"podAntiAffinity": {"x": 1}}}, True),
        ({"affinity": {"podAffinity": {}}}, True),
        ({"topologySpreadConstraints": [{"maxSkew": 1}]}, True),
        ({"volumes": [{"persistentVolumeClaim": {"claimName": "c"}}]}, True),
        ({"containers": [{"ports": [{"hostPort": 80}]}]}, True),
    ],
)
def test_pod_that_needs_more_than_resources_is_entangled(spec: dict[str, object], entangled: bool) -> None:
    """Ports, volumes and neighbours of one pod can be in the way of another."""
    assert is_entangled(pod(spec)) is entangled


def test_what_is_remembered_of_a_pod() -> None:
    """Priority, labels, whether it goes anyway, or lingers after its end by its phase; one object for pods that are alike."""
    spec = {"priority": 7, "containers": [container(requests={"cpu": "1"})]}
    one = evictable_of(pod(spec, labels={"b": "1", "a": "2"}, deletionTimestamp="2026-01-01T00:00:00Z"))
    other = evictable_of(pod(spec, labels={"a": "2", "b": "1"}))

    assert one == Evictable(7, (("a", "2"), ("b", "1")), (("cpu", 1000),), False, True)
    assert (one.labels is other.labels, one.others is other.others) == (True, True)
    assert evictable_of(pod({})) == Evictable(0, (), (), False, False)
    running = [{"name": "c", "state": {"running": {}}}]
    shown = [evictable_of(pod({}, {"phase": phase, "containerStatuses": running})) for phase in ("Failed", "Running")]
    assert [one.is_lingering for one in shown] == [True, False]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ({"matchLabels": {"app": "web"}}, [False, True, False, False]),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, [False, True, False, False]),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, [False, False, False, True]),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, [False, True, True, True]),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, [False, True, True, True]),
        ({"matchExpressions": [{"key": "app", "operator": "Near"}]}, [False] * 4),
        ({}, [False] * 4),
        (None, [False] * 4),
    ],
)
def test_budget_protects_its_pods_from_the_second_eviction_on(
    selector: dict[str, object] | None, expected: list[bool]
) -> None:
    """One disruption is allowed; a budget that selects nothing, or cannot be read, protects no pod."""
    pods = [("ns", name, labelled(app=app)) for name, app in (("a", "web"), ("b", "web"), ("c", "db"), ("d", "db"))]

    assert list(protected(pods, {"ns": [budget(1, selector)]})) == expected


def test_budget_counts_no_strangers_and_no_pod_twice() -> None:
    """Another namespace's pods, pods without labels, and pods with an eviction that the API server has taken note of."""
    web = labelled(app="web")
    pods = [("other", "a", web), ("ns", "b", labelled()), ("ns", "gone", web), ("ns", "c", web)]
    selectors: list[dict[str, object]] = [
        {"matchLabels": {"app": "web"}},
        {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["db"]}]},
    ]

    for selector in selectors:
        kept = kept_budget(budget(0, selector, disruptedPods={"gone": "2026-01-01T00:00:00Z"}))
        assert list(protected(pods, by_namespace([kept]))) == [False, False, False, True]


def test_every_budget_of_a_pod_counts() -> None:
    """Those before and after it that are about other pods change nothing."""
    about = [budget(0, {"matchLabels": {"app": app}}) for app in ("db", "web", "cache")]

    assert list(protected([("ns", "a", labelled(app="web"))], by_namespace(about))) == [True]


def asking(names: int) -> Pod:
    """A pod of as many containers, each of which asks for a resource that no other asks for, and one init container."""
    containers = [container(requests={f"x.io/r{at}": "1"}) for at in range(names)]
    return pod({"initContainers": [container(requests={"x.io/r0": "3"})], "containers": containers})


def test_a_pod_of_many_resources_is_entangled() -> None:
    """The resources of a pod with very many are not kept, so that it is never spared for what its end would give back."""
    assert (len(other_requests(asking(64))), is_entangled(asking(64))) == (64, False)
    assert (other_requests(asking(65)), is_entangled(asking(65))) == ((), True)


def test_a_pods_labels_are_kept_up_to_a_bound() -> None:
    """The API server takes as many as fit into the object."""
    assert len(evictable_of(pod({}, labels={f"l{at}": "v" for at in range(64)})).labels) == 64
    assert evictable_of(pod({}, labels={f"l{at}": "v" for at in range(65)})).labels == ()


@pytest.mark.parametrize(
    ("selector", "protects"),
    [
        ({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "app", "operator": "Exists"}] * 15}, True),
        ({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "app", "operator": "Exists"}] * 16}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"] * 64}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"] * 65}]}, False),
    ],
)
def test_a_selector_is_compared_up_to_a_bound(selector: dict[str, object], protects: bool) -> None:
    """A budget that selects by more than that protects no pod from being chosen; the API server still has its own say."""
    pods = [("ns", "a", labelled(app="web"))]

    assert list(protected(pods, by_namespace([kept_budget(budget(0, selector))]))) == [protects]


def test_a_namespace_has_so_many_budgets() -> None:
    """The budgets of a namespace are bounded, because each is compared with each pod of the namespace."""
    found = by_namespace([budget(0, None)] * 300)

    assert {name: len(budgets) for name, budgets in found.items()} == {"ns": 256}
