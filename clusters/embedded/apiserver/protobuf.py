"""Bodies in protobuf, as kubectl's own commands send them (``auth can-i``, ``create token``): read, never written.

Only kinds that such commands send are known; each message is a table from field numbers to JSON names. Answers are
JSON, which every client takes. Pure.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from clusters.embedded.apiserver.api_objects import Object

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its JSON name, what is in it (a word or the table of a message), and whether it repeats."""

    name: str
    kind: str | dict[int, Field] = "text"
    many: bool = False


def _texts(**names: int) -> dict[int, Field]:
    return {number: Field(name) for name, number in names.items()}


_OWNER: Final = {
    **_texts(kind=1, name=3, uid=4, apiVersion=5),
    6: Field("controller", "flag"),
    7: Field("blockOwnerDeletion", "flag"),
}
_METADATA: Final = {
    **_texts(name=1, generateName=2, namespace=3, uid=5, resourceVersion=6),
    7: Field("generation", "number"),
    8: Field("creationTimestamp", "time"),
    11: Field("labels", "map"),
    12: Field("annotations", "map"),
    13: Field("ownerReferences", _OWNER, many=True),
    14: Field("finalizers", many=True),
}
_RESOURCE: Final = _texts(namespace=1, verb=2, group=3, version=4, resource=5, subresource=6, name=7)
_PATH: Final = _texts(path=1, verb=2)
_WISH: Final = {1: Field("resourceAttributes", _RESOURCE), 2: Field("nonResourceAttributes", _PATH)}
_SUBJECT_REVIEW: Final = {**_WISH, 3: Field("user"), 4: Field("groups", many=True), 6: Field("uid")}
_BOUND: Final = _texts(kind=1, apiVersion=2, name=3, uid=4)
_TOKEN: Final = {
    1: Field("audiences", many=True),
    3: Field("boundObjectRef", _BOUND),
    4: Field("expirationSeconds", "number"),
}
_OPTIONS: Final = {
    1: Field("gracePeriodSeconds", "number"),
    2: Field("preconditions", _texts(uid=1, resourceVersion=2)),
    3: Field("orphanDependents", "flag"),
    4: Field("propagationPolicy"),
    5: Field("dryRun", many=True),
}
_RULE: Final = {
    number: Field(name, many=True)
    for number, name in enumerate(("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs"), start=1)
}
_SUBJECT: Final = _texts(kind=1, apiGroup=2, name=3, namespace=4)
_ROLE: Final = {2: Field("rules", _RULE, many=True)}
_BINDING: Final = {2: Field("subjects", _SUBJECT, many=True), 3: Field("roleRef", _texts(apiGroup=1, kind=2, name=3))}
_HEAD: Final = {1: Field("metadata", _METADATA)}
_KINDS: dict[str, dict[int, Field]] = {
    "SelfSubjectAccessReview": {**_HEAD, 2: Field("spec", _WISH)},
    "SelfSubjectRulesReview": {**_HEAD, 2: Field("spec", _texts(namespace=1))},
    "SubjectAccessReview": {**_HEAD, 2: Field("spec", _SUBJECT_REVIEW)},
    "LocalSubjectAccessReview": {**_HEAD, 2: Field("spec", _SUBJECT_REVIEW)},
    "SelfSubjectReview": _HEAD,
    "TokenReview": {**_HEAD, 2: Field("spec", {1: Field("token"), 2: Field("audiences", many=True)})},
    "TokenRequest": {**_HEAD, 2: Field("spec", _TOKEN)},
    "DeleteOptions": _OPTIONS,
    "Eviction": {**_HEAD, 2: Field("deleteOptions", _OPTIONS)},
    "Namespace": {**_HEAD, 2: Field("spec", {1: Field("finalizers", many=True)}), 3: Field("status", _texts(phase=1))},
    "ConfigMap": {**_HEAD, 2: Field("data", "map"), 3: Field("binaryData", "bytes map"), 4: Field("immutable", "flag")},
    "ServiceAccount": {
        **_HEAD,
        3: Field("imagePullSecrets", _texts(name=1), many=True),
        4: Field("automountServiceAccountToken", "flag"),
    },
    "Role": {**_HEAD, **_ROLE},
    "ClusterRole": {**_HEAD, **_ROLE},
    "RoleBinding": {**_HEAD, **_BINDING},
    "ClusterRoleBinding": {**_HEAD, **_BINDING},
    "PriorityClass": {
        **_HEAD,
        2: Field("value", "number"),
        3: Field("globalDefault", "flag"),
        4: Field("description"),
        5: Field("preemptionPolicy"),
    },
}
_SELECTOR: Final = {
    1: Field("matchLabels", "map"),
    2: Field("matchExpressions", {**_texts(key=1, operator=2), 3: Field("values", many=True)}, many=True),
}
_CONTAINER: Final = {
    **_texts(name=1, image=2, workingDir=5, imagePullPolicy=14),
    3: Field("command", many=True),
    4: Field("args", many=True),
    6: Field("ports", {**_texts(name=1, protocol=4), 3: Field("containerPort", "number")}, many=True),
    7: Field("env", _texts(name=1, value=2), many=True),
    8: Field("resources", {1: Field("limits", "quantities"), 2: Field("requests", "quantities")}),
}
_POD: Final = {**_texts(restartPolicy=3, serviceAccountName=8), 2: Field("containers", _CONTAINER, many=True)}
_POD_TEMPLATE: Final = {1: Field("metadata", _METADATA), 2: Field("spec", _POD)}
_DEPLOYMENT: Final = {
    1: Field("replicas", "number"),
    2: Field("selector", _SELECTOR),
    3: Field("template", _POD_TEMPLATE),
}
_JOB: Final = {
    1: Field("parallelism", "number"),
    2: Field("completions", "number"),
    3: Field("activeDeadlineSeconds", "number"),
    6: Field("template", _POD_TEMPLATE),
    7: Field("backoffLimit", "number"),
    8: Field("ttlSecondsAfterFinished", "number"),
}
_BUDGET: Final = {
    1: Field("minAvailable", "number or text"),
    2: Field("selector", _SELECTOR),
    3: Field("maxUnavailable", "number or text"),
}
_PORT: Final = {
    **_texts(name=1, protocol=2),
    3: Field("port", "number"),
    4: Field("targetPort", "number or text"),
    5: Field("nodePort", "number"),
}
_SERVICE: Final = {
    **_texts(clusterIP=3, type=4, externalName=10),
    1: Field("ports", _PORT, many=True),
    2: Field("selector", "map"),
    5: Field("externalIPs", many=True),
}
_KINDS |= {
    "Deployment": {**_HEAD, 2: Field("spec", _DEPLOYMENT)},
    "Job": {**_HEAD, 2: Field("spec", _JOB)},
    "PodDisruptionBudget": {**_HEAD, 2: Field("spec", _BUDGET)},
    "ResourceQuota": {**_HEAD, 2: Field("spec", {1: Field("hard", "quantities")})},
    "Secret": {**_HEAD, 2: Field("data", "bytes map"), 3: Field("type"), 4: Field("stringData", "map")},
    "Service": {**_HEAD, 2: Field("spec", _SERVICE)},
}
# Numbers that Go writes even if they were never set; in JSON they are absent.
_NEVER_ZERO: Final = frozenset({"generation", "nodePort"})
_MAPS: Final = ("map", "bytes map", "quantities")
_ENVELOPE: Final = {1: Field("type", _texts(apiVersion=1, kind=2)), 2: Field("raw", "bytes")}


