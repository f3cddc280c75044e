"""Judges the extender, the schedulers and their ports before an installation or a validation. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final

from clusters.api.resources import CONFIG_MAPS, NODES, PODS
from e2e import spec
from e2e.site import default_ports
from e2e.site.picture import Object, annotations_of, condition, is_labelled, labels_of, name_of, words_of
from e2e.site.preflight_lines import Rule, Seen, UnseenError, ok, unknown, wrong
from e2e.site.preflight_picture import (
    DEVICE_PLUGIN,
    EXTENDER,
    INSTALL,
    KUBE_SYSTEM,
    ClusterPicture,
    has_ended,
    is_control_plane,
    is_program,
)

_SCHEDULER: Final = "kube-scheduler"
_STATIC: Final = "kubernetes.io/config.mirror"
_STEP: Final = "step 2 of clusters/deploy/README.md"


def extender(picture: ClusterPicture) -> Iterator[Seen]:
    """The extender is ready, and no second one binds beside it unguarded."""
    pods = picture.programs(EXTENDER)
    for pod in pods:
        yield _of_extender(pod)
    for deployment in picture.extenders():
        yield _of_deployment(deployment)
    if pods or picture.extenders():
        return
    if not picture.is_installed():
        yield unknown("cluster", "the extender is not installed", INSTALL)
    elif picture.programs(DEVICE_PLUGIN):
        yield wrong("cluster", "device plugins are installed, and no extender is: pods that share cards wait", INSTALL)
    else:
        text = f"no pod has the label component={EXTENDER}"
        yield unknown("cluster", text, "check the program that kube-scheduler's configuration names yourself")


def extender_service(picture: ClusterPicture) -> Iterator[Seen]:
    """kube-scheduler reaches the extender: in the same pod, on the host's network, or by a Service."""
    pods = picture.programs(EXTENDER)
    services = [(name, ports) for name, is_ours, ports in picture.services() if is_ours]
    for name, ports in services:
        numbers = ", ".join(map(str, sorted(ports)))
        yield ok(f"service {name}", f"on node port {numbers}" if ports else "inside the cluster")
    if services or not pods:
        return
    if all(_scheduling(pod) is not None for pod in pods):
        yield ok("cluster", f"none is needed: a {_SCHEDULER} is in the extender's pod")
    elif all(pod["spec"].get("hostNetwork") for pod in pods):
        yield ok("cluster", f"none is needed: the extender is on port {default_ports.EXTENDER} of its node")
    else:
        todo = "apply clusters/deploy/base, which puts it on the host's network, or overlays/nodeport"
        yield wrong("cluster", "no Service is in front of the extender, which is not on the host's network", todo)


def scheduler(picture: ClusterPicture) -> Iterator[Seen]:
    """kube-scheduler is started with a configuration that may name the extender."""
    found = {name_of(pod): pod for pod in picture.all(PODS) if not has_ended(pod) and _scheduling(pod) is not None}
    configured = {bool(annotations_of(pod).get(_STATIC)) for pod in found.values() if _config_of(pod)}
    for name, pod in found.items():
        is_static = bool(annotations_of(pod).get(_STATIC))
        if _config_of(pod):
            yield _of_configured(picture, name, pod)
        elif configured and is_static not in configured:
            text = "it has no --config, another scheduler has: it alone starts pods that share cards"
            yield unknown(f"pod {name}", text, "name the other scheduler in pods that share cards (schedulerName)")
        elif not picture.is_installed():
            yield unknown(f"pod {name}", "it has no --config yet", _STEP)
        else:
            yield wrong(f"pod {name}", "it has no --config, so it never asks the extender", _STEP)
    if not found:
        text = "no pod of kube-scheduler is visible: a managed control plane, or one that does not run in pods"
        todo = (
            "give the control plane's kube-scheduler base/scheduler-config.yaml as its provider allows it, "
            "or run a kube-scheduler of your own with it"
        )
        yield unknown("cluster", text, todo)


def ports(picture: ClusterPicture) -> Iterator[Seen]:
    """No other program has a port of ours, as far as the API shows it."""
    conflicts = list(_node_port_conflicts(picture))
    conflicts += _host_port_conflicts(picture)
    yield from conflicts
    if not conflicts:
        numbers = ", ".join(map(str, (*default_ports.CONTROL_PLANE, *default_ports.SHARING, default_ports.NODE_PORT)))
        yield ok("cluster", f"no other pod or Service names {numbers}")


