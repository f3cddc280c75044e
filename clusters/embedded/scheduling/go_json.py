"""JSON as Go's decoder reads it into types, with Go's errors for text and values that do not fit. Pure.

The first JSON value only, unknown keys passed over, keys matched whatever their case, null like absent, and a value of
the wrong type an error.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

INT64 = range(-(2**63), 2**63)
# Go's errors for those of Python's parser.
SYNTAX = {
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Illegal trailing comma before end of object": "looking for beginning of object key string",
    "Expecting ':' delimiter": "after object key",
    "Expecting ',' delimiter": "after object key:value pair",
    "Invalid control character at": "in string literal",
}


class AnswerError(ValueError):
    """An answer that Go's decoder would refuse, or one with ``Error`` set."""


@dataclass(frozen=True, slots=True)
class Struct:
    """A Go type that is decoded, by the names that its errors carry."""

    name: str
    fields: tuple[str, ...]

    def field(self, name: str) -> str:
        """How an error speaks of one field."""
        return f"Go struct field {self.name}.{name}"


def decode(body: bytes) -> Any:
    """The first JSON value of a body; what follows is not read."""
    text = body.decode(errors="replace").lstrip(" \t\r\n")
    if not text:
        raise AnswerError("EOF")

    def refuse(constant: str) -> Any:
        raise AnswerError(f"invalid character {quoted(constant[0])} looking for beginning of value")

    try:
        value, _ = json.JSONDecoder(parse_constant=refuse).raw_decode(text)
    except json.JSONDecodeError as error:
        raise AnswerError(syntax_error(error)) from error
    except RecursionError as error:
        raise AnswerError("exceeded max depth") from error
    return value


def syntax_error(error: json.JSONDecodeError) -> str:
    """Go's error for text that is no JSON."""
    if error.pos >= len(error.doc) or error.msg.startswith("Unterminated"):
        return "unexpected EOF"
    character, what = error.doc[error.pos], SYNTAX.get(error.msg, "looking for beginning of value")
    if error.msg == "Expecting value":
        for literal in ("true", "false", "null"):
            wrong = next((i for i, letter in enumerate(literal) if error.doc[error.pos + i :][:1] != letter), 0)
            if character == literal[0] and wrong:
                rest = error.doc[error.pos + wrong :]
                expected = f"in literal {literal} (expecting {quoted(literal[wrong])})"
                return f"invalid character {quoted(rest[0])} {expected}" if rest else "unexpected EOF"
    if error.msg == "Expecting ',' delimiter" and is_in_array(error.doc[: error.pos]):
        what = "after array element"
    return f"invalid character {quoted(character)} {what}"


def quoted(character: str) -> str:
    """One character as Go shows it."""
    special = {"'": "\\'", '"': '"'}
    return f"'{special.get(character) or json.dumps(character)[1:-1]}'"


def is_in_array(text: str) -> bool:
    """Whether the innermost bracket that is open at the end of the text is that of an array."""
    without_strings = re.sub(r'"(\\.|[^"\\])*"', "", text)
    open_brackets: list[str] = []
    for character in without_strings:
        if character in "[{":
            open_brackets.append(character)
        elif character in "]}" and open_brackets:
            open_brackets.pop()
    return open_brackets[-1:] == ["["]


def struct(value: Any, shape: Struct, where: str = "Go value") -> dict[str, Any]:
    """The fields of an object, None if absent; of keys that differ in case only the last wins."""
    fields: dict[str, Any] = dict.fromkeys(shape.fields)
    if value is None:
        return fields
    if not isinstance(value, dict):
        raise mismatch(value, where, f"v1.{shape.name}")
    folded = {name.casefold(): name for name in shape.fields}
    for key, content in value.items():
        name = folded.get(key.casefold())
        if name is not None:
            fields[name] = content
    return fields


def array(value: Any, where: str, wanted: str) -> list[Any]:
    """A JSON array; null is an empty one."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise mismatch(value, where, wanted)
    return value


def strings(value: Any, where: str) -> list[str]:
    """An array of strings."""
    return [string(each, where) for each in array(value, where, "[]string")]


def string(value: Any, where: str) -> str:
    """A JSON string; null is the empty one."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise mismatch(value, where, "string")
    return value


def mapping(value: Any, where: str, wanted: str) -> dict[str, Any]:
    """An object with keys that are data, so their case stays; null is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise mismatch(value, where, wanted)
    return value


def integer(value: Any, where: str) -> int:
    """A JSON number without fraction or exponent; null is 0."""
    if value is None:
        return 0
    if isinstance(value, int | float) and not isinstance(value, bool):
        if isinstance(value, float) or value not in INT64:
            raise AnswerError(f"json: cannot unmarshal number {value} into {where} of type int64")
        return value
    raise mismatch(value, where, "int64")


def mismatch(value: Any, where: str, wanted: str) -> AnswerError:
    """Go's error for a value of the wrong type."""
    return AnswerError(f"json: cannot unmarshal {kind(value)} into {where} of type {wanted}")


def kind(value: Any) -> str:
    """The type of a JSON value, for a message."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    names: dict[type, str] = {str: "string", list: "array"}
    return names.get(type(value), "object")
