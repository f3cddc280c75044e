"""The changes that the tokens of our two programs may make, by the admission policies in clusters/deploy/base.

The plugin's token is bound to its pod, as a kubelet mounts it, so the API server knows the node of each request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import pytest
import pytest_asyncio
import yaml

from clusters.api.api_client import ApiClient
from clusters.api.resources import PODS, resource_of
from clusters.api.waiting import eventually
from clusters.deploy.render import FOLDER
from clusters.provider import Cluster
from clusters.targets import Target
from e2e import spec
from e2e.builders import NO_SCHEDULER, binding, booking, gpu_pod, plain_container
from e2e.conformance.conftest import Attempt

pytestmark = pytest.mark.needs("policies")

OWN_NODE: Final = "a1"
OTHER_NODE: Final = "b2"
OWN: Final = "/api/v1/namespaces/{namespace}/pods/own"
FOREIGN: Final = "/api/v1/namespaces/{namespace}/pods/foreign"
UNBOUND: Final = "/api/v1/namespaces/{namespace}/pods/unbound"
STATUS: Final = f"/api/v1/nodes/{OWN_NODE}/status"
MARK: Final = {spec.POD_ASSIGNED: "true"}
CARDS: Final = {spec.NODE_CARDS: '{"v":1}'}
COUNT: Final = {spec.RESOURCE_COUNT: "1"}
SPACE: Final = spec.RESOURCE_MEMORY


def annotated(annotations: Mapping[str, str | None], **metadata: Any) -> dict[str, Any]:
    """A patch of an object's annotations, and of more of its metadata."""
    return {"metadata": {"annotations": annotations, **metadata}}


def amounts(**status: Any) -> dict[str, Any]:
    """A plugin's patch of its Node, with more of the status."""
    return {**annotated(CARDS), "status": {"capacity": COUNT, "allocatable": COUNT, **status}}


def patched(name: str, path: str, patch: Any, reason: str = "") -> Attempt:
    """An object that is changed."""
    return Attempt(name, "PATCH", path, patch, reason)


OWNER: Final = [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "7d2a6c1e-0000-4000-8000-000000000000"}]
ADDRESS: Final = [{"type": "InternalDNS", "address": "x.example"}]
READY: Final = [{"type": "Ready", "status": "False", "reason": "Forged", "message": ""}]

HEALTHY: Final = [{"type": spec.NODE_HEALTHY, "status": "True", "reason": "CardsHealthy", "message": ""}]
REMOVED: Final = [{"$patch": "delete", "type": "Ready"}]

WRITTEN: Final = "/api/v1/namespaces/default/events"
POD: Final = {"kind": "Pod", "name": "own", "namespace": "default"}
BY_THE_PLUGIN: Final = {"component": "gpushare-device-plugin", "host": OWN_NODE}
BY_THE_EXTENDER: Final = {"component": "gpushare-extender"}
BY_ANOTHER: Final = {
    "metadata": {"name": "foreign"},
    "involvedObject": POD,
    "reason": "Killing",
    "message": "x",
    "source": {"component": "kubelet"},
}


def event(name: str, source: Mapping[str, str], refusal: str = "", **fields: Any) -> Attempt:
    """An event that is written about a pod, or with other fields."""
    body = {**BY_ANOTHER, "metadata": {"name": "e"}, "reason": "GPUShareHeld", "source": source, **fields}
    return Attempt(f"event {name}", "POST", WRITTEN, body, refusal)


