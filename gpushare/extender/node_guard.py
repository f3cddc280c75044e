"""One object for each node that a bind must win before it binds: what keeps two extenders from one card.

Bindings of different pods cannot conflict in the API, so two extenders that do not know of each other's last seconds could give one
card twice. With several of them each bind first writes its pod into the guard of its node, a Lease, on condition that it has not
changed since it was read. The extender that wins has seen every earlier reservation; one that loses reads and chooses again. An
extender that was paused and wakes late holds a reservation that still counts, or loses. No clock decides.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from gpushare import wire
from gpushare.errors import GpushareError
from gpushare.extender.core.reservations import EMPTY, Fate, Guard, Reservation, State, decode, encode, settle
from gpushare.foreign import Decoder
from gpushare.kube.api_errors import ApiError, ConflictError, NotFoundError
from gpushare.kube.client import ApiClient
from gpushare.manifests import AnyObject
from gpushare.model.node import Booking
from gpushare.model.pod import is_deleting

_LOG = logging.getLogger(__name__)

# How often a bind that was overtaken chooses again.
_TRIES: Final = 10
# How long our copy of the pods may take to come as far as the guard asks, in seconds.
_BEHIND_SECONDS: Final = 2.0
_LONGEST_NAME: Final = 253


class GuardError(GpushareError):
    """The reservation could not be made; nothing was bound. The text is for the pod's event."""


_DECODER: Final = Decoder(AnyObject)
_PATH: Final = f"/apis/coordination.k8s.io/v1/namespaces/{wire.GUARDS_NAMESPACE}/leases"


class NodeGuards:
    """The guards of all nodes.

    ``fate_of`` returns the fate of a pod; ``come_to`` waits until our copy of the pods is as fresh as a resourceVersion, and
    returns whether it is.
    """

    def __init__(
        self,
        client: ApiClient,
        identity: str,
        fate_of: Callable[[Booking], Fate],
        come_to: Callable[[int, float], Awaitable[bool]],
    ) -> None:
        self._client = client
        self._identity = identity
        self._fate_of = fate_of
        self._come_to = come_to
        # Each guard with its version, as it was read or written last.
        self._known: dict[str, tuple[Guard, str]] = {}
        # Pods with a Binding that was ours alone and was refused for good. Kept until a write removes them.
        self._refused: defaultdict[str, set[str]] = defaultdict(set)
        # Binds to one node wait for each other here: side by side they would only overtake each other.
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def reserve(self, node: str, book: Callable[[Guard], Booking], unbook: Callable[[], None]) -> Booking:
        """Write into the node's guard what ``book`` chooses in view of it; ``unbook`` reverts that if another was faster.

        Raises GuardError, ApiError, and what ``book`` raises.
        """
        async with self._turns[node]:
            for _ in range(_TRIES):
                before, version = self._known.get(node) or await self._read(node)
                gone = await self._gone(node, before)
                guard = settle(before, self._fate_of, lambda uid, one: uid in gone or self._is_refused(node, uid, one))  # noqa: B023
                if not await self._come_to(guard.seen, _BEHIND_SECONDS):
                    raise GuardError("this extender's copy of the pods is behind another's; try again")
                booking = book(guard)
                try:
                    self._known[node] = await self._write(node, guard.with_pod(booking, self._identity), version)
                except BaseException as error:
                    # It may have been written: the next look shows it, and until the pod is bound or gone it counts.
                    self._known.pop(node, None)
                    unbook()
                    if isinstance(error, ConflictError):
                        continue
                    raise
                self._refused[node].intersection_update(guard.pods)
                return booking
        raise GuardError(f"others were faster {_TRIES} times on node {node}; try again")

    def release(self, node: str, uid: str) -> None:
        """No Binding of ours for this pod can take effect any more; the next write leaves it out."""
        self._refused[node].add(uid)

    def _is_refused(self, node: str, uid: str, one: Reservation) -> bool:
        """A pod that another extender has tried as well may be bound by that, though ours was refused."""
        return uid in self._refused[node] and one.by == {self._identity}

    async def _gone(self, node: str, guard: Guard) -> set[str]:
        """A pod that our book does not know at all was gone before we came, or came after our copy: the API server knows."""
        gone = set()
        for uid, one in guard.pods.items():
            if self._fate_of(one.booking(uid)).state is not State.UNKNOWN:
                continue
            try:
                pod = await self._client.get_pod(one.namespace, one.name)
                is_gone = pod.metadata.uid != uid or (is_deleting(pod) and not pod.spec.node_name)
            except NotFoundError:
                is_gone = True
            except ApiError as error:
                # The error's text names that pod, and this one becomes an event of another pod.
                _LOG.info("cannot read a reserved pod pod=%s/%s node=%s error=%s", one.namespace, one.name, node, error)
                raise GuardError(f"a pod that is reserved on node {node} cannot be read now; try again") from error
            if is_gone:
                gone.add(uid)
        return gone

    async def _read(self, node: str) -> tuple[Guard, str]:
        """Without a version there is no such object yet."""
        try:
            found = _DECODER.decode(await self._client.request("GET", f"{_PATH}/{name_of(node)}"))
        except NotFoundError:
            return EMPTY, ""
        annotations: Mapping[str, str] = found.metadata.annotations or {}
        return decode(annotations.get(wire.ANNOTATION_RESERVATIONS)), found.metadata.resource_version

    async def _write(self, node: str, guard: Guard, version: str) -> tuple[Guard, str]:
        """On condition that it has this version still. Raises ConflictError if it is not, GuardError, and ApiError."""
        metadata: dict[str, Any] = {
            "name": name_of(node),
            "annotations": {wire.ANNOTATION_RESERVATIONS: encode(guard), wire.ANNOTATION_GUARDED_NODE: node},
        }
        if version:
            metadata["resourceVersion"] = version
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}
        method, path = ("PUT", f"{_PATH}/{name_of(node)}") if version else ("POST", _PATH)
        try:
            answer = await self._client.request(method, path, body=body)
        except NotFoundError as error:
            if not version:
                raise GuardError(
                    f"the namespace {wire.GUARDS_NAMESPACE} for the guards of several extenders is not there: "
                    "install components/several-extenders, or start the one extender without --guarded"
                ) from error
            # The Lease was removed: as if it had been changed.
            raise ConflictError(str(error), 409, "Conflict") from error
        return guard, _DECODER.decode(answer).metadata.resource_version


def name_of(node: str) -> str:
    """The name of a node's guard."""
    name = f"gpushare-node-{node}"
    return name if len(name) <= _LONGEST_NAME else f"gpushare-node-{hashlib.sha256(node.encode()).hexdigest()}"
