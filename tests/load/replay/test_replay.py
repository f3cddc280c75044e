"""A trace is read, played as it was published, and the same again for the same seed; and the command ``python -m load replay``."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushare import wire
from load.__main__ import main
from load.load_commands import LoadError
from load.replay.extender_replay import Step, arrivals, ratios, replay
from load.replay.trace import CARD_UNITS, SAMPLE, Card, Trace, TraceNode, TracePod, read


def a_trace(*pods: TracePod, cards: int = 10) -> Trace:
    """One machine."""
    return Trace("made", (TraceNode("n", 10**6, 10**6, (Card(CARD_UNITS, "T4"),) * cards),), pods)


def shares_a_card(units: int, number: int = 0) -> TracePod:
    return TracePod(f"p{number}", 1, 1, 1, units, ())


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=40), st.integers(0, 5), st.integers(1, 8))
def test_as_many_come_as_ask_for_the_part(sizes: list[int], seed: int, cards: int) -> None:
    """Topped up until the next would pass it, or cut until no more than that is left; the same pods for the same seed."""
    trace = a_trace(*(shares_a_card(units, number) for number, units in enumerate(sizes)), cards=cards)
    pods = arrivals(trace, seed)
    asked, most = sum(pod.demand for pod in pods), trace.capacity * 1.3

    assert most - 1000 <= asked <= most
    assert pods == arrivals(trace, seed)
    # The whole list comes before any pod comes again.
    assert not Counter(pods[: len(sizes)]) - Counter(trace.pods)


@pytest.fixture(scope="module", params=wire.POLICIES)
def steps(request: pytest.FixtureRequest) -> list[Step]:
    """A replay of the sample under each policy."""
    trace = read(SAMPLE, "default")
    return list(replay(trace, arrivals(trace, 3), request.param, 3, None))


def test_a_pod_is_placed_where_it_fits_and_nowhere_else(steps: list[Step]) -> None:
    """By a count of our own: CPU, memory and each card of each machine; several cards are whole ones, of models that were wished.

    A pod that was passed over fitted on no machine at that moment.
    """
    trace = read(SAMPLE, "default")
    nodes = {node.name: node for node in trace.nodes}
    left = {node.name: [card.units for card in node.cards] for node in trace.nodes}
    rooms = {node.name: (node.cpu_milli, node.memory_mib) for node in trace.nodes}
    for step in steps:
        pod = step.pod
        fits = {
            name
            for name, node in nodes.items()
            if rooms[name][0] >= pod.cpu_milli
            and rooms[name][1] >= pod.memory_mib
            and sum(free >= pod.units for free in left[name]) >= pod.cards
            and (not pod.models or not pod.cards or node.cards[0].model in pod.models)
        }
        assert step.node in fits if fits else not step.node
        if step.node:
            cpu, memory = rooms[step.node]
            rooms[step.node] = cpu - pod.cpu_milli, memory - pod.memory_mib
            assert [units for _, units in step.shares] == [pod.units] * pod.cards
            for index, units in step.shares:
                left[step.node][index] -= units
                assert left[step.node][index] >= 0
    assert any(not step.node for step in steps)
    assert sum(units for step in steps for _, units in step.shares) == steps[-1].allocated > 0


def test_the_ratio_is_what_is_allocated_once_so_much_has_come() -> None:
    """The part of all cards, in percent; before the first pod nothing is allocated."""
    trace = a_trace(shares_a_card(1000), cards=2)
    steps = [
        Step(trace.pods[0], arrived, allocated) for arrived, allocated in ((1000, 1000), (2000, 1500), (2600, 1600))
    ]

    assert ratios(trace, steps, [0.4, 0.5, 1.0, 1.2, 1.3]) == [0, 50, 75, 75, 80]


NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,1000,2,T4\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
ROW = "p1,1000,10,1,500,\n"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A trace of one node and one pod."""
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(NODES)
    (tmp_path / "openb_pod_list_default.csv").write_text(PODS + ROW)
    return tmp_path


