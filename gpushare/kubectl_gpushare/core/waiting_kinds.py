"""The kinds of waiting: why a pod has no node, or does not exist, each kind with its meaning and with what ends it. Pure.

In the texts NODE stands for a node on which it is so, and NAMESPACE for the pod's.

The answer of a scheduler about a pod that waits stands in the pod's condition and in events. kube-scheduler's grammar (``FitError``
in its ``pkg/scheduler/framework/types.go``): ``0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s).
preemption: 0/3 nodes are available: …``. A rule about the pod itself has no number of nodes. Any other text is one reason.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from gpushare import wire

EXTENDER_AWAY: Final = "extender-away"
GATED: Final = "gated"
NOT_ASKED: Final = "not-asked"
BAD_WISH: Final = "bad-wish"
QUOTA: Final = "quota"
NOT_CREATED: Final = "not-created"
LIMIT_RANGE: Final = "limit-range"
POD_SECURITY: Final = "pod-security"
ADMISSION: Final = "admission"
SUSPENDED: Final = "suspended"
ANTI_AFFINITY: Final = "anti-affinity"
POD_AFFINITY: Final = "pod-affinity"
SPREAD: Final = "topology-spread"
HOST_PORT: Final = "host-port"
VOLUMES: Final = "volumes"
CLAIMS: Final = "resource-claims"
SCHEDULER: Final = "scheduler"
HAS_ROOM: Final = "has-room"
FULL: Final = "full"
FRAGMENTED: Final = "fragmented"
GROUP_FULL: Final = "same-card-full"
GROUP_ELSEWHERE: Final = "same-card-elsewhere"
NO_SLOT: Final = "no-slot"
NO_PREEMPTION: Final = "no-preemption"
UNREADABLE_POD: Final = "unreadable-pod"
UNHEALTHY: Final = "unhealthy"
NO_SUCH_CARD: Final = "no-such-card"
TOO_SMALL: Final = "too-small"
SLOT_MISSING: Final = "slot-missing"
NOT_OFFERED: Final = "not-offered"
IN_SUM: Final = "full-in-sum"
RESOURCES: Final = "resources"
NODE_SELECTOR: Final = "node-selector"
TAINT: Final = "taint"
NODE_STATE: Final = "node-not-ready"
CORDONED: Final = "cordoned"
NOT_SHARED: Final = "no-shared-cards"
OTHER: Final = "other"

# By kind, in the order in which they are shown: the meaning, and what ends it.
KINDS: Final[dict[str, tuple[str, str]]] = {
    EXTENDER_AWAY: (
        "kube-scheduler gets no answer from the extender",
        "look at the extender's pods and log: kubectl -n kube-system get pods -l app.kubernetes.io/name=gpushare",
    ),
    GATED: ("the pod has scheduling gates", "the controller that set them removes them"),
    NOT_ASKED: (
        "no scheduler has reported on the pod",
        "check that the scheduler of spec.schedulerName runs, and read its log",
    ),
    BAD_WISH: ("an annotation or an amount of the pod cannot be read", "correct it and create the pod again"),
    QUOTA: (
        "a quota of the namespace refuses the pod",
        "kubectl describe quota -n NAMESPACE; raise it, or end other pods of the namespace",
    ),
    LIMIT_RANGE: (
        "a LimitRange of the namespace refuses the pod",
        "kubectl describe limitrange -n NAMESPACE; ask for an amount within it",
    ),
    POD_SECURITY: (
        "the namespace's Pod Security Standard refuses the pod",
        "kubectl get namespace NAMESPACE --show-labels; keep to its standard, or take another namespace",
    ),
    ADMISSION: (
        "an admission policy or webhook refuses the pod, or gives no answer",
        "the message names it; correct the pod, or restart the webhook",
    ),
    NOT_CREATED: ("the API server refuses the pod", "the message has the reason"),
    SUSPENDED: ("what makes the pods is suspended, or wants none", "resume it, or raise its replicas"),
    ANTI_AFFINITY: (
        "a rule of the pod, or of a pod that runs there, keeps the two apart (pod anti-affinity)",
        "add a node, ask for fewer replicas, or make the rule a preferred one",
    ),
    POD_AFFINITY: (
        "the pod asks for neighbours that the node does not have (pod affinity)",
        "start the pods that it asks for, or correct the rule",
    ),
    SPREAD: (
        "the pod's topology spread constraints exclude the node",
        "add a node or a zone, raise maxSkew, or say whenUnsatisfiable: ScheduleAnyway",
    ),
    HOST_PORT: (
        "a pod of the node has the host's port that this one asks for",
        "add a node, ask for fewer replicas, or use a Service instead of hostPort",
    ),
    VOLUMES: (
        "a volume of the pod is missing, not bound, or cannot be used on the node",
        "kubectl get pvc -n NAMESPACE; kubectl describe pvc -n NAMESPACE has the reason of each",
    ),
    CLAIMS: (
        "a resource claim of the pod (dynamic resource allocation) is missing, or no node can fulfil it",
        "kubectl get resourceclaims -n NAMESPACE",
    ),
    SCHEDULER: (
        "the pod's scheduler has a reason that is not judged here",
        "the message is the scheduler's own; its log has more",
    ),
    HAS_ROOM: (
        "a card has room now, and the scheduler has not asked again",
        "wait a minute; percentageOfNodesToScore may keep the scheduler from the node",
    ),
    FULL: ("the cards of the node have too little free, in sum too", "end the pods of one card, or add a node"),
    FRAGMENTED: (
        "the node has enough free in sum, but no single card has",
        "end the pods of one card; the policy fragmentation makes this rarer",
    ),
    GROUP_FULL: (
        "the card of the pods that it shares a card with is too full",
        f"end a pod of that card, or take {wire.WISH_SAME_CARD} away",
    ),
    GROUP_ELSEWHERE: (
        "the pods that it shares a card with are on another node or card",
        "nothing: only that card will do",
    ),
    NO_SLOT: ("the cards with room take no more containers", "end a container of the card, or raise --slots"),
    NO_PREEMPTION: (
        "the pod's priority is higher, but kube-scheduler preempts no pod if the node has room in sum",
        "end the pods of one card by hand",
    ),
    UNREADABLE_POD: (
        "a pod of the node cannot be read, so it may hold any card there, and the node gets no pods",
        "the message names the pod: correct it, or delete it",
    ),
    UNHEALTHY: (
        "a card that is large enough is unhealthy",
        "see docs/troubleshooting.md, When an unhealthy card is healthy again",
    ),
    NO_SUCH_CARD: ("no card is one that the pod wishes for", "correct the wish, or add a node that has such a card"),
    TOO_SMALL: ("even an empty card of the node does not hold the pod", "ask for less, or add larger cards"),
    SLOT_MISSING: (
        f"a container asks for {wire.RESOURCE_MEMORY} without {wire.RESOURCE_SLOT}: 1, or for {wire.RESOURCE_SLOT} alone",
        f"ask for both in the container's limits: {wire.RESOURCE_MEMORY}, and {wire.RESOURCE_SLOT}: 1",
    ),
    NOT_OFFERED: (
        "the node has cards and offers none of them: its device plugin is away or waits",
        "kubectl gpushare doctor names the node; see docs/troubleshooting.md, At night",
    ),
    IN_SUM: (
        "a card would hold the pod, but kube-scheduler's sum of the node does not: pods without a healthy card count, too",
        "end the pods that the message names, or cure the card: kubectl inspect gpushare -d NODE",
    ),
    RESOURCES: ("the node has too little of something else", "ask for less of it, or end other pods of the node"),
    NODE_SELECTOR: ("the pod's node selector or affinity excludes the node", "correct the selector, or label the node"),
    TAINT: ("the pod does not tolerate a taint of the node", "add the toleration, or remove the taint"),
    NODE_STATE: (
        "the node is not ready, or about to leave, and its taint says so",
        "kubectl describe node NODE has the reason; then read its kubelet's log. A toleration does not help",
    ),
    CORDONED: ("the node is cordoned", "kubectl uncordon NODE, if it may take pods again"),
    NOT_SHARED: (
        "no node reports shared cards",
        "kubectl gpushare doctor names each node that should, and why it does not; if it names none, label one",
    ),
    OTHER: ("the node refuses the pod", "docs/troubleshooting.md has each reason"),
}

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
        (r"^(Insufficient |Too many pods)", RESOURCES),
        (r"^node\(s\) were unschedulable", CORDONED),
        (r"untolerated taint|taints? that the pod didn't tolerate", TAINT),
        (r"volume|\bpvcs?\b|\bpv\(s\)|storage ?class|free storage|available disk|CSI driver", VOLUMES),
        (r"resource ?claim|allocate all claims|device ?class", CLAIMS),
        (r"anti-affinity", ANTI_AFFINITY),
        (r"pod affinity", POD_AFFINITY),
        (r"topology spread", SPREAD),
        (r"free ports", HOST_PORT),
        (r"node affinity|requested node name|\[NodeAffinity\]", NODE_SELECTOR),
        (r"scheduling gates", GATED),
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
        kind = next((kind for words, kind in _KINDS if words.search(self.text)), SCHEDULER)
        key = _TAINT_KEY.search(self.text) if kind == TAINT else None
        return NODE_STATE if key and STATE_TAINT.search(key[1]) else kind


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
