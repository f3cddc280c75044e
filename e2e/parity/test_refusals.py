"""Refusals before anything is done: paths, methods, media types, bodies, sizes, versions; and history that is gone."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from clusters import kubeconfig_file
from clusters.controlplane.binaries import Binaries
from e2e.parity.parity_strangers import authority
from e2e.parity.sides import Answer, Both, Side

_LIMIT: Final = 3 * 1024 * 1024
_JSON: Final = "application/json"
_MERGE: Final = "application/merge-patch+json"
_FAR: Final = "999999999"


def maps(side: Side, name: str = "") -> str:
    """The ConfigMaps of the case, or one of them."""
    return f"/api/v1/namespaces/{side.namespace}/configmaps" + (f"/{name}" if name else "")


def config_map(name: str, **more: Any) -> dict[str, Any]:
    """A ConfigMap."""
    return {"metadata": {"name": name}, **more}


def refusal(answer: Answer) -> list[Any]:
    """Code, type and the whole body."""
    return [answer.code, answer.headers.get("content-type"), answer.headers.get("retry-after"), answer.body]


def cause(answer: Answer) -> list[Any]:
    """Code and reason, if the text is a parser's own."""
    return [answer.code, answer.body["reason"], answer.body["message"].partition(" parse error")[0]]


@pytest.mark.promise("G1-08")
async def test_paths_and_methods_that_are_not_there(both: Both) -> None:
    """D3: a Status below a group that is known, plain text elsewhere; 405 for a method that is not."""

    async def observe(side: Side) -> Any:
        place = f"/api/v1/namespaces/{side.namespace}"
        found = []
        for method, path in (
            ("GET", "/nothing"),
            ("GET", "/api/v2"),
            ("GET", "/apis/apps/v9"),
            ("GET", "/apis/example.com/v1/things"),
            ("GET", "/apis/example.com"),
            ("GET", "/apis/apps/v1/things"),
            ("GET", "/api/v1/things"),
            ("POST", "/api/v1/things"),
            ("GET", f"{place}/things/x"),
            ("GET", f"{place}/pods/x/things"),
            ("GET", f"{place}/pods/x"),
            ("GET", "/healthz/things"),
            ("POST", "/api/v1/pods"),
            ("DELETE", "/api/v1/pods"),
            ("PUT", f"{place}/pods"),
            ("PATCH", f"{place}/pods"),
            ("POST", f"{place}/pods/x"),
            ("GET", f"{place}/pods/x/binding"),
            ("POST", f"{place}/pods/x/status"),
            ("DELETE", f"{place}/pods/x/status"),
            ("POST", f"{place}/pods/x/log"),
            ("OPTIONS", f"{place}/pods"),
        ):
            body: Any = {} if method in ("POST", "PUT", "PATCH") else None
            found.append([method, path, *refusal(await side.call(method, path, body=body))])
        return found

    seen = await both.same(observe)
    assert {code for _, _, code, *_ in seen} == {404, 405}


async def test_a_body_has_three_mebibytes_at_most(both: Both) -> None:
    """D3: 413 above, in every writing method; a read's body does not matter."""

    async def observe(side: Side) -> Any:
        await side.call("POST", maps(side), body=config_map("c"))
        big = b'{"metadata":{"name":"b"},"data":{"x":"' + b"x" * _LIMIT + b'"}}'
        found = [
            refusal(await side.call(method, path, raw=big, content_type=content_type))
            for method, path, content_type in (
                ("POST", maps(side), _JSON),
                ("PUT", maps(side, "c"), _JSON),
                ("PATCH", maps(side, "c"), _MERGE),
                ("DELETE", maps(side, "c"), _JSON),
            )
        ]
        read = await side.call("GET", maps(side, "c"), raw=big)
        fits = b" " * (_LIMIT - 100) + b'{"metadata":{"name":"fits"}}'
        return [found, read.code, (await side.call("POST", maps(side), raw=fits)).code]

    found, read, fits = await both.same(observe)
    assert [each[0] for each in found] == [413] * 4
    assert (read, fits) == (200, 201)


@pytest.mark.parametrize(
    "body", [b"this is not JSON", b'{"metadata":', b"", b"[]", b'"x"', b"7", b"\xff\xfe", b"{}", b"null"]
)
async def test_a_body_that_is_no_object(both: Both, body: bytes) -> None:
    """D3: 400 for what is not JSON; what is JSON and empty lacks a name (422)."""

    async def observe(side: Side) -> Any:
        await side.call("POST", maps(side), body=config_map("c"))
        found = [cause(await side.call("POST", maps(side), raw=body, headers={"content-type": _JSON}))]
        if body not in (b"", b"null", b"{}", b"[]"):
            found.append(cause(await side.call("DELETE", maps(side, "c"), raw=body)))
        return found

    seen = await both.same(observe)
    assert {code for code, *_ in seen} == ({422} if body in (b"{}", b"null") else {400})


