"""How tests read the manifests: each site, its workloads, and what the programs make of their containers."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import yaml

from clusters.deploy.render import BASE, FOLDER, OVERLAY_KIND, OVERLAY_NODEPORT, containers_of, render
from gpushare.cli.settings import DevicePluginSettings, ExtenderSettings, device_plugin_settings, extender_settings

Object = dict[str, Any]
COMPONENTS = sorted(path.name for path in (FOLDER / "components").iterdir())
_ALONE = ("scheduler-name", "slots", "without-policies")
# The sites that can be installed: a folder, and components over it.
SITES: dict[str, tuple[Path, tuple[str, ...]]] = {
    "base": (BASE, ()),
    "nodeport": (OVERLAY_NODEPORT, ()),
    "kind": (OVERLAY_KIND, ()),
    "kind-slots": (OVERLAY_KIND, ("slots",)),
    **{f"base-{name}": (BASE, (name,)) for name in COMPONENTS},
    # All that go together.
    "all": (OVERLAY_NODEPORT, tuple(name for name in COMPONENTS if name not in _ALONE)),
}

_MONITORING = FOLDER / "components" / "monitoring"
RULES = yaml.safe_load((_MONITORING / "alerts.yaml").read_text())["spec"]
DASHBOARD = json.loads(yaml.safe_load((_MONITORING / "dashboard.yaml").read_text())["data"]["gpushare.json"])


# Forms of the whole for sites that base does not fit, and components over them.
OTHER_FORMS: dict[str, tuple[Path, tuple[str, ...]]] = {
    "single-node": (FOLDER / "overlays" / "single-node", ()),
    "kubeadm-old": (FOLDER / "overlays" / "kubeadm-old", ()),
    "second-scheduler": (FOLDER / "overlays" / "second-scheduler", ()),
    "second-scheduler-all": (
        FOLDER / "overlays" / "second-scheduler", ("metrics", "scheduler-name", "several-extenders")
    ),
    "openshift": (FOLDER / "overlays" / "openshift", ()),
}  # fmt: skip


_RENDERED: dict[str, list[Object]] = {}


async def rendered(kubectl: Path, site: str) -> list[Object]:
    """The objects of a site or another form, rendered once."""
    if site not in _RENDERED:
        folder, components = (SITES | OTHER_FORMS)[site]
        _RENDERED[site] = await render(kubectl, folder, components=components)
    return copy.deepcopy(_RENDERED[site])


def only(objects: list[Object], kind: str) -> Object:
    (found,) = [item for item in objects if item["kind"] == kind]
    return found


def pod_spec(workload: Object) -> Object:
    return dict(workload["spec"]["template"]["spec"])


def findings(spec: Object) -> set[str]:
    """The fields of a pod that the "restricted" Pod Security level would refuse."""
    found = {name for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)}
    found |= {"hostPath" for volume in spec.get("volumes", []) if "hostPath" in volume}
    pod = spec.get("securityContext", {})
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        own = {**pod, **container.get("securityContext", {})}
        found |= {"hostPort" for port in container.get("ports", []) if spec.get("hostNetwork") or "hostPort" in port}
        found |= {"privileged"} if own.get("privileged") else set()
        found |= {"allowPrivilegeEscalation"} if own.get("allowPrivilegeEscalation") is not False else set()
        found |= {"capabilities"} if own.get("capabilities") != {"drop": ["ALL"]} else set()
        found |= {"seccompProfile"} if own.get("seccompProfile", {}).get("type") != "RuntimeDefault" else set()
        found |= {"runAsRoot"} if not own.get("runAsNonRoot") or own.get("runAsUser") == 0 else set()
        # That level does not ask for these two; we do.
        found |= {"writableRoot"} if own.get("readOnlyRootFilesystem") is not True else set()
        found |= {"noLimit"} if "memory" not in container.get("resources", {}).get("limits", {}) else set()
    return found


# The address of the node on which tests read the manifests.
HOST_IP = "192.0.2.7"


def environment(container: Object, node: str = "n1") -> dict[str, str]:
    """Its variables as the kubelet fills them in on a node."""
    fields = {"spec.nodeName": node, "status.hostIP": HOST_IP, "status.podIP": HOST_IP}
    return {
        item["name"]: item["value"] if "value" in item else fields[item["valueFrom"]["fieldRef"]["fieldPath"]]
        for item in container.get("env", [])
    }


def extender_of(objects: list[Object]) -> tuple[Object, ExtenderSettings]:
    """Its container, and what the program makes of flags and environment."""
    (container,) = containers_of(only(objects, "Deployment"))
    variables = environment(container)
    return container, extender_settings(_arguments(container, variables), variables)


def plugin_of(objects: list[Object]) -> tuple[Object, DevicePluginSettings]:
    """Its container, and what the program makes of flags and environment."""
    (container,) = containers_of(only(objects, "DaemonSet"))
    variables = environment(container)
    return container, device_plugin_settings(_arguments(container, variables), variables)


def _arguments(container: Object, variables: dict[str, str]) -> list[str]:
    """A kubelet replaces $(NAME) if the container has a variable of that name."""
    return [re.sub(r"\$\((\w+)\)", lambda name: variables[name[1]], word) for word in container["args"]]
