"""Promises of clusters.embedded.apiserver.writes: what create, replace and patch keep, fill in and refuse."""

from __future__ import annotations

import pytest

from clusters.api.resources import CONFIG_MAPS, DEPLOYMENTS, LEASES, NAMESPACES, PODS, Resource
from clusters.embedded.apiserver.deletion import DeleteOptions
from clusters.embedded.apiserver.store import Stored
from clusters.embedded.apiserver.writes import Terms, Writes
from tests.clusters.embedded.apiserver.samples import Object, config_map, deployment, new_writes, pod, refused


def merge(
    writes: Writes, resource: Resource, name: str, part: Object, sub: str | None = None, *, dry_run: bool = False
) -> Stored:
    """Patch two levels deep, which is all that these tests need."""

    def change(item: Object) -> Object:
        return {**item, **{key: {**item.get(key, {}), **value} for key, value in part.items()}}

    return writes.patch(resource, "default" if resource.namespaced else "", name, change, Terms(sub, dry_run))


def test_a_new_object_gets_what_the_server_keeps() -> None:
    """A new object gets the server's uid, time, version, namespace and generation; values in the manifest do not count."""
    item = new_writes().create(PODS, "default", pod(metadata={"uid": "mine", "generation": 9})).item
    metadata = item["metadata"]

    assert (metadata["namespace"], metadata["generation"]) == ("default", 1)
    assert metadata["uid"].startswith("uid-")
    assert metadata["creationTimestamp"] == "2026-01-02T03:04:05Z"
    assert item["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_names_are_generated() -> None:
    """A prefix and five letters; another one each time."""
    writes = new_writes()
    body = {**pod(), "metadata": {"generateName": "job-"}}
    names = {writes.create(PODS, "default", body).item["metadata"]["name"] for _ in range(50)}

    assert len(names) == 50
    assert all(name.startswith("job-") and len(name) == 9 for name in names)


def test_a_name_is_taken_once() -> None:
    """409 AlreadyExists, in the words of the API."""
    writes = new_writes()
    writes.create(PODS, "default", pod())
    refusal = refused(409, lambda: writes.create(PODS, "default", pod()))

    assert (refusal.reason, refusal.message) == ("AlreadyExists", 'pods "p" already exists')


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (400, pod(metadata={"namespace": "other"})),
        (500, pod(metadata={"resourceVersion": "7"})),
        (400, {**pod(), "kind": "Node"}),
        (400, {**pod(), "metadata": "p"}),
        (400, pod(limits={"aliyun.com/gpu-mem": "two"})),
        (422, {**pod(), "metadata": {}}),
    ],
    ids=["namespace", "version", "kind", "metadata", "quantity", "no name"],
)
def test_a_body_that_makes_no_sense_is_refused(code: int, body: Object) -> None:
    """The server refuses a wrong body and writes nothing."""
    writes = new_writes()
    before = writes.store.version
    refused(code, lambda: writes.create(PODS, "default", body))

    assert writes.store.version == before


def test_a_namespace_must_be_there_and_must_not_be_leaving() -> None:
    """404, then 403."""
    writes = new_writes()
    refused(404, lambda: writes.create(CONFIG_MAPS, "later", config_map()))
    writes.create(NAMESPACES, "", {"metadata": {"name": "later"}})
    writes.create(CONFIG_MAPS, "later", config_map())
    writes.delete(NAMESPACES, "", "later", DeleteOptions())
    refused(403, lambda: writes.create(CONFIG_MAPS, "later", config_map("d")))


def test_nulls_are_absent_fields() -> None:
    """`creationTimestamp: null` stands in many manifests."""
    body = pod(metadata={"creationTimestamp": None, "labels": None}, nodeSelector=None)

    assert "labels" not in new_writes().create(PODS, "default", body).item["metadata"]


