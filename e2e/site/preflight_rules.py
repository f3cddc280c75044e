"""Judges a cluster before an installation or a validation. Pure.

A rule is one function; its lines have the name in RULES. The programs of an installation, their nodes and cards are what
``gpushare-setup check`` and ``kubectl gpushare doctor`` judge, and no rule here repeats that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from clusters.api.resources import NODES, PODS, VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS
from e2e.site import default_ports
from e2e.site.node_invariants import other_resources
from e2e.site.picture import DEVICE_PLUGIN, KUBE_SYSTEM, Object, as_arguments, labels_of, name_of
from e2e.site.preflight_lines import Rule, Seen, ok, unknown, wrong
from e2e.site.preflight_picture import (
    EXTENDER,
    MUTATING_WEBHOOKS,
    ClusterPicture,
    Right,
    has_ended,
    is_program,
    minor_of,
)
from e2e.site.validation_namespace import NAMESPACE as VALIDATION
from e2e.site.validation_namespace import PRIORITY_CLASS

_INSTALL: Final = "install it as clusters/deploy/README.md has it"
# The kube-scheduler of older minors does not read base/scheduler-config.yaml.
_OLDEST: Final = 25
# The first minor that has ValidatingAdmissionPolicies.
_POLICIES_SINCE: Final = 30
# From Kubernetes 1.28 on a kubelet may be three minors older than its API server, before two; it may never be newer.
_SKEW_SINCE: Final = 28
_ENFORCE: Final = "pod-security.kubernetes.io/enforce"
_OTHER_PROGRAMS: Final = (
    "nvidia-device-plugin",
    "nvidia/k8s-device-plugin",
    "hami-device-plugin",
    "projecthami/",
    "volcano-device-plugin",
    "volcano-vgpu-device-plugin",
    "gpu-manager",
    "nvidia-dra-driver-gpu",
    "k8s-dra-driver-gpu",
)


def _rights(
    resource: str, *verbs: str, group: str = "", subresource: str = "", namespace: str = VALIDATION, name: str = ""
) -> tuple[Right, ...]:
    return tuple(Right(verb, resource, group, subresource, namespace, name) for verb in verbs)


# The things that a validation makes only if an administrator has not.
_MADE: Final = {"namespaces": f"namespace {VALIDATION}", "priorityclasses": f"PriorityClass {PRIORITY_CLASS}"}
# The requests of a validation, by the resource that a line names.
RIGHTS: Final[Mapping[str, tuple[Right, ...]]] = {
    "nodes": _rights("nodes", "get", "list", "watch", namespace=""),
    "pods of all namespaces": _rights("pods", "list", "watch", namespace=""),
    "pods": _rights("pods", "get", "create", "delete"),
    "pods/log": _rights("pods", "get", subresource="log"),
    "events": _rights("events", "list"),
    "leases": _rights("leases", "get", "create", "patch", "delete", group="coordination.k8s.io"),
    f"namespace {VALIDATION}": _rights("namespaces", "get", name=VALIDATION),
    f"PriorityClass {PRIORITY_CLASS}": _rights(
        "priorityclasses", "get", group="scheduling.k8s.io", namespace="", name=PRIORITY_CLASS
    ),
    "namespaces": _rights("namespaces", "create", "delete", namespace=""),
    "priorityclasses": _rights("priorityclasses", "create", "delete", group="scheduling.k8s.io", namespace=""),
}


def api_server(picture: ClusterPicture) -> Iterator[Seen]:
    """The API server is of a version that gpushare supports."""
    if not picture.minor:
        text = f"it has version {picture.version or 'none'}, which cannot be read"
        yield unknown("cluster", text, f"compare it with 1.{_OLDEST}, the oldest that is supported")
    elif picture.minor < _OLDEST:
        todo = f"update Kubernetes: its kube-scheduler reads the configuration from 1.{_OLDEST} on"
        yield wrong("cluster", f"Kubernetes {picture.version} is too old", todo)
    else:
        yield ok("cluster", f"Kubernetes {picture.version}")


def rights(picture: ClusterPicture) -> Iterator[Seen]:
    """The account may do what a validation does."""
    for name, wanted in RIGHTS.items():
        answers = {right: picture.rights.get(right, "it was not asked") for right in wanted}
        unclear = sorted({answer for answer in answers.values() if isinstance(answer, str)})
        denied = [right.verb for right, answer in answers.items() if answer is False]
        if denied and name in _MADE:
            text = f"the account may not {', '.join(denied)}, so {_MADE[name]} must be there"
            yield unknown(name, text, "kubectl apply -f e2e/onsite/validate-rbac.yaml")
        elif denied:
            todo = (
                "a validation needs it: use another account, or give this one the role of e2e/onsite/validate-rbac.yaml"
            )
            yield wrong(name, f"the account may not {', '.join(denied)}", todo)
        elif unclear:
            yield unknown(
                name, f"the API server does not answer: {'; '.join(unclear)}", "try kubectl auth can-i --list"
            )
        else:
            yield ok(name, f"the account may {', '.join(right.verb for right in wanted)}")


def policies(picture: ClusterPicture) -> Iterator[Seen]:
    """The admission policies of gpushare are there, each with its binding."""
    there = {one["metadata"]["name"] for one in picture.all(VALIDATING_ADMISSION_POLICIES)} & picture.policies
    bound = {one["spec"]["policyName"] for one in picture.all(VALIDATING_ADMISSION_POLICY_BINDINGS)}
    missing, unbound = sorted(picture.policies - there), sorted(there - bound)
    if not there and picture.minor < _POLICIES_SINCE:
        text = f"none is there, and API server {picture.version} has no such policies"
        yield unknown("cluster", text, "add components/without-policies; SECURITY.md has what is open then")
    elif not there and not picture.is_installed():
        yield unknown("cluster", "none is installed yet", _INSTALL)
    elif not there:
        text = "none is there: pods may be given cards by annotations and variables that a person writes"
        yield unknown("cluster", text, "apply clusters/deploy/base without components/without-policies")
    elif missing or unbound:
        parts = {"missing": missing, "without a binding": unbound}
        text = "; ".join(f"{', '.join(names)} {what}" for what, names in parts.items() if names)
        yield wrong("cluster", text, "apply clusters/deploy/base again")
    else:
        yield ok("cluster", f"all {len(there)} are there, each with its binding")


def webhooks(picture: ClusterPicture) -> Iterator[Seen]:
    """No webhook changes pods on their creation."""
    found = [
        f"{configuration['metadata']['name']}/{webhook['name']}"
        for configuration in picture.all(MUTATING_WEBHOOKS)
        for webhook in configuration.get("webhooks") or ()
        if any(map(_changes_pods, webhook.get("rules") or ()))
    ]
    for name in found:
        todo = "see that it leaves resources, schedulerName, environment and annotations of pods that share cards as they are"
        yield unknown(f"webhook {name}", "it may change pods on their creation", todo)
    if not found:
        yield ok("cluster", "none changes pods")


def pod_security(picture: ClusterPicture) -> Iterator[Seen]:
    """kube-system takes pods with the host's network and folders."""
    level = labels_of(picture.namespace(KUBE_SYSTEM)).get(_ENFORCE, "")
    if level in ("", "privileged"):
        text = f"it enforces {level}" if level else "it has no label; a default of the API server cannot be seen"
        yield ok(f"namespace {KUBE_SYSTEM}", text)
    else:
        todo = f"kubectl label --overwrite namespace {KUBE_SYSTEM} {_ENFORCE}=privileged"
        yield wrong(f"namespace {KUBE_SYSTEM}", f"it enforces {level}: the programs' pods are refused", todo)


