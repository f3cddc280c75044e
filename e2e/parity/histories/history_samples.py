"""The kinds of histories: objects that nothing else changes without controllers, and bodies for them. Pure data."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Final

Object = dict[str, Any]

_CONTAINER: Final[Object] = {"name": "main", "image": "example.com/pause:1"}
_POD_SPEC: Final[Object] = {"automountServiceAccountToken": False, "containers": [_CONTAINER]}
_LEASE: Final[Object] = {
    "spec": {
        "holderIdentity": "first",
        "leaseDurationSeconds": 15,
        "acquireTime": "2001-02-03T04:05:06.000007Z",
        "renewTime": "2001-02-03T04:05:06.700000Z",
        "leaseTransitions": 0,
    }
}
_EVENT: Final[Object] = {
    "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "${ns}", "name": "a", "uid": "x"},
    "reason": "Tested",
    "message": "a test did it",
    "type": "Normal",
    "count": 1,
    "source": {"component": "test"},
    "firstTimestamp": "2001-02-03T04:05:06Z",
    "lastTimestamp": "2001-02-03T04:05:07Z",
}
_EVENT_V1: Final[Object] = {
    "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "${ns}", "name": "a", "uid": "x"},
    "eventTime": "2001-02-03T04:05:06.000007Z",
    "reportingController": "example.com/test",
    "reportingInstance": "test-1",
    "action": "Testing",
    "reason": "Tested",
    "note": "a test did it",
    "type": "Normal",
}
# Admission puts it onto every new node, and only controllers take it off again.
NOT_READY: Final[Object] = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_NODE: Final[Object] = {
    "spec": {"taints": [NOT_READY]},
    "status": {"capacity": {"cpu": "4", "memory": "8Gi", "example.com/thing": "2"}},
}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: its key here, its path, and the smallest object that is accepted."""

    key: str
    api_version: str
    kind: str
    plural: str
    body: Object
    namespaced: bool = True
    has_status: bool = False

    def path(self, namespace: str) -> str:
        """The collection."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" if self.namespaced else f"{root}/{self.plural}"

    def everywhere(self) -> str:
        """The collection over all namespaces."""
        return self.path("").replace("/namespaces/", "")

    def name(self, namespace: str, word: str) -> str:
        """The name that a word stands for: objects of the whole cluster carry the namespace in it."""
        return word if self.namespaced else f"{namespace}-{word}"

    def sample(self, namespace: str, word: str) -> Object:
        """The smallest object."""
        body: Object = copy.deepcopy(self.body)
        for about in (body.get("involvedObject"), body.get("regarding")):
            if about is not None:
                about["namespace"] = namespace
        labels = {} if self.namespaced else {"labels": {"history": namespace}}
        metadata = {"name": self.name(namespace, word), **labels}
        return {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata, **body}


PODS: Final = Kind("pods", "v1", "Pod", "pods", {"spec": _POD_SPEC}, has_status=True)
NODES: Final = Kind("nodes", "v1", "Node", "nodes", _NODE, namespaced=False, has_status=True)
CONFIG_MAPS: Final = Kind("configmaps", "v1", "ConfigMap", "configmaps", {"data": {"key": "value"}})
LEASES: Final = Kind("leases", "coordination.k8s.io/v1", "Lease", "leases", _LEASE)
EVENTS: Final = Kind("events", "v1", "Event", "events", _EVENT)
EVENTS_V1: Final = Kind("events.v1", "events.k8s.io/v1", "Event", "events", _EVENT_V1)

KINDS: Final = (PODS, NODES, CONFIG_MAPS, LEASES, EVENTS, EVENTS_V1)
# How often each kind is picked: pods and nodes are what extenders and device plugins live on.
WEIGHTS: Final = (10, 5, 4, 2, 1, 2)

# Label selectors, and labels that satisfy them.
LABEL_SELECTORS: Final[tuple[tuple[str, dict[str, str]], ...]] = (
    ("app=one", {"app": "one"}),
    ("app==two", {"app": "two"}),
    ("app!=one", {}),
    ("app in (one,two)", {"app": "two"}),
    ("app notin (one, three)", {"app": "two"}),
    ("app", {"app": "one"}),
    ("!app", {}),
    ("app=one,tier!=back", {"app": "one"}),
    ("app=", {"app": ""}),
    ("number>3", {"number": "5"}),
)
# Selectors that make no sense.
WRONG_LABEL_SELECTORS: Final = ("app=one=two", "app in one", "=x", "app in (one", "Ä=x", "app=!x", "a,,b")
WRONG_FIELD_SELECTORS: Final = ("spec.unknown=x", "metadata.name", "metadata.labels.app=one")


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """A field selector, and what an object must be for it: a name, more of its body, a status."""

    text: str
    word: str = ""
    body: Object | None = None
    status: Object | None = None


_ANY_KIND: Final = (
    FieldSelector("metadata.name={a}", word="a"),
    FieldSelector("metadata.name=={b}", word="b"),
    FieldSelector("metadata.name!={a}"),
)
FIELD_SELECTORS: Final[dict[str, tuple[FieldSelector, ...]]] = {
    kind.key: _ANY_KIND + ((FieldSelector("metadata.namespace=${ns}"),) if kind.namespaced else ()) for kind in KINDS
}
FIELD_SELECTORS["pods"] += (
    FieldSelector("spec.nodeName="),
    FieldSelector("spec.nodeName!=", body={"spec": {"nodeName": "${ns}-b"}}),
    FieldSelector("spec.nodeName=${ns}-a", body={"spec": {"nodeName": "${ns}-a"}}),
    FieldSelector("spec.nodeName!=${ns}-a"),
    FieldSelector("status.phase=Running", status={"phase": "Running"}),
    FieldSelector("status.phase!=Running,status.phase!=Failed"),
    FieldSelector("spec.schedulerName=default-scheduler"),
    FieldSelector("spec.restartPolicy=Never", body={"spec": {"restartPolicy": "Never"}}),
    FieldSelector("spec.hostNetwork=false"),
    FieldSelector("spec.serviceAccountName=default"),
    FieldSelector("status.nominatedNodeName="),
)
FIELD_SELECTORS["nodes"] += (
    FieldSelector("spec.unschedulable=false"),
    FieldSelector("spec.unschedulable=true", body={"spec": {"unschedulable": True}}),
    FieldSelector("spec.unschedulable!=true"),
)
FIELD_SELECTORS["events"] += (
    FieldSelector("involvedObject.name=a"),
    FieldSelector("reason=Tested"),
    FieldSelector("type=Normal,involvedObject.kind=Pod"),
    FieldSelector("source=test"),
    FieldSelector("involvedObject.uid!=y"),
)
FIELD_SELECTORS["events.v1"] += (
    FieldSelector("regarding.name=a"),
    FieldSelector("reason=Tested"),
    FieldSelector("type=Normal"),
    FieldSelector("reportingController=example.com/test"),
)
