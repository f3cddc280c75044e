"""Events on objects, for whoever runs ``kubectl describe``. core/v1, which every role of the original may write.

An event is a courtesy: a role without the right, or a server that does not answer, never disturbs the work.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, Literal

from gpushare.kube.client import STRATEGIC_MERGE_PATCH, ApiClient
from gpushare.kube.errors import ApiError, NotFoundError
from gpushare.manifests import ObjectMeta

_LOG = logging.getLogger(__name__)

# Events that are counted up instead of written again; the oldest is forgotten first.
_REMEMBERED: Final = 512
# The API server's limit of a message, in characters.
_LONGEST_MESSAGE: Final = 1024

_Key = tuple[str, str, str, str]


class EventRecorder:
    """Writes events; the same thing said again of the same object only raises the count of the first event.

    ``clock`` gives seconds since 1970, ``rng`` makes names unique. Two calls at once for the same thing may write two.
    """

    def __init__(self, client: ApiClient, component: str, clock: Callable[[], float], rng: random.Random) -> None:
        self._client = client
        self._component = component
        self._clock = clock
        self._rng = rng
        # What was said, to the path of its event and how often.
        self._said: dict[_Key, tuple[str, int]] = {}

    async def record(
        self,
        kind: str,
        metadata: ObjectMeta,
        reason: str,
        message: str,
        level: Literal["Normal", "Warning"] = "Warning",
    ) -> None:
        """Say something of a core/v1 object such as ``Pod``. Never raises for what the API server answers."""
        message = message[:_LONGEST_MESSAGE]
        key = (kind, metadata.uid or f"{metadata.namespace}/{metadata.name}", reason, message)
        try:
            if not await self._count_up(key):
                await self._create(key, metadata, level)
        except ApiError as error:
            _LOG.debug("event not written reason=%s error=%s", reason, error)

    async def _count_up(self, key: _Key) -> bool:
        """Raise the count of the event that says this; False where there is none (any more)."""
        if key not in self._said:
            return False
        path, count = self._said[key]
        patch = {"count": count + 1, "lastTimestamp": self._now()}
        try:
            await self._client.request("PATCH", path, body=patch, content_type=STRATEGIC_MERGE_PATCH)
        except NotFoundError:
            # The API server forgets events after an hour.
            self._said.pop(key, None)
            return False
        self._said[key] = (path, count + 1)
        return True

    async def _create(self, key: _Key, metadata: ObjectMeta, level: str) -> None:
        kind, _, reason, message = key
        # Events of objects without a namespace live in the default one.
        namespace = metadata.namespace or "default"
        now = self._now()
        name = f"{metadata.name[:200]}.{self._rng.getrandbits(64):016x}"
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": kind,
                "namespace": metadata.namespace,
                "name": metadata.name,
                "uid": metadata.uid,
            },
            "reason": reason,
            "message": message,
            "type": level,
            "source": {"component": self._component},
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
        }
        path = f"/api/v1/namespaces/{namespace}/events"
        await self._client.request("POST", path, body=body)
        self._said[key] = (f"{path}/{name}", 1)
        while len(self._said) > _REMEMBERED:
            del self._said[next(iter(self._said))]

    def _now(self) -> str:
        return datetime.fromtimestamp(self._clock(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