def node_labels(picture: ClusterPicture) -> Iterator[Seen]:
    """Nodes with cards have the label that places the device plugin."""
    sharing = picture.sharing
    labelled = [name for name, node in sharing.sharing_nodes.items() if not sharing.lacking(node)]
    for name in labelled:
        yield ok(f"node {name}", "a device plugin is placed there")
    for name, lacking in sharing.left_out.items():
        todo = f"kubectl label node {name} {lacking}, or leave it out if other programs use its cards"
        yield unknown(f"node {name}", f"it has cards and lacks {lacking}: no device plugin comes to it", todo)
    if not labelled:
        wanted = as_arguments(sharing.placing_labels[0])
        text = f"none of {len(picture.all(NODES))} nodes has the label {wanted}"
        todo = f"kubectl label node NODE {wanted} for each node with cards, before the device plugin is installed"
        yield unknown("cluster", text, todo)


def node_versions(picture: ClusterPicture) -> Iterator[Seen]:
    """The kubelet's version fits the API server's; what else the node runs is named."""
    for name, node in picture.sharing.sharing_nodes.items():
        server, info = picture.minor, (node.get("status") or {}).get("nodeInfo") or {}
        kubelet = str(info.get("kubeletVersion", ""))
        parts = (info.get(key) or "" for key in ("containerRuntimeVersion", "kernelVersion", "osImage", "architecture"))
        text = ", ".join([f"kubelet {kubelet or 'of unknown version'}", *(part for part in parts if part)])
        minor = minor_of(kubelet)
        if not minor or not server:
            todo = "compare kubectl version with kubectl get nodes yourself"
            yield unknown(f"node {name}", f"{text}: the versions cannot be compared", todo)
        elif minor > server:
            text = f"{text}: the kubelet is newer for API server {picture.version}"
            yield wrong(f"node {name}", text, "update the API server")
        elif minor < server - (3 if server >= _SKEW_SINCE else 2):
            text = f"{text}: the kubelet is too old for API server {picture.version}"
            yield wrong(f"node {name}", text, "update the kubelet")
        else:
            yield ok(f"node {name}", text)


