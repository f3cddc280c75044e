"""The verbs on subresources that are not just half of their object: binding, eviction, scale."""

from __future__ import annotations

from clusters.api.resources import POD_DISRUPTION_BUDGETS, PODS
from clusters.embedded.apiserver import patch
from clusters.embedded.apiserver.api_binding import bound, check_kind, check_target
from clusters.embedded.apiserver.api_eviction import counted
from clusters.embedded.apiserver.api_objects import Object, name_of, without_nulls
from clusters.embedded.apiserver.api_routes import Route
from clusters.embedded.apiserver.api_verbs import place
from clusters.embedded.apiserver.deletion import options_of
from clusters.embedded.apiserver.policy_matching import CREATE
from clusters.embedded.apiserver.refusals import bad_request
from clusters.embedded.apiserver.requests import Answer, Request, json_answer
from clusters.embedded.apiserver.validation_policies import ValidationPolicies
from clusters.embedded.apiserver.writes import Terms, Writes, fresh

_CREATED = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class Subresources:
    """Each verb takes a request and its route, and raises RefusalError."""

    def __init__(self, writes: Writes, policies: ValidationPolicies) -> None:
        self._writes = writes
        self._policies = policies

    def bind(self, request: Request, route: Route) -> Answer:
        """POST of a Binding: 201 with a Status."""
        body = without_nulls(request.object())
        check_kind(body)
        binding = named(body, route, "Binding")
        check_target(binding)
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
        return self._write_scale(request, route, patch.apply(request.content_type, scale, request.body))

    def _write_scale(self, request: Request, route: Route, scale: Object) -> Answer:
        terms = Terms(dry_run=request.dry_run)
        stored = self._writes.patch(route.resource, *place(route), lambda item: scaled(item, scale), terms)
        return json_answer(scale_of(stored.item))


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
