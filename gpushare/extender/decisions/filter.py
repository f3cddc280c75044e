"""Which nodes hold a request on ONE card. Pure, and without side effect: the same question gets the same answer.

The answer's two maps mean what kube-scheduler makes of them: a node that eviction cannot cure (no card large enough,
no cards, all sick, unknown) is *unresolvable*, so that preemption does not kill pods there for nothing; a node that
is merely full is *failed*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from operator import itemgetter, not_

from gpushare import wire
from gpushare.extender.decisions.placement import CURABLE, Question, reason_against
from gpushare.model.snapshot import Snapshot


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
        """One for all nodes, "" where one fits: of the first that the end of pods would cure, else of the first.

        Schedulers begin with another node each time, so over many answers all reasons show; to look at each node would cost more
        than it tells.
        """
        if self.fitting:
            return ""
        return next(iter(self.failed), None) or next(iter(self.unresolvable), "")


def filter_nodes(
    asked: Question, names: Iterable[str], snapshot: Snapshot, known: Mapping[str, str] | None = None
) -> FilterResult:
    """Ask each node whether one healthy card holds the request. A pod that asks nothing fits everywhere.

    ``known`` are the answers of all nodes to the same question, by name, where somebody keeps them: the reason, "" where it fits.
    """
    if asked.request.units == 0:
        return FilterResult(_each_once(names), {}, {})
    if known is None:
        names = _each_once(names)
        found = ((name, snapshot.nodes.get(name)) for name in names)
        known = {name: reason_against(node, asked) for name, node in found if node is not None}
    return _sort(*_answered(list(names), known))


def _answered(names: list[str], known: Mapping[str, str]) -> tuple[list[str], Sequence[str]]:
    """The names, each once, and the answer of each."""
    if 2 * len(names) >= len(known):
        try:
            # What has been taken out is not found again. A set of so many names would be larger than the copy.
            return names, list(map(dict(known).pop, names))
        except KeyError:
            pass
    once = _each_once(names)
    return once, _answers(once, known)


def _each_once(names: Iterable[str]) -> list[str]:
    """A scheduler never repeats a name; a repeated one must not come back twice (it would count as two nodes)."""
    asked = list(names)
    return asked if len(set(asked)) == len(asked) else list(dict.fromkeys(asked))


def _answers(names: Sequence[str], known: Mapping[str, str]) -> Sequence[str]:
    """One of each name. One look at each: few of 5,000 are in a processor's cache, and that takes the time."""
    if len(names) > 1:
        try:
            return itemgetter(*names)(known)  # type: ignore[no-any-return]  # a tuple of them
        except KeyError:
            pass
    return [known.get(name, wire.REASON_UNKNOWN_NODE) for name in names]


def _sort(names: list[str], answers: Sequence[str]) -> FilterResult:
    """By answer; most often there is one besides "", which then stands for all that are refused."""
    reasons = set(answers) - {""}
    if not reasons:
        return FilterResult(names, {}, {})
    fitting = list(compress(names, map(not_, answers)))
    if len(reasons) == 1:
        refused = {reason: list(compress(names, answers)) for reason in reasons}
    else:
        ordered = filter(None, dict.fromkeys(answers))
        refused = {reason: list(compress(names, map(reason.__eq__, answers))) for reason in ordered}
    failed = {reason: refused.pop(reason) for reason in tuple(refused) if reason in CURABLE}
    return FilterResult(fitting, failed, refused)


def refuse_everywhere(reason: str, names: Iterable[str]) -> FilterResult:
    """No node is asked: the pod's own words make no sense, and the end of other pods does not cure that."""
    everywhere = _each_once(names)
    return FilterResult([], {}, {reason: everywhere} if everywhere else {})