@pytest.mark.promise("G1-08")
async def test_media_types(both: Both) -> None:
    """D3: 415 for a body of a type that is not known, 406 for an answer that cannot be given; YAML is a body too."""

    async def observe(side: Side) -> Any:
        await side.call("POST", maps(side), body=config_map("c"))
        found = [
            refusal(await side.call(method, maps(side, name), raw=b"<x/>", content_type=content_type))
            for method, name, content_type in (
                ("POST", "", "application/xml"),
                ("POST", "", ";;;"),
                ("PUT", "c", "text/plain"),
                ("DELETE", "c", "application/xml"),
                ("PATCH", "c", _JSON),
                ("PATCH", "c", "text/plain"),
                ("PATCH", "missing", "text/plain"),
            )
        ]
        yaml = await side.call("POST", maps(side), raw=b"metadata:\n  name: written\n", content_type="application/yaml")
        untyped = await side.http.request("POST", maps(side), content=b'{"metadata":{"name":"untyped"}}')
        found += [
            refusal(await side.call("GET", maps(side, "c"), headers={"accept": accept}))
            for accept in ("application/xml", "text/html", "image/*", "application/json;as=Odd;v=v1;g=meta.k8s.io")
        ]
        return [found, yaml.code, untyped.status_code]

    found, yaml, untyped = await both.same(observe)
    assert [each[0] for each in found] == [415] * 7 + [406] * 4
    assert (yaml, untyped) == (201, 201)


@pytest.mark.promise("G1-08")
async def test_versions_that_cannot_be(both: Both) -> None:
    """D1: 504 for one that is not reached, with when to come again; 400 for one that is none."""

    async def observe(side: Side) -> Any:
        await side.call("POST", maps(side), body=config_map("c"))
        found = []
        for path, params in (
            (maps(side), {"resourceVersion": _FAR}),
            (maps(side, "c"), {"resourceVersion": _FAR}),
            (maps(side), {"resourceVersion": "abc"}),
            (maps(side), {"resourceVersion": "-1"}),
            (maps(side, "c"), {"resourceVersion": "abc"}),
            (maps(side), {"limit": "abc"}),
            (maps(side), {"resourceVersionMatch": "Exact"}),
            (maps(side), {"resourceVersionMatch": "Odd", "resourceVersion": "1"}),
            (maps(side), {"sendInitialEvents": "true"}),
            (maps(side), {"watch": "1", "sendInitialEvents": "true"}),
            (maps(side), {"watch": "1", "resourceVersion": "abc"}),
        ):
            answer = await side.call("GET", path, params=params)
            text = refusal(answer)
            assert isinstance(text[3], dict)
            text[3]["message"] = re.sub(r"current: \d+", "current: <version>", text[3]["message"])
            found.append(text)
        return found

    seen = await both.same(observe)
    assert [each[0] for each in seen] == [504, 504, 400, 400, 500, 400, 422, 422, 422, 422, 500]


async def test_a_watch_of_what_is_to_come_waits(both: Both) -> None:
    """D1: a version that is not reached is no error for a watch; nothing comes before it."""

    async def observe(side: Side) -> Any:
        params = {"resourceVersion": _FAR, "timeoutSeconds": "1"}
        async with side.watch(maps(side), params) as events:
            await side.call("POST", maps(side), body=config_map("c"))
            return [event async for event in events]

    assert await both.same(observe) == []


@pytest.mark.promise("G1-05")
async def test_history_that_is_compacted(both: Both) -> None:
    """D1: of events, which no server keeps in memory: a watch gets an ERROR event, exact lists and their pages get 410."""

    async def observe(side: Side) -> Any:
        place = f"/api/v1/namespaces/{side.namespace}/events"
        version = ""
        for number in range(3):
            about = {"kind": "Pod", "namespace": side.namespace, "name": "p"}
            event = {"metadata": {"name": f"e{number}"}, "involvedObject": about, "reason": "R", "type": "Normal"}
            created = await side.call("POST", place, body=event)
            version = version or created.body["metadata"]["resourceVersion"]
        page = await side.call("GET", place, params={"limit": "2"})
        await side.call("POST", maps(side), body=config_map("later"))
        await side.compact()
        found = [await gone(side, place, params) for params in old_lists(version, page)]
        return [await watched(side, place, "1"), await watched(side, place, version), found]

    first, later, lists = await both.same(observe)
    assert [event["type"] for event in (*first, *later)] == ["ERROR", "ERROR"]
    assert first[0]["object"]["code"] == 410
    assert [each[0] for each in lists] == [410, 410, 410]


@pytest.mark.promise("G1-05")
async def test_a_watch_from_version_1_after_a_restart(bare_sides: Both) -> None:
    """D1: a server that has come back remembers no change: 200 and one ERROR event with 410; initial events help."""

    async def observe(side: Side) -> Any:
        await side.call("POST", "/api/v1/namespaces", body={"metadata": {"name": "restarted"}})
        mine = replace(side, namespace="restarted")
        versions = []
        for number in range(3):
            created = await mine.call("POST", maps(mine), body=config_map(f"c{number}"))
            versions.append(created.body["metadata"]["resourceVersion"])
        page = await mine.call("GET", maps(mine), params={"limit": "2"})
        await mine.call("POST", maps(mine), body=config_map("later"))
        await side.compact()
        await side.cluster.restart_api_server()
        found = [await gone(mine, maps(mine), params) for params in old_lists(versions[0], page)]
        initial = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        begun = await watched(mine, maps(mine), versions[0], **initial)
        newest = (await mine.call("GET", maps(mine))).body["metadata"]["resourceVersion"]
        return [
            [await watched(mine, maps(mine), version) for version in ("1", versions[0], newest)],
            found,
            [event["type"] for event in begun][:5],
        ]

    watches, lists, begun = await bare_sides.same(observe)
    assert [[event["type"] for event in events] for events in watches] == [["ERROR"], ["ERROR"], []]
    assert [each[0] for each in lists] == [410, 410, 410]
    assert begun == ["ADDED"] * 4 + ["BOOKMARK"]


