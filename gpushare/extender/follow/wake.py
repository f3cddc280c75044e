"""Calls pods that would now get a card while their scheduler has no reason to ask again (defect D29 of the original).

A scheduler asks again when a pod has ended. If its copy of the cluster is ahead of ours it asks too early, is refused, and then
nothing happens any more: the pod waits for the next flush, five minutes. So it is if the scheduler does not search all nodes
(from a hundred on) and missed the one that has room. A change of a node's annotation makes it look again at every pod that an
extender has refused, so one is made: seldom, for one node at a time, and at longer and longer intervals if it does not help. A
node that got room since the last call is called for after the first interval.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from itertools import islice
from typing import Final

from gpushare import wire
from gpushare.extender.core.book import Book
from gpushare.extender.core.filter import filter_nodes
from gpushare.extender.core.filter_cache import NODES_COMPARED, CachedAnswer, FilterCache
from gpushare.kube.api_errors import ApiError, MissingRightError
from gpushare.kube.client import ApiClient
from gpushare.model.placement import question
from gpushare.model.pod import Request

_LOG = logging.getLogger(__name__)

_TURN_SECONDS: Final = 1.0
# Requests that are looked at in one turn; each is one look at all nodes. And pods: thousands may wait with the same request.
_REQUESTS_A_TURN: Final = 20
_PODS_A_TURN: Final = 500


@dataclass(eq=False)
class Waker:
    """Looks at the pods that wait, every second. ``clock_ns`` is what is written, ``monotonic`` what is waited by.

    ``on_call`` hears of each call, and whether it could be made.
    """

    client: ApiClient
    book: Book
    filter_cache: FilterCache
    _: KW_ONLY
    policy: str
    clock_ns: Callable[[], int]
    monotonic: Callable[[], float]
    on_call: Callable[[bool], None] = lambda done: None
    _lacks_right: bool = field(default=False, init=False)
    # Pods that were looked at since all were: those that wait longest may be those that wait for ever.
    _looked_at: set[str] = field(default_factory=set, init=False)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(_TURN_SECONDS)
            await self.turn()

    async def turn(self) -> None:
        """Call the first pod that would get a card; with it come all the others."""
        now, nodes = self.monotonic(), dict[Request, Sequence[str]]()
        due = self.filter_cache.due(now, self.book.fate_of, _PODS_A_TURN, self._looked_at)
        for cached in due:
            assert cached.request is not None
            if cached.request not in nodes:
                if len(nodes) == _REQUESTS_A_TURN:
                    continue
                nodes[cached.request] = self._nodes_for(cached.request)
                # Questions of schedulers come first.
                await asyncio.sleep(0)
            found = nodes[cached.request]
            if found and cached.may_be_called(found, now):
                cached.called(found, now)
                await self._call(cached, found[0])
                return
            self._looked_at.add(cached.metadata.uid)
        if len(due) < _PODS_A_TURN and len(nodes) < _REQUESTS_A_TURN:
            self._looked_at.clear()

    def _nodes_for(self, request: Request) -> Sequence[str]:
        """Nodes that would hold the request: all, or one more than are compared."""
        snapshot = self.book.snapshot()
        known = self.book.answers.known(request)
        if known is not None:
            return list(islice((name for name, reason in known.items() if not reason), NODES_COMPARED + 1))
        return filter_nodes(question(request, snapshot, self.policy), snapshot.nodes, snapshot).fitting

    async def _call(self, cached: CachedAnswer, node: str) -> None:
        name = f"{cached.metadata.namespace}/{cached.metadata.name}"
        is_done = False
        try:
            await self.client.patch_node_status(
                node, {"metadata": {"annotations": {wire.ANNOTATION_ROOM: str(self.clock_ns())}}}
            )
        except MissingRightError as error:
            if not self._lacks_right:
                self._lacks_right = True
                _LOG.warning("pods that could be bound may wait for minutes reason=%s", error)
        except ApiError as error:
            _LOG.info("not called pod=%s node=%s reason=%s", name, node, error)
        else:
            is_done = True
            _LOG.info("called pod=%s node=%s", name, node)
        self.on_call(is_done)
