"""The content of the page, as one JSON document and as the changes since the one before. Pure.

A document is made of sections, and each is bytes already: both the document and the changes only join them. Times are seconds of
the extender's monotonic clock beside ``now``, so that a viewer's clock does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, NamedTuple

from gpushare.errors import InvalidQuantityError
from gpushare.extender.core.book import Book
from gpushare.extender.core.decisions import Decision, Decisions
from gpushare.extender.core.explain import nodes_with_cards
from gpushare.extender.core.filter_cache import GATED, NOT_REFUSED, CachedAnswer, FilterCache, reason_of_wait
from gpushare.extender.core.messages import encode_json
from gpushare.extender.core.page_rows import Rows, Sums
from gpushare.extender.core.trends import Point, Trends
from gpushare.manifests import Pod
from gpushare.model.pod import pod_request
from gpushare.model.waiting import DEFAULT_SCHEDULER, Wait

# Waiting pods that are listed; the number of all is beside them.
MOST_WAITING: Final = 200
# Waiting pods that one slice looks at.
_PODS_AT_ONCE: Final = 250


class WaitingPod(NamedTuple):
    """A pod that waits for a card (``model.waiting``).

    ``reasons`` are with how many nodes gave each when it was asked for last, at ``asked_at``; none if the extender was never asked.
    ``since`` is its creation, None if that is not known. ``scheduler`` is the name of its scheduler if that is not the default,
    and ``message`` that scheduler's last report if the extender was never asked.
    """

    namespace: str
    name: str
    units: int
    reason: str
    reasons: Mapping[str, int]
    times: int
    asked_at: int
    priority: int
    since: int | None
    scheduler: str
    message: str


class Facts(NamedTuple):
    """Facts about the program that are not in the book. ``contacts`` are when the API server answered last, by resource.

    ``ahead`` is by how many seconds the time since 1970 is ahead of the clock of the document.
    """

    program: str
    policy: str
    is_ready: bool
    contacts: Mapping[str, int | None]
    ahead: float = 0.0


_NOTHING: Final = Facts("", "", False, {})


@dataclass(eq=False)
class PageDocument:
    """The document of one moment, and how it came from the one before.

    ``refresh`` makes the next in slices; ``whole`` and ``changes`` are of the last that was complete.
    """

    rows: Rows = field(default_factory=Rows)
    trends: Trends = field(default_factory=Trends)
    version: int = 0
    changes: bytes = b""
    """The parts that the last refresh changed, empty for none; see ``beat`` for a document without changes."""
    waiting: Sequence[WaitingPod] = ()
    waiting_count: int = 0
    decisions: Sequence[Decision] = ()
    points: Sequence[Point] = ()
    facts: Facts = _NOTHING
    now: float = 0.0
    _sections: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def sums(self) -> Sums:
        """The sums of all nodes."""
        return self.rows.sums

    def refresh(
        self, book: Book, filter_cache: FilterCache, decisions: Decisions, facts: Facts, now: float
    ) -> Iterator[None]:
        """Become what these are now; the caller may let others work between two steps, but begin no second refresh.

        The nodes are of the moment at which it begins.
        """
        # A book that is not complete is not looked at: from then on each event would lay out its node.
        nodes = nodes_with_cards(book.snapshot()) if facts.is_ready else []
        yield
        yield from self.rows.follow(nodes)
        first: list[_Reasoned] = []
        count = 0
        for part in _parts(book.waiting()):
            found = [
                one
                for pod, wait in part
                if book.is_pending(pod.metadata) and (one := _reasoned(pod, wait, filter_cache))
            ]
            count += len(found)
            first = sorted((*first, *found), key=_by_priority)[:MOST_WAITING]
            yield
        self.waiting_count, self.waiting = count, [_waiting(one, facts.ahead) for one in first]
        self.decisions, self.facts, self.now = decisions.newest(), facts, now
        if facts.is_ready and self.trends.is_due(now):
            sums = self.sums
            self.trends.add(
                now, booked=sums.booked, free=sums.free, total=sums.total, largest=sums.largest,
                waiting=self.waiting_count, counts=decisions.counts,
            )  # fmt: skip
        self.points = self.trends.points()
        self._compare()

    def _compare(self) -> None:
        sections: dict[str, bytes] = {
            "extender": encode_json(
                {"version": self.facts.program, "policy": self.facts.policy, "ready": self.facts.is_ready}
            ),
            "numbers": encode_json(self.sums._asdict() | {"waiting": self.waiting_count}),
            "models": encode_json(self.rows.models),
            "reasons": encode_json(self.rows.reasons),
            "waiting": encode_json(self.waiting),
            "decisions": encode_json(self.decisions),
            "trends": encode_json(self.points),
        }
        changed = {name: text for name, text in sections.items() if self._sections.get(name) != text}
        if self.rows.changed:
            changed["nodes"] = _list(map(self.rows.text_of, self.rows.changed))
        if self.rows.gone:
            changed["gone"] = encode_json(self.rows.gone)
        self._sections = sections
        self.changes = b""
        if changed:
            self.changes = self._object(changed | {"base": encode_json(self.version), **self._head(self.version + 1)})
            self.version += 1

    @property
    def whole(self) -> bytes:
        """The document."""
        return self._object({**self._head(self.version), **self._sections, "nodes": _list(self.rows.texts())})

    @property
    def beat(self) -> bytes:
        """That nothing has changed."""
        return self._object(self._head(self.version))

    def _head(self, version: int) -> dict[str, bytes]:
        values: dict[str, Any] = {"version": version, "now": round(self.now, 1), "contacts": self.facts.contacts}
        return {name: encode_json(value) for name, value in values.items()}

    @staticmethod
    def _object(parts: Mapping[str, bytes]) -> bytes:
        return b"{%b}" % b",".join(b'"%b":%b' % (name.encode(), text) for name, text in parts.items())


def _list(texts: Any) -> bytes:
    return b"[%b]" % b",".join(texts)


def _parts(pods: Sequence[tuple[Pod, Wait]]) -> Iterator[Sequence[tuple[Pod, Wait]]]:
    left = iter(pods)
    while part := tuple(islice(left, _PODS_AT_ONCE)):
        yield part


class _Reasoned(NamedTuple):
    """A pod that waits; ``cached`` is the extender's last answer if that is why."""

    pod: Pod
    wait: Wait
    reason: str
    cached: CachedAnswer | None


def _reasoned(pod: Pod, wait: Wait, filter_cache: FilterCache) -> _Reasoned | None:
    cached = filter_cache.by_uid(pod.metadata.uid)
    reason = reason_of_wait(wait, cached)
    if reason is None:
        return None
    return _Reasoned(pod, wait, reason, None if reason in NOT_REFUSED else cached)


def _by_priority(one: _Reasoned) -> tuple[int, str, str]:
    return -(one.pod.spec.priority or 0), one.pod.metadata.namespace, one.pod.metadata.name


def _waiting(one: _Reasoned, ahead: float) -> WaitingPod:
    pod, wait, reason, cached = one
    reasons, times, asked_at = ({}, 0, 0) if cached is None else (cached.reasons, cached.times, int(cached.asked_at))
    return WaitingPod(
        pod.metadata.namespace, pod.metadata.name, _units(pod), reason, reasons, times, asked_at, pod.spec.priority or 0,
        None if wait.since is None else int(wait.since - ahead),
        "" if wait.scheduler == DEFAULT_SCHEDULER else wait.scheduler,
        wait.message if cached is None and reason != GATED else "",
    )  # fmt: skip


def _units(pod: Pod) -> int:
    try:
        return pod_request(pod)
    except InvalidQuantityError:
        return 0
