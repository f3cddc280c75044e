"""The answer of ``doctor``, as a document for programs: what is wrong with an installation, its nodes, cards and pods. Pure.

Each finding ends with the command to run next.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gpushare import wire
from gpushare.cli.answer_forms import counted
from gpushare.kubectl_gpushare.core.explanation import API_VERSION, NODE_NAME, STATIC
from gpushare.kubectl_gpushare.core.explanation import PLUGIN as PLUGIN_CHOSE
from gpushare.kubectl_gpushare.core.node_rules import READY, state_text
from gpushare.kubectl_gpushare.core.waiting_kinds import answer_in
from gpushare.kubectl_inspect.core.card_report import LIMITS, UNHEALTHY, Finding
from gpushare.manifests import Node, NodeCondition, Pod, ReportedNode
from gpushare.model.conditions import HEARTBEAT_SECONDS, NO_CARDS, healthy_condition, heartbeat_age
from gpushare.model.eviction import match_labels
from gpushare.model.node import capacity, described_cards, devices_of, is_unoffered, overuse_of
from gpushare.model.pod import is_finished, names_card_resources
from gpushare.model.waiting import Wait, wait_of
from gpushare.model.wishes import Wishes, wishes_or_none
from gpushare.setup.core.faults import Fault
from gpushare.setup.core.installed_objects import EXTENDER, NAMESPACE, PLUGIN, bypasses_extender, cluster_faults

_LABEL: Final = "gpushare"
_OF_PLUGIN: Final = {"app.kubernetes.io/component": "device-plugin"}
# Heartbeats that may be missing.
_STALE: Final = 3
# Seconds in which a scheduler may well find a card.
_PATIENCE: Final = 10.0
_MOST_LINES: Final = 5
_LONGEST: Final = 300


@dataclass(slots=True)
class Installation:
    """The objects by which gpushare is installed, None if they are not there: on some clusters its programs are processes.

    ``backends`` is the number of ready pods behind the extender's Service, None if it has no Service.
    """

    extender: Mapping[str, Any] | None = None
    plugin: Mapping[str, Any] | None = None
    backends: int | None = None


class WaitingPod(NamedTuple):
    """A pod that waits; ``named`` are its wishes for a card, as its author wrote them."""

    namespace: str
    name: str
    wait: Wait
    wishes: Wishes
    named: str


@dataclass(slots=True)
class SeenPods:
    """The part of all pods that matters: those that wait for a card, schedulers that never ask the extender, and the device
    plugin of each node, by namespace and name.

    ``last`` is the newest pod with card memory that each scheduler may have bound, by the scheduler's name: its creation, namespace
    and name.
    """

    waiting: list[WaitingPod] = field(default_factory=list)
    bypassing: list[Pod] = field(default_factory=list)
    plugins: dict[str, tuple[str, str]] = field(default_factory=dict)
    last: dict[str, tuple[str, str, str]] = field(default_factory=dict)

    def take(self, pod: Pod) -> None:
        """One pod of the list."""
        meta = pod.metadata
        if (wait := wait_of(pod)) is not None:
            wishes = {wish: (meta.annotations or {}).get(wish) for wish in sorted(wire.CARD_WISHES)}
            named = ", ".join(f"{wish.rpartition('/')[2]}={text}" for wish, text in wishes.items() if text)
            self.waiting.append(WaitingPod(meta.namespace, meta.name, wait, wishes_or_none(pod), named))
        if pod.spec.node_name and names_card_resources(pod) and not is_finished(pod):
            scheduler, one = pod.spec.scheduler_name or "", (meta.creation_timestamp or "", meta.namespace, meta.name)
            self.last[scheduler] = max(one, self.last.get(scheduler, one))
        if bypasses_extender(pod):
            self.bypassing.append(pod)
        self.take_plugin(pod)

    def take_plugin(self, pod: Pod) -> None:
        """One pod of the list, if only device plugins matter."""
        if match_labels(pod.metadata.labels or {}, _OF_PLUGIN) and pod.spec.node_name:
            self.plugins[pod.spec.node_name] = pod.metadata.namespace, pod.metadata.name


def diagnosis(
    installed: Installation | None,
    faults: Iterable[Fault],
    findings: Iterable[Finding],
    nodes: Sequence[ReportedNode],
    seen: SeenPods,
    now: float,
    hidden: Sequence[str],
) -> dict[str, Any]:
    """``installed`` is None if it may not be read; ``findings`` are those of cards and pods (``inspect --check``).

    ``now`` is in seconds since 1970.
    """
    conditions = ((node.metadata.name, healthy_condition(node)) for node in nodes)
    unhealthy = {name for name, condition in conditions if condition is not None and condition.status == "False"}
    found = [
        *(_of_objects(installed, nodes, now) if installed else ()),
        *faults,
        *(fault for node in nodes for fault in _of_node(node, installed, seen, now)),
        *_waiting(seen.waiting, nodes, now),
        *_overusers(nodes),
        # The condition of a node names its unhealthy cards already.
        *(Fault(one.text, _next(one)) for one in findings if one.kind != UNHEALTHY or one.name not in unhealthy),
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": "Diagnosis",
        "findings": [{"what": fault.what, "do": fault.fix} for fault in found],
        "hidden": list(hidden),
    }


def not_asked(binder: Mapping[str, str], namespace: str, name: str) -> Fault | None:
    """The fault of a scheduler that bound its last pod without the extender; ``binder`` is the answer of ``binder_of``."""
    by = binder["boundBy"]
    if by in ("", NODE_NAME, STATIC) or by != binder["scheduler"] or binder["cardBy"] not in (PLUGIN_CHOSE, ""):
        return None
    what = (
        f"scheduler {by} bound {namespace}/{name}, its last pod with a shared card, without a question to the extender"
    )
    return Fault(
        what,
        f"kubectl gpushare explain pod/{name} -n {namespace}  # then, on its control plane node: gpushare-setup check",
    )


def _of_objects(installed: Installation, nodes: Sequence[ReportedNode], now: float) -> Iterator[Fault]:
    """Without any object, device plugins that write their conditions show that the programs run nevertheless."""
    objects = installed.extender, installed.plugin
    conditions = filter(None, map(healthy_condition, nodes))
    if objects == (None, None) and not all(_is_stale(one, now) for one in conditions):
        return
    yield from cluster_faults(*objects, nodes)
    if installed.backends == 0 and ((installed.extender or {}).get("status") or {}).get("readyReplicas"):
        what = f"service {EXTENDER} has no pod behind it that is ready: kube-scheduler cannot reach the extender"
        yield Fault(what, f"kubectl -n {NAMESPACE} describe service/{EXTENDER}")


def _is_stale(condition: NodeCondition, now: float) -> bool:
    age = heartbeat_age(condition, now)
    return age is None or age > _STALE * HEARTBEAT_SECONDS


def _of_node(node: ReportedNode, installed: Installation | None, seen: SeenPods, now: float) -> Iterator[Fault]:
    """The faults of one node; if it is not ready only that, for the rest follows from it."""
    name, labels = node.metadata.name, node.metadata.labels or {}
    cards, _ = described_cards(node)
    has_cards = cards is not None or capacity(node, wire.RESOURCE_MEMORY) > 0
    if not has_cards and labels.get(_LABEL) != "true":
        return
    ready = next((one for one in (node.status and node.status.conditions) or () if one.type == READY), None)
    if ready is not None and ready.status != "True":
        yield Fault(state_text(name, ready), f"kubectl describe node {name}")
        return
    look = f"kubectl -n {NAMESPACE} describe daemonset/{PLUGIN}"
    if name in seen.plugins:
        look = "kubectl -n {} logs {}".format(*seen.plugins[name])
    # A plugin that runs there may be of another DaemonSet, as a site has that gives its groups of nodes flags of their own.
    if has_cards and name not in seen.plugins and (missing := _missing_label(labels, installed)):
        what = f"node {name} has cards and lacks the label {missing}: no device plugin serves it"
        yield Fault(what, f"kubectl label node {name} {missing} --overwrite")
    elif is_unoffered(node):
        what = f"node {name} has cards and offers none of them: its device plugin is away or waits"
        yield Fault(what, f"kubectl gpushare events node/{name}; {look}")
    elif not has_cards:
        what = f"node {name} has the label {_LABEL}=true and reports no {wire.RESOURCE_MEMORY}"
        yield Fault(what, f"kubectl gpushare events node/{name}; {look}")
    else:
        yield from _unhealthy(node, look, now)


def _missing_label(labels: Mapping[str, str], installed: Installation | None) -> str:
    """The first label by which the device plugin's DaemonSet chooses its nodes and which this one lacks."""
    plugin = (installed.plugin if installed else None) or {}
    spec = ((plugin.get("spec") or {}).get("template") or {}).get("spec") or {}
    wanted: Mapping[str, str] = spec.get("nodeSelector") or {}
    return next((f"{key}={value}" for key, value in wanted.items() if labels.get(key) != value), "")


