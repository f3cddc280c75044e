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
from gpushare.model.outlook import Outlook
from gpushare.model.pod import Request

# Requests that are kept; each holds the names of all nodes.
MOST_REQUESTS: Final = 32


@dataclass(slots=True)
class _Answers:
    asked: Question
    changed: set[str]
    # By node: why it does not hold the request, "" where it does.
    reasons: dict[str, str] = field(default_factory=dict)
    # By policy and CPU, then by node: what nodes that have not changed cost.
    costs: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)
    # For whose outlook.
    outlook: Outlook | None = None

    def forget(self, name: str) -> None:
        """A node is gone; nobody may ever ask for this request again, so it is not left to the next question."""
        self.changed.discard(name)
        self.reasons.pop(name, None)
        self.forget_costs(name)

    def forget_costs(self, name: str) -> None:
        for costs in self.costs.values():
            costs.pop(name, None)


class KnownAnswers:
    """Over the nodes of the book, which says what has changed."""

    def __init__(self, nodes: Mapping[str, NodeInfo], most: int = MOST_REQUESTS) -> None:
        """``most`` requests are kept."""
        self._nodes = nodes
        self._most = most
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
        """For filter; None for who shares a card with certain pods (that depends on other nodes), and for who asks for nothing."""
        answers = self._of(request) if request.units else None
        return None if answers is None else answers.reasons

    def known(self, request: Request) -> Mapping[str, str] | None:
        """As ``reasons``, for one who looks now and then: None too where nobody else asks, and nothing is displaced."""
        answers = self._by_request.get(request)
        return None if answers is None else self._up_to_date(answers).reasons

    def costs(self, asked: Question) -> dict[str, float] | None:
        """For prioritize, which adds to them; None likewise."""
        answers = self._of(asked.request)
        if answers is None:
            return None
        if answers.outlook is not asked.outlook or len(answers.costs) >= self._most:
            answers.costs.clear()
            answers.outlook = asked.outlook
        return answers.costs.setdefault((asked.policy, asked.cpu_milli), {})

    def _of(self, request: Request) -> _Answers | None:
        if request.wishes.group:
            return None
        answers = self._by_request.get(request)
        if answers is None:
            answers = self._by_request[request] = _Answers(Question(request), set(self._nodes))
            if len(self._by_request) > self._most:
                self._by_request.popitem(last=False)
        self._by_request.move_to_end(request)
        return self._up_to_date(answers)

    def _up_to_date(self, answers: _Answers) -> _Answers:
        for name in answers.changed:
            if answers.asked.request.units:
                answers.reasons[name] = reason_against(self._nodes[name], answers.asked)
            answers.forget_costs(name)
        answers.changed.clear()
        return answers
