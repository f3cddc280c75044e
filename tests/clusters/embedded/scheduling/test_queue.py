"""The order and the back-off of the embedded scheduler's queue."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from clusters.embedded.scheduling.fit import EXTENDER
from clusters.embedded.scheduling.queue import LEFTOVER_SECONDS, Pool, QueuedPod, SchedulingQueue
from clusters.embedded.scheduling.wakes import Change
from tests.clusters.embedded.scheduling.scheduling_objects import make_pod

REFUSED = frozenset({EXTENDER})
ROOM = [Change.POD_DELETED]


def take(queue: SchedulingQueue, now: float) -> QueuedPod:
    item = queue.pop(now)
    assert item is not None
    return item


def refused(queue: SchedulingQueue, now: float, rejectors: frozenset[str] = REFUSED) -> QueuedPod:
    """A queue with one pod, which has been refused once at ``now``."""
    queue.add(make_pod("p1"), now)
    item = take(queue, now)
    queue.requeue_rejected(item, item.pod, rejectors, now)
    return item


def test_pop_goes_by_priority_then_by_age() -> None:
    """The older of two equals comes first."""
    queue = SchedulingQueue()
    for time, (name, priority) in enumerate([("a", 0), ("b", 5), ("c", 0), ("d", 5)]):
        queue.add(make_pod(name, priority=priority), time)

    assert ["b", "d", "a", "c"] == [take(queue, 10).pod["metadata"]["name"] for _ in range(4)]


@given(st.integers(1, 2000))
def test_backoff_doubles_up_to_the_largest(attempts: int) -> None:
    """The first failure waits for the initial backoff."""
    assert min(10, 2.0 ** min(attempts - 1, 10)) == SchedulingQueue(1, 10).backoff_of(attempts)


def test_a_refused_pod_sleeps_until_something_changes() -> None:
    """A refused pod waits for a change; the end of its backoff does not bring it back."""
    queue = SchedulingQueue()
    refused(queue, now=0)

    assert queue.pop(299) is None
    assert Pool.UNSCHEDULABLE is queue.pool_of("uid-p1")


def test_woken_pod_skips_its_backoff_while_no_other_is_active() -> None:
    """A woken pod in backoff comes after all active pods, whatever its priority, but immediately once none is left."""
    queue = SchedulingQueue(1, 10)
    refused(queue, now=0)

    queue.wake(ROOM, 0.5)
    queue.add(make_pod("p2", priority=-1), 0.5)

    assert queue.next_deadline() == 1
    assert ["p2", "p1"] == [take(queue, 0.5).pod["metadata"]["name"] for _ in range(2)]


def test_a_backoff_that_is_over_counts_as_active() -> None:
    """The pod is ahead of one with a lower priority."""
    queue = SchedulingQueue(1, 10)
    refused(queue, now=0)

    queue.wake(ROOM, 0.5)
    queue.add(make_pod("p2", priority=-1), 0.5)

    assert ["p1", "p2"] == [take(queue, 1.0).pod["metadata"]["name"] for _ in range(2)]


def test_a_change_during_the_attempt_is_not_missed() -> None:
    """The room that a pod left while its neighbour was being refused."""
    queue = SchedulingQueue(1, 10)
    queue.add(make_pod("p1"), 0)
    item = take(queue, 0)

    queue.wake(ROOM, 0)
    queue.requeue_rejected(item, item.pod, REFUSED, 0)

    assert Pool.BACKOFF is queue.pool_of("uid-p1")


def test_a_refusal_without_rejector_means_backoff_only() -> None:
    """A refusal without a rejector is tried again after the backoff."""
    queue = SchedulingQueue(1, 10)
    refused(queue, now=0, rejectors=frozenset())

    assert queue.pop(0.9) is None
    assert queue.pop(1) is not None


def test_a_refusal_after_errors_begins_its_own_backoff() -> None:
    """Errors in a row are counted apart from refusals, and forgotten at the first refusal."""
    queue = SchedulingQueue(1, 100)
    queue.add(make_pod("p1"), 0)
    for now in (0.0, 50.0):
        item = take(queue, now)
        queue.requeue_failed(item, item.pod, now)
    item = take(queue, 100)
    queue.requeue_rejected(item, item.pod, REFUSED, 100)

    assert (1, 0) == (item.refusals, item.errors)


def test_an_error_means_backoff_that_grows() -> None:
    """The backoff after errors doubles up to the largest backoff."""
    queue = SchedulingQueue(1, 10)
    queue.add(make_pod("p1"), 0)
    now, waits = 0.0, []
    for _ in range(6):
        item = take(queue, now)
        queue.requeue_failed(item, item.pod, now)
        deadline = queue.next_deadline()
        assert deadline is not None
        waits.append(deadline - now)
        now = deadline

    assert [1, 2, 4, 8, 10, 10] == waits


def test_a_forgotten_pod_is_tried_again_after_five_minutes() -> None:
    """A refused pod that nothing wakes is flushed."""
    queue = SchedulingQueue()
    refused(queue, now=0)

    assert queue.next_deadline() == LEFTOVER_SECONDS
    assert queue.pop(LEFTOVER_SECONDS) is not None


def test_gates_hold_a_pod_until_they_are_gone() -> None:
    """No event wakes a gated pod."""
    queue = SchedulingQueue()
    gated = make_pod("p1", schedulingGates=[{"name": "x"}])
    queue.add(gated, 0)
    queue.wake(list(Change), 400)

    assert queue.pop(400) is None

    queue.update(make_pod("p1"), 400)

    assert queue.pop(400) is not None


def test_own_change_retries_a_pod_that_an_extender_refused() -> None:
    """A pod that an extender refused is tried again after any change of it, even after the scheduler's own of its status."""
    queue = SchedulingQueue()
    refused(queue, now=0)

    queue.update({**make_pod("p1"), "status": {"conditions": []}}, 20)

    assert take(queue, 20).pod["status"] == {"conditions": []}


