"""The shared means of the API server's cases: objects to write, paths, and the events of a watch."""

from __future__ import annotations

from typing import Any, Final

from e2e.parity.sides import Answer, Side

JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
MEMORY: Final = "aliyun.com/gpu-mem"
Object = dict[str, Any]


def place(side: Side, plural: str, name: str = "", subresource: str = "", *, root: str = "/api/v1") -> str:
    """The path of a collection in the case's namespace, of an object in it, or of a subresource."""
    return "/".join(part for part in (f"{root}/namespaces/{side.namespace}/{plural}", name, subresource) if part)


def pods(side: Side, name: str = "", subresource: str = "") -> str:
    return place(side, "pods", name, subresource)


def maps(side: Side, name: str = "") -> str:
    return place(side, "configmaps", name)


def node_of(side: Side, name: str = "") -> str:
    """A node's name that no other case has: nodes have no namespace."""
    return "-".join(part for part in (side.namespace, name) if part)


def pod(name: str = "", spec: Object | None = None, **metadata: Any) -> Object:
    """A pod of one container; ``spec`` is laid over its spec."""
    named = {"name": name} if name else {}
    containers = [{"name": "main", "image": "busybox:1.36"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**named, **metadata},
        "spec": {"containers": containers, **(spec or {})},
    }


def container(name: str = "main", image: str = "busybox:1.36", **fields: Any) -> Object:
    return {"name": name, "image": image, **fields}


def config_map(name: str = "", data: dict[str, str] | None = None, **metadata: Any) -> Object:
    named = {"name": name} if name else {}
    filled = {"data": data} if data is not None else {}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**named, **metadata}, **filled}


def binding(name: str, node: str = "n1", **metadata: Any) -> Object:
    """A Binding of a pod to a node."""
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **metadata}, "target": target}


def short(answer: Answer) -> list[Any]:
    """Code and body: what most cases compare."""
    return [answer.code, answer.body]


async def made(side: Side, path: str, body: Object) -> Object:
    """Create an object that the case takes for granted; what the server made of it."""
    answer = await side.call("POST", path, body=body)
    assert answer.code == 201, f"{side.name}: {answer.body}"
    found: Object = answer.body
    return found


async def got(side: Side, path: str) -> Object:
    answer = await side.call("GET", path)
    assert answer.code == 200, f"{side.name}: {answer.body}"
    found: Object = answer.body
    return found


async def patched(side: Side, path: str, patch: Any, content_type: str = MERGE) -> Answer:
    return await side.call("PATCH", path, body=patch, content_type=content_type)


def brief(event: Any) -> list[Any]:
    """A watch's event in three words: what happened, to which object, and its labels."""
    metadata = event["object"]["metadata"]
    return [event["type"], metadata.get("name"), metadata.get("labels", {})]
