"""The extender's messages as kube-scheduler writes and reads them.

Written like Go's encoder does: field names as in the Go types, null for what does not apply, no blanks, and ``<``,
``>``, ``&`` escaped. Read like Go's decoder does: the first JSON value only, unknown keys passed over, keys matched
whatever their case, null like absent, and a value of the wrong type an error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clusters.api_client import Object
from clusters.embedded.scheduling.pod_requests import uid_of
from clusters.embedded.scheduling.preemption import Victims

# Go's encoder makes its output safe inside HTML and JavaScript.
ESCAPES = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    chr(0x2028): "\\u2028",
    chr(0x2029): "\\u2029",
}
INT64 = range(-(2**63), 2**63)


class AnswerError(ValueError):
    """An answer that Go's decoder would refuse, or one with ``Error`` set."""


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """ExtenderFilterResult; None where the answer has null or nothing."""

    node_names: list[str] | None = None
    nodes: list[Object] | None = None
    failed: dict[str, str] = field(default_factory=dict)
    unresolvable: dict[str, str] = field(default_factory=dict)


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
    full: Object | None = None
    meta: Object | None = None
    if uids_only:
        meta = {node: victims_of(each, [{"UID": uid_of(pod)} for pod in each.pods]) for node, each in by_name(victims)}
    else:
        full = {node: victims_of(each, [stripped(pod) for pod in each.pods]) for node, each in by_name(victims)}
    return encode({"Pod": stripped(pod), "NodeNameToVictims": full, "NodeNameToMetaVictims": meta})


def by_name(victims: Mapping[str, Victims]) -> list[tuple[str, Victims]]:
    """Go writes maps in the order of their keys."""
    return sorted(victims.items())


def victims_of(victims: Victims, pods: list[Object]) -> Object:
    """Victims or MetaVictims."""
    return {"Pods": pods, "NumPDBViolations": victims.violations}


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
    answer = struct(
        decode(body), "the answer", ("Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error")
    )
    raise_error(answer)
    names = answer["NodeNames"]
    return FilterAnswer(
        node_names=None if names is None else [string(name, "NodeNames") for name in array(names, "NodeNames")],
        nodes=node_items(answer["Nodes"]),
        failed=string_map(answer["FailedNodes"], "FailedNodes"),
        unresolvable=string_map(answer["FailedAndUnresolvableNodes"], "FailedAndUnresolvableNodes"),
    )


def decode_prioritize(body: bytes) -> list[tuple[str, int]]:
    """HostPriorityList: ``(host, score)`` in the order of the answer. Raises AnswerError."""
    entries = [struct(each, "an entry", ("Host", "Score")) for each in array(decode(body), "the answer")]
    return [(string(each["Host"], "Host"), integer(each["Score"], "Score")) for each in entries]


def decode_bind(body: bytes) -> None:
    """ExtenderBindingResult. Raises AnswerError where it says ``Error``."""
    raise_error(struct(decode(body), "the answer", ("Error",)))


def decode_preempt(body: bytes) -> dict[str, tuple[list[str], int]]:
    """ExtenderPreemptionResult: for each node the uids of the victims, and how many a budget protects."""
    nodes = struct(decode(body), "the answer", ("NodeNameToMetaVictims",))["NodeNameToMetaVictims"]
    if nodes is not None and not isinstance(nodes, dict):
        raise AnswerError(f"cannot unmarshal {kind(nodes)} into NodeNameToMetaVictims: an object is expected")
    return {node: meta_victims(each) for node, each in (nodes or {}).items()}


def meta_victims(value: Any) -> tuple[list[str], int]:
    """MetaVictims."""
    victims = struct(value, "MetaVictims", ("Pods", "NumPDBViolations"))
    pods = [struct(each, "MetaPod", ("UID",))["UID"] for each in array(victims["Pods"], "Pods")]
    return [string(uid, "UID") for uid in pods], integer(victims["NumPDBViolations"], "NumPDBViolations")


def decode(body: bytes) -> Any:
    """The first JSON value of a body; what follows is not read."""
    text = body.decode(errors="replace").lstrip(" \t\r\n")
    if not text:
        raise AnswerError("EOF")

    def refuse(constant: str) -> Any:
        raise AnswerError(f"{constant} is not JSON")

    try:
        value, _ = json.JSONDecoder(parse_constant=refuse).raw_decode(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise AnswerError(f"not JSON: {error}") from error
    return value


def struct(value: Any, what: str, names: Sequence[str]) -> dict[str, Any]:
    """The named fields of an object, None where absent; of keys that differ in case only the last wins."""
    fields: dict[str, Any] = dict.fromkeys(names)
    if value is None:
        return fields
    if not isinstance(value, dict):
        raise AnswerError(f"cannot unmarshal {kind(value)} into {what}: an object is expected")
    folded = {name.casefold(): name for name in names}
    for key, content in value.items():
        name = folded.get(key.casefold())
        if name is not None:
            fields[name] = content
    return fields


def raise_error(answer: dict[str, Any]) -> None:
    """An answer with ``Error`` is no answer, whatever else it says."""
    error = string(answer["Error"], "Error")
    if error:
        raise AnswerError(error)


def node_items(value: Any) -> list[Object] | None:
    """The items of a NodeList, each with a name (empty where it has none)."""
    if value is None:
        return None
    items = array(struct(value, "Nodes", ("items",))["items"], "items")
    nodes = [struct(each, "a Node", ("metadata", "spec", "status")) for each in items]
    for node in nodes:
        name = string(struct(node["metadata"], "metadata", ("name",))["name"], "name")
        node["metadata"] = {**(node["metadata"] or {}), "name": name}
    return nodes


def array(value: Any, what: str) -> list[Any]:
    """A JSON array; null is an empty one."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise AnswerError(f"cannot unmarshal {kind(value)} into {what}: an array is expected")
    return value


def string(value: Any, what: str) -> str:
    """A JSON string; null is the empty one."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise AnswerError(f"cannot unmarshal {kind(value)} into {what}: a string is expected")
    return value


def string_map(value: Any, what: str) -> dict[str, str]:
    """An object whose values are strings; its keys are data, so their case stays."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise AnswerError(f"cannot unmarshal {kind(value)} into {what}: an object is expected")
    return {key: string(content, what) for key, content in value.items()}


def integer(value: Any, what: str) -> int:
    """A JSON number without fraction or exponent; null is 0."""
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or value not in INT64:
        raise AnswerError(f"cannot unmarshal {kind(value)} into {what}: a 64-bit integer is expected")
    return value


def kind(value: Any) -> str:
    """What a JSON value is, for a message."""
    if isinstance(value, bool):
        return "a bool"
    if isinstance(value, int | float):
        return f"the number {value}"
    names: dict[type, str] = {str: "a string", list: "an array", dict: "an object"}
    return names.get(type(value), "null")
