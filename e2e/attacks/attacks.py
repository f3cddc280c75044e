"""The attacks of a tenant, a ServiceAccount that may do anything with the pods of its own namespace, and nothing else.

Each is in place inside its context, while another tenant's pod starts; then it adds what it achieved.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

from clusters.api.api_client import MERGE_PATCH, ApiClient, ApiError, Object
from clusters.api.resources import PODS
from clusters.api.waiting import eventually, for_each, meanwhile
from e2e import spec
from e2e.attacks.api_proxy import Call
from e2e.attacks.attacked_cluster import GUARD_SECONDS, NODE, AttackedCluster
from e2e.builders import gpu_pod, plain_container
from e2e.observer import Observer
from e2e.tenant import granted

# Bytes of one annotation; all annotations of a pod may have 256 KiB together.
_LARGE: Final = 249_000
_LONG_WISH: Final = ",".join(["zz"] * (_LARGE // 3))
_MANY_CARDS: Final = json.dumps({"0": {str(card): 1 for card in range(_LARGE // 12)}})
_AT_ONCE: Final = 8
_QUESTIONS: Final = "gpushare_extender_requests_total"
_WAITING: Final = "gpushare_extender_waiting_pods"
# Questions about these pods write two pipes full of lines.
_LINES: Final = 80
# How many changes an author writes: before the other pod is created, and then at most. How many a second.
_CHANGES: Final = (120, 720)
_CHANGES_A_SECOND: Final = 36
# The writes of the device plugin to one of these pods: a few for its start, and eight repairs in each minute. Each repair may
# have an event, and one more reports that the pod is left alone.
_WRITES_OF_A_START: Final = 4
_REPAIRS_A_MINUTE: Final = 8
_ACCOUNT: Final = "tenant"
_RIGHTS: Final = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]}]


class Tenant:
    """Acts with a token of its own, and forges annotations of our programs.

    Admission policies refuse these (e2e/conformance/test_author_policies.py). The administrator is exempt and writes them, so that
    the attack goes on as on a cluster without policies.
    """

    def __init__(self, observer: Observer, api: ApiClient) -> None:
        self.observer = observer
        self.pods = PODS.path(observer.namespace)
        self._api = api

    def is_write_to_own(self, call: Call) -> bool:
        """Whether a call of a program writes into this tenant's namespace."""
        return call.method != "GET" and f"/namespaces/{self.observer.namespace}/" in call.path

    async def create(self, pod: Object) -> None:
        """Create a pod."""
        await self._api.request("POST", self.pods, body=pod)

    async def create_forged(self, pod: Object) -> None:
        """Create a pod with a forged annotation."""
        await self.observer.cluster.api.request("POST", self.pods, body=pod)

    async def annotate_forged(self, name: str, annotations: Mapping[str, str | None]) -> None:
        """Change our programs' annotations of a pod; None removes one."""
        patch = {"metadata": {"annotations": annotations}}
        await self.observer.cluster.api.patch(PODS, name, patch, self.observer.namespace, content_type=MERGE_PATCH)


@asynccontextmanager
async def open_tenant(stage: AttackedCluster) -> AsyncIterator[Tenant]:
    """A tenant with a namespace and a token of its own."""
    async with stage.namespace("attacker") as observer:
        # The name is in the name of a file.
        account = f"{_ACCOUNT}-{observer.namespace}"
        async with (
            granted(stage.cluster.api, observer.namespace, account, _RIGHTS),
            ApiClient.from_kubeconfig(await stage.cluster.kubeconfig_of(f"{observer.namespace}/{account}")) as api,
        ):

            async def may_list() -> bool:
                try:
                    await api.list(PODS, observer.namespace)
                except ApiError as error:
                    if error.code not in (401, 403):
                        raise
                    return False
                return True

            await eventually(may_list, bool, "the tenant has its rights")
            yield Tenant(observer, api)


