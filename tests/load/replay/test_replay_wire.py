"""A trace replayed over the wire: an embedded API server and a real extender."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpushare import wire
from load.__main__ import main
from load.replay.extender_replay import arrivals, replay
from load.replay.replay_wire import compare, replay_over_wire, site, text
from load.replay.trace import SAMPLE, read


@pytest.mark.parametrize("policy", wire.POLICIES)
def test_the_wire_places_as_the_decisions_do(policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every pod of the sample lies on the same cards of the same node, whatever the policy."""
    code = main(["replay", "--wire", "--policy", policy, "--seeds", "1", "--first-seed", "3", "--json"])
    (found,) = json.loads(capsys.readouterr().out)["wire"]
    assert (code, found["seed"], found["different"]) == (0, 3, 0)
    assert found["pods"] > 100


async def test_an_extender_that_places_otherwise_is_found(tmp_path: Path) -> None:
    """One that spreads instead of packing; the first pod in another place is named with both places."""
    trace = read(SAMPLE, "default")
    pods = arrivals(trace, 0)[:20]
    async with site(trace, wire.POLICY_SPREAD, None, tmp_path) as at:
        over_wire = await replay_over_wire(at, trace, pods, 0, lambda _: None)
    alone = list(replay(trace, pods, wire.POLICY_BINPACK, 0, None))
    first = next(number for number, step in enumerate(alone) if over_wire[number] != step)
    found = compare(0, over_wire, alone, 1.0)
    assert f"{found.different} placed otherwise; first the {first + 1}th, {pods[first].name}: node-" in text([found])
