"""Which nodes hold a request on ONE card. Pure, and without side effect: the same question gets the same answer.

The answer's two maps mean what kube-scheduler makes of them: a node that eviction cannot cure (no card large enough,
no cards, all unhealthy, unknown) is *unresolvable*, so that preemption does not kill pods there for nothing; a node that
is merely full is *failed*.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

from gpushare import wire
from gpushare.model.forecast import Forecast
from gpushare.model.node import NodeInfo
from gpushare.model.placement import CURABLE, Question, Snapshot, reason_against
from gpushare.model.pod import Request

# Requests that are kept; each holds the names of all nodes.
MOST_REQUESTS: Final = 32


@dataclass(frozen=True, slots=True)
class FilterResult:
    """Names that fit, in the order asked and each once; all others by reason, in exactly one of the two maps, likewise.

    Reasons are a handful of constants, and stand in the order in which the names gave them.
    """

    fitting: list[str]
    failed: dict[str, list[str]]
    unresolvable: dict[str, list[str]]

    @property
    def reason(self) -> str:
        """One reason for all nodes, "" if one fits: the first that the end of pods would cure, else the first.

        Schedulers begin with another node each time, so over many answers all reasons show. A look at each node is not worth
        its time.
        """
        if self.fitting:
            return ""
        return next(iter(self.failed), None) or next(iter(self.unresolvable), "")


def filter_nodes(
    asked: Question, names: Collection[str], snapshot: Snapshot, known: Mapping[str, str] | None = None
) -> FilterResult:
    """Ask each node whether one healthy card holds the request. A pod that asks for no memory fits everywhere, without a slot too.

    ``known`` are the answers of all nodes to the same question, by name, if they are kept: the reason, "" if it fits.
    """
    if asked.request.units == 0:
        return _without_memory(asked.request, names, snapshot)
    if known is None:
        found = ((name, snapshot.nodes.get(name)) for name in names)
        known = {name: reason_against(node, asked) for name, node in found if node is not None}
    by_answer: dict[str, list[str]] = defaultdict(list)
    for name, answer in _answers(names, known):
        by_answer[answer].append(name)
    fitting = by_answer.pop("", [])
    failed = {reason: by_answer.pop(reason) for reason in tuple(by_answer) if reason in CURABLE}
    return FilterResult(fitting, failed, dict(by_answer))


def _without_memory(request: Request, names: Collection[str], snapshot: Snapshot) -> FilterResult:
    """A slot alone is of no use: the device plugin of a node in slots mode would refuse it."""
    once, nodes = list(dict.fromkeys(names)), snapshot.nodes
    slotted = [] if request.names_slots else [one for one in once if one in nodes and nodes[one].counts_slots]
    fitting = [one for one in once if one not in slotted]
    return FilterResult(fitting, {}, {wire.REASON_SLOT_MISSING: slotted} if slotted else {})


def _answers(names: Collection[str], known: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    """The names, each once, with the answer of each.

    kube-scheduler never repeats a node or names an unknown one, so the fast path comes first. A repeated name
    must not come back twice (it would count as two nodes).
    """
    try:
        if 2 * len(names) >= len(known):
            # A name that was taken out is not found a second time. A set of all names would be larger than the copy.
            return zip(names, list(map(dict(known).pop, names)), strict=True)
        if len(set(names)) == len(names) > 1:
            # One look at each: few of 5,000 are in a processor's cache, and that takes the time.
            return zip(names, itemgetter(*names)(known), strict=True)
    except KeyError:
        pass
    return ((name, known.get(name, wire.REASON_UNKNOWN_NODE)) for name in dict.fromkeys(names))


def refuse_everywhere(reason: str, names: Iterable[str]) -> FilterResult:
    """No node is asked: the pod's own words make no sense, and the end of other pods does not cure that."""
    everywhere = list(dict.fromkeys(names))
    return FilterResult([], {}, {reason: everywhere} if everywhere else {})


@dataclass(slots=True)
class _Answers:
    asked: Question
    changed: set[str]
    # By node: why it does not hold the request, "" if it does.
    reasons: dict[str, str] = field(default_factory=dict)


class KnownAnswers:
    """The answers of every node to usual questions, kept current as nodes change: a filter then only looks up names.

    Most pods ask for one of a few amounts and take any card. For each such request all nodes are asked once, and those that have
    changed since when the request comes again: a burst of events costs no more than the nodes that it touches. ``nodes`` are the
    nodes of the book, which calls ``changed`` for each change.
    """

    def __init__(self, nodes: Mapping[str, NodeInfo], most: int = MOST_REQUESTS) -> None:
        """``most`` requests are kept."""
        self._nodes = nodes
        self._most = most
        self._by_request: OrderedDict[Request, _Answers] = OrderedDict()
        # By request, policy and CPU, then by node: what nodes that have not changed are worth, by this forecast.
        self._costs: OrderedDict[tuple[Request, str, int], dict[str, float]] = OrderedDict()
        self._forecast: Forecast | None = None

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
        if asked.forecast is not None and asked.forecast is not self._forecast:
            # Nothing of the former one is kept, nor it itself: its tables are large.
            self._costs.clear()
            self._forecast = asked.forecast
        # CPU means something only if nodes are compared; and scores are no costs.
        key = asked.request, asked.policy, asked.cpu_milli if asked.forecast is not None else -1
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
