"""Compares the book with a fresh list of the API every few minutes, and puts it right; ``audit_round`` has the rules.

Between two audits nothing but the watches feeds the book; an event that they lose would stay lost until the extender restarts.
The findings of an audit are counted by kind (``Audit.last``), logged object by object, and corrected.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, NamedTuple, TypeVar

import msgspec

from gpushare.extender.core.audit_round import DRIFT_KINDS, Difference, Round
from gpushare.extender.core.book import Book
from gpushare.kube.api_errors import ApiError, NotFoundError
from gpushare.kube.client import ApiClient
from gpushare.manifests import Node, Pod
from gpushare.model.node import Booking

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T", Node, Pod)

_NODES: Final = "/api/v1/nodes"
_PODS: Final = "/api/v1/pods"
# Objects of one page: while one is split into objects, every request waits.
_PAGE: Final = 100
# Work between two turns of the loop, in seconds: questions of schedulers come first.
_SLICE_SECONDS: Final = 0.001
# An assumption that is this old, in seconds, with no request under way: no bind can need it any more (bind.UNKNOWN_OUTCOME_SECONDS
# and a request's own timeout are over).
ASSUMED_SECONDS: Final = 300.0
# Drift that is logged one by one in one audit; the rest is counted.
_MOST_LINES: Final = 50


class Versions(NamedTuple):
    """A resourceVersion of each collection."""

    nodes: str
    pods: str


class Drift(NamedTuple):
    """How many units of card memory are booked wrongly, over how many pods (or nodes), for one kind."""

    units: int = 0
    objects: int = 0


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The findings of one audit. ``drift`` has every kind of ``DRIFT_KINDS``, by name, and was corrected.

    ``unsettled`` suspects changed while they were looked at, or could not be asked for, and are left to the next audit.
    """

    drift: Mapping[str, Drift]
    nodes: int
    pods: int
    unsettled: int
    seconds: float


