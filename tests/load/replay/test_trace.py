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
