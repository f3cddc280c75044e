"""Creates, changes and deletes objects: the order of the checks, and the one place that writes to the store."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from clusters.api.resources import NAMESPACES, NODES, Resource
from clusters.embedded.apiserver import update_rules
from clusters.embedded.apiserver.api_admission import LETTERS, Admission
from clusters.embedded.apiserver.api_objects import Object, is_deleting, without_empties, without_nulls
from clusters.embedded.apiserver.api_routes import has_generation
from clusters.embedded.apiserver.defaults import initial_status, set_defaults
from clusters.embedded.apiserver.field_rules import IGNORE, drop_unknown
from clusters.embedded.apiserver.policy_matching import CREATE, DELETE, UPDATE
from clusters.embedded.apiserver.refusals import (
    RefusalError,
    already_exists,
    bad_request,
    not_found,
    patch_invalid,
    terminating,
)
from clusters.embedded.apiserver.store import Store, Stored
from clusters.embedded.apiserver.update_rules import DeleteOptions, rfc3339
from clusters.embedded.apiserver.validation import faults, validate

_LETTERS_ADDED: Final = 5
_LONGEST_GENERATED_PREFIX: Final = 58
_TRIES: Final = 8

Change = Callable[[Object], Object]
Validation = Callable[[str, Object | None, Object | None], None]
"""Raises RefusalError if a policy denies an operation (``CREATE``…); it is given the object after and before it."""


def admitted(_operation: str, _new: Object | None, _old: Object | None) -> None:
    """Admit everything."""


@dataclass(frozen=True, slots=True)
class Terms:
    """How an object is written: through which subresource, whether nothing is stored, and which policies judge it."""

    sub: str | None = None
    dry_run: bool = False
    validation: Validation = admitted
    fields: str = IGNORE
    """The treatment of fields that do not exist: ``fieldValidation`` of the request."""
    warnings: list[str] = field(default_factory=list)


_PLAIN: Final = Terms()


class Writes:
    """The writing verbs. Every method raises RefusalError. ``clock`` is the time of day in UTC, ``randomness`` for names."""

    def __init__(self, store: Store, clock: Callable[[], datetime], randomness: random.Random) -> None:
        self.store = store
        self.clock = clock
        self._randomness = randomness
        self._admission = Admission(store, randomness)

    def now(self) -> str:
        """The time of day as the API writes it."""
        return rfc3339(self.clock())

    def get(self, resource: Resource, namespace: str, name: str) -> Stored:
        """One object; 404."""
        stored = self.store.get(resource, namespace, name)
        if stored is None:
            raise not_found(resource, name)
        return stored

    def create(self, resource: Resource, namespace: str, body: Object, terms: Terms = _PLAIN) -> Stored:
        """Create the object in ``body``."""
        update_rules.check_kind(resource, body)
        item = _decoded(resource, body, terms)
        update_rules.check_place(item, namespace, None)
        if item["metadata"].get("resourceVersion"):
            raise RefusalError(500, "", "resourceVersion should not be set on objects to be created")
        self._check_namespace(resource, namespace, item)
        self._set_metadata(resource, namespace, item)
        # A kubelet registers its Node together with its status.
        if resource != NODES and resource.has_status:
            item.pop("status", None)
        set_defaults(resource, item)
        self._admission.create(resource, namespace, item)
        validate(resource, item)
        update_rules.count_templates(resource, None, item)
        status = initial_status(resource, item, self.now())
        if status is not None:
            item["status"] = status
        terms.validation(CREATE, item, None)
        self._admission.check(resource, namespace, item)
        name = item["metadata"]["name"]
        there = self.store.get(resource, namespace, name)
        if there is not None:
            raise already_exists(resource, name, deleting=is_deleting(there.item))
        return Stored(resource, item, 0) if terms.dry_run else self.store.put(resource, item)

    def replace(self, resource: Resource, namespace: str, name: str, body: Object, terms: Terms = _PLAIN) -> Stored:
        """PUT: the object becomes ``body``."""
        update_rules.check_kind(resource, body)
        new = _decoded(resource, body, terms)
        update_rules.check_place(new, namespace, name)
        stored = self.get(resource, namespace, name)
        update_rules.check_put(resource, stored.item, new)
        return self._update(stored, new, terms)

    def patch(self, resource: Resource, namespace: str, name: str, change: Change, terms: Terms = _PLAIN) -> Stored:
        """PATCH: the object becomes what ``change`` makes of a copy of it."""
        stored = self.get(resource, namespace, name)
        new = _patched(resource, change(fresh(stored)), terms)
        update_rules.check_patch(resource, stored.item, new)
        return self._update(stored, new, terms)

    def delete(
        self, resource: Resource, namespace: str, name: str, options: DeleteOptions, validation: Validation = admitted
    ) -> tuple[Stored, bool]:
        """DELETE: the last state and whether the object is gone; if not, it waits for a kubelet or a finalizer."""
        stored = self.get(resource, namespace, name)
        self._admission.delete(resource, name)
        update_rules.check_preconditions(resource, stored.item, options)
        validation(DELETE, None, stored.item)
        fate = update_rules.fate_of(resource, stored.item, options, self.clock())
        if options.dry_run:
            return Stored(resource, fate.written or stored.item, stored.version), fate.gone
        if fate.written is not None and fate.written != stored.item:
            stored = self.store.put(resource, fate.written)
        return (self.store.remove(resource, stored.item) if fate.gone else stored), fate.gone

    def commit(self, stored: Stored, item: Object) -> Stored:
        """Write a new state, unless nothing has changed; an object that nothing keeps any more goes."""
        if item == stored.item:
            return stored
        if is_deleting(item) and update_rules.is_finished(item):
            # The change itself is never written: its answer carries the version before, and only watches get a new one.
            # They show the last state that was stored.
            self.store.remove(stored.resource, stored.item)
            return Stored(stored.resource, item, stored.version)
        return self.store.put(stored.resource, item)

    def _update(self, stored: Stored, new: Object, terms: Terms) -> Stored:
        resource, old, sub = stored.resource, stored.item, terms.sub
        errors = update_rules.keep_system_fields(old, new)
        update_rules.keep_other_half(resource, old, new, sub)
        set_defaults(resource, new)
        update_rules.check_update(resource, old, new, errors + faults(resource, new, sub))
        if sub is None:
            update_rules.count_generation(resource, old, new)
        update_rules.count_templates(resource, old, new)
        terms.validation(UPDATE, new, old)
        return Stored(resource, new, stored.version) if terms.dry_run else self.commit(stored, new)

    def _check_namespace(self, resource: Resource, namespace: str, item: Object) -> None:
        if not resource.namespaced:
            return
        found = self.store.get(NAMESPACES, "", namespace)
        if found is None:
            raise not_found(NAMESPACES, namespace)
        if is_deleting(found.item):
            raise terminating(resource, item["metadata"], namespace)

    def _set_metadata(self, resource: Resource, namespace: str, item: Object) -> None:
        metadata = item["metadata"]
        for key in ("deletionTimestamp", "deletionGracePeriodSeconds"):
            metadata.pop(key, None)
        if namespace:
            metadata["namespace"] = namespace
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = self._free_name(resource, namespace, metadata["generateName"])
        metadata["uid"] = str(uuid.uuid4())
        metadata["creationTimestamp"] = self.now()
        if has_generation(resource):
            metadata["generation"] = 1

    def _free_name(self, resource: Resource, namespace: str, prefix: str) -> str:
        """A name with random letters at its end; taken ones are tried again a few times."""
        for _ in range(_TRIES):
            letters = "".join(self._randomness.choices(LETTERS, k=_LETTERS_ADDED))
            name = prefix[:_LONGEST_GENERATED_PREFIX] + letters
            if self.store.get(resource, namespace, name) is None:
                break
        return name


def _decoded(resource: Resource, body: Object, terms: Terms) -> Object:
    """An object of the kind, as it can be worked with. Raises RefusalError (400)."""
    item: Object = without_nulls(body)
    if not isinstance(item.setdefault("metadata", {}), dict):
        raise bad_request("metadata must be an object")
    terms.warnings.extend(drop_unknown(resource, item, terms.fields))
    for key in ("managedFields", "selfLink"):
        item["metadata"].pop(key, None)
    item = without_empties(item)
    if not resource.namespaced:
        item["metadata"].pop("namespace", None)
    item.setdefault("kind", resource.kind)
    item.setdefault("apiVersion", resource.api_version)
    return item


def _patched(resource: Resource, new: Object, terms: Terms) -> Object:
    """The result of a patch; 422 if that is no object of the kind."""
    try:
        update_rules.check_kind(resource, new)
        return _decoded(resource, new, terms)
    except RefusalError as refusal:
        raise patch_invalid(refusal.message) from refusal


def fresh(stored: Stored) -> Object:
    """A copy of an object that may be changed."""
    item: Object = msgspec.json.decode(stored.raw)
    return {"kind": stored.resource.kind, "apiVersion": stored.resource.api_version, **item}
