"""Lists: selection, pages, and the versions that they show."""

from __future__ import annotations

import base64
import binascii

import msgspec

from clusters.api.resources import EVENTS
from clusters.embedded.apiserver import options
from clusters.embedded.apiserver.api_routes import Route
from clusters.embedded.apiserver.api_selectors import Predicate, both, field_selector, label_selector, selects_all
from clusters.embedded.apiserver.refusals import RefusalError, bad_request, expired, too_new
from clusters.embedded.apiserver.requests import Request
from clusters.embedded.apiserver.store import Store, Stored


class Page(msgspec.Struct):
    """The content of a ``continue`` token: the version of the pages, and the last key of the page before."""

    version: int
    after: tuple[str, str]


def selection(request: Request, route: Route) -> Predicate:
    """The objects that the query selects. Raises RefusalError (400)."""
    by_label = label_selector(request.params.get("labelSelector", ""))
    return both(field_selector(request.params.get("fieldSelector", ""), route.resource), by_label)


def list_objects(store: Store, request: Request, route: Route) -> bytes:
    """The JSON of a list. Raises RefusalError (400, 410, 422, 504)."""
    # Errors of parsing come first, a field that a kind does not have last.
    label_selector(request.params.get("labelSelector", ""))
    options.check_list(request.params)
    selects = selection(request, route)
    page = _page(request, store)
    version = page.version if page else _version(request, store)
    try:
        at = None if version == store.version else version
        found = store.all(route.resource, route.namespace, at, page.after if page else None)
    except RefusalError as error:
        assert page is not None
        raise _expired_page(store, page) from error
    limit = max(options.number(request.params, "limit"), 0)
    if request.params.get("resourceVersion") == "0" and route.resource != EVENTS:
        # Any version will do: the real server answers from its cache, which knows no pages (and holds no events).
        limit = 0
    shown, rest = _cut(found, selects, limit)
    metadata: dict[str, object] = {"resourceVersion": str(version)}
    if rest:
        metadata["continue"] = _token(Page(version, shown[-1].key))
        if selects is selects_all:
            metadata["remainingItemCount"] = rest
    return encoded_list(route, shown, metadata)


def _cut(found: list[Stored], selects: Predicate, limit: int) -> tuple[list[Stored], int]:
    """The objects of one page, and the number that come after it: how many of these are selected is not known yet."""
    shown: list[Stored] = []
    for at, stored in enumerate(found):
        if limit and len(shown) == limit:
            return shown, len(found) - at
        if selects(stored.item):
            shown.append(stored)
    return shown, 0


def encoded_list(route: Route, found: list[Stored], metadata: dict[str, object]) -> bytes:
    """The JSON of a list of these objects."""
    resource = route.resource
    head = f'{{"kind":"{resource.kind}List","apiVersion":"{resource.api_version}","metadata":'.encode()
    items = b",".join(stored.raw for stored in found)
    return b'%s%s,"items":[%s]}' % (head, msgspec.json.encode(metadata), items)


def _version(request: Request, store: Store) -> int:
    """The version to show: the newest, which is at least as new as the one that is asked for."""
    wanted = options.version_of(request.params, in_list=True)
    if wanted > store.version:
        raise too_new(wanted, store.version)
    return store.version


def _page(request: Request, store: Store) -> Page | None:
    token = request.params.get("continue", "")
    if not token:
        return None
    if request.params.get("resourceVersion", "0") not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")
    try:
        page = msgspec.json.decode(base64.urlsafe_b64decode(token), type=Page)
    except (binascii.Error, ValueError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
    if page.version > store.version:
        raise _expired_page(store, page)
    return page


def _expired_page(store: Store, page: Page) -> RefusalError:
    """410 with a token that goes on from the client's place in the newest state: complete, but not consistent."""
    refusal = expired(page.version, store.version)
    refusal.message = (
        "The continue token is too old for a consistent list. Start a new list, or use the token in this answer: the rest that "
        "it leads to is of another version."
    )
    refusal.list_metadata = {"continue": _token(Page(store.version, page.after))}
    return refusal


def aged(token: str) -> str:
    """The same token, as if the history of its version were gone."""
    return _token(Page(0, msgspec.json.decode(base64.urlsafe_b64decode(token), type=Page).after))


def _token(page: Page) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(page)).decode()