def old_lists(version: str, page: Answer) -> list[dict[str, str]]:
    """Lists that need history."""
    return [
        {"resourceVersion": version, "resourceVersionMatch": "Exact"},
        {"resourceVersion": version, "limit": "1"},
        {"limit": "2", "continue": page.body["metadata"]["continue"]},
    ]


async def gone(side: Side, path: str, params: dict[str, str]) -> list[Any]:
    """A list's refusal; a new token in it only as being there."""
    found = refusal(await side.call("GET", path, params=params))
    found[3]["metadata"] = sorted(found[3]["metadata"])
    return found


async def watched(side: Side, path: str, version: str, **params: str) -> list[Any]:
    """The events of a watch of a second; versions in its errors without their number."""
    async with side.watch(path, {"resourceVersion": version, "timeoutSeconds": "1", **params}) as events:
        seen = [event async for event in events]
    for event in seen:
        if event["type"] == "ERROR":
            event["object"]["message"] = re.sub(r"\d+", "<version>", event["object"]["message"])
    return seen


@asynccontextmanager
async def credentials(side: Side, folder: Path) -> AsyncIterator[dict[str, Path]]:
    """Kubeconfigs of the side: an administrator's, and two that are not good."""
    mine = folder / side.name
    mine.mkdir()
    ca = mine / "ca.pem"
    ca.write_text(authority(side.kubeconfig))
    expired = side.cluster.client_certificate("late", "system:masters", datetime(2020, 1, 1, tzinfo=UTC))
    yield {
        "good": side.kubeconfig,
        "token": kubeconfig_file.write(mine / "token", side.url, ca=ca, token="nonsense"),
        "expired": kubeconfig_file.write(mine / "expired", side.url, ca=ca, client=expired),
        "nobody": kubeconfig_file.write(mine / "nobody", side.url, ca=ca),
    }


async def test_kubectl_gets_the_same_answers(both: Both, binaries: Binaries, tmp_path: Path) -> None:
    """D3: wrong credentials, kinds that are not there, bodies that are none: an unmodified kubectl ends alike on both."""

    async def observe(side: Side) -> Any:
        async with credentials(side, tmp_path) as configs:
            found = []
            for who, words in (
                ("token", ["get", "pods"]),
                ("expired", ["get", "pods"]),
                ("nobody", ["get", "--raw", "/api/v1/pods"]),
                ("good", ["get", "things"]),
                ("good", ["get", "--raw", "/apis/apps/v1/things"]),
                ("good", ["get", "pod", "missing", "-n", side.namespace]),
                ("good", ["get", "pods", "--as", "ann", "-n", side.namespace]),
                ("good", ["auth", "can-i", "list", "pods", "--as", "ann", "-n", side.namespace]),
                ("good", ["auth", "can-i", "list", "pods", "-n", side.namespace]),
                ("good", ["create", "token", "missing", "-n", side.namespace]),
                ("good", ["get", "--raw", f"/api/v1/namespaces/{side.namespace}/pods?resourceVersion=abc"]),
            ):
                found.append([words, *await kubectl(binaries["kubectl"], configs[who], words, tmp_path / side.name)])
            return found

    seen = await both.same(observe)
    assert [code for _, code, *_ in seen] == [1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1]


async def kubectl(program: Path, config: Path, words: list[str], home: Path) -> list[Any]:
    """Exit code, output and errors of kubectl; without what is of one run (times of its log, the server's address)."""
    process = await asyncio.create_subprocess_exec(
        program,
        *words,
        env={"KUBECONFIG": str(config), "HOME": str(home), "PATH": "/usr/bin:/bin"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = (each.decode() for each in await process.communicate())
    lines = [re.sub(r"^E\d{4} [\d:.]+ +\d+ ", "", line) for line in errors.splitlines()]
    lines = [re.sub(r"https://127\.0\.0\.1:\d+", "<server>", line) for line in lines]
    return [process.returncode, output, lines]


async def test_only_protobuf(both: Both) -> None:
    """D1: a client that takes nothing but protobuf or YAML."""

    async def observe(side: Side) -> Any:
        await side.call("POST", maps(side), body=config_map("c"))
        types = ("application/vnd.kubernetes.protobuf", "application/yaml")
        return [(await side.call("GET", maps(side, "c"), headers={"accept": each})).code for each in types]

    ours, theirs = await both.differs("answers-are-json", observe)
    assert (ours, theirs) == ([406, 406], [200, 200])
