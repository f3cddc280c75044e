"""The fields of the kinds that we serve, as data: names, types, and how lists are merged.

``schemas.json`` holds, for each message of the API, its fields. A name ends in ``!`` if the field is required; a type is a
word (``string``, ``integer:int32``, ``boolean``, ``object``…) or the name of a message, with ``[]`` (list) or ``{}`` (map from
text) before it, and behind it how a strategic merge patch goes about it, and by which key. Taken from what Kubernetes 1.36
publishes of itself, without its prose.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from clusters.resources import Resource

LIST: Final = "[]"
MAP: Final = "{}"
_FILE: Final = Path(__file__).parent / "schemas.json"


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its type as it stands in the data, whether it is required, and how it is merged."""

    type: str
    is_required: bool = False
    strategy: str = ""
    merge_key: str = ""


Message = Mapping[str, Field]


@functools.cache
def messages() -> Mapping[str, Message]:
    """All messages that have fields, by name (``core.v1.Pod``)."""
    return {name: _message(fields) for name, fields in _data().items() if isinstance(fields, dict)}


@functools.cache
def scalars() -> Mapping[str, str]:
    """Messages that are written as one value (a quantity, a time): their type."""
    return {name: fields for name, fields in _data().items() if isinstance(fields, str)}


def message_name(api_version: str, kind: str) -> str:
    """The name of a kind's message; there need not be one."""
    group, _, version = api_version.rpartition("/")
    return f"{group.partition('.')[0] or 'core'}.{version}.{kind}"


def message_of(resource: Resource) -> str:
    """The name of a kind's message; there need not be one."""
    return message_name(resource.api_version, resource.kind)


@functools.cache
def _data() -> Mapping[str, dict[str, str] | str]:
    return msgspec.json.decode(_FILE.read_bytes(), type=dict[str, dict[str, str] | str])


def _message(fields: Mapping[str, str]) -> Message:
    found = {}
    for name, text in fields.items():
        type_, _, merge = text.partition(" ")
        strategy, _, key = merge.partition(" ")
        found[name.removesuffix("!")] = Field(type_, name.endswith("!"), strategy, key)
    return found
