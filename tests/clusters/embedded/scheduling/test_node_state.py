from __future__ import annotations

from clusters.embedded.scheduling.node_state import node_info, on_node
from tests.clusters.embedded.scheduling.scheduling_objects import MEMORY, make_node, make_pod


def test_a_copy_is_for_trying_things_out() -> None:
    """Changes to the copy do not change the node."""
    info = node_info(make_node())
    info.add(on_node(make_pod("p1", {MEMORY: "2"}), "n1"))
    copy = info.copy()
    copy.add(on_node(make_pod("p2", {MEMORY: "3"}), "n1"))
    copy.remove("uid-p1")

    assert (1, 2) == (info.pod_count, info.requested[MEMORY])
    assert (1, 3) == (copy.pod_count, copy.requested[MEMORY])


def test_on_node_goes_by_the_pod_unless_a_node_is_given() -> None:
    """A node that is given wins over the pod's own."""
    pod = make_pod(nodeName="n1")

    assert ["n1", "n2"] == [on_node(pod).node, on_node(pod, "n2").node]
