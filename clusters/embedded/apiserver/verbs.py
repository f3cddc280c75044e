"""The verbs on objects of any kind: from a request to what is written, and to the answer."""

from __future__ import annotations

from typing import Any

from clusters.embedded.apiserver import patch
from clusters.embedded.apiserver.deletion import DeleteOptions, options_of
from clusters.embedded.apiserver.objects import Object
from clusters.embedded.apiserver.reads import selection
from clusters.embedded.apiserver.refusals import success
from clusters.embedded.apiserver.requests import Answer, Request, json_answer
from clusters.embedded.apiserver.routes import Route
from clusters.embedded.apiserver.writes import Writes
from clusters.resources import PODS


class Verbs:
    """Each verb takes a request and its route, and raises RefusalError."""

    def __init__(self, writes: Writes) -> None:
        self._writes = writes

    def get(self, _: Request, route: Route) -> Answer:
        """One object."""
        return Answer(self._writes.get(route.resource, *place(route)).json())

    def create(self, request: Request, route: Route) -> Answer:
        """POST to the collection: 201."""
        stored = self._writes.create(
            route.resource, route.namespace or "", request.object(route.resource.kind), dry_run=request.dry_run
        )
        return Answer(stored.json(), 201)

    def replace(self, request: Request, route: Route) -> Answer:
        """PUT, to the object or to its status."""
        stored = self._writes.replace(
            route.resource,
            *place(route),
            request.object(route.resource.kind),
            sub=route.subresource,
            dry_run=request.dry_run,
        )
        return Answer(stored.json())

    def patch(self, request: Request, route: Route) -> Answer:
        """PATCH, to the object or to its status."""

        def change(item: Object) -> Object:
            return patch.apply(request.content_type, item, request.body)

        stored = self._writes.patch(
            route.resource, *place(route), change, sub=route.subresource, dry_run=request.dry_run
        )
        return Answer(stored.json())

    def delete(self, request: Request, route: Route) -> Answer:
        """DELETE: a Status when the object is gone (for a pod, the pod), else the object that waits."""
        options = delete_options(request)
        stored, gone = self._writes.delete(route.resource, *place(route), options)
        if gone and route.resource != PODS:
            return json_answer(success(route.resource, stored.item["metadata"]["name"], stored.item["metadata"]["uid"]))
        return Answer(stored.json())

    def delete_collection(self, request: Request, route: Route) -> Answer:
        """DELETE of everything that the query selects: the list of what was there."""
        selects, options = selection(request, route), delete_options(request)
        found = [each for each in self._writes.store.all(route.resource, route.namespace) if selects(each.item)]
        deleted = [self._writes.delete(route.resource, *each.key, options)[0] for each in found]
        items: list[Any] = [each.item for each in deleted]
        metadata = {"resourceVersion": str(self._writes.store.version)}
        kind = f"{route.resource.kind}List"
        return json_answer(
            {"kind": kind, "apiVersion": route.resource.api_version, "metadata": metadata, "items": items}
        )


def place(route: Route) -> tuple[str, str]:
    """Namespace (empty for a kind that has none) and name."""
    return route.namespace or "", route.name or ""


def delete_options(request: Request) -> DeleteOptions:
    """The options of a DELETE. Raises RefusalError (400)."""
    return options_of(request.json(), request.params)
