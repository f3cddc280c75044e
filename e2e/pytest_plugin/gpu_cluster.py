"""A running cluster as a test sees it. Every method waits for its answer; during an asynchronous test the cluster goes on."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import yaml

from clusters.api.api_client import ApiError, Object
from clusters.api.resources import NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS, resource_of
from clusters.api.waiting import NotReachedError, eventually, glimpse
from clusters.provider import DEVICE_PLUGIN, EXTENDER, Cluster, ClusterError
from clusters.simulated_node import environment_of_programs
from e2e import spec
from e2e.observer import Observer
from e2e.real_kubelets import STAND_INS
from e2e.site.node_cards import Card, described

T = TypeVar("T")
Manifests = str | Path | Mapping[str, Any] | Sequence[Mapping[str, Any]]
# Against hangs, in seconds.
_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.05
# The driver's words for a card that fell off the bus.
_LOST_XID: Final = 79


class LoopThread:
    """An event loop in a thread of its own: a cluster goes on while a test, asynchronous or not, does something else."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="gpu-cluster", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.run(_cancel_others())
        self.run(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it on the loop, and wait for its result. Raises what it raised; if the wait is broken off, so is the work."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call(self, act: Callable[[], T]) -> T:
        """The same for a function."""

        async def acted() -> T:
            return act()

        return self.run(acted())


async def _cancel_others() -> None:
    """End what still runs on the loop."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class GpuCluster:
    """The fixture ``gpu_cluster``.

    A pod is named, or given as a method of this class answered it. A card is named by its index on its node.
    """

    def __init__(
        self,
        cluster: Cluster,
        loop: LoopThread,
        kind: str,
        nodes: Sequence[str],
        environment: Mapping[str, str],
        namespace: str = "default",
    ) -> None:
        self._cluster = cluster
        self._loop = loop
        self._kind = kind
        self._environment = environment
        self.namespace = namespace
        """Where manifests that name no namespace go, and where pods are looked for."""
        self.nodes = list(nodes)
        """The names of its nodes, in the order of the marker; those of an existing cluster that have cards."""
        self._observer = loop.call(lambda: Observer(cluster, namespace))
        if not nodes:
            self.nodes = [one["metadata"]["name"] for one in loop.run(cluster.api.list(NODES)) if described(one)]

    @property
    def kubeconfig(self) -> Path:
        """An administrator's, for kubectl and clients of your own."""
        return self._cluster.kubeconfig

    @property
    def env(self) -> dict[str, str]:
        """The environment for a command on this cluster: ``subprocess.run([…], env=gpu_cluster.env)``."""
        return {**environment_of_programs(self._environment), "KUBECONFIG": str(self.kubeconfig)}

    def apply(self, manifests: Manifests) -> list[Object]:
        """Create the objects of a file, of a folder of YAML files, of a text or of data; those that are there are changed."""
        return [self._loop.run(self._apply(one)) for one in objects_in(manifests)]

    def delete_pod(self, pod: str | Object, *, now: bool = False) -> None:
        """Delete a pod and wait until it is gone; ``now`` leaves it no time to end."""
        name = _name(pod)
        self._loop.run(self._observer.delete(name, 0 if now else None))
        self._loop.run(self._observer.are_gone(name))

    def pods(self, selector: str = "") -> list[Object]:
        """The pods, or those with a label (``app=trainer``)."""
        return self._loop.run(self._cluster.api.list(PODS, self.namespace, label_selector=selector or None))

    def pod(self, pod: str | Object) -> Object:
        """A pod as it is now."""
        return self._loop.run(self._observer.pod(_name(pod)))

    def wait_running(
        self, *pods: str | Object, selector: str = "", count: int = 1, seconds: float = _SECONDS
    ) -> list[Object]:
        """Wait until these pods run, or at least ``count`` with a label, and all that have it; the pods."""
        if pods:
            with self._reasons_first():
                return self._loop.run(self._observer.running(*map(_name, pods), seconds=seconds))

        def all_run(found: list[Object]) -> bool:
            return len(found) >= count and all(one["status"].get("phase") == "Running" for one in found)

        what = f"{count} pod{'s' * (count != 1)} {selector} run"
        return self.wait_until(lambda: self.pods(selector), all_run, what, seconds=seconds)

    def wait_pending(
        self,
        pod: str | Object = "",
        reason: str = "",
        *,
        selector: str = "",
        count: int = 1,
        seconds: float = _SECONDS,
    ) -> str:
        """Wait until the scheduler has published why it places a pod nowhere, in a text with ``reason``; the text.

        The pod is named; or at least ``count`` pods with a label (``app=trainer``) wait, or of all of the namespace.
        """

        def texts() -> list[str]:
            found = [self.pod(pod)] if pod else self.pods(selector)
            return [text for text in map(_refusal, found) if text and reason in text]

        what = f"{_name(pod) if pod else f'{count} of the pods {selector}'.strip()} waits: {reason}"
        return self.wait_until(texts, lambda found: len(found) >= count, what, seconds=seconds)[0]

    def wait_until(
        self, look: Callable[[], T], good: Callable[[T], bool] = bool, what: str = "", *, seconds: float = _SECONDS
    ) -> T:
        """Call ``look`` again and again until its value is good; the value.

        Raises AssertionError with the last one, behind the reasons of the scheduler for pods of the namespace that wait.
        """
        until = time.monotonic() + seconds
        while not good(value := look()):
            if time.monotonic() > until:
                with self._reasons_first():
                    raise NotReachedError(
                        f"after {seconds:g} s not reached: {what or look}; last seen: {glimpse(value)}"
                    )
            time.sleep(_LOOK_SECONDS)
        return value

    @contextmanager
    def _reasons_first(self) -> Iterator[None]:
        """Put the scheduler's reasons before the text of a wait that failed: nearly always they are the cause."""
        try:
            yield
        except NotReachedError as error:
            with suppress(ApiError, ClusterError):
                waiting = [f"{_name(one)} waits: {text}" for one in self.pods() if (text := _refusal(one))]
                raise NotReachedError("\n".join([*waiting, str(error)])) from error
            raise

    def logs(self, pod: str | Object, container: str = "") -> str:
        """The log of a container; of a pod's only one, if none is named."""
        path = PODS.path(self.namespace, _name(pod), "log")
        return self._loop.run(self._cluster.api.text(path, {"container": container} if container else None))

    def environment(self, pod: str | Object, container: str = "") -> dict[str, str]:
        """The variables that a container printed as ``NAME=value``; a simulated one begins with those of its cards."""

        def variables() -> dict[str, str]:
            try:
                text = self.logs(pod, container)
            except ApiError as error:
                # The container starts, or its kubelet does.
                if error.code not in (400, 404):
                    raise
                text = ""
            return dict(line.split("=", 1) for line in text.splitlines() if "=" in line.partition(" ")[0])

        if self._kind not in STAND_INS:
            return variables()
        # They are sorted: this one comes last.
        return self.wait_until(variables, lambda seen: spec.ENV_VISIBLE in seen, f"variables of {_name(pod)}")

    def card(self, pod: str | Object, container: str = "") -> Card:
        """The card that a container got: its ``index``, ``uuid``, ``model``, ``mib``, ``units``, and whether it is ``healthy``.

        It is that of the pod's annotation. Raises AssertionError if the container sees another one, as far as it printed that.
        """
        found = self.pod(pod)
        index = (found["metadata"].get("annotations") or {}).get(spec.POD_INDEX, "")
        cards = {str(card.index): card for card in self.cards(found["spec"].get("nodeName", ""))}
        if index not in cards:
            raise AssertionError(f"{_name(pod)} has the card {index!r} of {sorted(cards)}")
        visible = self.environment(pod, container).get(spec.ENV_VISIBLE, index)
        if visible not in (index, cards[index].uuid):
            raise AssertionError(
                f"{_name(pod)} has card {index}, {cards[index].uuid}, and its container sees {visible}"
            )
        return cards[index]

    def cards(self, node: str) -> list[Card]:
        """The cards of a node as its device plugin describes them; none if it has no plugin."""
        if not node:
            return []
        found = described(self._loop.run(self._cluster.api.get(NODES, node)))
        return list(found.cards.values()) if found else []

    def xid(self, node: str, card: int, number: int = _LOST_XID) -> None:
        """Report an Xid on a simulated card, as its driver would. Whether the card is unhealthy then depends on the number."""
        self.fake_nvml(node, "xid", str(card), str(number))

    def make_unhealthy(self, node: str, card: int) -> None:
        """Let a simulated card fall off the bus (Xid 79), and wait until its node offers it no longer."""
        self.xid(node, card)
        self._shows(node, card, healthy=False)

    def make_healthy(self, node: str, card: int) -> None:
        """Repair it, declare it recovered as an operator does, and wait until its node offers it again."""
        self.fake_nvml(node, "repair", str(card))
        declared = {"metadata": {"annotations": {spec.NODE_RECOVERED: str(card)}}}
        self._loop.run(self._cluster.api.patch(NODES, node, declared))
        self._shows(node, card, healthy=True)

    def remove_card(self, node: str, card: int) -> None:
        """Pull a simulated card out, with the processes on it, and wait until its node offers it no longer."""
        self.fake_nvml(node, "remove", str(card))
        self.wait_until(
            lambda: [one.index for one in self.cards(node) if one.healthy],
            lambda indices: card not in indices,
            f"{node} is without card {card}",
        )

    def fake_nvml(self, node: str, *arguments: str) -> str:
        """Run the command ``fake-nvml`` on a node's simulated cards, for all else that can happen to them; its output."""
        return self._loop.run(self._cluster.fake_nvml(node, *arguments))

    def restart_kubelet(self, node: str, *, reboot: bool = False) -> None:
        """Restart a node's kubelet, or its whole machine."""
        self._loop.run(self._cluster.restart_kubelet(node, reboot=reboot))

    def restart_device_plugin(self, node: str) -> None:
        """Kill a node's device plugin and start it again."""
        self._loop.run(self._cluster.kill(DEVICE_PLUGIN, node))
        self._loop.run(self._cluster.launch(DEVICE_PLUGIN, node))

    def restart_extender(self) -> None:
        """Kill the extender and start it again."""
        self._loop.run(self._cluster.kill(EXTENDER))
        self._loop.run(self._cluster.launch(EXTENDER))

    def program_log(self, node: str = "") -> str:
        """The log of a node's device plugin, or of the extender."""
        return self._loop.call(lambda: self._cluster.log(DEVICE_PLUGIN, node) if node else self._cluster.log(EXTENDER))

    @contextmanager
    def own_namespace(self, name: str) -> Iterator[GpuCluster]:
        """The same cluster with a namespace for one test, which is deleted behind it with all that is in it."""
        self._loop.run(self._cluster.api.ensure_namespace(name))
        one = GpuCluster(self._cluster, self._loop, self._kind, self.nodes, self._environment, name)
        try:
            yield one
        finally:
            self._loop.run(self._cluster.api.delete(NAMESPACES, name))
            one.wait_until(one.pods, lambda pods: not pods, f"the pods of {name} are gone")

    async def _apply(self, manifest: Object) -> Object:
        api = self._cluster.api
        try:
            resource = resource_of(manifest)
        except ValueError as error:
            # No client helps if the server does not serve it.
            way = "run with --gpu-cluster controlplane, and apply" if self._kind == "embedded" else "apply"
            raise ClusterError(f"{error}; {way} it by kubectl, with gpu_cluster.env") from error
        namespace = manifest["metadata"].get("namespace") or self.namespace
        if resource.namespaced:
            # A controller makes it; before, pods are refused.
            await eventually(
                lambda: api.find(SERVICE_ACCOUNTS, "default", namespace), bool, f"{namespace} has its ServiceAccount"
            )
        try:
            return await api.create(manifest, namespace)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        where = namespace if resource.namespaced else None
        return await api.patch(resource, manifest["metadata"]["name"], manifest, where)

    def _shows(self, node: str, card: int, *, healthy: bool) -> None:
        self.wait_until(
            lambda: {one.index: one.healthy for one in self.cards(node)},
            lambda seen: seen.get(card) is healthy,
            f"card {card} of {node} is {'healthy' if healthy else 'unhealthy'}",
        )


def objects_in(manifests: Manifests) -> list[Object]:
    """The objects, in order: of a path, of YAML (a text of several lines), or as they are; a List's are its items.

    Raises OSError and ClusterError.
    """
    if isinstance(manifests, Mapping):
        documents: list[Any] = [manifests]
    elif not isinstance(manifests, str | Path):
        documents = list(manifests)
    elif isinstance(manifests, Path) or "\n" not in manifests:
        path = Path(manifests)
        files = sorted((*path.glob("*.yaml"), *path.glob("*.yml"))) if path.is_dir() else [path]
        return [one for file in files for one in objects_in(f"{file.read_text(encoding='utf-8')}\n")]
    else:
        try:
            documents = [one for one in yaml.safe_load_all(manifests) if one is not None]
        except yaml.YAMLError as error:
            raise ClusterError(f"manifests that are no YAML: {error}") from error
    found: list[Object] = []
    for one in documents:
        if not isinstance(one, Mapping) or not ("items" in one or isinstance(one.get("metadata"), Mapping)):
            raise ClusterError(f"no object of Kubernetes: {one!r:.200}")
        found += objects_in(one["items"]) if "items" in one else [dict(one)]
    return found


def _refusal(pod: Object) -> str:
    """Why the scheduler places a pod nowhere; "" if it has not published a reason."""
    conditions = pod["status"].get("conditions") or ()
    refused = (one for one in conditions if one["type"] == "PodScheduled" and one["status"] == "False")
    return next((one.get("message") or one.get("reason", "") for one in refused), "")


def _name(pod: str | Object) -> str:
    return pod if isinstance(pod, str) else str(pod["metadata"]["name"])
