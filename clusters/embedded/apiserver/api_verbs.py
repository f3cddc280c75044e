"""The verbs on objects of any kind: from a request to what is written, and to the answer."""

from __future__ import annotations

from clusters.api.resources import PODS
from clusters.embedded.apiserver import options, patch
from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.api_routes import Route
from clusters.embedded.apiserver.deletion import DeleteOptions, options_of
from clusters.embedded.apiserver.reads import encoded_list, selection
from clusters.embedded.apiserver.refusals import success, too_new
from clusters.embedded.apiserver.requests import Answer, Request, json_answer
from clusters.embedded.apiserver.validation_policies import ValidationPolicies
from clusters.embedded.apiserver.writes import Terms, Writes


class Verbs:
    """Each verb takes a request and its route, and raises RefusalError."""

    def __init__(self, writes: Writes, policies: ValidationPolicies) -> None:
        self._writes = writes
        self._policies = policies

    def get(self, request: Request, route: Route) -> Answer:
        """One object, at least as new as the version that is asked for."""
        version = options.version_of(request.params, options.unreadable_elsewhere) or 0
        if version > self._writes.store.version:
            raise too_new(version, self._writes.store.version)
        return Answer(self._writes.get(route.resource, *place(route)).json())

    def create(self, request: Request, route: Route) -> Answer:
        """POST to the collection: 201."""
        options.check_dry_run("CreateOptions", request.params.get("dryRun", ""))
        body = request.object(route.resource.kind)
        stored = self._writes.create(route.resource, route.namespace or "", body, self._terms(request, route))
        return Answer(stored.json(), 201)

    def replace(self, request: Request, route: Route) -> Answer:
        """PUT, to the object or to its status."""
        options.check_dry_run("UpdateOptions", request.params.get("dryRun", ""))
        body = request.object(route.resource.kind)
        stored = self._writes.replace(route.resource, *place(route), body, self._terms(request, route))
        return Answer(stored.json())

    def patch(self, request: Request, route: Route) -> Answer:
        """PATCH, to the object or to its status."""
        patch.check_type(request.content_type)
        options.check_dry_run("PatchOptions", request.params.get("dryRun", ""))

        def change(item: Object) -> Object:
            return patch.apply(request.content_type, item, request.body)

        return Answer(self._writes.patch(route.resource, *place(route), change, self._terms(request, route)).json())

    def _terms(self, request: Request, route: Route) -> Terms:
        return Terms(route.subresource, request.dry_run, self._policies.of(request, route))

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


def place(route: Route) -> tuple[str, str]:
    """Namespace (empty for a kind that has none) and name."""
    return route.namespace or "", route.name or ""


def delete_options(request: Request) -> DeleteOptions:
    """The options of a DELETE. Raises RefusalError (400)."""
    return options_of(request.object() if request.body else None, request.params)