def test_a_put_of_an_old_version_is_409() -> None:
    """The text that clients look for; without a version the last writer wins, except for leases."""
    writes = new_writes()
    old = writes.create(CONFIG_MAPS, "default", config_map(x="1")).item
    writes.replace(CONFIG_MAPS, "default", "c", {**old, "data": {"x": "2"}})
    refusal = refused(409, lambda: writes.replace(CONFIG_MAPS, "default", "c", {**old, "data": {"x": "3"}}))
    assert "the object has been modified" in refusal.message
    writes.replace(CONFIG_MAPS, "default", "c", config_map(x="4"))
    lease = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}
    writes.create(LEASES, "default", lease)
    refused(422, lambda: writes.replace(LEASES, "default", "l", lease))

    assert writes.get(CONFIG_MAPS, "default", "c").item["data"] == {"x": "4"}


@pytest.mark.promise("API-006")
def test_a_wrong_uid_is_409_in_a_put_and_422_in_a_patch() -> None:
    """A recreated object is another one."""
    writes = new_writes()
    writes.create(PODS, "default", pod())
    refused(409, lambda: writes.replace(PODS, "default", "p", pod(metadata={"uid": "other"})))
    refusal = refused(422, lambda: merge(writes, PODS, "p", {"metadata": {"uid": "other"}}))

    assert "metadata.uid" in refusal.message


def test_a_write_that_changes_nothing_is_no_change() -> None:
    """No new version, no event."""
    writes = new_writes()
    before = writes.create(PODS, "default", pod(limits={"cpu": "1000m"}))
    again = writes.replace(PODS, "default", "p", before.item)

    assert again is before
    assert writes.store.version == before.version


def test_status_and_spec_are_written_apart() -> None:
    """A write of a pod keeps its status, and one of /status keeps all but status and annotations."""
    writes = new_writes()
    writes.create(PODS, "default", pod())
    part = {
        "metadata": {"annotations": {"a": "1"}},
        "spec": {"activeDeadlineSeconds": 5},
        "status": {"phase": "Running"},
    }
    first = merge(writes, PODS, "p", part).item
    assert (first["status"]["phase"], first["spec"]["activeDeadlineSeconds"]) == ("Pending", 5)
    part = {
        "metadata": {"annotations": {"a": "2"}},
        "spec": {"activeDeadlineSeconds": 9},
        "status": {"phase": "Running"},
    }
    second = merge(writes, PODS, "p", part, "status").item

    assert (second["status"]["phase"], second["spec"]["activeDeadlineSeconds"]) == ("Running", 5)
    assert second["metadata"]["annotations"] == {"a": "2"}


def test_the_generation_counts_changes_of_the_spec() -> None:
    """The generation counts changes of the spec, not of labels or status."""
    writes = new_writes()
    writes.create(DEPLOYMENTS, "default", deployment())
    merge(writes, DEPLOYMENTS, "d", {"metadata": {"labels": {"a": "b"}}})
    assert writes.get(DEPLOYMENTS, "default", "d").item["metadata"]["generation"] == 1
    merge(writes, DEPLOYMENTS, "d", {"spec": {"replicas": 3}})
    merge(writes, DEPLOYMENTS, "d", {"status": {"replicas": 3}}, "status")

    assert writes.get(DEPLOYMENTS, "default", "d").item["metadata"]["generation"] == 2


def test_a_dry_run_answers_and_writes_nothing() -> None:
    """A dry run of create, patch and delete answers but writes nothing."""
    writes = new_writes()
    answer = writes.create(PODS, "default", pod(), Terms(dry_run=True)).item
    refused(404, lambda: writes.get(PODS, "default", "p"))
    writes.create(PODS, "default", pod())
    version = writes.store.version
    merge(writes, PODS, "p", {"spec": {"activeDeadlineSeconds": 9}}, dry_run=True)
    writes.delete(PODS, "default", "p", DeleteOptions(dry_run=True))

    assert answer["status"]["phase"] == "Pending"
    assert writes.store.version == version
