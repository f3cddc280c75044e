"""Calls one scheduler extender over HTTP, by kube-scheduler's rules.

One POST per call. Only status 200 is success; the body of any other answer is not read. The timeout covers the call
from connecting to the last byte.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from clusters.api.api_client import Object
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
        over_tls = configuration.url_prefix.startswith("https://")
        self._http = httpx2.AsyncClient(
            verify=context_for(configuration) if over_tls else False,
            # asyncio.timeout covers the call as a whole.
            timeout=None,
            trust_env=False,
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=IDLE_SECONDS),
            headers=HEADERS,
        )
        for name in ("accept", "connection"):
            del self._http.headers[name]
        name = configuration.tls.server_name if configuration.tls else ""
        self._extensions = {"sni_hostname": name} if name else {}

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

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
        return [node_info(node) for node in answer.nodes.items] if answer.nodes is not None else []

    async def _post(self, verb: str, content: bytes) -> bytes:
        url = f"{self.configuration.url_prefix.rstrip('/')}/{verb}"
        try:
            async with (
                asyncio.timeout(self.configuration.timeout_seconds),
                self._http.stream(
                    "POST",
                    url,
                    content=content,
                    headers={"Content-Type": "application/json"},
                    extensions=self._extensions,
                ) as response,
            ):
                if response.status_code != 200:
                    raise ExtenderError(f"failed {verb} with extender at URL {url}, code {response.status_code}")
                return await response.aread()
        except TimeoutError as error:
            raise ExtenderError(
                f'Post "{url}": deadline of {self.configuration.timeout_seconds:g} s exceeded'
            ) from error
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
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
        context = ssl.create_default_context()
        if insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if has_ca:
            context = ssl.create_default_context(cadata=text_of(tls.ca_data, tls.ca_file))
        load_client_certificate(context, tls)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"{extender.url_prefix}: tlsConfig cannot be used: {error}") from error
    return context


def text_of(data: bytes, file: str) -> str:
    """PEM from data, else from the file."""
    return data.decode("ascii") if data else Path(file).read_text("ascii")


def load_client_certificate(context: ssl.SSLContext, tls: TLSConfiguration) -> None:
    """Show a client certificate if the configuration names one."""
    if not (tls.cert_data or tls.cert_file):
        return
    # OpenSSL reads a certificate and its key from files only.
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as both:
        both.write(text_of(tls.cert_data, tls.cert_file) + "\n" + text_of(tls.key_data, tls.key_file))
        both.flush()
        context.load_cert_chain(both.name)
