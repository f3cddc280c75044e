"""The questions of kube-scheduler, each a function of the body: decode, decide on one moment of the book, encode, log one line.

A refusal is an answer. Only what has no place for one, prioritize and preempt, raises MalformedMessageError.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from gpushare.errors import GpushareError, InvalidWishError
from gpushare.extender.bind import Binder, BindError
from gpushare.extender.core import messages
from gpushare.extender.core.book import Book
from gpushare.extender.core.explain import explain
from gpushare.extender.core.filter import FilterResult, filter_nodes, refuse_everywhere
from gpushare.extender.core.filter_cache import FilterCache
from gpushare.extender.core.page_history import BOUND, NOT_BOUND, PREEMPTED, Decisions
from gpushare.extender.core.page_history import REFUSED as NO_NODE
from gpushare.extender.core.preempt import Preemptor, Victims, preempt
from gpushare.extender.core.prioritize import prioritize
from gpushare.extender.extender_metrics import (
    BAD_WISH,
    BIND,
    FAILED,
    FILTER,
    GRANTED,
    NOT_READY,
    PREEMPT,
    PRIORITIZE,
    REFUSED,
    ExtenderMetrics,
    reason_of,
)
from gpushare.manifests import Pod
from gpushare.model.eviction import is_entangled, other_requests
from gpushare.model.placement import Question, Snapshot, question
from gpushare.model.pod import Request, cpu_request, request_of

_LOG = logging.getLogger(__name__)
_NOT_READY = "the extender has not read the cluster yet; try again"


@dataclass(eq=False)
class Verbs:
    """filter, prioritize, preempt and bind.

    ``is_ready``: is the book complete? ``policy`` is the cluster's; ``filter_cache`` remembers the answers of filter, ``decisions``
    what the page shows; ``metrics`` counts what each verb has. ``afterwards`` calls a function with its arguments, soon: a
    scheduler waits for its answer, and not for the log and the counters. ``is_alone``: no other extender answers the filters of
    pods that are bound here.
    """

    book: Book
    binder: Binder
    filter_cache: FilterCache
    _: KW_ONLY
    is_ready: Callable[[], bool]
    policy: str
    monotonic: Callable[[], float]
    metrics: ExtenderMetrics = field(default_factory=lambda: ExtenderMetrics(time.perf_counter_ns))
    afterwards: Callable[..., object] = lambda function, *arguments: function(*arguments)
    is_alone: bool = True
    decisions: Decisions = field(default_factory=Decisions)

    def filter(self, body: bytes) -> bytes:
        """Which of these nodes hold the pod, and why not the others."""
        try:
            pod, names, full = messages.decode_args(body)
            if not self.is_ready():
                self.metrics.count(FILTER, FAILED, NOT_READY)
                return messages.encode_filter_error(_NOT_READY)
            request, result = self._decide(pod, names)
        except GpushareError as error:
            self.metrics.count_error(FILTER, error)
            _LOG.info("refused to filter reason=%s", error)
            return messages.encode_filter_error(str(error))
        answer = messages.encode_filter_result(result)
        self.afterwards(self._filtered, pod, request, result, answer, len(names))
        if full is None:
            return answer
        fitting = set(result.fitting)
        kept = [node for name, node in zip(names, full, strict=True) if name in fitting]
        return messages.encode_filter_result(result, kept)

    def _decide(self, pod: Pod, names: Sequence[str]) -> tuple[Request | None, FilterResult]:
        """No request if the pod's wishes make no sense."""
        try:
            request, snapshot = request_of(pod), self.book.snapshot()
            known = self.book.answers.reasons(request)
            return request, filter_nodes(question(request, snapshot, self.policy), names, snapshot, known)
        except InvalidWishError as error:
            return None, refuse_everywhere(str(error), names)

    def _question(self, pod: Pod, snapshot: Snapshot) -> Question:
        """Raises InvalidQuantityError and InvalidWishError."""
        return question(request_of(pod), snapshot, self.policy, cpu_request(pod))

    def _filtered(self, pod: Pod, request: Request | None, result: FilterResult, answer: bytes, names: int) -> None:
        """Count and log an answer, and remember it."""
        reason = BAD_WISH if request is None else reason_of(result.reason)
        self.metrics.count(FILTER, GRANTED if result.fitting else REFUSED, reason)
        if request is None or request.units:
            now, priority = self.monotonic(), pod.spec.priority or 0
            self.filter_cache.note(pod.metadata, request, result, answer, now, priority)
            if not result.fitting:
                self._note(NO_NODE, pod.metadata.namespace, pod.metadata.name, result.reason)
        _LOG.info("filtered pod=%s nodes=%d fit=%d", _name(pod), names, len(result.fitting))

    def prioritize(self, body: bytes) -> bytes:
        """How good each of these nodes is, 0 to 10. Raises MalformedMessageError."""
        pod, names, _ = messages.decode_args(body)
        snapshot = self.book.snapshot()
        try:
            asked = self._question(pod, snapshot)
            scores = prioritize(asked, names, snapshot, self.book.answers.costs(asked))
            self.metrics.count(PRIORITIZE, GRANTED)
        except GpushareError as error:
            # Filter has given the reason; a scheduler that asks nevertheless gets no preference.
            self.metrics.count_error(PRIORITIZE, error)
            scores = dict.fromkeys(names, 0)
        self.afterwards(_prioritized, pod, scores)
        return messages.encode_priorities(scores)

    def preempt(self, body: bytes) -> bytes:
        """The pods that must end so that the pod gets a card, on each of these nodes. Raises MalformedMessageError.

        As long as the book is not complete no pod may be ended: no node is a candidate.
        """
        pod, proposed = messages.decode_preemption(body)
        found = self._preempt(pod, proposed)
        _LOG.info("preempted pod=%s proposed=%d nodes=%d", _name(pod), len(proposed), len(found))
        return messages.encode_victims(found)

    def _preempt(self, pod: Pod, proposed: Mapping[str, Victims]) -> dict[str, Victims]:
        if not self.is_ready():
            self.metrics.count(PREEMPT, FAILED, NOT_READY)
            return {}
        snapshot = self.book.snapshot()
        try:
            preemptor = Preemptor(
                self._question(pod, snapshot), pod.spec.priority or 0, other_requests(pod), is_entangled(pod)
            )
            found = preempt(preemptor, proposed, snapshot)
        except GpushareError as error:
            self.metrics.count_error(PREEMPT, error)
            return {}
        self.metrics.count(PREEMPT, GRANTED if found else REFUSED)
        self._note(
            PREEMPTED, pod.metadata.namespace, pod.metadata.name, f"possible on {len(found)} of {len(proposed)} nodes"
        )
        return found

    def explain(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Why a pod of this name waits: its last answer and how things stand now. None if no scheduler has asked for it."""
        cached = self.filter_cache.of(namespace, name)
        if cached is None:
            return None
        asked = {"times": cached.times, "secondsAgo": round(self.monotonic() - cached.asked_at, 3)}
        identity = {"namespace": namespace, "name": name, "uid": cached.metadata.uid}
        if cached.request is None:
            return {"pod": identity, "asked": asked, "reasons": cached.reasons}
        snapshot = self.book.snapshot()
        now = question(cached.request, snapshot, self.policy)
        if cached.answer is None:
            found = {"lastReasons": cached.reasons} | explain(now, snapshot, {}, snapshot.nodes, cached.priority)
        else:
            last = messages.reasons_in(cached.answer)
            found = explain(now, snapshot, last, last, cached.priority)
        return {"pod": identity, "asked": asked} | found

    def what_if(self, body: bytes) -> bytes:
        """The same for a pod that is only thought of, on every node with cards. Raises MalformedMessageError."""
        pod = messages.decode_pod(body)
        snapshot = self.book.snapshot()
        try:
            asked = self._question(pod, snapshot)
        except GpushareError as error:
            return messages.encode_json({"error": str(error)})
        names = [name for name, node in snapshot.nodes.items() if node.devices]
        return messages.encode_json(explain(asked, snapshot, {}, names, pod.spec.priority or 0))

    async def bind(self, body: bytes) -> bytes:
        """Bind a pod with its card."""
        args: messages.BindingArgs | None = None
        try:
            args = messages.decode_binding(body)
            if not self.is_ready():
                self.metrics.count(BIND, FAILED, NOT_READY)
                return messages.encode_binding_result(_NOT_READY)
            if self.is_alone:
                self._check_filter(args)
            await self.binder.bind(args)
            # It waits no more.
            self.filter_cache.drop(args.pod_uid)
        except GpushareError as error:
            self.metrics.count_error(BIND, error)
            if args is not None:
                self._note(NOT_BOUND, args.pod_namespace, args.pod_name, str(error))
            return messages.encode_binding_result(str(error))
        self.metrics.count(BIND, GRANTED)
        self._note(BOUND, args.pod_namespace, args.pod_name, self._place(args))
        return messages.encode_binding_result()

    def _note(self, outcome: str, namespace: str, name: str, detail: str) -> None:
        self.decisions.note(self.monotonic(), outcome, namespace, name, detail)

    def _place(self, args: messages.BindingArgs) -> str:
        """Node and cards of a pod that is bound, for people."""
        confirmed = self.book.confirmed(args.pod_uid)
        booking = self.book.assumed(args.pod_uid, args.node) or (confirmed[1] if confirmed is not None else None)
        cards = ", ".join(f"card {index}" for index, _ in booking.shares) if booking is not None else ""
        return f"{args.node}, {cards}" if cards else args.node

    def _check_filter(self, args: messages.BindingArgs) -> None:
        """Raises BindError for a node that the last filter of this pod did not name as one that fits.

        After a restart, or if the details of the filter are forgotten, the bind decides alone.
        """
        cached = self.filter_cache.by_uid(args.pod_uid)
        if cached is None or cached.answer is None or messages.fits(cached.answer, args.node):
            return
        pod = f"{args.pod_namespace}/{args.pod_name}"
        raise BindError(f"node {args.node} was not among those that the last filter of pod {pod} let through")


def _prioritized(pod: Pod, scores: Mapping[str, int]) -> None:
    _LOG.info("prioritized pod=%s nodes=%d best=%d", _name(pod), len(scores), max(scores.values(), default=0))


def _name(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