Attack = Callable[[AttackedCluster, Tenant, list[str]], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def long_wishes(stage: AttackedCluster, tenant: Tenant, findings: list[str]) -> AsyncIterator[None]:
    """The scheduler asks about pods that wish one of 83,000 card models; none may be compared with a card."""
    count = 4
    for number in range(count):
        await tenant.create(_waiting(f"wish-{number}", _LONG_WISH))
    yield

    async def refused() -> float:
        return await stage.extender.metric(_WAITING, reason="bad wish")

    findings += await _unless(refused, lambda found: found == count, f"{count} long wishes are refused unread")


@asynccontextmanager
async def ended_pods_of_many_cards(stage: AttackedCluster, tenant: Tenant, findings: list[str]) -> AsyncIterator[None]:
    """25 ended pods with an annotation of 20,000 cards each, and requests for more units than exist."""
    await _ended(stage, tenant, tenant.create_forged, 25, {spec.POD_ALLOCATION: _MANY_CARDS}, spec.RESOURCE_MEMORY)
    yield
    findings += _memory(stage)


@asynccontextmanager
async def ended_pods_of_many_bytes(stage: AttackedCluster, tenant: Tenant, findings: list[str]) -> AsyncIterator[None]:
    """40 ended pods without a card, with a large annotation that our programs do not read.

    300 of them made a device plugin larger than its limit; to read 40 for one start is five times the bytes that are allowed.
    """
    await _ended(stage, tenant, tenant.create, 40, {"example.com/notes": "x" * _LARGE}, "cpu")
    yield
    findings += _memory(stage)


@asynccontextmanager
async def rewritten_cards(stage: AttackedCluster, tenant: Tenant, findings: list[str]) -> AsyncIterator[None]:
    """Six running pods on which their author writes other cards, 36 times a second."""
    names = [f"changing-{number}" for number in range(6)]
    written: Counter[str] = Counter()
    begun = asyncio.get_running_loop().time()

    async def write(count: int) -> None:
        for number, name in zip(range(count), itertools.cycle(names), strict=False):
            await tenant.annotate_forged(name, {spec.POD_INDEX: str(1 + number % 7), spec.POD_REPAIR: None})
            written[name] += 1
            await asyncio.sleep(1 / _CHANGES_A_SECOND)

    for name in names:
        await tenant.create(gpu_pod(name, 2))
    await tenant.observer.running(*names)
    await write(_CHANGES[0])
    async with meanwhile(write(_CHANGES[1])):
        yield
    writes = Counter(call.path for call in stage.plugin.proxy.calls if tenant.is_write_to_own(call))
    events = sum(count for path, count in writes.items() if "/events" in path)
    minutes = 1 + int((asyncio.get_running_loop().time() - begun) // 60)
    most = _WRITES_OF_A_START + minutes * _REPAIRS_A_MINUTE
    if events > len(names) * (most + minutes):
        findings.append(
            f"the plugin wrote {events} events in {minutes} minutes, at most {len(names) * (most + minutes)}"
        )
    for name in names:
        count = writes[f"{tenant.pods}/{name}"]
        if count > most:
            findings.append(f"the plugin wrote {name} {count} times, at most {most}; its author {written[name]} times")


@asynccontextmanager
async def unread_log(stage: AttackedCluster, tenant: Tenant, findings: list[str]) -> AsyncIterator[None]:
    """Pods about which the extender logs, while nothing reads its stderr; it must answer every question."""
    before = await stage.extender.metric(_QUESTIONS)

    async def answered() -> float:
        return await stage.extender.metric(_QUESTIONS) - before

    async def create(number: int) -> None:
        await tenant.create(_waiting(f"line-{number}", "no-such-model"))

    stage.extender.leave_stderr()
    try:
        await for_each(create, range(_LINES), _AT_ONCE)
        yield
        findings += await _unless(answered, lambda count: count >= _LINES, f"{_LINES} questions are answered")
    finally:
        stage.extender.read_stderr()


def _waiting(name: str, model: str) -> Object:
    """A pod that no card holds."""
    pod = gpu_pod(name, 1)
    pod["metadata"]["annotations"] = {spec.WISH_MODEL: model}
    return pod


async def _ended(
    stage: AttackedCluster,
    tenant: Tenant,
    create: Callable[[Object], Awaitable[None]],
    count: int,
    annotations: Mapping[str, str],
    resource: str,
) -> None:
    """Create pods that name their node and ask for more of a resource than it has: its kubelet turns them away."""
    asks = {resource: "999"}
    container = {**plain_container("c"), "resources": {"limits": asks, "requests": asks}}
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"nodeName": NODE, "containers": [container]}}
    metadata = [{"generateName": "ended-", "annotations": annotations} for _ in range(count)]
    await for_each(lambda one: create({**pod, "metadata": one}), metadata, _AT_ONCE)

    async def alive() -> int:
        selector = "status.phase!=Failed"
        found = await stage.cluster.api.list(PODS, tenant.observer.namespace, field_selector=selector)
        return sum(pod["metadata"]["name"].startswith("ended-") for pod in found)

    await eventually(alive, lambda left: left == 0, f"{count} pods have ended")


def _memory(stage: AttackedCluster) -> list[str]:
    """Programs that have had more memory than their manifests give them."""
    programs = ((one.name, one.peak_mib(), one.limit_mib) for one in (stage.extender, stage.plugin))
    return [f"the {name} has had {peak} MiB, at most {limit}" for name, peak, limit in programs if peak > limit]


async def _unless(look: Callable[[], Awaitable[float]], good: Callable[[float], bool], what: str) -> list[str]:
    """Nothing if it comes to that, else what was seen last."""
    try:
        await eventually(look, good, what, seconds=GUARD_SECONDS)
    except AssertionError as error:
        return [str(error)[:200]]
    return []
