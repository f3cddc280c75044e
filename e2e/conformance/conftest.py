"""The admission policies of the base, a tenant that they judge, and requests that they should accept or refuse, as data.

The tenant is an account with all rights on the pods of one namespace.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

import pytest
import pytest_asyncio
import yaml

from clusters.api.api_client import STRATEGIC_MERGE_PATCH, ApiClient, ApiError
from clusters.api.resources import NAMESPACES
from clusters.api.waiting import eventually
from clusters.deploy.render import BASE
from clusters.provider import Cluster
from e2e.builders import plain_container
from e2e.tenant import AUTHOR, Tenant, granted

_NAMESPACE: Final = "policies"
_POLICIES: Final = "/apis/admissionregistration.k8s.io/v1/"
_PLURALS: Final = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
# A tenant that may write workloads has these rights in a namespace, and some have the subresources.
_RIGHTS: Final = [
    {
        "apiGroups": [""],
        "resources": ["pods", "pods/status", "pods/ephemeralcontainers", "pods/binding"],
        "verbs": ["*"],
    }
]
_LOG = logging.getLogger(__name__)

# A refusal names its policy before the reason.
_REFUSAL: Final = re.compile(r"^.* denied request: ", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request, sent as a dry run; words in braces of ``path`` are filled in when it is sent.

    ``reason`` is what the refusal must say, as a regular expression; "" for a request that must be accepted.
    """

    name: str
    method: str
    path: str
    body: Any
    reason: str = ""

    async def send(self, api: ApiClient, **places: str) -> str:
        """The reason of the refusal by an admission policy; "" if the request was accepted. Raises ApiError for another refusal."""
        content_type = STRATEGIC_MERGE_PATCH if self.method == "PATCH" else "application/json"
        try:
            await api.request(
                self.method,
                self.path.format(**places),
                body=self.body,
                params={"dryRun": "All"},
                content_type=content_type,
            )
        except ApiError as error:
            if "ValidatingAdmissionPolicy" not in error.message:
                raise
            return _REFUSAL.sub("", error.message)
        return ""

    async def check(self, api: ApiClient, **places: str) -> None:
        """Send it, log the answer, and compare it with what it must be."""
        answer = await self.send(api, **places)
        _LOG.info("%s: %s", self.name, answer or "accepted")
        if self.reason:
            assert re.search(self.reason, answer), f"{self.name}: {answer or 'accepted'}"
        else:
            assert answer == "", f"{self.name}: refused, {answer}"


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def tenant(cluster: Cluster) -> AsyncIterator[Tenant]:
    """A namespace of its own, judged by the policies of the base, which are removed afterwards unless they were there."""
    await cluster.api.ensure_namespace(_NAMESPACE)
    async with granted(cluster.api, _NAMESPACE, AUTHOR, _RIGHTS):
        installed = await _install(cluster.api)
        try:
            async with ApiClient.from_kubeconfig(await cluster.kubeconfig_of(f"{_NAMESPACE}/{AUTHOR}")) as api:
                await eventually(lambda: _probe(api), bool, "the policies act")
                yield Tenant(_NAMESPACE, api)
        finally:
            for path in installed:
                await cluster.api.request("DELETE", path)
    await cluster.api.delete(NAMESPACES, _NAMESPACE)


async def _install(api: ApiClient) -> list[str]:
    """Create what is not there of the policies, and then of their bindings; the paths of what was created."""
    items = [item for path in sorted(BASE.glob("*-policy.yaml")) for item in yaml.safe_load_all(path.read_text())]
    created = []
    # The last binding acts only once the API server has read all that was created before it.
    for item in sorted(items, key=lambda item: list(_PLURALS).index(item["kind"])):
        plural = _POLICIES + _PLURALS[item["kind"]]
        try:
            await api.request("POST", plural, body=item, params={"fieldValidation": "Strict"})
        except ApiError as error:
            if error.code == 404:
                pytest.skip("this API server has no ValidatingAdmissionPolicy")
            # The cluster began with them.
            if error.reason != "AlreadyExists":
                raise
        else:
            created.append(f"{plural}/{item['metadata']['name']}")
    return created[::-1]


async def _probe(author: ApiClient) -> str:
    """The refusal by the policy that is installed last; "" if it does not act yet."""
    container = {**plain_container("c"), "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": {"containers": [container]}}
    try:
        return await Attempt("probe", "POST", "/api/v1/namespaces/{namespace}/pods", pod).send(
            author, namespace=_NAMESPACE
        )
    except ApiError as error:
        # The right to create pods comes a moment after its Role, and the default ServiceAccount is made by a controller.
        if error.code not in (403, 404):
            raise
        return ""
