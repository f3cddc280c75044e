"""A history from a seed: mostly what clients do, and a good share of what they should not do. Pure.

A small model of what is there keeps most operations sensible; it need not be right, as nothing is judged by it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from e2e.parity.histories import history_changes
from e2e.parity.histories.history_samples import (
    FIELD_SELECTORS,
    KINDS,
    LABEL_SELECTORS,
    PODS,
    WEIGHTS,
    WRONG_FIELD_SELECTORS,
    WRONG_LABEL_SELECTORS,
    Kind,
)
from e2e.parity.histories.operations import (
    END,
    FUTURE,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC,
    WATCH,
    History,
    Operation,
    Until,
    merged,
)

_NS: Final = "${ns}"
_WORDS: Final = ("a", "b", "c", "d")
# Events are one kind under two names; a change under the other name is a write even if nothing changes, as it moves the
# ownership of fields, which the embedded server does not keep. So each is changed under the name that created it.
_OWN_WORDS: Final = {"events": ("a", "b"), "events.v1": ("c", "d")}
# Three seconds each on the real server, so there are few of them.
_FUTURE_SHARE: Final = 0.004
_PATCHES: Final[dict[str, Callable[[random.Random, Kind, str], Any]]] = {
    JSON_PATCH: history_changes.json_patch,
    MERGE_PATCH: history_changes.merge_patch,
    STRATEGIC: history_changes.strategic_patch,
}


def generate(seed: int, operations: int) -> History:
    """The history of a seed."""
    generator = _Generator(random.Random(seed))
    for _ in range(operations):
        generator.step()
    return generator.history


@dataclass(slots=True)
class _Model:
    """The objects that should exist, and the operations with an answer that can be referred to."""

    alive: set[tuple[str, str]] = field(default_factory=set)
    shown: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    lists: dict[str, list[int]] = field(default_factory=dict)
    pages: dict[str, list[int]] = field(default_factory=dict)


class _Generator:
    def __init__(self, randomness: random.Random) -> None:
        self.history: History = []
        self._random = randomness
        self._model = _Model()
        self._weights: dict[Callable[[Kind], None], int] = {
            self._create: 22,
            self._patch: 26,
            self._put: 12,
            self._delete: 10,
            self._delete_collection: 2,
            self._bind: 7,
            self._get: 5,
            self._list: 9,
            self._next_page: 3,
            self._watch: 8,
            self._relabel: 9,
        }

    def step(self) -> None:
        """One more operation."""
        verb = self._random.choices(list(self._weights), list(self._weights.values()))[0]
        verb(self._random.choices(KINDS, WEIGHTS)[0])

    def _add(self, method: str, path: str, **more: Any) -> int:
        number = len(self.history)
        self.history.append(Operation(number, method, path, **more))
        return number

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def _name(self, kind: Kind) -> str:
        """Mostly one that is thought to be there."""
        alive = sorted(word for key, word in self._model.alive if key == kind.key)
        words = _OWN_WORDS.get(kind.key, _WORDS)
        return self._random.choice(alive) if alive and self._chance(0.9) else self._random.choice(words)

    def _any_name(self, kind: Kind) -> str:
        """One that may have been made under another name of the kind."""
        return self._random.choice(_WORDS) if kind.key in _OWN_WORDS and self._chance(0.3) else self._name(kind)

    def _path(self, kind: Kind, word: str | None = None, sub: str | None = None) -> str:
        parts = [kind.path(_NS)]
        if word is not None:
            parts.append(kind.name(_NS, word))
        return "/".join([*parts, sub] if sub else parts)

    def _dry(self) -> dict[str, str]:
        return {"dryRun": "All"} if self._chance(0.03) else {}

    def _saw(self, kind: Kind, word: str, number: int) -> None:
        self._model.shown.setdefault((kind.key, word), []).append(number)

    def _seen(self, kind: Kind, word: str) -> int | None:
        """An operation that answered this object: mostly the newest, else one that may be stale."""
        found = self._model.shown.get((kind.key, word))
        if not found:
            return None
        return found[-1] if self._chance(0.7) else self._random.choice(found)

    def _any_version(self, kind: Kind) -> str | None:
        """A version of any kind's writes, for watches and lists that go back."""
        numbers = [each for found in self._model.shown.values() for each in found] + self._model.lists.get(kind.key, [])
        return f"${{version:{self._random.choice(numbers)}}}" if numbers else None

    def _create(self, kind: Kind) -> None:
        taken = {word for key, word in self._model.alive if key == kind.key}
        words = _OWN_WORDS.get(kind.key, _WORDS)
        free = [word for word in words if word not in taken]
        word = self._random.choice(free) if free and self._chance(0.85) else self._random.choice(words)
        body = history_changes.new_object(self._random, kind, word)
        dry = self._dry()
        number = self._add("POST", self._path(kind), body=body, params=dry)
        self._saw(kind, word, number)
        if not dry:
            self._model.alive.add((kind.key, word))

    def _put(self, kind: Kind) -> None:
        word = self._name(kind)
        seen = self._seen(kind, word)
        sub = "status" if kind.has_status and self._chance(0.35) else None
        change = history_changes.put_change(self._random, kind, word, status=sub is not None)
        if seen is None or self._chance(0.08):
            body: Any = merged(kind.sample(_NS, word), change)
        else:
            body = {f"${{object:{seen}}}": merged(change, history_changes.put_conditions(self._random))}
        self._saw(kind, word, self._add("PUT", self._path(kind, word, sub), body=body, params=self._dry()))

    def _patch(self, kind: Kind) -> None:
        word = self._name(kind)
        sub = "status" if kind.has_status and self._chance(0.4) else None
        content_type = self._random.choice(list(_PATCHES))
        body = _PATCHES[content_type](self._random, kind, sub or "")
        seen = self._seen(kind, word)
        if seen is not None and self._chance(0.15):
            body = history_changes.with_condition(self._random, content_type, body, seen)
        if self._chance(0.02):
            content_type = self._random.choice(("application/yaml", JSON, "text/plain"))
        number = self._add(
            "PATCH", self._path(kind, word, sub), body=body, content_type=content_type, params=self._dry()
        )
        self._saw(kind, word, number)

    def _relabel(self, kind: Kind) -> None:
        """So that objects enter and leave what watches select."""
        labels = self._random.choice(({"app": "one"}, {"app": "two"}, {"app": None}, {"app": "two", "tier": "back"}))
        word = self._name(kind)
        body = {"metadata": {"labels": labels}}
        self._saw(kind, word, self._add("PATCH", self._path(kind, word), body=body, content_type=MERGE_PATCH))

    def _delete(self, kind: Kind) -> None:
        word = self._any_name(kind)
        body: Any = history_changes.delete_options(self._random, self._seen(kind, word))
        params = self._dry()
        if params and self._chance(0.7):
            # With a body the query does not count.
            body = {**body, "dryRun": ["All"]} if body else None
        number = self._add("DELETE", self._path(kind, word), body=body, params=params)
        self._saw(kind, word, number)
        if self._chance(0.7):
            self._model.alive.discard((kind.key, word))

    def _delete_collection(self, kind: Kind) -> None:
        params = self._selectors(kind)[0]
        if not kind.namespaced:
            params["labelSelector"] = f"history={_NS},tier=back"
        body = {"gracePeriodSeconds": 0} if self._chance(0.5) else None
        self._add("DELETE", self._path(kind), params=params, body=body)

    def _bind(self, _: Kind) -> None:
        word = self._name(PODS)
        body = history_changes.binding(self._random, word, self._seen(PODS, word))
        if self._chance(0.1):
            self._add("POST", f"/api/v1/namespaces/{_NS}/bindings", body=body)
        else:
            self._add("POST", self._path(PODS, word, "binding"), body=body, params=self._dry())

    def _get(self, kind: Kind) -> None:
        word = self._any_name(kind)
        params: dict[str, str] = {}
        version = self._any_version(kind)
        if self._chance(0.2):
            params["resourceVersion"] = "0"
        elif version and self._chance(0.15):
            params["resourceVersion"] = version
        elif self._chance(_FUTURE_SHARE) and not kind.key.startswith("events"):
            params["resourceVersion"] = FUTURE
        sub = "status" if kind.has_status and self._chance(0.15) else None
        self._saw(kind, word, self._add("GET", self._path(kind, word, sub), params=params))

    def _list(self, kind: Kind) -> None:
        params = self._selectors(kind)[0] if self._chance(0.6) else self._own(kind)
        version = self._any_version(kind)
        if self._chance(0.15):
            params["resourceVersion"] = "0"
        elif version and self._chance(0.3):
            params["resourceVersion"] = version
            match = self._random.choice(("", "Exact", "NotOlderThan", "Exact", "Wrong"))
            params |= {"resourceVersionMatch": match} if match else {}
        elif self._chance(_FUTURE_SHARE) and not kind.key.startswith("events"):
            params = {**self._own(kind), "resourceVersion": FUTURE}
        elif self._chance(0.03):
            params["resourceVersionMatch"] = "Exact"
        elif self._chance(0.02):
            # No version of long ago, as for watches.
            params["resourceVersion"] = self._random.choice(("x", "-1"))
        # Pages would show how many objects of others there are.
        limited = kind.namespaced and self._chance(0.3) and params.get("resourceVersion") != FUTURE
        if limited:
            params["limit"] = str(self._random.choice((1, 2, 3)))
        number = self._add("GET", kind.path(_NS) if limited else self._place(kind), params=params)
        self._model.lists.setdefault(kind.key, []).append(number)
        if limited:
            self._model.pages.setdefault(kind.key, []).append(number)

    def _next_page(self, kind: Kind) -> None:
        pages = self._model.pages.get(kind.key)
        if not pages:
            return self._list(kind)
        before = self.history[self._random.choice(pages)]
        params = {key: value for key, value in before.params.items() if not key.startswith("resourceVersion")}
        params["continue"] = f"${{continue:{before.id}}}"
        if self._chance(0.1):
            params["limit"] = "500"
        if self._chance(0.05):
            params["resourceVersion"] = self._random.choice(("0", "1"))
        pages.append(self._add("GET", before.path, params=params))
        return None

    def _watch(self, kind: Kind) -> None:
        params, until = self._selectors(kind) if self._chance(0.65) else (self._own(kind), self._end(kind, {}))
        version = self._any_version(kind)
        if version and self._chance(0.6):
            params["resourceVersion"] = version
        elif self._chance(0.5):
            params["resourceVersion"] = "0"
        elif self._chance(0.1):
            # No version of long ago: whether that is too old depends on what the real server's caches began with.
            params["resourceVersion"] = self._random.choice(("x", "-1"))
        if self._chance(0.3):
            params["allowWatchBookmarks"] = "true"
        if self._chance(0.2):
            params |= self._random.choice(history_changes.INITIAL_EVENTS)
        self._add(WATCH, self._place(kind), params=params, until=until)

    def _place(self, kind: Kind) -> str:
        everywhere = kind.namespaced and self._chance(0.05)
        return kind.everywhere() if everywhere else kind.path(_NS)

    def _own(self, kind: Kind) -> dict[str, str]:
        """Only the history's own objects, if there are others."""
        return {} if kind.namespaced else {"labelSelector": f"history={_NS}"}

    def _selectors(self, kind: Kind) -> tuple[dict[str, str], Until]:
        """The parameters of a selection, and an object that it lets through."""
        params = self._own(kind)
        labels: dict[str, str] = {}
        until = self._end(kind, {})
        if self._chance(0.6):
            text, labels = self._random.choice(LABEL_SELECTORS)
            if self._chance(0.05):
                text = self._random.choice(WRONG_LABEL_SELECTORS)
            params["labelSelector"] = ",".join([*params.values(), text])
            until = self._end(kind, labels)
        if self._chance(0.5):
            found = self._random.choice(FIELD_SELECTORS[kind.key])
            text = found.text.replace("{a}", kind.name(_NS, "a")).replace("{b}", kind.name(_NS, "b"))
            params["fieldSelector"] = text
            if self._chance(0.05):
                params["fieldSelector"] = self._random.choice(WRONG_FIELD_SELECTORS)
            until = self._end(kind, labels, found.word, found.body, found.status)
        return params, until

    def _end(self, kind: Kind, labels: dict[str, str], word: str = "", more: Any = None, status: Any = None) -> Until:
        body = merged(kind.sample(_NS, word or "end"), more or {})
        metadata = body["metadata"]
        metadata["labels"] = {**metadata.get("labels", {}), **labels, END: "watch"}
        if not word:
            # Another name for each other end.
            parts = sorted(f"{key}-{value}" for key, value in labels.items() if value)
            extra = str(sorted((more or {}).get("spec", {})) or "") + str(sorted(status or {}) or "")
            letters = "".join(each for each in extra.lower() if each.isalnum())
            metadata["name"] = "-".join([metadata["name"], *parts, *([letters] if letters else [])])
        return Until(kind.path(_NS), body, status)
