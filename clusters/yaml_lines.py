"""The line of a YAML text that an error of msgspec is about. Pure."""

from __future__ import annotations

import re
from typing import Final

import yaml

# The end of msgspec's text: `$.extender.argv[0]`; and what it quotes before, a field or a value.
_PATH: Final = re.compile(r"`\$([^`]*)`$")
_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")
_QUOTED: Final = re.compile(r"unknown field `([^`]*)`|enum value '([^']*)'")


def place_of(text: str, error: str) -> str:
    """``, line 7`` for an error in the text, or "" if it names no place there."""
    try:
        node = yaml.compose(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError):
        return ""
    if node is None:
        return ""
    path = _PATH.search(error)
    for step in _STEP.finditer(path[1] if path else ""):
        node = _below(node, step[1], step[2]) or node
    quoted = _QUOTED.search(error)
    named = _named(node, quoted[1] or quoted[2]) if quoted else None
    return f", line {(named or node).start_mark.line + 1}"


def _below(node: yaml.Node, key: str | None, index: str | None) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for name, value in node.value if name.value == key), None)
    if isinstance(node, yaml.SequenceNode) and index is not None:
        return node.value[int(index)] if int(index) < len(node.value) else None
    return None


def _named(node: yaml.Node, name: str) -> yaml.Node | None:
    """The key or the element of that name."""
    if not isinstance(node, yaml.MappingNode | yaml.SequenceNode):
        return None
    parts = [part[0] if isinstance(part, tuple) else part for part in node.value]
    return next((part for part in parts if part.value == name), None)
