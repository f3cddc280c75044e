"""The binding subresource: one write puts a pod on its node, with the annotations and labels of the Binding. Pure.

Rules: Kubernetes ``registry/core/pod/storage``; annotations and labels of the Binding win, the node need not exist.
"""

from __future__ import annotations

from clusters.api.resources import PODS
from clusters.embedded.apiserver.api_objects import Object, is_deleting
from clusters.embedded.apiserver.field_rules import required, unsupported
from clusters.embedded.apiserver.refusals import RefusalError, bad_request, conflict
from clusters.embedded.apiserver.update_rules import other_object


def bound(pod: Object, binding: Object, now: str) -> Object:
    """The pod on the node that the Binding names; ``now`` is RFC 3339. Raises RefusalError (409, 500)."""
    _check(pod, binding)
    metadata = dict(pod["metadata"])
    for part in ("annotations", "labels"):
        added = binding["metadata"].get(part) or {}
        if added:
            metadata[part] = {**metadata.get(part, {}), **added}
    spec = {**pod["spec"], "nodeName": binding["target"]["name"]}
    status = {key: value for key, value in (pod.get("status") or {}).items() if key != "nominatedNodeName"}
    status["conditions"] = _scheduled(status.get("conditions", []), now)
    return {**pod, "metadata": metadata, "spec": spec, "status": status}


def check_kind(body: Object) -> None:
    """Refuse (400) a body of another kind than a Binding."""
    kind, version = body.get("kind") or "Binding", body.get("apiVersion") or "v1"
    if (kind, version) != ("Binding", "v1"):
        raise bad_request(
            f'{kind} in version "{version.rpartition("/")[2]}" cannot be handled as a Binding: it is another kind'
        )


def check_target(binding: Object) -> None:
    """Refuse (500, as released servers do: kubernetes issue 139488) a target that is no node."""
    target, errors = binding.get("target", {}), []
    if target.get("kind", "") not in ("", "Node"):
        errors.append(unsupported("target.kind", target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        errors.append(required("target.name"))
    texts = [f"{error.field}: {error.message}" for error in errors]
    if texts:
        raise RefusalError(500, "", texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


def _check(pod: Object, binding: Object) -> None:
    metadata, wanted = pod["metadata"], binding["metadata"]
    name = metadata["name"]
    uid = wanted.get("uid")
    if uid and uid != metadata["uid"]:
        raise other_object(PODS, metadata, "UID", uid, metadata["uid"])
    version = wanted.get("resourceVersion", "")
    if version and version != metadata["resourceVersion"]:
        raise other_object(PODS, metadata, "ResourceVersion", version, metadata["resourceVersion"])
    if is_deleting(pod):
        raise conflict(PODS, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        raise conflict(PODS, name, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
    if pod["spec"].get("schedulingGates"):
        raise conflict(PODS, name, f"pod {name} has non-empty .spec.schedulingGates")


def _scheduled(conditions: list[Object], now: str) -> list[Object]:
    condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    places = [at for at, each in enumerate(conditions) if each.get("type") == "PodScheduled"]
    if not places:
        return [*conditions, condition]
    if conditions[places[0]].get("status") == "True":
        condition["lastTransitionTime"] = conditions[places[0]].get("lastTransitionTime", now)
    return [condition if at == places[0] else each for at, each in enumerate(conditions)]
