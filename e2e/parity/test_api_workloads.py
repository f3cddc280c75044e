"""The controllers' work on owners and workloads, as far as users of kubectl and our cases rely on it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from clusters.api.waiting import eventually
from e2e.parity.parity_objects import config_map, container, got, made, maps, patched, place, pod, pods, short
from e2e.parity.parity_requests import compare, get, merge, post, put
from e2e.parity.sides import Both, Side

_APPS = "/apis/apps/v1"
_PLURALS = {
    "Deployment": "deployments",
    "ReplicaSet": "replicasets",
    "StatefulSet": "statefulsets",
    "DaemonSet": "daemonsets",
}


def workload(kind: str, name: str = "w", **spec: Any) -> dict[str, Any]:
    """A workload of pods that no node runs."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container()]}}
    more = {"serviceName": "s"} if kind == "StatefulSet" else {}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **more, **spec},
    }


def path_of(side: Side, kind: str, name: str = "", subresource: str = "") -> str:
    """Where the workloads of a kind are."""
    return place(side, _PLURALS[kind], name, subresource, root=_APPS)


async def listed(side: Side, path: str) -> list[dict[str, Any]]:
    """The items of a list."""
    items: list[dict[str, Any]] = (await got(side, path))["items"]
    return items


async def reached(look: Callable[[], Awaitable[Any]], good: Callable[[Any], bool], what: str) -> Any:
    """The result that a controller was waited for."""
    return await eventually(look, good, what, seconds=30)


@pytest.mark.parametrize("kind", _PLURALS)
async def test_what_is_filled_into_a_workload(bare: Both, kind: str) -> None:
    """A created workload is equal on both sides, with the empty status of its kind."""
    await compare(bare, post(_PLURALS[kind], workload(kind)))


def template(**spec: Any) -> dict[str, Any]:
    """A template of pods."""
    return {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [container()], **spec}}


_WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "no selector": ("Deployment", {"selector": None}),
    "other selector": ("Deployment", {"selector": {"matchLabels": {"other": "x"}}}),
    "restart policy": ("Deployment", {"template": template(restartPolicy="Never")}),
    "extended resource": (
        "Deployment",
        {
            "template": {
                "metadata": {"labels": {"app": "w"}},
                "spec": {"containers": [container(resources={"requests": {"aliyun.com/gpu-mem": "1"}})]},
            }
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", _WRONG)
async def test_a_workload_that_makes_no_sense(bare: Both, name: str) -> None:
    """A senseless workload is refused with the path of each wrong field."""
    kind, spec = _WRONG[name]
    await compare(bare, post(_PLURALS[kind], workload(kind, **spec), None))


@pytest.mark.parametrize("kind", _PLURALS)
async def test_a_selector_does_not_change(bare: Both, kind: str) -> None:
    """A change of a workload's selector is 422, and one of its template is counted by the generation."""

    async def observe(side: Side) -> Any:
        await made(side, path_of(side, kind), workload(kind))
        labels = {"app": "w", "more": "x"}
        patch = {"spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}}
        refused = await patched(side, path_of(side, kind, "w"), patch)
        causes = [[each["field"], each["reason"]] for each in refused.body.get("details", {}).get("causes", [])]
        change = {"spec": {"template": {"metadata": {"annotations": {"a": "1"}}}}}
        return [refused.code, causes, short(await patched(side, path_of(side, kind, "w"), change))]

    code, _, changed = await bare.same(observe)
    assert (code, changed[0], changed[1]["metadata"]["generation"]) == (422, 200, 2)


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet"])
async def test_a_scale(bare: Both, kind: str) -> None:
    """A workload's scale is read and written by its own path, as kubectl scale does."""
    path = f"{_PLURALS[kind]}/w"
    await compare(
        bare,
        post(_PLURALS[kind], workload(kind, replicas=2)),
        get(f"{path}/scale", shows={"spec": {"replicas": 2}}),
        merge(f"{path}/scale", {"spec": {"replicas": 5}}, shows={"spec": {"replicas": 5}}),
        put(f"{path}/scale", {"${object:1}": {}}, 409),
        get(path, shows={"spec.replicas": 5}),
    )


async def test_a_replica_set_makes_its_pods(both: Both) -> None:
    """A ReplicaSet makes the wanted number of pods from its template, owns them, and replaces a deleted one."""

    async def observe(side: Side) -> Any:
        await made(side, path_of(side, "ReplicaSet"), workload("ReplicaSet", replicas=2))
        first = await reached(lambda: listed(side, pods(side)), lambda found: len(found) == 2, "two pods")
        gone = first[0]["metadata"]["name"]
        await side.call("DELETE", pods(side, gone))

        def replaced(found: list[Any]) -> bool:
            return len(found) == 2 and gone not in [each["metadata"]["name"] for each in found]

        await reached(lambda: listed(side, pods(side)), replaced, "another pod")
        one = first[0]
        one["metadata"]["name"] = re.sub(r"^w-[a-z0-9]{5}$", "w-<letters>", gone)
        return one

    one = await both.same(observe)
    assert one["metadata"]["name"] == "w-<letters>"
    assert one["metadata"]["ownerReferences"][0]["controller"] is True


async def test_a_deployment_makes_a_replica_set(both: Both) -> None:
    """A Deployment makes a ReplicaSet with a hash in name, selector and template, and another per new template."""

    async def observe(side: Side) -> Any:
        await made(side, path_of(side, "Deployment"), workload("Deployment"))
        first = await reached(lambda: listed(side, path_of(side, "ReplicaSet")), lambda found: len(found) == 1, "a set")
        await reached(lambda: listed(side, pods(side)), lambda found: len(found) == 1, "a pod")
        change = {"spec": {"template": {"spec": {"containers": [container(image="busybox:2")]}}}}
        await patched(side, path_of(side, "Deployment", "w"), change)
        both_sets = await reached(
            lambda: listed(side, path_of(side, "ReplicaSet")), lambda found: len(found) == 2, "another set"
        )
        hashes = [each["metadata"]["labels"]["pod-template-hash"] for each in both_sets]
        (one,) = first
        mine = one["metadata"]["labels"]["pod-template-hash"]
        return [
            one["metadata"]["name"].replace(mine, "<hash>"),
            {key: value.replace(mine, "<hash>") for key, value in one["spec"]["selector"]["matchLabels"].items()},
            one["metadata"]["ownerReferences"],
            len(set(hashes)),
            sorted(each["spec"]["template"]["spec"]["containers"][0]["image"] for each in both_sets),
        ]

    name, selector, _, count, images = await both.same(observe)
    assert (name, selector, count) == ("w-<hash>", {"app": "w", "pod-template-hash": "<hash>"}, 2)
    assert images == ["busybox:1.36", "busybox:2"]


async def test_a_stateful_set_numbers_its_pods(both: Both) -> None:
    """A StatefulSet makes numbered pods one by one, each when the one before is ready."""

    async def observe(side: Side) -> Any:
        await made(side, path_of(side, "StatefulSet"), workload("StatefulSet", replicas=2))
        (first,) = await reached(lambda: listed(side, pods(side)), lambda found: len(found) == 1, "the first pod")
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await patched(side, pods(side, "w-0", "status"), {"status": status})
        found = await reached(lambda: listed(side, pods(side)), lambda found: len(found) == 2, "the second pod")
        labels = first["metadata"]["labels"]
        labels["controller-revision-hash"] = "<hash>" if labels["controller-revision-hash"] else ""
        return [first["metadata"], first["spec"], [each["metadata"]["name"] for each in found]]

    metadata, spec, names = await both.same(observe)
    assert (metadata["name"], spec["hostname"], spec["subdomain"], names) == ("w-0", "w-0", "s", ["w-0", "w-1"])


async def test_a_daemon_set_has_a_pod_on_each_node(both: Both) -> None:
    """A DaemonSet's pod has an affinity to its node, and tolerations for what is wrong with nodes."""

    async def observe(side: Side) -> Any:
        name = f"{side.namespace}-node"
        await made(side, "/api/v1/nodes", {"metadata": {"name": name, "labels": {"only": side.namespace}}})
        template = {
            "metadata": {"labels": {"app": "w"}},
            "spec": {"containers": [container()], "nodeSelector": {"only": side.namespace}},
        }
        await made(side, path_of(side, "DaemonSet"), workload("DaemonSet", template=template))
        (one,) = await reached(lambda: listed(side, pods(side)), lambda found: len(found) == 1, "a pod")
        await side.call("DELETE", f"/api/v1/nodes/{name}")
        tolerations = sorted(map(str, one["spec"]["tolerations"]))
        return [one["spec"]["affinity"], tolerations, one["metadata"]["ownerReferences"][0]["kind"]]

    affinity, _, kind = await both.same(observe)
    assert kind == "DaemonSet"
    assert "nodeAffinity" in affinity


async def test_dependents_go_with_their_owner(both: Both) -> None:
    """An owner's deletion deletes its dependents in the background by default."""

    async def observe(side: Side) -> Any:
        owner = await made(side, maps(side), config_map("owner"))
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        await made(side, maps(side), config_map("child", ownerReferences=[reference]))
        await made(side, pods(side), pod("child", ownerReferences=[reference]))
        answer = await side.call("DELETE", maps(side, "owner"))
        await reached(lambda: side.call("GET", maps(side, "child")), lambda found: found.code == 404, "child gone")
        await reached(lambda: side.call("GET", pods(side, "child")), lambda found: found.code == 404, "pod gone")
        return short(answer)

    assert (await both.same(observe))[0] == 200


async def test_an_object_without_its_owner_is_deleted(both: Both) -> None:
    """An object is deleted if no object with its owner's uid exists, even if one has the name."""

    async def observe(side: Side) -> Any:
        await made(side, maps(side), config_map("owner"))
        uid = "00000000-0000-4000-8000-000000000000"
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
        await made(side, maps(side), config_map("child", ownerReferences=[reference]))
        gone = await reached(
            lambda: side.call("GET", maps(side, "child")), lambda found: found.code == 404, "child gone"
        )
        return [gone.code, (await side.call("GET", maps(side, "owner"))).code]

    assert await both.same(observe) == [404, 200]
