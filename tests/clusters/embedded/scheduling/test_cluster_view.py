"""The embedded scheduler's view of nodes and pods."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from clusters.api.api_client import Object
from clusters.embedded.scheduling.cluster_view import ClusterView, Nominations
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


def nominated(node: str = "n1") -> Object:
    return {**make_pod("p1"), "status": {"nominatedNodeName": node}}


def on(nominations: Nominations, node: str) -> list[str]:
    return [each.uid for each in nominations.on(node)]


def test_set_goes_by_the_status_unless_a_node_is_given() -> None:
    """An empty name takes the nomination away."""
    nominations = Nominations()
    nominations.set(nominated())
    assert ["uid-p1"] == on(nominations, "n1")

    nominations.set(nominated(), "n2")
    assert ([], ["uid-p1"]) == (on(nominations, "n1"), on(nominations, "n2"))

    nominations.set(nominated(), "")
    assert [] == on(nominations, "n2")


def test_update_keeps_what_the_api_server_has_not_shown_yet() -> None:
    """A nomination changes only when the pod's status changes."""
    nominations = Nominations()
    nominations.set(make_pod("p1"), "n1")

    nominations.update(make_pod("p1"), make_pod("p1"))
    assert ["uid-p1"] == on(nominations, "n1")

    nominations.update(make_pod("p1"), nominated("n2"))
    assert ["uid-p1"] == on(nominations, "n2")

    nominations.update(nominated("n2"), make_pod("p1"))
    assert [] == on(nominations, "n2")


def test_delete_of_a_pod_without_nomination_is_nothing() -> None:
    """The deletion of a pod without a nomination raises no error."""
    nominations = Nominations()
    nominations.delete("uid-p1")

    assert [] == nominations.on("n1")
