"""Random states of nodes and pods, laid down through the API alone: an extender answers each question as the API implies.

The rules that judge every run (``run_judge.py``) know the right answers. These cases bring about the states, and ask.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final

import pytest

from clusters.api.api_client import MERGE_PATCH
from clusters.api.resources import CONFIG_MAPS, EVENTS, NODES, POD_DISRUPTION_BUDGETS, PODS, PRIORITY_CLASSES, Resource
from clusters.api.waiting import eventually
from clusters.embedded.embedded_control_plane import EmbeddedControlPlane
from clusters.local_cluster import LocalCluster
from e2e import spec
from e2e.builders import gpu_container, random_containers, with_slots
from e2e.bursts import questions
from e2e.checkers.card_choice import cards_of
from e2e.checkers.extender_messages import LAG_SECONDS, right_choices, right_victims, settled_book
from e2e.checkers.history import Asked, Finding, State, cards_in
from e2e.checkers.overcommit import as_counted, booked_in_api, holds_a_node, shares_or_none
from e2e.checkers.pod_requests import gpu_containers, units_of
from e2e.checkers.settled_answers import kept_room, right_cpu, right_price, right_scores, rooms_on, wrong_bind
from e2e.extender.extender_under_test import ExtenderUnderTest, Object
from e2e.metrics import port_in, series_in, total_in
from e2e.report.sources import commit_number

pytestmark = [pytest.mark.stand_in_only("its nodes have no kubelet")]

_STATES: Final = 4
_METRICS: Final = {"metrics-address": "127.0.0.1:0"}
# Changes before each round of questions, the binds after it, and the rounds.
_CHANGES, _BINDS, _ROUNDS = 35, 20, 2
_UNITS: Final = (1, 2, 3, 5, 8)
# The default and the other policies of an extender.
_POLICIES: Final = ("binpack", "spread", "fragmentation", "fragmentation")
# The pods that are expected, units and CPU of each; and the CPU of nodes that are alike in all else.
_EXPECTED: Final = ((1, 0.5), (2, 4), (5, 1))
_ALIKE: Final = {"narrow": 200, "wide": 400}

# Groups of binds that land after an audit.
_LATE: Final = 3
# The chance that the answer to a Binding is lost, before it is carried out or after that.
_LOST: Final = 0.4
# The chances that a pod cannot be read at first, that etcd is restored after binds, and that watches lose events in the end.
_SPOILED, _RESTORED, _DRIFTS = 0.15, 0.2, 0.25
# The units of a card, in GiB or in MiB.
_SIZES: Final = {1: (7, 16, 24), 1000: (2000, 16000, 24576)}
_MODELS: Final = ("Tesla T4", "T400 4GB", "NVIDIA A100-SXM4-80GB", "GeForce GTX 1080 Ti")
# The chance that no container of a pod asks for card memory.
_PLAIN_PODS: Final = 0.2
# The chance that nodes with units of a MiB count containers, the slots of a card there, and the chance that a pod names its own.
_SLOTTED: Final = 0.6
_SLOTS: Final = (1, 1, 2, 4)
_NAMES_SLOTS: Final = 0.85
_PHASES: Final = (
    ("Running", ""),
    ("Running", ""),
    ("Pending", ""),
    ("Succeeded", ""),
    ("Failed", "Evicted"),
    ("Failed", "UnexpectedAdmissionError"),
    ("Unknown", "NodeLost"),
)
_ENDED: Final = ("Succeeded", "Failed")
# Texts that describe no cards, or other ones, and that name no card.
_NO_CARDS: Final = (
    "",
    "x",
    "null",
    "[]",
    "{}",
    '{"v":1}',
    '{"v":1,"mode":"ids","unit":"GiB","boot":"b","cards":[]}',
    "{" * 999,
)
# Forms of a list of cards.
_LISTS: Final = (",", ",", ", ", " ,\t", ",x,", ",,")
_NO_INDEX: Final = ("x", "-1", "", "1e3", "1.0", "null", "0x0", "9" * 5000, "99")
# An amount is the spec's, whatever the author of the pod claims.
_CLAIMED: Final = ("", "0", "-5", "1", "1.5", "2k", "many", "9" * 30)
_LARGE: Final = {"example.com/large": "x" * 200_000}


class RandomState:
    """Some nodes of a case, and the changes of their pods; ``units`` of each card of a node."""

    def __init__(self, stage: ExtenderUnderTest, rng: random.Random) -> None:
        self._stage, self._rng = stage, rng
        self._api = stage.api
        self._pods: list[str] = []
        self._ended: dict[str, str] = {}
        self._bans: dict[str, str] = {}
        self._priorities: list[str] = []
        self._unused: list[str] = []
        self._count = 0
        self._policy = _POLICIES[0]
        self._has_slots = rng.random() < _SLOTTED and "slots" in stage.claims
        self._book: Object = {}
        self._binding: set[str] = set()
        """The uids of the last pods to bind; ``_book`` is of the time when each had its answer."""
        self.units: dict[str, dict[int, int]] = {}

    async def lay_down(self) -> None:
        """Up to four nodes, priorities for their pods, and budgets that protect some."""
        for number in range(self._rng.randint(2, 4)):
            name, scale = (
                f"{self._stage.namespace}-{number}",
                self._rng.choice((1, 1000 if self._has_slots else 1, 1000)),
            )
            await self._stage.node(name, self._rng.choice(_SIZES[scale]))
            await self._equip(name, scale)
        for name, cpu in _ALIKE.items():
            await self._stage.node(f"{self._stage.namespace}-{name}", max(_UNITS))
            status = {"status": {"allocatable": {"cpu": cpu}}}
            await self._api.patch(NODES, f"{self._stage.namespace}-{name}", status, subresource="status")
        if "preempt" not in self._stage.claims:
            return
        # Most pods have another: of equal ones any may end.
        for value in self._rng.sample(range(-1000, 2500), 60):
            await self._create_of(PRIORITY_CLASSES, name := f"{self._stage.namespace}-{value}", value=value)
            self._priorities.append(name)
        self._unused = [*self._priorities]
        for app in "ab":
            bound = {self._rng.choice(("minAvailable", "maxUnavailable")): self._rng.choice((0, 0, 1, "50%"))}
            selector = {"matchLabels": {"app": app}}
            await self._create_of(POD_DISRUPTION_BUDGETS, app, spec={"selector": selector, **bound})

    async def _create_of(self, kind: Resource, name: str, *, namespace: str | None = None, **content: Any) -> None:
        head = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
        await self._api.create(head | content, namespace or self._stage.namespace)

    async def _equip(self, name: str, scale: int) -> None:
        """One to nine cards, as the original's plugin publishes them or, of mixed sizes, as ours does.

        An annotation may be no description of them, and a node may have none.
        """
        rng, has_slots = self._rng, self._has_slots and scale > 1
        # If there are many, one usually has a free slot.
        count = rng.choice((1, 1, 2, 2) if has_slots else (1, 1, 2, 2, 3, 4, 6, 9))
        sizes, text = [rng.choice(_SIZES[scale])] * count, rng.choice((None, None, *_NO_CARDS))
        if has_slots or ("cards-annotation" in self._stage.claims and rng.random() < 0.75):
            sizes, unit = [rng.choice(_SIZES[scale]) for _ in range(count)], "GiB" if scale == 1 else "MiB"
            mode = "slots" if has_slots else "ids"
            text = json.dumps({"v": 1, "mode": mode, "unit": unit, "boot": "b", "cards": self._cards(sizes)})
            if rng.random() < (0.1 if has_slots else 0.25):
                # Not valid: the node has other cards. Units are MiB if a card has many of them.
                counts = [one for one in range(1, 10) if sum(sizes) % one == 0 and sum(sizes) // one >= 2 * scale]
                count = rng.choice((count, *counts))
                size = sum(sizes) // count if count in counts else rng.choice(_SIZES[scale])
                sizes = [size] * count
        self.units[name] = dict(enumerate(sizes))
        amounts: dict[str, str | None] = {spec.RESOURCE_MEMORY: str(sum(sizes)), spec.RESOURCE_COUNT: str(count)}
        if rng.random() < 0.15:
            amounts[rng.choice([*amounts])] = rng.choice((None, "0"))
        annotations = {spec.NODE_CARDS: text, "example.com/large": rng.choice((None, None, None, *_LARGE.values()))}
        await self._api.patch(NODES, name, {"metadata": {"annotations": annotations}})
        status = {"capacity": amounts, "allocatable": amounts}
        cards = cards_of(await self._api.patch(NODES, name, {"status": status}, subresource="status"))
        sizes = [card.units for _, card in sorted(cards.cards.items())] if cards else []
        await eventually(
            lambda: self._stage.cards(name),
            lambda shown: [card["totalGPU"] for card in shown if card["totalGPU"]] == [one for one in sizes if one],
            f"the extender's book has cards of {sizes} units on {name}",
        )

    def _cards(self, sizes: Sequence[int]) -> list[dict[str, Any]]:
        """The entries of our annotation; some cards are unhealthy, and so may the largest be."""
        worn = max(sizes) if self._rng.random() < 0.3 else 0
        return [
            {
                "index": index,
                "uuid": f"GPU-{index}",
                "model": self._rng.choice(_MODELS),
                "mib": units * spec.MIB_PER_UNIT,
                "units": units,
                "slots": self._rng.choice(_SLOTS),
                "healthy": units != worn and self._rng.random() < 0.8,
                "reason": "case",
                "numa": 0,
            }
            for index, units in enumerate(sizes)
        ]

    async def change(self) -> None:
        """One change, of a pod more often than of a node."""
        of_node = {"bound": self._create_bound, "bind": self._bind, "ban": self._ban, "odd": self._create_odd}
        of_node |= {"again": self._create_again}
        kind = self._rng.choice((*of_node, *["bound"] * 5, "bind", *["phase"] * 4, "gone", "leaving", "cards"))
        node, name = self._rng.choice([*self.units]), self._rng.choice(self._pods) if self._pods else ""
        if kind in of_node:
            await of_node[kind](node)
        elif kind == "cards" and self._rng.random() < 0.5:
            await self._equip(node, self._scale(node))
        elif kind in ("gone", "leaving") and name:
            await self._stage.observer.delete(name, 0 if kind == "gone" else 1000)
            self._pods = [pod["metadata"]["name"] for pod in await self._stage.observer.pods()]
        elif kind == "phase" and name:
            await self._enter_phase(await self._stage.observer.pod(name))

    async def _create_again(self, node: str) -> None:
        """The Node goes, and is there again as it was; its pods and its bans stay."""
        former = await self._api.get(NODES, node)
        await self._api.delete(NODES, node)
        kept = {key: former["metadata"].get(key) for key in ("name", "labels", "annotations")}
        await self._api.create({**former, "metadata": kept})

    async def lose_answers(self) -> None:
        """Simultaneous binds of which the API server loses answers."""
        with self._plane.disturbed(_LOST):
            await self._bind(self._rng.choice([*self.units]))
        self._book = await self._stage.observer.inspect()

    @property
    def _plane(self) -> EmbeddedControlPlane:
        cluster = self._stage.cluster
        assert isinstance(cluster, LocalCluster)
        assert isinstance(cluster.control_plane, EmbeddedControlPlane)
        return cluster.control_plane

    async def drift(self) -> None:
        """Pods come and go of which no watch gets an event: the next audit of an extender counts them, and their units.

        It counts no binds that have lost their answers: these land later. The extender has reported each bound pod that it cannot
        book, although the API server refused its first event.
        """
        if "explain" not in self._stage.claims or self._rng.random() > _DRIFTS:
            return
        state, plain = await self._state(), self._stage.pod("plain", 1)
        rooms = {node: rooms_on(state, plain, node).values() for node in self.units}
        *losing, binding = sorted(rooms, key=lambda node: sum(room.free for room in rooms[node]) // self._scale(node))
        known, events = [*self._pods], await self._odd_events()
        self._plane.refuse_next("/events")
        async with self._stage.extender({"audit-interval": "10s", **_METRICS}) as url:
            with self._plane.holding_bindings():
                for _ in range(_LATE):
                    await self._bind(binding, url)
                before = (await self._state()).pods
                with self._plane.losing_events():
                    for name in self._rng.sample(known, len(known) // 3):
                        await self._stage.observer.delete(name, 0)
                    for node in losing:
                        await self._create_bound(node)
                after = (await self._state()).pods
                (tick,) = await self._stage.create(self._stage.pod("tick", 1))
                seen = await eventually(lambda: self._audited(tick), bool, "the book is audited", seconds=60)
            bound = [pod["metadata"] | pod for pod in await self._stage.observer.pods() if holds_a_node(pod)]
            odd = {pod["uid"] for pod in bound if pod.get("annotations") and units_of(pod) and not shares_or_none(pod)}
            await eventually(
                self._odd_events,
                lambda found: odd <= {found[uid] for uid in found.keys() - events},
                "each bound pod with annotations that name no card has an event",
                seconds=30,
            )
        due = Counter[tuple[str, str]]()
        for kind, there, others in ("phantom", before, after), ("missing", after, before):
            for pod in (one for uid, one in there.items() if uid not in others):
                is_booked = holds_a_node(pod) and bool(gpu_containers(pod))
                units = sum((shares_or_none(pod) or {}).values()) if is_booked else 0
                kind_of_pod = kind if is_booked else f"pending_{kind}"
                if is_booked or not pod["spec"].get("nodeName"):
                    due += {("units", kind_of_pod): units, ("objects", kind_of_pod): 1}
        assert seen == due, f"the audit counts {seen}, should be {due}"
        # The other extenders read everything again.
        await self._plane.restart_api_server()
        await asyncio.sleep(LAG_SECONDS)

    async def _odd_events(self) -> dict[str, str]:
        """The events about pods that cannot be booked, by uid: the uids of these."""
        events = await self._api.list(EVENTS, self._stage.namespace)
        odd = [one for one in events if one["reason"] == "GPUShareNotBooked"]
        return {one["metadata"]["uid"]: one["involvedObject"]["uid"] for one in odd}

    async def _audited(self, tick: Object) -> Counter[tuple[str, str]]:
        """The drift by the last audit, which waits for the watch to come to its list; empty before the first one."""
        labels = {"metadata": {"labels": {"example.com/tick": f"{self._rng.random()}"}}}
        await self._patch(tick["metadata"]["name"], labels)
        found = {
            (name.rpartition("_")[2], label): int(value)
            for (name, pairs), value in series_in(await self._metrics()).items()
            for _, label in pairs
            if name.startswith("gpushare_book_drift_")
        }
        return +Counter(found)

    async def _metrics(self) -> str:
        """The metrics of the extender that the case started last."""
        port = port_in((self._stage.folder / "extender.log").read_text())
        return (await self._stage.observer.get(f"http://127.0.0.1:{port}/metrics")).text

    async def remove(self) -> None:
        """Remove what is not the namespace's."""
        for node in sorted(self._bans):
            await self._ban(node)
        for name in self._priorities:
            await self._api.delete(PRIORITY_CLASSES, name)

    def options(self) -> dict[str, str] | None:
        """The options of an extender beside, which may have another policy and expect other pods than have come."""
        if "explain" not in self._stage.claims:
            return None
        self._policy, path = self._rng.choice(_POLICIES), self._stage.folder / "expected.yaml"
        path.write_text(json.dumps({"pods": [{"gpu-mem": units, "cpu": cpu} for units, cpu in _EXPECTED]}))
        return {**_METRICS, "policy": self._policy, "expected-pods": str(path)}

    def _with_policy(self, question: Object) -> Object:
        """The question as if the pod itself wished for the policy of the extender beside."""
        annotations = {spec.WISH_POLICY: self._policy, **question["Pod"]["metadata"].get("annotations", {})}
        return {**question, "Pod": {**question["Pod"], "metadata": {"annotations": annotations}}}

    async def ask(self, fresh: str) -> None:
        """Ask the extender, and one at the URL ``fresh`` which has just started: both give the same, right answers."""
        observer, claims = self._stage.observer, self._stage.claims
        urls = (observer.cluster.extender_url(), fresh)
        state, budgets = await self._state(), await self._api.list(POD_DISRUPTION_BUDGETS, self._stage.namespace)
        found = [*kept_room(state, self._book, self._binding)]
        slot = {spec.RESOURCE_SLOT: "1"} if self._names_slots() else {}
        # The reasons of each refusal that the end of pods would cure on some node.
        curable: list[Collection[str]] = []
        for verb, body in questions.asked(self._rng, await observer.pods(), self.units, slot, claims):
            ours, its = [(await observer.post_to(url + verb, body)).json() for url in urls]
            # The policy fragmentation goes by the pods that an extender has seen.
            has_policy = self._policy != _POLICIES[0] or "fragmentation" in body
            is_alike = ours == its or (verb == spec.PRIORITIZE and has_policy)
            assert is_alike, f"an extender that has just started answers {verb} otherwise"
            if verb == spec.FILTER and not ours.get("NodeNames") and ours.get("FailedNodes"):
                curable.append(ours["FailedNodes"].values())
            asked = Asked(0.0, verb, json.loads(body), ours)
            found += (*right_choices(state, asked), *right_victims(state, asked))
            found += right_price(state, asked, budgets) if verb == spec.PREEMPT else ()
            if verb == spec.PRIORITIZE and "binpack" in claims:
                found += right_scores(state, asked)
                found += right_scores(state, Asked(0.0, verb, self._with_policy(json.loads(body)), its))
        for cpu in (1, *_ALIKE.values()) if self._policy == "fragmentation" else ():
            pod = self._stage.pod("asked", self._rng.choice(_UNITS[:-1]))
            pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": cpu}
            question = {"Pod": pod, "NodeNames": [f"{self._stage.namespace}-{name}" for name in _ALIKE]}
            answer = await observer.post_to(fresh + spec.PRIORITIZE, json.dumps(question))
            found += right_cpu(state, Asked(0.0, spec.PRIORITIZE, question, answer.json()), _EXPECTED)
        if "explain" in claims:
            text, reasons = await self._metrics(), {one for of in curable for one in of}
            counted = sum(
                total_in(text, "gpushare_extender_requests_total", verb="filter", verdict="refused", reason=one)
                for one in reasons
            )
            assert counted == len(curable), f"{counted} refusals have one of {reasons}, should be {len(curable)}"
        book, its_book = [(await observer.inspect(url=url))["nodes"] for url in urls]
        book, its_book = ([one for one in of if one["name"] in self.units] for of in (book, its_book))
        assert book == its_book
        found += settled_book(state, Asked(0.0, spec.INSPECT, None, {"nodes": book}))
        assert not found, "\n".join(map(str, found))

    async def bind(self) -> None:
        """Pods with wishes, one after the other, each on a node that may or may not have room for it.

        After that etcd may be restored: no pod has been bound.
        """
        places = [self._rng.choice([*self.units]) for _ in range(_BINDS)]
        pods = [await self._create(self._wishing(node)) for node in places]
        is_restored = "explain" in self._stage.claims and self._rng.random() < _RESTORED
        restore = self._plane.saved(PODS, self._stage.namespace) if is_restored else None
        before = await self._state()
        for pod, node in zip(pods, places, strict=True):
            # Some orders are given again before they have an answer.
            orders = 1 if self._stage.may_refuse_again else self._rng.choice((1, 2))
            errors = await asyncio.gather(*(self._stage.bind(pod, node) for _ in range(orders)))
            after = await self._state()
            for error in errors:
                wrong = wrong_bind(before, pod, node, after.pods[pod["metadata"]["uid"]], error)
                assert not wrong, f"{pod['metadata'].get('annotations')}, {units_of(pod)} units, {node}: {wrong}"
            before = after
        if restore is not None:
            await restore()
            await eventually(self._wrong_book, lambda wrong: not wrong, "the book has the restored pods", seconds=30)

    async def _wrong_book(self) -> list[Finding]:
        """The faults of the book on the nodes of the case."""
        book = [one for one in (await self._stage.observer.inspect())["nodes"] if one["name"] in self.units]
        return [*settled_book(await self._state(), Asked(0.0, spec.INSPECT, None, {"nodes": book}))]

    def _wishing(self, node: str) -> Object:
        """A pod that may have wishes for its card."""
        pod, scale = self._pod(self._scale(node)), self._scale(node)
        if not units_of(pod) or self._rng.random() < 0.5:
            pod["spec"] |= {"containers": [gpu_container("c0", self._rng.choice(_UNITS) * scale)], "initContainers": []}
        is_wishing = "wishes" in self._stage.claims and self._rng.random() < 0.9
        pod["metadata"]["annotations"] = questions.wishes(self._rng, units_of(pod)) if is_wishing else {}
        return pod

    async def _state(self) -> State:
        """The state by the API, with the pods as they count."""
        pods = as_counted(await self._stage.observer.pods(), self._stage.claims)
        nodes = {one["metadata"]["name"]: one for one in await self._api.list(NODES)}
        banned = {name: cards_in(text) for name, text in self._bans.items()}
        return State(pods={pod["metadata"]["uid"]: pod for pod in pods}, nodes={**nodes}, banned=banned)

    def _scale(self, node: str) -> int:
        return 1000 if self.units[node][0] >= 1000 else 1

    async def _enter_phase(self, pod: Object) -> None:
        """No pod leaves a phase in which it has ended; its containers may end later, if its status shows that they run."""
        name, rng = pod["metadata"]["name"], self._rng
        phase, reason = rng.choice(_PHASES)
        runs = rng.random() < (0.6 if phase in _ENDED else 0.9)
        if name in self._ended:
            (phase, reason), runs = (self._ended[name], ""), False
        elif phase in _ENDED:
            self._ended[name] = phase
        status: dict[str, Any] = {"phase": phase, "reason": reason}
        kinds = ("containers", "initContainers")
        running = rng.choice((kinds, kinds[:1], kinds[1:])) if runs else ()
        for kind in kinds:
            states = ("running", "running", "terminated", "waiting") if kind in running else ("terminated", "waiting")
            names = [one["name"] for one in pod["spec"].get(kind) or ()]
            status[f"{kind[:-1]}Statuses"] = [_status(one, rng.choice(states)) for one in names]
        ready = "True" if phase == "Running" and rng.random() < 0.9 else "False"
        status["conditions"] = [{"type": "Ready", "status": ready}]
        await self._patch(name, {"status": status}, "status")
        if phase in _ENDED and runs and rng.random() < 0.4:
            await self._patch(name, {"metadata": {"annotations": {"ALIYUN_COM_GPU_MEM_ENDED": "boot"}}})

    async def _patch(self, name: str, patch: Object, subresource: str | None = None) -> None:
        await self._api.patch(
            PODS, name, patch, self._stage.namespace, subresource=subresource, content_type=MERGE_PATCH
        )

    async def _create_bound(self, node: str) -> None:
        """A pod that has its node and its card, if there is room: this state is a true one."""
        pod, rng = self._pod(self._scale(node)), self._rng
        free = await self._free(node)
        needed = units_of(pod)
        cards = [card for card, units in free.items() if units >= needed]
        if needed and not cards:
            return
        card = rng.choice(cards) if needed else 0
        own = {spec.POD_INDEX: str(card), spec.POD_UNITS: str(needed), spec.POD_ASSIGNED: rng.choice(("true", "false"))}
        if rng.random() < 0.3:
            own |= {spec.POD_UNITS: rng.choice(_CLAIMED), spec.POD_ASSIGNED: rng.choice(_CLAIMED)}
        if needed and rng.random() < 0.5:
            own |= {spec.POD_DEVICE_UNITS: str(self.units[node][card]), spec.POD_ASSUME_TIME: "1700000000000000000"}
        if "wishes" in self._stage.claims and rng.random() < 0.3:
            own |= questions.wishes(rng, needed)
        # In the middle of a repair.
        if needed and len(cards) > 1 and rng.random() < 0.15:
            own |= {spec.POD_REPAIR: str(rng.choice([one for one in cards if one != card]))}
        pod["metadata"]["annotations"] = own if needed or rng.random() < 0.5 else {}
        pod["spec"]["nodeName"] = node
        created = await (self._create_spoiled if rng.random() < _SPOILED else self._create)(pod)
        if rng.random() < 0.4:
            await self._enter_phase(created)

    async def _create_spoiled(self, pod: Object) -> Object:
        """No program can read it at first, as one of another release; then it is mended, or goes and comes again."""
        (made,) = await self._stage.create({**pod, "spec": {**pod["spec"], "nodeName": None}})
        bound = {**made, "spec": {**made["spec"], "nodeName": pod["spec"]["nodeName"]}}
        self._plane.overwrite(PODS, {**bound, "spec": {**bound["spec"], "schedulerName": 7}})
        name = made["metadata"]["name"]
        if self._rng.random() < 0.5:
            await self._stage.observer.delete(name, 0)
            return await self._create(pod)
        self._plane.overwrite(PODS, bound)
        self._pods.append(name)
        return bound

    async def _bind(self, node: str, url: str | None = None) -> None:
        """Some simultaneous binds, which the extender may refuse; the pods, which may wish for one card together.

        With a ``url`` they are all for this node, and for the extender there.
        """
        pods = [self._pod(self._scale(node)) for _ in range(self._rng.randint(1, 4))]
        if "wishes" in self._stage.claims and self._rng.random() < 0.5:
            policy, group = self._rng.choice(("binpack", "spread", "spread")), f"group-{self._count}"
            for pod in pods:
                pod["metadata"]["annotations"] = {spec.WISH_POLICY: policy, spec.WISH_SAME_CARD: group}
                pod["spec"] |= {"containers": [gpu_container("c0", self._scale(node))], "initContainers": []}
        for pod in pods:
            # A mark of a repair by the pod's author.
            marks = {spec.POD_REPAIR: str(self._rng.choice([*self.units[node]]))} if self._rng.random() < 0.2 else {}
            pod["metadata"]["annotations"] = {**pod["metadata"].get("annotations", {}), **marks}
        created = [await self._create(pod) for pod in pods]
        self._binding = {pod["metadata"]["uid"] for pod in created}
        asking = [pod for pod in created if units_of(pod)]
        # The same order twice, as of two schedulers, while the pods change or go.
        nodes = [node, *self._rng.choices([*self.units] if url is None else [node], k=self._rng.choice((0, 0, 1)))]
        orders = (self._stage.bind(pod, node, url) for pod in asking for node in nodes)
        gone = [pod["metadata"]["name"] for pod in asking if self._rng.random() < 0.2]
        labels = [
            self._label(pod) for pod in asking if pod["metadata"]["name"] not in gone and self._rng.random() < 0.5
        ]
        await asyncio.gather(*(self._stage.observer.delete(name, 0) for name in gone), *orders, *labels)
        self._pods = [name for name in self._pods if name not in gone]

    async def _label(self, pod: Object) -> None:
        labels = {"metadata": {"labels": {"example.com/seen": "yes"}}}
        await self._stage.api.patch(PODS, pod["metadata"]["name"], labels, self._stage.namespace)

    async def _create_odd(self, node: str) -> None:
        """A bound pod with annotations that name no card: it holds none, whatever else they say."""
        pod = self._pod(self._scale(node))
        own = {spec.POD_INDEX: self._rng.choice(_NO_INDEX), spec.POD_UNITS: self._rng.choice(_CLAIMED)}
        if "several-cards" in self._stage.claims and self._rng.random() < 0.3:
            own = {spec.POD_ALLOCATION: self._rng.choice(("x", "[]", '{"0":{"x":1}}', '{"0":{"0":-1}}', "{" * 9000))}
        pod["metadata"]["annotations"] = own if self._rng.random() < 0.9 else {}
        pod["spec"]["nodeName"] = node
        await self._create(pod)

    async def _free(self, node: str) -> dict[int, int]:
        booked = booked_in_api(await self._stage.observer.pods())
        return {card: units - booked.get((node, card), 0) for card, units in self.units[node].items()}

    async def _create(self, pod: Object) -> Object:
        (created,) = await self._stage.create(with_slots(pod) if self._names_slots() else pod)
        self._pods.append(created["metadata"]["name"])
        return created

    def _names_slots(self) -> bool:
        return self._has_slots and self._rng.random() < _NAMES_SLOTS

    async def _ban(self, node: str) -> None:
        name, namespace = f"unhealthy-gpu-{node}", "kube-system"
        if node in self._bans:
            del self._bans[node]
            await self._stage.api.delete(CONFIG_MAPS, name, namespace)
            return
        cards = self._rng.sample([*self.units[node]], self._rng.randint(1, len(self.units[node])))
        self._bans[node] = self._rng.choice(("", " ", "x,")) + self._rng.choice(_LISTS).join(map(str, cards))
        await self._create_of(CONFIG_MAPS, name, namespace=namespace, data={"gpus": self._bans[node]})

    def _pod(self, scale: int) -> Object:
        self._count += 1
        rng, pod = self._rng, self._stage.pod(f"p-{self._count}", 1)
        units = [scale * one for one in _UNITS]
        pod["spec"] |= random_containers(rng, units, 0.0 if rng.random() < _PLAIN_PODS else 0.7)
        pod["metadata"]["labels"] = {"app": rng.choice("abc")}
        if self._unused:
            pod["spec"]["priorityClassName"] = self._unused.pop()
        return pod


def _status(name: str, state: str) -> dict[str, Any]:
    """The status of a container."""
    more = {"exitCode": 0} if state == "terminated" else {}
    return {"name": name, "image": "i", "imageID": "i", "ready": False, "restartCount": 0, "state": {state: more}}


@pytest.mark.promise("D13", "EXT-024")
@pytest.mark.parametrize("number", range(_STATES))
async def test_answers_are_what_the_api_implies(stage: ExtenderUnderTest, number: int) -> None:
    """Odd nodes, pods of any shape and phase, bans, wishes, simultaneous binds: a node passes if a card has room, and only then."""
    if stage.kind != "embedded":
        pytest.skip("its rules see the writes of the embedded API server alone")
    state = RandomState(stage, random.Random(f"{commit_number()}/{number}"))
    await state.lay_down()
    try:
        for _ in range(_ROUNDS):
            for _ in range(_CHANGES):
                await state.change()
            await state.lose_answers()
            async with stage.extender(state.options()) as fresh:
                # Each may read all changes until then.
                await asyncio.sleep(LAG_SECONDS)
                await state.ask(fresh)
            await state.bind()
        await state.drift()
    finally:
        await state.remove()
