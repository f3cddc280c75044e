"""Play a burst on a cluster, wait until nothing more is expected, and read the result."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import shutil
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from clusters.api.api_client import MERGE_PATCH, ApiError, Object
from clusters.api.exchanges import LISTENERS, Event, Written
from clusters.api.resources import NODES, PODS
from clusters.api.waiting import NotReachedError, eventually, until_next_look
from clusters.local_cluster import LocalCluster
from clusters.provider import EXTENDER
from e2e import spec
from e2e.builders import gated
from e2e.bursts import questions
from e2e.bursts.burst_plan import POD_LABEL, Burst, Step
from e2e.bursts.card_faults import Fault, Moment, moments, reasons_of
from e2e.bursts.judge import (
    Result,
    book_is_whole,
    held_memory,
    is_held,
    is_kept_out,
    is_running,
    is_told_wrongly,
    is_turned_away,
    is_without_room,
    started_again,
    unsettled,
    wrong_node,
    wrong_rows,
)
from e2e.bursts.published import Published
from e2e.bursts.world import World
from e2e.checkers.extender_answers import book_beyond_cards, book_differs
from e2e.checkers.extender_messages import LAG_SECONDS
from e2e.checkers.history import Asked, Entry, Finding, Listed, judge, name_of
from e2e.checkers.overcommit import Sizes, booked_in_api, over_booked, over_slotted, shares_or_none, unreadable
from e2e.checkers.pod_requests import gpu_containers
from e2e.checkers.published_series import Rest, resting
from e2e.checkers.right_card import SUM, right_card
from e2e.limit_look import LimitLook
from e2e.observer import Observer

# Against hangs, in seconds: a burst that has not settled by then never will.
SETTLE_SECONDS: Final = 60.0
# The device plugin's log lines after it has put two annotations right.
_REPAIR: Final = re.compile(r"\bexchanged\b|\bmoved\b")
_MOVED: Final = re.compile(r"(?:exchanged|gave way) pod=\S+ uid=(\S+)")
_PROGRAM: Final = "device_plugin"
# The capabilities without which a Node need not show what its cards are.
_OF_CARDS: Final = frozenset({"cards-annotation", "health", "node-condition"})


class Player:
    """Plays one burst after the other in the namespaces of its observers.

    ``restart_plugin`` restarts a node's device plugin; if it is not given, that is the cluster's. ``inspect`` prints the table of
    a target, ``watched`` is what one that watches has printed so far. ``unhealthy`` are the faults of cards, by (node, index).
    ``claims`` are the capabilities of its programs.
    """

    def __init__(
        self,
        observers: Sequence[Observer],
        nodes: Sequence[str],
        *,
        settle_seconds: float = SETTLE_SECONDS,
        restart_plugin: Callable[[str], Awaitable[None]] | None = None,
        is_real: bool = False,
        inspect: Callable[[], Awaitable[str]] | None = None,
        unhealthy: Mapping[tuple[str, int], Fault] = MappingProxyType({}),
        claims: frozenset[str] = frozenset(),
        watched: Callable[[], str] | None = None,
        world: World = World(),  # noqa: B008 - frozen
        published: Published | None = None,
    ) -> None:
        self.observers = observers
        self.observer = observers[0]
        # A real kubelet passes over pods that are deleted before it has looked at them, which no other program can know.
        self._is_real = is_real
        self.nodes = nodes
        self._cluster = self.observer.cluster
        self._inspect = inspect
        self._watched = watched
        self._published = published
        self._limits = LimitLook(self.observer, publishes=published is not None)
        self._faults = dict(unhealthy)
        self.claims = claims
        self.world = world
        self._restart_plugin = restart_plugin or self._restart_clusters_plugin
        self._settle_seconds = settle_seconds
        self._replacements = 0
        self._without_room = 0
        self._kept_out = 0
        # Nodes of real kubelets on which a pod was deleted before it ran.
        self._passed_over: set[str] = set()
        # Nodes that were disturbed after the steps, and those of which cards failed or recovered.
        self._restarted: set[str] = set()
        self._troubled = {node.name for node in world.nodes if node.former}
        self._had: Counter[str] = Counter()
        self._has_overuse = False
        self._known: Sizes = {}

    async def play(self, burst: Burst) -> Result:
        """Steps, settling, verdict, and the namespaces as empty as before."""
        started, repairs = time.monotonic(), self._repairs()
        self._replacements = self._without_room = self._kept_out = 0
        self._passed_over, self._restarted = set(), set()
        large = any(len(cards) > 8 for cards in (await self.sizes()).values())
        self._had = Counter(
            worlds_of_more_than_8_cards=int(large),
            worlds_with_unhealthy_cards=int(any(fault.reason for fault in self._faults.values())),
            worlds_with_a_disturbed_API_server=int(self.world.is_disturbed),
        )
        self._has_overuse |= any(pod.is_greedy for pod in burst.made.values())
        result = Result(burst.seed, pods=sum(len(step.create) for step in burst.steps))
        result.findings = await self._wrong_nodes()
        result.findings = result.findings or await self._steps(burst) + await self._settle(
            burst, frozenset(burst.staying)
        )
        if not result.findings:
            await self._lose(burst)
            result.findings = await self._edit(burst) or await self._trouble(burst) or await self._hide_use()
        begun = time.monotonic()
        other_sums = frozenset(self.nodes) if self._is_real else burst.restarted | self._restarted
        seen = await self._look(result)
        found = judge(seen, unreadable, over_booked, over_slotted, right_card, started_again, held_memory)
        result.findings += [str(one) for one in found if one.rule != SUM or one.node not in other_sums]
        result.other_sums = sum(one.rule == SUM for one in found)
        if not result.findings:
            result.findings = await self._check_book(seen)
        if not result.findings and self._published is not None:
            result.findings = await self._published.findings(await self._rest(), random.Random(burst.seed))
        if not result.findings and self.world.has_limits:
            result.findings = await self._wrong_limits()
        if not result.findings and self._inspect is not None:
            result.findings = wrong_rows(await self._inspect(), *await self._listed(), await self.sizes())
            result.findings += await self._wrong_watched_rows()
        if not result.findings:
            await self._ask(burst, begun)
        await self.clear()
        result.findings = result.findings or await self._wrong_nodes()
        result.replaced, result.without_room = self._replacements, self._without_room
        result.kept_out, result.had = self._kept_out, dict(self._had)
        result.repairs = self._repairs() - repairs
        result.seconds = time.monotonic() - started
        return result

    def recent_logs(self, lines: int = 80) -> str:
        """The last lines of the programs' logs, for a reader of a burst's findings."""
        programs = [(EXTENDER, None), *((_PROGRAM, node) for node in self.nodes)]
        logs = {node or program: self._cluster.log(program, node) for program, node in programs}
        logs = {"watched": self._watched() if self._watched is not None else "", **logs}
        return "\n".join(f"{name}: {line}" for name, log in logs.items() for line in log.splitlines()[-lines:])

    async def clear(self) -> None:
        """Take all pods away, and wait until no process holds a card."""
        await asyncio.gather(*(self._release(pod) for pod in await self._pods()))
        await asyncio.gather(*(observer.clear() for observer in self.observers))
        await eventually(self._is_held, lambda held: not held, "no process holds a card")

    async def _steps(self, burst: Burst) -> list[str]:
        """Play all steps; the findings of the gaps."""
        found: list[str] = []
        expected, restarts = frozenset[str](), list[asyncio.Task[None]]()
        busy: dict[str, asyncio.Lock] = {program: asyncio.Lock() for program in (*self.nodes, EXTENDER)}
        try:
            for step in burst.steps:
                if step.is_gap:
                    await asyncio.gather(*restarts)
                    found += await self._amid_gap(burst, expected, step)
                else:
                    restarts += [asyncio.create_task(_alone(busy[on], work)) for on, work in self._restarts(step)]
                    await asyncio.gather(self._create(step), self._delete(step))
                expected = expected.union(pod.name for pod in step.create).difference(step.delete)
                await asyncio.sleep(step.pause_seconds)
            await asyncio.gather(*restarts)
            return found
        finally:
            for restart in restarts:
                restart.cancel()

    def _restarts(self, step: Step) -> list[tuple[str, Awaitable[None]]]:
        found: list[tuple[str, Awaitable[None]]] = []
        if step.restart_plugin:
            found.append((step.restart_plugin, self._restart_plugin(step.restart_plugin)))
        if step.restart_kubelet:
            found.append((step.restart_kubelet, self._cluster.restart_kubelet(step.restart_kubelet)))
        if step.restart_extender:
            found.append((EXTENDER, self._restart_extender()))
        return found

    async def _create(self, step: Step) -> None:
        await self.observer.create(*(pod.manifest() for pod in step.create))

    async def _delete(self, step: Step) -> None:
        """By their labels: one that was replaced has another name."""
        pods = [pod for pod in await self._pods() if pod["metadata"]["labels"][POD_LABEL] in step.delete]
        if self._is_real:
            self._passed_over |= {pod["spec"].get("nodeName", "") for pod in pods if not is_running(pod)}
        names = [pod["metadata"] for pod in pods]
        await asyncio.gather(*(self._of(one["namespace"]).delete(one["name"], 1) for one in names))

    async def _amid_gap(self, burst: Burst, expected: frozenset[str], step: Step) -> list[str]:
        """Between two moments of rest pods go that the programs do not see go, and others are there in their place.

        The others are gated: a scheduler that asks a program that stands still would only wait.
        """
        assert isinstance(self._cluster, LocalCluster)
        if found := await self._settle(burst, expected):
            return found
        self._had["gaps"] += 1
        cards = [self.observer.cards(node) for node in self.nodes]
        with self._cluster.standing_still(_PROGRAM), self._cluster.standing_still(EXTENDER):
            await self._cluster.control_plane.restart_api_server()
            await self._delete(step)
            await self._are_gone(step)
            await self.observer.create(*(gated(pod.manifest()) for pod in step.create))
            await self._cluster.control_plane.compact()
        found = [f"after a gap: {text}" for text in await self._check_book(cards)]
        created = {pod.name for pod in step.create}
        pods = [pod for pod in await self._pods() if pod["metadata"]["labels"][POD_LABEL] in created]
        await asyncio.gather(*(self._patch(pod, {"spec": {"schedulingGates": None}}) for pod in pods))
        return found

    async def _are_gone(self, step: Step) -> None:
        """Wait until the kubelets have ended the pods; what another program holds goes without that."""

        async def left() -> list[Object]:
            pods = [pod for pod in await self._pods() if pod["metadata"]["labels"][POD_LABEL] in step.delete]
            await asyncio.gather(*(self._release(pod) for pod in pods))
            return pods

        await eventually(left, lambda pods: not pods, "the deleted pods are gone", seconds=SETTLE_SECONDS)

    async def _wrong_watched_rows(self) -> list[str]:
        """The rows of a table that follows the cluster which do not become the API's."""
        if self._watched is None:
            return []
        watched = self._watched

        async def wrong() -> list[str]:
            return [f"watched {text}" for text in wrong_rows(watched(), *await self._listed(), await self.sizes())]

        return await self._until_right(wrong, "the watched table is the API's")

    async def _restart_extender(self) -> None:
        await self._cluster.kill(EXTENDER)
        if self._published is not None:
            self._published.forget_refusals()
        await self._cluster.launch(EXTENDER)

    async def _lose(self, burst: Burst) -> None:
        """Set some pods to phase Unknown, as old node controllers did for a lost node; their containers run on."""
        lost = {name for name, pod in burst.staying.items() if pod.is_lost}
        for pod in await self._pods():
            if pod["metadata"]["labels"][POD_LABEL] in lost and is_running(pod):
                await self._patch(pod, {"status": {"phase": "Unknown", "reason": "NodeLost"}}, "status")
                self._had["pods_of_phase_Unknown"] += 1

    async def _edit(self, burst: Burst) -> list[str]:
        """An administrator writes another card on some pods that run, as theirs, as that of a repair, or both.

        The plugin writes the true one again. A pod that was moved is left out: extenders book it on both cards, if it names that of
        its Binding again.
        """
        moved = {uid for node in self.nodes for uid in self._moved_on(node)}
        edited = {name for name, pod in burst.staying.items() if pod.is_edited}
        cards, rng = {}, random.Random(burst.seed)
        for pod in await self._pods():
            index = (pod["metadata"].get("annotations") or {}).get(spec.POD_INDEX, "")
            others = self._known.get(pod["spec"].get("nodeName", ""), {}).keys() - {int(index or -1)}
            is_edited = pod["metadata"]["labels"][POD_LABEL] in edited and pod["metadata"]["uid"] not in moved
            if is_edited and is_running(pod) and index and others:
                cards[pod["metadata"]["uid"]] = index
                other = str(min(others))
                ways = (
                    {spec.POD_INDEX: other},
                    {spec.POD_REPAIR: other},
                    {spec.POD_INDEX: other, spec.POD_REPAIR: index},
                )
                await self._patch(pod, {"metadata": {"annotations": rng.choice(ways)}})
                self._had["pods_with_a_card_by_an_administrator"] += 1

        async def wrong() -> list[str]:
            return [
                f"{name_of(pod)}: names card {shown}, not {card}"
                for pod in await self._pods()
                if (card := cards.get(pod["metadata"]["uid"]))
                and (shown := [pod["metadata"]["annotations"].get(one) for one in (spec.POD_INDEX, spec.POD_REPAIR)])
                not in ([card, None], [card, ""])
            ]

        return await self._until_right(wrong, "cards are as before")

    def _moved_on(self, node: str) -> list[str]:
        """The uids of the pods that the node's plugin has written on another card."""
        return _MOVED.findall(self._cluster.log(_PROGRAM, node))

    async def _trouble(self, burst: Burst) -> list[str]:
        """In some worlds cards of a node with pods fail and recover, its plugin is away a while, or its Node is created again.

        So it is in each burst with a pod on several cards, and these are the cards.
        """
        pods = await self._pods()
        several = booked_in_api(pod for pod in pods if len(shares_or_none(pod) or {}) > 1)
        held = sorted(several or booked_in_api(pods))
        if not ((self.world.fails_late or several) and held and self.claims >= _OF_CARDS):
            return []
        self._had["bursts_with_faulty_cards_of_a_pod_on_several"] += bool(several)
        # The limits of a card that is lost later are not known then.
        if self.world.has_limits and (found := await self._wrong_limits()):
            return found
        rng, sizes = random.Random(burst.seed), await self.sizes()
        node, _ = rng.choice(held)
        knows_advice = next(one.knows_advice for one in self.world.nodes if one.name == node)
        faults = {card: self._faults.get((node, card), Fault()) for card in sizes[node]}
        of_pods = [card for on, card in held if on == node]
        for moment in moments(rng, faults, of_pods, knows_advice=knows_advice):
            if found := await self._pass(burst, node, moment):
                return [f"{node}: {text} ({moment})" for text in found]
        return []

    async def _pass(self, burst: Burst, node: str, moment: Moment) -> list[str]:
        """The findings after the moment, when all is at rest again."""
        self._had["moments_of_faulty_cards"] += 1
        self._troubled.add(node)
        self._had["nodes_created_again"] += moment.is_again
        self._had["plugins_that_were_away"] += moment.is_away
        self._restarted |= {node} if moment.is_away or moment.is_again else set()
        begun = time.monotonic()
        with _reasons_written(node) as writes:
            if moment.is_away:
                await self._cluster.kill(_PROGRAM, node)
            for command in moment.commands:
                await self._cluster.fake_nvml(node, *command)
            if moment.operator:
                word = {"metadata": {"annotations": {spec.NODE_RECOVERED: moment.operator}}}
                await self._cluster.api.patch(NODES, node, word, content_type=MERGE_PATCH)
            if moment.is_again:
                await self._create_again(node)
            if moment.is_away:
                await self._cluster.launch(_PROGRAM, node)
            self._faults |= {(node, card): fault for card, fault in moment.after.items()}
            found = await self._wrong_nodes()
        found += moment.wrong(
            begun, [*writes, (time.monotonic(), reasons_of(await self._cluster.api.get(NODES, node)))]
        )
        return found or await self._settle(burst, frozenset(burst.staying))

    async def _hide_use(self) -> list[str]:
        """In some worlds NVML does not know a card's processes for a while: their use has no sample, and nothing else changes.

        So it is in each burst with a pod that uses more than it booked, once that is shown.
        """
        if self._published is None:
            return []
        rest = await self._rest()
        greedy = {one[:2] for one in rest.overuse}
        held = sorted(
            ((pod["metadata"]["uid"], card) not in greedy, pod["spec"]["nodeName"], card)
            for pod in rest.holding
            for card in shares_or_none(pod) or ()
            if not self._faults.get((pod["spec"]["nodeName"], card), Fault()).is_lost
        )
        if not held or (held[0][0] and not self.world.hides_use):
            return []
        is_modest, node, card = held[0]
        if not is_modest and (found := await self._wrong_use(node)):
            return found
        self._had["pods_that_overuse_a_silent_card"] += not is_modest
        self._had["cards_without_known_processes"] += 1
        for function, *count in (("ComputeRunningProcesses",), ("MemoryInfo", "--count", "1")):
            fault = ("fail", f"nvmlDeviceGet{function}*", "--card", str(card), "--with", "UNKNOWN", *count)
            await self._cluster.fake_nvml(node, *fault)
        found = await self._wrong_use(node, card)
        await self._cluster.fake_nvml(node, "faults", "clear")
        return (
            found or await self._wrong_use(node) or await self._add_processes(node, card) or await self._wrong_nodes()
        )

    async def _add_processes(self, node: str, card: int) -> list[str]:
        """The driver has no figure for two more processes of a pod, by pid the first and the last; that of its others stays."""
        folder, rows = self._cluster.kubelet_folder(node) / "proc", self._cluster.cards(node)[card]["processes"]
        pids = ("1", str(2**31 - 1)) if rows else ()
        for pid in pids:
            shutil.copytree(folder / str(rows[-1]["pid"]), folder / pid)
            await self._cluster.fake_nvml(node, "process", "add", str(card), pid, "unknown")
        found = await self._wrong_use(node)
        for pid in pids:
            await self._cluster.fake_nvml(node, "process", "remove", str(card), pid)
            shutil.rmtree(folder / pid)
        self._had["processes_without_a_figure"] += len(pids)
        return found

    async def _wrong_use(self, node: str, *hidden: int) -> list[str]:
        """The series that the node's plugin does not come to publish, while NVML knows no process of the hidden cards."""
        assert self._published is not None
        return await self._published.wrong_series(node, await self._rest({(node, card) for card in hidden}))

    async def _rest(self, hidden: Collection[tuple[str, int]] = ()) -> Rest:
        """The state of the API and of the cards, which is at rest."""
        faults = {place: fault.is_lost for place, fault in self._faults.items() if fault.reason}
        seen, has_overuse = (*await self._listed(), faults, await self.sizes()), self._has_overuse
        return resting(*seen, self._cluster.cards, self._troubled, hidden, has_overuse=has_overuse)

    async def _create_again(self, node: str) -> None:
        """Delete the Node; with its next start the kubelet creates it again."""
        await self._cluster.api.patch(NODES, node, {"metadata": {"finalizers": None}}, content_type=MERGE_PATCH)
        await self._cluster.api.delete(NODES, node)
        await self._cluster.restart_kubelet(node)

    async def _wrong_nodes(self) -> list[str]:
        """The parts of Nodes that do not come to be those of their cards."""
        if self._is_real or not self.claims >= _OF_CARDS:
            return []

        async def wrong() -> list[str]:
            pods, nodes = await self._listed()
            found = list[str]()
            for node in nodes:
                name = node["metadata"]["name"]
                reasons = {
                    card: fault.reason for (on, card), fault in self._faults.items() if on == name and fault.reason
                }
                found += wrong_node(node, pods, self.observer.cards(name).cards, reasons)
            return found

        return await self._until_right(wrong, "nodes show their cards")

    async def _until_right(self, wrong: Callable[[], Awaitable[list[str]]], what: str) -> list[str]:
        """The findings when there are none any more, or after a while."""
        with contextlib.suppress(NotReachedError):
            await eventually(wrong, lambda found: not found, what, seconds=self._settle_seconds)
        return await wrong()

    async def _wrong_limits(self) -> list[str]:
        """The containers without their exact limit, and the reports that are not of the limits that there are."""

        async def wrong() -> list[str]:
            self._limits.exact, found, unit = 0, list[str](), self.world.mib_per_unit
            for node in self.nodes:
                lost = [card for (on, card), fault in self._faults.items() if on == node and fault.is_lost]
                found += await self._limits.wrong(node, mib_per_unit=unit, lost=lost)
            return found

        found = await self._until_right(wrong, "containers have their limits")
        self._had["containers_with_their_exact_limit"] += self._limits.exact
        return found

    async def _ask(self, burst: Burst, rest: float) -> None:
        """Ask the extender, which has been at rest since then; the answers are judged as all of a run are (``run_judge.py``)."""
        if self._is_real or "preempt" not in self.claims:
            return
        # The extender may have read all changes then.
        await asyncio.sleep(LAG_SECONDS + rest - time.monotonic())
        rng, pods, sizes = random.Random(burst.seed), await self._pods(), await self.sizes()
        slot = {spec.RESOURCE_SLOT: "1"} if self.world.has_slots else {}
        for verb, body in questions.asked(rng, pods, sizes, slot, self.claims):
            await self.observer.post(verb, body)

    async def _patch(self, pod: Object, patch: dict[str, Any], subresource: str | None = None) -> None:
        metadata = pod["metadata"]
        await self._cluster.api.patch(
            PODS, metadata["name"], patch, metadata["namespace"], subresource=subresource, content_type=MERGE_PATCH
        )

    async def _release(self, pod: Object) -> None:
        """Take away what holds the object of a pod; it may be gone then."""
        if pod["metadata"].get("finalizers"):
            with contextlib.suppress(ApiError):
                await self._patch(pod, {"metadata": {"finalizers": None}})
                self._had["pods_with_finalizers"] += 1

    def _of(self, namespace: str) -> Observer:
        return next(one for one in self.observers if one.namespace == namespace)

    async def _pods(self) -> list[Object]:
        return [pod for pods in await asyncio.gather(*(one.pods() for one in self.observers)) for pod in pods]

    async def _restart_clusters_plugin(self, node: str) -> None:
        await self._cluster.kill(_PROGRAM, node)
        await self._cluster.launch(_PROGRAM, node)

    async def _settle(self, burst: Burst, expected: frozenset[str]) -> list[str]:
        """Until every expected pod runs or waits for a reason that holds; one that a restart turned away is replaced."""
        sizes = {
            node: {card: units for card, units in cards.items() if not self._faults.get((node, card), Fault()).reason}
            for node, cards in (await self.sizes()).items()
        }
        left, refused = list[str](), list[Object]()
        begun = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self._settle_seconds):
                while True:
                    pods = [pod for pod in await self._pods() if not is_held(pod)]
                    turned_away = [pod for pod in pods if is_turned_away(pod, burst.restarted | self._restarted)]
                    shuffled = burst.kubelets | self._restarted | self._passed_over
                    if any(is_without_room(pod, frozenset(self.nodes)) for pod in pods):
                        shuffled |= {node for node in self.nodes if self._moved_on(node)}
                    without_room = [
                        pod for pod in pods if is_without_room(pod, shuffled) or is_told_wrongly(pod, shuffled)
                    ]
                    kept_out = [pod for pod in pods if self._is_real and is_kept_out(pod) and pod not in turned_away]
                    self._without_room += len(without_room)
                    self._kept_out += len(kept_out)
                    refused = turned_away + without_room + kept_out
                    if not refused and not (left := unsettled(pods, expected, sizes)):
                        return []
                    await asyncio.gather(*(self._replace(pod, burst, expected) for pod in refused))
                    await asyncio.sleep(until_next_look(begun))
        except TimeoutError:
            return left or [f"pods are refused again and again: {', '.join(map(name_of, refused))}"]

    async def _replace(self, pod: Object, burst: Burst, expected: frozenset[str]) -> None:
        await self._of(pod["metadata"]["namespace"]).delete(pod["metadata"]["name"], 0)
        if (name := pod["metadata"]["labels"][POD_LABEL]) in expected:
            self._replacements += 1
            await self.observer.create(burst.made[name].manifest(f"-r{self._replacements}"))

    async def _look(self, result: Result) -> list[Entry]:
        pods = await self._pods()
        running = [pod for pod in pods if is_running(pod)]
        result.running = len(running)
        holding = [pod for pod in running if gpu_containers(pod)]
        told = await asyncio.gather(*(self._of(pod["metadata"]["namespace"]).told([pod]) for pod in holding))
        cards = [self.observer.cards(node) for node in self.nodes]
        return [Listed(0.0, *await self._listed()), *cards, *(entry for entries in told for entry in entries)]

    async def _listed(self) -> tuple[list[Object], list[Object]]:
        return await self._pods(), await self._cluster.api.list(NODES)

    async def sizes(self) -> Sizes:
        """Units of each card of the nodes of its bursts, read once: they do not change."""
        if not self._known:
            sizes = await self.observer.sizes()
            self._known = {node: sizes[node] for node in self.nodes}
        return self._known

    async def _is_held(self) -> bool:
        """Does any process hold a card, as the cards themselves say?"""
        cards = [card for node in self.nodes for card in self.observer.cards(node).cards.values()]
        return any(card.held_mib for card in cards)

    async def _check_book(self, seen: Sequence[Entry]) -> list[str]:
        async def differences() -> list[Finding]:
            book, (pods, nodes) = await self.observer.inspect(), await self._listed()
            asked = Asked(0.0, spec.INSPECT, None, book)
            return judge([*seen, Listed(0.0, pods, nodes), asked], book_beyond_cards, book_differs, book_is_whole)

        try:
            what = "the extender's book is the API's"
            await eventually(differences, lambda found: not found, what, seconds=max(self._settle_seconds, 10))
        except NotReachedError:
            return list(map(str, await differences()))
        return []

    def _repairs(self) -> int:
        return sum(len(_REPAIR.findall(self._cluster.log(_PROGRAM, node))) for node in self.nodes)


@contextlib.contextmanager
def _reasons_written(name: str) -> Iterator[list[tuple[float, dict[int, str]]]]:
    """Why cards are unhealthy by each write of their Node to an embedded API server, with its time; more come while inside."""
    found: list[tuple[float, dict[int, str]]] = []

    def take(event: Event) -> None:
        if isinstance(event, Written) and event.kind == NODES.plural and (node := event.new) is not None:
            reasons = reasons_of(node) if node["metadata"]["name"] == name else {}
            found.extend([(event.at, reasons)] if reasons else [])

    LISTENERS.append(take)
    try:
        yield found
    finally:
        LISTENERS.remove(take)


async def _alone(busy: asyncio.Lock, work: Awaitable[None]) -> None:
    async with busy:
        await work
