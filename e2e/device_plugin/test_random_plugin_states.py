"""Random histories of a node's pods, cards and programs: a device plugin answers and shows what they imply at each instant.

The rules (``checkers/plugin_states.py``, ``plugin_answers.py``, ``right_card.py``) know what that is. These cases bring it about.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import json
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeVar

import grpc.aio
import pytest
import yaml

from clusters.api.api_client import MERGE_PATCH, Object
from clusters.api.connection import Connection
from clusters.api.resources import CONFIG_MAPS, EVENTS, NODES, PODS
from clusters.api.waiting import eventually, until
from clusters.processes.scratch import free_port
from e2e import spec
from e2e.attacks.api_proxy import Call
from e2e.builders import booking, gpu_container, gpu_pod, plain_container, random_containers
from e2e.bursts.world import units_of_model
from e2e.checkers.overcommit import shares_or_none
from e2e.checkers.plugin_answers import PLUGIN_RULES, XIDS_OF_APPLICATIONS, named_cards
from e2e.checkers.plugin_states import KnownCard, NodeState, ended_pods, wrong_list, wrong_metrics, wrong_node
from e2e.checkers.pod_requests import GpuContainer, gpu_containers, units_of
from e2e.checkers.right_card import check_pod
from e2e.device_plugin.plugin_under_test import PluginUnderTest
from e2e.device_plugin.recording_kubelet import Registration
from e2e.report.sources import commit_number
from fake_nvml.box import catalogue
from fake_nvml.core.returns import Code
from fake_nvml.eras import RECOVERY_ACTION_SINCE
from fake_nvml.state import State

MEMORY: Final = spec.RESOURCE_MEMORY
_HISTORIES, _STEPS = 2, 10
_DRIVERS: Final = ("450.80", "535.104", "580.65", "580.65")
# The unit of gpu-mem, in MiB, as it is written.
_UNITS: Final = {1024: "GiB", 2500: "2500MiB"}
# After these a driver that knows recovery actions asks for one; after others the card is healthy again when it has cooled down.
_ADVISED: Final = (48, 62, 74, 119)
_UNADVISED: Final = 94
_CRITICAL: Final = (*_ADVISED, _UNADVISED, 1001)
# The plugin looks each second: an Xid within a cool-down of two such looks makes a difference that can be seen.
_COOL_DOWN_SECONDS: Final = 2.0
# An operator's list with one card.
_WORDS: Final = ("{}", " {} ", "99, {}", "{} ,,")
# A plugin that has not seen the end of a pod that waits takes the next one of its size for it.
_LAG_SECONDS: Final = 0.4
# Within this time a watch has usually shown a write.
_WATCH_SECONDS: Final = 0.1
# The reason of a card that is gone while pods name it.
_GONE: Final = "taken out of the machine"
_FOREIGN: Final = {"example.com/note": "of another, ALIYUN_COM_GPU_MEM_IDX: 7"}
_T = TypeVar("_T")


class PluginHistory:
    """A node of one to five cards, and the changes of it; ``state`` is what is true of it."""

    def __init__(self, stage: PluginUnderTest, rng: random.Random) -> None:
        self._stage, self._rng, self.state = stage, rng, NodeState({})
        self._is_ours = stage.claims("cards-annotation")
        self._driver = rng.choice(_DRIVERS) if self._is_ours else _DRIVERS[-1]
        self._is_advised = int(self._driver.partition(".")[0]) >= RECOVERY_ACTION_SINCE
        self._unit = rng.choice((1024, 1024, 2500))
        known = [one for one in sorted(catalogue()) if 4 <= units_of_model(one, self._driver, self._unit) <= 24]
        self._models = rng.choices(known, k=rng.randint(1, 5))
        self._strategy = rng.choice(("uuid", "index"))
        self._keeps_book = rng.random() < 0.5 and stage.claims("kubelet-book")
        self._port = free_port()
        self._card_of: dict[str, int] = {}
        self._notes: dict[str, dict[str, str]] = {}
        """The annotations that each pod should have."""
        self._started: set[str] = set()
        self._left: set[str] = set()
        self._has_news = False
        """Has a pod ended since the plugin was last known to have seen all that have?"""
        self._warned: dict[str, set[str]] = {spec.EVENT_CARD_UNHEALTHY: set(), spec.EVENT_CARD_RECOVERED: set()}
        """Pods that ran on a card when it became unhealthy, and when it recovered."""
        self._absences = 0
        """How often the driver has gone away."""
        self._lists = 0
        """The most lists that may have come since the registration."""
        self._counts: Counter[tuple[str, ...]] = Counter()
        self._done: list[str] = []

    async def lay_down(self) -> None:
        """The node with its cards, the plugin, and pods that run."""
        stage = self._stage
        box = stage.cards.folder / "box.yaml"
        box.write_text(yaml.safe_dump({"driver": self._driver, "cards": [{"model": one} for one in self._models]}))
        await stage.open(str(box))
        self._count_cards()
        if self._rng.random() < 0.3:
            self.state.own["CGPU_DISABLE"] = "true"
            await self._patch_node({"metadata": {"labels": {"cgpu.disable.isolation": "true"}}})
        self._proxy = await stage.open_proxy(to_calls=self._is_ours)
        own = {"device_id_strategy": self._strategy, "metrics_address": f"127.0.0.1:{self._port}"}
        await self._launch(
            memory_unit=_UNITS[self._unit],
            **stage.spelt(cool_down=f"{_COOL_DOWN_SECONDS:g}s", survey_interval="1s", **own),
        )
        await self._book()
        await self._admit()
        await self._start()

    async def step(self) -> None:
        """One change, and what follows from it."""
        steps = (
            [self._book] * 3
            + [self._bypass] * 2
            + [self._admit] * 4
            + [self._start] * 3
            + [self._end] * 2
            + [self._stray, self._decoy]
        )
        steps += [self._hold] if self._stage.claims("unadmitted") else []
        steps += [self._break] * 3 + [self._mend] * 2 + [self._restart] * 3 + [self._renew_kubelet, self._cut_off]
        steps += [self._unload, self._unload, self._turn_away] if self._is_ours else []
        chosen = self._rng.choice(steps)
        self._done.append(chosen.__name__)
        await chosen()

    async def settle(self) -> None:
        """All that the plugin shows is what is true, soon, and by no more lists than there were changes."""
        what = f"what it shows is true after {', '.join(self._done)}"
        await eventually(self._differences, lambda found: not found, what, seconds=15)
        counts = [sum(one.health != "Healthy" for one in message.devices) for message in self._registration.lists]
        most, self._lists = self._lists, len(counts) - 1
        assert len(counts) <= 1 + most, f"lists without a change, by their unhealthy ids: {counts}, {what}"

    async def _book(self) -> None:
        """Pods that the extender has put onto healthy cards with room; some ask for the same."""
        alike = random_containers(self._rng, (self._rng.choice((1, 2, 3)),)) if self._rng.random() < 0.5 else {}
        for _ in range(self._rng.randint(1, 3)):
            pod, name = self._pod(alike)
            units = units_of(pod)
            cards = [one for one, room in self.state.room().items() if room >= units]
            if cards and units:
                index = self._rng.choice(cards)
                notes = booking(units, index, len(self._notes), self.state.cards[index].units)
                self._notes[name] = notes | self._rng.choice((_FOREIGN, {}))
                pod["metadata"]["annotations"] = self._notes[name]
                self.state.pods[name] = await self._stage.create(pod)

    async def _bypass(self) -> None:
        """Pods that no extender has seen get a card with room for them, and are refused if none has."""
        # A card that has just failed is still in the plugin's list.
        await self.settle()
        await self._book()
        await self._admit()
        for _ in range(3):
            size = self._rng.choice([*self.state.room().values()] or [0]) + self._rng.randint(0, 1)
            if not 0 < size <= len({*self._registration.ids(healthy=True)} - self.state.held().keys()):
                continue
            pod, name = self._pod({"containers": [gpu_container("c0", size)], "initContainers": []})
            self.state.pods[name] = await self._stage.create(pod)
            (container,) = gpu_containers(pod)
            ids, told = await self._given(name, container, [])
            if not ids:
                await self._leave(name, is_gone=False)
                continue
            self.state.pods[name] = await self._stage.pod(name)
            self._notes[name] = self.state.pods[name]["metadata"]["annotations"]
            assert self._notes[name][spec.POD_INDEX] == told[spec.ENV_INDEX], self._notes[name]
            self.state.given[name] = {"c0": (ids, told)}
            self._record()
            await self._start()

    async def _decoy(self) -> None:
        """A pod that has no part in it: of another node, without card memory, or ended."""
        pod, name = self._pod()
        pod["metadata"]["annotations"] = self._notes[name] = booking(units_of(pod) or 1, 0) | _FOREIGN
        kind = self._rng.choice(("elsewhere", "plain", "ended"))
        if kind == "elsewhere":
            pod["spec"]["nodeName"] = "another"
        elif kind == "plain":
            pod["spec"] |= {"containers": [plain_container("c0")], "initContainers": []}
        await self._stage.create(pod)
        if kind == "ended":
            await self._set_status(name, "Failed")

    async def _admit(self) -> None:
        """The pods that wait get their ids, in the order in which they were bound; one whose card fails is turned away or moved."""
        for name in self._in_order([*self.state.waiting()]):
            fails = int(self._notes[name][spec.POD_INDEX]) in self.state.unhealthy
            if fails and (len(self.state.waiting()) > 1 or not self._is_ours):
                # The call could be taken for another pod's.
                await self._leave(name, is_gone=True)
                continue
            reusable, told = list[str](), dict[str, str]()
            for container in gpu_containers(self.state.pods[name]):
                ids, told = await self._given(name, container, reusable)
                if not ids:
                    break
                self.state.given.setdefault(name, {})[container.name] = (ids, told)
                reusable = [one for one in reusable if one not in ids] + (ids if container.kind == "init" else [])
                self._record()
            if told.get(spec.ENV_INDEX) != self._notes[name][spec.POD_INDEX]:
                # Its annotation would follow, but only when binds that are under way have landed.
                await self._leave(name, is_gone=bool(told))
            if not self._keeps_book:
                # Without the book a plugin reads only at a start which ids the kubelet took.
                await self._start()

    def _in_order(self, names: list[str]) -> list[str]:
        """The order of admission: neighbours that ask for the same change places. Each gets the card of the first that waits.

        That one gets its card in exchange, unless another pod that waits could leave that card for it.
        """
        if not self._is_ours or any(int(self._notes[name][spec.POD_INDEX]) in self.state.unhealthy for name in names):
            return names
        order, keys = list[str](), (spec.POD_INDEX, spec.POD_DEVICE_UNITS)
        for _, group in itertools.groupby(names, lambda name: gpu_containers(self.state.pods[name])):
            waiting = [*group]
            cards = [{self._notes[one][spec.POD_INDEX] for one in ones} for ones in (waiting, {*names} - {*waiting})]
            for name in self._rng.sample(waiting, len(waiting)) if cards[0].isdisjoint(cards[1]) else [*waiting]:
                mine, firsts = ({key: self._notes[one][key] for key in keys} for one in (name, waiting[0]))
                for one, card in (waiting[0], mine), (name, firsts):
                    self._notes[one] = self.state.pods[one]["metadata"]["annotations"] = self._notes[one] | card
                waiting.remove(name)
                order.append(name)
        return order

    async def _given(self, name: str, container: GpuContainer, reusable: list[str]) -> tuple[list[str], dict[str, str]]:
        """The ids and variables of a container, as they should be; none if it was refused with a reason, and rightly."""
        await self._is_seen()
        kubelet, state, size = self._stage.kubelet, self.state, container.units
        held = state.held().keys() - {*reusable}
        free = [one for one in self._registration.ids(healthy=True) if one not in held]
        must = self._rng.sample(reusable, min(len(reusable), size))
        index, where = int(self._notes[name].get(spec.POD_INDEX, -1)), f"{name} {container}, after {self._done}"
        others = [one for one, room in state.room().items() if room >= units_of(state.pods[name])]
        try:
            ids = must if len(must) == size else await kubelet.prefer(MEMORY, free, size, must)
            (answer,) = await kubelet.allocate(MEMORY, ids)
        except grpc.aio.AioRpcError as error:
            self._counts["gpushare_allocations_total", "refused"] += 1
            if error.details() and (index in state.unhealthy or (index < 0 and not others)):
                return [], {}
            raise AssertionError(f"{where}: {error.details()}") from error
        self._counts["gpushare_allocations_total", "granted"] += 1
        told = dict(answer.envs)
        if index < 0 or index in state.unhealthy:
            index = int(told[spec.ENV_INDEX])
            assert index in others, where
        assert told == state.variables(name, container, index), where
        assert not [*answer.mounts, *answer.devices, *answer.annotations, *answer.cdi_devices]
        assert {self._card_of.setdefault(one, index) for one in ids} == {index}, "an id is of two cards"
        return ids, told

    async def _start(self) -> None:
        """The containers of pods that have their ids start, or start again; one on another card than its pod's never does."""
        for name, containers in self.state.given.items():
            if self._is_held(name):
                ids = next(iter(containers.values()))[0]
                with pytest.raises(grpc.aio.AioRpcError, match="annotation names card"):
                    await self._stage.kubelet.pre_start(MEMORY, ids)
                continue
            if self._is_ours and name not in self._started and self._rng.random() < 0.5:
                await self._lose_answer(next(iter(containers.values()))[0])
            for container in gpu_containers(self.state.pods[name]):
                await self._stage.kubelet.pre_start(MEMORY, containers[container.name][0])
            self._notes[name] = {**self._notes[name], spec.POD_ASSIGNED: "true"}
            if name not in self._started:
                self._started.add(name)
                await self._set_status(name, "Running", *self.state.pods[name]["spec"]["containers"])

    async def _lose_answer(self, ids: list[str]) -> None:
        """The answer to a write is lost as a container starts: the plugin knows its own write when its watch shows it."""
        losses = [True]
        self._stage.calls.lose = functools.partial(_of_next, "PATCH", losses, False)
        with contextlib.suppress(grpc.aio.AioRpcError):
            await self._stage.kubelet.pre_start(MEMORY, ids)
        losses.clear()
        await asyncio.sleep(_WATCH_SECONDS)

    async def _hold(self) -> None:
        """The kubelet turns two pods round that may not change cards: a container on the wrong one never starts.

        The plugin reports that a new pod would, as the pod's own units are free then.
        """
        await self._admit()
        await self._start()
        free = {one: units for one, units in self.state.room().items() if units}
        if len(free) < 2:
            return
        cards = self._rng.sample([*free], 2)
        names = [await self._create_fixed(min(free[one] for one in cards), card) for card in cards]
        for meant, name in zip(names, reversed(names), strict=True):
            (container,) = gpu_containers(self.state.pods[name])
            try:
                self.state.given[name] = {container.name: await self._given(meant, container, [])}
            except AssertionError:
                # A plugin that knows which pod has the first ids has no room for the other one then.
                await self._leave(name, is_gone=True)
            self._record()
        await self._start()
        one, *others = filter(self._is_held, names)
        for name in others:
            await self._leave(name, is_gone=True)
        self._counts["gpushare_held_containers",] = 1
        await self.settle()
        text = await eventually(lambda: self._told(one, spec.EVENT_UNADMITTED), bool, f"{one} is reported", seconds=30)
        assert text.startswith("a card of its node has room for it now"), text
        del self._counts["gpushare_held_containers",]
        await self._leave(one, is_gone=True)

    def _is_held(self, name: str) -> bool:
        """Has a container of the pod ids of another card than its annotation names?"""
        told = [told for _, told in self.state.given.get(name, {}).values()]
        return any(one[spec.ENV_INDEX] != self._notes[name][spec.POD_INDEX] for one in told)

    async def _create_fixed(self, units: int, card: int) -> str:
        """A pod that another extender has put onto this card."""
        pod, name = self._pod({"containers": [gpu_container("c0", units)], "initContainers": []})
        notes = booking(units, card, len(self._notes), self.state.cards[card].units)
        self._notes[name] = pod["metadata"]["annotations"] = {k: v for k, v in notes.items() if k != spec.POD_EXTENDER}
        self.state.pods[name] = await self._stage.create(pod)
        return name

    async def _told(self, name: str, reason: str) -> str:
        """The text of an event of the pod, "" if it has none."""
        events = await self._stage.api.list(EVENTS, self._stage.namespace)
        texts = [one["message"] for one in events if (one["involvedObject"]["name"], one["reason"]) == (name, reason)]
        return str(next(iter(texts), ""))

    async def _end(self) -> None:
        """A pod that runs or waits ends, or is gone."""
        if names := sorted(self._started | self.state.waiting().keys()):
            self._lists += 1
            await self._leave(self._rng.choice(names), is_gone=self._rng.random() < 0.5)

    async def _leave(self, name: str, *, is_gone: bool) -> None:
        self._left.add(name)
        self._started.discard(name)
        for names in self._warned.values():
            names.discard(name)
        del self.state.pods[name]
        self.state.given.pop(name, None)
        self._forget_unnamed()
        self._record()
        if is_gone:
            await self._stage.api.delete(PODS, name, self._stage.namespace, grace_seconds=0)
        else:
            await self._set_status(name, "Failed")
        self._has_news = True

    async def _is_seen(self) -> None:
        """The plugin has seen which pods have ended."""
        if self._has_news and self._is_ours:
            await eventually(
                self._metrics, lambda text: not [*ended_pods(self.state, text)], "it knows which have ended"
            )
        elif self._has_news:
            await asyncio.sleep(_LAG_SECONDS)
        self._has_news = False

    async def _metrics(self) -> str:
        async with Connection() as http:
            return (await http.request("GET", f"http://127.0.0.1:{self._port}/metrics")).text

    async def _stray(self) -> None:
        """Calls for no pod are refused, with a reason."""
        await self._is_seen()
        sizes = {one.units for one in self.state.waiting().values()}
        free = [one for one in self._registration.ids(healthy=True) if one not in self.state.held()]
        # A container that has its ids asks for no others.
        served = [one.units for name in self.state.given for one in gpu_containers(self.state.pods[name])]
        odd = [free[:size] for size in {1, *served} - sizes if size < len(free)]
        for ids in ([], ["gs-no-1"], *odd, [*free, "gs-no-1"]):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await self._stage.kubelet.allocate(MEMORY, ids)
            assert str(refused.value.details()).strip()
            self._counts["gpushare_allocations_total", "refused"] += 1

    async def _break(self) -> None:
        """A card, rather one of pods, has a fault, or a further one, or only seems to have one."""
        present = self._present()
        present += [one for one in self.state.held().values() if one in present]
        ill, index, before = self.state.ill, self._rng.choice(present), {*self.state.unhealthy}
        kind = self._rng.choice(("xid", "xid", "xid", "harmless", "error", *(["lost"] if self._is_ours else [])))
        self._done.append(f"{kind} on {index}")
        with State.open(self._stage.cards.state_file) as nvml:
            uuid = self.state.cards[index].uuid
            if kind == "lost":
                nvml.lose(uuid)
                ill.setdefault(index, "lost")
            elif kind == "error":
                # Reports that come while they are not read are lost; of cards that are lost none is read.
                if not self._lost():
                    nvml.add_fault("nvmlEventSetWait*", code=Code.UNINITIALIZED, count=1)
                    await until(nvml.faults, lambda left: not left, "NVML was opened again")
            elif uuid not in self._lost():
                critical = _ADVISED if self._is_advised else _CRITICAL
                xid = self._rng.choice(critical if kind == "xid" else XIDS_OF_APPLICATIONS)
                nvml.post_xid(uuid, int(xid))
                self._counts["gpushare_xid_events_total", uuid, str(xid)] += 1
                if kind == "xid":
                    ill.setdefault(index, f"Xid {xid}")
        if before != self.state.unhealthy.keys():
            self._lists += 1
            self._warned[spec.EVENT_CARD_UNHEALTHY] |= self._running_on(index)
        await self.settle()

    async def _unload(self) -> None:
        """The driver goes away once or twice, and comes back each time: without it no card is healthy."""
        if not {*self._present()} - {index for index, reason in self.state.ill.items() if reason == "lost"}:
            # No report is read, so its absence is not seen soon.
            return
        for code in (Code.DRIVER_NOT_LOADED, Code.SUCCESS) * self._rng.randint(1, 2):
            with State.open(self._stage.cards.state_file) as nvml:
                nvml.set_init_return(code)
                nvml.clear_faults()
                # If all cards are unhealthy, nothing else shows that the driver has come back.
                call = Code.UNINITIALIZED if code else Code.SUCCESS
                nvml.add_fault("nvmlEventSetWait*", code=call, seconds=0.01, count=1)
                await until(nvml.faults, lambda left: not left, "the plugin reads the reports again")
            before = self.state.unhealthy.keys()
            self.state.is_away = code != Code.SUCCESS
            reason = spec.EVENT_CARD_UNHEALTHY if code else spec.EVENT_CARD_RECOVERED
            for index in before ^ self.state.unhealthy.keys():
                self._warned[reason] |= self._running_on(index)
            self._lists += 1
            self._absences += bool(code)
            await self.settle()

    async def _mend(self) -> None:
        """Each card that has a fault recovers by the driver's word or an operator's, if the plugin knows one."""
        while not {*self.state.ill.values()} - {_GONE}:
            await self._break()
        # Until then none does.
        await asyncio.sleep(_COOL_DOWN_SECONDS)
        await self.settle()
        # A word makes a card that was lost healthy some seconds before its reports are read again.
        lost = self._lost()
        for index, reason in [one for one in self.state.ill.items() if one[1] != _GONE]:
            uuid = self.state.cards[index].uuid
            needs_word = not self._is_advised and reason != "lost"
            if needs_word and uuid in lost:
                continue
            begun = time.monotonic()
            with State.open(self._stage.cards.state_file) as nvml:
                nvml.repair(uuid)
            if self._is_ours and self._is_advised and uuid not in lost and self._rng.random() < 0.8:
                await self._break_again(index, begun)
            if self._is_ours and uuid not in lost and (needs_word or self._rng.random() < 0.5):
                word = self._rng.choice(_WORDS).format(self._rng.choice((index, uuid)))
                await self._patch_node({"metadata": {"annotations": {spec.NODE_RECOVERED: word}}})
            if index not in self.state.banned:
                self._lists += 1
                self._warned[spec.EVENT_CARD_RECOVERED] |= self._running_on(index)
            del self.state.ill[index]
            await self.settle()

    async def _break_again(self, index: int, begun: float) -> None:
        """While the card cools down, since ``begun`` or later, it has one more fault: that begins again."""
        await asyncio.sleep(_COOL_DOWN_SECONDS * 0.75)
        stream, again = self._registration, time.monotonic()
        lists = len(stream.lists)
        with State.open(self._stage.cards.state_file) as nvml:
            nvml.post_xid(uuid := self.state.cards[index].uuid, _UNADVISED)
        self._counts["gpushare_xid_events_total", uuid, str(_UNADVISED)] += 1
        is_in_time = time.monotonic() - begun < _COOL_DOWN_SECONDS
        while is_in_time:
            has_come = len(stream.lists) > lists
            if time.monotonic() - again > _COOL_DOWN_SECONDS:
                break
            assert not has_come, f"card {index} recovered within the cool-down of its last Xid, after {self._done}"
            await asyncio.sleep(_COOL_DOWN_SECONDS / 20)

    def _running_on(self, index: int) -> set[str]:
        return {name for name in self._started if self._notes[name][spec.POD_INDEX] == str(index)}

    def _lost(self) -> set[str]:
        return {card["uuid"] for card in self._stage.cards.cards() if card["lost"]}

    async def _restart(self) -> None:
        """The plugin ends, or is killed; meanwhile pods come and go, and the machine changes."""
        plugin, stream = self._stage.plugin, self._registration
        if plugin is None or (self.state.ill and not self._is_ours):
            return
        await (self._break() if self._is_ours else self.settle())
        if self._rng.random() < 0.5:
            await plugin.kill()
        else:
            # SIGKILL comes if it has not ended within the time of a pod's grace.
            assert await plugin.stop() != -signal.SIGKILL
        await until(lambda: stream.has_ended, bool, "the stream has ended")
        await self._end()
        await self._book()
        if self._is_ours:
            with State.open(self._stage.cards.state_file) as nvml:
                await self._change_machine(nvml)
        await self._launch()

    async def _change_machine(self, nvml: State) -> None:
        """While no plugin looks the machine boots, an Xid is missed, a card is banned, put in, taken out, or replaced."""
        cards, ill, index = self.state.cards, self.state.ill, self._rng.choice(self._present())
        kind = self._rng.choice(("boot", "boot", "xid", "more", "less", "other", "ban", "none"))
        self._done.append(f"{kind} of {index}")
        if kind == "boot":
            nvml.reboot()
            await self._patch_node({"status": {"nodeInfo": {"bootID": f"boot-{len(self._done)}"}}}, "status")
            self.state.ill = {one: reason for one, reason in ill.items() if reason == _GONE}
            shut = await self._create_fixed(1, index)
            await self._set_status(shut, "Failed", *self.state.pods.pop(shut)["spec"]["containers"])
            self._notes[shut] = {**self._notes[shut], spec.POD_ENDED: f"boot-{len(self._done)}"}
            self._stage.calls.refuse = functools.partial(_of_next, "PATCH", [503], 0)
        elif kind == "xid" and self._is_advised and index not in ill:
            nvml.post_xid(cards[index].uuid, self._rng.choice(_ADVISED))
            ill[index] = "recovery action"
        elif kind == "ban":
            await self._ban(self.state.banned ^ {index})
        elif kind == "more" and not self._lost():
            nvml.add_card(self._rng.choice(self._models))
        elif kind == "other" and index not in self.state.unhealthy and not self._lost():
            # A card in the place of another has another index while pods name that one.
            nvml.remove_card(cards[index].uuid)
            nvml.add_card(self._rng.choice(self._models))
            ill[index] = _GONE
        elif kind == "less" and len(cards) > 1 and not self._lost():
            for unused in sorted(cards.keys() - self._named() - self.state.unhealthy.keys())[:1]:
                nvml.remove_card(cards[unused].uuid)
                ill[unused] = _GONE
        self._forget_unnamed()
        self._count_cards()

    def _present(self) -> list[int]:
        return [index for index in self.state.cards if self.state.ill.get(index) != _GONE]

    def _named(self) -> set[int]:
        return {one for pod in self.state.pods.values() if gpu_containers(pod) for one in shares_or_none(pod) or {}}

    def _forget_unnamed(self) -> None:
        """A card that is gone is shown until no pod names it."""
        for index in {index for index, reason in self.state.ill.items() if reason == _GONE} - self._named():
            del self.state.cards[index], self.state.ill[index]
            self._card_of = {one: card for one, card in self._card_of.items() if card != index}
            self._lists += 1

    def _count_cards(self) -> None:
        """A card keeps its index, and a new one has the lowest that is free; NVML's own may change."""
        cards, indices = self.state.cards, {card.uuid: index for index, card in self.state.cards.items()}
        for one in self._stage.cards.cards():
            uuid, mib = one["uuid"], one["memory"]["total_mib"]
            index = indices[uuid] if uuid in indices else next(free for free in range(99) if free not in cards)
            name = str(one["index"]) if self._is_ours and self._strategy == "index" else uuid
            cards[index] = KnownCard(uuid, mib, mib // self._unit, name)

    async def _ban(self, cards: frozenset[int]) -> None:
        """Write the ConfigMap."""
        metadata = {"name": f"unhealthy-gpu-{self._stage.node}", "namespace": "kube-system"}
        if self.state.banned:
            await self._stage.api.delete(CONFIG_MAPS, metadata["name"], metadata["namespace"])
        self.state.banned = cards
        if cards:
            data = {"gpus": self._rng.choice((",", " , ", ",x,")).join(map(str, sorted(cards)))}
            await self._stage.api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})

    async def _launch(self, **options: str) -> None:
        before = self._registrations()
        self._counts.clear()
        await self._stage.launch(**options)
        await self._registered(before)

    async def _renew_kubelet(self) -> None:
        """The kubelet starts again, when no pod waits: it would admit those in another order."""
        await self._admit()
        before = self._registrations()
        # A kubelet without its checkpoint sets the amounts of plugins to 0.
        zero = {spec.RESOURCE_COUNT: "0"}
        await self._patch_node({"status": {"capacity": zero, "allocatable": zero}}, "status")
        await self._stage.kubelet.restart()
        await self._registered(before)

    async def _registered(self, before: int) -> None:
        self._registration: Registration = await self._stage.registered(after=before)
        self._counts["gpushare_registrations_total", MEMORY] += 1
        # A ban is read after the first list.
        self._lists = 1
        await self.settle()

    def _registrations(self) -> int:
        return sum(one.resource == MEMORY for one in self._stage.kubelet.registrations)

    async def _cut_off(self) -> None:
        """The API server cannot be reached while pods come and go."""
        self._proxy.cut(silent=self._rng.random() < 0.5)
        await self._end()
        await self._book()
        self._proxy.restore()
        await self.settle()

    async def _turn_away(self) -> None:
        """The API server has just started and does not know its roles yet when pods are admitted."""
        await self._book()
        refusals = [self._rng.choice((401, 403))]
        self._stage.calls.refuse = functools.partial(_of_next, "GET", refusals, 0)
        await self._admit()
        refusals.clear()

    async def _differences(self) -> list[str]:
        stage, state = self._stage, self.state
        health = {one.ID: one.health for one in self._registration.lists[-1].devices}
        node = await stage.api.get(NODES, stage.node)
        found = [*wrong_list(state, health, self._card_of, keeps_held=self._is_ours)]
        if (count := node["status"]["capacity"].get(spec.RESOURCE_COUNT)) != str(len(state.cards)):
            found.append(f"the node has {count} cards")
        if self._is_ours:
            found += wrong_metrics(state, await self._metrics(), self._unit, self._counts)
            found += wrong_node(state, node, _UNITS[self._unit])
            events = await stage.api.list(EVENTS, stage.namespace)
            told = {(one["involvedObject"]["name"], one["reason"]) for one in events}
            due = {(name, reason) for reason, names in self._warned.items() for name in names}
            found += [f"{name} has no event {reason}" for name, reason in due - told]
            of_node = await stage.api.list(EVENTS, "default", field_selector=f"involvedObject.name={stage.node}")
            absences = sum(one["count"] for one in of_node if one["reason"] == spec.EVENT_NO_CARDS)
            found += [f"{absences} absences of the driver are reported"] if absences != self._absences else []
            found += [
                f"{name} has an event {reason}" for name, reason in told if reason == spec.EVENT_ANNOTATIONS_CHANGED
            ]
        pods = await stage.api.list(PODS, stage.namespace)
        return found + [wrong for pod in pods for wrong in self._wrong_pod(pod)]

    def _wrong_pod(self, pod: Object) -> Iterator[str]:
        name, noted = pod["metadata"]["name"], pod["metadata"].get("annotations") or {}
        if name not in self._left and noted != self._notes[name]:
            yield f"{name} has {noted}, should have {self._notes[name]}"
        if name in self._started:
            uuids = {index: card.name for index, card in self.state.cards.items()}
            told = [self.state.given[name][one.name][1] for one in gpu_containers(pod)]
            yield from map(str, check_pod(pod, told, uuids))

    def _record(self) -> None:
        """The kubelet's records: its checkpoint, if the plugin reads one, and PodResources without ordinary init containers."""
        kubelet, namespace, entries = self._stage.kubelet, self._stage.namespace, []
        kubelet.holdings.clear()
        for name, containers in self.state.given.items():
            pod = self.state.pods[name]
            for one in (one for one in gpu_containers(pod) if one.name in containers):
                ids, uid = containers[one.name][0], pod["metadata"]["uid"]
                line = {"PodUID": uid, "ContainerName": one.name, "ResourceName": MEMORY, "DeviceIDs": {"-1": ids}}
                entries.append({**line, "AllocResp": None})
                if one.kind != "init":
                    kubelet.hold(namespace, name, one.name, ids[::2], ids[1::2])
        if self._keeps_book:
            book = {"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 1}
            path = self._stage.cards.folder / "device-plugins" / "kubelet_internal_checkpoint"
            path.with_suffix(".new").write_text(json.dumps(book))
            path.with_suffix(".new").replace(path)

    def _pod(self, containers: Mapping[str, Any] = MappingProxyType({})) -> tuple[dict[str, Any], str]:
        """A pod of the node, of these containers or of random ones, and its name."""
        most = max(card.units for card in self.state.cards.values())
        pod = gpu_pod(name := f"p-{len(self._notes)}", bound_to=self._stage.node)
        self._notes[name] = {}
        pod["spec"] |= containers or random_containers(self._rng, (1, 1, 2, 3, max(1, most // 3)))
        # PodResources does not show ordinary init containers.
        for one in () if self._keeps_book else pod["spec"]["initContainers"]:
            one["restartPolicy"] = "Always"
        return pod, name

    async def _set_status(self, name: str, phase: str, *running: Object) -> None:
        """The phase, and the containers that run."""
        more = {"imageID": "", "ready": True, "restartCount": 0, "state": {"running": {}}}
        containers = [{"name": one["name"], "image": one["image"], **more} for one in running]
        await self._stage.api.patch(
            PODS, name, {"status": {"phase": phase, "containerStatuses": containers}}, self._stage.namespace,
            subresource="status", content_type=MERGE_PATCH,
        )  # fmt: skip

    async def _patch_node(self, body: Object, subresource: str | None = None) -> None:
        await self._stage.api.patch(NODES, self._stage.node, body, subresource=subresource)


async def _of_next(method: str, answers: list[_T], other: _T, call: Call) -> _T:
    """For a proxy: one of these to each of the next calls about pods by this method, and the other one to all else."""
    return answers.pop() if answers and call.method == method and "/pods" in call.path else other


@pytest.mark.needs("pod-resources", "health")
@pytest.mark.parametrize("number", range(_HISTORIES))
async def test_the_plugin_shows_what_is_true(stage: PluginUnderTest, number: int) -> None:
    """Pods of any shape, calls of a kubelet, cards that fail and recover, restarts: each answer and list is the one implied."""
    history = PluginHistory(stage, random.Random(f"{commit_number()}/{number}"))
    await history.lay_down()
    for _ in range(_STEPS):
        await history.step()
    await history.settle()
    # NVML's index may be another than ours; the variables have been compared.
    stage.check_calls(*(rule for rule in PLUGIN_RULES if rule is not named_cards))
