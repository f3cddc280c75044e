"""Judges the API server, what it admits, and the rights of the account, before an installation or a validation. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from clusters.api.resources import VALIDATING_ADMISSION_POLICIES, VALIDATING_ADMISSION_POLICY_BINDINGS
from e2e.site.picture import Object, labels_of
from e2e.site.preflight_lines import Rule, Seen, ok, unknown, wrong
from e2e.site.preflight_picture import INSTALL, KUBE_SYSTEM, MUTATING_WEBHOOKS, ClusterPicture, Right
from e2e.site.validation_namespace import NAMESPACE as VALIDATION
from e2e.site.validation_namespace import PRIORITY_CLASS

# The kube-scheduler of older minors does not read base/scheduler-config.yaml.
_OLDEST: Final = 25
# The first minor that has ValidatingAdmissionPolicies.
_POLICIES_SINCE: Final = 30
_ENFORCE: Final = "pod-security.kubernetes.io/enforce"


def _rights(
    resource: str, *verbs: str, group: str = "", subresource: str = "", namespace: str = VALIDATION, name: str = ""
) -> tuple[Right, ...]:
    return tuple(Right(verb, resource, group, subresource, namespace, name) for verb in verbs)


# The things that a validation makes only if an administrator has not.
_MADE: Final = {"namespaces": f"namespace {VALIDATION}", "priorityclasses": f"PriorityClass {PRIORITY_CLASS}"}
# The requests of a validation, by the resource that a line names.
RIGHTS: Final[Mapping[str, tuple[Right, ...]]] = {
    "nodes": _rights("nodes", "get", "list", "watch", namespace=""),
    "pods of all namespaces": _rights("pods", "list", "watch", namespace=""),
    "pods": _rights("pods", "get", "create", "delete"),
    "pods/log": _rights("pods", "get", subresource="log"),
    "events": _rights("events", "list"),
    "leases": _rights("leases", "get", "create", "patch", "delete", group="coordination.k8s.io"),
    f"namespace {VALIDATION}": _rights("namespaces", "get", name=VALIDATION),
    f"PriorityClass {PRIORITY_CLASS}": _rights(
        "priorityclasses", "get", group="scheduling.k8s.io", namespace="", name=PRIORITY_CLASS
    ),
    "namespaces": _rights("namespaces", "create", "delete", namespace=""),
    "priorityclasses": _rights("priorityclasses", "create", "delete", group="scheduling.k8s.io", namespace=""),
}


def api_server(picture: ClusterPicture) -> Iterator[Seen]:
    """The API server is of a version that gpushare supports."""
    if not picture.minor:
        text = f"it has version {picture.version or 'none'}, which cannot be read"
        yield unknown("cluster", text, f"compare it with 1.{_OLDEST}, the oldest that is supported")
    elif picture.minor < _OLDEST:
        todo = f"update Kubernetes: its kube-scheduler reads the configuration from 1.{_OLDEST} on"
        yield wrong("cluster", f"Kubernetes {picture.version} is too old", todo)
    else:
        yield ok("cluster", f"Kubernetes {picture.version}")


def rights(picture: ClusterPicture) -> Iterator[Seen]:
    """The account may do what a validation does."""
    for name, wanted in RIGHTS.items():
        answers = {right: picture.rights.get(right, "it was not asked") for right in wanted}
        unclear = sorted({answer for answer in answers.values() if isinstance(answer, str)})
        denied = [right.verb for right, answer in answers.items() if answer is False]
        if denied and name in _MADE:
            text = f"the account may not {', '.join(denied)}, so {_MADE[name]} must be there"
            yield unknown(name, text, "kubectl apply -f e2e/onsite/validate-rbac.yaml")
        elif denied:
            todo = (
                "a validation needs it: use another account, or give this one the role of e2e/onsite/validate-rbac.yaml"
            )
            yield wrong(name, f"the account may not {', '.join(denied)}", todo)
        elif unclear:
            yield unknown(
                name, f"the API server does not answer: {'; '.join(unclear)}", "try kubectl auth can-i --list"
            )
        else:
            yield ok(name, f"the account may {', '.join(right.verb for right in wanted)}")


def policies(picture: ClusterPicture) -> Iterator[Seen]:
    """The admission policies of gpushare are there, each with its binding."""
    there = {one["metadata"]["name"] for one in picture.all(VALIDATING_ADMISSION_POLICIES)} & picture.policies
    bound = {one["spec"]["policyName"] for one in picture.all(VALIDATING_ADMISSION_POLICY_BINDINGS)}
    missing, unbound = sorted(picture.policies - there), sorted(there - bound)
    if not there and picture.minor < _POLICIES_SINCE:
        text = f"none is there, and API server {picture.version} has no such policies"
        yield unknown("cluster", text, "add components/without-policies; SECURITY.md has what is open then")
    elif not there and not picture.is_installed():
        yield unknown("cluster", "none is installed yet", INSTALL)
    elif not there:
        text = "none is there: pods may be given cards by annotations and variables that a person writes"
        yield unknown("cluster", text, "apply clusters/deploy/base without components/without-policies")
    elif missing or unbound:
        parts = {"missing": missing, "without a binding": unbound}
        text = "; ".join(f"{', '.join(names)} {what}" for what, names in parts.items() if names)
        yield wrong("cluster", text, "apply clusters/deploy/base again")
    else:
        yield ok("cluster", f"all {len(there)} are there, each with its binding")


def webhooks(picture: ClusterPicture) -> Iterator[Seen]:
    """No webhook changes pods on their creation."""
    found = [
        f"{configuration['metadata']['name']}/{webhook['name']}"
        for configuration in picture.all(MUTATING_WEBHOOKS)
        for webhook in configuration.get("webhooks") or ()
        if any(map(_changes_pods, webhook.get("rules") or ()))
    ]
    for name in found:
        todo = "see that it leaves resources, schedulerName, environment and annotations of pods that share cards as they are"
        yield unknown(f"webhook {name}", "it may change pods on their creation", todo)
    if not found:
        yield ok("cluster", "none changes pods")


def pod_security(picture: ClusterPicture) -> Iterator[Seen]:
    """kube-system takes pods with the host's network and folders."""
    level = labels_of(picture.namespace(KUBE_SYSTEM)).get(_ENFORCE, "")
    if level in ("", "privileged"):
        text = f"it enforces {level}" if level else "it has no label; a default of the API server cannot be seen"
        yield ok(f"namespace {KUBE_SYSTEM}", text)
    else:
        todo = f"kubectl label --overwrite namespace {KUBE_SYSTEM} {_ENFORCE}=privileged"
        yield wrong(f"namespace {KUBE_SYSTEM}", f"it enforces {level}: the programs' pods are refused", todo)


def _changes_pods(rule: Object) -> bool:
    groups, resources, operations = (rule.get(key) or () for key in ("apiGroups", "resources", "operations"))
    return (
        any(group in ("", "*") for group in groups)
        and any(resource in ("pods", "*", "*/*") for resource in resources)
        and any(operation in ("CREATE", "*") for operation in operations)
    )


ADMISSION_RULES: Final[Mapping[str, Rule[ClusterPicture]]] = {
    "API server": api_server,
    "rights": rights,
    "admission policies": policies,
    "webhooks": webhooks,
    "pod security": pod_security,
}
