"""Bind: choose → assume → one API request → the watch confirms, or forget.

Safety: the card is booked in memory before the first await, so no two binds in flight
share room. No lock is held across the API call. The one request carries ``nodeName`` and the annotations together, so
an extender killed between any two lines leaves either an unbound pod or a complete one, and the book is rebuilt from
the API alone.

A lost answer is not a refusal: the pod may be bound. Its booking stays until the API shows what happened.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple

from gpushare import wire
from gpushare.errors import DoesNotFitError, GpushareError
from gpushare.extender.core.book import Book
from gpushare.extender.core.messages import BindingArgs
from gpushare.extender.core.reservations import EMPTY, Guard, laid_on
from gpushare.extender.node_guard import NodeGuards
from gpushare.kube.api_errors import ApiError, NotFoundError
from gpushare.kube.client import ApiClient
from gpushare.manifests import ObjectMeta, Pod
from gpushare.model.allocation import Allocation, blanks, encode
from gpushare.model.node import Booking
from gpushare.model.placement import choose, question
from gpushare.model.pod import Request, cpu_request, is_deleting, names_card_resources, request_of, split_container

_LOG = logging.getLogger(__name__)

# How long a request without an answer may still take effect, in seconds: the API server ends every request after
# 60.
UNKNOWN_OUTCOME_SECONDS = 90.0


class BindError(GpushareError):
    """The pod was not bound; the text is for the pod's event."""


class _OvertakenError(BindError):
    """The book knows more of the pod than what we decided on."""


class _Order(NamedTuple):
    """What a bind needs of its pod; ``pod`` is ``namespace/name``.

    ``container`` is the position of the one that asks for card memory, if its wish spreads it over cards.
    """

    metadata: ObjectMeta
    pod: str
    node: str
    request: Request
    cpu_milli: int
    container: int

    @property
    def key(self) -> tuple[str, str]:
        """The pod's uid, and the node."""
        return self.metadata.uid, self.node


