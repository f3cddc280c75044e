"""Which pods a tenant may write, by the admission policies in clusters/deploy/base.

The tenant has all rights on the pods of one namespace, their status and their Bindings, and no other right.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import pytest
import pytest_asyncio

from clusters.api.api_client import MERGE_PATCH, ApiClient, ApiError
from clusters.api.resources import CLUSTER_ROLE_BINDINGS, NAMESPACES, PODS, ROLES
from clusters.api.waiting import eventually
from clusters.provider import Cluster
from e2e import spec
from e2e.builders import NO_SCHEDULER, binding, booking, gpu_pod, plain_container
from e2e.conformance.conftest import Attempt
from e2e.tenant import AUTHOR, Tenant, admitted, granted

pytestmark = pytest.mark.needs("policies")

COLLECTION: Final = "/api/v1/namespaces/{namespace}/pods"
# A pod with a card, and one that waits.
BOOKED: Final = f"{COLLECTION}/booked"
WAITING: Final = f"{COLLECTION}/waiting"
PREFIX: Final = "gpushare.aliyun.com/"
DEVICES: Final = "/var/run/nvidia-container-devices"
CARD: Final = booking(1, card=0) | {spec.POD_ASSIGNED: "true"}
WISHES: Final = {spec.WISH_POLICY: "spread", spec.WISH_MODEL: "T4", spec.WISH_UUID: "GPU-1", spec.WISH_SAME_CARD: "x"}


def pod(annotations: Mapping[str, str] | None = None, *, units: int = 1, **fields: Any) -> dict[str, Any]:
    """A pod with one container, with more fields of its spec."""
    found = gpu_pod("p", units, annotations=annotations or {})
    found["spec"] |= ({} if units else {"containers": [plain_container("c0")]}) | fields
    return found


def container(name: str, *env: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A container with exactly these variables."""
    return {"name": name, "image": "x", "env": list(env), **fields}


def variable(value: str, name: str = spec.ENV_VISIBLE) -> dict[str, str]:
    """A variable with a value."""
    return {"name": name, "value": value}


def shown(value: str, *, units: int = 0, name: str = spec.ENV_VISIBLE) -> dict[str, Any]:
    """A pod with a container that sets such a variable."""
    limits = {"limits": {spec.RESOURCE_MEMORY: units}} if units else {}
    return pod(units=0, containers=[container("main", variable(value, name), resources=limits)])


def debugged(*env: dict[str, Any]) -> dict[str, Any]:
    """A patch that adds an ephemeral container."""
    return {"spec": {"ephemeralContainers": [container("debug", *env)]}}


def annotated(annotations: Mapping[str, str | None]) -> dict[str, Any]:
    """A patch of annotations."""
    return {"metadata": {"annotations": annotations}}