def decoded(body: bytes) -> Object | None:
    """The object in a body, None for a kind that is not known here. Raises ValueError for what is no such body."""
    if not body.startswith(_MAGIC):
        raise ValueError("the body does not begin as Kubernetes' protobuf does")
    envelope = _message(body[len(_MAGIC) :], _ENVELOPE)
    head = envelope.get("type", {})
    table = _KINDS.get(head.get("kind", ""))
    return None if table is None else {**head, **_message(envelope.get("raw", b""), table)}


def _message(data: bytes, table: dict[int, Field]) -> Object:
    found: Object = {}
    for number, value in _fields(data):
        field = table.get(number)
        if field is None:
            continue
        read = _value(field, value)
        if field.many:
            found.setdefault(field.name, []).append(read)
        elif isinstance(read, dict) and field.kind in _MAPS:
            found.setdefault(field.name, {}).update(read)
        elif read != "" and (read != 0 or field.name not in _NEVER_ZERO):
            # Go writes texts that are empty; in JSON they are absent.
            found[field.name] = read
    return found


def _value(field: Field, value: Any) -> Any:
    kind = field.kind
    if isinstance(kind, dict):
        return _message(value, kind)
    if kind in _MAPS:
        entry = dict(_fields(value))
        return {entry.get(1, b"").decode(): _CONTENTS[kind](entry.get(2, b""))}
    return _PLAIN[kind](value)


def _time(value: bytes) -> str | None:
    seconds = dict(_fields(value)).get(1, 0)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if 0 < seconds < 2**40 else None


def _number_or_text(value: bytes) -> int | str:
    found = dict(_fields(value))
    return found.get(3, b"").decode() if found.get(1) else int(found.get(2, 0))


_CONTENTS: Final[dict[str, Callable[[bytes], str]]] = {
    "map": bytes.decode,
    "bytes map": lambda content: base64.b64encode(content).decode(),
    "quantities": lambda content: dict(_fields(content)).get(1, b"").decode(),
}
_PLAIN: Final[dict[str, Callable[[Any], Any]]] = {
    "text": lambda value: value.decode(),
    "bytes": lambda value: value,
    "flag": bool,
    "number": lambda value: value - 2**64 if value >= 2**63 else value,
    "time": _time,
    "number or text": _number_or_text,
}


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of every field of a message."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _varint(data, at)
            yield number, value
        elif wire == _BYTES:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("a field ends after its message")
            yield number, data[at : at + size]
            at += size
        elif wire in (_FIXED64, _FIXED32):
            at += 8 if wire == _FIXED64 else 4
        else:
            raise ValueError(f"a field of wire type {wire}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("a number that does not end")
