"""Which requests an admission policy is about, and what mutating policies make of new objects. Pure.

MutatingAdmissionPolicies are supported in part: policies with a binding, on creations, with match conditions, variables ``object``,
``oldObject``, ``request`` and ``namespaceObject``, and mutations of the form ApplyConfiguration. A policy that asks for more
(parameters, JSON patches, variables of its own) fails, by its ``failurePolicy``: an unsupported part must not look as if it did
nothing.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from clusters.api.resources import NAMESPACES, Resource
from clusters.embedded.apiserver import patch
from clusters.embedded.apiserver.api_objects import Object, labels_of, name_of, without_empties
from clusters.embedded.apiserver.api_selectors import matches_selector
from clusters.embedded.apiserver.refusals import forbidden, group_of

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


CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"
_ANY: Final = "*"
_APPLY: Final = "ApplyConfiguration"


@dataclass(frozen=True, slots=True)
class Deed:
    """An operation on a kind: enough to leave most policies aside."""

    operation: str
    resource: Resource
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class Admitted:
    """One object on its way into the store, or out of it."""

    deed: Deed
    namespace: str
    name: str
    new: Object | None = None
    old: Object | None = None
    namespace_object: Object | None = None


def may_match(match: Object, deed: Deed) -> bool:
    """Whether the rules name such a request, whatever its object is; a policy without rules names all of them."""
    rules = match.get("resourceRules") or []
    return not rules or any(_names_deed(rule, deed) for rule in rules)


def matches(match: Object, admitted: Admitted) -> bool:
    """Whether ``matchConstraints`` or ``matchResources`` are about it."""
    rules = match.get("resourceRules") or []
    return (
        (not rules or _any_names(rules, admitted))
        and not _any_names(match.get("excludeResourceRules") or [], admitted)
        and _selects_namespace(match.get("namespaceSelector") or {}, admitted)
        and _selects_object(match.get("objectSelector") or {}, admitted)
    )


def _any_names(rules: Iterable[Object], admitted: Admitted) -> bool:
    return any(_names_deed(rule, admitted.deed) and _names_object(rule, admitted) for rule in rules)


def _names_deed(rule: Object, deed: Deed) -> bool:
    wanted = (
        ("operations", deed.operation),
        ("apiGroups", group_of(deed.resource)),
        ("apiVersions", deed.resource.api_version.rpartition("/")[2]),
    )
    named = all(_lists(rule.get(key) or (), word) for key, word in wanted)
    return named and any(_covers(each, deed) for each in rule.get("resources") or ())


def _covers(pattern: str, deed: Deed) -> bool:
    """``pods``, ``pods/status``, ``pods/*``, ``*/status``, ``*`` (no subresource), ``*/*``."""
    plural, _, subresource = pattern.partition("/")
    return plural in (_ANY, deed.resource.plural) and subresource in (_ANY, deed.subresource)


def _names_object(rule: Object, admitted: Admitted) -> bool:
    names, scope = rule.get("resourceNames") or (), rule.get("scope") or _ANY
    is_namespaced = admitted.deed.resource != NAMESPACES and bool(admitted.namespace)
    in_scope = scope == _ANY or (scope == "Namespaced") == is_namespaced
    return in_scope and (not names or admitted.name in names)


def _selects_namespace(selector: Object, admitted: Admitted) -> bool:
    """By the labels of its namespace; a Namespace by its own labels; any other object of the whole cluster is selected."""
    if not selector:
        return True
    if admitted.deed.resource == NAMESPACES:
        return matches_selector(selector, labels_of(admitted.new or admitted.old or {}))
    return admitted.namespace_object is None or matches_selector(selector, labels_of(admitted.namespace_object))


def _selects_object(selector: Object, admitted: Admitted) -> bool:
    """By the labels before or after the change."""
    states = [each for each in (admitted.new, admitted.old) if each is not None]
    return not selector or any(matches_selector(selector, labels_of(each)) for each in states)


def _lists(words: Any, word: str) -> bool:
    return word in words or _ANY in words


def mutated(creation: Admitted, policies: Iterable[Object], bindings: Iterable[Object]) -> Object:
    """The new object after all policies that are bound, by name. Raises RefusalError (403) if one fails that may not."""
    bound = {binding["spec"].get("policyName") for binding in bindings}
    item = creation.new or {}
    for policy in sorted(policies, key=name_of):
        spec = policy["spec"]
        if name_of(policy) not in bound or not matches(spec.get("matchConstraints", {}), creation):
            continue
        try:
            item = _after(spec, creation, item)
        except ExpressionError as error:
            if spec.get("failurePolicy") != "Ignore":
                text = f"policy '{name_of(policy)}' denied request: {error}"
                raise forbidden(creation.deed.resource, creation.name, text) from error
    return item


def _after(spec: Object, creation: Admitted, item: Object) -> Object:
    """The object after one policy. Raises ExpressionError."""
    _check_support(spec)
    scope = _scope(creation, item)
    if not all(scope.evaluate(condition["expression"]) is True for condition in spec.get("matchConditions", [])):
        return item
    for mutation in spec.get("mutations", []):
        wanted = _scope(creation, item).evaluate(mutation["applyConfiguration"]["expression"])
        if not isinstance(wanted, dict):
            raise ExpressionError("a mutation's value is no object")
        try:
            item = patch.apply(copy.deepcopy(item), without_empties(wanted))
        except (ValueError, TypeError, AttributeError) as error:
            raise ExpressionError(f"the mutation does not fit the object: {error}") from error
    return item


def _check_support(spec: Object) -> None:
    missing = [key for key in ("paramKind", "variables") if spec.get(key)]
    missing += [mutation["patchType"] for mutation in spec.get("mutations", []) if mutation["patchType"] != _APPLY]
    if missing:
        raise ExpressionError(f"the embedded API server knows no {', '.join(missing)} of admission policies")


def _scope(creation: Admitted, item: Object) -> Scope:
    request = {"operation": CREATE, "namespace": creation.namespace, "name": name_of(item)}
    about = {"object": item, "oldObject": None, "request": request, "namespaceObject": creation.namespace_object}
    return Scope(about)
