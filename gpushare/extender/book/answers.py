"""What every node answers to the questions that are usual, kept up as nodes change: a filter then only looks up names.

Most pods ask for one of a few amounts and take any card. For each such request all nodes are asked once, and those that have
changed since when the request comes again: a burst of events costs no more than the nodes that it touches.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpushare.extender.decisions.placement import Question, reason_against
from gpushare.model.node import NodeInfo
from gpushare.model.pod import Request
from gpushare.model.wishes import NONE

# Requests that are kept; each holds the names of all nodes.
MOST_REQUESTS: Final = 32


@dataclass(slots=True)
class _Answers:
    asked: Question
    changed: set[str]
    # By node: why it does not hold the request, "" where it does.
    reasons: dict[str, str] = field(default_factory=dict)
    # By policy, then by node: of nodes that have not changed.
    scores: dict[str, dict[str, int]] = field(default_factory=dict)

    def forget(self, name: str) -> None:
        """A node is gone; nobody may ever ask for this request again, so it is not left to the next question."""
        self.changed.discard(name)
        self.reasons.pop(name, None)
        self.forget_scores(name)

    def forget_scores(self, name: str) -> None:
        for scores in self.scores.values():
            scores.pop(name, None)


class KnownAnswers:
    """Over the nodes of the book, which says what has changed."""

    def __init__(self, nodes: Mapping[str, NodeInfo]) -> None:
        self._nodes = nodes
        self._by_request: OrderedDict[Request, _Answers] = OrderedDict()

    def changed(self, name: str) -> None:
        """A node is new, changed or gone."""
        is_there = name in self._nodes
        for answers in self._by_request.values():
            if is_there:
                answers.changed.add(name)
            else:
                answers.forget(name)

    def reasons(self, request: Request) -> Mapping[str, str] | None:
        """For filter; None for a request with wishes: which card it gets depends on more than its node."""
        answers = self._of(request)
        return None if answers is None else answers.reasons

    def known(self, request: Request) -> Mapping[str, str] | None:
        """As ``reasons``, for one who looks now and then: None too where nobody else asks, and nothing is displaced."""
        answers = self._by_request.get(request)
        return None if answers is None else self._up_to_date(answers).reasons

    def scores(self, request: Request, policy: str) -> dict[str, int] | None:
        """For prioritize, which adds to them; None likewise."""
        answers = self._of(request)
        return None if answers is None else answers.scores.setdefault(policy, {})

    def _of(self, request: Request) -> _Answers | None:
        if request.wishes is not NONE or not request.units:
            return None
        answers = self._by_request.get(request)
        if answers is None:
            answers = self._by_request[request] = _Answers(Question(request), set(self._nodes))
            if len(self._by_request) > MOST_REQUESTS:
                self._by_request.popitem(last=False)
        self._by_request.move_to_end(request)
        return self._up_to_date(answers)

    def _up_to_date(self, answers: _Answers) -> _Answers:
        for name in answers.changed:
            answers.reasons[name] = reason_against(self._nodes[name], answers.asked)
            answers.forget_scores(name)
        answers.changed.clear()
        return answers
