"""Rules for the metadata of an object, new or changed. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from clusters.api.resources import EVENTS, LEASES, Resource
from clusters.embedded.apiserver.api_objects import Object, is_deleting
from clusters.embedded.apiserver.field_rules import (
    labels,
    not_allowed,
    qualified_name,
    required,
    wrong,
)
from clusters.embedded.apiserver.refusals import FieldError

NameRule = Callable[[str], list[str]]

_STANDARD_FINALIZERS: Final = ("kubernetes", "orphan", "foregroundDeletion")
# Bytes of all annotations of an object together.
_MOST_ANNOTATIONS: Final = 256 * 1024
_FROZEN: Final = ("uid", "deletionTimestamp", "deletionGracePeriodSeconds")


def of_new(resource: Resource, item: Object, rule: NameRule) -> list[FieldError]:
    """The faults in the metadata of a new object; ``rule`` is the kind's for names."""
    metadata = item["metadata"]
    name, prefix = metadata.get("name", ""), metadata.get("generateName", "")
    # A dash at the end of a prefix is followed by letters.
    beginning = prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix
    errors = [wrong("metadata.generateName", prefix, text) for text in rule(beginning)] if prefix else []
    if name:
        errors += [wrong("metadata.name", name, text) for text in rule(name)]
    else:
        errors.append(required("metadata.name", "name or generateName is required"))
    return [*errors, *_texts(metadata), *_finalizers(resource, metadata.get("finalizers", []))]


def frozen(old: Object, wanted: Object) -> list[FieldError]:
    """The fields that only the server writes and that a client changes; a field that it leaves out stays."""
    errors = []
    for key in _FROZEN:
        there, value = old["metadata"].get(key), wanted["metadata"].get(key)
        if value not in (None, "", there) and not (there and key == "deletionTimestamp"):
            errors.append(wrong(f"metadata.{key}", value, "field is immutable"))
    return errors


def of_changed(
    resource: Resource, old: Object, new: Object, before: list[FieldError], rule: NameRule
) -> list[FieldError]:
    """The faults in the new metadata of an object; ``before`` is the result of ``frozen``."""
    return [*_late_finalizers(old, new), *before, *of_new(resource, new, rule)]


def _texts(metadata: Object) -> list[FieldError]:
    errors = labels("metadata.labels", metadata.get("labels", {}))
    annotations = metadata.get("annotations", {})
    for key in annotations:
        # Annotations allow capitals in the prefix.
        errors += [wrong("metadata.annotations", key, text) for text in qualified_name(key.lower())]
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _MOST_ANNOTATIONS:
        text = f"Too long: may not be more than {_MOST_ANNOTATIONS} bytes"
        errors.append(FieldError("metadata.annotations", "FieldValueTooLong", text))
    return errors + _owners(metadata.get("ownerReferences", []))


def _owners(owners: list[Object]) -> list[FieldError]:
    return [
        wrong(f"metadata.ownerReferences.{key}", "", "must not be empty")
        for owner in owners
        for key in ("kind", "name", "uid")
        if not owner.get(key)
    ]


def _finalizers(resource: Resource, words: list[str]) -> list[FieldError]:
    """Words that hold an object: those of the API itself, else with a domain before a slash."""
    if resource in (LEASES, EVENTS):
        return []
    text = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        wrong(f"metadata.finalizers[{at}]", word, text)
        for at, word in enumerate(words)
        if "/" not in word and word not in _STANDARD_FINALIZERS
    ]


def _late_finalizers(old: Object, new: Object) -> list[FieldError]:
    """An object that is being deleted takes no new finalizer."""
    added = sorted(set(new["metadata"].get("finalizers", [])) - set(old["metadata"].get("finalizers", [])))
    if not added or not is_deleting(old):
        return []
    return [not_allowed("metadata.finalizers", f"an object that is being deleted takes no new ones: {added}")]