def _unhealthy(node: ReportedNode, look: str, now: float) -> Iterator[Fault]:
    """By the condition that their device plugins write; a plugin of an earlier version or of the original writes none."""
    if (condition := healthy_condition(node)) is None:
        return
    name = node.metadata.name
    what = f"node {name}: {condition.type} is {condition.status}"
    if condition.status != "True":
        # A node that shares no card has no row there.
        has_none = condition.reason == NO_CARDS
        cards = f"kubectl gpushare events node/{name}" if has_none else f"kubectl inspect gpushare -d {name}"
        yield Fault(f"{what} ({condition.reason}): {condition.message}", cards)
    elif _is_stale(condition, now):
        yield Fault(f"{what}, and its device plugin has not written it for half an hour", look)


def _waiting(waiting: Iterable[WaitingPod], nodes: Iterable[Node], now: float) -> Iterator[Fault]:
    """Pods that wait, those with the same reasons together; the one that waits longest stands for them."""
    cards = {(device.model, device.uuid) for node in nodes for device in devices_of(node)}
    groups: defaultdict[tuple[str, ...], list[WaitingPod]] = defaultdict(list)
    for one in waiting:
        since = one.wait.since
        if since is None or now - since >= _PATIENCE:
            reasons = sorted({reason.text for reason in answer_in(one.wait.message).reasons})
            groups[str(one.wait.is_gated), *reasons, _unmet(one, cards)].append(one)
    for group in sorted(groups.values(), key=len, reverse=True)[:_MOST_LINES]:
        first = min(group, key=lambda one: (one.wait.since or 0.0, one.namespace, one.name))
        namespace, name, wait, *_ = first
        many = f"{len(group)} pods wait for a card, the first is" if len(group) > 1 else "a pod waits for a card:"
        text = "; it has scheduling gates" if wait.is_gated else f": {_unmet(first, cards) or _report(wait)}"
        yield Fault(
            f"{many} {namespace}/{name}{text[:_LONGEST]}", f"kubectl gpushare explain pod/{name} -n {namespace}"
        )
    if len(groups) > _MOST_LINES:
        rest = sum(sorted(map(len, groups.values()))[:-_MOST_LINES])
        yield Fault(
            f"{rest} more pods wait for other reasons", "kubectl get pods -A --field-selector status.phase=Pending"
        )


