"""The shared means of the extender's cases: questions as a scheduler asks them, nodes without a kubelet, a second extender."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import ssl
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from clusters.api.certificates import KeyPair
from clusters.api.connection import Answer
from clusters.api.readiness import is_up
from clusters.api.resources import CONFIG_MAPS, NODES, PRIORITY_CLASSES
from clusters.api.waiting import eventually, glimpse
from clusters.provider import Cluster
from clusters.providers import Choices
from clusters.targets import Target
from e2e import spec
from e2e.builders import NO_SCHEDULER, gpu_pod
from e2e.extender import schedulers
from e2e.observer import Observer
from e2e.tenant import admitted

Object = dict[str, Any]
_KEYS: Final = {
    key.lower(): key
    for key in (
        "Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error", "NodeNameToMetaVictims",
    )
}  # fmt: skip
# Nodes without a kubelet are tainted sooner or later.
_EVERYWHERE: Final = [{"operator": "Exists"}]
# Against hangs, in seconds: a hundred megabytes through a loaded machine.
_SECONDS: Final = 60
NO_ANSWER: Final = 0


class ExtenderUnderTest:
    """One case's namespace, nodes and priorities; ``close`` removes what is not the namespace's."""

    def __init__(self, observer: Observer, target: Target, choices: Choices, kind: str, folder: Path) -> None:
        self.observer = observer
        self.cluster: Cluster = observer.cluster
        self.api = observer.cluster.api
        self.namespace = observer.namespace
        self.kind = kind
        self.folder = folder
        self._target = target
        self._choices = choices
        self._nodes: list[str] = []
        self._priorities: list[str] = []

    # Objects

    async def node(self, name: str, units: int, cards: int = 1, *, labels: Mapping[str, str] | None = None) -> None:
        """A node without a kubelet, with the original's plugin: this number of units on this number of cards.

        Waits until the extender knows it.
        """
        amounts = _amounts(units, cards)
        manifest = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
            "status": {
                "capacity": amounts,
                "allocatable": amounts,
                "conditions": [{"type": "Ready", "status": "True", "reason": "Case", "message": "no kubelet looks"}],
            },
        }
        await self.api.create(manifest)
        self._nodes.append(name)
        await self._shows(name, "totalGPU", [units // cards] * cards)

    async def resize(self, name: str, units: int, cards: int) -> None:
        """The node's cards become others, and the extender knows them."""
        amounts = _amounts(units, cards)
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        await self.api.patch(NODES, name, status, subresource="status")
        await self._shows(name, "totalGPU", [units // cards] * cards)

    @contextlib.asynccontextmanager
    async def banned(self, node: str, gpus: str) -> AsyncIterator[None]:
        """The node's ConfigMap, by which the original bans cards, has this text inside."""
        metadata = {"name": f"unhealthy-gpu-{node}", "namespace": "kube-system"}
        await self.api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"gpus": gpus}})
        try:
            yield
        finally:
            await self.api.delete(CONFIG_MAPS, metadata["name"], metadata["namespace"])

    async def cards(self, node: str, url: str = "") -> list[Object]:
        """A node's cards in the book of the extender at ``url`` or the session's; none if it does not know the node."""
        book = await self.observer.inspect(f"/{node}", url)
        return [card for one in book.get("nodes") or () for card in one["devs"]]

    async def used(self, node: str, *units: int, url: str = "") -> None:
        """Wait until this number of units of its cards is booked."""
        await self._shows(node, "usedGPU", list(units), url)

    async def _shows(self, node: str, fact: str, units: list[int], url: str = "") -> None:
        def is_shown(cards: list[Object]) -> bool:
            return [card[fact] for card in cards] == units

        await eventually(lambda: self.cards(node, url), is_shown, f"the extender's book has {fact} {units} on {node}")

    def pod(self, name: str, *units: object, scheduler: str = NO_SCHEDULER, **more: Any) -> Object:
        """A pod's manifest that any node takes; ``more`` is gpu_pod's."""
        pod = gpu_pod(name, *units, scheduler=scheduler, **more)
        pod["spec"]["tolerations"] = _EVERYWHERE
        pod["metadata"]["namespace"] = self.namespace
        return pod

    async def create(self, *manifests: Object) -> list[Object]:
        """Create one after the other; as the API server has them."""
        return [await self.api.create(manifest, self.namespace) for manifest in manifests]

    async def booked(self, name: str, node: str, card: int, units: int) -> Object:
        """A pod that is on a card already."""
        annotations = {spec.POD_INDEX: str(card), spec.POD_UNITS: str(units)}
        return (await self.create(self.pod(name, units, bound_to=node, annotations=annotations)))[0]

    async def catch_up(self) -> None:
        """Return once the extender has seen each change of a pod before this call: it sees a pod that comes last.

        It books its own binds immediately. Everything else about a pod, such as its priority, it learns from its watch.
        """
        name = f"{self.namespace}-last"
        await self.node(name, 1)
        await self.booked("last", name, 0, 1)
        await self.used(name, 1)
        await self.observer.delete("last", 0)

    async def priority(self, name: str, value: int) -> None:
        """A PriorityClass that pods may name from now on."""
        head = {"apiVersion": PRIORITY_CLASSES.api_version, "kind": PRIORITY_CLASSES.kind}
        await self.api.create({**head, "metadata": {"name": name}, "value": value})
        self._priorities.append(name)
        probe = self.pod("probe", 1)
        probe["spec"]["priorityClassName"] = name
        await admitted(self.api, probe, self.namespace, dry_run=True)

    async def bound_to(self, name: str, *, seconds: float = 120) -> str:
        """Wait until the pod is bound; its node."""

        def is_bound(pod: Object) -> bool:
            return bool(pod["spec"].get("nodeName"))

        pod = await eventually(lambda: self.observer.pod(name), is_bound, f"{name} is bound", seconds=seconds)
        return str(pod["spec"]["nodeName"])

    @contextlib.asynccontextmanager
    async def calling(self, node: str) -> AsyncIterator[None]:
        """Something on the Node changes, while inside or soon afterwards, which wakes the pods that a scheduler has put aside."""
        before = _wakes(await self.api.get(NODES, node))
        yield
        await eventually(
            lambda: self.api.get(NODES, node),
            lambda seen: _wakes(seen) != before,
            f"something changes on {node}, which has room for a pod that waits",
        )

    def configuration(self, url: str = "", *, percentage: int | None = None, **extender: Any) -> dict[str, Any]:
        """``schedulers.configuration`` of the target, for the extender at ``url`` or the session's."""
        where = url or self.cluster.extender_url()
        return schedulers.configuration(self._target, where, percentage=percentage, **extender)

    @property
    def may_refuse_again(self) -> bool:
        """Does the target declare that it refuses to bind a pod again?"""
        return self._target.differences.repeated_bind == "refused"

    @property
    def claims(self) -> Collection[str]:
        """The capabilities that the target declares, for a part of a case; a case that is about one has the marker ``needs``."""
        return self._target.claims

    # Questions

    async def ask(self, verb: str, question: object) -> Any:
        """The extender's answer of 200, with the keys as Go spells them: schedulers read any casing."""
        answer = await self.observer.post(verb, json.dumps(question))
        assert answer.status_code == 200, glimpse(answer.text)
        body = answer.json()
        return {_KEYS.get(key.lower(), key): value for key, value in body.items()} if isinstance(body, dict) else body

    async def filter(self, pod: Object, *nodes: str) -> Object:
        """As a scheduler with a node cache asks."""
        return dict(await self.ask(spec.FILTER, {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)}))

    async def fits(self, pod: Object, *nodes: str) -> list[str]:
        """Those of the nodes on which it fits."""
        answer = await self.filter(pod, *nodes)
        assert not answer.get("Error"), glimpse(answer["Error"])
        return list(answer["NodeNames"] or ())

    async def bind(self, pod: Object, node: str, url: str | None = None) -> str:
        """Order the pod onto the node, from the extender at ``url`` or the session's; the error, or ""."""
        where = (url or self.cluster.extender_url()) + spec.BIND
        answer = await self.observer.post_to(where, json.dumps(self._order(pod, node)))
        return refusal_in(answer, self._target)

    def write_order(self, pod: Object, node: str) -> Path:
        """The same order in a file."""
        path = self.folder / "order"
        path.write_text(json.dumps(self._order(pod, node)))
        return path

    def _order(self, pod: Object, node: str) -> Object:
        metadata = pod["metadata"]
        return {"PodName": metadata["name"], "PodNamespace": self.namespace, "PodUID": metadata["uid"], "Node": node}

    async def prioritize(self, pod: Object, *nodes: str) -> list[Object]:
        """The scores."""
        return list(await self.ask(spec.PRIORITIZE, {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)}))

    # Programs

    @contextlib.asynccontextmanager
    async def extender(
        self,
        options: Mapping[str, str] | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        account: Path | None = None,
    ) -> AsyncIterator[str]:
        """Another extender of the same kind; returns the URL of its verbs. ``tls``: how to connect to it. ``account``: its own."""
        log = self.folder / "extender.log"
        program, port = await schedulers.extender_beside(
            "the extender beside", self._target, self.cluster, self._choices, log, options or {}, account=account
        )
        url = f"{'http' if tls is None else 'https'}://127.0.0.1:{port}"
        try:
            await program.launch(lambda: is_up(url, self._target.extender.ready, tls))
            yield url + self._target.extender.path
        finally:
            await program.stop()

    @contextlib.asynccontextmanager
    async def scheduler(self, configuration: Mapping[str, Any], account: Path | None = None) -> AsyncIterator[None]:
        """A scheduler of the cluster's kind for pods of the configuration's profile; a real one acts as ``account``."""
        async with schedulers.scheduler(self.kind, self.cluster, self._choices, self.folder, configuration, account):
            yield

    async def account(self) -> Path:
        """The kubeconfig of the extender's account."""
        return await self.cluster.kubeconfig_of(self._target.extender.account)

    async def close(self) -> None:
        """Remove nodes and priorities; the pods are the observer's."""
        for resource, names in ((NODES, self._nodes), (PRIORITY_CLASSES, self._priorities)):
            for name in names:
                await self.api.delete(resource, name)


