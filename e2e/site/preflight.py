"""The preflight of a cluster, before an installation or a validation, in the order in which to fix what is wrong.

``look`` lists, and asks about rights; nothing is created or changed. The rules are pure: each is one function, and its lines have
the name in RULES. The programs of an installation, their nodes and cards are what ``gpushare-setup check`` and ``kubectl gpushare
doctor`` judge, and no rule here repeats that. ``machine_preflight`` looks at a machine.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Final, NamedTuple

import yaml

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.connection import TransportError
from clusters.api.resources import (
    NAMESPACES,
    NODES,
    PODS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
    Resource,
)
from clusters.deploy.render import BASE
from e2e.report.verdict_table import PreflightLine
from e2e.site.invariants import other_resources
from e2e.site.kubeconfig_choice import version_of
from e2e.site.picture import KUBE_SYSTEM, Object, Picture, labels_of, name_of
from e2e.site.preflight_lines import Rule, UnseenError, judged, ok, seen_by, unknown, wrong

_RIGHTS_FILE: Final = "bind the account to the role in e2e/site/preflight-rbac.yaml"
# The kube-scheduler of older minors does not read base/scheduler-config.yaml.
_OLDEST: Final = 25
# The first minor that has ValidatingAdmissionPolicies.
_POLICIES_SINCE: Final = 30
_ENFORCE: Final = "pod-security.kubernetes.io/enforce"
_OTHER_PROGRAMS: Final = (
    *("nvidia-device-plugin", "nvidia/k8s-device-plugin", "nvidia-dra-driver-gpu", "k8s-dra-driver-gpu"),
    *("hami-device-plugin", "projecthami/", "volcano-device-plugin", "volcano-vgpu-device-plugin", "gpu-manager"),
)
LISTED: Final = (NAMESPACES, NODES, PODS, VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS)
_VALIDATION: Final = Path(__file__).parents[1] / "onsite" / "validate-rbac.yaml"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_NOT_FOUND: Final = 404


class Right(NamedTuple):
    """One thing that an account may be allowed to do, in ``namespace`` or in all, with any object or the one of that name."""

    verb: str
    resource: str
    group: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @property
    def subject(self) -> str:
        """As ``pods/log``, ``namespaces gpushare-validation`` or ``pods of all namespaces``."""
        what = "/".join(filter(None, (self.resource, self.subresource)))
        where = "of all namespaces" if self.resource == "pods" and not self.namespace else ""
        return " ".join(filter(None, (what, self.name, where)))


@dataclass(frozen=True)
class ClusterPicture:
    """Objects by kind, or the reason why they cannot be listed; ``rights`` likewise."""

    version: str
    listed: Mapping[Resource, Sequence[Object] | str]
    rights: Mapping[Right, bool | str]
    policies: frozenset[str] = frozenset()
    """Names of the admission policies that clusters/deploy/base installs."""

    def all(self, resource: Resource) -> Sequence[Object]:
        """All objects of the kind that were asked for. Raises UnseenError."""
        found = self.listed.get(resource, "they were not asked for")
        if isinstance(found, str):
            raise UnseenError(f"{resource.plural} cannot be listed: {found}", _RIGHTS_FILE)
        return found

    @cached_property
    def sharing(self) -> Picture:
        """As ``observe`` sees it. Raises UnseenError without nodes; pods that cannot be listed are not there."""
        pods = self.listed.get(PODS, ())
        return Picture(self.all(NODES), () if isinstance(pods, str) else pods)


def api_server(picture: ClusterPicture) -> Iterator[PreflightLine]:
    """The API server is of a version that gpushare supports."""
    found = re.match(r"v?1\.(\d+)", picture.version)
    if not found:
        text = f"it has version {picture.version or 'none'}, which cannot be read"
        yield unknown("cluster", text, f"compare it with 1.{_OLDEST}, the oldest that is supported")
    elif int(found[1]) < _OLDEST:
        todo = f"update Kubernetes: its kube-scheduler reads the configuration from 1.{_OLDEST} on"
        yield wrong("cluster", f"Kubernetes {picture.version} is too old", todo)
    else:
        yield ok("cluster", f"Kubernetes {picture.version}")


def rights(picture: ClusterPicture) -> Iterator[PreflightLine]:
    """The account may do what a validation does."""
    by_subject: dict[str, dict[str, bool | str]] = defaultdict(dict)
    for right, answer in picture.rights.items():
        by_subject[right.subject][right.verb] = answer
    for name, answers in by_subject.items():
        unclear = sorted({answer for answer in answers.values() if isinstance(answer, str)})
        if denied := [verb for verb, answer in answers.items() if answer is False]:
            todo = "a validation needs it: use another account, or kubectl apply -f e2e/onsite/validate-rbac.yaml"
            yield wrong(name, f"the account may not {', '.join(denied)}", todo)
        elif unclear:
            text = f"the API server does not answer: {'; '.join(unclear)}"
            yield unknown(name, text, "try kubectl auth can-i --list")
        else:
            yield ok(name, f"the account may {', '.join(answers)}")


def policies(picture: ClusterPicture) -> Iterator[PreflightLine]:
    """The admission policies of gpushare are there, each with its binding."""
    there = {one["metadata"]["name"] for one in picture.all(VALIDATING_ADMISSION_POLICIES)} & picture.policies
    bound = {one["spec"]["policyName"] for one in picture.all(VALIDATING_ADMISSION_POLICY_BINDINGS)}
    missing, unbound = sorted(picture.policies - there), sorted(there - bound)
    if not there:
        text = "none is there: pods may be given cards by annotations and variables that a person writes"
        todo = f"install clusters/deploy/base; before Kubernetes 1.{_POLICIES_SINCE} see what SECURITY.md says of it"
        yield unknown("cluster", text, todo)
    elif missing or unbound:
        parts = {"missing": missing, "without a binding": unbound}
        text = "; ".join(f"{', '.join(names)} {what}" for what, names in parts.items() if names)
        yield wrong("cluster", text, "apply clusters/deploy/base again")
    else:
        yield ok("cluster", f"all {len(there)} are there, each with its binding")


def pod_security(picture: ClusterPicture) -> Iterator[PreflightLine]:
    """kube-system takes pods with the host's network and folders."""
    found = (one for one in picture.all(NAMESPACES) if one["metadata"]["name"] == KUBE_SYSTEM)
    level = next((labels_of(one).get(_ENFORCE, "") for one in found), "")
    if level in ("", "privileged"):
        text = f"it enforces {level}" if level else "it has no label; a default of the API server cannot be seen"
        yield ok(f"namespace {KUBE_SYSTEM}", text)
    else:
        todo = f"kubectl label --overwrite namespace {KUBE_SYSTEM} {_ENFORCE}=privileged"
        yield wrong(f"namespace {KUBE_SYSTEM}", f"it enforces {level}: the programs' pods are refused", todo)


