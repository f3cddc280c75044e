"""The machine below a simulated kubelet."""

from __future__ import annotations

from clusters.kubelet.machine import Machine


def test_a_network_is_chosen_by_the_name() -> None:
    """Two nodes of a cluster rarely give one address twice."""
    first, second = Machine("gpu-1").pod_addresses, Machine("gpu-2").pod_addresses

    assert len(first) == 254
    assert set(first).isdisjoint(second)
