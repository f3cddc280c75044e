from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from clusters.embedded.scheduling.cluster_view import ClusterView
from tests.clusters.embedded.scheduling.scheduling_objects import MEMORY, make_node, make_pod

NODES = ["n1", "n2", "n3"]
PODS = [f"p{number}" for number in range(5)]


def sized(name: str, units: int, node: str = "") -> dict[str, object]:
    pod = make_pod(name, {MEMORY: str(units)})
    return {**pod, "spec": {**pod["spec"], "nodeName": node}}


class ViewAgainstModel(RuleBasedStateMachine):
    """Any order of watch events and decisions: the sums on the nodes are those of a naive model."""

    def __init__(self) -> None:
        super().__init__()
        self.view = ClusterView()
        self.nodes: set[str] = set()
        self.pods: dict[str, tuple[str, int, bool]] = {}

    @rule(name=st.sampled_from(NODES))
    def set_node(self, name: str) -> None:
        old = self.view.set_node(make_node(name))
        assert (name in self.nodes) is (old is not None)
        self.nodes.add(name)

    @rule(name=st.sampled_from(NODES))
    def remove_node(self, name: str) -> None:
        self.view.remove_node(name)
        self.nodes.discard(name)

    @rule(name=st.sampled_from(PODS), node=st.sampled_from(NODES), units=st.integers(1, 9))
    def assume(self, name: str, node: str, units: int) -> None:
        self.view.assume(sized(name, units), node)
        self.pods[name] = (node, units, True)

    @rule(name=st.sampled_from(PODS), node=st.sampled_from(NODES), units=st.integers(1, 9))
    def place(self, name: str, node: str, units: int) -> None:
        self.view.place(sized(name, units, node))
        self.pods[name] = (node, units, False)

    @rule(name=st.sampled_from(PODS))
    def forget(self, name: str) -> None:
        expected = name in self.pods and self.pods[name][2]
        assert expected is self.view.forget(f"uid-{name}")
        if expected:
            del self.pods[name]

    @rule(name=st.sampled_from(PODS))
    def remove(self, name: str) -> None:
        assert (name in self.pods) is self.view.remove(f"uid-{name}")
        self.pods.pop(name, None)

    @invariant()
    def sums_are_right(self) -> None:
        assert self.nodes == {info.name for info in self.view.nodes}
        for info in self.view.nodes:
            on_node = [units for node, units, _ in self.pods.values() if node == info.name]
            assert (len(on_node), sum(on_node)) == (info.pod_count, info.requested.get(MEMORY, 0))


TestViewAgainstModel = ViewAgainstModel.TestCase
