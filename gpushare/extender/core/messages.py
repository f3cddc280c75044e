"""The messages of kube-scheduler as values: ``ExtenderArgs``, ``ExtenderFilterResult``, ``ExtenderBindingArgs`` …

The wire form is that of Go structs without json tags (k8s.io/kube-scheduler/extender/v1): keys are Go's field names,
matched without regard to case when read, and ``null`` means absent. Schedulers up to 1.16 send lower case. msgspec
matches case exactly and is fast, so the canonical spelling is tried first and any other on a second, slower look.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from gpushare.bounds import (
    BINDING_BYTES,
    CONTAINERS_OF_A_POD,
    DEEP_QUESTION_BYTES,
    NAME_CHARACTERS,
    NODES_OF_A_QUESTION,
    QUESTION_BYTES,
    VALUES_OF_NODES,
    VALUES_OF_VICTIMS,
    VICTIMS_OF_A_QUESTION,
    Bound,
)
from gpushare.errors import GpushareError
from gpushare.extender.core.filter import FilterResult
from gpushare.extender.core.preempt import Victims
from gpushare.foreign import Decoder, UnreadableError
from gpushare.manifests import AnyObject, ObjectMeta, Pod

_T = TypeVar("_T")


class MalformedMessageError(GpushareError):
    """A body that is not the message it should be."""


class Asked(NamedTuple):
    """The question of filter and prioritize: a pod, and nodes by name.

    ``full`` are these as the bytes that came, which must go back unmodified, if the scheduler sends nodes in full.
    """

    pod: Pod
    names: list[str]
    full: list[msgspec.Raw] | None = None


class _NodeList(msgspec.Struct, gc=False):
    items: list[msgspec.Raw] | None = None


class _ExtenderArgs(msgspec.Struct, rename="pascal", gc=False):
    """Nodes come by name (nodeCacheCapable) or in full."""

    pod: Pod | None = None
    nodes: _NodeList | None = None
    node_names: list[str] | None = None


class BindingArgs(
    msgspec.Struct,
    gc=False,
    rename={"pod_name": "PodName", "pod_namespace": "PodNamespace", "pod_uid": "PodUID", "node": "Node"},
):
    """The order of bind."""

    pod_name: str = ""
    pod_namespace: str = ""
    pod_uid: str = ""
    node: str = ""


class _VictimPod(msgspec.Struct, gc=False, rename={"upper": "UID", "lower": "uid"}):
    """A pod in a preempt question: only its uid, in today's or in the old spelling, or whole."""

    upper: str = ""
    lower: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


class _Victims(
    msgspec.Struct,
    gc=False,
    rename={"pods": "Pods", "violations": "NumPDBViolations", "old_pods": "pods", "old_violations": "numPDBViolations"},
):
    pods: list[_VictimPod] | None = None
    violations: int | None = None
    old_pods: list[_VictimPod] | None = None
    old_violations: int | None = None


class _PreemptionArgs(
    msgspec.Struct,
    gc=False,
    rename={"pod": "Pod", "victims": "NodeNameToVictims", "meta_victims": "NodeNameToMetaVictims"},
):
    pod: Pod | None = None
    victims: dict[str, _Victims | None] | None = None
    meta_victims: dict[str, _Victims | None] | None = None


class _Large(
    msgspec.Struct,
    gc=False,
    rename={"nodes": "Nodes", "old_nodes": "nodes", "victims": "NodeNameToVictims", "old_victims": "nodeNameToVictims"},
):
    """The parts of a question that may be large, as the bytes that came."""

    nodes: msgspec.Raw = msgspec.Raw(b"")
    old_nodes: msgspec.Raw = msgspec.Raw(b"")
    victims: msgspec.Raw = msgspec.Raw(b"")
    old_victims: msgspec.Raw = msgspec.Raw(b"")


class _HostPriority(msgspec.Struct, gc=False, rename="pascal"):
    """How good one node is; a Struct takes half the time of a dict, and there are hundreds in an answer."""

    host: str
    score: int


class _FilterAnswer(
    msgspec.Struct,
    gc=False,
    rename={"fitting": "NodeNames", "failed": "FailedNodes", "unresolvable": "FailedAndUnresolvableNodes"},
):
    fitting: list[str]
    failed: dict[str, str]
    unresolvable: dict[str, str]


