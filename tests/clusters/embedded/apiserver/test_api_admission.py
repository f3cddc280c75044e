"""Promises of clusters.embedded.apiserver.api_admission: what a pod gets because of other objects."""

from __future__ import annotations

from typing import Any

import pytest

from clusters.api.resources import NAMESPACES, PODS, PRIORITY_CLASSES, SERVICE_ACCOUNTS
from clusters.embedded.apiserver.deletion import DeleteOptions
from clusters.embedded.apiserver.writes import Writes
from tests.clusters.embedded.apiserver.samples import new_writes, pod, refused

FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount"


def created(writes: Writes, **spec: Any) -> dict[str, Any]:
    """The spec of a pod as it is stored."""
    return dict(writes.create(PODS, "default", pod(**spec)).item["spec"])


def account(writes: Writes, **fields: Any) -> None:
    """Another ServiceAccount, ``bot``."""
    writes.create(SERVICE_ACCOUNTS, "default", {"metadata": {"name": "bot"}, **fields})


def test_a_pod_gets_its_accounts_token() -> None:
    """A volume of a fresh name, mounted into every container."""
    spec = created(new_writes(), initContainers=[{"name": "i", "image": "i"}])
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    assert [next(iter(source)) for source in volume["projected"]["sources"]] == [
        "serviceAccountToken",
        "configMap",
        "downwardAPI",
    ]
    for container in (*spec["initContainers"], *spec["containers"]):
        assert container["volumeMounts"] == [{"name": volume["name"], "readOnly": True, "mountPath": FOLDER}]
    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("default", "default")


def test_a_container_that_mounts_something_there_keeps_it() -> None:
    """A pod gets no token volume if all of its containers mount something else at the token's path."""
    mine = {"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": FOLDER}]}
    spec = created(new_writes(), containers=[mine], volumes=[{"name": "v", "emptyDir": {}}])
    assert [volume["name"] for volume in spec["volumes"]] == ["v"]


@pytest.mark.parametrize(
    ("fields", "spec"),
    [
        ({"automountServiceAccountToken": False}, {}),
        ({}, {"automountServiceAccountToken": False}),
        ({"automountServiceAccountToken": True}, {"automountServiceAccountToken": False}),
    ],
    ids=str,
)
def test_a_token_is_not_required(fields: dict[str, Any], spec: dict[str, Any]) -> None:
    """The pod's word counts before its account's."""
    writes = new_writes()
    account(writes, **fields)
    assert "volumes" not in created(writes, serviceAccountName="bot", **spec)


def test_an_accounts_keys_for_images_are_the_pods() -> None:
    """Unless it has its own."""
    writes = new_writes()
    account(writes, imagePullSecrets=[{"name": "key"}])
    assert created(writes, serviceAccount="bot")["imagePullSecrets"] == [{"name": "key"}]


def test_an_account_that_is_not_there_is_refused() -> None:
    """403, as from the real server."""
    message = refused(403, lambda: created(new_writes(), serviceAccountName="gone")).message
    assert message == (
        'pods "p" is forbidden: error looking up service account default/gone: serviceaccount "gone" not found'
    )


def test_a_priority_comes_from_its_class() -> None:
    """Named, the default one, or none: zero."""
    writes = new_writes()
    spec = created(writes)
    assert (spec["priority"], spec["preemptionPolicy"]) == (0, "PreemptLowerPriority")
    fields = {"value": 7, "preemptionPolicy": "Never"}
    writes.create(PRIORITY_CLASSES, "", {"metadata": {"name": "seven"}, **fields})
    writes.create(PRIORITY_CLASSES, "", {"metadata": {"name": "one"}, "value": 1, "globalDefault": True})
    named = writes.create(PODS, "default", pod("q", priorityClassName="seven")).item["spec"]
    assert (named["priority"], named["preemptionPolicy"]) == (7, "Never")
    default = writes.create(PODS, "default", pod("r")).item["spec"]
    assert (default["priorityClassName"], default["priority"]) == ("one", 1)


@pytest.mark.parametrize(
    "spec", [{"priorityClassName": "gone"}, {"priority": 5}, {"preemptionPolicy": "Never"}], ids=str
)
def test_no_pod_sets_its_own_priority(spec: dict[str, Any]) -> None:
    """A class that is not there, a number of one's own."""
    refused(403, lambda: created(new_writes(), **spec))


@pytest.mark.parametrize("name", ["default", "kube-system"])
def test_some_namespaces_cannot_be_deleted(name: str) -> None:
    """The objects that the cluster needs."""
    refused(403, lambda: new_writes().delete(NAMESPACES, "", name, DeleteOptions()))
