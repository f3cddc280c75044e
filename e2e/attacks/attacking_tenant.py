"""A tenant: a ServiceAccount that may do anything with the pods of its own namespace, and nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Final

from clusters.api.api_client import MERGE_PATCH, ApiClient, ApiError, Object
from clusters.api.resources import PODS
from clusters.api.waiting import eventually
from e2e.attacks.api_proxy import Call
from e2e.attacks.attacked_cluster import AttackedCluster
from e2e.observer import Observer
from e2e.tenant import granted

_ACCOUNT: Final = "tenant"
_RIGHTS: Final = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}]


class Tenant:
    """Acts with a token of its own, and forges annotations of our programs.

    Admission policies refuse these (e2e/conformance/test_author_policies.py). The administrator is exempt and writes them, so that
    the attack goes on as on a cluster without policies.
    """

    def __init__(self, observer: Observer, api: ApiClient) -> None:
        self.observer = observer
        self.pods = PODS.path(observer.namespace)
        self._api = api

    def is_write_to_own(self, call: Call) -> bool:
        """Whether a call of a program writes into this tenant's namespace."""
        return call.method != "GET" and f"/namespaces/{self.observer.namespace}/" in call.path

    async def create(self, pod: Object) -> None:
        """Create a pod."""
        await self._api.request("POST", self.pods, body=pod)

    async def create_forged(self, pod: Object) -> None:
        """Create a pod with a forged annotation."""
        await self.observer.cluster.api.request("POST", self.pods, body=pod)

    async def annotate_forged(self, name: str, annotations: Mapping[str, str | None]) -> None:
        """Change our programs' annotations of a pod; None removes one."""
        patch = {"metadata": {"annotations": annotations}}
        await self.observer.cluster.api.patch(PODS, name, patch, self.observer.namespace, content_type=MERGE_PATCH)


@contextlib.asynccontextmanager
async def open_tenant(stage: AttackedCluster) -> AsyncIterator[Tenant]:
    """A tenant with a namespace and a token of its own."""
    async with stage.namespace("attacker") as observer:
        # The name is in the name of a file.
        account = f"{_ACCOUNT}-{observer.namespace}"
        async with (
            granted(stage.cluster.api, observer.namespace, account, _RIGHTS),
            ApiClient.from_kubeconfig(await stage.cluster.kubeconfig_of(f"{observer.namespace}/{account}")) as api,
        ):

            async def may_list() -> bool:
                try:
                    await api.list(PODS, observer.namespace)
                except ApiError as error:
                    if error.code not in (401, 403):
                        raise
                    return False
                return True

            await eventually(may_list, bool, "the tenant has its rights")
            yield Tenant(observer, api)
