"""Nodes and pods as the API shows them, and the state of a cluster that has them."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from gpushare.kubectl_gpushare.core.cluster_state import ClusterState, subject_of
from gpushare.kubectl_gpushare.core.manifest_pods import PodsOfObject
from gpushare.kubectl_gpushare.core.scheduler_objects import AskedPod, Event, ScheduledNode
from gpushare.manifests import ConfigMap, Pod

Object = dict[str, Any]
WISH = "gpushare.aliyun.com/"


def report(text: str, reason: str = "Unschedulable") -> list[Object]:
    """The condition of a pod with a scheduler's last answer."""
    return [{"type": "PodScheduled", "status": "False", "reason": reason, "message": text}]


def node(
    name: str = "a",
    *units: int,
    unhealthy: str = "",
    model: str = "Tesla T4",
    slots: int = 0,
    labels: dict[str, str] | None = None,
    spec: Object | None = None,
    amounts: dict[str, str] | None = None,
) -> Object:
    """A node of our plugin with a card for each amount; ``unhealthy`` is why the last one is."""
    units = units or (14, 14)
    cards = [
        {
            "index": at,
            "uuid": f"GPU-{at}",
            "model": model,
            "mib": 15_360,
            "units": of,
            "slots": slots,
            "healthy": not unhealthy or at < len(units) - 1,
            "reason": unhealthy if at == len(units) - 1 else "",
        }
        for at, of in enumerate(units)
    ]
    kind = {"mode": "slots", "unit": "MiB"} if slots else {"mode": "ids", "unit": "GiB"}
    ours = {"aliyun.com/gpu-mem": str(sum(units)), "aliyun.com/gpu-count": str(len(units))}
    ours |= {"aliyun.com/gpu-slot": str(slots * len(units))} if slots else {}
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"} | ours | (amounts or {})
    text = json.dumps({"v": 1, "boot": "b", "cards": cards, **kind})
    return {
        "metadata": {"name": name, "labels": labels or {}, "annotations": {"aliyun.com/gpushare-cards": text}},
        "spec": spec or {},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def of_the_original(item: Object) -> Object:
    """The node as the original's plugin leaves it: its cards are in no annotation."""
    return item | {"metadata": item["metadata"] | {"annotations": {}}}


def offering(item: Object, **amounts: int) -> Object:
    """The node with other allocatable amounts of our resources."""
    ours = {f"aliyun.com/gpu-{name}": str(amount) for name, amount in amounts.items()}
    return item | {"status": item["status"] | {"allocatable": item["status"]["allocatable"] | ours}}


def pod(
    name: str = "p",
    units: object = 4,
    on: str | None = None,
    card: int | None = None,
    *,
    wishes: dict[str, str] | None = None,
    limits: dict[str, str] | None = None,
    conditions: list[Object] | None = None,
    **spec: Any,
) -> Object:
    """A pod; with a card it is as our extender binds one."""
    annotations = {WISH + wish: text for wish, text in (wishes or {}).items()}
    if card is not None:
        annotations |= {
            "ALIYUN_COM_GPU_MEM_IDX": str(card),
            "ALIYUN_COM_GPU_MEM_POD": str(units),
            "ALIYUN_COM_GPU_MEM_DEV": "14",
            "ALIYUN_COM_GPU_MEM_ASSUME_TIME": "1790000000000000000",
            "ALIYUN_COM_GPU_MEM_EXTENDER": "gpushare/1",
        }
    container = {"name": "c", "resources": {"limits": {"aliyun.com/gpu-mem": str(units)} | (limits or {})}}
    return {
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "annotations": annotations},
        "spec": {"nodeName": on, "containers": [container], **spec},
        "status": {
            "phase": "Running" if on else "Pending",
            "conditions": report("0/9 nodes are available") if conditions is None and not on else conditions,
        },
    }


def subject(document: Object) -> AskedPod:
    """The pod that is asked about."""
    return subject_of(json.dumps(document).encode())


def workload(replicas: int, title: str = "pod/p", *, on_each_node: bool = False) -> PodsOfObject:
    """An object of a manifest; its pod is given beside it."""
    return PodsOfObject(title, "", {}, replicas, on_each_node=on_each_node)


def event(reason: str, message: str, name: str = "p", when: str | None = None) -> Event:
    """An event about an object of that name."""
    involved = {"kind": "Pod", "namespace": "team", "name": name}
    document = {"involvedObject": involved, "reason": reason, "message": message, "lastTimestamp": when}
    return msgspec.convert(document, Event)


def cluster(*objects: Object, unhealthy: dict[str, str] | None = None, policy: str = "binpack") -> ClusterState:
    """A cluster of these nodes and pods, and of ConfigMaps that declare cards unhealthy, by node."""
    state = ClusterState(policy)
    for one in objects:
        if "containers" in one["spec"]:
            state.set_pod(msgspec.convert(one, Pod))
        else:
            state.set_node(msgspec.convert(one, ScheduledNode))
    for name, gpus in (unhealthy or {}).items():
        state.set_unhealthy(msgspec.convert({"metadata": {"name": name}, "data": {"gpus": gpus}}, ConfigMap))
    return state
