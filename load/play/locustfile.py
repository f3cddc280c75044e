"""The input of Locust: the users, when pods come, and a record of every request beside Locust's own figures."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Final, TextIO

import requests
from locust import LoadTestShape, events, stats

from load.play.load_shapes import SHAPES, TRACE, weighed
from load.play.users import PLAN, Inspector, KubeScheduler, WhatIf

__all__ = ["Inspector", "KubeScheduler", "PodStream", "WhatIf"]
_USERS: Final = PLAN.schedulers + PLAN.inspectors + PLAN.what_if
_SHAPE: Final = weighed(PLAN.weights) if PLAN.shape == TRACE else SHAPES[PLAN.shape]
_TIMEOUT_SECONDS: Final = 5.0
# How often Locust shows its table, in seconds.
stats.CONSOLE_STATS_INTERVAL_SEC = 10


class PodStream(LoadTestShape):  # type: ignore[misc]  # Locust is not typed
    """All users until the time is over; each second the API server gets the number of pods that come.

    The time begins once all users run, however long a busy machine takes to start them.
    """

    _began = False
    # Seconds with ordered pods: a tick may be late.
    _told = 0

    def tick(self) -> tuple[int, float] | None:
        """Locust's question: how many users? None ends the run."""
        if not self._began:
            if self.get_current_user_count() < _USERS:
                return _USERS, _USERS
            self._began = True
            self.reset_time()
        second = int(self.get_run_time())
        if second >= PLAN.seconds:
            self._tell(0, 0)
            return None
        arrivals = _SHAPE(second, PLAN.rate, PLAN.seconds)
        at_once = sum(_SHAPE(passed, PLAN.rate, PLAN.seconds).at_once for passed in range(self._told, second + 1))
        self._tell(arrivals.rate, at_once)
        self._told = second + 1
        return _USERS, _USERS

    def _tell(self, rate: float, at_once: int) -> None:
        told = {"rate": rate, "at_once": at_once, "units": PLAN.units}
        requests.post(f"{PLAN.api}/simulated/arrivals", json=told, timeout=_TIMEOUT_SECONDS)


class Records:
    """A line for each request: a ``results.Record``."""

    def __init__(self) -> None:
        self._out: TextIO | None = None

    def note(
        self,
        response_time: float,
        response_length: int,
        exception: BaseException | None,
        context: dict[str, Any] | None,
        **_: object,
    ) -> None:
        """Locust's word of a request that has ended."""
        if not context or "verb" not in context:
            return
        if self._out is None:
            self._out = (Path(PLAN.records) / f"requests-{os.getpid()}.tsv").open("a", buffering=1 << 16)
        found = context.get("found", {})
        texts = [" ".join(str(text).split()) for text in (found.get("refused", ""), exception or "")]
        texts += [found.get(key, "") for key in ("fit", "pod", "node")]
        when = f"{time.time():.4f}"
        row = (when, context["verb"], context["extender"], f"{response_time:.4f}", response_length, *texts)
        print(*row, sep="\t", file=self._out)

    def close(self, **_: object) -> None:
        """All lines are in the file."""
        if self._out is not None:
            self._out.close()
            self._out = None


_RECORDS: Final = Records()
events.request.add_listener(_RECORDS.note)
events.quitting.add_listener(_RECORDS.close)
