"""Asks an API server for all that the preflight judges, in the order in which to fix what is wrong.

It lists, and asks about rights; nothing is created or changed. ``machine_preflight`` looks at a machine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import yaml

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.connection import TransportError
from clusters.api.resources import (
    NAMESPACES,
    NODES,
    PODS,
    SERVICES,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    Resource,
)
from clusters.deploy.render import BASE
from e2e.report.verdict_table import PreflightLine
from e2e.site.kubeconfig_choice import version_of
from e2e.site.picture import Object
from e2e.site.preflight_lines import judged
from e2e.site.preflight_picture import MUTATING_WEBHOOKS, ClusterPicture, Right
from e2e.site.preflight_rules import RIGHTS, RULES

LISTED: Final = (
    NODES,
    PODS,
    SERVICES,
    NAMESPACES,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    MUTATING_WEBHOOKS,
)
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_NOT_FOUND: Final = 404


async def preflight(api: ApiClient) -> list[PreflightLine]:
    """Look at the cluster, and judge it. Raises SiteError."""
    return judge(await look(api))


def judge(picture: ClusterPicture) -> list[PreflightLine]:
    """All lines of the cluster. Pure."""
    return judged(RULES, picture, "cluster")


async def look(api: ApiClient) -> ClusterPicture:
    """The cluster at this moment. A part that the account may not see is left out with the reason. Raises SiteError."""
    version = await version_of(api)
    wanted = [right for of_one in RIGHTS.values() for right in of_one]
    listed = await asyncio.gather(*(_list(api, resource) for resource in LISTED))
    answers = await asyncio.gather(*(_may(api, right) for right in wanted))
    return ClusterPicture(
        datetime.now(UTC),
        version,
        dict(zip(LISTED, listed, strict=True)),
        dict(zip(wanted, answers, strict=True)),
        _policies(),
    )


async def _list(api: ApiClient, resource: Resource) -> Sequence[Object] | str:
    """The objects of a kind, none if the API server does not know the kind; or why they are not to be seen."""
    try:
        return await api.list(resource)
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