def refusal_in(answer: Answer, target: Target) -> str:
    """The error in a bind's answer, "" for a success. A refusal has the status that the target declares, and a reason."""
    error = next((text for key, text in answer.json().items() if key.lower() == "error"), "")
    expected = int(target.differences.refused_bind) if error else 200
    assert answer.status_code == expected, f"status {answer.status_code} with Error {error!r}, expected {expected}"
    return str(error or "")


def refused(answer: Object) -> dict[str, str]:
    """The nodes that a filter refused, with the reasons. No node is in both maps."""
    some, none = (answer.get(key) or {} for key in ("FailedNodes", "FailedAndUnresolvableNodes"))
    assert not some.keys() & none.keys(), f"in both maps of failures: {glimpse(sorted(some.keys() & none.keys()))}"
    return {**some, **none}


def _wakes(node: Object) -> tuple[object, ...]:
    """The parts of a Node whose change makes a scheduler look again at the pods that it has put aside."""
    metadata = node["metadata"]
    # The control plane's own annotations come at any time, on a new Node.
    annotations = {
        key: text for key, text in (metadata.get("annotations") or {}).items() if "kubernetes.io/" not in key
    }
    return annotations, metadata.get("labels"), (node.get("status") or {}).get("allocatable")


def _amounts(units: int, cards: int) -> dict[str, str]:
    ordinary = {"cpu": "64", "memory": "256Gi", "pods": "1000"}
    return {**ordinary, spec.RESOURCE_MEMORY: str(units), spec.RESOURCE_COUNT: str(cards)}


