"""A pod as the API shows it, on a card or on none."""

from __future__ import annotations

from typing import Any

import msgspec

from gpushare.deviceplugin.core.kept_pods import KeptPod, keep
from gpushare.manifests import Pod


def bound_pod(
    uid: str,
    units: object = 4,
    card: object = 0,
    phase: str = "Pending",
    *,
    namespace: str = "d",
    name: str = "",
    metadata: Any = None,
    **more: str,
) -> KeptPod:
    """A pod with one container; it is named by its uid unless it has a name, and ``more`` are annotations."""
    annotations = {} if card is None else {"ALIYUN_COM_GPU_MEM_IDX": str(card)}
    container = {"name": "c", "resources": {"limits": {"aliyun.com/gpu-mem": units}}}
    document = {
        "metadata": {
            "uid": uid, "name": name or uid, "namespace": namespace, "annotations": {**annotations, **more},
            **(metadata or {}),
        },
        "spec": {"containers": [container]},
        "status": {"phase": phase},
    }  # fmt: skip
    return keep(msgspec.convert(document, Pod))
