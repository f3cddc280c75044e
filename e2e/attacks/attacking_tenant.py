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
# The words of an admission policy's refusal.
_POLICY: Final = "ValidatingAdmissionPolicy"


class Tenant:
    """Acts with a token of its own, and forges annotations of our programs.

    ``accepted`` counts the forgeries that the API server took, ``refused`` those that an admission policy refused. The
    administrator is exempt and repeats a refused one, so that the attack goes on.
    """

    def __init__(self, observer: Observer, api: ApiClient) -> None:
        self.observer = observer
        self.pods = PODS.path(observer.namespace)
        self.accepted = 0
        self.refused = 0
        self._api = api

    def is_write_to_own(self, call: Call) -> bool:
        """Whether a call of a program writes into this tenant's namespace."""
        return call.method != "GET" and f"/namespaces/{self.observer.namespace}/" in call.path

    async def create(self, pod: Object) -> None:
        """Create a pod."""
        await self._api.request("POST", self.pods, body=pod)

    async def create_forged(self, pod: Object) -> None:
        """Create a pod with a forged annotation."""
        await self._forge("POST", self.pods, pod, "application/json")

    async def annotate_forged(self, name: str, annotations: Mapping[str, str | None]) -> None:
        """Change our programs' annotations of a pod; None removes one."""
        await self._forge("PATCH", f"{self.pods}/{name}", {"metadata": {"annotations": annotations}}, MERGE_PATCH)

    async def _forge(self, method: str, path: str, body: Object, content_type: str) -> None:
        try:
            await self._api.request(method, path, body=body, content_type=content_type)
            self.accepted += 1
        except ApiError as error:
            if _POLICY not in error.message:
                raise
            self.refused += 1
            await self.observer.cluster.api.request(method, path, body=body, content_type=content_type)


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
