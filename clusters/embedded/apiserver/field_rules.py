"""Rules for single fields: names, labels, what is required. Pure: each answers the errors that it finds."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from clusters.embedded.apiserver.objects import Object
from clusters.embedded.apiserver.refusals import FieldError

_LABEL_FORM: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL: Final = re.compile(_LABEL_FORM)
_DNS_SUBDOMAIN: Final = re.compile(rf"{_LABEL_FORM}(\.{_LABEL_FORM})*")
_WORD: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")

_STANDARD_FINALIZERS: Final = ("kubernetes", "orphan", "foregroundDeletion")
# Bytes of all annotations of an object together.
_MOST_ANNOTATIONS: Final = 256 * 1024

_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_QUALIFIED_TEXT: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def required(field: str, text: str = "") -> FieldError:
    """A field that must be there and is not."""
    return FieldError(field, "FieldValueRequired", f"Required value: {text}" if text else "Required value")


@dataclass(frozen=True, slots=True)
class Shown:
    """A value that is told as it stands here, without quotes."""

    text: str

    def __str__(self) -> str:
        return self.text


def wrong(field: str, value: Any, text: str) -> FieldError:
    """A field whose value is not allowed."""
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    return FieldError(field, "FieldValueInvalid", f"Invalid value: {shown}: {text}")


def not_allowed(field: str, text: str) -> FieldError:
    """A field that must not be there, or must not change."""
    return FieldError(field, "FieldValueForbidden", f"Forbidden: {text}")


def unsupported(field: str, value: str, known: tuple[str, ...]) -> FieldError:
    """A word that is none of the known ones."""
    listed = ", ".join(f'"{each}"' for each in known)
    return FieldError(field, "FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {listed}')


def dns_label(field: str, value: str) -> list[FieldError]:
    """RFC 1123 label of at most 63 characters."""
    if len(value) > 63:
        return [wrong(field, value, "must be no more than 63 characters")]
    return [] if _DNS_LABEL.fullmatch(value) else [wrong(field, value, _LABEL_TEXT)]


def dns_subdomain(field: str, value: str) -> list[FieldError]:
    """RFC 1123 subdomain of at most 253 characters."""
    if len(value) > 253:
        return [wrong(field, value, "must be no more than 253 characters")]
    return [] if _DNS_SUBDOMAIN.fullmatch(value) else [wrong(field, value, _SUBDOMAIN_TEXT)]


def qualified_name(field: str, key: str) -> list[FieldError]:
    """``name`` or ``example.com/name``, as keys of labels, annotations and resources are."""
    prefix, slash, name = key.rpartition("/")
    if slash and (not prefix or dns_subdomain(field, prefix)):
        return [wrong(field, key, f"prefix part {_SUBDOMAIN_TEXT}")]
    if len(name) > 63:
        return [wrong(field, key, "name part must be no more than 63 characters")]
    return [] if _WORD.fullmatch(name) else [wrong(field, key, _QUALIFIED_TEXT)]


def labels(field: str, values: dict[str, str]) -> list[FieldError]:
    """Keys and values of labels, of a node selector, of ``matchLabels``."""
    errors = []
    for key, value in values.items():
        errors += qualified_name(field, key)
        if len(value) > 63:
            errors.append(wrong(field, value, "must be no more than 63 characters"))
        elif value and not _WORD.fullmatch(value):
            errors.append(wrong(field, value, _VALUE_TEXT))
    return errors


def finalizers(words: list[str]) -> list[FieldError]:
    """Words that hold an object: those of the API itself, else with a domain before a slash."""
    text = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        wrong(f"metadata.finalizers[{at}]", word, text)
        for at, word in enumerate(words)
        if "/" not in word and word not in _STANDARD_FINALIZERS
    ]


def path_segment(field: str, value: str) -> list[FieldError]:
    """What can stand between two slashes of a URL."""
    texts = [f"may not be '{value}'"] if value in (".", "..") else []
    texts += [f"may not contain '{sign}'" for sign in ("/", "%") if sign in value]
    return [wrong(field, value, text) for text in texts]


def metadata(item: Object, check: Callable[[str, str], list[FieldError]] = dns_subdomain) -> list[FieldError]:
    """The metadata of any object; ``check`` is the rule of its kind for names."""
    found = item["metadata"]
    name = found.get("name", "")
    errors = check("metadata.name", name) if name else [required("metadata.name", "name or generateName is required")]
    errors += labels("metadata.labels", found.get("labels", {}))
    annotations = found.get("annotations", {})
    for key in annotations:
        # Annotations allow capitals in the prefix.
        errors += qualified_name("metadata.annotations", key.lower())
    if sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items()) > _MOST_ANNOTATIONS:
        text = f"Too long: may not be more than {_MOST_ANNOTATIONS} bytes"
        errors.append(FieldError("metadata.annotations", "FieldValueTooLong", text))
    for owner in found.get("ownerReferences", []):
        errors += [
            wrong(f"metadata.ownerReferences.{key}", "", "must not be empty")
            for key in ("apiVersion", "kind", "name", "uid")
            if not owner.get(key)
        ]
    return errors
