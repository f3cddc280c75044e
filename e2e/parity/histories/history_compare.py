"""The comparison of two servers' answers: takes out names, uids, times and numbers that are each server's own. Pure.

A resourceVersion becomes the place of its write among all writes of the history (``write 12``), as the watches of
everything saw them: that both sides show the same write is compared exactly, and only its number is not.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Any, Final

from e2e.parity.compare import verdict
from e2e.parity.histories.history_replay import Answer, Record, Stream

_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
# The times of the samples lie before this century's twenties; all others are clocks'.
_TIME: Final = re.compile(r"20[2-9]\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[ +]\S+( \S+)?)")
# The answer of a side for an operation that it could not send: the object that it refers to was never answered.
_UNSENT: Final = Answer(0)
_UNOPENED: Final = Stream(ended="unsent")
_ABSENT: Final = "(absent)"
_INITIAL_END: Final = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that the sides do not say alike; ``operation`` is its number, None for the watches of everything."""

    operation: int | None
    what: str
    first: Any
    second: Any

    def text(self) -> str:
        """Both sides, one under the other."""
        where = f"operation {self.operation}" if self.operation is not None else "watch of everything"
        return f"{where}: {self.what}\n  {json.dumps(self.first)[:1500]}\n  {json.dumps(self.second)[:1500]}"


def compare(first: Record, second: Record) -> list[Difference]:
    """All differences, those of answers first."""
    mine, yours = _Normal(first), _Normal(second)
    found: list[Difference] = []
    for number in sorted({*first.answers, *second.answers}):
        answers = first.answers.get(number, _UNSENT), second.answers.get(number, _UNSENT)
        found += _parts(number, mine.answer(answers[0]), yours.answer(answers[1]), "")
    for number in sorted({*first.watches, *second.watches}):
        streams = first.watches.get(number, _UNOPENED), second.watches.get(number, _UNOPENED)
        found += _streams(number, "watch", mine.stream(streams[0]), yours.stream(streams[1]))
    for key in first.whole:
        found += _streams(None, key, mine.stream(first.whole[key]), yours.stream(second.whole[key]))
    return found


def _streams(number: int | None, key: str, first: Any, second: Any) -> list[Difference]:
    """The first event that differs is enough: the rest may follow from it."""
    for at, (mine, yours) in enumerate(zip(first["events"], second["events"], strict=False)):
        if found := _parts(number, mine, yours, f"{key} event {at}"):
            return found
    return _parts(number, _outline(first), _outline(second), key)


def _outline(stream: Any) -> Any:
    events = [f"{each['type']} {each['object'].get('metadata', {}).get('name', '')}" for each in stream["events"]]
    return {**stream, "events": events}


def _parts(number: int | None, first: Any, second: Any, path: str) -> list[Difference]:
    """The smallest parts of two values that differ."""
    if isinstance(first, dict) and isinstance(second, dict):
        keys = [*first, *(key for key in second if key not in first)]
        pairs = [(first.get(key, _ABSENT), second.get(key, _ABSENT), f"{path}.{key}") for key in keys]
        return [difference for mine, yours, where in pairs for difference in _parts(number, mine, yours, where)]
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        elements = enumerate(zip(first, second, strict=True))
        return [d for at, (mine, yours) in elements for d in _parts(number, mine, yours, f"{path}[{at}]")]
    # To Python true, 1 and 1.0 are equal, to a client in Go they are not.
    same = type(first) is type(second) and first == second
    return [] if same else [Difference(number, path, first, second)]


class _Normal:
    """One side's answer, in the terms that the other side would use for the same."""

    def __init__(self, record: Record) -> None:
        self._namespace = record.namespace
        self._uids: dict[str, str] = {}
        names: list[str] = []
        seen: set[int] = set()
        for key, stream in record.whole.items():
            for event in stream.events:
                metadata = event["object"].get("metadata", {})
                seen.add(int(metadata.get("resourceVersion") or 0))
                uid = metadata.get("uid", "")
                if uid not in self._uids:
                    name = f"{key} {metadata.get('name')}".replace(record.namespace, "")
                    self._uids[uid] = f"uid of {name}, {names.count(name) + 1}"
                    names.append(name)
        self._writes = sorted(seen)

    def answer(self, answer: Answer) -> Any:
        """An answer."""
        return {"code": answer.code, "body": self.value(answer.body)}

    def stream(self, stream: Stream) -> Any:
        """A watch without the bookmarks that come by the clock."""
        events = [self.value(each) for each in stream.events if not _is_bookmark_of_clock(each)]
        refusal = None if stream.refusal is None else self.answer(stream.refusal)
        return {"events": events, "ended": stream.ended, "refusal": refusal}

    def value(self, value: Any) -> Any:
        """Any part of an answer."""
        if isinstance(value, dict):
            fields = verdict(value).items()
            return {self._text(key): self._field(key, each, value) for key, each in fields if key != "managedFields"}
        if isinstance(value, list):
            return [self.value(each) for each in value]
        return self._text(value) if isinstance(value, str) else value

    def _field(self, key: str, value: Any, within: dict[str, Any]) -> Any:
        if key == "resourceVersion" and isinstance(value, str) and value.isdigit():
            return self._write(int(value), exactly="uid" in within)
        if key == "continue":
            return "a token"
        return self.value(value)

    def _write(self, version: int, *, exactly: bool) -> str:
        at = bisect_left(self._writes, version)
        if at < len(self._writes) and self._writes[at] == version:
            return f"write {at}"
        return "no write" if exactly else f"write {bisect_right(self._writes, version) - 1}"

    def _text(self, text: str) -> str:
        text = text.replace(self._namespace, "${ns}")
        text = _UID.sub(lambda match: self._uids.get(match[0], "a uid of no write"), text)
        return _TIME.sub("a time", text)


def _is_bookmark_of_clock(event: Any) -> bool:
    annotations = event["object"].get("metadata", {}).get("annotations") or {}
    return event["type"] == "BOOKMARK" and _INITIAL_END not in annotations
