"""Rules for single fields: names, labels, what is required. Pure: each answers the errors that it finds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from clusters.embedded.apiserver.refusals import FieldError

_LABEL_FORM: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL: Final = re.compile(_LABEL_FORM)
_DNS_SUBDOMAIN: Final = re.compile(rf"{_LABEL_FORM}(\.{_LABEL_FORM})*")
_WORD: Final = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


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
_WORD_TEXT: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
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
    """A value that errors show as it is, without quotes."""

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


def label_texts(value: str) -> list[str]:
    """The faults of an RFC 1123 label of at most 63 characters."""
    # Where the letters are right, it is the dots.
    text = "must not contain dots" if _DNS_SUBDOMAIN.fullmatch(value) else _LABEL_TEXT
    return _texts(value, 63, "characters", _DNS_LABEL, text)


def subdomain_texts(value: str, unit: str = "characters") -> list[str]:
    """The faults of an RFC 1123 subdomain of at most 253 characters."""
    return _texts(value, 253, unit, _DNS_SUBDOMAIN, _SUBDOMAIN_TEXT)


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
        text = (
            f"a valid label key {_WORD_TEXT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )
        return [text]
    texts = []
    for prefix in prefixes:
        wrongs = subdomain_texts(prefix, "bytes") if prefix else ["must be non-empty"]
        texts += [f"prefix part {each}" for each in wrongs]
    if not name:
        texts.append("name part must be non-empty")
    return texts + [f"name part {each}" for each in _texts(name, 63, "bytes", _WORD, _WORD_TEXT)]


def labels(field: str, values: dict[str, str]) -> list[FieldError]:
    """Keys and values of labels, of a node selector, of ``matchLabels``."""
    errors = []
    for key, value in values.items():
        errors += [wrong(field, key, text) for text in qualified_name(key)]
        errors += [wrong(field, value, text) for text in label_value_texts(value)]
    return errors


def label_value_texts(value: str) -> list[str]:
    """The faults of a label's value; an empty one is right."""
    return _texts(value, 63, "bytes", _WORD, _VALUE_TEXT) if value else []


def _texts(value: str, most: int, unit: str, form: re.Pattern[str], text: str) -> list[str]:
    texts = [f"must be no more than {most} {unit}"] if len(value.encode()) > most else []
    return texts if form.fullmatch(value) else [*texts, text]
