"""Which nodes hold a request on ONE card. Pure, and without side effect: the same question gets the same answer.

The answer's two maps mean what kube-scheduler makes of them: a node that eviction cannot cure (no card large enough,
no cards, all sick, unknown) is *unresolvable*, so that preemption does not kill pods there for nothing; a node that
is merely full is *failed*.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpushare import wire
from gpushare.extender.placement import CURABLE, holds, reason_against
from gpushare.model.pod import Request
from gpushare.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class FilterResult:
    """Names that fit, in the order asked and each once; for all others the reason, in exactly one of the two maps."""

    fitting: list[str]
    failed: dict[str, str]
    unresolvable: dict[str, str]


def filter_nodes(request: Request, names: Iterable[str], snapshot: Snapshot) -> FilterResult:
    """Ask each node whether one healthy card holds the request. A pod that asks nothing fits everywhere."""
    # A scheduler never repeats a name; a repeated one must not come back twice (it would count as two nodes).
    asked = dict.fromkeys(names)
    units = request.units
    if units == 0:
        return FilterResult(list(asked), {}, {})
    # What a node computed beforehand answers for one container that names its slot, or on nodes that count none.
    is_plain = request.slots == 1 and request.names_slots
    fitting: list[str] = []
    failed: dict[str, str] = {}
    unresolvable: dict[str, str] = {}
    nodes = snapshot.nodes
    for name in asked:
        node = nodes.get(name)
        if node is None:
            unresolvable[name] = wire.REASON_UNKNOWN_NODE
        elif node.largest_free >= units and (is_plain or not node.counts_slots or holds(node, request)):
            fitting.append(name)
        else:
            reason = reason_against(node, request)
            (failed if reason in CURABLE else unresolvable)[name] = reason
    return FilterResult(fitting, failed, unresolvable)
