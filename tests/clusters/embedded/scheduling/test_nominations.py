from __future__ import annotations

from clusters.api_client import Object
from clusters.embedded.scheduling.nominations import Nominations
from tests.clusters.embedded.scheduling.scheduling_objects import make_pod


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
    """Only a change of the status changes the nomination."""
    nominations = Nominations()
    nominations.set(make_pod("p1"), "n1")

    nominations.update(make_pod("p1"), make_pod("p1"))
    assert ["uid-p1"] == on(nominations, "n1")

    nominations.update(make_pod("p1"), nominated("n2"))
    assert ["uid-p1"] == on(nominations, "n2")

    nominations.update(nominated("n2"), make_pod("p1"))
    assert [] == on(nominations, "n2")


def test_delete_of_a_pod_without_nomination_is_nothing() -> None:
    """It raises no error."""
    nominations = Nominations()
    nominations.delete("uid-p1")

    assert [] == nominations.on("n1")
