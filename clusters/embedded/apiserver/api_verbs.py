"""The verbs on objects of any kind and on subresources: from a request to what is written, and to the answer.

Rules: Kubernetes ``registry/core/pod/storage``. A Binding is one write of the node, with the Binding's annotations and labels,
which win; the node need not exist. The budgets decide whether a pod may be evicted; a controller writes their status.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from clusters.api.resources import POD_DISRUPTION_BUDGETS, PODS
from clusters.embedded.apiserver import patch
from clusters.embedded.apiserver.api_objects import Object, is_deleting, labels_of, name_of, without_nulls
from clusters.embedded.apiserver.api_routes import Route
from clusters.embedded.apiserver.api_selectors import matches_selector
from clusters.embedded.apiserver.policy_matching import CREATE
from clusters.embedded.apiserver.reads import encoded_list, selection
from clusters.embedded.apiserver.refusals import RefusalError, bad_request, conflict, internal, success, too_new
from clusters.embedded.apiserver.requests import Answer, Request, check_dry_run, json_answer, version_of
from clusters.embedded.apiserver.update_rules import DeleteOptions, options_of, other_object
from clusters.embedded.apiserver.validation_policies import ValidationPolicies
from clusters.embedded.apiserver.writes import Terms, Writes, fresh

_REFUSED: Final = "Cannot evict pod as it would violate the pod's disruption budget."
_NOT_RUNNING: Final = ("Succeeded", "Failed", "Pending")
_CREATED: Final = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class Verbs:
    """Each verb takes a request and its route, and raises RefusalError."""

    def __init__(self, writes: Writes, policies: ValidationPolicies) -> None:
        self._writes = writes
        self._policies = policies

    def get(self, request: Request, route: Route) -> Answer:
        """One object, at least as new as the version that is asked for."""
        version = version_of(request.params)
        if version > self._writes.store.version:
            raise too_new(version, self._writes.store.version)
        return Answer(self._writes.get(route.resource, *place(route)).json())

    def create(self, request: Request, route: Route) -> Answer:
        """POST to the collection: 201."""
        check_dry_run("CreateOptions", request.params.get("dryRun", ""))
        body = request.object(route.resource.kind)
        stored = self._writes.create(route.resource, route.namespace or "", body, self._terms(request, route))
        return Answer(stored.json(), 201)

    def replace(self, request: Request, route: Route) -> Answer:
        """PUT, to the object or to its status."""
        check_dry_run("UpdateOptions", request.params.get("dryRun", ""))
        body = request.object(route.resource.kind)
        stored = self._writes.replace(route.resource, *place(route), body, self._terms(request, route))
        return Answer(stored.json())

    def patch(self, request: Request, route: Route) -> Answer:
        """PATCH, to the object or to its status."""
        patch.check_type(request.content_type)
        check_dry_run("PatchOptions", request.params.get("dryRun", ""))

        def change(item: Object) -> Object:
            return patch.patched(request.content_type, item, request.body)

        return Answer(self._writes.patch(route.resource, *place(route), change, self._terms(request, route)).json())

    def _terms(self, request: Request, route: Route) -> Terms:
        return Terms(
            route.subresource,
            request.dry_run,
            self._policies.of(request, route),
            request.params.get("fieldValidation", ""),
            request.warnings,
        )

    def delete(self, request: Request, route: Route) -> Answer:
        """DELETE: a Status when the object is gone (for a pod, the pod), else the object that waits."""
        validation = self._policies.of(request, route)
        stored, gone = self._writes.delete(route.resource, *place(route), delete_options(request), validation)
        if gone and route.resource != PODS:
            return json_answer(success(route.resource, stored.item["metadata"]["name"], stored.item["metadata"]["uid"]))
        return Answer(stored.json())

    def delete_collection(self, request: Request, route: Route) -> Answer:
        """DELETE of everything that the query selects: the list of what was there."""
        selects, how = selection(request, route), delete_options(request)
        found = [each for each in self._writes.store.all(route.resource, route.namespace) if selects(each.item)]
        answer = encoded_list(route, found, {"resourceVersion": str(self._writes.store.version)})
        for each in found:
            self._writes.delete(route.resource, *each.key, how, self._policies.of(request, route))
        return Answer(answer)

    def bind(self, request: Request, route: Route) -> Answer:
        """POST of a Binding: 201 with a Status."""
        binding = named(without_nulls(request.object()), route, "Binding")
        self._policies.of(request, route)(CREATE, binding, None)
        stored = self._writes.get(PODS, *place(route))
        pod = bound(stored.item, binding, self._writes.now())
        if not request.dry_run:
            self._writes.commit(stored, pod)
        return json_answer(_CREATED, 201)

    def evict(self, request: Request, route: Route) -> Answer:
        """POST of an Eviction: the pod is deleted as its ``deleteOptions`` say; 201 with a Status."""
        eviction = named(without_nulls(request.object()), route, "Eviction")
        options = options_of(eviction.get("deleteOptions"), request.params)
        # The deletion that follows is part of the eviction: policies about deletions are not asked.
        self._policies.of(request, route)(CREATE, eviction, None)
        pod = self._writes.get(PODS, *place(route)).item
        found = self._writes.store.all(POD_DISRUPTION_BUDGETS, route.namespace)
        budget = counted(pod, [each.item for each in found], self._writes.now())
        if budget is not None and not options.dry_run:
            self._writes.commit(
                self._writes.get(POD_DISRUPTION_BUDGETS, route.namespace or "", name_of(budget)), budget
            )
        self._writes.delete(PODS, *place(route), options)
        return json_answer(_CREATED, 201)

    def get_scale(self, _: Request, route: Route) -> Answer:
        """The Scale of an object."""
        return json_answer(scale_of(self._writes.get(route.resource, *place(route)).item))

    def replace_scale(self, request: Request, route: Route) -> Answer:
        """PUT of a Scale."""
        return self._write_scale(request, route, request.object())

    def patch_scale(self, request: Request, route: Route) -> Answer:
        """PATCH of a Scale."""
        scale = scale_of(fresh(self._writes.get(route.resource, *place(route))))
        return self._write_scale(request, route, patch.patched(request.content_type, scale, request.body))

    def _write_scale(self, request: Request, route: Route, scale: Object) -> Answer:
        terms = Terms(dry_run=request.dry_run)
        stored = self._writes.patch(route.resource, *place(route), lambda item: scaled(item, scale), terms)
        return json_answer(scale_of(stored.item))


def place(route: Route) -> tuple[str, str]:
    """Namespace (empty for a kind that has none) and name."""
    return route.namespace or "", route.name or ""


def delete_options(request: Request) -> DeleteOptions:
    """The options of a DELETE. Raises RefusalError (400)."""
    return options_of(request.object() if request.body else None, request.params)


def named(body: Object, route: Route, kind: str) -> Object:
    """The body with the name of the URL in it. Raises RefusalError (400) if it names another pod or none."""
    metadata = body.get("metadata", {})
    if not isinstance(metadata, dict):
        raise bad_request("metadata must be an object")
    if metadata.get("name", "") != route.name:
        raise bad_request(f"name in URL does not match name in {kind} object")
    if metadata.get("namespace", "") not in ("", route.namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    return {**body, "metadata": metadata}


def scale_of(item: Object) -> Object:
    """The ``autoscaling/v1`` Scale of a Deployment, ReplicaSet or StatefulSet."""
    metadata = item["metadata"]
    shown = {key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")}
    labels = item["spec"]["selector"].get("matchLabels", {})
    selector = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    status = {"replicas": item.get("status", {}).get("replicas", 0), "selector": selector}
    spec = {"replicas": item["spec"]["replicas"]}
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": shown, "spec": spec, "status": status}


def scaled(item: Object, scale: Object) -> Object:
    """The object with the number of pods (and the preconditions) of a Scale. Raises RefusalError (400)."""
    spec, metadata = scale.get("spec") or {}, scale.get("metadata") or {}
    if not isinstance(spec, dict) or not isinstance(metadata, dict) or not isinstance(spec.get("replicas", 0), int):
        raise bad_request("spec and metadata of a Scale are objects, spec.replicas is a whole number")
    wanted = {key: metadata[key] for key in ("uid", "resourceVersion") if metadata.get(key)}
    changed = {**item["spec"], "replicas": spec.get("replicas", 0)}
    return {**item, "metadata": {**item["metadata"], **wanted}, "spec": changed}


def bound(pod: Object, binding: Object, now: str) -> Object:
    """The pod on the node that the Binding names; ``now`` is RFC 3339. Raises RefusalError (409)."""
    _check_pod(pod, binding)
    metadata = dict(pod["metadata"])
    for part in ("annotations", "labels"):
        added = binding["metadata"].get(part) or {}
        if added:
            metadata[part] = {**metadata.get(part, {}), **added}
    spec = {**pod["spec"], "nodeName": binding["target"]["name"]}
    status = {key: value for key, value in (pod.get("status") or {}).items() if key != "nominatedNodeName"}
    status["conditions"] = _scheduled(status.get("conditions", []), now)
    return {**pod, "metadata": metadata, "spec": spec, "status": status}


def _check_pod(pod: Object, binding: Object) -> None:
    metadata, wanted = pod["metadata"], binding["metadata"]
    name = metadata["name"]
    uid = wanted.get("uid")
    if uid and uid != metadata["uid"]:
        raise other_object(PODS, metadata, "UID", uid, metadata["uid"])
    version = wanted.get("resourceVersion", "")
    if version and version != metadata["resourceVersion"]:
        raise other_object(PODS, metadata, "ResourceVersion", version, metadata["resourceVersion"])
    if is_deleting(pod):
        raise conflict(PODS, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        raise conflict(PODS, name, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
    if pod["spec"].get("schedulingGates"):
        raise conflict(PODS, name, f"pod {name} has non-empty .spec.schedulingGates")


def _scheduled(conditions: list[Object], now: str) -> list[Object]:
    condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    places = [at for at, each in enumerate(conditions) if each.get("type") == "PodScheduled"]
    if not places:
        return [*conditions, condition]
    if conditions[places[0]].get("status") == "True":
        condition["lastTransitionTime"] = conditions[places[0]].get("lastTransitionTime", now)
    return [condition if at == places[0] else each for at, each in enumerate(conditions)]


def counted(pod: Object, budgets: Sequence[Object], now: str) -> Object | None:
    """The budget with one disruption less, None if no budget has to count it. Raises RefusalError (429, 500)."""
    if is_deleting(pod) or (pod.get("status") or {}).get("phase") in _NOT_RUNNING:
        return None
    mine = [one for one in budgets if _is_about(one, pod)]
    if len(mine) > 1:
        raise internal(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    if not mine or _is_spare(pod, mine[0]):
        return None
    budget, status = mine[0], mine[0].get("status") or {}
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _refused(f"The disruption budget {name_of(budget)} is still being processed by the server.")
    allowed, healthy = status.get("disruptionsAllowed", 0), status.get("currentHealthy", 0)
    if allowed <= 0:
        needs = f"needs {status.get('desiredHealthy', 0)} healthy pods and has {healthy} currently"
        raise _refused(f"The disruption budget {name_of(budget)} {needs}")
    disrupted = {**status.get("disruptedPods", {}), name_of(pod): now}
    return {**budget, "status": {**status, "disruptionsAllowed": allowed - 1, "disruptedPods": disrupted}}


def _is_about(budget: Object, pod: Object) -> bool:
    selector = budget.get("spec", {}).get("selector")
    return selector is not None and matches_selector(selector, labels_of(pod))


def _is_spare(pod: Object, budget: Object) -> bool:
    """A pod that is not ready does not count if enough others are."""
    conditions = (pod.get("status") or {}).get("conditions", [])
    if any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions):
        return False
    status, always = budget.get("status") or {}, budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
    desired: int = status.get("desiredHealthy", 0)
    return bool(always or (desired > 0 and status.get("currentHealthy", 0) >= desired))


def _refused(why: str) -> RefusalError:
    causes = [{"reason": "DisruptionBudget", "message": why}]
    return RefusalError(429, "TooManyRequests", _REFUSED, {"causes": causes})
