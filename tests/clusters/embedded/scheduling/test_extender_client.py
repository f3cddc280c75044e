"""How the embedded scheduler calls an extender."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from clusters.embedded.scheduling.cluster_view import NodeInfo, node_info
from clusters.embedded.scheduling.configuration import ConfigurationError, ExtenderConfiguration, TLSConfiguration
from clusters.embedded.scheduling.extender_client import ExtenderClient, ExtenderError, context_for
from clusters.embedded.scheduling.scheduler_messages import filter_request
from e2e.parity.recording_extender import Answer, Call, RecordingExtender
from tests.clusters.embedded.scheduling.scheduling_objects import make_node, make_pod

POD = make_pod()
NODES = [node_info(make_node(name)) for name in ("n1", "n2", "n3")]


@pytest.fixture
async def extender() -> AsyncIterator[RecordingExtender]:
    async with RecordingExtender() as local:
        yield local


def client_of(extender: RecordingExtender, **fields: Any) -> ExtenderClient:
    verbs = {"filter_verb": "filter", "prioritize_verb": "prioritize", "weight": 2, "bind_verb": "bind"}
    return ExtenderClient(
        ExtenderConfiguration(**{"url_prefix": extender.url, **verbs, "node_cache_capable": True, **fields})
    )


def always(body: Any, status: int = 200) -> Any:
    async def respond(call: Call) -> Answer:
        return Answer(body, status)

    return respond


def names(nodes: list[NodeInfo]) -> list[str]:
    return [info.name for info in nodes]


async def test_filter_sends_names_as_one_post(extender: RecordingExtender) -> None:
    """The body is kube-scheduler's, with the names of the nodes."""
    client = client_of(extender)
    answer = await client.filter(POD, NODES)
    await client.close()

    assert ["n1", "n2", "n3"] == names(answer.nodes)
    assert ["filter"] == extender.verbs()
    assert filter_request(POD, names=["n1", "n2", "n3"]) == extender.calls[0].body
    assert extender.calls[0].headers["content-type"] == "application/json"


async def test_filter_trims_slashes_of_the_prefix(extender: RecordingExtender) -> None:
    """A prefix that ends in slashes asks the same path."""
    client = client_of(extender, url_prefix=extender.url + "//")
    await client.filter(POD, NODES)
    await client.close()

    assert ["filter"] == extender.verbs()


async def test_filter_without_a_verb_makes_no_call(extender: RecordingExtender) -> None:
    """All nodes fit for an extender that has no verb for the filter."""
    client = client_of(extender, filter_verb="")
    answer = await client.filter(POD, NODES)
    await client.close()

    assert ["n1", "n2", "n3"] == names(answer.nodes)
    assert [] == extender.calls


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ({"NodeNames": [], "Nodes": None}, []),
        ({"NodeNames": None, "Nodes": {"items": [make_node("n2")]}}, ["n2"]),
        ({"NodeNames": None, "Nodes": None}, []),
        ({}, []),
    ],
    ids=["empty", "names-null", "both-null", "nothing"],
)
async def test_filter_with_a_node_cache_falls_back_to_nodes(
    extender: RecordingExtender, body: Any, left: list[str]
) -> None:
    """Names count unless they are null; null for both is no node at all."""
    extender.respond = always(body)
    client = client_of(extender)
    answer = await client.filter(POD, NODES)
    await client.close()

    assert left == names(answer.nodes)


async def test_filter_without_a_node_cache_sends_and_reads_nodes(extender: RecordingExtender) -> None:
    """Names in the answer are passed over, and returned nodes are not compared with those asked about."""
    extender.respond = always({"NodeNames": ["n1"], "Nodes": {"metadata": {}, "items": [make_node("other")]}})
    client = client_of(extender, node_cache_capable=False)
    answer = await client.filter(POD, NODES)
    await client.close()

    assert ["other"] == names(answer.nodes)
    assert filter_request(POD, nodes=[info.node for info in NODES]) == extender.calls[0].body


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({"NodeNames": ["n1", "n4"]}, 200, 'claims a filtered node "n4"'),
        ({"NodeNames": ["n1"], "Error": "cache is cold"}, 200, "^cache is cold$"),
        ({"NodeNames": ["n1"]}, 201, "code 201"),
        (b"", 204, "code 204"),
        (
            {"Error": "never read"},
            500,
            r"^failed filter with extender at URL http://127.0.0.1:\d+/.*/filter, code 500$",
        ),
        ({"NodeNames": "n1"}, 200, "Expected `array | null`"),
        (b"", 200, "no JSON"),
        ({"Nodes": {"items": [make_node(allocatable={"cpu": "?"})]}}, 200, "is not a quantity"),
    ],
    ids=["unknown-name", "error", "201", "204", "500", "wrong-type", "empty", "bad-node"],
)
async def test_filter_fails_as_a_whole(extender: RecordingExtender, body: Any, status: int, text: str) -> None:
    """An answer with a fault anywhere lets no node through."""
    extender.respond = always(body, status)
    client = client_of(extender)

    with pytest.raises(ExtenderError, match=text):
        await client.filter(POD, NODES)

    await client.close()