def events(source: Mapping[str, str], who: str) -> list[Attempt]:
    """The events that a program may not write, and the one that it may."""
    metadata = {"name": "e", "annotations": {"a": "x"}}
    entry = {"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    deep = {**entry, "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:a": {"f:b": {"f:c": {}}}}}
    adopted = {"source": source, "reason": "GPUShareHeld"}
    return [
        event("of its own", source),
        event("of another program", {"component": "kubelet"}, who),
        event("without a reporter", {}, who),
        event("of another controller", source, who, reportingComponent="kubelet"),
        event("with a foreign reason", source, who, reason="Killing"),
        event("about a ConfigMap", source, who, involvedObject={**POD, "kind": "ConfigMap"}),
        event("about another node", source, who, involvedObject={"kind": "Node", "name": OTHER_NODE}),
        event("with a long text", source, "no long message", message="x" * 1025),
        event("with a long uid", source, r"no long involvedObject\.uid", involvedObject={**POD, "uid": "x" * 254}),
        event("with a long type", source, "no long type", type="x" * 17),
        event(
            "with fields of its own", source, "no long managedFields", metadata={"name": "e", "managedFields": [deep]}
        ),
        event("with an annotation", source, r"no metadata\.annotations", metadata=metadata),
        event("with an action", source, "no action", action="x"),
        patched("event of its own, again", f"{WRITTEN}/{source['component']}", {"count": 2}),
        patched("event of its own, changed", f"{WRITTEN}/{source['component']}", {"message": "y"}, "only the count"),
        patched("event of another", f"{WRITTEN}/foreign", {"count": 2}, who),
        patched("event of another, adopted", f"{WRITTEN}/foreign", adopted, "the same program wrote"),
    ]


OF_THE_PLUGIN: Final = [
    *events(BY_THE_PLUGIN, "of node 'a1' writes events as gpushare-device-plugin of that node"),
    event("of another node", {**BY_THE_PLUGIN, "host": OTHER_NODE}, "as gpushare-device-plugin of that node"),
    event("about its node", BY_THE_PLUGIN, involvedObject={"kind": "Node", "name": OWN_NODE}),
    patched("foreign pod", FOREIGN, annotated(MARK), "only pods of its own node, .* is on node 'b2'"),
    patched("pod without a node", UNBOUND, annotated(MARK), "only pods of its own node, .* is on node ''"),
    patched("image", OWN, {"spec": {"containers": [{"name": "c", "image": "x"}]}}, "change spec$"),
    patched("label", OWN, {"metadata": {"labels": {"app": "other"}}}, r"change metadata\.labels"),
    patched("owner", OWN, {"metadata": {"ownerReferences": OWNER}}, r"change metadata\.ownerReferences"),
    patched("finalizer", OWN, {"metadata": {"finalizers": ["x.example/y"]}}, r"change metadata\.finalizers"),
    patched("foreign annotation", OWN, annotated({"team": "x"}), "change annotation team$"),
    patched("removed annotation", OWN, annotated({"kept": None}), "change annotation kept$"),
    patched("mark and label", OWN, annotated(MARK, labels={"a": "b"}), r"change metadata\.labels$"),
    patched("foreign node", f"/api/v1/nodes/{OTHER_NODE}/status", amounts(), "this is Node 'b2'"),
    patched("node label", STATUS, {"metadata": {"labels": {"a": "b"}}}, r"change metadata\.labels"),
    patched("node annotation", STATUS, annotated({"a": "b"}), "change annotation a$"),
    patched("room", STATUS, annotated({spec.NODE_ROOM: "1"}), f"change annotation {spec.NODE_ROOM}$"),
    patched("recovered", STATUS, annotated({spec.NODE_RECOVERED: "0"}), "only remove the annotation"),
    patched("capacity", STATUS, amounts(capacity={"cpu": "9"}), r"change status\.capacity cpu$"),
    patched("allocatable", STATUS, amounts(allocatable={"pods": "9"}), r"status\.allocatable pods$"),
    patched("condition", STATUS, amounts(conditions=READY), "only the condition GPUShareHealthy"),
    patched("both conditions", STATUS, amounts(conditions=READY + HEALTHY), "only the condition GPUShareHealthy"),
    patched("removed condition", STATUS, {"status": {"conditions": REMOVED}}, "only the condition GPUShareHealthy"),
    patched("address", STATUS, amounts(addresses=ADDRESS), r"change status\.addresses$"),
    # With the right of components/delete-unadmitted.
    Attempt("deletion of a foreign pod", "DELETE", FOREIGN, None, "only pods of its own node"),
    # Accepted: what the plugin does.
    patched("mark", OWN, annotated(MARK)),
    patched("repair", OWN, annotated({spec.POD_REPAIR: None, spec.POD_INDEX: "1", spec.POD_DEVICE_UNITS: "9"})),
    patched("card of a pod bound by hand", OWN, annotated({spec.POD_ALLOCATION: None, spec.POD_EXTENDER: "x"})),
    patched("its Node", STATUS, amounts()),
    patched("its Node in slots mode", STATUS, amounts(capacity={**COUNT, SPACE: "9"}, allocatable={SPACE: "9"})),
    patched("condition of its cards", STATUS, {"status": {"conditions": HEALTHY}}),
    patched("overuse", STATUS, annotated({spec.NODE_OVERUSE: "[]"})),
    patched("removal of recovered", STATUS, {**amounts(), **annotated({**CARDS, spec.NODE_RECOVERED: None})}),
    Attempt("deletion of its own pod", "DELETE", OWN, None),
]
UNNAMED: Final = [
    event("of its own", BY_THE_PLUGIN, "names no node. Use the token that the kubelet mounts"),
    patched("pod", OWN, annotated(MARK), "names no node. Use the token that the kubelet mounts"),
    patched("node", STATUS, amounts(), "names no node. Use the token that the kubelet mounts"),
]


def bound(name: str, annotations: Mapping[str, str], reason: str = "", **metadata: Any) -> Attempt:
    """A Binding of the unbound pod."""
    body = binding("unbound", OWN_NODE, annotations=annotations, **metadata)
    return Attempt(name, "POST", f"{UNBOUND}/binding", body, reason)


CARD: Final = booking(1, card=0)
OF_THE_EXTENDER: Final = [
    *events(BY_THE_EXTENDER, "the extender writes events as gpushare-extender"),
    patched("node label", STATUS, {"metadata": {"labels": {"a": "b"}}}, r"change metadata\.labels$"),
    patched("node owner", STATUS, {"metadata": {"ownerReferences": OWNER}}, r"metadata\.ownerReferences$"),
    patched("node annotation", STATUS, annotated(CARDS), f"change annotation {spec.NODE_CARDS}$"),
    patched("condition", STATUS, {"status": {"conditions": READY}}, "change status$"),
    patched("capacity", STATUS, {"status": {"capacity": {"cpu": "9"}}}, "change status$"),
    bound("Binding with an annotation", {**CARD, "team": "x"}, "would set annotation team$"),
    bound("Binding with a label", CARD, "would set label app$", labels={"app": "x"}),
    # Accepted: what the extender does.
    patched("room", STATUS, annotated({spec.NODE_ROOM: "1"})),
    bound("Binding", CARD),
    bound("Binding on several cards", {**CARD, spec.POD_ALLOCATION: "{}", spec.POD_INDEX: ""}),
    bound("Binding with labels of the topology", CARD, labels={"topology.kubernetes.io/zone": "z"}),
]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def places(cluster: Cluster, tenant: Any) -> AsyncIterator[dict[str, str]]:
    """A pod on the plugin's node, one on another, and one on none; and the right to delete pods for the plugin."""
    pods = [plain_pod("own", OWN_NODE), plain_pod("foreign", OTHER_NODE)]
    rights = list(yaml.safe_load_all((FOLDER / "components" / "delete-unadmitted" / "rbac.yaml").read_text()))
    for pod in (*pods, gpu_pod("unbound", 1, scheduler=NO_SCHEDULER)):
        await cluster.api.create(pod, tenant.namespace)
    for item in rights:
        await cluster.api.create(item)
    ours = [event("", one, metadata={"name": one["component"]}).body for one in (BY_THE_PLUGIN, BY_THE_EXTENDER)]
    written = [BY_ANOTHER, *ours]
    for one in written:
        await cluster.api.request("POST", WRITTEN, body=one)
    # A kubelet that still starts a pod would change it between a program's read and write.
    await eventually(
        lambda: cluster.api.list(PODS, tenant.namespace),
        lambda seen: sum(pod["status"].get("phase") == "Running" for pod in seen) == len(pods),
        "the pods of the case run",
    )
    try:
        yield {"namespace": tenant.namespace}
    finally:
        for one in written:
            await cluster.api.request("DELETE", f"{WRITTEN}/{one['metadata']['name']}")
        for item in rights:
            await cluster.api.request("DELETE", resource_of(item).path(name=item["metadata"]["name"]))
        for name in ("own", "foreign", "unbound"):
            await cluster.api.delete(PODS, name, tenant.namespace, grace_seconds=0)


def plain_pod(name: str, node: str) -> dict[str, Any]:
    """A pod without a card on that node, with an annotation of its author."""
    pod = gpu_pod(name, bound_to=node, annotations={"kept": "yes"})
    pod["spec"]["containers"] = [plain_container("c")]
    return pod


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def plugin(cluster: Cluster, target: Target) -> AsyncIterator[ApiClient]:
    """The plugin of the node a1."""
    path = await cluster.kubeconfig_of(target.device_plugin.account, OWN_NODE)
    async with ApiClient.from_kubeconfig(path) as api:
        yield api


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def extender(cluster: Cluster, target: Target) -> AsyncIterator[ApiClient]:
    """The extender."""
    async with ApiClient.from_kubeconfig(await cluster.kubeconfig_of(target.extender.account)) as api:
        yield api


def skip_what_is_not_kept(request: pytest.FixtureRequest, attempt: Attempt) -> None:
    """The embedded API server has no managed fields."""
    if request.config.getoption("--cluster") == "embedded" and "managedFields" in attempt.reason:
        pytest.skip("the embedded API server keeps no managedFields")


@pytest.mark.parametrize("attempt", OF_THE_PLUGIN, ids=lambda attempt: attempt.name)
async def test_a_plugin_changes_its_own_part_alone(
    request: pytest.FixtureRequest, plugin: ApiClient, places: dict[str, str], attempt: Attempt
) -> None:
    """A stolen token of one node changes our annotations on pods of that node and our part of its Node, and nothing else."""
    skip_what_is_not_kept(request, attempt)
    await attempt.check(plugin, **places)


@pytest.mark.parametrize("attempt", UNNAMED, ids=lambda attempt: attempt.name)
async def test_a_token_without_a_node_is_refused(
    cluster: Cluster, target: Target, places: dict[str, str], attempt: Attempt
) -> None:
    """A token that is bound to no pod could be any node's; the refusal names the token to use."""
    async with ApiClient.from_kubeconfig(await cluster.kubeconfig_of(target.device_plugin.account)) as unnamed:
        await attempt.check(unnamed, **places)


@pytest.mark.parametrize("attempt", OF_THE_EXTENDER, ids=lambda attempt: attempt.name)
async def test_an_extender_changes_its_own_part_alone(
    request: pytest.FixtureRequest, extender: ApiClient, places: dict[str, str], attempt: Attempt
) -> None:
    """A stolen token of the extender writes one annotation of a Node, and binds pods with our annotations alone."""
    skip_what_is_not_kept(request, attempt)
    await attempt.check(extender, **places)
