"""One's own cluster, recorded by kubectl, as a trace."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from load.__main__ import main
from load.replay.cluster_record import read
from load.replay.trace import Card, TraceNode, TracePod

CARDS = {
    "v": 1,
    "mode": "ids",
    "unit": "GiB",
    "boot": "b",
    "cards": [
        {"index": 0, "uuid": "GPU-a", "model": "Tesla T4", "mib": 15079, "units": 14},
        {"index": 1, "uuid": "GPU-b", "model": "GeForce GTX 1080 Ti", "mib": 11178, "units": 10},
    ],
}


def node(name: str, units: int = 24, count: int = 2, published: object = None) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "32Gi", "aliyun.com/gpu-mem": str(units), "aliyun.com/gpu-count": str(count)}
    annotations = {"aliyun.com/gpushare-cards": json.dumps(published)} if published else {}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"kind": "Node", "metadata": {"name": name, "annotations": annotations}, "status": status}


def pod(
    name: str, units: int = 0, on: str = "", wishes: dict[str, str] | None = None, owner: str = "", **spec: object
) -> dict[str, Any]:
    resources = {
        "requests": {"cpu": "500m", "memory": "1000M"},
        "limits": {"aliyun.com/gpu-mem": units} if units else {},
    }
    return {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "annotations": {f"gpushare.aliyun.com/{key}": value for key, value in (wishes or {}).items()}
            | {"other": "x"},
            "ownerReferences": [{"kind": owner, "name": "o", "uid": "o"}] if owner else None,
        },
        "spec": {"nodeName": on or None, "containers": [{"name": "c", "resources": resources}], **spec},
    }


def record(folder: Path, nodes: list[dict[str, Any]], *pods: dict[str, Any]) -> Path:
    """As kubectl prints: a list of nodes, and pods one after the other, in lines."""
    (folder / "nodes.json").write_text(json.dumps({"kind": "List", "items": nodes}))
    (folder / "pods.json").write_text("\n".join(json.dumps(one, indent=4) for one in pods))
    return folder


def test_machines_are_the_nodes_with_cards(tmp_path: Path) -> None:
    """A machine has the cards that its node publishes, or equal ones.

    Its CPU and memory are those that DaemonSets and static pods leave.
    """
    nodes = [node("old"), node("new", published=CARDS), node("none", 0, 0)]
    # The last of a DaemonSet's pods on a node that has not ended is there.
    ended = pod("d-evicted", on="new", owner="DaemonSet") | {"status": {"phase": "Failed"}}
    before = pod("d-before", on="new", owner="DaemonSet")
    standing = [before, pod("d", on="new", owner="DaemonSet"), ended, pod("s", on="new", owner="Node")]
    trace, left_out = read(record(tmp_path, nodes, *standing, pod("p", 3)))

    assert trace.nodes == (
        TraceNode(
            "new", 7000, 32 * 1024 - 2 * 954, (Card(14, "Tesla T4", "GPU-a"), Card(10, "GeForce GTX 1080 Ti", "GPU-b"))
        ),
        TraceNode("old", 8000, 32 * 1024, (Card(12, ""),) * 2),
    )
    assert left_out == []


def test_cards_are_what_of_the_healthy_ones_is_left(tmp_path: Path) -> None:
    """A card has the units that a DaemonSet's pods leave; unhealthy cards are left out and counted."""
    third = CARDS["cards"][1] | {"index": 2, "uuid": "GPU-c", "healthy": False}  # type: ignore[index]
    unhealthy = CARDS | {"cards": [*CARDS["cards"], third]}
    monitor = pod("m", 4, on="n", owner="DaemonSet")
    monitor["metadata"]["annotations"]["ALIYUN_COM_GPU_MEM_IDX"] = "0"
    trace, left_out = read(record(tmp_path, [node("n", 34, 3, unhealthy)], monitor, pod("p", 3)))

    assert [card.units for card in trace.nodes[0].cards] == [10, 10]
    assert left_out == ["1 cards are unhealthy"]


def test_pods_are_those_that_ask_for_cards_and_those_on_machines(tmp_path: Path) -> None:
    """Each once, however often a watch reports it, with its last wishes; not those that run elsewhere without a card."""
    told = [
        pod("a", 3, wishes={"card-model": "T4"}),
        pod("a", 3, on="n", wishes={"card-model": "T4", "policy": "spread"}),
        pod("b", 12, wishes={"split": "8,4", "same-card": "g"}),
        pod("plain", on="n"),
        pod("elsewhere", on="cpu-node"),
    ]
    trace, _ = read(record(tmp_path, [node("n")], *told))

    # Groups are of their namespace, and all pods of a replay are in one.
    prefix, group = "gpushare.aliyun.com", hashlib.sha256(b"team/g").hexdigest()[:63]
    assert trace.pods == (
        TracePod("team.a", 500, 954, 1, 3, wishes=((f"{prefix}/card-model", "T4"),)),
        TracePod("team.b", 500, 954, 1, 12, wishes=((f"{prefix}/same-card", group), (f"{prefix}/split", "8,4"))),
        TracePod("team.plain", 500, 954, 0, 0),
    )


def test_what_is_not_replayed_is_reported(tmp_path: Path) -> None:
    """Pods that no extender grants, and rules of kube-scheduler that the replay does not ask for."""
    odd = pod("odd", 3, wishes={"split": "1,1"})
    chosen = pod("chosen", 3, nodeSelector={"zone": "a"})
    affine = pod("affine", 3, affinity={"nodeAffinity": {}})
    trace, left_out = read(record(tmp_path, [node("n")], odd, chosen, affine))

    assert [one.name for one in trace.pods] == ["team.chosen", "team.affine"]
    assert left_out == [
        "1 pods ask for card memory in a way that no extender grants",
        "1 pods choose nodes by label or affinity, which is not played here",
    ]


def test_a_recorded_cluster_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """From the two files to the share of its cards that a policy allocates.

    Pods are as ``kubectl get --watch --output-watch-events`` prints them.
    """
    pods = [
        pod(f"p{number}", 1 + number % 9, wishes={"card-model": "T4"} if number % 3 == 0 else None)
        for number in range(20)
    ]
    events = [{"type": "ADDED", "object": one} for one in (*pods, pod("w", 24, wishes={"split": "14,10"}))]
    folder = record(tmp_path, [node("a", published=CARDS), node("b")], *events)
    assert main(["replay", "--from-cluster", str(folder), "--seeds", "2", "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["workload"] == folder.name
    assert 50 < found["allocation_ratio_percent"] <= 100