def other_plugins(picture: ClusterPicture) -> Iterator[Seen]:
    """No other plugin gives out the same cards."""
    others = [pod for pod in picture.all(PODS) if not has_ended(pod) and _is_other(pod)]
    for name, node in picture.sharing.sharing_nodes.items():
        resources = other_resources(node)
        here = [name_of(pod) for pod in others if pod["spec"].get("nodeName") == name]
        if resources or here:
            seen = [f"it offers {', '.join(resources)}"] if resources else []
            seen += [f"{', '.join(here)} run on it"] if here else []
            text = f"{' and '.join(seen)}: pods of both plugins may get the same card"
            yield wrong(f"node {name}", text, "keep the other plugin off nodes with the label gpushare=true")
        else:
            yield ok(f"node {name}", "none is there")


def ports(picture: ClusterPicture) -> Iterator[Seen]:
    """No other program has a port of ours, as far as the API shows it."""
    conflicts = list(_node_port_conflicts(picture))
    conflicts += _host_port_conflicts(picture)
    yield from conflicts
    if not conflicts:
        numbers = ", ".join(map(str, (*default_ports.CONTROL_PLANE, *default_ports.SHARING, default_ports.NODE_PORT)))
        yield ok("cluster", f"no other pod or Service names {numbers}")


def _changes_pods(rule: Object) -> bool:
    groups, resources, operations = (rule.get(key) or () for key in ("apiGroups", "resources", "operations"))
    return (
        any(group in ("", "*") for group in groups)
        and any(resource in ("pods", "*", "*/*") for resource in resources)
        and any(operation in ("CREATE", "*") for operation in operations)
    )


def _is_other(pod: Object) -> bool:
    """Is it of a plugin that hands out NVIDIA's cards in its own way?"""
    owners = (owner.get("name", "") for owner in pod["metadata"].get("ownerReferences") or ())
    images = (container.get("image", "") for container in pod["spec"]["containers"])
    return any(word in text for text in (*owners, *images) for word in _OTHER_PROGRAMS)


def _is_control_plane(node: Object) -> bool:
    """May the extender run there?"""
    return any(f"node-role.kubernetes.io/{role}" in labels_of(node) for role in ("control-plane", "master"))


def _node_port_conflicts(picture: ClusterPicture) -> Iterator[Seen]:
    port = default_ports.NODE_PORT
    for name, is_ours, node_ports in picture.services():
        if port in node_ports and not is_ours:
            todo = "keep clusters/deploy/base, which needs no node port, or change the port of the other Service"
            yield wrong(f"service {name}", f"it has node port {port}, which overlays/nodeport asks for", todo)


def _host_port_conflicts(picture: ClusterPicture) -> Iterator[Seen]:
    wanted: dict[str, dict[int, str]] = {}
    for node in picture.all(NODES):
        of_control_plane = default_ports.CONTROL_PLANE if _is_control_plane(node) else {}
        of_plugin = {} if picture.sharing.lacking(node) else default_ports.SHARING
        wanted[node["metadata"]["name"]] = {**of_control_plane, **of_plugin}
    for pod in picture.all(PODS):
        node_name = pod["spec"].get("nodeName") or ""
        is_ours = is_program(pod, EXTENDER) or is_program(pod, DEVICE_PLUGIN)
        for port in sorted(_host_ports(pod) & wanted.get(node_name, {}).keys()):
            if not is_ours and not has_ended(pod):
                text = f"it has port {port} of node {node_name}, which {wanted[node_name][port]} asks for"
                yield wrong(f"pod {name_of(pod)}", text, "change the port of one of them")


def _host_ports(pod: Object) -> set[int]:
    is_host = bool(pod["spec"].get("hostNetwork"))
    named = [port for container in pod["spec"]["containers"] for port in container.get("ports") or ()]
    return {port.get("hostPort") or (port["containerPort"] if is_host else 0) for port in named} - {0}


RULES: Final[Mapping[str, Rule[ClusterPicture]]] = {
    "API server": api_server,
    "rights": rights,
    "admission policies": policies,
    "webhooks": webhooks,
    "pod security": pod_security,
    "node labels": node_labels,
    "node versions": node_versions,
    "other plugins": other_plugins,
    "ports": ports,
}
