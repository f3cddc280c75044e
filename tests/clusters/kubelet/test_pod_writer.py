"""How the simulated kubelet writes the status of pods."""

from __future__ import annotations

from clusters.kubelet.pod_writer import PodWriter
from tests.clusters.kubelet.pods_of_tests import container, pod


def writer_of(api, item) -> PodWriter:
    return PodWriter(api.client, item, "n1", lambda: 1_700_000_000.0, 0.0)


async def test_only_the_newest_of_several_states_is_written(api) -> None:
    """A state that is there already is not written again."""
    item = pod("p", container("main"))
    api.put(item)
    writer = writer_of(api, item)
    for phase in ("Pending", "Running", "Succeeded"):
        writer.publish({"phase": phase})
    await writer.flush()
    writer.publish({"phase": "Succeeded"})
    await writer.flush()

    assert [(call["method"], call["path"]) for call in api.calls] == [
        ("PATCH", "/api/v1/namespaces/default/pods/p/status")
    ]
    assert api.phase("p") == "Succeeded"


async def test_a_pod_that_is_gone_is_let_go(api) -> None:
    """The writer does not wait for an object that will not come back."""
    writer = writer_of(api, pod("gone", container("main")))
    writer.publish({"phase": "Running"})
    await writer.flush()
    await writer.delete()

    assert not any(api.items.values())


async def test_an_event_names_pod_and_reason(api) -> None:
    """An event names the pod and the reason, and its message has at most 1024 characters."""
    writer = writer_of(api, pod("p", container("main")))
    await writer.warn("Failed", "x" * 2000)
    (event,) = api.events

    assert (event["type"], event["reason"], len(event["message"])) == ("Warning", "Failed", 1024)
    assert event["involvedObject"]["uid"] == "uid-p"
    assert event["source"] == {"component": "kubelet", "host": "n1"}


async def test_events_of_one_pod_never_have_one_name(api) -> None:
    """The scheduler names its events by pod and number; a kubelet that restarts counts from the beginning. None is lost."""
    seconds = iter((1_700_000_000.0, 1_700_000_000.0, 1_700_000_060.0))
    item = pod("p", container("main"))
    before = PodWriter(api.client, item, "n1", lambda: next(seconds), 0.0)
    for message in ("first", "second"):
        await before.warn("Failed", message)
    await PodWriter(api.client, item, "n1", lambda: next(seconds), 0.0).warn("Failed", "third")

    assert sorted(event["message"] for event in api.events) == ["first", "second", "third"]
    assert all(not event["metadata"]["name"].startswith("p.uid-p") for event in api.events)
