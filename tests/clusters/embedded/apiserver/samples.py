"""Objects as users write them, and a server without the network."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from clusters.api.resources import ALL, NAMESPACES, SERVICE_ACCOUNTS
from clusters.embedded.apiserver.refusals import RefusalError
from clusters.embedded.apiserver.store import Store
from clusters.embedded.apiserver.writes import Surroundings, Writes

Object = dict[str, Any]
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def pod(name: str = "p", *, metadata: Object | None = None, limits: Object | None = None, **spec: Any) -> Object:
    """A pod of one container."""
    container: Object = {"name": "main", "image": "busybox:1"}
    if limits is not None:
        container["resources"] = {"limits": limits}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"containers": [container], **spec},
    }


def node(name: str = "n", **status: Any) -> Object:
    """A node."""
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def config_map(name: str = "c", **data: str) -> Object:
    """A ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def deployment(name: str = "d", replicas: int = 1) -> Object:
    """A Deployment of pods with one container."""
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def new_writes(history: int = 1000) -> Writes:
    """The writing verbs over a store with the namespaces default and kube-system, each with its ServiceAccount."""
    numbers = count(1)
    surroundings = Surroundings(lambda: NOW, lambda: f"uid-{next(numbers)}", random.Random(1))
    writes = Writes(Store(ALL, history=history), surroundings)
    for name in ("default", "kube-system"):
        writes.create(NAMESPACES, "", {"metadata": {"name": name}})
        writes.create(SERVICE_ACCOUNTS, name, {"metadata": {"name": "default"}})
    return writes


def refused(code: int, call: Callable[[], Any]) -> RefusalError:
    """The refusal of a call, which must have this code."""
    with pytest.raises(RefusalError) as caught:
        call()
    assert caught.value.code == code, caught.value.message
    return caught.value
