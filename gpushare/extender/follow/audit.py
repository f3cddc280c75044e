"""Compares the book with a fresh list of the API every few minutes, and puts it right; ``audit_round`` has the rules.

Between two audits nothing but the watches feeds the book; an event that they lose would stay lost until the extender restarts.
The findings of an audit are counted by kind (``ExtenderMetrics.drift``), logged object by object, and corrected.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, TypeVar

from gpushare.extender.core.audit_round import DRIFT_KINDS, Difference, Round, Suspect
from gpushare.extender.core.book import Book
from gpushare.extender.extender_metrics import DONE, FAILED, ExtenderMetrics
from gpushare.foreign import Decoder, UnreadableError, version_number
from gpushare.kube.api_errors import ApiError
from gpushare.kube.client import ApiClient, outline_of
from gpushare.manifests import Node, Pod, ReportedNode

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T", Node, Pod)

# Objects of one page: while one is split into objects, every request waits.
_PAGE: Final = 100
# Work between two turns of the loop, in seconds: questions of schedulers come first.
_SLICE_SECONDS: Final = 0.001
# Drift that is logged one by one in one audit; the rest is counted.
_MOST_LINES: Final = 50


@dataclass(eq=False)
class Audit:
    """Looks at the book every ``interval``, once it is complete. Times are in seconds.

    ``come_to`` waits until the watches of nodes and of pods have passed a resourceVersion each, and returns whether they have in
    that time; ``is_under_way`` whether a request of ours may still bind a pod (namespace, name, uid).
    """

    client: ApiClient
    book: Book
    metrics: ExtenderMetrics
    _: KW_ONLY
    is_ready: Callable[[], bool]
    come_to: Callable[[int, int, float], Awaitable[bool]]
    is_under_way: Callable[[str, str, str], bool]
    monotonic: Callable[[], float]
    interval: float = 300.0
    # For a watch that has yet to pass the version of the list: a bookmark comes about once a minute, and a silent one is given up
    # after 150 seconds. And how often it is seen whether a suspect is left.
    patience: float = 200.0
    poll: float = 0.5
    # Jitter only: nothing depends on it being hard to guess.
    rng: random.Random = field(default_factory=random.Random)
    _reported: frozenset[Difference] = field(default=frozenset(), init=False)

    async def run(self) -> None:
        """Until cancelled. Extenders that were started together do not ask together."""
        while True:
            await asyncio.sleep(self.interval * self.rng.uniform(0.8, 1.2))
            if self.is_ready():
                await self.turn()

    async def turn(self) -> Mapping[str, tuple[int, int]] | None:
        """The drift that one audit has corrected; None if the API server refused it or did not answer."""
        try:
            self.metrics.drift = drift = await self._turn()
        except (ApiError, UnreadableError) as error:
            self.metrics.audits[FAILED] += 1
            _LOG.warning("the book was not audited reason=%s", error)
            return None
        finally:
            self.book.touched = None
        self.metrics.audits[DONE] += 1
        return drift

    async def _turn(self) -> Mapping[str, tuple[int, int]]:
        started = self.monotonic()
        audit = Round(self.book, self.is_under_way)
        nodes = await self._walk("/api/v1/nodes", ReportedNode, audit.see_node)
        pods = await self._walk("/api/v1/pods", Pod, audit.see_pod)
        suspects = audit.end()
        corrected: list[Difference] = []
        if await self._caught_up(audit, suspects, nodes, pods):
            for suspect in suspects:
                if (found := audit.settle(suspect)) is not None:
                    corrected.append(found)
                await asyncio.sleep(0)
        else:
            _LOG.warning(
                "the watch is behind: nothing was corrected suspects=%d nodes=%d pods=%d", len(suspects), nodes, pods
            )
        self.book.audited()
        self._log(audit, corrected, len(suspects) - len(corrected), self.monotonic() - started)
        return tally(corrected)

    async def _walk(self, path: str, kind: type[_T], see: Callable[[_T], None]) -> int:
        """Show each object of a collection, page by page; the version of the list. Raises ApiError and UnreadableError.

        The list is not believed over the book about an object that cannot be read.
        """
        decoder = Decoder(kind)
        version = ""
        async with aclosing(self.client.pages(path, limit=_PAGE)) as pages:
            async for page in pages:
                version = page.metadata.resource_version
                since = self.monotonic()
                for raw in page.items or ():
                    try:
                        see(decoder.decode(raw))
                    except UnreadableError as error:
                        if (outline := outline_of(raw, error)) is None:
                            raise
                        self.book.touch(outline.metadata.uid if kind is Pod else outline.metadata.name)
                    if self.monotonic() - since >= _SLICE_SECONDS:
                        await asyncio.sleep(0)
                        since = self.monotonic()
        # No watch is known to have passed a version that is no number.
        return version_number(version) or sys.maxsize

    async def _caught_up(self, audit: Round, suspects: Sequence[Suspect], nodes: int, pods: int) -> bool:
        """Wait until the watches have passed these versions of the list, or no suspect is left; whether they have."""
        deadline = self.monotonic() + self.patience
        while left := {not found.namespace for found, _ in suspects if not audit.has_moved(found)}:
            if await self.come_to(nodes if True in left else 0, pods if False in left else 0, self.poll):
                break
            if self.monotonic() >= deadline:
                return False
        return True

    def _log(self, audit: Round, corrected: Sequence[Difference], unsettled: int, seconds: float) -> None:
        """Each correction, each oddity that the last audit did not log already, and the sums."""
        for found in corrected[:_MOST_LINES]:
            assigned = str(found.is_assigned).lower()
            _LOG.warning(
                "drift kind=%s object=%s/%s uid=%s units=%d book=%s api=%s assigned=%s",
                *_identity(found), found.units, found.book, found.api, assigned,
            )  # fmt: skip
        for one in audit.odd:
            if one not in self._reported:
                _LOG.warning("odd kind=%s object=%s/%s uid=%s units=%d api=%s", *_identity(one), one.units, one.api)
        self._reported = frozenset(audit.odd)
        units = sum(one.units for one in corrected)
        _LOG.info(
            "audited nodes=%d pods=%d drift=%d units=%d unsettled=%d seconds=%.3f",
            audit.nodes, audit.pods, len(corrected), units, unsettled, seconds,
        )  # fmt: skip


def tally(found: Iterable[Difference]) -> dict[str, tuple[int, int]]:
    """By kind, how many units are booked wrongly, and over how many pods or nodes; each kind of drift is there."""
    sums = dict.fromkeys(DRIFT_KINDS, (0, 0))
    for one in found:
        units, objects = sums[one.kind]
        sums[one.kind] = units + one.units, objects + 1
    return sums


def _identity(found: Difference) -> tuple[str, str, str, str]:
    return found.kind, found.namespace, found.name, found.uid
