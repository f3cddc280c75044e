"""Promises of load.replay.trace: what is read is what stands there, and what cannot be read is named by file, line and column."""

from __future__ import annotations

from pathlib import Path

import pytest

from load.load_commands import LoadError
from load.replay.trace import Card, TraceNode, TracePod, read

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn1,64000,1000,2,T4\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
ROW = "p1,1000,10,1,500,\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A trace of one node and one pod."""
    (tmp_path / "openb_node_list_gpu_node.csv").write_text(NODES)
    (tmp_path / "openb_pod_list_default.csv").write_text(PODS + ROW)
    return tmp_path


def test_rows_are_read(folder: Path) -> None:
    """Models stand between bars; the columns of a list that it need not have may be missing."""
    (folder / "openb_pod_list_multi.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\nb,2,3,8,1000\nc,1,1,0,0\n"
    )
    (folder / "openb_pod_list_default.csv").write_text(PODS + "p1,1000,10,1,500,T4|V100\n" + ROW)

    trace = read(folder, "multi")
    assert trace.nodes == (TraceNode("n1", 64_000, 1000, (Card(1000, "T4"),) * 2),)
    assert trace.pods == (TracePod("b", 2, 3, 8, 1000, ()), TracePod("c", 1, 1, 0, 0, ()))
    assert (trace.capacity, trace.pods[0].demand) == (2000, 8000)
    assert [pod.models for pod in read(folder, "default").pods] == [("T4", "V100"), ()]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("p1,1000,10,1,half,", "line 3: column gpu_milli is 'half', not a number from 0 to 1000"),
        ("p1,1000,10,2,500,", "line 3: num_gpu is 2, and gpu_milli 500 instead of 1000"),
        ("p1,1000,10,1,0,", "line 3: num_gpu is 1, but gpu_milli 0"),
        (",1000,10,1,500,", "line 3: column name is missing or empty"),
        ('p1,1000,10,1,500,"T4,V100"', "line 3: column gpu_spec is 'T4,V100', not models"),
        ("p1,9" + "9" * 5000 + ",10,1,500,", "line 3: column cpu_milli is '9"),
    ],
)
def test_a_broken_row_is_named(folder: Path, row: str, why: str) -> None:
    """By file, line and column."""
    path = folder / "openb_pod_list_default.csv"
    path.write_text(PODS + ROW + row + "\n")

    with pytest.raises(LoadError) as error:
        read(folder, "default")
    assert str(path) in str(error.value)
    assert why in str(error.value)
    assert len(str(error.value)) < 400


def test_what_is_no_trace_is_refused(folder: Path, tmp_path: Path) -> None:
    """A file that is missing or no text, no pod with a card, a node twice."""
    pods, nodes = folder / "openb_pod_list_default.csv", folder / "openb_node_list_gpu_node.csv"
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
            read(folder, "default")
        path.write_bytes(before)
    with pytest.raises(LoadError, match="No such file"):
        read(tmp_path, "none")
