"""Rules for single fields: names, labels, what is required. Pure: each answers the errors that it finds."""

from __future__ import annotations

import json
import re
from typing import Any, Final

from clusters.embedded.apiserver.refusals import FieldError

_LABEL_FORM: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL: Final = re.compile(_LABEL_FORM)
_DNS_SUBDOMAIN: Final = re.compile(rf"{_LABEL_FORM}(\.{_LABEL_FORM})*")
_WORD: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


_ENDS: Final = "and must start and end with an alphanumeric character"
_LABEL_TEXT: Final = f"must consist of lower case alphanumeric characters or '-', {_ENDS}"
_SUBDOMAIN_TEXT: Final = f"must consist of lower case alphanumeric characters, '-' or '.', {_ENDS}"
_WORD_TEXT: Final = f"must consist of alphanumeric characters, '-', '_' or '.', {_ENDS}"


def required(field: str, text: str = "") -> FieldError:
    """A field that must be there and is not."""
    return FieldError(field, "FieldValueRequired", f"Required value: {text}" if text else "Required value")


def wrong(field: str, value: Any, text: str) -> FieldError:
    """A field whose value is not allowed."""
    return FieldError(field, "FieldValueInvalid", f"Invalid value: {json.dumps(value, ensure_ascii=False)}: {text}")


def not_allowed(field: str, text: str) -> FieldError:
    """A field that must not be there, or must not change."""
    return FieldError(field, "FieldValueForbidden", f"Forbidden: {text}")


def unsupported(field: str, value: str, known: tuple[str, ...]) -> FieldError:
    """A word that is none of the known ones."""
    listed = ", ".join(f'"{each}"' for each in known)
    return FieldError(field, "FieldValueNotSupported", f'Unsupported value: "{value}": supported values: {listed}')


def label_texts(value: str) -> list[str]:
    """The faults of an RFC 1123 label of at most 63 characters."""
    return _texts(value, 63, _DNS_LABEL, _LABEL_TEXT)


def subdomain_texts(value: str) -> list[str]:
    """The faults of an RFC 1123 subdomain of at most 253 characters."""
    return _texts(value, 253, _DNS_SUBDOMAIN, _SUBDOMAIN_TEXT)


def segment_texts(value: str) -> list[str]:
    """The faults of a word that stands between two slashes of a URL."""
    texts = [f"may not be '{value}'"] if value in (".", "..") else []
    return texts + [f"may not contain '{sign}'" for sign in ("/", "%") if sign in value]


def dns_label(field: str, value: str) -> list[FieldError]:
    """RFC 1123 label of at most 63 characters."""
    return [wrong(field, value, text) for text in label_texts(value)]


def dns_subdomain(field: str, value: str) -> list[FieldError]:
    """RFC 1123 subdomain of at most 253 characters."""
    return [wrong(field, value, text) for text in subdomain_texts(value)]


def qualified_name(key: str) -> list[str]:
    """The faults of ``name`` or ``example.com/name``, the form of keys of labels, annotations and resources."""
    *prefixes, name = key.split("/")
    if len(prefixes) > 1:
        return ["must have one '/' at most"]
    texts = [f"prefix part {each}" for prefix in prefixes for each in subdomain_texts(prefix)]
    return texts + [f"name part {each}" for each in _texts(name, 63, _WORD, _WORD_TEXT)]


def labels(field: str, values: dict[str, str]) -> list[FieldError]:
    """Keys and values of labels, of a node selector, of ``matchLabels``."""
    errors = []
    for key, value in values.items():
        errors += [wrong(field, key, text) for text in qualified_name(key)]
        errors += [wrong(field, value, text) for text in label_value_texts(value)]
    return errors


def label_value_texts(value: str) -> list[str]:
    """The faults of a label's value; an empty one is right."""
    return _texts(value, 63, _WORD, _WORD_TEXT) if value else []


def _texts(value: str, most: int, form: re.Pattern[str], text: str) -> list[str]:
    texts = [f"must be no more than {most} bytes"] if len(value.encode()) > most else []
    return texts if form.fullmatch(value) else [*texts, text]
