"""The state that programs publish once a burst is at rest: their metrics, their events, and the answers of ``kubectl gpushare``."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any, Final

import msgspec

from clusters.api import exchanges
from clusters.api.api_client import Object
from clusters.api.exchanges import Event, Exchange, StoodStill
from clusters.api.waiting import NotReachedError, eventually
from clusters.kubelet import plugin_calls
from clusters.kubelet.plugin_calls import PluginCall
from clusters.provider import DEVICE_PLUGIN, EXTENDER, NodeSpec
from clusters.targets import Target
from e2e import spec
from e2e.checkers.overcommit import Sizes
from e2e.checkers.published_series import (
    Rest,
    fallen,
    of_extender,
    of_plugin,
    resting,
    unsound_durations,
    wrong_series,
    wrong_waits,
)
from e2e.metrics import Series, series_in
from e2e.observer import Observer

_METRICS: Final = {"metrics-address": "127.0.0.1:0"}
_USAGE: Final = {"usage": "", "usage-interval": "1s", "proc-root": "{proc_root}"}
_PORT: Final = re.compile(r"metrics at address=127\.0\.0\.1 port=(\d+)")
_SETTLE_SECONDS: Final = 20.0
_ASKED: Final = (spec.FILTER, spec.PRIORITIZE, spec.PREEMPT, spec.BIND)


def observed(target: Target, nodes: Sequence[NodeSpec]) -> tuple[Target, list[NodeSpec]]:
    """The same, with programs that publish metrics, of use too."""
    more = {**_METRICS, **_USAGE}
    made = [msgspec.structs.replace(node, plugin_options={**node.plugin_options, **more}) for node in nodes]
    return target.with_extender_options(_METRICS), made


class Published:
    """Reads what the programs of a cluster publish, and counts beside them what they are asked."""

    def __init__(self, observer: Observer, nodes: Sequence[str]) -> None:
        self._observer = observer
        self._cluster = observer.cluster
        self._programs = [(EXTENDER, ""), *((DEVICE_PLUGIN, node) for node in nodes)]
        self._asked = Counter[tuple[str, ...]]()
        # By the program: where it was, its samples, and the questions until then.
        self._before: dict[tuple[str, str], tuple[str, Series, Counter[tuple[str, ...]]]] = {}

    async def begin(self) -> None:
        """Read the metrics for the first time."""
        for program in self._programs:
            asked = self._asked.copy()
            self._before[program] = *(await self._read(*program)), asked

    def take_event(self, event: Event) -> None:
        """Count a question to the extender."""
        match event:
            case StoodStill():
                self._before.pop((EXTENDER, ""), None)
            case Exchange() if event.asked.startswith(f"POST {self._cluster.extender_url()}/"):
                self._asked[_counted(event)] += 1

    def take_call(self, call: PluginCall) -> None:
        """Count a call of a device plugin."""
        if call.method in ("Allocate", "Register"):
            self._asked[call.node, call.method, "refused" if call.answer is None else "granted"] += 1

    async def findings(
        self, pods: Sequence[Object], nodes: Sequence[Object], unhealthy: Collection[tuple[str, int]], sizes: Sizes
    ) -> list[str]:
        """Those of all programs."""
        hardware = {node: self._cluster.cards(node) for node in sizes}
        rest = resting(pods, nodes, hardware, unhealthy, sizes)

        async def wrong() -> list[str]:
            found = [await self._wrong_series(program, rest) for program in self._programs]
            return [text for texts in found for text in texts]

        try:
            await eventually(wrong, lambda found: not found, "the metrics are the API's", seconds=_SETTLE_SECONDS)
        except NotReachedError:
            return await wrong()
        return []

    async def _wrong_series(self, program: tuple[str, str], rest: Rest) -> list[str]:
        name, node = program
        asked = self._asked.copy()
        port, series = await self._read(*program)
        found = list(wrong_series(node or name, series, of_plugin(rest, node) if node else of_extender(rest)))
        found += [] if node else [*wrong_waits(rest, series), *unsound_durations(series)]
        before = self._before.get(program)
        if before is not None and before[0] == port:
            found += fallen(node or name, before[1], series)
            counted = asked - before[2]
            if not counted[node, "Register", "refused"]:
                found += _wrong_counts(node, before[1], series, counted)
        if not found:
            self._before[program] = port, series, asked
        return found

    async def _read(self, program: str, node: str) -> tuple[str, Series]:
        port = _PORT.findall(self._cluster.log(program, node or None))[-1]
        return port, series_in((await self._observer.get(f"http://127.0.0.1:{port}/metrics")).text)


@contextlib.asynccontextmanager
async def publishing(observer: Observer, nodes: Sequence[str]) -> AsyncIterator[Published]:
    """Counts while inside."""
    published = Published(observer, nodes)
    exchanges.LISTENERS.append(published.take_event)
    plugin_calls.LISTENERS.append(published.take_call)
    try:
        await published.begin()
        yield published
    finally:
        exchanges.LISTENERS.remove(published.take_event)
        plugin_calls.LISTENERS.remove(published.take_call)


def _counted(event: Exchange) -> tuple[str, ...]:
    verb = event.asked.rpartition("/")[2]
    answer: Any = msgspec.json.decode(event.answer) if event.code == 200 else {"Error": event.code}
    if verb not in ("bind", "filter"):
        return verb, ""
    is_granted = not answer.get("Error") and (verb == "bind" or bool(answer.get("NodeNames")))
    return verb, "granted" if is_granted else ""


def _wrong_counts(node: str, before: Series, series: Series, asked: Counter[tuple[str, ...]]) -> list[str]:
    """The counters that have not risen by the questions and answers since."""
    risen = Counter[tuple[str, ...]]()
    expected = Counter[tuple[str, ...]]()
    for (name, pairs), value in series.items():
        labels, more = dict(pairs), int(value - before.get((name, pairs), 0))
        match name:
            case "gpushare_allocations_total":
                risen[node, "Allocate", labels["outcome"]] += more
            case "gpushare_extender_requests_total":
                verdict = labels["verdict"] if labels["verb"] in ("bind", "filter") else ""
                risen[labels["verb"], "granted" if verdict == "granted" else ""] += more
    expected = Counter({key: count for key, count in asked.items() if key in risen or key[:2] == (node, "Allocate")})
    return [
        f"{node or 'extender'}: counts {risen[key]} of {key} since the last look, should be {expected[key]}"
        for key in risen.keys() | expected.keys()
        if risen[key] != expected[key]
    ]
