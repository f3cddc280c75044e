"""The answer of ``doctor``, as a document for programs: what is wrong with an installation and its cards. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from gpushare import wire
from gpushare.kubectl_gpushare.core.explanation import API_VERSION
from gpushare.manifests import Node, ReportedNode
from gpushare.model.conditions import HEARTBEAT_SECONDS, healthy_condition, heartbeat_age
from gpushare.model.node import capacity, is_unoffered, overuse_of
from gpushare.setup.core.faults import Fault

_LABEL: Final = "gpushare"
# Heartbeats that may be missing.
_STALE: Final = 3
_ADVICE: Final = "docs/troubleshooting.md has each event, reason and state"


def diagnosis(
    faults: Iterable[Fault], findings: Iterable[str], nodes: Sequence[ReportedNode], now: float, hidden: Sequence[str]
) -> dict[str, Any]:
    """``faults`` are those of the installed objects, ``findings`` those of cards and pods (``inspect --check``).

    ``now`` is in seconds since 1970.
    """
    found = [
        *faults,
        *_silent_nodes(nodes),
        *_sick_nodes(nodes, now),
        *_overusers(nodes),
        *(Fault(text, _ADVICE) for text in findings),
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": "Diagnosis",
        "findings": [{"what": fault.what, "do": fault.fix} for fault in found],
        "hidden": list(hidden),
    }


def _silent_nodes(nodes: Iterable[Node]) -> Iterator[Fault]:
    for node in nodes:
        name = node.metadata.name
        look = f"kubectl -n kube-system get pods -o wide --field-selector spec.nodeName={name}, and the device plugin's log"
        if (node.metadata.labels or {}).get(_LABEL) == "true" and not capacity(node, wire.RESOURCE_MEMORY):
            yield Fault(f"node {name} has the label {_LABEL}=true and reports no {wire.RESOURCE_MEMORY}", look)
        elif is_unoffered(node):
            what = f"node {name} has cards and offers none of them: its device plugin is away or waits"
            yield Fault(what, f"kubectl gpushare events {name}; {look}")


def _sick_nodes(nodes: Iterable[ReportedNode], now: float) -> Iterator[Fault]:
    """By the condition that their device plugins write; a plugin of an earlier version or of the original writes none."""
    for node in nodes:
        if (condition := healthy_condition(node)) is None:
            continue
        what = f"node {node.metadata.name}: {condition.type} is {condition.status}"
        age = heartbeat_age(condition, now)
        if condition.status != "True":
            yield Fault(f"{what} ({condition.reason}): {condition.message}", _ADVICE)
        elif age is None or age > _STALE * HEARTBEAT_SECONDS:
            yield Fault(f"{what}, and its device plugin has not written it for half an hour", _ADVICE)


def _overusers(nodes: Iterable[ReportedNode]) -> Iterator[Fault]:
    for node in nodes:
        if found := overuse_of(node):
            yield Fault(
                f"node {node.metadata.name}: {len(found)} pods use more of a card than they booked",
                "kubectl gpushare top pods -A names them",
            )
