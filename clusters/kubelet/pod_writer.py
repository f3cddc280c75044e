"""A kubelet's writes about one pod: its status, events, and in the end its deletion."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from clusters.api.api_client import ApiClient, ApiError
from clusters.api.connection import TransportError
from clusters.api.resources import PODS
from clusters.kubelet.pod_status import timestamp
from clusters.kubelet.pods import Object, uid_of

_LOG = logging.getLogger(__name__)

# Between two attempts while the API server does not answer, in seconds.
_RETRY_SECONDS: Final = 0.5
# The pod is gone, or another one has its name.
_GONE: Final = (404, 409, 422)
# A merge leaves what it does not name: a pod that is turned away after it has run would seem to run on.
_NO_CONTAINERS: Final = {"containerStatuses": None, "initContainerStatuses": None}


class PodWriter:
    """Writes the newest status; states that changed before they could be written are left out."""

    def __init__(
        self, client: ApiClient, pod: Object, node: str, clock: Callable[[], float], delay_seconds: float
    ) -> None:
        self._client = client
        self._uid = uid_of(pod)
        self._name = str(pod["metadata"]["name"])
        self._namespace = str(pod["metadata"]["namespace"])
        self._node = node
        self._clock = clock
        self._delay_seconds = delay_seconds
        self._wanted: Object | None = None
        self._written: Object | None = None
        self._task: asyncio.Task[None] | None = None
        self._events = 0

    def publish(self, status: Object) -> None:
        """Have ``status`` written soon."""
        self._wanted = status
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write(), name=f"status of {self._namespace}/{self._name}")

    async def flush(self) -> None:
        """Wait until the newest status is written."""
        if self._task is not None:
            await self._task

    async def stop(self) -> None:
        """Write no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def delete(self) -> None:
        """Remove the object: its containers are gone."""
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": self._uid}}
        await self._send("DELETE", PODS.path(self._namespace, self._name), body)

    async def warn(self, reason: str, message: str) -> None:
        """A Warning event on the pod."""
        self._events += 1
        seconds = self._clock()
        now = timestamp(seconds)
        # By the time, as real components name theirs: a counter alone meets the scheduler's events, and those of before a restart.
        name = f"{self._name}.{int(seconds * 1e9) + self._events:x}"
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": self._namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": self._name,
                "namespace": self._namespace,
                "uid": self._uid,
            },
            "type": "Warning",
            "reason": reason,
            "message": message[:1024],
            "source": {"component": "kubelet", "host": self._node},
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
        }
        try:
            await self._client.create(event)
        except (ApiError, TransportError) as error:
            _LOG.warning("event lost pod=%s/%s reason=%s error=%s", self._namespace, self._name, reason, error)

    async def _write(self) -> None:
        while self._wanted != self._written:
            await asyncio.sleep(self._delay_seconds)
            status = self._wanted
            body = {"metadata": {"uid": self._uid}, "status": {**_NO_CONTAINERS, **(status or {})}}
            await self._send("PATCH", PODS.path(self._namespace, self._name, "status"), body)
            self._written = status

    async def _send(self, method: str, path: str, body: Any) -> None:
        """Send until the API server has answered; a refusal that will not pass is logged."""
        kind = "application/json" if method == "DELETE" else "application/strategic-merge-patch+json"
        while True:
            try:
                await self._client.request(method, path, body=body, content_type=kind)
                return
            except ApiError as error:
                if error.code < 500 and error.code != 429:
                    if error.code not in _GONE:
                        _LOG.error("%s refused path=%s error=%s", method, path, error)
                    return
            except TransportError as error:
                _LOG.warning("no answer, trying again path=%s error=%r", path, error)
            await asyncio.sleep(_RETRY_SECONDS)
