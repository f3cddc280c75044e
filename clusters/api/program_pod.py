"""The pod of a program on a node, and its token: bound to that pod, so that admission policies know the program's node.

A real cluster has such a pod from a DaemonSet. Where a program runs as a process of this machine, a pod is created that stands
for it: it has the ServiceAccount and the node, asks for nothing, tolerates all taints, and holds no card.
"""

from __future__ import annotations

from typing import Final

from clusters.api.api_client import ApiClient, Object
from clusters.api.resources import PODS, SERVICE_ACCOUNTS

# Tells a drain that the pod is a DaemonSet's in all but its owner: an owner that does not exist would have it deleted.
STANDS_FOR: Final = "stands-for-the-pod-of"
# The kubelet of a simulated machine runs an unknown image until the pod is deleted; real nodes have this one already.
_IMAGE: Final = "registry.k8s.io/pause:3.10"
_ENDED: Final = ("Succeeded", "Failed")
# No program renews its token during a test run, so the token must outlive the run: a year instead of the usual hour.
_TOKEN_SECONDS: Final = 365 * 86400


async def find(api: ApiClient, account: str, node: str) -> str:
    """The name of a pod on ``node`` with the ServiceAccount ``account`` (``namespace/name``); "" if there is none."""
    namespace, _, name = account.partition("/")
    pods = await api.list(PODS, namespace, field_selector=f"spec.nodeName={node}")
    return next((str(pod["metadata"]["name"]) for pod in pods if _runs_as(pod, name)), "")


async def ensure(api: ApiClient, account: str, node: str) -> str:
    """The name of such a pod, which is created if there is none. Raises ApiError."""
    found = await find(api, account, node)
    if found:
        return found
    namespace, _, name = account.partition("/")
    manifest = {
        "apiVersion": "v1",
        "kind": PODS.kind,
        "metadata": {"generateName": f"{name}-ds-", "labels": {STANDS_FOR: name}},
        "spec": {
            "serviceAccountName": name,
            "nodeName": node,
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
            # Without a request the scheduler would count a tenth of a processor when it compares nodes.
            "containers": [
                {"name": "program", "image": _IMAGE, "resources": {"requests": {"cpu": "0", "memory": "0"}}}
            ],
        },
    }
    created = await api.create(manifest, namespace)
    return str(created["metadata"]["name"])


async def service_account_token(api: ApiClient, namespace: str, account: str, pod: str = "") -> str:
    """Request a token. Raises ApiError if there is no such account, or no such ``pod`` of it.

    With ``pod``, the token is bound to that pod of the same namespace: it is valid as long as the pod exists, and the API
    server adds the names of the pod and of its node to the user's extra fields, as for the token that a kubelet mounts.
    """
    spec = {"expirationSeconds": _TOKEN_SECONDS}
    bound = {"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": pod}} if pod else {}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {**spec, **bound}}
    answer = await api.request("POST", SERVICE_ACCOUNTS.path(namespace, account, "token"), body=request)
    return str(answer["status"]["token"])


def _runs_as(pod: Object, account: str) -> bool:
    is_going = "deletionTimestamp" in pod["metadata"] or (pod.get("status") or {}).get("phase") in _ENDED
    return pod["spec"].get("serviceAccountName") == account and not is_going
