"""A cluster on which each program is changed alone: the extender, and the plugin of each node, to the original's and to ours.

The original's are the stand-ins of ``e2e.reference``. Its plugin has our account, with our role and policies: ours are installed
under the original's names, so between the first node and the last it runs with them. Its extender has its own, wider role.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from msgspec.structs import replace

from clusters.api.api_client import Object
from clusters.api.readiness import announces_cards, is_up
from clusters.api.resources import NODES
from clusters.api.waiting import eventually
from clusters.processes.program import Program
from clusters.provider import DEVICE_PLUGIN, EXTENDER, Cluster
from clusters.simulated_node import SimulatedNode, environment_of_programs
from clusters.targets import Target, load_target
from e2e import commands, spec
from e2e.observer import Observer
from e2e.reference import reference_faults
from e2e.site.node_cards import described

# Defects by which the original's extender over-books cards by itself, whatever runs beside it: it frees memory when a pod begins to
# leave, loses or mixes up pods that leave, and reads its book in pieces. A judge of the change must not find those.
_RACES: Final = ("d15-", "d17-", "d18-", "d29-")


class MixedFleet:
    """Ours are the cluster's own programs; inside ``original_fleet`` the original's may stand in the place of any."""

    def __init__(self, observer: Observer, target: Target, folder: Path) -> None:
        self._observer = observer
        self._cluster: Cluster = observer.cluster
        self._environment = environment_of_programs(os.environ)
        self._folder = folder
        self._originals = _originals(target)
        self._extender: Program | None = None
        self._plugins: dict[str, Program] = {}

    async def originals_extender(self) -> None:
        """It takes the place of ours, at its address."""
        origin = urlsplit(self._cluster.extender_url())
        argv, own = self._originals.extender.command(port=str(origin.port), kubeconfig=str(self._cluster.kubeconfig))
        log = self._folder / "the original's extender.log"
        await self._cluster.kill(EXTENDER)
        self._extender = Program("the original's extender", argv, {**self._environment, **own}, log)
        await self._extender.launch(lambda: is_up(f"{origin.scheme}://{origin.netloc}", ""))

    async def our_extender(self) -> None:
        """Ours takes its place again."""
        if self._extender is not None:
            await self._extender.kill()
            self._extender = None
            await self._cluster.launch(EXTENDER)

    async def originals_plugin(self, node: str) -> None:
        """It takes the place of ours on the node, and the cards annotation is removed, as ``migrate --back`` has it done."""
        api = self._cluster.api
        simulated = SimulatedNode(
            node, self._cluster.kubelet_folder(node), self._environment, self._cluster.nvml_state(node)
        )
        await self._cluster.kill(DEVICE_PLUGIN, node)
        # On kind the pod of our plugin ends with it, and so does every token of that pod.
        account = await self._cluster.kubeconfig_of(self._originals.device_plugin.account, node)
        self._plugins[node] = simulated.device_plugin(self._originals, account, ())
        await self._launch(node)
        await api.patch(NODES, node, {"metadata": {"annotations": {spec.NODE_CARDS: None}}})

    async def restart_plugin(self, node: str) -> None:
        """End the original's plugin as a kill does, and start it again."""
        await self._plugins[node].kill()
        await self._launch(node)

    async def _launch(self, node: str) -> None:
        await self._plugins[node].launch(lambda: announces_cards(self._cluster.api, node, spec.RESOURCE_MEMORY))

    async def our_plugin(self, node: str) -> None:
        """Ours takes its place again, and describes the cards."""
        await self._plugins.pop(node).kill()
        # Before the kubelet reports it, a launch would take the old plugin's cards for the new one's.
        await self._observer.shows(node, "0")
        await self._cluster.launch(DEVICE_PLUGIN, node)
        await eventually(
            lambda: self.node(node), lambda seen: described(seen) is not None, f"{node} describes its cards"
        )

    async def node(self, name: str) -> Object:
        """The Node as it is now."""
        return await self._cluster.api.get(NODES, name)

    async def restore(self) -> None:
        """Ours everywhere."""
        await self.our_extender()
        for node in tuple(self._plugins):
            await self.our_plugin(node)


async def ask_migrate(cluster: Cluster, *flags: str) -> commands.Ended:
    """The way to our programs, or with ``--back`` from them, by gpushare-setup, which only reads."""
    variables = environment_of_programs(os.environ) | {"KUBECONFIG": str(cluster.kubeconfig)}
    return await commands.run("gpushare-setup", "migrate", *flags, variables=variables)


def _originals(target: Target) -> Target:
    """Its extender without races; its plugin with a folder of its own, so that it needs no root, and with the account of ours."""
    original = load_target("original-dialect")
    words, plugin = original.extender.argv, original.device_plugin
    faults = [one for one in sorted(reference_faults.dialect(reference_faults.EXTENDER)) if not one.startswith(_RACES)]
    variables = {**original.extender.environment, reference_faults.VARIABLE: ",".join(faults)}
    extender = replace(original.extender, argv=words[: words.index("--dialect")], environment=variables)
    folder = ("--folder", "{device_plugin_path}")
    plugin = replace(plugin, argv=(*plugin.argv, *folder), fixed_folder="", account=target.device_plugin.account)
    return replace(original, extender_or_none=extender, device_plugin_or_none=plugin)


@contextlib.asynccontextmanager
async def original_fleet(
    observer: Observer, target: Target, folder: Path, *nodes: str, extender: bool = False
) -> AsyncIterator[MixedFleet]:
    """The original's plugin is on these nodes at first, and its extender if asked for; ours are everywhere afterwards."""
    fleet = MixedFleet(observer, target, folder)
    try:
        for node in nodes:
            await fleet.originals_plugin(node)
        if extender:
            await fleet.originals_extender()
        yield fleet
    finally:
        await fleet.restore()
