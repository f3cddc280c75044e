"""Look at an existing cluster again and again, and report each invariant of sharing that it breaks. Nothing is created or changed.

It lists nodes and pods; ``observe-rbac.yaml`` has these rights and no others.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Final

from clusters.api.api_client import ApiClient, ApiError, is_passing
from clusters.api.connection import TransportError
from clusters.api.resources import NODES, PODS
from e2e.site import SiteError
from e2e.site.findings import Finding, Reported, counts, in_order
from e2e.site.invariants import RULES, judge
from e2e.site.kubeconfig_choice import PATIENCE, version_of
from e2e.site.picture import Picture

_NOT_JUDGED: Final = "containers on the cards that they were promised: the API server does not show their devices"


@dataclass(slots=True)
class Outcome:
    """The result of a run; ``not_judged`` are promises that it could not look at, each with its reason."""

    server: str
    kubernetes: str = ""
    looks: int = 0
    missed_looks: int = 0
    nodes: int = 0
    pods: int = 0
    findings: list[Finding] = field(default_factory=list)
    not_judged: list[str] = field(default_factory=lambda: [_NOT_JUDGED])


class Observation:
    """One run: ``report`` gets each line for people as soon as it is known."""

    def __init__(self, api: ApiClient, every: float, report: Callable[[str], None]) -> None:
        self._api = api
        self._every = every
        self._report = report
        self._reported = Reported()
        self._outcome = Outcome(api.http.url)

    async def run(self, seconds: float, ended: asyncio.Event) -> Outcome:
        """Look for this long or until ``ended``, twice at least.

        Raises SiteError, also if two looks of the whole time were not answered, or the account has no right to look.
        """
        self._outcome.kubernetes = await version_of(self._api)
        until = asyncio.get_running_loop().time() + seconds
        while not ended.is_set():
            await self._look()
            is_late = asyncio.get_running_loop().time() >= until
            if is_late and self._outcome.looks + self._outcome.missed_looks > 1:
                break
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(ended.wait(), self._every)
        if self._outcome.looks < 2 and not ended.is_set():
            raise SiteError(f"the API server at {self._outcome.server} stopped answering, so nothing was judged")
        self._outcome.findings = in_order(self._reported.confirmed.values())
        return self._outcome

    async def _look(self) -> None:
        """Judge the present state, if the API server answers."""
        try:
            async with asyncio.timeout(PATIENCE):
                nodes, pods = await self._api.list(NODES), await self._api.list(PODS)
        except (ApiError, TransportError, TimeoutError) as error:
            if isinstance(error, ApiError) and not is_passing(error):
                todo = "e2e/site/observe-rbac.yaml has the rights"
                raise SiteError(f"nodes and pods cannot be listed: {error.message} ({todo})") from error
            self._outcome.missed_looks += 1
            self._report(f"{_time()} no look: the API server does not answer: {str(error) or 'timeout'}")
            return
        picture = Picture(nodes, pods)
        if not self._outcome.looks:
            for part in picture.parts().values():
                with contextlib.suppress(Exception):  # one of no known form is a finding
                    self._outcome.nodes += len(part.sharing_nodes)
                    self._outcome.pods += len(part.sharing_pods)
            self._report(self._head())
        self._outcome.looks += 1
        new, gone = self._reported.look(judge(picture))
        for finding in new:
            self._report(f"{_time()} {finding.severity.upper()} {finding.rule}: {finding.subject}: {finding.text}")
            self._report(f"{' ' * 9}{finding.todo}")
        for finding in gone:
            self._report(f"{_time()} over: {finding.rule}: {finding.subject}")

    def _head(self) -> str:
        seen = self._outcome
        return (
            f"observing {seen.server} (Kubernetes {seen.kubernetes}): {seen.nodes} nodes share cards, {seen.pods} pods ask for "
            f"card memory; a look each {self._every:g} s; nothing is created or changed"
        )


def summary(outcome: Outcome) -> str:
    """The last lines of a run, for people."""
    missed = f" ({outcome.missed_looks} more were not answered)" if outcome.missed_looks else ""
    lines = [f"not judged: {reason}" for reason in outcome.not_judged]
    if not outcome.nodes:
        lines.append("no node shares cards here, so most promises had nothing to judge")
    return "\n".join([*lines, f"{outcome.looks} looks{missed}: {counts(outcome.findings)}"])


def as_json(outcome: Outcome) -> str:
    """The whole result, for a machine."""
    return json.dumps({**asdict(outcome), "promises": {name: rule.__doc__ for name, rule in RULES.items()}}, indent=2)


def _time() -> str:
    return datetime.now().astimezone().strftime("%H:%M:%S")