def test_rows_are_read(small: Path) -> None:
    """Models stand between bars; the columns of a list that it need not have may be missing."""
    (small / "openb_pod_list_multi.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nb,2,3,8,1000\nc,1,1,0,0\n"
    )
    (small / "openb_pod_list_default.csv").write_text(PODS + "p1,1000,10,1,500,T4|V100\n" + ROW)

    trace = read(small, "multi")
    assert trace.nodes == (TraceNode("n1", 64_000, 1000, (Card(1000, "T4"),) * 2),)
    assert trace.pods == (TracePod("b", 2, 3, 8, 1000, ()), TracePod("c", 1, 1, 0, 0, ()))
    assert (trace.capacity, trace.pods[0].demand) == (2000, 8000)
    assert [pod.models for pod in read(small, "default").pods] == [("T4", "V100"), ()]


def test_what_is_no_trace_is_refused(small: Path, tmp_path: Path) -> None:
    """A file that is missing or no text, no pod with a card, a node twice."""
    pods, nodes = small / "openb_pod_list_default.csv", small / "openb_node_list_gpu_node.csv"
    for path, content, why in (
        (pods, PODS + "p1,1000,10,0,0,\n", "no pod asks for a card"),
        (pods, "", "no pod asks for a card"),
        (nodes, NODES.replace(",2,T4", ",0,"), "no node has a card"),
        (nodes, NODES + "n1,1,1,1,T4\n", "two nodes have the same name"),
        (nodes, b"\xff\xfe\x00", "codec can't decode"),
    ):
        before = path.read_bytes()
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(LoadError, match=why):
            read(small, "default")
        path.write_bytes(before)
    with pytest.raises(LoadError, match="No such file"):
        read(tmp_path, "none")


PUBLISHED = """workload,policy,runs,arrived_pct,mean_allocated_pct,stdev
openb_pod_list_default,01-Random,10,90,85.02,0.27
openb_pod_list_default,01-Random,10,130,87.47,0.31
openb_pod_list_other,02-Elsewhere,10,130,99.00,0.31
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The sample, and figures to compare with."""
    for path in SAMPLE.glob("*.csv"):
        (tmp_path / path.name).write_text(path.read_text())
    (tmp_path / "published_allocation_ratio.csv").write_text(PUBLISHED)
    return tmp_path


def test_one_object_says_everything(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On stdout, with the progress elsewhere; the mean is that of the runs, each of which is the same in a process of its own.

    Without ``--json`` a table has the published policies beside, the best first, and a dash if nothing is published.
    """
    flags = ["replay", "--trace", str(folder), "--policy", "binpack"]
    code = main([*flags, "--seeds", "2", "--first-seed", "5", "--json"])
    out, err = capsys.readouterr()
    found = json.loads(out)
    ratios = [run["allocation_ratio_percent"] for run in found["runs"]]

    assert code == 0
    assert (found["workload"], found["policy"], found["seeds"]) == ("default", "binpack", [5, 6])
    assert found["allocation_ratio_percent"] == pytest.approx(sum(ratios) / 2, abs=1e-3)
    assert [point["arrived_percent"] for point in found["curve"]] == [90, 95, 100, 110, 120, 130]
    assert found["curve"][-1]["mean"] == found["allocation_ratio_percent"]
    assert list(found["published"]) == ["Random"]
    assert err.startswith("replay: replaying 220 pods on 24 nodes, 2 seeds")
    main([*flags, "--seeds", "1", "--first-seed", "6"])
    lines = capsys.readouterr().out.splitlines()
    rows = [re.split(r" {2,}", line) for line in lines[2:4]]
    figures = {row[0]: float(row[-1].partition(" ")[0]) for row in rows}
    assert figures == {"binpack (ours)": pytest.approx(ratios[1], abs=0.01), "Random": 87.47}
    assert [*figures.values()] == sorted(figures.values(), reverse=True)
    assert ["Random", "85.02 ± 0.27", "-", "-", "-", "-", "87.47 ± 0.31"] in rows
    assert not any("Elsewhere" in line for line in lines)
