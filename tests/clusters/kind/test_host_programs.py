"""Promises of clusters.kind.host_programs without a cluster."""

from __future__ import annotations

import pytest

from clusters.kind.host_programs import network_of, seen_inside
from clusters.provider import ClusterError


def test_a_kubeconfig_inside_the_node_names_the_node_itself() -> None:
    """The port that kind chose is this machine's; authority and user stay."""
    cluster = {"server": "https://127.0.0.1:40001", "certificate-authority-data": "Q0E="}
    kubeconfig = {"clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": {"token": "t"}}]}

    assert seen_inside(kubeconfig) == ({**cluster, "server": "https://127.0.0.1:6443"}, {"token": "t"})


def test_a_node_of_another_machine_is_refused() -> None:
    """The error names the requirements: such a Docker runs its nodes out of reach."""
    with pytest.raises(ClusterError, match="takes root and a Docker on this machine"):
        network_of(0)
