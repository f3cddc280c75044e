"""The reasons why a cluster does not come up, as far as its API shows them."""

from __future__ import annotations

from clusters.api.api_client import ApiClient, Object
from clusters.api.resources import EVENTS, PODS

_NAMESPACE = "kube-system"
# The last of each pod.
_EVENTS = 3


async def why_not(api: ApiClient) -> str:
    """A line for each pod of the system that does not run, with its last event."""
    pods = await api.list(PODS, _NAMESPACE)
    events = await api.list(EVENTS, _NAMESPACE)
    return "\n".join(line for pod in pods if not is_ready(pod) for line in _lines(pod, events)) or "all pods run"


def is_ready(pod: Object) -> bool:
    """Does the pod say so?"""
    conditions = pod["status"].get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def _lines(pod: Object, events: list[Object]) -> list[str]:
    name = pod["metadata"]["name"]
    states = [str(one["state"]) for one in pod["status"].get("containerStatuses") or []]
    said = [str(event["message"]) for event in events if event["involvedObject"].get("name") == name]
    where = pod["spec"].get("nodeName", "no node")
    return [
        f"  {name} on {where}: {pod['status'].get('phase')} {' '.join(states)}",
        *(f"    {one}" for one in said[-_EVENTS:]),
    ]
