"""A token of a ServiceAccount, as a program in a pod would have it."""

from __future__ import annotations

from typing import Final

from clusters.api.api_client import ApiClient
from clusters.api.resources import SERVICE_ACCOUNTS

# No program renews its token during a test run, so the token must outlive the run: a year instead of the usual hour.
_TOKEN_SECONDS: Final = 365 * 86400


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
