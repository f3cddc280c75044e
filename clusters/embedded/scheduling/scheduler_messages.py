"""The extender's messages as kube-scheduler writes and reads them.

Written like Go's encoder does: field names as in the Go types, null for what does not apply, no blanks, and ``<``, ``>``,
``&`` escaped. Read like Go's decoder does: the first JSON value only, unknown keys passed over, keys matched whatever their
case, null like absent, and a value of the wrong type an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from clusters.api.api_client import Object
from clusters.embedded.scheduling.pod_fields import uid_of
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