def other_plugins(picture: ClusterPicture) -> Iterator[PreflightLine]:
    """No other plugin gives out the same cards."""
    pods = picture.all(PODS)
    for name, node in picture.sharing.sharing_nodes.items():
        there = [pod for pod in pods if pod["spec"].get("nodeName") == name]
        yield from seen_by(_other_plugins, (node, there), f"node {name}")


def _other_plugins(of_node: tuple[Object, Sequence[Object]]) -> Iterator[PreflightLine]:
    node, pods = of_node
    name, resources = node["metadata"]["name"], other_resources(node)
    here = [name_of(pod) for pod in pods if _is_other(pod)]
    if resources or here:
        seen = [f"it offers {', '.join(resources)}"] if resources else []
        seen += [f"{', '.join(here)} run on it"] if here else []
        text = f"{' and '.join(seen)}: pods of both plugins may get the same card"
        yield wrong(f"node {name}", text, "keep the other plugin off nodes with the label gpushare=true")
    else:
        yield ok(f"node {name}", "none is there")


def _is_other(pod: Object) -> bool:
    """Does it run, and is it of a plugin that hands out NVIDIA's cards in its own way?"""
    owners = (owner.get("name", "") for owner in pod["metadata"].get("ownerReferences") or ())
    images = (container.get("image", "") for container in pod["spec"]["containers"])
    is_over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not is_over and any(word in text for text in (*owners, *images) for word in _OTHER_PROGRAMS)


RULES: Final[Mapping[str, Rule[ClusterPicture]]] = {
    "API server": api_server,
    "rights": rights,
    "admission policies": policies,
    "pod security": pod_security,
    "other plugins": other_plugins,
}


async def preflight(api: ApiClient) -> list[PreflightLine]:
    """Look at the cluster, and judge it. Raises SiteError."""
    return judge(await look(api))


def judge(picture: ClusterPicture) -> list[PreflightLine]:
    """All lines of the cluster. Pure."""
    return judged(RULES, picture, "cluster")


async def look(api: ApiClient) -> ClusterPicture:
    """The cluster at this moment. A part that the account may not see is left out with the reason. Raises SiteError."""
    version = await version_of(api)
    wanted = rights_of_a_validation()
    listed = await asyncio.gather(*(_list(api, resource) for resource in LISTED))
    answers = await asyncio.gather(*(_may(api, right) for right in wanted))
    return ClusterPicture(
        version,
        dict(zip(LISTED, listed, strict=True)),
        dict(zip(wanted, answers, strict=True)),
        _policies(),
    )


def rights_of_a_validation() -> list[Right]:
    """All that the roles in its file allow."""
    found = []
    for manifest in yaml.safe_load_all(_VALIDATION.read_text()):
        namespace = manifest["metadata"].get("namespace", "")
        for rule in manifest.get("rules") or ():
            names = rule.get("resourceNames") or ("",)
            for group, resource, verb, name in product(rule["apiGroups"], rule["resources"], rule["verbs"], names):
                whole, _, part = resource.partition("/")
                found.append(Right(verb, whole, group, part, namespace, name))
    return found


async def _list(api: ApiClient, resource: Resource) -> Sequence[Object] | str:
    """The objects of a kind, none if the API server does not know the kind; or why they are not to be seen."""
    try:
        return await api.list(resource)
    except (ApiError, TransportError) as error:
        return () if isinstance(error, ApiError) and error.code == _NOT_FOUND else _text(error)


async def _may(api: ApiClient, right: Right) -> bool | str:
    """May the account do it? The API server answers, and keeps nothing of the question."""
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": right._asdict()},
    }
    try:
        return bool((await api.request("POST", _REVIEWS, body=body))["status"].get("allowed"))
    except (ApiError, TransportError) as error:
        return _text(error)


def _text(error: ApiError | TransportError) -> str:
    return error.message if isinstance(error, ApiError) else str(error)


def _policies() -> frozenset[str]:
    """The names of the policies that base installs."""
    manifests = (one for path in BASE.glob("*-policy.yaml") for one in yaml.safe_load_all(path.read_text()))
    return frozenset(one["metadata"]["name"] for one in manifests if one["kind"] == VALIDATING_ADMISSION_POLICIES.kind)
