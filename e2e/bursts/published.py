"""The state that programs publish once a burst is at rest: their metrics, their events, and the answers of ``kubectl gpushare``."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from clusters.api import exchanges
from clusters.api.exchanges import Event, Exchange, StoodStill
from clusters.api.resources import EVENTS, NODES
from clusters.api.waiting import NotReachedError, eventually
from clusters.kubelet import plugin_client
from clusters.kubelet.plugin_client import PluginCall
from clusters.provider import DEVICE_PLUGIN, EXTENDER, NodeSpec
from clusters.targets import Target
from e2e import commands, spec
from e2e.builders import gpu_pod, with_slots
from e2e.checkers import published_answers as answers
from e2e.checkers.published_series import (
    Rest,
    begun_again,
    fallen,
    of_extender,
    of_plugin,
    wrong_series,
    wrong_waits,
)
from e2e.metrics import Series, port_in, series_in
from e2e.observer import Observer

_METRICS: Final = {"metrics-address": "127.0.0.1:0"}
_USAGE: Final = {
    **{"usage": "", "usage-interval": "1s", "survey-interval": "1s", "proc-root": "{proc_root}"},
    **{"overuse-tolerance": "0", "overuse-after": "1s"},
}
_SETTLE_SECONDS: Final = 20.0
# The verbs that grant or refuse.
_JUDGED: Final = ("bind", "filter")
# A kubelet tries a container that is held again and again.
_MOST_COUNTED: Final = 50
View = Callable[[Any], answers.Pair]
Asked = Counter[tuple[str, str, str]]


def observed(target: Target, nodes: Sequence[NodeSpec]) -> tuple[Target, list[NodeSpec]]:
    """The same, with programs that publish metrics, of use too."""
    more = {**_METRICS, **_USAGE}
    made = [msgspec.structs.replace(node, plugin_options={**node.plugin_options, **more}) for node in nodes]
    return target.with_extender_options(_METRICS), made


class Published:
    """Reads what the programs of a cluster publish, and counts beside them what they are asked."""

    def __init__(self, observer: Observer, target: Target, nodes: Sequence[str], folder: str) -> None:
        self._observer, self._cluster, self._target = observer, observer.cluster, target
        self._manifest = Path(folder) / "manifest.json"
        self._programs = [(EXTENDER, ""), *((DEVICE_PLUGIN, node) for node in nodes)]
        # The questions to each node's plugin, "" for the extender, with their outcomes.
        self._asked: Asked = Counter()
        self._stood_still = False
        # By the pod's uid, the reasons of the extender's last answer, none if that has a node.
        self._refusals: dict[str, frozenset[str]] = {}
        # By the program: its port, its samples, and the questions and pods until then.
        self._before: dict[tuple[str, str], tuple[int, Series, Asked, frozenset[str]]] = {}

    async def begin(self) -> None:
        """Read the metrics for the first time."""
        for program in self._programs:
            asked = self._asked.copy()
            self._before[program] = *(await self._read(*program)), asked, frozenset()

    def take_event(self, event: Event) -> None:
        """Count a question to the extender, and note its refusals."""
        match event:
            case StoodStill():
                self._stood_still = True
            case Exchange() if event.asked.startswith(f"POST {self._cluster.extender_url()}/"):
                self._asked["", *_outcome(event)] += 1
                self._refusals |= _refusal(event)

    def take_call(self, call: PluginCall) -> None:
        """Count a call of a device plugin."""
        if call.method in ("Allocate", "Register"):
            self._asked[call.node, call.method, "refused" if call.answer is None else "granted"] += 1

    def forget_refusals(self) -> None:
        """Those of an extender that has ended."""
        self._refusals.clear()

    async def findings(self, rest: Rest, rng: random.Random) -> list[str]:
        """Those of all programs, and of one command."""
        looks = [partial(self._wrong_series, program, rest) for program in self._programs]
        looks += [partial(self._wrong_events, rest), partial(self._wrong_overuse, rest)]
        found = [text for look in looks for text in await _left(look)]
        self._stood_still = False
        words, view = rng.choice([*self._commands(rest, rng)])
        return found + await _left(partial(self._wrong_answer, words, view))

    async def wrong_series(self, node: str, rest: Rest) -> list[str]:
        """The series that the node's plugin does not come to publish."""
        return await _left(partial(self._wrong_series, (DEVICE_PLUGIN, node), rest))

    async def _wrong_events(self, rest: Rest) -> list[str]:
        """Each card that has failed is reported on its node and on its pods, and no other; nothing is reported again and again."""
        events = await self._cluster.api.list(EVENTS)
        there = {one["metadata"]["uid"] for one in (*rest.nodes, *rest.pods) if rest.is_steady(one)}
        reported = {
            (uid, one["message"].partition(" (")[0])
            for one in events
            if one["reason"] == spec.EVENT_CARD_UNHEALTHY and (uid := one["involvedObject"]["uid"]) in there
        }
        found = [f"no event of {uid} says that {card} is unhealthy" for uid, card in rest.failed - reported]
        found += [f"an event of {uid} says that {card} is unhealthy, it is not" for uid, card in reported - rest.failed]
        again = [one for one in events if one["reason"].startswith("GPUShare") and one["count"] > _MOST_COUNTED]
        return found + [f"{one['message']} is counted {one['count']} times" for one in again]

    async def _wrong_overuse(self, rest: Rest) -> list[str]:
        """Each pod that uses more than it booked is reported, on its Node too, and no other; its overuse has not ended."""
        told = defaultdict[str, set[str]](set)
        for one in await self._cluster.api.list(EVENTS):
            told[one["reason"]].add(one["involvedObject"]["uid"])
        nodes = await self._cluster.api.list(NODES)
        texts = [(one["metadata"].get("annotations") or {}).get(spec.NODE_OVERUSE, "[]") for one in nodes]
        shown = {tuple(one) for text in texts for one in msgspec.json.decode(text)}
        due = {one for one, is_silent in rest.overuse.items() if not is_silent}
        found = [f"a node shows the overuse {one}" for one in shown - rest.overuse.keys()]
        found += [f"no node shows the overuse {one}" for one in due - shown]
        found += [f"no event reports the overuse {one}" for one in due if one[0] not in told[spec.EVENT_MEMORY_OVERUSE]]
        ended = told[spec.EVENT_MEMORY_OVERUSE_ENDED]
        return found + [f"an event says that the overuse {one} has ended" for one in rest.overuse if one[0] in ended]

    def _commands(self, rest: Rest, rng: random.Random) -> Iterator[tuple[list[str], View]]:
        """The words of each command that can be judged, and the part of its answer that is."""
        yield ["doctor"], partial(answers.doctor, rest)
        yield ["top", "pods", "-A"], partial(answers.top, rest)
        largest = max(card.free for card in rest.cards)
        amounts = [largest + 1, *([largest] if largest else [])]
        pods = [gpu_pod(f"asked-{units}", units) for units in amounts]
        pods = list(map(with_slots, pods)) if rest.slots else pods
        self._manifest.write_bytes(msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": pods}))
        yield ["simulate", "-f", str(self._manifest)], partial(answers.simulate, rest, amounts)
        for kind, view in (rest.waiting, answers.explain_waiting), (rest.holding, answers.explain_bound):
            plain = [pod for pod in kind if spec.WISH_SPLIT not in (pod["metadata"].get("annotations") or {})]
            for one in rng.sample(plain, min(len(plain), 1)):
                metadata = one["metadata"]
                yield ["explain", metadata["name"], "-n", metadata["namespace"]], partial(view, rest, one)

    async def _wrong_answer(self, words: list[str], view: View) -> list[str]:
        kubeconfig = await self._cluster.kubeconfig_of(self._target.kubectl.account)
        argv, environment = self._target.kubectl.command(kubeconfig=str(kubeconfig))
        variables = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", **environment}
        ended = await commands.run(*argv, *words, "-o", "json", variables=variables)
        if ended.code not in (0, 3):
            return [f"{' '.join(words)}: {ended.said}"]
        given, right = view(msgspec.json.decode(ended.output))
        return [] if given == right else [f"{' '.join(words)}: says {given}, should be {right}"]

    async def _wrong_series(self, program: tuple[str, str], rest: Rest) -> list[str]:
        name, node = program
        asked, pods = self._asked.copy(), frozenset(pod["metadata"]["uid"] for pod in rest.pods)
        port, series = await self._read(*program)
        found = list(wrong_series(node or name, series, of_plugin(rest, node) if node else of_extender(rest)))
        found += [] if node else wrong_waits(rest, series, self._refusals)
        before = self._before.get(program)
        if before is not None and before[0] == port:
            found += fallen(node or name, before[1], series)
            found += begun_again(node or name, before[1], series) if pods <= before[3] else []
            expected = Counter({key: more for key, more in (asked - before[2]).items() if key[0] == node})
            risen = _risen(node, before[1], series)
            # A kubelet that has started again may have left an answer, and so may a caller of a program that stood still.
            has_registered = any(method == "Register" for _, method, _ in expected)
            if not has_registered and (expected - risen or (risen != expected and not self._stood_still)):
                found.append(f"{node or name}: counts {dict(risen)} since the last look, should be {dict(expected)}")
        if not found:
            self._before[program] = port, series, asked, pods
        return found

    async def _read(self, program: str, node: str) -> tuple[int, Series]:
        port = port_in(self._cluster.log(program, node or None))
        return port, series_in((await self._observer.get(f"http://127.0.0.1:{port}/metrics")).text)


@contextlib.asynccontextmanager
async def publishing(observer: Observer, target: Target, nodes: Sequence[str]) -> AsyncIterator[Published]:
    """Counts while inside."""
    with tempfile.TemporaryDirectory() as folder:
        published = Published(observer, target, nodes, folder)
        exchanges.LISTENERS.append(published.take_event)
        plugin_client.LISTENERS.append(published.take_call)
        try:
            await published.begin()
            yield published
        finally:
            exchanges.LISTENERS.remove(published.take_event)
            plugin_client.LISTENERS.remove(published.take_call)


async def _left(look: Callable[[], Awaitable[list[str]]]) -> list[str]:
    """The findings that do not go away."""
    with contextlib.suppress(NotReachedError):
        return await eventually(look, lambda found: not found, "what is published is right", seconds=_SETTLE_SECONDS)
    return await look()


def _outcome(event: Exchange) -> tuple[str, str]:
    verb = event.asked.rpartition("/")[2]
    answer: Any = msgspec.json.decode(event.answer) if event.code == 200 else {"Error": event.code}
    if verb not in _JUDGED:
        return verb, ""
    is_granted = not answer.get("Error") and (verb == "bind" or bool(answer.get("NodeNames")))
    return verb, "granted" if is_granted else ""


def _refusal(event: Exchange) -> dict[str, frozenset[str]]:
    """The reasons by the pod's uid, none if a node fits or the answer is lost."""
    if not event.asked.endswith(spec.FILTER):
        return {}
    answer: Any = msgspec.json.decode(event.answer) if event.code == 200 else {}
    failed = (answer.get("FailedNodes") or {}) | (answer.get("FailedAndUnresolvableNodes") or {})
    reasons = () if answer.get("NodeNames") or answer.get("Error") else failed.values()
    return {msgspec.json.decode(event.question)["Pod"]["metadata"].get("uid", ""): frozenset(reasons)}


def _risen(node: str, before: Series, series: Series) -> Asked:
    """The questions that counters have counted between two looks."""
    risen: Asked = Counter()
    for (name, pairs), value in series.items():
        labels, more = dict(pairs), int(value - before.get((name, pairs), 0))
        if name == "gpushare_allocations_total":
            risen[node, "Allocate", labels["outcome"]] += more
        elif name == "gpushare_extender_requests_total":
            is_granted = labels["verb"] in _JUDGED and labels["verdict"] == "granted"
            risen["", labels["verb"], "granted" if is_granted else ""] += more
    return +risen