@dataclass(eq=False)
class Audit:
    """Looks at the book every ``interval``, once it is complete. Times are in seconds.

    ``versions`` is how far the watches have come; ``is_under_way`` whether a request of ours may still bind a pod (namespace,
    name, uid). ``last`` is the result of the last audit that came to its end, ``done`` and ``failed`` how many did and did not.
    """

    client: ApiClient
    book: Book
    _: KW_ONLY
    is_ready: Callable[[], bool]
    versions: Callable[[], Versions]
    is_under_way: Callable[[str, str, str], bool]
    monotonic: Callable[[], float]
    interval: float = 300.0
    # For watches that have yet to pass the version of the list, and how often they are looked at: a bookmark comes about once a
    # minute, and a silent watch is given up after 150 seconds.
    patience: float = 200.0
    poll: float = 0.5
    # Jitter only: nothing depends on it being hard to guess.
    rng: random.Random = field(default_factory=random.Random)
    last: AuditResult | None = field(default=None, init=False)
    done: int = field(default=0, init=False)
    failed: int = field(default=0, init=False)
    _assumed: dict[tuple[str, str], tuple[Booking, float]] = field(default_factory=dict, init=False)
    _reported: frozenset[Difference] = field(default=frozenset(), init=False)

    async def run(self) -> None:
        """Until cancelled. Extenders that were started together do not ask together."""
        while True:
            await asyncio.sleep(self.interval * self.rng.uniform(0.8, 1.2))
            if self.is_ready():
                await self.turn()

    async def turn(self) -> AuditResult | None:
        """One audit; None if the API server refused it or did not answer."""
        self.book.events.start()
        try:
            result = await self._turn()
        except (ApiError, msgspec.DecodeError) as error:
            self.failed += 1
            _LOG.warning("the book was not audited reason=%s", error)
            return None
        finally:
            self.book.events.stop()
        self.done += 1
        self.last = result
        return result

    async def _turn(self) -> AuditResult:
        started = self.monotonic()
        audit = Round(self.book, self.is_under_way, self._old_assumptions(started))
        nodes = await self._walk(_NODES, Node, audit.see_node)
        pods = await self._walk(_PODS, Pod, audit.see_pod)
        suspects = audit.end()
        corrected = [] if not suspects else await self._settle(audit, suspects, Versions(nodes, pods))
        self.book.audited()
        self._log_odd(audit.odd)
        result = AuditResult(
            drift=tally(corrected),
            nodes=audit.nodes,
            pods=audit.pods,
            unsettled=len(suspects) - len(corrected),
            seconds=self.monotonic() - started,
        )
        _LOG.info(
            "audited nodes=%d pods=%d drift=%d units=%d unsettled=%d seconds=%.3f",
            result.nodes, result.pods, len(corrected), sum(one.units for one in corrected), result.unsettled, result.seconds,
        )  # fmt: skip
        return result

    async def _walk(self, path: str, kind: type[_T], see: Callable[[_T], None]) -> str:
        """Show each object of a collection, page by page; the version of the list."""
        decoder = msgspec.json.Decoder(kind)
        version = ""
        async with aclosing(self.client.pages(path, limit=_PAGE)) as pages:
            async for page in pages:
                version = page.metadata.resource_version
                since = self.monotonic()
                for raw in page.items or ():
                    see(decoder.decode(raw))
                    if self.monotonic() - since >= _SLICE_SECONDS:
                        await asyncio.sleep(0)
                        since = self.monotonic()
        return version

    async def _settle(self, audit: Round, suspects: Sequence[Difference], versions: Versions) -> Sequence[Difference]:
        """Look again at each suspect once the watches have caught up, and correct what is still wrong."""
        if not await self._caught_up(audit, suspects, versions):
            _LOG.warning(
                "the watch is behind: nothing was corrected suspects=%d seen=%s", len(suspects), self.versions()
            )
            return []
        corrected: list[Difference] = []
        for suspect in suspects:
            found = await self._confirm(audit, suspect)
            if found is None:
                continue
            corrected.append(found)
            if len(corrected) <= _MOST_LINES:
                assigned = str(found.is_assigned).lower()
                _LOG.warning(
                    "drift kind=%s object=%s/%s uid=%s units=%d book=%s api=%s assigned=%s",
                    *_identity(found), found.units, found.book, found.api, assigned,
                )  # fmt: skip
        return corrected

    async def _caught_up(self, audit: Round, suspects: Sequence[Difference], listed: Versions) -> bool:
        """Wait until the watches have passed the list, or no suspect is left."""
        deadline = self.monotonic() + self.patience
        while True:
            seen = self.versions()
            left = {one.is_node for one in suspects if audit.ask(one) is not None}
            if all(
                has_passed(*((seen.nodes, listed.nodes) if is_node else (seen.pods, listed.pods))) for is_node in left
            ):
                return True
            if self.monotonic() >= deadline:
                return False
            await asyncio.sleep(self.poll)

    async def _confirm(self, audit: Round, suspect: Difference) -> Difference | None:
        """Ask for the one object; what was corrected."""
        mark = audit.ask(suspect)
        if mark is None:
            return None
        namespace, name = suspect.namespace, suspect.name
        try:
            if suspect.is_node:
                return audit.answer_node(suspect, await _there(self.client.get_node(name)), mark)
            return audit.answer_pod(suspect, await _there(self.client.get_pod(namespace, name)), mark)
        except ApiError as error:
            _LOG.info("not audited kind=%s object=%s/%s reason=%s", suspect.kind, namespace, name, error)
            return None

    def _old_assumptions(self, now: float) -> frozenset[tuple[str, str]]:
        """Assumptions that earlier audits have seen, and that have lasted too long since."""
        before = self._assumed
        self._assumed = {
            key: before[key] if key in before and before[key][0] is booking else (booking, now)
            for key, booking in self.book.all_assumptions().items()
        }
        return frozenset(key for key, (_, since) in self._assumed.items() if now - since > ASSUMED_SECONDS)

    def _log_odd(self, odd: Sequence[Difference]) -> None:
        """Log the findings that the last audit did not log already."""
        for one in odd:
            if one not in self._reported:
                _LOG.warning("odd kind=%s object=%s/%s uid=%s units=%d api=%s", *_identity(one), one.units, one.api)
        self._reported = frozenset(odd)


async def _there(asked: Awaitable[_T]) -> _T | None:
    """The object; None if the API server itself, not something before it, answers that there is none. Raises ApiError."""
    try:
        return await asked
    except NotFoundError as error:
        if error.reason != "NotFound":
            raise
        return None


def tally(found: Iterable[Difference]) -> dict[str, Drift]:
    """By kind; each kind of drift is there."""
    sums = dict.fromkeys(DRIFT_KINDS, Drift())
    for one in found:
        sums[one.kind] = Drift(sums[one.kind].units + one.units, sums[one.kind].objects + 1)
    return sums


def has_passed(seen: str, version: str) -> bool:
    """Has a watch that has seen one version passed another? It is not known of versions that are no numbers."""
    return seen == version or (seen.isdigit() and version.isdigit() and int(seen) >= int(version))


def _identity(found: Difference) -> tuple[str, str, str, str]:
    return found.kind, found.namespace, found.name, found.uid
