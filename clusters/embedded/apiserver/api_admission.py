"""Changes and refusals of an object because of other objects: the admission plugins of the API server that are always on.

For pods, in the order of the real server: the ServiceAccount and its token, then the priority. Then, for any kind, what
mutating policies add.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from clusters.amounts import requests_of
from clusters.api.resources import (
    MUTATING_ADMISSION_POLICIES,
    MUTATING_ADMISSION_POLICY_BINDINGS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    SERVICE_ACCOUNTS,
    Resource,
)
from clusters.embedded.apiserver.api_objects import Object, canonical, metadata_of, name_of, parse
from clusters.embedded.apiserver.defaults import set_defaults
from clusters.embedded.apiserver.field_rules import not_allowed
from clusters.embedded.apiserver.policy_matching import CREATE, Admitted, Deed, mutated
from clusters.embedded.apiserver.refusals import FieldError, RefusalError, forbidden
from clusters.embedded.apiserver.store import Store

_REQUESTS: Final = "requests."
_COMPUTE: Final = ("cpu", "memory")
_ENDED: Final = ("Succeeded", "Failed")

Usage = dict[str, Fraction]


def usage_of(pods: Iterable[Object], names: Iterable[str]) -> Usage:
    """The use of the resources that a quota names, by pods; those that have ended use nothing."""
    used: Usage = {name: Fraction(0) for name in names}
    for pod in pods:
        if (pod.get("status") or {}).get("phase") not in _ENDED:
            for name in used:
                used[name] += _amount(pod, name)
    return used


def check(quota: Object, pods: Iterable[Object], pod: Object) -> None:
    """Refuse (403) a pod that names too few requests for a quota, or asks for more than it leaves."""
    hard: Usage = {name: parse(value) for name, value in hard_of(quota).items()}
    unsaid = [f"{name} for: {','.join(found)}" for name in sorted(hard) if (found := _silent(pod, name))]
    if unsaid:
        raise forbidden(PODS, name_of(pod), f"failed quota: {name_of(quota)}: must specify {'; '.join(unsaid)}")
    used, asked = usage_of(pods, hard), usage_of([pod], hard)
    over = [name for name in sorted(hard) if asked[name] and used[name] + asked[name] > hard[name]]
    if over:
        raise _exceeded(quota, pod, over, (asked, used, hard))


def hard_of(quota: Object) -> dict[str, str]:
    """The limits of a quota."""
    return (quota.get("spec") or {}).get("hard") or {}


def faults(quota: Object) -> list[FieldError]:
    """Names that are not counted here: a limit that does nothing must not look as if it held."""
    odd = [name for name in hard_of(quota) if not _is_counted(name)]
    return [not_allowed(f"spec.hard[{name}]", "the embedded cluster does not imitate it") for name in odd]


def written(used: Usage) -> dict[str, str]:
    """Amounts as the API writes them."""
    return {name: _text(value) for name, value in used.items()}


def _exceeded(quota: Object, pod: Object, names: list[str], shown: tuple[Usage, Usage, Usage]) -> RefusalError:
    asked, used, hard = (",".join(f"{name}={_text(amounts[name])}" for name in names) for amounts in shown)
    why = f"exceeded quota: {name_of(quota)}, requested: {asked}, used: {used}, limited: {hard}"
    return forbidden(PODS, name_of(pod), why)


def _is_counted(name: str) -> bool:
    return name == "pods" or name in _COMPUTE or name.startswith(_REQUESTS)


def _amount(pod: Object, name: str) -> Fraction:
    """The use of one pod; ``requests.cpu`` and ``cpu`` are the same."""
    if name == "pods":
        return Fraction(1)
    resource = name.removeprefix(_REQUESTS)
    amount = Fraction(requests_of(pod).get(resource, 0))
    return amount / 1000 if resource == "cpu" else amount


def _silent(pod: Object, name: str) -> list[str]:
    """Containers that do not say how much they need of cpu or memory."""
    resource = name.removeprefix(_REQUESTS)
    containers = [*pod["spec"].get("containers", []), *pod["spec"].get("initContainers", [])]
    return [
        str(each.get("name"))
        for each in containers
        if resource in _COMPUTE and resource not in ((each.get("resources") or {}).get("requests") or {})
    ]


def _text(value: Fraction) -> str:
    return canonical(f"{int(value * 1000)}m")


DEFAULT_ACCOUNT: Final = "default"
ROOT_CA: Final = "kube-root-ca.crt"
# Namespaces that cannot be deleted.
_IMMORTAL: Final = ("default", "kube-public", "kube-system")
_TOKEN_FOLDER: Final = "/var/run/secrets/kubernetes.io/serviceaccount"  # noqa: S105  # a folder
_TOKEN_VOLUME: Final = "kube-api-access-"  # noqa: S105  # a name
# The kubelet asks for this lifetime, and renews the token in time.
_TOKEN_SECONDS: Final = 3607
_NOT_READY: Final = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_MIRROR: Final = "kubernetes.io/config.mirror"
_PREEMPTS: Final = "PreemptLowerPriority"
# Letters of generated names: no vowels, so that they make no words.
LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"


class Admission:
    """Looks at objects on their way into the store. ``randomness`` is for the names of volumes."""

    def __init__(self, store: Store, randomness: random.Random) -> None:
        self._store = store
        self._randomness = randomness

    def create(self, resource: Resource, namespace: str, item: Object) -> None:
        """Complete an object that is being created, defaults in. Changes it. Raises RefusalError (403)."""
        if resource == NODES:
            _mark_not_ready(item)
        if resource == PODS:
            if _MIRROR not in (metadata_of(item).get("annotations") or {}):
                self._add_account(namespace, item)
            self._set_priority(item)
        self._mutate(resource, namespace, item)

    def check(self, resource: Resource, namespace: str, item: Object) -> None:
        """Refuse (403) a new object, complete and valid, for which there is no room."""
        if resource == PODS:
            quotas = [each.item for each in self._store.all(RESOURCE_QUOTAS, namespace)]
            pods = [each.item for each in self._store.all(PODS, namespace)] if quotas else []
            for one in quotas:
                check(one, pods, item)

    def delete(self, resource: Resource, name: str) -> None:
        """Refuse (403) to delete what must stay."""
        if resource == NAMESPACES and name in _IMMORTAL:
            raise forbidden(NAMESPACES, name, "this namespace may not be deleted")

    def _mutate(self, resource: Resource, namespace: str, item: Object) -> None:
        """As the policies say; the kinds of the policies themselves are not theirs to change."""
        policies = [each.item for each in self._store.all(MUTATING_ADMISSION_POLICIES)]
        if not policies or resource.api_version == MUTATING_ADMISSION_POLICIES.api_version:
            return
        bindings = [each.item for each in self._store.all(MUTATING_ADMISSION_POLICY_BINDINGS)]
        where = self._store.get(NAMESPACES, "", namespace) if namespace else None
        deed = Deed(CREATE, resource)
        creation = Admitted(deed, namespace, name_of(item), item, namespace_object=where.item if where else None)
        changed = mutated(creation, policies, bindings)
        if changed is not item:
            item.clear()
            item.update(changed)
            # The additions have defaults, too.
            set_defaults(resource, item)

    def _add_account(self, namespace: str, pod: Object) -> None:
        spec = pod["spec"]
        name = spec.get("serviceAccountName") or DEFAULT_ACCOUNT
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        stored = self._store.get(SERVICE_ACCOUNTS, namespace, name)
        if stored is None:
            why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
            raise forbidden(PODS, name_of(pod), why)
        account = stored.item
        if spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken", True)):
            self._mount_token(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = account["imagePullSecrets"]

    def _mount_token(self, spec: Object) -> None:
        names = [str(volume.get("name", "")) for volume in spec.get("volumes", [])]
        known = [each for each in names if each.startswith(_TOKEN_VOLUME)]
        name = known[0] if known else _TOKEN_VOLUME + "".join(self._randomness.choices(LETTERS, k=5))
        mount = {"name": name, "readOnly": True, "mountPath": _TOKEN_FOLDER}
        missing = [
            container
            for container in [*spec.get("initContainers", []), *spec.get("containers", [])]
            if all(each.get("mountPath") != _TOKEN_FOLDER for each in container.get("volumeMounts", []))
        ]
        for container in missing:
            container.setdefault("volumeMounts", []).append(dict(mount))
        if missing and not known:
            spec.setdefault("volumes", []).append({"name": name, "projected": _token_sources()})

    def _set_priority(self, pod: Object) -> None:
        spec = pod["spec"]
        found = self._priority_class(pod)
        value = found.get("value", 0)
        policy = found.get("preemptionPolicy", _PREEMPTS)
        if found:
            spec["priorityClassName"] = name_of(found)
        for key, kind, due in (
            ("priority", "integer value of priority", value),
            ("preemptionPolicy", "string value of PreemptionPolicy", policy),
        ):
            if spec.get(key, due) != due:
                text = f"the {kind} ({spec[key]}) must not be provided in pod spec; priority admission controller computed {due}"
                raise forbidden(PODS, name_of(pod), f"{text} from the given PriorityClass name")
        spec["priority"], spec["preemptionPolicy"] = value, policy

    def _priority_class(self, pod: Object) -> Object:
        """The class that the pod names, else the default one; empty if there is none."""
        name = pod["spec"].get("priorityClassName", "")
        if name:
            stored = self._store.get(PRIORITY_CLASSES, "", name)
            if stored is None:
                raise forbidden(PODS, name_of(pod), f"no PriorityClass with name {name} was found")
            return stored.item
        defaults = [each.item for each in self._store.all(PRIORITY_CLASSES) if each.item.get("globalDefault")]
        return min(defaults, key=lambda item: item.get("value", 0), default={})


def _token_sources() -> Object:
    """The volume of a token: the token, the API server's authority, the namespace."""
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    sources = [
        {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
        {"configMap": {"name": ROOT_CA, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"sources": sources, "defaultMode": 0o644}


def _mark_not_ready(node: Object) -> None:
    """A new node takes no pods until its kubelet reports that it is ready; then a controller takes the taint away."""
    taints = node.setdefault("spec", {}).setdefault("taints", [])
    if all((taint.get("key"), taint.get("effect")) != (_NOT_READY["key"], _NOT_READY["effect"]) for taint in taints):
        taints.append(dict(_NOT_READY))
