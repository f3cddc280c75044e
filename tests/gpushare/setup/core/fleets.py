"""Nodes and pods of either side's programs, as the API lists them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gpushare.manifests import Node, Pod


def node(
    name: str = "n", total: object = "28", count: object = "2", *, cards: Sequence[int] = (), **described: Any
) -> Node:
    """A labelled node; with ``cards`` their sizes are described, with more of that annotation in ``described``."""
    annotations = {}
    if cards:
        facts = [
            {"index": at, "uuid": f"GPU-{at}", "model": "T4", "mib": 1, "units": one} for at, one in enumerate(cards)
        ]
        document = {"v": 1, "mode": "ids", "unit": "GiB", "boot": "b", "cards": facts} | described
        annotations = {"aliyun.com/gpushare-cards": json.dumps(document)}
    amounts = {"aliyun.com/gpu-mem": total, "aliyun.com/gpu-count": count}
    metadata = {"name": name, "annotations": annotations, "labels": {"gpushare": "true"}}
    return msgspec.convert({"metadata": metadata, "status": {"capacity": amounts}}, Node)


def pod(
    name: str = "p",
    units: object = "3",
    card: str | None = "0",
    *,
    size: str = "14",
    on: str = "n",
    init: str = "",
    phase: str = "Running",
    **annotations: str,
) -> Pod:
    """A pod on a node, bound by the original's extender; with its annotations in ``annotations``, by their last words."""
    written: dict[str, str] = {} if card is None else {"IDX": card, "DEV": size, "POD": str(units), "ASSIGNED": "true"}
    texts = {f"ALIYUN_COM_GPU_MEM_{key}": text for key, text in (written | annotations).items()}
    spec: dict[str, Any] = {"nodeName": on, "containers": [_container("c", units)]}
    if init:
        spec["initContainers"] = [_container("i", init)]
    metadata = {"name": name, "namespace": "d", "uid": name, "annotations": texts}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": {"phase": phase}}, Pod)


def on_several(cards: Mapping[str, int]) -> Pod:
    """A pod that is split over cards."""
    units = sum(cards.values())
    found = pod(units=str(units), card=None, EXTENDER="gpushare/1")
    assert found.metadata.annotations is not None
    found.metadata.annotations["scheduler.framework.gpushare.allocation"] = json.dumps({"0": cards})
    return found


def _container(name: str, units: object) -> dict[str, Any]:
    return {"name": name, "resources": {"limits": {"aliyun.com/gpu-mem": units}}}