async def test_filter_ends_after_the_timeout(extender: RecordingExtender) -> None:
    """Connecting, waiting and reading together."""

    async def never(call: Call) -> Answer:
        await asyncio.Event().wait()
        return Answer()

    extender.respond = never
    client = client_of(extender, http_timeout="50ms")

    with pytest.raises(ExtenderError, match="deadline of 0.05 s exceeded"):
        await client.filter(POD, NODES)

    await client.close()


async def test_prioritize_weighs_the_scores(extender: RecordingExtender) -> None:
    """Each score is multiplied by the extender's weight."""
    extender.respond = always([{"Host": "n1", "Score": 7}, {"Host": "n9", "Score": 1}])
    client = client_of(extender)
    scores = await client.prioritize(POD, NODES)
    await client.close()

    assert [("n1", 14), ("n9", 2)] == scores


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for the name ``extender``, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=extender"
    subprocess.run(
        [*command.split(), "-addext", "subjectAltName=DNS:extender", "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    return certificate, key


async def call(pair: tuple[Path, Path], tls: TLSConfiguration | None, *, mutual: bool = False) -> None:
    """One filter call to an extender that serves TLS."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(*pair)
    if mutual:
        server.verify_mode = ssl.CERT_REQUIRED
        server.load_verify_locations(pair[0])
    async with RecordingExtender(tls=server) as extender:
        url = extender.url
        configuration = ExtenderConfiguration(
            url_prefix=url, filter_verb="filter", node_cache_capable=True, enable_https=True, tls=tls
        )
        client = ExtenderClient(configuration)
        try:
            await client.filter(make_pod(), [node_info(make_node())])
        finally:
            await client.close()


async def test_tls_without_a_ca_is_not_verified(pair: tuple[Path, Path]) -> None:
    """The setting enableHTTPS alone accepts any certificate, as in kube-scheduler."""
    await call(pair, None)


async def test_tls_with_a_ca_verifies_the_name(pair: tuple[Path, Path]) -> None:
    """Data wins over the file of the same name."""
    tls = TLSConfiguration(ca_data=pair[0].read_bytes(), ca_file="/does/not/exist", server_name="extender")
    await call(pair, tls)

    with pytest.raises(ExtenderError, match=r"(?i)certificate"):
        await call(pair, TLSConfiguration(ca_file=str(pair[0])))


async def test_tls_shows_a_client_certificate(pair: tuple[Path, Path]) -> None:
    """The client sends its certificate; a server that wants one refuses a client without."""
    certificate, key = pair
    ca = certificate.read_bytes()
    await call(
        pair,
        TLSConfiguration(ca_data=ca, server_name="extender", cert_file=str(certificate), key_data=key.read_bytes()),
        mutual=True,
    )

    with pytest.raises(ExtenderError):
        await call(pair, TLSConfiguration(ca_data=ca, server_name="extender"), mutual=True)


@pytest.mark.parametrize(
    "tls",
    [
        TLSConfiguration(insecure=True, ca_data=b"x"),
        TLSConfiguration(ca_file="/does/not/exist"),
        TLSConfiguration(ca_data=b"not PEM"),
        TLSConfiguration(insecure=True, cert_file="/does/not/exist", key_file="/does/not/exist"),
    ],
    ids=["insecure-with-ca", "no-ca-file", "broken-ca", "no-cert-file"],
)
def test_tls_that_cannot_work_is_a_configuration_error(tls: TLSConfiguration) -> None:
    """The error names the extender's URL."""
    with pytest.raises(ConfigurationError, match="https://x"):
        context_for(ExtenderConfiguration(url_prefix="https://x", tls=tls))
