"""Entries of a YAML document that are put in or taken out, with every other byte left as it is.

A library that loads and writes the document again changes more than asked: kubeadm's ``creationTimestamp: null``, indents, blanks
in lists. Here the parser's positions say where the text is cut or grows; the result is parsed again, and refused if it differs
from the document in anything else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import yaml
from yaml import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from gpushare.foreign import UnreadableError, compose_yaml, decode_yaml
from gpushare.setup.core.faults import SetupRefusedError

_NULL: Final = "tag:yaml.org,2002:null"


@dataclass(frozen=True, slots=True)
class Entry:
    """A value under a key, or an item of a list, that a document has to have."""

    at: tuple[str | int, ...]
    """The keys, and indexes of lists, on the way to the value, or to the list of the item."""
    value: Any
    is_item: bool = False

    def is_like(self, item: Any) -> bool:
        """Is it the same item, maybe with another value: the same flag, or the same name?"""
        if isinstance(item, dict):
            return isinstance(self.value, dict) and self._name(item) == self._name(self.value)
        return isinstance(self.value, str) and str(item).partition("=")[0] == self.value.partition("=")[0]

    @staticmethod
    def _name(item: dict[str, Any]) -> str:
        """An extender has no name, but the path that its program serves."""
        return str(item.get("name") or urlsplit(str(item.get("urlPrefix"))).path.rstrip("/"))


class _CannotEditError(Exception):
    """The text has a form in which no entry is put or taken out."""


def load(text: str, path: str) -> Any:
    """The one document of a file. Raises SetupRefusedError."""
    try:
        return decode_yaml(text)
    except UnreadableError as error:
        line = f", line {error.line}" if error.line is not None else ""
        raise SetupRefusedError(f"{path}{line}: no YAML: {error}", "fix the file, or restore it from a copy") from error


def mapping(document: Any, *at: str) -> dict[str, Any]:
    """The mapping under these keys; an empty one if there is none."""
    for step in at:
        document = document.get(step) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else {}


def applied(text: str, entries: Iterable[Entry], path: str) -> str:
    """The text with these entries. Raises SetupRefusedError."""
    return _edited(text, entries, path, is_there=True)


def removed(text: str, entries: Iterable[Entry], path: str) -> str:
    """The text without these entries, and without lists and mappings that they leave empty. Raises SetupRefusedError."""
    return _edited(text, entries, path, is_there=False)


def _edited(text: str, entries: Iterable[Entry], path: str, *, is_there: bool) -> str:
    data = load(text, path)
    for entry in entries:
        wanted = [entry.value] if is_there else []
        if found_in(data, entry) == wanted:
            continue
        try:
            text = (_put if is_there else _cut)(text, compose_yaml(text), entry)
            data, old = decode_yaml(text), data
            is_right = _without(data, entry) == _without(old, entry) and found_in(data, entry) == wanted
        except (_CannotEditError, UnreadableError):
            is_right = False
        if not is_right:
            place = ".".join(map(str, entry.at))
            by_hand = f"{'add to' if is_there else 'remove from'} {place} by hand: {json.dumps(entry.value)}"
            raise SetupRefusedError(f"{path}: {place} is written in a form that is not edited here", by_hand)
    return text


def found_in(data: Any, entry: Entry) -> list[Any]:
    """The values that stand for the entry in a document: one, or none, or more if an item is there twice."""
    for step in entry.at:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            return []
    if not entry.is_item:
        return [data]
    return [item for item in data if entry.is_like(item)] if isinstance(data, list) else []


def _without(data: Any, entry: Entry, depth: int = 0) -> Any:
    """The document without what stands for the entry, nor what is empty on the way to it."""
    if depth == len(entry.at):
        if not entry.is_item:
            return None
        return [item for item in data if not entry.is_like(item)] or None if isinstance(data, list) else data
    if not isinstance(data, dict | list):
        return data
    step = entry.at[depth]
    if isinstance(data, list):
        return [_without(item, entry, depth + 1) if at == step else item for at, item in enumerate(data)]
    kept = {key: _without(value, entry, depth + 1) if key == step else value for key, value in data.items()}
    return {key: value for key, value in kept.items() if key != step or value is not None} or None


def _child(node: Node, step: str | int) -> Node | None:
    if isinstance(node, SequenceNode) and isinstance(step, int):
        child: Node = node.value[step]
        return child
    if not isinstance(node, MappingNode):
        return None
    return next((value for key, value in node.value if key.value == step), None)


def _put(text: str, root: Any, entry: Entry) -> str:
    """Every node on the way that is there is used; what is missing below the last one is written there."""
    node, rest = root, list(entry.at)
    while node is not None and rest and (child := _child(node, rest[0])) is not None:
        node, rest = child, rest[1:]
    value = [entry.value] if entry.is_item and (rest or _is_null(node)) else entry.value
    for step in reversed(rest):
        value = {step: value}
    if node is None:
        return text + ("" if text.endswith("\n") or not text else "\n") + _block(value, 0)
    if _is_null(node) or (isinstance(node, ScalarNode) and not rest and not entry.is_item):
        start, end = node.start_mark.index, node.end_mark.index
        return f"{text[:start]}{'' if end > start else ' '}{json.dumps(value)}{text[end:]}"
    if isinstance(node, SequenceNode) and not rest:
        return _put_item(text, node, entry)
    if isinstance(node, MappingNode):
        return _put_first(text, node, value)
    raise _CannotEditError


def _is_null(node: Node | None) -> bool:
    return node is not None and node.tag == _NULL


def _block(value: Any, column: int) -> str:
    lines = yaml.safe_dump(value, sort_keys=False)
    return str(lines.replace("\n", "\n" + " " * column))


def _put_first(text: str, node: CollectionNode, value: Any) -> str:
    """Before what a mapping or a list begins with, so that comments stay with what they are about."""
    start = node.start_mark.index
    if node.flow_style:
        inner = json.dumps(value)[1:-1] + (", " if node.value else "")
        return text[: start + 1] + inner + text[start + 1 :]
    return text[:start] + _block(value, node.start_mark.column) + text[start:]


def _put_item(text: str, node: SequenceNode, entry: Entry) -> str:
    """A list of flags begins with the program, so a flag is put last."""
    for item in node.value:
        if isinstance(item, ScalarNode) and entry.is_like(item.value):
            return f"{text[: item.start_mark.index]}{entry.value}{text[item.end_mark.index :]}"
        if _is_extender(entry) and entry.is_like(_value(item)):
            if item.flow_style:
                return f"{text[: item.start_mark.index]}{json.dumps(entry.value)}{text[item.end_mark.index :]}"
            block = _block(entry.value, item.start_mark.column).rstrip()
            return f"{text[: item.start_mark.index]}{block}{text[_line_end(text, item) :]}"
    if isinstance(entry.value, dict) or not node.value:
        return _put_first(text, node, [entry.value])
    if node.flow_style:
        end = node.end_mark.index - 1
        return f"{text[:end]}, {json.dumps(entry.value)}{text[end:]}"
    end = _line_end(text, node.value[-1])
    return f"{text[:end]}\n{' ' * node.start_mark.column}- {entry.value}{text[end:]}"


def _cut(text: str, root: Any, entry: Entry) -> str:
    """Lists and mappings that the cut would leave empty go too, but the document stays."""
    node, way = root, []
    for step in entry.at:
        child = _child(node, step)
        assert child is not None
        way.append((node, step))
        node = child
    if entry.is_item:
        like = [item for item in node.value if entry.is_like(_value(item))]
        if len(like) < len(node.value):
            for item in reversed(like):
                text = _cut_lines(text, node, item, item)
            return text
    while len(way) > 1 and len(way[-1][0].value) == 1:
        way.pop()
    parent, step = way[-1]
    if not isinstance(parent, MappingNode) or parent.flow_style:
        raise _CannotEditError
    at = next(number for number, (key, _) in enumerate(parent.value) if key.value == step)
    key, value = parent.value[at]
    if text[_line_start(text, key) : key.start_mark.index].strip():
        # Behind the dash of a list.
        return text[: key.start_mark.index] + text[parent.value[at + 1][0].start_mark.index :]
    return _cut_lines(text, parent, key, value)


def _cut_lines(text: str, parent: Any, first: Node, last: Node) -> str:
    if parent.flow_style:
        raise _CannotEditError
    return text[: _line_start(text, first)] + text[_line_end(text, last) + 1 :]


def _is_extender(entry: Entry) -> bool:
    """A volume under our name with another path is a person's, and is not replaced."""
    return isinstance(entry.value, dict) and "urlPrefix" in entry.value


def _value(node: Node) -> Any:
    return yaml.SafeLoader("").construct_document(node)


def _line_start(text: str, node: Node) -> int:
    return text.rfind("\n", 0, node.start_mark.index) + 1


def _line_end(text: str, node: Node) -> int:
    """The end of the line in which the node ends; a block's own end is behind the comments that follow."""
    while isinstance(node, CollectionNode) and not node.flow_style and node.value:
        node = node.value[-1][1] if isinstance(node, MappingNode) else node.value[-1]
    end = text.find("\n", node.end_mark.index)
    return len(text) if end < 0 else end
