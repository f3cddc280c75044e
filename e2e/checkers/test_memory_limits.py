"""The rules of memory limits find each limit and each report that is not as it should be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from e2e import spec
from e2e.builders import gpu_pod
from e2e.checkers.memory_limits import (
    MIB,
    Limit,
    LimitedNode,
    held_cards,
    wrong_annotations,
    wrong_condition,
    wrong_events,
    wrong_gauge,
    wrong_limits,
)

EXACT = Limit(0, 4096 * MIB)
GUARANTEE = Limit(4096 * MIB, 4096 * MIB)
STATES = ("none", "loose", "tight", "unknown", "enforced")


def findings(
    limit: Limit | None,
    state: str,
    mib: int,
    condition: tuple[str, str],
    event: str = "",
    counted: str = "",
    **facts: Any,
) -> list[str]:
    """The findings about one pod with 4 GiB of a card of 15, by its annotation, condition, event and gauge."""
    pod = gpu_pod(
        "p", 4, bound_to="n", annotations={spec.POD_INDEX: "0", spec.POD_LIMITS: json.dumps([("c0", 0, state, mib)])}
    )
    pod["metadata"] |= {"uid": "u", "namespace": "x"}
    running = [{"name": "c0", "containerID": "simulated://a", "state": {"running": {}}}]
    pod["status"] = {"phase": "Running", "containerStatuses": running}
    node = LimitedNode("n", {0: 15360}, {} if limit is None else {("a", 0): limit}, **facts)
    status, reason = condition
    item = {"status": {"conditions": [{"type": spec.NODE_LIMITS, "status": status, "reason": reason}]}}
    events = [{"involvedObject": {"uid": "u"}, "reason": event}] if event else []
    gauge = {
        ("gpushare_container_limits", frozenset({("state", one)})): float(one == (counted or state)) for one in STATES
    }
    held = held_cards([pod], node)
    of_node = [
        *wrong_condition(held, node, item),
        *wrong_events(held, node, events, {}),
        *wrong_gauge(held, node, gauge),
    ]
    return [*wrong_limits(held), *wrong_annotations(held), *of_node]


GOOD: tuple[Any, ...] = (EXACT, "enforced", 4096, ("True", "Enforced"))
NOTHING: tuple[Any, ...] = (None, "none", 0, ("False", "SomeNotLimited"))


@pytest.mark.parametrize(
    ("seen", "facts", "found"),
    [
        (GOOD, {}, []),
        ((None, "none", 0, ("False", "Old")), {"reason": "Old"}, []),
        ((*NOTHING, spec.EVENT_NOT_LIMITED), {"set": {("p", "c0"): None}}, []),
        ((EXACT, "unknown", 0, ("Unknown", "NotVerified")), {"lost": (0,)}, []),
        ((Limit(0, 15360 * MIB), "enforced", 15360, GOOD[3]), {"slack": "300%"}, []),
        ((Limit(0, 5000 * MIB), "enforced", 5000, GOOD[3]), {"slack": "904MiB"}, []),
        ((*NOTHING, spec.EVENT_NOT_LIMITED), {}, ["should have Limit(soft=0"]),
        ((GUARANTEE, "loose", 4096, NOTHING[3], spec.EVENT_LIMIT_LOOSE), {}, ["has Limit(soft=4294967296"]),
        ((GUARANTEE, "loose", 4096, NOTHING[3], spec.EVENT_LIMIT_LOOSE), {"set": {("p", "c0"): GUARANTEE}}, []),
        ((GUARANTEE, "enforced", 4096, NOTHING[3], spec.EVENT_LIMIT_LOOSE, "loose"), {"set": {("p", "c0"): GUARANTEE}},
         ["shows the limits"]),
        ((Limit(0, 4097 * MIB), "loose", 4097, NOTHING[3], spec.EVENT_LIMIT_LOOSE), {}, ["hard=4296015872"]),
        ((Limit(0, 1 * MIB), "tight", 1, GOOD[3], spec.EVENT_LIMIT_TIGHT), {}, ["hard=1048576"]),
        ((EXACT, "enforced", 4095, GOOD[3]), {}, ["shows the limits"]),
        ((*GOOD[:3], ("True", "Other")), {}, ["has the condition"]),
        ((*GOOD, spec.EVENT_LIMIT_TIGHT), {}, ["has the events"]),
        (NOTHING, {"set": {("p", "c0"): None}}, ["has the events"]),
        ((*GOOD, "", "loose"), {}, ["counts the containers"]),
    ],
    ids=str,
)  # fmt: skip
def test_each_wrong_limit_and_report_is_found(
    seen: tuple[Any, ...], facts: Mapping[str, Any], found: list[str]
) -> None:
    """The driver's table decides, and pod, Node, event and gauge must agree with it."""
    given = findings(*seen, **facts)

    assert [text for text, part in zip(given, found, strict=True) if part not in text] == []