FROM_A_FIELD: Final = {"name": spec.ENV_VISIBLE, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
MOUNT: Final[dict[str, Any]] = {
    "containers": [container("main", volumeMounts=[{"name": "v", "mountPath": f"/var/run/..{DEVICES}/all"}])],
    "volumes": [{"name": "v", "emptyDir": {}}],
}
DATA: Final[dict[str, Any]] = {
    "containers": [container("main", volumeMounts=[{"name": "v", "mountPath": "/data"}])],
    "volumes": [{"name": "v", "emptyDir": {}}],
}
BINDING: Final = binding("waiting", "a1", annotations={spec.POD_INDEX: "0"})
CDI_BINDING: Final = binding("waiting", "a1", annotations={"cdi.k8s.io/x": "nvidia.com/gpu=all"})
OURS: Final = "only the programs of gpushare may set, change or remove the annotation .*Leave it out"
VISIBLE: Final = "{} of container {}: .* Remove the variable: .* aliyun.com/gpu-mem gets NVIDIA_VISIBLE_DEVICES"
LEGACY: Final = "CUDA_VERSION is set, or NVIDIA_REQUIRE_CUDA is empty, in container {}: .* Remove the variable"
CDI: Final = "annotation {} names a CDI device"
# By which NVIDIA's runtime gives a container cards, or memory of cards.
SWITCHES: Final = (
    spec.ENV_VISIBLE, "DOCKER_RESOURCE_GPU", "NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES",
    "NVIDIA_IMEX_CHANNELS", "NVIDIA_NVSWITCH", "NVIDIA_GPU_MEMORY_LIMIT", "NVIDIA_GPU_MEMORY_REQUEST",
)  # fmt: skip
# One of them, in a form that only the runtime resolves, or in a container that is easily overlooked.
VERSION: Final = variable("8.0.61", "CUDA_VERSION")
FREE: Final = {"apiGroups": ["gpushare.aliyun.com"], "resources": ["allocations"], "verbs": ["override"]}
ALL_RIGHTS: Final = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
SHOWS_ALL: Final = {"metadata": {"labels": {f"{PREFIX}all-cards": "true"}}}


def posted(name: str, manifest: Any, reason: str = "") -> Attempt:
    """A pod that is created."""
    return Attempt(name, "POST", COLLECTION, manifest, reason)


def patched(name: str, path: str, patch: Any, reason: str = "") -> Attempt:
    """A pod that is changed."""
    return Attempt(name, "PATCH", path, patch, reason)


FORGED: Final = [
    posted("card", pod({spec.POD_INDEX: "0"}), OURS),
    posted("card without a request", pod({spec.POD_INDEX: "0"}, units=0), OURS),
    posted("several cards", pod({spec.POD_ALLOCATION: '{"0":{"0":1}}'}), OURS),
    posted("copy of a running pod", pod(CARD), OURS),
    posted("annotation of the future", pod({"ALIYUN_COM_GPU_MEM_NEW": ""}), OURS),
    posted("misspelled wish", pod({f"{PREFIX}card-modle": "T4"}), "knows no .*Known .* card-model"),
    *(posted(name, shown("1", name=name), VISIBLE.format(name, "main")) for name in SWITCHES),
    *(posted(f"{name} with a card", shown("1", units=1, name=name), VISIBLE.format(name, "main")) for name in SWITCHES),
    posted("variable of a variable", shown("$(X)"), VISIBLE.format(spec.ENV_VISIBLE, "main")),
    posted(
        "init container",
        pod(initContainers=[container("first", variable("0"))]),
        VISIBLE.format(spec.ENV_VISIBLE, "first"),
    ),
    posted(
        "sidecar",
        pod(initContainers=[container("side", variable("0"), restartPolicy="Always")]),
        VISIBLE.format(spec.ENV_VISIBLE, "side"),
    ),
    posted("value from a field", pod(containers=[container("c", FROM_A_FIELD)]), VISIBLE.format(spec.ENV_VISIBLE, "c")),
    posted(
        "void, then all", pod(containers=[container("c", variable("void"), variable("all"))]), VISIBLE.format(".*", "c")
    ),
    posted("legacy image", shown("8.0.61", name="CUDA_VERSION"), LEGACY.format("main")),
    posted("legacy image with a card", shown("8.0.61", units=1, name="CUDA_VERSION"), LEGACY.format("main")),
    posted("legacy image beside a card", pod(initContainers=[container("side", VERSION)]), LEGACY.format("side")),
    posted(
        "legacy image with an emptied list", pod(containers=[container("c", VERSION, variable(""))]), LEGACY.format("c")
    ),
    posted("image made legacy", shown("", name="NVIDIA_REQUIRE_CUDA"), LEGACY.format("main")),
    posted(
        "image made legacy by a second value",
        pod(containers=[container("c", *(variable(value, "NVIDIA_REQUIRE_CUDA") for value in ("cuda>=8.0", "")))]),
        LEGACY.format("c"),
    ),
    posted("image made legacy by a variable", shown("$(X)", name="NVIDIA_REQUIRE_CUDA"), LEGACY.format("main")),
    posted("mount", pod(**MOUNT), "below /var/run/nvidia-container-devices in container main"),
    posted(
        "CDI of the operator",
        pod({"nvidia.cdi.k8s.io/container.c": "management.nvidia.com/gpu=all"}),
        CDI.format("nvidia.cdi.k8s.io/container.c"),
    ),
    posted("CDI", pod({"cdi.k8s.io/x": "nvidia.com/gpu=all"}), CDI.format("cdi.k8s.io/x")),
    posted("CDI limit", pod({"cdi.k8s.io/x": "gpushare.aliyun.com/limit=GPU-1-15000"}), CDI.format("cdi.k8s.io/x")),
    posted("CDI without a vendor", pod({"cdi.k8s.io/x": "all"}), CDI.format("cdi.k8s.io/x")),
    posted("CDI among others", pod({"cdi.k8s.io/x": "v.example/net=0,0"}), CDI.format("cdi.k8s.io/x")),
    posted("CDI without a slash", pod({"nvidia.cdi.k8s.io": "nvidia.com/gpu=all"}), CDI.format("nvidia.cdi.k8s.io")),
    patched("more than the request", BOOKED, annotated({spec.POD_ALLOCATION: '{"0":{"0":9}}'}), OURS),
    patched("other card", BOOKED, annotated({spec.POD_INDEX: "1", spec.WISH_UUID: "GPU-2"}), OURS),
    patched("no card", BOOKED, annotated({spec.POD_INDEX: None}), OURS),
    patched("status", f"{BOOKED}/status", annotated({spec.POD_INDEX: "1"}), OURS),
    patched("CDI later", BOOKED, annotated({"cdi.k8s.io/x": "nvidia.com/gpu=0"}), CDI.format("cdi.k8s.io/x")),
    patched(
        "debugger",
        f"{BOOKED}/ephemeralcontainers",
        debugged(variable("all")),
        VISIBLE.format(spec.ENV_VISIBLE, "debug"),
    ),
    patched("legacy debugger", f"{BOOKED}/ephemeralcontainers", debugged(VERSION), LEGACY.format("debug")),
    Attempt("Binding", "POST", f"{WAITING}/binding", BINDING, OURS),
    Attempt("Binding with CDI", "POST", f"{WAITING}/binding", CDI_BINDING, CDI.format("cdi.k8s.io/x")),
]
HONEST: Final = [
    posted("no card", pod(units=0)),
    posted("a card", pod()),
    posted("wishes", pod(WISHES)),
    posted("annotations of others", pod({"prometheus.io/scrape": "true", "ALIYUN_COM_X": "1"})),
    posted("void", shown("void")),
    posted("none", shown("none", units=1)),
    posted("empty", shown("")),
    *(
        posted(name, shown("1", units=1, name=name))
        for name in (
            "NVIDIA_DRIVER_CAPABILITIES",
            "NVIDIA_REQUIRE_CUDA",
            "NVIDIA_DISABLE_REQUIRE",
            "CUDA_VISIBLE_DEVICES",
        )
    ),
    posted("legacy image without cards", pod(containers=[container("c", VERSION, variable("void"))])),
    posted("new image", pod(containers=[container("c", VERSION, variable("cuda>=8.0", "NVIDIA_REQUIRE_CUDA"))])),
    posted("no version", shown("", name="CUDA_VERSION")),
    posted("init container", pod(initContainers=[container("i", variable("all", "X"))])),
    posted("volume", pod(**DATA)),
    posted("CDI of others", pod({"cdi.k8s.io/x": "vendor.example/net=0,vendor.example/net=1"})),
    patched("label", BOOKED, {"metadata": {"labels": {"a": "b"}}}),
    patched("finalizer", BOOKED, {"metadata": {"finalizers": ["x.example/y"]}}),
    patched("annotation beside ours", BOOKED, annotated({"a": "b", spec.POD_INDEX: "0"})),
    patched("wish of a pod that waits", WAITING, annotated({spec.WISH_MODEL: "A100"})),
    patched("debugger", f"{BOOKED}/ephemeralcontainers", debugged(variable("void"))),
    Attempt("deletion", "DELETE", BOOKED, None),
]
# Only the policies stop these, and the exempt accounts may do them.
EXEMPT: Final = [
    each
    for each in FORGED
    if each.name in ("card", "misspelled wish", spec.ENV_VISIBLE, "legacy image", "mount", "CDI", "status")
]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pods(cluster: Cluster, tenant: Tenant) -> AsyncIterator[Tenant]:
    """A pod with annotations of a card, and one without; no scheduler and no kubelet has them."""
    names = {"booked": CARD, "waiting": {}}
    for name, card in names.items():
        await admitted(cluster.api, gpu_pod(name, 1, scheduler=NO_SCHEDULER, annotations=card), tenant.namespace)
    try:
        yield tenant
    finally:
        for name in names:
            await cluster.api.delete(PODS, name, tenant.namespace, grace_seconds=0)


def skip_what_is_not_served(request: pytest.FixtureRequest, attempt: Attempt) -> None:
    """The embedded API server has no ephemeral containers."""
    if request.config.getoption("--cluster") == "embedded" and attempt.path.endswith("/ephemeralcontainers"):
        pytest.skip("the embedded API server does not serve pods/ephemeralcontainers")


@pytest.mark.parametrize("attempt", FORGED, ids=lambda attempt: attempt.name)
async def test_a_forged_pod_is_refused_with_help(
    request: pytest.FixtureRequest, pods: Tenant, attempt: Attempt
) -> None:
    """The author of a forged pod reads what is refused, why, and what to write instead."""
    skip_what_is_not_served(request, attempt)
    await attempt.check(pods.api, namespace=pods.namespace)


@pytest.mark.parametrize("attempt", HONEST, ids=lambda attempt: attempt.name)
async def test_an_honest_pod_is_accepted(request: pytest.FixtureRequest, pods: Tenant, attempt: Attempt) -> None:
    """Pods that use cards as they should, pods that use none, and changes that leave our annotations as they are."""
    skip_what_is_not_served(request, attempt)
    await attempt.check(pods.api, namespace=pods.namespace)


async def test_an_override_passes(cluster: Cluster, pods: Tenant) -> None:
    """An account with the right to override allocations everywhere, as cluster administrators have it, is not judged."""
    # The rights that the author has go on beside those of the new role.
    body = {"subjects": [{"kind": "ServiceAccount", "name": AUTHOR, "namespace": pods.namespace}]}
    async with granted(cluster.api, "kube-system", "overrider", [FREE], in_all_namespaces=True):
        path = CLUSTER_ROLE_BINDINGS.path(name="overrider")
        await cluster.api.request("PATCH", path, body=body, content_type=MERGE_PATCH)
        for attempt in EXEMPT:
            await eventually(
                lambda: attempt.send(pods.api, namespace=pods.namespace),  # noqa: B023
                lambda reason: not reason,
                f"the right is known: {attempt.name}",
            )
    # The next case must not find the right any more.
    await eventually(lambda: EXEMPT[0].send(pods.api, namespace=pods.namespace), bool, "the right is gone")


async def test_all_rights_in_a_namespace_are_no_override(cluster: Cluster, pods: Tenant) -> None:
    """The owner of a namespace is judged as its authors are, and cannot exempt it."""
    role = f"{ROLES.path(pods.namespace)}/{AUTHOR}"
    narrow = await cluster.api.request("GET", role)
    label = Attempt("label", "PATCH", "/api/v1/namespaces/{namespace}", SHOWS_ALL, "only an account that may override")
    await cluster.api.request("PATCH", role, body={"rules": [ALL_RIGHTS]}, content_type=MERGE_PATCH)
    try:

        async def is_known() -> bool:
            try:
                return bool(await label.send(pods.api, namespace=pods.namespace))
            except ApiError:
                return False

        await eventually(is_known, bool, "the rights are known, and the label is refused")
        for attempt in (label, *EXEMPT):
            await attempt.check(pods.api, namespace=pods.namespace)
    finally:
        await cluster.api.request("PATCH", role, body={"rules": narrow["rules"]}, content_type=MERGE_PATCH)


async def test_a_namespace_of_monitors_sees_all_cards(cluster: Cluster, pods: Tenant) -> None:
    """Pods that must see all cards run in a namespace that an administrator has labelled, or in kube-system."""
    every = next(each for each in FORGED if each.name == spec.ENV_VISIBLE)
    await cluster.api.patch(NAMESPACES, pods.namespace, SHOWS_ALL)
    try:
        await eventually(
            lambda: every.send(pods.api, namespace=pods.namespace), lambda reason: not reason, "the label is known"
        )
    finally:
        await cluster.api.patch(NAMESPACES, pods.namespace, {"metadata": {"labels": {f"{PREFIX}all-cards": None}}})
    await eventually(lambda: every.send(pods.api, namespace=pods.namespace), bool, "the label is gone")

    rights = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]}]
    async with granted(cluster.api, "kube-system", "monitor", rights):
        account = await cluster.kubeconfig_of("kube-system/monitor")
        async with ApiClient.from_kubeconfig(account) as monitor:
            assert await every.send(monitor, namespace="kube-system") == ""
