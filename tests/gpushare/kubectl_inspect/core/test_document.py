"""Promises of the document for programs."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from gpushare.kubectl_inspect.core.card_report import build
from gpushare.kubectl_inspect.core.document import JSON, YAML, render
from tests.gpushare.kubectl_inspect.core.test_card_report import cards, node, on, pod


def document(form: str = JSON, units: str = "28", annotations: Any = None, *pods: Any) -> dict[str, Any]:
    """The document of one node, parsed."""
    reports, problems = build([node(units=units, annotations=annotations or cards(14, 14))], pods)
    text = render(form, reports, problems)
    return dict(json.loads(text) if form == JSON else yaml.safe_load(text))


@pytest.mark.parametrize("form", [JSON, YAML])
def test_everything_of_a_node_is_in_the_document(form: str) -> None:
    """Sums, cards, pods with the units on each card, and units of pods that no card is known for."""
    found = document(form, "28", None, pod("a", "3", on("1")), pod("b", "2"))

    assert (found["apiVersion"], found["kind"]) == ("inspect.gpushare.aliyun.com/v1", "GPUShareInspection")
    assert found["nodes"] == [
        {
            "name": "n", "address": "10.0.0.1", "unit": "GiB", "total": 28, "allocated": 5, "pending": 2,
            "cards": [
                {
                    "index": index, "uuid": f"GPU-{index}", "model": "T4", "total": 14, "allocated": used, "free": 14 - used,
                    "healthy": True, "reason": "",
                }
                for index, used in ((0, 0), (1, 3))
            ],
            "pods": [
                {
                    "namespace": "default", "name": "a", "uid": "a", "allocated": 3, "pending": 0,
                    "cards": [{"index": 1, "allocated": 3}],
                },
                {"namespace": "default", "name": "b", "uid": "b", "allocated": 2, "pending": 2, "cards": []},
            ],
        }
    ]  # fmt: skip
    assert found["warnings"] == []


def test_a_sick_card_has_nothing_free_and_a_reason() -> None:
    """The table shows such a card as free; the document does not, and its warning is the table's."""
    sick = cards(14, 14)
    listed = json.loads(sick["aliyun.com/gpushare-cards"])
    listed["cards"][1] |= {"healthy": False, "reason": "Xid 79"}
    found = document(JSON, "28", {"aliyun.com/gpushare-cards": json.dumps(listed)})
    card = found["nodes"][0]["cards"][1]

    assert (card["total"], card["free"], card["healthy"], card["reason"]) == (14, 0, False, "Xid 79")
    assert found["warnings"] == ["node n: card 1 (T4, GPU-1) gets no pods: Xid 79"]


def test_slots_are_shown_in_slots_mode() -> None:
    """The number of containers that the card takes, and of those on it."""
    slots = cards(15_360, unit="MiB")
    listed = json.loads(slots["aliyun.com/gpushare-cards"])
    listed |= {"mode": "slots"}
    listed["cards"][0]["slots"] = 4
    reports, _ = build(
        [node(units="15360", count="1", annotations={"aliyun.com/gpushare-cards": json.dumps(listed)})],
        [pod("a", "1000", on("0"))],
    )
    (card,) = json.loads(render(JSON, reports, ()))["nodes"][0]["cards"]

    assert (card["slots"], card["slotsUsed"], card["allocated"]) == (4, 1, 1000)