_ARGS: Final = Decoder(_ExtenderArgs, DEEP_QUESTION_BYTES.most)
_LARGE: Final = Decoder(_Large, DEEP_QUESTION_BYTES.most)
_POD: Final = Decoder(Pod, DEEP_QUESTION_BYTES.most)
_BINDING: Final = Decoder(BindingArgs, DEEP_QUESTION_BYTES.most)
_PREEMPTION: Final = Decoder(_PreemptionArgs, DEEP_QUESTION_BYTES.most)
_ANSWER: Final = Decoder(_FilterAnswer)
_KEYS: Final = Decoder(dict[str, msgspec.Raw], DEEP_QUESTION_BYTES.most)
_NODE_NAME: Final = Decoder(AnyObject, DEEP_QUESTION_BYTES.most)
_ENCODER: Final = msgspec.json.Encoder()
_FILTER_ANSWER: Final = b'{"Nodes":%b,"NodeNames":%b,"FailedNodes":%b,"FailedAndUnresolvableNodes":%b,"Error":%b}'
# The names of pods and namespaces that Kubernetes allows (RFC 1123).
_OBJECT_NAME: Final = re.compile(r"[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")


def decode_args(body: bytes) -> Asked:
    """The question in a filter's body. Raises MalformedMessageError."""
    _check_size(body)
    args = _decode(_ARGS, body)
    if args.pod is None or (args.nodes is None and args.node_names is None):
        args = _decode(_ARGS, _canonical(body, "Pod", "Nodes", "NodeNames"))
    if args.pod is None:
        raise MalformedMessageError("the request names no Pod")
    _check_pod(args.pod)
    full = args.nodes.items or [] if args.nodes is not None and args.node_names is None else None
    _check(NODES_OF_A_QUESTION, len(args.node_names or full or ()))
    if full is None:
        return Asked(args.pod, args.node_names or [])
    return Asked(args.pod, [_decode(_NODE_NAME, bytes(node)).metadata.name for node in full], full)


def decode_binding(body: bytes) -> BindingArgs:
    """The order in a bind's body. Raises MalformedMessageError, also if pod or node is missing."""
    _check(BINDING_BYTES, len(body))
    args = _decode(_BINDING, body)
    if not (args.pod_name and args.node):
        args = _decode(_BINDING, _canonical(body, "PodName", "PodNamespace", "PodUID", "Node"))
    given = {"PodName": args.pod_name, "PodNamespace": args.pod_namespace, "Node": args.node}
    if missing := [name for name, value in given.items() if not value]:
        raise MalformedMessageError(f"the request lacks {', '.join(missing)}")
    for name in (args.pod_name, args.pod_namespace):
        # These become part of a URL path, in which a slash would make them another object's.
        if _OBJECT_NAME.fullmatch(name) is None:
            raise MalformedMessageError(f"{name[:100]!r} is not the name of an object")
    return args


def decode_pod(body: bytes) -> Pod:
    """A pod's manifest in JSON. Raises MalformedMessageError."""
    _check(QUESTION_BYTES, len(body))
    pod = _decode(_POD, body)
    _check_pod(pod)
    return pod


def decode_preemption(body: bytes) -> tuple[Pod, dict[str, Victims]]:
    """The pod and the proposed victims of each node in a preempt's body. Raises MalformedMessageError."""
    _check_size(body)
    args = _decode(_PREEMPTION, body)
    if args.pod is None or (args.victims is None and args.meta_victims is None):
        names = ("Pod", "NodeNameToVictims", "NodeNameToMetaVictims")
        args = _decode(_PREEMPTION, _canonical(body, *names, nodetovictims="NodeNameToVictims"))
    if args.pod is None:
        raise MalformedMessageError("the request names no Pod")
    _check_pod(args.pod)
    proposed = args.victims if args.meta_victims is None else args.meta_victims
    _check(NODES_OF_A_QUESTION, len(proposed or ()))
    of_nodes = [] if proposed is None else [victims for victims in proposed.values() if victims is not None]
    _check(VICTIMS_OF_A_QUESTION, sum(len(victims.pods or victims.old_pods or ()) for victims in of_nodes))
    return args.pod, {name: _victims(victims or _Victims()) for name, victims in (proposed or {}).items()}


def _victims(proposed: _Victims) -> Victims:
    pods = proposed.pods or proposed.old_pods or ()
    uids = (pod.upper or pod.lower or pod.metadata.uid for pod in pods)
    return Victims(tuple(dict.fromkeys(filter(None, uids))), proposed.violations or proposed.old_violations or 0)


