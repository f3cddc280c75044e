"""One device plugin as a process, a kubelet that records, a Node and pods of the case's own."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from clusters.api.api_client import ApiError, Object
from clusters.api.resources import EVENTS, NODES
from clusters.api.waiting import NotReachedError, until
from clusters.processes.program import Program
from clusters.simulated_node import SimulatedNode, environment_of_programs
from clusters.targets import Target
from e2e import spec
from e2e.attacks.api_proxy import ApiProxy
from e2e.builders import booking, gpu_pod
from e2e.checkers.history import Card, Cards, Rule, judge
from e2e.checkers.plugin_answers import PLUGIN_RULES
from e2e.checkers.right_card import check_pod
from e2e.device_plugin.recording_kubelet import RecordingKubelet, Registration
from e2e.observer import Observer
from e2e.target_capabilities import options_known
from e2e.tcp_proxy import TcpProxy, proxy_to_api
from fake_nvml.box import Box
from fake_nvml.state import State

# A kubelet of this release takes few thousand ids at most; an older one many.
NEW_KUBELET: Final = "v1.36.3"
# With this one a T4 has 15079 MiB.
DRIVER_OF_14_UNITS: Final = "418.87"
# A kubelet publishes these before a plugin comes.
_SIZE: Final = {"cpu": "8", "memory": "32Gi", "pods": "110"}
_BOXES: Final = Path(__file__).parents[1] / "boxes"
OLD_KUBELET: Final = "v1.30.14"


class PluginUnderTest:
    """A node without a real kubelet: ``open`` makes it, ``plug`` starts the plugin, ``close`` ends all of it."""

    def __init__(
        self, observer: Observer, target: Target, environment: Mapping[str, str], node: str, folder: Path
    ) -> None:
        self.api = observer.cluster.api
        self.namespace = observer.namespace
        self.pod = observer.pod
        self.node = node
        self.kubelet = RecordingKubelet(folder / "device-plugins", folder / "pod-resources" / "kubelet.sock")
        self.cards = SimulatedNode(node, folder, environment_of_programs(environment))
        self.calls = ApiProxy()
        self.plugin: Program | None = None
        self._account: Path | None = None
        self._observer = observer
        self._target = target
        self._stack = contextlib.AsyncExitStack()

    async def open(self, box: str, *, driver: str | None = None, kubelet: str = NEW_KUBELET) -> None:
        """The Node, its cards, and the kubelet's sockets."""
        own = _BOXES / f"{box}.yaml"
        found = Box.load(str(own) if own.is_file() else box, seed=self.node, driver=driver)
        State.create(self.cards.state_file, found).close()
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.node, "labels": {"gpushare": "true"}}}
        await self.api.create(node)
        self._stack.push_async_callback(self._remove_node)
        info = {"kubeletVersion": kubelet, "bootID": f"{self.node}-1"}
        status = {"nodeInfo": _node_info(info), "capacity": _SIZE, "allocatable": _SIZE}
        await self.api.patch(NODES, self.node, {"status": status}, subresource="status")
        await self.kubelet.start()
        self._stack.push_async_callback(self.kubelet.stop)

    async def open_proxy(self, *, to_calls: bool) -> TcpProxy:
        """The plugin reaches the API server through it from its next start on, and through ``calls`` behind it.

        That is plain HTTP, over which some clients send no token.
        """
        account = await self._observer.cluster.kubeconfig_of(self._target.device_plugin.account, self.node)
        self._account = self.cards.folder / "kubeconfig"
        if to_calls:
            self.calls.lead_to(account)
            await self._stack.enter_async_context(self.calls)
            behind = self.cards.folder / "kubeconfig.calls"
            behind.write_text(re.sub("server: .*", f"server: {self.calls.url}", account.read_text()))
            account = behind
        return await self._stack.enter_async_context(proxy_to_api(account, self._account))

    async def close(self) -> None:
        """End the plugin first."""
        if self.plugin is not None:
            await self.plugin.stop()
        await self._observer.clear()
        await self._stack.aclose()

    async def free_ids(self, *, box: str = "t4x2", **options: str) -> list[str]:
        """Open with cards of 14 units, start the plugin, and take its ids, all of which are free."""
        words = self._words(options)
        await self.open(box, driver=DRIVER_OF_14_UNITS)
        await self._launch(words)
        return (await self.registered()).ids()

    async def plug(self, **options: str) -> Registration:
        """Start the plugin with options (``memory_unit="MiB"``, spelt as the target does), and wait for its first list."""
        await self.launch(**options)
        return await self.registered()

    async def launch(self, **options: str) -> Program:
        """Start the plugin, and wait for nothing. If the target has no flag for an option, the case is not applicable."""
        return await self._launch(self._words(options))

    def spelt(self, **options: str) -> dict[str, str]:
        """Those of the options that the target can spell: for settings that only hasten a case."""
        known = self._target.device_plugin.flags
        return {name: value for name, value in options.items() if name.replace("_", "-") in known}

    def claims(self, capability: str) -> bool:
        """Does the target declare it? For a part of a case; a case that is about it has the marker ``needs``."""
        return capability in self._target.claims

    def _words(self, options: Mapping[str, str]) -> tuple[str, ...]:
        with options_known(self._target):
            return self._target.device_plugin.words({name.replace("_", "-"): text for name, text in options.items()})

    async def _launch(self, words: tuple[str, ...]) -> Program:
        cluster, program = self._observer.cluster, self._target.device_plugin
        account = self._account or await cluster.kubeconfig_of(program.account, self.node)
        if self.plugin is None or words:
            self.plugin = self.cards.device_plugin(self._target, account, words)
        await self.plugin.launch(_at_once)
        return self.plugin

    async def registered(self, resource: str = spec.RESOURCE_MEMORY, *, after: int = 0) -> Registration:
        """Wait for a registration with a list, beyond the first ``after`` ones of that resource; the newest."""

        def newest() -> Registration | None:
            count = sum(1 for one in self.kubelet.registrations if one.resource == resource)
            return self.kubelet.latest(resource) if count > after else None

        try:
            found = await until(newest, lambda one: one is not None, f"{resource} is registered")
        except NotReachedError as error:
            raise NotReachedError(f"{error}; the plugin's log ends with:\n{self._tail()}") from error
        assert found is not None
        return found

    async def book(self, name: str, *units: int, card: int, position: int = 0, **metadata: str) -> Object:
        """A pod that the extender has put onto a card: bound, with its annotations. ``position`` orders the assume times."""
        annotations = booking(sum(units), card, position) | metadata
        return await self.create(gpu_pod(name, *units, bound_to=self.node, annotations=annotations))

    async def create(self, pod: Object) -> Object:
        """Any pod."""
        return await self.api.create(pod, self.namespace)

    def check_calls(self, *rules: Rule) -> None:
        """All lists and answers of the plugin so far keep these rules, or all rules for them."""
        cards = {card["index"]: Card(sys.maxsize, card["uuid"]) for card in self.cards.cards()}
        known = Cards(0.0, self.cards.folder.name, cards)
        assert judge([known, *self.kubelet.calls], *(rules or PLUGIN_RULES)) == []

    async def check_right_card(self, name: str, *told: Mapping[str, str]) -> None:
        """The pod's containers with these variables have the card of its annotation, and it is marked as assigned."""
        uuids = {card["index"]: card["uuid"] for card in self.cards.cards()}
        assert check_pod(await self.pod(name), told, uuids) == []

    async def logged(self, text: str) -> str:
        """Wait until the plugin has logged a text; its log."""
        plugin = self.plugin
        assert plugin is not None
        return await until(plugin.log, lambda log: text in log, f"the plugin logs {text!r}")

    async def events(self, name: str) -> list[tuple[str, str]]:
        """Reason and message of the events about a pod."""
        found = await self.api.list(EVENTS, self.namespace, field_selector=f"involvedObject.name={name}")
        return [(event["reason"], event["message"]) for event in found]

    def _tail(self) -> str:
        return self.plugin.tail() if self.plugin is not None else "no plugin was started"

    async def _remove_node(self) -> None:
        with contextlib.suppress(ApiError):
            await self.api.delete_node(self.node)


def _node_info(known: Mapping[str, str]) -> dict[str, Any]:
    """All of ``nodeInfo`` has to be there."""
    names = (
        "machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "containerRuntimeVersion", "kubeletVersion",
        "kubeProxyVersion", "operatingSystem", "architecture",
    )  # fmt: skip
    return {name: known.get(name, "simulated") for name in names}


async def _at_once() -> bool:
    return True
