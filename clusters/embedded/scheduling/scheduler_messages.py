"""The extender's messages as kube-scheduler writes and reads them.

Written like Go's encoder does: field names as in the Go types, null for what does not apply, no blanks, and ``<``,
``>``, ``&`` escaped. Read like Go's decoder does (``go_json``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clusters.api_client import Object
from clusters.embedded.scheduling.go_json import (
    AnswerError,
    Struct,
    array,
    decode,
    integer,
    mapping,
    string,
    strings,
    struct,
)
from clusters.embedded.scheduling.preemption import Victims
from clusters.embedded.scheduling.scheduler_pod_requests import uid_of

# Go's encoder makes its output safe inside HTML and JavaScript.
ESCAPES = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    chr(0x2028): "\\u2028",
    chr(0x2029): "\\u2029",
}


FILTER_RESULT = Struct(
    "ExtenderFilterResult", ("Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error")
)
HOST_PRIORITY = Struct("HostPriority", ("Host", "Score"))
BINDING_RESULT = Struct("ExtenderBindingResult", ("Error",))
PREEMPTION_RESULT = Struct("ExtenderPreemptionResult", ("NodeNameToMetaVictims",))
META_VICTIMS = Struct("MetaVictims", ("Pods", "NumPDBViolations"))
META_POD = Struct("MetaPod", ("UID",))
NODE_LIST = Struct("NodeList", ("items",))
NODE = Struct("Node", ("metadata", "spec", "status"))
OBJECT_META = Struct("ObjectMeta", ("name",))


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """ExtenderFilterResult; None if the answer has null or nothing."""

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
    answer = struct(decode(body), FILTER_RESULT)
    raise_error(answer, FILTER_RESULT)
    names = answer["NodeNames"]
    return FilterAnswer(
        node_names=None if names is None else strings(names, FILTER_RESULT.field("NodeNames")),
        nodes=node_items(answer["Nodes"]),
        failed=string_map(answer["FailedNodes"], FILTER_RESULT.field("FailedNodes")),
        unresolvable=string_map(
            answer["FailedAndUnresolvableNodes"], FILTER_RESULT.field("FailedAndUnresolvableNodes")
        ),
    )


def decode_prioritize(body: bytes) -> list[tuple[str, int]]:
    """HostPriorityList: ``(host, score)`` in the order of the answer. Raises AnswerError."""
    entries = [struct(each, HOST_PRIORITY) for each in array(decode(body), "Go value", "v1.HostPriorityList")]
    return [
        (string(each["Host"], HOST_PRIORITY.field("Host")), integer(each["Score"], HOST_PRIORITY.field("Score")))
        for each in entries
    ]


def decode_bind(body: bytes) -> None:
    """ExtenderBindingResult. Raises AnswerError if it has an ``Error``."""
    raise_error(struct(decode(body), BINDING_RESULT), BINDING_RESULT)


def decode_preempt(body: bytes) -> dict[str, tuple[list[str], int]]:
    """ExtenderPreemptionResult: for each node the uids of the victims, and how many a budget protects."""
    nodes = struct(decode(body), PREEMPTION_RESULT)["NodeNameToMetaVictims"]
    where = PREEMPTION_RESULT.field("NodeNameToMetaVictims")
    return {node: meta_victims(each) for node, each in mapping(nodes, where, "map[string]*v1.MetaVictims").items()}


def meta_victims(value: Any) -> tuple[list[str], int]:
    """MetaVictims."""
    victims = struct(value, META_VICTIMS)
    pods = [
        struct(each, META_POD)["UID"] for each in array(victims["Pods"], META_VICTIMS.field("Pods"), "[]*v1.MetaPod")
    ]
    violations = integer(victims["NumPDBViolations"], META_VICTIMS.field("NumPDBViolations"))
    return [string(uid, META_POD.field("UID")) for uid in pods], violations


def raise_error(answer: dict[str, Any], shape: Struct) -> None:
    """An answer with ``Error`` is no answer, whatever else it has."""
    error = string(answer["Error"], shape.field("Error"))
    if error:
        raise AnswerError(error)


def node_items(value: Any) -> list[Object] | None:
    """The items of a NodeList, each with a name (empty if it has none)."""
    if value is None:
        return None
    where = FILTER_RESULT.field("Nodes")
    items = array(struct(value, NODE_LIST, where)["items"], f"{where}.items", "[]v1.Node")
    nodes = [struct(each, NODE, f"{where}.items") for each in items]
    for node in nodes:
        name = string(
            struct(node["metadata"], OBJECT_META, f"{where}.items.metadata")["name"], f"{where}.items.metadata.name"
        )
        node["metadata"] = {**(node["metadata"] or {}), "name": name}
    return nodes


def string_map(value: Any, where: str) -> dict[str, str]:
    """An object with values that are strings."""
    return {key: string(content, where) for key, content in mapping(value, where, "v1.FailedNodesMap").items()}
