"""Rewrites the parts of Kubernetes' dialect of CEL that our library cannot parse. Pure.

A message ``Object.spec{name: c.name}`` becomes the map ``{"name": c.name}``, which means the same to a patch. Optional selection
``a.?b[?c]`` becomes calls: ``a.optionalField("b").optionalIndex(c)``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

OPTIONAL_FIELD: Final = "optionalField"
OPTIONAL_INDEX: Final = "optionalIndex"

# The parts of a text that matter here: strings stay as they are, brackets nest, a name may be a message's field or a selection.
_TOKEN: Final = re.compile(
    r'''(?P<string>[rRbB]{0,2}(?:"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))
    |(?P<comment>//[^\n]*)
    |(?P<message>Object(?:\.[A-Za-z_]\w*)*\s*\{)
    |(?P<optional_field>\.\s*\?\s*(?P<chosen>[A-Za-z_]\w*))
    |(?P<optional_index>\[\s*\?)
    |(?P<member>\.\s*(?P<name>[A-Za-z_]\w*)(?!\w|\s*\())
    |(?P<open>[{(\[])|(?P<close>[})\]])
    |(?P<field>[A-Za-z_]\w*(?=\s*:))
    |(?P<space>\s+)
    |(?P<other>[A-Za-z_]\w*|.)''',
    re.VERBOSE | re.DOTALL,
)
_MESSAGE: Final = "message"
_INDEX: Final = "index"
_PLAIN: Final = "plain"


@dataclass(slots=True)
class _Text:
    """The new text so far, the kind of each open bracket, and whether the last value is an optional one."""

    written: list[str] = field(default_factory=list)
    nesting: list[str] = field(default_factory=list)
    is_optional: bool = False


def plain(expression: str) -> str:
    """The expression without messages of the type ``Object``, optional selections and comments."""
    text = _Text()
    for token in _TOKEN.finditer(expression):
        kind, word = token.lastgroup or "", token.group()
        if kind in ("space", "comment"):
            text.written.append(" " if kind == "comment" else word)
            continue
        new, text.is_optional = _rewritten(text, kind, word, token["chosen"] or token["name"])
        text.written.append(new)
    return "".join(text.written)


def _rewritten(text: _Text, kind: str, word: str, name: str | None) -> tuple[str, bool]:
    """The new word, and whether an optional value ends with it."""
    if kind == "optional_field" or (kind == "member" and text.is_optional):
        return f'.{OPTIONAL_FIELD}("{name}")', True
    if kind == "optional_index" or (word == "[" and text.is_optional):
        text.nesting.append(_INDEX)
        return f".{OPTIONAL_INDEX}(", False
    if kind in ("open", "message"):
        text.nesting.append(_MESSAGE if kind == "message" else _PLAIN)
        return "{" if kind == "message" else word, False
    if kind == "close" and text.nesting:
        is_index = text.nesting.pop() == _INDEX
        return ")" if is_index else word, is_index
    if kind == "field" and text.nesting[-1:] == [_MESSAGE] and _begins_a_field(text.written):
        return f'"{word}"', False
    return word, False


def _begins_a_field(written: list[str]) -> bool:
    """After the brace or a comma; not in the middle of a condition, ``a ? b : c``."""
    before = next((text for text in reversed(written) if text.strip()), "")
    return before in ("{", ",")
