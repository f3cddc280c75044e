"""Which nodes hold a request on ONE card. Pure, and without side effect: the same question gets the same answer.

The answer's two maps mean what kube-scheduler makes of them: a node that eviction cannot cure (no card large enough,
no cards, all sick, unknown) is *unresolvable*, so that preemption does not kill pods there for nothing; a node that
is merely full is *failed*.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from operator import itemgetter

from gpushare import wire
from gpushare.model.placement import CURABLE, Question, Snapshot, reason_against


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
    """Ask each node whether one healthy card holds the request. A pod that asks nothing fits everywhere.

    ``known`` are the answers of all nodes to the same question, by name, if they are kept: the reason, "" if it fits.
    """
    if asked.request.units == 0:
        return FilterResult(list(dict.fromkeys(names)), {}, {})
    if known is None:
        found = ((name, snapshot.nodes.get(name)) for name in names)
        known = {name: reason_against(node, asked) for name, node in found if node is not None}
    by_answer: dict[str, list[str]] = defaultdict(list)
    for name, answer in _answers(names, known):
        by_answer[answer].append(name)
    fitting = by_answer.pop("", [])
    failed = {reason: by_answer.pop(reason) for reason in tuple(by_answer) if reason in CURABLE}
    return FilterResult(fitting, failed, dict(by_answer))


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
