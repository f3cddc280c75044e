"""An extender with certificates: a scheduler with one is served, no other client is."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from clusters.api.certificates import Authority
from e2e import spec
from e2e.extender import schedulers
from e2e.extender.extender_under_test import NO_ANSWER, Caller, ExtenderUnderTest

pytestmark = [pytest.mark.needs("client-certificates"), pytest.mark.stand_in_only("no kubelet has a part in it")]

VERBS: Final = (spec.FILTER, spec.PRIORITIZE, spec.PREEMPT, spec.BIND, spec.EXPLAIN)
BOOKS: Final = (spec.INSPECT, f"{spec.INSPECT}/a1", f"{spec.EXPLAIN}/x/y")
PROBES: Final = ("/healthz", "/readyz")
ROOT: Final = (*PROBES, "/version")


@dataclass(frozen=True, slots=True)
class Secured:
    """The second extender, and its allowed clients."""

    stage: ExtenderUnderTest
    url: str
    ca: Path
    known: Caller
    without: Caller
    stranger: Caller

    def root(self, path: str) -> str:
        """The address of a path beside the verbs'."""
        return self.url.rpartition("/")[0] + path


@pytest_asyncio.fixture(loop_scope="session")
async def secured(stage: ExtenderUnderTest, tmp_path: Path) -> AsyncIterator[Secured]:
    """With a certificate for 127.0.0.1; the session's extender shows the book before and after."""
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs")
    server, client = ours.issue_server("extender", ("127.0.0.1",)), ours.issue_client("scheduler")
    options = {"tls-cert-file": server.certificate, "tls-private-key-file": server.key, "client-ca-file": ours.ca}
    context = ssl.create_default_context(cafile=str(ours.ca))
    async with stage.extender({name: str(path) for name, path in options.items()}, tls=context) as url:
        callers = (Caller(ours.ca, client), Caller(ours.ca), Caller(ours.ca, theirs.issue_client("scheduler")))
        yield Secured(stage, url, ours.ca, *callers)


@pytest.mark.promise("EXT-033")
async def test_who_shows_a_certificate_is_served(secured: Secured) -> None:
    """Every path, by a certificate of the authority that the extender was given."""
    assert {path: await secured.known.status(secured.url + path) for path in BOOKS} == {
        spec.INSPECT: 200, f"{spec.INSPECT}/a1": 200, f"{spec.EXPLAIN}/x/y": 404,
    }  # fmt: skip
    assert {verb: await secured.known.status(secured.url + verb, "POST") for verb in VERBS} == {
        spec.FILTER: 200, spec.BIND: 200, spec.PRIORITIZE: 400, spec.PREEMPT: 400, spec.EXPLAIN: 400,
    }  # fmt: skip
    assert {path: await secured.known.status(secured.root(path)) for path in ROOT} == dict.fromkeys(ROOT, 200)


@pytest.mark.promise("EXT-033")
@pytest.mark.promise("D26")
async def test_a_caller_without_a_certificate_learns_nothing(secured: Secured) -> None:
    """Defect D26: 401 for verbs and book, whatever the method and size of the question; health is a probe's to ask."""
    body = await _order(secured)
    large = secured.stage.folder / "large"
    with large.open("wb") as file:
        file.truncate(100_000_000)

    async def status(path: str, method: str, body: Path | None = None) -> int:
        return await secured.without.status(secured.url + path, method, body)

    assert {await status(path, method) for path in (*VERBS, *BOOKS, "/nope") for method in ("GET", "POST", "PUT")} == {
        401
    }
    assert {await status(verb, "POST", body) for verb in VERBS} == {401}
    assert {await status(verb, "POST", large) for verb in VERBS} == {413}
    assert {await secured.without.status(secured.root(path)) for path in PROBES} == {200}
    assert {await secured.without.status(secured.root(path)) for path in ("/version", "/metrics", "/nope")} == {401}
    await _is_untouched(secured)


@pytest.mark.promise("EXT-033")
async def test_a_strangers_certificate_is_refused(secured: Secured) -> None:
    """A certificate of another authority gets no answer at all, not even to health; nor does a request without TLS."""
    body = await _order(secured)

    assert await Caller().status(secured.url.replace("https:", "http:") + spec.INSPECT) == NO_ANSWER
    assert {await secured.stranger.status(secured.url + verb, "POST", body) for verb in VERBS} == {NO_ANSWER}
    assert {await secured.stranger.status(secured.url + path) for path in BOOKS} == {NO_ANSWER}
    assert {await secured.stranger.status(secured.root(path)) for path in ROOT} == {NO_ANSWER}
    await _is_untouched(secured)


@pytest.mark.promise("EXT-033")
@pytest.mark.parametrize("verifies", [True, False], ids=["with a CA", "without a CA"])
async def test_a_scheduler_with_a_certificate_schedules(secured: Secured, verifies: bool) -> None:
    """Over mTLS from filter to bind; enableHTTPS without a CA verifies nothing, and still shows its certificate."""
    assert secured.known.pair is not None
    tls = {"certFile": str(secured.known.pair.certificate), "keyFile": str(secured.known.pair.key)}
    tls |= {"caFile": str(secured.ca)} if verifies else {}
    stage = secured.stage
    async with stage.scheduler(stage.configuration(secured.url, enableHTTPS=True, tlsConfig=tls)):
        await stage.create(stage.pod("p", 3, scheduler=schedulers.NAME, node="a2"))
        await stage.observer.running("p")
    await stage.observer.check_right_cards("p")


@pytest.mark.promise("EXT-033")
async def test_a_scheduler_without_a_certificate_gets_that_error(secured: Secured) -> None:
    """The pod waits, and its event has the status."""
    stage = secured.stage
    configuration = stage.configuration(secured.url, enableHTTPS=True, tlsConfig={"caFile": str(secured.ca)})
    async with stage.scheduler(configuration):
        await stage.create(stage.pod("p", 3, scheduler=schedulers.NAME, node="a2"))
        await stage.observer.waits_because("p", "code 401")
    assert "nodeName" not in (await stage.observer.pod("p"))["spec"]


async def _order(secured: Secured) -> Path:
    """A bind that would succeed, in a file."""
    (pod,) = await secured.stage.create(secured.stage.pod("p", 3))
    return secured.stage.write_order(pod, "a1")


async def _is_untouched(secured: Secured) -> None:
    assert "nodeName" not in (await secured.stage.observer.pod("p"))["spec"]
    await secured.stage.used("a1", 0)
