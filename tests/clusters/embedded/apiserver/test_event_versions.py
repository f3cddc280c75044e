"""Promises of clusters.embedded.apiserver.event_versions: events are one kind under two names."""

from __future__ import annotations

from clusters.embedded.apiserver.event_versions import as_core, as_v1
from clusters.embedded.apiserver.server import EmbeddedApi
from clusters.resources import EVENTS, EVENTS_V1

ABOUT = {"kind": "Pod", "namespace": "default", "name": "p"}


def test_an_event_of_the_older_name_is_shown_under_the_newer() -> None:
    """The fields that changed their names, and those that are shown although they are empty."""
    shown = as_v1({"metadata": {}, "involvedObject": ABOUT, "message": "m", "source": {"component": "c"}, "count": 3})

    assert (shown["regarding"], shown["note"], shown["deprecatedCount"]) == (ABOUT, "m", 3)
    assert shown["deprecatedSource"] == {"component": "c"}
    assert shown["eventTime"] is None
    assert "message" not in shown


def test_there_and_back_nothing_is_lost() -> None:
    """Either way."""
    core = as_core({"metadata": {"name": "e"}, "involvedObject": ABOUT, "message": "m", "reportingComponent": "c"})

    assert as_core(as_v1(core)) == core


def test_both_names_have_the_same_objects() -> None:
    """Reading, listing, changes, deletion."""
    server = EmbeddedApi()
    before = server.store.version
    event = {"metadata": {"name": "e"}, "involvedObject": ABOUT, "message": "m"}
    server.writes.create(EVENTS, "default", event)

    assert server.writes.get(EVENTS_V1, "default", "e").item["note"] == "m"
    assert [each.item["note"] for each in server.store.all(EVENTS_V1, "default")] == ["m"]
    (change,) = server.store.since(EVENTS_V1, before)
    assert change.last.item["regarding"] == ABOUT
    server.store.remove(EVENTS_V1, server.writes.get(EVENTS_V1, "default", "e").item)
    assert server.store.get(EVENTS, "default", "e") is None
