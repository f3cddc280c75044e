"""Cases of the API server as data: the requests that both sides get, and the code that answers each.

Paths begin with the plural of a kind (``pods/p/binding``) or with a slash. Two servers number their writes differently, so
requests refer to earlier answers: ``${version:0}`` is the version that the first request answered, ``${uid:0}`` and
``${continue:0}`` are its uid and its token, and ``${ns}`` is the namespace of the case. An object with the one key ``${object:0}``
is the object that the first request answered, with a merge patch (its value) applied, as a client does that writes back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from clusters.api.resources import ALL
from e2e.parity.sides import Answer, Both, Side

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
    whole = {"containers": [container()], **(spec or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**named, **metadata}, "spec": whole}


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
    return await _body_of(side, "POST", path, 201, body)


async def got(side: Side, path: str) -> Object:
    return await _body_of(side, "GET", path, 200)


async def _body_of(side: Side, method: str, path: str, code: int, body: Object | None = None) -> Object:
    answer = await side.call(method, path, body=body)
    assert answer.code == code, f"{side.name}: {answer.body}"
    found: Object = answer.body
    return found


async def patched(side: Side, path: str, patch: Any, content_type: str = MERGE) -> Answer:
    return await side.call("PATCH", path, body=patch, content_type=content_type)


def brief(event: Any) -> list[Any]:
    """A watch's event in three words: what happened, to which object, and its labels."""
    metadata = event["object"]["metadata"]
    return [event["type"], metadata.get("name"), metadata.get("labels", {})]


_FILE: Final = Path(__file__).with_name("api_cases.yaml")
_KINDS: Final = {resource.plural: resource for resource in ALL}
_PATCHES: Final = {"MERGE": MERGE, "STRATEGIC": STRATEGIC, "JSON": JSON_PATCH}
_SHORT: Final[Mapping[str, Callable[..., Object]]] = {
    "+pod": pod,
    "+map": config_map,
    "+binding": binding,
    "+container": container,
}


WATCH: Final = "WATCH"
_REFERENCE: Final = re.compile(r"\$\{(ns|version|uid|continue)(?::(\d+))?\}")
_OBJECT: Final = re.compile(r"\$\{object:(\d+)\}")


@dataclass(frozen=True, slots=True)
class Ask:
    """One request; ``code`` None: whatever the real server answers. ``shows``: values of its answer, by their paths (``a.0.b``)."""

    method: str
    path: str
    code: int | None
    body: Any
    content_type: str
    params: Mapping[str, str]
    shows: Mapping[str, Any]


# The body that answered a request by its number.
Answers = Callable[[int], Any]
Around = Callable[[Side], AbstractAsyncContextManager[object]]


def ask(
    word: str,
    path: str,
    body: Any = None,
    code: int | None = 0,
    *,
    shows: Mapping[str, Any] | None = None,
    **params: str,
) -> Ask:
    """A request by its method, or by the kind of its patch (``MERGE``, ``STRATEGIC``, ``JSON``); ``code`` 0: the usual one."""
    method, content_type = ("PATCH", _PATCHES[word]) if word in _PATCHES else (word, JSON)
    usual = 201 if word == "POST" else 200
    return Ask(method, _whole(path), usual if code == 0 else code, body, content_type, params, shows or {})


def each(group: str) -> pytest.MarkDecorator:
    """The parameter ``asks`` of a test: a case of that group of ``api_cases.yaml`` after the other."""
    cases = yaml.safe_load(_FILE.read_text())[group]
    return pytest.mark.parametrize("asks", [list(map(_read, rows)) for rows in cases.values()], ids=cases)


def _read(row: Mapping[str, Any]) -> Ask:
    (word, path), *_ = row.items()
    query, shows = row.get("query", {}), _built(row.get("shows", {}))
    if word == "EVENTS":
        # Those of a collection after the version that an earlier request answered, as a list.
        since: dict[str, Any] = {"resourceVersion": f"${{version:{row['since']}}}", "timeoutSeconds": "1"}
        return ask(WATCH, path, shows=shows, **since, **query)
    code = row.get("code", 0)
    return ask(word, path, _built(row.get("body")), None if code == "any" else code, shows=shows, **query)


