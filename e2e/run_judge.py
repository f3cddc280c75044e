"""Every run is judged by general rules: each write of an embedded API server, and each answer of an extender to anyone.

A case fails with the findings that came while it ran, whatever it looked at itself.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final

import msgspec
import pytest

from clusters.api.exchanges import LISTENERS, Begun, Ended, Event, Exchange, Limited, StoodStill, Written
from e2e.checkers import UnknownError
from e2e.checkers.api_writes import (
    foreign_stays,
    shared_cards,
    sound_bookings,
    sound_reservations,
    true_events,
    true_transitions,
)
from e2e.checkers.extender_answers import DIFFERS
from e2e.checkers.extender_messages import (
    REFUSED,
    kept_victims,
    right_choices,
    right_victims,
    settled_book,
    sound_messages,
)
from e2e.checkers.history import Asked, Finding, Judge
from e2e.checkers.memory_limits import exact_limits

NAME: Final = "gpushare-run-judge"


class RunJudge:
    """Listens to all clusters of this process; register it with pytest's plugin manager under ``NAME``."""

    def __init__(self) -> None:
        self._users: dict[str, str] = {}
        self._judges: dict[str, Judge] = {}
        """By the API server."""
        self._servers: dict[str, str] = {}
        """By the extender's URL."""
        self._arguments: dict[str, Sequence[str]] = {}
        """By node, those of its device plugin."""
        self._taken: dict[str, int] = {}
        self._left: list[Finding] = []
        """Those of clusters that have ended."""
        self._crash: UnknownError | None = None

    def pytest_configure(self) -> None:
        """Listen."""
        LISTENERS.append(self.take)

    def pytest_unconfigure(self) -> None:
        """Listen no longer."""
        LISTENERS.remove(self.take)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, Any, Any]:
        """Fail the case with what was found while it ran."""
        self.findings()
        result = yield
        if found := self.findings():
            pytest.fail("\n".join(map(str, found)), pytrace=False)
        return result

    def take(self, event: Event) -> None:
        """Judge a write, or an answer of an extender. The API server that notes a write has no part in the crash of a rule."""
        try:
            self._take(event)
        except UnknownError as error:
            self._crash = error

    def _take(self, event: Event) -> None:
        match event:
            case Begun():
                self._servers[event.extender_url] = event.server
                self._users.update(event.accounts)
                self._arguments.update(event.arguments)
            case Ended() if event.server in self._judges:
                self._left += self._since_last(event.server)
                del self._judges[event.server], self._taken[event.server]
            case Written() | StoodStill():
                self._judge(event.server).take(event)
            case Limited():
                for judge in self._judges.values():
                    judge.take(event)
            case Exchange():
                url, _, verb = event.asked.partition(" ")[2].rpartition("/")
                if url in self._servers:
                    self._judge(self._servers[url]).take(_asked(event, f"/{verb}"))

    def findings(self) -> list[Finding]:
        """Those since the last call. Raises UnknownError if a rule failed in itself."""
        if self._crash is not None:
            crash, self._crash = self._crash, None
            raise crash
        found, self._left = self._left, []
        return [*found, *(one for server in self._judges for one in self._since_last(server))]

    def _since_last(self, server: str) -> list[Finding]:
        judge, taken = self._judges[server], self._taken.get(server, 0)
        self._taken[server] = len(judge.findings)
        excused = [one for one in judge.findings[taken:] if _was_being_bound(one, judge)]
        for one in excused:
            judge.forgive(one)
        return [one for one in judge.findings[taken:] if one not in excused]

    def _judge(self, server: str) -> Judge:
        if server not in self._judges:
            rules = (foreign_stays, sound_bookings, shared_cards, true_transitions, true_events)
            of_users = (rule(self._users) for rule in rules)
            self._judges[server] = Judge(
                *of_users,
                sound_reservations,
                sound_messages,
                kept_victims,
                right_victims,
                right_choices,
                settled_book,
                exact_limits(self._arguments),
            )
        return self._judges[server]


def _was_being_bound(finding: Finding, judge: Judge) -> bool:
    """Did the extender bind a pod to the node at that time? Its book has the pod before the API does."""
    return finding.rule in {REFUSED, DIFFERS} and any(
        one.begun <= finding.at <= one.at
        and isinstance(one.question, dict)
        and one.question.get("Node") == finding.node
        for one in judge.state.binds
    )


def _asked(event: Exchange, path: str) -> Asked:
    question, answer = _json(event.question), _json(event.answer)
    return Asked(event.at, path, question, answer, int(event.code), event.begun)


def _json(text: Any) -> Any:
    try:
        return msgspec.json.decode(text or b"null")
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
