"""The state at the end of a burst → findings, none if all is well. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from e2e.bursts.burst_plan import HELD_MIB_PER_UNIT
from e2e.checkers.overcommit import Sizes, booked_in_api, check_api, shares_or_none
from e2e.checkers.pod_requests import gpu_containers, units_of
from e2e.checkers.right_card import check_pod, wrong_totals

# The plugin's words for ids that the kubelet does not give back yet; it is asked first if other cards have ids.
_KEPT: Final = "the kubelet keeps"
# The reasons with which a kubelet turns a pod away while its device plugin, or it itself, restarts.
_TURNED_AWAY: Final = (
    "no healthy devices present",
    "unknown Device Plugin",
    "has been stopped",
    "code = Unavailable",
    "code = Canceled",
    "requested number of devices unavailable",
    _KEPT,
)
# The reason with which the plugin's last guard refuses a pod that has no room on its card.
_NO_ROOM: Final = "units left for the"


@dataclass(frozen=True, slots=True)
class Seen:
    """The state that a burst left behind."""

    pods: Sequence[Mapping[str, Any]]
    told: Mapping[str, Sequence[Mapping[str, str]]]
    """Variables of each running pod's GPU containers, by the pod's name."""
    held: Mapping[tuple[str, int], int]
    """MiB that processes hold on each (node, card)."""
    uuids: Mapping[str, Mapping[int, str]]
    sizes: Sizes


def is_turned_away(pod: Mapping[str, Any], restarted: frozenset[str]) -> bool:
    """Did the pod fail because its node's kubelet or plugin was restarting? Its owner would replace it."""
    status = pod["status"]
    if status.get("phase") != "Failed" or pod["spec"].get("nodeName") not in restarted:
        return False
    message = status.get("message", "")
    return status.get("reason", "").startswith("OutOf") or any(reason in message for reason in _TURNED_AWAY)


def is_squeezed_out(pod: Mapping[str, Any], kubelets: frozenset[str]) -> bool:
    """Did the plugin refuse it for want of room, on a node whose kubelet restarted? Its owner would replace it.

    Such a kubelet admits what it finds by age, of one second in any order; ends pods between two of their containers; and
    keeps the ids of pods that have ended until it has looked at all. So the plugin takes one pod for another, and
    if their sizes differ and the cards are full the annotations cannot all follow: a pod is refused, and no card over-booked.
    """
    message = pod["status"].get("message", "") if pod["status"].get("phase") == "Failed" else ""
    return pod["spec"].get("nodeName") in kubelets and _NO_ROOM in message and _KEPT not in message


def is_kept_out(pod: Mapping[str, Any]) -> bool:
    """Was it refused because the kubelet did not offer ids of pods that had ended? Its owner would replace it.

    A kubelet looks at what is free, and then asks the plugin, which lists the pods: one that ends between the two has its
    ids no more by the API, and has them still by the kubelet's offer, which cannot be asked for again (kubernetes, device
    manager, ``devicesToAllocate``). Seen on real kubelets once in some hundred bursts, with pods that were deleted as they
    were admitted.
    """
    status = pod["status"]
    return status.get("phase") == "Failed" and _KEPT in status.get("message", "")


def is_running(pod: Mapping[str, Any]) -> bool:
    """Do all its containers run?"""
    statuses = pod["status"].get("containerStatuses") or []
    return pod["status"].get("phase") == "Running" and bool(statuses) and all(one.get("ready") for one in statuses)


def leaves(pod: Mapping[str, Any]) -> bool:
    """Is it being deleted?"""
    return "deletionTimestamp" in pod["metadata"]


def all_run(pods: Sequence[Mapping[str, Any]]) -> bool:
    """Are there pods, of which each runs and stays?"""
    return bool(pods) and all(is_running(pod) and not leaves(pod) for pod in pods)


def unsettled(pods: Sequence[Mapping[str, Any]], expected: frozenset[str], sizes: Sizes) -> list[str]:
    """Pods that have a step before them: run if they are bound, be bound if a card has room, or be gone."""
    names = {pod["metadata"]["labels"]["burst-pod"] for pod in pods}
    findings = [f"{name}: is not there" for name in sorted(expected - names)]
    findings += [f"{pod['metadata']['name']}: is still there" for pod in pods if _should_be_gone(pod, expected)]
    booked = booked_in_api(pods)
    largest = max(units - booked.get((node, card), 0) for node, cards in sizes.items() for card, units in cards.items())
    for pod in pods:
        name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
        if node and not is_running(pod):
            findings.append(f"{name}: bound to {node}, but {pod['status'].get('phase')}: {why(pod)}")
        elif not node and units_of(pod) <= largest:
            findings.append(f"{name}: waits for {units_of(pod)} units, but a card has {largest}")
    return findings


def why(pod: Mapping[str, Any]) -> str:
    """The pod's status, of itself and of its containers."""
    status = pod["status"]
    texts = [status.get("message", "")]
    for one in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        for state, of in (one.get("state") or {}).items():
            if state != "running":
                texts.append(f"{one['name']} {state} {of.get('reason', '')} {of.get('message', '')}".strip())
    return "; ".join(text for text in texts if text)


def findings(seen: Seen, other_sums: frozenset[str] = frozenset()) -> list[str]:
    """Containers on another card than their pod's annotation names, or with wrong amounts; cards beyond their units.

    ``other_sums`` are nodes on which a container may have got another pod's sum, which is counted elsewhere.
    """
    running = [pod for pod in seen.pods if is_running(pod)]
    found = [
        finding
        for pod in running
        for finding in check_pod(
            pod,
            seen.told[pod["metadata"]["name"]],
            seen.uuids[pod["spec"]["nodeName"]],
            totals=pod["spec"]["nodeName"] not in other_sums,
        )
    ]
    if running:
        found += check_api(seen.pods, seen.sizes)
    found += [
        f"{pod['metadata']['name']}: a container ended and was started again: {why(pod)}"
        for pod in running
        if any(one.get("restartCount") for one in pod["status"].get("containerStatuses") or ())
    ]
    return found + _check_held(running, seen)


def told_other_sums(seen: Seen) -> int:
    """The number of containers that got another pod's sum."""
    return sum(wrong_totals(pod, seen.told[pod["metadata"]["name"]]) for pod in seen.pods if is_running(pod))


def _check_held(running: Sequence[Mapping[str, Any]], seen: Seen) -> list[str]:
    """The processes on each card are those of the pods with an annotation that names it, to the MiB."""
    expected: dict[tuple[str, int], int] = defaultdict(int)
    for pod in running:
        (index,) = shares_or_none(pod) or (-1,)
        units = sum(one.units for one in gpu_containers(pod) if one.kind != "init")
        expected[pod["spec"]["nodeName"], index] += units * HELD_MIB_PER_UNIT
    return [
        f"card {card} of {node}: processes hold {seen.held.get((node, card), 0)} MiB, its pods {expected.get((node, card), 0)}"
        for node, card in sorted(seen.held.keys() | expected.keys())
        if seen.held.get((node, card), 0) != expected.get((node, card), 0)
    ]


def _should_be_gone(pod: Mapping[str, Any], expected: frozenset[str]) -> bool:
    return pod["metadata"]["labels"]["burst-pod"] not in expected
