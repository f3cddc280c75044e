"""Expressions of the Common Expression Language (CEL), in which policies are written. Pure; the one door to its library."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

Function = Callable[..., Any]

_VARIABLES: Final = "variables"
_VARIABLE: Final = re.compile(rf"\b{_VARIABLES}\.(\w+)")
# The library knows these of texts already; its Python replacement, for lists, is none of Kubernetes'.
_NATIVE: Final = frozenset({"contains"})
# The parts of a text that matter to messages: strings stay as they are, brackets nest, a name may be a message's field.
_TOKEN: Final = re.compile(
    r'''(?P<string>[rRbB]{0,2}(?:"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))
    |(?P<message>Object(?:\.[A-Za-z_]\w*)*\s*\{)
    |(?P<open>[{(\[])|(?P<close>[})\]])
    |(?P<field>[A-Za-z_]\w*(?=\s*:))
    |(?P<space>\s+|//[^\n]*)
    |(?P<other>[A-Za-z_]\w*|.)''',
    re.VERBOSE | re.DOTALL,
)


class ExpressionError(Exception):
    """An expression that cannot be read, or has no value for this object; ``reason`` is the text without the expression."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


@dataclass(frozen=True, slots=True)
class _Program:
    """A compiled expression, and what it names."""

    execute: Callable[[Any], Any]
    names: tuple[str, ...]
    functions: Mapping[str, Function]
    """The functions that the library lacks."""
    calls: tuple[str, ...]
    composed: tuple[str, ...]
    """The ``variables.NAME`` that it uses."""


class Scope:
    """The variables and functions of one evaluation, which several expressions share.

    A value is converted for the library when the first expression names it.
    """

    def __init__(self, values: Mapping[str, Any], functions: Mapping[str, Function] | None = None) -> None:
        # Not at the top: the package brings a command line with it, a fifth of a second that only clusters with policies need.
        import cel

        self._context = cel.Context()
        self._values = values
        self._functions = functions or {}
        self._composed: Mapping[str, str] = {}
        self._known: set[str] = set()
        self._variables: dict[str, Any] = {}
        self._failed: dict[str, str] = {}
        self._given = -1

    def compose(self, expressions: Mapping[str, str]) -> None:
        """From now on these are the expressions of ``variables.NAME``, each evaluated at most once, when it is used."""
        self._composed, self._variables, self._failed, self._given = expressions, {}, {}, -1

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, as JSON's types. Raises ExpressionError."""
        try:
            program = _compiled(expression)
            self._provide(program)
            return program.execute(self._context)
        except (ValueError, TypeError, LookupError, RuntimeError, ArithmeticError) as error:
            reason = self._reason(error)
            raise ExpressionError(f"expression '{expression}' resulted in error: {reason}", reason) from error

    def _provide(self, program: _Program) -> None:
        """Hand the library what the expression names and what it has not yet."""
        for name in program.names:
            if name in self._values and name not in self._known:
                self._known.add(name)
                self._context.add_variable(name, self._values[name])
        own = {name: self._functions[name] for name in program.calls if name in self._functions}
        for name, function in {**program.functions, **own}.items():
            if f"{name}()" not in self._known:
                self._known.add(f"{name}()")
                self._context.add_function(name, function)
        for name in program.composed:
            self._compose(name)
        if program.composed and self._given != len(self._variables):
            self._given = len(self._variables)
            self._context.add_variable(_VARIABLES, self._variables)

    def _compose(self, name: str) -> None:
        """Evaluate one of the policy's own variables; one that fails is an error only for the expression that comes to it."""
        if name in self._variables or name in self._failed or name not in self._composed:
            return
        self._failed[name] = "it refers to itself"
        try:
            self._variables[name] = self.evaluate(self._composed[name])
        except ExpressionError as error:
            self._failed[name] = error.reason
        else:
            del self._failed[name]

    def _reason(self, error: Exception) -> str:
        if isinstance(error, KeyError):
            key = str(error.args[0])
            if key in self._failed:
                return f'composited variable "{key}" fails to evaluate: {self._failed[key]}'
            return f"no such key: {key}"
        return "no such overload" if isinstance(error, TypeError) else str(error)


@functools.lru_cache(maxsize=512)
def _compiled(expression: str) -> _Program:
    import cel
    from cel.stdlib import STDLIB_FUNCTIONS

    program = cel.compile(without_messages(expression))
    calls, names = tuple(program.functions()), tuple(program.variables())
    functions = {name: function for name, function in STDLIB_FUNCTIONS.items() if _is_called(name, calls, names)}
    composed = tuple(dict.fromkeys(_VARIABLE.findall(expression)))
    return _Program(program.execute, names, functions, calls, composed)


def _is_called(function: str, calls: tuple[str, ...], names: tuple[str, ...]) -> bool:
    """Whether an expression needs ``join`` or ``sets.contains``: the latter is a call of ``contains`` and a name ``sets``."""
    library, _, word = function.rpartition(".")
    return word in calls and function not in _NATIVE and (not library or library in names)


def without_messages(expression: str) -> str:
    """The expression with messages, ``Object.spec{name: c.name}``, as maps, ``{"name": c.name}``, which mean the same to a patch.

    The library cannot parse messages.
    """
    written: list[str] = []
    nesting: list[bool] = []
    before = ""
    for token in _TOKEN.finditer(expression):
        kind, word = token.lastgroup, token.group()
        if kind in ("open", "message"):
            nesting.append(kind == "message")
            word = "{" if kind == "message" else word
        elif kind == "close" and nesting:
            nesting.pop()
        # A field comes after the brace or a comma; not in the middle of a condition, ``a ? b : c``.
        elif kind == "field" and nesting[-1:] == [True] and before in ("{", ","):
            word = f'"{word}"'
        written.append(word)
        before = before if kind == "space" else word
    return "".join(written)