def encode_filter_result(result: FilterResult, nodes: list[msgspec.Raw] | None = None) -> bytes:
    """The answer of filter: names, and if the question had full ``nodes`` those that fit, as they came."""
    full = _ENCODER.encode(None if nodes is None else {"metadata": {}, "items": nodes})
    failed, unresolvable = _reasons_by_name(result.failed), _reasons_by_name(result.unresolvable)
    return _FILTER_ANSWER % (full, _ENCODER.encode(result.fitting), failed, unresolvable, b'""')


def _reasons_by_name(refused: Mapping[str, Sequence[str]]) -> bytes:
    """``{name: reason, …}`` of names by reason."""
    return b"{%b}" % b",".join(_with_reason(names, _ENCODER.encode(reason)) for reason, names in refused.items())


def _with_reason(names: Sequence[str], reason: bytes) -> bytes:
    """Each with the same reason behind it. At 5,000 names that takes a third of the time of a dict and its encoding."""
    if b"\\" in _ENCODER.encode(names):
        # Such a name is none of a node, but may be asked about.
        return b",".join(b"%b:%b" % (_ENCODER.encode(name), reason) for name in names)
    entry = f'":{reason.decode()}'
    return ('"' + (entry + ',"').join(names) + entry).encode()


def reasons_in(answer: bytes) -> dict[str, str]:
    """The answer of filter for each node: why it was refused, "" if it fits."""
    read = _ANSWER.decode(answer)
    return dict.fromkeys(read.fitting, "") | read.failed | read.unresolvable


def fits(answer: bytes, node: str) -> bool:
    """Did filter answer that this node fits? Without decoding an answer of 5,000 names."""
    begin = answer.index(b'"NodeNames":')
    return _ENCODER.encode(node) in answer[begin : answer.index(b'"FailedNodes":', begin)]


def encode_filter_error(error: str) -> bytes:
    """The answer of a filter that could not be done; the scheduler shows ``error`` in the pod's event."""
    return _FILTER_ANSWER % (b"null", b"null", b"null", b"null", _ENCODER.encode(error))


def encode_priorities(scores: Mapping[str, int]) -> bytes:
    """The answer of prioritize: a bare list, in the order asked."""
    return _ENCODER.encode(list(map(_HostPriority, scores, scores.values())))


def encode_victims(found: Mapping[str, Victims]) -> bytes:
    """The answer of preempt: nodes that are not in it are no candidates any more."""
    by_node = {
        name: {"Pods": [{"UID": uid} for uid in victims.uids], "NumPDBViolations": victims.violations}
        for name, victims in found.items()
    }
    return _ENCODER.encode({"NodeNameToMetaVictims": by_node})


def encode_binding_result(error: str = "") -> bytes:
    """The answer of bind: an empty ``Error`` means bound."""
    return _ENCODER.encode({"Error": error})


def encode_json(value: Any) -> bytes:
    """Anything else that we answer."""
    return _ENCODER.encode(value)


def _check_size(body: bytes) -> None:
    """Refuse a question that would take much more memory than its bytes. Raises MalformedMessageError."""
    if not QUESTION_BYTES.exceeded(len(body)):
        return
    large = _decode(_LARGE, body)
    victims = _length(large.victims) + _length(large.old_victims)
    _check(QUESTION_BYTES, len(body) - victims - _length(large.nodes) - _length(large.old_nodes))
    _check(VALUES_OF_VICTIMS if victims else VALUES_OF_NODES, body.count(b","))


def _length(raw: msgspec.Raw) -> int:
    return memoryview(raw).nbytes


def _check_pod(pod: Pod) -> None:
    _check(NAME_CHARACTERS, max(len(pod.metadata.name), len(pod.metadata.namespace), len(pod.metadata.uid)))
    _check(CONTAINERS_OF_A_POD, len(pod.spec.containers or ()) + len(pod.spec.init_containers or ()))


def _check(bound: Bound, amount: int) -> None:
    if bound.exceeded(amount):
        raise MalformedMessageError(bound.refusal)


def _decode(decoder: Decoder[_T], body: bytes) -> _T:
    try:
        return decoder.decode(body)
    except UnreadableError as error:
        what = "the request body is empty" if not body.strip() else f"the request body cannot be read: {error}"
        raise MalformedMessageError(what) from error


def _canonical(body: bytes, *names: str, **former: str) -> bytes:
    """The same object with its top-level keys in canonical spelling; of two spellings the later wins, as in Go."""
    read, keys = _decode(_KEYS, body), {name.lower(): name for name in names} | former
    return _ENCODER.encode({keys.get(key.lower(), key): value for key, value in read.items()})
