"""Calls one scheduler extender over HTTP, by kube-scheduler's rules.

One POST per call. Only status 200 is success; the body of any other answer is not read. The timeout covers the call
from connecting to the last byte.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp
import msgspec

from clusters.api.api_client import Object, uid_of
from clusters.api.connection import pem, trusting
from clusters.api.exchanges import note
from clusters.embedded.scheduling.cluster_view import NodeInfo, node_info
from clusters.embedded.scheduling.configuration import ConfigurationError, ExtenderConfiguration, TLSConfiguration
from clusters.embedded.scheduling.preemption import Victims

# Go's encoder makes its output safe inside HTML and JavaScript.
ESCAPES = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    chr(0x2028): "\\u2028",
    chr(0x2029): "\\u2029",
}
_Shape = TypeVar("_Shape", bound=msgspec.Struct)


class AnswerError(ValueError):
    """An answer that Go's decoder would refuse, or one with ``Error`` set."""


class NodeList(msgspec.Struct):
    """The objects of an answer without a node cache; none if Go has written an empty list as null."""

    items: list[dict[str, Any]] | None = None


class FilterAnswer(msgspec.Struct, rename="lower"):
    """ExtenderFilterResult; None if the answer has null or nothing."""

    nodenames: list[str] | None = None
    nodes: NodeList | None = None
    failednodes: dict[str, str] = {}
    failedandunresolvablenodes: dict[str, str] = {}
    error: str = ""


class _HostPriority(msgspec.Struct):
    host: str = ""
    score: int = 0


class _BindingResult(msgspec.Struct):
    error: str = ""


class _PreemptionResult(msgspec.Struct):
    nodenametometavictims: dict[str, dict[str, Any] | None] = {}


class _MetaVictims(msgspec.Struct):
    pods: list[dict[str, Any]] = []
    numpdbviolations: int = 0


class _MetaPod(msgspec.Struct):
    uid: str = ""


def filter_request(pod: Object, *, nodes: Sequence[Object] | None = None, names: Sequence[str] | None = None) -> bytes:
    """ExtenderArgs: with whole nodes, or with names only. Prioritize sends the same."""
    node_list = None if nodes is None else {"metadata": {}, "items": [stripped(node) for node in nodes]}
    return encode({"Pod": stripped(pod), "Nodes": node_list, "NodeNames": None if names is None else list(names)})


def bind_request(pod: Object, node: str) -> bytes:
    """ExtenderBindingArgs."""
    metadata = pod["metadata"]
    return encode(
        {
            "PodName": metadata["name"],
            "PodNamespace": metadata.get("namespace", "default"),
            "PodUID": metadata["uid"],
            "Node": node,
        }
    )


def preempt_request(pod: Object, victims: Mapping[str, Victims], *, uids_only: bool) -> bytes:
    """ExtenderPreemptionArgs: whole victims, or their uids for an extender that knows the pods."""

    def victims_of(each: Victims) -> Object:
        pods = [{"UID": uid_of(victim)} if uids_only else stripped(victim) for victim in each.pods]
        return {"Pods": pods, "NumPDBViolations": each.violations}

    # Go writes maps in the order of their keys.
    asked = {node: victims_of(each) for node, each in sorted(victims.items())}
    full, meta = (None, asked) if uids_only else (asked, None)
    return encode({"Pod": stripped(pod), "NodeNameToVictims": full, "NodeNameToMetaVictims": meta})


def stripped(item: Object) -> Object:
    """An object as it lies in the scheduler's cache: without kind, apiVersion and managedFields."""
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    return {"metadata": metadata, "spec": item.get("spec") or {}, "status": item.get("status") or {}}


def encode(message: Any) -> bytes:
    """JSON as Go writes it."""
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    for character, escape in ESCAPES.items():
        text = text.replace(character, escape)
    return text.encode()


def decode_filter(body: bytes) -> FilterAnswer:
    """ExtenderFilterResult. Raises AnswerError."""
    answer = fields_of(first_value(body), FilterAnswer)
    if answer.error:
        raise AnswerError(answer.error)
    return answer


def decode_prioritize(body: bytes) -> list[tuple[str, int]]:
    """HostPriorityList: ``(host, score)`` in the order of the answer. Raises AnswerError."""
    entries = first_value(body) or []
    if not isinstance(entries, list):
        raise AnswerError("a list of hosts and scores is expected")
    return [(each.host, each.score) for each in (fields_of(entry, _HostPriority) for entry in entries)]


def decode_bind(body: bytes) -> None:
    """ExtenderBindingResult. Raises AnswerError if it has an ``Error``."""
    answer = fields_of(first_value(body), _BindingResult)
    if answer.error:
        raise AnswerError(answer.error)


def decode_preempt(body: bytes) -> dict[str, tuple[list[str], int]]:
    """ExtenderPreemptionResult: for each node the uids of the victims, and how many a budget protects. Raises AnswerError."""
    nodes = fields_of(first_value(body), _PreemptionResult).nodenametometavictims
    victims = {node: fields_of(each, _MetaVictims) for node, each in nodes.items()}
    return {
        node: ([fields_of(pod, _MetaPod).uid for pod in each.pods], each.numpdbviolations)
        for node, each in victims.items()
    }


def first_value(body: bytes) -> Any:
    """The first JSON value of a body; what follows is not read. Raises AnswerError."""
    try:
        value, _ = json.JSONDecoder().raw_decode(body.decode(errors="replace").lstrip(" \t\r\n"))
    except json.JSONDecodeError as error:
        raise AnswerError(f"the answer is no JSON: {error}") from error
    return value


def fields_of(value: Any, shape: type[_Shape]) -> _Shape:
    """The fields of an object; of keys that differ in case only the last wins. Raises AnswerError for wrong types."""
    if isinstance(value, dict):
        value = {key.casefold(): content for key, content in value.items() if content is not None}
    try:
        return msgspec.convert({} if value is None else value, shape)
    except msgspec.ValidationError as error:
        raise AnswerError(f"the answer cannot be read: {error}") from error


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
