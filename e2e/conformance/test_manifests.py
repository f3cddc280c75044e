"""The manifests that we ship, as an API server takes them: each field, and the verdict of Pod Security on the pods."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from clusters.api.api_client import ApiClient, ApiError, Object
from clusters.controlplane.binaries import Binaries
from clusters.deploy.render import BASE, FOLDER, OVERLAY_KIND, OVERLAY_NODEPORT, containers_of, render
from clusters.provider import Cluster

pytestmark = pytest.mark.needs("manifests")

# All that go together, and all that leave nothing out.
ALL = {path.name for path in (FOLDER / "components").iterdir()} - {"slots-without-policy", "without-policies"}
# Not every cluster has them: policies of Kubernetes 1.36 (clusters/deploy/README.md describes the way without them), kinds of the
# Prometheus operator, and on the embedded cluster RuntimeClasses.
_NOT_EVERYWHERE = (
    "MutatingAdmissionPolicy",
    "MutatingAdmissionPolicyBinding",
    "ServiceMonitor",
    "PrometheusRule",
    "RuntimeClass",
)
SITES: dict[str, tuple[Path, tuple[str, ...]]] = {
    "base": (BASE, ()),
    "kind": (OVERLAY_KIND, ()),
    "all": (OVERLAY_NODEPORT, tuple(sorted(ALL))),
}
DRY = {"dryRun": "All", "fieldValidation": "Strict"}
# As of a release that all have; newer ones also refuse probes that name a host, which the extender's have to.
_AS_OF = "v1.29"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": _AS_OF}
# In `violates PodSecurity "restricted:v1.29": host namespaces (hostNetwork=true), hostPort (...)`.
_RULE = re.compile(rf'(?:{re.escape(_AS_OF)}": |, )([^(,]+?) \(')
_OF_KUBE_SYSTEM = ("serviceAccountName", "priorityClassName")
_NUMBERS = itertools.count(1)


@pytest.fixture
async def objects(request: pytest.FixtureRequest, binaries: Binaries) -> list[Object]:
    """The objects of a site, under names that nothing on the cluster has."""
    folder, components = SITES[request.param]
    found = await render(Path(binaries["kubectl"]), folder, components=components)
    for item in found:
        item["metadata"]["name"] = f"dry-{item['metadata']['name']}"
        if "namespace" in item["metadata"]:
            item["metadata"]["namespace"] = "kube-system"  # a dry run creates no other
        for port in item["spec"]["ports"] if item["kind"] == "Service" else ():
            port.pop("nodePort", None)  # taken, if this very site is installed
    return found


def path_of(item: Object, namespace: str = "kube-system") -> str:
    """Where it is created."""
    group = "/api/v1" if item["apiVersion"] == "v1" else f"/apis/{item['apiVersion']}"
    kind = item["kind"].lower()
    plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}es" if kind.endswith("s") else f"{kind}s"
    return f"{group}/namespaces/{namespace}/{plural}" if "namespace" in item["metadata"] else f"{group}/{plural}"


@pytest.mark.parametrize("objects", SITES, indirect=True)
async def test_an_api_server_takes_each_object_we_ship(cluster: Cluster, objects: list[Object]) -> None:
    """Strictly, so that a field which does not exist is refused."""
    for item in objects:
        try:
            await cluster.api.request("POST", path_of(item), body=item, params=DRY)
        except ApiError as error:
            if error.code != 404 or item["kind"] not in _NOT_EVERYWHERE:
                raise


@pytest.mark.parametrize("objects", ["base"], indirect=True)
async def test_pods_break_no_rule_but_those_that_they_need_to(
    cluster: Cluster, objects: list[Object], request: pytest.FixtureRequest
) -> None:
    """The pods of both programs have the host's network, for calls to the extender on its loopback.

    The plugin's pods also have root and the kubelet's folders.
    """
    if request.config.getoption("--cluster") == "embedded":
        pytest.skip("the embedded API server has no Pod Security admission")
    namespace = f"restricted-{next(_NUMBERS)}"
    labelled = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": RESTRICTED}}
    await cluster.api.create(labelled)
    try:
        found = {
            item["kind"]: await refused_for(cluster.api, namespace, item["spec"]["template"])
            for item in objects
            if containers_of(item)
        }
    finally:
        await cluster.api.request("DELETE", f"/api/v1/namespaces/{namespace}")

    assert found == {
        "Deployment": {"host namespaces", "hostPort"},
        "DaemonSet": {"host namespaces", "hostPort", "restricted volume types", "runAsNonRoot != true", "runAsUser=0"},
    }


async def refused_for(api: ApiClient, namespace: str, template: Object) -> set[str]:
    """The rules that a pod of this template breaks, by the API server's verdict."""
    spec = {key: value for key, value in template["spec"].items() if key not in _OF_KUBE_SYSTEM}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    try:
        await api.request("POST", f"/api/v1/namespaces/{namespace}/pods", body=pod, params=DRY)
    except ApiError as error:
        return set(_RULE.findall(error.message))
    return set()
