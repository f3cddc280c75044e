"""Calls one scheduler extender over HTTP, by kube-scheduler's rules.

One POST per call. Only status 200 is success; the body of any other answer is not read. The timeout covers the call
from connecting to the last byte.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp

from clusters.api.api_client import Object
from clusters.api.cluster_access import pem, trusting
from clusters.api.exchanges import note
from clusters.embedded.scheduling.cluster_view import NodeInfo, node_info
from clusters.embedded.scheduling.configuration import ConfigurationError, ExtenderConfiguration, TLSConfiguration
from clusters.embedded.scheduling.preemption import Victims
from clusters.embedded.scheduling.scheduler_messages import (
    AnswerError,
    FilterAnswer,
    bind_request,
    decode_bind,
    decode_filter,
    decode_preempt,
    decode_prioritize,
    filter_request,
    preempt_request,
)

# How long an idle connection is kept, in seconds; net/http's default transport does the same.
IDLE_SECONDS = 90
# The headers that Go's client sends, and no more: some servers look at them.
HEADERS = {"User-Agent": "Go-http-client/1.1", "Accept-Encoding": "gzip"}


class ExtenderError(Exception):
    """A call that failed as a whole: no answer, a status other than 200, a broken answer, or ``Error`` in it."""


@dataclass(frozen=True, slots=True)
class Filtered:
    """The nodes that an extender lets through, and its words about the others."""

    nodes: list[NodeInfo]
    failed: dict[str, str] = field(default_factory=dict)
    unresolvable: dict[str, str] = field(default_factory=dict)


class ExtenderClient:
    """One extender and its connections."""

    def __init__(self, configuration: ExtenderConfiguration) -> None:
        self.configuration = configuration
        self._tls = context_for(configuration) if configuration.url_prefix.startswith("https://") else True
        self._server_name = (configuration.tls and configuration.tls.server_name) or None
        self._opened: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        if self._opened is not None:
            await self._opened.close()

    def _http(self) -> aiohttp.ClientSession:
        """With the first call, as it belongs to the loop that runs."""
        if self._opened is None:
            self._opened = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=self._tls, keepalive_timeout=IDLE_SECONDS),
                headers=HEADERS,
                skip_auto_headers=("Accept",),
                cookie_jar=aiohttp.DummyCookieJar(),
                # asyncio.timeout covers the call as a whole.
                timeout=aiohttp.ClientTimeout(),
            )
        return self._opened

    async def filter(self, pod: Object, nodes: Sequence[NodeInfo]) -> Filtered:
        """Ask which nodes hold the pod; without a filterVerb all do. Raises ExtenderError."""
        verb = self.configuration.filter_verb
        if not verb:
            return Filtered(list(nodes))
        body = await self._post(verb, self._arguments(pod, nodes))
        try:
            answer = decode_filter(body)
            nodes_left = self._let_through(answer, nodes)
            return Filtered(nodes_left, answer.failednodes, answer.failedandunresolvablenodes)
        except ValueError as error:
            raise ExtenderError(str(error)) from error

    async def prioritize(self, pod: Object, nodes: Sequence[NodeInfo]) -> list[tuple[str, int]]:
        """Ask for ``(node, score times weight)``. Raises ExtenderError."""
        body = await self._post(self.configuration.prioritize_verb, self._arguments(pod, nodes))
        try:
            return [(host, score * self.configuration.weight) for host, score in decode_prioritize(body)]
        except AnswerError as error:
            raise ExtenderError(str(error)) from error

    async def preempt(
        self, pod: Object, victims: Mapping[str, Victims], node: Callable[[str], NodeInfo | None]
    ) -> dict[str, Victims]:
        """Have the extender choose among nodes and victims; its answer replaces the question. Raises ExtenderError."""
        verb = self.configuration.preempt_verb
        uids_only = self.configuration.node_cache_capable
        body = await self._post(verb, preempt_request(pod, victims, uids_only=uids_only))
        try:
            answer = decode_preempt(body)
        except AnswerError as error:
            raise ExtenderError(str(error)) from error
        return {name: self._victims(name, node(name), *meta) for name, meta in answer.items()}

    def _victims(self, name: str, info: NodeInfo | None, uids: list[str], violations: int) -> Victims:
        if info is None:
            raise ExtenderError(f'nodeinfo not found for node name "{name}"')
        for uid in uids:
            if uid not in info.pods:
                raise ExtenderError(
                    f"extender: {self.configuration.url_prefix} claims to preempt pod (UID: &{{{uid}}}) on node: {name}, "
                    "but the pod is not found on that node"
                )
        return Victims(tuple(info.pods[uid].pod for uid in uids), violations)

    async def bind(self, pod: Object, node: str) -> None:
        """Have the extender bind the pod; returning means bound. Raises ExtenderError."""
        body = await self._post(self.configuration.bind_verb, bind_request(pod, node))
        try:
            decode_bind(body)
        except AnswerError as error:
            raise ExtenderError(str(error)) from error

    def _arguments(self, pod: Object, nodes: Sequence[NodeInfo]) -> bytes:
        if self.configuration.node_cache_capable:
            return filter_request(pod, names=[info.name for info in nodes])
        return filter_request(pod, nodes=[info.node for info in nodes])

    def _let_through(self, answer: FilterAnswer, nodes: Sequence[NodeInfo]) -> list[NodeInfo]:
        """With a node cache the names count, and each must have been asked about; else the returned nodes do."""
        if self.configuration.node_cache_capable and answer.nodenames is not None:
            asked = {info.name: info for info in nodes}
            for name in answer.nodenames:
                if name not in asked:
                    raise AnswerError(
                        f'extender "{self.configuration.url_prefix}" claims a filtered node "{name}" '
                        "which is not found in the input node list"
                    )
            return [asked[name] for name in answer.nodenames]
        return [node_info(node) for node in (answer.nodes.items or ())] if answer.nodes is not None else []

    async def _post(self, verb: str, content: bytes) -> bytes:
        url = f"{self.configuration.url_prefix.rstrip('/')}/{verb}"
        begun = time.monotonic()
        try:
            async with (
                asyncio.timeout(self.configuration.timeout_seconds),
                self._http().post(
                    url,
                    data=content,
                    headers={"Content-Type": "application/json"},
                    server_hostname=self._server_name,
                    allow_redirects=False,
                ) as response,
            ):
                body = await response.read() if response.status == 200 else b""
                note(f"POST {url}", content, response.status, body, begun)
                if response.status != 200:
                    raise ExtenderError(f"failed {verb} with extender at URL {url}, code {response.status}")
                return body
        except TimeoutError as error:
            raise ExtenderError(
                f'Post "{url}": deadline of {self.configuration.timeout_seconds:g} s exceeded'
            ) from error
        except (aiohttp.ClientError, OSError) as error:
            raise ExtenderError(f'Post "{url}": {str(error) or type(error).__name__}') from error


def context_for(extender: ExtenderConfiguration) -> ssl.SSLContext:
    """How to verify the extender, and what to show it.

    ``enableHTTPS`` without a CA means that the certificate is not verified: kube-scheduler does so, without a warning.
    Raises ConfigurationError for files that cannot be read or used.
    """
    tls = extender.tls or TLSConfiguration()
    has_ca = bool(tls.ca_file or tls.ca_data)
    insecure = tls.insecure or (extender.enable_https and not has_ca)
    if insecure and has_ca:
        raise ConfigurationError(f"{extender.url_prefix}: tlsConfig has both a CA and insecure")
    try:
        return trusting(
            pem(tls.ca_data, tls.ca_file),
            pem(tls.cert_data, tls.cert_file),
            pem(tls.key_data, tls.key_file),
            insecure=insecure,
        )
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{extender.url_prefix}: tlsConfig cannot be used: {error}") from error
