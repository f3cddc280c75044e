"""A token of a ServiceAccount, as a program in a pod would have it."""

from __future__ import annotations

from typing import Final

from clusters.api_client import ApiClient

# Nobody renews the token of a program of a test run, and after an hour, which is usual, it would be nobody: a year.
_TOKEN_SECONDS: Final = 365 * 86400


async def service_account_token(api: ApiClient, namespace: str, account: str) -> str:
    """Ask for one. Raises ApiError where there is no such account."""
    where = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    lifetime = {"expirationSeconds": _TOKEN_SECONDS}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": lifetime}
    answer = await api.request("POST", where, body=request)
    return str(answer["status"]["token"])
