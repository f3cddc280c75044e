"""The two sides of a comparison: an API server with its controllers, embedded or real, and no kubelets.

A side is an administrator's, or that of a client with a token, a certificate, or nothing (``stranger``).
"""

from __future__ import annotations

import asyncio
import base64
import difflib
import json
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import yaml

from clusters.api.api_client import ApiClient
from clusters.api.certificates import KeyPair
from clusters.api.connection import Connection
from clusters.local_cluster import ControlPlane

_UID: Final = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_TIME: Final = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_VERSION_KEYS: Final = ("resourceVersion", "resource_version")
# The texts that are compared: something is forbidden (by rights, by a policy, by a quota), or not found.
_COMPARED: Final = re.compile(r"forbidden: | not found$")
_LEFT_OUT: Final = ("managedFields",)
_TOKEN_VOLUME: Final = re.compile(r"\bkube-api-access-[a-z0-9]{5}\b")


def normalised(value: Any) -> Any:
    """The value with what is volatile replaced."""
    if isinstance(value, Mapping):
        return {str(key): _field(str(key), one) for key, one in verdict(value).items() if key not in _LEFT_OUT}
    if isinstance(value, (list, tuple)):
        return [normalised(one) for one in value]
    if isinstance(value, str):
        return _text(value)
    return value


def verdict(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """A refusal without what only people read, a bookmark without its empty fields; anything else as it is."""
    if value.get("type") == "BOOKMARK" and isinstance(value.get("object"), Mapping):
        found = value["object"]
        return {**value, "object": {key: found.get(key) for key in ("kind", "apiVersion", "metadata")}}
    if value.get("kind") != "Status" or value.get("status") != "Failure":
        return value
    details = value.get("details") or {}
    # The real server finds some faults twice, in two rounds of its checks.
    causes = sorted({(each.get("field", ""), each.get("reason", "")) for each in details.get("causes") or ()})
    compared = {"name": details.get("name"), "retryAfterSeconds": details.get("retryAfterSeconds"), "causes": causes}
    text = value.get("message", "")
    found = {**{key: each for key, each in value.items() if key != "message"}, "details": compared}
    return {**found, "message": text} if _COMPARED.search(text) else found


def _field(key: str, value: Any) -> Any:
    if key in _VERSION_KEYS and isinstance(value, str):
        return "<version>" if value.isdigit() and value != "0" else value
    if key == "continue" and value:
        return "<continue>"
    return normalised(value)


def _text(value: str) -> str:
    value = _TIME.sub(lambda found: "<micro time>" if found[1] else "<time>", value)
    return _TOKEN_VOLUME.sub("kube-api-access-<random>", _UID.sub("<uid>", value))


def difference(first: Any, second: Any, names: tuple[str, str]) -> str:
    """The lines in which two normalised observations differ; "" when they are equal."""
    # As JSON, not as Python's values: to Python true, 1 and 1.0 are equal, to a client in Go they are not.
    before, after = (json.dumps(one, indent=1, sort_keys=True, default=str).splitlines() for one in (first, second))
    return "\n".join(difflib.unified_diff(before, after, *names, lineterm="", n=4))


TABLE: Final = Path(__file__).parent / "differences.yaml"


@dataclass(frozen=True, slots=True)
class Difference:
    id: str
    embedded: str
    real: str
    reason: str
    """Why it stays, and why it can hide no defect of what is judged."""
    no_case: str = ""
    """Why no case shows it."""


def load() -> dict[str, Difference]:
    rows = [Difference(**entry) for entry in yaml.safe_load(TABLE.read_text())]
    return {row.id: row for row in rows}


def report(rows: dict[str, Difference]) -> str:
    """The table as text, a row a paragraph."""
    return "\n".join(
        f"{row.id}\n  embedded: {row.embedded}\n  real:     {row.real}\n  reason:   {row.reason}"
        for row in rows.values()
    )


SCHEDULE: Final = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


@dataclass(frozen=True, slots=True)
class Answer:
    """One raw answer: the status, the headers in lower case, the body decoded if it is JSON."""

    code: int
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True, slots=True)
class Side:
    """One cluster as a case sees it; ``namespace`` is fresh for the case, of the same name on both sides."""

    name: str
    cluster: ControlPlane
    http: Connection
    api: ApiClient
    namespace: str = ""

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        raw: bytes | None = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request, ``body`` as JSON or ``raw`` as it is; whatever the answer is."""
        content = raw if raw is not None or body is None else json.dumps(body).encode()
        sent = {**({"content-type": content_type} if content is not None else {}), **(headers or {})}
        got = await self.http.request(method, path, content=content, params=params, headers=sent)
        told = {name.lower(): ", ".join(got.headers.getall(name)) for name in got.headers}
        return Answer(got.status_code, told, _decoded(got.content))

    @asynccontextmanager
    async def watch(self, path: str, **params: str) -> AsyncIterator[AsyncIterator[Any]]:
        """A watch: an iterator of its decoded events. Raises AssertionError if it is refused."""
        async with self.http.stream("GET", path, params={"watch": "1", **params}) as answer:
            if answer.status_code != 200:
                raise AssertionError(f"{self.name}: {answer.status_code} {(await answer.read()).decode()}")
            yield (json.loads(line) async for line in answer.lines() if line)

    @asynccontextmanager
    async def scheduler(self, configuration: Mapping[str, Any]) -> AsyncIterator[None]:
        """The side's scheduler at work with this KubeSchedulerConfiguration (``SCHEDULE`` and more)."""
        try:
            await self.cluster.start_scheduler({**SCHEDULE, **configuration})
            yield
        finally:
            await self.cluster.stop_scheduler()


