"""The programs' demands on an API server. On the embedded cluster these judge our imitation, elsewhere the real one."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.api.api_client import JSON_PATCH, MERGE_PATCH, ApiError
from clusters.api.resources import PODS
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
