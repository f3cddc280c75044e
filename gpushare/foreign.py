"""JSON and YAML from outside become values here alone: from the API server, a kubelet, a node, an author, a file, a person.

A parser raises many kinds of exceptions, and some only for odd input: RecursionError for thousands of levels, ValueError for a
number of thousands of digits, AttributeError for a YAML tag. Here each becomes ``UnreadableError``, so no text can end a program.

An API server takes 10,000 levels of JSON in a field without a type (``metadata.managedFields``, which the author of an object
writes), and the parser follows them by recursion, even to skip them. We read no field below a dozen levels. So JSON that is too
deep for the parser is decoded without its deepest values: nothing that we read is lost, and it hides no object.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import msgspec
import yaml

from gpushare.bounds import YAML_CHARACTERS, YAML_VALUES
from gpushare.errors import GpushareError

_T = TypeVar("_T")

# Levels of JSON that are kept of a text with too many. The deepest field that we read is on the ninth.
_DEEPEST: Final = 64
_LONGEST_REASON: Final = 300
_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# Everything up to the next bracket; and up to the next bracket of a value that has others in it.
_PLAIN: Final = rb'[^"{}\[\]]*+(?:' + _STRING + rb'[^"{}\[\]]*+)*+'
_SHALLOW: Final = _PLAIN + rb"(?:[{\[]" + _PLAIN + rb"[}\]]" + _PLAIN + rb")*+"
_NEXT: Final = re.compile(_SHALLOW + rb"(?:[{\[]|([}\]]++))", re.DOTALL)
_DIGITS: Final = 20


class UnreadableError(GpushareError):
    """A text from outside that cannot be read; its message may quote it. ``line`` is one of YAML, from 1, if it is known."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message)
        self.line = line
        self.place = "" if line is None else f" at line {line}, column {column}"


class Decoder(Generic[_T]):
    """Decodes JSON as ``kind``.

    A text of many levels takes about 50 times as long as another; one of more than ``most_if_deep`` bytes is refused.
    """

    def __init__(self, kind: type[_T], most_if_deep: int | None = None) -> None:
        self._decode = msgspec.json.Decoder(kind).decode
        self._most_if_deep = most_if_deep

    def decode(self, text: bytes | msgspec.Raw | str) -> _T:
        """The value. Raises UnreadableError."""
        try:
            try:
                return self._decode(text)
            except RecursionError:
                whole = text.encode() if isinstance(text, str) else bytes(text)
                if self._most_if_deep is not None and len(whole) > self._most_if_deep:
                    raise
            return self._decode(without_depths(whole))
        except Exception as error:
            raise _unreadable(error) from error


_ANY: Final = Decoder[Any](object)


def entries_of(text: str, decoder: Decoder[tuple[_T, ...]], is_sane: Callable[[_T], bool]) -> tuple[_T, ...]:
    """The entries of a list that another may have written; none if the text is no such list, or if one entry makes no sense."""
    try:
        found = decoder.decode(text)
    except UnreadableError:
        return ()
    return found if all(map(is_sane, found)) else ()


def decode_json(text: bytes | str) -> Any:
    """The value of JSON of any form. Raises UnreadableError."""
    return _ANY.decode(text)


def without_depths(text: bytes) -> bytes:
    """JSON with ``null`` for what is nested more than 64 levels deep; text that is no JSON may become empty.

    In time that grows as the text does, whatever its form, and without recursion.
    """
    kept, depth, begin, at = list[bytes](), 0, 0, 0
    while (found := _NEXT.match(text, at)) is not None:
        at = found.end()
        if found[1] is None:
            if depth == _DEEPEST:
                kept.append(text[begin : at - 1])
            depth += 1
            continue
        # Closing brackets that stand together.
        left = depth - len(found[1])
        if left <= _DEEPEST < depth:
            kept.append(b"null")
            begin = at - (_DEEPEST - left)
        depth = left
    return b"" if depth else b"".join([*kept, text[begin:]])


class _Loader(yaml.SafeLoader):
    """PyYAML's loader in Python (the one in C crashes at tens of thousands of levels), which counts what aliases repeat.

    A reader of the loaded value meets what an alias names as often as it is named: nine lists of nine aliases each are a billion.
    As Kubernetes reads YAML, a date is a text.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012  # PyYAML's own form
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, stream: str | bytes) -> None:
        super().__init__(stream)
        self._values = 0
        self._values_of: dict[str, int] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """As the one it extends. Raises UnreadableError for too many values."""
        event: yaml.NodeEvent = self.peek_event()  # type: ignore[no-untyped-call]
        anchor, before = event.anchor or "", self._values
        node = super().compose_node(parent, index)
        if isinstance(event, yaml.AliasEvent):
            if anchor not in self._values_of:
                raise UnreadableError(f"the alias {anchor[:50]!r} is inside what it names")
            self._values += self._values_of[anchor]
        else:
            self._values += 1
            self._values_of[anchor] = self._values - before
        if YAML_VALUES.exceeded(self._values):
            raise UnreadableError(YAML_VALUES.refusal)
        return node


def decode_yaml(text: bytes | str) -> Any:
    """The value of the one document, None for an empty text. Raises UnreadableError."""
    return _loaded(text, lambda loader: loader.get_single_data())


def decode_each_yaml(text: bytes | str) -> list[Any]:
    """The values of all documents. Raises UnreadableError."""

    def each(loader: _Loader) -> list[Any]:
        found = []
        while loader.check_node():
            found.append(loader.get_data())
        return found

    return list(_loaded(text, each))


def compose_yaml(text: str) -> Any:
    """The nodes of the one document, with their places in the text. Raises UnreadableError."""
    return _loaded(text, lambda loader: loader.get_single_node())


def _loaded(text: bytes | str, load: Any) -> Any:
    if YAML_CHARACTERS.exceeded(len(text)):
        raise UnreadableError(YAML_CHARACTERS.refusal)
    try:
        loader = _Loader(text)
        try:
            return load(loader)
        finally:
            loader.dispose()
    except Exception as error:
        raise _unreadable(error) from error


def version_number(text: str) -> int:
    """A resourceVersion or a time in decimal digits as a number, 0 if it cannot be one: then it has no place in an order."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else 0


def _unreadable(error: Exception) -> UnreadableError:
    if isinstance(error, UnreadableError):
        return error
    if isinstance(error, RecursionError):
        return UnreadableError("it is nested too deeply")
    mark = getattr(error, "problem_mark", None)
    reason = " ".join(str(getattr(error, "problem", None) or error).split()) or type(error).__name__
    return UnreadableError(reason[:_LONGEST_REASON], *(() if mark is None else (mark.line + 1, mark.column + 1)))
