"""The text of a label selector: words, then requirements. Pure; errors name the expected token as the real server's do."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from clusters.embedded.apiserver.field_rules import label_value_texts, qualified_name
from clusters.embedded.apiserver.refusals import bad_request

Labels = dict[str, str]
Requirement = Callable[[Labels], bool]

# Signs stand for themselves, everything between them and blanks is a word.
_TOKENS: Final = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)")
_SIGNS: Final = frozenset("=!(),<>") | {"==", "!="}
_EXACT: Final = ("=", "==", "!=", ">", "<")
_SETS: Final = ("in", "notin")
_NUMBER: Final = re.compile(r"[-+]?\d{1,18}")


class _UnreadableError(Exception):
    """Part of the text that means nothing."""


@dataclass(slots=True)
class _Words:
    """The text, word by word; at its end there are only empty words."""

    words: list[str]
    at: int = 0

    def ahead(self) -> str:
        return self.words[self.at] if self.at < len(self.words) else ""

    def next(self) -> str:
        word = self.ahead()
        self.at += 1
        return word

    def identifier(self, text: str = "identifier") -> str:
        word = self.next()
        if not word or word in _SIGNS:
            raise _UnreadableError(f"found '{word}', expected: {text}")
        return word


def parse(text: str) -> list[Requirement]:
    """The requirements, all of which must hold. Raises RefusalError (400)."""
    try:
        return _requirements(_Words(_TOKENS.findall(text)))
    except _UnreadableError as error:
        raise bad_request(str(error)) from error


def _requirements(words: _Words) -> list[Requirement]:
    found: list[Requirement] = []
    while word := words.ahead():
        if word in _SIGNS and word != "!":
            raise _UnreadableError(f"found '{word}', expected: !, identifier, or 'end of string'")
        try:
            found.append(_requirement(words))
        except _UnreadableError as error:
            raise _UnreadableError(f"unable to parse requirement: {error}") from error
        _after_requirement(words)
    return found


def _after_requirement(words: _Words) -> None:
    word = words.next()
    if word not in ("", ","):
        raise _UnreadableError(f"found '{word}', expected: ',' or 'end of string'")
    following = words.ahead()
    if word == "," and (not following or (following in _SIGNS and following != "!")):
        raise _UnreadableError(f"found '{following}', expected: identifier after ','")


def _requirement(words: _Words) -> Requirement:
    absent = words.ahead() == "!"
    if absent:
        words.next()
    key = words.identifier()
    texts = qualified_name(key)
    if texts:
        raise _UnreadableError(_listed([f'<nil>: Invalid value: "{key}": {text}' for text in texts]))
    if words.ahead() in ("", ","):
        return lambda labels: (key not in labels) == absent
    operator = words.next()
    if operator not in _EXACT and operator not in _SETS:
        raise _UnreadableError(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
    values = _set(words) if operator in _SETS else {_exact(words)}
    _check_values(key, operator, sorted(values))
    return _predicate(key, operator, values)


def _check_values(key: str, operator: str, values: list[str]) -> None:
    texts = []
    for at, value in enumerate(values):
        if operator in ("<", ">") and not _NUMBER.fullmatch(value):
            texts.append(
                f"values[{at}]: Invalid value: \"{value}\": for 'Gt', 'Lt' operators, the value must be an integer"
            )
        texts += [f'values[{at}][{key}]: Invalid value: "{value}": {text}' for text in label_value_texts(value)]
    if texts:
        raise _UnreadableError(_listed(texts))


def _predicate(key: str, operator: str, values: set[str]) -> Requirement:
    if operator in ("!=", "notin"):
        return lambda labels: labels.get(key) not in values
    if operator in ("<", ">"):
        bound = int(next(iter(values)))
        return lambda labels: _compares(labels.get(key), operator, bound)
    return lambda labels: labels.get(key) in values


def _compares(value: str | None, operator: str, bound: int) -> bool:
    if value is None or not _NUMBER.fullmatch(value):
        return False
    return int(value) > bound if operator == ">" else int(value) < bound


def _exact(words: _Words) -> str:
    return "" if words.ahead() in ("", ",") else words.identifier()


def _set(words: _Words) -> set[str]:
    """The values between parentheses; one that is left out is an empty text."""
    if (word := words.next()) != "(":
        raise _UnreadableError(f"found '{word}' expected: '('")
    if words.ahead() != ")" and words.ahead() in _SIGNS - {","}:
        raise _UnreadableError(f"found '{words.ahead()}', expected: ',', ')' or identifier")
    values: set[str] = set()
    while True:
        word = "" if words.ahead() in (",", ")") else words.identifier("',', or identifier")
        values.add(word)
        following = words.ahead()
        if following not in (",", ")"):
            raise _UnreadableError(f"found '{following}', expected: ',' or ')'")
        words.next()
        if following == ")":
            return values


def _listed(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