@dataclass(eq=False)
class Binder:
    """Binds pods; one at a time per pod, any number of pods beside each other.

    ``policy`` is for pods that name none; ``guards`` are there if other extenders may bind as well. ``in_flight`` are the binds
    under way, by ``namespace/name``; ``resolving`` are the tasks that ask for lost answers every ``ask_seconds``, with uid and node
    of each: a request of those may still take effect.
    """

    client: ApiClient
    book: Book
    _: KW_ONLY
    clock_ns: Callable[[], int]
    monotonic: Callable[[], float]
    policy: str = wire.POLICY_BINPACK
    guards: NodeGuards | None = None
    ask_seconds: float = 1.0
    in_flight: dict[str, asyncio.Task[None]] = field(default_factory=dict, init=False)
    resolving: dict[asyncio.Task[None], tuple[str, str]] = field(default_factory=dict, init=False)

    async def bind(self, args: BindingArgs) -> None:
        """Bind the pod to the node with its card. Idempotent. Raises GpushareError with the reason.

        A scheduler that timed out asks again while the first request is under way: the second waits for the first.
        """
        pod_key = f"{args.pod_namespace}/{args.pod_name}"
        while (under_way := self.in_flight.get(pod_key)) is not None:
            await asyncio.wait([under_way])
        task = asyncio.get_running_loop().create_task(self._bind(args))
        self.in_flight[pod_key] = task
        task.add_done_callback(lambda done: self._landed(pod_key, done))
        # The scheduler's disconnect must not stop a bind half way.
        await asyncio.shield(task)

    def is_under_way(self, namespace: str, name: str, uid: str) -> bool:
        """May a request of ours still bind this pod?"""
        return f"{namespace}/{name}" in self.in_flight or any(of == uid for of, _ in self.resolving.values())

    async def close(self) -> None:
        """Let binds under way end (each has the client's timeout); stop asking for lost answers."""
        await asyncio.gather(*self.in_flight.values(), return_exceptions=True)
        for task in self.resolving:
            task.cancel()
        await asyncio.gather(*self.resolving, return_exceptions=True)

    def _landed(self, pod_key: str, task: asyncio.Task[None]) -> None:
        del self.in_flight[pod_key]
        # Marked as seen: after the caller went away no one reads the outcome, and the log has it.
        if not task.cancelled() and task.exception() is not None:
            _LOG.info("refused pod=%s reason=%s", pod_key, task.exception())

    async def _bind(self, args: BindingArgs) -> None:
        pod = self.book.pending_pod(args.pod_namespace, args.pod_name)
        if pod is None or (args.pod_uid and pod.metadata.uid != args.pod_uid):
            pod = await self._fetch(args)
        if pod.spec.node_name:
            self._accept_bound(pod, args.node)
            return
        order = _order(pod, args.node)
        try:
            annotations = await self._take(order)
        except _OvertakenError:
            # Another extender was faster, or the pod has gone: what it is now decides.
            pod = await self._fetch(args)
            if not pod.spec.node_name:
                raise
            self._accept_bound(pod, args.node)
            return
        await self._post(order, annotations)

    async def _take(self, order: _Order) -> dict[str, str]:
        """Book a card; with other extenders about, in the node's guard too. The annotations that say so."""
        if order.request.units == 0:
            return {}
        if order.node not in self.book.snapshot().nodes:
            # No lock and no Lease for a name that is only in the order.
            raise DoesNotFitError(f"{wire.REASON_UNKNOWN_NODE}: {order.node}")
        if self.guards is None:
            return self._annotations(order, self._assume(order, EMPTY))
        # An assumption of an earlier order is not for this one to end: our copy of the pod may not show yet that it is bound.
        is_new = self.book.assumed(*order.key) is None
        booking = await self.guards.reserve(
            order.node, lambda guard: self._assume(order, guard), lambda: self._give_up(order) if is_new else None
        )
        return self._annotations(order, booking)

    def _assume(self, order: _Order, guard: Guard) -> Booking:
        """Choose a card and book it, in memory. Without an await, so no reader sees half of it."""
        snapshot, request, metadata, uid = self.book.snapshot(), order.request, order.metadata, order.metadata.uid
        node = snapshot.nodes.get(order.node)
        if node is None:
            raise DoesNotFitError(f"{wire.REASON_UNKNOWN_NODE}: {order.node}")
        if self.book.confirmed(uid) is not None:
            raise _OvertakenError(f"pod {order.pod} was bound meanwhile")
        # An earlier try without a known outcome, ours or another's: the same cards again, so that both requests are equal.
        assumed, reserved = self.book.assumed(*order.key), guard.pods.get(uid)
        if assumed is not None:
            # An audit that has listed this pod before now must not believe the list.
            self.book.touch(uid)
        earlier = assumed or (reserved.booking(uid) if reserved is not None else None)
        if earlier is None:
            shares = choose(laid_on(node, guard), question(request, snapshot, self.policy, order.cpu_milli))
        else:
            shares = earlier.shares
        totals = {device.index: device.total for device in node.devices}
        if gone := [index for index, _ in shares if index not in totals]:
            raise DoesNotFitError(f"{wire.REASON_NO_CARD_FITS}: card {gone[0]} of node {order.node} is gone")
        booking = Booking(
            uid, metadata.namespace, metadata.name, request.units, shares, request.slots, request.wishes.group,
            card_size=totals[shares[0][0]],
        )  # fmt: skip
        if assumed is None:
            try:
                self.book.assume(order.node, booking, order.cpu_milli)
            except ValueError as error:
                # The watch was ahead of our read: the pod was bound or deleted in between.
                raise _OvertakenError(str(error)) from error
        return booking

    def _annotations(self, order: _Order, booking: Booking) -> dict[str, str]:
        node, shares = self.book.snapshot().nodes.get(order.node), booking.shares
        totals = {device.index: device.total for device in (node.devices if node is not None else ())}
        indices = [index for index, _ in shares]
        _LOG.info(
            "assumed pod=%s uid=%s node=%s devices=%s units=%d",
            order.pod, booking.uid, order.node, "+".join(map(str, indices)), booking.units,
        )  # fmt: skip
        several = {order.container: shares} if len(shares) > 1 else None
        # The node may have changed since the card was chosen, as when its kubelet restarts.
        device_units = sum(totals.get(index, 0) for index in indices) if several else booking.card_size
        allocation = Allocation(shares, device_units, self.clock_ns(), by_container=several)
        # Says that our book follows a change of the card.
        annotations = encode(allocation) | {wire.ANNOTATION_EXTENDER: wire.EXTENDER_BOOK}
        return annotations | blanks(order.metadata.annotations, annotations)

    async def _post(self, order: _Order, annotations: dict[str, str]) -> None:
        metadata, node = order.metadata, order.node
        sent = self.monotonic()
        try:
            await self.client.bind(metadata.namespace, metadata.name, metadata.uid, node, annotations)
        except ApiError as error:
            now, is_unknown = None, error.may_have_happened
            try:
                now = await self._now(metadata)
            except ApiError:
                is_unknown = True
            if now is not None and now.spec.node_name:
                # By this request, by one before it that our copy does not show yet, or by another program.
                self._accept_bound(now, node)
                return
            if is_unknown:
                # A refused request cannot land late.
                until = sent + (UNKNOWN_OUTCOME_SECONDS if error.may_have_happened else 0.0)
                task = asyncio.get_running_loop().create_task(self._resolve(order, until))
                self.resolving[task] = order.key
                task.add_done_callback(self.resolving.pop)
                raise BindError(f"the API server did not say whether the pod is bound: {error}") from error
            self._give_up(order)
            raise BindError(f"the API server refused to bind: {error}") from error
        for task, key in self.resolving.items():
            if key == order.key:
                # It may have been answered before this bind, and would end the assumption.
                task.cancel()
        self.book.bound(metadata, node, order.cpu_milli)
        _LOG.info("bound pod=%s uid=%s node=%s", order.pod, metadata.uid, node)

    def _give_up(self, order: _Order) -> None:
        """This request came to nothing; another one for the same pod and node may still land."""
        if order.key not in self.resolving.values():
            self.book.forget(*order.key)
            if self.guards is not None:
                self.guards.release(order.node, order.metadata.uid)

    async def _now(self, metadata: ObjectMeta) -> Pod | None:
        """The pod as the API server has it; None if it is gone. Raises ApiError."""
        try:
            now = await self.client.get_pod(metadata.namespace, metadata.name)
        except NotFoundError:
            return None
        return now if now.metadata.uid == metadata.uid else None

    async def _fetch(self, args: BindingArgs) -> Pod:
        try:
            pod = await self.client.get_pod(args.pod_namespace, args.pod_name)
        except NotFoundError as error:
            raise BindError(f"pod {args.pod_namespace}/{args.pod_name} is not there any more") from error
        except ApiError as error:
            raise BindError(f"cannot read pod {args.pod_namespace}/{args.pod_name}: {error}") from error
        if args.pod_uid and pod.metadata.uid != args.pod_uid:
            name = f"{args.pod_namespace}/{args.pod_name}"
            raise BindError(f"pod {name} has uid {pod.metadata.uid}, not {args.pod_uid}: it was re-created")
        return pod

    def _accept_bound(self, pod: Pod, node: str) -> None:
        """A pod that is already bound: success if it is bound as this order asks."""
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        problem = self.book.set_pod(pod)
        if pod.spec.node_name != node:
            raise BindError(f"pod {name} is already bound to node {pod.spec.node_name}")
        held = self.book.confirmed(pod.metadata.uid)
        if held is not None and not held[1].shares:
            raise BindError(
                f"pod {name} is already bound to node {node}, but not by us: {problem or 'no card is named'}"
            )

    async def _resolve(self, order: _Order, until: float) -> None:
        """Ask for the outcome of a request that may land ``until`` then. Its room stays booked, also for an order under way."""
        while True:
            await asyncio.sleep(self.ask_seconds)
            try:
                now = await self._now(order.metadata)
            except ApiError:
                continue
            is_bound = now is not None and now.spec.node_name
            # The API server binds no pod that is being deleted.
            may_land = self.monotonic() < until and not (now is not None and is_deleting(now))
            if now is None or is_bound or not (may_land or order.pod in self.in_flight):
                break
        if now is not None and is_bound:
            self.book.set_pod(now)
        elif [key for task, key in self.resolving.items() if not task.done()].count(order.key) == 1:
            # A reservation stays, as no clock may decide what other extenders count.
            self.book.forget(*order.key)
            _LOG.info("forgot pod=%s uid=%s node=%s", order.pod, *order.key)


def _order(pod: Pod, node: str) -> _Order:
    """Read what the bind of a pod needs. Raises BindError for one that is none of ours to bind, and as ``request_of``.

    A scheduler orders a bind from an extender only for pods that name its resources, so any other order is a stranger's.
    """
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    if is_deleting(pod):
        raise BindError(f"pod {name} is being deleted")
    if not names_card_resources(pod):
        raise BindError(f"pod {name} asks for no {wire.RESOURCE_PREFIX}* resource, so its own scheduler binds it")
    return _Order(pod.metadata, name, node, request_of(pod), cpu_request(pod), split_container(pod) or 0)
