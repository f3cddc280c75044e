"""How the embedded scheduler binds a pod, by itself or through an extender."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from clusters.api.api_client import ApiClient
from clusters.api.connection import Connection
from clusters.embedded.scheduling.configuration import ExtenderConfiguration, ManagedResource
from clusters.embedded.scheduling.extender_client import ExtenderClient
from clusters.embedded.scheduling.scheduler_binding import BindError, bind
from e2e.parity.recording_extender import Answer, Call, RecordingExtender
from tests.clusters.embedded.scheduling.scheduling_objects import MEMORY, make_pod

POD = make_pod(limits={MEMORY: "2"})


@pytest.fixture
async def api_server() -> AsyncIterator[RecordingExtender]:
    """Takes every Binding."""
    async with RecordingExtender() as server:
        yield server


@pytest.fixture
async def extender() -> AsyncIterator[RecordingExtender]:
    async with RecordingExtender() as server:
        yield server


async def broken(call: Call) -> Answer:
    return Answer({"reason": "Conflict", "message": "pod p1 is already assigned"}, status=409)


async def bind_pod(pod: dict[str, object], api_server: RecordingExtender, extender: RecordingExtender) -> None:
    configuration = ExtenderConfiguration(
        url_prefix=extender.url,
        bind_verb="bind",
        managed_resources=(ManagedResource(name=MEMORY),),
    )
    client = ExtenderClient(configuration)
    async with Connection(f"http://127.0.0.1:{api_server.port}") as http:
        try:
            await bind(ApiClient(http), [client], pod, "n1")
        finally:
            await client.close()


async def test_a_managed_pod_is_bound_by_the_extender_alone(
    api_server: RecordingExtender, extender: RecordingExtender
) -> None:
    """The scheduler asks the extender to bind, and sends nothing to the API server."""
    await bind_pod(POD, api_server, extender)

    assert ["bind"] == extender.verbs()
    assert [] == api_server.calls


async def test_any_other_pod_is_bound_directly(api_server: RecordingExtender, extender: RecordingExtender) -> None:
    """The binding names the uid, so that a re-created pod of the same name is not bound by mistake."""
    await bind_pod(make_pod(), api_server, extender)

    assert [] == extender.calls
    message = api_server.calls[0].message
    assert ("uid-p1", "Node", "n1") == (
        message["metadata"]["uid"],
        message["target"]["kind"],
        message["target"]["name"],
    )


async def test_a_refusal_of_the_api_server_is_the_reason(
    api_server: RecordingExtender, extender: RecordingExtender
) -> None:
    """If no extender binds, the error is the API server's own text."""
    api_server.respond = broken

    with pytest.raises(BindError, match=r"DefaultBinder.*already assigned"):
        await bind_pod(make_pod(), api_server, extender)
