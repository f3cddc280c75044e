"""The log of a container, from the kubelet of its pod's node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Final
from urllib.parse import quote

from clusters.api.connection import Connection, Stream, TransportError
from clusters.api.resources import NODES
from clusters.embedded.apiserver.api_objects import Object, name_of, namespace_of
from clusters.embedded.apiserver.refusals import RefusalError, bad_request, internal
from clusters.embedded.apiserver.requests import Answer, Request
from clusters.embedded.apiserver.store import Store

# The part of the query that the kubelet reads; everything else is for the API server.
_PASSED: Final = ("follow", "previous", "timestamps", "tailLines", "limitBytes", "sinceSeconds", "sinceTime")


class PodLogs:
    """Asks kubelets for logs until ``close``."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._http = Connection()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()

    async def read(self, pod: Object, request: Request) -> Answer:
        """The log of one container. Raises RefusalError (400, 404, 500)."""
        container = container_of(pod, request.params.get("container", ""))
        url = self._url(pod, container)
        params: dict[str, str] = {key: request.params[key] for key in _PASSED if key in request.params}
        # A log that is followed may say nothing for a long time.
        asked = self._http.stream("GET", url, params=params, silent_for=None)
        async with AsyncExitStack() as stack:
            try:
                response = await stack.enter_async_context(asked)
            except TransportError as error:
                raise internal(f'Get "{url}": {error}') from error
            if response.status_code >= 400:
                raise _refusal(response.status_code, (await response.read()).decode(errors="replace").strip())
            return Answer(_pieces(response, stack.pop_all()), content_type="text/plain")

    def _url(self, pod: Object, container: str) -> str:
        node = pod["spec"].get("nodeName", "")
        if not node:
            raise bad_request(f"pod {name_of(pod)} does not have a host assigned")
        path = "/".join(quote(part, safe="") for part in (namespace_of(pod), name_of(pod), container))
        return f"http://127.0.0.1:{self._port(node)}/containerLogs/{path}"

    def _port(self, node: str) -> int:
        stored = self._store.get(NODES, "", node)
        port = stored.item["status"]["daemonEndpoints"].get("kubeletEndpoint", {}).get("Port") if stored else None
        if not isinstance(port, int) or not port:
            raise internal(f'node "{node}" is not there, or does not say on which port its kubelet listens')
        return port


def container_of(pod: Object, wanted: str) -> str:
    """The container that the request means. Raises RefusalError (400) if that is not clear."""
    names = [each["name"] for each in pod["spec"].get("containers", [])]
    initial = [each["name"] for each in pod["spec"].get("initContainers", [])]
    if wanted in names or wanted in initial:
        return wanted
    if wanted:
        raise bad_request(f"container {wanted} is not valid for pod {name_of(pod)}")
    if len(names) != 1:
        choices = " ".join(names)
        raise bad_request(f"a container name must be specified for pod {name_of(pod)}, choose one of: [{choices}]")
    return str(names[0])


async def _pieces(response: Stream, opened: AsyncExitStack) -> AsyncIterator[bytes]:
    async with opened:
        async for piece in response.pieces():
            yield piece


def _refusal(code: int, text: str) -> RefusalError:
    text = text or f"the kubelet answered {code}"
    reason = {400: "BadRequest", 404: "NotFound", 405: "MethodNotAllowed"}.get(code)
    return RefusalError(code, reason, text) if reason else internal(text)
