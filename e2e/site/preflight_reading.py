"""Asks an API server for all that the preflight judges. It lists, and asks about rights; nothing is created or changed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import yaml

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.connection import TransportError
from clusters.api.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    NODES,
    PODS,
    SERVICES,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    Resource,
)
from clusters.deploy.render import BASE
from e2e.site.picture import Object
from e2e.site.preflight import judge
from e2e.site.preflight_admission import RIGHTS
from e2e.site.preflight_picture import KUBE_SYSTEM, MUTATING_WEBHOOKS, ClusterPicture, Right
from e2e.site.site_error import SiteError
from e2e.site.site_report import PreflightLine

# By kind, the one namespace of which it is listed; "" for all.
_LISTED: Final[dict[Resource, str]] = {
    NODES: "",
    PODS: "",
    DEPLOYMENTS: "",
    SERVICES: "",
    NAMESPACES: "",
    CONFIG_MAPS: KUBE_SYSTEM,
    VALIDATING_ADMISSION_POLICIES: "",
    VALIDATING_ADMISSION_POLICY_BINDINGS: "",
    MUTATING_WEBHOOKS: "",
}
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_NOT_FOUND: Final = 404
# Against an API server that does not answer, in seconds.
_PATIENCE: Final = 30.0


async def preflight(api: ApiClient) -> list[PreflightLine]:
    """Look at the cluster, and judge it. Raises SiteError."""
    return judge(await look(api))


async def look(api: ApiClient) -> ClusterPicture:
    """The cluster at this moment. A part that the account may not see is left out with the reason. Raises SiteError."""
    try:
        async with asyncio.timeout(_PATIENCE):
            version = str((await api.request("GET", "/version"))["gitVersion"])
    except (ApiError, TransportError, TimeoutError) as error:
        raise SiteError(f"the API server at {api.http.url} does not answer: {str(error) or 'timeout'}") from error
    wanted = [right for of_one in RIGHTS.values() for right in of_one]
    listed = await asyncio.gather(*(_list(api, resource, namespace) for resource, namespace in _LISTED.items()))
    answers = await asyncio.gather(*(_may(api, right) for right in wanted))
    return ClusterPicture(
        datetime.now(UTC),
        version,
        dict(zip(_LISTED, listed, strict=True)),
        dict(zip(wanted, answers, strict=True)),
        _policies(),
    )


async def _list(api: ApiClient, resource: Resource, namespace: str) -> Sequence[Object] | str:
    """The objects of a kind, none if the API server does not know the kind; or why they are not to be seen."""
    try:
        return await api.list(resource, namespace or None)
    except ApiError as error:
        return () if error.code == _NOT_FOUND else error.message
    except TransportError as error:
        return str(error)


async def _may(api: ApiClient, right: Right) -> bool | str:
    """May the account do it? The API server answers, and keeps nothing of the question."""
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": right._asdict()},
    }
    try:
        return bool((await api.request("POST", _REVIEWS, body=body))["status"].get("allowed"))
    except ApiError as error:
        return error.message
    except TransportError as error:
        return str(error)


def _policies() -> frozenset[str]:
    """The names of the policies that base installs."""
    manifests = (one for path in BASE.glob("*-policy.yaml") for one in yaml.safe_load_all(path.read_text()))
    return frozenset(one["metadata"]["name"] for one in manifests if one["kind"] == VALIDATING_ADMISSION_POLICIES.kind)