@dataclass(frozen=True, slots=True)
class Caller:
    """The client: ``ca`` is the authority that it trusts, ``pair`` its certificate; None for plain HTTP, and for no certificate."""

    ca: Path | None = None
    pair: KeyPair | None = None

    async def status(self, url: str, method: str = "GET", body: Path | None = None, content_type: str = "") -> int:
        """The answer; NO_ANSWER if the connection ends without one."""
        content_type = content_type or "application/json"
        if shutil.which("curl"):
            return await self._curl(url, method, body, content_type)
        return await self._aiohttp(url, method, body, content_type)

    async def _curl(self, url: str, method: str, body: Path | None, content_type: str) -> int:
        argv = ["curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "--noproxy", "*"]
        argv += ["--max-time", str(_SECONDS), "--request", method, "--header", f"Content-Type: {content_type}"]
        argv += ["--data-binary", f"@{body}"] if body is not None else []
        argv += ["--cacert", str(self.ca)] if self.ca is not None else []
        argv += ["--cert", str(self.pair.certificate), "--key", str(self.pair.key)] if self.pair is not None else []
        process = await asyncio.create_subprocess_exec(*argv, url, stdout=asyncio.subprocess.PIPE)
        out, _ = await process.communicate()
        return int(out)

    async def _aiohttp(self, url: str, method: str, body: Path | None, content_type: str) -> int:
        tls: ssl.SSLContext | bool = True
        if self.ca is not None:
            tls = ssl.create_default_context(cafile=str(self.ca))
            if self.pair is not None:
                tls.load_cert_chain(self.pair.certificate, self.pair.key)
        content = body.read_bytes() if body is not None else None
        timeout = aiohttp.ClientTimeout(total=_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.request(
                    method, url, data=content, headers={"Content-Type": content_type}, ssl=tls, allow_redirects=False
                ) as answer,
            ):
                return answer.status
        except (aiohttp.ClientError, OSError):
            return NO_ANSWER
