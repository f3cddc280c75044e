"""Which pods the simulated kubelet admits."""

from __future__ import annotations

import pytest

from clusters.kubelet.pods import Rejection, resource_rejection
from tests.clusters.kubelet.pods_of_tests import container, pod
from tests.clusters.kubelet.small_plugin import RESOURCE

NODE = {"cpu": "1", "memory": "1Gi", "pods": "2", RESOURCE: "4"}


def test_what_fits_is_let_in() -> None:
    """The sum of the pods is what the node has."""
    assert resource_rejection(pod("p", container("x", 2)), [pod("q", container("x", 2))], NODE, {}) is None


def test_the_resource_that_is_short_names_the_reason() -> None:
    """Reason and message are the kubelet's."""
    rejection = resource_rejection(pod("p", container("x", 3)), [pod("q", container("x", 2))], NODE, {})

    assert rejection == Rejection(
        f"OutOf{RESOURCE}",
        f"Pod was rejected: Node didn't have enough resource: {RESOURCE}, requested: 3, used: 2, capacity: 4",
    )


def test_a_full_node_is_out_of_pods() -> None:
    """The number of pods is checked first."""
    others = [pod("q", container("x")), pod("r", container("x"))]

    rejection = resource_rejection(pod("p", container("x", 9)), others, NODE, {})

    assert rejection is not None
    assert rejection.reason == "OutOfpods"


def test_extended_resource_unknown_to_the_node_is_not_checked() -> None:
    """The kubelet passes over resources that its node does not have."""
    strange = {"name": "x", "image": "i", "resources": {"limits": {"other.com/thing": "1"}}}

    assert resource_rejection(pod("p", strange), [], NODE, {}) is None


@pytest.mark.parametrize(("held", "reason"), [(4, None), (3, f"OutOf{RESOURCE}")])
def test_devices_that_containers_have_count_as_present(held, reason) -> None:
    """After a restart the plugin is not back yet, and the pods that have its devices are let in again."""
    rejection = resource_rejection(pod("p", container("x", 4)), [], NODE | {RESOURCE: "0"}, {RESOURCE: held})

    assert (rejection.reason if rejection else None) == reason
