"""The columns of nodes. Pure."""

from __future__ import annotations

from typing import Final

from clusters.embedded.apiserver.api_objects import Object, labels_of
from clusters.embedded.apiserver.tables.columns import AGE, NAME, NONE, UNKNOWN, WIDE, at, list_at, text, text_at

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE: Final = "kubernetes.io/role"


def _status(node: Object) -> str:
    ready = [one.get("status") == "True" for one in list_at(node, "status", "conditions") if one.get("type") == "Ready"]
    words = [("Ready" if ready[-1] else "NotReady") if ready else "Unknown"]
    return ",".join(words + (["SchedulingDisabled"] if at(node, "spec", "unschedulable") else []))


def _roles(node: Object) -> str:
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels_of(node) if key.startswith(_ROLE_PREFIX)}
    roles.add(labels_of(node).get(_ROLE, ""))
    return ",".join(sorted(roles - {""})) or NONE


def _address(node: Object, kind: str) -> str:
    found = [one.get("address") for one in list_at(node, "status", "addresses") if one.get("type") == kind]
    return str(found[0]) if found else NONE


def _info(node: Object, key: str) -> str:
    return text_at(node, "status", "nodeInfo", key)


def _kernel(node: Object) -> str:
    architecture = _info(node, "architecture")
    return (_info(node, "kernelVersion") or UNKNOWN) + (f" ({architecture})" if architecture else "")


COLUMNS: Final = (
    NAME,
    text("Status", "whether it is ready, and whether pods are sent there", _status),
    text("Roles", "what its labels say it is for", _roles),
    AGE,
    text("Version", "of its kubelet", lambda node: _info(node, "kubeletVersion")),
    text("Internal-IP", "its address inside the cluster", lambda node: _address(node, "InternalIP"), WIDE),
    text("External-IP", "its address outside", lambda node: _address(node, "ExternalIP"), WIDE),
    text("OS-Image", "its operating system", lambda node: _info(node, "osImage") or UNKNOWN, WIDE),
    text("Kernel-Version", "its kernel", _kernel, WIDE),
    text(
        "Container-Runtime", "what runs its pods", lambda node: _info(node, "containerRuntimeVersion") or UNKNOWN, WIDE
    ),
)
