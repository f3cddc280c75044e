"""An API server that disturbs the programs it serves, as real ones do when they are overloaded, restarted or behind a proxy.

An answer is lost, a Binding takes effect after its answer, a change is refused, a list has short pages, and the history of a list
is gone between two of them. Only ServiceAccounts feel it: kubelets, the scheduler and the cases do not.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Final

from clusters.embedded.apiserver.reads import aged
from clusters.embedded.apiserver.refusals import RefusalError
from clusters.embedded.apiserver.requests import Answer, Request

_ACCOUNTS: Final = "system:serviceaccount:"
_MOST_ON_A_PAGE: Final = 3
# Seconds by which a Binding is late at most.
_LATEST: Final = 1.0
_TIMED_OUT: Final = (504, "Timeout", "the request timed out; it is not known whether it took effect")
_UNAVAILABLE: Final = (503, "ServiceUnavailable", "the server is currently unable to handle the request")

CarryOut = Callable[[Request], Awaitable[Answer]]


class Disturbances:
    """``chance``: of each disturbance, for each request that may have it."""

    def __init__(self, chance: float, rng: random.Random) -> None:
        self.chance = chance
        self._rng = rng
        self._late: set[asyncio.Task[None]] = set()

    async def answer(self, request: Request, carry_out: CarryOut) -> Answer:
        """The request's answer. Raises RefusalError."""
        if not self.chance or not request.user.name.startswith(_ACCOUNTS):
            return await carry_out(request)
        if request.method == "GET":
            self._cut(request)
            return await carry_out(request)
        is_binding = request.path.endswith("/binding")
        if self._happens():
            if not is_binding:
                raise RefusalError(*_UNAVAILABLE)
            task = asyncio.create_task(self._carry_out_late(request, carry_out))
            self._late.add(task)
            task.add_done_callback(self._late.discard)
            raise RefusalError(*_TIMED_OUT)
        answer = await carry_out(request)
        if self._happens():
            raise RefusalError(*_TIMED_OUT)
        return answer

    async def close(self) -> None:
        """Wait for what is late: a server that ends carries out what it has begun."""
        await asyncio.gather(*self._late, return_exceptions=True)

    def _happens(self) -> bool:
        return self._rng.random() < self.chance

    def _cut(self, request: Request) -> None:
        """Make the page of a list short, which a server may do; or ask for one after the first too late."""
        if int(request.params.get("limit") or 0) > _MOST_ON_A_PAGE:
            request.params["limit"] = str(_MOST_ON_A_PAGE)
        if (token := request.params.get("continue")) and self._happens():
            request.params["continue"] = aged(token)

    async def _carry_out_late(self, request: Request, carry_out: CarryOut) -> None:
        await asyncio.sleep(self._rng.uniform(0, _LATEST))
        with contextlib.suppress(RefusalError):
            await carry_out(request)
