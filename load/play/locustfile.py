"""The input of Locust: users, when pods come, and a record of every request beside Locust's own figures.

Users are schedulers that play kube-scheduler, and programs that look at the answers of an extender. A scheduler is serial, as the
real one is: the next pod, filter with a window of nodes, prioritize if two or more are left; the bind goes on in the background.
Beside each filter the server that does nothing is asked the same question, so that what Locust itself takes is measured in the
same second.
"""

from __future__ import annotations

import heapq
import json
import os
import random
import ssl
import time
from collections import deque
from pathlib import Path
from typing import Any, Final, NamedTuple, TextIO

import gevent
import requests
from gevent.pool import Group
from locust import FastHttpUser, LoadTestShape, constant, events, stats, task
from locust.user.task import LOCUST_STATE_RUNNING

from load.play import load_plan as plans
from load.play.load_plan import SHAPES, TRACE, weighed
from load.play.results import FLOOR
from load.questions import (
    Window,
    WrongAnswerError,
    arguments,
    best,
    binding_arguments,
    fitting,
    pod_in_question,
    refusal,
)
from load.simulated.cluster_file import node_names, read

PLAN: Final = plans.load()
NODES: Final = node_names(read(Path(PLAN.cluster)))
# The answer of the server that does nothing until the length of the extender's answer is known, in bytes.
_FIRST_ANSWER: Final = 1024
_JSON: Final = {"content-type": "application/json", "accept-encoding": "identity"}
# How long a pod waits that fits nowhere, as kube-scheduler's back-off, in seconds.
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 10.0
_LOOK_SECONDS: Final = 1.0
# An open page gets a message every ten seconds at least.
_SILENT_SECONDS: Final = 15.0


_USERS: Final = PLAN.schedulers + PLAN.inspectors + PLAN.what_if + PLAN.viewers
_SHAPE: Final = weighed(PLAN.weights) if PLAN.shape == TRACE else SHAPES[PLAN.shape]
_TIMEOUT_SECONDS: Final = 5.0
# How often Locust shows its table, in seconds.
stats.CONSOLE_STATS_INTERVAL_SEC = 10


class Waiting(NamedTuple):
    """A pod, and when it is looked at again."""

    due: float
    name: str
    units: int
    attempts: int = 0

    def later(self) -> Waiting:
        """After one more attempt that came to nothing."""
        wait = min(_FIRST_WAIT * 2**self.attempts, _LONGEST_WAIT)
        return self._replace(due=time.monotonic() + wait, attempts=self.attempts + 1)


def tls_context() -> ssl.SSLContext:
    """With the certificate of the first user; of several extenders all are shown the same."""
    files = next((one.tls for one in PLAN.extenders if one.tls is not None), None)
    return ssl.create_default_context() if files is None else files.context()


class Caller(FastHttpUser):  # type: ignore[misc]  # Locust is not typed
    """A user that asks extenders."""

    abstract = True
    host = PLAN.api
    insecure = False
    ssl_context_factory = staticmethod(tls_context)
    # Binds go on in the background, all that there are.
    concurrency = 1000

    def ask(
        self,
        extender: plans.Asked,
        verb: str,
        body: bytes | None = None,
        found: dict[str, str] | None = None,
        *,
        stream: bool = False,
    ) -> Any:
        """A response in a context; its caller decides whether it was a failure. ``found`` is recorded when that ends.

        The time of a stream is until its headers are there.
        """
        # Locust copies what it is given here, but not what that holds: what is found out later is in there.
        context = {"verb": verb, "extender": extender.name, "found": {} if found is None else found}
        return self.client.request(
            "GET" if body is None else "POST",
            extender.url_of(verb),
            data=body,
            headers=_JSON,
            name=verb if len(PLAN.extenders) == 1 else f"{verb}, {extender.name}",
            catch_response=True,
            context=context,
            stream=stream,
        )


