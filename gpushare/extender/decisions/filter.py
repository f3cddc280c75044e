"""Which nodes hold a request on ONE card. Pure, and without side effect: the same question gets the same answer.

The answer's two maps mean what kube-scheduler makes of them: a node that eviction cannot cure (no card large enough,
no cards, all sick, unknown) is *unresolvable*, so that preemption does not kill pods there for nothing; a node that
is merely full is *failed*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import compress

from gpushare import wire
from gpushare.extender.decisions.placement import CURABLE, Question, reason_against
from gpushare.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class FilterResult:
    """Names that fit, in the order asked and each once; for all others the reason, in exactly one of the two maps."""

    fitting: list[str]
    failed: dict[str, str]
    unresolvable: dict[str, str]

    @property
    def reason(self) -> str:
        """One for all nodes, "" where one fits: of the first that the end of pods would cure, else of the first.

        Schedulers begin with another node each time, so over many answers all reasons show; to look at each node would cost more
        than it tells.
        """
        if self.fitting:
            return ""
        return next(iter(self.failed.values()), None) or next(iter(self.unresolvable.values()), "")


def filter_nodes(
    asked: Question, names: Iterable[str], snapshot: Snapshot, known: Mapping[str, str] | None = None
) -> FilterResult:
    """Ask each node whether one healthy card holds the request. A pod that asks nothing fits everywhere.

    ``known`` are the answers of all nodes to the same question, by name, where somebody keeps them: the reason, "" where it fits.
    """
    # A scheduler never repeats a name; a repeated one must not come back twice (it would count as two nodes).
    asked_names = list(names)
    if len(set(asked_names)) < len(asked_names):
        asked_names = list(dict.fromkeys(asked_names))
    if asked.request.units == 0:
        return FilterResult(asked_names, {}, {})
    if known is None:
        found = ((name, snapshot.nodes.get(name)) for name in asked_names)
        known = {name: reason_against(node, asked) for name, node in found if node is not None}
    return _look_up(asked_names, known)


def _look_up(names: list[str], known: Mapping[str, str]) -> FilterResult:
    """The answers of some nodes. One look at each name: few of 5,000 are in a processor's cache, and that takes the time."""
    answers = [wire.REASON_UNKNOWN_NODE if answer is None else answer for answer in map(known.get, names)]
    refused = dict(compress(zip(names, answers, strict=True), answers))
    if not refused:
        return FilterResult(names, {}, {})
    fitting = [name for name, answer in zip(names, answers, strict=True) if not answer]
    # Reasons are a handful of constants, and most often one.
    if CURABLE.issuperset(refused.values()):
        return FilterResult(fitting, refused, {})
    failed = {name: reason for name, reason in refused.items() if reason in CURABLE}
    return FilterResult(fitting, failed, {name: reason for name, reason in refused.items() if name not in failed})


def refuse_everywhere(reason: str, names: Iterable[str]) -> FilterResult:
    """No node is asked: the pod's own words make no sense, and the end of other pods does not cure that."""
    return FilterResult([], {}, dict.fromkeys(names, reason))