def _of_deployment(deployment: Object) -> Seen:
    name, of = name_of(deployment), deployment.get("spec") or {}
    wanted, ready = of.get("replicas", 1), (deployment.get("status") or {}).get("readyReplicas", 0)
    containers = ((of.get("template") or {}).get("spec") or {}).get("containers") or ()
    is_guarded = any("--guarded" in word for container in containers for word in words_of(container))
    if wanted > 1 and not is_guarded:
        text = f"{wanted} extenders that do not know of each other can give one card twice"
        return wrong(f"deployment {name}", text, "set replicas to 1, or add components/several-extenders")
    if ready < wanted or not wanted:
        todo = f"kubectl --namespace {KUBE_SYSTEM} describe pods -l component={EXTENDER}"
        return wrong(f"deployment {name}", f"{ready} of {wanted} are ready", todo)
    return ok(f"deployment {name}", f"{ready} of {wanted} are ready")


def _of_extender(pod: Object) -> Seen:
    images = ", ".join(str(container.get("image", "")) for container in pod["spec"]["containers"])
    text = f"{images} on node {pod['spec'].get('nodeName') or 'none yet'}"
    if condition(pod, "Ready") == "True":
        return ok(f"pod {name_of(pod)}", f"{text} is ready")
    namespace, _, name = name_of(pod).partition("/")
    return wrong(f"pod {name_of(pod)}", f"{text} is not ready", f"kubectl --namespace {namespace} describe pod {name}")


def _scheduling(pod: Object) -> Object | None:
    """The container of the pod that runs kube-scheduler."""
    for container in pod["spec"]["containers"]:
        words = words_of(container)
        if words and PurePosixPath(words[0]).name == _SCHEDULER:
            return dict(container)
        if labels_of(pod).get("component") == _SCHEDULER and pod["metadata"].get("namespace") == KUBE_SYSTEM:
            return dict(container)
    return None


def _config_of(pod: Object) -> str:
    """The path after --config; "" without one."""
    words = words_of(_scheduling(pod) or {})
    for word, following in zip(words, [*words[1:], ""], strict=True):
        flag, is_joined, value = word.partition("=")
        if flag in ("--config", "-config"):
            return value if is_joined else following
    return ""


def _of_configured(picture: ClusterPicture, name: str, pod: Object) -> Seen:
    """Judge a scheduler with a configuration; the API shows its content only if it is in a ConfigMap."""
    path = PurePosixPath(_config_of(pod))
    container = _scheduling(pod) or {}
    mounts = {mount["mountPath"].rstrip("/"): mount["name"] for mount in container.get("volumeMounts") or ()}
    found = next((mounts[str(folder)] for folder in (path, *path.parents) if str(folder) in mounts), None)
    if found is None:
        return wrong(f"pod {name}", f"--config={path} is not mounted into it", f"mount it: {_STEP}")
    volume: Object = next((one for one in pod["spec"].get("volumes") or () if one["name"] == found), {})
    config_map = (volume.get("configMap") or {}).get("name", "")
    content = _content(picture, pod["metadata"].get("namespace", ""), config_map)
    if not content:
        return ok(f"pod {name}", f"--config={path} is mounted; whether it names the extender cannot be seen by the API")
    if spec.RESOURCE_MEMORY in content:
        return ok(
            f"pod {name}", f"--config={path} names an extender for {spec.RESOURCE_MEMORY}, in ConfigMap {config_map}"
        )
    text = f"--config={path}, of ConfigMap {config_map}, names no extender for {spec.RESOURCE_MEMORY}"
    return wrong(f"pod {name}", text, "take over the extenders of base/scheduler-config.yaml")


def _content(picture: ClusterPicture, namespace: str, config_map: str) -> str:
    """All of a ConfigMap as text; "" if there is none that the account may see."""
    try:
        maps = picture.all(CONFIG_MAPS)
    except UnseenError:
        return ""
    wanted = f"{namespace}/{config_map}"
    return "\n".join(text for one in maps if name_of(one) == wanted for text in (one.get("data") or {}).values())


def _node_port_conflicts(picture: ClusterPicture) -> Iterator[Seen]:
    port = default_ports.NODE_PORT
    for name, is_ours, node_ports in picture.services():
        if port in node_ports and not is_ours:
            todo = "keep clusters/deploy/base, which needs no node port, or change the port of the other Service"
            yield wrong(f"service {name}", f"it has node port {port}, which overlays/nodeport asks for", todo)


def _host_port_conflicts(picture: ClusterPicture) -> Iterator[Seen]:
    wanted: dict[str, dict[int, str]] = {}
    for node in picture.all(NODES):
        of_control_plane = default_ports.CONTROL_PLANE if is_control_plane(node) else {}
        wanted[node["metadata"]["name"]] = {**of_control_plane, **(default_ports.SHARING if is_labelled(node) else {})}
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


PROGRAM_RULES: Final[Mapping[str, Rule[ClusterPicture]]] = {
    "extender": extender,
    "extender service": extender_service,
    "scheduler": scheduler,
    "ports": ports,
}
