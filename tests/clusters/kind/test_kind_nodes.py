"""Promises of clusters.kind.kind_nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from clusters.kind.kind_config import Worker
from clusters.kind.kind_nodes import as_map, kubeadm_config

LIST = [
    {"name": "node-ip", "value": "10.0.0.3"},
    {"name": "provider-id", "value": "kind://docker/c/c-worker"},
    {"name": "node-labels", "value": "gpushare=true"},
]
MAP = {"node-ip": "10.0.0.3", "provider-id": "kind://docker/c/c-worker", "node-labels": "gpushare=true"}


@pytest.mark.parametrize("arguments", [LIST, MAP], ids=["since v1beta4", "before"])
def test_a_worker_gets_the_configuration_of_another(arguments: object) -> None:
    """Name, address, provider's id and labels are its own, all else is the same, whether the arguments are a list or a map."""
    join = {
        "kind": "JoinConfiguration",
        "discovery": {"bootstrapToken": {"token": "t"}},
        "nodeRegistration": {"name": "a1", "kubeletExtraArgs": arguments},
    }
    kubelet = {"kind": "KubeletConfiguration", "cgroupDriver": "systemd"}
    told = kubeadm_config(
        yaml.safe_dump_all([kubelet, join]), Worker("a2", Path("/f"), {"x": "y", "z": ""}), "10.0.0.9", "c-worker2"
    )
    same, mine = yaml.safe_load_all(told)
    registration = mine["nodeRegistration"]

    assert same == kubelet
    assert mine["discovery"] == join["discovery"]
    assert registration["name"] == "a2"
    assert type(registration["kubeletExtraArgs"]) is type(arguments)
    assert as_map(registration["kubeletExtraArgs"]) == {
        "node-ip": "10.0.0.9",
        "provider-id": "kind://docker/c/c-worker2",
        "node-labels": "x=y,z=",
    }