def _built(value: Any) -> Any:
    """A value of a row with its short forms written out."""
    if isinstance(value, list):
        return [_built(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {key: _built(one) for key, one in value.items()}
    if "+times" in found:
        return "x" * found["+times"]
    for key in found.keys() & _SHORT.keys():
        return _SHORT[key](found.pop(key), **found)
    return found


async def compare(both: Both, *asks: Ask, around: Around | None = None, before: int = 0) -> list[Any]:
    """Send the requests to both sides; the answers, normalised. Raises AssertionError if they differ or are not as expected.

    ``around`` is open on each side during the requests; the first ``before`` requests are sent before it opens.
    """
    seen: list[Any] = await both.same(lambda side: _answers(side, asks, around, before))
    for number, (wanted, (code, body, *_)) in enumerate(zip(asks, seen, strict=True)):
        assert wanted.code in (None, code), f"request {number}: {code} {body}"
        for path, value in wanted.shows.items():
            assert _at(body, path) == value, f"request {number}: {path} of {body}"
    return [body for _, body, *_ in seen]


async def _answers(side: Side, asks: tuple[Ask, ...], around: Around | None, before: int) -> list[Any]:
    """Code, body, and the headers that clients read."""
    found: list[list[Any]] = []

    async with AsyncExitStack() as stack:
        for number, one in enumerate(asks):
            if around is not None and number == before:
                await stack.enter_async_context(around(side))
            found.append(await _answer(side, _resolve(one, side.namespace, lambda number: found[number][1])))
    versions: list[str] = []
    uids: list[str] = []
    return [[code, _numbered(body, versions, uids), *told] for code, body, *told in found]


async def _answer(side: Side, sent: Ask) -> list[Any]:
    if sent.method == WATCH:
        async with side.watch(sent.path, **sent.params) as watch:
            return [200, [event async for event in watch]]
    got = await side.call(
        sent.method,
        sent.path,
        body=sent.body,
        params=sent.params,
        content_type=sent.content_type,
    )
    return [got.code, got.body, *(got.headers.get(name) for name in ("content-type", "retry-after"))]


def _resolve(one: Ask, namespace: str, answers: Answers) -> Ask:
    path, params, body = _resolved([one.path, one.params, one.body], namespace, answers)
    return replace(one, path=path, params=params, body=body)


def _resolved(value: Any, namespace: str, answers: Answers) -> Any:
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: _reference(match, namespace, answers), value)
    if isinstance(value, list):
        return [_resolved(each, namespace, answers) for each in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and (match := _OBJECT.fullmatch(next(iter(value)))):
        return _merged(answers(int(match[1])), _resolved(next(iter(value.values())), namespace, answers))
    return {key: _resolved(each, namespace, answers) for key, each in value.items()}


def _reference(match: re.Match[str], namespace: str, answers: Answers) -> str:
    if match[1] == "ns":
        return namespace
    return str(answers(int(match[2]))["metadata"]["resourceVersion" if match[1] == "version" else match[1]])


def _merged(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    new: Object = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        else:
            new[key] = _merged(new.get(key), value)
    return new


def _numbered(body: Any, versions: list[str], uids: list[str]) -> Any:
    """An object with the numbers of its write and of itself, among all that the case shows, in the place of version and uid."""
    if isinstance(body, list):  # the events of a watch
        return [{**event, "object": _numbered(event["object"], versions, uids)} for event in body]
    metadata = body.get("metadata") if isinstance(body, dict) else None
    if not isinstance(metadata, dict) or not {"uid", "resourceVersion"} <= metadata.keys():
        return body
    numbers = {"resourceVersion": f"write {_place(metadata['resourceVersion'], versions)}"}
    numbers["uid"] = f"object {_place(metadata['uid'], uids)}"
    return {**body, "metadata": {**metadata, **numbers}}


def _place(word: str, known: list[str]) -> int:
    if word not in known:
        known.append(word)
    return known.index(word)


def _whole(path: str) -> str:
    if path.startswith("/"):
        return path
    resource = _KINDS[path.partition("/")[0]]
    return f"{resource.root}{'/namespaces/${ns}' if resource.namespaced else ''}/{path}"


def _at(value: Any, path: str) -> Any:
    for key in path.split("."):
        if isinstance(value, list):
            value = value[int(key)] if key != "names" else [one["metadata"]["name"] for one in value]
        else:
            value = (value or {}).get(key)
    return value