Observe = Callable[[Side], Awaitable[Any]]


@dataclass(slots=True)
class Both:
    embedded: Side
    real: Side
    seen: list[str] = field(default_factory=list)
    """Ids of the rows of the table that the case has shown."""

    async def same(self, observe: Observe) -> Any:
        """Observe on both sides in parallel; the common observation, normalised. Raises AssertionError with the differences."""
        ours, theirs = await self._observe(observe)
        found = difference(theirs, ours, (self.real.name, self.embedded.name))
        assert not found, f"the sides differ:\n{found}"
        return theirs

    async def differs(self, row: str, observe: Observe) -> tuple[Any, Any]:
        """A known difference: the observations, embedded and real. Raises AssertionError if they have become equal."""
        assert row in load(), f"differences.yaml has no row {row!r}"
        ours, theirs = await self._observe(observe)
        assert difference(theirs, ours, (self.real.name, self.embedded.name)), (
            f"the sides agree now: remove row {row!r} from differences.yaml"
        )
        self.seen.append(row)
        return ours, theirs

    async def _observe(self, observe: Observe) -> tuple[Any, Any]:
        async with asyncio.TaskGroup() as group:
            ours = group.create_task(_run(observe, self.embedded))
            theirs = group.create_task(_run(observe, self.real))
        return normalised(ours.result()), normalised(theirs.result())

    @asynccontextmanager
    async def in_namespace(self, name: str) -> AsyncIterator[Both]:
        """Both sides with a fresh namespace; removed afterwards, its pods immediately: the next case's scheduler sees them."""
        sides = [replace(side, namespace=name) for side in (self.embedded, self.real)]
        for side in sides:
            await _make_namespace(side)
        try:
            yield Both(sides[0], sides[1])
        finally:
            for side in sides:
                await side.call("DELETE", f"/api/v1/namespaces/{name}")
                await side.call("DELETE", f"/api/v1/namespaces/{name}/pods", body={"gracePeriodSeconds": 0})


async def _run(observe: Observe, side: Side) -> Any:
    try:
        return await observe(side)
    except Exception as error:
        error.add_note(f"on the side {side.name}")
        raise


@asynccontextmanager
async def open_side(name: str, cluster: ControlPlane) -> AsyncIterator[Side]:
    """A side over a cluster that has been started."""
    api = await asyncio.to_thread(ApiClient.from_kubeconfig, cluster.kubeconfig)
    async with api:
        yield Side(name, cluster, api.http, api)


async def _make_namespace(side: Side) -> None:
    """Create it with the ServiceAccount that pods need: a controller's, or ours if that one is late or missing (409)."""
    await side.api.ensure_namespace(side.namespace)
    path = f"/api/v1/namespaces/{side.namespace}/serviceaccounts"
    await side.call("POST", path, body={"metadata": {"name": "default"}})


def _decoded(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")


@asynccontextmanager
async def stranger(side: Side, *, token: str = "", certificate: KeyPair | None = None) -> AsyncIterator[Side]:
    """The side for a client that trusts the cluster's authority, and shows the credentials given here."""
    context = ssl.create_default_context(cadata=authority(side.cluster.kubeconfig))
    if certificate is not None:
        context.load_cert_chain(certificate.certificate, certificate.key)
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with Connection(side.cluster.url, tls=context, headers=headers) as http:
        yield replace(side, http=http)


def authority(kubeconfig: Path) -> str:
    """The certificate of a cluster's authority, from a kubeconfig (PEM)."""
    cluster = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]
    return base64.b64decode(cluster["certificate-authority-data"]).decode()


async def account_token(side: Side, account: str, **spec: Any) -> str:
    """A token of a ServiceAccount of the case's namespace, as the API issues it; the account is made."""
    place = f"/api/v1/namespaces/{side.namespace}/serviceaccounts"
    await side.call("POST", place, body={"metadata": {"name": account}})
    answer = await side.call("POST", f"{place}/{account}/token", body={"spec": spec})
    assert answer.code == 201, answer.body
    return str(answer.body["status"]["token"])