def _unmet(pod: WaitingPod, cards: Collection[tuple[str, str]]) -> str:
    """The wishes of a pod that no card of the cluster meets; "" if one does, or if no card is known."""
    wishes = pod.wishes
    if not (cards and wishes.names_cards) or any(
        wishes.allow_model(model) and wishes.allow_uuid(uuid) for model, uuid in cards
    ):
        return ""
    models = ", ".join(sorted({model for model, _ in cards if model})) or "not published"
    return f"no card of the cluster is one that it wishes for ({pod.named}); the models are: {models}"


def _report(wait: Wait) -> str:
    reasons = answer_in(wait.message).reasons
    each = ", ".join(one.text if one.nodes is None else f"{one.nodes} {one.text}" for one in reasons)
    return each or wait.message or "no scheduler has reported on it"


def _overusers(nodes: Iterable[Node]) -> Iterator[Fault]:
    for node in nodes:
        if found := overuse_of(node):
            use = "uses more of a card than it" if len(found) == 1 else "use more of a card than they"
            yield Fault(
                f"node {node.metadata.name}: {counted(len(found), 'pod')} {use} booked",
                "kubectl gpushare top pods -A",
            )


def _next(finding: Finding) -> str:
    """The command after a finding of ``inspect --check``."""
    if finding.kind == LIMITS:
        return "kubectl gpushare top pods -A; kubectl gpushare events -A  # docs/memory-limit.md"
    if finding.namespace:
        return f"kubectl gpushare explain pod/{finding.name} -n {finding.namespace}"
    return f"kubectl inspect gpushare -d {finding.name}"
