"""The answers of every node to usual questions, kept current as nodes change: a filter then only looks up names.

Most pods ask for one of a few amounts and take any card. For each such request all nodes are asked once, and those that have
changed since when the request comes again: a burst of events costs no more than the nodes that it touches.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpushare.model.node import NodeInfo
from gpushare.model.outlook import Outlook
from gpushare.model.placement import Question, reason_against
from gpushare.model.pod import Request

# Requests that are kept; each holds the names of all nodes.
MOST_REQUESTS: Final = 32


@dataclass(slots=True)
class _Answers:
    asked: Question
    changed: set[str]
    # By node: why it does not hold the request, "" if it does.
    reasons: dict[str, str] = field(default_factory=dict)


class KnownAnswers:
    """``nodes`` are the nodes of the book, which calls ``changed`` for each change."""

    def __init__(self, nodes: Mapping[str, NodeInfo], most: int = MOST_REQUESTS) -> None:
        """``most`` requests are kept."""
        self._nodes = nodes
        self._most = most
        self._by_request: OrderedDict[Request, _Answers] = OrderedDict()
        # By request, policy and CPU, then by node: what nodes that have not changed are worth, by this outlook.
        self._costs: OrderedDict[tuple[Request, str, int], dict[str, float]] = OrderedDict()
        self._outlook: Outlook | None = None

    def changed(self, name: str) -> None:
        """A node is new, changed or gone."""
        is_there = name in self._nodes
        for answers in self._by_request.values():
            answers.changed.add(name)
            if not is_there:
                # This request may never be asked for again, so it is not left to the next question.
                answers.changed.discard(name)
                answers.reasons.pop(name, None)
        self.changed_cost(name)

    def changed_cost(self, name: str) -> None:
        """The free CPU of the node changed, its cards did not: drop its cached costs."""
        for costs in self._costs.values():
            costs.pop(name, None)

    def reasons(self, request: Request) -> Mapping[str, str] | None:
        """For filter; None for a pod that shares a card with certain pods (that depends on other nodes) or asks for nothing."""
        if not request.units or request.wishes.group:
            return None
        answers = self._by_request.get(request)
        if answers is None:
            answers = self._by_request[request] = _Answers(Question(request), set(self._nodes))
            if len(self._by_request) > self._most:
                self._by_request.popitem(last=False)
        else:
            self._by_request.move_to_end(request)
        return self._up_to_date(answers).reasons

    def known(self, request: Request) -> Mapping[str, str] | None:
        """As ``reasons``, for a reader that looks now and then: None if no other question needs them, and nothing is displaced."""
        answers = self._by_request.get(request)
        return None if answers is None else self._up_to_date(answers).reasons

    def costs(self, asked: Question) -> dict[str, float] | None:
        """For prioritize, which adds to them; None for a pod that shares a card with certain pods."""
        if asked.request.wishes.group:
            return None
        if asked.outlook is not None and asked.outlook is not self._outlook:
            # Nothing of the former one is kept, nor it itself: its tables are large.
            self._costs.clear()
            self._outlook = asked.outlook
        # CPU means something only if nodes are compared; and scores are no costs.
        key = asked.request, asked.policy, asked.cpu_milli if asked.outlook is not None else -1
        if key not in self._costs:
            self._costs[key] = {}
            if len(self._costs) > self._most:
                self._costs.popitem(last=False)
        self._costs.move_to_end(key)
        return self._costs[key]

    def _up_to_date(self, answers: _Answers) -> _Answers:
        for name in answers.changed:
            answers.reasons[name] = reason_against(self._nodes[name], answers.asked)
        answers.changed.clear()
        return answers