def test_an_own_change_during_the_attempt_is_not_missed() -> None:
    """The pod goes to the backoff, not to the unschedulable ones."""
    queue = SchedulingQueue(1, 10)
    queue.add(make_pod("p1"), 0)
    item = take(queue, 0)

    queue.note(item.pod, make_pod("p1", priority=3))
    queue.requeue_rejected(item, item.pod, REFUSED, 0)

    assert Pool.BACKOFF is queue.pool_of("uid-p1")


def test_a_pod_whose_victims_are_being_evicted_is_held_back() -> None:
    """Until that is over and a pod goes; no other change counts before."""
    preempting = {"uid-p1"}
    queue = SchedulingQueue(1, 10, is_preempting=preempting.__contains__)
    refused(queue, now=0)

    queue.wake(ROOM, 20)
    assert queue.pop(20) is None

    preempting.clear()
    queue.wake([Change.NODE_ADDED], 20)
    assert queue.pop(20) is None

    queue.wake(ROOM, 20)
    assert queue.pop(20) is not None


def test_activate_tries_again_whatever_kept_the_pod() -> None:
    """A pod that is not there is no error."""
    queue = SchedulingQueue()
    refused(queue, now=0)

    queue.activate("uid-p1")
    queue.activate("uid-nobody")

    assert queue.pop(0) is not None


def test_a_deleted_pod_never_comes_up() -> None:
    """A deleted pod is never tried, and its timers are gone."""
    queue = SchedulingQueue()
    queue.add(make_pod("p1"), 0)
    queue.delete("uid-p1")

    assert queue.pop(1000) is None
    assert queue.next_deadline() is None


NAMES = st.sampled_from(["a", "b", "c"])


class QueueNeverLosesAPod(RuleBasedStateMachine):
    """Whatever happens in whatever order: each pod is in one place, none comes before its time, none is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = SchedulingQueue(1, 10)
        self.now = 0.0
        self.waiting: set[str] = set()
        self.flying: dict[str, QueuedPod] = {}
        self.not_before: dict[str, float] = {}

    @rule(seconds=st.sampled_from([0.0, 0.5, 3.0, 30.0]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule(name=NAMES, priority=st.integers(0, 2))
    def add(self, name: str, priority: int) -> None:
        if name not in self.waiting and name not in self.flying:
            self.queue.add(make_pod(name, priority=priority), self.now)
            self.waiting.add(name)
            self.not_before[name] = self.now

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.queue.delete(f"uid-{name}")
        self.waiting.discard(name)

    @rule()
    def pop(self) -> None:
        item = self.queue.pop(self.now)
        if item is not None:
            name = item.pod["metadata"]["name"]
            assert name in self.waiting
            assert self.now >= self.not_before[name]
            self.waiting.discard(name)
            self.flying[name] = item

    @rule(name=NAMES, how=st.sampled_from(["done", "failed", "rejected", "no rejector"]))
    def land(self, name: str, how: str) -> None:
        item = self.flying.pop(name, None)
        if item is None:
            return
        if how == "done":
            self.queue.done(item.uid)
            return
        if how == "failed":
            self.queue.requeue_failed(item, item.pod, self.now)
        else:
            self.queue.requeue_rejected(item, item.pod, REFUSED if how == "rejected" else frozenset(), self.now)
        self.waiting.add(name)
        # Only after an error a backoff must be sat out.
        is_refusal = how == "rejected"
        self.not_before[name] = self.now + (0 if is_refusal else self.queue.backoff_of(item.errors))

    @rule(change=st.sampled_from(Change))
    def wake(self, change: Change) -> None:
        self.queue.wake([change], self.now)

    @rule(name=NAMES)
    def update(self, name: str) -> None:
        if name in self.flying:
            self.queue.note(make_pod(name), make_pod(name))
        elif name in self.waiting:
            self.queue.update(make_pod(name), self.now)

    @invariant()
    def everyone_is_in_one_place(self) -> None:
        for name in ("a", "b", "c"):
            assert (name in self.waiting) is (self.queue.pool_of(f"uid-{name}") is not None)
            assert (name in self.flying) is self.queue.is_in_flight(f"uid-{name}")

    def teardown(self) -> None:
        """Five minutes and a backoff later every waiting pod has come up."""
        later = self.now + LEFTOVER_SECONDS + 10
        seen = set()
        while (item := self.queue.pop(later)) is not None:
            seen.add(item.pod["metadata"]["name"])
        assert self.waiting == seen


TestQueueNeverLosesAPod = QueueNeverLosesAPod.TestCase
