"""Promises of clusters.embedded.apiserver.deletion, through the writing verbs."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.api.resources import CONFIG_MAPS, NAMESPACES, PODS
from clusters.embedded.apiserver.deletion import DeleteOptions, options_of
from clusters.embedded.apiserver.writes import Terms, Writes
from tests.clusters.embedded.apiserver.samples import config_map, new_writes, pod, refused


def assigned(**metadata: Any) -> Writes:
    """A server with a pod that a kubelet runs."""
    writes = new_writes()
    writes.create(PODS, "default", pod(metadata=metadata, nodeName="n"))
    return writes


def delete(writes: Writes, **options: Any) -> bool:
    """Is the pod gone immediately?"""
    return writes.delete(PODS, "default", "p", DeleteOptions(**options))[1]


def test_an_assigned_pod_waits_for_its_kubelet() -> None:
    """An assigned pod is marked with the time of its end, and is removed by a deletion with grace 0."""
    writes = assigned()
    assert not delete(writes)
    metadata = writes.get(PODS, "default", "p").item["metadata"]
    assert (metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]) == ("2026-01-02T03:04:35Z", 30)
    assert delete(writes, grace_seconds=0)
    refused(404, lambda: writes.get(PODS, "default", "p"))


def test_a_pod_that_no_kubelet_runs_goes_immediately() -> None:
    """A pod that is not assigned, or has ended, goes immediately."""
    writes = new_writes()
    writes.create(PODS, "default", pod())
    assert delete(writes)
    writes = assigned()
    writes.patch(PODS, "default", "p", lambda item: {**item, "status": {"phase": "Failed"}}, Terms("status"))

    assert delete(writes)


def test_a_finalizer_keeps_an_object_until_it_is_taken_off() -> None:
    """A finalizer keeps an object until it is removed, and an object that is leaving gets no new finalizer."""
    writes = new_writes()
    writes.create(CONFIG_MAPS, "default", {**config_map(), "metadata": {"name": "c", "finalizers": ["a.b/c"]}})
    assert not writes.delete(CONFIG_MAPS, "default", "c", DeleteOptions())[1]

    def finalizers(words: list[str]) -> Any:
        def change(item: Any) -> Any:
            return {**item, "metadata": {**item["metadata"], "finalizers": words}}

        return writes.patch(CONFIG_MAPS, "default", "c", change)

    refused(422, lambda: finalizers(["a.b/c", "d.e/f"]))
    finalizers([])
    refused(404, lambda: writes.get(CONFIG_MAPS, "default", "c"))


def test_a_namespace_waits_for_its_contents() -> None:
    """Terminating, until its own finalizer goes."""
    writes = new_writes()
    writes.create(NAMESPACES, "", {"metadata": {"name": "mine"}})
    item = writes.delete(NAMESPACES, "", "mine", DeleteOptions())[0].item
    assert item["status"]["phase"] == "Terminating"
    writes.replace(NAMESPACES, "", "mine", {**item, "spec": {"finalizers": []}}, Terms("finalize"))
    refused(404, lambda: writes.get(NAMESPACES, "", "mine"))


@pytest.mark.parametrize(
    ("body", "params", "options"),
    [
        (None, {}, DeleteOptions()),
        (None, {"gracePeriodSeconds": "5", "propagationPolicy": "Orphan"}, DeleteOptions(5, "Orphan")),
        ({"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}}, {}, DeleteOptions(0, uid="u")),
        ({"orphanDependents": False}, {}, DeleteOptions(propagation="Background")),
        ({"gracePeriodSeconds": -1}, {}, DeleteOptions(1)),
        ({"dryRun": ["All"]}, {}, DeleteOptions(dry_run=True)),
    ],
    ids=str,
)
def test_options_come_from_the_body_or_the_query(body: Any, params: dict[str, str], options: DeleteOptions) -> None:
    """The body wins."""
    assert options == options_of(body, params)


@pytest.mark.parametrize(
    ("code", "body"),
    [(400, {"gracePeriodSeconds": "soon"}), (422, {"propagationPolicy": "x"}), (400, {"preconditions": 1})],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(code: int, body: Any) -> None:
    """Before anything is deleted."""
    refused(code, lambda: options_of(body, {}))


def test_what_ends_gracefully_is_left_alone() -> None:
    """Another DELETE changes neither finalizers nor the time, unless it is shorter."""
    writes = new_writes()
    writes.create(PODS, "default", pod(nodeName="n"))
    first, _ = writes.delete(PODS, "default", "p", DeleteOptions(grace_seconds=9))
    second, _ = writes.delete(PODS, "default", "p", DeleteOptions(grace_seconds=9, propagation="Foreground"))
    third, gone = writes.delete(PODS, "default", "p", DeleteOptions(grace_seconds=2))

    assert second.version == first.version
    assert not gone
    assert third.item["metadata"]["deletionGracePeriodSeconds"] == 2
