"""The answer of a scheduler about a pod that waits, as it stands in the pod's condition and in events. Pure.

kube-scheduler's grammar (``FitError`` in its ``pkg/scheduler/framework/types.go``): ``0/3 nodes are available: 1 Insufficient cpu,
2 node(s) had untolerated taint(s). preemption: 0/3 nodes are available: …``. A rule about the pod itself has no number of nodes.
Any other text is one reason, as it is.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from gpushare import wire
from gpushare.kubectl_gpushare.core import waiting_kinds as kinds

# Stands for the reasons that are about cards, which explain judges itself.
CARDS: Final = "cards"

# client-go's words before the message of an event that it has written too often.
COMBINED: Final = "(combined from similar events): "
_ANSWER: Final = re.compile(rf"(?:{re.escape(COMBINED)})?0/(\d{{1,7}}) nodes are (?:un)?available:? ?(.*)", re.DOTALL)
# Plugins add these behind the reasons; their preemption ends no pod that would help.
_ADDED: Final = re.compile(
    r"(?:^|\.? )(?:still not schedulable|no new claims to deallocate|preemption: )|\. not found$"
)
_COUNTED: Final = re.compile(r"(\d{1,7}) (.*)", re.DOTALL)
_OURS: Final = frozenset(text for name, text in vars(wire).items() if name.startswith("REASON_"))
# Taints of Kubernetes, of cloud providers, autoscalers, and agents of networks and volumes: each is a state of the node.
# (Kubernetes documentation, "Taints and Tolerations", "Well-Known Labels, Annotations and Taints".)
STATE_TAINT: Final = re.compile(
    r"^node(\.cloudprovider)?\.kubernetes\.io/|not-?ready|unreachable|unregistered|uninitialized|^ToBeDeleted|^karpenter\.sh/disrupt",
    re.IGNORECASE,
)
# kube-scheduler names the taint before 1.35.
_TAINT_KEY: Final = re.compile(r"\{([^:}]+)")
# By the words of a reason, the first that are found.
_KINDS: Final = tuple(
    (re.compile(words, re.IGNORECASE), kind)
    for words, kind in (
        (rf"^Insufficient {re.escape(wire.RESOURCE_PREFIX)}", CARDS),
        (r"^(Insufficient |Too many pods)", kinds.RESOURCES),
        (r"^node\(s\) were unschedulable", kinds.CORDONED),
        (r"untolerated taint|taints? that the pod didn't tolerate", kinds.TAINT),
        (r"volume|\bpvcs?\b|\bpv\(s\)|storage ?class|free storage|available disk|CSI driver", kinds.VOLUMES),
        (r"resource ?claim|allocate all claims|device ?class", kinds.CLAIMS),
        (r"anti-affinity", kinds.ANTI_AFFINITY),
        (r"pod affinity", kinds.POD_AFFINITY),
        (r"topology spread", kinds.SPREAD),
        (r"free ports", kinds.HOST_PORT),
        (r"node affinity|requested node name|\[NodeAffinity\]", kinds.NODE_SELECTOR),
        (r"scheduling gates", kinds.GATED),
    )
)


class Reason(NamedTuple):
    """One reason, and of how many nodes it is; None if it is about the pod itself."""

    text: str
    nodes: int | None

    @property
    def kind(self) -> str:
        """The kind of waiting, or CARDS."""
        if self.text in _OURS:
            return CARDS
        kind = next((kind for words, kind in _KINDS if words.search(self.text)), kinds.SCHEDULER)
        key = _TAINT_KEY.search(self.text) if kind == kinds.TAINT else None
        return kinds.NODE_STATE if key and STATE_TAINT.search(key[1]) else kind


class Answer(NamedTuple):
    """``nodes`` is how many the scheduler knew; 0 if the text does not have it."""

    nodes: int
    reasons: tuple[Reason, ...]

    @property
    def unnamed(self) -> int:
        """Nodes without a reason: the scheduler did not look at them."""
        if any(one.nodes is None for one in self.reasons):
            return 0
        return max(self.nodes - sum(one.nodes or 0 for one in self.reasons), 0)


def answer_in(text: str) -> Answer:
    """The answer in a scheduler's text; without a reason if the text is empty."""
    found = _ANSWER.match(text)
    if found is None:
        return Answer(0, (Reason(text, None),) if text else ())
    said = _ADDED.split(found[2], maxsplit=1)[0].strip(" .\n")
    counted = [_COUNTED.fullmatch(part) for part in re.split(r", (?=\d+ )", said)] if said else []
    reasons = tuple(Reason(one[2], int(one[1])) for one in counted if one)
    return Answer(int(found[1]), reasons if len(reasons) == len(counted) else (Reason(said, None),))