class KubeScheduler(Caller):
    """One scheduler."""

    abstract = not PLAN.schedulers
    # As long as kube-scheduler waits for an extender by default.
    network_timeout = connection_timeout = 5.0
    fixed_count = PLAN.schedulers

    def on_start(self) -> None:
        """Another scheduler begins at another node."""
        self._rng = random.Random()  # which of equal nodes: no secret
        start = self._rng.randrange(len(NODES))
        # Each extender is asked about the same nodes as the others.
        self._windows = {one.name: Window(NODES, PLAN.window, start) for one in PLAN.extenders}
        self._turn = self._rng.randrange(len(PLAN.extenders))
        self._again: list[Waiting] = []
        self._answer_bytes = _FIRST_ANSWER
        self._binds = Group()

    def on_stop(self) -> None:
        """The records hold the answer of each bind that was ordered."""
        self._binds.join(timeout=self.network_timeout)

    @task  # type: ignore[untyped-decorator]  # Locust is not typed
    def schedule_one(self) -> None:
        """The next pod, from filter to the order to bind it."""
        pod = self._next_pod()
        if pod is None:
            return
        extender = PLAN.extenders[self._turn % len(PLAN.extenders)]
        self._turn += 1
        try:
            node = self._choose(extender, pod)
        except WrongAnswerError:
            node = ""
        if node:
            self._binds.spawn(self._bind, extender, pod, node)
        else:
            heapq.heappush(self._again, pod.later())

    def _next_pod(self) -> Waiting | None:
        """One that waits long enough, else the next that comes; None if none comes in a while."""
        if self._again and self._again[0].due <= time.monotonic():
            return heapq.heappop(self._again)
        # Not a request of a scheduler's: it stays out of the figures.
        answer = self.client.client.urlopen(f"{PLAN.api}/simulated/next", method="POST", headers=_JSON)
        if answer.status_code != 200:
            return None
        pod = json.loads(bytes(answer.content))
        return Waiting(time.monotonic(), pod["name"], pod["units"])

    def _choose(self, extender: plans.Asked, pod: Waiting) -> str:
        """The best node, "" if none fits. Raises WrongAnswerError."""
        names, question = self._windows[extender.name].turn(), pod_in_question(pod.name, pod.units)
        body = arguments(question, names)
        found: dict[str, str] = {}

        def passing(answer: bytes) -> list[str]:
            fit = fitting(answer, names)
            found["fit"] = f"{len(fit) / len(names):.4f}"
            return fit

        passed = self._read(extender, "filter", body, passing, found)
        self._ask_floor(extender, body)
        if len(passed) < 2:
            return passed[0] if passed else ""
        if "prioritize" not in extender.verbs:
            return str(self._rng.choice(passed))
        body = arguments(question, passed)
        return str(self._read(extender, "prioritize", body, lambda answer: best(answer, passed, self._rng)))

    def _read(
        self, extender: plans.Asked, verb: str, body: bytes, meaning: Any, found: dict[str, str] | None = None
    ) -> Any:
        with self.ask(extender, verb, body, found) as response:
            if response.status_code != 200:
                wrong = f"status {response.status_code}" if response.status_code else f"no answer: {response.error!r}"
                response.failure(wrong)
                raise WrongAnswerError(wrong)
            self._answer_bytes = len(response.content) if verb == "filter" else self._answer_bytes
            try:
                return meaning(response.content)
            except WrongAnswerError as error:
                response.failure(str(error))
                raise

    def _ask_floor(self, extender: plans.Asked, body: bytes) -> None:
        """As many bytes as that extender has just answered."""
        if PLAN.floor:
            self.client.post(
                f"{PLAN.floor}/{self._answer_bytes}",
                data=body,
                headers=_JSON,
                name=FLOOR,
                context={"verb": FLOOR, "extender": extender.name},
            )

    def _bind(self, extender: plans.Asked, pod: Waiting, node: str) -> None:
        found = {"pod": pod.name, "node": node}

        def meaning(answer: bytes) -> str:
            found["refused"] = refusal(answer)
            return found["refused"]

        try:
            refused = self._read(extender, "bind", binding_arguments(pod.name, node), meaning, found)
        except WrongAnswerError:
            refused = "no answer"
        if refused:
            heapq.heappush(self._again, pod.later())


class Looker(Caller):
    """A user that asks the same now and then."""

    abstract = True
    wait_time = constant(_LOOK_SECONDS)
    verb = ""
    body: bytes | None = None

    @task  # type: ignore[untyped-decorator]  # Locust is not typed
    def look(self) -> None:
        """Ask each extender."""
        for extender in PLAN.extenders:
            with self.ask(extender, self.verb, self.body) as response:
                if response.status_code != 200:
                    response.failure(f"status {response.status_code}")


class Inspector(Looker):
    """A user that looks at all cards, as ``kubectl inspect gpushare`` does."""

    abstract = not PLAN.inspectors
    fixed_count = PLAN.inspectors
    verb = "inspect"


class WhatIf(Looker):
    """A user that asks where a pod would go that is not there."""

    abstract = not PLAN.what_if
    fixed_count = PLAN.what_if
    verb = "explain"
    body: bytes | None = pod_in_question("what-if", 2)


class Viewer(Caller):
    """A browser that has the page of our extender open, which is the first of the plan."""

    abstract = not PLAN.viewers
    fixed_count = PLAN.viewers
    network_timeout = connection_timeout = _SILENT_SECONDS

    @task  # type: ignore[untyped-decorator]  # Locust is not typed
    def view(self) -> None:
        """Get the page and its document, and follow the changes until the run ends."""
        for verb in ("ui", "ui/state"):
            with self.ask(PLAN.extenders[0], verb) as response:
                if response.status_code != 200:
                    response.failure(f"status {response.status_code}")
        with self.ask(PLAN.extenders[0], "ui/events", stream=True) as response:
            if wrong := f"status {response.status_code}" if response.status_code != 200 else self._follow(response):
                response.failure(wrong)

    def _follow(self, response: Any) -> str:
        """The fault of the stream; "" if the run has ended first."""
        # Beside it, as the next message can be ten seconds away when the run ends.
        reading = gevent.spawn(deque, response.iter_content(), 0)
        try:
            while self._state == LOCUST_STATE_RUNNING and not reading.ready():
                reading.join(_LOOK_SECONDS)
            return "the stream has ended" if reading.ready() else ""
        finally:
            reading.kill()


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
        told = {"rate": rate, "at_once": at_once}
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
