"""Every run is judged by general rules: each write of an embedded API server, and each answer of an extender to anyone.

A case fails with the findings that came while it ran, whatever it looked at itself.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final

import msgspec
import pytest

from clusters.api.exchanges import LISTENERS, Begun, Event, Exchange, Written
from e2e.checkers.api_writes import foreign_stays
from e2e.checkers.extender_messages import REFUSED, right_choices, settled_book, sound_messages
from e2e.checkers.history import Asked
from e2e.checkers.judgement import Finding, Judge

NAME: Final = "gpushare-run-judge"


class RunJudge:
    """Listens to all clusters of this process; register it with pytest's plugin manager under ``NAME``."""

    def __init__(self) -> None:
        self._users: dict[str, str] = {}
        self._judges: dict[str, Judge] = {}
        """By the API server."""
        self._servers: dict[str, str] = {}
        """By the extender's URL."""
        self._taken: dict[str, int] = {}

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
        """Judge a write, or an answer of an extender."""
        match event:
            case Begun():
                self._servers[event.extender_url] = event.server
                self._users.update(event.accounts)
            case Written():
                self._judge(event.server).take(event)
            case Exchange():
                url, _, verb = event.asked.partition(" ")[2].rpartition("/")
                if url in self._servers:
                    self._judge(self._servers[url]).take(_asked(event, f"/{verb}"))

    def findings(self) -> list[Finding]:
        """Those since the last call."""
        new = []
        for server, judge in self._judges.items():
            new += [one for one in judge.findings[self._taken.get(server, 0) :] if not _was_being_bound(one, judge)]
            self._taken[server] = len(judge.findings)
        return new

    def _judge(self, server: str) -> Judge:
        return self._judges.setdefault(
            server, Judge(foreign_stays(self._users), sound_messages, right_choices, settled_book)
        )


def _was_being_bound(finding: Finding, judge: Judge) -> bool:
    """Did the extender bind a pod to the node at that time? The API did not show yet that the room is taken."""
    return finding.rule == REFUSED and any(
        one.begun <= finding.at <= one.at and one.question.get("Node") == finding.node for one in judge.state.binds
    )


def _asked(event: Exchange, path: str) -> Asked:
    question, answer = _json(event.question), _json(event.answer)
    return Asked(event.at, path, question, answer, int(event.code), event.begun)


def _json(text: Any) -> Any:
    try:
        return msgspec.json.decode(text or b"null")
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
