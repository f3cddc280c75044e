"""Rules for the metadata of an object, new or changed. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from clusters.embedded.apiserver.api_objects import Object
from clusters.embedded.apiserver.field_rules import (
    labels,
    qualified_name,
    required,
    wrong,
)
from clusters.embedded.apiserver.refusals import FieldError

NameRule = Callable[[str], list[str]]

# Bytes of all annotations of an object together.
_MOST_ANNOTATIONS: Final = 256 * 1024


def of_object(item: Object, rule: NameRule) -> list[FieldError]:
    """The faults in the metadata of an object, new or changed; ``rule`` is the kind's for names."""
    metadata = item["metadata"]
    name, prefix = metadata.get("name", ""), metadata.get("generateName", "")
    # A dash at the end of a prefix is followed by letters.
    beginning = prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix
    errors = [wrong("metadata.generateName", prefix, text) for text in rule(beginning)] if prefix else []
    if name:
        errors += [wrong("metadata.name", name, text) for text in rule(name)]
    else:
        errors.append(required("metadata.name", "name or generateName is required"))
    return [*errors, *_texts(metadata)]


def frozen(old: Object, wanted: Object) -> list[FieldError]:
    """The uid of another object than the one that is there; a write that leaves it out means this one."""
    uid = wanted["metadata"].get("uid")
    return [wrong("metadata.uid", uid, "field is immutable")] if uid not in (None, "", old["metadata"]["uid"]) else []


def _texts(metadata: Object) -> list[FieldError]:
    errors = labels("metadata.labels", metadata.get("labels", {}))
    annotations = metadata.get("annotations", {})
    for key in annotations:
        # Annotations allow capitals in the prefix.
        errors += [wrong("metadata.annotations", key, text) for text in qualified_name(key.lower())]
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _MOST_ANNOTATIONS:
        text = f"Too long: may not be more than {_MOST_ANNOTATIONS} bytes"
        errors.append(FieldError("metadata.annotations", "FieldValueTooLong", text))
    return errors
