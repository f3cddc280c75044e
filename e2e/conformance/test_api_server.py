"""The programs' demands on an API server. On the embedded cluster these judge our imitation, elsewhere the real one."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.api.api_client import JSON_PATCH, MERGE_PATCH, ApiError
from clusters.api.resources import NODES, PODS
from clusters.api.waiting import until
from e2e.builders import NO_SCHEDULER, gpu_pod
from e2e.observer import Observer


async def waiting_pod(observer: Observer, name: str = "p") -> dict[str, Any]:
    """A pod that no scheduler takes."""
    await observer.create(gpu_pod(name, 1, scheduler=NO_SCHEDULER))
    return await observer.pod(name)


async def refused(call: Any) -> ApiError:
    """The refusal of a call."""
    with pytest.raises(ApiError) as error:
        await call
    return error.value


@pytest.mark.promise("API-008", "EXT-019")
async def test_a_binding_sets_node_and_annotations_in_one_write(observer: Observer) -> None:
    """A watch shows a single change with both; the binding's annotations win, others stay."""
    pod = await waiting_pod(observer)
    api = observer.cluster.api
    annotations = {"metadata": {"annotations": {"kept": "1", "ALIYUN_COM_GPU_MEM_IDX": "9"}}}
    await api.patch(PODS, "p", annotations, observer.namespace, content_type=MERGE_PATCH)
    async with observer.watching(field_selector="metadata.name=p") as seen:
        there = len(seen)
        answer = await observer.bind(
            "p", "cpu-of-nobody", uid=pod["metadata"]["uid"], annotations={"ALIYUN_COM_GPU_MEM_IDX": "1"}
        )
        await until(lambda: len(seen), lambda count: count > there, "the watch shows a change")
    changed = seen[there][1]

    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert changed["spec"]["nodeName"] == "cpu-of-nobody"
    assert changed["metadata"]["annotations"] == {"kept": "1", "ALIYUN_COM_GPU_MEM_IDX": "1"}
    scheduled = [one for one in changed["status"]["conditions"] if one["type"] == "PodScheduled"]
    assert [one["status"] for one in scheduled] == ["True"]


@pytest.mark.promise("API-005", "API-006")
async def test_stale_version_conflicts_and_another_uid_is_invalid(observer: Observer) -> None:
    """PATCH with an old resourceVersion 409, with another uid 422."""
    pod = await waiting_pod(observer)
    api, where = observer.cluster.api, ("p", observer.namespace)
    old = pod["metadata"]["resourceVersion"]
    await api.patch(PODS, where[0], {"metadata": {"labels": {"a": "1"}}}, where[1])
    stale = {"metadata": {"resourceVersion": old, "labels": {"a": "2"}}}
    other = {"metadata": {"uid": "other", "labels": {"a": "2"}}}

    assert (await refused(api.patch(PODS, where[0], stale, where[1]))).code == 409
    assert (await refused(api.patch(PODS, where[0], other, where[1]))).code == 422
    assert (await observer.pod("p"))["metadata"]["labels"] == {"a": "1"}


@pytest.mark.promise("API-007")
async def test_slashes_in_a_json_patch_are_escaped(observer: Observer) -> None:
    """~1 is a slash; a failing test is 422 and changes nothing."""
    await waiting_pod(observer)
    api = observer.cluster.api
    path = "/metadata/annotations"
    add = [{"op": "add", "path": path, "value": {}}, {"op": "add", "path": f"{path}/a.b~1c", "value": "1"}]
    await api.patch(PODS, "p", add, observer.namespace, content_type=JSON_PATCH)
    failing = [{"op": "test", "path": "/metadata/name", "value": "q"}, {"op": "remove", "path": f"{path}/a.b~1c"}]
    error = await refused(api.patch(PODS, "p", failing, observer.namespace, content_type=JSON_PATCH))

    assert error.code == 422
    assert (await observer.pod("p"))["metadata"]["annotations"]["a.b/c"] == "1"


async def test_spec_and_status_are_written_apart(observer: Observer) -> None:
    """A patch of a node never changes its status, a patch of its status changes annotations too (the plugin needs that)."""
    api = observer.cluster.api
    await api.patch(NODES, "a1", {"status": {"capacity": {"example.com/x": "1"}}})
    assert "example.com/x" not in (await api.get(NODES, "a1"))["status"]["capacity"]
    both = {"metadata": {"annotations": {"example.com/y": "2"}}, "status": {"capacity": {"example.com/x": "1"}}}
    await api.patch(NODES, "a1", both, subresource="status")
    node = await api.get(NODES, "a1")
    gone = {"metadata": {"annotations": {"example.com/y": None}}, "status": {"capacity": {"example.com/x": None}}}
    await api.patch(NODES, "a1", gone, subresource="status")

    assert (node["status"]["capacity"]["example.com/x"], node["metadata"]["annotations"]["example.com/y"]) == ("1", "2")


@pytest.mark.promise("API-012")
async def test_field_selectors_select_and_unknown_fields_are_refused(observer: Observer) -> None:
    """The server selects pods by name and by node, and answers 400 to a field that it does not know."""
    await waiting_pod(observer, "a")
    await waiting_pod(observer, "b")
    api = observer.cluster.api
    found = await api.list(PODS, observer.namespace, field_selector="metadata.name=a,spec.nodeName=")

    assert [pod["metadata"]["name"] for pod in found] == ["a"]
    error = await refused(api.list(PODS, observer.namespace, field_selector="spec.containers=x"))
    assert error.code == 400


@pytest.mark.promise("API-012")
async def test_a_selected_watch_shows_what_enters_and_leaves(observer: Observer) -> None:
    """A kubelet's watch: the Binding is its ADDED."""
    await waiting_pod(observer)
    async with observer.watching(field_selector="spec.nodeName=cpu-of-nobody") as seen:
        await observer.bind("p", "cpu-of-nobody")
        await until(lambda: len(seen), lambda count: count > 1, "the watch shows the pod")

    assert [kind for kind, _ in seen] == ["SYNCED", "ADDED"]
