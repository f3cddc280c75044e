"""Events on objects, for readers of ``kubectl describe``: core/v1, which every server has and roles made for the original name.

An event is a courtesy: a role without the right, or a server that does not answer, never disturbs the work.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple

from gpushare.kube.api_errors import ApiError, NotFoundError, ServerError, TooManyRequestsError, UnreachableError
from gpushare.kube.client import STRATEGIC_MERGE_PATCH, ApiClient
from gpushare.manifests import ObjectMeta

_LOG = logging.getLogger(__name__)

Level = Literal["Normal", "Warning"]

# Events that are counted up instead of written again; the oldest is forgotten first.
_REMEMBERED: Final = 512
# The API server's limit, in bytes.
_LONGEST_MESSAGE: Final = 1024


class _Key(NamedTuple):
    """The object of an event, its reason and its text."""

    kind: str
    uid: str
    reason: str
    message: str


class EventRecorder:
    """Writes events; the same event on the same object only raises the count of the first.

    ``component`` is the reporter, on the node ``host`` if that matters; ``clock`` gives seconds since 1970, ``rng`` makes names
    unique. Two calls together for the same thing may write two.
    """

    def __init__(
        self, client: ApiClient, component: str, clock: Callable[[], float], rng: random.Random, host: str = ""
    ) -> None:
        self._client = client
        self._source = {"component": component, **({"host": host} if host else {})}
        self._clock = clock
        self._rng = rng
        # For each event, the path at which it was written and how often.
        self._recorded: dict[_Key, tuple[str, int]] = {}

    async def record(
        self, kind: str, metadata: ObjectMeta, reason: str, message: str, level: Level = "Warning"
    ) -> bool:
        """Say something of a core/v1 object such as ``Pod``. Never raises for what the API server answers.

        Answers False if it could not be written now and may be another time, for callers that must write it once.
        """
        message = message.encode()[:_LONGEST_MESSAGE].decode(errors="ignore")
        key = _Key(kind, metadata.uid or f"{metadata.namespace}/{metadata.name}", reason, message)
        try:
            if not await self._count_up(key):
                await self._create(key, metadata, level)
        except ApiError as error:
            _LOG.debug("event not written reason=%s error=%s", reason, error)
            return not isinstance(error, (UnreachableError, TooManyRequestsError, ServerError))
        return True

    async def _count_up(self, key: _Key) -> bool:
        """Raise the count of the event that was written; False if there is none (any more)."""
        if key not in self._recorded:
            return False
        path, count = self._recorded[key]
        patch = {"count": count + 1, "lastTimestamp": self._now()}
        try:
            await self._client.request("PATCH", path, body=patch, content_type=STRATEGIC_MERGE_PATCH)
        except NotFoundError:
            # The API server forgets events after an hour.
            self._recorded.pop(key, None)
            return False
        self._recorded[key] = (path, count + 1)
        return True

    async def _create(self, key: _Key, metadata: ObjectMeta, level: Level) -> None:
        # Events of objects without a namespace live in the default one.
        namespace = metadata.namespace or "default"
        # As long as a name may be, and of whole labels.
        stem = metadata.name[:200].rstrip("-.")
        name = f"{stem}.{self._rng.getrandbits(64):016x}"
        path, now = f"/api/v1/namespaces/{namespace}/events", self._now()
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": key.kind,
                "namespace": metadata.namespace,
                "name": metadata.name,
                "uid": metadata.uid,
            },
            "reason": key.reason,
            "message": key.message,
            "type": level,
            "source": self._source,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
        }
        await self._client.request("POST", path, body=event)
        self._recorded[key] = (f"{path}/{name}", 1)
        while len(self._recorded) > _REMEMBERED:
            del self._recorded[next(iter(self._recorded))]

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock(), UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
