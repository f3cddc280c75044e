"""The binding subresource: one write puts a pod on its node, with the annotations that the Binding carries. Pure.

Rules: Kubernetes ``registry/core/pod/storage``; annotations of the Binding win, the node need not exist.
"""

from __future__ import annotations

from clusters.embedded.apiserver.objects import Object, is_deleting
from clusters.embedded.apiserver.refusals import RefusalError, conflict, internal, modified
from clusters.resources import PODS


def bound(pod: Object, binding: Object, now: str) -> Object:
    """The pod on the node that the Binding names; ``now`` is RFC 3339. Raises RefusalError (409, 500)."""
    _check(pod, binding)
    metadata = dict(pod["metadata"])
    added = binding["metadata"].get("annotations") or {}
    if added:
        metadata["annotations"] = {**metadata.get("annotations", {}), **added}
    spec = {**pod["spec"], "nodeName": binding["target"]["name"]}
    status = {key: value for key, value in (pod.get("status") or {}).items() if key != "nominatedNodeName"}
    status["conditions"] = _scheduled(status.get("conditions", []), now)
    return {**pod, "metadata": metadata, "spec": spec, "status": status}


def _check(pod: Object, binding: Object) -> None:
    metadata, wanted = pod["metadata"], binding["metadata"]
    name = metadata["name"]
    uid = wanted.get("uid")
    if uid and uid != metadata["uid"]:
        raise _conflict(name, f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata['uid']}")
    if wanted.get("resourceVersion") not in (None, "", metadata["resourceVersion"]):
        raise modified(PODS, name)
    target = binding.get("target", {})
    if target.get("kind", "Node") not in ("", "Node") or not target.get("name"):
        # Released servers answer 500 here, kubernetes issue 139488.
        raise internal("invalid binding: target.kind must be empty or Node, target.name must not be empty")
    if is_deleting(pod):
        raise _conflict(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        raise _conflict(name, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
    if pod["spec"].get("schedulingGates"):
        raise _conflict(name, f"pod {name} has non-empty .spec.schedulingGates")


def _conflict(name: str, why: str) -> RefusalError:
    refusal = conflict(PODS, name, why)
    refusal.message = refusal.message.replace("pods ", "pods/binding ", 1)
    return refusal


def _scheduled(conditions: list[Object], now: str) -> list[Object]:
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}
    places = [at for at, each in enumerate(conditions) if each.get("type") == "PodScheduled"]
    if not places:
        return [*conditions, condition]
    if conditions[places[0]].get("status") == "True":
        condition["lastTransitionTime"] = conditions[places[0]].get("lastTransitionTime", now)
    return [condition if at == places[0] else each for at, each in enumerate(conditions)]
