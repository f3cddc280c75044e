"""Expressions of the Common Expression Language (CEL), in which policies are written. Pure; the one door to its library.

The library evaluates macros, maps and lists, but knows no messages. To Kubernetes ``Object.spec{name: c.name}`` is a message
whose type is the path; here it is made the map ``{"name": c.name}``, which says the same to whoever applies it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, Final, Protocol

# What a text is made of, as far as it matters here: strings stay as they are, braces nest, words may be names of fields.
_TOKEN: Final = re.compile(
    r"""(?P<string>[rRbB]{0,2}(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))
    |(?P<message>Object(?:\.[A-Za-z_]\w*)*\s*\{)
    |(?P<open>[{(\[])|(?P<close>[})\]])
    |(?P<field>[A-Za-z_]\w*(?=\s*:))
    |(?P<other>[A-Za-z_]\w*|.)""",
    re.VERBOSE | re.DOTALL,
)


class ExpressionError(Exception):
    """An expression that cannot be read, or has no value for this object."""


class _Program(Protocol):
    def execute(self, context: dict[str, Any]) -> Any: ...


def evaluate(expression: str, variables: Mapping[str, Any]) -> Any:
    """The value of an expression, as JSON's types. Raises ExpressionError."""
    try:
        return _compiled(expression).execute(dict(variables))
    except (ValueError, TypeError, LookupError, RuntimeError, ArithmeticError) as error:
        raise ExpressionError(f"{' '.join(expression.split())[:200]}: {error}") from error


@functools.lru_cache(maxsize=128)
def _compiled(expression: str) -> _Program:
    # Not at the top: the package brings a command line with it, a fifth of a second that only clusters with policies need.
    import cel

    return cel.compile(without_messages(expression))


def without_messages(expression: str) -> str:
    """The expression with maps where it has messages of the type ``Object``."""
    written: list[str] = []
    # For each open bracket, whether it is a message's.
    nesting: list[bool] = []
    for token in _TOKEN.finditer(expression):
        kind, text = token.lastgroup, token.group()
        if kind in ("message", "open"):
            nesting.append(kind == "message")
            text = "{" if kind == "message" else text
        elif kind == "close" and nesting:
            nesting.pop()
        elif kind == "field" and nesting and nesting[-1] and _begins_a_field(written):
            text = f'"{text}"'
        written.append(text)
    return "".join(written)


def _begins_a_field(written: list[str]) -> bool:
    """After the brace or a comma; not the middle of a condition, ``a ? b : c``."""
    before = next((text for text in reversed(written) if text.strip()), "")
    return before in ("{", ",")
